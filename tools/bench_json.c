/* bench_json.c - what bench_print.c prints, as one JSON object. */
#include "bench.h"
#include "layout/layout.h"
#include "output.h"

static json_t *speed_of(uint64_t bytes, double ms)
{
    return weft_json_known(ms > 0 ? (double)bytes / ms / 1e6 : 0);
}

static json_t *json_planes(const uint64_t bits[WEFT_BENCH_PLANES])
{
    json_t *planes = json_object();
    for (int plane = 0; plane < WEFT_BENCH_PLANES; plane++)
        if (bits[plane])
            json_object_set_new(planes, weft_bench_plane_name((weft_bench_plane)plane), weft_json_count(bits[plane]));
    return planes;
}

static json_t *json_sizes(const weft_bench_case *c)
{
    json_t *sizes = json_array();
    for (int level = 0; level < WEFT_BENCH_LEVELS; level++) {
        const weft_bench_size *size = &c->sizes[level];
        json_array_append_new(sizes, json_pack("{s:s,s:o,s:o,s:o,s:o,s:o}", "level", size->level, "bytes",
                                               weft_json_count(size->header.bytes), "frame_bytes",
                                               weft_json_count(size->header.frame_bytes), "frames",
                                               weft_json_count(size->header.frames), "bits_per_change",
                                               weft_json_bits_per_change(size->header.bytes, c->floor.changed),
                                               "plane_bits", json_planes(size->bits)));
    }
    return sizes;
}

static json_t *json_floor(const weft_bench_floor *f)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "bits_per_change", f->position + f->direction + f->magnitude,
                     "position", f->position, "direction", f->direction, "magnitude", f->magnitude, "base_free",
                     f->position_free + f->direction + f->magnitude_free, "position_base_free", f->position_free,
                     "one_step", f->one_step, "magnitude_base_free", f->magnitude_free);
}

static json_t *json_rivals(const weft_bench_case *c)
{
    json_t *rivals = json_array();
    for (size_t i = 0; i < WEFT_BENCH_RIVALS; i++) {
        const weft_bench_rival *r = &c->rivals[i];
        json_array_append_new(
            rivals, json_pack("{s:s,s:s?,s:o,s:o,s:o,s:o}", "method", r->name, "skipped", r->skipped, "bytes",
                              r->skipped ? json_null() : weft_json_count(r->bytes), "bits_per_change",
                              r->skipped ? json_null() : weft_json_bits_per_change(r->bytes, c->floor.changed),
                              "encode_gb_s", speed_of(c->pair.bytes, r->skipped ? 0 : r->encode_ms), "decode_gb_s",
                              speed_of(c->pair.bytes, r->skipped ? 0 : r->decode_ms)));
    }
    return rivals;
}

static json_t *json_yards(const weft_bench_case *c)
{
    const weft_bench_speed *s = &c->speed;
    json_t *yards = json_array();
    for (uint32_t team = 0; team < s->teams; team++)
        for (int yard = 0; yard < WEFT_BENCH_YARDS; yard++)
            json_array_append_new(
                yards, json_pack("{s:s,s:i,s:o}", "yardstick", weft_bench_yard_name((weft_bench_yard)yard), "threads",
                                 (int)s->threads[team], "gb_s",
                                 speed_of(c->pair.bytes, weft_bench_median(s->yard[team][yard], s->rounds))));
    return yards;
}

static json_t *json_stage(const weft_bench_case *c, uint32_t set, uint32_t team, weft_bench_stage stage)
{
    const weft_bench_speed *s = &c->speed;
    const weft_bench_stage_row *row = &weft_bench_stages[stage];
    double ms = weft_bench_median(s->stage[set][team][stage], s->rounds);
    return json_pack("{s:s,s:s,s:i,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o}", "stage", row->name, "kernels", s->kernels[set],
                     "threads", (int)s->threads[team], "ms", weft_json_known(ms), "gb_s", speed_of(c->pair.bytes, ms),
                     "yardstick", weft_bench_yard_name(row->yard), "ratio",
                     weft_json_known(weft_bench_ratio(s, set, team, stage, row->yard)), "bar",
                     weft_json_known(row->bar), "ratio_of_most",
                     weft_json_known(weft_bench_ratio(s, set, team, stage, row->most)), "speedup",
                     weft_json_known(weft_bench_gain(s, set, team, stage)), "speedup_bar",
                     weft_json_known(weft_bench_gain_bar(s, set, team, stage)));
}

static json_t *json_stages(const weft_bench_case *c)
{
    json_t *stages = json_array();
    for (int stage = 0; stage < WEFT_BENCH_STAGES; stage++)
        for (uint32_t set = 0; set < c->speed.sets; set++)
            for (uint32_t team = 0; team < c->speed.teams; team++)
                if (c->speed.stage[set][team][stage][0] > 0)
                    json_array_append_new(stages, json_stage(c, set, team, (weft_bench_stage)stage));
    return stages;
}

void weft_bench_print_json(const weft_bench_case *c)
{
    const weft_layout *layout = c->pair.layout;
    weft_output_object(json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:i,s:f,s:o,s:o,s:o,s:o,s:o}", "weights", c->pair.name,
                                 "elements", weft_json_count(layout->elements), "tensors",
                                 weft_json_count(layout->count), "tiles", weft_json_count(layout->unit_count),
                                 "changed", weft_json_count(c->floor.changed), "dense_bytes",
                                 weft_json_count(layout->bytes), "runs", (int)c->speed.rounds, "waited",
                                 c->speed.waited, "levels", json_sizes(c), "floor", json_floor(&c->floor), "methods",
                                 json_rivals(c), "yardsticks", json_yards(c), "stages", json_stages(c)));
}
