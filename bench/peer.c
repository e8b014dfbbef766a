#include "peer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw.h"

#define SLICE_MS 5

typedef struct order {
    char what; /* 'j'oin, 'l'eave, 'a'sk, 'c'onnect the raw stream, 'r'aw stream */
    char listen[64];
    uint16_t port;
    uint64_t bytes;
} order;

typedef struct work {
    const bench_options *options;
    const weft_model *model;
    const char *place;
    char name[64];
    weft_session *session;
    int raw_fd;
    bench_report report;
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

static void join(work *work, const char *listen)
{
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(work->model, &count);
    weft_site *site = bench_site(work->options, listen, bench_heartbeat(work->options));
    bench_need(weft_rollout_open(site, work->name, weft_model_layout(work->model), NULL, &work->session),
               "open a rollout");
    weft_site_free(site);
    bench_need(weft_bind(work->session, pieces, count, NULL, 0, 0), "bind a rollout");
    work->report = (bench_report){0};
}

static void leave(work *work)
{
    weft_close(work->session);
    work->session = NULL;
}

static void commit_what_comes(work *work)
{
    weft_staged_info staged = {.size = sizeof staged};
    weft_status status = weft_staged(work->session, SLICE_MS, &staged);
    if (status == WEFT_AGAIN || status == WEFT_E_PEER_LOST)
        return;
    bench_need(status, "wait for a version");
    if (weft_commit(work->session, staged.target.number, NULL, 0, &work->report.held) != WEFT_OK)
        return; /* it joins again */
    work->report.updates++;
    work->report.bytes += staged.bytes;
}

static void obey(work *work, const order *order, int out)
{
    weft_stats_info stats = {.size = sizeof stats};
    char host[64];
    bench_host(order->listen, host);
    work->report.ms = 0;
    switch (order->what) {
    case 'j':
        join(work, order->listen);
        break;
    case 'l':
        leave(work);
        break;
    case 'c':
        work->raw_fd = bench_raw_dial(host, order->port);
        break;
    case 'r':
        work->report.ms = bench_raw_take_ms(work->raw_fd, order->bytes);
        break;
    }
    if (work->session && weft_stats(work->session, &stats) == WEFT_OK) {
        work->report.bound_bytes = stats.memory_bytes;
        work->report.allocations = stats.allocations;
    }
    work->report.resident_bytes = bench_resident_bytes();
    bench_send(out, &work->report, sizeof work->report);
}

static void run(int in, int out, const void *user)
{
    work work = *(const struct work *)user;
    order order;
    bench_netns_enter(work.place);
    own_pages(work.model);
    for (;;) {
        struct pollfd orders = {in, POLLIN, 0};
        if (poll(&orders, 1, work.session ? 0 : -1) > 0) {
            if (!bench_receive(in, &order, sizeof order))
                return;
            obey(&work, &order, out);
        }
        if (work.session)
            commit_what_comes(&work);
    }
}

/* ---- the trainer's side */

void bench_peer_open(bench_peer *peer, const char *place, const bench_options *options, const weft_model *model)
{
    work work = {.options = options, .model = model, .place = place};
    snprintf(work.name, sizeof work.name, "%.*s", (int)strcspn(place, "@"), place);
    memcpy(peer->name, work.name, sizeof peer->name);
    peer->raw_fd = -1;
    bench_child_open(&peer->child, run, &work);
}

void bench_peer_close(bench_peer *peer)
{
    if (peer->raw_fd >= 0)
        close(peer->raw_fd);
    bench_child_close(&peer->child);
}

static void send_order(const bench_peer *peer, char what, const char *listen, uint16_t port, uint64_t bytes)
{
    order order = {.what = what, .port = port, .bytes = bytes};
    snprintf(order.listen, sizeof order.listen, "%s", listen ? listen : "");
    bench_send(peer->child.to, &order, sizeof order);
}

static bench_report answer(const bench_peer *peer)
{
    bench_report report;
    if (!bench_receive(peer->child.from, &report, sizeof report))
        bench_die("a rollout failed");
    return report;
}

bench_report bench_peer_join(const bench_peer *peer, const char *listen)
{
    send_order(peer, 'j', listen, 0, 0);
    return answer(peer);
}

bench_report bench_peer_leave(const bench_peer *peer)
{
    send_order(peer, 'l', NULL, 0, 0);
    return answer(peer);
}

bench_report bench_peer_ask(const bench_peer *peer)
{
    send_order(peer, 'a', NULL, 0, 0);
    return answer(peer);
}

static void connect_raw(bench_peer *peer, const char *listen)
{
    char host[64];
    uint16_t port;
    bench_host(listen, host);
    int fd = bench_raw_listen(host, &port);
    send_order(peer, 'c', listen, port, 0);
    peer->raw_fd = bench_raw_accept(fd);
    answer(peer);
    close(fd);
}

double bench_peer_raw_ms(bench_peer *peer, const char *listen, const void *data, uint64_t bytes)
{
    if (peer->raw_fd < 0)
        connect_raw(peer, listen);
    send_order(peer, 'r', listen, 0, bytes);
    bench_raw_give(peer->raw_fd, data, bytes);
    return answer(peer).ms;
}
