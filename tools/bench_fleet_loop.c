/* bench_fleet_loop.c - a trainer and its rollouts in one thread, so that the trainer's own share can be told. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "bench_fleet.h"
#include "output.h"

#define ROUNDS_MAX 10000u
#define ROUND_NS   (100 * UINT64_C(1000))

typedef struct member {
    weft_session *session;
    uint8_t *image;
} member;

typedef struct world {
    const weft_fleet_terms *terms;
    uint64_t now_ns;
    weft_clock clock;
    weft_site *site;
    weft_session *trainer;
    weft_piece *pieces; /* of pair->work: the trainer's, and moved to each rollout's image in turn */
    member *members;
    uint32_t count;
    double trainer_us; /* CPU in the trainer's calls, summed up */
    bool alone;        /* the trainer steps after every rollout's step */
} world;

static uint64_t now_ns(void *user)
{
    return ((const world *)user)->now_ns;
}

static void pass(void *user, uint64_t ns)
{
    ((world *)user)->now_ns += ns < ROUND_NS ? ns : ROUND_NS;
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void hush(void *user, weft_log_level level, const char *line)
{
    (void)user;
    if (level == WEFT_LOG_ERROR)
        weft_output_say("weft: %s", line);
}

static weft_status step_trainer(world *w)
{
    weft_event event = {.size = sizeof event};
    double before = cpu_us();
    weft_status status = weft_progress(w->trainer, 0);
    w->trainer_us += cpu_us() - before;
    while (weft_events(w->trainer, &event) == WEFT_OK)
        ;
    return status;
}

static weft_status step_member(const member *m)
{
    weft_staged_info info = {.size = sizeof info};
    weft_status status = weft_progress(m->session, 0);
    if (status == WEFT_OK)
        status = weft_staged(m->session, 0, &info);
    if (status == WEFT_OK)
        status = weft_commit(m->session, info.target.number, NULL, 0, NULL);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

static weft_status round_play(world *w)
{
    weft_status status = step_trainer(w);
    for (uint32_t i = 0; i < w->count && status == WEFT_OK; i++) {
        status = step_member(&w->members[i]);
        if (status == WEFT_OK && w->alone)
            status = step_trainer(w);
    }
    w->now_ns += ROUND_NS;
    return status;
}

static bool all_hold(const world *w, uint64_t version)
{
    weft_stats_info stats = {.size = sizeof stats};
    return weft_stats(w->trainer, &stats) == WEFT_OK && stats.peers_joined >= w->count &&
           weft_wait(w->trainer, version, NULL, 0, 0) == WEFT_OK;
}

static weft_status settle(world *w, uint64_t version)
{
    weft_status status = WEFT_OK;
    for (uint32_t round = 0; status == WEFT_OK && !all_hold(w, version); round++)
        status = round < ROUNDS_MAX ? round_play(w)
                                    : weft_fail(WEFT_E_TIMEOUT, "%u rollouts: version %llu is not held by all",
                                                w->count, (unsigned long long)version);
    return status;
}

/* ---- open and close */

/* Every end needs two descriptors at the trainer and four of its own. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static weft_status open_trainer(world *w)
{
    const weft_bench_pair *pair = w->terms->pair;
    const weft_options options = {.size = sizeof options, .log = hush};
    weft_fleet_turn(w->terms, 0, pair->work);
    weft_status status = weft_trainer_open(w->site, pair->layout, &options, &w->trainer);
    return status == WEFT_OK ? weft_bind(w->trainer, pair->pieces_work, pair->count, NULL, 0, 0) : status;
}

static weft_status open_member(world *w, uint32_t number)
{
    const weft_bench_pair *pair = w->terms->pair;
    const weft_options options = {.size = sizeof options, .log = hush};
    member *m = &w->members[number];
    char name[32];
    snprintf(name, sizeof name, "p%u", number);
    m->image = weft_mem_map(pair->bytes + 64);
    if (!m->image)
        return weft_fail(WEFT_E_MEMORY, "no memory for the weights of rollout %u", number);
    weft_fleet_turn(w->terms, 0, m->image);
    for (uint64_t t = 0; t < pair->count; t++) {
        w->pieces[t] = pair->pieces_work[t];
        w->pieces[t].data = m->image + ((uint8_t *)pair->pieces_work[t].data - pair->work);
    }
    weft_status status = weft_rollout_open(w->site, name, pair->layout, &options, &m->session);
    return status == WEFT_OK ? weft_bind(m->session, w->pieces, pair->count, NULL, 0, 0) : status;
}

/* Rollouts dial where the trainer really listens. */
static weft_status open_all(world *w)
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_status status = open_trainer(w);
    if (status == WEFT_OK)
        status = weft_stats(w->trainer, &stats);
    if (status == WEFT_OK)
        status = weft_fleet_site_write(w->terms, stats.listen, "loop", w->count, true);
    weft_site_free(w->site);
    w->site = NULL;
    if (status == WEFT_OK)
        status = weft_fleet_site_load(w->terms, &w->site);
    for (uint32_t i = 0; i < w->count && status == WEFT_OK; i++)
        status = open_member(w, i);
    return status;
}

static weft_status world_open(world *w)
{
    raise_limit();
    w->clock = (weft_clock){now_ns, pass, w};
    weft_clock_own = &w->clock;
    w->now_ns = 1;
    w->members = weft_mem_take(w->count, sizeof *w->members);
    w->pieces = weft_mem_take(w->terms->pair->count + 1, sizeof *w->pieces);
    if (!w->members || !w->pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u rollouts", w->count);
    weft_status status = weft_fleet_site_write(w->terms, "127.0.0.1:0", "loop", w->count, true);
    if (status == WEFT_OK)
        status = weft_fleet_site_load(w->terms, &w->site);
    return status == WEFT_OK ? open_all(w) : status;
}

static void world_close(world *w)
{
    for (uint32_t i = 0; w->members && i < w->count; i++) {
        weft_close(w->members[i].session);
        weft_mem_unmap(w->members[i].image, w->terms->pair->bytes + 64);
    }
    weft_close(w->trainer);
    weft_site_free(w->site);
    weft_mem_give(w->pieces);
    weft_mem_give(w->members);
    weft_clock_own = NULL;
}

/* ---- figures */

static weft_status trainer_memory(const weft_fleet_terms *terms, uint32_t max_peers, uint64_t *bytes)
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_site *site = NULL;
    weft_session *trainer = NULL;
    const weft_options options = {.size = sizeof options, .log = hush};
    weft_status status = weft_fleet_site_write(terms, "127.0.0.1:0", "loop", max_peers, true);
    if (status == WEFT_OK)
        status = weft_fleet_site_load(terms, &site);
    if (status == WEFT_OK)
        status = weft_trainer_open(site, terms->pair->layout, &options, &trainer);
    if (status == WEFT_OK)
        status = weft_stats(trainer, &stats);
    weft_close(trainer);
    weft_site_free(site);
    *bytes = stats.memory_bytes;
    return status;
}

static weft_status publish(world *w, uint64_t version, double *ms, uint64_t *bytes)
{
    weft_update_info info = {.size = sizeof info};
    weft_fleet_turn(w->terms, version, w->terms->pair->work);
    double before = cpu_us();
    weft_status status = weft_publish(w->trainer, version, NULL, NULL, &info);
    *ms = (cpu_us() - before) / 1e3;
    *bytes = info.bytes;
    return status;
}

/* Half of the updates with all news together, half one by one; the first of all warms up. */
static weft_status measure(world *w, weft_fleet_row *row)
{
    double share[2][WEFT_BENCH_ROUNDS_MAX], encode[WEFT_BENCH_ROUNDS_MAX], held[WEFT_BENCH_ROUNDS_MAX];
    uint32_t counts[2] = {0, 0}, published = 0;
    weft_status status = settle(w, 0);
    row->join_us = w->trainer_us / w->count;
    for (uint64_t version = 1; version <= 2 * w->terms->updates + 1 && status == WEFT_OK; version++) {
        double publish_ms, begun_us = cpu_us();
        w->alone = version % 2;
        status = publish(w, version, &publish_ms, &row->update_bytes);
        w->trainer_us = 0;
        if (status == WEFT_OK)
            status = settle(w, version);
        if (version == 1)
            continue;
        share[w->alone][counts[w->alone]++] = w->trainer_us / w->count;
        encode[published] = publish_ms;
        held[published++] = (cpu_us() - begun_us) / 1e3;
    }
    row->together_us = weft_bench_median(share[0], counts[0]);
    row->alone_us = weft_bench_median(share[1], counts[1]);
    row->publish_ms = weft_bench_median(encode, published);
    row->held_ms = weft_bench_median(held, published);
    return status;
}

weft_status weft_fleet_simulate(const weft_fleet_terms *terms, uint32_t peers, weft_fleet_row *row)
{
    world w = {.terms = terms, .count = peers};
    weft_stats_info stats = {.size = sizeof stats};
    uint64_t one = 0, two = 0;
    *row = (weft_fleet_row){.peers = peers};
    weft_clock clock = {now_ns, pass, &w};
    weft_clock_own = &clock;
    weft_status status = trainer_memory(terms, 1, &one);
    if (status == WEFT_OK)
        status = trainer_memory(terms, 1001, &two);
    row->peer_bytes = (two - one) / 1000;
    if (status == WEFT_OK)
        status = world_open(&w);
    if (status == WEFT_OK)
        status = measure(&w, row);
    if (status == WEFT_OK)
        status = weft_stats(w.members[0].session, &stats);
    row->rollout_bytes = stats.memory_bytes;
    world_close(&w);
    return status;
}
