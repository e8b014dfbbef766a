/* device.cu - the recorded cases (tests/isa) on an NVIDIA device instead: every launch runs in the emulation and, on the
 * same memory, on the device, and both have to leave the same bytes. Built with the CUDA kernels or, with
 * WEFT_DEVICE_HIP, with those of HIP through the shim, 32 or 64 lanes wide.
 *
 * Exit: 0, 1 (a difference or an error of the device), 77 (no device). */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#ifdef WEFT_DEVICE_HIP
#define WEFT_HIP_HEADERS
#include "kernels_hip/weft.hip"
#else
#include "kernels_cuda/weft.cu"
#endif

#include "tests/emulation/emulation.h"

extern "C" {
#include "tests/isa/cases.h"
}

namespace
{

struct region {
    uint8_t *memory;
    uint64_t bytes;
    std::vector<uint8_t> before;
};

std::vector<region> regions;
uint64_t launches, differences;
char case_name[64] = "none";

typedef void (*weft_launcher)(uint32_t blocks, uint64_t argument);

const weft_launcher launchers[] = {
#define LAUNCHER(name)                                                                                                 \
    [](uint32_t blocks, uint64_t argument) { weft_kernel_##name<<<blocks, WEFT_BLOCK>>>((const weft_k_##name *)argument); },
    WEFT_KERNELS(LAUNCHER)
#undef LAUNCHER
};

const char *const names[] = {
#define NAME(name) #name,
    WEFT_KERNELS(NAME)
#undef NAME
};

void must(cudaError_t done, const char *what)
{
    if (done == cudaSuccess)
        return;
    fprintf(stderr, "%s, %s: %s\n", case_name, what, cudaGetErrorString(done));
    exit(1);
}

void compare(const char *kernel, const region &of, const std::vector<uint8_t> &wanted)
{
    for (uint64_t i = 0; i < of.bytes; i++) {
        if (of.memory[i] == wanted[i])
            continue;
        printf("%s: %s: byte %llu of %llu is %02x, should be %02x\n", case_name, kernel, (unsigned long long)i,
               (unsigned long long)of.bytes, of.memory[i], wanted[i]);
        differences++;
        return;
    }
}

} // namespace

extern "C" void weft_record_case(const char *name, uint64_t elements)
{
    (void)elements;
    snprintf(case_name, sizeof case_name, "%s", name);
}

extern "C" void *weft_record_take(uint64_t bytes)
{
    void *memory = nullptr; /* the same address for host and device */
    must(cudaMallocManaged(&memory, bytes ? bytes : 1), "cudaMallocManaged");
    memset(memory, 0, bytes);
    regions.push_back({static_cast<uint8_t *>(memory), bytes, {}});
    return memory;
}

extern "C" void weft_record_give(void *memory)
{
    for (size_t i = 0; i < regions.size(); i++) {
        if (regions[i].memory == memory)
            regions.erase(regions.begin() + static_cast<long>(i));
    }
    cudaFree(memory);
}

extern "C" bool weft_record_holds(uint64_t address, uint64_t bytes)
{
    for (const region &of : regions) {
        const uint64_t first = reinterpret_cast<uintptr_t>(of.memory);
        if (address >= first && address + bytes <= first + of.bytes)
            return true;
    }
    return false;
}

extern "C" const char *weft_record_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    const weft_schedule schedule = {WEFT_LANES, ++launches, 0};
    for (region &of : regions)
        of.before.assign(of.memory, of.memory + of.bytes);
    const char *wrong = weft_emulation_launch(&schedule, kernel, blocks, argument);
    if (wrong)
        return wrong;
    std::vector<std::vector<uint8_t>> wanted;
    for (region &of : regions) {
        wanted.emplace_back(of.memory, of.memory + of.bytes);
        memcpy(of.memory, of.before.data(), of.bytes);
    }
    if (blocks > 0)
        launchers[kernel](blocks, argument);
    must(cudaGetLastError(), names[kernel]);
    must(cudaDeviceSynchronize(), names[kernel]);
    for (size_t i = 0; i < regions.size(); i++)
        compare(names[kernel], regions[i], wanted[i]);
    return nullptr;
}

int main(int argc, char **argv)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        printf("skipped: no NVIDIA device\n");
        return 77;
    }
    weft_cases(argc > 1 && strcmp(argv[1], "full") == 0);
    printf("%llu launches of %d lanes, %llu differences\n", (unsigned long long)launches, WEFT_LANES,
           (unsigned long long)differences);
    return differences != 0;
}
