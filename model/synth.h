/* synth.h - a made-up model and made-up updates that look like reinforcement learning's; for demo, bench and tests. */
#ifndef WEFT_MODEL_SYNTH_H
#define WEFT_MODEL_SYNTH_H

#include "safetensors.h"

/* Makes a Llama-like bf16 model of about `parameters` elements: the names and shapes of a real one (embedding, layers
 * with grouped-query attention and gated MLP, norms, head), Gaussian weights, deterministic in `seed`. */
weft_status weft_synth_model(uint64_t parameters, uint64_t seed, weft_model **model);

/* One step of training as it looks in bf16: the chance of a change doubles with every lower exponent, changes are +-1
 * ULP mostly; about `share` (0..1) of all elements change. Deterministic in `seed`. Works in place; returns how many
 * elements changed through `changed` (may be NULL). */
weft_status weft_synth_step(weft_model *model, double share, uint64_t seed, uint64_t *changed);

#endif
