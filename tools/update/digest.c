/* digest.c - weft digest: a model's root digest, and every tensor's. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/signals.h"
#include "tools/update/offline.h"
#include "tools/verbs.h"

typedef struct digest {
    const weft_args *args;
    weft_model *model;
    uint64_t root;
    weft_tool_phase phase;
} digest;

static weft_status body(void *user)
{
    digest *d = user;
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(d->model, &count);
    weft_offline_bar bar;
    weft_work work = weft_offline_work(d->args, "digest", &bar);
    weft_status status = weft_digest_tensors(weft_model_layout(d->model), pieces, count, &work, NULL, &d->root);
    weft_offline_bar_end(&bar);
    return status;
}

static weft_status digest_run(digest *d)
{
    weft_status status = weft_model_open(d->args->words[0], 0, &d->model);
    if (status != WEFT_OK)
        return status;
    d->phase = WEFT_TOOL_WORK;
    const weft_model *model = d->model;
    return weft_model_guard_all(&model, 1, body, d);
}

static void report(const digest *d)
{
    const weft_layout *layout = weft_model_layout(d->model);
    uint64_t hash[2];
    char text[33];
    weft_layout_hash(layout, hash);
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, hash[1], hash[0]);
    if (d->args->json)
        weft_output_object(json_pack("{s:o,s:o,s:s,s:o,s:o}", "model", weft_json_text(d->args->words[0]), "digest",
                                     weft_json_hash(d->root), "layout", text, "tensors",
                                     weft_json_count(weft_layout_count(layout)), "dense_bytes",
                                     weft_json_count(weft_layout_bytes(layout))));
    else
        printf("%016" PRIx64 "  %s\n", d->root, weft_output_plain(d->args->words[0]).text);
}

int weft_verb_digest(const weft_args *args)
{
    digest d = {.args = args, .phase = WEFT_TOOL_INPUT};
    weft_signals_catch_files(args->json);
    weft_status status = digest_run(&d);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, d.phase, status);
    if (status == WEFT_OK)
        report(&d);
    weft_model_close(d.model);
    return code;
}
