/* trainer.c - opens and closes the trainer's session.
 *
 * In come a site, which names the trainer's addresses and its peers, and the layout of the weights. weft_trainer_open
 * draws the run, settles what `auto` comes to, and opens the parts one after the other: the publisher (journal,
 * history, bridge, encoder, shadow), the buffers that peers are sent from, the door, the records of the peers, and the
 * outlets. Each part takes all of its memory here, because the steady state takes none.
 *
 * Then the session's thread starts. It takes one step after the other (trainer_step.c). A step accepts guests at the
 * door, hears each peer (peer/peer.c), greets who wants to join (peer/greet.c), and sends what is due (peer/feed.c).
 * Guests are told to come again until weft_bind has bound weights (shadow.c). From then on the caller's weft_publish
 * makes versions (publish.c), and the steps take them to the peers.
 *
 * weft_close comes back here. The bridge's thread and the session's thread stop. Peers get a goodbye, and have until
 * close_deadline to take that. Each record is lost in good order. Then the parts are given back, the outlets first,
 * because these have registered the memory of the other parts. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "peer/peer.h"
#include "session/await.h"
#include "site/site_link.h"
#include "trainer/publish.h"
#include "trainer/recorder.h"
#include "trainer/sizes_trainer.h"

#define PEER_LINES 32u /* lines at once about one peer, before they are limited */
#define GRACE_MS                                                                                                       \
    2000u /* beyond close_deadline, at most: a server's request ends within a second, a disk's need not                \
           */

static void figures(const weft_session *session, weft_stats_info *stats)
{
    stats->rail_count = weft_outlets_describe(&session->trainer->outlets, stats->rails);
    for (uint32_t i = 0; i < session->trainer->peers.count; i++)
        weft_rail_count(&session->trainer->peers.list[i].sender.rails, stats->rails);
}

static void end_limits(weft_trainer *trainer)
{
    weft_log_limit_end(&trainer->door.strangers);
    weft_log_limit_end(&trainer->comers);
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        weft_log_limit_end(&trainer->peers.list[i].claim.limit);
}

/* Gives a record what it keeps as long as the session: lines of its own, and its part of the buffers. */
static weft_status open_peer(weft_peer *peer, weft_session *session, weft_outlets *outlets, uint32_t index)
{
    peer->session = session;
    weft_send_bind(&peer->sender, outlets, index);
    peer->sender.control = &peer->connection.control;
    peer->sender.hello = &peer->claim.hello;
    peer->sender.site = &peer->site;
    peer->sender.held = &peer->standing.held;
    peer->sender.flights.give = weft_feed_give_slab;
    weft_log_limit_open(&peer->claim.limit, &session->sink, PEER_LINES);
    return weft_control_open(&peer->connection.control);
}

static weft_status open_peers(weft_peer_table *peers, weft_session *session, weft_outlets *outlets)
{
    peers->list = weft_mem_take(peers->count, sizeof *peers->list);
    if (!peers->list)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u peers", peers->count);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < peers->count && status == WEFT_OK; i++)
        status = open_peer(&peers->list[i], session, outlets, i);
    return status == WEFT_OK ? weft_watch_open(&peers->watch, peers->count) : status;
}

/* Opens an address for each provider that a peer of the site is named with, because nothing falls back later. Of
 * several addresses one will do. */
static weft_status open_lanes(weft_outlets *outlets)
{
    const weft_site *site = outlets->session->site;
    for (uint64_t i = 0; i < site->peer_count; i++) {
        weft_outlet *outlet;
        char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
        uint32_t rails = weft_site_rails(site->peers[i].address, list);
        if (strcmp(site->peers[i].provider, "auto") == 0)
            continue;
        weft_status status = weft_outlet_any(outlets, site->peers[i].provider, rails, NULL, &outlet);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Lets addresses that are away be asked for again at once. */
static void forget_away(weft_outlets *outlets)
{
    for (uint32_t i = 0; i < outlets->count; i++)
        outlets->list[i].retry_ns = 0;
}

/* Opens the fabric addresses and the listen address. Both may come with an interface that is not up yet. */
static weft_status open_network(weft_trainer *trainer)
{
    weft_session *session = trainer->session;
    weft_await await = weft_await_begin(session->site);
    weft_status status;
    do {
        forget_away(&trainer->outlets);
        status = open_lanes(&trainer->outlets);
    } while (weft_await_more(&await, status));
    if (status != WEFT_OK)
        return weft_await_end(&await, status);
    return weft_door_listen(&trainer->door, session->site->trainer.listen, session->stats.listen);
}

static weft_status open_publisher(weft_publisher *publisher)
{
    const weft_site *site = publisher->session->site;
    const weft_layout *layout = publisher->session->layout;
    weft_status status = weft_journal_open(&publisher->journal, site->trainer.journal, layout->largest_frame);
    if (status == WEFT_OK)
        status = weft_history_open(&publisher->history, layout->part_count, site->trainer.journal);
    if (status == WEFT_OK)
        status = weft_bridge_open(publisher);
    if (status == WEFT_OK)
        status = weft_publish_open(publisher);
    return status == WEFT_OK && site->trainer.store[0] ? weft_recorder_open(publisher) : status;
}

/* Under the lock, because a recorder's thread that was given up may come back now. */
static void close_publisher(weft_publisher *publisher)
{
    pthread_mutex_t *lock = &publisher->session->lock;
    weft_recorder_close(publisher->recorder);
    pthread_mutex_lock(lock);
    weft_publish_close(publisher);
    weft_bridge_close(&publisher->bridge);
    weft_history_close(&publisher->history);
    weft_journal_close(&publisher->journal);
    pthread_mutex_unlock(lock);
}

static weft_status open_parts(weft_trainer *trainer)
{
    weft_session *session = trainer->session;
    weft_publisher *publisher = &trainer->publisher;
    weft_status status = weft_guard_open(session->site, NULL, &session->guard);
    if (status == WEFT_OK)
        status = open_publisher(publisher);
    if (status != WEFT_OK)
        return status;
    weft_peer_levels_begin(&trainer->demand, session->layout, publisher->encoding.encoder.lanes.count,
                           publisher->journal.arena.bytes);
    weft_log_limit_open(&trainer->comers, &session->sink, PEER_LINES);
    status = weft_trainer_buffers_open(&trainer->buffers, session);
    if (status == WEFT_OK)
        status = weft_door_open(&trainer->door, session->division.model);
    trainer->outlets = (weft_outlets){
        .session = session,
        .accelerator = weft_site_accelerator(session->site->trainer.backend, session->site->trainer.device),
        .arena = &publisher->journal.arena,
        .buffers = &trainer->buffers,
        .count = WEFT_OUTLETS};
    if (status == WEFT_OK)
        status = open_peers(&trainer->peers, session, &trainer->outlets);
    if (status == WEFT_OK)
        status = open_network(trainer);
    return status == WEFT_OK ? weft_trainer_limit(&trainer->outlets) : status;
}

static void close_peers(weft_peer_table *peers)
{
    for (uint32_t i = 0; peers->list && i < peers->count; i++)
        weft_control_close(&peers->list[i].connection.control);
    weft_watch_close(&peers->watch);
    weft_mem_give(peers->list);
}

static void give_back(weft_trainer *trainer)
{
    const bool stays = weft_recorder_is_given_up(trainer->publisher.recorder);
    weft_outlets_close(&trainer->outlets); /* first, because their regions are the memory of the parts below */
    close_peers(&trainer->peers);
    weft_trainer_buffers_close(&trainer->buffers);
    close_publisher(&trainer->publisher);
    weft_door_close(&trainer->door);
    if (stays) {
        weft_session_retire(trainer->session);
        return;
    }
    weft_session_unmake(trainer->session);
    weft_mem_give(trainer);
}

static void say_goodbye(weft_peer_table *peers, const weft_newest *newest)
{
    const weft_wire_notice notice = {.version = newest->version.number, .text = "the trainer closes"};
    for (uint32_t i = 0; i < peers->count; i++)
        if (weft_peer_connected(&peers->list[i]) && peers->list[i].connection.greeted)
            weft_control_notice(&peers->list[i].connection.control, WEFT_MESSAGE_BYE, &notice);
}

static bool flush_all(weft_peer_table *peers)
{
    bool left = false;
    for (uint32_t i = 0; i < peers->count; i++) {
        weft_control *control = &peers->list[i].connection.control;
        if (control->fd < 0 || weft_control_flush(control) != WEFT_OK)
            continue;
        left = left || weft_control_wants_write(control);
    }
    return left;
}

static void close_trainer(weft_session *session)
{
    weft_trainer *trainer = session->trainer;
    const uint64_t deadline_ms = session->site->session.close_deadline_ms;
    const uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    weft_recorder_stop(trainer->publisher.recorder, deadline_ns, deadline_ms < GRACE_MS ? deadline_ms : GRACE_MS);
    weft_bridge_stop(&trainer->publisher.bridge);
    weft_session_stop(session);
    weft_log_sink *before = weft_log_enter(&session->sink);
    say_goodbye(&trainer->peers, &trainer->publisher.newest);
    while (flush_all(&trainer->peers) && weft_clock_ns() < deadline_ns)
        weft_clock_pass(WEFT_NS_PER_MS);
    weft_follow_forget(&trainer->peers);
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        if (weft_peer_connected(&trainer->peers.list[i])) {
            if (trainer->peers.list[i].connection.greeted)
                weft_peer_move(&trainer->peers.list[i], WEFT_ON_ENDED);
            weft_peer_lose(&trainer->peers, &trainer->peers.list[i], WEFT_OK, "the trainer closes");
        }
    end_limits(trainer);
    weft_log_enter(before);
    if (session->own_log) /* while a callback may still ask for the session's state */
        weft_session_hand_out(session);
    give_back(trainer);
}

static void print_memory(const weft_trainer *trainer, const weft_sizes *sizes)
{
    weft_session *session = trainer->session;
    char size[WEFT_SIZE_PRINTED];
    session->stats.memory_bytes = sizes->bytes;
    weft_log(WEFT_LOG_INFO, "trainer: at most %.1f MB beside the weights' %.1f: %s of %u; backend %s",
             (double)sizes->bytes / 1e6, (double)session->layout->bytes / 1e6, weft_sizes_print(sizes).text,
             trainer->peers.count - WEFT_GUESTS, session->backend_name);
    if (sizes->device > 0)
        weft_log(WEFT_LOG_INFO,
                 "trainer: %.1f MB of the device's memory: batches %.1f, change lists %.1f, shadow %.1f; %.1f are free",
                 (double)sizes->device / 1e6, (double)sizes->batches / 1e6, (double)sizes->lists / 1e6,
                 (double)(sizes->device - sizes->batches - sizes->lists) / 1e6,
                 (double)session->backend->memory_left(session->device) / 1e6);
    if (sizes->chosen.automatic)
        weft_log(WEFT_LOG_INFO, "trainer: journal = auto is %s: %s", weft_size_print(sizes->chosen.bytes, size),
                 sizes->chosen.why);
}

/* Settles what `auto` comes to, as if the site had named that. Weights in host memory may be read after this. */
static void settle_sizes(weft_session *session, weft_sizes *sizes)
{
    weft_mem_host memory;
    weft_shadow_settle(session);
    weft_mem_host_read("", &memory);
    if (!(session->backend->caps & WEFT_BACKEND_DEVICE))
        weft_mem_host_reserve(&memory, session->layout->bytes);
    *sizes = weft_trainer_sizes(session->site, session->layout, session->backend, &memory);
    session->site->trainer.journal = sizes->chosen.bytes;
}

/* Starts to answer peers: that no weights are bound yet. */
static weft_status start(weft_trainer *trainer, const weft_sizes *sizes)
{
    print_memory(trainer, sizes);
    weft_log(WEFT_LOG_INFO, "listening on %s; peers join when weights are bound", trainer->session->stats.listen);
    return weft_session_start(trainer->session);
}

/* Takes the address of the trainer's own section, where the site has several sources. */
static weft_status take_address(weft_site *site, uint32_t source)
{
    if (site->source_count == 0 && source == 0)
        return WEFT_OK;
    if (source >= site->source_count)
        return weft_fail(WEFT_E_CONFIG, "%s has no section [source.%u]; it has %llu of them", site->path, source,
                         (unsigned long long)site->source_count);
    if (site->sources[source].listen[0])
        memcpy(site->trainer.listen, site->sources[source].listen, sizeof site->trainer.listen);
    return WEFT_OK;
}

/* A run begins with the time of its start, to a microsecond, so that later runs have higher numbers (docs/STORE.md).
 * The lowest bits tell apart trainers that start together. */
static uint64_t draw_run(const weft_session *session)
{
    struct timespec now;
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint32_t)session->incarnation;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t part = ((uint64_t)now.tv_nsec << 32) / 1000000000u;
    return (uint64_t)now.tv_sec << 32 | (part & ~UINT64_C(0xfff)) | (random & 0xfff) | 1; /* 0: there is no run */
}

weft_status weft_trainer_open(const weft_site *site, const weft_layout *layout, const weft_options *options,
                              weft_session **session)
{
    uint32_t peers = (uint32_t)site->trainer.max_peers + WEFT_GUESTS;
    const uint32_t fds = WEFT_PORTS_MAX * peers + 3; /* 3: to be woken, the door, and the watch of all connections */
    weft_session *made = NULL;
    weft_sizes sizes;
    const int64_t device = weft_session_device(site->trainer.device, options);
    const weft_backend_options work = {(int)device, site->trainer.kernels, site->trainer.device_memory,
                                       site->session.device_deadline_ms};
    weft_division division;
    weft_status status = weft_session_divide(site, layout, options, true, &division);
    if (status == WEFT_OK)
        status = weft_session_make(site, &division, options, site->trainer.backend, &work, fds, &made);
    if (status != WEFT_OK)
        return status;
    weft_trainer *trainer = weft_mem_take(1, sizeof *trainer);
    if (!trainer) {
        weft_session_unmake(made);
        return weft_fail(WEFT_E_MEMORY, "no memory for a trainer");
    }
    made->trainer = trainer;
    made->site->trainer.device = device;
    made->step = weft_trainer_step;
    made->figures = figures;
    made->close = close_trainer;
    trainer->session = trainer->publisher.session = made;
    trainer->publisher.peers = &trainer->peers;
    trainer->door = (weft_door){made, &weft_trainer_places, &trainer->peers, .listen_fd = -1};
    trainer->peers.count = peers;
    weft_log_sink *before = weft_log_enter(&made->sink);
    trainer->publisher.run = made->options.run ? made->options.run : draw_run(made);
    settle_sizes(trainer->session, &sizes);
    status = take_address(made->site, made->options.source);
    if (status == WEFT_OK)
        status = open_parts(trainer);
    if (status == WEFT_OK)
        status = start(trainer, &sizes);
    weft_log_enter(before);
    if (status != WEFT_OK)
        give_back(trainer);
    else
        *session = made;
    return status;
}
