/* s3_reader.c - an object as an update file: its end is read first, and the rest by windows. */
#include "store/s3.h"

#ifndef WEFT_NO_S3
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "update/update_format.h"

#define TAIL_BYTES   (UINT64_C(64) << 10) /* read at open: trailer and names of most updates, or all of a small one */
#define WINDOW_BYTES (UINT64_C(4) << 20)

typedef struct reader {
    weft_s3 *s3;
    char name[WEFT_STORE_NAME_MAX];
    uint64_t bytes;                    /* of the object */
    uint8_t *tail, *window;            /* its last bytes, and those that were read last */
    uint64_t tail_bytes, window_bytes; /* bytes there */
    uint64_t at;                       /* offset of the window */
} reader;

static void reader_close(void *user)
{
    reader *r = user;
    weft_mem_give(r->window);
    weft_mem_give(r->tail);
    weft_mem_give(r);
}

static weft_status range_read(const reader *r, const char *range, uint64_t most, weft_s3_answer *answer)
{
    const weft_s3_request request = {.method = "GET", .name = r->name, .range = range, .most = most};
    weft_status status = weft_s3_ask(r->s3, &request, answer);
    if (status == WEFT_OK && answer->code == 404)
        status = weft_fail(WEFT_E_FILE, "%s/%s: is not there", weft_s3_url(r->s3), r->name);
    else if (status == WEFT_OK && answer->code != 200 && answer->code != 206)
        status = weft_fail(WEFT_E_FILE, "%s/%s: the server answers %ld to a read of %s", weft_s3_url(r->s3), r->name,
                           answer->code, range);
    return status;
}

/* Servers that know no ranges send all of the object, which is then all of the tail. An empty object has no range. */
static weft_status tail_read(reader *r)
{
    weft_s3_answer answer = {0};
    char range[64];
    snprintf(range, sizeof range, "-%llu", (unsigned long long)TAIL_BYTES);
    weft_status status = range_read(r, range, TAIL_BYTES, &answer);
    r->tail = answer.body;
    r->tail_bytes = answer.bytes;
    r->bytes = answer.total;
    if (status == WEFT_OK && r->bytes < r->tail_bytes)
        status = weft_fail(WEFT_E_FILE, "%s/%s: the server tells a wrong length", weft_s3_url(r->s3), r->name);
    return status;
}

static weft_status window_read(reader *r, uint64_t offset, uint64_t bytes)
{
    const uint64_t most = bytes > WINDOW_BYTES ? bytes : WINDOW_BYTES, left = r->bytes - offset;
    const uint64_t wanted = offset == 0 && bytes < TAIL_BYTES ? TAIL_BYTES : most,
                   count = wanted < left ? wanted : left;
    weft_s3_answer answer = {0};
    char range[64];
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)offset, (unsigned long long)(offset + count - 1));
    weft_status status = range_read(r, range, count, &answer);
    if (status == WEFT_OK && answer.bytes != count)
        status = weft_fail(WEFT_E_FILE, "%s/%s: %llu bytes came of %llu", weft_s3_url(r->s3), r->name,
                           (unsigned long long)answer.bytes, (unsigned long long)count);
    if (status != WEFT_OK) {
        weft_mem_give(answer.body);
        return status;
    }
    weft_mem_give(r->window);
    r->window = answer.body;
    r->window_bytes = answer.bytes;
    r->at = offset;
    return WEFT_OK;
}

static weft_status reader_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    reader *r = user;
    const uint64_t tail_at = r->bytes - r->tail_bytes;
    if (offset > r->bytes || bytes > r->bytes - offset)
        return weft_fail(WEFT_E_FILE, "%s/%s: ends before byte %llu", weft_s3_url(r->s3), r->name,
                         (unsigned long long)(offset + bytes));
    if (bytes == 0)
        return WEFT_OK;
    if (offset >= tail_at) {
        memcpy(data, r->tail + (offset - tail_at), bytes);
        return WEFT_OK;
    }
    if (offset < r->at || offset + bytes > r->at + r->window_bytes) {
        const weft_status status = window_read(r, offset, bytes);
        if (status != WEFT_OK)
            return status;
    }
    memcpy(data, r->window + (offset - r->at), bytes);
    return WEFT_OK;
}

weft_status weft_s3_reader_open(weft_s3 *s3, const char *name, weft_update_file **update)
{
    reader *r = weft_mem_take(1, sizeof *r);
    if (!r)
        return weft_fail(WEFT_E_MEMORY, "no memory to read an object");
    r->s3 = s3;
    snprintf(r->name, sizeof r->name, "%s", name);
    weft_status status = tail_read(r);
    const weft_source source = {r, reader_read, r->bytes};
    if (status == WEFT_OK)
        status = weft_update_open(NULL, &source, update);
    if (status != WEFT_OK) {
        weft_fail_about("%s/%s", weft_s3_url(s3), name);
        reader_close(r);
        return status;
    }
    (*update)->release = reader_close;
    return WEFT_OK;
}
#endif
