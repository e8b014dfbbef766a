/* verbs.c - InfiniBand and RoCE through libfabric's verbs provider under rxm. Written from its documentation and its
 * users' reports; it has not run on a device. */
#include "providers/profile.h"

static const weft_profile verbs_profile = {
    .name = "verbs",
    .names = {{0, "verbs;ofi_rxm"}},   /* verbs itself has no RDM endpoints */
    .addressing = WEFT_ADDRESS_SOURCE, /* the IP of the port's network interface: connections go through the RDMA CM,
                                          and the address also picks the GID on RoCE */
    /* The device makes the keys, and 32-bit ones: a restarted receiver is told apart by its endpoint's address. */
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED | WEFT_MR_PROVIDER_KEY,
    .message_caps = true, /* rxm posts the receives that an immediate consumes */
    .wait = WEFT_WAIT_FD,
    .chunk_bytes = UINT64_C(1) << 20, /* far above the knee of message size against rate, cheap to abandon */
    .depth = 16,                      /* a 400 Gbit/s port holds 1 MiB for 21 us; 16 cover a slow poll */
    .environment = {{"RDMAV_FORK_SAFE", "1",
                     "without it a fork in this process can take pinned pages away from the device"}},
    .absent = "no RDMA device found by libfabric; check `fi_info -p verbs`, `ibv_devices`, and that the address is "
              "one of an RDMA port",
    .completion = "a completed write was acknowledged by the remote adapter",
    .abort = "by closing the endpoint; the receiver closes its own, because the keys are not weft's",
};

WEFT_FABRIC_PROVIDER(verbs, "verbs", verbs_profile);
