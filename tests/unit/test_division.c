/* Divisions: the cells of a source and of a rollout's end at one source, two orders of one model, and names by the
 * caller's numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/status.h"
#include "shard/naming.h"

enum { Q, NORM, UP, TENSORS };

static weft_layout *model, *turned; /* the tensors of `turned` stand in the reverse order */
static const weft_cut cuts[] = {{.name = "q", .patterns = "q, up", .kind = WEFT_CUT_ROWS, .parts = 2}};

static int setup(void **state)
{
    static const uint64_t q[] = {8, 4}, norm[] = {4}, up[] = {4, 4};
    const weft_tensor tensors[TENSORS] = {{"q", WEFT_F32, 2, q}, {"norm", WEFT_F32, 1, norm}, {"up", WEFT_F32, 2, up}};
    const weft_tensor other[TENSORS] = {tensors[UP], tensors[NORM], tensors[Q]};
    (void)state;
    return weft_layout_create(tensors, TENSORS, &model) != WEFT_OK ||
           weft_layout_create(other, TENSORS, &turned) != WEFT_OK;
}

static int teardown(void **state)
{
    (void)state;
    weft_layout_free(model);
    weft_layout_free(turned);
    return 0;
}

#define ALL     {{Q, 0, 8, 0, 4}, {NORM, 0, 1, 0, 4}, {UP, 0, 4, 0, 4}}, 3
#define PART_0  {{Q, 0, 4, 0, 4}, {UP, 0, 2, 0, 4}}, 2
#define PART_1  {{Q, 4, 4, 0, 4}, {UP, 2, 2, 0, 4}}, 2
#define NOTHING {{0}}, 0
#define ANY     {{0}}, UINT64_MAX /* no list: all of the model */

typedef struct some {
    weft_slice slice[3];
    uint64_t count;
} some;

static weft_slice_list list_of(const some *from)
{
    return from->count == UINT64_MAX ? (weft_slice_list){NULL, 0} : (weft_slice_list){from->slice, from->count};
}

/* The tensors of a rollout's end at a source; 0: as many as the model has, which is not divided. */
static void views(void **state)
{
    static const struct {
        some holding, view;
        uint32_t cuts;
        const char *refused; /* NULL: it is not */
        uint64_t tensors, elements;
    } rows[] = {{{ANY}, {ANY}, 0, NULL, 0, 52},
                {{ANY}, {ALL}, 0, NULL, 0, 52},
                {{ANY}, {PART_1}, 0, "not all of q, 8 rows", 0, 0},
                {{ANY}, {ANY}, 1, NULL, 5, 52},
                {{ANY}, {PART_1}, 1, NULL, 2, 24},
                {{ANY}, {{{Q, 4, 4, 0, 4}}, 1}, 1, "nothing of up, 2 rows from 2", 0, 0},
                {{ANY}, {{{Q, 4, 3, 0, 4}, {UP, 2, 2, 0, 4}}, 2}, 1, "not all of q, 4 rows from 4", 0, 0},
                {{{{Q, 2, 4, 0, 4}}, 1}, {PART_1}, 1, NULL, 1, 8},
                {{{{Q, 4, 4, 0, 4}}, 1}, {{{Q, 4, 4, 0, 4}}, 1}, 1, "nothing of up, 2 rows from 2", 0, 0},
                {{PART_0}, {PART_1}, 1, NULL, 0, 0},
                {{NOTHING}, {PART_1}, 1, NULL, 0, 0},
                {{NOTHING}, {ANY}, 0, NULL, 0, 0},
                {{PART_0}, {NOTHING}, 1, "takes nothing", 0, 0},
                {{{{Q, 0, 4, 0, 4}, {Q, 3, 1, 3, 1}}, 2}, {PART_0}, 1, "two slices share elements", 0, 0}};
    const uint64_t blocks = weft_mem_blocks();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weft_slice_list holding = list_of(&rows[i].holding), view = list_of(&rows[i].view);
        weft_division division;
        const weft_status status = weft_division_open_view(model, cuts, rows[i].cuts, &holding, &view, &division);
        if (status != (rows[i].refused ? WEFT_E_LAYOUT : WEFT_OK))
            fail_msg("row %zu: %s, %s", i, weft_status_name(status), weft_last_error());
        if (rows[i].refused) {
            assert_non_null(strstr(weft_last_error(), rows[i].refused));
        } else {
            const bool divided = rows[i].cuts > 0 || holding.slice;
            assert_int_equal(weft_division_is_cut(&division), divided);
            assert_int_equal(division.layout->count, divided ? rows[i].tensors : TENSORS);
            assert_int_equal(division.layout->elements, rows[i].elements);
            weft_division_close(&division);
        }
        assert_int_equal(weft_mem_blocks(), blocks);
    }
}

static weft_division source_of(const weft_layout *of, const uint64_t order[TENSORS], const weft_cut *cut,
                               uint32_t count)
{
    weft_division made;
    assert_int_equal(weft_division_open_source(of, cut, count, &(weft_slice_list){NULL, 0}, &made), WEFT_OK);
    if (order) {
        made.order = weft_mem_take(TENSORS, sizeof *order);
        memcpy(made.order, order, TENSORS * sizeof *order);
    }
    return made;
}

/* Which tensor of one division's layout is which of the other's, by what the caller names. */
static void orders(void **state)
{
    static const uint64_t reverse[TENSORS] = {2, 1, 0};
    static const weft_cut other = {.name = "q", .patterns = "q, up", .kind = WEFT_CUT_COLUMNS, .parts = 2};
    uint64_t *from = NULL;
    (void)state;
    for (uint32_t count = 0; count < 2; count++) {
        weft_division plain = source_of(model, NULL, cuts, count), back = source_of(turned, reverse, cuts, count);
        assert_int_equal(weft_division_match(&plain, &back, &from), WEFT_OK);
        for (uint64_t i = 0; i < back.layout->count; i++) {
            const weft_tensor *a = &plain.layout->entries[from[i]].tensor, *b = &back.layout->entries[i].tensor;
            assert_int_equal(a->name[0], b->name[0]);
            assert_int_equal(a->shape[0], b->shape[0]);
            const char *box = strchr(b->name, '[');
            assert_true(!box || strcmp(strchr(a->name, '['), box) == 0);
        }
        weft_mem_give(from);
        weft_division_close(&plain);
        weft_division_close(&back);
    }
    weft_division rows = source_of(model, NULL, cuts, 1), columns = source_of(turned, reverse, &other, 1);
    assert_int_equal(rows.layout->count, columns.layout->count);
    from = NULL;
    assert_int_equal(weft_division_match(&rows, &columns, &from), WEFT_E_LAYOUT);
    assert_null(from);
    weft_division_close(&rows);
    weft_division_close(&columns);
}

/* The caller names tensors by its own numbers, and what it lent stays as it was. */
static void names(void **state)
{
    static const uint64_t reverse[TENSORS] = {2, 1, 0};
    static float q[32], norm[4], up[16];
    const weft_piece pieces[] = {{Q, 0, 32, q}, {NORM, 0, 4, norm}, {UP, 0, 16, up}};
    const weft_block blocks[] = {{.slice = {Q, 0, 8, 0, 4}, .data = q},
                                 {.slice = {NORM, 0, 1, 0, 4}, .data = norm},
                                 {.slice = {UP, 0, 4, 0, 4}, .data = up}};
    (void)state;
    for (uint32_t way = 0; way < 4; way++) {
        weft_piece lent[TENSORS];
        weft_block lent_blocks[TENSORS];
        weft_binding binding;
        memcpy(lent, pieces, sizeof lent);
        memcpy(lent_blocks, blocks, sizeof lent_blocks);
        const bool by_pieces = way < 2;
        const weft_naming by = {"bind", by_pieces ? lent : NULL, by_pieces ? NULL : lent_blocks, TENSORS};
        weft_division division = source_of(turned, reverse, cuts, way % 2);
        if (weft_naming_bind(&division, &by, false, &binding) != WEFT_OK)
            fail_msg("way %u: %s", way, weft_last_error());
        assert_memory_equal(lent, pieces, sizeof lent);
        assert_memory_equal(lent_blocks, blocks, sizeof lent_blocks);
        uint64_t seen = 0;
        for (uint64_t i = 0; i < binding.run_count; i++)
            if (binding.runs[i].data == (uint8_t *)q &&
                division.layout->entries[binding.runs[i].tensor].tensor.name[0] == 'q')
                seen++;
        assert_int_equal(seen, 1);
        weft_binding_close(&binding);
        weft_division_close(&division);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views),
        cmocka_unit_test(orders),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
