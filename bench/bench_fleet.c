/* bench_fleet.c - the cost of one more rollout for its trainer, in memory and in CPU time. Each line is a JSON object.
 *
 *   bench_fleet [--peers N] [--processes] [--updates K]
 *
 * All ends run in one thread over the provider loop, on a clock of their own, so that the trainer's share is known.
 * With
 * --processes each rollout is a process, over tcp. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "model/synth.h"
#include "rig.h"

#define PARAMS     UINT64_C(65536) /* of each end, in the loop */
#define CHANGED    0.0117          /* share of the elements */
#define PEERS_MOST 4096u
#define ROUNDS_MAX 10000u
#define ROUND_NS   (100 * UINT64_C(1000))

/* CPU times are the trainer's, medians over the updates. */
typedef struct row {
    uint32_t peers;
    uint64_t peer_bytes;    /* trainer's memory for one more peer */
    uint64_t rollout_bytes; /* a rollout's, weights not counted */
    uint64_t update_bytes;  /* to one peer */
    double publish_ms;      /* CPU of weft_publish */
    double together_us;     /* CPU of serving one peer one update when a step finds all of them with news */
    double alone_us;        /* the same when each has its news for itself, the worst case; 0: not measured */
    double join_us;         /* CPU of one join */
    double held_ms;         /* publish to all hold it, the rollouts' CPU too */
} row;

static void row_print(const char *fabric, const row *row)
{
    printf("{\"fabric\": \"%s\", \"peers\": %u, \"peer_bytes\": %llu, \"rollout_bytes\": %llu, \"bytes\": %llu, "
           "\"publish_cpu_ms\": %.3f, \"together_us\": %.2f, \"alone_us\": %.2f, \"join_us\": %.2f, \"held_ms\": "
           "%.3f}\n",
           fabric, row->peers, (unsigned long long)row->peer_bytes, (unsigned long long)row->rollout_bytes,
           (unsigned long long)row->update_bytes, row->publish_ms, row->together_us, row->alone_us, row->join_us,
           row->held_ms);
    fflush(stdout);
}

/* The site's keys of such a fleet; `text` holds the first one. */
static void options_fill(bench_options *options, uint32_t max_peers, bool manual, char text[40])
{
    static const char *const keys[] = {"trainer.journal=16MiB", "peers.window=1", "peers.bucket_max=1MiB",
                                       "peers.staging=4MiB", "session.connect_deadline=60s"};
    snprintf(text, 40, "trainer.max_peers=%u", max_peers);
    options->set_count = 0;
    options->sets[options->set_count++] = text;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        options->sets[options->set_count++] = keys[i];
    if (manual)
        options->sets[options->set_count++] = "session.progress=manual";
}

/* ---- in one thread */

typedef struct member {
    weft_session *session;
    uint8_t *image;
} member;

typedef struct world {
    uint64_t now_ns;
    weft_model *model; /* the trainer's weights */
    weft_session *trainer;
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

static void step_trainer(world *w)
{
    weft_event event = {.size = sizeof event};
    double before = cpu_us();
    bench_need(weft_progress(w->trainer, 0), "the trainer's step");
    w->trainer_us += cpu_us() - before;
    while (weft_events(w->trainer, &event) == WEFT_OK)
        ;
}

static void step_member(const member *m)
{
    weft_staged_info info = {.size = sizeof info};
    bench_need(weft_progress(m->session, 0), "a rollout's step");
    weft_status status = weft_staged(m->session, 0, &info);
    if (status == WEFT_OK)
        bench_need(weft_commit(m->session, info.target.number, NULL, 0, NULL), "commit");
    else if (status != WEFT_AGAIN && status != WEFT_E_PEER_LOST)
        bench_need(status, "wait for a version");
}

static bool all_hold(const world *w, uint64_t version)
{
    weft_stats_info stats = {.size = sizeof stats};
    return weft_stats(w->trainer, &stats) == WEFT_OK && stats.peers_joined >= w->count &&
           weft_wait(w->trainer, version, NULL, 0, 0) == WEFT_OK;
}

static void settle(world *w, uint64_t version)
{
    for (uint32_t round = 0; !all_hold(w, version); round++) {
        if (round == ROUNDS_MAX)
            bench_die("a version is not held by all");
        step_trainer(w);
        for (uint32_t i = 0; i < w->count; i++) {
            step_member(&w->members[i]);
            if (w->alone)
                step_trainer(w);
        }
        w->now_ns += ROUND_NS;
    }
}

static weft_session *trainer_open(const weft_model *model, uint32_t max_peers, weft_stats_info *stats)
{
    bench_options options = {.provider = "loop"};
    char text[40];
    weft_session *trainer;
    options_fill(&options, max_peers, true, text);
    weft_site *site = bench_site(&options, NULL, "60s");
    bench_need(weft_trainer_open(site, weft_model_layout(model), NULL, &trainer), "open the trainer");
    bench_need(weft_stats(trainer, stats), "stats");
    weft_site_free(site);
    return trainer;
}

static void member_open(const world *w, const weft_site *site, uint32_t number)
{
    uint64_t count, at = 0;
    member *m = &w->members[number];
    const weft_layout *layout = weft_model_layout(w->model);
    const weft_piece *from = weft_model_pieces(w->model, &count);
    weft_piece *pieces = calloc(count, sizeof *pieces);
    char name[32];
    m->image = malloc(4 * PARAMS + 64 * count);
    if (!pieces || !m->image)
        bench_die("no memory for a rollout's weights");
    for (uint64_t t = 0; t < count; t++) {
        const uint64_t bytes = weft_layout_tensor_bytes(layout, from[t].tensor);
        if (at + bytes > 4 * PARAMS + 64 * count)
            bench_die("a made-up model is larger than it was asked to be");
        pieces[t] = from[t];
        pieces[t].data = memcpy(m->image + at, from[t].data, bytes);
        at += (bytes + 63) & ~UINT64_C(63);
    }
    snprintf(name, sizeof name, "p%u", number);
    bench_need(weft_rollout_open(site, name, layout, NULL, &m->session), "open a rollout");
    bench_need(weft_bind(m->session, pieces, count, NULL, 0, 0), "bind a rollout");
    free(pieces);
}

static void world_open(world *w)
{
    struct rlimit limit; /* every end needs two descriptors at the trainer and four of its own */
    bench_options options = {.provider = "loop"};
    weft_stats_info stats = {.size = sizeof stats};
    char text[40];
    uint64_t count;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    w->members = calloc(w->count, sizeof *w->members);
    if (!w->members)
        bench_die("no memory for rollouts");
    w->trainer = trainer_open(w->model, w->count, &stats);
    const weft_piece *pieces = weft_model_pieces(w->model, &count);
    bench_need(weft_bind(w->trainer, pieces, count, NULL, 0, 0), "bind the trainer");
    options_fill(&options, w->count, true, text);
    weft_site *site = bench_site(&options, stats.listen, "60s");
    for (uint32_t i = 0; i < w->count; i++)
        member_open(w, site, i);
    weft_site_free(site);
}

static void world_close(world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        weft_close(w->members[i].session);
        free(w->members[i].image);
    }
    weft_close(w->trainer);
    free(w->members);
}

static uint64_t peer_bytes(const weft_model *model)
{
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        weft_stats_info stats = {.size = sizeof stats};
        weft_close(trainer_open(model, i ? 1001 : 1, &stats));
        bytes[i] = stats.memory_bytes;
    }
    return (bytes[1] - bytes[0]) / 1000;
}

/* Half of the updates with all news together, half one by one; the first of all warms up. */
static void updates_measure(world *w, uint32_t updates, row *row)
{
    double share[2][BENCH_ROUNDS_MAX], encode[BENCH_ROUNDS_MAX], held[BENCH_ROUNDS_MAX];
    int counts[2] = {0, 0}, published = 0;
    settle(w, 0);
    row->join_us = w->trainer_us / w->count;
    for (uint64_t version = 1; version <= 2 * updates + 1; version++) {
        weft_update_info info = {.size = sizeof info};
        bench_need(weft_synth_step(w->model, CHANGED, version, NULL), "make a step");
        double begun_us = cpu_us();
        bench_need(weft_publish(w->trainer, version, NULL, NULL, &info), "publish");
        double publish_ms = (cpu_us() - begun_us) / 1e3;
        w->alone = version % 2;
        w->trainer_us = 0;
        settle(w, version);
        if (version == 1)
            continue;
        share[w->alone][counts[w->alone]++] = w->trainer_us / w->count;
        encode[published] = publish_ms;
        held[published++] = (cpu_us() - begun_us) / 1e3;
        row->update_bytes = info.bytes;
    }
    row->together_us = bench_median(share[0], counts[0]);
    row->alone_us = bench_median(share[1], counts[1]);
    row->publish_ms = bench_median(encode, published);
    row->held_ms = bench_median(held, published);
}

static void simulate(uint32_t peers, uint32_t updates, row *row)
{
    world w = {.now_ns = 1, .count = peers};
    weft_clock clock = {now_ns, pass, &w};
    weft_stats_info stats = {.size = sizeof stats};
    *row = (struct row){.peers = peers};
    weft_clock_own = &clock;
    bench_need(weft_synth_model(PARAMS, 1, &w.model), "make a model");
    row->peer_bytes = peer_bytes(w.model);
    world_open(&w);
    updates_measure(&w, updates, row);
    bench_need(weft_stats(w.members[0].session, &stats), "stats");
    row->rollout_bytes = stats.memory_bytes;
    world_close(&w);
    weft_model_close(w.model);
    weft_clock_own = NULL;
}

/* ---- processes */

/* CPU time of all threads of this process, because the rollouts are other processes. */
static double own_us(void)
{
    bench_cpu cpu = bench_cpu_now();
    return (cpu.user_ms + cpu.kernel_ms) * 1e3;
}

static void processes_run(uint32_t peers, uint32_t updates, row *row)
{
    static char names[BENCH_PEERS_MAX][12];
    bench_options options = {.provider = "tcp", .mib = 1, .changed = 100 * CHANGED};
    bench_rig rig;
    double share[BENCH_ROUNDS_MAX], encode[BENCH_ROUNDS_MAX], held[BENCH_ROUNDS_MAX];
    char text[40];
    simulate(1, 1, row); /* the memory of either end */
    *row = (struct row){.peers = peers, .peer_bytes = row->peer_bytes, .rollout_bytes = row->rollout_bytes};
    options_fill(&options, peers, false, text);
    for (uint32_t i = 0; i < peers; i++) {
        snprintf(names[i], sizeof names[i], "p%u", i);
        options.peers[options.peer_count++] = names[i];
    }
    bench_rig_open(&rig, &options);
    double begun_us = own_us();
    bench_rig_join_all(&rig);
    row->join_us = (own_us() - begun_us) / peers;
    for (uint32_t i = 0; i <= updates; i++) {
        weft_update_info info = {.size = sizeof info};
        const uint32_t at = i ? i - 1 : 0; /* the first one warms up, and the next writes over it */
        bench_rig_step(&rig);
        double begun_ms = bench_now_ms();
        begun_us = own_us();
        bench_rig_publish_ms(&rig, &info);
        double published_us = own_us();
        bench_rig_wait(&rig, options.peer_count);
        share[at] = (own_us() - published_us) / peers;
        encode[at] = (published_us - begun_us) / 1e3;
        held[at] = bench_now_ms() - begun_ms;
        row->update_bytes = info.bytes;
    }
    bench_rig_close(&rig);
    row->together_us = bench_median(share, (int)updates);
    row->publish_ms = bench_median(encode, (int)updates);
    row->held_ms = bench_median(held, (int)updates);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"peers", 1, NULL, 'p'}, {"updates", 1, NULL, 'u'}, {"processes", 0, NULL, 'x'}, {0}};
    unsigned long peers = 100, updates = 8;
    bool processes = false;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'p')
            peers = strtoul(optarg, NULL, 10);
        else if (option == 'u')
            updates = strtoul(optarg, NULL, 10);
        else if (option == 'x')
            processes = true;
        else
            bench_die("bench_fleet [--peers N] [--processes] [--updates K]");
    }
    if (peers < 1 || peers > (processes ? BENCH_PEERS_MAX : PEERS_MOST))
        bench_die("--peers must be 1 to 4096, or to 32 with --processes");
    if (updates < 1 || updates > BENCH_ROUNDS_MAX / 2)
        bench_die("--updates must be 1 to 49");
    for (uint32_t size = 1;; size = size * 10 < peers ? size * 10 : (uint32_t)peers) {
        row row;
        (processes ? processes_run : simulate)(size, (uint32_t)updates, &row);
        row_print(processes ? "tcp" : "loop", &row);
        if (size == peers)
            return 0;
    }
}
