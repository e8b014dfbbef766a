/* deferred.h - a backend for tests that does what a device may do: it takes jobs and does them only when one is asked
 * for, many together and the last first, and its memory lies behind addresses that nobody else can touch.
 *
 * What it does it has from the host backend. It is lent under the name "cuda". A use that the port does not allow ends
 * the process with a line that says which: a job that is asked for out of turn, more jobs than the depth, two kinds at
 * once, a view that lies neither in its memory nor in that of kind HOST. */
#ifndef WEFT_TESTS_DEFERRED_H
#define WEFT_TESTS_DEFERRED_H

#include "port/port_backend.h"

/* Lends it with this depth; from then on weft_backend_find("cuda") is it. */
void deferred_lend(uint32_t depth);
/* Takes it back; a test failure if it has memory or states left. */
void deferred_take_back(void);

/* Memory of the device, as a framework takes it for weights: the address that is bound. `*reach` is where the test
 * itself finds the bytes. */
void *deferred_take(uint64_t bytes, void **reach);
void deferred_give(void *memory);

/* Where the bytes of an address are: only for what stands in for an adapter. */
void *deferred_bytes(const void *memory);

/* The job number `nth` from now on (1: the next) fails with `status`, and all behind it if that is WEFT_E_DEVICE; of
 * the batch it is in none is done. 0: none. */
void deferred_fail(uint64_t nth, weft_status status);
/* Jobs done so far, and the largest batch. */
uint64_t deferred_jobs(void);
uint32_t deferred_largest(void);
/* Told when a session has what arrived in memory flushed; NULL: nobody. */
extern weft_status (*deferred_arrive)(void);
/* The stream that the last job with one was given. */
void *deferred_stream(void);
/* The stream is gone: a job with it ends the process. NULL: none is. */
void deferred_end_stream(void *stream);

#endif
