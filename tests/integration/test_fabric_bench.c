/* The two ends of `weft bench fabric` over real providers and those that are played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/fabric_ends.h"
#include "tests/support/standin.h"
#include "tools/bench/fabric/end.h"
#include "tools/bench/fabric/measure.h"
#include "tools/bench/fabric/meet.h"

/* ---- a whole measurement */

static void measure_all(play *p)
{
    weft_bench_fabric_figures f;
    weft_bench_line line = {.fd = p->processes[1].line};
    weft_bench_fabric_terms terms = {.provider = standin_provider(p->provider),
                                     .link = {.address = end_local(p->provider)},
                                     .runs = 1,
                                     .bytes = 1,
                                     .line = &line};
    standin_use(p->provider);
    CHECK(weft_bench_fabric_measure(&terms, &f) == WEFT_OK, "measure");
    CHECK(f.chunks > 0 && f.depths > 0, "nothing was measured");
    for (uint32_t c = 0; c < f.chunks; c++)
        for (uint32_t d = 0; d < f.depths; d++)
            CHECK(f.rate[c][d] > 0, "%llu bytes, %u in flight", (unsigned long long)f.chunk[c], f.depth[d]);
    CHECK(f.latency_us > 0 && f.woken_us > 0, "latency");
    char why[200];
    const bool worth = weft_bench_noise_passes(&f.noise, why); /* on a machine that does more, nothing follows */
    CHECK((f.best_chunk > 0) == worth && f.bucket_min == f.best_chunk * f.best_depth, "keys");
}

static void obey(play *p)
{
    weft_link_options link = {.address = end_local(p->provider)};
    weft_bench_line line = {.fd = p->line};
    standin_use(p->provider);
    CHECK(weft_bench_fabric_serve(standin_provider(p->provider), &link, &line) == WEFT_OK, "serve");
}

static void a_fabric_is_measured(void **state)
{
    play p;
    play_start(&p, *state, measure_all, obey, 1);
    play_finish(&p, 1, 0);
}

/* ---- more than a receiver's own queue would hold, while nobody reads */

#define AWAY  64u
#define SMALL 64u

static void open_end(weft_bench_end *end, const play *p, weft_bench_line *line, bool waits)
{
    weft_link_options link = {.address = end_local(p->provider)};
    standin_use(p->provider);
    CHECK(weft_bench_end_open(end, standin_provider(p->provider), &link, line, waits) == WEFT_OK, "open");
}

static void step(weft_bench_end *end)
{
    CHECK(weft_bench_end_step(end, false) == WEFT_OK, "step");
}

static void post(weft_bench_end *end, uint64_t number)
{
    weft_status status;
    while ((status = weft_bench_end_post(end, number, SMALL)) == WEFT_AGAIN)
        step(end);
    CHECK(status == WEFT_OK, "post");
}

static void step_until_told(weft_bench_end *end)
{
    char word;
    while (!play_heard(end->line->fd))
        step(end);
    play_hear(end->line->fd, &word, 1);
}

/* When the first one has come there is a connection: what follows goes out whatever the other end does. */
static void write_ahead(play *p)
{
    weft_bench_end end;
    weft_bench_line line = {.fd = p->processes[1].line};
    open_end(&end, p, &line, false);
    post(&end, 0);
    step_until_told(&end);
    for (uint64_t number = 1; number < AWAY; number++)
        post(&end, number);
    while (end.under_way)
        step(&end);
    play_tell(end.line->fd, "", 1);
    step_until_told(&end);
    weft_bench_end_close(&end);
}

static void look_away(play *p)
{
    char word;
    weft_bench_end end;
    weft_bench_line line = {.fd = p->line};
    open_end(&end, p, &line, true);
    while (end.arrived < 1)
        step(&end);
    play_tell(end.line->fd, "", 1);
    play_hear(end.line->fd, &word, 1);
    while (end.arrived < AWAY)
        step(&end);
    play_tell(end.line->fd, "", 1);
    weft_bench_end_close(&end);
}

static void what_comes_before_it_is_read_is_kept(void **state)
{
    play p;
    play_start(&p, *state, write_ahead, look_away, 1);
    play_finish(&p, 1, 0);
}

int main(void)
{
    static const struct CMUnitTest verbs[] = {ON(a_fabric_is_measured, "verbs"),
                                              ON(what_comes_before_it_is_read_is_kept, "verbs")};
    static const struct CMUnitTest efa[] = {ON(a_fabric_is_measured, "efa"),
                                            ON(what_comes_before_it_is_read_is_kept, "efa")};
    static const struct CMUnitTest efa_direct[] = {ON(a_fabric_is_measured, "efa-direct"),
                                                   ON(what_comes_before_it_is_read_is_kept, "efa-direct")};
    static const struct CMUnitTest shm[] = {ON(a_fabric_is_measured, "shm")};
    int failed = FABRIC_RUN("verbs", verbs); /* stand-ins, where no device is */
    failed += FABRIC_RUN("efa", efa);
    failed += FABRIC_RUN("efa-direct", efa_direct);
    failed += FABRIC_RUN("shm", shm);
    return fabric_result(failed);
}
