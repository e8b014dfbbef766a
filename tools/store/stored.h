/* stored.h - versions of a store for the command: named on the command line, and taken into a model in memory. */
#ifndef WEFT_TOOLS_STORED_H
#define WEFT_TOOLS_STORED_H

#include "tools/update/offline.h"

/* The versions of an open store. */
typedef struct weft_stored {
    weft_store *store; /* NULL: closed */
    weft_store_entry *entries;
    size_t count;
} weft_stored;

/* Opens a store and lists its versions. The caller gives it back with weft_stored_close. Errors: those of
 * weft_store_open and weft_store_list. */
weft_status weft_stored_open(const char *place, bool create, weft_stored *stored);
/* Lists anew what the store has. */
weft_status weft_stored_list(weft_stored *stored);
void weft_stored_close(weft_stored *stored);

/* Reads "NUMBER", of the last run that has the number, or "RUN/NUMBER" with a run of 16 hexadecimal digits. Errors:
 * WEFT_E_ARGUMENT (no such form), WEFT_E_MISSING (the store has no such version). */
weft_status weft_stored_find(const weft_stored *stored, const char *text, weft_version *version);

/* A version in memory. */
typedef struct weft_stored_model {
    weft_model *model;
    void *header; /* attachment of the version; NULL: none */
    uint64_t header_bytes;
    weft_store_info info;
} weft_stored_model;

/* Takes the header of a version's model file alone; 0 bytes: it has none. Errors: those of weft_store_attachment,
 * WEFT_E_MEMORY. */
weft_status weft_stored_header(const weft_stored *stored, const weft_version *version, weft_stored_model *taken);
/* Makes the header that a file of the version's tensors would have, for a version without one. Errors: those of
 * weft_store_layout, WEFT_E_MEMORY. */
weft_status weft_stored_header_make(const weft_stored *stored, const weft_version *version, weft_stored_model *taken);
/* Takes a version into memory of its own. Errors: those of weft_store_layout, weft_store_apply and
 * weft_store_attachment. */
weft_status weft_stored_take(const weft_stored *stored, const weft_version *version, const weft_args *args,
                             weft_stored_model *taken);
void weft_stored_give(weft_stored_model *taken);

#endif
