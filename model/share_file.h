/* share_file.h - share files (docs/SHARDING.md): the rules of a holding or a view, read from JSON and written. */
#ifndef WEFT_MODEL_SHARE_FILE_H
#define WEFT_MODEL_SHARE_FILE_H

#include "shard/share.h"

/* The rules of one file, with the memory of their texts and ranges. */
typedef struct weft_share_file {
    weft_share_rule *rules;
    uint64_t count;
    void *document; /* the JSON that patterns lie in */
    weft_range *ranges;
} weft_share_file;

/* Reads a file, which may come from anywhere; the caller gives the rules back with weft_share_file_close. Errors:
 * WEFT_E_FILE (cannot be read), WEFT_E_LAYOUT (no JSON, or not of that form: the text has file and rule),
 * WEFT_E_MEMORY. */
weft_status weft_share_file_open(const char *path, weft_share_file *file);
/* Reads the same from memory. Errors: WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_share_file_read(const char *text, uint64_t length, weft_share_file *file);
void weft_share_file_close(weft_share_file *file);

/* Saves rules under a name: whole, or not at all. Errors: WEFT_E_FILE, WEFT_E_LAYOUT (patterns that are no UTF-8),
 * WEFT_E_MEMORY. */
weft_status weft_share_file_save(const weft_share_rule *rules, uint64_t count, const char *path);

#endif
