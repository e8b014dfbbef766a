/* Update files that cannot be made one: those that do not follow, other bases and layouts, struck bytes; and callers
 * who ask for an end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/support/update_chain.h"
#include "update/update_format.h"

static weft_status stop(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return WEFT_E_STATE;
}

static void what_does_not_follow_is_refused(void **state)
{
    chain c;
    memory_file out = {0};
    weft_piece other[TENSORS];
    weft_sink sink = memory_sink(&out);
    weft_work work = {.size = sizeof work, .threads = 1, .progress = stop};
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "tight");
    chain_step(&c, 100, "pairs");
    weft_update_file *skipped[] = {c.updates[0], c.updates[2]};
    assert_int_equal(weft_update_merge(skipped, 2, NULL, NULL, 0, NULL, NULL, &sink, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_update_merge(c.updates, 0, NULL, NULL, 0, NULL, NULL, &sink, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 1, 3, false, NULL, &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 2, 4, false, NULL, &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 0, 2, false, "tight", &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 0, 2, false, "pairs", &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 0, 2, false, "thick", &out, NULL), WEFT_E_ARGUMENT);
    pieces_of(&c, c.image[1], other);
    assert_int_equal(weft_update_merge(c.updates, 2, c.layout, other, TENSORS, NULL, NULL, &sink, NULL), WEFT_E_BASE);
    assert_int_equal(weft_update_merge(c.updates, 2, NULL, NULL, 0, NULL, &work, &sink, NULL), WEFT_E_STATE);
    memory_free(&out);
    out.room = 300;
    assert_int_equal(merge_into(&c, 0, 2, false, NULL, &out, NULL), WEFT_E_FILE);
    memory_free(&out);
    chain_close(&c);
}

/* What two files say of themselves fits, and they do not fit each other. */
static void what_contradicts_is_refused(void **state)
{
    static const struct {
        uint64_t layout, number, target, base;
        bool bound;
        weft_status status;
        const char *words;
    } rows[] = {{1, 0, 0, 0, false, WEFT_E_LAYOUT, "update 2 is for another layout than the first"},
                {0, 9, 0, 0, false, WEFT_E_ARGUMENT, "numbers must grow"},
                {0, 0, 1, 0, true, WEFT_E_TARGET, "the update's target"},
                {0, 0, 0, 1, false, WEFT_E_ARGUMENT, "update 2 starts from"}};
    chain c;
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "fast");
    for (size_t i = 0; i < COUNT(rows); i++) {
        memory_file out = {0};
        weft_update_file *none = NULL;
        c.updates[1]->header.layout[1] += rows[i].layout;
        c.updates[0]->header.base.number += rows[i].number;
        c.updates[1]->header.target.root += rows[i].target;
        c.updates[1]->trailer.target.root += rows[i].target;
        c.updates[1]->header.base.root += rows[i].base;
        const weft_status status = merge_into(&c, 0, 2, rows[i].bound, NULL, &out, NULL);
        if (status != rows[i].status || !strstr(weft_last_error(), rows[i].words))
            fail_msg("row %zu: %s: %s", i, weft_status_name(status), weft_last_error());
        weft_source source = memory_source(&out);
        assert_int_not_equal(weft_update_open(NULL, &source, &none), WEFT_OK); /* the sink has no whole file */
        c.updates[1]->header.layout[1] -= rows[i].layout;
        c.updates[0]->header.base.number -= rows[i].number;
        c.updates[1]->header.target.root -= rows[i].target;
        c.updates[1]->trailer.target.root -= rows[i].target;
        c.updates[1]->header.base.root -= rows[i].base;
        memory_free(&out);
    }
    chain_close(&c);
}

/* A caller of an earlier weft has a shorter struct for the figures. */
static void shorter_figures_are_taken(void **state)
{
    chain c;
    memory_file out = {0};
    weft_piece base[TENSORS], target[TENSORS];
    const weft_sink sink = memory_sink(&out);
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    pieces_of(&c, c.image[0], base);
    pieces_of(&c, c.image[1], target);
    for (int merges = 0; merges < 2; merges++) {
        weft_update_info info = {.size = offsetof(weft_update_info, changed), .changed = 99, .bytes = 98};
        out.bytes = 0;
        assert_int_equal(merges ? merge_into(&c, 0, 1, true, NULL, &out, &info)
                                : weft_diff(c.layout, base, TENSORS, target, TENSORS, NULL, NULL, &sink, &info),
                         WEFT_OK);
        assert_true(info.changed == 99 && info.bytes == 98 && info.elements > 0);
    }
    memory_free(&out);
    chain_close(&c);
}

/* The newest attachment of the merged updates, whichever of them brought it. */
static void the_newest_attachment_stays(void **state)
{
    static const struct {
        const char *first, *second, *merged;
    } rows[] = {{"one", "two", "two"}, {"one", "", "one"}, {"", "two", "two"}, {"", "", ""}};
    chain c;
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "fast");
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        const char *const said[] = {rows[i / 2].first, rows[i / 2].second};
        memory_file files[2] = {{0}}, out = {0};
        weft_update_file *updates[2], *merged;
        weft_piece pieces[3][TENSORS];
        const weft_sink sink = memory_sink(&out);
        char text[8] = "";
        uint64_t bytes;
        for (int v = 0; v < 3; v++)
            pieces_of(&c, c.image[v], pieces[v]);
        for (int u = 0; u < 2; u++) {
            const weft_sink to = memory_sink(&files[u]);
            const weft_diff_options options = {
                .size = sizeof options, .level = "fast", .attachment = said[u], .attachment_bytes = strlen(said[u])};
            assert_int_equal(weft_diff(c.layout, pieces[u], TENSORS, pieces[u + 1], TENSORS, &options, NULL, &to, NULL),
                             WEFT_OK);
            updates[u] = opened(&files[u]);
        }
        assert_int_equal(weft_update_merge(updates, 2, c.layout, i % 2 ? pieces[0] : NULL, i % 2 ? TENSORS : 0, NULL,
                                           NULL, &sink, NULL),
                         WEFT_OK);
        merged = opened(&out);
        assert_int_equal(weft_update_attachment(merged, text, sizeof text, &bytes), WEFT_OK);
        assert_int_equal(bytes, strlen(rows[i / 2].merged));
        assert_string_equal(text, rows[i / 2].merged);
        weft_update_close(merged);
        for (int u = 0; u < 2; u++) {
            weft_update_close(updates[u]);
            memory_free(&files[u]);
        }
        memory_free(&out);
    }
    chain_close(&c);
}

typedef struct asker {
    uint32_t calls, at; /* the call that ends the work, counted from 1; 0: none */
    uint64_t done, total;
} asker;

static weft_status told(void *user, uint64_t done, uint64_t total)
{
    asker *s = user;
    assert_true(done >= s->done && done <= total);
    s->done = done;
    s->total = total;
    return ++s->calls == s->at ? WEFT_E_TIMEOUT : WEFT_OK;
}

/* With a base and without one, a caller that stops the merge does not wait for a pass over the weights. */
static void callers_may_stop_a_merge(void **state)
{
    (void)state;
    chain c;
    memory_file merged = {0};
    chain_open(&c);
    chain_step(&c, 900, "fast");
    chain_step(&c, 900, "fast");
    for (int bound = 0; bound < 2; bound++) {
        asker all = {0};
        weft_piece base[TENSORS];
        weft_sink sink = memory_sink(&merged);
        weft_work work = {.size = sizeof work, .threads = 2, .progress = told, .user = &all};
        pieces_of(&c, c.image[0], base);
        const uint64_t pieces = bound ? TENSORS : 0;
        assert_int_equal(
            weft_update_merge(c.updates, 2, c.layout, bound ? base : NULL, pieces, "fast", &work, &sink, NULL),
            WEFT_OK);
        assert_true(all.calls > 1 && all.done == all.total);
        for (uint32_t at = 1; at <= all.calls; at++) {
            asker early = {.at = at};
            work.user = &early;
            assert_int_equal(
                weft_update_merge(c.updates, 2, c.layout, bound ? base : NULL, pieces, "fast", &work, &sink, NULL),
                WEFT_E_TIMEOUT);
            assert_int_equal(early.calls, at);
        }
    }
    memory_free(&merged);
    chain_close(&c);
}

/* A file whose reads fail from one on. */
typedef struct failing_file {
    memory_file *file;
    uint32_t reads, from; /* counted from 1; 0: none fails */
} failing_file;

static weft_status read_or_fail(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    failing_file *f = user;
    if (++f->reads >= f->from && f->from)
        return WEFT_E_SYSTEM;
    return memory_read(f->file, offset, data, bytes);
}

/* A disk that fails is told as such, whichever read it is, and is not taken for a damaged file. */
static void a_failed_read_ends_the_merge(void **state)
{
    (void)state;
    chain c;
    memory_file merged = {0};
    chain_open(&c);
    chain_step(&c, 2, "full"); /* so that frames need several reads */
    chain_step(&c, 2, "full");
    failing_file failing = {&c.files[1], 0, 0};
    const weft_source source = {&failing, read_or_fail, c.files[1].bytes};
    weft_update_close(c.updates[1]);
    assert_int_equal(weft_update_open(NULL, &source, &c.updates[1]), WEFT_OK);
    for (int bound = 0; bound < 2; bound++) {
        failing.reads = failing.from = 0;
        assert_int_equal(merge_into(&c, 0, 2, bound, NULL, &merged, NULL), WEFT_OK);
        const uint32_t reads = failing.reads;
        assert_true(reads > 0);
        for (uint32_t from = 1; from <= reads; from++) {
            failing.from = from;
            failing.reads = 0;
            assert_int_equal(merge_into(&c, 0, 2, bound, NULL, &merged, NULL), WEFT_E_SYSTEM);
            assert_int_equal(failing.reads, from); /* nothing is read after that */
        }
    }
    memory_free(&merged);
    chain_close(&c);
}

static void another_layout_is_refused(void **state)
{
    chain c;
    memory_file out = {0};
    weft_sink sink = memory_sink(&out);
    weft_layout *other = NULL;
    const uint64_t size = 12;
    const weft_tensor tensor = {"w", WEFT_BF16, 1, &size};
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    assert_int_equal(weft_layout_create(&tensor, 1, &other), WEFT_OK);
    assert_int_equal(weft_update_merge(c.updates, 1, other, NULL, 0, NULL, NULL, &sink, NULL), WEFT_E_LAYOUT);
    weft_layout_free(other);
    memory_free(&out);
    chain_close(&c);
}

/* A struck byte among the frames is found, wherever it is. */
static void struck_files_are_refused(void **state)
{
    chain c;
    memory_file out = {0};
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "fast");
    weft_update_header header = {.size = sizeof header};
    assert_int_equal(weft_update_describe(c.updates[1], &header), WEFT_OK);
    const uint64_t first = header.run_shift ? 132 : 128; /* with a word of parameters and padding, or without */
    for (uint32_t round = 0; round < 60; round++) {
        uint64_t at = first + roll() % header.frame_bytes;
        uint8_t bit = (uint8_t)(1u << roll() % 8);
        c.files[1].data[at] ^= bit;
        weft_status status = merge_into(&c, 0, 2, false, NULL, &out, NULL);
        assert_true(status == WEFT_E_CHECK || status == WEFT_E_CORRUPT);
        c.files[1].data[at] ^= bit;
    }
    assert_int_equal(merge_into(&c, 0, 2, false, NULL, &out, NULL), WEFT_OK);
    leads_to(&c, &out, 0, 2);
    memory_free(&out);
    chain_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_follow_is_refused), cmocka_unit_test(callers_may_stop_a_merge),
        cmocka_unit_test(what_contradicts_is_refused),     cmocka_unit_test(shorter_figures_are_taken),
        cmocka_unit_test(the_newest_attachment_stays),     cmocka_unit_test(a_failed_read_ends_the_merge),
        cmocka_unit_test(another_layout_is_refused),       cmocka_unit_test(struck_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
