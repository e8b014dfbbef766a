#include "tests/fake_gpu/far.h"

static void *far_take(int vendor, int device, uint64_t bytes)
{
    uint64_t address = world[vendor].fake->take(device, bytes);
    assert_true(address != 0);
    return (void *)(uintptr_t)address;
}

#define FAR(name, vendor, device)                                                                                      \
    static void *name##_take(uint64_t bytes)                                                                           \
    {                                                                                                                  \
        return far_take(vendor, device, bytes);                                                                        \
    }                                                                                                                  \
    static void name##_give(void *memory)                                                                              \
    {                                                                                                                  \
        world[vendor].fake->give((uintptr_t)memory);                                                                   \
    }                                                                                                                  \
    static void name##_write(void *to, const void *from, uint64_t bytes)                                               \
    {                                                                                                                  \
        world[vendor].fake->write((uintptr_t)to, from, bytes);                                                         \
    }                                                                                                                  \
    static void name##_read(void *to, const void *from, uint64_t bytes)                                                \
    {                                                                                                                  \
        world[vendor].fake->read(to, (uintptr_t)from, bytes);                                                          \
    }                                                                                                                  \
    const fleet_far name = {name##_take, name##_give, name##_write, name##_read};

FAR(far_cuda_0, WORLD_CUDA, 0)
FAR(far_cuda_1, WORLD_CUDA, 1)
FAR(far_hip_0, WORLD_HIP, 0)
FAR(far_hip_1, WORLD_HIP, 1)

fleet *far_fleet_open(fleet_size size, const char *const *overrides)
{
    for (int v = 0; v < WORLD_VENDORS; v++)
        world_load(&world[v]);
    return fleet_open(size, overrides);
}

void far_fleet_close(fleet *f)
{
    fleet_close(f);
    for (int v = 0; v < WORLD_VENDORS; v++)
        assert_int_equal(world[v].fake->live(), 0);
}
