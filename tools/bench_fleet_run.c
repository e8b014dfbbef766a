/* bench_fleet_run.c - the same with each rollout a process of this program, over tcp. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "bench_fleet.h"
#include "demo_process.h"
#include "output.h"

#define HELD_DEADLINE_MS 60000u

typedef struct fleet_run {
    const weft_fleet_terms *terms;
    weft_session *trainer;
    weft_process *children;
    uint32_t count, started;
} fleet_run;

static void hush(void *user, weft_log_level level, const char *line)
{
    (void)user;
    if (level == WEFT_LOG_ERROR)
        weft_output_say("weft: %s", line);
}

/* Of all threads of this process: the rollouts are other processes. */
static double cpu_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

typedef struct start {
    char site[PATH_MAX + 16], name[32], until[24];
} start;

static int become_rollout(void *user)
{
    start *s = user;
    char *words[] = {"weft", "rollout", s->site, "--peer", s->name, "--empty", "--until", s->until, NULL};
    execv("/proc/self/exe", words);
    return 1;
}

static weft_status open_trainer(fleet_run *run)
{
    const weft_bench_pair *pair = run->terms->pair;
    const weft_options options = {.size = sizeof options, .log = hush};
    weft_site *site = NULL;
    weft_fleet_turn(run->terms, 0, pair->work);
    weft_status status = weft_fleet_site_write(run->terms, "127.0.0.1:0", "tcp", run->count, false);
    if (status == WEFT_OK)
        status = weft_fleet_site_load(run->terms, &site);
    if (status == WEFT_OK)
        status = weft_trainer_open(site, pair->layout, &options, &run->trainer);
    if (status == WEFT_OK)
        status = weft_bind(run->trainer, pair->pieces_work, pair->count, NULL, 0, 0);
    weft_site_free(site);
    return status;
}

static weft_status start_rollouts(fleet_run *run)
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_status status = weft_stats(run->trainer, &stats);
    if (status == WEFT_OK)
        status = weft_fleet_site_write(run->terms, stats.listen, "tcp", run->count, false);
    for (; status == WEFT_OK && run->started < run->count; run->started++) {
        start s;
        snprintf(s.site, sizeof s.site, "%s/site.ini", run->terms->folder);
        snprintf(s.name, sizeof s.name, "p%u", run->started);
        snprintf(s.until, sizeof s.until, "%u", run->terms->updates + 1);
        status = weft_process_start(&run->children[run->started], run->terms->folder, s.name, -1, become_rollout, &s);
    }
    return status;
}

static weft_status wait_for_all(const fleet_run *run, uint64_t version)
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_event event = {.size = sizeof event};
    double until = weft_now_ms() + HELD_DEADLINE_MS;
    for (weft_status status = WEFT_E_TIMEOUT; weft_now_ms() < until;) {
        status = weft_stats(run->trainer, &stats);
        if (status == WEFT_OK && stats.peers_lost)
            return weft_fail(WEFT_E_PEER_LOST, "a rollout was lost; see %s", run->terms->folder);
        bool all = stats.peers_joined >= run->count;
        status = weft_wait(run->trainer, version, NULL, 0, all ? 1000 : 20);
        while (weft_events(run->trainer, &event) == WEFT_OK)
            ;
        if (status == WEFT_OK && all)
            return WEFT_OK;
        if (status == WEFT_OK)
            usleep(20000); /* those that joined hold it; the others are on their way */
    }
    return weft_fail(WEFT_E_TIMEOUT, "%llu of %u rollouts joined, and not all hold version %llu",
                     (unsigned long long)stats.peers_joined, run->count, (unsigned long long)version);
}

static weft_status measure(fleet_run *run, weft_fleet_row *row)
{
    double share[WEFT_BENCH_ROUNDS_MAX], encode[WEFT_BENCH_ROUNDS_MAX], held[WEFT_BENCH_ROUNDS_MAX];
    uint32_t count = 0;
    double joined_us = cpu_us();
    weft_status status = wait_for_all(run, 0);
    row->join_us = (cpu_us() - joined_us) / run->count;
    for (uint64_t version = 1; version <= run->terms->updates + 1 && status == WEFT_OK; version++) {
        weft_update_info info = {.size = sizeof info};
        weft_fleet_turn(run->terms, version, run->terms->pair->work);
        double begun_ms = weft_now_ms(), begun_us = cpu_us();
        status = weft_publish(run->trainer, version, NULL, NULL, &info);
        double published_us = cpu_us();
        if (status == WEFT_OK)
            status = wait_for_all(run, version);
        if (version == 1)
            continue;
        share[count] = (cpu_us() - published_us) / run->count;
        encode[count] = (published_us - begun_us) / 1e3;
        held[count++] = weft_now_ms() - begun_ms;
        row->update_bytes = info.bytes;
    }
    row->together_us = weft_bench_median(share, count);
    row->publish_ms = weft_bench_median(encode, count);
    row->held_ms = weft_bench_median(held, count);
    return status;
}

static weft_status peer_memory(const fleet_run *run, weft_fleet_row *row)
{
    weft_fleet_row one;
    weft_status status = weft_fleet_simulate(run->terms, 1, &one);
    row->peer_bytes = one.peer_bytes;
    row->rollout_bytes = one.rollout_bytes;
    return status;
}

static void remove_files(const fleet_run *run)
{
    for (uint32_t i = 0; i < run->started; i++) {
        unlink(run->children[i].out);
        unlink(run->children[i].log);
    }
}

weft_status weft_fleet_run(const weft_fleet_terms *terms, uint32_t peers, weft_fleet_row *row)
{
    fleet_run run = {.terms = terms, .count = peers};
    *row = (weft_fleet_row){.peers = peers, .processes = true};
    weft_status status = peer_memory(&run, row);
    run.children = weft_mem_take(peers, sizeof *run.children);
    if (status == WEFT_OK && !run.children)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %u processes", peers);
    if (status == WEFT_OK)
        status = open_trainer(&run);
    if (status == WEFT_OK)
        status = start_rollouts(&run);
    if (status == WEFT_OK)
        status = measure(&run, row);
    if (run.children)
        weft_processes_end(run.children, run.started);
    weft_close(run.trainer);
    if (run.children)
        remove_files(&run);
    weft_mem_give(run.children);
    return status;
}
