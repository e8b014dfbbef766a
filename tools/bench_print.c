/* bench_print.c - the tables of `weft bench codec`. */
#include <inttypes.h>
#include <stdio.h>

#include "bench.h"
#include "layout/layout.h"
#include "output.h"

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

static double gb_s(uint64_t bytes, double ms)
{
    return ms > 0 ? (double)bytes / ms / 1e6 : 0;
}

/* ---- sizes */

static void print_entropy(const char *name, double position, double direction, double magnitude)
{
    printf("  %-26s %33.3f   = position %.2f + direction %.2f + magnitude %.2f\n", name,
           position + direction + magnitude, position, direction, magnitude);
}

static void print_sizes(const weft_bench_case *c)
{
    const double changed = (double)c->floor.changed, dense = (double)c->pair.layout->bytes;
    const double tiles = (double)c->pair.layout->unit_count;
    printf("\n  %-26s %14s %18s %12s %10s %14s\n", "update, everything counted", "bytes", "bits a change", "times less",
           "frames", "bytes a tile");
    for (int level = 0; level < WEFT_BENCH_LEVELS; level++) {
        const weft_update_header *header = &c->sizes[level].header;
        const double bytes = (double)header->bytes;
        printf("  %-26s %14" PRIu64 " %18.3f %12.1f %10" PRIu64 " %14.1f\n", c->sizes[level].level, header->bytes,
               share(8 * bytes, changed), share(dense, bytes), header->frames,
               share((double)header->frame_bytes, tiles));
    }
    print_entropy("floor, old exponent known", c->floor.position, c->floor.direction, c->floor.magnitude);
    print_entropy("entropy, nothing known", c->floor.position_free, c->floor.direction, c->floor.magnitude_free);
    printf("  full in byte planes: %.3f of dense\n", share((double)c->sizes[WEFT_BENCH_FULL].header.bytes, dense));
}

static void print_planes(const weft_bench_case *c)
{
    const uint64_t *tight = c->sizes[WEFT_BENCH_TIGHT].bits, *fast = c->sizes[WEFT_BENCH_FAST].bits;
    const double changed = (double)c->floor.changed;
    printf("\n  %-26s %14s %18s %14s %18s\n", "where the bits go", "tight: bytes", "bits a change", "fast: bytes",
           "bits a change");
    for (int plane = 0; plane < WEFT_BENCH_PLANES; plane++)
        if (tight[plane] || fast[plane])
            printf("  %-26s %14.0f %18.3f %14.0f %18.3f\n", weft_bench_plane_name((weft_bench_plane)plane),
                   (double)tight[plane] / 8, share((double)tight[plane], changed), (double)fast[plane] / 8,
                   share((double)fast[plane], changed));
}

static void print_rivals(const weft_bench_case *c)
{
    printf("\n  %-30s %14s %14s %12s %14s %14s\n", "other methods, one thread", "bytes", "bits a change", "times less",
           "encode GB/s", "decode GB/s");
    for (size_t i = 0; i < WEFT_BENCH_RIVALS; i++) {
        const weft_bench_rival *r = &c->rivals[i];
        if (r->skipped)
            printf("  %-30s skipped: %s\n", r->name, r->skipped);
        else
            printf("  %-30s %14" PRIu64 " %14.2f %12.1f %14.2f %14.2f\n", r->name, r->bytes,
                   share(8 * (double)r->bytes, (double)c->floor.changed),
                   share((double)c->pair.layout->bytes, (double)r->bytes), gb_s(c->pair.bytes, r->encode_ms),
                   gb_s(c->pair.bytes, r->decode_ms));
    }
}

/* ---- speeds */

static void print_yards(const weft_bench_case *c)
{
    const weft_bench_speed *s = &c->speed;
    printf("\n  %-26s", "yardsticks, dense GB/s");
    for (uint32_t team = 0; team < s->teams; team++)
        printf(" %9u thread%s", s->threads[team], s->threads[team] == 1 ? " " : "s");
    printf("\n");
    for (int yard = 0; yard < WEFT_BENCH_YARDS; yard++) {
        printf("  %-26s", weft_bench_yard_name((weft_bench_yard)yard));
        for (uint32_t team = 0; team < s->teams; team++)
            printf(" %17.2f", gb_s(c->pair.bytes, weft_bench_median(s->yard[team][yard], s->rounds)));
        printf("\n");
    }
}

static void print_gain(const weft_bench_speed *s, uint32_t set, uint32_t team, weft_bench_stage stage)
{
    const weft_bench_yard yard = weft_bench_stages[stage].yard;
    const double gain = weft_bench_gain(s, set, team, stage), bar = weft_bench_gain_bar(s, set, team, stage);
    printf("  %.2fx", gain);
    if (bar > 0)
        printf(", bar %.2fx: %s", bar, gain >= bar ? "holds" : "missed");
    printf(" (%s %.2fx)", weft_bench_yard_name(yard),
           share(weft_bench_median(s->yard[0][yard], s->rounds), weft_bench_median(s->yard[team][yard], s->rounds)));
}

static void print_stage(const weft_bench_case *c, uint32_t set, uint32_t team, weft_bench_stage stage)
{
    const weft_bench_speed *s = &c->speed;
    const weft_bench_stage_row *row = &weft_bench_stages[stage];
    double ms = weft_bench_median(s->stage[set][team][stage], s->rounds);
    if (ms <= 0)
        return;
    printf("  %-22s %-9s %7u %10.2f %10.2f %9.2f of %-17s", row->name, s->kernels[set], s->threads[team], ms,
           gb_s(c->pair.bytes, ms), weft_bench_ratio(s, set, team, stage, row->yard), weft_bench_yard_name(row->yard));
    if (row->bar > 0)
        printf(" %5.2f", row->bar);
    else
        printf(" %5s", "");
    printf(" %8.2f", weft_bench_ratio(s, set, team, stage, row->most));
    if (team > 0)
        print_gain(s, set, team, stage);
    printf("\n");
}

static void print_speed(const weft_bench_case *c)
{
    const weft_bench_speed *s = &c->speed;
    print_yards(c);
    printf("  (medians of %u rounds; ready but without a core for %.0f %% of the time)\n", s->rounds, 100 * s->waited);
    printf("\n  %-22s %-9s %7s %10s %10s %30s %5s %8s  against %u thread%s\n", "stage", "kernels", "threads", "ms",
           "GB/s", "ratio", "bar", "of most", s->threads[0], s->threads[0] == 1 ? "" : "s");
    for (int stage = 0; stage < WEFT_BENCH_STAGES; stage++)
        for (uint32_t set = 0; set < s->sets; set++)
            for (uint32_t team = 0; team < s->teams; team++)
                print_stage(c, set, team, (weft_bench_stage)stage);
}

static double us_a_tile(const weft_bench_case *c, weft_bench_stage stage)
{
    return share(1e3 * weft_bench_median(c->speed.stage[0][0][stage], c->speed.rounds),
                 (double)c->pair.layout->unit_count);
}

void weft_bench_print(const weft_bench_case *c)
{
    const weft_layout *layout = c->pair.layout;
    printf("%s: %.2f M elements in %" PRIu64 " tensors, %" PRIu64 " tiles and packs; %" PRIu64
           " changed (%.4f %%), %.1f %% of them by one step\n",
           c->pair.name, (double)layout->elements / 1e6, layout->count, layout->unit_count, c->floor.changed,
           100 * share((double)c->floor.changed, (double)layout->elements), 100 * c->floor.one_step);
    print_sizes(c);
    print_planes(c);
    print_rivals(c);
    print_speed(c);
    printf(
        "\n  a tile (%s, %u thread%s): tight %.1f us diff + encode, %.1f us decode + apply; fast %.1f and %.1f us\n\n",
        c->speed.kernels[0], c->speed.threads[0], c->speed.threads[0] == 1 ? "" : "s",
        us_a_tile(c, WEFT_BENCH_ENCODE_TIGHT), us_a_tile(c, WEFT_BENCH_DECODE_TIGHT),
        us_a_tile(c, WEFT_BENCH_ENCODE_FAST), us_a_tile(c, WEFT_BENCH_DECODE_FAST));
    fflush(stdout);
}
