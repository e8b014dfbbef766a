/* update_names.h - the short form of a layout, which makes names in an update file cheap.
 *
 * Models repeat their layers, and many models use the same names. A tensor is a literal, in which common words take a
 * byte each. Or the tensor is one of a run of copies of earlier tensors, with a number in the name moved
 * (docs/WIRE_FORMAT.md, Update files). */
#ifndef WEFT_CORE_UPDATE_NAMES_H
#define WEFT_CORE_UPDATE_NAMES_H

#include "layout/layout.h"

/* Writes the short form of a layout. *bytes comes from weft_mem_take. Errors: WEFT_E_MEMORY. */
weft_status weft_update_names_write(const weft_layout *layout, uint8_t **bytes, uint64_t *length);

/* Turns the short form into the serialised layout, of at most WEFT_LAYOUT_MAX bytes, which weft_layout_parse judges.
 * *plain comes from weft_mem_take. Errors: WEFT_E_CORRUPT, WEFT_E_MEMORY. */
weft_status weft_update_names_read(const uint8_t *bytes, uint64_t length, uint8_t **plain, uint64_t *plain_bytes);

/* The common words; byte 1 is the first word. */
#define WEFT_NAME_WORDS 30u
extern const char *const weft_name_words[WEFT_NAME_WORDS];
/* The byte after this one is a character. */
#define WEFT_NAME_ITSELF 31u
/* Digits of a number in a name that may be moved, at most. */
#define WEFT_NAME_DIGITS 18u

#endif
