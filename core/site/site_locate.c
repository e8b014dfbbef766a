/* site_locate.c - line numbers of headers and keys, which iniparser does not keep. It looks at no value. */
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "site/site_file.h"

typedef struct locator {
    const char *path;
    const char *section; /* NULL before the first header */
    uint32_t number;
    uint64_t room;
    weft_site_lines *lines;
} locator;

static weft_status refuse(const locator *at, const char *why, const char *line)
{
    return weft_fail(WEFT_E_CONFIG, "%s:%u: %s: '%.60s'", at->path, at->number, why, line);
}

/* For lines whose bytes are better not repeated. */
static weft_status refuse_mute(const locator *at, const char *why)
{
    return weft_fail(WEFT_E_CONFIG, "%s:%u: %s", at->path, at->number, why);
}

static weft_status add(locator *at, const char *key)
{
    weft_site_lines *lines = at->lines;
    if (lines->count == at->room) {
        weft_site_line *grown = weft_mem_grow(lines->line, at->room, at->room * 2 + 64, sizeof(*grown));
        if (!grown)
            return weft_fail(WEFT_E_MEMORY, "no memory for the lines of site file %s", at->path);
        lines->line = grown;
        at->room = at->room * 2 + 64;
    }
    lines->line[lines->count++] = (weft_site_line){at->number, at->section, key};
    return WEFT_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts blanks off both ends, in place. */
static char *trim(char *text, uint64_t length)
{
    while (length && is_blank(text[length - 1]))
        length--;
    text[length] = 0;
    while (is_blank(*text))
        text++;
    return text;
}

static weft_status take_header(locator *at, char *line)
{
    char *close = strchr(line, ']');
    if (!close)
        return refuse(at, "a header needs its ]", line);
    if (close[1])
        return refuse(at, "nothing may follow a header's ]; a comment takes a line of its own", line);
    char *name = trim(line + 1, (uint64_t)(close - line - 1));
    if (!name[0])
        return refuse_mute(at, "a header needs a name, such as [peers]");
    at->section = name;
    return add(at, NULL);
}

static weft_status take_key(locator *at, char *line)
{
    char *equals = strchr(line, '=');
    if (!equals)
        return refuse(at, "need key = value, a [header] or a comment (# or ;)", line);
    if (!at->section)
        return refuse(at, "a key before the first [header]", line);
    char *key = trim(line, (uint64_t)(equals - line));
    if (!key[0])
        return refuse_mute(at, "no key before the =");
    return add(at, key);
}

/* iniparser would stop at a 0 byte and let the other control characters into names; tabs are blanks. */
static bool is_printable(const char *line, uint64_t length)
{
    uint64_t i = 0;
    while (i < length && (line[i] == '\t' || weft_bytes_control(line + i, length - i) == 0))
        i++;
    return i == length;
}

static weft_status take_line(locator *at, char *line, uint64_t length)
{
    if (length > WEFT_SITE_LINE)
        return weft_fail(WEFT_E_CONFIG, "%s:%u: a line of %llu bytes; need at most %d", at->path, at->number,
                         (unsigned long long)length, WEFT_SITE_LINE);
    if (at->number == 1 && length >= 3 && !memcmp(line, "\xef\xbb\xbf", 3))
        return refuse_mute(at, "begins with a byte order mark; save the file as UTF-8 without it");
    while (length && is_blank(line[length - 1]))
        length--;
    if (!is_printable(line, length))
        return refuse_mute(at, "a control character; need plain text");
    char *text = trim(line, length);
    if (!text[0])
        return WEFT_OK;
    if (text[strlen(text) - 1] == '\\')
        return refuse(at, "a \\ at the end would join the next line to this one; write one line", text);
    if (text[0] == '#' || text[0] == ';')
        return WEFT_OK;
    return text[0] == '[' ? take_header(at, text) : take_key(at, text);
}

weft_status weft_site_locate(const char *path, char *text, uint64_t bytes, weft_site_lines *lines)
{
    locator at = {.path = path, .lines = lines};
    weft_status status = WEFT_OK;
    *lines = (weft_site_lines){0};
    for (char *line = text, *end = text + bytes; line < end && !status;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end;
        at.number++;
        status = take_line(&at, line, (uint64_t)(stop - line));
        line = stop + 1;
    }
    if (status) {
        weft_mem_give(lines->line);
        *lines = (weft_site_lines){0};
    }
    return status;
}
