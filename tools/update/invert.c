/* invert.c - weft invert: the update that leads back from an update's target to its base. */
#include <stdio.h>

#include "base/status.h"
#include "tools/signals.h"
#include "tools/update/offline.h"
#include "tools/verbs.h"

typedef struct invert {
    const weft_args *args;
    weft_model *base; /* NULL: none was given */
    weft_update_file *update;
    weft_file file;
    weft_update_info info;
    weft_tool_phase phase;
} invert;

static weft_status open_all(invert *v)
{
    weft_status status = weft_update_open(v->args->words[0], NULL, &v->update);
    if (status == WEFT_OK && v->args->base)
        status = weft_model_open(v->args->base, 0, &v->base);
    if (status == WEFT_OK && v->base)
        status = weft_offline_fits(v->update, v->base, v->args->base);
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    return status == WEFT_OK ? weft_offline_begin(&v->file, v->args->output, &v->phase) : status;
}

/* An update that brings a header takes the place of the base's, which is then at hand in the base alone. */
static weft_status header_take(const invert *v, const void **header, uint64_t *bytes)
{
    uint64_t brought;
    *header = NULL;
    *bytes = 0;
    weft_status status = weft_update_attachment(v->update, NULL, 0, &brought);
    if (status != WEFT_OK || brought == 0)
        return status;
    if (!v->base)
        return weft_fail(WEFT_E_ARGUMENT,
                         "%s changes the model's header, and does not say what was there: name the "
                         "model that it starts from with --base",
                         v->args->words[0]);
    *header = weft_model_header(v->base, bytes);
    return WEFT_OK;
}

static weft_status body(void *user)
{
    invert *v = user;
    uint64_t count = 0, bytes;
    const weft_piece *pieces = v->base ? weft_model_pieces(v->base, &count) : NULL;
    const weft_layout *layout = v->base ? weft_model_layout(v->base) : NULL;
    const void *header;
    weft_status status = header_take(v, &header, &bytes);
    if (status != WEFT_OK)
        return status;
    weft_offline_bar bar;
    weft_work work = weft_offline_work(v->args, "invert", &bar);
    weft_sink sink = weft_offline_sink(&v->file);
    v->info.size = sizeof v->info;
    status =
        weft_update_invert(v->update, layout, pieces, count, v->args->level, header, bytes, &work, &sink, &v->info);
    weft_offline_bar_end(&bar);
    return status;
}

static weft_status invert_run(invert *v)
{
    weft_status status = open_all(v);
    if (status != WEFT_OK)
        return status;
    const weft_model *base = v->base;
    status = weft_model_guard_all(&base, base ? 1 : 0, body, v);
    if (status == WEFT_E_ARGUMENT || status == WEFT_E_LAYOUT) /* the base is missing, or another model's */
        v->phase = WEFT_TOOL_INPUT;
    return status == WEFT_OK ? weft_offline_finish(&v->file, v->args->output) : status;
}

static void report(const invert *v)
{
    if (!v->args->json) {
        weft_output_update(&v->info);
        return;
    }
    json_t *object = weft_json_update(&v->info);
    json_object_set_new(object, "base_digest", weft_json_hash(v->info.base.root));
    json_object_set_new(object, "file", weft_json_text(v->args->output));
    weft_output_object(object);
}

int weft_verb_invert(const weft_args *args)
{
    invert v = {.args = args, .file.descriptor = -1, .phase = WEFT_TOOL_INPUT};
    weft_signals_catch_files(args->json);
    weft_status status = invert_run(&v);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, v.phase, status);
    if (status == WEFT_OK)
        report(&v);
    weft_file_drop(&v.file);
    weft_update_close(v.update);
    weft_model_close(v.base);
    return code;
}
