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
    header(&answer, "Content-Range: bytes 0-5/1234");
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
        {"List", "<List><Key>a</Key></List>", 200, true, false}, {"List", "<List><Key>a</Key>", 200, false, true},
        {"List", "<html>log in</html>", 200, false, false},      {"List", "", 200, false, false},
        {"List", "<Error/>", 404, true, false},                  {NULL, "bits", 200, true, false},
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
    };
    char credentials[300], config[300], out[64];
    bool named;
    (void)state;
    file_write(credentials, "credentials", "[default]\naws_access_key_id = ID \n#commented = 1\nempty =\n");
    file_write(config, "config",
               "[default]\nregion=north\naws_access_key_id = LATER\nempty = full\ns3 =\n  nested = 1\n"
               "[profile other]\nregion = south\n[ profile  third ]\nregion = west\n");
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

/* ---- credentials, of a server that the test plays */

static const char *role_text;
static CURLcode role_code;
static unsigned role_asked;
static size_t (*role_write)(char *data, size_t one, size_t count, void *user);
static void *role_user;
static char role_url[256];

static CURL *play_init(void)
{
    return (CURL *)&role_asked;
}

static CURLcode play_option(CURL *handle, CURLoption option, ...)
{
    va_list values;
    (void)handle;
    va_start(values, option);
    if (option == CURLOPT_WRITEFUNCTION)
        role_write = va_arg(values, size_t (*)(char *, size_t, size_t, void *));
    else if (option == CURLOPT_WRITEDATA)
        role_user = va_arg(values, void *);
    else if (option == CURLOPT_URL)
        snprintf(role_url, sizeof role_url, "%s", va_arg(values, const char *));
    va_end(values);
    return CURLE_OK;
}

static CURLcode play_perform(CURL *handle)
{
    char text[512];
    (void)handle;
    role_asked++;
    snprintf(text, sizeof text, "%s", role_text);
    if (role_code == CURLE_OK)
        role_write(text, 1, strlen(text), role_user);
    return role_code;
}

static CURLcode play_info(CURL *handle, CURLINFO info, ...)
{
    va_list values;
    (void)handle;
    va_start(values, info);
    *va_arg(values, long *) = 200;
    va_end(values);
    return CURLE_OK;
}

static const char *play_error(CURLcode code)
{
    return code ? "it fails" : "";
}

static void play_cleanup(CURL *handle)
{
    (void)handle;
}

static struct curl_slist *play_append(struct curl_slist *list, const char *text)
{
    (void)text;
    return list;
}

static void play_free(struct curl_slist *list)
{
    (void)list;
}

static const weft_curl played = {.easy_init = play_init,
                                 .easy_setopt = play_option,
                                 .easy_perform = play_perform,
                                 .easy_getinfo = play_info,
                                 .easy_strerror = play_error,
                                 .easy_cleanup = play_cleanup,
                                 .slist_append = play_append,
                                 .slist_free_all = play_free};

static const char *credentials_until(time_t seconds)
{
    static char text[256];
    char until[32];
    const time_t end = time(NULL) + seconds;
    struct tm parts;
    strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &parts));
    snprintf(text, sizeof text,
             "{\"AccessKeyId\":\"ID\",\"SecretAccessKey\":\"KEY\",\"Token\":\"T\",\"Expiration\":\"%s\"}", until);
    return text;
}

/* Only a server of this host, or one by https, sees a container's token. */
static void tokens_go_to_own_servers(void **state)
{
    static const struct {
        const char *url;
        bool own;
    } rows[] = {
        {"http://localhost/x", true},
        {"http://127.0.0.1:8080/x", true},
        {"http://[::1]:80/x", true},
        {"http://169.254.170.23/v1", true},
        {"https://anybody.example/x", true},
        {"http://anybody.example/x", false},
        {"http://localhost.example/x", false},
        {"http://127.0.0.1.example/x", false},
        {"http://user@anybody.example/x", false},
        {"http://localhost:80@anybody.example/x", false},
        {"ftp://localhost/x", false},
    };
    const atomic_bool ended = false;
    const weft_s3_web web = {&played, &ended, "north"};
    weft_s3_login login;
    (void)state;
    role_code = CURLE_OK;
    role_text = credentials_until(3600);
    unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", rows[i].url, 1);
        role_asked = 0;
        const weft_status status = weft_s3_role_of_container(&web, &login);
        if (status != (rows[i].own ? WEFT_OK : WEFT_E_CONFIG) || role_asked != rows[i].own)
            fail_msg("%s: %s", rows[i].url, weft_status_name(status));
    }
}

/* Five minutes before their end, or in the middle of a shorter life; and a renewal that fails is borne while they are
 * good. Google's keys come from its own variables alone. */
static void credentials_are_renewed_in_time(void **state)
{
    static const struct {
        time_t life_s;
        uint64_t early_s;
    } rows[] = {{3600, 300}, {601, 300}, {100, 50}};
    const atomic_bool ended = false;
    const weft_s3_web web = {&played, &ended, "north"};
    weft_s3_login login;
    (void)state;
    weft_clock_own = NULL;
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1);
    setenv("AWS_CONFIG_FILE", "/nowhere", 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/x", 1);
    role_code = CURLE_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        role_text = credentials_until(rows[i].life_s);
        assert_int_equal(weft_s3_login_take(&web, "s3://bucket", &login), WEFT_OK);
        assert_in_range(login.until_s - login.renew_at_s, rows[i].early_s - 1, rows[i].early_s);
        role_asked = 0;
        assert_int_equal(weft_s3_login_keep(&web, "s3://bucket", &login), WEFT_OK);
        assert_int_equal(role_asked, 0); /* not yet */
    }
    role_code = CURLE_COULDNT_CONNECT;
    login.renew_at_s = (uint64_t)time(NULL);
    assert_int_equal(weft_s3_login_keep(&web, "s3://bucket", &login), WEFT_OK);
    assert_int_equal(role_asked, 3); /* tries */
    assert_true(login.renew_at_s > (uint64_t)time(NULL) && strcmp(login.id, "ID") == 0);
    login.renew_at_s = login.until_s = (uint64_t)time(NULL);
    assert_int_equal(weft_s3_login_keep(&web, "s3://bucket", &login), WEFT_E_FILE);
    setenv("AWS_ACCESS_KEY_ID", "OURS", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "OURS", 1);
    role_asked = 0;
    assert_int_equal(weft_s3_login_take(&web, "s3://bucket", &login), WEFT_OK);
    assert_true(strcmp(login.id, "OURS") == 0 && role_asked == 0 && login.until_s == 0);
    assert_int_equal(weft_s3_login_take(&web, "gs://bucket", &login), WEFT_E_CONFIG);
    setenv("GS_ACCESS_KEY_ID", "GOOGLE", 1);
    setenv("GS_SECRET_ACCESS_KEY", "GOOGLE", 1);
    setenv("AWS_SESSION_TOKEN", "T", 1);
    assert_int_equal(weft_s3_login_take(&web, "gs://bucket", &login), WEFT_OK);
    assert_true(strcmp(login.id, "GOOGLE") == 0 && !login.token[0]);
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
        cmocka_unit_test(tokens_go_to_own_servers),
        cmocka_unit_test(credentials_are_renewed_in_time),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
