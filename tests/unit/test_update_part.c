/* Updates of cells, applied to a few keys: what is read, what is proved, and whose fault is which. And files that say
 * of themselves what is not so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "shard/holding.h"
#include "tests/support/memory_file.h"
#include "update/update_move.h"
#include "update/update_writer.h"

enum { TENSORS = 7, ELEMENTS = 8 }; /* cells, each of so many elements at most */

/* A model with four keys: norm, and three parts of q and up. */
static weft_layout *model, *whole;
static weft_cells cells;
static float base[TENSORS][ELEMENTS], target[TENSORS][ELEMENTS];
static memory_file file;

static void pieces_of(float bits[TENSORS][ELEMENTS], weft_piece pieces[TENSORS])
{
    for (uint64_t t = 0; t < TENSORS; t++)
        pieces[t] = (weft_piece){t, 0, whole->entries[t].elements, bits[t]};
}

static uint64_t digests_of(float bits[TENSORS][ELEMENTS], uint64_t digests[TENSORS])
{
    weft_piece pieces[TENSORS];
    pieces_of(bits, pieces);
    memset(digests, 0, TENSORS * sizeof *digests);
    assert_int_equal(weft_update_digest(whole, pieces, TENSORS, NULL, digests), WEFT_OK);
    return weft_digest_parts_root(whole, digests);
}

/* Turns the frames of a plain update into an update of cells. */
static void divide(memory_file *plain)
{
    const weft_source source = memory_source(plain);
    const weft_sink sink = memory_sink(&file);
    weft_update_file *from = NULL;
    weft_update_cells list;
    weft_update_writer writer;
    weft_update_cursor cursor;
    uint64_t digests[TENSORS], bytes = 1;
    const uint8_t *frame;
    assert_int_equal(weft_update_open(NULL, &source, &from), WEFT_OK);
    assert_int_equal(weft_update_cells_open(model, &cells, &list), WEFT_OK);
    const uint64_t base_root = digests_of(base, digests);
    weft_update_cells_base(&list, whole, digests);
    weft_version to = {from->header.target.run, from->header.target.number, digests_of(target, digests)};
    weft_update_cells_target(&list, whole, digests);
    from->header.parameters.run_shift = 1; /* a word, and so two zeros before the frames */
    assert_int_equal(weft_update_writer_begin(&writer, &sink, &from->header, NULL, 0), WEFT_OK);
    weft_update_writer_divide(&writer, whole, &list);
    assert_int_equal(weft_update_cursor_open(&cursor, from, whole), WEFT_OK);
    while (weft_update_cursor_next(&cursor, UINT64_MAX, &frame, &bytes) == WEFT_OK && bytes > 0)
        assert_int_equal(weft_update_writer_frames(&writer, frame, bytes), WEFT_OK);
    assert_int_equal(weft_update_writer_finish(&writer, whole, true, base_root, &to, from->trailer.changed), WEFT_OK);
    weft_update_cursor_close(&cursor);
    weft_update_writer_close(&writer);
    weft_update_cells_close(&list);
    weft_update_close(from);
}

static int setup(void **state)
{
    static const uint64_t q[] = {6, 4}, norm[] = {4}, up[] = {3, 4};
    const weft_tensor tensors[] = {{"q", WEFT_F32, 2, q}, {"norm", WEFT_F32, 1, norm}, {"up", WEFT_F32, 2, up}};
    const weft_cut cut = {.name = "c", .patterns = "q, up", .kind = WEFT_CUT_ROWS, .parts = 3};
    const weft_diff_options options = {.size = sizeof options, .level = "fast", .base = {7, 3, 0}, .target = {7, 4, 0}};
    memory_file plain = {0};
    const weft_sink sink = memory_sink(&plain);
    weft_piece from[TENSORS], to[TENSORS];
    (void)state;
    assert_int_equal(weft_layout_create(tensors, 3, &model), WEFT_OK);
    assert_int_equal(weft_cells_open(model, &cut, 1, &cells), WEFT_OK);
    assert_int_equal(weft_holding_layout(model, cells.cells, cells.count, &whole), WEFT_OK);
    assert_true(whole->count == TENSORS && cells.key_count == 4);
    for (uint64_t t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < ELEMENTS; i++)
            target[t][i] = (base[t][i] = (float)(100 * t + i)) + (i % 3 == 0 ? 1 : 0);
    pieces_of(base, from);
    pieces_of(target, to);
    assert_int_equal(weft_diff(whole, from, TENSORS, to, TENSORS, &options, NULL, &sink, NULL), WEFT_OK);
    divide(&plain);
    memory_free(&plain);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    memory_free(&file);
    weft_layout_free(whole);
    weft_cells_close(&cells);
    weft_layout_free(model);
    return 0;
}

static weft_update_file *opened(void)
{
    const weft_source source = memory_source(&file);
    weft_update_file *update = NULL;
    if (weft_update_open(NULL, &source, &update) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return update;
}

/* ---- keys 1 and 3 */

typedef struct part_world {
    weft_excerpt view;
    weft_binding weights;
    weft_mover mover;
    weft_update_step step;
    weft_update_file *update;
    weft_update_cells *list; /* the update's, which tests change */
    float bits[TENSORS][ELEMENTS];
    weft_piece pieces[TENSORS];
} part_world;

static void load(part_world *w, float from[TENSORS][ELEMENTS])
{
    uint64_t left;
    for (uint64_t t = 0; t < w->view.layout->count; t++)
        memcpy(w->bits[t], from[weft_number_of_own(&w->view.tensors, t, &left)], sizeof w->bits[t]);
}

static void has(const part_world *w, float wanted[TENSORS][ELEMENTS])
{
    uint64_t left;
    for (uint64_t t = 0; t < w->view.layout->count; t++)
        assert_memory_equal(w->bits[t], wanted[weft_number_of_own(&w->view.tensors, t, &left)],
                            w->view.layout->entries[t].bytes);
}

static void world_open(part_world *w)
{
    const weft_view_keys keys = {{{1, 1}, {3, 1}}, 2};
    const weft_update_cells *list;
    memset(w, 0, sizeof *w);
    assert_int_equal(weft_excerpt_open(model, &cells, whole, &keys, &w->view), WEFT_OK);
    for (uint64_t t = 0; t < w->view.layout->count; t++)
        w->pieces[t] = (weft_piece){t, 0, w->view.layout->entries[t].elements, w->bits[t]};
    assert_int_equal(weft_binding_open(w->view.layout, w->pieces, w->view.layout->count, &w->weights), WEFT_OK);
    w->update = opened();
    assert_int_equal(weft_update_division(w->update, &list), WEFT_OK);
    w->list = (weft_update_cells *)(uintptr_t)list;
    load(w, base);
}

static void world_close(part_world *w)
{
    weft_mover_close(&w->mover);
    weft_update_close(w->update);
    weft_binding_close(&w->weights);
    weft_excerpt_close(&w->view);
}

/* Proves the update and writes what it leads to. */
static weft_status move(part_world *w, bool back)
{
    weft_mover_close(&w->mover);
    assert_int_equal(weft_mover_open(&w->mover, whole, &w->view, &w->weights, NULL), WEFT_OK);
    w->mover.passes = 2;
    w->step = (weft_update_step){.file = w->update, .back = back};
    weft_status status = weft_mover_way(&w->mover, &w->step, 1, false);
    if (status == WEFT_OK)
        status = weft_mover_prove(&w->mover);
    return status == WEFT_OK ? weft_mover_write(&w->mover, &w->weights) : status;
}

static void there_and_back(void **state)
{
    part_world w;
    (void)state;
    world_open(&w);
    assert_int_equal(move(&w, false), WEFT_OK);
    has(&w, target);
    assert_int_equal(w.step.bytes, w.list->shares[1].bytes + w.list->shares[3].bytes); /* and no others were read */
    assert_int_equal(move(&w, true), WEFT_OK);
    has(&w, base);
    world_close(&w);
}

static void nothing(part_world *w)
{
    (void)w;
}

static void one_weight(part_world *w)
{
    w->bits[3][0] += 1; /* of the last key */
}

static void target_sum(part_world *w)
{
    w->list->shares[3].target++;
}

static void base_sum(part_world *w)
{
    w->list->shares[3].base++;
}

static void other_hash(part_world *w)
{
    w->update->header.layout[1]++;
}

static void next_frames(part_world *w) /* of key 2, which the view has not, said to be of key 1 */
{
    w->list->shares[1].frames += w->list->shares[2].frames;
    w->list->shares[1].bytes += w->list->shares[2].bytes;
    w->list->shares[2].frames = w->list->shares[2].bytes = 0;
}

/* A wrong base is the weights' fault, a wrong result the update's, on either way. */
static void what_is_refused(void **state)
{
    static const struct {
        void (*change)(part_world *w);
        bool back, at_target; /* the way, and the bits before */
        weft_status status;
    } rows[] = {{nothing, true, false, WEFT_E_BASE},       {nothing, false, true, WEFT_E_BASE},
                {one_weight, false, false, WEFT_E_BASE},   {one_weight, true, true, WEFT_E_BASE},
                {base_sum, false, false, WEFT_E_BASE},     {target_sum, true, true, WEFT_E_BASE},
                {target_sum, false, false, WEFT_E_TARGET}, {base_sum, true, true, WEFT_E_TARGET},
                {other_hash, false, false, WEFT_E_LAYOUT}, {next_frames, false, false, WEFT_E_CORRUPT}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        part_world w;
        world_open(&w);
        load(&w, rows[i].at_target ? target : base);
        rows[i].change(&w);
        float before[TENSORS][ELEMENTS];
        memcpy(before, w.bits, sizeof before);
        const weft_status status = move(&w, rows[i].back);
        assert_memory_equal(w.bits, before, sizeof before);
        if (status != rows[i].status)
            fail_msg("row %zu: %s", i, weft_status_name(status));
        world_close(&w);
    }
}

/* ---- files that contradict themselves */

static void sums_and_hashes_are_proved(void **state)
{
    const uint64_t blocks = weft_mem_blocks();
    (void)state;
    for (int row = 0; row < 5; row++) {
        weft_update_file *update = opened();
        const weft_layout *layout;
        int named;
        update->header.base.root += row == 0;
        update->header.target.root += row == 1;
        update->trailer.frames += row == 2;
        update->trailer.frame_bytes += row == 3;
        update->header.layout[0] += row == 4;
        for (int again = 0; again < 2; again++) /* what was refused once is refused again */
            assert_int_equal(weft_update_layout(update, &layout, &named), WEFT_E_CORRUPT);
        weft_update_close(update);
        assert_int_equal(weft_mem_blocks(), blocks);
    }
}

static void the_grid_is_the_layouts(void **state)
{
    static const uint64_t eight[] = {8}, nine[] = {9};
    static float bits[9];
    const weft_tensor narrow = {"w", WEFT_F32, 1, eight}, wide = {"w", WEFT_F32, 1, nine};
    const weft_piece piece = {0, 0, 8, bits}, all = {0, 0, 9, bits};
    const weft_diff_options options = {.size = sizeof options, .names = "never"};
    memory_file out = {0};
    const weft_sink sink = memory_sink(&out);
    weft_layout *a = NULL, *b = NULL;
    weft_update_file *update = NULL;
    (void)state;
    assert_int_equal(weft_layout_create(&narrow, 1, &a), WEFT_OK);
    assert_int_equal(weft_layout_create(&wide, 1, &b), WEFT_OK);
    assert_int_equal(weft_diff(a, &piece, 1, &piece, 1, &options, NULL, &sink, NULL), WEFT_OK);
    const weft_source source = memory_source(&out);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_OK);
    assert_int_equal(weft_update_apply(update, b, &all, 1, NULL, NULL), WEFT_E_LAYOUT);
    memcpy(update->header.layout, b->hash, sizeof b->hash);
    assert_int_equal(weft_update_apply(update, b, &all, 1, NULL, NULL), WEFT_E_CORRUPT);
    weft_update_close(update);
    memory_free(&out);
    weft_layout_free(a);
    weft_layout_free(b);
}

/* The zeros that fill the header up, under a check that fits. */
static void zeros_are_zeros(void **state)
{
    uint8_t *zero = file.data + WEFT_UPDATE_HEADER_BYTES + 3;
    (void)state;
    for (uint8_t byte = 0; byte < 2; byte++) {
        const weft_source source = memory_source(&file);
        weft_update_file *update = opened(), *again = NULL;
        uint8_t *end = file.data + file.bytes - WEFT_TAIL_BYTES - WEFT_UPDATE_TRAILER_BYTES;
        assert_true(update->frames_at == WEFT_UPDATE_HEADER_BYTES + 4 && *zero == 0);
        *zero = byte;
        const weft_update_sections sections = {.head = file.data,
                                               .head_bytes = update->frames_at,
                                               .shape = update->shape,
                                               .shape_bytes = update->tail.shape_bytes,
                                               .cells = update->cells,
                                               .cells_bytes = update->cells_bytes,
                                               .checks = update->checks,
                                               .checks_bytes = 8 * update->trailer.frames,
                                               .tail = end,
                                               .trailer = end + WEFT_TAIL_BYTES};
        weft_bytes_put(end + 16, weft_update_check(&sections), 8);
        assert_int_equal(weft_update_open(NULL, &source, &again), byte ? WEFT_E_CORRUPT : WEFT_OK);
        *zero = 0;
        weft_bytes_put(end + 16, update->tail.check, 8);
        weft_update_close(again);
        weft_update_close(update);
    }
}

/* A frame of two units, where the run of the first has one. */
static void no_frame_leaves_its_run(void **state)
{
    (void)state;
    for (uint32_t units = 1; units <= 2; units++) {
        weft_update_file *update = opened();
        weft_update_cursor cursor;
        const uint8_t *frame;
        uint64_t bytes;
        uint8_t *first = file.data + update->frames_at;
        const uint64_t length = weft_frame_measure(first, update->trailer.frame_bytes);
        update->header.parameters.run_shift = 2;
        weft_bytes_put(first + 8, (weft_bytes_get(first + 8, 4) & ((1u << 20) - 1)) | (units - 1) << 20, 4);
        weft_bytes_put((uint8_t *)(uintptr_t)update->checks, weft_frame_check(first, length), 8);
        assert_int_equal(weft_update_cursor_open(&cursor, update, whole), WEFT_OK);
        assert_int_equal(weft_update_cursor_next(&cursor, UINT64_MAX, &frame, &bytes),
                         units == 1 ? WEFT_OK : WEFT_E_CORRUPT);
        weft_update_cursor_close(&cursor);
        weft_update_close(update);
    }
}

static void a_pipe_is_no_file(void **state)
{
    char folder[] = "/tmp/weft-part-XXXXXX", path[64];
    weft_update_file *update = NULL;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(weft_update_open(path, NULL, &update), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "not a regular file"));
    assert_null(update);
    unlink(path);
    rmdir(folder);
}

/* A file is named or its bytes are given. Both at once would leave open which is meant. */
static void either_a_path_or_a_source(void **state)
{
    const weft_source source = {0};
    weft_update_file *update = NULL;
    (void)state;
    assert_int_equal(weft_update_open("/none", &source, &update), WEFT_E_ARGUMENT);
    assert_int_equal(weft_update_open(NULL, NULL, &update), WEFT_E_ARGUMENT);
    assert_int_equal(weft_update_open("/none", NULL, &update), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "/none: cannot be opened"));
    assert_null(update);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(either_a_path_or_a_source),
        cmocka_unit_test(sums_and_hashes_are_proved),
        cmocka_unit_test(the_grid_is_the_layouts),
        cmocka_unit_test(a_pipe_is_no_file),
        cmocka_unit_test(zeros_are_zeros),
        cmocka_unit_test(no_frame_leaves_its_run), /* last, because it changes the file */
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
