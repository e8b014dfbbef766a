/* efa.c - the Elastic Fabric Adapter, by either of its two fabrics. Written from its documentation, its source and its
 * users' reports; it has not run on a device. The sources of the reasons are in docs/PROVIDERS.md, Why a row has its
 * values. */
#include "providers/profile.h"

/* Both fabrics share these values. Addresses are devices, such as rdmap16s27-rdm. The device makes the keys. Messages
 * of 512 KiB to 1 MiB suit it. The endpoint's transmit queue limits what is in flight. Completion queues have no
 * descriptor. Completions of a dead peer may never come, and cancel promises nothing. */
#define EFA_FACTS                                                                                                      \
    .names = {{0, "efa"}}, .newest_api = WEFT_FABRIC_VERSION(2, 0), .caps = WEFT_CAP_WRITE | WEFT_CAP_MESSAGE,         \
    .addressing = WEFT_ADDRESS_DOMAIN,                                                                                 \
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED | WEFT_MR_PROVIDER_KEY, .pins = true,  \
    .immediate_bytes = 4, .chunk_bytes = UINT64_C(1) << 20, .chunk_max = UINT64_C(1) << 30, .depth = 16,               \
    .depth_max = 256,                                                                                                  \
    .environment = {{"FI_EFA_FORK_SAFE", "1", WEFT_DUTY_WARN,                                                          \
                     "without it a fork in this process can take pinned pages away from the device"}},                 \
    .wait = WEFT_WAIT_SLEEP, .device = WEFT_DEVICE_EFA,                                                                \
    .completion = "a completed write was acknowledged by the remote adapter; delivery is unordered",                   \
    .abort = "by closing the endpoint; the receiver closes its own, because the keys are not weft's"
/* 7 retries for ever, because a late receiver is the heartbeat's matter. Without shared memory all peers have one path.
 * Calls into CUDA from under an engine can deadlock with the engine. Copies by the CPU are not direct. A device that
 * emulates writes with messages is warned of. */
#define EFA_SETTINGS                                                                                                   \
    {WEFT_OPTION_RNR_RETRY, 7}, {WEFT_OPTION_SHARED_MEMORY, 0}, {WEFT_OPTION_CUDA_API, 0},                             \
    {                                                                                                                  \
        WEFT_OPTION_EMULATED_WRITE, 0                                                                                  \
    }

const weft_profile weft_profile_efa = {
    .name = "efa",
    .never = "efa-direct", /* from 2.1 on fi_getinfo lists it first, and it does not talk to the fabric efa */
    .oldest = WEFT_FABRIC_VERSION(1, 18), /* older ones emulate remote writes with messages */
    .reach = WEFT_REACH_REMOTE,           /* keeps shared memory out */
    .absent = "check `lspci | grep EFA`, `ibv_devices` and `fi_info -p efa`; the instance type must have EFA, with its "
              "driver loaded",
    EFA_FACTS,
    /* An arrival consumes a receive, so that a sender waits where the queue would overflow. */
    .settings = {EFA_SETTINGS, {WEFT_OPTION_UNSOLICITED, 0}},
};

const weft_profile weft_profile_efa_direct = {
    .name = "efa-direct",
    .only = "efa-direct",
    .oldest = WEFT_FABRIC_VERSION(2, 1), /* the fabric begins there */
    .absent = "its device needs RDMA read and write, and writes that need no receive; check `fi_info -p efa`, which "
              "lists the fabric efa-direct",
    EFA_FACTS,
    .settings = {EFA_SETTINGS},
};

WEFT_FABRIC_PROVIDER(efa, "efa");
WEFT_FABRIC_PROVIDER(efa_direct, "efa-direct");
