/* Tensors of more than 2^32 elements. Sizes are checked by arithmetic, positions wrap around within a run, and in the
 * long form of the tests a tensor goes through an update file on memory that is hardly touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "encode/staging.h"
#include "layout/part.h"
#include "tests/support/memory_file.h"
#include "tests/support/unit_pair.h"

#define TILE     (UINT64_C(1) << 18)
#define WRAP     (UINT64_C(1) << 32)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void sizes_and_units(void **state)
{
    (void)state;
    static const struct {
        weft_dtype dtype;
        uint64_t rows, columns;
    } cases[] = {{WEFT_U8, 3, WRAP / 2},  {WEFT_BF16, (1 << 16) + 1, 1 << 16}, {WEFT_F32, 5, 1000000007},
                 {WEFT_F64, WRAP + 1, 1}, {WEFT_C64, 2, WRAP / 2 + 3},         {WEFT_F4, 3, WRAP}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        const uint64_t shape[] = {cases[c].rows, cases[c].columns}, one = 2;
        const weft_tensor tensors[] = {{"one", WEFT_I32, 1, &one}, {"huge", cases[c].dtype, 2, shape}};
        const weft_dtype_row *row = weft_dtype_find(cases[c].dtype);
        const uint64_t coded = cases[c].rows * cases[c].columns * row->bits / 8 / row->width;
        const uint64_t tile = weft_tile_elements(row->width), units = coded / tile + (coded % tile != 0);
        weft_layout *layout;
        pair_must(weft_layout_create(tensors, 2, &layout), "layout");
        assert_int_equal(layout->entries[1].coded, coded);
        assert_int_equal(layout->bytes, coded * row->width + 8);
        assert_int_equal(layout->elements, coded + 2);
        assert_int_equal(layout->unit_count, units + 1);
        assert_int_equal(layout->part_count, units + 1);
        assert_int_equal(weft_part_count(layout, 1), units);
        const weft_unit *last = &layout->units[units];
        assert_int_equal(last->first, (units - 1) * tile);
        assert_int_equal(last->first + last->count, coded);
        assert_int_equal(last->place, units - 1);
        assert_int_equal(weft_part_of_unit(layout, units), units);
        assert_int_equal(weft_part_tensor(layout, units), 1);
        assert_true(layout->largest_frame <= WEFT_FRAME_HEADER_BYTES + (1 << 20));
        uint32_t run = weft_layout_run(layout, units, WEFT_RUN_SHIFT_MAX);
        assert_int_equal(run, 1); /* the last one */
        assert_int_equal(weft_layout_run(layout, 1, WEFT_RUN_SHIFT_MAX), 64);
        assert_int_equal(weft_layout_count_units(layout, 1, 64), 64 * tile);
        assert_int_equal(weft_staging_largest(layout), weft_staging_need((uint32_t)tile, row->width));
        weft_layout_free(layout);
    }
}

/* Names count elements of the dtype beyond 2^32. */
static void parts_are_named(void **state)
{
    (void)state;
    const uint64_t size = WRAP + TILE + 1;
    const weft_tensor tensor = {"huge", WEFT_U8, 1, &size};
    weft_layout *layout;
    char text[WEFT_PART_TEXT];
    pair_must(weft_layout_create(&tensor, 1, &layout), "layout");
    weft_part_name(layout, WRAP / TILE, text);
    assert_string_equal(text, "tensor huge tile 16384, elements 4294967296..4295229439");
    weft_part_name(layout, WRAP / TILE + 1, text);
    assert_string_equal(text, "tensor huge tile 16385, elements 4295229440..4295229440");
    weft_layout_free(layout);
}

/* Memory that takes no room until it is touched; NULL: not to be had here. */
static uint8_t *map(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A pack of 100 elements, then so many that positions in the stretch pass 2^32 in the middle of a tile. */
#define PACK 100u
#define HUGE (WRAP + 70 * TILE + 5)

typedef struct huge {
    weft_layout *layout;
    uint8_t *base, *target;
    weft_piece from[2], to[2];
} huge;

static bool huge_open(huge *h)
{
    static const uint64_t sizes[] = {PACK, HUGE};
    static const weft_tensor tensors[] = {{"pack", WEFT_U8, 1, &sizes[0]}, {"huge", WEFT_U8, 1, &sizes[1]}};
    *h = (huge){.base = map(PACK + HUGE), .target = map(PACK + HUGE)};
    if (!h->base || !h->target)
        return false;
    pair_must(weft_layout_create(tensors, 2, &h->layout), "layout");
    for (uint64_t t = 0; t < 2; t++) {
        h->from[t] = (weft_piece){t, 0, sizes[t], h->base + t * PACK};
        h->to[t] = (weft_piece){t, 0, sizes[t], h->target + t * PACK};
    }
    return true;
}

static void huge_close(huge *h)
{
    weft_layout_free(h->layout);
    if (h->base)
        munmap(h->base, PACK + HUGE);
    if (h->target)
        munmap(h->target, PACK + HUGE);
}

/* Changes both ends of each of these units, and an element between. Units lie in memory in a row. */
static void units_change(huge *h, uint64_t unit, uint64_t units, uint64_t *seed)
{
    for (uint64_t u = unit; u < unit + units; u++) {
        uint64_t first = u == 0 ? 0 : PACK + h->layout->units[u].first, count = h->layout->units[u].count;
        for (int i = 0; i < 200; i++) {
            uint64_t at = first + (i == 0 ? 0 : i == 1 ? count - 1 : pair_below(seed, count));
            h->base[at] = (uint8_t)pair_random(seed);
            h->target[at] = (uint8_t)(h->base[at] + 1 + pair_below(seed, 3));
        }
    }
}

/* One run across the wrap, encoded, decoded, applied and undone where it lies. */
static void positions_wrap_within_a_run(void **state)
{
    (void)state;
    huge h;
    if (!huge_open(&h)) {
        print_message("skipped: no %llu bytes of address space\n", (unsigned long long)(2 * HUGE));
        huge_close(&h);
        skip();
    }
    uint64_t seed = 1, unit = 1 + WRAP / TILE - 3; /* the pack is unit 0: tile 16383 passes 2^32 - 100 */
    const uint32_t units = 6;
    weft_binding now, shadow;
    weft_backend_state *device;
    weft_changes changes = pair_changes();
    uint64_t *delta = pair_memory(2 * h.layout->part_count * sizeof *delta), *decoded = delta + h.layout->part_count;
    units_change(&h, unit, units, &seed);
    pair_must(weft_binding_open(h.layout, h.to, 2, &now), "binding");
    pair_must(weft_binding_open(h.layout, h.from, 2, &shadow), "binding");
    pair_must(weft_backend_host.open(&(weft_backend_options){-1, "auto", 0, 0}, &device), "backend");
    weft_view view = weft_binding_span(&shadow, unit, units);
    assert_int_equal(view.first, (uint32_t)(PACK + (unit - 1) * TILE));
    assert_true(view.first > view.runs[view.run_count - 1].position); /* wrapped */
    for (weft_level level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
        sinks[level] =
            (weft_frame_sink){.data = pair_memory(h.layout->largest_frame), .capacity = h.layout->largest_frame};
        weft_encode_job encode = {.now = weft_binding_span(&now, unit, units),
                                  .shadow = view,
                                  .largest_frame = h.layout->largest_frame,
                                  .levels = 1u << level,
                                  .sinks = sinks,
                                  .tensor_delta = delta};
        weft_frame frame;
        memset(delta, 0, 2 * h.layout->part_count * sizeof *delta);
        pair_must(weft_backend_host.encode(device, &encode), "encode");
        assert_int_equal(encode.alone, 0);
        pair_must(weft_frame_admit(h.layout, sinks[level].data, sinks[level].used, &frame), "admit");
        assert_int_equal(frame.header.units, units);
        weft_decode_job decode = {.frame = frame, .base = view, .changes = &changes, .tensor_delta = decoded};
        pair_must(weft_backend_host.decode(device, &decode), "decode");
        assert_int_equal(changes.count, encode.changed);
        assert_memory_equal(delta, decoded, h.layout->part_count * sizeof *delta);
        weft_apply_job apply = {.target = view, .changes = &changes};
        weft_undo_job undo = {.target = view, .changes = &changes};
        uint64_t first = PACK + (unit - 1) * TILE;
        pair_must(weft_backend_host.apply(device, &apply), "apply");
        assert_false(apply.mismatch);
        assert_memory_equal(h.base + first, h.target + first, units * TILE);
        pair_must(weft_backend_host.undo(device, &undo), "undo");
        free(sinks[level].data);
    }
    weft_backend_host.close(device);
    weft_binding_close(&now);
    weft_binding_close(&shadow);
    pair_changes_free(&changes);
    free(delta);
    huge_close(&h);
}

/* All of it: base and target by the file, whatever was not touched included. */
static void through_a_file(void **state)
{
    (void)state;
#if defined(WEFT_SANITIZE_ADDRESS) || defined(WEFT_SANITIZE_THREAD)
    print_message("skipped: a sanitizer takes minutes for 2^32 elements\n");
    skip();
#endif
    huge h;
    if (!getenv("WEFT_FULL")) {
        print_message("skipped: takes seconds; WEFT_FULL=1 runs it\n");
        skip();
    }
    if (!huge_open(&h)) {
        print_message("skipped: no %llu bytes of address space\n", (unsigned long long)(2 * HUGE));
        huge_close(&h);
        skip();
    }
    uint64_t seed = 2, last = h.layout->unit_count - 1;
    units_change(&h, 0, 2, &seed);
    units_change(&h, WRAP / TILE - 1, 4, &seed);
    units_change(&h, last, 1, &seed);
    static const char *const levels[] = {"fast", "tight"};
    for (size_t l = 0; l < COUNT(levels); l++) {
        memory_file file = {0};
        weft_sink sink = memory_sink(&file);
        weft_work work = {.size = sizeof work, .threads = 2};
        weft_diff_options options = {.size = sizeof options, .level = levels[l], .target.number = 1};
        weft_update_file *update;
        weft_update_info info = {.size = sizeof info};
        pair_must(weft_diff(h.layout, h.from, 2, h.to, 2, &options, &work, &sink, &info), "diff");
        assert_in_range(info.changed, 1000, 7 * 200);
        assert_true(info.bytes < 10000);
        weft_source source = memory_source(&file);
        pair_must(weft_update_open(NULL, &source, &update), "open");
        if (l == 1) { /* once is enough: it is proved before it is written */
            pair_must(weft_update_apply(update, h.layout, h.from, 2, &work, NULL), "apply");
            for (uint64_t u = 0; u <= last; u += u == 1 ? WRAP / TILE - 2 : u == WRAP / TILE + 2 ? last - u : 1) {
                uint64_t first = u == 0 ? 0 : PACK + h.layout->units[u].first;
                assert_memory_equal(h.base + first, h.target + first, h.layout->units[u].count);
            }
        }
        weft_update_close(update);
        memory_free(&file);
    }
    huge_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_units),
        cmocka_unit_test(parts_are_named),
        cmocka_unit_test(positions_wrap_within_a_run),
        cmocka_unit_test(through_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
