/* s3_role.c - credentials that servers give for a while: STS for a web identity, a container's agent, an instance's
 * metadata (IMDSv2). */
#include "store/s3_login.h"

#ifndef WEFT_NO_S3
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"

#define TRIES        3u
#define PAUSE_MS     100u
#define PATIENCE_MS  5000L
#define METADATA_MS  1000L /* a host without that server does not answer at all */
#define TEXT_MOST    16384u
#define URL_MOST     2048u
#define ANSWER_MOST  (UINT64_C(256) << 10) /* bytes: more are no credentials, and would fill this host's memory */
#define CONTAINER    "http://169.254.170.2"
#define METADATA     "http://169.254.169.254"
#define METADATA_TTL "X-aws-ec2-metadata-token-ttl-seconds: 21600"

typedef struct ask {
    const char *method, *url, *body, *header; /* body and header: NULL for none */
    long patience_ms;
    bool direct; /* by no proxy: the server is this host's own */
} ask;

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* ---- one request */

static size_t answer_take(char *data, size_t one, size_t count, void *user)
{
    const weft_s3_answer *answer = user;
    return (uint64_t)one * count <= ANSWER_MOST - answer->bytes ? weft_s3_body_take(data, one, count, user) : 0;
}

static CURLcode ask_once(const weft_s3_web *web, const ask *asked, weft_s3_answer *answer)
{
    const weft_curl *lib = web->lib;
    CURL *handle = lib->easy_init();
    struct curl_slist *headers = asked->header ? lib->slist_append(NULL, asked->header) : NULL;
    if (!handle) {
        lib->slist_free_all(headers);
        return CURLE_OUT_OF_MEMORY;
    }
    answer->bytes = 0;
    answer->code = 0;
    lib->easy_setopt(handle, CURLOPT_URL, asked->url);
    lib->easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    lib->easy_setopt(handle, CURLOPT_CUSTOMREQUEST, asked->method);
    lib->easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    lib->easy_setopt(handle, CURLOPT_TIMEOUT_MS, asked->patience_ms);
    lib->easy_setopt(handle, CURLOPT_WRITEFUNCTION, answer_take);
    lib->easy_setopt(handle, CURLOPT_WRITEDATA, answer);
    lib->easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, weft_s3_may_go_on);
    lib->easy_setopt(handle, CURLOPT_XFERINFODATA, web->ended);
    lib->easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    if (asked->direct)
        lib->easy_setopt(handle, CURLOPT_NOPROXY, "*");
    if (asked->body || asked->method[0] == 'P') {
        lib->easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(asked->body ? strlen(asked->body) : 0));
        lib->easy_setopt(handle, CURLOPT_POSTFIELDS, asked->body ? asked->body : "");
    }
    const CURLcode code = lib->easy_perform(handle);
    lib->easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer->code);
    lib->slist_free_all(headers);
    lib->easy_cleanup(handle);
    return code;
}

static weft_status refuse(const weft_s3_web *web, const ask *asked, CURLcode code, const weft_s3_answer *answer)
{
    char what[128] = "", why[300] = "";
    const char *at = answer->bytes ? (const char *)answer->body : "";
    if (code == CURLE_WRITE_ERROR)
        return weft_fail_quiet(WEFT_E_FILE, "%s: the answer has more than %llu bytes, or there is no memory for it",
                               asked->url, (unsigned long long)ANSWER_MOST);
    if (code != CURLE_OK)
        return weft_fail_quiet(WEFT_E_FILE, "%s: %s", asked->url, web->lib->easy_strerror(code));
    weft_s3_element(&at, "Code", what, sizeof what);
    weft_s3_element(&at, "Message", why, sizeof why);
    return weft_fail_quiet(WEFT_E_FILE, "%s answers %ld%s%s%s%s", asked->url, answer->code, *what ? " " : "", what,
                           *why ? ": " : "", why);
}

/* The caller gives the answer's body back, also after an error. */
static weft_status ask_for(const weft_s3_web *web, const ask *asked, weft_s3_answer *answer)
{
    for (uint32_t tried = 1;; tried++) {
        const CURLcode code = ask_once(web, asked, answer);
        if (code == CURLE_OK && answer->code == 200 && answer->bytes)
            return WEFT_OK;
        const bool long_one = code == CURLE_WRITE_ERROR;
        const bool busy = !long_one && (code != CURLE_OK || answer->code == 429 || answer->code >= 500);
        if (!busy || tried == TRIES || atomic_load(web->ended))
            return refuse(web, asked, code, answer);
        weft_clock_pass((uint64_t)PAUSE_MS * tried * WEFT_NS_PER_MS);
    }
}

/* ---- what comes back */

static void login_until(weft_s3_login *login, const char *text)
{
    login->until_s = weft_s3_time(text);
}

static weft_status json_take(const char *text, const char *from, weft_s3_login *login)
{
    char until[64] = "";
    *login = (weft_s3_login){0};
    if (!weft_s3_json(text, "AccessKeyId", login->id, sizeof login->id) ||
        !weft_s3_json(text, "SecretAccessKey", login->secret, sizeof login->secret) ||
        !weft_s3_json(text, "Token", login->token, sizeof login->token))
        return weft_fail_quiet(WEFT_E_FILE, "%s: the answer has no AccessKeyId, SecretAccessKey and Token", from);
    weft_s3_json(text, "Expiration", until, sizeof until);
    login_until(login, until);
    return WEFT_OK;
}

static weft_status xml_take(const char *text, const char *from, weft_s3_login *login)
{
    char until[64] = "";
    const char *id = text, *secret = text, *token = text, *end = text;
    *login = (weft_s3_login){0};
    if (!weft_s3_element(&id, "AccessKeyId", login->id, sizeof login->id) ||
        !weft_s3_element(&secret, "SecretAccessKey", login->secret, sizeof login->secret) ||
        !weft_s3_element(&token, "SessionToken", login->token, sizeof login->token))
        return weft_fail_quiet(WEFT_E_FILE, "%s: the answer has no AccessKeyId, SecretAccessKey and SessionToken",
                               from);
    weft_s3_element(&end, "Expiration", until, sizeof until);
    login_until(login, until);
    return WEFT_OK;
}

/* Reads a file of one line, such as a token, which is renewed there. */
static weft_status text_read(const char *path, char text[TEXT_MOST])
{
    FILE *file = fopen(path, "re");
    if (!file)
        return weft_fail_quiet(WEFT_E_FILE, "%s: cannot be opened", path);
    size_t bytes = fread(text, 1, TEXT_MOST - 1, file);
    fclose(file);
    while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]))
        bytes--;
    text[bytes] = 0;
    return bytes ? WEFT_OK : weft_fail_quiet(WEFT_E_FILE, "%s: is empty", path);
}

static weft_status json_ask(const weft_s3_web *web, const ask *asked, weft_s3_login *login)
{
    weft_s3_answer answer = {0};
    weft_status status = ask_for(web, asked, &answer);
    if (status == WEFT_OK)
        status = json_take((const char *)answer.body, asked->url, login);
    weft_mem_give(answer.body);
    return status;
}

/* ---- a web identity */

static char *identity_body(const char *role, const char *token)
{
    const char *session = variable("AWS_ROLE_SESSION_NAME");
    const size_t room = 4 * TEXT_MOST;
    char own[40], name[256], arn[1024];
    char *body = weft_mem_take(room, 1);
    if (!body)
        return NULL;
    snprintf(own, sizeof own, "weft-%llu", (unsigned long long)time(NULL));
    weft_s3_encode(session ? session : own, false, name, sizeof name);
    weft_s3_encode(role, false, arn, sizeof arn);
    const int used = snprintf(body, room,
                              "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=%s&RoleSessionName=%s"
                              "&WebIdentityToken=",
                              arn, name);
    weft_s3_encode(token, false, body + used, room - (size_t)used);
    return body;
}

weft_status weft_s3_role_of_web_identity(const weft_s3_web *web, const char *file, const char *role,
                                         weft_s3_login *login)
{
    char url[URL_MOST], own[300], token[TEXT_MOST];
    weft_s3_answer answer = {0};
    snprintf(own, sizeof own, "https://sts.%s.amazonaws.com", web->region);
    if (!weft_s3_setting("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL", NULL, own, url, sizeof url - 1))
        return weft_fail_quiet(WEFT_E_CONFIG, "AWS_ENDPOINT_URL_STS is too long");
    strcat(url, url[strlen(url) - 1] == '/' ? "" : "/");
    weft_status status = text_read(file, token);
    char *body = status == WEFT_OK ? identity_body(role, token) : NULL;
    explicit_bzero(token, sizeof token);
    if (status == WEFT_OK && !body)
        return weft_fail(WEFT_E_MEMORY, "no memory for a web identity");
    const ask asked = {"POST", url, body, "Content-Type: application/x-www-form-urlencoded", PATIENCE_MS, false};
    if (status == WEFT_OK)
        status = ask_for(web, &asked, &answer);
    if (status == WEFT_OK)
        status = xml_take((const char *)answer.body, url, login);
    weft_mem_give(answer.body);
    weft_mem_give(body);
    if (status != WEFT_OK)
        weft_fail_about("role %s by web identity", role);
    return status;
}

/* ---- a container */

/* A token goes to a server of this host alone, or by https. All of the host's name is compared, because a name that
 * only begins so is anybody's, and so is one behind a user's. */
static bool is_own_host(const char *url)
{
    static const char *const hosts[] = {"localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (strncmp(url, "https://", 8) == 0)
        return true;
    const char *host = url + (strncmp(url, "http://", 7) == 0 ? 7 : strlen(url));
    const size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    if (memchr(host, '@', strcspn(host, "/?#")))
        return false;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (strlen(hosts[i]) == length && memcmp(host, hosts[i], length) == 0)
            return true;
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length;
}

static weft_status token_header(char header[TEXT_MOST + 32])
{
    char token[TEXT_MOST];
    const char *file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *given = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    header[0] = 0;
    weft_status status = file ? text_read(file, token) : WEFT_OK;
    if (status == WEFT_OK && (file || given))
        snprintf(header, TEXT_MOST + 32, "Authorization: %s", file ? token : given);
    return status;
}

weft_status weft_s3_role_of_container(const weft_s3_web *web, weft_s3_login *login)
{
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    char url[URL_MOST], header[TEXT_MOST + 32];
    const int length = snprintf(url, sizeof url, "%s%s", relative ? CONTAINER : "", relative ? relative : full);
    if (length >= (int)sizeof url || !is_own_host(url))
        return weft_fail_quiet(WEFT_E_CONFIG, "%s = %s: need a server of this host, or https",
                               relative ? "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
                                        : "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                               relative ? relative : full);
    weft_status status = token_header(header);
    const ask asked = {"GET", url, NULL, *header ? header : NULL, PATIENCE_MS, true};
    return status == WEFT_OK ? json_ask(web, &asked, login) : status;
}

/* ---- an instance */

static weft_status text_ask(const weft_s3_web *web, const ask *asked, char *text, size_t room)
{
    weft_s3_answer answer = {0};
    weft_status status = ask_for(web, asked, &answer);
    if (status == WEFT_OK) {
        snprintf(text, room, "%s", (const char *)answer.body);
        text[strcspn(text, "\r\n")] = 0;
    }
    weft_mem_give(answer.body);
    return status;
}

weft_status weft_s3_role_of_instance(const weft_s3_web *web, weft_s3_login *login)
{
    static const char roles[] = "/latest/meta-data/iam/security-credentials/";
    const char *mode = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    const char *own = mode && strcmp(mode, "IPv6") == 0 ? "http://[fd00:ec2::254]" : METADATA;
    char host[URL_MOST / 2], url[URL_MOST], token[1024] = "", header[1100], role[256] = "";
    weft_s3_setting("AWS_EC2_METADATA_SERVICE_ENDPOINT", NULL, "ec2_metadata_service_endpoint", own, host, sizeof host);
    for (size_t end = strlen(host); end > 0 && host[end - 1] == '/';)
        host[--end] = 0;
    snprintf(url, sizeof url, "%s/latest/api/token", host);
    weft_status status = text_ask(web, &(ask){"PUT", url, NULL, METADATA_TTL, METADATA_MS, true}, token, sizeof token);
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", token);
    snprintf(url, sizeof url, "%s%s", host, roles);
    if (status == WEFT_OK)
        status = text_ask(web, &(ask){"GET", url, NULL, header, METADATA_MS, true}, role, sizeof role);
    snprintf(url, sizeof url, "%s%s%s", host, roles, role);
    return status == WEFT_OK ? json_ask(web, &(ask){"GET", url, NULL, header, PATIENCE_MS, true}, login) : status;
}
#endif
