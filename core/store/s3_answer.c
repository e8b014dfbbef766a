/* s3_answer.c - what an object server answers: no more than was to come, and not slower than any line is. */
#include "store/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"

#define TEXT_MOST  (UINT64_C(64) << 10) /* bytes of the text of an error */
#define WHOLE_MOST (UINT64_C(1) << 30)  /* bytes of an object that comes whole, although a range was asked for */
#define PATIENCE_S UINT64_C(20)
#define SHARE      UINT64_C(8192) /* bytes a second that come at least, after that time */

void weft_s3_answer_begin(weft_s3_answer *answer, const weft_s3_request *request)
{
    answer->asked = request;
    answer->code = 0;
    answer->bytes = answer->total = 0;
    answer->etag[0] = 0;
    answer->most = request->most + TEXT_MOST;
    answer->over = answer->late = false;
    answer->abreast = 1;
    answer->begun_ns = weft_clock_ns();
}

/* ---- the body */

size_t weft_s3_body_take(char *data, size_t one, size_t count, void *user)
{
    weft_s3_answer *answer = user;
    const uint64_t bytes = (uint64_t)one * count;
    if (answer->bytes + bytes + 1 > answer->capacity) {
        const uint64_t capacity = 2 * (answer->bytes + bytes) + 4096;
        uint8_t *grown = weft_mem_grow(answer->body, answer->capacity, capacity, 1);
        if (!grown)
            return 0;
        answer->body = grown;
        answer->capacity = capacity;
    }
    memcpy(answer->body + answer->bytes, data, bytes);
    answer->bytes += bytes;
    answer->body[answer->bytes] = 0; /* so that text ends */
    return bytes;
}

size_t weft_s3_body_take_bounded(char *data, size_t one, size_t count, void *user)
{
    weft_s3_answer *answer = user;
    answer->over = (uint64_t)one * count > answer->most - answer->bytes;
    return answer->over ? 0 : weft_s3_body_take(data, one, count, user);
}

bool weft_s3_answer_is_late(weft_s3_answer *answer, uint64_t moved)
{
    const uint64_t seconds = (weft_clock_ns() - answer->begun_ns) / (1000 * WEFT_NS_PER_MS);
    const uint32_t abreast = atomic_load(answer->asked_now);
    answer->abreast = abreast > answer->abreast ? abreast : answer->abreast;
    answer->late = answer->late || seconds > PATIENCE_S + answer->asked->work_s + moved * answer->abreast / SHARE;
    return answer->late;
}

/* ---- headers */

static uint64_t number_of(const char *text)
{
    return strtoull(text + strspn(text, " "), NULL, 10);
}

/* An answer may be several, of which the last counts. A server that knows no ranges announces the whole object. */
size_t weft_s3_header_take(char *data, size_t one, size_t count, void *user)
{
    weft_s3_answer *answer = user;
    const size_t bytes = one * count;
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)(bytes < 255 ? bytes : 255), data);
    line[strcspn(line, "\r\n")] = 0;
    if (strncasecmp(line, "http/", 5) == 0)
        answer->code = (long)number_of(line + strcspn(line, " "));
    if (strncasecmp(line, "etag:", 5) == 0)
        snprintf(answer->etag, sizeof answer->etag, "%.79s", line + 5 + strspn(line + 5, " "));
    if (strncasecmp(line, "content-range:", 14) == 0 && strrchr(line, '/'))
        answer->total = number_of(strrchr(line, '/') + 1);
    if (strncasecmp(line, "content-length:", 15) == 0 && answer->asked->range && answer->code == 200) {
        const uint64_t whole = number_of(line + 15);
        answer->most = whole < WHOLE_MOST ? whole : WHOLE_MOST;
    }
    return bytes;
}

/* ---- XML */

static bool has(const weft_s3_answer *answer, const char *before)
{
    char mark[64];
    snprintf(mark, sizeof mark, "%s%s", before, answer->asked->root);
    return answer->bytes && strstr((const char *)answer->body, mark);
}

bool weft_s3_answer_is_whole(const weft_s3_answer *answer)
{
    return !answer->asked->root || answer->code != 200 || (has(answer, "<") && has(answer, "</"));
}

bool weft_s3_answer_is_cut(const weft_s3_answer *answer)
{
    return answer->asked->root && answer->code == 200 && has(answer, "<") && !has(answer, "</");
}

void weft_s3_answer_show(const weft_s3_answer *answer, char *text, size_t room)
{
    size_t length = 0;
    for (uint64_t i = 0; i < answer->bytes && i < 60 && length + 1 < room; i++)
        text[length++] = answer->body[i] >= ' ' && answer->body[i] < 127 ? (char)answer->body[i] : ' ';
    snprintf(text + length, room - length, "%s", answer->bytes > 60 ? "..." : "");
}
