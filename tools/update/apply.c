/* apply.c - weft apply: a base and an update file into the new model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "tools/signals.h"
#include "tools/update/offline.h"
#include "tools/verbs.h"

typedef struct apply {
    const weft_args *args;
    weft_model *base;
    weft_update_file *update;
    void *header; /* the update's own; NULL: the base's */
    uint64_t header_bytes;
    weft_model_output *output;
    weft_apply_info info;
    weft_tool_phase phase;
} apply;

/* The header of the new model: the update's where it carries one. */
static weft_status take_header(apply *a)
{
    weft_status status = weft_update_attachment(a->update, NULL, 0, &a->header_bytes);
    if (status != WEFT_OK || a->header_bytes == 0)
        return status;
    a->header = malloc(a->header_bytes);
    if (!a->header)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for a header of %" PRIu64 " bytes", a->header_bytes);
    return weft_update_attachment(a->update, a->header, a->header_bytes, &a->header_bytes);
}

static weft_status open_output(apply *a)
{
    uint64_t bytes = a->header_bytes;
    const void *header = a->header ? a->header : weft_model_header(a->base, &bytes);
    char name[256];
    const weft_model_place place = weft_offline_place(a->args->words[0], a->args->output, name);
    weft_status status = weft_model_place_check(header, bytes, &place);
    if (status != WEFT_OK) {
        weft_fail_about("%s", a->args->output);
        return status;
    }
    status = weft_model_output_open_at(weft_model_layout(a->base), header, bytes, &place, &a->output);
    if (status == WEFT_OK)
        status = weft_model_output_accompany(a->output, a->args->words[0]);
    if (status != WEFT_E_LAYOUT) /* wrong input is a header that is not this model's, but no disk that is full */
        a->phase = WEFT_TOOL_WORK;
    return status;
}

static weft_status open_all(apply *a)
{
    weft_status status = weft_model_open(a->args->words[0], 0, &a->base);
    if (status == WEFT_OK)
        status = weft_update_open(a->args->words[1], NULL, &a->update);
    if (status != WEFT_OK)
        return status;
    status = take_header(a);
    if (status != WEFT_OK)
        weft_fail_about("%s", a->args->words[1]);
    if (status == WEFT_OK)
        status = weft_offline_fits(a->update, a->base, a->args->words[0]);
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    return status == WEFT_OK ? open_output(a) : status;
}

static weft_status output_write(void *user, const void *data, uint64_t bytes)
{
    return weft_model_output_write(user, data, bytes);
}

static weft_status body(void *user)
{
    apply *a = user;
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(a->base, &count);
    weft_offline_bar bar;
    weft_work work = weft_offline_work(a->args, "apply", &bar);
    weft_sink sink = {a->output, output_write};
    a->info.size = sizeof a->info;
    weft_status status =
        weft_update_rewrite(a->update, weft_model_layout(a->base), pieces, count, &work, &sink, &a->info);
    weft_offline_bar_end(&bar);
    return status;
}

static weft_status apply_run(apply *a)
{
    weft_status status = open_all(a);
    if (status != WEFT_OK)
        return status;
    const weft_model *base = a->base;
    a->phase = WEFT_TOOL_WORK;
    status = weft_model_guard_all(&base, 1, body, a);
    return status == WEFT_OK ? weft_model_output_finish(a->output) : status;
}

static void report(const apply *a)
{
    const weft_version *version = &a->info.version;
    if (a->args->json)
        weft_output_object(json_pack("{s:o,s:o,s:o,s:o,s:f,s:f,s:f}", "digest", weft_json_hash(version->root), "target",
                                     weft_json_count(version->number), "changed", weft_json_count(a->info.changed),
                                     "file", weft_json_text(a->args->output), "digest_ms", a->info.digest_ms,
                                     "decode_ms", a->info.decode_ms, "apply_ms", a->info.apply_ms));
    else
        printf("%s: version %" PRIu64 ", digest %016" PRIx64 ", %" PRIu64
               " elements changed; digest %.1f ms, decode %.1f ms, write %.1f ms\n",
               weft_output_plain(a->args->output).text, version->number, version->root, a->info.changed,
               a->info.digest_ms, a->info.decode_ms, a->info.apply_ms);
}

int weft_verb_apply(const weft_args *args)
{
    apply a = {.args = args, .phase = WEFT_TOOL_INPUT};
    weft_signals_catch_files(args->json);
    weft_status status = apply_run(&a);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, a.phase, status);
    if (status == WEFT_OK)
        report(&a);
    weft_model_output_close(a.output);
    free(a.header);
    weft_update_close(a.update);
    weft_model_close(a.base);
    return code;
}
