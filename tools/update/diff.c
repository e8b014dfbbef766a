/* diff.c - weft diff: two models into an update file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "tools/signals.h"
#include "tools/update/offline.h"
#include "tools/verbs.h"

typedef struct diff {
    const weft_args *args;
    weft_model *base, *target;
    weft_file file;
    weft_update_info info;
    weft_tool_phase phase;
} diff;

static weft_status open_all(diff *d)
{
    const char *names = d->args->names;
    if (names && strcmp(names, "always") != 0 && strcmp(names, "never") != 0)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--names '%s': always or never", names);
    weft_status status = weft_model_open(d->args->words[0], 0, &d->base);
    if (status == WEFT_OK)
        status = weft_model_open(d->args->words[1], 0, &d->target);
    if (status == WEFT_OK)
        status = weft_model_take_order(d->target, weft_model_layout(d->base), d->args->words[1], "the base");
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    return status == WEFT_OK ? weft_offline_begin(&d->file, d->args->output, &d->phase) : status;
}

static weft_status body(void *user)
{
    diff *d = user;
    uint64_t bases, targets, first = d->args->first_version;
    const weft_piece *base = weft_model_pieces(d->base, &bases), *target = weft_model_pieces(d->target, &targets);
    weft_diff_options options = {.size = sizeof options,
                                 .level = d->args->level,
                                 .names = d->args->names,
                                 .base.number = first,
                                 .target.number = first + 1};
    weft_offline_bar bar;
    weft_work work = weft_offline_work(d->args, "diff", &bar);
    weft_sink sink = weft_offline_sink(&d->file);
    options.attachment = weft_offline_new_header(d->base, d->target, &options.attachment_bytes);
    d->info.size = sizeof d->info;
    weft_status status =
        weft_diff(weft_model_layout(d->base), base, bases, target, targets, &options, &work, &sink, &d->info);
    weft_offline_bar_end(&bar);
    return status;
}

static weft_status diff_run(diff *d)
{
    weft_status status = open_all(d);
    if (status != WEFT_OK)
        return status;
    const weft_model *models[] = {d->base, d->target};
    status = weft_model_guard_all(models, 2, body, d);
    if (status == WEFT_E_LAYOUT) /* more tensors than an update file holds */
        weft_fail_about("%s", d->args->words[0]);
    if (status == WEFT_E_LAYOUT || status == WEFT_E_ARGUMENT) /* a level that is none */
        d->phase = WEFT_TOOL_INPUT;
    return status == WEFT_OK ? weft_offline_finish(&d->file, d->args->output) : status;
}

static void report(const diff *d)
{
    if (d->args->json) {
        json_t *object = weft_json_update(&d->info);
        json_object_set_new(object, "base_digest", weft_json_hash(d->info.base.root));
        json_object_set_new(object, "file", weft_json_text(d->args->output));
        weft_output_object(object);
        return;
    }
    weft_output_update(&d->info);
    printf("%s: from %016" PRIx64 " to %016" PRIx64 "\n", weft_output_plain(d->args->output).text, d->info.base.root,
           d->info.target.root);
}

int weft_verb_diff(const weft_args *args)
{
    diff d = {.args = args, .file.descriptor = -1, .phase = WEFT_TOOL_INPUT};
    weft_signals_catch_files(args->json);
    weft_status status = diff_run(&d);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, d.phase, status);
    if (status == WEFT_OK)
        report(&d);
    weft_file_drop(&d.file);
    weft_model_close(d.target);
    weft_model_close(d.base);
    return code;
}
