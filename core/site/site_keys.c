/* site_keys.c - the key table: every key of the site file, its type, default, bounds and help. */
#include "site/site_keys.h"

#include <ctype.h>
#include <string.h>

#define KIB  (UINT64_C(1) << 10)
#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)
#define SEC  UINT64_C(1000)
#define MBIT UINT64_C(125000)
#define GBIT UINT64_C(125000000)

#define SITE(field)     .offset = offsetof(weft_site, field), .width = sizeof(((weft_site *)0)->field)
#define PEER(field)     .offset = offsetof(weft_site_peer, field), .width = sizeof(((weft_site_peer *)0)->field)
#define PROVIDER(field) .offset = offsetof(weft_site_provider, field), .width = sizeof(((weft_site_provider *)0)->field)
#define CUT(field)      .offset = offsetof(weft_site_cut, field), .width = sizeof(((weft_site_cut *)0)->field)
#define SOURCE(field)   .offset = offsetof(weft_site_trainer, field), .width = sizeof(((weft_site_trainer *)0)->field)
#define BOUNDS(a, b)    .low = (a), .high = (b)
#define WORD(text, n)   .word = (text), .word_number = (n)

#define BACKENDS  "auto | host | cuda | hip"
#define KERNELS   "auto | portable | avx2 | avx512"
#define DEADLINES "1ms..86400s"
#define PATH      "a path of at most 255 bytes, or empty"
#define KEY_PATH  "a path of at most 255 bytes in which * is the peer's name, or empty"

/* clang-format off */
static const weft_site_field fields[] = {
    {{"site", "name", WEFT_KEY_TEXT, "weft", "a name of 1 to 63 of a-z 0-9 _ -",
      "what logs call this site"}, SITE(name), .rule = WEFT_TEXT_NAME},

    {{"trainer", "listen", WEFT_KEY_TEXT, "127.0.0.1:7117", "host:port, port 0..65535, IPv6 in brackets",
      "where the trainer listens and rollouts dial; port 0 takes any free one"},
     SITE(trainer.listen), .rule = WEFT_TEXT_LISTEN},
    {{"trainer", "address", WEFT_KEY_TEXT, "", "1 to 8 different IPs or interfaces between commas, or empty",
      "local addresses of the trainer's fabric endpoints, a rail each; empty: the host of listen"},
     SITE(trainer.address), .rule = WEFT_TEXT_ADDRESS},
    {{"trainer", "model", WEFT_KEY_TEXT, "", "a path of at most 255 bytes, or empty",
      "model file that `weft trainer` binds when --model is not given"},
     SITE(trainer.model), .rule = WEFT_TEXT_ANY},
    {{"trainer", "backend", WEFT_KEY_CHOICE, "auto", BACKENDS,
      "where the weights live and what works on them"}, SITE(trainer.backend)},
    {{"trainer", "kernels", WEFT_KEY_CHOICE, "auto", KERNELS,
      "which loops the host backend runs"}, SITE(trainer.kernels)},
    {{"trainer", "device", WEFT_KEY_COUNT, "current", "current or 0..255",
      "number of the accelerator"}, SITE(trainer.device), BOUNDS(0, 255), WORD("current", UINT64_MAX)},
    {{"trainer", "device_memory", WEFT_KEY_SIZE, "auto", "auto or 384MiB..1024GiB",
      "bytes of the accelerator's memory that weft takes at most"},
     SITE(trainer.device_memory), BOUNDS(384 * MIB, 1024 * GIB), WORD("auto", 0)},
    {{"trainer", "shadow", WEFT_KEY_CHOICE, "auto", "auto | host | device",
      "where the trainer keeps the bits published last; auto: on the device of the weights, if half of what is free there "
      "is enough"},
     SITE(trainer.shadow)},
    {{"trainer", "journal", WEFT_KEY_SIZE, "auto", "auto or 16MiB..1024GiB",
      "memory that keeps encoded updates for peers that are behind; auto follows the model's size"},
     SITE(trainer.journal), BOUNDS(16 * MIB, 1024 * GIB), WORD("auto", 0)},
    {{"trainer", "threads", WEFT_KEY_COUNT, "auto", "auto or 1..64",
      "threads that find and encode changes, the publishing one included; auto takes half of the CPUs, at most 8"},
     SITE(trainer.threads), BOUNDS(1, 64), WORD("auto", 0)},
    {{"trainer", "max_peers", WEFT_KEY_COUNT, "64", "1..4096",
      "peers at most at one time"}, SITE(trainer.max_peers), BOUNDS(1, 4096)},
    {{"trainer", "join_deadline", WEFT_KEY_TIME, "30s", DEADLINES,
      "how long `weft trainer --versions` waits for the site's peers before it starts"},
     SITE(trainer.join_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"trainer", "store", WEFT_KEY_TEXT, "", PATH,
      "folder that each version is written to, beside publish; empty: none"}, SITE(trainer.store), .rule = WEFT_TEXT_ANY},
    {{"trainer", "store_versions", WEFT_KEY_COUNT, "any", "any or 1..1000000",
      "versions that the store keeps; older ones go, up to an anchor"},
     SITE(trainer.store_versions), BOUNDS(1, 1000000), WORD("any", 0)},
    {{"trainer", "store_bytes", WEFT_KEY_SIZE, "any", "any or 1MiB..1048576GiB",
      "bytes that the store keeps; older versions go, up to an anchor"},
     SITE(trainer.store_bytes), BOUNDS(MIB, 1024 * 1024 * GIB), WORD("any", 0)},
    {{"trainer", "store_level", WEFT_KEY_CHOICE, "fast", "fast | tight",
      "level of the store's updates; tight writes a smaller one beside each, for readers that go forward"},
     SITE(trainer.store_level)},

    {{"peer", "address", WEFT_KEY_TEXT, "", "1 to 8 different IPs or interfaces between commas, or empty",
      "local addresses of the rollout, each joined with the trainer's of its place; empty: what reaches the trainer"},
     PEER(address), .rule = WEFT_TEXT_ADDRESS},
    {{"peer", "provider", WEFT_KEY_CHOICE, "tcp", "auto | tcp | tcp-rxm | stream | verbs | efa | efa-direct | shm | loop",
      "fabric that carries the data; a named one is never replaced by another"}, PEER(provider)},
    {{"peer", "backend", WEFT_KEY_CHOICE, "auto", BACKENDS,
      "where the weights live and what works on them"}, PEER(backend)},
    {{"peer", "kernels", WEFT_KEY_CHOICE, "auto", KERNELS,
      "which loops the host backend runs"}, PEER(kernels)},
    {{"peer", "device", WEFT_KEY_COUNT, "current", "current or 0..255",
      "number of the accelerator"}, PEER(device), BOUNDS(0, 255), WORD("current", UINT64_MAX)},
    {{"peer", "device_memory", WEFT_KEY_SIZE, "auto", "auto or 384MiB..1024GiB",
      "bytes of the accelerator's memory that weft takes at most"},
     PEER(device_memory), BOUNDS(384 * MIB, 1024 * GIB), WORD("auto", 0)},
    {{"peer", "bucket", WEFT_KEY_SIZE, "auto", "auto or 64KiB..1GiB",
      "bytes of one bucket; auto follows the measured link between bucket_min and bucket_max"},
     PEER(bucket), BOUNDS(64 * KIB, GIB), WORD("auto", 0)},
    {{"peer", "bucket_start", WEFT_KEY_SIZE, "512KiB", "64KiB..1GiB",
      "what auto starts with while nothing is measured, kept between bucket_min and bucket_max"},
     PEER(bucket_start), BOUNDS(64 * KIB, GIB)},
    {{"peer", "bucket_min", WEFT_KEY_SIZE, "64KiB", "64KiB..1GiB",
      "smallest bucket that auto may choose"}, PEER(bucket_min), BOUNDS(64 * KIB, GIB)},
    {{"peer", "bucket_max", WEFT_KEY_SIZE, "auto", "auto or 64KiB..1GiB",
      "largest bucket, and the memory of one slot; at least the layout's largest frame; auto: 4MiB, less if the model is"},
     PEER(bucket_max), BOUNDS(64 * KIB, GIB), WORD("auto", 0)},
    {{"peer", "window", WEFT_KEY_COUNT, "4", "1..256",
      "slots, that is buckets under way at once; the rollout holds window x bucket_max bytes"},
     PEER(window), BOUNDS(1, 256)},
    {{"peer", "streams", WEFT_KEY_COUNT, "1", "1..8",
      "connections a rail that carry the data side by side; the fewer of what trainer and rollout say"},
     PEER(streams), BOUNDS(1, 8)},
    {{"peer", "staging", WEFT_KEY_SIZE, "auto", "auto or 1MiB..1024GiB",
      "rollout's memory for a decoded update; a larger one is kept encoded; auto follows the model's size"},
     PEER(staging), BOUNDS(MIB, 1024 * GIB), WORD("auto", 0)},
    {{"peer", "encoded", WEFT_KEY_SIZE, "auto", "auto or 0GiB..1024GiB",
      "rollout's memory for an update beyond staging, kept encoded; a larger one is served as a snapshot; auto: half of staging"},
     PEER(encoded), BOUNDS(0, 1024 * GIB), WORD("auto", UINT64_MAX)},
    {{"peer", "level", WEFT_KEY_CHOICE, "auto", "auto | full | pairs | fast | tight",
      "how updates are coded for this peer"}, PEER(level)},
    {{"peer", "snapshot_coding", WEFT_KEY_CHOICE, "auto", "auto | planes | verbatim",
      "how a snapshot's tiles are coded for this peer; auto packs them for links slower than packing"},
     PEER(snapshot_coding)},
    {{"peer", "rate_limit", WEFT_KEY_RATE, "none", "none or 1Mbit/s..10000Gbit/s",
      "the trainer, or the relay that it is behind, sends to this peer no faster"},
     PEER(rate_limit), BOUNDS(MBIT, 10000 * GBIT), WORD("none", 0)},
    {{"peer", "max_lag", WEFT_KEY_COUNT, "none", "none or 1..1000000",
      "versions that the peer may lack, of those published since it joined, before lag_action is taken"},
     PEER(max_lag), BOUNDS(1, 1000000), WORD("none", 0)},
    {{"peer", "lag_action", WEFT_KEY_CHOICE, "warn", "warn | drop",
      "what happens beyond max_lag: an event, or the peer is lost and may join again"}, PEER(lag_action)},
    {{"peer", "heartbeat", WEFT_KEY_TIME, "5s", "100ms..3600s",
      "silence after which the peer is lost"}, PEER(heartbeat_ms), BOUNDS(100, 3600 * SEC)},
    {{"peer", "via", WEFT_KEY_TEXT, "trainer", "trainer, or 1 to 4 peers between commas",
      "relays that this peer joins through, the next when one is dead; trainer joins the trainer itself"},
     PEER(via), .rule = WEFT_TEXT_VIA},
    {{"peer", "last_resort", WEFT_KEY_CHOICE, "trainer", "trainer | none",
      "where a peer with via turns when no relay that it names answers"}, PEER(last_resort)},
    {{"peer", "relay", WEFT_KEY_TEXT, "", "host:port, IPv6 in brackets, or empty",
      "where this peer listens for those behind it and passes updates on to them; empty: it is no relay"},
     PEER(relay), .rule = WEFT_TEXT_LISTEN},
    {{"peer", "relay_memory", WEFT_KEY_SIZE, "256MiB", "1MiB..1024GiB",
      "relay's memory for passing on: half for what all share, half for two slots of bucket_max per peer behind it"},
     PEER(relay_memory), BOUNDS(MIB, 1024 * GIB)},
    {{"peer", "key_file", WEFT_KEY_TEXT, "", KEY_PATH,
      "with mode = tls, the key by which this peer proves its name; empty: that of [security]"},
     PEER(key_file), .rule = WEFT_TEXT_ANY},
    {{"peer", "key_file_next", WEFT_KEY_TEXT, "", KEY_PATH,
      "second key that is accepted for this peer while keys change; the file may be absent"},
     PEER(key_file_next), .rule = WEFT_TEXT_ANY},

    {{"provider", "address", WEFT_KEY_TEXT, "", "1 to 8 different IPs or interfaces between commas, or empty",
      "as [trainer] address, for peers of this provider, and where relays send by it; empty: as for the others"},
     PROVIDER(address), .rule = WEFT_TEXT_ADDRESS},
    {{"provider", "chunk", WEFT_KEY_SIZE, "auto", "auto or 4KiB..1GiB",
      "largest single write; auto takes the provider's profile"},
     PROVIDER(chunk), BOUNDS(4 * KIB, GIB), WORD("auto", 0)},
    {{"provider", "depth", WEFT_KEY_COUNT, "auto", "auto or 1..65536",
      "writes in flight per endpoint; auto takes the provider's profile"},
     PROVIDER(depth), BOUNDS(1, 65536), WORD("auto", 0)},
    {{"provider", "ports", WEFT_KEY_TEXT, "auto", "auto, or LOW-HIGH within 1024..65535",
      "TCP ports that tcp and tcp-rxm endpoints of this host listen on, one per peer and stream; auto: any free one"},
     PROVIDER(ports), .rule = WEFT_TEXT_PORTS},

    {{"cut", "tensors", WEFT_KEY_TEXT, "", "patterns of tensors' names between commas, or empty",
      "tensors that the cut is for; empty takes all, where by is layer or expert"},
     CUT(tensors), .rule = WEFT_TEXT_ANY},
    {{"cut", "rows", WEFT_KEY_COUNT, "none", "none or 1..65536",
      "equal parts of the rows; of a vector, of its elements"}, CUT(rows), BOUNDS(1, 65536), WORD("none", 0)},
    {{"cut", "columns", WEFT_KEY_COUNT, "none", "none or 1..65536",
      "equal parts of the columns"}, CUT(columns), BOUNDS(1, 65536), WORD("none", 0)},
    {{"cut", "middle", WEFT_KEY_COUNT, "none", "none or 1..65536",
      "equal parts of the last dimension but one, within each index of the dimensions before it"},
     CUT(middle), BOUNDS(1, 65536), WORD("none", 0)},
    {{"cut", "pad", WEFT_KEY_COUNT, "none", "none or 1..4294967296",
      "rows, columns or middle are rounded up to a multiple of this number before they are parted"},
     CUT(pad), BOUNDS(1, UINT64_C(1) << 32), WORD("none", 0)},
    {{"cut", "by", WEFT_KEY_CHOICE, "none", "none | rows | columns | middle | layer | expert",
      "what `at` counts, or expert for groups"}, CUT(by)},
    {{"cut", "at", WEFT_KEY_TEXT, "", "1 to 128 rising numbers between commas, or empty",
      "where parts begin; a leading 0 may be left out"}, CUT(at), .rule = WEFT_TEXT_NUMBERS},
    {{"cut", "groups", WEFT_KEY_COUNT, "none", "none or 1..65536",
      "equal groups of experts, with by = expert"}, CUT(groups), BOUNDS(1, 65536), WORD("none", 0)},

    {{"source", "listen", WEFT_KEY_TEXT, "", "host:port, port 0..65535, IPv6 in brackets, or empty",
      "where this one of several trainers listens; empty: where [trainer] listen says"},
     SOURCE(listen), .rule = WEFT_TEXT_LISTEN},
    {{"source", "holding", WEFT_KEY_TEXT, "", "a path of at most 255 bytes, or empty",
      "share file of what this trainer contributes (docs/SHARDING.md)"}, SOURCE(holding), .rule = WEFT_TEXT_ANY},

    {{"session", "progress", WEFT_KEY_CHOICE, "thread", "thread | manual",
      "who moves the data: a thread of the session, or the caller through weft_progress"}, SITE(session.progress)},
    {{"session", "connect_deadline", WEFT_KEY_TIME, "30s", DEADLINES,
      "how long a rollout tries to reach the trainer, and either end waits at open for links that are not up"},
     SITE(session.connect_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"session", "close_deadline", WEFT_KEY_TIME, "2s", DEADLINES,
      "how long closing waits for goodbyes"}, SITE(session.close_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"session", "io_deadline", WEFT_KEY_TIME, "10s", DEADLINES,
      "a bucket that makes no progress for this long loses the peer"},
     SITE(session.io_deadline_ms), BOUNDS(1, 86400 * SEC)},
    {{"session", "device_deadline", WEFT_KEY_TIME, "120s", "1s..86400s",
      "how long a job waits for other work on the device before it fails; the device is not lost for that"},
     SITE(session.device_deadline_ms), BOUNDS(SEC, 86400 * SEC)},

    {{"commit", "snapshot", WEFT_KEY_CHOICE, "in_place", "in_place | staged",
      "where a snapshot lands: over the weights, or beside them at the price of that memory"},
     SITE(commit.snapshot)},
    {{"commit", "verify", WEFT_KEY_CHOICE, "touched", "touched | full",
      "which weights are compared with what is held before an update is staged: those it changes, or all"},
     SITE(commit.verify)},
    {{"commit", "deadline", WEFT_KEY_TIME, "30s", DEADLINES,
      "a commit that receives a snapshot fails when nothing arrives for this long"},
     SITE(commit.deadline_ms), BOUNDS(1, 86400 * SEC)},

    {{"security", "mode", WEFT_KEY_CHOICE, "loopback", "loopback | open | tls",
      "loopback refuses to listen beyond this machine; open lets anyone join who reaches the port; tls asks for proof"},
     SITE(security)},
    {{"security", "key_file", WEFT_KEY_TEXT, "", KEY_PATH,
      "with mode = tls, the key of all peers that have none of their own (`weft key FILE` makes one)"},
     SITE(proof.key_file), .rule = WEFT_TEXT_ANY},
    {{"security", "key_file_next", WEFT_KEY_TEXT, "", KEY_PATH,
      "second key that is accepted while keys change; the file may be absent"},
     SITE(proof.key_file_next), .rule = WEFT_TEXT_ANY},
    {{"security", "ca", WEFT_KEY_TEXT, "", PATH,
      "with mode = tls and certificates, a PEM file of those that are trusted to sign them"},
     SITE(proof.ca), .rule = WEFT_TEXT_ANY},
    {{"security", "certificate", WEFT_KEY_TEXT, "", PATH,
      "PEM file of this end's certificate and its chain; its DNS name is the peer's name, or trainer"},
     SITE(proof.certificate), .rule = WEFT_TEXT_ANY},
    {{"security", "key", WEFT_KEY_TEXT, "", PATH,
      "PEM file of the private key for the certificate, which nobody else may read"},
     SITE(proof.key), .rule = WEFT_TEXT_ANY},
    {{"security", "replace", WEFT_KEY_CHOICE, "no", "no | yes",
      "with mode = tls, whether a live peer's name goes to a second connection that proves it"}, SITE(replace)},
    {{"security", "guests", WEFT_KEY_COUNT, "512", "1..512",
      "connections that have not said who they are, at one time; one more costs one of the host with most its place"},
     SITE(guests.most), BOUNDS(1, 512)},
    {{"security", "guests_per_address", WEFT_KEY_COUNT, "128", "1..512",
      "the same of one address; one more is closed"},
     SITE(guests.of_address), BOUNDS(1, 512)},
    {{"security", "guest_deadline", WEFT_KEY_TIME, "5s", "100ms..60s",
      "time within which a connection proves its name and says who it is"},
     SITE(guests.deadline_ms), BOUNDS(100, 60 * SEC)},
    {{"security", "guest_bytes", WEFT_KEY_SIZE, "64KiB", "4KiB..1MiB",
      "with mode = tls, bytes that a connection may send before its name is proved"},
     SITE(guests.bytes), BOUNDS(4 * KIB, MIB)},

    {{"log", "level", WEFT_KEY_CHOICE, "info", "error | warn | info | debug",
      "the least important lines still written"}, SITE(log_level)},
};
/* clang-format on */

static const char *const providers[] = {"tcp", "tcp-rxm", "stream", "verbs", "efa", "efa-direct", "shm", "loop"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(COUNT(fields) <= WEFT_SITE_ROWS, "a section has an index per row");
_Static_assert(sizeof(weft_choice_level) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_replace) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_last) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_coding) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_choice_by) == sizeof(unsigned), "choices land as unsigned");
_Static_assert(sizeof(weft_log_level) == sizeof(unsigned), "choices land as unsigned");

const weft_site_field *weft_site_field_at(uint64_t index)
{
    return index < COUNT(fields) ? &fields[index] : NULL;
}

uint64_t weft_site_field_index(const weft_site_field *field)
{
    return (uint64_t)(field - fields);
}

const weft_key *weft_key_at(size_t index)
{
    return index < COUNT(fields) ? &fields[index].key : NULL;
}

const char *weft_site_provider_at(uint64_t index)
{
    return index < COUNT(providers) ? providers[index] : NULL;
}

const weft_site_field *weft_site_field_of(const char *section, const char *key)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (!strcmp(fields[i].key.section, section) && !strcmp(fields[i].key.key, key))
            return &fields[i];
    }
    return NULL;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t weft_site_distance(const char *a, const char *b)
{
    uint32_t row[WEFT_SITE_NAME];
    uint32_t na = (uint32_t)strnlen(a, WEFT_SITE_NAME - 1), nb = (uint32_t)strnlen(b, WEFT_SITE_NAME - 1);
    for (uint32_t j = 0; j <= nb; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t corner = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            int differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            uint32_t replaced = corner + (differ ? 1 : 0);
            corner = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[nb];
}

const char *weft_site_field_near(const char *section, const char *key)
{
    const char *near = NULL;
    uint32_t best = (uint32_t)strnlen(key, WEFT_SITE_NAME - 1) / 3 + 2;
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (strcmp(fields[i].key.section, section))
            continue;
        uint32_t distance = weft_site_distance(fields[i].key.key, key);
        if (distance < best) {
            best = distance;
            near = fields[i].key.key;
        }
    }
    return near;
}
