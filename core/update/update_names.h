/* update_names.h - a layout told briefly: what it costs to name every tensor of an update file.
 *
 * Models are layers that repeat, and their tensors have the names that everybody's have: a tensor is a literal, in
 * which common words take a byte each, or one of a run of copies of earlier ones with a number in the name moved
 * (docs/WIRE_FORMAT.md, Update files). */
#ifndef WEFT_CORE_UPDATE_NAMES_H
#define WEFT_CORE_UPDATE_NAMES_H

#include "layout/layout.h"

/* Tells a layout. *bytes comes from weft_mem_take. Errors: WEFT_E_MEMORY. */
weft_status weft_update_names_write(const weft_layout *layout, uint8_t **bytes, uint64_t *length);

/* Makes the serialised layout, of at most WEFT_LAYOUT_MAX bytes, of what tells it, for weft_layout_parse to judge.
 * *plain comes from weft_mem_take. Errors: WEFT_E_CORRUPT, WEFT_E_MEMORY. */
weft_status weft_update_names_read(const uint8_t *bytes, uint64_t length, uint8_t **plain, uint64_t *plain_bytes);

/* The words, of which the first is told by the byte 1. */
#define WEFT_NAME_WORDS 30u
extern const char *const weft_name_words[WEFT_NAME_WORDS];
/* The next byte stands for itself. */
#define WEFT_NAME_ITSELF 31u
/* Digits that a number in a name may have to be moved. */
#define WEFT_NAME_DIGITS 18u

#endif
