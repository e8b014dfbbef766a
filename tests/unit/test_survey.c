/* The sample of two views: what is counted depends on the bits alone, not on how memory holds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codec/chooser.h"
#include "port/port_backend.h"
#include "tests/support/unit_pair.h"

static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F32, WEFT_I8, WEFT_F64};

static weft_survey whole, cut;

static void survey_take(const unit_pair *pair, const weft_binding *shadow, weft_survey *survey)
{
    const weft_survey_plan plan = weft_survey_plan_for(pair->layout->elements, 1u << WEFT_LEVEL_TIGHT);
    memset(survey, 0xa5, sizeof *survey); /* what another survey left */
    weft_survey_clear(survey);
    for (uint64_t unit = 0; unit < pair->layout->unit_count; unit++) {
        weft_survey_job job = {.now = weft_binding_view(&pair->target_binding, unit),
                               .shadow = weft_binding_view(shadow, unit),
                               .count = plan.count,
                               .stride = plan.stride,
                               .survey = survey,
                               .stream = NULL};
        assert_int_equal(weft_backend_host.survey(pair->state, &job), WEFT_OK);
    }
}

static uint64_t elements_of(const weft_survey *survey)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++)
        for (uint32_t e = 0; e < 1u << weft_kinds[k].exponent_bits; e++)
            sum += survey->kinds[k].elements[e];
    return sum;
}

#define TILES (1u << 18) /* elements before the unit that is looked at */

/* The exceptions to list, in order of the elements. */
typedef struct exceptions {
    uint64_t count;
    weft_survey_magnitude *each;
} exceptions;

/* The last unit's, element by element, from what the header of the port and of the survey say. */
static void survey_expect(const unit_pair *pair, weft_survey_plan plan, weft_survey_kind *kind, exceptions *all)
{
    const uint64_t last = pair->layout->unit_count - 1;
    const weft_unit *unit = &pair->layout->units[last];
    const unsigned width = unit->width, shift = 8 * width - 1 - unit->exponent_bits;
    memset(kind, 0, sizeof *kind);
    all->count = 0;
    for (uint32_t i = 0, sampled = 0; i < unit->count; i++) {
        if (i % plan.stride >= plan.count)
            continue;
        uint64_t before = pair_get(pair->base, TILES + i, unit->width);
        uint64_t after = pair_get(pair->target, TILES + i, unit->width);
        uint64_t exponent = unit->exponent_bits ? before >> shift & ((1u << unit->exponent_bits) - 1) : 0;
        uint64_t top = UINT64_C(1) << (8 * width - 1), a = before, b = after;
        if (unit->is_float) {
            a = a & top ? a ^ (top - 1) : a;
            b = b & top ? b ^ (top - 1) : b;
        }
        uint64_t up = (b - a) & (top - 1 + top), down = (a - b) & (top - 1 + top), excess = (up < down ? up : down) - 2;
        kind->elements[exponent] += (i ^ i / 4 ^ i / 16) % 4 == 0 ? 4 : 0;
        kind->changed[exponent] += before != after;
        if (before != after && up != 1 && down != 1) {
            kind->exceptions[exponent]++;
            all->each[all->count++] =
                (weft_survey_magnitude){(uint32_t)exponent, excess < UINT32_MAX ? (uint32_t)excess : UINT32_MAX,
                                        weft_mix64(last << 32 | sampled)};
        }
        sampled++;
    }
}

/* Thins as little as makes them fit. */
static void list_expect(const exceptions *all, weft_survey_kind *kind)
{
    uint64_t fit;
    for (kind->sparsity = 0;; kind->sparsity++) {
        fit = 0;
        for (uint64_t i = 0; i < all->count; i++)
            fit += all->each[i].key % (UINT64_C(1) << kind->sparsity) == 0;
        if (fit <= WEFT_SURVEY_MAGNITUDES)
            break;
    }
    for (uint64_t i = 0; i < all->count; i++)
        if (all->each[i].key % (UINT64_C(1) << kind->sparsity) == 0)
            kind->magnitude[kind->magnitudes++] = all->each[i];
    assert_int_equal(kind->magnitudes, fit);
}

static void kind_must_be(const weft_survey_kind *kind, const weft_survey_kind *expected, uint8_t exponent_bits)
{
    const size_t counted = (size_t)(1u << exponent_bits) * sizeof *kind->elements;
    assert_memory_equal(kind->elements, expected->elements, counted);
    assert_memory_equal(kind->changed, expected->changed, counted);
    assert_memory_equal(kind->exceptions, expected->exceptions, counted);
    assert_int_equal(kind->sparsity, expected->sparsity);
    assert_int_equal(kind->magnitudes, expected->magnitudes);
    assert_memory_equal(kind->magnitude, expected->magnitude, kind->magnitudes * sizeof *kind->magnitude);
}

static void counts_are_those_of_the_sample(void **state)
{
    static const weft_survey_plan plans[] = {{256, 256, 1}, {256, 1024, 1}, {256, 25600, 1}};
    static const uint64_t size = TILES + 70001, changes[] = {40000, 400000};
    exceptions all = {0, calloc(size, sizeof *all.each)};
    weft_survey_kind *expected = calloc(1, sizeof *expected);
    uint32_t sparsest = 0;
    (void)state;
    assert_true(all.each && expected);
    for (size_t d = 0; d < 2 * sizeof dtypes / sizeof *dtypes; d++) {
        unit_pair pair;
        uint64_t random = 99 + d;
        pair_open(&pair, &random, dtypes[d / 2], &size, 1, "portable");
        pair_change(&pair, &random, changes[d % 2], false);
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
            survey_expect(&pair, plans[p], expected, &all);
            list_expect(&all, expected);
            sparsest = expected->sparsity > sparsest ? expected->sparsity : sparsest;
            weft_survey_clear(&whole);
            const uint64_t last = pair.layout->unit_count - 1;
            weft_survey_job job = {.now = weft_binding_view(&pair.target_binding, last),
                                   .shadow = weft_binding_view(&pair.live_binding, last),
                                   .count = plans[p].count,
                                   .stride = plans[p].stride,
                                   .survey = &whole,
                                   .stream = NULL};
            assert_int_equal(weft_backend_host.survey(pair.state, &job), WEFT_OK);
            const weft_unit *unit = &pair.layout->units[last];
            kind_must_be(&whole.kinds[weft_kind_of(unit->width, unit->exponent_bits)], expected, unit->exponent_bits);
        }
        pair_close(&pair);
    }
    assert_true(sparsest > 1);
    free(expected);
    free(all.each);
}

/* ---- surveys of parts */

#define PARTS 5u

static weft_survey parts[PARTS];

static int by_key(const void *a, const void *b)
{
    const uint64_t x = ((const weft_survey_magnitude *)a)->key, y = ((const weft_survey_magnitude *)b)->key;
    return (x > y) - (x < y);
}

static void surveys_must_agree(weft_survey *a, weft_survey *b)
{
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        weft_survey_kind *x = &a->kinds[k], *y = &b->kinds[k];
        qsort(x->magnitude, x->magnitudes, sizeof *x->magnitude, by_key);
        qsort(y->magnitude, y->magnitudes, sizeof *y->magnitude, by_key);
        kind_must_be(x, y, weft_kinds[k].exponent_bits);
    }
}

/* Notes exceptions of all kinds in the whole and in one of the parts, the first of which gets most. */
static void exceptions_note(uint64_t *random, uint32_t count, uint64_t first_percent)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t k = (uint32_t)pair_below(random, WEFT_KIND_COUNT);
        const weft_survey_magnitude exception = {(uint32_t)pair_below(random, 1u << weft_kinds[k].exponent_bits),
                                                 (uint32_t)pair_below(random, 1000), weft_survey_key(i % 7, i)};
        const uint64_t share = pair_below(random, 100);
        weft_survey *part = &parts[share < first_percent ? 0
                                   : share < 97          ? 1
                                   : share < 99          ? 2
                                                         : 3]; /* none for the last */
        weft_survey_note(&whole.kinds[k], &exception);
        weft_survey_note(&part->kinds[k], &exception);
        part->kinds[k].elements[exception.exponent] += 4;
        whole.kinds[k].elements[exception.exponent] += 4;
        part->kinds[k].changed[exception.exponent]++;
        whole.kinds[k].changed[exception.exponent]++;
    }
}

static void parts_make_the_whole_in_any_order(void **state)
{
    static const uint32_t counts[] = {0, 3, 5000, 12000, 90000, 700000};
    (void)state;
    for (size_t c = 0; c < 4 * sizeof counts / sizeof *counts; c++) {
        uint64_t random = c;
        weft_survey_clear(&whole);
        weft_survey_clear(&cut);
        for (uint32_t p = 0; p < PARTS; p++)
            weft_survey_clear(&parts[p]);
        exceptions_note(&random, counts[c / 4], c % 2 ? 60 : 94);
        for (uint32_t p = 0, first = (uint32_t)pair_below(&random, PARTS); p < PARTS; p++)
            weft_survey_add(&cut, &parts[(first + 3 * p) % PARTS]);
        surveys_must_agree(&cut, &whole);
    }
}

/* As many as fit are all listed; with one more it is about half of them. */
static void a_full_list_is_thinned(void **state)
{
    weft_survey_kind *kind = &whole.kinds[0];
    (void)state;
    weft_survey_clear(&whole);
    for (uint32_t i = 0; i < WEFT_SURVEY_MAGNITUDES; i++)
        weft_survey_note(kind, &(weft_survey_magnitude){0, i, weft_survey_key(1, i)});
    assert_int_equal(kind->sparsity, 0);
    assert_int_equal(kind->magnitudes, WEFT_SURVEY_MAGNITUDES);
    weft_survey_note(kind, &(weft_survey_magnitude){0, 0, weft_survey_key(2, 0)});
    assert_int_equal(kind->sparsity, 1);
    assert_in_range(kind->magnitudes, WEFT_SURVEY_MAGNITUDES / 3, WEFT_SURVEY_MAGNITUDES * 2 / 3);
    assert_int_equal(kind->exceptions[0], WEFT_SURVEY_MAGNITUDES + 1);
    for (uint32_t i = 0; i < 3 * WEFT_SURVEY_MAGNITUDES; i++) /* one place again and again, against the law: it ends */
        weft_survey_note(kind, &(weft_survey_magnitude){0, 0, weft_survey_key(0, 0)});
    assert_int_equal(kind->magnitudes, WEFT_SURVEY_MAGNITUDES);
}

static void pieces_make_no_difference(void **state)
{
    static const uint64_t sizes[] = {1, 3, 1, 70001, 5, 2};
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        unit_pair pair;
        uint64_t random = seed;
        pair_open(&pair, &random, dtypes[seed - 1], sizes, PAIR_TENSORS, "portable");
        pair_change(&pair, &random, 50000, false);
        survey_take(&pair, &pair.base_binding, &whole);
        survey_take(&pair, &pair.live_binding, &cut);
        assert_true(pair.live_binding.run_count > pair.base_binding.run_count);
        assert_memory_equal(&whole, &cut, sizeof whole);
        uint64_t seen = elements_of(&whole), slack = 4 * pair.layout->unit_count; /* one in four stands for four */
        assert_true(seen < pair.layout->elements + slack && seen + slack > pair.layout->elements);
        pair_close(&pair);
    }
}

/* As of a pack of tensors of one element each. */
static void as_many_runs_as_elements_make_no_difference(void **state)
{
    enum { COUNT = 5000 };
    static const uint64_t size = COUNT;
    static uint8_t memory[16 * COUNT];
    static weft_piece pieces[COUNT];
    weft_binding tiny;
    unit_pair pair;
    uint64_t random = 7;
    (void)state;
    pair_open(&pair, &random, WEFT_BF16, &size, 1, "portable");
    pair_change(&pair, &random, 50000, false);
    for (uint64_t i = 0; i < COUNT; i++) {
        pieces[i] = (weft_piece){0, i, 1, memory + 16 * i};
        memcpy(pieces[i].data, pair.base + 2 * i, 2);
    }
    assert_int_equal(weft_binding_open(pair.layout, pieces, COUNT, &tiny), WEFT_OK);
    assert_int_equal(tiny.run_count, COUNT);
    survey_take(&pair, &pair.base_binding, &whole);
    survey_take(&pair, &tiny, &cut);
    assert_memory_equal(&whole, &cut, sizeof whole);
    weft_binding_close(&tiny);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_sample), cmocka_unit_test(parts_make_the_whole_in_any_order),
        cmocka_unit_test(a_full_list_is_thinned), cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(as_many_runs_as_elements_make_no_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
