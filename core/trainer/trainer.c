/* trainer.c - the trainer's session: opens and closes it. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "peer/peer.h"
#include "session/await.h"
#include "trainer/publish.h"
#include "trainer/sizes_trainer.h"

#define LANES      (8u * WEFT_SITE_RAILS)
#define PEER_LINES 32u /* at once about one peer, before they are limited */

static void figures(const weft_session *session, weft_stats_info *stats)
{
    stats->rail_count = weft_rail_describe_all(session->trainer, stats->rails);
}

static weft_status open_slabs(weft_trainer *trainer)
{
    weft_slabs *slabs = &trainer->slabs;
    slabs->slab_bytes = weft_size_slab(trainer->session->layout);
    slabs->count = weft_trainer_slabs(trainer->session->layout, trainer->session->site->trainer.journal);
    slabs->memory = weft_mem_map(slabs->slab_bytes * slabs->count);
    slabs->free = weft_mem_take(slabs->count, sizeof *slabs->free);
    trainer->slots_most = weft_trainer_slots(trainer->session->site);
    weft_status status = weft_parcel_open(trainer);
    if (status != WEFT_OK)
        return status;
    trainer->headers_bytes = (uint64_t)trainer->peer_count * trainer->slots_most * WEFT_HEADER_STRIDE;
    trainer->headers = weft_mem_map(trainer->headers_bytes);
    if (!slabs->memory || !slabs->free || !trainer->headers)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u slabs of %llu bytes", slabs->count,
                         (unsigned long long)slabs->slab_bytes);
    for (uint32_t i = 0; i < slabs->count; i++)
        slabs->free[i] = i;
    slabs->free_count = slabs->count;
    return weft_packer_open(&trainer->packer);
}

static void open_limits(weft_trainer *trainer)
{
    weft_log_sink *sink = &trainer->session->sink;
    weft_log_limit_open(&trainer->strangers, sink, 1);
    weft_log_limit_open(&trainer->comers, sink, PEER_LINES);
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        weft_log_limit_open(&trainer->peers[i].limit, sink, PEER_LINES);
}

static void end_limits(weft_trainer *trainer)
{
    weft_log_limit_end(&trainer->strangers);
    weft_log_limit_end(&trainer->comers);
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        weft_log_limit_end(&trainer->peers[i].limit);
}

static weft_status open_peers(weft_trainer *trainer)
{
    trainer->peers = weft_mem_take(trainer->peer_count, sizeof *trainer->peers);
    trainer->outlets = weft_mem_take(LANES, sizeof *trainer->outlets);
    if (!trainer->peers || !trainer->outlets)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u peers", trainer->peer_count);
    trainer->outlet_count = LANES;
    open_limits(trainer);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < trainer->peer_count && status == WEFT_OK; i++)
        status = weft_control_open(&trainer->peers[i].control);
    return status == WEFT_OK ? weft_watch_open(&trainer->watch, trainer->peer_count) : status;
}

static weft_status open_layout_bytes(weft_trainer *trainer)
{
    trainer->layout_length = weft_layout_wire_bytes(trainer->session->layout);
    trainer->layout_bytes = weft_mem_take(1, trainer->layout_length);
    if (!trainer->layout_bytes)
        return weft_fail(WEFT_E_MEMORY, "no memory for the layout's %llu bytes",
                         (unsigned long long)trainer->layout_length);
    weft_layout_write(trainer->session->layout, trainer->layout_bytes);
    return WEFT_OK;
}

/* Every provider that a peer of the site is named with must be there from the start: nothing falls back later. Of
 * several addresses one will do. */
static weft_status open_lanes(weft_trainer *trainer)
{
    const weft_site *site = trainer->session->site;
    for (uint64_t i = 0; i < site->peer_count; i++) {
        weft_outlet *outlet;
        char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
        uint32_t rails = weft_site_rails(site->peers[i].address, list);
        if (strcmp(site->peers[i].provider, "auto") == 0)
            continue;
        weft_status status = weft_outlet_any(trainer, site->peers[i].provider, rails, NULL, &outlet);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* One of several that is away is asked for again at once. */
static void forget_away(weft_trainer *trainer)
{
    for (uint32_t i = 0; i < trainer->outlet_count; i++)
        trainer->outlets[i].retry_ns = 0;
}

/* Lanes and the listen address; both may come with an interface that is not up yet. */
static weft_status open_network(weft_trainer *trainer)
{
    weft_session *session = trainer->session;
    weft_await await = weft_await_begin(session->site);
    weft_status status;
    do {
        forget_away(trainer);
        status = open_lanes(trainer);
    } while (weft_await_more(&await, status));
    if (status != WEFT_OK)
        return weft_await_end(&await, status);
    do
        status = weft_control_listen(session->site->trainer.listen, &trainer->listen_fd, session->stats.listen);
    while (weft_await_more(&await, status));
    return weft_await_end(&await, status);
}

static weft_status open_parts(weft_trainer *trainer)
{
    const weft_site *site = trainer->session->site;
    const weft_layout *layout = trainer->session->layout;
    weft_status status = weft_guard_open(site, NULL, &trainer->session->guard);
    if (status == WEFT_OK)
        status = weft_journal_open(&trainer->journal, site->trainer.journal, layout->largest_frame);
    if (status == WEFT_OK)
        status = weft_history_open(&trainer->history, layout->part_count, site->trainer.journal);
    if (status == WEFT_OK)
        status = weft_bridge_open(trainer);
    if (status == WEFT_OK)
        status = weft_publish_open(trainer);
    if (status == WEFT_OK)
        status = open_slabs(trainer);
    if (status == WEFT_OK)
        status = open_layout_bytes(trainer);
    if (status == WEFT_OK)
        status = open_peers(trainer);
    if (status == WEFT_OK)
        status = open_network(trainer);
    return status == WEFT_OK ? weft_trainer_limit(trainer) : status;
}

static void give_back(weft_trainer *trainer)
{
    for (uint32_t i = 0; trainer->outlets && i < trainer->outlet_count; i++)
        if (trainer->outlets[i].provider)
            weft_outlet_close(&trainer->outlets[i]);
    for (uint32_t i = 0; trainer->peers && i < trainer->peer_count; i++)
        weft_control_close(&trainer->peers[i].control);
    weft_watch_close(&trainer->watch);
    weft_mem_give(trainer->outlets);
    weft_mem_give(trainer->peers);
    weft_mem_give(trainer->layout_bytes);
    if (trainer->headers)
        weft_mem_unmap(trainer->headers, trainer->headers_bytes);
    weft_parcel_close(trainer);
    weft_packer_close(&trainer->packer);
    weft_mem_give(trainer->slabs.free);
    if (trainer->slabs.memory)
        weft_mem_unmap(trainer->slabs.memory, trainer->slabs.slab_bytes * trainer->slabs.count);
    weft_publish_close(trainer);
    weft_bridge_close(trainer);
    weft_history_close(&trainer->history);
    weft_journal_close(&trainer->journal);
    weft_control_unlisten(trainer->listen_fd);
    weft_session_unmake(trainer->session);
    weft_mem_give(trainer);
}

static void say_goodbye(weft_trainer *trainer)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice = {.status = WEFT_OK, .version = trainer->newest.number, .text = "the trainer closes"};
    weft_wire_put_notice(&out, &notice);
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        if (weft_peer_connected(&trainer->peers[i]) && trainer->peers[i].greeted)
            weft_control_send(&trainer->peers[i].control, WEFT_MESSAGE_BYE, out.data, out.used);
}

static bool flush_all(weft_trainer *trainer)
{
    bool left = false;
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        weft_control *control = &trainer->peers[i].control;
        if (control->fd < 0 || weft_control_flush(control) != WEFT_OK)
            continue;
        left = left || weft_control_wants_write(control);
    }
    return left;
}

static void close_trainer(weft_session *session)
{
    weft_trainer *trainer = session->trainer;
    uint64_t deadline_ns = weft_clock_ns() + session->site->session.close_deadline_ms * WEFT_NS_PER_MS;
    weft_bridge_stop(trainer);
    weft_session_stop(session);
    weft_log_sink *before = weft_log_enter(&session->sink);
    say_goodbye(trainer);
    while (flush_all(trainer) && weft_clock_ns() < deadline_ns)
        weft_clock_pass(WEFT_NS_PER_MS);
    weft_follow_forget(trainer);
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        if (weft_peer_connected(&trainer->peers[i])) {
            if (trainer->peers[i].greeted)
                weft_peer_move(trainer, &trainer->peers[i], WEFT_ON_ENDED);
            weft_peer_lose(trainer, &trainer->peers[i], WEFT_OK, "the trainer closes");
        }
    end_limits(trainer);
    weft_log_enter(before);
    if (session->own_log) /* while a callback may still ask what the session holds */
        weft_session_hand_out(session);
    give_back(trainer);
}

static void print_memory(const weft_trainer *trainer, const weft_trainer_sizes *sizes)
{
    weft_session *session = trainer->session;
    char size[WEFT_SIZE_PRINTED];
    session->stats.memory_bytes = sizes->bytes;
    weft_log(
        WEFT_LOG_INFO,
        "trainer: at most %.1f MB beside the weights' %.1f: shadow %.1f, journal %.1f, digests %.1f, merging %.1f, "
        "encoding %.1f, slabs %.1f, %u peers %.1f; backend %s",
        (double)sizes->bytes / 1e6, (double)session->layout->bytes / 1e6, (double)sizes->shadow / 1e6,
        (double)sizes->journal.bytes / 1e6, (double)sizes->digests / 1e6, (double)sizes->merging / 1e6,
        (double)sizes->encoding / 1e6, (double)sizes->slabs / 1e6, trainer->peer_count - WEFT_GUESTS,
        (double)sizes->peers / 1e6, session->backend_name);
    if (sizes->journal.automatic)
        weft_log(WEFT_LOG_INFO, "trainer: journal = auto is %s: %s", weft_size_print(sizes->journal.bytes, size),
                 sizes->journal.why);
}

/* What `auto` comes to, from here on as if the site had said so. Weights of the host may be read after this. */
static void settle_sizes(const weft_trainer *trainer, weft_trainer_sizes *sizes)
{
    weft_session *session = trainer->session;
    const bool far = session->backend->caps & WEFT_BACKEND_DEVICE;
    const uint64_t pending = far ? 0 : weft_mem_host_pending(session->layout->bytes);
    weft_mem_host memory;
    weft_mem_host_read("", &memory);
    memory.available -= pending < memory.available ? pending : memory.available;
    *sizes = weft_trainer_sizes_of(session->site, session->layout, session->backend, &memory);
    session->site->trainer.journal = sizes->journal.bytes;
}

/* Peers are answered from now on: that no weights are bound yet. */
static weft_status start(weft_trainer *trainer, const weft_trainer_sizes *sizes)
{
    print_memory(trainer, sizes);
    weft_log(WEFT_LOG_INFO, "listening on %s; peers join when weights are bound", trainer->session->stats.listen);
    return weft_session_start(trainer->session);
}

weft_status weft_trainer_open(const weft_site *site, const weft_layout *layout, const weft_options *options,
                              weft_session **session)
{
    uint32_t peers = (uint32_t)site->trainer.max_peers + WEFT_GUESTS;
    weft_session *made = NULL;
    weft_trainer_sizes sizes;
    const weft_backend_options work = {(int)site->trainer.device, site->trainer.kernels, site->trainer.device_memory};
    weft_status status =
        weft_session_make(site, layout, options, site->trainer.backend, &work, (1 + WEFT_PORTS_MAX) * peers + 4, &made);
    if (status != WEFT_OK)
        return status;
    weft_trainer *trainer = weft_mem_take(1, sizeof *trainer);
    if (!trainer) {
        weft_session_unmake(made);
        return weft_fail(WEFT_E_MEMORY, "no memory for a trainer");
    }
    made->trainer = trainer;
    made->step = weft_trainer_step;
    made->figures = figures;
    made->close = close_trainer;
    trainer->session = made;
    trainer->listen_fd = -1;
    trainer->peer_count = peers;
    weft_log_sink *before = weft_log_enter(&made->sink);
    if (getrandom(&trainer->run, sizeof trainer->run, 0) != sizeof trainer->run)
        trainer->run = made->incarnation;
    trainer->run |= 1; /* 0 says no run */
    settle_sizes(trainer, &sizes);
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
