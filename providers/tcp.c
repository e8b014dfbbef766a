/* tcp.c - the two TCP profiles: libfabric's native provider, and the layer over message endpoints. */
#include "providers/profile.h"

const weft_profile weft_profile_tcp = {
    .name = "tcp",
    .names = {{WEFT_FABRIC_VERSION(1, 18), "tcp"}, {0, "net"}},
    .oldest = WEFT_FABRIC_VERSION(1, 16),
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
    .wait = WEFT_WAIT_FD,
    .descriptors = 5,
    .listens = true,
    .descriptor_sticks_below = WEFT_FABRIC_VERSION(2, 1),
    .absent = "is the address on this host, and was libfabric built with its tcp provider?",
    .completion = "a completed write may still be lost with the connection",
    .abort = "by closing the endpoint",
    .why =
        {
            [WEFT_LINE_NAME] = {"1.16 and 1.17 call native TCP over RDM endpoints net; asked for tcp they answer with "
                                "tcp;ofi_rxm, which does not talk to it: the name is exact and checked in the answer",
                                "fi_net(7) of 1.17; measured"},
            [WEFT_LINE_VERSION] = {"native TCP over RDM endpoints begins there", "fi_net(7)"},
            [WEFT_LINE_API] =
                {"the newest rules that weft was tried under; a library keeps the older ones for those who ask",
                 "fi_version(3); measured with 1.17 and 2.1"},
            [WEFT_LINE_CAPS] = {"buckets go as remote writes into slots that the receiver granted", "decision"},
            [WEFT_LINE_REFUSED] = {"nothing here needs messages, tags or atomics", "fi_tcp(7)"},
            [WEFT_LINE_ADDRESS] = {"FI_TCP_IFACE and fi_getinfo accept a wrong interface without a word: weft asks the "
                                   "kernel, and compares what the endpoint took",
                                   "measured with 1.17"},
            [WEFT_LINE_REGISTRATION] =
                {"no provider keys: after a restart on the same address writes meant for the old process reach the new "
                 "one, and only a key that was never given out before refuses them",
                 "measured with 1.17"},
            [WEFT_LINE_PINNING] = {"the kernel copies: no page is locked", "prov/net and prov/tcp sources"},
            [WEFT_LINE_CACHE] = {"no page is registered with a device, so there is nothing to keep",
                                 "prov/net and prov/tcp sources"},
            [WEFT_LINE_ORDER] = {"arrivals are counted and a bucket is whole when each chunk came once, so that EFA "
                                 "and TCP are one case",
                                 "decision"},
            [WEFT_LINE_IMMEDIATE] =
                {"epoch, slot and chunk of a write are 32 bits, which is what the narrowest provider carries",
                 "decision; verbs and efa sources, cq_data_size"},
            [WEFT_LINE_SIZE] = {"loopback gains nothing above 1 MiB, and a smaller one is cheap to abandon",
                                "measured with 1.17"},
            [WEFT_LINE_DEPTH] = {"4 x 1 MiB fill loopback and 8 leave room for a slow poll; long links want more "
                                 "streams rather than more depth",
                                 "measured with 1.17"},
            [WEFT_LINE_OPTIONS] = {"none is needed", "fi_endpoint(3)"},
            [WEFT_LINE_ENVIRONMENT] = {"none is needed", "fi_tcp(7)"},
            [WEFT_LINE_ENDPOINT] = {"closing it is the only abort, so each peer has its own",
                                    "measured: fi_cancel and fi_av_remove return 0 and do nothing"},
            [WEFT_LINE_WAIT] = {"spinning collapses where cores are scarce; below 2.1 the descriptor stays raised and "
                                "is lowered before sleep",
                                "measured with 1.17 and 2.1"},
            [WEFT_LINE_PROGRESS] =
                {"an end that does not poll accepts no connection and lands nothing, whatever FI_PROGRESS_AUTO says",
                 "measured with 1.17"},
            [WEFT_LINE_COMPLETION] =
                {"15 completed writes of a killed peer never arrived; FI_DELIVERY_COMPLETE is ignored by 1.17",
                 "measured with 1.17"},
            [WEFT_LINE_ABORT] = {"operations end within 1 ms; nothing of a closed endpoint is reported",
                                 "measured with 1.17"},
            [WEFT_LINE_MIXING] = {"net of 1.17 and tcp of 2.x talk to each other", "measured: 1.17 with 2.7"},
        },
};

const weft_profile weft_profile_tcp_rxm = {
    .name = "tcp-rxm",
    .names = {{0, "tcp;ofi_rxm"}},
    .protocol = WEFT_PROTOCOL_RXM_THROUGH,
    .oldest = WEFT_FABRIC_VERSION(1, 17),
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
    .environment = {{"FI_OFI_RXM_ENABLE_PASSTHRU", "1", WEFT_DUTY_SET,
                     "without it a peer that dies in the middle of a write crashes the receiver inside libfabric"}},
    .wait = WEFT_WAIT_FD,
    .descriptors = 14,
    .listens = true,
    .absent = "was libfabric built with its tcp and rxm providers?",
    .completion = "a completed write may still be lost with the connection",
    .abort = "by closing the endpoint, without completions",
    .why =
        {
            [WEFT_LINE_NAME] = {"rxm over message endpoints of tcp; it talks only to itself", "fi_rxm(7); measured"},
            [WEFT_LINE_VERSION] = {"earlier ones were not tried with pass-through", "decision"},
            [WEFT_LINE_API] =
                {"the newest rules that weft was tried under; a library keeps the older ones for those who ask",
                 "fi_version(3); measured with 1.17 and 2.1"},
            [WEFT_LINE_CAPS] = {"buckets go as remote writes into slots that the receiver granted", "decision"},
            [WEFT_LINE_REFUSED] = {"nothing here needs messages, tags or atomics", "fi_tcp(7)"},
            [WEFT_LINE_ADDRESS] = {"as tcp", "measured with 1.17"},
            [WEFT_LINE_REGISTRATION] = {"no provider keys, as tcp", "measured with 1.17"},
            [WEFT_LINE_PINNING] = {"the kernel copies: no page is locked", "prov/tcp source"},
            [WEFT_LINE_CACHE] = {"no page is registered with a device, so there is nothing to keep",
                                 "prov/net and prov/tcp sources"},
            [WEFT_LINE_ORDER] = {"arrivals are counted and a bucket is whole when each chunk came once, so that EFA "
                                 "and TCP are one case",
                                 "decision"},
            [WEFT_LINE_IMMEDIATE] =
                {"epoch, slot and chunk of a write are 32 bits, which is what the narrowest provider carries",
                 "decision; verbs and efa sources, cq_data_size"},
            [WEFT_LINE_SIZE] = {"as tcp", "measured"},
            [WEFT_LINE_DEPTH] = {"as tcp", "measured"},
            [WEFT_LINE_OPTIONS] = {"none is needed", "fi_endpoint(3)"},
            [WEFT_LINE_ENVIRONMENT] =
                {"rxm hands each call on only when told so: otherwise it takes the context of a write for its own, and "
                 "a peer that dies or a port that closes in the middle of one crashes the receiver",
                 "measured with 1.17 and 2.1"},
            [WEFT_LINE_ENDPOINT] = {"as tcp", "measured"},
            [WEFT_LINE_WAIT] = {"as tcp", "measured with 1.17 and 2.1"},
            [WEFT_LINE_PROGRESS] =
                {"an end that does not poll accepts no connection and lands nothing, whatever FI_PROGRESS_AUTO says",
                 "measured with 1.17"},
            [WEFT_LINE_COMPLETION] = {"as tcp", "measured with 1.17"},
            [WEFT_LINE_ABORT] = {"operations end within 25 ms, without a completion", "measured with 1.17"},
            [WEFT_LINE_MIXING] = {"the protocol of rxm over tcp is that of 1.17 still", "measured: 1.17 with 2.1"},
        },
};

WEFT_FABRIC_PROVIDER(tcp, "tcp");
WEFT_FABRIC_PROVIDER(tcp_rxm, "tcp-rxm");
