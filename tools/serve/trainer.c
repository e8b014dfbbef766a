/* trainer.c - weft trainer: publishes checkpoint files to the rollouts of a site. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "site/site.h"
#include "tools/follow/follow.h"
#include "tools/output.h"
#include "tools/serve/roster.h"
#include "tools/serve/weights.h"
#include "tools/share/holdings.h"
#include "tools/signals.h"
#include "tools/verbs.h"

enum { SLICE_MS = 100, VALUE_ROOM = 512 };

typedef struct trainer {
    const weft_args *args;
    const char *model; /* path */
    weft_site *site;
    weft_weights weights;
    weft_holdings holdings; /* with --source */
    weft_session *session;
    weft_follow *follow;
    weft_version last; /* published last */
    uint64_t updates;
    weft_roster roster;
    weft_tool_phase phase;
} trainer;

static weft_status interrupted(const trainer *t)
{
    return weft_fail_quiet(WEFT_E_STATE, "%s, before every rollout held version %" PRIu64, weft_signals_reason(),
                           t->last.number);
}

static weft_status check_versions(const weft_args *args)
{
    for (size_t i = 0; i < args->versions.count; i++)
        if (access(args->versions.items[i], R_OK) != 0)
            return weft_fail_quiet(WEFT_E_FILE, "%s cannot be read: %s", args->versions.items[i], strerror(errno));
    return WEFT_OK;
}

/* An option that does nothing is refused, because whoever gave it counts on it. */
static weft_status check_options(const weft_args *args)
{
    if ((args->versions.count > 0) == (args->follow != NULL))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft trainer needs either --versions FILE... or --follow DIR");
    if (args->allow_missing && !args->versions.count)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--allow-missing goes with --versions");
    if (args->follow_all && !args->follow)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--follow-all goes with --follow");
    if (weft_args_given(args, WEFT_OPTION_SOURCE) != weft_args_given(args, WEFT_OPTION_RUN) ||
        (weft_args_given(args, WEFT_OPTION_RUN) && args->run == 0))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--source R goes with --run N, from 1 on");
    return WEFT_OK;
}

/* A site whose sources have holdings needs to know which of them this trainer is. */
static weft_status check_source(const trainer *t)
{
    const bool given = weft_args_given(t->args, WEFT_OPTION_SOURCE);
    if (given && t->args->source >= t->site->source_count)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--source %" PRIu64 ": %s has %" PRIu64 " sections [source.R]",
                               t->args->source, t->args->site, t->site->source_count);
    if (!given && weft_holdings_named(t->site))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "%s has sources with holdings: say which one with --source R",
                               t->args->site);
    if (given && !weft_holdings_named(t->site))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--source: no [source.R] of %s has a holding", t->args->site);
    return WEFT_OK;
}

static weft_status check_arguments(trainer *t)
{
    const weft_args *args = t->args;
    weft_status status = check_options(args);
    if (status == WEFT_OK)
        status = weft_site_load(args->site, args->overrides.items, args->overrides.count, &t->site);
    if (status == WEFT_OK)
        status = check_source(t);
    if (status != WEFT_OK)
        return status;
    t->model = args->model;
    if (!t->model)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft trainer needs --model FILE");
    return check_versions(args);
}

/* Binds what this source contributes, where that lies in the whole model. */
static weft_status bind_holding(trainer *t)
{
    uint64_t count = 0;
    const weft_trainer_source *own = &t->holdings.source[t->args->source];
    weft_block *blocks = weft_mem_take(own->slice_count + 1, sizeof *blocks);
    if (!blocks)
        return weft_fail(WEFT_E_MEMORY, "no memory for %" PRIu64 " blocks", own->slice_count);
    weft_holdings_blocks(t->weights.layout, own, weft_weights_pieces(&t->weights, &count), blocks);
    const weft_status status = weft_bind_blocks(t->session, blocks, own->slice_count, NULL, 0, 0);
    weft_mem_give(blocks);
    return status;
}

static weft_status bind_weights(trainer *t)
{
    uint64_t count = 0;
    weft_status status = weft_weights_fill(t->model, &t->weights);
    if (status != WEFT_OK)
        return status;
    const weft_piece *pieces = weft_weights_pieces(&t->weights, &count);
    status = t->holdings.count > 0
                 ? bind_holding(t)
                 : weft_bind(t->session, pieces, count, t->weights.header, t->weights.header_bytes, 0);
    return status == WEFT_OK ? weft_held(t->session, &t->last) : status;
}

/* It listens as soon as the layout is known: reading, copying and digesting the weights may take minutes, in which
 * rollouts are told that they are to wait. Until peers may join a signal ends all at once. */
static weft_status open_session(trainer *t)
{
    weft_options options = {.size = sizeof options, .first_version = t->args->first_version};
    weft_weights_place(t->site, NULL, &t->weights);
    weft_status status = weft_weights_begin(t->model, &t->weights);
    if (status == WEFT_OK && t->args->follow)
        status = weft_follow_open(t->args->follow, t->model, t->args->follow_all, &t->follow);
    if (status == WEFT_OK)
        status = weft_holdings_open(t->site, t->weights.layout, &t->holdings);
    if (t->holdings.count > 0) {
        options.source = (uint32_t)t->args->source;
        options.run = t->args->run;
        options.slices = t->holdings.source[t->args->source].slices;
        options.slice_count = t->holdings.source[t->args->source].slice_count;
    }
    if (status == WEFT_OK)
        status = weft_trainer_open(t->site, t->weights.layout, &options, &t->session);
    if (status != WEFT_OK)
        return status;
    weft_signals_catch(); /* again: libfabric's shm takes them when it opens */
    return bind_weights(t);
}

static void report_held(trainer *t, const weft_event *event)
{
    const weft_peer_info *peer = weft_roster_find(&t->roster, event->peer);
    if (!peer)
        return;
    if (t->args->json) {
        json_t *object = weft_json_peer(peer);
        json_object_set_new(object, "held", weft_json_label(&event->version));
        json_object_set_new(object, "digest", weft_json_hash(event->version.root));
        weft_output_object(object);
        return;
    }
    weft_output_print("  %s holds %s", event->peer, weft_output_version(&event->version).text);
    if (peer->update_bytes)
        weft_output_print(" (%s, send %.1f ms, apply %.1f ms, commit %.1f ms)",
                          weft_output_size((double)peer->update_bytes).text, peer->send_ms, peer->apply_ms,
                          peer->commit_ms);
    for (uint32_t i = 0; peer->rail_count > 1 && i < peer->rail_count; i++)
        weft_output_print("%s%s %s%s", i ? ", " : "; rails ", peer->rails[i].address,
                          weft_output_size((double)peer->rails[i].bytes).text, peer->rails[i].up ? "" : " (down)");
    weft_output_print("\n");
}

/* Joins and losses are told by the library's log. */
static weft_status take_events(trainer *t)
{
    weft_status status = weft_roster_read(t->session, &t->roster);
    weft_event event = {.size = sizeof event};
    while (status == WEFT_OK && weft_events(t->session, &event) == WEFT_OK)
        if (event.kind == WEFT_EVENT_HELD)
            report_held(t, &event);
    return status;
}

/* Names the site's peers that have not joined; returns how many those are. */
static size_t list_missing(const trainer *t, char *names, size_t room)
{
    size_t missing = 0, used = 0;
    const char *name;
    names[0] = '\0';
    for (size_t i = 0; weft_site_peer_name(t->site, i, &name) == WEFT_OK; i++) {
        const weft_peer_info *peer = weft_roster_find(&t->roster, name);
        if (peer && weft_peer_is_joined(peer))
            continue;
        missing++;
        if (used < room)
            used += (size_t)snprintf(names + used, room - used, "%s%s", used ? ", " : "", name);
    }
    return missing;
}

/* Once somebody is there: who else is waited for, each time that this is told anew. */
static void tell_missing(const trainer *t, const char *missing, double until, char *told)
{
    if (!*missing || strcmp(missing, told) == 0 || !weft_roster_joined(&t->roster))
        return;
    weft_output_say("weft: waiting for %s, at most %.0f s more (join_deadline)", missing,
                    (until - weft_now_ms()) / 1e3);
    snprintf(told, VALUE_ROOM, "%s", missing);
}

static weft_status wait_for_joins(trainer *t)
{
    char deadline[VALUE_ROOM] = "", missing[VALUE_ROOM], told[VALUE_ROOM] = "";
    const char *name;
    weft_site_get(t->site, NULL, "trainer.join_deadline", deadline, sizeof deadline);
    double until = weft_now_ms() + weft_output_duration_ms(deadline, 30000);
    bool patterns_only = weft_site_peer_name(t->site, 0, &name) != WEFT_OK;
    for (;;) {
        weft_status status = take_events(t);
        if (status != WEFT_OK)
            return status;
        size_t absent = list_missing(t, missing, sizeof missing);
        if (!absent && !patterns_only)
            return WEFT_OK;
        if (weft_signals_stopping())
            return interrupted(t);
        if (weft_now_ms() >= until)
            break;
        tell_missing(t, missing, until, told);
        weft_signals_pause(t->session, SLICE_MS);
    }
    if (!weft_roster_joined(&t->roster))
        return weft_fail_quiet(WEFT_E_UNREACHABLE,
                               "no rollout joined within join_deadline = %s%s%s; start rollouts with weft rollout, or "
                               "raise join_deadline in [trainer]",
                               deadline, *missing ? "; missing: " : "", missing);
    if (*missing)
        weft_output_say("weft: warn: starts without %s, because they did not join within %s", missing, deadline);
    return WEFT_OK;
}

static void report_update(trainer *t, const weft_update_info *info, const char *path)
{
    if (t->args->json) {
        json_t *object = weft_json_update(info);
        json_object_set_new(object, "file", weft_json_text(path));
        json_object_set_new(object, "peers", weft_roster_json(&t->roster));
        weft_output_object(object);
    } else {
        weft_output_update(info);
    }
}

static weft_status publish_file(trainer *t, const char *path)
{
    weft_status status = weft_weights_load(&t->weights, path);
    if (status != WEFT_OK)
        return status;
    weft_publish_options options = {
        .size = sizeof options, .attachment = t->weights.header, .attachment_bytes = t->weights.header_bytes};
    if (t->holdings.count > 0) /* one of several sources has no attachment */
        options = (weft_publish_options){.size = sizeof options};
    weft_update_info info = {.size = sizeof info};
    status = weft_publish(t->session, t->last.number + 1, NULL, &options, &info);
    if (status != WEFT_OK)
        return status;
    t->last = info.target;
    t->updates++;
    report_update(t, &info, path);
    return take_events(t);
}

static weft_status wait_until_held(trainer *t)
{
    for (;;) {
        weft_status waited = weft_wait(t->session, t->last.number, NULL, 0, SLICE_MS);
        weft_status status =
            waited == WEFT_OK || waited == WEFT_E_TIMEOUT || waited == WEFT_E_PEER_LOST ? take_events(t) : waited;
        if (status != WEFT_OK || waited != WEFT_E_TIMEOUT)
            return status;
        if (weft_signals_stopping())
            return interrupted(t);
    }
}

/* Versions published before a wrong file still reach the rollouts. The error is reported afterwards. */
static weft_status settle(trainer *t, weft_status status)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", weft_last_error());
    if (t->updates)
        wait_until_held(t);
    return weft_fail_quiet(status, "%s", text);
}

/* Names those of the site that never joined; one that joined and was lost is judged as a peer. */
static weft_status judge_missing(const trainer *t)
{
    char names[VALUE_ROOM] = "";
    size_t used = 0, missing = 0;
    const char *name;
    for (size_t i = 0; weft_site_peer_name(t->site, i, &name) == WEFT_OK; i++) {
        if (weft_roster_find(&t->roster, name))
            continue;
        missing++;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    if (!missing || t->args->allow_missing)
        return WEFT_OK;
    return weft_fail_quiet(WEFT_E_PEER_LOST,
                           "%zu of the site's peers never joined: %s; start them, or accept that with --allow-missing",
                           missing, names);
}

/* A peer that left after it held the last version has done its work. */
static weft_status judge_peers(const trainer *t)
{
    char names[VALUE_ROOM] = "";
    size_t used = 0;
    for (size_t i = 0; i < t->roster.count; i++) {
        const weft_peer_info *peer = &t->roster.peers[i];
        if (peer->state != WEFT_PEER_JOINING && !weft_peer_holds(peer, &t->last) && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", peer->name);
    }
    if (used)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "lost before version %" PRIu64 " was held: %s", t->last.number, names);
    return WEFT_OK;
}

static weft_status run_versions(trainer *t)
{
    weft_status status = wait_for_joins(t);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < t->args->versions.count; i++) {
        status = weft_signals_stopping() ? interrupted(t) : publish_file(t, t->args->versions.items[i]);
        if (status != WEFT_OK)
            return settle(t, status);
    }
    status = wait_until_held(t);
    if (status == WEFT_OK)
        status = judge_peers(t);
    return status == WEFT_OK ? judge_missing(t) : status;
}

/* A file that is no checkpoint of this model is left out, and looked at again when it changes: it may still grow. */
static weft_status follow_file(trainer *t, const char *path)
{
    weft_status status = publish_file(t, path);
    if (status == WEFT_OK)
        weft_follow_published(t->follow);
    else if (weft_follow_again(t->follow, status))
        return WEFT_OK;
    if (status != WEFT_E_LAYOUT && status != WEFT_E_FILE)
        return status;
    weft_output_say("weft: warn: not published until the file changes: %s", weft_last_error());
    return WEFT_OK;
}

static weft_status run_follow(trainer *t)
{
    while (!weft_signals_stopping()) {
        const char *path;
        weft_status status = weft_follow_next(t->follow, &path);
        if (status == WEFT_OK)
            status = follow_file(t, path);
        else if (status == WEFT_AGAIN)
            status = take_events(t);
        if (status != WEFT_OK)
            return settle(t, status);
        weft_signals_pause(t->session, SLICE_MS);
    }
    return WEFT_OK;
}

/* After what is still to be told of peers: the last of them may have left since. */
static void report_end(trainer *t)
{
    if (take_events(t) != WEFT_OK)
        return;
    if (t->args->json)
        weft_output_object(json_pack("{s:o,s:o,s:o}", "held", weft_json_count(t->last.number), "updates",
                                     weft_json_count(t->updates), "peers", weft_roster_json(&t->roster)));
    else
        weft_output_print("%" PRIu64 " updates published, last version %" PRIu64 ", digest %016" PRIx64 "\n",
                          t->updates, t->last.number, t->last.root);
}

static weft_status trainer_run(trainer *t)
{
    weft_output_serve();
    weft_signals_catch();
    weft_signals_deadly(true, t->args->json); /* links that are not up are waited for, and weights are read */
    weft_status status = check_arguments(t);
    if (status == WEFT_OK)
        status = open_session(t);
    weft_signals_deadly(false, false);
    if (status != WEFT_OK)
        return status;
    t->phase = WEFT_TOOL_WORK;
    status = t->follow ? run_follow(t) : run_versions(t);
    if (status == WEFT_OK)
        report_end(t);
    return status;
}

int weft_verb_trainer(const weft_args *args)
{
    trainer t = {.args = args, .phase = WEFT_TOOL_INPUT};
    weft_status status = trainer_run(&t);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, t.phase, status);
    weft_close(t.session);
    weft_follow_close(t.follow);
    weft_roster_close(&t.roster);
    weft_holdings_close(&t.holdings);
    weft_weights_close(&t.weights);
    weft_site_free(t.site);
    return code;
}
