#include "harness/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "harness/session.h"

#define ROUNDS_MOST 20000u

double fleet_cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void fleet_world_open(fleet_world *w, fleet_clock *clock, weft_model *model, uint32_t sources, uint32_t ranks)
{
    struct rlimit limit; /* every pair of ends has some descriptors */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    *w = (fleet_world){.clock = clock,
                       .model = model,
                       .sources = calloc(sources, sizeof *w->sources),
                       .ranks = calloc(ranks, sizeof *w->ranks)};
    if (!w->sources || !w->ranks)
        fleet_fail("no memory for %u sources and %u ranks", sources, ranks);
}

static void members_close(fleet_member *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        weft_close(members[i].session);
        fleet_share_close(&members[i].share);
    }
    free(members);
}

void fleet_world_close(fleet_world *w)
{
    members_close(w->ranks, w->rank_count);
    members_close(w->sources, w->source_count);
}

void fleet_source_add(fleet_world *w, const weft_site *site, fleet_cut cut, uint64_t run)
{
    fleet_member *m = &w->sources[w->source_count++];
    fleet_share_open(&m->share, w->model, cut, false);
    const weft_options options = {.size = sizeof options,
                                  .run = run,
                                  .slices = m->share.whole ? NULL : m->share.slices,
                                  .slice_count = m->share.whole ? 0 : m->share.count};
    m->session = fleet_trainer_open(site, weft_model_layout(w->model), &options, m->listen);
    fleet_share_bind(&m->share, m->session, 0);
}

void fleet_rank_add(fleet_world *w, const weft_site *site, fleet_cut cut)
{
    weft_trainer_source sources[WEFT_SOURCES_MAX];
    char name[16];
    fleet_member *m = &w->ranks[w->rank_count];
    fleet_share_open(&m->share, w->model, cut, true);
    for (uint32_t i = 0; i < w->source_count; i++)
        sources[i] = (weft_trainer_source){w->sources[i].listen, w->sources[i].share.slices, w->sources[i].share.count};
    const weft_options options = {.size = sizeof options,
                                  .slices = m->share.whole ? NULL : m->share.slices,
                                  .slice_count = m->share.whole ? 0 : m->share.count,
                                  .sources = w->source_count > 1 ? sources : NULL,
                                  .source_count = w->source_count > 1 ? w->source_count : 0};
    snprintf(name, sizeof name, "p%u", w->rank_count++);
    m->session = fleet_rollout_open(site, name, weft_model_layout(w->model), &options);
    fleet_share_bind(&m->share, m->session, 0);
}

double fleet_world_publish(fleet_world *w, uint64_t version, weft_update_info *info)
{
    const double begun = fleet_cpu_us();
    for (uint32_t i = 0; i < w->source_count; i++)
        fleet_need(weft_publish(w->sources[i].session, version, NULL, NULL, info), "publish");
    return (fleet_cpu_us() - begun) / 1e3;
}

static void sources_step(fleet_world *w)
{
    const double begun = fleet_cpu_us();
    for (uint32_t i = 0; i < w->source_count; i++)
        fleet_step(w->sources[i].session);
    w->sources_us += fleet_cpu_us() - begun;
}

static void rank_step(const fleet_member *m)
{
    fleet_step(m->session);
    const weft_status status = fleet_take(m->session);
    if (status != WEFT_AGAIN && status != WEFT_E_PEER_LOST)
        fleet_need(status, "commit");
}

static bool all_hold(const fleet_world *w, uint64_t version)
{
    for (uint32_t i = 0; i < w->source_count; i++)
        if (w->sources[i].share.count > 0 && /* no rank needs a source that has nothing */
            (fleet_stats(w->sources[i].session).peers_joined < w->rank_count ||
             weft_wait(w->sources[i].session, version, NULL, 0, 0) != WEFT_OK))
            return false;
    return true;
}

void fleet_world_settle(fleet_world *w, uint64_t version)
{
    for (uint32_t round = 0; !all_hold(w, version); round++, w->clock->now_ns += FLEET_TICK_NS) {
        if (round == ROUNDS_MOST)
            fleet_fail("version %llu is not held by all after %u rounds", (unsigned long long)version, round);
        sources_step(w);
        for (uint32_t i = 0; i < w->rank_count; i++) {
            rank_step(&w->ranks[i]);
            if (w->alone)
                sources_step(w);
        }
    }
}
