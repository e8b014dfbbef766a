/* standin_rules.c - a row a provider: written, as the profiles are, from documentation and users' reports. Sizes are
 * smaller than a device's so that tests reach them. */
#include "tests/support/standin.h"

#include <errno.h>

#define VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

static const standin_rules rows[] = {
    {
        .provider = "verbs",
        .fabric = "verbs;ofi_rxm",
        .network = "IB-0xfe80000000000000",
        .domain = "mlx5_0",
        .message_caps = true,
        .has_fd = true,
        .option_error = ENOSYS,
        .tx_size = 8,
        .rx_size = 8,
        .message_bytes = UINT64_C(1) << 30,
        .stall_every = 40, /* receiver not ready: the adapter waits and tries again */
        .stall_ms = 15,
        .death = STANDIN_DEATH_LATE, /* after all retries of the adapter, which are seconds on a device */
        .late_ms = 300,
    },
    {
        .provider = "efa",
        .fabric = "efa",
        .network = "efa",
        .domain = "rdmap0s6-rdm",
        .raw_address = true,
        .message_caps = true,
        .lands_after_close = true,
        .version = VERSION(1, 20),
        .tx_size = 6,
        .rx_size = 8,
        .message_bytes = UINT64_C(1) << 30,
        .window = 5, /* the network takes every packet another way */
        .again_every = 50,
        .again_ms = 20,
        .death = STANDIN_DEATH_SILENT, /* "completions may never be generated" */
    },
    {
        .provider = "efa-direct",
        .fabric = "efa",
        .network = "efa-direct",
        .domain = "rdmap0s6-rdm",
        .raw_address = true,
        .message_caps = true,
        .scribbles = true,
        .lands_after_close = true,
        .option_error = EOPNOTSUPP,
        .version = VERSION(2, 1),
        .tx_size = 4,
        .rx_size = 4,
        .message_bytes = UINT64_C(64) << 10,
        .window = 3,
        .again_every = 30,
        .again_ms = 30,
        .death = STANDIN_DEATH_SILENT,
    },
    {
        .provider = "shm",
        .play = "played-shm",
        .fabric = "shm",
        .network = "shm",
        .domain = "shm",
        .own_keys = true,
        .raw_address = true,
        .lands_after_close = true,
        .tx_size = 5,
        .message_bytes = UINT64_MAX,
        .again_every = 20, /* a lock in the shared segment that another process holds */
        .again_ms = 25,
        .death = STANDIN_DEATH_SILENT,
    },
    {
        .provider = "tcp-rxm",
        .play = "played-rxm",
        .fabric = "tcp;ofi_rxm",
        .network = "127.0.0.0/8",
        .domain = "lo",
        .own_keys = true,
        .passes_through = true,
        .has_fd = true,
        .tx_size = 16,
        .message_bytes = UINT64_MAX,
        .again_every = 40, /* connections are made anew, and whatever is posted meanwhile is put off */
        .again_ms = 15,
        .death = STANDIN_DEATH_LATE,
        .late_ms = 100,
    },
};

const standin_rules *standin_at(size_t index)
{
    return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}
