/* The sample of two views: what is counted depends on the bits alone, not on how memory holds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codec/chooser.h"
#include "port_backend.h"
#include "tests/support/unit_pair.h"

static weft_survey whole, cut;

static void survey_take(const unit_pair *pair, const weft_binding *shadow, weft_survey *survey)
{
    const weft_survey_plan plan = weft_survey_plan_for(pair->layout->elements, 1u << WEFT_LEVEL_TIGHT);
    memset(survey, 0, sizeof *survey);
    for (uint64_t unit = 0; unit < pair->layout->unit_count; unit++) {
        weft_survey_job job = {weft_binding_view(&pair->target_binding, unit), weft_binding_view(shadow, unit),
                               plan.count, plan.stride, survey};
        assert_int_equal(weft_backend_host.survey(pair->state, &job), WEFT_OK);
    }
}

static uint64_t elements_of(const weft_survey *survey)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++)
        for (uint32_t e = 0; e < WEFT_EXPONENTS_MAX; e++)
            sum += survey->kinds[k].elements[e];
    return sum;
}

static void pieces_make_no_difference(void **state)
{
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F32, WEFT_I8, WEFT_F64};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_make_no_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
