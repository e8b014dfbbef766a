#include "tools/check/check.h"

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

static void judge_journal(const question *q, const weft_sizes *sizes)
{
    char text[WEFT_SIZE_PRINTED];
    const uint64_t one = weft_size_journal_for(weft_size_kept(q->layout, ONE_PERCENT));
    if (sizes->chosen.bytes < one)
        warn(q,
             "trainer: an update of 1 %% does not fit its journal: every peer gets a snapshot instead; raise "
             "[trainer] journal to at least %s",
             weft_size_print(one, text));
}

static void judge_peer(const question *q, const weft_site_peer *peer, const char *name, weft_sizes *sizes)
{
    char text[WEFT_SIZE_PRINTED];
    const uint64_t one = weft_size_staged(q->layout, ONE_PERCENT), least = weft_staging_largest(q->layout);
    if (sizes->chosen.bytes < least)
        warn(q, "%s: staging does not hold the largest unit: it will not open; raise [peer.%s] staging to at least %s",
             name, name, weft_size_print(least, text));
    else if (sizes->chosen.bytes < one)
        warn(q, "%s: an update of 1 %% does not fit its staging: it %s instead; raise [peer.%s] staging to at least %s",
             name,
             weft_sizes_need(sizes, "encoded")->bytes < weft_size_kept(q->layout, ONE_PERCENT)
                 ? "gets a snapshot"
                 : "commits slowly, encoded",
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

/* Adds what an end takes: all of it, and after that each need. The one of which the site may leave the size to weft has
 * its reason. */
static json_t *sizes_add(json_t *end, const weft_sizes *sizes, const char *chosen)
{
    json_object_set_new(end, "device", json_integer((json_int_t)sizes->device));
    json_object_set_new(end, "bytes", json_integer((json_int_t)sizes->bytes));
    for (uint32_t i = 0; i < sizes->count; i++)
        json_object_set_new(end, sizes->needs[i].name,
                            strcmp(sizes->needs[i].name, chosen) == 0
                                ? size_json(&sizes->chosen)
                                : json_integer((json_int_t)sizes->needs[i].bytes));
    return end;
}

static json_t *trainer_json(const question *q, uint64_t *journal)
{
    const weft_sizes sizes = weft_trainer_sizes(q->site, q->layout, backend_of(q->site->trainer.backend), &q->memory);
    *journal = sizes.chosen.bytes;
    judge_host(q, "trainer", sizes.bytes);
    judge_journal(q, &sizes);
    return sizes_add(json_object(), &sizes, "journal");
}

static json_t *peer_json(const question *q, const weft_site_peer *peer, bool pattern)
{
    char name[WEFT_SITE_NAME + 2];
    weft_sizes sizes = weft_rollout_sizes(q->site, peer, q->layout, backend_of(peer->backend), &q->memory);
    snprintf(name, sizeof name, "%s%s", peer->name, pattern ? "*" : "");
    judge_host(q, name, sizes.bytes);
    judge_peer(q, peer, name, &sizes);
    return sizes_add(json_pack("{s:s, s:I}", "name", name, "bucket_max", (json_int_t)sizes.bucket), &sizes, "staging");
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

static void print_end(const char *name, json_t *end, const char *chosen)
{
    const char *before = ": ";
    printf("  %s: at most %.1f MB beside the weights", name, mb(end, "bytes"));
    for (void *need = json_object_iter_at(end, "bytes"); (need = json_object_iter_next(end, need)); before = ", ") {
        const json_t *value = json_object_iter_value(need), *bytes = json_object_get(value, "bytes");
        printf("%s%s %.1f", before, json_object_iter_key(need),
               (double)json_integer_value(bytes ? bytes : value) / 1e6);
    }
    putchar('\n');
    if (mb(end, "device") > 0)
        printf("    %.1f MB of the device's memory\n", mb(end, "device"));
    print_size(chosen, json_object_get(end, chosen));
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
    print_end("trainer", json_object_get(sizes, "trainer"), "journal");
    json_array_foreach(json_object_get(sizes, "peers"), index, item)
        print_end(json_string_value(json_object_get(item, "name")), item, "staging");
    json_array_foreach(json_object_get(sizes, "warnings"), index, item)
        printf("  WARNING: %s\n", json_string_value(item));
    if (json_array_size(json_object_get(sizes, "warnings")))
        printf("    (an end that runs on another host: run this there)\n");
}
