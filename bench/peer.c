#include "peer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw.h"

#define SLICE_MS    5
#define DEADLINE_MS 30000

typedef struct order {
    bench_order what;
    char listen[64];
    uint64_t number;
} order;

typedef struct work {
    const bench_options *options;
    const weft_model *model;
    const char *place;
    char name[64];
    weft_session *session;
    int raw_fd;
    bench_report report;
    double begun; /* of what is timed */
    bench_cpu before;
} work;

uint64_t bench_resident_bytes(void)
{
    char line[256];
    uint64_t bytes = 0;
    unsigned long long kib;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1 || sscanf(line, "RssShmem: %llu kB", &kib) == 1)
            bytes += (uint64_t)kib << 10;
    if (file)
        fclose(file);
    return bytes;
}

/* ---- rollout */

/* The pages of the weights are its own from now on, so that no update pays for copying them. */
static void own_pages(const weft_model *model)
{
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    for (uint64_t i = 0; i < count; i++) {
        volatile uint8_t *data = pieces[i].data;
        for (uint64_t at = 0; at < weft_layout_tensor_bytes(weft_model_layout(model), pieces[i].tensor); at += 4096)
            data[at] = data[at];
    }
}

static void time_begin(work *work)
{
    work->before = bench_cpu_now();
    work->begun = bench_now_ms();
}

static void time_end(work *work)
{
    work->report.ms = bench_now_ms() - work->begun;
    work->report.cpu = bench_cpu_since(work->before);
}

static void join(work *work, const char *listen, uint32_t flags)
{
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(work->model, &count);
    weft_site *site = bench_site(work->options, listen, bench_heartbeat(work->options));
    work->session = fleet_rollout_open(site, work->name, weft_model_layout(work->model), NULL);
    weft_site_free(site);
    fleet_need(weft_bind(work->session, pieces, count, NULL, 0, flags), "bind a rollout");
    work->report = (bench_report){0};
}

static void leave(work *work)
{
    weft_close(work->session);
    work->session = NULL;
}

static void take_snapshot(work *work, const char *listen)
{
    uint64_t count;
    weft_staged_info staged = {.size = sizeof staged};
    const weft_piece *pieces = weft_model_pieces(work->model, &count);
    for (uint64_t i = 0; i < count; i++)
        memset(pieces[i].data, 0, weft_layout_tensor_bytes(weft_model_layout(work->model), pieces[i].tensor));
    join(work, listen, WEFT_BIND_EMPTY);
    fleet_need(weft_staged(work->session, DEADLINE_MS, &staged), "the offer");
    time_begin(work);
    fleet_need(weft_commit(work->session, staged.target.number, NULL, 0, &work->report.held), "commit");
    time_end(work);
    leave(work);
}

static void wait_idle(work *work, uint64_t ms)
{
    weft_staged_info staged = {.size = sizeof staged};
    time_begin(work);
    for (double left; (left = work->begun + (double)ms - bench_now_ms()) > 0;)
        if (weft_staged(work->session, (uint32_t)left + 1, &staged) != WEFT_AGAIN)
            fleet_fail("something came while idle");
    time_end(work);
}

static void commit_what_comes(work *work)
{
    weft_staged_info staged = {.size = sizeof staged};
    weft_status status = weft_staged(work->session, SLICE_MS, &staged);
    if (status == WEFT_AGAIN || status == WEFT_E_PEER_LOST)
        return;
    fleet_need(status, "wait for a version");
    if (weft_commit(work->session, staged.target.number, NULL, 0, &work->report.held) != WEFT_OK)
        return; /* it joins again */
    work->report.updates++;
    work->report.bytes += staged.bytes;
}

static void connect_raw(work *work, const order *order)
{
    char host[64];
    bench_host(order->listen, host);
    if (work->raw_fd >= 0)
        close(work->raw_fd);
    work->raw_fd = bench_raw_dial(host, (uint16_t)order->number);
}

static void take_raw(work *work, uint64_t bytes)
{
    time_begin(work);
    bench_raw_take(work->raw_fd, bytes);
    time_end(work);
}

static void obey(work *work, const order *order)
{
    switch (order->what) {
    case BENCH_JOIN:
        return join(work, order->listen, 0);
    case BENCH_LEAVE:
        return leave(work);
    case BENCH_IDLE:
        return wait_idle(work, order->number);
    case BENCH_SNAPSHOT:
        return take_snapshot(work, order->listen);
    case BENCH_CONNECT:
        return connect_raw(work, order);
    case BENCH_RAW:
        return take_raw(work, order->number);
    case BENCH_ASK:
        return;
    }
}

static void report(work *work, int line)
{
    if (work->session) {
        const weft_stats_info stats = fleet_stats(work->session);
        work->report.bound_bytes = stats.memory_bytes;
        work->report.allocations = stats.allocations;
    }
    work->report.resident_bytes = bench_resident_bytes();
    if (!fleet_line_put(line, &work->report, sizeof work->report))
        exit(1);
}

static int run(void *user, int line)
{
    work work = *(const struct work *)user;
    order order;
    bench_netns_enter(work.place);
    own_pages(work.model);
    for (;;) {
        struct pollfd orders = {line, POLLIN, 0};
        if (poll(&orders, 1, work.session ? 0 : -1) > 0) {
            if (!fleet_line_get(line, &order, sizeof order))
                return 0;
            obey(&work, &order);
            report(&work, line);
        }
        if (work.session)
            commit_what_comes(&work);
    }
}

/* ---- the trainer's side */

void bench_peer_open(bench_peer *peer, const char *place, const bench_options *options, const weft_model *model)
{
    work work = {.options = options, .model = model, .place = place, .raw_fd = -1};
    snprintf(work.name, sizeof work.name, "%.*s", (int)strcspn(place, "@"), place);
    memcpy(peer->name, work.name, sizeof peer->name);
    peer->raw_fd = -1;
    const fleet_spawn start = {.name = peer->name, .talks = true, .body = run, .user = &work};
    fleet_need(fleet_process_start(&peer->process, &start), "start a peer");
}

void bench_peer_close(bench_peer *peer)
{
    if (peer->raw_fd >= 0)
        close(peer->raw_fd);
    fleet_processes_end(&peer->process, 1, 0);
}

void bench_peer_tell(const bench_peer *peer, bench_order what, const char *listen, uint64_t number)
{
    order order = {.what = what, .number = number};
    snprintf(order.listen, sizeof order.listen, "%s", listen ? listen : "");
    if (!fleet_line_put(peer->process.line, &order, sizeof order))
        fleet_fail("%s is gone", peer->name);
}

bench_report bench_peer_answer(const bench_peer *peer)
{
    bench_report report;
    if (!fleet_line_get(peer->process.line, &report, sizeof report))
        fleet_fail("%s failed", peer->name);
    return report;
}

bench_report bench_peer_do(const bench_peer *peer, bench_order what, const char *listen, uint64_t number)
{
    bench_peer_tell(peer, what, listen, number);
    return bench_peer_answer(peer);
}

static void raw_open(bench_peer *peer, const char *listen)
{
    char host[64];
    uint16_t port;
    bench_host(listen, host);
    int fd = bench_raw_listen(host, &port);
    bench_peer_tell(peer, BENCH_CONNECT, listen, port);
    peer->raw_fd = bench_raw_accept(fd);
    bench_peer_answer(peer);
    close(fd);
}

bench_report bench_peer_raw(bench_peer *peer, const char *listen, const void *data, uint64_t bytes)
{
    if (peer->raw_fd < 0)
        raw_open(peer, listen);
    bench_peer_tell(peer, BENCH_RAW, listen, bytes);
    bench_raw_give(peer->raw_fd, data, bytes);
    return bench_peer_answer(peer);
}
