/* A tensor of more than 2^32 elements, such as stacked experts: every row of every kernel has the addresses and numbers
 * of its elements. No kernel runs (stand_in.h), and there is no memory behind the addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu_encode.h"
#include "encode/encode.h"
#include "encode/staging.h"
#include "tests/fake_gpu/stand_in.h"
#include "tests/fake_gpu/world.h"

#define GIB      UINT64_C(1073741824)
#define ELEMENTS ((UINT64_C(1) << 33) + 8 * UINT64_C(262144))
/* F32 that is read as BF16, and the shadow. */
#define MASTERS (64 * GIB)
#define SHADOW  (256 * GIB)

enum { ROOM = 64 << 20 }; /* bytes of frames */

static uint64_t beyond; /* elements past 2^32 that some row had */
static struct {
    uint64_t diff, base, moved, loaded, digested;
} seen;

static const void *at(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

static void element_check(uint64_t data, uint64_t element, uint32_t count, uint64_t first, uint64_t width)
{
    if (data != first + element * width || element + count > ELEMENTS)
        fail_msg("element %llu at %llx", (unsigned long long)element, (unsigned long long)data);
    beyond += element >> 32 ? count : 0;
}

static uint64_t view_check(const weft_k_view *view)
{
    const weft_k_run *runs = at(view->runs);
    for (uint32_t r = 0; r < view->run_count; r++)
        element_check(runs[r].data, runs[r].element, runs[r].count, SHADOW, 2);
    return view->count;
}

static void diff_check(const weft_k_diff *tile)
{
    const weft_k_piece *pieces = at(tile->pieces);
    for (uint32_t p = 0; p < tile->piece_count; p++) {
        element_check(pieces[p].now, pieces[p].element, pieces[p].count, MASTERS, 4);
        element_check(pieces[p].shadow, pieces[p].element, pieces[p].count, SHADOW, 2);
    }
    seen.diff += tile->count;
}

static void digest_check(const weft_k_digest *row)
{
    element_check(row->data, row->element, row->count, SHADOW, 2);
    seen.digested += row->count;
}

static void rows_check(uint32_t kernel, uint32_t blocks, uint64_t rows)
{
    const weft_k_part *part = at(rows);
    for (uint32_t i = 0; i < blocks; i++) {
        if (kernel == WEFT_GPU_KERNEL_diff && i % WEFT_K_SLICES == 0)
            diff_check((const weft_k_diff *)at(rows) + i / WEFT_K_SLICES);
        else if (kernel == WEFT_GPU_KERNEL_digest)
            digest_check((const weft_k_digest *)at(rows) + i);
        else if (kernel == WEFT_GPU_KERNEL_tight_count)
            seen.base += view_check(&((const weft_k_tight_count *)at(rows))[i].base);
        else if ((kernel == WEFT_GPU_KERNEL_decode_steps || kernel == WEFT_GPU_KERNEL_decode_magnitudes) &&
                 part[i].index == 0)
            seen.base += view_check(&((const weft_k_decode *)at(part[i].job))->view);
        else if (kernel == WEFT_GPU_KERNEL_apply && part[i].index == 0)
            seen.moved += view_check(&((const weft_k_swap *)at(part[i].job))->view);
        else if (kernel == WEFT_GPU_KERNEL_load && part[i].index == 0)
            seen.loaded += view_check(&((const weft_k_copy *)at(part[i].job))->view);
    }
    if (kernel != WEFT_GPU_KERNEL_load)
        stand_in(kernel, blocks, rows);
}

typedef struct model {
    stand_in_model on;
    uint8_t *frames;
    uint64_t bytes;
} model;

static void model_open(model *m)
{
    static const uint64_t shape = ELEMENTS;
    weft_layout *layout;
    *m = (model){.frames = malloc(ROOM)};
    assert_non_null(m->frames);
    stand_in_begin(&world[WORLD_CUDA], rows_check);
    assert_int_equal(weft_layout_create(&(weft_tensor){"experts", WEFT_BF16, 1, &shape}, 1, &layout), WEFT_OK);
    stand_in_open(&m->on, &weft_backend_cuda, layout, SHADOW);
    const weft_block masters = {
        .slice = weft_slice_whole(layout, 0), .data = (void *)(uintptr_t)MASTERS, .memory = WEFT_F32};
    assert_int_equal(weft_binding_open_blocks(layout, &masters, 1, &m->on.now), WEFT_OK);
}

static void model_close(model *m)
{
    free(m->frames);
    stand_in_close(&m->on);
}

/* Keeps the last frames. */
static weft_status frame_keep(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    model *m = user;
    (void)level;
    if (bytes > ROOM - m->bytes)
        m->bytes = 0;
    memcpy(m->frames + m->bytes, frame, bytes);
    m->bytes += bytes;
    return WEFT_OK;
}

static void encode(model *m, weft_level level)
{
    static const weft_backend_options options = {0, "auto", 0, 0};
    weft_encoder encoder;
    weft_encode_pass pass = stand_in_pass(&m->on, level, frame_keep, m);
    assert_int_equal(weft_encoder_open(&encoder, m->on.backend, &options, m->on.device, m->on.layout, 1), WEFT_OK);
    assert_int_equal(weft_encoder_run(&encoder, &pass), WEFT_OK);
    weft_encoder_close(&encoder);
}

typedef struct moved {
    model *m;
    weft_staging staging;
    uint64_t used;
} moved;

static void frame_fill(void *user, uint64_t number, weft_job *job)
{
    moved *all = user;
    weft_frame frame;
    const uint64_t bytes = weft_frame_measure(all->m->frames + all->used, all->m->bytes - all->used);
    (void)number;
    assert_int_equal(weft_frame_admit(all->m->on.layout, all->m->frames + all->used, bytes, &frame), WEFT_OK);
    all->used += bytes;
    weft_changes *changes = weft_staging_take(&all->staging, frame.header.unit, frame.header.changed, 2);
    assert_non_null(changes);
    job->decode =
        (weft_decode_job){.frame = frame,
                          .base = weft_binding_span(&all->m->on.shadow, frame.header.unit, frame.header.units),
                          .parameters = &all->m->on.parameters,
                          .changes = changes,
                          .tensor_delta = all->m->on.delta};
}

static void list_fill(void *user, uint64_t list, weft_job *job)
{
    moved *all = user;
    weft_changes *changes = weft_staging_at(&all->staging, list);
    job->apply = (weft_apply_job){.target = weft_binding_span(&all->m->on.shadow, changes->unit, changes->units),
                                  .changes = changes};
}

static void digest_fill(void *user, uint64_t unit, weft_job *job)
{
    const model *m = user;
    job->digest = (weft_digest_job){.view = weft_binding_view(&m->on.shadow, unit), .tensor_delta = m->on.delta};
}

static void load_fill(void *user, uint64_t unit, weft_job *job)
{
    const model *m = user;
    job->load = (weft_load_job){.view = weft_binding_view(&m->on.shadow, unit), .bytes = m->frames};
}

static void run(model *m, weft_job_kind kind, void (*fill)(void *, uint64_t, weft_job *), void *user, uint64_t count)
{
    weft_pipeline window;
    const weft_chore chore = {kind, fill, NULL, user};
    assert_int_equal(weft_pipeline_open(&window, m->on.backend, m->on.device), WEFT_OK);
    assert_int_equal(weft_pipeline_run(&window, &chore, 0, count), WEFT_OK);
    weft_pipeline_close(&window);
}

/* The frames of the tensor's end, which are all past 2^32. */
static void decode_and_apply(model *m)
{
    moved all = {.m = m};
    uint64_t frames = 0;
    for (uint64_t used = 0; used < m->bytes; frames++)
        used += weft_frame_measure(m->frames + used, m->bytes - used);
    assert_true(frames > 10);
    assert_int_equal(weft_staging_open(&all.staging, m->on.backend, m->on.device,
                                       frames * weft_staging_need(1 << 16, 2), frames, "of the frames"),
                     WEFT_OK);
    run(m, WEFT_JOB_DECODE, frame_fill, &all, frames);
    run(m, WEFT_JOB_APPLY, list_fill, &all, frames);
    weft_staging_close(&all.staging);
}

static void rows_have_all_bits(void **state)
{
    model m;
    (void)state;
    model_open(&m);
    for (weft_level level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        memset(&seen, 0, sizeof seen);
        beyond = m.bytes = 0;
        stand_in_parameters(m.on.layout, level, &m.on.parameters);
        encode(&m, level);
        assert_int_equal(seen.diff, ELEMENTS);
        assert_true(beyond > ELEMENTS - (UINT64_C(1) << 32));
        const uint64_t before = seen.base;
        decode_and_apply(&m);
        assert_true(seen.base > before && seen.moved > 0);
        assert_true(level == WEFT_LEVEL_FAST || before == ELEMENTS);
    }
    run(&m, WEFT_JOB_DIGEST, digest_fill, &m, m.on.layout->unit_count);
    assert_int_equal(seen.digested, ELEMENTS);
    run(&m, WEFT_JOB_LOAD, load_fill, &m, m.on.layout->unit_count);
    assert_int_equal(seen.loaded, ELEMENTS);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_have_all_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
