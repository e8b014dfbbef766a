/* store_log.c - weft log: the versions of a store. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/status.h"
#include "tools/output.h"
#include "tools/store/stored.h"
#include "tools/verbs.h"

static json_t *entry_json(const weft_store_entry *entry)
{
    char run[17];
    snprintf(run, sizeof run, "%016" PRIx64, entry->version.run);
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:b}", "run", run, "version",
                     weft_json_count(entry->version.number), "digest", weft_json_hash(entry->version.root), "base",
                     entry->base.run ? weft_json_count(entry->base.number) : json_null(), "update_bytes",
                     entry->update_bytes ? weft_json_count(entry->update_bytes) : json_null(), "anchor_bytes",
                     entry->anchor_bytes ? weft_json_count(entry->anchor_bytes) : json_null(), "merge_bytes",
                     entry->merge_bytes ? weft_json_count(entry->merge_bytes) : json_null(), "tight_bytes",
                     entry->tight_bytes ? weft_json_count(entry->tight_bytes) : json_null(), "time",
                     weft_json_count(entry->time_s), "damaged", entry->damaged, "reachable", entry->reachable);
}

static void entry_print(const weft_store_entry *entry)
{
    char day[32] = "?", base[32] = "";
    const time_t at = (time_t)entry->time_s;
    struct tm parts;
    if (gmtime_r(&at, &parts))
        strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &parts);
    if (entry->update_bytes)
        snprintf(base, sizeof base, entry->base.run ? "from %" PRIu64 : "from ?", entry->base.number);
    printf("%016" PRIx64 "/%-6" PRIu64 " %016" PRIx64 "  %s", entry->version.run, entry->version.number,
           entry->version.root, day);
    if (entry->update_bytes)
        printf("  %s, %s", base, weft_output_size((double)entry->update_bytes).text);
    if (entry->tight_bytes)
        printf("  tight, %s", weft_output_size((double)entry->tight_bytes).text);
    if (entry->anchor_bytes)
        printf("  anchor, %s", weft_output_size((double)entry->anchor_bytes).text);
    if (entry->merge_bytes)
        printf("  merge, %s", weft_output_size((double)entry->merge_bytes).text);
    printf("%s%s\n", entry->damaged ? "  damaged" : "", entry->reachable ? "" : "  nothing whole leads there");
}

static void report(const weft_args *args, const weft_stored *stored)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < stored->count; i++) {
        const weft_store_entry *entry = &stored->entries[i];
        bytes += entry->update_bytes + entry->anchor_bytes + entry->merge_bytes + entry->tight_bytes;
        if (args->json)
            weft_output_object(entry_json(&stored->entries[i]));
        else
            entry_print(&stored->entries[i]);
    }
    if (!args->json)
        printf("%zu versions, %s\n", stored->count, weft_output_size((double)bytes).text);
}

int weft_verb_log(const weft_args *args)
{
    weft_stored stored;
    weft_status status = weft_stored_open(args->words[0], false, &stored);
    if (status == WEFT_OK && stored.count == 0)
        status = weft_fail_quiet(WEFT_E_MISSING, "%s: no version of a store is there", args->words[0]);
    const int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, WEFT_TOOL_INPUT, status);
    if (status == WEFT_OK)
        report(args, &stored);
    weft_stored_close(&stored);
    return code;
}
