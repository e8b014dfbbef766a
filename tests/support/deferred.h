/* deferred.h - a backend for tests that uses every freedom of a device. It takes jobs and does them only when one is
 * polled, many together and the last first. Its memory lies at addresses that only jobs can touch.
 *
 * The host backend does its work. It is lent under the name "cuda". A use that the port forbids ends the process with a
 * line that names it: a job polled out of turn, more jobs than the depth, two kinds at once, a view that lies neither
 * in its memory nor in memory of kind HOST. */
#ifndef WEFT_TESTS_DEFERRED_H
#define WEFT_TESTS_DEFERRED_H

#include "port/port_backend.h"

/* Lends it with this depth; from then on weft_backend_find("cuda") is it. */
void deferred_lend(uint32_t depth);
/* Takes it back; a test failure if it has memory or states left. */
void deferred_take_back(void);

/* Lends the host's backend with the two slots of a queued commit, which weights in host memory have then. NULL takes it
 * back (weft_backend_lend). */
void deferred_lend_queue(void);
/* Makes the next queued commit fail: when it is queued, or `late`, when the device has come to it. */
void deferred_queue_fail(weft_status status, bool late);
/* Calls `call` once between the proof of the next queued commit and its writes. */
void deferred_queue_between(void (*call)(void));

/* Memory of the device, as a framework takes it for weights: the address that is bound. `*reach` is where the test
 * itself finds the bytes. */
void *deferred_take(uint64_t bytes, void **reach);
void deferred_give(void *memory);

/* Returns where the bytes of an address really are, for stand-ins of an adapter. */
void *deferred_bytes(const void *memory);

/* Makes job number `nth` from now on (1: the next) fail with `status`, and all later jobs too if that is WEFT_E_DEVICE.
 * No job of its batch is done. 0: none fails. */
void deferred_fail(uint64_t nth, weft_status status);
/* Jobs done so far, and the largest batch. */
uint64_t deferred_jobs(void);
uint32_t deferred_largest(void);
/* The stream that the last job with one was given. */
void *deferred_stream(void);
/* The stream is gone: a job with it ends the process. NULL: none is. */
void deferred_end_stream(void *stream);

#endif
