/* A link that loses its carrier, and has it back, while a provider is held against this host: nobody calls an address
 * of this host foreign, because that is final. What host and libfabric say is the test's. */
#define weft_fabric_candidates  played_candidates
#define weft_fabric_version     played_version
#define weft_interface_resolve  played_resolve
#define weft_interface_hindered played_hindered
#define weft_review_open        played_review_open
#define weft_review_close       played_review_close
#include "providers/review.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define OWN     "192.0.2.7"
#define FOREIGN "192.0.2.9"

/* Time is counted in questions: the carrier is gone for those from the first on, up to before the last. */
static int asked, gone, back;

static bool carries(void)
{
    const bool up = asked < gone || asked >= back;
    asked++;
    return up;
}

size_t played_candidates(const weft_profile *profile, weft_candidate *list, size_t capacity, bool *known, char *error,
                         size_t error_capacity)
{
    const size_t count = carries() ? 2 : 1;
    assert_true(capacity >= count && error_capacity > 0);
    error[0] = 0;
    *known = true;
    for (size_t i = 0; i < count; i++) {
        list[i] = (weft_candidate){.caps = ~0u, .immediate_bytes = 8, .protocol = profile->protocol};
        snprintf(list[i].provider, sizeof list[i].provider, "tcp");
        snprintf(list[i].address, sizeof list[i].address, "%s", i ? OWN : "192.0.2.1");
    }
    return count;
}

uint32_t played_version(void)
{
    return 2u << 16;
}

weft_status played_resolve(const char *provider, const char *address, char numeric[WEFT_INTERFACE_TEXT])
{
    (void)provider;
    snprintf(numeric, WEFT_INTERFACE_TEXT, "%.*s", WEFT_INTERFACE_TEXT - 1, address);
    return WEFT_OK;
}

void played_hindered(const char *numeric, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s", carries() || strcmp(numeric, OWN) != 0 ? "" : "it has no carrier");
}

static weft_missing review_of(const char *address, int from, int to)
{
    weft_review review;
    asked = 0;
    gone = from;
    back = to;
    assert_int_equal(weft_review_open(&review, &weft_profile_tcp, address, 0), WEFT_OK);
    const weft_missing missing = review.selection.missing;
    weft_review_close(&review);
    return missing;
}

/* Whenever it goes and comes back. */
static void a_carrier_that_goes(void **state)
{
    (void)state;
    assert_int_equal(review_of(OWN, 9, 9), WEFT_MISSING_NOTHING);
    assert_int_equal(review_of(OWN, 0, 9), WEFT_MISSING_LINK);
    for (int from = 0; from < 6; from++)
        for (int to = from; to < 9; to++) {
            const weft_missing missing = review_of(OWN, from, to);
            if (missing != WEFT_MISSING_NOTHING && missing != WEFT_MISSING_LINK)
                fail_msg("gone from question %d to %d: %s", from, to, weft_missing_name(missing));
        }
}

static void a_foreign_address(void **state)
{
    (void)state;
    assert_int_equal(review_of(FOREIGN, 9, 9), WEFT_MISSING_ADDRESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_carrier_that_goes),
        cmocka_unit_test(a_foreign_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
