/* test_cast.c - masters of F32 that the device reads as BF16 and F16: encode, load, digest and survey, in the
 * emulation, against the host backend on the same memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/emulation/both.h"
#include "tests/support/cast_world.h"

#define TENSORS 9u
#define LEVELS  ((1u << WEFT_LEVEL_COUNT) - 1)

/* Tensors of BF16 and F16, most of which lie as F32, in packs with others and in tiles; and their shadow. */
typedef struct masters {
    weft_layout *layout;
    uint8_t *memory, *image;
    weft_block blocks[TENSORS];
    weft_binding now, shadow;
    uint64_t seed;
} masters;

static bool is_cast(uint64_t tensor)
{
    return tensor % 4 != 2;
}

static void masters_place(masters *m)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < m->layout->count; t++) {
        const weft_layout_entry *entry = &m->layout->entries[t];
        const uint64_t width = is_cast(t) ? 4 : 2;
        at += (16 - at % 16) % 16 + width * pair_below(&m->seed, 9);
        m->blocks[t] = (weft_block){
            .slice = weft_slice_whole(m->layout, t), .data = m->memory + at, .memory = is_cast(t) ? WEFT_F32 : 0};
        at += entry->elements * width;
    }
    pair_must(weft_binding_open_blocks(m->layout, m->blocks, m->layout->count, &m->now), "blocks");
    pair_must(weft_binding_open_image(m->layout, m->image, &m->shadow), "image");
}

/* Moves `per_mille` of the elements; the others stay. */
static void masters_step(masters *m, uint64_t per_mille)
{
    for (uint64_t t = 0; t < m->layout->count; t++) {
        const uint64_t count = m->layout->entries[t].elements;
        const uint8_t width = is_cast(t) ? 4 : 2;
        for (uint64_t i = 0; i < count; i++)
            if (pair_below(&m->seed, 1000) < per_mille)
                pair_put(m->blocks[t].data, i,
                         pair_below(&m->seed, 4) ? pair_get(m->blocks[t].data, i, width) + pair_below(&m->seed, 0xffff)
                                                 : cast_bits(m->layout->entries[t].row->dtype, &m->seed),
                         width);
    }
}

/* The shadow takes the bits of now. */
static void masters_keep(masters *m)
{
    for (uint64_t u = 0; u < m->layout->unit_count; u++) {
        weft_load_job job = {.view = weft_binding_view(&m->now, u),
                             .bytes = weft_binding_view(&m->shadow, u).runs[0].data};
        pair_must(weft_backend_host.load(host, &job), "load");
    }
}

static void masters_open(masters *m, uint64_t largest, uint64_t seed)
{
    weft_tensor tensors[TENSORS];
    uint64_t shapes[TENSORS][2];
    char names[TENSORS][8];
    *m = (masters){.seed = seed};
    for (uint64_t t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "t%u", (unsigned)t);
        shapes[t][0] = 1 + pair_below(&m->seed, 9);
        shapes[t][1] = t == 5 || t == 8 ? largest : 1 + pair_below(&m->seed, 300);
        tensors[t] = (weft_tensor){names[t], t > 5 ? WEFT_F16 : WEFT_BF16, 2, shapes[t]};
    }
    pair_must(weft_layout_create(tensors, TENSORS, &m->layout), "layout");
    m->memory = pair_memory(2 * m->layout->bytes + TENSORS * 64);
    m->image = pair_memory(m->layout->bytes);
    masters_place(m);
    masters_step(m, 1000);
    masters_keep(m);
}

static void masters_close(masters *m)
{
    weft_binding_close(&m->now);
    weft_binding_close(&m->shadow);
    weft_layout_free(m->layout);
    free(m->memory);
    free(m->image);
}

/* ---- jobs */

static void encodes(masters *m, uint64_t unit, uint32_t units, uint32_t levels)
{
    weft_encode_job job[2];
    weft_frame_sink sinks[2][WEFT_LEVEL_COUNT] = {{{0}}};
    const uint64_t room = m->layout->largest_frame;
    for (int i = 0; i < 2; i++) {
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            sinks[i][level] = (weft_frame_sink){.data = pair_memory(room), .capacity = room};
        job[i] = (weft_encode_job){.now = weft_binding_span(&m->now, unit, units),
                                   .shadow = weft_binding_span(&m->shadow, unit, units),
                                   .largest_frame = m->layout->largest_frame,
                                   .levels = levels,
                                   .sinks = sinks[i],
                                   .tensor_delta = pair_memory((m->layout->part_count + 1) * sizeof(uint64_t))};
    }
    assert_int_equal(weft_backend_host.encode(host, &job[0]), WEFT_OK);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_encode, &job[1]), &job[1]);
    assert_int_equal(job[0].alone, job[1].alone);
    if (job[0].alone != levels)
        assert_int_equal(job[0].changed, job[1].changed);
    assert_memory_equal(job[0].tensor_delta, job[1].tensor_delta, m->layout->part_count * sizeof(uint64_t));
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        assert_int_equal(sinks[0][level].used, sinks[1][level].used);
        assert_memory_equal(sinks[0][level].data, sinks[1][level].data, sinks[0][level].used);
        free(sinks[0][level].data);
        free(sinks[1][level].data);
    }
    free(job[0].tensor_delta);
    free(job[1].tensor_delta);
}

static void loads(masters *m, uint64_t unit)
{
    const weft_view view = weft_binding_view(&m->now, unit);
    uint8_t *wanted = pair_memory(2 * (uint64_t)view.count), *found = pair_memory(2 * (uint64_t)view.count);
    weft_load_job a = {.view = view, .bytes = wanted}, b = {.view = view, .bytes = found};
    assert_int_equal(weft_backend_host.load(host, &a), WEFT_OK);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_load, &b), &b);
    assert_memory_equal(wanted, found, 2 * (uint64_t)view.count);
    free(wanted);
    free(found);
}

static void masters_check(masters *m, uint32_t lanes)
{
    uint32_t units;
    weft_emulation_driver_set(lanes, m->seed);
    for (uint64_t u = 0; u < m->layout->unit_count; u++) {
        encodes(m, u, 1, LEVELS);
        loads(m, u);
    }
    for (uint64_t u = 0; u < m->layout->unit_count; u += units) {
        units = weft_layout_run(m->layout, u, 2);
        encodes(m, u, units, 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT);
    }
    both_digest(m->layout, &m->now);
    both_survey(m->layout, &m->now, &m->shadow);
}

static void steps_are_the_hosts(uint64_t largest, uint64_t seed, uint64_t steps)
{
    static const uint64_t per_mille[] = {0, 10, 300, 1000};
    masters m;
    masters_open(&m, largest, seed);
    for (uint64_t s = 0; s < steps; s++) {
        masters_step(&m, per_mille[s]);
        masters_check(&m, s % 2 ? 64 : 32);
        masters_keep(&m);
    }
    masters_close(&m);
}

/* Where lanes are threads, which take minutes, one world is enough for the checker. */
#ifdef WEFT_EMULATION_THREADS
#define WORLDS 1u
#else
#define WORLDS 4u
#endif

static void packs_are_the_hosts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < WORLDS; seed++)
        steps_are_the_hosts(100, seed, WORLDS);
}

#ifndef WEFT_EMULATION_THREADS

static void tiles_are_the_hosts(void **state)
{
    (void)state;
    steps_are_the_hosts(getenv("WEFT_FULL") ? 90000 : 9001, 77, getenv("WEFT_FULL") ? 4 : 3);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_are_the_hosts),
#ifndef WEFT_EMULATION_THREADS
        cmocka_unit_test(tiles_are_the_hosts),
#endif
    };
    return cmocka_run_group_tests(tests, both_open, both_close);
}
