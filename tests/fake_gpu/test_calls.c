/* Driver calls for each GiB of bf16 weights of which 1 % changed, held against tests/fake_gpu/calls.txt; and the host's
 * time, which is printed. No kernel runs: what stands in for them writes the numbers that the host reads. Nor is there
 * memory for weights, which only kernels would touch. The bytes of frames are the other tests' matter. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "backends/gpu/gpu_encode.h"
#include "codec/chooser.h"
#include "encode/encode.h"
#include "encode/staging.h"
#include "tests/fake_gpu/world.h"

#define GIB UINT64_C(1073741824)

enum { MODEL_GIBS = 8, TENSORS = 128, CLASSES = 12, BUCKET_BYTES = 4 << 20 };
enum { UNIT_ELEMENTS = 1 << 18, UNIT_CHANGED = 2621, UNIT_EXCEPTIONS = 210 };

/* What each frame codes. */
static struct {
    uint32_t shift, changed, exceptions;
} each;

/* ---- in place of kernels */

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static void scan_row(const weft_k_scan *row)
{
    const uint32_t changed = each.changed;
    if (row->total)
        memcpy(at(row->total), &changed, sizeof changed);
}

/* Gaps of 100 elements on average, and exceptions of a few steps. */
static weft_k_fast_counts fast_counts(void)
{
    weft_k_fast_counts counts = {.exceptions = each.exceptions};
    for (int bit = 0; bit < 7; bit++)
        counts.gap_ones[bit] = each.changed / 2;
    for (int bit = 0; bit < 4; bit++)
        counts.rank_ones[bit] = each.exceptions / 2;
    counts.length[1] = counts.under[1] = each.exceptions;
    return counts;
}

/* What the next rows of fast_frame are placed in, as fast_lists does it: there must be memory for all jobs, because a
 * device would need another pass. */
static const weft_k_fast_lists *lists;

/* Writes payloads, because a caller that copies them finds them where a device left them. */
static void fast_frame_row(const weft_k_fast_frame *row, uint32_t job)
{
    const uint32_t room = 1 + (each.changed * 35 / 8 + 256 + 15) / 16, words = (each.changed * 4 + 15) / 16;
    const weft_k_fast_counts counts = fast_counts();
    weft_encode_job units = {.now = {.count = row->changes.elements, .width = 2}};
    const weft_gpu_encoding encoding = {.job = &units, .changed = each.changed, .fast_counts = &counts};
    static weft_fast_plan plan;
    if (plan.unary_bits == 0)
        plan = weft_gpu_fast_plan(&encoding);
    const uint32_t bytes = (uint32_t)weft_fast_payload(&plan.shape, plan.unary_bits, plan.magnitude_bits);
    assert_true((job + 1) * room <= lists->frame_quads);
    assert_true((job + 1) * 3 * (words + 1) <= lists->list_quads);
    memset((uint8_t *)at(lists->copies) + 16 * (uint64_t)(1 + job * room), 0x5a, bytes);
    *(weft_k_fast_made *)at(row->made) = (weft_k_fast_made){.place = 1 + job * room,
                                                            .bytes = bytes,
                                                            .exceptions = each.exceptions,
                                                            .gap_bits = (uint16_t)plan.shape.gap_bits,
                                                            .magnitude_bits = (uint16_t)plan.shape.magnitude_bits};
}

/* Changes in equal parts of all classes, and what is left in the first. */
static void tight_count_row(const weft_k_tight_count *row)
{
    const weft_k_encode_classes *job = at(row->job);
    weft_k_tight_counts counts = {.unary_bits = 2 * each.exceptions, .magnitude_bits = each.exceptions};
    for (uint32_t c = 0; c < CLASSES; c++) {
        counts.population[c] = job->base.count / CLASSES;
        counts.changed[c] = each.changed / CLASSES;
        counts.exceptions[c] = each.exceptions / CLASSES;
    }
    counts.changed[0] += each.changed % CLASSES;
    *(weft_k_tight_counts *)at(row->counts) = counts;
}

/* Gaps of 100 elements of a class on average, and of 13 of its changes. */
static void list_make_row(const weft_k_list_make *row)
{
    const bool positions = row->universe > each.changed;
    uint32_t *ones = at(row->gap_ones);
    for (int bit = 0; bit < 32; bit++)
        ones[bit] =
            bit < (positions ? 7 : 4) ? (positions ? each.changed / CLASSES : each.exceptions / CLASSES) / 2 : 0;
}

static void decode_part(const weft_k_part *part)
{
    const weft_k_decode *row = at(part->job);
    memcpy(at(row->kept), &row->changed, sizeof row->changed);
}

static void stand_in(uint32_t kernel, uint32_t blocks, uint64_t rows)
{
    for (uint32_t i = 0; i < blocks; i++) {
        if (kernel == WEFT_GPU_KERNEL_scan)
            scan_row((const weft_k_scan *)at(rows) + i);
        else if (kernel == WEFT_GPU_KERNEL_fast_lists)
            lists = at(rows);
        else if (kernel == WEFT_GPU_KERNEL_fast_frame)
            fast_frame_row((const weft_k_fast_frame *)at(rows) + i, i);
        else if (kernel == WEFT_GPU_KERNEL_tight_count)
            tight_count_row((const weft_k_tight_count *)at(rows) + i);
        else if (kernel == WEFT_GPU_KERNEL_list_make)
            list_make_row((const weft_k_list_make *)at(rows) + i);
        else if (kernel == WEFT_GPU_KERNEL_decode_steps || kernel == WEFT_GPU_KERNEL_decode_magnitudes)
            decode_part((const weft_k_part *)at(rows) + i);
    }
}

/* ---- what was counted */

typedef struct count {
    uint64_t calls, since_ns;
} count;

static uint64_t aside_ns; /* what the test did in the place of others */

/* Counts the time of this thread alone, because other processes may keep the thread waiting. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static count count_now(const world_vendor *vendor)
{
    count now = {0, now_ns() - vendor->fake->spent_ns() - aside_ns};
    const char *symbol;
    for (uint32_t i = 0; (symbol = vendor->fake->symbol(i)); i++)
        now.calls += vendor->fake->calls(symbol);
    return now;
}

static int wrong; /* figures that the budget does not have */

/* The budget is exact: what takes fewer calls is written down as well. */
static void count_check(const world_vendor *vendor, const char *what, count since, const char *how)
{
    const count now = count_now(vendor);
    const double calls = (double)(now.calls - since.calls) / MODEL_GIBS;
    const double ms = (double)(now.since_ns - since.since_ns) / 1e6 / MODEL_GIBS;
    char line[128], name[32], kind[32];
    double allowed = -1, budget;
    FILE *file = fopen(WEFT_CALLS_BUDGET, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31s %31s %lf", name, kind, &budget) == 3 && strcmp(name, vendor->driver->name) == 0 &&
            strcmp(kind, what) == 0)
            allowed = budget;
    }
    fclose(file);
    const bool same = calls > allowed - 0.0005 && calls < allowed + 0.0005;
    printf("%s %s%s: %.3f driver calls and %.3f ms of the host for each GiB\n", vendor->driver->name, what, how, calls,
           ms);
    if (!same)
        fprintf(stderr, "%s %s: %s has %.3f\n", vendor->driver->name, what, WEFT_CALLS_BUDGET, allowed);
    wrong += !same;
}

/* ---- a model on a device */

typedef struct model {
    world_vendor *vendor;
    const weft_backend *backend;
    weft_backend_state *device;
    weft_layout *layout;
    weft_binding now, shadow;
    uint64_t *delta;
    uint8_t *frames; /* those of all runs, in a row */
    uint64_t frames_bytes, frames_room;
    uint8_t *bucket;
    bool copies; /* frames are copied as into a journal */
    weft_level level;
    weft_parameters parameters;
} model;

/* Runs as long as an update of the model has, and as many classes as models have. */
static void parameters_make(model *m)
{
    static weft_survey survey;
    const uint32_t kind = weft_kind_of(2, 8);
    survey.kinds[kind].elements[120] = UNIT_ELEMENTS;
    survey.kinds[kind].changed[120] = UNIT_CHANGED;
    weft_parameters_choose(&survey, m->layout->elements, 1u << m->level, &m->parameters);
    each.shift = m->parameters.run_shift;
    each.changed = UNIT_CHANGED << each.shift;
    each.exceptions = UNIT_EXCEPTIONS << each.shift;
    if (m->level != WEFT_LEVEL_TIGHT)
        return;
    weft_classes *classes = &m->parameters.classes[kind];
    classes->thresholds = CLASSES - 1;
    for (uint32_t c = 1; c < CLASSES; c++)
        classes->threshold[c - 1] = 256 * c / CLASSES;
}

static void model_open(model *m, world_vendor *vendor, const weft_backend *backend)
{
    static const uint64_t shape = MODEL_GIBS * GIB / TENSORS / 2;
    static weft_tensor tensors[TENSORS];
    static char names[TENSORS][16];
    const weft_backend_options options = {0, "auto", 0, 0};
    *m = (model){.vendor = vendor, .backend = backend, .frames_room = UINT64_C(256) << 20};
    world_load(vendor);
    weft_fake_options fake = vendor->options;
    fake.eager = fake.open_memory = true;
    fake.stand_in = stand_in;
    vendor->fake->reset(&fake);
    vendor->fake->choose(-1);
    for (int t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "t%d", t);
        tensors[t] = (weft_tensor){names[t], WEFT_BF16, 1, &shape};
    }
    assert_int_equal(weft_layout_create(tensors, TENSORS, &m->layout), WEFT_OK);
    assert_int_equal(backend->open(&options, &m->device), WEFT_OK);
    assert_int_equal(weft_binding_open_spaced(m->layout, at(GIB), &m->now), WEFT_OK);
    assert_int_equal(weft_binding_open_spaced(m->layout, at(32 * GIB), &m->shadow), WEFT_OK);
    m->delta = calloc(m->layout->part_count, sizeof *m->delta);
    m->frames = malloc(m->frames_room);
    m->bucket = malloc(BUCKET_BYTES);
    assert_true(m->delta && m->frames && m->bucket);
}

static void model_close(model *m)
{
    free(m->bucket);
    free(m->frames);
    free(m->delta);
    weft_binding_close(&m->shadow);
    weft_binding_close(&m->now);
    m->backend->close(m->device);
    weft_layout_free(m->layout);
}

/* ---- encode */

static weft_status frame_keep(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    model *m = user;
    assert_int_equal(level, m->level);
    assert_true(bytes <= m->frames_room - m->frames_bytes);
    if (m->copies)
        memcpy(m->frames + m->frames_bytes, frame, bytes);
    m->frames_bytes += bytes;
    return WEFT_OK;
}

static void encode_count(model *m, const char *what)
{
    const weft_backend_options options = {0, "auto", 0, 0};
    weft_encoder encoder;
    weft_encode_pass pass = {.now = &m->now,
                             .shadow = &m->shadow,
                             .parameters = &m->parameters,
                             .levels = 1u << m->level,
                             .delta = m->delta,
                             .emit = frame_keep,
                             .user = m};
    assert_int_equal(weft_encoder_open(&encoder, m->backend, &options, m->device, m->layout, 1), WEFT_OK);
    encoder.density = (double)(UNIT_CHANGED) / UNIT_ELEMENTS;
    for (int times = 0; times < 3; times++) { /* the first pass touches memory for the first time */
        const count since = count_now(m->vendor);
        m->frames_bytes = 0;
        m->copies = times != 1;
        assert_int_equal(weft_encoder_run(&encoder, &pass), WEFT_OK);
        assert_int_equal(pass.changed, each.changed * (m->layout->unit_count >> each.shift));
        if (times > 0)
            count_check(m->vendor, what, since, m->copies ? ", copied into a journal" : "");
    }
    weft_encoder_close(&encoder);
}

/* ---- decode and apply */

/* Copies the next bucket out of its slot, as a rollout does when it checks a bucket. Returns its bytes. */
static uint64_t bucket_take(model *m, uint64_t used)
{
    const uint64_t since = now_ns();
    uint64_t bytes = 0, next;
    while ((next = weft_frame_measure(m->frames + used + bytes, m->frames_bytes - used - bytes)) > 0 &&
           bytes + next <= BUCKET_BYTES)
        bytes += next;
    memcpy(m->bucket, m->frames + used, bytes);
    aside_ns += now_ns() - since;
    return bytes;
}

/* As a rollout does: bucket by bucket, and a bucket ends before the next one begins. */
static void bucket_decode(model *m, weft_pipeline *window, weft_staging *staging, uint64_t *used)
{
    const uint64_t end = bucket_take(m, *used);
    for (uint64_t done = 0, bytes; done < end; done += bytes) {
        weft_frame frame;
        bytes = weft_frame_measure(m->bucket + done, end - done);
        assert_int_equal(weft_frame_admit(m->layout, m->bucket + done, bytes, &frame), WEFT_OK);
        weft_changes *changes = weft_staging_take(staging, frame.header.unit, frame.header.changed, 2);
        assert_non_null(changes);
        if (!weft_pipeline_next(window))
            assert_int_equal(weft_pipeline_end(window)->status, WEFT_OK);
        weft_pipeline_next(window)->decode =
            (weft_decode_job){.frame = frame,
                              .base = weft_binding_span(&m->shadow, frame.header.unit, frame.header.units),
                              .parameters = &m->parameters,
                              .changes = changes,
                              .tensor_delta = m->delta};
        weft_pipeline_begin(window, WEFT_JOB_DECODE);
    }
    for (const weft_job *job; (job = weft_pipeline_end(window));) {
        assert_int_equal(job->status, WEFT_OK);
        assert_int_equal(job->decode.changes->count, each.changed);
    }
    *used += end;
}

typedef struct applied {
    model *m;
    weft_staging *staging;
} applied;

static void list_fill(void *user, uint64_t list, weft_apply_job *job)
{
    const applied *all = user;
    weft_changes *changes = weft_staging_at(all->staging, list);
    *job = (weft_apply_job){.target = weft_binding_span(&all->m->shadow, changes->unit, changes->units),
                            .changes = changes,
                            .stream = NULL};
}

static void apply_fill(void *user, uint64_t list, weft_job *job)
{
    list_fill(user, list, &job->apply);
}

/* The whole update as one commit on the caller's stream. */
static void queue_run(applied *all)
{
    const model *m = all->m;
    weft_queued_commit commit = {.count = all->staging->count, .fill = list_fill, .user = all};
    weft_status status = m->backend->queue(m->device, &commit);
    assert_int_equal(status, WEFT_OK);
    while ((status = m->backend->queued(m->device, &commit)) == WEFT_AGAIN)
        ;
    assert_int_equal(status, WEFT_OK);
    assert_true(commit.written);
}

static void apply_count(model *m, const char *decode, const char *apply_too)
{
    weft_pipeline window;
    weft_staging staging;
    const uint64_t frames = m->layout->unit_count >> each.shift, bytes = frames * weft_staging_need(each.changed, 2);
    assert_int_equal(weft_pipeline_open(&window, m->backend, m->device), WEFT_OK);
    assert_int_equal(weft_staging_open(&staging, m->backend, m->device, bytes + 64, frames, "of the model"), WEFT_OK);
    for (int times = 0; times < 2; times++) {
        count since = count_now(m->vendor);
        weft_staging_clear(&staging);
        for (uint64_t used = 0; used < m->frames_bytes;)
            bucket_decode(m, &window, &staging, &used);
        assert_int_equal(staging.count, m->layout->unit_count >> each.shift);
        if (times > 0)
            count_check(m->vendor, decode, since, "");
        since = count_now(m->vendor);
        applied all = {m, &staging};
        const weft_chore apply = {WEFT_JOB_APPLY, apply_fill, NULL, &all};
        assert_int_equal(weft_pipeline_run(&window, &apply, 0, staging.count), WEFT_OK);
        if (times > 0 && apply_too)
            count_check(m->vendor, apply_too, since, "");
        since = count_now(m->vendor);
        queue_run(&all);
        if (times > 0 && apply_too)
            count_check(m->vendor, "queue", since, "");
    }
    weft_staging_close(&staging);
    weft_pipeline_close(&window);
}

static void calls_are_counted(void **state)
{
    (void)state;
    static const weft_backend *const backends[] = {&weft_backend_cuda, &weft_backend_hip};
    for (int v = 0; v < WORLD_VENDORS; v++) {
        model m;
        model_open(&m, &world[v], backends[v]);
        m.level = WEFT_LEVEL_FAST;
        parameters_make(&m);
        encode_count(&m, "encode-fast");
        apply_count(&m, "decode-fast", "apply");
        m.level = WEFT_LEVEL_TIGHT;
        parameters_make(&m);
        encode_count(&m, "encode-tight");
        apply_count(&m, "decode-tight", NULL);
        model_close(&m);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
