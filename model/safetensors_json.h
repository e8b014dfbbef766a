/* safetensors_json.h - a header's JSON object, member by member. */
#ifndef WEFT_MODEL_SAFETENSORS_JSON_H
#define WEFT_MODEL_SAFETENSORS_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "weft.h"

#define WEFT_MODEL_METADATA "__metadata__"

typedef struct weft_json_members {
    const char *text;
    uint64_t length;
    uint64_t at; /* the next byte to be read */
    bool more;   /* a member follows */
} weft_json_members;

/* Errors of all: WEFT_E_LAYOUT, saying at which byte. */
weft_status weft_json_members_begin(const char *text, uint64_t length, weft_json_members *in);
/* The next member, where there is `more`. Both belong to the caller, also of one that failed: NULL or json_decref. */
weft_status weft_json_members_next(weft_json_members *in, json_t **name, json_t **value);
/* Nothing may follow the object but blanks. */
weft_status weft_json_members_end(weft_json_members *in);

#endif
