/* verbs.c - InfiniBand and RoCE through libfabric's verbs provider under rxm. Written from its documentation, its
 * source and its users' reports; it has not run on a device. The sources of the reasons are in docs/PROVIDERS.md, Why a
 * row has its values. */
#include "providers/profile.h"

const weft_profile weft_profile_verbs = {
    .name = "verbs",
    .names = {{0, "verbs;ofi_rxm"}}, /* verbs itself has no RDM endpoints that are not deprecated */
    .newest_api = WEFT_FABRIC_VERSION(2, 0),
    .caps = WEFT_CAP_WRITE | WEFT_CAP_MESSAGE, /* rxm grants no writes without messages */
    .addressing = WEFT_ADDRESS_SOURCE,         /* IPoIB too: the RDMA CM takes the GID of that IP */
    /* The device makes the keys, so a restarted receiver is told apart by its endpoint's address. */
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED | WEFT_MR_PROVIDER_KEY,
    .pins = true,
    .immediate_bytes = 4,
    .chunk_bytes = UINT64_C(1) << 20, /* far above the knee of size against rate, and cheap to abandon */
    .chunk_max = UINT64_C(1) << 30,   /* devices take 1 to 2 GiB, which rxm does not tell */
    .depth = 16,                      /* a port of 400 Gbit/s holds 1 MiB for 21 us: 16 cover a slow poll */
    .depth_max = 256,                 /* below FI_VERBS_TX_SIZE (384): a completion queue that overflows is unusable */
    .environment = {{"RDMAV_FORK_SAFE", "1", WEFT_DUTY_WARN,
                     "without it a fork in this process can take pinned pages away from the device"},
                    {"RDMAV_HUGEPAGES_SAFE", "1", WEFT_DUTY_WARN,
                     "slabs lie in huge pages where the kernel gives them, and fork safety must know"}},
    .wait = WEFT_WAIT_FD,
    .device = WEFT_DEVICE_RDMA,
    .absent = "check `ibv_devices`, `rdma link` and `fi_info -p verbs`; the device's user-space library (rdma-core, "
              "ibverbs-providers) must be installed",
    .completion = "a completed write was acknowledged by the remote adapter",
    /* A region with a remote key stays registered until its endpoint is closed. */
    .abort = "by closing the endpoint; the receiver closes its own, because the keys are not weft's",
};

WEFT_FABRIC_PROVIDER(verbs, "verbs");
