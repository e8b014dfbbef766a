#include "store/s3.h"

#ifndef WEFT_NO_S3
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "store/curl.h"
#include "store/s3_login.h"

typedef unsigned long long ull;

#define TRIES       6u
#define PAUSE_MS    100u /* before the second try; each further one is twice as long */
#define CONNECT_MS  10000L
#define STILL_S     15L    /* a transfer that stands so long is broken off */
#define PATIENCE_MS 60000u /* after which nothing is asked again */
#define SLICE_MS    20u
#define URL_MOST    2600u

struct weft_s3 {
    const weft_curl *lib;
    char *url;      /* as it was given */
    char *endpoint; /* http://HOST[:PORT] or https://HOST */
    char *bucket, *prefix;
    char region[64];
    atomic_bool ended;
    atomic_uint asked_now; /* requests that are under way */

    pthread_mutex_t lock; /* of what follows */
    weft_s3_login login;
    uint64_t logins;             /* counts them */
    uint64_t draw;               /* for the pauses */
    CURL *idle[WEFT_S3_ABREAST]; /* handles, with their connections, that no request uses now */
    uint32_t idle_count;
};

/* ---- open and close */

/* Parts s3://BUCKET/PREFIX, or gs://BUCKET/PREFIX. */
static weft_status place_take(weft_s3 *s3, const char *url)
{
    const char *bucket = url + strlen("s3://"), *slash = strchr(bucket, '/');
    const size_t length = slash ? (size_t)(slash - bucket) : strlen(bucket);
    if (length == 0 || length > 255)
        return weft_fail(WEFT_E_ARGUMENT, "%s: need s3://BUCKET/PREFIX", url);
    s3->url = weft_mem_text(url);
    s3->bucket = weft_mem_text(bucket);
    s3->prefix = weft_mem_take(strlen(url) + 2, 1);
    if (!s3->url || !s3->bucket || !s3->prefix)
        return weft_fail(WEFT_E_MEMORY, "no memory for a store");
    s3->bucket[length] = 0;
    strcpy(s3->prefix, slash ? slash + 1 : "");
    for (size_t last = strlen(s3->url); last > 0 && s3->url[last - 1] == '/';)
        s3->url[--last] = 0;
    size_t end = strlen(s3->prefix);
    while (end > 0 && s3->prefix[end - 1] == '/')
        s3->prefix[--end] = 0;
    if (end > 0)
        strcpy(s3->prefix + end, "/");
    return end <= 700 ? WEFT_OK : weft_fail(WEFT_E_ARGUMENT, "%s: the prefix is longer than 700 bytes", url);
}

static weft_s3_web web_of(const weft_s3 *s3)
{
    return (weft_s3_web){s3->lib, &s3->ended, s3->region};
}

static bool is_google(const weft_s3 *s3)
{
    return strncmp(s3->url, "gs://", 5) == 0;
}

/* Google's server speaks as S3 does, to whoever has HMAC keys. */
static weft_status server_take(weft_s3 *s3)
{
    char own[128], endpoint[1024];
    bool fits;
    if (is_google(s3)) {
        strcpy(s3->region, "auto");
        fits = weft_s3_setting("STORAGE_EMULATOR_HOST", NULL, NULL, "https://storage.googleapis.com", endpoint,
                               sizeof endpoint);
    } else {
        fits =
            weft_s3_setting("AWS_REGION", "AWS_DEFAULT_REGION", "region", "us-east-1", s3->region, sizeof s3->region);
        snprintf(own, sizeof own, "https://s3.%s.amazonaws.com", s3->region);
        fits = fits && weft_s3_setting("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "endpoint_url", own, endpoint,
                                       sizeof endpoint);
    }
    if (!fits)
        return weft_fail(WEFT_E_CONFIG, "%s: the region or the endpoint is too long", s3->url);
    for (size_t end = strlen(endpoint); end > 0 && endpoint[end - 1] == '/';)
        endpoint[--end] = 0;
    s3->endpoint = weft_mem_text(endpoint);
    return s3->endpoint ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for a store");
}

static weft_status login_take(weft_s3 *s3)
{
    const weft_s3_web web = web_of(s3);
    s3->logins++;
    return weft_s3_login_take(&web, s3->url, &s3->login);
}

static weft_status login_keep(weft_s3 *s3)
{
    const weft_s3_web web = web_of(s3);
    pthread_mutex_lock(&s3->lock);
    const weft_status status = weft_s3_login_keep(&web, s3->url, &s3->login);
    pthread_mutex_unlock(&s3->lock);
    return status;
}

/* Takes other credentials than those of a request that was refused, unless another request did so meanwhile. */
static weft_status login_renew(weft_s3 *s3, uint64_t refused)
{
    pthread_mutex_lock(&s3->lock);
    const weft_status status = s3->logins == refused ? login_take(s3) : WEFT_OK;
    pthread_mutex_unlock(&s3->lock);
    return status;
}

weft_status weft_s3_open(const char *url, weft_s3 **s3)
{
    weft_s3 *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for a store");
    pthread_mutex_init(&made->lock, NULL);
    made->draw = weft_clock_ns();
    weft_status status = weft_curl_open(&made->lib);
    if (status == WEFT_OK)
        status = place_take(made, url);
    if (status == WEFT_OK)
        status = server_take(made);
    if (status == WEFT_OK)
        status = login_take(made);
    if (status == WEFT_OK)
        *s3 = made;
    else
        weft_s3_close(made);
    return status;
}

void weft_s3_close(weft_s3 *s3)
{
    if (!s3)
        return;
    while (s3->idle_count > 0)
        s3->lib->easy_cleanup(s3->idle[--s3->idle_count]);
    weft_mem_give(s3->prefix);
    weft_mem_give(s3->bucket);
    weft_mem_give(s3->endpoint);
    weft_mem_give(s3->url);
    explicit_bzero(&s3->login, sizeof s3->login);
    pthread_mutex_destroy(&s3->lock);
    weft_mem_give(s3);
}

void weft_s3_end(weft_s3 *s3)
{
    atomic_store(&s3->ended, true);
}

const char *weft_s3_url(const weft_s3 *s3)
{
    return s3->url;
}

const char *weft_s3_prefix(const weft_s3 *s3)
{
    return s3->prefix;
}

/* ---- one request */

int weft_s3_may_go_on(void *ended, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    return atomic_load((const atomic_bool *)ended);
}

/* The same for one answer, which also has its time. */
static int answer_may_go_on(void *user, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    weft_s3_answer *answer = user;
    return weft_s3_answer_is_late(answer, (uint64_t)(down + up)) ||
           weft_s3_may_go_on((void *)(uintptr_t)answer->ended, down_total, down, up_total, up);
}

static bool url_make(const weft_s3 *s3, const weft_s3_request *request, char url[URL_MOST])
{
    char path[URL_MOST] = "", key[URL_MOST] = "";
    const char *slash = request->name ? "/" : "", *mark = request->query ? "?" : "";
    if (request->name && snprintf(key, sizeof key, "%s%s", s3->prefix, request->name) >= (int)sizeof key)
        return false;
    if (weft_s3_encode(key, true, path, sizeof path) >= sizeof path)
        return false;
    return snprintf(url, URL_MOST, "%s/%s%s%s%s%s", s3->endpoint, s3->bucket, slash, path, mark,
                    request->query ? request->query : "") < (int)URL_MOST;
}

static struct curl_slist *headers_make(const weft_s3 *s3, const weft_s3_request *request)
{
    /* libcurl of this age signs what stands here, and leaves it out otherwise */
    struct curl_slist *headers = s3->lib->slist_append(NULL, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    if (request->body)
        headers = s3->lib->slist_append(headers, "Content-Type: application/octet-stream");
    if (request->fresh)
        headers = s3->lib->slist_append(headers, "If-None-Match: *");
    if (s3->login.token[0]) {
        char token[sizeof s3->login.token + 32];
        snprintf(token, sizeof token, "x-amz-security-token: %s", s3->login.token);
        headers = s3->lib->slist_append(headers, token); /* which copies it */
        explicit_bzero(token, sizeof token);
    }
    return headers;
}

static void options_set(const weft_s3 *s3, CURL *handle, const weft_s3_request *request, const char *url,
                        const struct curl_slist *headers, weft_s3_answer *answer)
{
    const weft_curl *lib = s3->lib;
    lib->easy_reset(handle);
    lib->easy_setopt(handle, CURLOPT_URL, url);
    lib->easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    lib->easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request->method);
    char sign[sizeof s3->region + 16];
    snprintf(sign, sizeof sign, "aws:amz:%s:s3", s3->region);
    lib->easy_setopt(handle, CURLOPT_AWS_SIGV4, sign);
    lib->easy_setopt(handle, CURLOPT_USERNAME, s3->login.id);
    lib->easy_setopt(handle, CURLOPT_PASSWORD, s3->login.secret);
    lib->easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    lib->easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    lib->easy_setopt(handle, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L); /* nobody waits to be told to go on */
    lib->easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    lib->easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, STILL_S);
    lib->easy_setopt(handle, CURLOPT_WRITEFUNCTION, weft_s3_body_take_bounded);
    lib->easy_setopt(handle, CURLOPT_WRITEDATA, answer);
    lib->easy_setopt(handle, CURLOPT_HEADERFUNCTION, weft_s3_header_take);
    lib->easy_setopt(handle, CURLOPT_HEADERDATA, answer);
    lib->easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, answer_may_go_on);
    lib->easy_setopt(handle, CURLOPT_XFERINFODATA, answer);
    lib->easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    if (request->range)
        lib->easy_setopt(handle, CURLOPT_RANGE, request->range);
    if (request->body || request->method[0] == 'P') {
        lib->easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes);
        lib->easy_setopt(handle, CURLOPT_POSTFIELDS, request->body ? request->body : "");
    }
}

/* Gives a handle back, so that its connection serves a later request. */
static void handle_give(weft_s3 *s3, CURL *handle)
{
    pthread_mutex_lock(&s3->lock);
    const bool kept = s3->idle_count < WEFT_S3_ABREAST;
    if (kept)
        s3->idle[s3->idle_count++] = handle;
    pthread_mutex_unlock(&s3->lock);
    if (!kept)
        s3->lib->easy_cleanup(handle);
}

/* `*login` receives the number of the credentials that sign the request. */
static CURLcode ask_once(weft_s3 *s3, const weft_s3_request *request, const char *url, weft_s3_answer *answer,
                         uint64_t *login)
{
    weft_s3_answer_begin(answer, request);
    answer->ended = &s3->ended;
    answer->asked_now = &s3->asked_now;
    atomic_fetch_add(&s3->asked_now, 1);
    pthread_mutex_lock(&s3->lock);
    CURL *handle = s3->idle_count ? s3->idle[--s3->idle_count] : s3->lib->easy_init();
    struct curl_slist *headers = headers_make(s3, request);
    if (handle)
        options_set(s3, handle, request, url, headers, answer);
    *login = s3->logins;
    pthread_mutex_unlock(&s3->lock);
    const CURLcode code = handle ? s3->lib->easy_perform(handle) : CURLE_OUT_OF_MEMORY;
    atomic_fetch_sub(&s3->asked_now, 1);
    answer->code = 0;
    if (handle) {
        s3->lib->easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer->code);
        handle_give(s3, handle);
    }
    if (!answer->total)
        answer->total = answer->bytes;
    s3->lib->slist_free_all(headers);
    return code;
}

/* ---- again */

/* Whether the server does not serve now, whatever it is asked. */
static bool is_away(CURLcode code, const weft_s3_answer *answer)
{
    if (code == CURLE_OK)
        return answer->code == 408 || answer->code == 429 || answer->code == 500 || answer->code >= 502;
    return answer->late ||
           (code != CURLE_PARTIAL_FILE && code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL &&
            code != CURLE_WRITE_ERROR && code != CURLE_OUT_OF_MEMORY && code != CURLE_ABORTED_BY_CALLBACK &&
            code != CURLE_PEER_FAILED_VERIFICATION);
}

static bool helps_to_ask_again(CURLcode code, const weft_s3_answer *answer)
{
    return !answer->late &&
           (code == CURLE_PARTIAL_FILE || is_away(code, answer) || (code == CURLE_OK && weft_s3_answer_is_cut(answer)));
}

static bool is_answer(long code)
{
    return (code >= 200 && code < 300) || code == 404 || code == 409 || code == 412 || code == 416 || code == 501;
}

/* Whether the server says that the credentials' time is over, which this host's clock may not know. */
static bool is_expired(CURLcode code, const weft_s3_answer *answer)
{
    char what[64] = "";
    const char *at = answer->bytes ? (const char *)answer->body : "";
    return code == CURLE_OK && (answer->code == 400 || answer->code == 401 || answer->code == 403) &&
           weft_s3_element(&at, "Code", what, sizeof what) && strncmp(what, "ExpiredToken", 12) == 0;
}

static void pause_before(weft_s3 *s3, uint32_t tried)
{
    const uint64_t most = (uint64_t)PAUSE_MS << tried;
    pthread_mutex_lock(&s3->lock);
    const uint64_t draw = s3->draw = weft_mix64(s3->draw);
    pthread_mutex_unlock(&s3->lock);
    const uint64_t until_ns = weft_clock_ns() + (most / 2 + draw % (most / 2)) * WEFT_NS_PER_MS;
    while (weft_clock_ns() < until_ns && !atomic_load(&s3->ended))
        weft_clock_pass(SLICE_MS * WEFT_NS_PER_MS);
}

static weft_status refuse(const weft_s3 *s3, const weft_s3_request *request, CURLcode code,
                          const weft_s3_answer *answer)
{
    char what[128] = "", why[300] = "";
    const char *name = request->name ? request->name : "", *at = answer->bytes ? (const char *)answer->body : "";
    const weft_status status = is_away(code, answer) ? WEFT_E_TIMEOUT : WEFT_E_FILE;
    if (answer->over)
        return weft_fail(WEFT_E_FILE, "%s/%s: %s sends more than %llu bytes, which are all that was to come", s3->url,
                         name, s3->endpoint, (ull)answer->most);
    if (answer->late || code == CURLE_OPERATION_TIMEDOUT)
        return weft_fail(status, "%s/%s: %s takes too long: %llu bytes came in %.0f s", s3->url, name, s3->endpoint,
                         (ull)answer->bytes, 1e-3 * weft_clock_ms(answer->begun_ns, weft_clock_ns()));
    if (code == CURLE_OUT_OF_MEMORY || code == CURLE_WRITE_ERROR)
        return weft_fail(WEFT_E_MEMORY, "no memory for what %s answers", s3->url);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return weft_fail(WEFT_E_FILE, "%s/%s: broken off, because the store is closed", s3->url, name);
    if (code != CURLE_OK)
        return weft_fail(status, "%s/%s: %s: %s", s3->url, name, s3->endpoint, s3->lib->easy_strerror(code));
    if (is_answer(answer->code)) {
        weft_s3_answer_show(answer, why, sizeof why);
        return weft_fail(WEFT_E_FILE, "%s/%s: %s answers %ld with %s %s: %s", s3->url, name, s3->endpoint, answer->code,
                         weft_s3_answer_is_cut(answer) ? "half a" : "what is no", request->root, why);
    }
    weft_s3_element(&at, "Code", what, sizeof what);
    weft_s3_element(&at, "Message", why, sizeof why);
    return weft_fail(status, "%s/%s: %s answers %ld%s%s%s%s", s3->url, name, s3->endpoint, answer->code,
                     what[0] ? " " : "", what, why[0] ? ": " : "", why);
}

weft_status weft_s3_ask(weft_s3 *s3, const weft_s3_request *request, weft_s3_answer *answer)
{
    char url[URL_MOST];
    if (!url_make(s3, request, url))
        return weft_fail(WEFT_E_ARGUMENT, "%s: a name is too long for a URL", s3->url);
    const uint64_t until_ns = weft_clock_ns() + PATIENCE_MS * WEFT_NS_PER_MS;
    bool renewed = false;
    for (uint32_t tried = 0;; tried++) {
        uint64_t login;
        const weft_status status = login_keep(s3);
        if (status != WEFT_OK)
            return status;
        const CURLcode code = ask_once(s3, request, url, answer, &login);
        if (code == CURLE_OK && is_answer(answer->code) && weft_s3_answer_is_whole(answer))
            return WEFT_OK;
        if (!renewed && is_expired(code, answer)) {
            renewed = true;
            if (login_renew(s3, login) == WEFT_OK)
                continue;
        }
        if (tried + 1 == TRIES || weft_clock_ns() > until_ns || !helps_to_ask_again(code, answer))
            return refuse(s3, request, code, answer);
        pause_before(s3, tried);
    }
}
#endif
