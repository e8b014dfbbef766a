/* What a dialing end offers in place of a name and the ID of a key. A name becomes part of a path, and an ID of a line
 * of the log, so nothing else may come through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "security/inside.h"

#define ID "0123456789abcdef"

static void offers(void **state)
{
    static const struct {
        const char *offer;
        size_t bytes; /* 0: its length */
        bool taken;
    } rows[] = {
        {"a:" ID, 0, true},
        {"a-2_c:" ID, 0, true},
        {"", 0, false},
        {":" ID, 0, false},
        {"a" ID, 0, false},
        {"a;" ID, 0, false},
        {"../a:" ID, 0, false},
        {"a/b:" ID, 0, false},
        {"a.b:" ID, 0, false},
        {"a b:" ID, 0, false},
        {"a\nb:" ID, 0, false},
        {"a\0b:" ID, 20, false},
        {"*:" ID, 0, false},
        {"a:0123456789abcdeF", 0, false},
        {"a:0123456789abcde/", 0, false},
        {"a:0123456789abcde", 0, false},
        {"a:" ID "0", 0, false},
        {"a:01234567\n9abcdef", 0, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[WEFT_SITE_NAME], id[WEFT_SECRET_ID];
        const size_t bytes = rows[i].bytes ? rows[i].bytes : strlen(rows[i].offer);
        if (weft_shared_cut((const unsigned char *)rows[i].offer, bytes, name, id) != rows[i].taken)
            fail_msg("row %zu: '%s'", i, rows[i].offer);
    }
}

/* A name fits with its end, or does not come through. */
static void long_names(void **state)
{
    char name[WEFT_SITE_NAME], id[WEFT_SECRET_ID], offer[WEFT_SITE_NAME + sizeof ID + 8];
    (void)state;
    for (size_t length = WEFT_SITE_NAME - 2; length < WEFT_SITE_NAME + 2; length++) {
        memset(offer, 'a', length);
        memcpy(offer + length, ":" ID, sizeof ":" ID);
        const bool taken = weft_shared_cut((const unsigned char *)offer, length + sizeof ID, name, id);
        assert_int_equal(taken, length < WEFT_SITE_NAME);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers),
        cmocka_unit_test(long_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
