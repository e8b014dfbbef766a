/* rollout_store.c - weft rollout --store: versions out of a store, without a trainer and without a site. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/status.h"
#include "tools/follow/save_each.h"
#include "tools/serve/rollout_store.h"
#include "tools/serve/weights.h"
#include "tools/signals.h"
#include "tools/store/stored.h"

/* A signal that comes just before a wait is seen after so long. */
enum { LOOK_MS = 1000 };

typedef struct reader {
    const weft_args *args;
    weft_stored stored;
    weft_weights weights;
    weft_share_weights *view; /* slices that `weights` are; NULL: all of the model */
    weft_version held;        /* run 0: none of the store's */
    weft_save_each *each;
    weft_tool_phase phase;
    bool has_until;
} reader;

static weft_status arguments_check(reader *r)
{
    const weft_args *args = r->args;
    const uint64_t others = WEFT_TAKES(PEER) | WEFT_TAKES(SET) | WEFT_TAKES(LOG);
    r->has_until = weft_args_given(args, WEFT_OPTION_UNTIL);
    if (args->given & others)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--store reads without a trainer: leave --peer, --set and --log out");
    if ((args->model != NULL) == args->empty)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft rollout needs either --model FILE or --empty");
    weft_status status = args->save ? weft_file_place_check(args->save) : WEFT_OK;
    if (status != WEFT_OK)
        weft_fail_about("--save %s", args->save);
    return status;
}

/* The version to go to: the last that is whole, or that of --until, if the store has it. NULL: there is none yet. */
static const weft_store_entry *wanted(const reader *r)
{
    for (size_t i = r->stored.count; i-- > 0;) {
        const weft_store_entry *entry = &r->stored.entries[i];
        if (entry->reachable && (!r->has_until || entry->version.number <= r->args->until))
            return entry;
    }
    return NULL;
}

/* Takes slices of the store's model. */
static weft_status view_take(reader *r, const weft_layout *model)
{
    weft_status status = weft_share_weights_open(r->args->view, model, r->view);
    if (status == WEFT_OK)
        status = weft_store_view(r->stored.store, model, r->view->share.slices, r->view->share.slice_count);
    if (status == WEFT_OK)
        status = weft_stored_list(&r->stored);
    return status == WEFT_OK ? weft_share_weights_take(r->view, r->args->model, &r->weights) : status;
}

static weft_status weights_take(reader *r)
{
    weft_layout *layout = NULL;
    if (!r->args->empty && !r->view)
        return weft_weights_open(r->args->model, &r->weights);
    const weft_store_entry *entry = wanted(r);
    if (!entry && r->has_until)
        return weft_fail_quiet(WEFT_E_MISSING, "%s: the store has no whole version up to %" PRIu64, r->args->store,
                               r->args->until);
    if (!entry)
        return weft_fail_quiet(WEFT_E_MISSING, "%s: the store has no whole version", r->args->store);
    weft_status status = weft_store_layout(r->stored.store, &entry->version, &layout);
    if (status == WEFT_OK)
        status = r->view ? view_take(r, layout) : weft_weights_create(layout, &r->weights);
    weft_layout_free(layout);
    return status;
}

static void report(const weft_args *args, const weft_store_info *info, double ms)
{
    if (args->json)
        weft_output_object(json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:f}", "target", weft_json_label(&info->version),
                                     "digest", weft_json_hash(info->version.root), "files",
                                     weft_json_count(info->files), "anchors", weft_json_count(info->anchors), "bytes",
                                     weft_json_count(info->bytes), "damaged", weft_json_count(info->damaged),
                                     "apply_ms", ms));
    else
        weft_output_print("%s digest %016" PRIx64 ": %" PRIu64 " files, %s, %.1f ms\n",
                          weft_output_version(&info->version).text, info->version.root, info->files,
                          weft_output_size((double)info->bytes).text, ms);
}

static weft_status version_take(reader *r, const weft_version *version, const weft_work *work, weft_store_info *info)
{
    uint64_t count;
    const weft_piece *pieces = weft_weights_pieces(&r->weights, &count);
    if (r->view)
        return weft_store_apply_blocks(r->stored.store, version, r->view->model, r->view->blocks,
                                       r->view->share.slice_count, work, info);
    return weft_store_apply(r->stored.store, version, r->weights.layout, pieces, count, work, info);
}

/* Takes the header of the version's files, to be freed; NULL: the weights keep their own. */
static weft_status header_get(const reader *r, void **header, uint64_t *bytes)
{
    *header = NULL;
    *bytes = 0;
    if (r->view) /* a slice file has its own header */
        return WEFT_OK;
    weft_status status = weft_store_attachment(r->stored.store, &r->held, NULL, 0, bytes);
    *header = status == WEFT_OK ? malloc(*bytes + 1) : NULL;
    if (status == WEFT_OK && !*header)
        status = weft_fail_quiet(WEFT_E_MEMORY, "no memory for a header of %" PRIu64 " bytes", *bytes);
    if (status == WEFT_OK && *bytes)
        status = weft_store_attachment(r->stored.store, &r->held, *header, *bytes, bytes);
    return status;
}

static weft_status save_each(const reader *r)
{
    void *header = NULL;
    uint64_t bytes = 0;
    weft_status status = r->each->folder ? header_get(r, &header, &bytes) : WEFT_OK;
    if (status == WEFT_OK)
        weft_save_each_version(r->each, &r->weights, header, bytes, &r->held);
    free(header);
    return status;
}

/* Goes to the version that the store has now. WEFT_AGAIN: the weights are that version's. */
static weft_status advance(reader *r)
{
    const weft_store_entry *entry = wanted(r);
    weft_offline_bar bar;
    if (!entry || (entry->version.run == r->held.run && entry->version.number == r->held.number))
        return WEFT_AGAIN;
    weft_work work = weft_offline_work(r->args, "read", &bar);
    weft_store_info info = {.size = sizeof info};
    const weft_version version = entry->version;
    const double begun = weft_now_ms();
    weft_status status = version_take(r, &version, &work, &info);
    weft_offline_bar_end(&bar);
    if (status != WEFT_OK)
        return status;
    r->held = version;
    report(r->args, &info, weft_now_ms() - begun);
    return save_each(r);
}

static bool until_met(const reader *r)
{
    return r->has_until && r->held.run && r->held.number >= r->args->until;
}

/* Follows the store until --until is met or a signal comes; without --follow and --until once is enough. */
static weft_status follow(reader *r)
{
    weft_status status = advance(r);
    while ((status == WEFT_OK || status == WEFT_AGAIN) && (r->args->keep_on || r->has_until) && !until_met(r)) {
        if (weft_signals_stopping())
            return r->has_until ? weft_fail_quiet(WEFT_E_STATE, "version %" PRIu64 " did not come: %s", r->args->until,
                                                  weft_signals_reason())
                                : WEFT_OK;
        status = weft_store_wait(r->stored.store, LOOK_MS);
        if (status == WEFT_OK)
            status = weft_stored_list(&r->stored);
        if (status == WEFT_OK)
            status = advance(r);
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

static weft_status save(const reader *r)
{
    void *header = NULL;
    uint64_t bytes = 0;
    if (!r->held.run)
        return weft_fail_quiet(WEFT_E_STATE, "--save %s: nothing was written, because no version is held",
                               r->args->save);
    weft_status status = header_get(r, &header, &bytes);
    if (status == WEFT_OK)
        status = weft_weights_save(&r->weights, header, bytes, r->args->save);
    free(header);
    return status;
}

static weft_status reader_run(reader *r)
{
    weft_status status = arguments_check(r);
    if (status == WEFT_OK)
        status = weft_save_each_open(r->args, r->each);
    if (status == WEFT_OK)
        status = weft_stored_open(r->args->store, false, &r->stored);
    if (status == WEFT_OK)
        status = weights_take(r);
    if (status != WEFT_OK)
        return status;
    r->phase = WEFT_TOOL_WORK;
    status = follow(r);
    if (status == WEFT_E_LAYOUT) /* the model is another */
        r->phase = WEFT_TOOL_INPUT;
    if (status == WEFT_OK)
        status = weft_save_each_settle(r->each);
    return status == WEFT_OK && r->args->save ? save(r) : status;
}

/* ---- before a trainer is joined */

/* Takes the header that the version has over, so that the trainer need not send it. */
static weft_status header_take(const weft_stored *stored, const weft_version *version, weft_weights *weights)
{
    weft_stored_model taken = {0};
    weft_status status = weft_stored_header(stored, version, &taken);
    if (status == WEFT_OK && taken.header_bytes) {
        free(weights->header);
        weights->header = taken.header;
        weights->header_bytes = taken.header_bytes;
        taken.header = NULL;
    }
    weft_stored_give(&taken);
    return status;
}

weft_status weft_rollout_store_first(const weft_args *args, weft_weights *weights, weft_share_weights *view,
                                     weft_save_each *each, bool *taken)
{
    const bool empty = args->empty || view;
    reader r = {.args = args, .view = view, .each = each};
    weft_status status = weft_stored_open(args->store, false, &r.stored);
    const weft_store_entry *entry = status == WEFT_OK ? wanted(&r) : NULL;
    *taken = false;
    if (status == WEFT_OK && !entry)
        weft_output_say("weft: warn: %s has no whole version, so all comes from the trainer", args->store);
    if (entry && empty)
        status = weights_take(&r);
    if (entry && empty)
        *weights = r.weights;
    else if (entry)
        r.weights = *weights;
    if (entry && status == WEFT_OK)
        status = advance(&r);
    if (entry && status == WEFT_OK && !view)
        status = header_take(&r.stored, &r.held, weights);
    *taken = entry && status == WEFT_OK;
    weft_stored_close(&r.stored);
    return status;
}

int weft_rollout_store(const weft_args *args)
{
    weft_share_weights view = {0};
    weft_save_each each = {.args = NULL};
    reader r = {.args = args, .phase = WEFT_TOOL_INPUT, .view = args->view ? &view : NULL, .each = &each};
    weft_output_serve();
    weft_signals_catch();
    weft_status status = reader_run(&r);
    const int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, r.phase, status);
    weft_save_each_close(&each);
    weft_weights_close(&r.weights);
    weft_share_weights_close(&view);
    weft_stored_close(&r.stored);
    return code;
}
