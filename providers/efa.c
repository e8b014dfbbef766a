/* efa.c - the Elastic Fabric Adapter. Written from its documentation and its users' reports; it has not run on a
 * device. */
#include "providers/profile.h"

static const weft_profile efa_profile = {
    .name = "efa",
    .names = {{0, "efa"}},
    .oldest = WEFT_FABRIC_VERSION(1, 18),
    .oldest_reason =
        "older ones emulate remote writes with messages and lack the options that keep writes on the device",
    .addressing = WEFT_ADDRESS_DOMAIN, /* a device such as rdmap16s27-rdm; its address is no IP */
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED | WEFT_MR_PROVIDER_KEY,
    .message_caps = true, /* its handshake between endpoints is a message */
    /* Queue pairs are few: one endpoint for all peers is the aim, once there is a device to prove the caps on it. */
    .shared_endpoint = false,
    .wait = WEFT_WAIT_SLEEP,          /* its completion queues have had no descriptor */
    .chunk_bytes = UINT64_C(1) << 20, /* it wants messages of 512 KiB to 1 MiB */
    .depth = 16,
    .settings = {{WEFT_OPTION_RNR_RETRY, 7},     /* 7 retries for ever: a late receiver is the heartbeat's matter */
                 {WEFT_OPTION_SHARED_MEMORY, 0}, /* one path for all peers: no second provider underneath */
                 {WEFT_OPTION_CUDA_API, 0}},     /* calls into CUDA from under an engine can deadlock with it */
    .environment = {{"FI_EFA_FORK_SAFE", "1",
                     "without it a fork in this process can take pinned pages away from the device"}},
    .absent = "no EFA device found by libfabric; check `fi_info -p efa`, and the name in `address` if one is set",
    .completion = "a completed write was acknowledged by the remote adapter; delivery is unordered",
    .abort = "by closing the endpoint; the receiver closes its own, because the keys are not weft's",
};

WEFT_FABRIC_PROVIDER(efa, "efa", efa_profile);
