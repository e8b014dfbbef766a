/* verbs.c - InfiniBand and RoCE through libfabric's verbs provider under rxm. Written from its documentation, its
 * source and its users' reports; it has not run on a device. */
#include "providers/profile.h"

const weft_profile weft_profile_verbs = {
    .name = "verbs",
    .names = {{0, "verbs;ofi_rxm"}},
    .newest_api = WEFT_FABRIC_VERSION(2, 0),
    .caps = WEFT_CAP_WRITE | WEFT_CAP_MESSAGE,
    .addressing = WEFT_ADDRESS_SOURCE,
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED | WEFT_MR_PROVIDER_KEY,
    .pins = true,
    .cache = "left as the process has it (FI_MR_CACHE_MONITOR=disabled turns it off)",
    .immediate_bytes = 4,
    .chunk_bytes = UINT64_C(1) << 20,
    .chunk_max = UINT64_C(1) << 30,
    .depth = 16,
    .depth_max = 256,
    .environment = {{"RDMAV_FORK_SAFE", "1", WEFT_DUTY_WARN,
                     "without it a fork in this process can take pinned pages away from the device"},
                    {"RDMAV_HUGEPAGES_SAFE", "1", WEFT_DUTY_WARN,
                     "slabs lie in huge pages where the kernel gives them, and fork safety must know"}},
    .wait = WEFT_WAIT_FD,
    .device = WEFT_DEVICE_RDMA,
    .absent = "check `ibv_devices`, `rdma link` and `fi_info -p verbs`; the device's user-space library (rdma-core, "
              "ibverbs-providers) must be installed",
    .completion = "a completed write was acknowledged by the remote adapter",
    .abort = "by closing the endpoint; the receiver closes its own, because the keys are not weft's",
    .why =
        {
            [WEFT_LINE_NAME] = {"verbs itself has no RDM endpoints that are not deprecated",
                                "fi_verbs(7), Endpoint types"},
            [WEFT_LINE_VERSION] = {"none is known to lack what is asked", "fi_verbs(7)"},
            [WEFT_LINE_API] =
                {"the newest rules that weft was tried under; a library keeps the older ones for those who ask",
                 "fi_version(3); measured with 1.17 and 2.1"},
            [WEFT_LINE_CAPS] =
                {"rxm posts the receives that an immediate consumes, and grants no writes without messages",
                 "fi_verbs(7), FI_RX_CQ_DATA"},
            [WEFT_LINE_REFUSED] = {"rendezvous sends of rxm have deadlocked at open and crashed at close: only writes "
                                   "are used",
                                   "users' reports; fi_rxm(7)"},
            [WEFT_LINE_ADDRESS] = {"the IP of the port's network interface, IPoIB too: connections go through the RDMA "
                                   "CM, which takes the GID of that IP",
                                   "fi_verbs(7), Requirements"},
            [WEFT_LINE_REGISTRATION] =
                {"the device makes the keys, 32-bit ones: a restarted receiver is told apart by its endpoint's address",
                 "fi_verbs(7): only FI_MR_BASIC; prov/verbs source, verbs_domain_attr"},
            [WEFT_LINE_PINNING] = {"registered pages are locked, and count against the limit of the process",
                                   "ibv_reg_mr(3), fi_mr(3)"},
            [WEFT_LINE_CACHE] =
                {"weft registers a slab once and keeps it, so that it gains nothing; with a monitor on, "
                 "verbs keeps registrations by address after they are closed and lets peers read them; "
                 "a dmabuf passes it by. The monitor is one for the process, others may need it",
                 "prov/verbs source, vrb_mr_cache_reg and vrb_reg_dmabuf; fi_mr(3), Memory Registration "
                 "Cache"},
            [WEFT_LINE_ORDER] = {"arrivals are counted and a bucket is whole when each chunk came once, so that EFA "
                                 "and TCP are one case",
                                 "decision"},
            [WEFT_LINE_IMMEDIATE] =
                {"epoch, slot and chunk of a write are 32 bits, which is what the narrowest provider carries",
                 "decision; verbs and efa sources, cq_data_size"},
            [WEFT_LINE_SIZE] = {"far above the knee of size against rate, cheap to abandon; devices take 1 to 2 GiB, "
                                "which rxm does not tell",
                                "prov/verbs source, max_msg_sz; prov/rxm source"},
            [WEFT_LINE_DEPTH] = {"a port of 400 Gbit/s holds 1 MiB for 21 us, 16 cover a slow poll; below "
                                 "FI_VERBS_TX_SIZE (384), for a completion queue that overflows is unusable",
                                 "fi_verbs(7)"},
            [WEFT_LINE_OPTIONS] = {"rxm hands writes to the adapter, which moves memory of a device itself or not at "
                                   "all, and refuses to be told so",
                                   "prov/rxm source, rxm_ep_setopt; fi_endpoint(3), FI_OPT_FI_HMEM_P2P"},
            [WEFT_LINE_ENVIRONMENT] = {"pinned pages and fork", "fi_verbs(7), Fork; ibv_fork_init(3)"},
            [WEFT_LINE_ENDPOINT] = {"closing it is the only abort", "decision, as measured with tcp"},
            [WEFT_LINE_WAIT] = {"message endpoints have a descriptor, and rxm passes it on",
                                "fi_verbs(7), Wait objects"},
            [WEFT_LINE_PROGRESS] = {"rxm makes connections only while its queue is read", "fi_rxm(7)"},
            [WEFT_LINE_COMPLETION] = {"reliable connections: the remote adapter has acknowledged, the bytes may not be "
                                      "visible to the CPU yet",
                                      "InfiniBand specification, RC; prov/verbs source, FI_TRANSMIT_COMPLETE"},
            [WEFT_LINE_ABORT] = {"as tcp-rxm; a region with a remote key stays registered until its endpoint is closed",
                                 "decision"},
            [WEFT_LINE_MIXING] = {"rxm has one wire protocol", "fi_rxm(7)"},
        },
};

WEFT_FABRIC_PROVIDER(verbs, "verbs");
