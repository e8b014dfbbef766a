/* ptx_machine.cpp - launches of PTX's kernels, and who touched which byte in them. */
#include "tests/isa/ptx_machine.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include "tests/isa/ptx_launch.h"

extern "C" bool weft_record_holds(uint64_t address, uint64_t bytes); /* record.h is C's */

namespace
{

const uint64_t PAGE = 4096;
const uint32_t WARP = 32, WARPS = 8, NEAR = 4096;
const uint16_t SEVERAL = 0xffff;
const uint32_t BLOCKS = SEVERAL - 1; /* of a launch, at most */

/* Who touched a byte in this launch, by kinds of access: 0 none, SEVERAL, or a block's number + 1. */
struct byte {
    uint16_t by[3];
};

struct page {
    uint64_t number;
    uint64_t launch; /* that `bytes` and `whole` are of */
    bool whole;      /* all of it is memory that the driver gave */
    byte bytes[PAGE];
};

struct machine {
    std::unordered_map<uint64_t, std::unique_ptr<page>> pages;
    page *near[NEAR]; /* by the low bits of their numbers */
    uint64_t launch;
    FILE *counts;
} machine;

page *page_at(uint64_t number)
{
    page *&near = machine.near[number % NEAR];
    if (!near || near->number != number) {
        std::unique_ptr<page> &at = machine.pages[number];
        if (!at) {
            at.reset(new page());
            at->number = number;
        }
        near = at.get();
    }
    if (near->launch != machine.launch) {
        memset(near->bytes, 0, sizeof near->bytes);
        near->launch = machine.launch;
        near->whole = weft_record_holds(number * PAGE, PAGE);
    }
    return near;
}

/* What is wrong with an access where another block made one of another kind, or NULL. */
const char *const RACES[3][3] = {
    {nullptr, "a read of what another block stores", "a read of what another block changes by an atomic"},
    {"a store to what another block reads", "a store where another block stores",
     "a store where another block has an atomic"},
    {"an atomic on what another block reads", "an atomic where another block stores", nullptr}};

} // namespace

void weft_ptx::fail(const char *kernel, const char *what, uint64_t value, int line)
{
    fprintf(stderr, "%s: %s: %s (%#llx), line %d of the kernel\n", image, kernel, what, (unsigned long long)value,
            line);
    abort();
}

void weft_ptx::touch(const char *kernel, uint32_t block, access kind, uint64_t address, uint32_t bytes, int line)
{
    page *in = page_at(address / PAGE); /* an aligned access lies in one */
    if (!in->whole && !weft_record_holds(address, bytes))
        fail(kernel, "an address of no memory of the device", address, line);
    const uint16_t me = static_cast<uint16_t>(block + 1);
    for (uint32_t i = 0; i < bytes; i++) {
        byte *at = &in->bytes[address % PAGE + i];
        for (int other = 0; other < 3; other++)
            if (at->by[other] != 0 && at->by[other] != me && RACES[kind][other])
                fail(kernel, RACES[kind][other], address + i, line);
        at->by[kind] = at->by[kind] == 0 || at->by[kind] == me ? me : SEVERAL;
    }
}

weft_ptx::kernel::kernel(const char *kernel_name, weft_emulated kernel_run, const uint32_t *kernel_sizes,
                         uint32_t count)
    : name(kernel_name), run(kernel_run), sizes(kernel_sizes), blocks(count)
{
}

void weft_ptx::kernel::end(const weft_engine::self &self, const uint32_t *ran)
{
    const size_t warp = static_cast<size_t>(self.block) * WARPS + self.thread / WARP;
    if (warps.size() < static_cast<size_t>(self.blocks) * WARPS)
        warps.resize(static_cast<size_t>(self.blocks) * WARPS);
    std::vector<uint32_t> &most = warps[warp];
    most.resize(blocks);
    for (uint32_t b = 0; b < blocks; b++)
        most[b] = std::max(most[b], ran[b]);
}

uint64_t weft_ptx::kernel::issued()
{
    uint64_t sum = 0;
    for (const std::vector<uint32_t> &most : warps)
        for (size_t b = 0; b < most.size(); b++)
            sum += static_cast<uint64_t>(most[b]) * sizes[b];
    warps.clear();
    return sum;
}

void weft_ptx_counts_to(const char *path)
{
    if (machine.counts && fclose(machine.counts) != 0)
        abort();
    machine.counts = path ? fopen(path, "w") : nullptr;
    if (path && !machine.counts) {
        perror(path);
        exit(2);
    }
}

void weft_ptx_take(const char *library)
{
    void *from = dlopen(library, RTLD_NOW);
    uint32_t found = 0;
    for (uint32_t k = 0; from && k < WEFT_GPU_KERNELS; k++) {
        const std::string symbol = std::string("weft_ptx_") + weft_ptx::kernels[k]->name;
        void *kernel = dlsym(from, symbol.c_str());
        if (!kernel || kernel == weft_ptx::kernels[k])
            continue;
        weft_ptx::kernels[k] = static_cast<weft_ptx::kernel *>(kernel);
        found++;
    }
    if (found > 0)
        return;
    fprintf(stderr, "%s: no kernel: %s\n", library, from ? "its symbols are not those of ptx_compile.py" : dlerror());
    exit(2);
}

const char *weft_emulation_launch(const weft_schedule *schedule, enum weft_gpu_kernel kernel, uint32_t blocks,
                                  uint64_t argument)
{
    weft_ptx::kernel *of = weft_ptx::kernels[kernel];
    weft_schedule mine = *schedule;
    mine.lanes = WARP;
    machine.launch++;
    if (blocks > BLOCKS)
        return "more blocks than a byte can tell apart";
    const char *wrong = weft_emulation_run(&mine, of->run, blocks, argument);
    const uint64_t issued = of->issued();
    uint64_t elements;
    const char *name = weft_record_case_now(&elements);
    if (machine.counts)
        fprintf(machine.counts, "%s %s %u %llu %llu\n", of->name, name, blocks, (unsigned long long)elements,
                (unsigned long long)issued);
    return wrong;
}
