/* A link that cannot be opened is asked for so seldom that asking takes little of the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "session/link_rest.h"

#define TAKES_NS (10 * WEFT_NS_PER_MS) /* that each question takes */

static uint64_t now_ns = WEFT_NS_PER_MS;
static uint32_t asked;
static weft_status answer;

static uint64_t tell_now(void *user)
{
    (void)user;
    return now_ns;
}

static void pass_on(void *user, uint64_t ns)
{
    (void)user;
    now_ns += ns;
}

static const weft_clock own_clock = {tell_now, pass_on, NULL};

static weft_status open_link(const weft_link_options *options, weft_link **link)
{
    now_ns += TAKES_NS;
    asked++;
    *link = NULL;
    return answer == WEFT_OK ? WEFT_OK : weft_fail_quiet(answer, "no link at %s", options->address);
}

static const weft_provider slow = {.name = "slow", .link_open = open_link},
                           other = {.name = "other", .link_open = open_link};

static int set_clock(void **state)
{
    (void)state;
    weft_clock_own = &own_clock;
    return 0;
}

static int give_clock(void **state)
{
    (void)state;
    weft_clock_own = NULL;
    return 0;
}

static void asked_seldom(void **state)
{
    (void)state;
    weft_link_rests rests = {0};
    weft_link *link;
    const weft_link_options options = {.address = "a"};
    const uint64_t begun_ns = now_ns;
    answer = WEFT_E_PROVIDER;
    asked = 0;
    for (int i = 0; i < 10000; i++, now_ns += WEFT_NS_PER_MS) {
        assert_int_equal(weft_link_rest_open(&rests, &slow, &options, &link), WEFT_E_PROVIDER);
        assert_string_equal(weft_last_error(), "no link at a");
    }
    assert_true(asked > 10);
    assert_true(asked * TAKES_NS <= (now_ns - begun_ns) / 15);
}

/* Nobody else waits for that, and who comes later than the rest finds what there is then. */
static void others_are_asked(void **state)
{
    (void)state;
    weft_link_rests rests = {0};
    weft_link *link;
    const weft_link_options at_a = {.address = "a"}, at_b = {.address = "b"};
    answer = WEFT_E_PROVIDER;
    assert_int_equal(weft_link_rest_open(&rests, &slow, &at_a, &link), WEFT_E_PROVIDER);
    answer = WEFT_OK;
    assert_int_equal(weft_link_rest_open(&rests, &slow, &at_a, &link), WEFT_E_PROVIDER);
    assert_int_equal(weft_link_rest_open(&rests, &slow, &at_b, &link), WEFT_OK);
    assert_int_equal(weft_link_rest_open(&rests, &other, &at_a, &link), WEFT_OK);
    now_ns += 1000 * WEFT_NS_PER_MS;
    assert_int_equal(weft_link_rest_open(&rests, &slow, &at_a, &link), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_seldom),
        cmocka_unit_test(others_are_asked),
    };
    return cmocka_run_group_tests(tests, set_clock, give_clock);
}
