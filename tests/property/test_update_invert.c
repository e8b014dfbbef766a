/* Update files turned round: back by their frames or with their base, there again, merged on the way, and refused where
 * they do not say what was there before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/update_chain.h"

static weft_status invert(const chain *c, weft_update_file *update, const uint8_t *base, const char *level,
                          memory_file *file, weft_update_info *info)
{
    weft_piece pieces[TENSORS];
    weft_sink sink = memory_sink(file);
    file->bytes = 0;
    if (base)
        pieces_of(c, (uint8_t *)(uintptr_t)base, pieces);
    return weft_update_invert(update, base ? c->layout : NULL, base ? pieces : NULL, base ? TENSORS : 0, level, NULL, 0,
                              NULL, &sink, info);
}

static void must(weft_status status)
{
    if (status != WEFT_OK)
        fail_msg("%s", weft_last_error());
}

/* An update of level fast and its opposite; the opposite of the opposite is the update, byte for byte. */
static void fast_updates_turn_round_by_their_frames(void **state)
{
    static const uint64_t sparsities[] = {0, 1, 3, 90, 20000};
    (void)state;
    for (size_t i = 0; i < COUNT(sparsities); i++) {
        chain c;
        memory_file back = {0}, again = {0};
        weft_update_info info = {.size = sizeof info};
        chain_open(&c);
        chain_step(&c, sparsities[i], "fast");
        must(invert(&c, c.updates[0], NULL, i % 2 ? "fast" : NULL, &back, &info));
        leads_to(&c, &back, 1, 0);
        assert_int_equal(info.bytes, c.files[0].bytes);
        assert_int_equal(info.base.number, 2);
        assert_int_equal(info.target.number, 1);
        weft_update_file *turned = opened(&back);
        must(invert(&c, turned, NULL, NULL, &again, NULL));
        assert_int_equal(again.bytes, c.files[0].bytes);
        assert_memory_equal(again.data, c.files[0].data, again.bytes);
        weft_update_close(turned);
        memory_free(&again);
        memory_free(&back);
        chain_close(&c);
    }
}

/* With the base any level turns into any other. */
static void any_update_turns_round_with_its_base(void **state)
{
    (void)state;
    for (size_t from = 0; from < COUNT(levels); from++) {
        for (size_t to = 0; to < COUNT(levels); to++) {
            chain c;
            memory_file back = {0}, forth = {0};
            weft_update_info info = {.size = sizeof info}, there = {.size = sizeof there};
            chain_open(&c);
            chain_step(&c, 1 + 40 * from, levels[from]);
            must(invert(&c, c.updates[0], c.image[0], levels[to], &back, &info));
            assert_string_equal(info.level, levels[to]);
            assert_int_equal(info.bytes, back.bytes);
            leads_to(&c, &back, 1, 0);
            must(merge_into(&c, 0, 1, true, levels[to], &forth, &there));
            assert_int_equal(info.changed, there.changed);
            memory_free(&forth);
            memory_free(&back);
            chain_close(&c);
        }
    }
}

/* Three versions back at once: the opposites in reverse order, merged. */
static void opposites_merge(void **state)
{
    chain c;
    memory_file parts[3] = {{0}}, merged = {0};
    weft_update_file *back[3], *mixed[2];
    weft_update_info info = {.size = sizeof info};
    weft_sink sink = memory_sink(&merged);
    (void)state;
    chain_open(&c);
    for (uint32_t v = 0; v < 3; v++)
        chain_step(&c, 1 + 300 * v, "fast");
    for (uint32_t i = 0; i < 3; i++) {
        must(invert(&c, c.updates[2 - i], NULL, NULL, &parts[i], NULL));
        back[i] = opened(&parts[i]);
    }
    must(weft_update_merge(back, 3, NULL, NULL, 0, NULL, NULL, &sink, &info));
    assert_int_equal(info.base.number, 4);
    assert_int_equal(info.target.number, 1);
    leads_to(&c, &merged, 3, 0);
    mixed[0] = back[0]; /* back by one, and by one more under a label that leads on */
    mixed[1] = c.updates[2];
    must(weft_update_merge(mixed, 2, NULL, NULL, 0, NULL, NULL, &sink, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        weft_update_close(back[i]);
        memory_free(&parts[i]);
    }
    memory_free(&merged);
    chain_close(&c);
}

static void what_was_there_is_asked_for(void **state)
{
    static const char *const absolute[] = {"full", "pairs", "tight"};
    chain c;
    memory_file back = {0};
    (void)state;
    chain_open(&c);
    for (size_t i = 0; i < COUNT(absolute); i++) {
        chain_step(&c, 50, absolute[i]);
        assert_int_equal(invert(&c, c.updates[i], NULL, NULL, &back, NULL), WEFT_E_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "base"));
        assert_int_equal(invert(&c, c.updates[i], c.image[i + 1], NULL, &back, NULL), WEFT_E_BASE);
    }
    chain_step(&c, 50, "fast");
    assert_int_equal(invert(&c, c.updates[3], NULL, "tight", &back, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(invert(&c, c.updates[3], NULL, "thick", &back, NULL), WEFT_E_ARGUMENT);
    memory_free(&back);
    chain_close(&c);
}

/* An attachment takes the place of one that the update does not know. */
static void attachments_are_the_callers(void **state)
{
    chain c;
    weft_piece base[TENSORS], target[TENSORS];
    memory_file file = {0}, back = {0};
    weft_sink sink = memory_sink(&file), out = memory_sink(&back);
    weft_diff_options options = {.size = sizeof options, .level = "fast", .attachment = "new", .attachment_bytes = 3};
    uint64_t bytes;
    char text[8] = "";
    (void)state;
    chain_open(&c);
    chain_step(&c, 50, "fast");
    pieces_of(&c, c.image[0], base);
    pieces_of(&c, c.image[1], target);
    must(weft_diff(c.layout, base, TENSORS, target, TENSORS, &options, NULL, &sink, NULL));
    weft_update_file *update = opened(&file), *turned;
    for (int bound = 0; bound < 2; bound++) {
        const weft_piece *pieces = bound ? base : NULL;
        const uint64_t count = bound ? TENSORS : 0;
        back.bytes = 0;
        assert_int_equal(weft_update_invert(update, c.layout, pieces, count, NULL, NULL, 0, NULL, &out, NULL),
                         WEFT_E_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "attachment of 3 bytes"));
        must(weft_update_invert(update, c.layout, pieces, count, NULL, "old", 3, NULL, &out, NULL));
        turned = opened(&back);
        must(weft_update_attachment(turned, text, sizeof text, &bytes));
        assert_int_equal(bytes, 3);
        assert_memory_equal(text, "old", 3);
        weft_update_close(turned);
        leads_to(&c, &back, 1, 0);
    }
    weft_update_close(update);
    memory_free(&file);
    memory_free(&back);
    chain_close(&c);
}

/* A struck byte among the frames is found, and a callback's end is the call's. */
static weft_status stop(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return done < total / 2 ? WEFT_OK : WEFT_E_TIMEOUT;
}

static void damage_and_ends_are_said(void **state)
{
    chain c;
    memory_file back = {0};
    weft_sink sink = memory_sink(&back);
    weft_work work = {.size = sizeof work, .threads = 1, .progress = stop};
    weft_update_header header = {.size = sizeof header};
    (void)state;
    chain_open(&c);
    chain_step(&c, 20, "fast");
    must(weft_update_describe(c.updates[0], &header));
    for (uint64_t at = 200; at < header.frame_bytes; at += header.frame_bytes / 7) {
        c.files[0].data[at] ^= 4;
        const weft_status status = invert(&c, c.updates[0], NULL, NULL, &back, NULL);
        assert_true(status == WEFT_E_CHECK || status == WEFT_E_CORRUPT);
        c.files[0].data[at] ^= 4;
    }
    assert_int_equal(weft_update_invert(c.updates[0], NULL, NULL, 0, NULL, NULL, 0, &work, &sink, NULL),
                     WEFT_E_TIMEOUT);
    memory_free(&back);
    chain_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_updates_turn_round_by_their_frames),
        cmocka_unit_test(any_update_turns_round_with_its_base),
        cmocka_unit_test(opposites_merge),
        cmocka_unit_test(what_was_there_is_asked_for),
        cmocka_unit_test(attachments_are_the_callers),
        cmocka_unit_test(damage_and_ends_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
