/* Stores of an object server that the test plays: requests that fail are made again, objects are written whole or not
 * at all and never over others, and a listing has an end. libcurl's calls are the test's, so that no second passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "store/s3_login.h"

#ifndef WEFT_NO_S3
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* a reply has what is not zero */
#include "base/mem.h"
#include "tests/support/clock_own.h"

#define NAME       "0000000000000007/00000000000000000001/anchor-0-of-1.weft"
#define HUGE       (UINT64_C(17) << 20) /* bytes of an object in two parts */
#define S(seconds) ((seconds)*1000 * WEFT_NS_PER_MS)

/* ---- the server */

typedef struct reply {
    long code;
    const char *body, *header; /* NULL: none */
    CURLcode result;
} reply;

static struct {
    const reply *replies; /* the last is given for ever */
    unsigned count, asked;
    uint64_t takes_ns; /* each request */
    char log[2048];    /* METHOD NAME?QUERY RANGE, with a * where nothing may be overwritten */
    long code;
    const char *url, *method, *range;
    bool fresh;
    size_t (*write)(char *data, size_t one, size_t count, void *user);
    size_t (*header)(char *data, size_t one, size_t count, void *user);
    void *user;
} server;

static void server_says(const reply *replies, unsigned count)
{
    server.replies = replies;
    server.count = count;
    server.asked = 0;
    server.takes_ns = 0;
    server.log[0] = 0;
}

static CURL *play_init(void)
{
    return (CURL *)&server;
}

static void play_reset(CURL *handle)
{
    (void)handle;
    server.range = NULL;
}

static CURLcode play_option(CURL *handle, CURLoption option, ...)
{
    va_list values;
    (void)handle;
    va_start(values, option);
    if (option == CURLOPT_WRITEFUNCTION)
        server.write = va_arg(values, size_t(*)(char *, size_t, size_t, void *));
    else if (option == CURLOPT_HEADERFUNCTION)
        server.header = va_arg(values, size_t(*)(char *, size_t, size_t, void *));
    else if (option == CURLOPT_WRITEDATA)
        server.user = va_arg(values, void *);
    else if (option == CURLOPT_URL)
        server.url = va_arg(values, const char *);
    else if (option == CURLOPT_CUSTOMREQUEST)
        server.method = va_arg(values, const char *);
    else if (option == CURLOPT_RANGE)
        server.range = va_arg(values, const char *);
    va_end(values);
    return CURLE_OK;
}

static CURLcode play_perform(CURL *handle)
{
    char text[4096];
    const unsigned at = server.asked++;
    const reply *now = &server.replies[at < server.count ? at : server.count - 1];
    const size_t used = strlen(server.log);
    const char *path = strstr(server.url, "/bucket");
    (void)handle;
    own_now += server.takes_ns;
    snprintf(server.log + used, sizeof server.log - used, "%s %s%s%s%s\n", server.method,
             path ? path + strlen("/bucket") : server.url, server.range ? " " : "", server.range ? server.range : "",
             server.fresh ? " *" : "");
    server.code = now->code;
    if (now->header && server.header) {
        snprintf(text, sizeof text, "%s\r\n", now->header);
        server.header(text, 1, strlen(text), server.user);
    }
    snprintf(text, sizeof text, "%s", now->body ? now->body : "");
    if (server.write(text, 1, strlen(text), server.user) != strlen(text))
        return CURLE_WRITE_ERROR;
    return now->result;
}

static CURLcode play_info(CURL *handle, CURLINFO info, ...)
{
    va_list values;
    (void)handle;
    va_start(values, info);
    *va_arg(values, long *) = server.code;
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
    server.fresh = server.fresh || strstr(text, "If-None-Match: *");
    return list;
}

static void play_free(struct curl_slist *list)
{
    (void)list;
    server.fresh = false;
}

static const weft_curl played = {.easy_init = play_init,
                                 .easy_setopt = play_option,
                                 .easy_perform = play_perform,
                                 .easy_getinfo = play_info,
                                 .easy_strerror = play_error,
                                 .easy_reset = play_reset,
                                 .easy_cleanup = play_cleanup,
                                 .slist_append = play_append,
                                 .slist_free_all = play_free};

weft_status __wrap_weft_curl_open(const weft_curl **lib);
weft_status __wrap_weft_curl_open(const weft_curl **lib)
{
    *lib = &played;
    return WEFT_OK;
}

/* ---- the store */

static weft_s3 *s3;
static const weft_store_port *port;

static int setup(void **state)
{
    void *place = NULL;
    setenv("AWS_ACCESS_KEY_ID", "ID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "KEY", 1);
    setenv("AWS_ENDPOINT_URL_S3", "http://host", 1);
    set_clock(state);
    if (weft_store_s3_open("s3://bucket/run 7", &port, &place) != WEFT_OK)
        return -1;
    s3 = place;
    return 0;
}

static int teardown(void **state)
{
    port->close(s3);
    return give_clock(state);
}

static void is_said(const char *words)
{
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

#define PATH    "/run%207/" NAME
#define EXPIRED "<Error><Code>ExpiredToken</Code></Error>"

static void requests_are_made_again_where_that_helps(void **state)
{
    static const struct {
        reply replies[7];
        unsigned count, asked;
        weft_status status;
        const char *root, *words;
        uint64_t takes_ns;
    } rows[] = {
        {{{200}}, 1, 1, WEFT_OK},
        {{{503}, {500}, {429}, {408}, {502}, {200}}, 6, 6, WEFT_OK},
        {{{503}}, 1, 6, WEFT_E_TIMEOUT, NULL, "answers 503"},
        {{{503}}, 1, 2, WEFT_E_TIMEOUT, NULL, "answers 503", S(40)}, /* nobody waits for ever */
        {{{403, "<Error><Code>AccessDenied</Code></Error>"}}, 1, 1, WEFT_E_FILE, NULL, "403 AccessDenied"},
        {{{404}}, 1, 1, WEFT_OK},
        {{{412}}, 1, 1, WEFT_OK},
        {{{0, NULL, NULL, CURLE_COULDNT_CONNECT}, {0, NULL, NULL, CURLE_PARTIAL_FILE}, {200}}, 3, 3, WEFT_OK},
        {{{0, NULL, NULL, CURLE_COULDNT_CONNECT}}, 1, 6, WEFT_E_TIMEOUT, NULL, "it fails"},
        {{{0, NULL, NULL, CURLE_PEER_FAILED_VERIFICATION}}, 1, 1, WEFT_E_FILE, NULL, "it fails"},
        {{{0, NULL, NULL, CURLE_URL_MALFORMAT}}, 1, 1, WEFT_E_FILE, NULL, "it fails"},
        {{{400, EXPIRED}, {200}}, 2, 2, WEFT_OK},
        {{{403, EXPIRED}}, 1, 2, WEFT_E_FILE, NULL, "ExpiredToken"}, /* renewed once */
        {{{200, "<List><Key>a"}, {200, "<List></List>"}}, 2, 2, WEFT_OK, "List"},
        {{{200, "<List><Key>a"}}, 1, 6, WEFT_E_FILE, "List", "half a List"},
        {{{200, "<html>log in</html>"}}, 1, 1, WEFT_E_FILE, "List", "what is no List"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weft_s3_request request = {.method = "GET", .name = NAME, .most = 64, .root = rows[i].root};
        weft_s3_answer answer = {0};
        const uint64_t begun_ns = own_now;
        server_says(rows[i].replies, rows[i].count);
        server.takes_ns = rows[i].takes_ns;
        const weft_status status = weft_s3_ask(s3, &request, &answer);
        if (status != rows[i].status || server.asked != rows[i].asked)
            fail_msg("row %zu: %s after %u requests: %s", i, weft_status_name(status), server.asked, weft_last_error());
        if (rows[i].words)
            is_said(rows[i].words);
        if (server.asked == 6) /* after 0.1, 0.2, 0.4, 0.8, 1.6 s, or the half of that */
            assert_in_range((own_now - begun_ns) / WEFT_NS_PER_MS, 1550, 3200);
        weft_mem_give(answer.body);
    }
}

static void an_end_ends_all_requests(void **state)
{
    static const reply away[] = {{503}};
    const weft_s3_request request = {.method = "GET", .name = NAME};
    weft_s3_answer answer = {0};
    const uint64_t begun_ns = own_now;
    atomic_bool ended = true;
    (void)state;
    server_says(away, 1);
    port->end(s3);
    assert_int_equal(weft_s3_ask(s3, &request, &answer), WEFT_E_TIMEOUT);
    assert_true(own_now == begun_ns); /* no pause */
    assert_int_equal(weft_s3_may_go_on(&ended, 0, 0, 0, 0), 1);
    weft_mem_give(answer.body);
}

/* ---- writing */

static uint64_t object_bytes;
static weft_status object_status;

static weft_status object_fill(void *user, const weft_sink *sink)
{
    static const char bits[1 << 16] = "bits";
    (void)user;
    for (uint64_t at = 0; at < object_bytes; at += sizeof bits) {
        const uint64_t left = object_bytes - at;
        const weft_status status = sink->write(sink->user, bits, left < sizeof bits ? left : sizeof bits);
        if (status != WEFT_OK)
            return status;
    }
    return object_status;
}

#define LOOK  "GET " PATH " 0-0\n"
#define BEGIN LOOK "POST " PATH "?uploads=\n"
#define PARTS BEGIN "PUT " PATH "?partNumber=1&uploadId=u\nPUT " PATH "?partNumber=2&uploadId=u\n"
#define END   PARTS "POST " PATH "?uploadId=u *\n"
#define DROP  "DELETE " PATH "?uploadId=u\n"
#define ID                                                                                                             \
    {                                                                                                                  \
        200, "<UploadId>u</UploadId>"                                                                                  \
    }
#define PART                                                                                                           \
    {                                                                                                                  \
        200, NULL, "ETag: \"e\""                                                                                       \
    }

static void objects_are_written_whole_or_not_at_all(void **state)
{
    static const struct {
        reply replies[7];
        unsigned count;
        uint64_t bytes;
        weft_status filled, status;
        const char *log;
    } rows[] = {
        {{{404}, {200}}, 2, 4, WEFT_OK, WEFT_OK, LOOK "PUT " PATH " *\n"},
        {{{206, "b"}}, 1, 4, WEFT_OK, WEFT_E_STATE, LOOK}, /* it is there */
        {{{404}, {412}, {200, "bits"}}, 3, 4, WEFT_OK, WEFT_OK, LOOK "PUT " PATH " *\nGET " PATH "\n"}, /* ours */
        {{{404}, {412}, {200, "else"}}, 3, 4, WEFT_OK, WEFT_E_STATE, LOOK "PUT " PATH " *\nGET " PATH "\n"},
        {{{404}, {409}, {200, "bit"}}, 3, 4, WEFT_OK, WEFT_E_STATE, LOOK "PUT " PATH " *\nGET " PATH "\n"},
        {{{404}, {501}, {200}}, 3, 4, WEFT_OK, WEFT_OK, LOOK "PUT " PATH " *\nPUT " PATH "\n"},
        {{{404}, {404}}, 2, 4, WEFT_OK, WEFT_E_FILE, LOOK "PUT " PATH " *\n"},
        {{{404}}, 1, 4, WEFT_E_BASE, WEFT_E_BASE, LOOK}, /* nothing is written of half an object */
        {{{404}, ID, PART, PART, {200}}, 5, HUGE, WEFT_OK, WEFT_OK, END},
        {{{404}, ID, PART, PART, {200}},
         5,
         HUGE,
         WEFT_E_BASE,
         WEFT_E_BASE,
         BEGIN "PUT " PATH "?partNumber=1&uploadId=u\n" DROP},
        {{{404}, ID, PART, {404}, {204}}, 5, HUGE, WEFT_OK, WEFT_E_FILE, PARTS DROP},
        {{{404}, ID, PART, PART, {200, "<Error></Error>"}, {204}}, 6, HUGE, WEFT_OK, WEFT_E_FILE, END DROP},
        {{{404}, ID, PART, PART, {404}, {206, NULL, "Content-Range: bytes 0-0/17825792"}},
         6,
         HUGE,
         WEFT_OK,
         WEFT_OK,
         END LOOK}, /* it was done before */
        {{{404}, ID, PART, PART, {404}, {206, NULL, "Content-Range: bytes 0-0/17825791"}},
         6,
         HUGE,
         WEFT_OK,
         WEFT_E_FILE,
         END LOOK DROP},
        {{{404}, ID, PART, PART, {412}, {206, "else"}},
         6,
         HUGE,
         WEFT_OK,
         WEFT_E_STATE,
         END "GET " PATH " -65536\n" DROP},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        server_says(rows[i].replies, rows[i].count);
        object_bytes = rows[i].bytes;
        object_status = rows[i].filled;
        const weft_status status = port->put(s3, NAME, object_fill, NULL);
        if (status != rows[i].status || strcmp(server.log, rows[i].log) != 0)
            fail_msg("row %zu: %s:\n%s", i, weft_status_name(status), server.log);
    }
}

static void an_object_that_cannot_be_read_is_an_error(void **state)
{
    static const struct {
        reply reply;
        const char *words;
    } rows[] = {
        {{404}, "is not there"},
        {{412}, "answers 412"},
        {{206, "bits", "Content-Range: bytes 0-3/2"}, "a wrong length"},
        {{206, "bits", "Content-Range: bytes 0-3/4"}, "no update file"},
    };
    weft_update_file *update = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        server_says(&rows[i].reply, 1);
        assert_int_not_equal(port->open(s3, NAME, &update), WEFT_OK);
        is_said(rows[i].words);
        assert_string_equal(server.log, "GET " PATH " -65536\n"); /* the end is read first */
    }
}

/* ---- listing */

#define PAGE(inner) "<ListBucketResult>" inner "</ListBucketResult>"
#define FILE_OF(key)                                                                                                   \
    "<Contents><Key>" key "</Key><Size>5</Size><LastModified>1970-01-01T00:00:07Z</LastModified></Contents>"
#define MORE        "<IsTruncated>true</IsTruncated>"
#define NEXT(token) MORE "<NextContinuationToken>" token "</NextContinuationToken>"

static void a_listing_has_an_end(void **state)
{
    static const struct {
        reply replies[3];
        unsigned count, asked;
        uint64_t files, others;
        uint64_t takes_ns;
        weft_status status;
    } rows[] = {
        {{{200, PAGE()}}, 1, 1, 0, 0, 0, WEFT_OK},
        {{{200, PAGE(FILE_OF("run 7/" NAME) FILE_OF("run 7/note") FILE_OF("run 8/" NAME))}}, 1, 1, 1, 2, 0, WEFT_OK},
        {{{200, PAGE(FILE_OF("run 7/" NAME) NEXT("a b"))}, {200, PAGE(FILE_OF("run 7/" NAME))}},
         2,
         2,
         2,
         0,
         0,
         WEFT_OK},
        {{{200, PAGE(FILE_OF("run 7/" NAME) MORE)}}, 1, 1, 0, 0, 0, WEFT_E_FILE}, /* more, and no token */
        {{{200, PAGE(NEXT("a"))}}, 1, 2, 0, 0, 0, WEFT_E_FILE},                   /* it goes round */
        {{{200, PAGE(NEXT("a"))}, {200, PAGE(NEXT("b"))}, {200, PAGE(NEXT("c"))}}, 3, 2, 0, 0, S(40), WEFT_E_FILE},
        {{{404, PAGE()}}, 1, 1, 0, 0, 0, WEFT_E_FILE}, /* no bucket is no empty store */
        {{{200, "<html></html>"}}, 1, 1, 0, 0, 0, WEFT_E_FILE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_store_items items = {0};
        server_says(rows[i].replies, rows[i].count);
        server.takes_ns = rows[i].takes_ns;
        const weft_status status = port->list(s3, &items);
        if (status != rows[i].status || server.asked != rows[i].asked)
            fail_msg("row %zu: %s after %u pages", i, weft_status_name(status), server.asked);
        if (status == WEFT_OK)
            assert_true(items.count == rows[i].files && items.others == rows[i].others);
        if (status == WEFT_OK && items.count)
            assert_true(items.items[0].bytes == 5 && items.items[0].time_s == 7 && items.items[0].name.run == 7);
        if (i == 2)
            assert_string_equal(server.log, "GET ?list-type=2&prefix=run%207%2F\n"
                                            "GET ?continuation-token=a%20b&list-type=2&prefix=run%207%2F\n");
        weft_mem_give(items.items);
    }
}

#define UPLOAD(key, time)                                                                                              \
    "<Upload><Key>" key "</Key><UploadId>u</UploadId><Initiated>1970-01-01T00:00:" time "Z</Initiated></Upload>"

/* Begun before second 20, and no part came since. What the server refuses is an error. */
static void parts_that_nobody_finishes_go(void **state)
{
    static const struct {
        const char *upload, *parts;
        bool goes;
        long codes[2]; /* of parts and of their end */
        weft_status status;
    } rows[] = {
        {UPLOAD("run 7/" NAME, "10"), "", true, {200, 204}, WEFT_OK},
        {UPLOAD("run 7/" NAME, "10"), "<LastModified>1970-01-01T00:00:19Z</LastModified>", true, {200, 204}, WEFT_OK},
        {UPLOAD("run 7/" NAME, "10"), "<LastModified>1970-01-01T00:00:21Z</LastModified>", false, {200, 204}, WEFT_OK},
        {UPLOAD("run 7/" NAME, "20"), "", false, {200, 204}, WEFT_OK},
        {UPLOAD("run 8/" NAME, "10"), "", false, {200, 204}, WEFT_OK},
        {UPLOAD("run 7/" NAME, "10"), "", false, {403, 204}, WEFT_E_FILE},
        {UPLOAD("run 7/" NAME, "10"), "", true, {200, 403}, WEFT_E_FILE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char uploads[512], parts[256];
        snprintf(uploads, sizeof uploads, "<ListMultipartUploadsResult>%s</ListMultipartUploadsResult>",
                 rows[i].upload);
        snprintf(parts, sizeof parts, "<ListPartsResult>%s</ListPartsResult>", rows[i].parts);
        const reply replies[] = {{200, uploads}, {rows[i].codes[0], parts}, {rows[i].codes[1]}};
        server_says(replies, 3);
        const weft_status status = port->tidy(s3, 20);
        if (status != rows[i].status || (strstr(server.log, DROP) != NULL) != rows[i].goes)
            fail_msg("row %zu: %s:\n%s", i, weft_status_name(status), server.log);
    }
}

/* ---- credentials */

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
    const reply good[] = {{200, credentials_until(3600)}};
    unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", rows[i].url, 1);
        server_says(good, 1);
        const weft_status status = weft_s3_role_of_container(&web, &login);
        if (status != (rows[i].own ? WEFT_OK : WEFT_E_CONFIG) || server.asked != rows[i].own)
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
    static const reply away[] = {{0, NULL, NULL, CURLE_COULDNT_CONNECT}};
    weft_s3_login login;
    (void)state;
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere", 1);
    setenv("AWS_CONFIG_FILE", "/nowhere", 1);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/x", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const reply good[] = {{200, credentials_until(rows[i].life_s)}};
        server_says(good, 1);
        assert_int_equal(weft_s3_login_take(&web, "s3://bucket", &login), WEFT_OK);
        assert_in_range(login.until_s - login.renew_at_s, rows[i].early_s - 1, rows[i].early_s);
        assert_int_equal(weft_s3_login_keep(&web, "s3://bucket", &login), WEFT_OK);
        assert_int_equal(server.asked, 1); /* not yet again */
    }
    server_says(away, 1);
    login.renew_at_s = (uint64_t)time(NULL);
    assert_int_equal(weft_s3_login_keep(&web, "s3://bucket", &login), WEFT_OK);
    assert_int_equal(server.asked, 3); /* tries */
    assert_true(login.renew_at_s > (uint64_t)time(NULL) && strcmp(login.id, "ID") == 0);
    login.renew_at_s = login.until_s = (uint64_t)time(NULL);
    assert_int_equal(weft_s3_login_keep(&web, "s3://bucket", &login), WEFT_E_FILE);
    setenv("AWS_ACCESS_KEY_ID", "OURS", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "OURS", 1);
    server_says(away, 1);
    assert_int_equal(weft_s3_login_take(&web, "s3://bucket", &login), WEFT_OK);
    assert_true(strcmp(login.id, "OURS") == 0 && server.asked == 0 && login.until_s == 0);
    assert_int_equal(weft_s3_login_take(&web, "gs://bucket", &login), WEFT_E_CONFIG);
    setenv("GS_ACCESS_KEY_ID", "GOOGLE", 1);
    setenv("GS_SECRET_ACCESS_KEY", "GOOGLE", 1);
    setenv("AWS_SESSION_TOKEN", "T", 1);
    assert_int_equal(weft_s3_login_take(&web, "gs://bucket", &login), WEFT_OK);
    assert_true(strcmp(login.id, "GOOGLE") == 0 && !login.token[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_are_made_again_where_that_helps, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_ends_all_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(objects_are_written_whole_or_not_at_all, setup, teardown),
        cmocka_unit_test_setup_teardown(an_object_that_cannot_be_read_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_listing_has_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_that_nobody_finishes_go, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens_go_to_own_servers, setup, teardown),
        cmocka_unit_test_setup_teardown(credentials_are_renewed_in_time, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
