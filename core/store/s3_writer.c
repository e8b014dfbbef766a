/* s3_writer.c - an object out of a stream: in one request, or in parts that become an object at the end. */
#include "store/s3.h"

#ifndef WEFT_NO_S3
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

#define PART_BYTES (UINT64_C(16) << 20) /* bytes of the first parts; a server takes 10,000 of them */
#define PARTS_MOST 10000u
#define PARTS_STEP 1000u /* after so many parts they grow */
#define ID_MOST    1100u
#define END_BYTES  (UINT64_C(64) << 10)
#define END_S      600u /* for an object out of its parts, which S3 says takes minutes */

typedef struct writer {
    weft_s3 *s3;
    const char *name;
    uint8_t *part;
    uint64_t used, capacity;
    char *upload; /* id of the parts, for a URL; "": none was begun */
    char (*etags)[80];
    uint32_t parts;
    uint64_t sent; /* bytes of the parts */
    uint64_t last; /* bytes of the last part, which are still at hand; 0: they are not */
    bool fresh;    /* the server knows If-None-Match */
} writer;

static weft_status taken(const writer *w)
{
    return weft_fail(WEFT_E_STATE, "%s/%s: is there already, and a store overwrites nothing", weft_s3_url(w->s3),
                     w->name);
}

static weft_status refused(const writer *w, const weft_s3_answer *answer)
{
    return weft_fail(WEFT_E_FILE, "%s/%s: the server answers %ld to a write", weft_s3_url(w->s3), w->name,
                     answer->code);
}

static weft_status ask(const writer *w, const weft_s3_request *request, weft_s3_answer *answer)
{
    weft_status status = weft_s3_ask(w->s3, request, answer);
    weft_mem_give(answer->body);
    answer->body = NULL;
    answer->capacity = 0;
    return status;
}

/* ---- what is there */

static weft_status object_look(const writer *w, bool *there, weft_s3_answer *answer)
{
    const weft_s3_request request = {.method = "GET", .name = w->name, .range = "0-0"};
    weft_status status = ask(w, &request, answer);
    *there = status == WEFT_OK && answer->code != 404;
    return status;
}

/* A write that was answered by a broken connection may have been done all the same: then the object is ours. */
static bool is_ours(const writer *w)
{
    const weft_s3_request request = {.method = "GET", .name = w->name, .most = w->used};
    weft_s3_answer answer = {0};
    const bool same = weft_s3_ask(w->s3, &request, &answer) == WEFT_OK && answer.code == 200 &&
                      answer.bytes == w->used && memcmp(answer.body, w->part, w->used) == 0;
    weft_mem_give(answer.body);
    return same;
}

/* ---- in one request */

static weft_status object_put(writer *w)
{
    const weft_s3_request request = {
        .method = "PUT", .name = w->name, .body = w->part, .body_bytes = w->used, .fresh = w->fresh};
    weft_s3_answer answer = {0};
    weft_status status = ask(w, &request, &answer);
    if (status == WEFT_OK && answer.code == 501 && w->fresh) {
        w->fresh = false; /* the name was looked for, and a run has a prefix of its own */
        return object_put(w);
    }
    if (status == WEFT_OK && (answer.code == 412 || answer.code == 409))
        return is_ours(w) ? WEFT_OK : taken(w);
    return status == WEFT_OK && answer.code != 200 ? refused(w, &answer) : status;
}

/* ---- in parts */

static weft_status parts_begin(writer *w)
{
    const weft_s3_request request = {.method = "POST", .name = w->name, .query = "uploads="};
    weft_s3_answer answer = {0};
    char id[ID_MOST];
    weft_status status = weft_s3_ask(w->s3, &request, &answer);
    const char *at = answer.bytes ? (const char *)answer.body : "";
    if (status == WEFT_OK && (answer.code != 200 || !weft_s3_element(&at, "UploadId", id, sizeof id)))
        status = refused(w, &answer);
    else if (status == WEFT_OK)
        weft_s3_encode(id, false, w->upload, 3 * ID_MOST);
    weft_mem_give(answer.body);
    return status;
}

static weft_status part_put(writer *w)
{
    char query[3 * ID_MOST + 64];
    weft_s3_answer answer = {0};
    snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", w->parts + 1, w->upload);
    const weft_s3_request request = {
        .method = "PUT", .name = w->name, .query = query, .body = w->part, .body_bytes = w->used};
    if (w->parts == PARTS_MOST)
        return weft_fail(WEFT_E_FILE, "%s/%s: is too large for an object", weft_s3_url(w->s3), w->name);
    weft_status status = ask(w, &request, &answer);
    if (status == WEFT_OK && answer.code != 200)
        status = refused(w, &answer);
    if (status != WEFT_OK)
        return status;
    memcpy(w->etags[w->parts++], answer.etag, sizeof answer.etag);
    w->sent += w->used;
    w->last = w->used;
    w->used = 0;
    return WEFT_OK;
}

static void parts_give_up(const writer *w)
{
    char query[3 * ID_MOST + 64], why[512];
    weft_s3_answer answer = {0};
    snprintf(query, sizeof query, "uploadId=%s", w->upload);
    const weft_s3_request request = {.method = "DELETE", .name = w->name, .query = query};
    snprintf(why, sizeof why, "%s", weft_last_error());
    if (ask(w, &request, &answer) != WEFT_OK) /* weft_store_trim gives up what is left */
        weft_fail_quiet(WEFT_E_FILE, "%s", why);
}

static char *list_make(const writer *w)
{
    const size_t room = 160 * (size_t)w->parts + 128;
    char *text = weft_mem_take(room, 1);
    size_t used = 0;
    if (!text)
        return NULL;
    used += (size_t)snprintf(text, room, "<CompleteMultipartUpload>");
    for (uint32_t i = 0; i < w->parts; i++)
        used += (size_t)snprintf(text + used, room - used, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>",
                                 i + 1, w->etags[i]);
    snprintf(text + used, room - used, "</CompleteMultipartUpload>");
    return text;
}

/* An end that was answered by a broken connection may have been done: then there are no parts any more, and the object
 * is there. */
static weft_status ended_before(const writer *w)
{
    weft_s3_answer answer = {0};
    bool there;
    weft_status status = object_look(w, &there, &answer);
    if (status != WEFT_OK || (there && answer.total == w->sent))
        return status;
    return weft_fail(WEFT_E_FILE, "%s/%s: the server has lost the parts", weft_s3_url(w->s3), w->name);
}

/* The same, by a server that looks for the name first. The end of a file has what proves the rest. */
static bool ends_as_ours(const writer *w)
{
    const uint64_t bytes = w->last < END_BYTES ? w->last : END_BYTES;
    char range[32];
    snprintf(range, sizeof range, "-%llu", (unsigned long long)bytes);
    const weft_s3_request request = {.method = "GET", .name = w->name, .range = range, .most = bytes};
    weft_s3_answer answer = {0};
    const bool same = bytes && weft_s3_ask(w->s3, &request, &answer) == WEFT_OK && answer.code == 206 &&
                      answer.bytes == bytes && answer.total == w->sent &&
                      memcmp(answer.body, w->part + (w->last - bytes), bytes) == 0;
    weft_mem_give(answer.body);
    return same;
}

/* The server may answer 200 and name an error in the body. */
static weft_status parts_end(writer *w)
{
    char query[3 * ID_MOST + 64];
    char *list = list_make(w);
    weft_s3_answer answer = {0};
    if (!list)
        return weft_fail(WEFT_E_MEMORY, "no memory for the parts of an object");
    snprintf(query, sizeof query, "uploadId=%s", w->upload);
    const weft_s3_request request = {.method = "POST",
                                     .name = w->name,
                                     .query = query,
                                     .body = list,
                                     .body_bytes = strlen(list),
                                     .fresh = w->fresh,
                                     .work_s = END_S};
    weft_status status = weft_s3_ask(w->s3, &request, &answer);
    const bool error = answer.bytes && strstr((const char *)answer.body, "<Error>");
    weft_mem_give(answer.body);
    weft_mem_give(list);
    if (status == WEFT_OK && answer.code == 501 && w->fresh) {
        w->fresh = false;
        return parts_end(w);
    }
    if (status == WEFT_OK && (answer.code == 412 || answer.code == 409))
        return ends_as_ours(w) ? WEFT_OK : taken(w);
    if (status == WEFT_OK && answer.code == 404)
        return ended_before(w);
    return status == WEFT_OK && (answer.code != 200 || error) ? refused(w, &answer) : status;
}

/* ---- the stream */

static uint64_t part_bytes(const writer *w)
{
    const uint64_t step = 1 + w->parts / PARTS_STEP;
    return PART_BYTES * step * step;
}

static weft_status part_room(writer *w)
{
    if (w->capacity >= part_bytes(w))
        return WEFT_OK;
    uint8_t *grown = weft_mem_grow(w->part, w->used, part_bytes(w), 1);
    if (!grown)
        return weft_fail(WEFT_E_MEMORY, "no memory for a part of %llu bytes", (unsigned long long)part_bytes(w));
    w->part = grown;
    w->last = 0;
    w->capacity = part_bytes(w);
    return WEFT_OK;
}

static weft_status part_flush(writer *w)
{
    weft_status status = w->upload[0] ? WEFT_OK : parts_begin(w);
    if (status == WEFT_OK)
        status = part_put(w);
    return status == WEFT_OK ? part_room(w) : status;
}

static weft_status sink_write(void *user, const void *data, uint64_t bytes)
{
    writer *w = user;
    const uint8_t *from = data;
    while (bytes > 0) {
        const uint64_t left = part_bytes(w) - w->used, now = left < bytes ? left : bytes;
        memcpy(w->part + w->used, from, now);
        w->used += now;
        from += now;
        bytes -= now;
        if (w->used == part_bytes(w)) {
            const weft_status status = part_flush(w);
            if (status != WEFT_OK)
                return status;
        }
    }
    return WEFT_OK;
}

static weft_status finish(writer *w)
{
    if (!w->upload[0])
        return object_put(w);
    weft_status status = w->used ? part_put(w) : WEFT_OK;
    return status == WEFT_OK ? parts_end(w) : status;
}

static weft_status stream_write(writer *w, weft_status (*fill)(void *user, const weft_sink *sink), void *user)
{
    const weft_sink sink = {w, sink_write};
    weft_s3_answer answer = {0};
    bool there;
    weft_status status = object_look(w, &there, &answer);
    if (status == WEFT_OK && there)
        return taken(w);
    if (status == WEFT_OK)
        status = part_room(w);
    if (status == WEFT_OK)
        status = fill(user, &sink);
    if (status == WEFT_OK)
        status = finish(w);
    if (status != WEFT_OK && w->upload[0])
        parts_give_up(w);
    return status;
}

weft_status weft_s3_write(weft_s3 *s3, const char *name, weft_status (*fill)(void *user, const weft_sink *sink),
                          void *user)
{
    writer w = {.s3 = s3, .name = name, .fresh = true};
    w.upload = weft_mem_take(3 * ID_MOST, 1);
    w.etags = weft_mem_take(PARTS_MOST, sizeof *w.etags);
    weft_status status =
        w.upload && w.etags ? stream_write(&w, fill, user) : weft_fail(WEFT_E_MEMORY, "no memory to write an object");
    weft_mem_give(w.etags);
    weft_mem_give(w.upload);
    weft_mem_give(w.part);
    return status;
}

/* ---- what others left */

/* Tells whether a part came since `time_s`, so that somebody writes. A page has a thousand parts. */
static weft_status upload_lives(weft_s3 *s3, const char *name, const char *upload, uint64_t time_s, bool *lives)
{
    char query[3 * ID_MOST + 64], marker[16] = "0", part[64];
    *lives = false;
    for (uint32_t page = 0; page * 1000 < PARTS_MOST && marker[0] && !*lives; page++) {
        weft_s3_answer answer = {0};
        snprintf(query, sizeof query, "part-number-marker=%s&uploadId=%s", marker, upload);
        const weft_s3_request request = {
            .method = "GET", .name = name, .query = query, .most = WEFT_S3_LIST_MOST, .root = "ListPartsResult"};
        const weft_status status = weft_s3_ask(s3, &request, &answer);
        const char *at = status == WEFT_OK && answer.code == 200 ? (const char *)answer.body : "", *next = at;
        while (weft_s3_element(&at, "LastModified", part, sizeof part))
            *lives = *lives || weft_s3_time(part) >= time_s;
        if (!strstr(next, "<IsTruncated>true<") ||
            !weft_s3_element(&next, "NextPartNumberMarker", marker, sizeof marker))
            marker[0] = 0;
        weft_mem_give(answer.body);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status upload_give_up(weft_s3 *s3, const char *key, const char *id, uint64_t time_s)
{
    char query[3 * ID_MOST + 64], upload[3 * ID_MOST];
    const size_t prefix = strlen(weft_s3_prefix(s3));
    weft_s3_answer answer = {0};
    bool lives;
    if (strncmp(key, weft_s3_prefix(s3), prefix) != 0)
        return WEFT_OK;
    weft_s3_encode(id, false, upload, sizeof upload);
    weft_status status = upload_lives(s3, key + prefix, upload, time_s, &lives);
    if (status != WEFT_OK || lives)
        return status;
    snprintf(query, sizeof query, "uploadId=%s", upload);
    const weft_s3_request request = {.method = "DELETE", .name = key + prefix, .query = query};
    status = weft_s3_ask(s3, &request, &answer);
    weft_mem_give(answer.body);
    return status;
}

/* Looks at the first thousand, which is all that one listing tells. */
weft_status weft_s3_tidy(weft_s3 *s3, uint64_t time_s)
{
    char asked[2300], prefix[2200];
    weft_s3_encode(weft_s3_prefix(s3), false, prefix, sizeof prefix);
    snprintf(asked, sizeof asked, "prefix=%s&uploads=", prefix);
    const weft_s3_request request = {
        .method = "GET", .query = asked, .most = WEFT_S3_LIST_MOST, .root = "ListMultipartUploadsResult"};
    weft_s3_answer answer = {0};
    char upload[3000], key[1200], id[ID_MOST], begun[64];
    weft_status status = weft_s3_ask(s3, &request, &answer);
    const char *at = status == WEFT_OK && answer.bytes ? (const char *)answer.body : "";
    while (status == WEFT_OK && weft_s3_element(&at, "Upload", upload, sizeof upload)) {
        const char *in_key = upload, *in_id = upload, *in_time = upload;
        if (weft_s3_element(&in_key, "Key", key, sizeof key) && weft_s3_element(&in_id, "UploadId", id, sizeof id) &&
            weft_s3_element(&in_time, "Initiated", begun, sizeof begun) && weft_s3_time(begun) < time_s)
            status = upload_give_up(s3, key, id, time_s);
    }
    weft_mem_give(answer.body);
    return status;
}
#endif
