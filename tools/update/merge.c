/* merge.c - weft merge: updates that follow each other, made one; level tight needs the base. */
#include <stdio.h>

#include "base/status.h"
#include "tools/signals.h"
#include "tools/update/offline.h"
#include "tools/verbs.h"

typedef struct merge {
    const weft_args *args;
    weft_model *base;
    weft_update_file *updates[WEFT_ARG_WORDS];
    size_t count;
    weft_file file;
    weft_update_info info;
    weft_tool_phase phase;
} merge;

static weft_status open_all(merge *m)
{
    weft_status status = WEFT_OK;
    for (; m->count < WEFT_ARG_WORDS && m->args->words[m->count] && status == WEFT_OK; m->count++)
        status = weft_update_open(m->args->words[m->count], NULL, &m->updates[m->count]);
    if (status == WEFT_OK && m->args->base)
        status = weft_model_open(m->args->base, 0, &m->base);
    if (status == WEFT_OK && m->base)
        status = weft_offline_fits(m->updates[0], m->base, m->args->base);
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    return status == WEFT_OK ? weft_offline_begin(&m->file, m->args->output, &m->phase) : status;
}

static weft_status body(void *user)
{
    merge *m = user;
    uint64_t count = 0;
    const weft_piece *pieces = m->base ? weft_model_pieces(m->base, &count) : NULL;
    const weft_layout *layout = m->base ? weft_model_layout(m->base) : NULL;
    weft_offline_bar bar;
    weft_work work = weft_offline_work(m->args, "merge", &bar);
    weft_sink sink = weft_offline_sink(&m->file);
    m->info.size = sizeof m->info;
    weft_status status =
        weft_update_merge(m->updates, m->count, layout, pieces, count, m->args->level, &work, &sink, &m->info);
    weft_offline_bar_end(&bar);
    return status;
}

static weft_status merge_run(merge *m)
{
    weft_status status = open_all(m);
    if (status != WEFT_OK)
        return status;
    const weft_model *base = m->base;
    status = weft_model_guard_all(&base, base ? 1 : 0, body, m);
    if (status == WEFT_E_ARGUMENT || status == WEFT_E_LAYOUT) /* they do not fit each other, or the base */
        m->phase = WEFT_TOOL_INPUT;
    return status == WEFT_OK ? weft_offline_finish(&m->file, m->args->output) : status;
}

static void report(const merge *m)
{
    if (!m->args->json) {
        weft_output_update(&m->info);
        return;
    }
    json_t *object = weft_json_update(&m->info);
    json_object_set_new(object, "base_digest", weft_json_hash(m->info.base.root));
    json_object_set_new(object, "file", weft_json_text(m->args->output));
    weft_output_object(object);
}

int weft_verb_merge(const weft_args *args)
{
    merge m = {.args = args, .file.descriptor = -1, .phase = WEFT_TOOL_INPUT};
    weft_signals_catch_files(args->json);
    weft_status status = merge_run(&m);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, m.phase, status);
    if (status == WEFT_OK)
        report(&m);
    weft_file_drop(&m.file);
    for (size_t i = 0; i < m.count; i++)
        weft_update_close(m.updates[i]);
    weft_model_close(m.base);
    return code;
}
