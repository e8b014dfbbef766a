/* tcp.c - the two TCP profiles: libfabric's native provider, and the layer over message endpoints. The sources of the
 * reasons are in docs/PROVIDERS.md, Why a row has its values. */
#include "providers/profile.h"

const weft_profile weft_profile_tcp = {
    .name = "tcp",
    /* 1.16 and 1.17 call native TCP over RDM endpoints net. Asked for tcp they answer with tcp;ofi_rxm, which does not
     * talk to it. */
    .names = {{WEFT_FABRIC_VERSION(1, 18), "tcp"}, {0, "net"}},
    .oldest = WEFT_FABRIC_VERSION(1, 16), /* native TCP over RDM endpoints begins there */
    .newest_api = WEFT_FABRIC_VERSION(2, 0),
    .caps = WEFT_CAP_WRITE,
    .addressing = WEFT_ADDRESS_SOURCE,
    .dials = true,
    /* No provider keys, because writes meant for a process that died reach its successor on the same address: only a
     * key that was never given out before refuses them. */
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED,
    .immediate_bytes = 4,
    .chunk_bytes = UINT64_C(1) << 20, /* loopback gains nothing above 1 MiB */
    .chunk_max = UINT64_C(1) << 30,
    .depth = 8, /* 4 fill loopback, and 8 leave room for a slow poll; long links want more streams */
    .depth_max = 1024,
    .wait = WEFT_WAIT_FD, /* spinning collapses where cores are scarce */
    .descriptors = 5,
    .listens = true,
    .descriptor_sticks_below = WEFT_FABRIC_VERSION(2, 1),
    .absent = "is the address on this host, and was libfabric built with its tcp provider?",
    /* 15 completed writes of a killed peer never arrived, and 1.17 ignores FI_DELIVERY_COMPLETE. */
    .completion = "a completed write may still be lost with the connection",
    .abort = "by closing the endpoint",
};

const weft_profile weft_profile_tcp_rxm = {
    .name = "tcp-rxm",
    .names = {{0, "tcp;ofi_rxm"}}, /* talks only to itself */
    .protocol = WEFT_PROTOCOL_RXM_THROUGH,
    .oldest = WEFT_FABRIC_VERSION(1, 17), /* earlier ones were not tried with pass-through */
    .newest_api = WEFT_FABRIC_VERSION(2, 0),
    .caps = WEFT_CAP_WRITE,
    .addressing = WEFT_ADDRESS_SOURCE,
    .dials = true,
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED,
    .immediate_bytes = 4,
    .chunk_bytes = UINT64_C(1) << 20,
    .chunk_max = UINT64_C(1) << 30,
    .depth = 8,
    .depth_max = 1024,
    /* Without pass-through rxm takes the context of a write for its own. */
    .environment = {{"FI_OFI_RXM_ENABLE_PASSTHRU", "1", WEFT_DUTY_SET,
                     "without it a peer that dies in the middle of a write crashes the receiver inside libfabric"}},
    .wait = WEFT_WAIT_FD,
    .descriptors = 14,
    .listens = true,
    .absent = "was libfabric built with its tcp and rxm providers?",
    .completion = "a completed write may still be lost with the connection",
    .abort = "by closing the endpoint, without completions",
};

WEFT_FABRIC_PROVIDER(tcp, "tcp");
WEFT_FABRIC_PROVIDER(tcp_rxm, "tcp-rxm");
