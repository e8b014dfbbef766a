/* store_copy.c - weft copy: the files of a store into another one. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "tools/signals.h"
#include "tools/store/stored.h"
#include "tools/verbs.h"

typedef struct copy {
    const weft_args *args;
    weft_store *from, *to;
    weft_offline_bar bar;
    weft_store_copied copied;
    uint64_t faults;
} copy;

static weft_status fault_print(void *user, const weft_store_fault *fault)
{
    copy *c = user;
    weft_offline_bar_end(&c->bar);
    if (c->args->json)
        weft_output_object(json_pack("{s:o,s:s,s:o}", "file", weft_json_text(fault->file), "status",
                                     weft_status_name(fault->status), "text", weft_json_text(fault->text)));
    else
        printf("%s: not copied: %s: %s\n", weft_output_plain(fault->file).text, weft_status_name(fault->status),
               weft_output_plain(fault->text).text);
    return WEFT_OK;
}

static weft_status stores_open(copy *c)
{
    const weft_store_options from = {.size = sizeof from}, to = {.size = sizeof to, .create = true};
    weft_status status = weft_store_open(c->args->words[0], &from, &c->from);
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    return status == WEFT_OK ? weft_store_open(c->args->words[1], &to, &c->to) : status;
}

static void report(const copy *c)
{
    const weft_store_copied *copied = &c->copied;
    if (c->args->json)
        weft_output_object(json_pack("{s:o,s:o,s:o,s:o}", "files", weft_json_count(copied->files), "bytes",
                                     weft_json_count(copied->bytes), "there", weft_json_count(copied->there), "faults",
                                     weft_json_count(c->faults)));
    else
        printf("%" PRIu64 " files copied (%s), %" PRIu64 " were there, %" PRIu64 " faults\n", copied->files,
               weft_output_size((double)copied->bytes).text, copied->there, c->faults);
}

int weft_verb_copy(const weft_args *args)
{
    copy c = {.args = args, .copied = {.size = sizeof c.copied}};
    weft_tool_phase phase = WEFT_TOOL_INPUT;
    weft_signals_catch_files(args->json);
    weft_status status = stores_open(&c);
    if (status == WEFT_OK) {
        phase = WEFT_TOOL_WORK;
        const weft_work work = weft_offline_work(args, "copy", &c.bar);
        status = weft_store_copy(c.from, c.to, &work, fault_print, &c, &c.faults, &c.copied);
        weft_offline_bar_end(&c.bar);
    }
    if (status == WEFT_OK && c.copied.files + c.copied.there + c.faults == 0) {
        phase = WEFT_TOOL_INPUT;
        status = weft_fail_quiet(WEFT_E_MISSING, "%s: no store is there: it has no file of one", args->words[0]);
    }
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, phase, status);
    if (status == WEFT_OK)
        report(&c);
    if (status == WEFT_OK && c.faults)
        code = WEFT_EXIT_DIFFERENT;
    weft_store_close(c.to);
    weft_store_close(c.from);
    return code;
}
