/* yard.c - what the machine's memory gives: copying, reading one stream or two, visiting what changes.
 *
 * A stream is read in order, as the stages read it and the bars have it, and at several places at once (one stream at
 * four, two streams at two each), with which a processor keeps more lines under way: the most that memory gives. A
 * rollout needs less than a stream and more than a read: it looks at what changes, and writes it when all is proved.
 * The loops sum up what they read, so that nothing is left out. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/team.h"
#include "bench/codec/codec.h"

#define LINE 64u /* bytes */

typedef uint64_t words __attribute__((vector_size(32), aligned(8)));

#define INLINE static inline __attribute__((always_inline))

INLINE void line_add(words *sum, const uint8_t *at)
{
    words low, high;
    memcpy(&low, at, sizeof low);
    memcpy(&high, at + sizeof low, sizeof high);
    *sum += low + high;
}

INLINE uint64_t words_sum(const words sums[4])
{
    const words sum = sums[0] + sums[1] + sums[2] + sums[3];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Four quarters of one stream, or halves of two: from `at` of each one `bytes`, a line at a time. */
INLINE uint64_t read_wide(const uint8_t *const at[4], uint64_t bytes)
{
    words sums[4] = {{0}};
    for (uint64_t i = 0; i < bytes; i += LINE)
        for (unsigned place = 0; place < 4; place++)
            line_add(&sums[place], at[place] + i);
    return words_sum(sums);
}

/* One stream, or two of them side by side, from the first line to the last, two lines of each at a time. */
INLINE uint64_t read_on(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
    words sums[4] = {{0}};
    for (uint64_t i = 0; i < bytes; i += 2 * LINE) {
        line_add(&sums[0], a + i);
        line_add(&sums[1], a + i + LINE);
        if (b) {
            line_add(&sums[2], b + i);
            line_add(&sums[3], b + i + LINE);
        }
    }
    return words_sum(sums);
}

INLINE uint64_t read_as(weft_bench_yard yard, const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
    const uint64_t two = bytes / (2 * LINE) * (2 * LINE), half = bytes / 2 / LINE * LINE,
                   quarter = bytes / 4 / LINE * LINE;
    switch (yard) {
    case WEFT_BENCH_READ_ONE:
        return read_on(a, NULL, two);
    case WEFT_BENCH_READ_TWO:
        return read_on(a, b, two);
    case WEFT_BENCH_READ_ONE_WIDE:
        return read_wide((const uint8_t *[]){a, a + quarter, a + 2 * quarter, a + 3 * quarter}, quarter);
    default:
        return read_wide((const uint8_t *[]){a, a + half, b, b + half}, half);
    }
}

/* ---- compiled for the processor at hand */

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(weft_bench_yard yard, const uint8_t *a, const uint8_t *b,
                                                          uint64_t bytes)
{
    return read_as(yard, a, b, bytes);
}
#endif

static uint64_t read_yard(weft_bench_yard yard, const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return read_avx2(yard, a, b, bytes);
#endif
    return read_as(yard, a, b, bytes);
}

/* ---- visits */

/* Places that are asked for ahead of use. */
#define AHEAD 96u

/* Reads a word of each place, and writes it back if so wished; asks for places into the second cache or the first. */
INLINE uint64_t places_visit(uint8_t *image, const uint64_t *place, uint64_t count, bool write, bool second)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *next = image + place[i + AHEAD < count ? i + AHEAD : i];
        if (second)
            __builtin_prefetch(next, 0, 2);
        else
            __builtin_prefetch(next, 0);
        volatile uint64_t *word = (volatile uint64_t *)(void *)(image + place[i]);
        sum += *word;
        if (write)
            *word = *word;
    }
    return sum;
}

static uint64_t visit(uint8_t *image, const uint64_t *place, uint64_t count, bool write, bool second)
{
    return second ? places_visit(image, place, count, write, true) : places_visit(image, place, count, write, false);
}

/* ---- in lanes */

typedef struct task {
    weft_bench_pair *pair;
    weft_bench_yard yard;
    bool second, write;
    uint32_t lanes;
    uint64_t sums[WEFT_TEAM_MAX]; /* so that reading is not in vain */
} task;

static void lane_run(void *context, uint32_t lane)
{
    task *t = context;
    const weft_bench_pair *pair = t->pair;
    const uint64_t part = pair->bytes / t->lanes / LINE * LINE, first = lane * part;
    const uint64_t from = pair->place_count * lane / t->lanes, to = pair->place_count * (lane + 1) / t->lanes;
    if (t->yard == WEFT_BENCH_COPY)
        memcpy(pair->work + first, pair->before + first, part);
    else if (t->write || t->yard == WEFT_BENCH_VISIT)
        t->sums[lane] = visit(pair->work, pair->places + from, to - from, t->write, t->second);
    else if (t->yard == WEFT_BENCH_READ_VISIT)
        t->sums[lane] = read_yard(WEFT_BENCH_READ_ONE, pair->work + first, NULL, part);
    else
        t->sums[lane] = read_yard(t->yard, pair->before + first, pair->after + first, part);
}

static double task_time(weft_team *team, task *t)
{
    const uint64_t begun = weft_clock_ns();
    weft_team_run(team, lane_run, t);
    return weft_clock_ms(begun, weft_clock_ns());
}

/* The better of two ways to ask for what is scattered. */
static double visits_time(weft_team *team, task t)
{
    double best = 0;
    for (int second = 0; second < 2; second++) {
        t.second = second;
        weft_bench_cool(t.pair);
        t.write = false;
        double ms = task_time(team, &t);
        t.write = true;
        ms += task_time(team, &t);
        best = second == 0 || ms < best ? ms : best;
    }
    return best;
}

weft_status weft_bench_yards_time(weft_bench_pair *pair, uint32_t threads, double ms[WEFT_BENCH_YARDS])
{
    weft_team team;
    weft_status status = weft_team_open(&team, threads);
    if (status != WEFT_OK)
        return status;
    for (int yard = 0; yard < WEFT_BENCH_YARDS; yard++) {
        task t = {.pair = pair, .yard = (weft_bench_yard)yard, .lanes = threads};
        if (yard < WEFT_BENCH_VISIT)
            weft_bench_cool(pair);
        ms[yard] = yard < WEFT_BENCH_VISIT ? task_time(&team, &t) : visits_time(&team, t);
    }
    weft_team_close(&team);
    return WEFT_OK;
}

const char *weft_bench_yard_name(weft_bench_yard yard)
{
    static const char *const names[WEFT_BENCH_YARDS] = {
        "memcpy",
        "read one stream",
        "read two streams",
        "read one, at four places",
        "read two, at four places",
        "read changes, write them",
        "read one, write changes",
    };
    return names[yard];
}
