/* rollout.c - weft rollout: joins a trainer and commits its versions as they come. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "layout/layout.h"
#include "model/safetensors.h"
#include "tools/follow/save_each.h"
#include "tools/output.h"
#include "tools/serve/rollout_store.h"
#include "tools/serve/weights.h"
#include "tools/share/holdings.h"
#include "tools/share/share_weights.h"
#include "tools/signals.h"
#include "tools/verbs.h"

enum { SLICE_MS = 200, ACKNOWLEDGE_MS = 50 };

typedef struct rollout {
    const weft_args *args;
    weft_site *site;
    weft_weights weights;
    weft_share_weights view; /* with --view, or several sources: the slices that `weights` are */
    bool has_view;
    weft_holdings holdings; /* of several sources */
    weft_session *session;
    weft_tool_phase phase;
    bool has_until; /* --until was given */
    bool empty;     /* the memory holds no model yet */
    weft_save_each each;
    bool save_fits; /* what --save would write, as far as it was known last */
    bool goodbye;   /* the trainer closed in good order and did not come back */
    uint64_t commits;
} rollout;

/* Better told now than after hours of training. Whether a file or a folder is to be saved is not known yet. */
static weft_status check_save(const char *path)
{
    weft_status status = weft_file_place_check(path);
    if (status == WEFT_OK && weft_file_check(path) != WEFT_OK && !weft_model_folder_fits(path))
        status = weft_fail_quiet(WEFT_E_FILE, "exists and is not a file; name a file, or, for a model of shards, "
                                              "a folder that is not there yet");
    if (status != WEFT_OK)
        weft_fail_about("--save %s", path);
    return status;
}

static weft_status check_arguments(rollout *r)
{
    const weft_args *args = r->args;
    if (args->keep_on)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--follow goes with --store alone; a trainer is followed always");
    r->empty = args->empty;
    if (!args->peer)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft rollout needs --peer NAME, one of the site's peers");
    if ((args->model != NULL) == args->empty)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft rollout needs either --model FILE or --empty");
    r->has_until = weft_args_given(args, WEFT_OPTION_UNTIL);
    weft_status status = weft_site_load(args->site, args->overrides.items, args->overrides.count, &r->site);
    if (status == WEFT_OK)
        status = weft_save_each_open(args, &r->each);
    return status == WEFT_OK && args->save ? check_save(args->save) : status;
}

/* As check_save, once there is a header that tells which of the two. */
static weft_status check_save_kind(rollout *r, const void *header, uint64_t bytes)
{
    weft_status status = weft_weights_save_check(&r->weights, header, bytes, r->args->save);
    r->save_fits = status == WEFT_OK;
    if (status != WEFT_OK)
        weft_fail_about("--save %s", r->args->save);
    return status;
}

static weft_status open_model(rollout *r)
{
    weft_status status = weft_weights_open(r->args->model, &r->weights);
    return status == WEFT_OK && r->args->save ? check_save_kind(r, NULL, 0) : status;
}

static weft_status open_view(rollout *r, const weft_layout *model)
{
    weft_status status = weft_share_weights_open(r->args->view, model, &r->view);
    if (status == WEFT_OK)
        status = weft_share_weights_take(&r->view, r->args->model, &r->weights);
    return status == WEFT_OK && r->args->save ? check_save_kind(r, NULL, 0) : status;
}

/* Takes memory for what the trainer's layout names. */
static weft_status take_trainers(rollout *r)
{
    weft_layout *layout = NULL;
    weft_status status = weft_layout_fetch(r->site, r->args->peer, 0, &layout);
    if (status == WEFT_E_PROTOCOL)
        r->phase = WEFT_TOOL_WORK; /* the trainer's, and no input */
    if (status != WEFT_OK)
        return status;
    status = weft_holdings_open(r->site, layout, &r->holdings);
    if (status == WEFT_OK)
        status = r->has_view ? open_view(r, layout) : weft_weights_create(layout, &r->weights);
    weft_layout_free(layout);
    return status;
}

/* The store comes first, and the trainer brings what is newer. */
static weft_status store_first(rollout *r)
{
    bool taken = false;
    if (r->weights.driver)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--store: weights on a device take nothing from a store");
    weft_status status = r->args->empty || r->has_view ? WEFT_OK : open_model(r);
    if (status == WEFT_OK)
        status = weft_rollout_store_first(r->args, &r->weights, r->has_view ? &r->view : NULL, &r->each, &taken);
    if (status == WEFT_OK && taken && r->has_view)
        status = weft_holdings_open(r->site, r->view.model, &r->holdings);
    if (status != WEFT_OK || taken || !(r->args->empty || r->has_view)) {
        r->empty = false;
        return status;
    }
    return take_trainers(r);
}

static weft_status take_model(rollout *r)
{
    weft_weights_place(r->site, r->args->peer, &r->weights);
    r->has_view = r->args->view || weft_holdings_named(r->site);
    if (r->args->store)
        return store_first(r);
    if (!r->args->empty && !r->has_view)
        return open_model(r);
    return take_trainers(r);
}

/* Binds the slices of the view, or all of the model. A slice file has its own header, and no trainer's. */
static weft_status bind_weights(const rollout *r)
{
    const uint32_t flags = r->empty ? WEFT_BIND_EMPTY : 0;
    uint64_t count = 0;
    if (r->has_view)
        return weft_bind_blocks(r->session, r->view.blocks, r->view.share.slice_count, NULL, 0, flags);
    const weft_piece *pieces = weft_weights_pieces(&r->weights, &count);
    return weft_bind(r->session, pieces, count, r->weights.header, r->weights.header_bytes, flags);
}

static weft_status open_session(rollout *r)
{
    weft_options options = {.size = sizeof options, .slices = r->view.share.slices};
    options.slice_count = r->view.share.slice_count;
    options.sources = r->holdings.source;
    options.source_count = r->holdings.count;
    const weft_layout *model = r->has_view ? r->view.model : r->weights.layout;
    weft_status status = weft_rollout_open(r->site, r->args->peer, model, &options, &r->session);
    weft_signals_deadly(false, false);
    if (status != WEFT_OK)
        return status;
    weft_signals_catch(); /* again: libfabric's shm takes them when it opens */
    weft_signals_watch(r->session);
    return bind_weights(r);
}

/* A rollout that starts with the bits of version V has met it without a commit. */
static bool until_met(rollout *r)
{
    weft_version held;
    return r->has_until && weft_held(r->session, &held) == WEFT_OK && held.run && held.number >= r->args->until;
}

static json_t *commit_json(const rollout *r, const weft_staged_info *staged, const weft_version *held, double commit_ms)
{
    const weft_layout *layout = r->weights.layout;
    bool update = staged->kind == WEFT_STAGED_UPDATE;
    weft_peer_info self = {.size = sizeof self};
    size_t count = 0;
    weft_status known = weft_peers(r->session, &self, 1, &count);
    uint64_t bytes = staged->bytes ? staged->bytes : known == WEFT_OK ? self.update_bytes : 0;
    json_t *object =
        json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:s,s:o}", "peer", r->args->peer, "kind", update ? "update" : "snapshot",
                  "base", update ? weft_json_label(&staged->base) : json_null(), "target", weft_json_label(held),
                  "version", weft_json_label(held), "digest", weft_json_hash(held->root), "level",
                  !update ? "full" : (self.level ? self.level : "auto"), "elements", weft_json_count(layout->elements));
    json_t *figures = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:f}", "changed", update ? weft_json_count(staged->changed) : json_null(),
        "dense_bytes", weft_json_count(weft_layout_bytes(layout)), "bytes",
        bytes ? weft_json_count(bytes) : json_null(), "bits_per_change",
        update ? weft_json_bits_per_change(bytes, staged->changed) : json_null(), "receive_ms",
        weft_json_known(staged->receive_ms), "apply_ms", weft_json_known(staged->decode_ms), "commit_ms", commit_ms);
    json_object_update(object, figures);
    json_decref(figures);
    return object;
}

static void report_commit(const rollout *r, const weft_staged_info *staged, const weft_version *held, double commit_ms)
{
    if (r->args->json) {
        weft_output_object(commit_json(r, staged, held, commit_ms));
        return;
    }
    if (staged->kind == WEFT_STAGED_UPDATE)
        weft_output_print("%s digest %016" PRIx64 ": %" PRIu64
                          " changes from %s, %s, receive %.1f ms, apply %.1f ms, commit %.1f ms\n",
                          weft_output_version(held).text, held->root, staged->changed,
                          weft_output_version(&staged->base).text, weft_output_size((double)staged->bytes).text,
                          staged->receive_ms, staged->decode_ms, commit_ms);
    else
        weft_output_print("%s digest %016" PRIx64 ": snapshot, commit %.1f ms\n", weft_output_version(held).text,
                          held->root, commit_ms);
}

/* Names the header that a saved file has: the trainer's, or of a view none, because a slice file keeps its own. */
static weft_status saved_header(const rollout *r, const void **header, uint64_t *bytes)
{
    return r->has_view ? WEFT_OK : weft_attachment(r->session, header, bytes);
}

/* The header comes with a version: with the first one where the rollout began empty, and a later one may turn a file
 * into a folder of shards. What is in the way then may still be moved away before the end. */
static weft_status check_save_now(rollout *r)
{
    const void *header = NULL;
    uint64_t bytes = 0;
    bool fitted = r->save_fits;
    weft_status status = saved_header(r, &header, &bytes);
    if (status == WEFT_OK)
        status = check_save_kind(r, header, bytes);
    if (status == WEFT_OK || (r->empty && r->commits == 1))
        return status;
    if (fitted)
        weft_output_say("weft: warn: %s", weft_last_error());
    return WEFT_OK;
}

static weft_status save_each(rollout *r, const weft_version *held)
{
    const void *header = NULL;
    uint64_t bytes = 0;
    weft_status status = saved_header(r, &header, &bytes);
    if (status == WEFT_OK)
        weft_save_each_version(&r->each, &r->weights, header, bytes, held);
    return status;
}

/* A failed commit leaves sound weights: the session serves the version again, or reports that it cannot. */
static bool commit_may_return(weft_status status)
{
    weft_scope scope = weft_status_scope(status);
    return scope == WEFT_SCOPE_VERSION || scope == WEFT_SCOPE_PEER || status == WEFT_E_TIMEOUT;
}

static weft_status commit(rollout *r, const weft_staged_info *staged)
{
    weft_version held;
    double start = weft_now_ms();
    weft_status status = weft_commit(r->session, staged->target.number, NULL, 0, &held);
    if (status == WEFT_OK) {
        r->commits++;
        report_commit(r, staged, &held, weft_now_ms() - start);
        status = save_each(r, &held);
        return status == WEFT_OK && r->args->save ? check_save_now(r) : status;
    }
    if (!commit_may_return(status))
        return status;
    if (!weft_fail_was_logged())
        weft_output_say("weft: warn: version %" PRIu64 " was not committed: %s", staged->target.number,
                        weft_last_error());
    return WEFT_OK;
}

/* A trainer that died is waited for. One that said goodbye has ended its work. */
static void hear_events(rollout *r)
{
    weft_event event = {.size = sizeof event};
    while (weft_events(r->session, &event) == WEFT_OK)
        r->goodbye = event.kind == WEFT_EVENT_GOODBYE || (r->goodbye && event.kind != WEFT_EVENT_JOINED);
}

static weft_status ended_early(const rollout *r, weft_status status, const char *why)
{
    if (!r->has_until)
        return WEFT_OK;
    return weft_fail_quiet(status, "version %" PRIu64 " was not committed: %s", r->args->until, why);
}

/* Ends with what the end means: WEFT_OK, or why --until was not met. */
static weft_status run(rollout *r)
{
    while (!until_met(r)) {
        if (weft_signals_stopping())
            return ended_early(r, WEFT_E_STATE, weft_signals_reason());
        weft_staged_info staged = {.size = sizeof staged};
        weft_status status = weft_staged(r->session, SLICE_MS, &staged);
        if (status == WEFT_AGAIN && r->goodbye)
            return ended_early(r, WEFT_E_PEER_LOST, "the trainer said goodbye");
        if (status == WEFT_E_TIMEOUT) /* a signal broke the wait off */
            continue;
        if (status == WEFT_OK)
            status = commit(r, &staged);
        if (status != WEFT_OK && status != WEFT_AGAIN)
            return status;
        hear_events(r);
    }
    weft_signals_pause(r->session, ACKNOWLEDGE_MS);
    return WEFT_OK;
}

/* Returns true if a trainer sent or named the held version. */
static bool is_received(const rollout *r, const weft_version *held)
{
    return held->run || r->commits > 0;
}

/* The file is proved before it is written: what is held may have rotted since it was committed. */
static weft_status save(rollout *r)
{
    weft_version held;
    weft_status status = weft_held(r->session, &held);
    if (status == WEFT_OK && !is_received(r, &held)) /* the user's own file still */
        status = WEFT_E_STATE;
    if (status != WEFT_OK)
        return weft_fail_quiet(status, "--save %s: nothing was written, because no version is held", r->args->save);
    status = weft_scrub(r->session);
    if (status != WEFT_OK)
        return status;
    const void *header = NULL;
    uint64_t bytes = 0;
    status = saved_header(r, &header, &bytes);
    return status == WEFT_OK ? weft_weights_save(&r->weights, header, bytes, r->args->save) : status;
}

/* A run that failed keeps the versions received. A model that no version came to is still the user's own file. */
static weft_status save_after_error(rollout *r)
{
    weft_version held;
    if (weft_held(r->session, &held) != WEFT_OK || !is_received(r, &held))
        return WEFT_OK;
    bool told = !r->save_fits;
    weft_status status = save(r);
    if (status == WEFT_OK)
        weft_output_say("weft: --save %s: %s was written", weft_output_plain(r->args->save).text,
                        weft_output_version(&held).text);
    return told ? WEFT_OK : status;
}

static weft_status rollout_open(rollout *r)
{
    weft_output_serve();
    weft_signals_catch();
    weft_signals_deadly(true, r->args->json); /* the model is read; the trainer's answer, names and links waited for */
    weft_status status = check_arguments(r);
    if (status == WEFT_OK)
        status = take_model(r);
    if (status == WEFT_OK)
        status = open_session(r);
    return status;
}

/* The exit code is that of the run, unless only the saving failed. */
static int rollout_work(rollout *r)
{
    r->phase = WEFT_TOOL_WORK;
    weft_status status = run(r);
    if (status == WEFT_OK)
        status = weft_save_each_settle(&r->each);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(r->args->json, r->phase, status);
    if (!r->args->save)
        return code;
    status = code == WEFT_EXIT_DONE ? save(r) : save_after_error(r);
    if (status == WEFT_OK)
        return code;
    int unsaved = weft_output_error(r->args->json, r->phase, status);
    return code == WEFT_EXIT_DONE ? unsaved : code;
}

int weft_verb_rollout(const weft_args *args)
{
    if (args->store && !args->site)
        return weft_rollout_store(args);
    rollout r = {.args = args, .phase = WEFT_TOOL_INPUT, .save_fits = true};
    weft_status status = rollout_open(&r);
    int code = status == WEFT_OK ? rollout_work(&r) : weft_output_error(args->json, r.phase, status);
    weft_signals_watch(NULL);
    weft_close(r.session); /* lets the last acknowledgement leave */
    weft_share_weights_close(&r.view);
    weft_holdings_close(&r.holdings);
    weft_save_each_close(&r.each);
    weft_weights_close(&r.weights);
    weft_site_free(r.site);
    return code;
}
