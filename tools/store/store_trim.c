/* store_trim.c - weft trim: old versions of a store go, and what writers never finished. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "tools/store/stored.h"
#include "tools/verbs.h"

#define GRACE_S 3600u

typedef struct trim {
    const weft_args *args;
    weft_stored stored;
    uint64_t removed, bytes; /* bytes that went */
    weft_tool_phase phase;
} trim;

static uint64_t bytes_of(const weft_stored *stored)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < stored->count; i++) {
        const weft_store_entry *entry = &stored->entries[i];
        bytes += entry->update_bytes + entry->anchor_bytes + entry->merge_bytes + entry->tight_bytes;
    }
    return bytes;
}

static weft_status trim_run(trim *t)
{
    const weft_args *args = t->args;
    const uint64_t grace_s = weft_args_given(args, WEFT_OPTION_GRACE) ? args->grace : GRACE_S;
    const weft_store_keep keep = {sizeof keep, args->kept, args->bytes, args->age, grace_s};
    weft_status status = weft_stored_open(args->words[0], false, &t->stored);
    if (status != WEFT_OK)
        return status;
    if (weft_args_given(args, WEFT_OPTION_STAY) && !args->kept)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--keep 0: the newest anchor and all after it stay, so keep 1 or more");
    const bool none = t->stored.count == 0;
    t->bytes = bytes_of(&t->stored);
    t->phase = none ? WEFT_TOOL_INPUT : WEFT_TOOL_WORK;
    status = weft_store_trim(t->stored.store, &keep, &t->removed); /* what was never finished goes in any case */
    if (status == WEFT_OK)
        status = weft_stored_list(&t->stored);
    if (status == WEFT_OK && none)
        return weft_fail_quiet(WEFT_E_MISSING, "%s: no version of a store is there", args->words[0]);
    t->bytes -= status == WEFT_OK ? bytes_of(&t->stored) : 0;
    return status;
}

static void report(const trim *t)
{
    const uint64_t left = bytes_of(&t->stored);
    if (t->args->json)
        weft_output_object(json_pack("{s:o,s:o,s:o,s:o}", "removed", weft_json_count(t->removed), "removed_bytes",
                                     weft_json_count(t->bytes), "versions", weft_json_count(t->stored.count), "bytes",
                                     weft_json_count(left)));
    else
        printf("%" PRIu64 " versions went (%s), %zu stay (%s)\n", t->removed, weft_output_size((double)t->bytes).text,
               t->stored.count, weft_output_size((double)left).text);
}

int weft_verb_trim(const weft_args *args)
{
    trim t = {.args = args, .phase = WEFT_TOOL_INPUT};
    weft_status status = trim_run(&t);
    const int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, t.phase, status);
    if (status == WEFT_OK)
        report(&t);
    weft_stored_close(&t.stored);
    return code;
}
