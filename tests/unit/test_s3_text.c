/* The text that object servers speak: names in URLs, elements of XML that may be anything, and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/s3.h"
#include "store/s3_login.h"

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

/* ---- an answer */

static bool takes(weft_s3_answer *answer, const char *text)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    return weft_s3_body_take_bounded(copy, 1, strlen(copy), answer) == strlen(copy);
}

static void header(weft_s3_answer *answer, const char *line)
{
    char copy[128];
    snprintf(copy, sizeof copy, "%s\r\n", line);
    assert_int_equal(weft_s3_header_take(copy, 1, strlen(copy), answer), strlen(copy));
}

/* What is to come is bounded, and so is what comes where a range was asked for and the server knows none. */
static void answers_have_an_end(void **state)
{
    (void)state;
    const weft_s3_request part = {.method = "GET", .most = 6, .range = "0-5"};
    weft_s3_answer answer = {0};
    weft_s3_answer_begin(&answer, &part);
    answer.most = part.most; /* without the text of an error */
    assert_true(takes(&answer, "abc") && takes(&answer, "def"));
    assert_false(takes(&answer, "g"));
    assert_true(answer.over && answer.bytes == 6);
    weft_s3_answer_begin(&answer, &part);
    header(&answer, "HTTP/1.1 200 OK");
    header(&answer, "Content-Length: 99999999999999");
    assert_true(answer.most == UINT64_C(1) << 30);
    header(&answer, "content-length: 4");
    assert_true(takes(&answer, "abcd") && !takes(&answer, "e"));
    header(&answer, "HTTP/1.1 206 Partial Content");
    header(&answer, "Content-Length: 5"); /* of the part that was asked for */
    header(&answer, "Content-Range: bytes 0-5/1234");
    assert_true(answer.most == 4);
    header(&answer, "ETag:  \"mark\"");
    assert_true(answer.code == 206 && answer.total == 1234);
    assert_string_equal(answer.etag, "\"mark\"");
    weft_s3_answer_begin(&answer, &part); /* asked again: nothing of the answer before */
    assert_true(!answer.code && !answer.total && !answer.bytes && !answer.etag[0] && !answer.over);
    weft_mem_give(answer.body);
}

/* A portal's page is no listing, and half a listing is cut. */
static void answers_are_what_was_asked_for(void **state)
{
    static const struct {
        const char *root, *text;
        long code;
        bool whole, cut;
    } rows[] = {
        {"List", "<List><Key>a</Key></List>", 200, true, false},
        {"List", "<List><Key>a</Key>", 200, false, true},
        {"List", "<html>log in</html>", 200, false, false},
        {"List", "", 200, false, false},
        {"List", "<Error/>", 404, true, false},
        {NULL, "bits", 200, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weft_s3_request request = {.method = "GET", .most = 64, .root = rows[i].root};
        weft_s3_answer answer = {0};
        weft_s3_answer_begin(&answer, &request);
        assert_true(takes(&answer, rows[i].text));
        answer.code = rows[i].code;
        assert_true(weft_s3_answer_is_whole(&answer) == rows[i].whole && weft_s3_answer_is_cut(&answer) == rows[i].cut);
        weft_mem_give(answer.body);
    }
}

/* ---- settings */

#ifndef WEFT_NO_S3
static void file_write(char path[300], const char *name, const char *text)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, 300, "%s/weft-profile-%d-%s", base ? base : "/tmp", (int)getpid(), name);
    FILE *file = fopen(path, "we");
    assert_true(file && fputs(text, file) >= 0);
    fclose(file);
}

/* The credentials' file comes before the configuration's, and a variable before both. */
static void settings_come_from_the_first_that_has_one(void **state)
{
    static const char *const keys[][3] = {
        {"default", "region", "north"}, {"default", "aws_access_key_id", "ID"},
        {"other", "region", "south"},   {"other", "aws_access_key_id", NULL},
        {"default", "commented", NULL}, {"default", "nested", NULL},
        {"none", "region", NULL},       {"oth", "region", NULL},
        {"other", "thirds", NULL},
    };
    char credentials[300], config[300], out[64];
    bool named;
    (void)state;
    file_write(credentials, "credentials", "[default]\naws_access_key_id = ID \n#commented = 1\nempty =\n");
    file_write(config, "config",
               "[default]\nregion=north\naws_access_key_id = LATER\nempty = full\ns3 =\n  nested = 1\n"
               "[profile other]\nregion = south\n[ profile  third ]\nregion = west\nthirds = 1\n");
    setenv("AWS_SHARED_CREDENTIALS_FILE", credentials, 1);
    setenv("AWS_CONFIG_FILE", config, 1);
    unsetenv("AWS_DEFAULT_PROFILE");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        setenv("AWS_PROFILE", keys[i][0], 1);
        const bool found = weft_s3_profile_get(keys[i][1], out, sizeof out);
        if (found != (keys[i][2] != NULL) || (found && strcmp(out, keys[i][2]) != 0))
            fail_msg("%s of %s is %s", keys[i][1], keys[i][0], found ? out : "not there");
    }
    setenv("AWS_PROFILE", "third", 1);
    assert_true(weft_s3_profile_get("region", out, sizeof out));
    assert_string_equal(weft_s3_profile_name(&named), "third");
    assert_true(named);
    setenv("AWS_PROFILE", "", 1);
    assert_string_equal(weft_s3_profile_name(&named), "default");
    assert_false(named);
    assert_true(weft_s3_profile_get("empty", out, sizeof out));
    assert_string_equal(out, "full"); /* what has no value is not there */
    setenv("WEFT_FIRST", "", 1);
    setenv("WEFT_SECOND", "second", 1);
    assert_true(weft_s3_setting("WEFT_FIRST", "WEFT_SECOND", "region", "own", out, sizeof out));
    assert_string_equal(out, "second");
    assert_true(weft_s3_setting("WEFT_FIRST", NULL, "region", "own", out, sizeof out));
    assert_string_equal(out, "north");
    assert_true(weft_s3_setting("WEFT_FIRST", NULL, NULL, "own", out, sizeof out));
    assert_string_equal(out, "own");
    assert_false(weft_s3_setting("WEFT_SECOND", NULL, NULL, "own", out, 6)); /* no room for its end */
    unlink(credentials);
    unlink(config);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(names_in_urls),
        cmocka_unit_test(elements),
        cmocka_unit_test(times),
        cmocka_unit_test(answers_that_share_a_line_have_time),
        cmocka_unit_test(answers_have_an_end),
        cmocka_unit_test(answers_are_what_was_asked_for),
#ifndef WEFT_NO_S3
        cmocka_unit_test(settings_come_from_the_first_that_has_one),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
