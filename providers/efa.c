/* efa.c - the Elastic Fabric Adapter, by either of its two fabrics. Written from its documentation, its source and its
 * users' reports; it has not run on a device. */
#include "providers/profile.h"

/* What is true of both fabrics, and why. */
#define EFA_FACTS                                                                                                      \
    .names = {{0, "efa"}}, .newest_api = WEFT_FABRIC_VERSION(2, 0), .caps = WEFT_CAP_WRITE | WEFT_CAP_MESSAGE,         \
    .addressing = WEFT_ADDRESS_DOMAIN,                                                                                 \
    .registration = WEFT_MR_LOCAL | WEFT_MR_VIRTUAL_ADDRESS | WEFT_MR_ALLOCATED | WEFT_MR_PROVIDER_KEY, .pins = true,  \
    .cache = "left as the process has it (FI_MR_CACHE_MONITOR=disabled turns it off)", .immediate_bytes = 4,           \
    .chunk_bytes = UINT64_C(1) << 20, .chunk_max = UINT64_C(1) << 30, .depth = 16, .depth_max = 256,                   \
    .environment = {{"FI_EFA_FORK_SAFE", "1", WEFT_DUTY_WARN,                                                          \
                     "without it a fork in this process can take pinned pages away from the device"}},                 \
    .wait = WEFT_WAIT_SLEEP, .device = WEFT_DEVICE_EFA,                                                                \
    .completion = "a completed write was acknowledged by the remote adapter; delivery is unordered",                   \
    .abort = "by closing the endpoint; the receiver closes its own, because the keys are not weft's"
#define EFA_SETTINGS                                                                                                   \
    {WEFT_OPTION_RNR_RETRY, 7}, {WEFT_OPTION_SHARED_MEMORY, 0}, {WEFT_OPTION_CUDA_API, 0},                             \
    {                                                                                                                  \
        WEFT_OPTION_EMULATED_WRITE, 0                                                                                  \
    }
#define EFA_REASONS                                                                                                    \
    [WEFT_LINE_API] = {"the newest rules that weft was tried under; a library keeps the older ones for those who ask", \
                       "fi_version(3); measured with 1.17 and 2.1"},                                                   \
    [WEFT_LINE_ADDRESS] =                                                                                              \
        {"a device such as rdmap16s27-rdm; its addresses are no IPs, and a host has up to 32 of them",                 \
         "fi_info -p efa; prov/efa source, efa_prov_info.c"},                                                          \
    [WEFT_LINE_REGISTRATION] = {"the device makes the keys; local descriptors keep the provider from copying",         \
                                "prov/efa source, efa_domain_attr"},                                                   \
    [WEFT_LINE_PINNING] = {"registered pages are locked, and count against the limit of the process",                  \
                           "ibv_reg_mr(3), fi_mr(3)"},                                                                 \
    [WEFT_LINE_CACHE] = {"weft registers a slab once and keeps it, so that it gains nothing; explicit registrations "  \
                         "pass it by. The monitor is one for the process, others may need it",                         \
                         "prov/efa source, efa_domain.c; fi_mr(3), Memory Registration Cache"},                        \
    [WEFT_LINE_ORDER] =                                                                                                \
        {"the device delivers out of order, may write the same bytes twice before it reports them, and puts "          \
         "nothing in order for writes: arrivals are counted, a slot is read only when all came",                       \
         "fi_efa(7); aws-ofi-nccl pull request 280"},                                                                  \
    [WEFT_LINE_IMMEDIATE] =                                                                                            \
        {"epoch, slot and chunk of a write are 32 bits, which is what the narrowest provider carries",                 \
         "decision; verbs and efa sources, cq_data_size"},                                                             \
    [WEFT_LINE_SIZE] = {"it wants messages of 512 KiB to 1 MiB", "users' reports; prov/efa source, max_rdma_size"},    \
    [WEFT_LINE_DEPTH] = {"in flight is limited for the endpoint as a whole by its transmit queue",                     \
                         "prov/efa source, tx_attr size"},                                                             \
    [WEFT_LINE_OPTIONS] =                                                                                              \
        {"7 retries for ever, a late receiver is the heartbeat's matter; no shared memory, one path for all "          \
         "peers; no calls into CUDA from under an engine, which can deadlock with it; "                                \
         "a device that emulates writes with messages is warned of; on the fabric efa an "                             \
         "arrival consumes a receive, so that a sender waits where the queue would overflow (the fabric efa-direct "   \
         "has no receives: its queue has room for all that is granted)",                                               \
         "fi_efa(7), fi_endpoint(3); nixl pull request 1084"},                                                         \
    [WEFT_LINE_ENVIRONMENT] = {"pinned pages and fork; not both fork safety and huge pages before kernel 5.12",        \
                               "fi_efa(7), FI_EFA_FORK_SAFE"},                                                         \
    [WEFT_LINE_ENDPOINT] = {"queue pairs are few, one endpoint for all peers is the aim, once there is a "             \
                            "device to prove the share of its queue on",                                               \
                            "prov/efa source, ep_cnt"},                                                                \
    [WEFT_LINE_WAIT] = {"its completion queues have no wait object in the versions written for",                       \
                        "fi_efa(7), Completion events"},                                                               \
    [WEFT_LINE_COMPLETION] = {"the remote adapter has acknowledged; completions of a dead peer may never come",        \
                              "fi_efa(7), FI_TRANSMIT_COMPLETE; users' reports"},                                      \
    [WEFT_LINE_ABORT] = {"cancel and removal of addresses promise nothing; the address dies with the endpoint",        \
                         "prov/efa source"}

const weft_profile weft_profile_efa = {
    .name = "efa",
    .never = "efa-direct",
    .oldest = WEFT_FABRIC_VERSION(1, 18),
    .reach = WEFT_REACH_REMOTE,
    .absent = "check `lspci | grep EFA`, `ibv_devices` and `fi_info -p efa`; the instance type must have EFA, with its "
              "driver loaded",
    EFA_FACTS,
    .settings = {EFA_SETTINGS, {WEFT_OPTION_UNSOLICITED, 0}},
    .why =
        {
            EFA_REASONS,
            [WEFT_LINE_NAME] = {"one provider name stands for two fabrics from 2.1 on, and fi_getinfo lists efa-direct "
                                "first: it is refused here, for it does not talk to this one",
                                "fi_efa(7) of 2.1; libfabric pull request 10735"},
            [WEFT_LINE_VERSION] =
                {"older ones emulate remote writes with messages and lack the options that keep writes on the device",
                 "fi_efa(7), FI_OPT_EFA_EMULATED_WRITE (from 1.18 on)"},
            [WEFT_LINE_CAPS] = {"its handshake between endpoints is a message", "prov/efa docs, efa_rdm_protocol"},
            [WEFT_LINE_REFUSED] = {"local communication is not asked for, which keeps shared memory out",
                                   "prov/efa source, efa_user_info.c"},
            [WEFT_LINE_PROGRESS] = {"connections and retries advance only while the queue is read",
                                    "fi_efa(7), Progress; prov/efa source"},
            [WEFT_LINE_MIXING] = {"both ends negotiate what they can", "prov/efa docs, efa_rdm_protocol"},
        },
};

const weft_profile weft_profile_efa_direct = {
    .name = "efa-direct",
    .only = "efa-direct",
    .oldest = WEFT_FABRIC_VERSION(2, 1),
    .absent = "its device needs RDMA read and write, and writes that need no receive; check `fi_info -p efa`, which "
              "lists the fabric efa-direct",
    EFA_FACTS,
    .settings = {EFA_SETTINGS},
    .why =
        {
            EFA_REASONS,
            [WEFT_LINE_NAME] =
                {"the device without the protocols that the efa fabric puts over it; it does not talk to that one",
                 "fi_efa(7) of 2.1; libfabric pull request 10735"},
            [WEFT_LINE_VERSION] = {"the fabric efa-direct begins there", "libfabric pull request 10735"},
            [WEFT_LINE_CAPS] = {"writes are granted where the device has both RDMA read and RDMA write",
                                "prov/efa source, efa_prov_info.c"},
            [WEFT_LINE_REFUSED] = {"FI_RX_CQ_DATA is not offered: no receives are posted, so the device must take "
                                   "immediates without them",
                                   "prov/efa source, efa_user_info.c"},
            [WEFT_LINE_PROGRESS] = {"the device advances by itself, the queue must be read",
                                    "fi_efa(7), Progress; prov/efa source"},
            [WEFT_LINE_MIXING] = {"the device's own protocol, no other above it", "prov/efa docs, efa_rdm_protocol"},
        },
};

WEFT_FABRIC_PROVIDER(efa, "efa");
WEFT_FABRIC_PROVIDER(efa_direct, "efa-direct");
