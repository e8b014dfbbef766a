/* The level that auto takes, on links and peers made up for it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bucket/choice.h"
#include "layout/digest.h"

#define ALL      ((1u << WEFT_LEVEL_COUNT) - 1)
#define ELEMENTS UINT64_C(200000000) /* 400 MB of bf16 */

typedef struct scene {
    weft_site_peer site;
    weft_estimate estimate;
    weft_decoding decoding;
    weft_habit habit;
    weft_level_wish wish;
} scene;

static void open_scene(scene *s, double rate, double density)
{
    *s = (scene){.site = {.bucket_start = 1u << 19, .bucket_min = 1u << 16, .bucket_max = 4u << 20, .window = 8},
                 .estimate = {.rate_bytes_s = rate, .rtt_s = 1e-3, .take = {3e9, 1}}};
    weft_habit_begin(&s->habit, ELEMENTS, 2 * ELEMENTS);
    s->habit.density = density;
    s->wish = (weft_level_wish){.site = &s->site,
                                .estimate = &s->estimate,
                                .decoding = &s->decoding,
                                .habit = &s->habit,
                                .slot_payload = 4u << 20,
                                .levels = ALL,
                                .in_use = 1u << WEFT_LEVEL_FAST,
                                .encode_workers = 4,
                                .room = UINT64_C(1) << 40,
                                .staging = UINT64_C(1) << 40,
                                .present = WEFT_LEVEL_FAST};
}

static weft_level choose_at(double rate, double density)
{
    scene s;
    open_scene(&s, rate, density);
    return weft_level_choose(&s.wish);
}

static void slow_links_take_fewer_bytes(void **state)
{
    (void)state;
    assert_int_equal(choose_at(12.5e6, 0.0117), WEFT_LEVEL_TIGHT); /* 100 Mbit/s */
    assert_int_equal(choose_at(1.25e6, 0.001), WEFT_LEVEL_TIGHT);
    assert_int_not_equal(choose_at(12.5e9, 0.0117), WEFT_LEVEL_TIGHT); /* 100 Gbit/s */
    assert_int_equal(choose_at(12.5e9, 0.0117), WEFT_LEVEL_PAIRS);
}

/* The faster the link, the larger the level, at every density; a step to fewer bytes never follows. */
static void monotone_in_the_rate(void **state)
{
    (void)state;
    static const int size[WEFT_LEVEL_COUNT] = {
        [WEFT_LEVEL_TIGHT] = 0, [WEFT_LEVEL_FAST] = 1, [WEFT_LEVEL_PAIRS] = 2, [WEFT_LEVEL_FULL] = 3};
    for (double density = 1e-4; density < 0.6; density *= 3) {
        int last = 0;
        for (double rate = 1e6; rate < 2e10; rate *= 1.5) {
            int now = size[choose_at(rate, density)];
            assert_true(now >= last);
            last = now;
        }
    }
}

static void much_change_takes_full(void **state)
{
    (void)state;
    scene s;
    assert_int_equal(choose_at(1.25e10, 0.5), WEFT_LEVEL_FULL);
    open_scene(&s, 1.25e10, 0.5);
    s.wish.room = ELEMENTS; /* it would push all else out of the journal */
    assert_int_not_equal(weft_level_choose(&s.wish), WEFT_LEVEL_FULL);
    open_scene(&s, 1.25e10, 0.5);
    s.wish.staging = 4 * ELEMENTS;
    assert_int_not_equal(weft_level_choose(&s.wish), WEFT_LEVEL_FULL);
}

/* On a link where tight wins by little, encoding it for one peer alone is not worth it; where it is there anyway, it
 * is. */
static void encoding_is_paid_for(void **state)
{
    (void)state;
    uint32_t paid = 0;
    for (double rate = 1e6; rate < 2e8; rate *= 1.1) {
        scene s;
        open_scene(&s, rate, 0.0117);
        s.wish.encode_workers = 1;
        s.site.bucket = 4u << 20; /* all in one: nothing overlaps */
        weft_level alone = weft_level_choose(&s.wish);
        s.wish.in_use |= 1u << WEFT_LEVEL_TIGHT;
        weft_level shared = weft_level_choose(&s.wish);
        paid += alone != shared;
        assert_true(alone != WEFT_LEVEL_TIGHT || shared == WEFT_LEVEL_TIGHT);
    }
    assert_true(paid > 0);
}

/* A machine that becomes slower is believed after some updates, and one update alone moves the estimate by a part. */
static void the_encoder_may_become_slower(void **state)
{
    (void)state;
    const uint64_t changed = 2340000;
    const uint32_t fast = 1u << WEFT_LEVEL_FAST;
    scene s;
    open_scene(&s, 12.5e6, 0.0117);
    const double reference = weft_habit_encode_s(&s.habit, WEFT_LEVEL_FAST);
    weft_habit_note_encoding(&s.habit, changed, fast, reference);
    assert_true(fabs(weft_habit_encode_s(&s.habit, WEFT_LEVEL_FAST) / reference - 1) < 0.01);
    weft_habit_note_encoding(&s.habit, changed, fast, 4 * reference);
    const double once = weft_habit_encode_s(&s.habit, WEFT_LEVEL_FAST) / reference;
    assert_true(once > 1.05 && once < 3.5);
    for (int i = 0; i < 100; i++)
        weft_habit_note_encoding(&s.habit, changed, fast, 4 * reference);
    assert_true(fabs(weft_habit_encode_s(&s.habit, WEFT_LEVEL_FAST) / reference - 4) < 0.05);
}

/* The fastest link on which tight is taken, by what the trainer's updates so far took of the reference's time. */
static double tight_up_to(double factor)
{
    const uint64_t changed = 2340000;
    double last = 0;
    for (double rate = 1e6; rate < 2e10; rate *= 1.05) {
        scene s;
        weft_habit reference;
        open_scene(&s, rate, 0.0117);
        s.wish.encode_workers = 1;
        s.site.bucket = 4u << 20;
        reference = s.habit;
        double seconds =
            weft_habit_encode_s(&reference, WEFT_LEVEL_FAST) + weft_habit_encode_s(&reference, WEFT_LEVEL_PAIRS);
        weft_habit_note_encoding(&s.habit, changed, 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_PAIRS, factor * seconds);
        double tight = weft_habit_encode_s(&s.habit, WEFT_LEVEL_TIGHT);
        assert_true(fabs(tight / weft_habit_encode_s(&reference, WEFT_LEVEL_TIGHT) / factor - 1) < 0.01);
        if (weft_level_choose(&s.wish) == WEFT_LEVEL_TIGHT)
            last = rate;
    }
    return last;
}

static void a_fast_encoder_pays_less(void **state)
{
    (void)state;
    assert_true(tight_up_to(0.3) > 1.3 * tight_up_to(1));
    assert_true(tight_up_to(1) > 1.3 * tight_up_to(4));
}

/* Encoding that overlaps many buckets costs no more than the wire takes meanwhile. With one bucket encoding comes
 * first. */
static void encoding_overlaps(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, 1.25e7, 0.0117);
    s.wish.encode_workers = 1;
    double alone = weft_level_seconds(&s.wish, WEFT_LEVEL_TIGHT),
           encode = weft_habit_encode_s(&s.habit, WEFT_LEVEL_TIGHT);
    s.wish.in_use |= 1u << WEFT_LEVEL_TIGHT;
    double shared = weft_level_seconds(&s.wish, WEFT_LEVEL_TIGHT);
    assert_true(encode < shared); /* so that the wire is what is waited for */
    assert_true(alone > shared && alone < shared + encode / 2);
    s.site.bucket = 4u << 20;
    alone = weft_level_seconds(&s.wish, WEFT_LEVEL_TIGHT);
    s.wish.in_use &= ~(1u << WEFT_LEVEL_TIGHT);
    assert_true(fabs(weft_level_seconds(&s.wish, WEFT_LEVEL_TIGHT) / (alone + encode) - 1) < 0.01);
}

static void a_slow_decoder_takes_less_work(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, 6e6, 0.0117);
    assert_int_equal(weft_level_choose(&s.wish), WEFT_LEVEL_TIGHT);
    double seconds = 10 * weft_habit_decode_s(&s.habit, WEFT_LEVEL_TIGHT, 2340000);
    for (int i = 0; i < 5; i++)
        weft_decoding_note(&s.decoding, &s.habit, WEFT_LEVEL_TIGHT, 2340000, seconds);
    assert_true(fabs(weft_decoding_factor(&s.decoding, WEFT_LEVEL_TIGHT) - 10) < 0.01);
    assert_true(fabs(weft_decoding_factor(&s.decoding, WEFT_LEVEL_FAST) - 10) < 0.01); /* as far as is known */
    s.wish.present = WEFT_LEVEL_TIGHT;
    assert_int_not_equal(weft_level_choose(&s.wish), WEFT_LEVEL_TIGHT);
}

/* Rates measured with noise of a tenth, at every place on the scale: a level is left at most once. */
static void does_not_flap(void **state)
{
    (void)state;
    for (double rate = 1e6; rate < 2e10; rate *= 1.07) {
        scene s;
        uint32_t changes = 0;
        open_scene(&s, rate, 0.0117);
        for (uint64_t i = 0; i < 200; i++) {
            s.estimate.rate_bytes_s = rate * (0.9 + 0.2 * (double)(weft_mix64(i) % 1000) / 1000);
            s.habit.density = 0.0117 * (0.95 + 0.1 * (double)(weft_mix64(i + 1000) % 1000) / 1000);
            weft_level level = weft_level_choose(&s.wish);
            changes += level != s.wish.present;
            s.wish.present = level;
        }
        if (changes > 2)
            fail_msg("rate %.3g: %u changes", rate, changes);
    }
}

static void the_site_decides(void **state)
{
    (void)state;
    const weft_level wanted[] = {WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};
    for (int choice = WEFT_CHOICE_FULL; choice <= WEFT_CHOICE_TIGHT; choice++) {
        scene s;
        open_scene(&s, 12.5e6, 0.0117);
        s.site.level = (weft_choice_level)choice;
        assert_int_equal(weft_level_choose(&s.wish), wanted[choice - WEFT_CHOICE_FULL]);
    }
}

static void before_anything_is_known(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, 0, 0);
    s.wish.present = WEFT_LEVEL_TIGHT; /* of the connection before */
    assert_int_equal(weft_level_choose(&s.wish), WEFT_LEVEL_FAST);
    open_scene(&s, 12.5e6, 0); /* a rate, and no update yet */
    assert_int_equal(weft_level_choose(&s.wish), WEFT_LEVEL_TIGHT);
    s.wish.levels = 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_FULL;
    assert_int_equal(weft_level_choose(&s.wish), WEFT_LEVEL_FAST);
}

/* A third of the time is worth no change where that is less than a wake-up may cost. */
static void little_models_stay(void **state)
{
    (void)state;
    for (double elements = 20000; elements < 1e6; elements *= 10) {
        scene s;
        open_scene(&s, 1e5, 0.0117);
        weft_habit_begin(&s.habit, (uint64_t)elements, 2 * (uint64_t)elements);
        s.habit.density = 0.0117;
        const double saved =
            weft_level_seconds(&s.wish, WEFT_LEVEL_FAST) - weft_level_seconds(&s.wish, WEFT_LEVEL_TIGHT);
        assert_int_equal(weft_level_choose(&s.wish), saved < 1e-3 ? WEFT_LEVEL_FAST : WEFT_LEVEL_TIGHT);
        assert_int_equal(saved < 1e-3, elements == 20000);
    }
}

/* One update that is far denser than those before is believed by half. */
static void one_dense_update(void **state)
{
    (void)state;
    weft_habit habit;
    const uint64_t made[WEFT_LEVEL_COUNT] = {0};
    weft_habit_begin(&habit, ELEMENTS, 2 * ELEMENTS);
    weft_habit_note(&habit, ELEMENTS / 100, 0, made);
    assert_true(fabs(habit.density - 0.01) < 1e-4);
    weft_habit_note(&habit, ELEMENTS / 25, 0, made);
    assert_true(fabs(habit.density - 0.02) < 1e-4);
}

/* Sizes of docs/PERFORMANCE.md: the rule is within a tenth of them, and what was made corrects it. */
static void bytes_by_density(void **state)
{
    (void)state;
    const struct {
        double density;
        weft_level level;
        double bits;
    } seen[] = {{0.0117, WEFT_LEVEL_FAST, 9.65}, {0.0117, WEFT_LEVEL_TIGHT, 6.47}, {0.0117, WEFT_LEVEL_PAIRS, 48.1},
                {0.0789, WEFT_LEVEL_FAST, 7.14}, {0.0789, WEFT_LEVEL_TIGHT, 5.32}, {0.001, WEFT_LEVEL_FAST, 13.36}};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        weft_habit habit;
        weft_habit_begin(&habit, ELEMENTS, 2 * ELEMENTS);
        habit.density = seen[i].density;
        double bits = 8 * weft_habit_bytes(&habit, seen[i].level) / (seen[i].density * ELEMENTS);
        assert_true(fabs(bits / seen[i].bits - 1) < 0.1);
        uint64_t changed = (uint64_t)(seen[i].density * ELEMENTS), made[WEFT_LEVEL_COUNT] = {0};
        made[seen[i].level] = 2 * (uint64_t)(seen[i].bits * (double)changed / 8);
        weft_habit_note(&habit, changed, 1u << seen[i].level, made);
        double now = weft_habit_bytes(&habit, seen[i].level);
        assert_true(fabs(now / (double)made[seen[i].level] - 1) < 0.01);
        weft_habit_note(&habit, 0, ALL, made); /* an update that changes nothing teaches nothing */
        assert_true(weft_habit_bytes(&habit, seen[i].level) == now);
    }
}

/* The size at level fast says something of level tight, of which nothing is known yet, and of no other level. */
static void fast_stands_for_tight(void **state)
{
    (void)state;
    weft_habit habit;
    weft_habit_begin(&habit, ELEMENTS, 2 * ELEMENTS);
    habit.density = 0.0117;
    const double fast = weft_habit_bytes(&habit, WEFT_LEVEL_FAST), tight = weft_habit_bytes(&habit, WEFT_LEVEL_TIGHT),
                 pairs = weft_habit_bytes(&habit, WEFT_LEVEL_PAIRS);
    const uint64_t made[WEFT_LEVEL_COUNT] = {[WEFT_LEVEL_FAST] = 2 * (uint64_t)fast};
    weft_habit_note(&habit, (uint64_t)(0.0117 * ELEMENTS), 1u << WEFT_LEVEL_FAST, made);
    assert_true(fabs(weft_habit_bytes(&habit, WEFT_LEVEL_TIGHT) / tight - 2) < 0.01);
    assert_true(fabs(weft_habit_bytes(&habit, WEFT_LEVEL_PAIRS) / pairs - 1) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_links_take_fewer_bytes),
        cmocka_unit_test(monotone_in_the_rate),
        cmocka_unit_test(much_change_takes_full),
        cmocka_unit_test(the_encoder_may_become_slower),
        cmocka_unit_test(encoding_is_paid_for),
        cmocka_unit_test(a_fast_encoder_pays_less),
        cmocka_unit_test(encoding_overlaps),
        cmocka_unit_test(a_slow_decoder_takes_less_work),
        cmocka_unit_test(does_not_flap),
        cmocka_unit_test(the_site_decides),
        cmocka_unit_test(before_anything_is_known),
        cmocka_unit_test(little_models_stay),
        cmocka_unit_test(one_dense_update),
        cmocka_unit_test(bytes_by_density),
        cmocka_unit_test(fast_stands_for_tight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
