#include "tools/check/check_sizes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "encode/staging.h"
#include "rollout/sizes_rollout.h"
#include "tools/output.h"
#include "trainer/sizes_trainer.h"

#define ONE_PERCENT 1.0

typedef unsigned long long ull;

/* The questions, and the place of the answers. */
typedef struct question {
    const weft_site *site;
    const weft_layout *layout;
    weft_mem_host memory;
    json_t *warnings;
} question;

static void __attribute__((format(printf, 2, 3))) warn(const question *q, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_array_append_new(q->warnings, json_string(text));
}

static json_t *size_json(const weft_size *size)
{
    return json_pack("{s:I, s:b, s:s, s:f}", "bytes", (json_int_t)size->bytes, "auto", size->automatic, "why",
                     size->why, "percent", size->percent);
}

/* The backend whose memory an end's change lists take; one that is not here is judged as a host. */
static const weft_backend *backend_of(const char *name)
{
    const weft_backend *backend = weft_backend_find(name);
    return backend ? backend : weft_backend_find("host");
}

/* ---- warnings */

static void judge_host(const question *q, const char *end, uint64_t bytes)
{
    const uint64_t all = bytes + q->layout->bytes;
    if (all > q->memory.available)
        warn(q, "%s: up to %.1f MB with the weights; this host has %.1f MB (%s)", end, (double)all / 1e6,
             (double)q->memory.available / 1e6, q->memory.by);
}

static void judge_journal(const question *q, const weft_trainer_sizes *sizes)
{
    char text[WEFT_SIZE_PRINTED];
    const uint64_t one = weft_size_journal_for(weft_size_kept(q->layout, ONE_PERCENT));
    if (sizes->journal.bytes < one)
        warn(q,
             "trainer: an update of 1 %% does not fit its journal: every peer gets a snapshot instead; raise "
             "[trainer] journal to at least %s",
             weft_size_print(one, text));
}

static void judge_peer(const question *q, const weft_site_peer *peer, const char *name, const weft_rollout_sizes *sizes)
{
    char text[WEFT_SIZE_PRINTED];
    const uint64_t one = weft_size_staged(q->layout, ONE_PERCENT), least = weft_staging_largest(q->layout);
    if (sizes->staging.bytes < least)
        warn(q, "%s: staging does not hold the largest unit: it will not open; raise [peer.%s] staging to at least %s",
             name, name, weft_size_print(least, text));
    else if (sizes->staging.bytes < one)
        warn(q, "%s: an update of 1 %% does not fit its staging: it %s instead; raise [peer.%s] staging to at least %s",
             name,
             sizes->encoded < weft_size_kept(q->layout, ONE_PERCENT) ? "gets a snapshot" : "commits slowly, encoded",
             name, weft_size_print(one, text));
    if (sizes->bucket < q->layout->largest_frame)
        warn(q,
             "%s: bucket_max does not hold the largest frame: it will not open; raise [peer.%s] bucket_max to at "
             "least %s",
             name, name, weft_size_print(q->layout->largest_frame, text));
    if (peer->relay[0] && peer->relay_memory / 4 < sizes->bucket)
        warn(q, "%s: relay_memory is less than four buckets: it will not open", name);
}

/* ---- the ends */

static json_t *trainer_json(const question *q, uint64_t *journal)
{
    const weft_trainer_sizes sizes =
        weft_trainer_sizes_of(q->site, q->layout, backend_of(q->site->trainer.backend), &q->memory);
    *journal = sizes.journal.bytes;
    judge_host(q, "trainer", sizes.bytes);
    judge_journal(q, &sizes);
    return json_pack("{s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I}", "device", (json_int_t)sizes.device, "bytes",
                     (json_int_t)sizes.bytes, "shadow", (json_int_t)sizes.shadow, "journal", size_json(&sizes.journal),
                     "digests", (json_int_t)sizes.digests, "merging", (json_int_t)sizes.merging, "encoding",
                     (json_int_t)sizes.encoding, "slabs", (json_int_t)sizes.slabs, "peers", (json_int_t)sizes.peers);
}

static json_t *peer_json(const question *q, const weft_site_peer *peer, bool pattern)
{
    char name[WEFT_SITE_NAME + 2];
    const weft_rollout_sizes sizes =
        weft_rollout_sizes_of(q->site, peer, q->layout, backend_of(peer->backend), &q->memory);
    snprintf(name, sizeof name, "%s%s", peer->name, pattern ? "*" : "");
    judge_host(q, name, sizes.bytes);
    judge_peer(q, peer, name, &sizes);
    return json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I}", "device", (json_int_t)sizes.device,
                     "name", name, "bytes", (json_int_t)sizes.bytes, "bucket_max", (json_int_t)sizes.bucket, "slots",
                     (json_int_t)sizes.slots, "decoding", (json_int_t)sizes.decoding, "staging",
                     size_json(&sizes.staging), "encoded", (json_int_t)sizes.encoded, "digests",
                     (json_int_t)sizes.digests, "image", (json_int_t)sizes.image, "relay", (json_int_t)sizes.relay);
}

json_t *weft_check_sizes(const weft_site *site, const char *path, const weft_layout *layout, uint64_t *journal)
{
    question q = {.site = site, .layout = layout, .warnings = json_array()};
    json_t *sizes = json_object(), *peers = json_array();
    weft_site_peer peer;
    bool pattern;
    weft_mem_host_read("", &q.memory);
    json_object_set_new(sizes, "model",
                        json_pack("{s:o, s:I, s:I}", "path", weft_json_text(path), "elements",
                                  (json_int_t)layout->elements, "bytes", (json_int_t)layout->bytes));
    json_object_set_new(sizes, "host",
                        json_pack("{s:I, s:I, s:s}", "total", (json_int_t)q.memory.total, "available",
                                  (json_int_t)q.memory.available, "by", q.memory.by));
    json_object_set_new(sizes, "trainer", trainer_json(&q, journal));
    for (size_t i = 0; weft_site_row(site, i, &peer, &pattern); i++)
        json_array_append_new(peers, peer_json(&q, &peer, pattern));
    json_object_set_new(sizes, "peers", peers);
    json_object_set_new(sizes, "warnings", q.warnings);
    return sizes;
}

/* ---- for people */

static double mb(const json_t *object, const char *key)
{
    return (double)json_integer_value(json_object_get(object, key)) / 1e6;
}

static void print_size(const char *what, const json_t *size)
{
    char text[WEFT_SIZE_PRINTED];
    const bool automatic = json_is_true(json_object_get(size, "auto"));
    printf("    %s %s%s%s%s: an update of %.2f %% fits\n", what,
           weft_size_print((uint64_t)json_integer_value(json_object_get(size, "bytes")), text),
           automatic ? " (auto: " : "", automatic ? json_string_value(json_object_get(size, "why")) : "",
           automatic ? ")" : "", json_number_value(json_object_get(size, "percent")));
}

/* For each end that has a process of its own. */
static void print_device(const json_t *end)
{
    if (mb(end, "device") > 0)
        printf("    %.1f MB of the device's memory\n", mb(end, "device"));
}

static void print_trainer(const json_t *trainer)
{
    const json_t *journal = json_object_get(trainer, "journal");
    printf("  trainer: at most %.1f MB beside the weights: shadow %.1f, journal %.1f, digests %.1f, merging %.1f, "
           "encoding %.1f, slabs %.1f, peers %.1f\n",
           mb(trainer, "bytes"), mb(trainer, "shadow"), mb(journal, "bytes"), mb(trainer, "digests"),
           mb(trainer, "merging"), mb(trainer, "encoding"), mb(trainer, "slabs"), mb(trainer, "peers"));
    print_device(trainer);
    print_size("journal", journal);
}

static void print_peer(const json_t *peer)
{
    const json_t *staging = json_object_get(peer, "staging");
    printf("  %s: at most %.1f MB beside the weights: slots %.1f, decoding %.1f, staging %.1f, encoded %.1f, "
           "digests %.1f, image %.1f, relay %.1f\n",
           json_string_value(json_object_get(peer, "name")), mb(peer, "bytes"), mb(peer, "slots"), mb(peer, "decoding"),
           mb(staging, "bytes"), mb(peer, "encoded"), mb(peer, "digests"), mb(peer, "image"), mb(peer, "relay"));
    print_device(peer);
    print_size("staging", staging);
}

void weft_check_sizes_print(const json_t *sizes)
{
    const json_t *model = json_object_get(sizes, "model"), *host = json_object_get(sizes, "host");
    json_t *item;
    size_t index;
    printf("memory for %s, %llu elements in %.1f MB, with what this host has: %.1f MB, %.1f of them available (%s)\n",
           weft_output_plain(json_string_value(json_object_get(model, "path"))).text,
           (ull)json_integer_value(json_object_get(model, "elements")), mb(model, "bytes"), mb(host, "total"),
           mb(host, "available"), json_string_value(json_object_get(host, "by")));
    print_trainer(json_object_get(sizes, "trainer"));
    json_array_foreach(json_object_get(sizes, "peers"), index, item) print_peer(item);
    json_array_foreach(json_object_get(sizes, "warnings"), index, item)
        printf("  WARNING: %s\n", json_string_value(item));
    if (json_array_size(json_object_get(sizes, "warnings")))
        printf("    (an end that runs on another host: run this there)\n");
}
