/* publish.c - one version: finds what changed since the last one, encodes it, and hands it to the peers.
 *
 * In come the bound weights and the shadow, which has the bits published last. The call's thread chooses the parameters
 * and runs the encoder, whose lanes bring frames in the order of units. append.c puts each frame into the journal,
 * in the chain of its level. Peers may read frames before the last one is there (eager.c). Where the journal has no
 * room the version goes without frames, and peers get a snapshot: an update that fits nowhere must not fail a publish.
 *
 * The version then has a root: the digests of the last version, moved by what the encoder counted. hand_over makes it
 * the newest under the session's lock, tells each greeted peer, and wakes the progress thread, which sends. A shadow on
 * a device follows while the frames are made; any other takes the new bits last, because the peers need not wait for
 * that. From the first new bit to the last one snapshots and rebuilds wait (`shadow.busy`), because they read the
 * shadow.
 *
 * Weights that change while they are published are the caller's mistake, and would make the shadow differ from what
 * peers were told. The shadow's own digest shows that. amend then names the version after the shadow, because peers can
 * be led to those bits. An error before hand_over withdraws the update, and a shadow that followed goes back: the last
 * version stays the newest. */
#include "trainer/publish.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "trainer/recorder.h"

weft_mem_list weft_publish_digests(weft_publisher *publisher, const weft_layout *layout)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(publisher->newest.digests, layout->part_count + 1),
                            WEFT_MEM_TAKEN(publisher->encoding.delta, layout->part_count + 1),
                            WEFT_MEM_TAKEN(publisher->encoding.discard, layout->part_count + 1),
                            WEFT_MEM_TAKEN(publisher->shadow.moved, weft_shadow_words(layout))}};
}

weft_status weft_publish_open(weft_publisher *publisher)
{
    const weft_session *session = publisher->session;
    const weft_backend_options options = {(int)session->site->trainer.device, session->site->trainer.kernels, 0, 0};
    const uint32_t workers = weft_team_workers(session->site->trainer.threads);
    weft_status status = weft_mem_list_take(weft_publish_digests(publisher, session->layout), "for digests");
    if (status == WEFT_OK)
        status = weft_encoder_open(&publisher->encoding.encoder, session->backend, &options, session->device,
                                   session->layout, workers);
    if (status == WEFT_OK)
        status = weft_frame_copies_open(&publisher->encoding.copies, session->backend->depth > 1 ? workers : 0);
    return status == WEFT_OK ? weft_shadow_open(&publisher->shadow, publisher->session) : status;
}

void weft_publish_close(weft_publisher *publisher)
{
    weft_blob_drop(publisher->newest.attachment);
    weft_peer_views_close(&publisher->views);
    weft_binding_close(&publisher->weights);
    weft_shadow_close(&publisher->shadow, publisher->session);
    weft_frame_copies_close(&publisher->encoding.copies);
    weft_encoder_close(&publisher->encoding.encoder);
    weft_mem_list_give(weft_publish_digests(publisher, publisher->session->layout));
}

/* ---- encode */

static weft_status choose(weft_publisher *publisher, weft_update *update, void *stream)
{
    const weft_encode_pass pass = {
        .now = &publisher->weights, .shadow = &publisher->shadow.binding, .levels = update->levels, .stream = stream};
    return weft_encoder_choose_for(&publisher->encoding.encoder, &pass, &update->parameters);
}

static weft_status encode(weft_append *append, void *stream, weft_encode_pass *pass)
{
    weft_publisher *publisher = append->publisher;
    weft_update *update = append->update;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        weft_chain_begin(&update->chain[level]); /* first, because whatever fails, they are given back */
    weft_status status = choose(publisher, update, stream);
    if (status != WEFT_OK)
        return status;
    memset(publisher->encoding.delta, 0, publisher->session->layout->part_count * sizeof *publisher->encoding.delta);
    *pass = (weft_encode_pass){.now = &publisher->weights,
                               .shadow = &publisher->shadow.binding,
                               .parameters = &update->parameters,
                               .levels = update->levels,
                               .delta = publisher->encoding.delta,
                               .stream = stream,
                               .behind = true};
    weft_append_take(append, pass);
    status = weft_encoder_run(&publisher->encoding.encoder, pass);
    update->changed = pass->changed;
    publisher->encoding.need = weft_append_need(append);
    if (status != WEFT_OK)
        return weft_shadow_return(publisher, update, status);
    if (update->snapshot_only)
        weft_eager_withdraw(publisher, update);
    return WEFT_OK;
}

/* ---- publish */

static void hand_over(weft_publisher *publisher, weft_demand *demand, weft_update *update, const weft_encode_pass *pass)
{
    weft_session *session = publisher->session;
    for (uint64_t part = 0; part < session->layout->part_count; part++)
        publisher->newest.digests[part] += publisher->encoding.delta[part];
    update->published_ns = weft_clock_ns();
    if (update->attachment != publisher->newest.attachment) {
        weft_blob_drop(publisher->newest.attachment);
        publisher->newest.attachment = weft_blob_hold(update->attachment);
    }
    weft_peer_levels_note(demand, update,
                          1e-3 * publisher->encoding.encoder.lanes.count * (pass->diff_ms + pass->encode_ms));
    weft_eviction_make_place(publisher);
    weft_update *kept = weft_journal_append(&publisher->journal, update);
    weft_eager_seal(publisher, kept);
    weft_history_append(&publisher->history, publisher->encoding.delta, session->layout->part_count);
    publisher->newest.version = update->target;
    publisher->newest.order = kept->order;
    weft_peer_views_note(publisher);
    session->stats.versions++;
    session->stats.journal_bytes = weft_journal_bytes(&publisher->journal);
    for (uint32_t i = 0; i < publisher->peers->count; i++) {
        weft_peer *peer = &publisher->peers->list[i];
        if (!peer->connection.greeted)
            continue;
        weft_peer_move(peer, WEFT_ON_PUBLISH);
        weft_feed_follow(&peer->feed, &peer->standing, kept);
        weft_wish_offer(&publisher->newest, peer); /* a connection that fails is found by its next step */
        weft_lag_judge(publisher, peer);
    }
    weft_bridge_sweep(&publisher->bridge);
    weft_bridge_expect(&publisher->bridge, kept);
    weft_session_wake(session);
    weft_session_changed(session);
}

/* Names the version after what the shadow has. A peer that took frames of it for what was announced comes again, and
 * gets the units that differ from the shadow. */
static void amend(weft_publisher *publisher, weft_update *update)
{
    const weft_layout *layout = publisher->session->layout;
    weft_update *kept = weft_journal_at(&publisher->journal, publisher->newest.order);
    for (uint64_t part = 0; part < layout->part_count; part++)
        publisher->newest.digests[part] += publisher->encoding.discard[part] - publisher->encoding.delta[part];
    weft_history_amend(&publisher->history, publisher->encoding.discard, layout->part_count);
    update->target.root = weft_digest_parts_root(layout, publisher->newest.digests);
    kept->target = publisher->newest.version = update->target;
    weft_peer_views_note(publisher);
    kept->snapshot_only = true; /* because its levels may have different bits; they stay for peers that read them */
    weft_bridge_break(&publisher->bridge, kept);
    weft_bridge_amend(&publisher->bridge, &update->target);
    weft_log(WEFT_LOG_ERROR,
             "version %llu: the weights changed while it was published: it is %016llx now, and peers that fail it get "
             "what differs anew; publish when they are still",
             (unsigned long long)update->target.number, (unsigned long long)update->target.root);
}

/* Lets the version go out. Snapshots stand still until the shadow has the version too. */
static weft_status seal(const weft_append *append, weft_demand *demand, const weft_encode_pass *pass)
{
    weft_publisher *publisher = append->publisher;
    weft_update *update = append->update;
    weft_session *session = publisher->session;
    weft_log_sink *before = weft_session_enter(session);
    publisher->shadow.busy = publisher->sealing = true;
    hand_over(publisher, demand, update, pass);
    weft_session_leave(session, before);
    bool torn = false;
    weft_status status = weft_shadow_update(publisher, update, append->free, &torn);
    before = weft_session_enter(session);
    if (torn)
        amend(publisher, update);
    if (status == WEFT_OK)
        publisher->shadow.busy = publisher->sealing = false;
    else
        publisher->shadow.lost = true; /* because the device is dead; what the peers got is right all the same */
    weft_recorder_hear(publisher->recorder);
    weft_session_wake(session);
    weft_session_changed(session);
    weft_session_leave(session, before);
    update->attachment = NULL; /* because it is the journal's now */
    return status;
}

static weft_status check_publish(const weft_publisher *publisher, uint64_t version)
{
    if (!publisher->bound)
        return weft_fail(WEFT_E_STATE, "publish %llu: no weights are bound", (unsigned long long)version);
    if (publisher->away)
        return weft_fail(WEFT_E_STATE, "publish %llu: the weights are unbound; bind them again first",
                         (unsigned long long)version);
    if (publisher->shadow.lost)
        return weft_fail(WEFT_E_DEVICE,
                         "publish %llu: the copy of version %llu was lost with the device; close the session",
                         (unsigned long long)version, (unsigned long long)publisher->newest.version.number);
    if (version <= publisher->newest.version.number)
        return weft_fail(WEFT_E_STATE, "publish %llu: the version must exceed %llu", (unsigned long long)version,
                         (unsigned long long)publisher->newest.version.number);
    return WEFT_OK;
}

static weft_status choose_attachment(const weft_publisher *publisher, const weft_publish_options *given,
                                     weft_blob **blob)
{
    const weft_newest *newest = &publisher->newest;
    weft_status status = weft_blob_check("publish", given->attachment, given->attachment_bytes);
    if (status == WEFT_OK && given->attachment_bytes && publisher->session->has_share)
        status = weft_fail(WEFT_E_ARGUMENT, "publish: one of several sources has no attachment");
    if (status != WEFT_OK)
        return status;
    bool same = given->attachment_bytes == 0 ||
                (newest->attachment && newest->attachment->bytes == given->attachment_bytes &&
                 memcmp(newest->attachment->data, given->attachment, given->attachment_bytes) == 0);
    *blob = same ? weft_blob_hold(newest->attachment) : weft_blob_make(given->attachment, given->attachment_bytes);
    return same || *blob ? WEFT_OK
                         : weft_fail(WEFT_E_MEMORY, "no memory for an attachment of %llu bytes",
                                     (unsigned long long)given->attachment_bytes);
}

static uint64_t target_root(const weft_publisher *publisher)
{
    const weft_layout *layout = publisher->session->layout;
    for (uint64_t part = 0; part < layout->part_count; part++)
        publisher->encoding.discard[part] = publisher->newest.digests[part] + publisher->encoding.delta[part];
    return weft_digest_parts_root(layout, publisher->encoding.discard);
}

static weft_level densest(const weft_update *update)
{
    if (update->snapshot_only)
        return WEFT_LEVEL_FULL;
    return update->levels >> WEFT_LEVEL_TIGHT & 1 ? WEFT_LEVEL_TIGHT : WEFT_JOURNAL_LEVEL;
}

static void report(const weft_publisher *publisher, const weft_update *update, const weft_encode_pass *pass,
                   weft_update_info *all)
{
    const weft_layout *layout = publisher->session->layout;
    uint16_t words[WEFT_PARAMETER_WORDS_MAX];
    uint64_t bytes = update->snapshot_only ? layout->bytes : update->chain[densest(update)].bytes;
    bytes += 2 * (uint64_t)weft_parameters_write(&update->parameters, words);
    *all = (weft_update_info){.base = update->base,
                              .target = update->target,
                              .level = weft_level_name(densest(update)),
                              .elements = layout->elements,
                              .changed = update->changed,
                              .dense_bytes = layout->bytes};
    all->bytes = bytes + WEFT_UPDATE_HEADER_BYTES + WEFT_UPDATE_TRAILER_BYTES;
    if (update->attachment != publisher->newest.attachment)
        all->bytes += update->attachment->bytes;
    all->diff_ms = pass->diff_ms;
    all->encode_ms = pass->encode_ms;
}

/* Warns that the update does not fit the journal, and again only of an update that needs yet more. */
static void tell_of_journal(weft_encoding *encoding, const weft_update *update)
{
    char size[WEFT_SIZE_PRINTED];
    const uint64_t need = weft_size_journal_for(encoding->need);
    const bool said = need <= encoding->said;
    weft_size_print(need, size);
    weft_log(
        said ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
        "version %llu does not fit the journal: peers get it as a snapshot; raise [trainer] journal to at least %s",
        (unsigned long long)update->target.number, size);
    encoding->said = said ? encoding->said : need;
}

static void tell(weft_encoding *encoding, const weft_update *update, weft_update_info *all, weft_update_info *info)
{
    weft_log(WEFT_LOG_INFO, "version %llu: %llu of %llu changed, %llu bytes %s, diff %.1f ms, encode %.1f ms",
             (unsigned long long)all->target.number, (unsigned long long)all->changed,
             (unsigned long long)all->elements, (unsigned long long)all->bytes, all->level, all->diff_ms,
             all->encode_ms);
    if (update->snapshot_only)
        tell_of_journal(encoding, update);
    if (!info)
        return;
    size_t size = info->size < sizeof *all ? info->size : sizeof *all;
    all->size = size;
    memcpy(info, all, size);
}

/* Withdraws the update and keeps the error, whatever happens to a peer that has begun the update. */
static weft_status withdraw(weft_publisher *publisher, weft_update *update, weft_status status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", weft_last_error());
    weft_eager_withdraw(publisher, update);
    return weft_fail_quiet(status, "%s", why);
}

static weft_status publish(weft_trainer *trainer, weft_update *update, void *stream, const weft_publish_options *given,
                           weft_update_info *info)
{
    weft_append append = {.publisher = &trainer->publisher, .update = update, .given = given};
    weft_encode_pass pass;
    weft_update_info all;
    weft_status status = encode(&append, stream, &pass);
    if (status != WEFT_OK)
        return withdraw(&trainer->publisher, update, status);
    update->target.root = target_root(&trainer->publisher);
    report(&trainer->publisher, update, &pass, &all);
    uint64_t begun_ns = weft_clock_ns();
    status = seal(&append, &trainer->demand, &pass);
    all.encode_ms += weft_clock_ms(begun_ns, weft_clock_ns());
    all.target = update->target;
    if (status != WEFT_OK)
        return status;
    weft_append_weights_free(&append);
    tell(&trainer->publisher.encoding, update, &all, info);
    return WEFT_OK;
}

static weft_status publish_alone(weft_session *session, uint64_t version, void *stream,
                                 const weft_publish_options *options, weft_update_info *info)
{
    weft_trainer *trainer = session->trainer;
    weft_publish_options given = {0};
    weft_update update = {0};
    if (!trainer)
        return weft_fail(WEFT_E_STATE, "publish: this session is a rollout's");
    weft_status status = weft_size_check(options, "weft_publish_options");
    if (status == WEFT_OK)
        status = weft_size_check(info, "weft_update_info");
    if (status == WEFT_OK)
        status = check_publish(&trainer->publisher, version);
    if (status == WEFT_OK && options)
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    if (status == WEFT_OK)
        status = choose_attachment(&trainer->publisher, &given, &update.attachment);
    if (status != WEFT_OK)
        return status;
    update.base = trainer->publisher.newest.version;
    update.target = (weft_version){trainer->publisher.run, version, 0};
    weft_log_sink *before = weft_session_enter(session);
    weft_peer_levels(&trainer->demand, &trainer->peers);
    update.levels = trainer->demand.levels;
    trainer->publisher.publishing = true;
    pthread_mutex_unlock(&session->lock); /* because diff and encode touch nothing that the lock covers */
    weft_backend_hold(session->backend, session->device);
    status = publish(trainer, &update, stream, &given, info);
    weft_backend_release(session->backend, session->device);
    weft_log_enter(before);
    pthread_mutex_lock(&session->lock);
    trainer->publisher.publishing = false;
    pthread_cond_signal(&trainer->publisher.bridge.wake);
    pthread_mutex_unlock(&session->lock);
    if (status != WEFT_OK)
        weft_blob_drop(update.attachment);
    return status;
}

weft_status weft_publish(weft_session *session, uint64_t version, void *stream, const weft_publish_options *options,
                         weft_update_info *info)
{
    weft_status status = weft_turn_begin(&session->turn, WEFT_TURN_WEIGHTS, "weft_publish");
    if (status != WEFT_OK)
        return status;
    status = publish_alone(session, version, stream, options, info);
    weft_turn_end(&session->turn, WEFT_TURN_WEIGHTS);
    return status;
}
