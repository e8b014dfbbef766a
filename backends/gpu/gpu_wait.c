/* gpu_wait.c - waiting for a device, at a twentieth of a core. */
#include "backends/gpu/gpu_wait.h"

#include <time.h>

static _Thread_local weft_gpu_credit thread_credit;

uint64_t weft_gpu_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The time of a sleep earns nothing, because the sleep pays for the question before it, and for itself. */
uint64_t weft_gpu_credit_use(weft_gpu_credit *credit, uint64_t asked_ns, uint64_t now_ns)
{
    const uint64_t passed = now_ns > credit->at_ns ? now_ns - credit->at_ns : 0, cost = now_ns - asked_ns;
    uint64_t all = credit->ns + passed / WEFT_GPU_WAIT_SHARE;
    all = all < WEFT_GPU_WAIT_CREDIT ? all : WEFT_GPU_WAIT_CREDIT;
    credit->at_ns = now_ns;
    credit->ns = all > cost ? all - cost : 0;
    if (credit->ns > 0)
        return 0;
    uint64_t sleep = WEFT_GPU_WAIT_SHARE * (cost - all + WEFT_GPU_WAIT_SLEEP);
    sleep = sleep < WEFT_GPU_WAIT_LONGEST ? sleep : WEFT_GPU_WAIT_LONGEST;
    credit->at_ns += sleep;
    return sleep;
}

void weft_gpu_wait_after(uint64_t asked_ns)
{
    const uint64_t sleep = weft_gpu_credit_use(&thread_credit, asked_ns, weft_gpu_now_ns());
    if (sleep > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)sleep}, NULL);
}
