/* demo_trainer.c - the demo's trainer: trains a made-up model in memory and publishes every step. */
#include <string.h>

#include "base/status.h"
#include "layout/layout.h"
#include "model/synth.h"
#include "tools/demo/demo.h"
#include "tools/output.h"
#include "tools/serve/roster.h"
#include "tools/signals.h"

enum { SLICE_MS = 100, JOIN_SLICE_MS = 20, SEED = 20250 };

typedef struct school {
    const weft_demo_plan *plan;
    weft_site *site;
    weft_model *model;
    weft_session *session;
    weft_roster roster;
    weft_version last;
    uint64_t changed;      /* sum over the updates */
    uint64_t update_bytes; /* sum over the updates, each once */
    weft_tool_phase phase;
} school;

static void say(const char *kind, json_t *message)
{
    json_object_set_new(message, "kind", json_string(kind));
    weft_output_object(message);
}

static weft_status interrupted(void)
{
    return weft_fail_quiet(WEFT_E_STATE, "%s", weft_signals_reason());
}

static weft_status save(const school *s, const char *path)
{
    uint64_t bytes = 0;
    const void *header = weft_model_header(s->model, &bytes);
    return weft_model_save(s->model, header, bytes, path);
}

static weft_status open_session(school *s)
{
    const weft_args *args = s->plan->args;
    weft_status status = weft_site_load(s->plan->site, args->overrides.items, args->overrides.count, &s->site);
    if (status == WEFT_OK)
        status = weft_synth_model(args->params, SEED, &s->model);
    if (status == WEFT_OK)
        status = save(s, s->plan->start);
    if (status == WEFT_OK)
        status = weft_trainer_open(s->site, weft_model_layout(s->model), NULL, &s->session);
    if (status != WEFT_OK)
        return status;
    uint64_t count = 0, bytes = 0;
    const weft_piece *pieces = weft_model_pieces(s->model, &count);
    const void *header = weft_model_header(s->model, &bytes);
    status = weft_bind(s->session, pieces, count, header, bytes, 0);
    return status == WEFT_OK ? weft_held(s->session, &s->last) : status;
}

static weft_status say_ready(const school *s)
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_status status = weft_stats(s->session, &stats);
    if (status == WEFT_OK)
        say("ready", json_pack("{s:s}", "listen", stats.listen));
    return status;
}

static weft_status look(school *s)
{
    weft_event event = {.size = sizeof event};
    while (weft_events(s->session, &event) == WEFT_OK)
        ;
    return weft_roster_read(s->session, &s->roster);
}

static void say_peers(const school *s, const char *kind)
{
    say(kind,
        json_pack("{s:o,s:o}", "version", weft_json_count(s->last.number), "peers", weft_roster_json(&s->roster)));
}

/* The parent bounds the wait: it ends this process at its timeout or when a rollout fails. */
static weft_status wait_for_joins(school *s)
{
    for (;;) {
        weft_status status = look(s);
        if (status != WEFT_OK || weft_roster_joined(&s->roster) >= s->plan->args->peers)
            return status;
        if (weft_signals_stopping())
            return interrupted();
        weft_signals_pause(s->session, JOIN_SLICE_MS);
    }
}

static weft_status first_lost(const school *s)
{
    for (size_t i = 0; i < s->roster.count; i++)
        if (!weft_peer_holds(&s->roster.peers[i], &s->last))
            return weft_fail_quiet(WEFT_E_PEER_LOST, "%s was lost before it held version %llu", s->roster.peers[i].name,
                                   (unsigned long long)s->last.number);
    return WEFT_OK;
}

static weft_status wait_until_held(school *s)
{
    for (;;) {
        weft_status waited = weft_wait(s->session, s->last.number, NULL, 0, SLICE_MS);
        if (waited != WEFT_OK && waited != WEFT_E_TIMEOUT && waited != WEFT_E_PEER_LOST)
            return waited;
        weft_status status = look(s);
        if (status == WEFT_OK && waited != WEFT_E_TIMEOUT)
            status = first_lost(s);
        if (status == WEFT_OK && weft_signals_stopping())
            status = interrupted();
        if (status != WEFT_OK)
            return status;
        say_peers(s, waited == WEFT_E_TIMEOUT ? "peers" : "held");
        if (waited != WEFT_E_TIMEOUT)
            return WEFT_OK;
    }
}

static weft_status train(school *s, uint64_t step)
{
    weft_status status = weft_synth_step(s->model, s->plan->args->changed / 100, SEED + step, NULL);
    weft_update_info info = {.size = sizeof info};
    if (status == WEFT_OK)
        status = weft_publish(s->session, step, NULL, NULL, &info);
    if (status != WEFT_OK)
        return status;
    s->last = info.target;
    s->changed += info.changed;
    s->update_bytes += info.bytes;
    say("update", weft_json_update(&info));
    return wait_until_held(s);
}

static void say_done(const school *s)
{
    const weft_layout *layout = weft_model_layout(s->model);
    uint64_t sent = 0, snapshots = 0;
    for (size_t i = 0; i < s->roster.count; i++) {
        sent += s->roster.peers[i].bytes;
        snapshots += s->roster.peers[i].snapshot_bytes;
    }
    say("done", json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "digest", weft_json_hash(s->last.root), "bytes_sent",
                          weft_json_count(sent), "snapshot_bytes", weft_json_count(snapshots), "elements",
                          weft_json_count(layout->elements), "model_bytes", weft_json_count(weft_layout_bytes(layout)),
                          "changed", weft_json_count(s->changed), "update_bytes", weft_json_count(s->update_bytes)));
}

static weft_status teach(school *s)
{
    weft_status status = open_session(s);
    if (status == WEFT_OK)
        status = say_ready(s);
    if (status != WEFT_OK)
        return status;
    s->phase = WEFT_TOOL_WORK;
    status = wait_for_joins(s);
    for (uint64_t step = 1; status == WEFT_OK && step <= s->plan->args->updates; step++)
        status = train(s, step);
    if (status == WEFT_OK)
        status = save(s, s->plan->final);
    if (status == WEFT_OK)
        say_done(s);
    return status;
}

int weft_demo_trainer(const weft_demo_plan *plan)
{
    school s = {.plan = plan, .phase = WEFT_TOOL_INPUT};
    weft_status status = teach(&s);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(true, s.phase, status);
    weft_close(s.session);
    weft_roster_close(&s.roster);
    weft_model_close(s.model);
    weft_site_free(s.site);
    return code;
}
