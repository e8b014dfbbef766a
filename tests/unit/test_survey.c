/* The sample of two views: what is counted depends on the bits alone, not on how memory holds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codec/chooser.h"
#include "port_backend.h"
#include "tests/support/unit_pair.h"

static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F32, WEFT_I8, WEFT_F64};

static weft_survey whole, cut;

static void survey_take(const unit_pair *pair, const weft_binding *shadow, weft_survey *survey)
{
    const weft_survey_plan plan = weft_survey_plan_for(pair->layout->elements, 1u << WEFT_LEVEL_TIGHT);
    memset(survey, 0xa5, sizeof *survey); /* what another survey left */
    weft_survey_clear(survey);
    for (uint64_t unit = 0; unit < pair->layout->unit_count; unit++) {
        weft_survey_job job = {weft_binding_view(&pair->target_binding, unit),
                               weft_binding_view(shadow, unit),
                               plan.count,
                               plan.stride,
                               survey,
                               NULL};
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

/* Element by element, from what the header of the port and of the survey say. */
static void survey_expect(const unit_pair *pair, weft_survey_plan plan, weft_survey_kind *kind, uint64_t magnitudes[])
{
    const weft_unit *unit = &pair->layout->units[0];
    const unsigned width = unit->width, shift = 8 * width - 1 - unit->exponent_bits;
    memset(kind, 0, sizeof *kind);
    for (uint32_t i = 0; i < unit->count; i++) {
        if (i % plan.stride >= plan.count)
            continue;
        uint64_t before = pair_get(pair->base, i, unit->width), after = pair_get(pair->target, i, unit->width);
        uint64_t exponent = unit->exponent_bits ? before >> shift & ((1u << unit->exponent_bits) - 1) : 0;
        uint64_t top = UINT64_C(1) << (8 * width - 1), a = before, b = after;
        if (unit->is_float) {
            a = a & top ? a ^ (top - 1) : a;
            b = b & top ? b ^ (top - 1) : b;
        }
        uint64_t up = (b - a) & (top - 1 + top), down = (a - b) & (top - 1 + top);
        kind->elements[exponent] += (i ^ i / 4 ^ i / 16) % 4 == 0 ? 4 : 0;
        kind->changed[exponent] += before != after;
        if (before != after && up != 1 && down != 1) {
            kind->exceptions[exponent]++;
            magnitudes[kind->seen++] = up < down ? up : down;
        }
    }
}

static void counts_are_those_of_the_sample(void **state)
{
    static const weft_survey_plan plans[] = {{256, 256}, {256, 1024}, {256, 25600}};
    static const uint64_t size = 70001;
    uint64_t *magnitudes = calloc(size, sizeof *magnitudes);
    weft_survey_kind *expected = calloc(1, sizeof *expected);
    (void)state;
    assert_true(magnitudes && expected);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        unit_pair pair;
        uint64_t random = 99 + d;
        pair_open(&pair, &random, dtypes[d], &size, 1, "portable");
        pair_change(&pair, &random, 40000, false);
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
            survey_expect(&pair, plans[p], expected, magnitudes);
            weft_survey_clear(&whole);
            weft_survey_job job = {weft_binding_view(&pair.target_binding, 0),
                                   weft_binding_view(&pair.live_binding, 0),
                                   plans[p].count,
                                   plans[p].stride,
                                   &whole,
                                   NULL};
            assert_int_equal(weft_backend_host.survey(pair.state, &job), WEFT_OK);
            const weft_unit *unit = &pair.layout->units[0];
            const weft_survey_kind *kind = &whole.kinds[weft_kind_of(unit->width, unit->exponent_bits)];
            const size_t counted = (size_t)(1u << unit->exponent_bits) * sizeof *kind->elements;
            assert_memory_equal(kind->elements, expected->elements, counted);
            assert_memory_equal(kind->changed, expected->changed, counted);
            assert_memory_equal(kind->exceptions, expected->exceptions, counted);
            assert_int_equal(kind->seen, expected->seen);
            for (uint32_t i = 0; i < kind->magnitudes; i++) {
                uint64_t excess = magnitudes[(uint64_t)i << kind->sparsity] - 2;
                assert_int_equal(kind->magnitude[i].excess, excess < UINT32_MAX ? excess : UINT32_MAX);
            }
        }
        pair_close(&pair);
    }
    free(expected);
    free(magnitudes);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_those_of_the_sample),
                                       cmocka_unit_test(pieces_make_no_difference),
                                       cmocka_unit_test(as_many_runs_as_elements_make_no_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
