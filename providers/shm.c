/* shm.c - processes of one host through libfabric's shared memory. */
#include "providers/profile.h"

static const weft_profile shm_profile = {
    .name = "shm",
    .names = {{0, "shm"}},
    .addressing = WEFT_ADDRESS_NONE, /* the provider names endpoints itself, by process */
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED, /* own random keys, as tcp */
    .wait = WEFT_WAIT_SLEEP,          /* it offers no descriptor that a remote write would raise */
    .chunk_bytes = UINT64_C(1) << 20, /* one copy by process_vm_writev; nothing above 1 MiB helps */
    .depth = 8,
    .absent = "was libfabric built with its shm provider, and is /dev/shm writable?",
    .completion = "a completed write was copied, but a receiver that never polls does not learn of it",
    .abort = "by closing the endpoint, without completions", /* peer death: silence */
};

WEFT_FABRIC_PROVIDER(shm, "shm", shm_profile);
