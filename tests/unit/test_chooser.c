/* The choice of parameters: thresholds lie between populations, there are few of them where little changes, and any
 * survey leads to parameters that an update can carry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "codec/chooser.h"
#include "codec/frame.h"
#include "tests/support/unit_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { INTEGER_8, INTEGER_16, INTEGER_32, INTEGER_64, E4M3, E5M2, F16, BF16, F32, F64 };

static weft_survey survey;
static uint64_t elements_all; /* of the update; 0: it is small */

static int survey_clear(void **state)
{
    (void)state;
    memset(&survey, 0, sizeof survey);
    elements_all = 0;
    return 0;
}

/* Elements of one exponent, of which so many changed. */
static void population(uint32_t kind, uint32_t exponent, uint64_t elements, uint64_t changed)
{
    survey.kinds[kind].elements[exponent] += elements;
    survey.kinds[kind].changed[exponent] += changed;
}

/* Chooses; what comes of it can be written, and is read back as it was. */
static weft_parameters choose_for(uint32_t levels)
{
    weft_parameters chosen, read;
    uint16_t words[WEFT_PARAMETER_WORDS_MAX], again[WEFT_PARAMETER_WORDS_MAX];
    weft_parameters_choose(&survey, elements_all, levels, &chosen);
    uint32_t count = weft_parameters_write(&chosen, words);
    assert_true(count <= WEFT_PARAMETER_WORDS_MAX);
    if (weft_parameters_read(words, count, &read) != WEFT_OK)
        fail_msg("no parameters: %s", weft_last_error());
    assert_int_equal(weft_parameters_write(&read, again), count);
    assert_memory_equal(words, again, count * sizeof *words);
    return chosen;
}

static weft_parameters choose(void)
{
    return choose_for(1u << WEFT_LEVEL_TIGHT);
}

static void nothing_seen_nothing_chosen(void **state)
{
    (void)state;
    weft_parameters chosen = choose();
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        assert_int_equal(chosen.classes[k].thresholds, 0);
        assert_int_equal(chosen.classes[k].magnitude_base, 0);
    }
    population(BF16, 120, 1 << 19, 0); /* elements, none of which changed */
    population(F64, 1000, 1 << 19, 0);
    chosen = choose();
    assert_int_equal(chosen.run_shift, WEFT_RUN_SHIFT_MAX);
    assert_int_equal(chosen.classes[BF16].thresholds, 0);
    assert_int_equal(chosen.classes[F64].thresholds, 0);
}

static void a_threshold_lies_between_two_populations(void **state)
{
    (void)state;
    for (uint32_t edge = 101; edge < 120; edge += 6) {
        memset(&survey, 0, sizeof survey);
        for (uint32_t e = 100; e < 120; e++)
            population(BF16, e, 50000, e < edge ? 12500 : 50);
        weft_parameters chosen = choose();
        assert_int_equal(chosen.classes[BF16].thresholds, 1);
        assert_int_equal(chosen.classes[BF16].threshold[0], edge);
    }
}

/* Classes gain nothing if the shares are equal. */
static void one_population_has_one_class(void **state)
{
    (void)state;
    for (uint32_t e = 90; e < 130; e++)
        population(BF16, e, 100000, 1000);
    assert_int_equal(choose().classes[BF16].thresholds, 0);
}

/* The law of training: the share of what changes halves with each exponent up; weights crowd around one exponent. */
static void exponent_law(uint32_t kind, uint32_t middle, uint64_t elements, double density)
{
    double weight[64], share[64], mean = 0, sum = 0;
    for (int i = 0; i < 64; i++) {
        weight[i] = exp2(-fabs(i - 32.0));
        share[i] = exp2(fmin(10, 32 - i));
        sum += weight[i];
    }
    for (int i = 0; i < 64; i++)
        mean += weight[i] / sum * share[i];
    for (int i = 0; i < 64; i++) {
        uint64_t there = (uint64_t)((double)elements * weight[i] / sum);
        population(kind, middle - 32 + (uint32_t)i, there,
                   (uint64_t)((double)there * fmin(1, share[i] * density / mean)));
    }
}

static double set_bits(double universe, double members)
{
    if (members <= 0 || members >= universe)
        return 0;
    return universe * log2(universe) - members * log2(members) - (universe - members) * log2(universe - members);
}

/* Entropy of what changed, by the classes that the thresholds make. */
static double bits_by(uint32_t kind, const uint32_t *threshold, uint32_t thresholds)
{
    double bits = 0, universe = 0, members = 0;
    for (uint32_t e = 0, t = 0; e < WEFT_EXPONENTS_MAX; e++) {
        if (t < thresholds && e == threshold[t]) {
            bits += set_bits(universe, members);
            universe = members = 0;
            t++;
        }
        universe += (double)survey.kinds[kind].elements[e];
        members += (double)survey.kinds[kind].changed[e];
    }
    return bits + set_bits(universe, members);
}

static uint32_t every_exponent[WEFT_EXPONENTS_MAX];

/* Nearly as good as a class for every exponent, with a handful. */
static void classes_follow_the_law_of_exponents(void **state)
{
    (void)state;
    for (uint32_t e = 0; e + 1 < WEFT_EXPONENTS_MAX; e++)
        every_exponent[e] = e + 1;
    exponent_law(BF16, 118, 1 << 24, 0.01);
    weft_parameters chosen = choose();
    const weft_classes *classes = &chosen.classes[BF16];
    double one = bits_by(BF16, NULL, 0), all = bits_by(BF16, every_exponent, 255);
    double made = bits_by(BF16, classes->threshold, classes->thresholds);
    assert_in_range(classes->thresholds, 3, 11);
    assert_true(all < 0.95 * one); /* there is something to be had */
    assert_true(one - made > 0.95 * (one - all));
}

/* A class costs bytes in every frame: few changes do not pay for many. */
static void few_changes_have_few_classes(void **state)
{
    (void)state;
    const double densities[] = {1e-2, 1e-4, 1e-5, 1e-6};
    uint32_t before = WEFT_CLASS_MAX;
    for (size_t i = 0; i < COUNT(densities); i++) {
        memset(&survey, 0, sizeof survey);
        exponent_law(BF16, 118, 1 << 24, densities[i]);
        uint32_t thresholds = choose().classes[BF16].thresholds;
        assert_true(thresholds <= before);
        before = thresholds;
    }
    assert_true(before <= 2);
}

/* Each kind by its own numbers: what one has does not move the other's thresholds. */
static void kinds_are_chosen_side_by_side(void **state)
{
    (void)state;
    for (uint32_t e = 100; e < 120; e++)
        population(BF16, e, 50000, e < 110 ? 12500 : 50);
    for (uint32_t e = 4; e < 12; e++)
        population(E4M3, e, 50000, e < 7 ? 12500 : 50);
    for (uint32_t e = 900; e < 1100; e++)
        population(F64, e, 5000, e < 1000 ? 1250 : 5);
    population(INTEGER_32, 0, 500000, 20000);
    weft_parameters chosen = choose();
    assert_int_equal(chosen.classes[BF16].thresholds, 1);
    assert_int_equal(chosen.classes[BF16].threshold[0], 110);
    assert_int_equal(chosen.classes[E4M3].thresholds, 1);
    assert_int_equal(chosen.classes[E4M3].threshold[0], 7);
    assert_int_equal(chosen.classes[F64].thresholds, 1);
    assert_in_range(chosen.classes[F64].threshold[0], 998, 1002); /* exponents of f64 are taken together in twos */
    assert_int_equal(chosen.classes[INTEGER_32].thresholds, 0);
    assert_int_equal(chosen.classes[F32].thresholds, 0);
}

/* There are more exponents than the search tells apart. */
static void all_exponents_of_doubles_occur(void **state)
{
    (void)state;
    for (uint32_t e = 0; e < WEFT_EXPONENTS_MAX; e++)
        population(F64, e, 1000, 900 >> e / 200);
    weft_parameters chosen = choose();
    const weft_classes *classes = &chosen.classes[F64];
    double one = bits_by(F64, NULL, 0), made = bits_by(F64, classes->threshold, classes->thresholds);
    assert_in_range(classes->thresholds, 5, 11);
    assert_true(made < 0.95 * one);
}

/* Steps of one size: on a base with a smaller exponent they are more, two by two. */
static void magnitude_base_is_where_one_step_is_one(void **state)
{
    (void)state;
    weft_survey_kind *kind = &survey.kinds[BF16];
    exponent_law(BF16, 118, 1 << 22, 0.02);
    for (uint32_t i = 0; i < WEFT_SURVEY_MAGNITUDES; i++) {
        uint32_t exponent = 100 + i % 20;
        uint32_t scale = 1u << (119 - exponent) / 2;
        kind->exceptions[exponent]++;
        kind->magnitude[kind->magnitudes++] = (weft_survey_magnitude){exponent, i * 7919 % (2 * scale), i};
    }
    assert_in_range(choose().classes[BF16].magnitude_base, 104, 116);
}

static void extremes_stay_in_range(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        weft_survey_kind *kind = &survey.kinds[k];
        uint32_t last = (1u << weft_kinds[k].exponent_bits) - 1;
        population(k, last, UINT64_C(1) << 38, UINT64_C(1) << 38);
        population(k, 0, UINT64_C(1) << 38, 1);
        kind->exceptions[last] = UINT64_C(1) << 38;
        for (kind->magnitudes = 0; kind->magnitudes < WEFT_SURVEY_MAGNITUDES; kind->magnitudes++)
            kind->magnitude[kind->magnitudes] = (weft_survey_magnitude){last, UINT32_MAX, kind->magnitudes};
    }
    weft_parameters chosen = choose();
    assert_int_equal(chosen.run_shift, 0);
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++)
        assert_int_equal(chosen.classes[k].thresholds, weft_kinds[k].exponent_bits > 0);
}

static void any_survey_leads_to_parameters(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 6; round++) {
        uint64_t seed = round;
        memset(&survey, 0, sizeof survey);
        for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
            weft_survey_kind *kind = &survey.kinds[k];
            uint32_t exponents = 1u << weft_kinds[k].exponent_bits;
            if (pair_below(&seed, 3) == 0)
                continue;
            for (uint32_t e = 0; e < exponents; e++) {
                if (pair_below(&seed, 4) == 0)
                    continue;
                uint64_t elements = pair_below(&seed, UINT64_C(1) << pair_below(&seed, 30));
                uint64_t changed = pair_below(&seed, elements + 1);
                population(k, e, elements, changed);
                kind->exceptions[e] = pair_below(&seed, changed + 1);
            }
            kind->magnitudes = (uint32_t)pair_below(&seed, 300);
            for (uint32_t i = 0; i < kind->magnitudes; i++)
                kind->magnitude[i] = (weft_survey_magnitude){
                    (uint32_t)pair_below(&seed, exponents), (uint32_t)(pair_random(&seed) >> pair_below(&seed, 64)), i};
        }
        weft_parameters a = choose(), b = choose();
        assert_memory_equal(&a, &b, sizeof a);
    }
}

/* Runs are as long as it takes to have a few thousand changes a frame, and never so long that a frame has too many. */
static void runs_are_longer_where_less_changes(void **state)
{
    (void)state;
    for (uint32_t level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        uint32_t before = 0;
        for (uint64_t changed = 1 << 24; changed > 0; changed /= 2) {
            memset(&survey, 0, sizeof survey);
            population(BF16, 120, 1 << 24, changed);
            uint32_t shift = choose_for(1u << level).run_shift;
            assert_in_range(shift, before, before + 1);
            assert_true(shift == 0 || changed << shift >> 6 <= WEFT_FRAME_RUN_CHANGES / 2);
            before = shift;
        }
        assert_int_equal(before, WEFT_RUN_SHIFT_MAX);
    }
}

/* Where it changes so much that frames of the least size would be more, an update has about 4,096 frames, until frames
 * have 16,384 changes. A smaller one has what it has for its density alone. */
static void large_updates_have_about_as_many_frames(void **state)
{
    (void)state;
    const uint64_t most = UINT64_C(1) << 44;
    for (uint32_t level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        const uint64_t least = level == WEFT_LEVEL_FAST ? 2048 : 12288;
        population(BF16, 120, (1 << 20) - 13000, 0);
        population(BF16, 121, 13000, 13000);
        elements_all = 0;
        const uint32_t small = choose_for(1u << level).run_shift;
        for (elements_all = 1 << 20; elements_all < most; elements_all *= 2) {
            const uint64_t changed = (elements_all >> 20) * 13000, wanted = changed / 4096;
            const uint32_t shift = choose_for(1u << level).run_shift;
            const uint64_t each = UINT64_C(13000) << shift >> 2, aim = wanted < least ? least : wanted;
            assert_true(wanted > least || shift == small);
            assert_in_range(each, aim < 16384 ? aim : 16384, 2 * (aim < 16384 ? aim : 16384));
        }
        assert_true(choose_for(1u << level).run_shift > (level == WEFT_LEVEL_FAST ? small : 0));
        memset(&survey, 0, sizeof survey);
    }
}

/* Level fast has no classes, the others no runs either. */
static void levels_have_the_parameters_they_need(void **state)
{
    (void)state;
    for (uint32_t e = 100; e < 120; e++)
        population(BF16, e, 50000, e < 110 ? 125 : 1);
    weft_parameters all = choose_for(UINT32_MAX), fast = choose_for(1u << WEFT_LEVEL_FAST);
    weft_parameters others = choose_for(1u << WEFT_LEVEL_FULL | 1u << WEFT_LEVEL_PAIRS);
    uint16_t words[WEFT_PARAMETER_WORDS_MAX];
    assert_true(all.run_shift > 0 && fast.run_shift > 0);
    assert_true(all.classes[BF16].thresholds > 0);
    assert_int_equal(weft_parameters_write(&fast, words), 1);
    assert_int_equal(weft_parameters_write(&others, words), 0);
}

/* Weights that repeat in twos, fours or eights, as the two parts of complex numbers do: the sample sees all of them. */
static void alternating_populations_are_seen(void **state)
{
    (void)state;
    const uint64_t size = 1 << 14;
    for (uint64_t period = 2; period <= 8; period *= 2) {
        uint64_t seed = period;
        unit_pair pair;
        memset(&survey, 0, sizeof survey);
        pair_open(&pair, &seed, WEFT_BF16, &size, 1, "auto");
        for (uint64_t i = 0; i < size; i++)
            pair_put(pair.base, i, (100 + i % period) << 7, 2);
        weft_survey_job job = {.now = weft_binding_view(&pair.target_binding, 0),
                               .shadow = weft_binding_view(&pair.base_binding, 0),
                               .count = 256,
                               .stride = 256,
                               .survey = &survey,
                               .stream = NULL};
        assert_int_equal(weft_backend_host.survey(pair.state, &job), WEFT_OK);
        for (uint64_t e = 0; e < period; e++)
            assert_in_range(survey.kinds[BF16].elements[100 + e], size / period / 2, 2 * size / period);
        pair_close(&pair);
    }
}

/* A sample is all of a small layout, and at most one in so many of a large one, up to 2^20 elements; level fast asks
 * less than level tight. */
static void samples_are_bounded(void **state)
{
    (void)state;
    const uint64_t sizes[] = {0, 1, 1 << 16, (1 << 17) - 1, 1 << 19, UINT64_C(1) << 25, UINT64_C(1) << 40, UINT64_MAX};
    const struct {
        uint32_t levels;
        uint64_t least, sparsest;
    } rows[] = {{1u << WEFT_LEVEL_FAST, 1 << 16, 1024},
                {1u << WEFT_LEVEL_TIGHT, 1 << 18, 128},
                {1u << WEFT_LEVEL_TIGHT | 1u << WEFT_LEVEL_FAST, 1 << 18, 128}};
    for (size_t r = 0; r < COUNT(rows); r++) {
        for (size_t i = 0; i < COUNT(sizes); i++) {
            weft_survey_plan plan = weft_survey_plan_for(sizes[i], rows[r].levels);
            assert_true(plan.count > 0 && plan.stride % plan.count == 0);
            assert_in_range(plan.stride / plan.count, 1, rows[r].sparsest);
            const uint64_t units = weft_survey_units(&plan, 0, sizes[i] / 262144 + (sizes[i] % 262144 > 0));
            assert_true(units * 262144 / (plan.stride / plan.count) <= (1 << 20) + 2048);
            assert_true(plan.each == 1 || units >= 256);
            assert_true(sizes[i] >= 2 * rows[r].least || plan.stride == plan.count);
            assert_true(sizes[i] < rows[r].least || sizes[i] / (plan.stride / plan.count) >= rows[r].least);
        }
    }
}

/* One of each so many units is looked at, and the last ones are spoken for too; which one differs, so that a model
 * whose tensors repeat is not seen at one place alone. */
static void units_are_looked_at_here_and_there(void **state)
{
    (void)state;
    for (uint64_t each = 1; each < 40; each += 3) {
        const weft_survey_plan plan = {256, 32768, each};
        uint64_t places = 0;
        for (uint64_t from = 0; from < 1000; from += 499) {
            const uint64_t end = from + 300 + each / 2, units = weft_survey_units(&plan, from, end);
            assert_int_equal(units, (end - from + each - 1) / each);
            for (uint64_t i = 0; i < units; i++) {
                const uint64_t unit = weft_survey_unit(&plan, from, end, i), first = from + i * each;
                assert_in_range(unit, first, (first + each < end ? first + each : end) - 1);
                places |= UINT64_C(1) << (unit - first);
            }
            assert_int_equal(weft_survey_units(&plan, from, from), 0);
        }
        assert_int_equal(__builtin_popcountll(places) > 1, each > 1);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, survey_clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_seen_nothing_chosen),
        TEST(a_threshold_lies_between_two_populations),
        TEST(one_population_has_one_class),
        TEST(classes_follow_the_law_of_exponents),
        TEST(few_changes_have_few_classes),
        TEST(kinds_are_chosen_side_by_side),
        TEST(all_exponents_of_doubles_occur),
        TEST(magnitude_base_is_where_one_step_is_one),
        TEST(extremes_stay_in_range),
        TEST(any_survey_leads_to_parameters),
        TEST(runs_are_longer_where_less_changes),
        TEST(large_updates_have_about_as_many_frames),
        TEST(levels_have_the_parameters_they_need),
        TEST(alternating_populations_are_seen),
        TEST(samples_are_bounded),
        TEST(units_are_looked_at_here_and_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
