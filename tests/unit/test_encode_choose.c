/* The choice of parameters: any number of lanes makes the one that a thread alone makes, and a failure in any of them
 * ends it with its own words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "codec/chooser.h"
#include "encode/encode.h"
#include "tests/support/unit_pair.h"

#define TIGHT   (1u << WEFT_LEVEL_TIGHT)
#define NEVER   UINT32_MAX
#define EACH    (NEVER - 1)
#define DEVICES 8u

static const uint32_t lane_counts[] = {1, 2, 3, 5};
static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F64, WEFT_I8};

/* ---- a backend whose surveys take times of their own, and fail at a given unit or at each */

static uint32_t fails_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const weft_backend_state *devices[DEVICES]; /* that were asked */
static uint32_t asked, surveyed;
static uint32_t least; /* lanes that have asked before any goes on, so that one cannot do it all on a busy machine */

static bool others_came(void)
{
    pthread_mutex_lock(&lock);
    const bool came = asked >= least;
    pthread_mutex_unlock(&lock);
    return came;
}

static void device_note(const weft_backend_state *state)
{
    uint32_t at = 0;
    pthread_mutex_lock(&lock);
    while (at < asked && devices[at] != state)
        at++;
    if (at == asked)
        devices[asked++] = state;
    surveyed++;
    pthread_mutex_unlock(&lock);
}

static weft_status slow_survey(weft_backend_state *state, weft_survey_job *job)
{
    device_note(state);
    for (int i = 0; i < 10000 && !others_came(); i++)
        usleep(1000);
    usleep((job->now.unit * 7919u + 13u) % 17u * 200u + 1000u);
    if (job->now.unit == fails_at || fails_at == EACH)
        return weft_fail(WEFT_E_DEVICE, "unit %u does not come back", job->now.unit);
    return weft_backend_host.survey(state, job);
}

/* Not on the stack of a test: lanes of one that failed may be at it still. */
static weft_encoder *encoder_open(const unit_pair *pair, uint32_t lanes)
{
    static const weft_backend_options options = {-1, "portable", 0, 0};
    static weft_backend slow;
    weft_encoder *encoder = pair_memory(sizeof *encoder);
    slow = weft_backend_host;
    slow.survey = slow_survey;
    fails_at = NEVER;
    asked = surveyed = least = 0;
    assert_int_equal(weft_encoder_open(encoder, &slow, &options, NULL, pair->layout, lanes), WEFT_OK);
    return encoder;
}

static void encoder_end(weft_encoder *encoder)
{
    weft_encoder_close(encoder);
    free(encoder);
}

static void pair_of(unit_pair *pair, weft_dtype dtype, uint64_t elements, uint64_t seed)
{
    pair_open(pair, &seed, dtype, &elements, 1, "portable");
    pair_change(pair, &seed, 150000, false);
}

/* By one thread, unit after unit. */
static weft_parameters chosen_alone(const unit_pair *pair, weft_survey *survey)
{
    const weft_survey_plan plan = weft_survey_plan_for(pair->layout->elements, TIGHT);
    weft_parameters chosen;
    weft_survey_clear(survey);
    for (uint64_t i = 0; i < weft_survey_units(&plan, 0, pair->layout->unit_count); i++) {
        const uint64_t unit = weft_survey_unit(&plan, 0, pair->layout->unit_count, i);
        weft_survey_job job = {.now = weft_binding_view(&pair->target_binding, unit),
                               .shadow = weft_binding_view(&pair->base_binding, unit),
                               .count = plan.count,
                               .stride = plan.stride,
                               .survey = survey};
        assert_int_equal(weft_backend_host.survey(pair->state, &job), WEFT_OK);
    }
    weft_parameters_choose(survey, pair->layout->elements, TIGHT, &chosen);
    return chosen;
}

static void counts_must_agree(const weft_survey *found, const weft_survey *wanted)
{
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        const weft_survey_kind *a = &found->kinds[k], *b = &wanted->kinds[k];
        const size_t counted = ((size_t)1 << weft_kinds[k].exponent_bits) * sizeof *a->elements;
        assert_memory_equal(a->elements, b->elements, counted);
        assert_memory_equal(a->changed, b->changed, counted);
        assert_memory_equal(a->exceptions, b->exceptions, counted);
        assert_true(a->sparsity == b->sparsity && a->magnitudes == b->magnitudes);
    }
}

static void lanes_choose_as_one_does(void **state)
{
    static weft_survey alone;
    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        unit_pair pair;
        pair_of(&pair, dtypes[d], 2000001, 11 + d);
        const weft_parameters wanted = chosen_alone(&pair, &alone);
        const uint8_t width = pair.layout->units[0].width, bits = pair.layout->units[0].exponent_bits;
        assert_true(alone.kinds[weft_kind_of(width, bits)].sparsity > 0); /* more exceptions than are listed */
        for (size_t i = 0; i < sizeof lane_counts / sizeof *lane_counts; i++) {
            weft_encoder *encoder = encoder_open(&pair, lane_counts[i]);
            least = lane_counts[i] > 1 ? 2 : 1;
            for (int round = 1; round <= 3; round++) {
                weft_parameters found;
                memset(&found, 0xa5, sizeof found);
                assert_int_equal(weft_encoder_choose(encoder, &pair.target_binding, &pair.base_binding, TIGHT, &found),
                                 WEFT_OK);
                assert_memory_equal(&found, &wanted, sizeof wanted);
                assert_int_equal(surveyed, round * pair.layout->unit_count);
                counts_must_agree(encoder->surveys, &alone);
            }
            assert_true(lane_counts[i] == 1 ? asked == 1 : asked > 1);
            encoder_end(encoder);
        }
        pair_close(&pair);
    }
}

static void choose(weft_encoder *encoder, const unit_pair *pair, uint32_t levels)
{
    weft_parameters found;
    asked = surveyed = 0;
    assert_int_equal(weft_encoder_choose(encoder, &pair->target_binding, &pair->base_binding, levels, &found), WEFT_OK);
    assert_int_equal(surveyed, pair->layout->unit_count);
}

/* Waking the others would take longer; what they saw of another choice is not looked at. */
static void a_small_sample_is_one_lanes(void **state)
{
    static weft_survey first;
    unit_pair pair;
    (void)state;
    pair_of(&pair, WEFT_BF16, 2000001, 3);
    weft_encoder *encoder = encoder_open(&pair, 5);
    choose(encoder, &pair, 1u << WEFT_LEVEL_FAST);
    assert_int_equal(asked, 1);
    first = encoder->surveys[0];
    least = 2;
    choose(encoder, &pair, TIGHT);
    assert_true(asked > 1);
    least = 1;
    choose(encoder, &pair, 1u << WEFT_LEVEL_FAST);
    assert_int_equal(asked, 1);
    counts_must_agree(encoder->surveys, &first);
    encoder_end(encoder);
    pair_close(&pair);
}

/* Of 2^28 elements, one unit in three is looked at: the same by any number of lanes. */
static void a_large_sample_leaves_units_out(void **state)
{
    static const uint64_t size = UINT64_C(1) << 28, bytes = 2 * size;
    static const weft_backend_options options = {-1, "portable", 0, 0};
    static weft_survey alone;
    weft_parameters found;
    unit_pair pair = {0};
    (void)state;
    uint16_t *base = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(weft_backend_host.open(&options, &pair.state), WEFT_OK);
    assert_int_equal(weft_layout_create(&(weft_tensor){"large", WEFT_BF16, 1, &size}, 1, &pair.layout), WEFT_OK);
    assert_int_equal(weft_binding_open_spaced(pair.layout, base, &pair.base_binding), WEFT_OK);
    assert_int_equal(weft_binding_open_spaced(pair.layout, base + size, &pair.target_binding), WEFT_OK);
    for (uint64_t i = 0; i < size; i += 1 << 15)
        base[i] = (uint16_t)(i >> 15 & 127) << 7;
    const weft_parameters wanted = chosen_alone(&pair, &alone);
    weft_encoder *encoder = encoder_open(&pair, 5);
    least = 2;
    assert_int_equal(weft_encoder_choose(encoder, &pair.target_binding, &pair.base_binding, TIGHT, &found), WEFT_OK);
    assert_int_equal(surveyed, (pair.layout->unit_count + 2) / 3);
    assert_memory_equal(&found, &wanted, sizeof wanted);
    counts_must_agree(encoder->surveys, &alone);
    assert_true(encoder->density > 0 && encoder->density == weft_survey_density(&alone));
    encoder_end(encoder);
    weft_binding_close(&pair.target_binding);
    weft_binding_close(&pair.base_binding);
    weft_layout_free(pair.layout);
    weft_backend_host.close(pair.state);
    munmap(base, 2 * bytes);
}

static unsigned lines;

static void line_count(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)line;
    lines += level == WEFT_LOG_ERROR;
}

static void a_failure_ends_the_choice(void **state)
{
    static weft_survey alone;
    weft_log_sink sink = {WEFT_LOG_ERROR, line_count};
    unit_pair pair;
    (void)state;
    pair_of(&pair, WEFT_BF16, 2000001, 5);
    const weft_parameters wanted = chosen_alone(&pair, &alone);
    weft_log_sink *before = weft_log_enter(&sink);
    for (size_t i = 0; i < sizeof lane_counts / sizeof *lane_counts; i++) {
        weft_encoder *encoder = encoder_open(&pair, lane_counts[i]);
        for (uint32_t unit = 0; unit < pair.layout->unit_count; unit++) {
            weft_parameters found;
            char words[64];
            snprintf(words, sizeof words, "unit %u does not come back", unit);
            fails_at = unit;
            lines = asked = surveyed = 0;
            assert_int_equal(weft_encoder_choose(encoder, &pair.target_binding, &pair.base_binding, TIGHT, &found),
                             WEFT_E_DEVICE);
            assert_string_equal(weft_last_error(), words);
            assert_int_equal(lines, 1); /* whichever lane it was */
            assert_true(surveyed <= unit + 3 * lane_counts[i]);
            fails_at = NEVER;
            assert_int_equal(weft_encoder_choose(encoder, &pair.target_binding, &pair.base_binding, TIGHT, &found),
                             WEFT_OK);
            assert_memory_equal(&found, &wanted, sizeof wanted);
        }
        encoder_end(encoder);
    }
    weft_log_enter(before);
    pair_close(&pair);
}

/* The error is decided once: the first in the order of the units. */
static void failures_of_all_lanes_are_one(void **state)
{
    weft_log_sink sink = {WEFT_LOG_ERROR, line_count};
    unit_pair pair;
    (void)state;
    pair_of(&pair, WEFT_BF16, 2000001, 5);
    weft_log_sink *before = weft_log_enter(&sink);
    for (size_t i = 0; i < sizeof lane_counts / sizeof *lane_counts; i++) {
        weft_encoder *encoder = encoder_open(&pair, lane_counts[i]);
        fails_at = EACH;
        for (int round = 0; round < 20; round++) {
            weft_parameters found;
            lines = asked = surveyed = 0;
            assert_int_equal(weft_encoder_choose(encoder, &pair.target_binding, &pair.base_binding, TIGHT, &found),
                             WEFT_E_DEVICE);
            assert_int_equal(lines, 1);
            assert_in_range(surveyed, 1, lane_counts[i]);
        }
        encoder_end(encoder);
    }
    weft_log_enter(before);
    pair_close(&pair);
}

typedef struct listener {
    pthread_t caller;
    uint32_t told, stops; /* calls so far, and the call that stops the choice */
    bool wrong;           /* called on another thread, or for another unit */
} listener;

static weft_status told(void *user, uint64_t unit)
{
    listener *l = user;
    l->wrong |= unit != 0 || !pthread_equal(l->caller, pthread_self());
    return ++l->told == l->stops ? weft_fail(WEFT_E_TIMEOUT, "stopped when told %u times", l->stops) : WEFT_OK;
}

static void the_caller_is_told_and_may_end_it(void **state)
{
    unit_pair pair;
    (void)state;
    pair_of(&pair, WEFT_BF16, 2000001, 6);
    for (size_t i = 0; i < sizeof lane_counts / sizeof *lane_counts; i++) {
        weft_parameters found;
        listener l = {.caller = pthread_self()};
        const weft_encode_pass pass = {
            .now = &pair.target_binding, .shadow = &pair.base_binding, .levels = TIGHT, .moved = told, .user = &l};
        weft_encoder *encoder = encoder_open(&pair, lane_counts[i]);
        assert_int_equal(weft_encoder_choose_for(encoder, &pass, &found), WEFT_OK);
        assert_true(lane_counts[i] > 1 || l.told == pair.layout->unit_count);
        l = (listener){.caller = pthread_self(), .stops = 3};
        const weft_status ended = weft_encoder_choose_for(encoder, &pass, &found);
        assert_int_equal(ended, l.told == 3 ? WEFT_E_TIMEOUT : WEFT_OK); /* others may have done the rest by then */
        assert_true(l.told <= 3 && (lane_counts[i] > 1 || l.told == 3));
        assert_true(ended == WEFT_OK || strcmp(weft_last_error(), "stopped when told 3 times") == 0);
        assert_false(l.wrong);
        encoder_end(encoder);
    }
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_choose_as_one_does),        cmocka_unit_test(a_small_sample_is_one_lanes),
        cmocka_unit_test(a_large_sample_leaves_units_out), cmocka_unit_test(a_failure_ends_the_choice),
        cmocka_unit_test(failures_of_all_lanes_are_one),   cmocka_unit_test(the_caller_is_told_and_may_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
