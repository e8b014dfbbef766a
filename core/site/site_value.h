/* site_value.h - one value of the site file: text to value, value to text, value to field. */
#ifndef WEFT_CORE_SITE_VALUE_H
#define WEFT_CORE_SITE_VALUE_H

#include "site/site_keys.h"

typedef struct weft_site_value {
    uint64_t number; /* sizes, times, rates, counts; index of a choice */
    char text[WEFT_SITE_TEXT];
} weft_site_value;

/* Reads a value as its row demands; false leaves *value undefined. */
bool weft_site_value_parse(const weft_site_field *field, const char *text, weft_site_value *value);

/* Writes the value in the unit of conf/weft.ini; always terminated, cut if it must be. */
void weft_site_value_print(const weft_site_field *field, const weft_site_value *value, char *text, size_t capacity);

/* Says what the row allows: "need auto or a size such as 4MiB (64KiB..1GiB)". */
void weft_site_value_need(const weft_site_field *field, char *text, size_t capacity);

/* Moves a value into the struct that the row's offset is of, or back. */
void weft_site_value_put(const weft_site_field *field, const weft_site_value *value, void *fields);
void weft_site_value_take(const weft_site_field *field, const void *fields, weft_site_value *value);

#endif
