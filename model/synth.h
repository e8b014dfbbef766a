/* synth.h - a made-up model and made-up updates that look like reinforcement learning's; for demo, bench and tests. */
#ifndef WEFT_MODEL_SYNTH_H
#define WEFT_MODEL_SYNTH_H

#include "safetensors.h"

/* Makes a Llama-like bf16 model of about `parameters` elements: the names and shapes of a real one (embedding, layers
 * with grouped-query attention and gated MLP, norms, head), Gaussian weights, deterministic in `seed`. It has a header,
 * so that it can be saved. The smallest has some thousand elements.
 * Errors: WEFT_E_ARGUMENT (more than 2^40 parameters), WEFT_E_MEMORY. */
weft_status weft_synth_model(uint64_t parameters, uint64_t seed, weft_model **model);

/* One step of training as it looks in bf16: the chance of a change doubles with every lower exponent, changes are +-1
 * ULP mostly; about `share` (0..1) of all elements change. Other dtypes: every element has the same chance, and moves
 * by one in its order. Infinities and NaNs stay. Deterministic in `seed` and the bits; works in place; returns how many
 * elements (coded ones) changed through `changed` (may be NULL).
 * Errors: WEFT_E_ARGUMENT (share out of range, or a model mapped read-only). */
weft_status weft_synth_step(weft_model *model, double share, uint64_t seed, uint64_t *changed);

#endif
