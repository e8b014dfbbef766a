/* The sizes that `auto` stands for: for tensors of 1 MB to 70 G elements, whose weights are never taken, on hosts of
 * all sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host.h"
#include "encode/sizes.h"
#include "encode/staging.h"
#include "layout/layout.h"
#include "rollout/rollout.h"
#include "rollout/sizes_rollout.h"
#include "send/slabs.h"
#include "tests/support/site_scratch.h"
#include "trainer/publish.h"
#include "trainer/recorder.h"
#include "trainer/sizes_trainer.h"

#define MIB (UINT64_C(1) << 20)
#define GB  UINT64_C(1000000000)

typedef struct kind {
    uint64_t rows, columns, count;
} kind;

/* Matrices of bf16 as models have them. */
static weft_layout *layout_of(const kind *kinds, size_t count)
{
    static weft_tensor tensors[20000];
    static uint64_t shapes[20000][2];
    static char names[20000][24];
    uint64_t total = 0;
    weft_layout *layout = NULL;
    for (size_t k = 0; k < count; k++)
        for (uint64_t i = 0; i < kinds[k].count; i++, total++) {
            shapes[total][0] = kinds[k].rows;
            shapes[total][1] = kinds[k].columns;
            snprintf(names[total], sizeof names[total], "t%llu", (unsigned long long)total);
            tensors[total] = (weft_tensor){names[total], WEFT_BF16, 2, shapes[total]};
        }
    assert_int_equal(weft_layout_create(tensors, total, &layout), WEFT_OK);
    return layout;
}

static weft_layout *small(void)
{
    return layout_of((const kind[]){{512, 1024, 1}}, 1);
}

static weft_layout *dense_8b(void)
{
    return layout_of((const kind[]){{128256, 4096, 2}, {4096, 4096, 64}, {1024, 4096, 64}, {14336, 4096, 96}}, 4);
}

static weft_layout *sparse_30b(void) /* 48 layers of 128 experts */
{
    return layout_of((const kind[]){{151936, 2048, 2}, {4096, 2048, 96}, {512, 2048, 96}, {768, 2048, 3 * 48 * 128}},
                     4);
}

static weft_layout *dense_70b(void)
{
    return layout_of((const kind[]){{128256, 8192, 2}, {8192, 8192, 160}, {1024, 8192, 160}, {28672, 8192, 240}}, 4);
}

static weft_mem_host host_of(uint64_t total, uint64_t available)
{
    return (weft_mem_host){total, available, "a test"};
}

static weft_size staging_of(const weft_layout *layout, uint64_t given, uint64_t total, uint64_t available)
{
    const weft_mem_host memory = host_of(total, available);
    const weft_room_for room = weft_sizes_host(&memory, 0);
    return weft_size_staging(layout, given, &room);
}

/* Takes what the changes of an update would, unit by unit, and returns what it comes to. */
static uint64_t taken_by(const weft_layout *layout, double percent)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < layout->unit_count; i++) {
        const uint32_t changed = (uint32_t)(layout->units[i].count * percent / 100);
        bytes += weft_staging_need(changed, layout->units[i].width);
    }
    return bytes;
}

/* At every size 3 % fits where there is memory, and nowhere is more than a quarter of it taken. */
static void models_of_all_sizes(void **state)
{
    weft_layout *(*const models[])(void) = {small, dense_8b, sparse_30b, dense_70b};
    static const uint64_t elements[] = {524288, 8029995008, 30532000000, 70550000000};
    (void)state;
    for (size_t m = 0; m < 4; m++) {
        weft_layout *layout = models[m]();
        assert_in_range(layout->elements, elements[m] * 99 / 100, elements[m] * 101 / 100);
        const weft_size here = staging_of(layout, 0, 256 * GB, 200 * GB);
        assert_true(here.automatic);
        assert_true(here.bytes >= taken_by(layout, 4) && here.percent >= 4);
        assert_true(here.bytes % MIB == 0);
        assert_true(here.bytes <= 50 * GB);
        for (uint64_t available = 64 * MIB; available <= 512 * GB; available *= 2) {
            const weft_size some = staging_of(layout, 0, available, available);
            const uint64_t least = (weft_staging_largest(layout) + 16 + MIB) / MIB * MIB;
            assert_true(some.bytes <= available / 4 + MIB || some.bytes <= least);
            assert_true(some.bytes >= weft_staging_largest(layout) + 16);
            assert_true(some.percent > 0);
        }
        weft_layout_free(layout);
    }
}

/* The old fixed size is still reached: a model whose every element may change within 256 MiB gets 256 MiB. */
static void no_less_than_before(void **state)
{
    (void)state;
    for (uint64_t rows = 64; rows <= 262144; rows *= 4) {
        weft_layout *layout = layout_of((const kind[]){{rows, 1024, 1}}, 1);
        const uint64_t all = weft_size_staged(layout, 100), before = all < 256 * MIB ? all : 256 * MIB;
        assert_true(staging_of(layout, 0, 64 * GB, 32 * GB).bytes >= before);
        weft_layout_free(layout);
    }
}

/* An 8 B model at 1 % took 620 MiB without a setting; with a sixteenth of the memory, 8 % fit. */
static void eight_billion(void **state)
{
    char text[WEFT_SIZE_PRINTED];
    weft_layout *layout = dense_8b();
    (void)state;
    assert_in_range(weft_size_staged(layout, 1), 610 * MIB, 620 * MIB);
    assert_string_equal(weft_size_print(620 * MIB - 5, text), "620MiB");
    assert_in_range(staging_of(layout, 0, 32 * GB, 30 * GB).bytes, 2450 * MIB, 2460 * MIB);
    assert_in_range(staging_of(layout, 0, 128 * GB, 100 * GB).bytes, 4900 * MIB, 4910 * MIB);
    const weft_size short_of = staging_of(layout, 0, 32 * GB, 4 * GB);
    assert_in_range(short_of.bytes, 800 * MIB, 954 * MIB);
    assert_non_null(strstr(short_of.why, "a quarter of the 4.0 GB"));
    weft_layout_free(layout);
}

/* If memory is short, a journal still holds 32 of the largest frames, and the line gives the reason. */
static void a_journal_has_a_floor(void **state)
{
    (void)state;
    const weft_mem_host memory = host_of(1 * GB, 64 * MIB);
    const weft_room_for room = weft_sizes_host(&memory, 0);
    weft_layout *layout = dense_8b();
    weft_size size = weft_size_journal(layout, 0, &room);
    assert_string_equal(size.why, "room for 32 of its largest frames");
    assert_true(size.bytes >= 32 * layout->largest_frame && size.bytes <= 2 * 32 * (layout->largest_frame + 64));
    weft_layout_free(layout);
    layout = layout_of((const kind[]){{64, 64, 1}}, 1);
    size = weft_size_journal(layout, 0, &room);
    assert_int_equal(size.bytes, 16 * MIB);
    assert_string_equal(size.why, "the least that a journal has");
    weft_layout_free(layout);
}

/* The same layout and the same machine give the same size, though a few pages come and go. */
static void sizes_are_steady(void **state)
{
    weft_layout *layout = dense_8b();
    (void)state;
    const uint64_t plenty = staging_of(layout, 0, 128 * GB, 100 * GB).bytes;
    assert_int_equal(staging_of(layout, 0, 128 * GB, 90 * GB).bytes, plenty);
    assert_int_equal(staging_of(layout, 0, 32 * GB, 4 * GB + 5000000).bytes,
                     staging_of(layout, 0, 32 * GB, 4 * GB).bytes);
    weft_layout_free(layout);
}

static void a_fixed_size_stays(void **state)
{
    weft_layout *layout = dense_8b();
    (void)state;
    const weft_size fixed = staging_of(layout, 256 * MIB, 128 * GB, 100 * GB);
    assert_int_equal(fixed.bytes, 256 * MIB);
    assert_false(fixed.automatic);
    assert_true(fixed.percent > 0.3 && fixed.percent < 0.5);
    weft_layout_free(layout);
}

/* A device gives a sixteenth of its memory, or a quarter of what the site lets weft have. An unknown device limits
 * nothing. */
static size_t one_device(weft_device_info *devices, size_t capacity)
{
    if (capacity)
        *devices = (weft_device_info){.usable = 1, .device = 0, .memory_bytes = 16 * GB};
    return 1;
}

static void devices(void **state)
{
    weft_layout *layout = dense_8b();
    const weft_mem_host memory = host_of(512 * GB, 500 * GB);
    weft_backend far = {.caps = WEFT_BACKEND_DEVICE, .probe = one_device};
    (void)state;
    weft_room_for room = weft_sizes_lists(&far, 0, 0, &memory, 0);
    assert_in_range(weft_size_staging(layout, 0, &room).bytes, 800 * MIB, GB);
    room = weft_sizes_lists(&far, -1, 2 * GB, &memory, 0);
    assert_in_range(weft_size_staging(layout, 0, &room).bytes, 400 * MIB, GB / 2);
    room = weft_sizes_lists(&far, 3, 0, &memory, 0); /* no such device */
    assert_true(weft_size_staging(layout, 0, &room).percent >= 4);
    weft_layout_free(layout);
}

/* ---- the ends */

static weft_site *site_of(const char *text)
{
    site_scratch scratch;
    weft_site *site = NULL;
    site_scratch_open(&scratch);
    site_scratch_write(&scratch, text, strlen(text));
    assert_int_equal(weft_site_load(scratch.path, NULL, 0, &site), WEFT_OK);
    site_scratch_close(&scratch);
    return site;
}

/* Four updates of 4 % fit beside the share of merges, and the model's copy is not counted on twice. */
static void journals(void **state)
{
    weft_layout *(*const models[])(void) = {dense_8b, sparse_30b, dense_70b};
    weft_site *site = site_of("[peers]\nprovider = loop\n[peer.a]\n");
    (void)state;
    for (size_t m = 0; m < 3; m++) {
        weft_layout *layout = models[m]();
        const weft_mem_host plenty = host_of(1024 * GB, 900 * GB), little = host_of(512 * GB, layout->bytes + GB);
        weft_sizes sizes = weft_trainer_sizes(site, layout, &weft_backend_host, &plenty);
        assert_true(sizes.chosen.bytes / 4 * 3 >= 4 * 0.04 * (double)layout->elements * 1.2);
        assert_true(weft_sizes_need(&sizes, "shadow")->bytes == weft_binding_spaced_bytes(layout) &&
                    sizes.bytes > weft_sizes_need(&sizes, "shadow")->bytes + sizes.chosen.bytes);
        sizes = weft_trainer_sizes(site, layout, &weft_backend_host, &little);
        assert_in_range(sizes.chosen.bytes, GB / 5, GB / 4);
        weft_layout_free(layout);
    }
    weft_site_free(site);
}

/* A model of 1 MB takes less than 300 MB at each end, with as many threads as `auto` has at most. */
static void a_model_of_a_megabyte(void **state)
{
    weft_layout *layout = small();
    weft_site *site = site_of("[trainer]\nthreads = 8\n[peers]\nprovider = loop\n[peer.a]\n");
    const weft_mem_host memory = host_of(256 * GB, 200 * GB);
    (void)state;
    assert_true(weft_trainer_sizes(site, layout, &weft_backend_host, &memory).bytes < 300000000);
    const weft_sizes sizes = weft_rollout_sizes(site, site->peers, layout, &weft_backend_host, &memory);
    assert_true(sizes.bytes < 50000000);
    assert_true(sizes.chosen.percent == 100);
    assert_true(sizes.bucket >= layout->largest_frame && sizes.bucket <= 2 * MIB);
    weft_layout_free(layout);
    weft_site_free(site);
}

/* The site's bounds on buckets hold, and each allowed bucket fits the slot. */
static void buckets(void **state)
{
    weft_layout *layout = small(), *large = dense_8b();
    (void)state;
    assert_int_equal(weft_size_bucket(large, &(weft_site_peer){.bucket_min = 65536}), 4 * MIB);
    assert_int_equal(weft_size_bucket(large, &(weft_site_peer){.bucket_min = 8 * MIB}), 8 * MIB);
    assert_int_equal(weft_size_bucket(large, &(weft_site_peer){.bucket = 16 * MIB}), 16 * MIB);
    assert_int_equal(weft_size_bucket(large, &(weft_site_peer){.bucket_max = MIB}), MIB);
    assert_true(weft_size_bucket(layout, &(weft_site_peer){.bucket_min = 65536}) >= layout->largest_frame);
    assert_true(weft_size_slab(layout) >= layout->largest_frame);
    assert_int_equal(weft_size_slab(large), 2 * MIB);
    weft_layout_free(layout);
    weft_layout_free(large);
}

/* Four slabs at least, so that one peer goes on; batches take half of what the site allows; a store has its memory. */
static void parts_have_bounds(void **state)
{
    static const uint64_t batches[][2] = {{0, 100}, {1, 0}, {100, 50}, {199, 99}, {200, 100}, {1000, 100}};
    weft_layout *layout = small();
    const weft_mem_host memory = host_of(64 * GB, 32 * GB);
    const weft_backend far = {.device_bytes = 100};
    weft_site *site = site_of("[peers]\nprovider = loop\n[peer.a]\n"),
              *stored = site_of("[trainer]\nstore = /none\n[peers]\nprovider = loop\n[peer.a]\n");
    (void)state;
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++)
        assert_int_equal(weft_size_batches(&far, batches[i][0]), batches[i][1]);
    assert_int_equal(weft_trainer_slabs(layout, 0), 4);
    assert_int_equal(weft_trainer_slabs(layout, UINT64_C(1) << 50), WEFT_SLABS_MAX);
    const uint64_t without = weft_trainer_sizes(site, layout, &weft_backend_host, &memory).bytes,
                   with = weft_trainer_sizes(stored, layout, &weft_backend_host, &memory).bytes;
    assert_true(with >= without + weft_recorder_need(layout));
    weft_site_free(stored);
    weft_site_free(site);
    weft_layout_free(layout);
}

static void the_journal_for_an_update(void **state)
{
    (void)state;
    for (uint64_t blocks = 1; blocks < 3000; blocks++) {
        const uint64_t size = weft_size_journal_for(blocks * MIB) / MIB;
        assert_true(size - size / WEFT_SIZES_MERGES >= blocks); /* what merges leave */
        assert_true(size <= blocks * 4 / 3 + 2);
    }
}

/* Encoded updates are kept only where staging takes a frame of the longest run, and the largest tile. */
static void encoded_updates_need_staging(void **state)
{
    weft_layout *(*const models[])(void) = {small, dense_8b};
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        weft_layout *layout = models[m]();
        const uint64_t most = layout->elements < WEFT_FRAME_RUN_CHANGES ? layout->elements : WEFT_FRAME_RUN_CHANGES;
        const uint64_t run = weft_staging_need(most, 8), tile = weft_staging_largest(layout);
        const uint64_t least = run > tile ? run : tile;
        assert_int_not_equal(run, tile);
        assert_int_equal(weft_stage_encoded_bytes(layout, 1600, least - 1), 0);
        assert_int_equal(weft_stage_encoded_bytes(layout, 1607, least), 1600);
        weft_layout_free(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_all_sizes),
        cmocka_unit_test(no_less_than_before),
        cmocka_unit_test(eight_billion),
        cmocka_unit_test(a_journal_has_a_floor),
        cmocka_unit_test(sizes_are_steady),
        cmocka_unit_test(a_fixed_size_stays),
        cmocka_unit_test(devices),
        cmocka_unit_test(journals),
        cmocka_unit_test(a_model_of_a_megabyte),
        cmocka_unit_test(buckets),
        cmocka_unit_test(parts_have_bounds),
        cmocka_unit_test(the_journal_for_an_update),
        cmocka_unit_test(encoded_updates_need_staging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
