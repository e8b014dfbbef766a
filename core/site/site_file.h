/* site_file.h - a site file's bytes, read once; its headers and keys by line; its values by iniparser. */
#ifndef WEFT_CORE_SITE_FILE_H
#define WEFT_CORE_SITE_FILE_H

#include "site/site.h"

/* A line longer than this is refused: iniparser reads lines into a buffer of 1024 bytes. */
#define WEFT_SITE_LINE 1022

/* A file larger than this is no site file. */
#define WEFT_SITE_BYTES (UINT64_C(4) << 20)

/* Reads the whole file. *text ends in a 0 after *bytes bytes; give it back with weft_mem_give.
 * Errors: WEFT_E_FILE, WEFT_E_CONFIG (too large), WEFT_E_MEMORY. */
weft_status weft_site_file_read(const char *path, char **text, uint64_t *bytes);

/* One header or key as written. */
typedef struct weft_site_line {
    uint32_t number;     /* from 1 */
    const char *section; /* the header it is or stands under */
    const char *key;     /* NULL: a header */
} weft_site_line;

typedef struct weft_site_lines {
    weft_site_line *line;
    uint64_t count;
} weft_site_lines;

/* Finds headers and keys, and refuses each line that iniparser would read in another way than a person: no '=', text
 * after a header, a joining backslash, control characters, over-long lines. It reads no value. The text is cut into
 * strings that the lines point into; give `line` back with weft_mem_give.
 * Errors: WEFT_E_CONFIG, WEFT_E_MEMORY. */
weft_status weft_site_locate(const char *path, char *text, uint64_t bytes, weft_site_lines *lines);

typedef struct weft_site_ini weft_site_ini;

/* Hands the same bytes to iniparser. Errors: WEFT_E_CONFIG, WEFT_E_SYSTEM, WEFT_E_MEMORY. */
weft_status weft_site_ini_open(const char *path, const char *text, uint64_t bytes, weft_site_ini **ini);

/* The value as iniparser decided it; NULL: it does not know the key. Lives until close. */
const char *weft_site_ini_value(const weft_site_ini *ini, const char *section, const char *key);

/* Whether iniparser found exactly these headers and keys (letter case aside; they hold no duplicates). */
bool weft_site_ini_agrees(const weft_site_ini *ini, const weft_site_lines *lines);

void weft_site_ini_close(weft_site_ini *ini);

#endif
