/* s3_text.c - the little text that object servers speak: parts of URLs, flat XML, and flat JSON. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store/s3.h"

size_t weft_s3_encode(const char *text, bool path, char *out, size_t room)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    size_t length = 0;
    for (; *text; text++) {
        char piece[4] = {*text};
        if (!strchr(plain, *text) && !(path && *text == '/'))
            snprintf(piece, sizeof piece, "%%%02X", (unsigned char)*text);
        for (const char *from = piece; *from; from++, length++)
            if (length + 1 < room)
                out[length] = *from;
    }
    if (room)
        out[length < room ? length : room - 1] = 0;
    return length;
}

/* Undoes one escape; returns the text behind it. */
static const char *escape_undo(const char *text, char *out)
{
    static const struct {
        const char *name;
        char stands_for;
    } escapes[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++)
        if (strncmp(text, escapes[i].name, strlen(escapes[i].name)) == 0) {
            *out = escapes[i].stands_for;
            return text + strlen(escapes[i].name);
        }
    unsigned code;
    int bytes = 0; /* Go's servers write quotes so */
    if ((sscanf(text, "&#%3u;%n", &code, &bytes) == 1 || sscanf(text, "&#x%2x;%n", &code, &bytes) == 1) && bytes > 0 &&
        code > 0 && code < 128) {
        *out = (char)code;
        return text + bytes;
    }
    *out = *text;
    return text + 1;
}

bool weft_s3_element(const char **at, const char *name, char *out, size_t room)
{
    char open[64], close[64];
    snprintf(open, sizeof open, "<%s>", name);
    snprintf(close, sizeof close, "</%s>", name);
    const char *begin = strstr(*at, open), *end = begin ? strstr(begin, close) : NULL;
    if (!end)
        return false;
    size_t length = 0;
    for (const char *from = begin + strlen(open); from < end;) {
        char one;
        from = escape_undo(from, &one);
        if (length + 1 >= room)
            return false;
        out[length++] = one;
    }
    out[length] = 0;
    *at = end + strlen(close);
    return true;
}

bool weft_s3_json(const char *text, const char *name, char *out, size_t room)
{
    char key[64];
    size_t length = 0;
    snprintf(key, sizeof key, "\"%s\"", name);
    const char *at = strstr(text, key);
    at = at ? at + strlen(key) : "";
    at += strspn(at, " \t\r\n");
    if (*at != ':')
        return false;
    at++;
    at += strspn(at, " \t\r\n");
    if (*at++ != '"')
        return false;
    for (; *at && *at != '"'; at++) {
        at += *at == '\\'; /* keys and tokens have no other escape than that of a slash */
        if (!*at || length + 1 >= room)
            return false;
        out[length++] = *at;
    }
    out[length] = 0;
    return *at == '"' && length > 0;
}

uint64_t weft_s3_time(const char *text)
{
    struct tm t = {0};
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec) !=
        6)
        return 0;
    t.tm_year -= 1900;
    t.tm_mon--;
    const time_t seconds = timegm(&t);
    return seconds > 0 ? (uint64_t)seconds : 0;
}
