/* host_fast.h - level fast on the host: planning, writing and reading the planes. */
#ifndef WEFT_BACKENDS_HOST_FAST_H
#define WEFT_BACKENDS_HOST_FAST_H

#include "backends/host/host_state.h"
#include "codec/fast.h"

/* Lists the exceptions of state->changes in the state's scratch and decides every parameter. */
void weft_host_fast_plan_make(weft_backend_state *state, const weft_view *now, weft_fast_plan *plan);

/* Writes the payload: `bytes` of them as weft_fast_payload says for the plan. */
void weft_host_fast_write(const weft_backend_state *state, const weft_view *now, const weft_fast_plan *plan,
                          uint8_t *payload, uint64_t bytes);

/* Fills changes->position, changes->before and, as signed steps, changes->after. Errors: WEFT_E_CORRUPT. */
weft_status weft_host_fast_read(const weft_host_kernels *kernels, const weft_frame *frame, const weft_view *base,
                                weft_changes *changes);

#endif
