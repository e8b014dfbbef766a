/* Driver calls for each GiB of bf16 weights of which 1 % changed, held against tests/fake_gpu/calls.txt; and the host's
 * time, which is printed. No kernel runs (stand_in.h). */
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
#include "encode/encode.h"
#include "encode/staging.h"
#include "harness/session.h"
#include "tests/fake_gpu/stand_in.h"
#include "tests/fake_gpu/world.h"

#define GIB UINT64_C(1073741824)

enum { MODEL_GIBS = 8, SHADOWED_GIBS = 4, TENSORS = 128, BUCKET_BYTES = 4 << 20 };

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
static void count_check(const world_vendor *vendor, const char *what, count since, const char *how, uint32_t gibs)
{
    const count now = count_now(vendor);
    const double calls = (double)(now.calls - since.calls) / gibs;
    const double ms = (double)(now.since_ns - since.since_ns) / 1e6 / gibs;
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
    stand_in_model on;
    uint8_t *frames; /* those of all runs, in a row */
    uint64_t frames_bytes, frames_room;
    uint8_t *bucket;
    bool copies; /* frames are copied as into a journal */
    weft_level level;
} model;

static weft_layout *layout_make(uint64_t gibs)
{
    const uint64_t shape = gibs * GIB / TENSORS / 2;
    static weft_tensor tensors[TENSORS];
    static char names[TENSORS][16];
    weft_layout *layout;
    for (int t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "t%d", t);
        tensors[t] = (weft_tensor){names[t], WEFT_BF16, 1, &shape};
    }
    assert_int_equal(weft_layout_create(tensors, TENSORS, &layout), WEFT_OK);
    return layout;
}

/* One unit. */
static weft_layout *layout_small(void)
{
    static const uint64_t shape = UNIT_ELEMENTS;
    weft_layout *layout;
    assert_int_equal(weft_layout_create(&(weft_tensor){"small", WEFT_BF16, 1, &shape}, 1, &layout), WEFT_OK);
    return layout;
}

static void model_open(model *m, world_vendor *vendor, const weft_backend *backend)
{
    *m = (model){.vendor = vendor, .frames_room = UINT64_C(256) << 20};
    stand_in_begin(vendor, stand_in);
    stand_in_open(&m->on, backend, layout_make(MODEL_GIBS), 32 * GIB);
    assert_int_equal(weft_binding_open_spaced(m->on.layout, (void *)(uintptr_t)GIB, &m->on.now), WEFT_OK);
    m->frames = malloc(m->frames_room);
    m->bucket = malloc(BUCKET_BYTES);
    assert_true(m->frames && m->bucket);
}

static void model_close(model *m)
{
    free(m->bucket);
    free(m->frames);
    stand_in_close(&m->on);
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
    weft_encode_pass pass = stand_in_pass(&m->on, m->level, frame_keep, m);
    assert_int_equal(weft_encoder_open(&encoder, m->on.backend, &options, m->on.device, m->on.layout, 1), WEFT_OK);
    encoder.density = (double)(UNIT_CHANGED) / UNIT_ELEMENTS;
    for (int times = 0; times < 3; times++) { /* the first pass touches memory for the first time */
        const count since = count_now(m->vendor);
        m->frames_bytes = 0;
        m->copies = times != 1;
        assert_int_equal(weft_encoder_run(&encoder, &pass), WEFT_OK);
        assert_int_equal(pass.changed, each.changed * (m->on.layout->unit_count / each.units));
        if (times > 0)
            count_check(m->vendor, what, since, m->copies ? ", copied into a journal" : "", MODEL_GIBS);
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
        assert_int_equal(weft_frame_admit(m->on.layout, m->bucket + done, bytes, &frame), WEFT_OK);
        weft_changes *changes = weft_staging_take(staging, frame.header.unit, frame.header.changed, 2);
        assert_non_null(changes);
        if (!weft_pipeline_next(window))
            assert_int_equal(weft_pipeline_end(window)->status, WEFT_OK);
        weft_pipeline_next(window)->decode =
            (weft_decode_job){.frame = frame,
                              .base = weft_binding_span(&m->on.shadow, frame.header.unit, frame.header.units),
                              .parameters = &m->on.parameters,
                              .changes = changes,
                              .tensor_delta = m->on.delta};
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
    *job = (weft_apply_job){.target = weft_binding_span(&all->m->on.shadow, changes->unit, changes->units),
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
    weft_status status = m->on.backend->queue(m->on.device, &commit);
    assert_int_equal(status, WEFT_OK);
    while ((status = m->on.backend->queued(m->on.device, &commit)) == WEFT_AGAIN)
        ;
    assert_int_equal(status, WEFT_OK);
    assert_true(commit.written);
}

static void apply_count(model *m, const char *decode, const char *apply_too)
{
    weft_pipeline window;
    weft_staging staging;
    const uint64_t frames = m->on.layout->unit_count / each.units, bytes = frames * weft_staging_need(each.changed, 2);
    assert_int_equal(weft_pipeline_open(&window, m->on.backend, m->on.device), WEFT_OK);
    assert_int_equal(weft_staging_open(&staging, m->on.backend, m->on.device, bytes + 64, frames, "of the model"),
                     WEFT_OK);
    for (int times = 0; times < 2; times++) {
        count since = count_now(m->vendor);
        weft_staging_clear(&staging);
        for (uint64_t used = 0; used < m->frames_bytes;)
            bucket_decode(m, &window, &staging, &used);
        assert_int_equal(staging.count, m->on.layout->unit_count / each.units);
        if (times > 0)
            count_check(m->vendor, decode, since, "", MODEL_GIBS);
        since = count_now(m->vendor);
        applied all = {m, &staging};
        const weft_chore apply = {WEFT_JOB_APPLY, apply_fill, NULL, &all};
        assert_int_equal(weft_pipeline_run(&window, &apply, 0, staging.count), WEFT_OK);
        if (times > 0 && apply_too)
            count_check(m->vendor, apply_too, since, "", MODEL_GIBS);
        since = count_now(m->vendor);
        queue_run(&all);
        if (times > 0 && apply_too)
            count_check(m->vendor, "queue", since, "", MODEL_GIBS);
    }
    weft_staging_close(&staging);
    weft_pipeline_close(&window);
}

/* ---- all of a publish */

/* The last versions are counted, because the first ones take the journal's memory. The shadow is on the device too. */
static void publish_count(world_vendor *vendor, weft_layout *layout, const char *what, uint32_t gibs)
{
    static weft_piece pieces[TENSORS];
    const uint64_t bytes = layout->bytes / layout->count;
    char text[256], listen[64];
    stand_in_begin(vendor, stand_in);
    snprintf(
        text, sizeof text,
        "[trainer]\nlisten = 127.0.0.1:0\nbackend = %s\nshadow = device\njournal = 160MiB\n[peers]\nlevel = fast\n",
        vendor->driver->name);
    const uint64_t weights = vendor->fake->take(0, layout->bytes);
    weft_site *site = fleet_site_load(text, NULL, 0);
    weft_session *trainer = fleet_trainer_open(site, layout, NULL, listen);
    for (uint64_t t = 0; t < layout->count; t++)
        pieces[t] = (weft_piece){t, 0, bytes / 2, (void *)(uintptr_t)(weights + t * bytes)};
    assert_int_equal(weft_bind(trainer, pieces, layout->count, NULL, 0, 0), WEFT_OK);
    for (uint64_t version = 1; version <= 8; version++) {
        weft_update_info info = {.size = sizeof info};
        const count since = count_now(vendor);
        assert_int_equal(weft_publish(trainer, version, NULL, NULL, &info), WEFT_OK);
        assert_int_equal(info.changed, (uint64_t)each.changed * (layout->unit_count / each.units));
        if (version > 6)
            count_check(vendor, what, since, "", gibs);
    }
    weft_close(trainer);
    weft_site_free(site);
    weft_layout_free(layout);
    vendor->fake->give(weights);
}

static void calls_are_counted(void **state)
{
    (void)state;
    static const weft_backend *const backends[] = {&weft_backend_cuda, &weft_backend_hip};
    for (int v = 0; v < WORLD_VENDORS; v++) {
        model m;
        model_open(&m, &world[v], backends[v]);
        m.level = WEFT_LEVEL_FAST;
        stand_in_parameters(m.on.layout, m.level, &m.on.parameters);
        encode_count(&m, "encode-fast");
        apply_count(&m, "decode-fast", "apply");
        m.level = WEFT_LEVEL_TIGHT;
        stand_in_parameters(m.on.layout, m.level, &m.on.parameters);
        encode_count(&m, "encode-tight");
        apply_count(&m, "decode-tight", NULL);
        model_close(&m);
        publish_count(&world[v], layout_make(SHADOWED_GIBS), "publish", SHADOWED_GIBS);
        publish_count(&world[v], layout_small(), "publish-small", 1);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
