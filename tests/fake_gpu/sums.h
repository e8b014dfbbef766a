/* sums.h - a kind of job for tests of the queue: sums of digest terms, in as many steps as a kind may take. */
#ifndef WEFT_TESTS_FAKE_SUMS_H
#define WEFT_TESTS_FAKE_SUMS_H

#include "backends/gpu/gpu.h"

typedef struct sums_job {
    weft_ticket ticket;
    uint64_t data; /* device address of elements of 4 bytes */
    uint32_t count;
    bool ordered, behind;
    void *stream;
    bool wrong;      /* the job is to fail by itself */
    uint64_t device; /* bytes it says to need, beyond what it does */
    uint64_t sum;    /* out: added to */
} sums_job;

/* The same under two names, and one whose jobs are done at once, with nothing summed. */
extern const weft_gpu_kind sums_kind, sums_other_kind, sums_idle_kind;
/* And one that says that it writes weights, and is urgent. */
extern const weft_gpu_kind sums_writing_kind;

/* Computes the sum of the same elements on the host. */
uint64_t sums_expected(const uint32_t *elements, uint32_t count);

#endif
