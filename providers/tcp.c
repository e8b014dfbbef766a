/* tcp.c - the two TCP profiles: libfabric's native provider, and the layer over message endpoints. */
#include "providers/profile.h"

static const weft_profile tcp_profile = {
    .name = "tcp",
    /* Native TCP over RDM endpoints is named "net" in 1.16 and 1.17 and "tcp" from 1.18 on. Asking 1.17 for "tcp"
     * silently gives tcp;ofi_rxm, which does not talk to it: hence the exact name, checked in the answer. */
    .names = {{WEFT_FABRIC_VERSION(1, 18), "tcp"}, {0, "net"}},
    .oldest = WEFT_FABRIC_VERSION(1, 16),
    .oldest_reason = "native TCP over RDM endpoints begins there",
    .addressing = WEFT_ADDRESS_SOURCE, /* FI_TCP_IFACE accepts a wrong interface without a word */
    /* Without PROVIDER_KEY: after a restart on the same address, writes meant for the old process reach the new one,
     * and only a key that was never given out before refuses them. */
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED,
    .wait = WEFT_WAIT_FD,                                 /* spinning collapses where cores are scarce */
    .descriptor_sticks_below = WEFT_FABRIC_VERSION(2, 1), /* 1.17's does, 2.1's does not, between them is untried */
    .chunk_bytes = UINT64_C(1) << 20,                     /* loopback: nothing above 1 MiB helps */
    .depth = 8, /* 4 fill loopback; at 10 ms round trip 4 x 1 MiB reach only 0.3 GB/s */
    .absent = "is the address on this host, and was libfabric built with its tcp provider?",
    .completion = "a completed write may still be lost with the connection", /* 15 of them, measured; 1.17 ignores
                                                                                FI_DELIVERY_COMPLETE */
    .abort = "by closing the endpoint", /* fi_cancel and fi_av_remove return 0 and do nothing */
};

static const weft_profile tcp_rxm_profile = {
    .name = "tcp-rxm",
    .names = {{0, "tcp;ofi_rxm"}}, /* talks only to itself */
    .oldest = WEFT_FABRIC_VERSION(1, 17),
    .oldest_reason = "earlier ones were not tried with pass-through",
    .pass_through = true, /* without it a peer that dies, or a port that closes, in the middle of a write crashes the
                             receiver inside libfabric (1.17 and 2.1: rxm takes the write's context for its own) */
    .addressing = WEFT_ADDRESS_SOURCE,
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED, /* no PROVIDER_KEY, as tcp */
    .wait = WEFT_WAIT_FD,
    .chunk_bytes = UINT64_C(1) << 20,
    .depth = 8,
    .absent = "is FI_OFI_RXM_ENABLE_PASSTHRU=1 set before this process first uses libfabric, and was libfabric built "
              "with its tcp and rxm providers?",
    .completion = "a completed write may still be lost with the connection",
    .abort = "by closing the endpoint, without completions",
};

WEFT_FABRIC_PROVIDER(tcp, "tcp", tcp_profile);
WEFT_FABRIC_PROVIDER(tcp_rxm, "tcp-rxm", tcp_rxm_profile);
