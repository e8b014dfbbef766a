/* bench.h - a device of the tests with a backend on it, and jobs for it (sums.h). For cmocka's tests. */
#ifndef WEFT_TESTS_FAKE_BENCH_H
#define WEFT_TESTS_FAKE_BENCH_H

#include "tests/fake_gpu/sums.h"
#include "tests/fake_gpu/world.h"

#define BENCH_ELEMENTS 300u  /* of a job */
#define BENCH_JOBS     1025u /* at once, at most */

typedef struct bench_state {
    world_vendor *vendor;
    weft_gpu *gpu;
    uint32_t elements[BENCH_ELEMENTS + BENCH_JOBS]; /* job i has those from i on */
    uint64_t there;                                 /* they lie in the device's memory */
} bench_state;

extern bench_state bench;

/* Device 0, with options as they are usual, or with others. budget 0: none. */
void bench_open(int vendor, uint64_t seed, uint64_t budget);
void bench_open_with(int vendor, const weft_fake_options *options, uint64_t budget);
/* Nothing is left, and no copy was a slow one. */
void bench_close(void);

sums_job bench_job(uint32_t first);
void bench_check(const sums_job *job, uint32_t first);
/* Asks until the job's work is on the device. */
void bench_begin(void *job);
/* Asks until it is done. */
weft_status bench_poll(void *job);

#endif
