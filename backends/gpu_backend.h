/* gpu_backend.h - the slots of weft_backend that all devices share: what a vendor adds is its name, probe and open. */
#ifndef WEFT_BACKENDS_GPU_BACKEND_H
#define WEFT_BACKENDS_GPU_BACKEND_H

#include "backends/gpu.h"

void weft_gpu_slot_close(weft_backend_state *state);
const char *weft_gpu_slot_kernels(const weft_backend_state *state);
weft_status weft_gpu_slot_memory_take(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory);
void weft_gpu_slot_memory_give(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind);
const char *weft_gpu_slot_check(weft_backend_state *state, const void *data, uint64_t bytes);
weft_status weft_gpu_slot_encode(weft_backend_state *state, weft_encode_job *job);
weft_status weft_gpu_slot_decode(weft_backend_state *state, weft_decode_job *job);
weft_status weft_gpu_slot_survey(weft_backend_state *state, weft_survey_job *job);
weft_status weft_gpu_slot_apply(weft_backend_state *state, weft_apply_job *job);
weft_status weft_gpu_slot_undo(weft_backend_state *state, weft_undo_job *job);
weft_status weft_gpu_slot_digest(weft_backend_state *state, weft_digest_job *job);
weft_status weft_gpu_slot_load(weft_backend_state *state, weft_load_job *job);
weft_status weft_gpu_slot_store(weft_backend_state *state, weft_store_job *job);
weft_status weft_gpu_slot_merge(weft_backend_state *state, weft_merge_job *job);
weft_status weft_gpu_slot_drain(weft_backend_state *state, weft_drain_job *job);
weft_status weft_gpu_slot_poll(weft_backend_state *state, void *job);

#define WEFT_GPU_SLOTS                                                                                                 \
    .abi = WEFT_BACKEND_ABI, .caps = WEFT_BACKEND_DEVICE, .depth = WEFT_GPU_DEPTH, .close = weft_gpu_slot_close,       \
    .kernels = weft_gpu_slot_kernels, .memory_take = weft_gpu_slot_memory_take,                                        \
    .memory_give = weft_gpu_slot_memory_give, .check = weft_gpu_slot_check, .encode = weft_gpu_slot_encode,            \
    .decode = weft_gpu_slot_decode, .survey = weft_gpu_slot_survey, .apply = weft_gpu_slot_apply,                      \
    .undo = weft_gpu_slot_undo, .digest = weft_gpu_slot_digest, .load = weft_gpu_slot_load,                            \
    .store = weft_gpu_slot_store, .merge = weft_gpu_slot_merge, .drain = weft_gpu_slot_drain,                          \
    .poll = weft_gpu_slot_poll

extern const weft_backend weft_backend_cuda, weft_backend_hip;

#endif
