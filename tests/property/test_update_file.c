/* Update files: made, read back, applied in place and as a stream, at every level; and what a file says of itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/update_pair.h"

/* ---- there and back */

static void applied_in_place(pair *p, uint32_t threads)
{
    weft_update_file *file = pair_open(p);
    weft_work work = {.size = sizeof work, .threads = threads};
    weft_apply_info info = {.size = sizeof info};
    weft_update_header header = {.size = sizeof header};
    assert_int_equal(weft_update_describe(file, &header), WEFT_OK);
    model_copy(&p->work, &p->base);
    if (weft_update_apply(file, p->base.layout, p->work.pieces, TENSORS, &work, &info) != WEFT_OK)
        fail_msg("not applied: %s", weft_last_error());
    same(&p->work, &p->target);
    assert_int_equal(info.version.number, 4);
    assert_int_equal(info.changed, header.changed);
    assert_int_equal(weft_update_apply(file, p->base.layout, p->work.pieces, TENSORS, &work, &info),
                     memcmp(p->base.data, p->target.data, p->base.bytes) ? WEFT_E_BASE : WEFT_OK);
    same(&p->work, &p->target);
    weft_update_close(file);
}

static void rewritten(pair *p, uint32_t threads)
{
    memory_file out = {0};
    weft_sink sink = memory_sink(&out);
    weft_update_file *file = pair_open(p);
    weft_work work = {.size = sizeof work, .threads = threads};
    if (weft_update_rewrite(file, p->base.layout, p->base.pieces, TENSORS, &work, &sink, NULL) != WEFT_OK)
        fail_msg("not rewritten: %s", weft_last_error());
    assert_int_equal(out.bytes, weft_layout_bytes(p->base.layout));
    const uint8_t *at = out.data;
    for (uint64_t t = 0; t < TENSORS; t++) {
        assert_memory_equal(at, p->target.pieces[t].data, p->base.layout->entries[t].bytes);
        at += p->base.layout->entries[t].bytes;
    }
    weft_update_close(file);
    memory_free(&out);
}

static uint64_t differing(const pair *p)
{
    uint64_t count = 0;
    for (uint64_t t = 0; t < TENSORS; t++) {
        const weft_layout_entry *entry = &p->base.layout->entries[t];
        const uint8_t *a = p->base.pieces[t].data, *b = p->target.pieces[t].data;
        for (uint64_t i = 0; i < entry->coded; i++)
            count += memcmp(a + i * entry->row->width, b + i * entry->row->width, entry->row->width) != 0;
    }
    return count;
}

static void every_level_there_and_back(void **state)
{
    static const uint64_t sparsities[] = {0, 5000, 100, 3, 1};
    (void)state;
    for (size_t s = 0; s < sizeof sparsities / sizeof *sparsities; s++) {
        for (size_t l = 0; l < LEVELS; l++) {
            pair p;
            uint64_t root;
            pair_make(&p, sparsities[s]);
            weft_update_info info = pair_diff(&p, levels[l], 1 + (uint32_t)l % 3);
            assert_int_equal(info.changed, differing(&p));
            assert_int_equal(weft_digest_tensors(p.base.layout, p.base.pieces, TENSORS, NULL, NULL, &root), WEFT_OK);
            assert_int_equal(info.base.root, root);
            assert_int_equal(weft_digest_tensors(p.base.layout, p.target.pieces, TENSORS, NULL, NULL, &root), WEFT_OK);
            assert_int_equal(info.target.root, root);
            applied_in_place(&p, 1 + (uint32_t)s % 2);
            rewritten(&p, 1);
            pair_free(&p);
        }
    }
}

static void threads_make_the_same_bytes(void **state)
{
    (void)state;
    pair p;
    pair_make(&p, 100);
    for (size_t l = 0; l < LEVELS; l++) {
        pair_diff(&p, levels[l], 1);
        uint64_t bytes = p.file.bytes;
        uint8_t *kept = malloc(bytes);
        memcpy(kept, p.file.data, bytes);
        pair_diff(&p, levels[l], 3);
        assert_int_equal(p.file.bytes, bytes);
        assert_memory_equal(p.file.data, kept, bytes);
        free(kept);
    }
    pair_free(&p);
}

/* ---- what a file says */

static void files_tell_what_they_are(void **state)
{
    (void)state;
    for (size_t l = 0; l < LEVELS; l++) {
        pair p;
        weft_update_header header = {.size = sizeof header};
        const weft_layout *layout;
        int named, exact;
        uint64_t changed = 0;
        weft_update_tensor tensors[TENSORS];
        pair_make(&p, 100);
        weft_update_info info = pair_diff(&p, levels[l], 1);
        weft_update_file *file = pair_open(&p);
        assert_int_equal(weft_update_describe(file, &header), WEFT_OK);
        assert_string_equal(header.level, levels[l]);
        assert_int_equal(header.bytes, info.bytes);
        assert_int_equal(header.changed, info.changed);
        assert_int_equal(header.elements, info.elements);
        assert_int_equal(header.tensors, TENSORS);
        assert_memory_equal(&header.base, &info.base, sizeof info.base);
        assert_memory_equal(&header.target, &info.target, sizeof info.target);
        assert_int_equal(weft_update_layout(file, &layout, &named), WEFT_OK);
        assert_int_equal(layout->unit_count, p.base.layout->unit_count);
        for (uint64_t u = 0; u < layout->unit_count; u++)
            assert_memory_equal(&layout->units[u], &p.base.layout->units[u], sizeof layout->units[u]);
        assert_int_equal(weft_update_tensors(file, p.base.layout, p.base.pieces, TENSORS, tensors, &exact), WEFT_OK);
        assert_int_equal(exact, 1);
        for (uint64_t t = 0; t < TENSORS; t++)
            changed += tensors[t].changed;
        assert_int_equal(changed, info.changed);
        assert_int_equal(weft_update_tensors(file, layout, NULL, 0, tensors, &exact), WEFT_OK);
        uint64_t told = 0;
        double bytes = 0;
        for (uint64_t t = 0; t < TENSORS; t++) {
            told += tensors[t].changed;
            bytes += tensors[t].bytes;
        }
        assert_true(!exact || told == info.changed);
        assert_true(fabs(bytes - (double)header.frame_bytes) < 1);
        weft_update_close(file);
        pair_free(&p);
    }
}

/* Names are there however little changes, because the figures for each tensor are for people. */
static void names_are_there_unless_not_wanted(void **state)
{
    static const uint64_t sparsities[] = {0, 100000, 3};
    static const char *const wishes[] = {NULL, "always", "never"};
    (void)state;
    for (size_t s = 0; s < sizeof sparsities / sizeof *sparsities; s++) {
        pair p;
        pair_make(&p, sparsities[s]);
        for (size_t w = 0; w < sizeof wishes / sizeof *wishes; w++) {
            weft_sink sink = memory_sink(&p.file);
            weft_diff_options options = {.size = sizeof options, .names = wishes[w]};
            const weft_layout *layout;
            int named;
            p.file.bytes = 0;
            assert_int_equal(
                weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, &options, NULL, &sink, NULL),
                WEFT_OK);
            weft_update_file *file = pair_open(&p);
            assert_int_equal(weft_update_layout(file, &layout, &named), WEFT_OK);
            assert_int_equal(named, w < 2);
            for (uint64_t t = 0; t < TENSORS; t++) {
                char number[16];
                snprintf(number, sizeof number, "#%u", (unsigned)t);
                assert_string_equal(layout->entries[t].tensor.name,
                                    named ? p.base.layout->entries[t].tensor.name : number);
            }
            weft_update_close(file);
        }
        weft_sink sink = memory_sink(&p.file);
        weft_diff_options options = {.size = sizeof options, .names = "sometimes"};
        assert_int_equal(
            weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, &options, NULL, &sink, NULL),
            WEFT_E_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "always or never"));
        pair_free(&p);
    }
}

/* Bits are matched by their roots, but numbers of one run grow; no labels, and those of other runs, are as they are. */
static void labels_do_not_lead_back(void **state)
{
    static const struct {
        weft_version base, target;
        weft_status status;
    } rows[] = {{{7, 5, 0}, {7, 4, 0}, WEFT_E_ARGUMENT},
                {{0, 1, 0}, {0, 0, 0}, WEFT_E_ARGUMENT},
                {{0, 0, 0}, {0, 0, 0}, WEFT_OK},
                {{9, 8, 0}, {2, 1, 0}, WEFT_OK}};
    (void)state;
    pair p;
    pair_make(&p, 1000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_sink sink = memory_sink(&p.file);
        weft_diff_options options = {.size = sizeof options, .base = rows[i].base, .target = rows[i].target};
        weft_update_info info = {.size = sizeof info};
        p.file.bytes = 0;
        assert_int_equal(
            weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, &options, NULL, &sink, &info),
            rows[i].status);
        assert_int_equal(p.file.bytes, info.bytes); /* nothing where it is refused */
        assert_true(info.target.number == rows[i].target.number || rows[i].status != WEFT_OK);
    }
    pair_free(&p);
}

/* The update between two sets of weights, written to a file in memory and opened. */
static weft_update_file *update_between(const weft_layout *layout, const weft_piece *from, const weft_piece *to,
                                        const char *level, memory_file *file)
{
    const weft_sink sink = memory_sink(file);
    const weft_diff_options options = {.size = sizeof options, .level = level};
    weft_update_file *update = NULL;
    assert_int_equal(weft_diff(layout, from, 1, to, 1, &options, NULL, &sink, NULL), WEFT_OK);
    const weft_source source = memory_source(file);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_OK);
    return update;
}

/* Frames coded as full say of one tensor, too, no more than which elements may have changed. */
static void full_frames_are_not_counted_without_the_base(void **state)
{
    static const uint64_t shape = 5000;
    static uint16_t base[5000], target[5000];
    (void)state;
    weft_layout *layout;
    weft_tensor only = {"a", WEFT_BF16, 1, &shape};
    assert_int_equal(weft_layout_create(&only, 1, &layout), WEFT_OK);
    const weft_piece from = {0, 0, shape, base}, to = {0, 0, shape, target};
    target[7] = 1;
    for (size_t l = 0; l < LEVELS; l++) {
        memory_file file = {0};
        weft_update_tensor tensor;
        weft_update_file *update = update_between(layout, &from, &to, levels[l], &file);
        int exact = -1;
        assert_int_equal(weft_update_tensors(update, layout, NULL, 0, &tensor, &exact), WEFT_OK);
        assert_int_equal(exact, l > 0);
        assert_int_equal(tensor.changed, l > 0 ? 1 : shape);
        assert_int_equal(weft_update_tensors(update, layout, &from, 1, &tensor, &exact), WEFT_OK);
        assert_int_equal(exact, 1);
        assert_int_equal(tensor.changed, 1);
        weft_update_close(update);
        memory_free(&file);
    }
    weft_layout_free(layout);
}

/* Without a base, zeros stand for the largest tensor, and new bits of zero are a change as others are. */
static void positions_are_told_without_the_base(void **state)
{
    enum { ELEMENTS = 1u << 25 }; /* no other mapping goes as far */
    static const uint64_t shape = ELEMENTS;
    static uint16_t base[ELEMENTS], target[ELEMENTS];
    (void)state;
    weft_layout *layout;
    weft_tensor only = {"a", WEFT_BF16, 1, &shape};
    assert_int_equal(weft_layout_create(&only, 1, &layout), WEFT_OK);
    const weft_piece from = {0, 0, shape, base}, to = {0, 0, shape, target};
    base[7] = base[ELEMENTS - 1] = 1;
    target[7] = 2;
    for (size_t l = 1; l < LEVELS - 1; l++) {
        memory_file file = {0};
        weft_update_tensor tensor;
        weft_update_file *update = update_between(layout, &from, &to, levels[l], &file);
        int exact = -1;
        assert_int_equal(weft_update_tensors(update, layout, NULL, 0, &tensor, &exact), WEFT_OK);
        assert_int_equal(exact, 1);
        assert_int_equal(tensor.changed, 2);
        weft_update_close(update);
        memory_free(&file);
    }
    weft_layout_free(layout);
}

static void attachments_travel(void **state)
{
    static const char text[] = "{\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1,\"a\":1}";
    (void)state;
    pair p;
    pair_make(&p, 1000);
    for (uint64_t length = 0; length <= sizeof text; length++) {
        weft_sink sink = memory_sink(&p.file);
        weft_diff_options options = {.size = sizeof options, .attachment = text, .attachment_bytes = length};
        char got[sizeof text];
        uint64_t bytes;
        p.file.bytes = 0;
        assert_int_equal(
            weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, &options, NULL, &sink, NULL),
            WEFT_OK);
        weft_update_file *file = pair_open(&p);
        assert_int_equal(weft_update_attachment(file, got, sizeof got, &bytes), WEFT_OK);
        assert_int_equal(bytes, length);
        assert_memory_equal(got, text, length);
        weft_update_close(file);
    }
    static const struct {
        const void *data;
        uint64_t bytes;
        const char *words;
    } none[] = {{text, WEFT_ATTACHMENT_MAX + 1, "diff: an attachment of 268435457 bytes; the most is 268435456"},
                {NULL, 7, "diff: an attachment of 7 bytes at NULL"}};
    for (size_t i = 0; i < 2; i++) {
        weft_sink sink = memory_sink(&p.file);
        weft_diff_options options = {
            .size = sizeof options, .attachment = none[i].data, .attachment_bytes = none[i].bytes};
        assert_int_equal(
            weft_diff(p.base.layout, p.base.pieces, TENSORS, p.target.pieces, TENSORS, &options, NULL, &sink, NULL),
            WEFT_E_ARGUMENT);
        assert_string_equal(weft_last_error(), none[i].words);
    }
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_there_and_back),
        cmocka_unit_test(threads_make_the_same_bytes),
        cmocka_unit_test(files_tell_what_they_are),
        cmocka_unit_test(full_frames_are_not_counted_without_the_base),
        cmocka_unit_test(positions_are_told_without_the_base),
        cmocka_unit_test(attachments_travel),
        cmocka_unit_test(labels_do_not_lead_back),
        cmocka_unit_test(names_are_there_unless_not_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
