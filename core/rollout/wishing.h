/* wishing.h - the version that the caller of a rollout wants, where each version is named by the caller. */
#ifndef WEFT_CORE_WISHING_H
#define WEFT_CORE_WISHING_H

#include "session/session.h"
#include "wire/wire.h"

/* Wishing: what was wanted, and what the trainer said of it. wishing.c owns it; a new connection says again what is
 * still wanted. */
typedef struct weft_wishing {
    bool named; /* versions come when the caller names them */
    bool open;  /* `number` is wanted, and neither held nor passed over */
    uint64_t number;
    bool offers;             /* the trainer is there and named its newest version */
    uint64_t offered;        /* number of that version */
    weft_wire_passed passed; /* what was passed over last; reason 0: nothing that the caller was not told */
} weft_wishing;

typedef struct weft_rollout weft_rollout;

/* ---- the public calls, under the lock */
weft_status weft_wishing_want(weft_rollout *rollout, uint64_t number);
weft_status weft_wishing_offered(weft_rollout *rollout, uint64_t after, uint32_t deadline_ms, uint64_t *number);

/* Returns WEFT_OK, or once WEFT_E_PASSED, because what was wanted cannot be had. */
weft_status weft_wishing_check(weft_wishing *wishing);
/* The rollout joined a trainer, whose newest version has that number. */
weft_status weft_wishing_begin(weft_rollout *rollout, uint64_t newest);
/* Take OFFERED and PASSED. Errors: WEFT_E_CORRUPT, WEFT_E_PROTOCOL (this rollout names no versions). */
weft_status weft_wishing_take_offered(weft_rollout *rollout, const uint8_t *body, uint64_t length);
weft_status weft_wishing_take_passed(weft_rollout *rollout, const uint8_t *body, uint64_t length);
/* A version is held: a wish for it is fulfilled. */
void weft_wishing_settle(weft_wishing *wishing, uint64_t held);

#endif
