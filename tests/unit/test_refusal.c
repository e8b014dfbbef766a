/* The text that a guest gets with a refusal, and the text that this end must log instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include "tests/support/quiet.h"
#include "wire/refusal.h"

static void its_own_fault_is_told(void **state)
{
    (void)state;
    weft_wire_notice notice;
    const weft_status why = weft_fail_quiet(WEFT_E_REFUSED, "its slots hold too little");
    weft_refusal_notice(why, "relay a: ", &notice);
    assert_string_equal(notice.text, "relay a: its slots hold too little");
    assert_false(weft_refusal_withholds(why));
}

static void trouble_of_this_end_is_not_told_but_said_here(void **state)
{
    (void)state;
    static const weft_status own[] = {WEFT_E_SYSTEM, WEFT_E_CONFIG, WEFT_E_MEMORY, WEFT_E_DEVICE};
    weft_wire_notice notice;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        weft_refusal_notice(weft_fail_quiet(own[i], "interface /dev/eth9 is away"), "", &notice);
        assert_int_equal(notice.status, own[i]);
        assert_null(strstr(notice.text, "eth9"));
        assert_non_null(strstr(notice.text, "its log says why"));
        assert_true(weft_refusal_withholds(own[i]));
    }
    weft_log_enter(&quiet);
    assert_false(weft_refusal_withholds(weft_fail(WEFT_E_SYSTEM, "said here already")));
    weft_log_enter(NULL);
}

static void what_was_given_for_others_is_told(void **state)
{
    (void)state;
    weft_wire_notice notice;
    const weft_status why = weft_fail_quiet(WEFT_E_SYSTEM, "b at 10.0.0.9 has it");
    weft_fail_outside("somebody has it");
    weft_refusal_notice(why, "", &notice);
    assert_string_equal(notice.text, "somebody has it");
    assert_false(weft_refusal_withholds(why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(its_own_fault_is_told),
                                       cmocka_unit_test(trouble_of_this_end_is_not_told_but_said_here),
                                       cmocka_unit_test(what_was_given_for_others_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
