/* test_apply.c - changes put in place and taken back, dense bytes out of views and into them: the kernels on one copy
 * of the weights, the host backend on another, and no byte differs, those between the pieces included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include "tests/emulation/decode_world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define UNITS    8u

static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_U8, WEFT_F32, WEFT_F64};

/* The same weights twice. */
typedef struct twins {
    decode_world host, gpu;
    uint64_t seed;
} twins;

static void twins_open(twins *t, uint64_t seed, weft_dtype dtype, const uint64_t *sizes, uint64_t count, uint32_t cuts)
{
    decode_world *const both[] = {&t->host, &t->gpu};
    for (size_t i = 0; i < COUNT(both); i++) {
        t->seed = seed;
        world_open(both[i], &t->seed, dtype, sizes, count, cuts);
        world_change(both[i], &t->seed, 100000);
    }
    assert_true(t->host.layout->unit_count <= UNITS);
    weft_emulation_driver_set(seed / 2 % 2 ? 32 : 64, seed); /* both with every use of odd rounds */
}

static void twins_close(twins *t)
{
    world_close(&t->host);
    world_close(&t->gpu);
}

static void twins_agree(const twins *t)
{
    assert_memory_equal(t->host.live, t->gpu.live, t->host.live_bytes);
}

/* Waits for jobs that were submitted, the oldest first. */
static void jobs_end(const decode_world *w, void *jobs, size_t size, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        void *job = (uint8_t *)jobs + i * size;
        weft_status status = WEFT_AGAIN;
        while (status == WEFT_AGAIN)
            status = weft_gpu_poll(w->gpu, job);
        assert_int_equal(status, WEFT_OK);
    }
}

/* Finds, on the host, the changes from base to target in a unit. */
static weft_changes changes_of(decode_world *w, uint64_t unit)
{
    uint8_t *bytes;
    weft_frame frame;
    uint64_t *delta = pair_memory(w->layout->part_count * sizeof *delta);
    const uint64_t length = world_encode(w, unit, 1, WEFT_LEVEL_FAST, &bytes);
    weft_changes changes = {.capacity = w->layout->units[unit].count};
    changes.position = pair_memory(4 * (uint64_t)changes.capacity);
    changes.before = pair_memory((uint64_t)changes.capacity * w->row->width);
    changes.after = pair_memory((uint64_t)changes.capacity * w->row->width);
    if (length > 0) {
        pair_must(weft_frame_admit(w->layout, bytes, length, &frame), "admit");
        weft_decode_job job = {
            .frame = frame, .base = weft_binding_view(&w->weights, unit), .changes = &changes, .tensor_delta = delta};
        pair_must(weft_backend_host.decode(w->host, &job), "decode");
    }
    free(delta);
    free(bytes);
    return changes;
}

static void changes_agree(const weft_changes *a, const weft_changes *b, uint8_t width)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->position, b->position, 4 * (uint64_t)a->count);
    assert_memory_equal(a->before, b->before, (uint64_t)a->count * width);
    assert_memory_equal(a->after, b->after, (uint64_t)a->count * width);
}

/* Applies lists at both ends and says where the weights were not what the lists had. */
static void twins_apply(twins *t, weft_changes *host, weft_changes *gpu, bool *mismatch)
{
    weft_apply_job jobs[UNITS];
    const uint64_t units = t->host.layout->unit_count;
    for (uint64_t u = 0; u < units; u++) {
        weft_apply_job job = {.target = weft_binding_view(&t->host.weights, u), .changes = &host[u]};
        pair_must(weft_backend_host.apply(t->host.host, &job), "apply");
        mismatch[u] = job.mismatch;
        jobs[u] = (weft_apply_job){.target = weft_binding_view(&t->gpu.weights, u), .changes = &gpu[u]};
        assert_int_equal(weft_gpu_submit(t->gpu.gpu, &weft_gpu_apply, &jobs[u]), WEFT_AGAIN);
    }
    jobs_end(&t->gpu, jobs, sizeof *jobs, units);
    for (uint64_t u = 0; u < units; u++) {
        assert_int_equal(jobs[u].mismatch, mismatch[u]);
        changes_agree(&host[u], &gpu[u], t->host.row->width);
    }
    twins_agree(t);
}

static void twins_undo(twins *t, const weft_changes *host, const weft_changes *gpu)
{
    weft_undo_job jobs[UNITS];
    const uint64_t units = t->host.layout->unit_count;
    for (uint64_t u = 0; u < units; u++) {
        weft_undo_job job = {.target = weft_binding_view(&t->host.weights, u), .changes = &host[u]};
        pair_must(weft_backend_host.undo(t->host.host, &job), "undo");
        jobs[u] = (weft_undo_job){.target = weft_binding_view(&t->gpu.weights, u), .changes = &gpu[u]};
        assert_int_equal(weft_gpu_submit(t->gpu.gpu, &weft_gpu_undo, &jobs[u]), WEFT_AGAIN);
    }
    jobs_end(&t->gpu, jobs, sizeof *jobs, units);
    twins_agree(t);
}

/* Another hand changes some of the weights at both ends. */
static void twins_disturb(twins *t, const weft_changes *changes)
{
    const weft_view a = weft_binding_view(&t->host.weights, 0), b = weft_binding_view(&t->gpu.weights, 0);
    uint32_t r = 0;
    for (uint32_t i = 0; i < changes->count; i += 7) {
        while (weft_run_position(&a, &a.runs[r]) + a.runs[r].count <= changes->position[i])
            r++;
        const uint64_t at = (uint64_t)(changes->position[i] - weft_run_position(&a, &a.runs[r])) * a.width;
        a.runs[r].data[at] ^= 0x55;
        b.runs[r].data[at] ^= 0x55;
    }
}

static void changes_come_and_go(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 8; round++) {
        uint64_t seed = round;
        const uint64_t sizes[] = {1 + pair_below(&seed, 20000), 1 + pair_below(&seed, 70), 3000};
        weft_changes host[UNITS] = {{0}}, gpu[UNITS] = {{0}};
        bool mismatch[UNITS];
        twins t;
        twins_open(&t, round, dtypes[round % COUNT(dtypes)], sizes, COUNT(sizes), 20);
        uint8_t *before = pair_memory(t.host.live_bytes);
        const uint64_t units = t.host.layout->unit_count;
        for (uint64_t u = 0; u < units; u++) {
            host[u] = changes_of(&t.host, u);
            gpu[u] = changes_of(&t.gpu, u);
        }
        const bool disturbed = round % 2 && host[0].count > 0;
        if (disturbed)
            twins_disturb(&t, &host[0]);
        memcpy(before, t.gpu.live, t.gpu.live_bytes);
        twins_apply(&t, host, gpu, mismatch);
        assert_int_equal(mismatch[0], disturbed);
        twins_undo(&t, host, gpu);
        assert_memory_equal(before, t.gpu.live, t.gpu.live_bytes);
        for (uint64_t u = 0; u < units; u++) {
            pair_changes_free(&host[u]);
            pair_changes_free(&gpu[u]);
        }
        free(before);
        twins_close(&t);
    }
}

/* ---- a commit that is queued */

typedef struct queued_lists {
    const decode_world *w;
    weft_changes *lists;
} queued_lists;

static void list_fill(void *user, uint64_t list, weft_apply_job *job)
{
    const queued_lists *of = user;
    *job = (weft_apply_job){.target = weft_binding_view(&of->w->weights, list), .changes = &of->lists[list]};
}

static weft_status commit_end(const twins *t, weft_queued_commit *commit)
{
    weft_status status = WEFT_AGAIN;
    while (status == WEFT_AGAIN)
        status = weft_gpu_commit_ask(t->gpu.gpu, commit);
    return status;
}

static weft_queued_commit twins_queue(twins *t, queued_lists *of)
{
    weft_queued_commit commit = {.count = t->gpu.layout->unit_count, .fill = list_fill, .user = of};
    pair_must(weft_gpu_commit_queue(t->gpu.gpu, &commit), "queue");
    pair_must(commit_end(t, &commit), "queued");
    return commit;
}

/* Lists of all units land as one; and if a weight of the first unit was changed, in any place, none does. */
static void all_lists_or_none(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 8; round++) {
        uint64_t seed = round;
        const uint64_t sizes[] = {1 + pair_below(&seed, 20000), 1 + pair_below(&seed, 70), 3000};
        weft_changes host[UNITS] = {{0}}, gpu[UNITS] = {{0}};
        bool mismatch[UNITS];
        twins t;
        twins_open(&t, round, dtypes[round % COUNT(dtypes)], sizes, COUNT(sizes), 20);
        queued_lists of = {&t.gpu, gpu};
        const uint64_t units = t.host.layout->unit_count;
        for (uint64_t u = 0; u < units; u++) {
            host[u] = changes_of(&t.host, u);
            gpu[u] = changes_of(&t.gpu, u);
        }
        const bool disturbed = round % 2 && host[0].count > 0;
        if (disturbed)
            twins_disturb(&t, &host[0]);
        const weft_queued_commit commit = twins_queue(&t, &of);
        assert_int_equal(commit.written, !disturbed);
        assert_true(commit.altered == (disturbed ? 0 : UINT64_MAX));
        for (uint64_t u = 0; u < units; u++)
            changes_agree(&host[u], &gpu[u], t.host.row->width);
        if (disturbed) {
            twins_agree(&t); /* nothing was written at either end */
        } else {
            for (uint64_t u = 0; u < units; u++) {
                weft_apply_job job = {.target = weft_binding_view(&t.host.weights, u), .changes = &host[u]};
                pair_must(weft_backend_host.apply(t.host.host, &job), "apply");
            }
            twins_agree(&t);
            twins_undo(&t, host, gpu);
        }
        twins_apply(&t, host, gpu, mismatch); /* the slab is free again, and lists are as they were */
        for (uint64_t u = 0; u < units; u++) {
            pair_changes_free(&host[u]);
            pair_changes_free(&gpu[u]);
        }
        twins_close(&t);
    }
}

/* Any single element that is not what its list says is found. */
static void each_element_is_proved(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 4; round++) {
        const uint64_t sizes[] = {5000, 40};
        weft_changes gpu[UNITS] = {{0}};
        twins t;
        twins_open(&t, round, dtypes[round], sizes, COUNT(sizes), 3);
        queued_lists of = {&t.gpu, gpu};
        uint64_t seed = round;
        for (uint64_t u = 0; u < t.gpu.layout->unit_count; u++)
            gpu[u] = changes_of(&t.gpu, u);
        uint8_t *before = pair_memory(t.gpu.live_bytes);
        for (int times = 0; times < 12; times++) {
            const uint64_t list = pair_random(&seed) % 2;
            if (gpu[list].count == 0)
                continue;
            const uint64_t bytes = (uint64_t)gpu[list].count * t.gpu.row->width;
            uint8_t *spoiled = (uint8_t *)gpu[list].before + (times ? pair_below(&seed, bytes) : bytes - 1);
            *spoiled ^= 0x80;
            memcpy(before, t.gpu.live, t.gpu.live_bytes);
            const weft_queued_commit commit = twins_queue(&t, &of);
            assert_false(commit.written);
            assert_true(commit.altered == list);
            assert_memory_equal(before, t.gpu.live, t.gpu.live_bytes);
            *spoiled ^= 0x80;
        }
        for (uint64_t u = 0; u < t.gpu.layout->unit_count; u++)
            pair_changes_free(&gpu[u]);
        free(before);
        twins_close(&t);
    }
}

/* Rows that have no room in a slab are refused, and nothing is done. */
static void too_many_lists_are_refused(void **state)
{
    const uint64_t sizes[] = {3000};
    weft_changes list;
    twins t;
    (void)state;
    twins_open(&t, 1, WEFT_BF16, sizes, COUNT(sizes), 3);
    queued_lists of = {&t.gpu, &list};
    weft_queued_commit commit = {.count = 1, .fill = list_fill, .user = &of};
    list = changes_of(&t.gpu, 0);
    const uint64_t bytes = t.gpu.gpu->slabs[0].pinned.bytes;
    for (uint64_t i = 0; i < WEFT_GPU_SLABS; i++)
        t.gpu.gpu->slabs[i].pinned.bytes = 512;
    assert_int_equal(weft_gpu_commit_queue(t.gpu.gpu, &commit), WEFT_E_BUDGET);
    assert_non_null(strstr(weft_last_error(), "1 lists"));
    for (uint64_t i = 0; i < WEFT_GPU_SLABS; i++)
        t.gpu.gpu->slabs[i].pinned.bytes = bytes;
    assert_int_equal(weft_emulation_driver_launches(WEFT_GPU_KERNEL_prove), 0);
    assert_true(twins_queue(&t, &of).written);
    pair_changes_free(&list);
    twins_close(&t);
}

static void same_fill(void *user, uint64_t list, weft_apply_job *job)
{
    (void)list;
    list_fill(user, 0, job);
}

/* Rows stay within what their slab took for them. */
static void rows_have_room(void **state)
{
    enum { ROWS = 1 << 16, MARK = 0xa5, LISTS = 64 };
    const uint64_t sizes[] = {3000};
    weft_changes list;
    twins t;
    (void)state;
    twins_open(&t, 1, WEFT_BF16, sizes, COUNT(sizes), 3);
    queued_lists of = {&t.gpu, &list};
    weft_queued_commit commit = {.count = LISTS, .fill = same_fill, .user = &of};
    weft_gpu_slab *slabs = t.gpu.gpu->slabs;
    list = changes_of(&t.gpu, 0);
    for (unsigned i = 0; i < WEFT_GPU_SLABS; i++)
        memset(slabs[i].pinned.host, MARK, ROWS);
    pair_must(weft_gpu_commit_queue(t.gpu.gpu, &commit), "queue");
    for (uint64_t i = slabs[commit.place].pinned.used; i < ROWS; i++)
        assert_int_equal(slabs[commit.place].pinned.host[i], MARK);
    pair_must(commit_end(&t, &commit), "queued");
    pair_changes_free(&list);
    twins_close(&t);
}

/* Bytes go by a slab, or by device memory as it is; they need no alignment. */
static void dense_bytes_come_and_go(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 8; round++) {
        uint64_t seed = round;
        const uint64_t sizes[] = {1 + pair_below(&seed, 20000), 1 + pair_below(&seed, 70), 3000};
        weft_load_job loads[UNITS];
        weft_store_job stores[UNITS];
        uint8_t *wanted[UNITS], *there[UNITS];
        twins t;
        twins_open(&t, round, dtypes[round % COUNT(dtypes)], sizes, COUNT(sizes), 20);
        const uint64_t units = t.host.layout->unit_count, shift = round % 3;
        for (uint64_t u = 0; u < units; u++) {
            const weft_view view = weft_binding_view(&t.gpu.weights, u);
            const uint64_t bytes = (uint64_t)view.count * view.width;
            wanted[u] = pair_memory(bytes);
            there[u] = pair_memory(bytes + shift);
            weft_load_job job = {.view = weft_binding_view(&t.host.weights, u), .bytes = wanted[u]};
            pair_must(weft_backend_host.load(t.host.host, &job), "load");
            if (round % 2 && u == 0)
                weft_emulation_driver_own(there[0], bytes + shift);
            loads[u] = (weft_load_job){.view = view, .bytes = there[u] + shift};
            assert_int_equal(weft_gpu_submit(t.gpu.gpu, &weft_gpu_load, &loads[u]), WEFT_AGAIN);
        }
        jobs_end(&t.gpu, loads, sizeof *loads, units);
        for (uint64_t u = 0; u < units; u++) {
            const uint64_t bytes = (uint64_t)loads[u].view.count * loads[u].view.width;
            assert_memory_equal(wanted[u], there[u] + shift, bytes);
            for (uint64_t i = 0; i < bytes; i++)
                there[u][shift + i] = wanted[u][i] = (uint8_t)pair_random(&seed);
            weft_store_job job = {.view = weft_binding_view(&t.host.weights, u), .bytes = wanted[u]};
            pair_must(weft_backend_host.store(t.host.host, &job), "store");
            stores[u] = (weft_store_job){.view = loads[u].view, .bytes = there[u] + shift};
            assert_int_equal(weft_gpu_submit(t.gpu.gpu, &weft_gpu_store, &stores[u]), WEFT_AGAIN);
        }
        jobs_end(&t.gpu, stores, sizeof *stores, units);
        weft_emulation_driver_own(NULL, 0);
        twins_agree(&t);
        for (uint64_t u = 0; u < units; u++) {
            free(wanted[u]);
            free(there[u]);
        }
        twins_close(&t);
    }
}

int main(void)
{
    weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    weft_log_enter(&quiet);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_come_and_go),    cmocka_unit_test(all_lists_or_none),
        cmocka_unit_test(each_element_is_proved), cmocka_unit_test(too_many_lists_are_refused),
        cmocka_unit_test(rows_have_room),         cmocka_unit_test(dense_bytes_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
