/* Weights that are led along the files of a store: all of them, or none, and round what is damaged. */
#define CHAIN_FIRST 5000 /* because many stores are made */

#include "tests/support/store_forge.h"

/* ---- all or none */

/* Puts a byte of the frames of a file out. */
static void frame_flip(const world *w, uint32_t v, weft_store_kind kind)
{
    weft_update_file *update = NULL;
    assert_int_equal(weft_store_file_open(w->store, &w->store->versions[v].files[kind], &update), WEFT_OK);
    file_flip(w, v, kind, update->frames_at + update->trailer.frame_bytes / 2);
    weft_update_close(update);
}

/* Changes an update so that each file by itself is whole, and leads to other bits than those of its version. */
static void update_forge(world *w, uint32_t v, uint32_t image)
{
    memory_file file = {0};
    const weft_diff_options options = {
        .size = sizeof options, .level = "fast", .base = label(v - 1), .target = label(v)};
    diff_made(w, v - 1, image, &options, &file);
    root_replace(&file, w->store->versions[image].version.root, w->store->versions[v].version.root);
    file_write(w, v, WEFT_STORE_UPDATE, &file);
    memory_free(&file);
}

/* Changes an update so that a frame that checks right says it has one more change than it has. */
static void update_break(world *w, uint32_t v)
{
    memory_file file = {0};
    const weft_diff_options options = {
        .size = sizeof options, .level = "fast", .base = label(v - 1), .target = label(v)};
    diff_made(w, v - 1, v, &options, &file);
    uint8_t *frame = file.data + weft_frame_pad(128 + 2 * weft_bytes_get(file.data + 110, 2));
    weft_bytes_put(frame + 8, weft_bytes_get(frame + 8, 4) + 1, 4);
    reseal(file.data, file.bytes);
    file_write(w, v, WEFT_STORE_UPDATE, &file);
    memory_free(&file);
}

enum { FLIPPED, BROKEN, FORGED };

/* Of six versions one update is damaged, and no other way is there. */
static void test_no_weight_moves_on_a_way_that_fails(void **state)
{
    static const struct {
        int how;
        uint32_t damaged, held, to; /* held: 6 is no version */
        weft_status status;
    } rows[] = {{FLIPPED, 3, 0, 5, WEFT_E_CHECK},  {FLIPPED, 5, 0, 5, WEFT_E_CHECK},  {FLIPPED, 3, 6, 5, WEFT_E_CHECK},
                {BROKEN, 1, 0, 5, WEFT_E_CORRUPT}, {BROKEN, 3, 0, 4, WEFT_E_CORRUPT}, {BROKEN, 2, 6, 5, WEFT_E_CORRUPT},
                {FORGED, 1, 0, 5, WEFT_E_TARGET},  {FORGED, 2, 0, 5, WEFT_E_TARGET},  {FORGED, 4, 0, 5, WEFT_E_TARGET},
                {FORGED, 5, 0, 5, WEFT_E_TARGET},  {FORGED, 2, 6, 4, WEFT_E_TARGET},  {FORGED, 4, 6, 4, WEFT_E_TARGET}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        world w;
        world_open(&w, 64);
        world_fill(&w, 7);
        if (rows[i].how == FLIPPED)
            frame_flip(&w, rows[i].damaged, WEFT_STORE_UPDATE);
        else if (rows[i].how == BROKEN)
            update_break(&w, rows[i].damaged);
        else
            update_forge(&w, rows[i].damaged, 6);
        memcpy(w.c.work, w.c.image[rows[i].held], image_bytes(&w.c));
        w.c.work[0] ^= rows[i].held == 6;
        uint8_t *before = malloc(image_bytes(&w.c));
        memcpy(before, w.c.work, image_bytes(&w.c));
        const weft_status status = move(&w, rows[i].to, NULL);
        if (status != rows[i].status)
            fail_msg("row %zu: %s: %s", i, weft_status_name(status), weft_last_error());
        assert_memory_equal(w.c.work, before, image_bytes(&w.c));
        for (uint32_t v = 1; v < 7; v++) /* and the file at fault is known, no other */
            if ((w.store->versions[v].files[WEFT_STORE_UPDATE].status != WEFT_OK) != (v == rows[i].damaged))
                fail_msg("row %zu: update %u: %s", i, v,
                         weft_status_name(w.store->versions[v].files[WEFT_STORE_UPDATE].status));
        moves(&w, rows[i].damaged - 1, NULL); /* what lies before is there */
        free(before);
        world_close(&w);
    }
}

static void test_a_way_back_that_fails_is_gone_round(void **state)
{
    world w;
    weft_store_info info = {.size = sizeof info};
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 6);
    moves(&w, 5, NULL);
    frame_flip(&w, 4, WEFT_STORE_UPDATE);
    moves(&w, 3, &info);
    assert_true(info.damaged == 1 && info.anchors == 1 && info.files == 4);
    world_close(&w);
}

/* An anchor is damaged, and the way of the weights themselves is the next. */
static void test_after_an_anchor_the_weights_are_looked_at_again(void **state)
{
    world w;
    weft_store_info info = {.size = sizeof info};
    (void)state;
    world_open(&w, 4);
    for (uint32_t v = 0; v < 7; v++) {
        if (v > 0)
            chain_step(&w.c, 50, "fast");
        weft_piece pieces[TENSORS];
        pieces_of(&w.c, w.c.image[v], pieces);
        for (uint64_t t = 0; t < TENSORS; t++) /* so an update is about as long as an anchor */
            for (uint64_t i = 0; i < w.c.layout->entries[t].bytes; i++)
                ((uint8_t *)pieces[t].data)[i] = (uint8_t)roll();
        assert_int_equal(put(&w, v), WEFT_OK);
    }
    moves(&w, 6, NULL);
    frame_flip(&w, 3, WEFT_STORE_ANCHOR); /* which is shorter than three updates */
    moves(&w, 3, &info);
    if (info.damaged != 1 || info.anchors != 0 || info.files != 3)
        fail_msg("%d damaged, %d anchors of %d files", (int)info.damaged, (int)info.anchors, (int)info.files);
    world_close(&w);
}

/* A way of more files than are open at once. */
static void test_a_long_way(void **state)
{
    enum { LONG = WEFT_STORE_STEPS + 6 };
    world w;
    char path[512];
    weft_piece base[TENSORS], target[TENSORS];
    weft_store_info info = {.size = sizeof info};
    const weft_version last = label(LONG - 1);
    (void)state;
    world_open(&w, 1000);
    assert_int_equal(put(&w, 0), WEFT_OK);
    pieces_of(&w.c, w.c.image[0], base);
    pieces_of(&w.c, w.c.work, target);
    memcpy(w.c.work, w.c.image[0], image_bytes(&w.c));
    uint8_t *next = malloc(image_bytes(&w.c));
    for (uint32_t v = 1; v < LONG; v++) {
        const weft_store_put_options options = {.size = sizeof options, .base = label(v - 1), .target = label(v)};
        memcpy(next, w.c.work, image_bytes(&w.c));
        pieces_of(&w.c, next, base);
        w.c.work[v]++;
        assert_int_equal(weft_store_put(w.store, w.c.layout, base, TENSORS, target, TENSORS, &options, NULL, NULL),
                         WEFT_OK);
        file_path(&w, v, WEFT_STORE_MERGE, path);
        remove(path);
    }
    store_reopen(&w);
    memset(next, 0, image_bytes(&w.c));
    pieces_of(&w.c, next, base);
    assert_int_equal(weft_store_apply(w.store, &last, w.c.layout, base, TENSORS, NULL, &info), WEFT_OK);
    assert_memory_equal(next, w.c.work, image_bytes(&w.c));
    assert_true(info.files == LONG && info.anchors == 1);
    const weft_version first = label(0);
    assert_int_equal(weft_store_apply(w.store, &first, w.c.layout, base, TENSORS, NULL, &info), WEFT_OK);
    assert_memory_equal(next, w.c.image[0], image_bytes(&w.c));
    assert_true(info.files == LONG - 1 && info.anchors == 0 &&
                info.damaged == 0); /* by updates, from stretch to stretch */
    free(next);
    world_close(&w);
}

/* A merge says that it leads from version 1 to 8, and its changes lead to other bits; or while the store is open it
 * becomes one from another base. */
static void test_changes_of_other_bits_are_gone_round(void **state)
{
    static const uint32_t ends[][2] = {{0, 6}, {1, 7}};
    (void)state;
    for (size_t i = 0; i < COUNT(ends); i++) {
        world w;
        memory_file file = {0};
        uint64_t faults = 0;
        weft_store_info info = {.size = sizeof info};
        const weft_diff_options options = {
            .size = sizeof options, .level = "fast", .base = label(0), .target = label(7)};
        world_open(&w, 64);
        world_fill(&w, 8);
        diff_made(&w, ends[i][0], ends[i][1], &options, &file);
        if (i == 0)
            root_replace(&file, w.store->versions[6].version.root, w.store->versions[7].version.root);
        file_write(&w, 7, WEFT_STORE_MERGE, &file);
        if (i == 0)
            store_reopen(&w);
        assert_true(weft_store_has(&w.store->versions[7], WEFT_STORE_MERGE)); /* both ends say so */
        moves(&w, 0, NULL);
        moves(&w, 7, &info);
        assert_int_equal(info.damaged, 1);
        assert_int_equal(info.files, 7);
        assert_int_equal(weft_store_check(w.store, NULL, NULL, NULL, &faults), WEFT_OK);
        assert_int_equal(faults, i == 0);
        memory_free(&file);
        world_close(&w);
    }
}

/* ---- weights */

static void test_weights_may_be_in_any_pieces(void **state)
{
    world w;
    weft_piece whole[TENSORS], halves[2 * TENSORS];
    const weft_version to = label(0);
    struct {
        weft_store_info info;
        uint64_t beyond;
    } room = {.info.size = offsetof(weft_store_info, damaged), .info.damaged = 77};
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 1);
    pieces_of(&w.c, w.c.work, whole);
    for (size_t t = 0; t < TENSORS; t++) {
        const uint64_t half = whole[t].count / 2, width = w.c.layout->entries[t].row->width;
        uint8_t *data = whole[t].data;
        halves[2 * (TENSORS - t) - 1] = (weft_piece){t, 0, half, data};
        halves[2 * (TENSORS - t) - 2] = (weft_piece){t, half, whole[t].count - half, data + half * width};
    }
    assert_int_equal(weft_store_apply(w.store, &to, w.c.layout, halves, 2 * TENSORS, NULL, &room.info), WEFT_OK);
    assert_memory_equal(w.c.work, w.c.image[0], image_bytes(&w.c));
    assert_true(room.info.files == 1 && room.info.anchors == 1 && room.info.damaged == 77);
    world_close(&w);
}

static void test_files_without_cuts_are_not_for_blocks(void **state)
{
    world w;
    weft_piece pieces[TENSORS];
    weft_block block = {0};
    const weft_version to = label(0);
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 1);
    pieces_of(&w.c, w.c.work, pieces);
    block.slice = weft_slice_whole(w.c.layout, 0);
    block.data = pieces[0].data;
    assert_int_equal(weft_store_apply_blocks(w.store, &to, w.c.layout, &block, 1, NULL, NULL), WEFT_E_LAYOUT);
    is_said("of a trainer without cuts");
    for (uint64_t i = 0; i < image_bytes(&w.c); i++)
        assert_int_equal(w.c.work[i], 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_weight_moves_on_a_way_that_fails),
        cmocka_unit_test(test_a_way_back_that_fails_is_gone_round),
        cmocka_unit_test(test_after_an_anchor_the_weights_are_looked_at_again),
        cmocka_unit_test(test_a_long_way),
        cmocka_unit_test(test_changes_of_other_bits_are_gone_round),
        cmocka_unit_test(test_weights_may_be_in_any_pieces),
        cmocka_unit_test(test_files_without_cuts_are_not_for_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
