/* shm.c - processes of one host through libfabric's shared memory. */
#include "providers/profile.h"

const weft_profile weft_profile_shm = {
    .name = "shm",
    .names = {{0, "shm"}},
    .newest_api = WEFT_FABRIC_VERSION(2, 0),
    .caps = WEFT_CAP_WRITE,
    .addressing = WEFT_ADDRESS_NONE,
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED,
    .immediate_bytes = 4,
    .chunk_bytes = UINT64_C(1) << 20,
    .chunk_max = UINT64_C(1) << 30,
    .depth = 8,
    .depth_max = 1024,
    .wait = WEFT_WAIT_SLEEP,
    .mixing = WEFT_MIXING_REFUSED,
    .absent = "was libfabric built with its shm provider, and is /dev/shm writable?",
    .completion = "a completed write was copied, but a receiver that never polls does not learn of it",
    .abort = "by closing the endpoint, without completions",
    .why =
        {
            [WEFT_LINE_NAME] = {"one name in all versions", "fi_shm(7)"},
            [WEFT_LINE_VERSION] = {"none is known to lack what is asked", "fi_shm(7)"},
            [WEFT_LINE_API] =
                {"the newest rules that weft was tried under; a library keeps the older ones for those who ask",
                 "fi_version(3); measured with 1.17 and 2.1"},
            [WEFT_LINE_CAPS] = {"buckets go as remote writes into slots that the receiver granted", "decision"},
            [WEFT_LINE_REFUSED] = {"nothing here needs messages, tags or atomics", "fi_shm(7)"},
            [WEFT_LINE_ADDRESS] = {"the provider names endpoints itself, by process", "fi_shm(7), Address Format"},
            [WEFT_LINE_REGISTRATION] = {"own random keys, as tcp", "fi_shm(7), MR registration mode"},
            [WEFT_LINE_PINNING] = {"the kernel copies between the processes: no page is locked", "fi_shm(7), Overview"},
            [WEFT_LINE_CACHE] = {"no page is registered with a device, so there is nothing to keep", "prov/shm source"},
            [WEFT_LINE_ORDER] = {"arrivals are counted and a bucket is whole when each chunk came once, so that EFA "
                                 "and TCP are one case",
                                 "decision"},
            [WEFT_LINE_IMMEDIATE] =
                {"epoch, slot and chunk of a write are 32 bits, which is what the narrowest provider carries",
                 "decision; verbs and efa sources, cq_data_size"},
            [WEFT_LINE_SIZE] = {"one copy by process_vm_writev; nothing above 1 MiB helps", "measured with 1.17"},
            [WEFT_LINE_DEPTH] = {"as tcp", "measured with 1.17"},
            [WEFT_LINE_OPTIONS] = {"none is needed", "fi_endpoint(3)"},
            [WEFT_LINE_ENVIRONMENT] = {"none is needed", "fi_shm(7)"},
            [WEFT_LINE_ENDPOINT] = {"closing it is the only abort", "measured with 1.17"},
            [WEFT_LINE_WAIT] = {"it offers no descriptor that a remote write would raise",
                                "measured with 1.17 and 2.1"},
            [WEFT_LINE_PROGRESS] = {"receive buffers change only while the queue is read", "fi_shm(7), Progress"},
            [WEFT_LINE_COMPLETION] = {"a peer that is killed or stopped is silent: neither error nor completion",
                                      "measured with 1.17"},
            [WEFT_LINE_ABORT] = {"operations end within 2 ms", "measured with 1.17"},
            [WEFT_LINE_MIXING] = {"the layout of the shared segment changes between versions, and each checks its own",
                                  "prov/shm source, SMR_VERSION"},
        },
};

WEFT_FABRIC_PROVIDER(shm, "shm");
