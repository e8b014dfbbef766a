/* store_fsck.c - weft fsck: proves every file of a store. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "tools/signals.h"
#include "tools/store/stored.h"
#include "tools/verbs.h"

typedef struct fsck {
    const weft_args *args;
    weft_stored stored;
    weft_offline_bar bar;
    uint64_t faults;
} fsck;

static weft_status fault_print(void *user, const weft_store_fault *fault)
{
    fsck *f = user;
    char run[17];
    snprintf(run, sizeof run, "%016" PRIx64, fault->version.run);
    weft_offline_bar_end(&f->bar);
    if (f->args->json)
        weft_output_object(json_pack("{s:o,s:s,s:o,s:s,s:o}", "file",
                                     fault->file ? weft_json_text(fault->file) : json_null(), "run", run, "version",
                                     weft_json_count(fault->version.number), "status", weft_status_name(fault->status),
                                     "text", weft_json_text(fault->text)));
    else if (fault->file)
        printf("%s: %s: %s\n", weft_output_plain(fault->file).text, weft_status_name(fault->status),
               weft_output_plain(fault->text).text);
    else
        printf("%s/%" PRIu64 ": the version is lost: %s\n", run, fault->version.number,
               weft_output_plain(fault->text).text);
    return WEFT_OK;
}

static void report(const fsck *f)
{
    if (f->args->json)
        weft_output_object(
            json_pack("{s:o,s:o}", "versions", weft_json_count(f->stored.count), "faults", weft_json_count(f->faults)));
    else
        printf("%zu versions, %" PRIu64 " faults\n", f->stored.count, f->faults);
}

int weft_verb_fsck(const weft_args *args)
{
    fsck f = {.args = args};
    weft_tool_phase phase = WEFT_TOOL_INPUT;
    weft_signals_catch_files(args->json);
    weft_status status = weft_stored_open(args->words[0], false, &f.stored);
    if (status == WEFT_OK) {
        phase = WEFT_TOOL_WORK;
        weft_work work = weft_offline_work(args, "prove", &f.bar);
        status = weft_store_check(f.stored.store, &work, fault_print, &f, &f.faults);
        weft_offline_bar_end(&f.bar);
        if (status == WEFT_E_MISSING) /* no store is there */
            phase = WEFT_TOOL_INPUT;
    }
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, phase, status);
    if (status == WEFT_OK)
        report(&f);
    if (status == WEFT_OK && f.faults)
        code = WEFT_EXIT_DIFFERENT;
    weft_stored_close(&f.stored);
    return code;
}
