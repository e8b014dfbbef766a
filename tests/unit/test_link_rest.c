/* A link that cannot be opened is asked for so seldom that asking takes little of the time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "session/link_rest.h"
#include "tests/support/clock_own.h"

#define TAKES_NS (10 * WEFT_NS_PER_MS) /* that each question takes */

static uint32_t asked;
static weft_status answer;

static weft_status open_link(const weft_link_options *options, weft_link **link)
{
    own_now += TAKES_NS;
    asked++;
    *link = NULL;
    return answer == WEFT_OK ? WEFT_OK : weft_fail_quiet(answer, "no link at %s", options->address);
}

static const weft_provider slow = {.name = "slow", .link_open = open_link},
                           other = {.name = "other", .link_open = open_link};

static void asked_seldom(void **state)
{
    (void)state;
    weft_link_rests rests = {0};
    weft_link *link;
    const weft_link_options options = {.address = "a"};
    const uint64_t begun_ns = own_now;
    answer = WEFT_E_PROVIDER;
    asked = 0;
    for (int i = 0; i < 10000; i++, own_now += WEFT_NS_PER_MS) {
        weft_fail_quiet(WEFT_E_STATE, "before");
        assert_int_equal(weft_link_rest_open(&rests, &slow, &options, &link), WEFT_E_PROVIDER);
        assert_string_equal(weft_last_error(), "no link at a");
    }
    assert_true(asked > 10);
    assert_true(asked * TAKES_NS <= (own_now - begun_ns) / 15);
}

/* Nobody else waits for that, and who comes later than the rest finds what there is then. */
static void others_are_asked(void **state)
{
    (void)state;
    weft_link_rests rests = {0};
    weft_link *link;
    const weft_link_options at_a = {.address = "a"}, at_b = {.address = "ab"};
    answer = WEFT_E_PROVIDER;
    assert_int_equal(weft_link_rest_open(&rests, &slow, &at_a, &link), WEFT_E_PROVIDER);
    answer = WEFT_OK;
    assert_int_equal(weft_link_rest_open(&rests, &slow, &at_a, &link), WEFT_E_PROVIDER);
    assert_int_equal(weft_link_rest_open(&rests, &slow, &at_b, &link), WEFT_OK);
    assert_int_equal(weft_link_rest_open(&rests, &other, &at_a, &link), WEFT_OK);
    own_now += 1000 * WEFT_NS_PER_MS;
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
