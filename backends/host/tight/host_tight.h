/* host_tight.h - level tight on the host: lists by class, written and read. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_H
#define WEFT_BACKENDS_HOST_TIGHT_H

#include "backends/host/host_state.h"
#include "codec/tight.h"

/* A frame about to be written: its lists lie one after the other in the state's scratch, in the payload's order. */
typedef struct weft_host_tight_plan {
    weft_tight_shape shape;
    uint32_t magnitudes; /* that have a code: values in state->excess, Rice parameters in state->rice */
    uint64_t unary_bits;
    uint64_t magnitude_bits;
} weft_host_tight_plan;

/* Lists state->changes, which were ranked, by class and decides every parameter of the frame. */
void weft_host_tight_plan_make(weft_backend_state *state, const weft_view *shadow, weft_host_tight_plan *plan);

/* Writes the payload: `bytes` of them as weft_tight_payload says for the plan. */
void weft_host_tight_write(const weft_backend_state *state, const weft_view *now, const weft_host_tight_plan *plan,
                           uint8_t *payload, uint64_t bytes);

/* Fills changes->position and changes->before and, as signed steps, changes->after. Errors: WEFT_E_CORRUPT; WEFT_E_BASE
 * where the frame contradicts the base. */
weft_status weft_host_tight_read(weft_backend_state *state, const weft_decode_job *job);

#endif
