/* The text that object servers speak: names in URLs, elements of XML that may be anything, and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(names_in_urls),
        cmocka_unit_test(elements),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
