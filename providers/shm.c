/* shm.c - processes of one host through libfabric's shared memory. The sources of the reasons are in
 * docs/PROVIDERS.md, Why a row has its values. */
#include "providers/profile.h"

const weft_profile weft_profile_shm = {
    .name = "shm",
    .names = {{0, "shm"}},
    .newest_api = WEFT_FABRIC_VERSION(2, 0),
    .caps = WEFT_CAP_WRITE,
    .addressing = WEFT_ADDRESS_NONE, /* the provider names endpoints itself, by process */
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED,
    .immediate_bytes = 4,
    .chunk_bytes = UINT64_C(1) << 20, /* one copy by process_vm_writev: nothing above 1 MiB helps */
    .chunk_max = UINT64_C(1) << 30,
    .depth = 8,
    .depth_max = 1024,
    .wait = WEFT_WAIT_SLEEP,       /* no descriptor exists that a remote write would raise */
    .mixing = WEFT_MIXING_REFUSED, /* the layout of the shared segment changes between versions */
    .absent = "was libfabric built with its shm provider, and is /dev/shm writable?",
    /* A peer that is killed or stopped is silent: neither an error nor a completion comes. */
    .completion = "a completed write was copied, but a receiver that never polls does not learn of it",
    .abort = "by closing the endpoint, without completions",
};

WEFT_FABRIC_PROVIDER(shm, "shm");
