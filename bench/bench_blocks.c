/* bench_blocks.c - bar V2: diff and encode over column boxes of a matrix that is held by rows, against whole rows.
 *
 * One process, no peers. Four trainers bind the same weights, rows of 4,096 bf16 elements: by whole rows, and as
 * tensors of 1,024, 512 and 256 columns of these rows. Each round changes the weights once, and each trainer publishes
 * them; the order turns with the round. Every line printed is a JSON object: one a width of columns, the medians over
 * the rounds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define COLUMNS  4096u
#define TRAINERS 4

static const uint64_t widths[TRAINERS] = {COLUMNS, 1024, 512, 256};
static const double bars[TRAINERS] = {1, 0.85, 0.75, 0.6};

typedef struct trainer {
    weft_layout *layout;
    weft_session *session;
    double ms[BENCH_ROUNDS_MAX];
    double diff_ms[BENCH_ROUNDS_MAX];
} trainer;

static weft_layout *layout_of(uint64_t rows, uint64_t columns)
{
    weft_tensor tensors[COLUMNS / 256];
    char names[COLUMNS / 256][16];
    const uint64_t shape[] = {rows, columns};
    weft_layout *layout;
    for (uint64_t i = 0; i < COLUMNS / columns; i++) {
        snprintf(names[i], sizeof names[i], "columns.%llu", (unsigned long long)i);
        tensors[i] = (weft_tensor){names[i], WEFT_BF16, 2, shape};
    }
    fleet_need(weft_layout_create(tensors, COLUMNS / columns, &layout), "make a layout");
    return layout;
}

static void trainer_open(trainer *t, const bench_options *options, uint16_t *weights, uint64_t rows, uint64_t columns)
{
    char listen[64];
    weft_block blocks[COLUMNS / 256];
    for (uint64_t i = 0; i < COLUMNS / columns; i++)
        blocks[i] = (weft_block){.slice = {i, 0, rows, 0, columns},
                                 .data = weights + i * columns,
                                 .row = {{rows, COLUMNS * sizeof *weights}}};
    t->layout = layout_of(rows, columns);
    weft_site *site = bench_site(options, NULL, "5s");
    t->session = fleet_trainer_open(site, t->layout, NULL, listen);
    weft_site_free(site);
    fleet_need(weft_bind_blocks(t->session, blocks, COLUMNS / columns, NULL, 0, 0), "bind a trainer");
}

static void publish(trainer *t, int round)
{
    weft_update_info info = {.size = sizeof info};
    fleet_need(weft_publish(t->session, (uint64_t)(round + 2), NULL, NULL, &info), "publish");
    if (round < 0)
        return;
    t->ms[round] = info.diff_ms + info.encode_ms;
    t->diff_ms[round] = info.diff_ms;
}

static void report(const trainer *t, int rounds, uint64_t bytes, const trainer *whole, int at)
{
    double ratios[BENCH_ROUNDS_MAX];
    for (int i = 0; i < rounds; i++)
        ratios[i] = whole->ms[i] / t->ms[i];
    const double ms = bench_median(t->ms, rounds), ratio = bench_median(ratios, rounds);
    printf(
        "{\"columns\": %llu, \"ms\": %.2f, \"diff_ms\": %.2f, \"gb_s\": %.2f, \"of_whole_rows\": %.3f, \"bar\": %.2f, "
        "\"held\": %s}\n",
        (unsigned long long)widths[at], ms, bench_median(t->diff_ms, rounds), (double)bytes / ms / 1e6, ratio, bars[at],
        ratio >= bars[at] ? "true" : "false");
}

/* Changes about one weight in `stride`, another set for each seed. */
static void step(uint16_t *weights, uint64_t elements, uint32_t stride, uint64_t seed)
{
    uint64_t state = (seed + 1) * 0x9e3779b97f4a7c15u;
    for (uint64_t i = bench_draw(&state) % stride; i < elements; i += 1 + bench_draw(&state) % (2 * stride - 1))
        weights[i] ^= (uint16_t)(1u + (bench_draw(&state) & 1u));
}

int main(int argc, char **argv)
{
    static const char *const sets[] = {"session.progress=manual", "trainer.threads=1", "log.level=warn"};
    bench_options options = {.provider = "tcp", .mib = 256, .rounds = 15, .seconds = 1, .changed = 1.17};
    trainer trainers[TRAINERS] = {0};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        options.sets[options.set_count++] = sets[i];
    bench_options_read(argc, argv, &options);
    const uint64_t bytes = options.mib << 20, elements = bytes / 2;
    uint16_t *weights = aligned_alloc(2u << 20, (bytes + (2u << 20) - 1) >> 21 << 21);
    if (!weights)
        fleet_fail("no memory for the weights");
    bench_noise(weights, bytes);
    for (int at = 0; at < TRAINERS; at++)
        trainer_open(&trainers[at], &options, weights, elements / COLUMNS, widths[at]);
    for (int round = -1; round < options.rounds; round++) { /* the first one touches memory, and is not counted */
        step(weights, elements, (uint32_t)(100 / options.changed), (uint64_t)round + 2);
        for (int i = 0; i < TRAINERS; i++)
            publish(&trainers[(i + round + 1) % TRAINERS], round);
    }
    for (int at = 0; at < TRAINERS; at++)
        report(&trainers[at], options.rounds, bytes, &trainers[0], at);
    for (int at = 0; at < TRAINERS; at++) {
        weft_close(trainers[at].session);
        weft_layout_free(trainers[at].layout);
    }
    free(weights);
    return 0;
}
