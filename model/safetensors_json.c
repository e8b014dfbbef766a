/* safetensors_json.c - the members of a header's JSON object one by one, where jansson alone would take the object as a
 * whole: of a tensor that is there twice the last counts, as for the format's own reader, and nothing else may be
 * there twice. */
#include "safetensors_json.h"

#include <string.h>

#include "base/status.h"

static weft_status wrong(const weft_json_members *in, const char *what)
{
    return weft_fail(WEFT_E_LAYOUT, "the JSON header is wrong at byte %llu: %s", (unsigned long long)in->at, what);
}

static void blanks_pass(weft_json_members *in)
{
    while (in->at < in->length && in->text[in->at] && strchr(" \t\r\n", in->text[in->at]))
        in->at++;
}

/* Whether the next character but blanks is this one, which is passed. */
static bool passed(weft_json_members *in, char character)
{
    blanks_pass(in);
    bool is = in->at < in->length && in->text[in->at] == character;
    in->at += is;
    return is;
}

/* NULL: it failed. */
static json_t *value_take(weft_json_members *in, size_t flags)
{
    json_error_t error;
    json_t *value = json_loadb(in->text + in->at, in->length - in->at,
                               flags | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);
    in->at += (uint64_t)error.position;
    if (!value)
        wrong(in, error.text);
    return value;
}

weft_status weft_json_members_begin(const char *text, uint64_t length, weft_json_members *in)
{
    *in = (weft_json_members){.text = text, .length = length};
    if (!passed(in, '{'))
        return weft_fail(WEFT_E_LAYOUT, "the JSON header does not begin with '{': this is no safetensors file");
    in->more = !passed(in, '}');
    return WEFT_OK;
}

static weft_status name_take(weft_json_members *in, json_t **name)
{
    blanks_pass(in);
    if (in->at >= in->length || in->text[in->at] != '"')
        return wrong(in, "a name in quotes is missing");
    *name = value_take(in, 0);
    if (!*name)
        return WEFT_E_LAYOUT;
    if (strlen(json_string_value(*name)) != json_string_length(*name))
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: a zero byte in its name", json_string_value(*name));
    return passed(in, ':') ? WEFT_OK : wrong(in, "':' is missing");
}

weft_status weft_json_members_next(weft_json_members *in, json_t **name, json_t **value)
{
    *name = *value = NULL;
    weft_status status = name_take(in, name);
    if (status != WEFT_OK)
        return status;
    const bool metadata = strcmp(json_string_value(*name), WEFT_MODEL_METADATA) == 0;
    *value = value_take(in, metadata ? 0 : JSON_REJECT_DUPLICATES);
    if (!*value)
        return WEFT_E_LAYOUT;
    in->more = passed(in, ',');
    return in->more || passed(in, '}') ? WEFT_OK : wrong(in, "',' or '}' is missing");
}

weft_status weft_json_members_end(weft_json_members *in)
{
    blanks_pass(in);
    return in->at == in->length ? WEFT_OK : wrong(in, "there is more after the object");
}
