/* test_boxes.c - weights in blocks with strides: every job of the device, in the emulation, against the host backend on
 * the same memory; and nothing is written that is no weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/emulation/both.h"
#include "tests/support/block_world.h"
#include "tests/support/cast_world.h"

#define TENSORS 8u
#define LEVELS  ((1u << WEFT_LEVEL_COUNT) - 1)

/* A trainer's weights in blocks, their shadow as an image, and a rollout's weights in other blocks. */
typedef struct strided {
    weft_layout *layout;
    block_world now_at, then_at;
    uint8_t *now_dense, *image;
    weft_binding now, shadow, then;
    uint64_t seed;
} strided;

static void strided_open(strided *s, weft_dtype dtype, uint64_t rows, uint64_t columns, uint64_t seed)
{
    weft_tensor tensors[TENSORS];
    uint64_t shapes[TENSORS][2];
    char names[TENSORS][8];
    *s = (strided){.seed = seed};
    for (uint64_t t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "t%u", (unsigned)t);
        shapes[t][0] = t == 5 ? rows : 1 + pair_below(&s->seed, 40);
        shapes[t][1] = t == 5 ? columns : 1 + pair_below(&s->seed, 60);
        tensors[t] = (weft_tensor){names[t], dtype, 2, shapes[t]};
    }
    pair_must(weft_layout_create(tensors, TENSORS, &s->layout), "layout");
    s->now_dense = pair_memory(s->layout->bytes + 16);
    s->image = pair_memory(s->layout->bytes + 16);
    for (uint64_t i = 0; i < s->layout->bytes; i++)
        s->now_dense[i] = s->image[i] = (uint8_t)pair_random(&s->seed);
    block_world_open(&s->now_at, s->layout, seed, true);
    block_world_open(&s->then_at, s->layout, seed + 1000, true);
    block_world_put(&s->now_at, s->now_dense);
    block_world_put(&s->then_at, s->image);
    pair_must(weft_binding_open_blocks(s->layout, s->now_at.blocks, s->now_at.count, &s->now), "blocks");
    pair_must(weft_binding_open_blocks(s->layout, s->then_at.blocks, s->then_at.count, &s->then), "blocks");
    pair_must(weft_binding_open_image(s->layout, s->image, &s->shadow), "image");
}

static void strided_close(strided *s)
{
    weft_binding_close(&s->now);
    weft_binding_close(&s->then);
    weft_binding_close(&s->shadow);
    block_world_close(&s->now_at);
    block_world_close(&s->then_at);
    weft_layout_free(s->layout);
    free(s->now_dense);
    free(s->image);
}

/* Moves `per_mille` of the elements, most by one step. */
static void strided_step(strided *s, uint64_t per_mille)
{
    const uint8_t width = s->layout->entries[0].row->width;
    for (uint64_t i = 0; i < s->layout->bytes / width; i++)
        if (pair_below(&s->seed, 1000) < per_mille)
            pair_put(s->now_dense, i,
                     pair_get(s->now_dense, i, width) + (pair_below(&s->seed, 8) ? 1 : pair_random(&s->seed)), width);
    block_world_put(&s->now_at, s->now_dense);
}

/* ---- jobs */

static void list_fill(void *user, uint64_t list, weft_apply_job *job)
{
    (void)list;
    *job = *(const weft_apply_job *)user;
}

enum { ROWS_MARKED = 1 << 20, MARK = 0xa5 };

static void rooms_mark(void)
{
    for (unsigned i = 0; i < WEFT_GPU_SLABS; i++)
        memset(gpu->slabs[i].pinned.host, MARK, ROWS_MARKED);
}

/* Rows stay within what their slab took for them. */
static void room_check(const weft_gpu_slab *slab)
{
    assert_true(slab->pinned.used < ROWS_MARKED);
    for (uint64_t i = slab->pinned.used; i < ROWS_MARKED; i++)
        assert_int_equal(slab->pinned.host[i], MARK);
}

/* Puts a list in place by a commit that is queued; one whose `before` is wrong in an element does nothing. */
static void queues(const strided *s, weft_apply_job *apply, const uint8_t *before)
{
    weft_queued_commit commit = {.count = 1, .fill = list_fill, .user = apply};
    uint8_t *last = (uint8_t *)apply->changes->before + (uint64_t)apply->changes->count * apply->target.width - 1;
    for (int spoiled = 1; spoiled >= 0; spoiled--) {
        weft_status status = WEFT_AGAIN;
        *last ^= (uint8_t)spoiled;
        rooms_mark();
        pair_must(weft_gpu_commit_queue(gpu, &commit), "queue");
        room_check(&gpu->slabs[commit.place]);
        while (status == WEFT_AGAIN)
            status = weft_gpu_commit_ask(gpu, &commit);
        pair_must(status, "queued");
        *last ^= (uint8_t)spoiled;
        assert_int_equal(commit.written, !spoiled);
        if (spoiled)
            assert_memory_equal(before, s->then_at.memory, s->then_at.bytes);
    }
}

/* The device's frame of one level lands on the rollout's blocks, and is taken back and put again. */
static void lands(strided *s, const weft_frame_sink *sink, uint32_t units)
{
    weft_changes changes = pair_changes();
    uint64_t *delta = pair_memory((s->layout->part_count + 1) * sizeof *delta);
    weft_frame frame;
    uint8_t *before = pair_memory(s->then_at.bytes);
    pair_must(weft_frame_admit(s->layout, sink->data, sink->used, &frame), "admit");
    assert_int_equal(frame.header.units, units);
    const weft_view view = weft_binding_span(&s->then, frame.header.unit, units);
    const weft_parameters parameters = {0};
    weft_decode_job decode = {
        .frame = frame, .base = view, .parameters = &parameters, .changes = &changes, .tensor_delta = delta};
    weft_apply_job apply = {.target = view, .changes = &changes};
    weft_undo_job undo = {.target = view, .changes = &changes};
    memcpy(before, s->then_at.memory, s->then_at.bytes);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_decode, &decode), &decode);
    assert_true(decode.base.boxes == view.boxes && decode.base.runs == view.runs); /* the job has its own view again */
    uint8_t *last = (uint8_t *)changes.before + (uint64_t)(changes.count - 1) * view.width, was = *last;
    *last ^= 1;
    device_wait(weft_gpu_submit(gpu, &weft_gpu_apply, &apply), &apply);
    assert_true(apply.mismatch);
    assert_int_equal(*last, was); /* what was really there */
    device_wait(weft_gpu_submit(gpu, &weft_gpu_undo, &undo), &undo);
    assert_memory_equal(before, s->then_at.memory, s->then_at.bytes);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_apply, &apply), &apply);
    assert_false(apply.mismatch);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_undo, &undo), &undo);
    assert_memory_equal(before, s->then_at.memory, s->then_at.bytes);
    queues(s, &apply, before);
    pair_changes_free(&changes);
    free(before);
    free(delta);
}

static void encodes(strided *s, uint64_t unit, uint32_t units, uint32_t levels, bool land)
{
    weft_encode_job job[2];
    weft_frame_sink sinks[2][WEFT_LEVEL_COUNT] = {{{0}}};
    const uint64_t room = s->layout->largest_frame;
    for (int i = 0; i < 2; i++) {
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            sinks[i][level] = (weft_frame_sink){.data = pair_memory(room), .capacity = room};
        job[i] = (weft_encode_job){.now = weft_binding_span(&s->now, unit, units),
                                   .shadow = weft_binding_span(&s->shadow, unit, units),
                                   .largest_frame = room,
                                   .levels = levels,
                                   .sinks = sinks[i],
                                   .tensor_delta = pair_memory((s->layout->part_count + 1) * sizeof(uint64_t))};
    }
    assert_int_equal(weft_backend_host.encode(host, &job[0]), WEFT_OK);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_encode, &job[1]), &job[1]);
    assert_int_equal(job[0].alone, job[1].alone);
    assert_memory_equal(job[0].tensor_delta, job[1].tensor_delta, s->layout->part_count * sizeof(uint64_t));
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        assert_int_equal(sinks[0][level].used, sinks[1][level].used);
        assert_memory_equal(sinks[0][level].data, sinks[1][level].data, sinks[0][level].used);
    }
    if (land && sinks[1][WEFT_LEVEL_FAST].used > 0)
        lands(s, &sinks[1][WEFT_LEVEL_FAST], units);
    for (int i = 0; i < 2; i++) {
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            free(sinks[i][level].data);
        free(job[i].tensor_delta);
    }
}

static void loads(const weft_binding *binding, uint64_t unit)
{
    const weft_view view = weft_binding_view(binding, unit);
    const uint64_t bytes = (uint64_t)view.count * view.width;
    uint8_t *wanted = pair_memory(bytes + 1), *found = pair_memory(bytes + 1);
    weft_load_job a = {.view = view, .bytes = wanted}, b = {.view = view, .bytes = found};
    assert_int_equal(weft_backend_host.load(host, &a), WEFT_OK);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_load, &b), &b);
    assert_memory_equal(wanted, found, bytes);
    free(wanted);
    free(found);
}

/* Writes the newest weights over the rollout's, as a snapshot does. */
static void stores(strided *s)
{
    for (uint64_t u = 0; u < s->layout->unit_count; u++) {
        const weft_view view = weft_binding_view(&s->then, u);
        uint8_t *bytes = pair_memory((uint64_t)view.count * view.width + 1);
        weft_load_job load = {.view = weft_binding_view(&s->shadow, u), .bytes = bytes};
        weft_store_job store = {.view = view, .bytes = bytes};
        assert_int_equal(weft_backend_host.load(host, &load), WEFT_OK);
        device_wait(weft_gpu_submit(gpu, &weft_gpu_store, &store), &store);
        free(bytes);
    }
}

static void rollout_has(strided *s, const uint8_t *dense)
{
    uint8_t *found = pair_memory(s->layout->bytes + 16);
    block_world_get(&s->then_at, found);
    for (uint64_t t = 0; t < s->layout->count; t++)
        assert_memory_equal(found + s->layout->entries[t].offset, dense + s->layout->entries[t].offset,
                            s->layout->entries[t].bytes);
    assert_true(block_world_is_whole(&s->then_at));
    free(found);
}

static void strided_check(strided *s, uint32_t lanes)
{
    uint32_t units;
    weft_emulation_driver_set(lanes, s->seed);
    rollout_has(s, s->image);
    for (uint64_t u = 0; u < s->layout->unit_count; u++) {
        encodes(s, u, 1, LEVELS, true);
        loads(&s->now, u);
    }
    rollout_has(s, s->now_dense);
    for (uint64_t u = 0; u < s->layout->unit_count; u += units) {
        units = weft_layout_run(s->layout, u, 2);
        encodes(s, u, units, 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT, false);
    }
    both_digest(s->layout, &s->now);
    both_survey(s->layout, &s->now, &s->shadow);
    memcpy(s->image, s->now_dense, s->layout->bytes);
}

static void jobs_are_the_hosts(weft_dtype dtype, uint64_t rows, uint64_t columns, uint64_t seed, uint64_t steps)
{
    static const uint64_t per_mille[] = {10, 300, 1000};
    strided s;
    strided_open(&s, dtype, rows, columns, seed);
    for (uint64_t i = 0; i < steps; i++) {
        strided_step(&s, per_mille[i]);
        strided_check(&s, i % 2 ? 64 : 32);
    }
    for (uint64_t i = 0; i < s.layout->bytes; i++)
        s.image[i] = (uint8_t)pair_random(&s.seed);
    stores(&s);
    rollout_has(&s, s.image);
    strided_close(&s);
}

static void small_tensors(void **state)
{
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F32, WEFT_F8_E4M3, WEFT_F64};
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++)
        jobs_are_the_hosts(dtypes[seed % 4], 30, 40, seed, 2);
}

static void a_tensor_of_several_tiles(void **state)
{
    (void)state;
    jobs_are_the_hosts(WEFT_BF16, 96, 256, 21, getenv("WEFT_FULL") ? 3 : 1);
    jobs_are_the_hosts(WEFT_BF16, getenv("WEFT_FULL") ? 1024 : 160, 512, 22, 1);
}

/* The order that AITER's shuffle_weight gives a matrix of 2-byte elements (layout 16 x 16): rows in tiles of 16,
 * columns in tiles of 32 that are four strips of 8, and a strip has its 16 rows one after the other. */
static uint64_t aiter_place(uint64_t n, uint64_t k, uint64_t columns)
{
    return (((n / 16 * (columns / 32) + k / 32) * 4 + k % 32 / 8) * 16 + n % 16) * 8 + k % 8;
}

/* The three digits of a column, of 3, 4 and 8 values, turned round. */
static uint64_t turned_place(uint64_t n, uint64_t k, uint64_t columns)
{
    return n * columns + (k % 8 * 4 + k / 8 % 4) * 3 + k / 32;
}

enum { ROWS = 48, COLUMNS = 96, COUNT = ROWS * COLUMNS };

static void order_is(const weft_stride row[2], const weft_stride column[3],
                     uint64_t (*place)(uint64_t, uint64_t, uint64_t))
{
    const uint64_t shape[2] = {ROWS, COLUMNS};
    const weft_tensor tensor = {"w", WEFT_BF16, 2, shape};
    uint16_t *dense = pair_memory(COUNT * 2), *stored = pair_memory(COUNT * 2), *found = pair_memory(COUNT * 2);
    weft_layout *layout;
    weft_binding binding;
    pair_must(weft_layout_create(&tensor, 1, &layout), "layout");
    const weft_block block = {.slice = weft_slice_whole(layout, 0),
                              .data = stored,
                              .row = {row[0], row[1]},
                              .column = {column[0], column[1], column[2]}};
    pair_must(weft_binding_open_blocks(layout, &block, 1, &binding), "block");
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        weft_emulation_driver_set(lanes, 5);
        for (uint64_t i = 0; i < COUNT; i++)
            dense[i] = (uint16_t)(i * lanes + 1);
        weft_store_job store = {.view = weft_binding_view(&binding, 0), .bytes = (const uint8_t *)dense};
        device_wait(weft_gpu_submit(gpu, &weft_gpu_store, &store), &store);
        for (uint64_t i = 0; i < COUNT; i++)
            assert_int_equal(stored[place(i / COLUMNS, i % COLUMNS, COLUMNS)], dense[i]);
        weft_load_job load = {.view = store.view, .bytes = (uint8_t *)found};
        device_wait(weft_gpu_submit(gpu, &weft_gpu_load, &load), &load);
        assert_memory_equal(found, dense, COUNT * 2);
    }
    weft_binding_close(&binding);
    weft_layout_free(layout);
    free(dense);
    free(stored);
    free(found);
}

static void orders_of_engines(void **state)
{
    (void)state;
    order_is((weft_stride[2]){{ROWS / 16, COLUMNS * 16 * 2}, {16, 8 * 2}},
             (weft_stride[3]){{COLUMNS / 32, 32 * 16 * 2}, {4, 8 * 16 * 2}, {8, 2}}, aiter_place);
    order_is((weft_stride[2]){{ROWS, COLUMNS * 2}, {0, 0}}, (weft_stride[3]){{3, 2}, {4, 3 * 2}, {8, 12 * 2}},
             turned_place);
}

/* Every seventh element, and the two beside `edge`, of one view: put in place one by one, and taken back. `dense` has
 * what the view has. */
static void singles(const weft_view *view, uint8_t *dense, uint32_t edge)
{
    weft_changes changes = {.capacity = view->count / 7 + 4};
    changes.position = pair_memory(sizeof(uint32_t) * (uint64_t)changes.capacity);
    changes.before = pair_memory(changes.capacity);
    changes.after = pair_memory(changes.capacity);
    uint8_t *found = pair_memory(view->count), *wanted = pair_memory(view->count);
    memcpy(wanted, dense, view->count);
    for (uint32_t at = 0; at < view->count; at++) {
        if (at % 7 != 0 && at != edge && at + 1 != edge)
            continue;
        changes.position[changes.count] = at;
        ((uint8_t *)changes.before)[changes.count] = dense[at];
        ((uint8_t *)changes.after)[changes.count++] = wanted[at] = (uint8_t)~dense[at];
    }
    weft_apply_job apply = {.target = *view, .changes = &changes};
    weft_undo_job undo = {.target = *view, .changes = &changes};
    weft_load_job load = {.view = *view, .bytes = found};
    weft_queued_commit commit = {.count = 1, .fill = list_fill, .user = &apply};
    weft_status status = WEFT_AGAIN;
    rooms_mark();
    pair_must(weft_gpu_commit_queue(gpu, &commit), "queue");
    room_check(&gpu->slabs[commit.place]);
    while (status == WEFT_AGAIN)
        status = weft_gpu_commit_ask(gpu, &commit);
    pair_must(status, "queued");
    assert_true(commit.written);
    pair_must(weft_backend_host.load(host, &load), "load");
    assert_memory_equal(found, wanted, view->count);
    device_wait(weft_gpu_submit(gpu, &weft_gpu_undo, &undo), &undo);
    pair_must(weft_backend_host.load(host, &load), "load");
    assert_memory_equal(found, dense, view->count);
    pair_changes_free(&changes);
    free(found);
    free(wanted);
}

/* Two rows that are longer than kernels count in, each in two boxes: every other byte, and turned round by thirds. */
static void long_rows(void **state)
{
    const uint64_t columns = 6 * UINT64_C(2797000), shape[2] = {2, columns}, half = columns / 2;
    const weft_tensor tensor = {"w", WEFT_U8, 2, shape};
    uint8_t *memory = pair_memory(4 * columns);
    weft_layout *layout;
    weft_binding binding;
    (void)state;
    for (uint64_t i = 0; i < 4 * columns; i++)
        memory[i] = (uint8_t)(i * 2654435761u >> 13);
    pair_must(weft_layout_create(&tensor, 1, &layout), "layout");
    const weft_block blocks[] = {
        {.slice = {0, 0, 2, 0, half}, .data = memory, .row = {{2, 2 * half}}, .column = {{half, 2}}},
        {.slice = {0, 0, 2, half, columns - half},
         .data = memory + 4 * half,
         .row = {{2, columns - half}},
         .column = {{(columns - half) / 3, 1}, {3, (columns - half) / 3}}}};
    pair_must(weft_binding_open_blocks(layout, blocks, 2, &binding), "blocks");
    weft_emulation_driver_set(64, 5);
    for (uint64_t unit = 0; unit < layout->unit_count; unit++) {
        const weft_view view = weft_binding_view(&binding, unit);
        const uint64_t first = view.runs[0].element, last = first + view.count;
        const bool at_edge = first == 0 || (first <= half && half <= last) || (first <= columns && columns <= last) ||
                             (first <= columns + half && columns + half <= last) || unit + 1 == layout->unit_count;
        if (!at_edge && unit % 37 != 0)
            continue;
        uint8_t *wanted = pair_memory(view.count), *found = pair_memory(view.count);
        weft_load_job a = {.view = view, .bytes = wanted}, b = {.view = view, .bytes = found};
        assert_int_equal(weft_backend_host.load(host, &a), WEFT_OK);
        device_wait(weft_gpu_submit(gpu, &weft_gpu_load, &b), &b);
        assert_memory_equal(wanted, found, view.count);
        singles(&view, wanted, first < columns && columns < last ? (uint32_t)(columns - first) : 0);
        free(wanted);
        free(found);
    }
    weft_binding_close(&binding);
    weft_layout_free(layout);
    free(memory);
}

/* Masters of F32 in blocks with strides. */
static void masters_are_cast(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 5; seed++) {
        const uint64_t shapes[][2] = {{31, 64}, {48, 40}, {7, 13}};
        const weft_tensor tensors[] = {
            {"a", WEFT_BF16, 2, shapes[0]}, {"b", WEFT_F16, 2, shapes[1]}, {"c", WEFT_BF16, 2, shapes[2]}};
        uint64_t drawn = seed;
        weft_layout *layout;
        weft_binding binding;
        cast_world w;
        pair_must(weft_layout_create(tensors, 3, &layout), "layout");
        cast_world_open(&w, layout, &drawn);
        pair_must(weft_binding_open_blocks(layout, w.world.blocks, w.world.count, &binding), "blocks");
        weft_emulation_driver_set(seed % 2 ? 32 : 64, seed);
        for (uint64_t u = 0; u < layout->unit_count; u++)
            loads(&binding, u);
        weft_binding_close(&binding);
        cast_world_close(&w);
        weft_layout_free(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_tensors),
        cmocka_unit_test(orders_of_engines),
        cmocka_unit_test(a_tensor_of_several_tiles),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(masters_are_cast),
    };
    return cmocka_run_group_tests(tests, both_open, both_close);
}
