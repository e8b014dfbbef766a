/* Every kernel set that runs here writes the frames of the portable one, and reads frames, good or broken, to the same
 * changes, digests and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/support/unit_pair.h"

#define ROUNDS  24
#define ATTACKS 60

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_U8,  WEFT_F32, WEFT_F8_E5M2,
                                    WEFT_F64,  WEFT_I16, WEFT_I64, WEFT_BF16};
static const uint64_t densities[] = {300, 11700, 79000, 500000, 1000000};
static const weft_level levels[] = {WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};

/* The result of one kernel set for one frame. */
typedef struct outcome {
    weft_status status;
    weft_changes changes;
    uint64_t delta[PAIR_PARTS];
    char error[256];
} outcome;

static weft_backend_state *set_open(const char *kernels)
{
    const weft_backend_options options = {.device = -1, .kernels = kernels};
    weft_backend_state *state = NULL;
    if (weft_backend_host.open(&options, &state) != WEFT_OK)
        return NULL;
    return state;
}

static void decode_with(weft_backend_state *state, const weft_parameters *parameters, const weft_frame *frame,
                        const weft_view *base, outcome *made)
{
    memset(made->delta, 0, sizeof(made->delta));
    weft_decode_job job = {.frame = *frame,
                           .base = *base,
                           .parameters = parameters,
                           .changes = &made->changes,
                           .tensor_delta = made->delta};
    made->status = weft_backend_host.decode(state, &job);
    snprintf(made->error, sizeof(made->error), "%s", made->status == WEFT_OK ? "" : weft_last_error());
}

static void outcomes_agree(const outcome *a, const outcome *b, uint8_t width)
{
    assert_int_equal(a->status, b->status);
    assert_string_equal(a->error, b->error);
    assert_int_equal(a->changes.count, b->changes.count);
    if (a->changes.count > 0) {
        assert_memory_equal(a->changes.position, b->changes.position, 4 * (uint64_t)a->changes.count);
        assert_memory_equal(a->changes.before, b->changes.before, (uint64_t)width * a->changes.count);
        assert_memory_equal(a->changes.after, b->changes.after, (uint64_t)width * a->changes.count);
    }
    assert_memory_equal(a->delta, b->delta, sizeof(a->delta));
}

/* The frame as it is, then with bits of its parameters and payload turned over. */
static void frame_read_by_both(const unit_pair *pair, weft_backend_state *other, uint64_t *seed, uint8_t *bytes,
                               uint64_t length, outcome made[2])
{
    for (uint64_t i = 0; i < ATTACKS; i++) {
        const weft_binding *binding = i % 2 ? &pair->live_binding : &pair->base_binding;
        weft_frame frame;
        uint64_t bit = 0;
        if (i > 1) {
            bit = 8 * WEFT_FRAME_HEADER_BYTES + pair_below(seed, 8 * (length - WEFT_FRAME_HEADER_BYTES));
            bit = i % 8 == 7 ? 96 + pair_below(seed, 32) : bit;
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        if (weft_frame_admit(pair->layout, bytes, length, &frame) == WEFT_OK) {
            weft_view base = weft_binding_view(binding, frame.header.unit);
            decode_with(pair->state, pair->parameters, &frame, &base, &made[0]);
            decode_with(other, pair->parameters, &frame, &base, &made[1]);
            outcomes_agree(&made[0], &made[1], base.width);
        }
        if (i > 1 && i % 3)
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void unit_compared(unit_pair *pair, weft_backend_state *other, uint64_t unit, weft_level level, uint64_t *seed,
                          outcome made[2])
{
    weft_backend_state *const portable = pair->state;
    const uint64_t capacity = pair->layout->largest_frame;
    uint64_t delta[2][PAIR_PARTS] = {{0}};
    weft_frame_sink sinks[2] = {{.data = pair_memory(capacity), .capacity = capacity},
                                {.data = pair_memory(capacity), .capacity = capacity}};
    uint32_t length = pair_encode(pair, unit, level, &sinks[0], delta[0]);
    pair->state = other;
    assert_int_equal(length, pair_encode(pair, unit, level, &sinks[1], delta[1]));
    pair->state = portable;
    assert_memory_equal(delta[0], delta[1], sizeof(delta[0]));
    if (length > 0) {
        assert_memory_equal(sinks[0].data, sinks[1].data, length);
        frame_read_by_both(pair, other, seed, sinks[0].data, length, made);
    }
    free(sinks[0].data);
    free(sinks[1].data);
}

static void set_compared(const char *kernels)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    weft_backend_state *other = set_open(kernels);
    outcome made[2] = {{.changes = pair_changes()}, {.changes = pair_changes()}};
    weft_log_enter(&quiet);
    for (uint64_t round = 0; other && round < ROUNDS; round++) {
        uint64_t seed = round;
        const uint64_t sizes[] = {1 + pair_below(&seed, 9000), 1 + pair_below(&seed, 70), 3000};
        unit_pair pair;
        weft_parameters parameters;
        pair_open(&pair, &seed, dtypes[round % COUNT(dtypes)], sizes, COUNT(sizes), "portable");
        pair_parameters(&seed, &parameters);
        pair.parameters = &parameters;
        pair_change(&pair, &seed, densities[round % COUNT(densities)], round % 3 == 0);
        for (uint64_t unit = 0; unit < pair.layout->unit_count; unit++) {
            for (size_t i = 0; i < COUNT(levels); i++)
                unit_compared(&pair, other, unit, levels[i], &seed, made);
        }
        pair_close(&pair);
    }
    weft_log_enter(NULL);
    pair_changes_free(&made[0].changes);
    pair_changes_free(&made[1].changes);
    weft_backend_host.close(other);
    if (!other)
        skip();
}

static void avx2_agrees(void **state)
{
    (void)state;
    set_compared("avx2");
}

static void avx512_agrees(void **state)
{
    (void)state;
    set_compared("avx512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(avx2_agrees), cmocka_unit_test(avx512_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
