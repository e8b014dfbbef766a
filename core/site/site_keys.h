/* site_keys.h - the key table with what only the site's own files need: where a value lands and what bounds it. */
#ifndef WEFT_CORE_SITE_KEYS_H
#define WEFT_CORE_SITE_KEYS_H

#include "site/site.h"

typedef enum weft_text_rule {
    WEFT_TEXT_ANY,
    WEFT_TEXT_NAME,
    WEFT_TEXT_ADDRESS,
    WEFT_TEXT_LISTEN,
    WEFT_TEXT_VIA,
    WEFT_TEXT_PORTS,
    WEFT_TEXT_NUMBERS
} weft_text_rule;

/* One row. Offsets are into weft_site_peer for section "peer", weft_site_provider for "provider", weft_site_cut for
 * "cut", weft_site else. */
typedef struct weft_site_field {
    weft_key key;
    uint32_t offset;
    uint32_t width; /* bytes of the field: a choice lands as its word in a char array, as its index in an enum */
    uint64_t low;   /* numbers: bytes, ms, bytes/s or plain */
    uint64_t high;
    const char *word; /* the one word allowed in place of a number; NULL: none */
    uint64_t word_number;
    weft_text_rule rule;
} weft_site_field;

/* Most rows of the table. */
#define WEFT_SITE_ROWS 96

/* Returns a row by its number, from 0. NULL: past the last. */
const weft_site_field *weft_site_field_at(uint64_t index);

/* Returns the number of a row, for weft_site_field_at. */
uint64_t weft_site_field_index(const weft_site_field *field);

/* Finds the row of a key. NULL: there is none. `section` is the table's: "peer" for [peers] and every [peer.NAME]. */
const weft_site_field *weft_site_field_of(const char *section, const char *key);

/* Returns what serves the users of a key that an earlier checkout had. NULL: there was none of that name. */
const char *weft_site_removed(const char *section, const char *key);

/* Finds the nearest key of a section by edit distance. NULL: none is near. */
const char *weft_site_field_near(const char *section, const char *key);

/* Counts the edits (insert, delete, replace) that turn one text into the other. Letter case does not count. Texts are
 * cut at 63 bytes. */
uint32_t weft_site_distance(const char *a, const char *b);

/* Returns a name that [provider.NAME] may bear, by its number from 0. NULL: past the last. */
const char *weft_site_provider_at(uint64_t index);

#endif
