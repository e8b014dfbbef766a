/* store_s3.c - a prefix of an object server as a place: PREFIX/RUN/NUMBER/FILE. */
#include "base/status.h"
#include "store/s3.h"

#ifndef WEFT_NO_S3
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

typedef unsigned long long ull;

#define TOKEN_MOST  2000u
#define ENTRY_MOST  16384u
#define PAGES_EMPTY 100u     /* pages without names that a listing may have */
#define NAMES_MOST  4000000u /* names of one */
#define LIST_MS     60000u   /* time that one may take, and so much for each name */
#define NAME_MS     10u

/* ---- listing */

static weft_status entry_add(const weft_s3 *s3, const char *entry, weft_store_items *items)
{
    char key[1200], size[32], changed[64];
    const char *in_key = entry, *in_size = entry, *in_time = entry;
    const size_t prefix = strlen(weft_s3_prefix(s3));
    weft_store_item item = {0};
    if (!weft_s3_element(&in_key, "Key", key, sizeof key) || !weft_s3_element(&in_size, "Size", size, sizeof size) ||
        !weft_s3_element(&in_time, "LastModified", changed, sizeof changed) ||
        strncmp(key, weft_s3_prefix(s3), prefix) != 0 || !weft_store_name_get(key + prefix, &item.name)) {
        items->others++;
        return WEFT_OK;
    }
    item.bytes = strtoull(size, NULL, 10);
    item.time_s = weft_s3_time(changed);
    return weft_store_items_add(items, &item);
}

/* Adds one page. `token` receives the next page's, or "". */
static weft_status page_add(const weft_s3 *s3, const char *page, weft_store_items *items, char token[TOKEN_MOST])
{
    char entry[ENTRY_MOST], more[8] = "";
    const char *at = page, *in_token = page, *in_more = page;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && weft_s3_element(&at, "Contents", entry, sizeof entry))
        status = entry_add(s3, entry, items);
    if (!weft_s3_element(&in_token, "NextContinuationToken", token, TOKEN_MOST))
        token[0] = 0;
    weft_s3_element(&in_more, "IsTruncated", more, sizeof more);
    if (status == WEFT_OK && (strstr(at, "<Contents>") || (strcmp(more, "true") == 0 && !token[0])))
        status =
            weft_fail(WEFT_E_FILE, "%s: cannot be listed: an entry of a page, or the next page's token, is too long",
                      weft_s3_url(s3));
    return status;
}

static weft_status page_ask(weft_s3 *s3, const char *token, weft_s3_answer *answer)
{
    char query[9000], prefix[2200], mark[6100] = "";
    weft_s3_encode(weft_s3_prefix(s3), false, prefix, sizeof prefix);
    if (token[0])
        weft_s3_encode(token, false, mark, sizeof mark);
    snprintf(query, sizeof query, "%s%s%slist-type=2&prefix=%s", token[0] ? "continuation-token=" : "", mark,
             token[0] ? "&" : "", prefix);
    const weft_s3_request request = {
        .method = "GET", .query = query, .most = WEFT_S3_LIST_MOST, .root = "ListBucketResult"};
    weft_status status = weft_s3_ask(s3, &request, answer);
    return status == WEFT_OK && answer->code != 200
               ? weft_fail(WEFT_E_FILE, "%s: cannot be listed: the server answers %ld", weft_s3_url(s3), answer->code)
               : status;
}

/* A listing that brings less and less names than pages has no end, nor has one that goes round. */
static weft_status pages_bound(const weft_s3 *s3, const weft_store_items *items, uint64_t pages, uint64_t begun_ns)
{
    const uint64_t names = items->count + items->others, ms = (weft_clock_ns() - begun_ns) / WEFT_NS_PER_MS;
    if (names <= NAMES_MOST && pages <= PAGES_EMPTY + names && ms <= LIST_MS + names * NAME_MS)
        return WEFT_OK;
    return weft_fail(WEFT_E_FILE,
                     "%s: cannot be listed: after %llu pages, %llu names and %llu s the server tells of more",
                     weft_s3_url(s3), (ull)pages, (ull)names, (ull)ms / 1000);
}

static weft_status s3_list(void *place, weft_store_items *items)
{
    char token[TOKEN_MOST] = "", before[TOKEN_MOST] = "";
    const uint64_t begun_ns = weft_clock_ns();
    weft_status status = WEFT_OK;
    for (uint64_t pages = 1; status == WEFT_OK; pages++) {
        weft_s3_answer answer = {0};
        status = page_ask(place, token, &answer);
        if (status == WEFT_OK)
            status = page_add(place, (const char *)answer.body, items, token);
        weft_mem_give(answer.body);
        if (status != WEFT_OK || !token[0])
            break;
        if (strcmp(token, before) == 0)
            status =
                weft_fail(WEFT_E_FILE, "%s: cannot be listed: the server goes round: page %llu is followed by itself",
                          weft_s3_url(place), (ull)pages);
        else
            status = pages_bound(place, items, pages, begun_ns);
        strcpy(before, token);
    }
    return status;
}

/* ---- files */

static weft_status s3_open(void *place, const char *name, weft_update_file **update)
{
    return weft_s3_reader_open(place, name, update);
}

static weft_status s3_put(void *place, const char *name, weft_status (*fill)(void *user, const weft_sink *sink),
                          void *user)
{
    return weft_s3_write(place, name, fill, user);
}

static weft_status s3_remove(void *place, const char *name)
{
    const weft_s3_request request = {.method = "DELETE", .name = name};
    weft_s3_answer answer = {0};
    weft_status status = weft_s3_ask(place, &request, &answer);
    weft_mem_give(answer.body);
    return status;
}

static weft_status s3_tidy(void *place, uint64_t time_s)
{
    return weft_s3_tidy(place, time_s);
}

static void s3_end(void *place)
{
    weft_s3_end(place);
}

static void s3_close(void *place)
{
    weft_s3_close(place);
}

weft_status weft_store_s3_open(const char *url, const weft_store_port **port, void **place)
{
    static const weft_store_port table = {
        .abreast = WEFT_S3_ABREAST,
        .list = s3_list,
        .open = s3_open,
        .put = s3_put,
        .remove = s3_remove,
        .tidy = s3_tidy,
        .end = s3_end,
        .close = s3_close,
    };
    weft_s3 *s3;
    weft_status status = weft_s3_open(url, &s3);
    if (status != WEFT_OK)
        return status;
    *port = &table;
    *place = s3;
    return WEFT_OK;
}
#else
weft_status weft_store_s3_open(const char *url, const weft_store_port **port, void **place)
{
    (void)port;
    (void)place;
    return weft_fail(WEFT_E_MISSING, "%s: this libweft was built without the headers of libcurl", url);
}
#endif
