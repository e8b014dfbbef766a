#include "tools/bench/fabric/noise.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

/* Limits of the noise. An end that waits a tenth of its time shows up in every figure; a hypervisor's share is a part
 * of each processor's; runs that differ by as much as their middle have none that another would find. */
static const struct {
    size_t share; /* in weft_bench_noise */
    double most;
    const char *text;
} rows[] = {
    {offsetof(weft_bench_noise, waited_here), 0.10,
     "this end waited for a processor %.0f %% of the time that it wanted one"},
    {offsetof(weft_bench_noise, waited_there), 0.10,
     "the other end waited for a processor %.0f %% of the time that it wanted one"},
    {offsetof(weft_bench_noise, stolen_here), 0.05, "a hypervisor gave others %.0f %% of the processors' time"},
    {offsetof(weft_bench_noise, rate_spread), 1.00, "the same rate differs by %.0f %% from run to run"},
};

static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 * WEFT_NS_PER_MS + (uint64_t)now.tv_nsec;
}

void weft_bench_spin(uint32_t ms, weft_bench_turns *turns)
{
    const uint64_t begun = weft_clock_ns(), had = thread_ns();
    uint64_t now;
    do
        now = weft_clock_ns();
    while (now - begun < ms * WEFT_NS_PER_MS);
    turns->wanted_ns += now - begun;
    turns->had_ns += thread_ns() - had;
}

static double share(double part, double all)
{
    return all > 0 ? (part > 0 ? part / all : 0) : -1;
}

double weft_bench_waited(const weft_bench_turns *turns)
{
    return share((double)turns->wanted_ns - (double)turns->had_ns, (double)turns->wanted_ns);
}

/* user nice system idle iowait irq softirq steal; guests are in user and nice. */
weft_bench_ticks weft_bench_ticks_now(void)
{
    double ticks[8], all = 0;
    FILE *file = fopen("/proc/stat", "r");
    bool read = file && fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1], &ticks[2], &ticks[3],
                               &ticks[4], &ticks[5], &ticks[6], &ticks[7]) == 8;
    if (file)
        fclose(file);
    for (int i = 0; i < 8 && read; i++)
        all += ticks[i];
    return read ? (weft_bench_ticks){all, ticks[7]} : (weft_bench_ticks){-1, -1};
}

double weft_bench_stolen(const weft_bench_ticks *from, const weft_bench_ticks *to)
{
    return from->all < 0 || to->all < 0 ? -1 : share(to->stolen - from->stolen, to->all - from->all);
}

double weft_bench_spread(const double *values, uint32_t count)
{
    return count < 4 ? -1 : share(values[count - 1 - count / 4] - values[count / 4], values[count / 2]);
}

bool weft_bench_noise_passes(const weft_bench_noise *noise, char why[200])
{
    why[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double found = *(const double *)((const char *)noise + rows[i].share);
        if (found <= rows[i].most)
            continue;
        snprintf(why, 200, rows[i].text, 100 * found);
        return false;
    }
    return true;
}
