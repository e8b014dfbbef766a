/* site_source.h - the sections and values of a site as read, overrides in place; what resolution works on. */
#ifndef WEFT_CORE_SITE_SOURCE_H
#define WEFT_CORE_SITE_SOURCE_H

#include "site/site_value.h"

typedef enum weft_section_kind {
    WEFT_SECTION_FIXED,    /* [trainer], [peers], ... */
    WEFT_SECTION_PEER,     /* [peer.NAME] */
    WEFT_SECTION_PATTERN,  /* [peer.PREFIX*] */
    WEFT_SECTION_PROVIDER, /* [provider.NAME] */
    WEFT_SECTION_CUT,      /* [cut.NAME] */
    WEFT_SECTION_SOURCE    /* [source.R] */
} weft_section_kind;

typedef struct weft_site_section {
    char header[16 + WEFT_SITE_NAME]; /* as written between the brackets */
    char name[WEFT_SITE_NAME];        /* of a peer, provider, cut or source; a pattern's prefix; "" for the rest */
    const char *table;                /* the key table's section; static */
    weft_section_kind kind;
    uint32_t line;                  /* 0: it is in no file, an override made it */
    uint32_t given[WEFT_SITE_ROWS]; /* by row: index of the entry, from 1; 0: not given here */
} weft_site_section;

typedef struct weft_site_entry {
    uint32_t section; /* index */
    uint32_t line;    /* 0: an override */
    const weft_site_field *field;
    weft_site_value value;
} weft_site_entry;

/* Arrays grow while a site is loaded and stand still after. */
typedef struct weft_site_source {
    weft_site_section *sections;
    uint64_t section_count;
    uint64_t section_room;
    weft_site_entry *entries;
    uint64_t entry_count;
    uint64_t entry_room;
} weft_site_source;

#define WEFT_SITE_NOWHERE UINT32_MAX /* no section */

/* A place in the site file, for messages. */
typedef struct weft_site_place {
    const char *path;
    uint32_t line; /* number of the line; 0: an override */
    const char *header;
    const char *key;   /* key; NULL: the place is the header */
    const char *value; /* value; NULL: the place is the key */
} weft_site_place;

/* Decides WEFT_E_CONFIG: "site.ini:12: [peer.b] bucket = 3: " or "override peer.b.bucket=3: ", then the text. */
weft_status weft_site_refuse(const weft_site_place *place, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads a header. The error says why it names no section. `section` is written on WEFT_OK. */
weft_status weft_site_section_read(const weft_site_place *place, weft_site_section *section);

/* Reads a key and finds its row. The error says why there is none. */
weft_status weft_site_key_read(const weft_site_place *place, const char *table, const weft_site_field **field);

/* Reads the value of a row. The error says what the row needs. */
weft_status weft_site_value_read(const weft_site_place *place, const weft_site_field *field, weft_site_value *value);

/* Finds the section with this header. WEFT_SITE_NOWHERE: there is none. */
uint32_t weft_site_section_find(const weft_site_source *source, const char *header);

/* Finds [peer.NAME]. WEFT_SITE_NOWHERE: there is none. */
uint32_t weft_site_peer_find(const weft_site_source *source, const char *name);

/* Finds the longest [peer.PREFIX*] that matches the name. WEFT_SITE_NOWHERE: none matches. */
uint32_t weft_site_pattern_find(const weft_site_source *source, const char *name);

/* Finds the value that one section gives. NULL: it gives none. */
const weft_site_entry *weft_site_entry_find(const weft_site_source *source, uint32_t section,
                                            const weft_site_field *field);

/* Adds a section or an entry. An entry replaces an earlier one of the same section and row. Errors: WEFT_E_MEMORY. */
weft_status weft_site_section_add(weft_site_source *source, const weft_site_section *section, uint32_t *index);
weft_status weft_site_entry_add(weft_site_source *source, const weft_site_entry *entry);

/* Reads the file into an empty source. Errors: WEFT_E_FILE, WEFT_E_CONFIG, WEFT_E_MEMORY, WEFT_E_SYSTEM. */
weft_status weft_site_source_load(weft_site_source *source, const char *path);

/* Puts one "section.key=value" over the file's. Errors: WEFT_E_CONFIG, WEFT_E_MEMORY. */
weft_status weft_site_source_override(weft_site_source *source, const char *path, const char *text);

weft_status weft_site_source_copy(const weft_site_source *source, weft_site_source *copy);
void weft_site_source_clear(weft_site_source *source);

#endif
