/* The text that object servers speak: names in URLs, elements of XML that may be anything, and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "store/s3.h"

static void names_in_urls(void **state)
{
    (void)state;
    char out[64];
    assert_int_equal(weft_s3_encode("run 7/a+b~c", true, out, sizeof out), 15);
    assert_string_equal(out, "run%207/a%2Bb~c");
    weft_s3_encode("a/b=\xc3\xa9", false, out, sizeof out);
    assert_string_equal(out, "a%2Fb%3D%C3%A9");
    assert_int_equal(weft_s3_encode("abc def", false, out, 6), 9); /* as snprintf: what it would take */
    assert_string_equal(out, "abc%2");
    assert_int_equal(weft_s3_encode("", true, out, sizeof out), 0);
    assert_string_equal(out, "");
}

static void elements(void **state)
{
    (void)state;
    const char *text = "<R><Key>a&amp;b&lt;c</Key><Size>12</Size><Key></Key><Keys>no</Keys><Key>long", *at = text;
    char out[8];
    assert_true(weft_s3_element(&at, "Key", out, sizeof out));
    assert_string_equal(out, "a&b<c");
    assert_true(weft_s3_element(&at, "Size", out, sizeof out));
    assert_string_equal(out, "12");
    assert_true(weft_s3_element(&at, "Key", out, sizeof out));
    assert_string_equal(out, "");
    assert_false(weft_s3_element(&at, "Key", out, sizeof out)); /* it does not end */
    const char *before = at = text;
    assert_false(weft_s3_element(&at, "Key", out, 5)); /* no room */
    assert_ptr_equal(at, before);
    assert_true(weft_s3_element(&at, "Key", out, 6));
    at = "<Key>&bogus;</Key>";
    assert_false(weft_s3_element(&at, "Key", out, 7));
    assert_true(weft_s3_element(&at, "Key", out, sizeof out));
    assert_string_equal(out, "&bogus;");
    at = "<Key>a&#39;&#x3e;&#0;</Key><Key>&#39</Key>";
    assert_true(weft_s3_element(&at, "Key", out, sizeof out));
    assert_string_equal(out, "a'>&#0;");
    assert_true(weft_s3_element(&at, "Key", out, sizeof out));
    assert_string_equal(out, "&#39");
    at = "";
    assert_false(weft_s3_element(&at, "Key", out, sizeof out));
}

static void times(void **state)
{
    (void)state;
    assert_int_equal(weft_s3_time("1970-01-01T00:00:07.000Z"), 7);
    assert_int_equal(weft_s3_time("2026-11-26T12:34:56.789Z"), 1795696496);
    assert_int_equal(weft_s3_time("yesterday"), 0);
    assert_int_equal(weft_s3_time("1960-01-01T00:00:00Z"), 0);
    assert_int_equal(weft_s3_time(""), 0);
}

static void json_is_read(void **state)
{
    static const char text[] = "{ \"Code\" : \"Success\",\n \"AccessKeyId\":\"ID\", \"Token\" :\t\"a\\/b\\\"c\" }";
    char out[16];
    (void)state;
    assert_true(weft_s3_json(text, "AccessKeyId", out, sizeof out));
    assert_string_equal(out, "ID");
    assert_true(weft_s3_json(text, "Token", out, sizeof out));
    assert_string_equal(out, "a/b\"c");
    assert_false(weft_s3_json(text, "Secret", out, sizeof out));
    assert_false(weft_s3_json(text, "Code", out, 7)); /* no room for its end */
    assert_true(weft_s3_json(text, "Code", out, 8));
    static const char *const broken[] = {
        "", "\"Token\"", "\"Token\":", "\"Token\": 5", "\"Token\": \"a", "\"Token\": \"a\\", "\"Token\":\"\""};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        assert_false(weft_s3_json(broken[i], "Token", out, sizeof out));
}

static uint64_t time_ns;

static uint64_t own_now(void *user)
{
    (void)user;
    return time_ns;
}

/* Tells whether an answer is late of which 40 KiB came in so many seconds. */
static bool is_late(uint64_t seconds, uint32_t first, uint32_t last)
{
    static const weft_clock own_clock = {own_now, NULL, NULL};
    const weft_s3_request request = {.method = "GET"};
    atomic_uint asked_now = first;
    weft_s3_answer answer = {.asked_now = &asked_now};
    weft_clock_own = &own_clock;
    time_ns = 0;
    weft_s3_answer_begin(&answer, &request);
    assert_false(weft_s3_answer_is_late(&answer, 0));
    asked_now = last;
    time_ns = seconds * 1000 * WEFT_NS_PER_MS;
    const bool late = weft_s3_answer_is_late(&answer, 40 << 10);
    weft_clock_own = NULL;
    return late;
}

/* A slow line that 32 requests share is no slow server. */
static void answers_that_share_a_line_have_time(void **state)
{
    (void)state;
    assert_false(is_late(25, 1, 1));
    assert_true(is_late(26, 1, 1));
    assert_false(is_late(20 + 5 * 32, 1, 32)); /* others began later */
    assert_false(is_late(20 + 5 * 32, 32, 1)); /* or ended before */
    assert_true(is_late(21 + 5 * 32, 32, 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(names_in_urls),
        cmocka_unit_test(elements),
        cmocka_unit_test(times),
        cmocka_unit_test(answers_that_share_a_line_have_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
