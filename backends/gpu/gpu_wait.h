/* gpu_wait.h - how a thread waits for a device: it asks again at once while it has credit, and sleeps when it has none.
 *
 * Credit is a twentieth of the time that passes, and a millisecond at most. So the asking takes no more than a
 * twentieth of a core over any long time, and the short waits of a publish or a commit have no sleep in them. */
#ifndef WEFT_BACKENDS_GPU_WAIT_H
#define WEFT_BACKENDS_GPU_WAIT_H

#include <stdint.h>

#define WEFT_GPU_WAIT_SHARE   20u      /* the asking takes one part in so many */
#define WEFT_GPU_WAIT_CREDIT  1000000u /* ns of credit, at most */
#define WEFT_GPU_WAIT_SLEEP   2000u    /* ns that a sleep takes of the core */
#define WEFT_GPU_WAIT_LONGEST 1000000u /* ns of a sleep, at most */

typedef struct weft_gpu_credit {
    uint64_t at_ns; /* time up to which credit was counted */
    uint64_t ns;
} weft_gpu_credit;

/* Counts a question that was asked in vain from `asked_ns` to `now_ns`. Returns the ns to sleep before the next one; 0:
 * ask again at once. */
uint64_t weft_gpu_credit_use(weft_gpu_credit *credit, uint64_t asked_ns, uint64_t now_ns);

/* The device's time is the system's, whatever clock the session goes by. */
uint64_t weft_gpu_now_ns(void);
/* Waits a little, after a question of the calling thread that was asked in vain from `asked_ns` to now. */
void weft_gpu_wait_after(uint64_t asked_ns);

#endif
