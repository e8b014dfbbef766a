/* bench_yard.c - what the machine's memory gives: copying, reading one stream and reading two.
 *
 * A processor keeps more lines under way when it reads at several places at once, so that the loops do: one stream at
 * four places, two streams at two places each. They sum up what they read, so that nothing is left out. */
#include <string.h>
#include <time.h>

#include "bench.h"
#include "crew.h"
#include "output.h"

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

INLINE uint64_t read_one(const uint8_t *a, uint64_t bytes)
{
    const uint64_t quarter = bytes / 4 / LINE * LINE;
    words sums[4] = {{0}};
    for (uint64_t i = 0; i < quarter; i += LINE)
        for (unsigned place = 0; place < 4; place++)
            line_add(&sums[place], a + place * quarter + i);
    return words_sum(sums);
}

INLINE uint64_t read_two(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
    const uint64_t half = bytes / 2 / LINE * LINE;
    words sums[4] = {{0}};
    for (uint64_t i = 0; i < half; i += LINE)
        for (unsigned place = 0; place < 2; place++) {
            line_add(&sums[place], a + place * half + i);
            line_add(&sums[2 + place], b + place * half + i);
        }
    return words_sum(sums);
}

/* ---- compiled for the processor at hand */

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_one_avx2(const uint8_t *a, uint64_t bytes)
{
    return read_one(a, bytes);
}

__attribute__((target("avx2"))) static uint64_t read_two_avx2(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
    return read_two(a, b, bytes);
}
#endif

static uint64_t one(const uint8_t *a, uint64_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return read_one_avx2(a, bytes);
#endif
    return read_one(a, bytes);
}

static uint64_t two(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return read_two_avx2(a, b, bytes);
#endif
    return read_two(a, b, bytes);
}

/* ---- in lanes */

typedef struct task {
    weft_bench_pair *pair;
    weft_bench_yard yard;
    uint32_t lanes;
    uint64_t sums[WEFT_CREW_MAX]; /* so that reading is not in vain */
} task;

static void lane_run(void *context, uint32_t lane)
{
    task *t = context;
    const weft_bench_pair *pair = t->pair;
    uint64_t part = pair->bytes / t->lanes / LINE * LINE, first = lane * part;
    if (t->yard == WEFT_BENCH_COPY)
        memcpy(pair->work + first, pair->before + first, part);
    else if (t->yard == WEFT_BENCH_READ_ONE)
        t->sums[lane] = one(pair->before + first, part);
    else
        t->sums[lane] = two(pair->before + first, pair->after + first, part);
}

weft_status weft_bench_yards_time(weft_bench_pair *pair, uint32_t threads, double ms[WEFT_BENCH_YARDS])
{
    weft_crew crew;
    weft_status status = weft_crew_open(&crew, threads);
    if (status != WEFT_OK)
        return status;
    for (int yard = 0; yard < WEFT_BENCH_YARDS; yard++) {
        task t = {.pair = pair, .yard = (weft_bench_yard)yard, .lanes = threads};
        double begun = weft_now_ms();
        weft_crew_run(&crew, lane_run, &t);
        ms[yard] = weft_now_ms() - begun;
    }
    weft_crew_close(&crew);
    return WEFT_OK;
}

const char *weft_bench_yard_name(weft_bench_yard yard)
{
    static const char *const names[WEFT_BENCH_YARDS] = {"memcpy", "read one stream", "read two streams"};
    return names[yard];
}
