/* share_file.c - share files: JSON with distrust, because a key that is written wrong would change a share silently. */
#include "share_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "model.h"

#define FORM     "weft share 1"
#define FILE_MAX (UINT64_C(64) << 20)

typedef unsigned long long ull;

/* Ranges of all rules lie in one list. */
typedef struct reader {
    weft_share_file *file;
    uint64_t range_count; /* ranges in use */
    uint64_t number;      /* number of the rule, from 1 */
} reader;

static weft_status wrong(const reader *in, const char *what)
{
    return weft_fail(WEFT_E_LAYOUT, "rule %llu: %s", (ull)in->number, what);
}

static bool whole_number(const json_t *value, uint64_t *number)
{
    *number = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool range_of(const json_t *value, weft_range *range)
{
    return json_array_size(value) == 2 && whole_number(json_array_get(value, 0), &range->first) &&
           whole_number(json_array_get(value, 1), &range->count);
}

/* ---- keys of a rule */

static weft_status tensors_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    rule->patterns = json_string_value(value);
    return rule->patterns && rule->patterns[strspn(rule->patterns, ", \t")]
               ? WEFT_OK
               : wrong(in, "tensors: need patterns of names, such as \"*.o_proj.weight\"");
}

static weft_status dimension_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    uint64_t number;
    if (!whole_number(value, &number) || number >= WEFT_MAX_RANK)
        return wrong(in, "dimension: need a number from 0 to 15");
    rule->dimension = (uint32_t)number;
    return WEFT_OK;
}

static weft_status part_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    return whole_number(value, &rule->part) ? WEFT_OK : wrong(in, "part: need a number from 0");
}

static weft_status parts_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    rule->kind = WEFT_SHARE_PART;
    return whole_number(value, &rule->parts) ? WEFT_OK : wrong(in, "parts: need a number from 1");
}

static weft_status pad_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    return whole_number(value, &rule->pad) && rule->pad > 0 ? WEFT_OK : wrong(in, "pad: need a number from 1");
}

static weft_status ranges_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    rule->kind = WEFT_SHARE_RANGES;
    rule->ranges = &in->file->ranges[in->range_count];
    rule->range_count = json_array_size(value);
    for (uint64_t i = 0; i < rule->range_count; i++) {
        if (!range_of(json_array_get(value, i), &in->file->ranges[in->range_count++]))
            return wrong(in, "ranges: need a list of [first, count]");
    }
    return json_is_array(value) ? WEFT_OK : wrong(in, "ranges: need a list of [first, count]");
}

static weft_status elements_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    rule->kind = WEFT_SHARE_ELEMENTS;
    rule->ranges = &in->file->ranges[in->range_count];
    rule->range_count = 1;
    return range_of(value, &in->file->ranges[in->range_count++]) ? WEFT_OK : wrong(in, "elements: need [first, count]");
}

static weft_status layers_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    rule->by_layer = true;
    return range_of(value, &rule->layers) ? WEFT_OK : wrong(in, "layers: need [first, count]");
}

static weft_status experts_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    weft_range range;
    if (!range_of(value, &range) || range.count == 0)
        return wrong(in, "experts: need [group, groups]");
    rule->group = range.first;
    rule->groups = range.count;
    return WEFT_OK;
}

static weft_status contributes_take(reader *in, const json_t *value, weft_share_rule *rule)
{
    rule->replica = json_is_false(value);
    return json_is_boolean(value) ? WEFT_OK : wrong(in, "contributes: need true or false");
}

static const struct key {
    const char *name;
    weft_status (*take)(reader *in, const json_t *value, weft_share_rule *rule);
} keys[] = {
    {"tensors", tensors_take}, {"dimension", dimension_take},     {"part", part_take},         {"parts", parts_take},
    {"pad", pad_take},         {"ranges", ranges_take},           {"elements", elements_take}, {"layers", layers_take},
    {"experts", experts_take}, {"contributes", contributes_take},
};

/* ---- a rule */

static weft_status key_take(reader *in, const char *name, const json_t *value, weft_share_rule *rule)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(name, keys[i].name) == 0)
            return keys[i].take(in, value, rule);
    }
    return weft_fail(WEFT_E_LAYOUT, "rule %llu has the key '%.80s', which no rule has", (ull)in->number, name);
}

/* Checks the keys that go together. */
static weft_status together(const reader *in, const json_t *value)
{
    const bool dimension = json_object_get(value, "dimension"), part = json_object_get(value, "part"),
               parts = json_object_get(value, "parts"), pad = json_object_get(value, "pad"),
               ranges = json_object_get(value, "ranges"), elements = json_object_get(value, "elements");
    if (!json_object_get(value, "tensors"))
        return wrong(in, "no tensors");
    if (part != parts)
        return wrong(in, "part and parts go together");
    if (part + ranges + elements > 1)
        return wrong(in, "part, ranges and elements exclude each other");
    if (dimension != (part || ranges))
        return wrong(in, "dimension goes with part or ranges, and they with it");
    return pad && !part ? wrong(in, "pad goes with part") : WEFT_OK;
}

static weft_status rule_take(reader *in, json_t *value, weft_share_rule *rule)
{
    const char *name;
    json_t *of;
    in->number++;
    *rule = (weft_share_rule){0};
    if (!json_is_object(value))
        return wrong(in, "need an object");
    weft_status status = WEFT_OK;
    json_object_foreach(value, name, of)
    {
        if (status == WEFT_OK)
            status = key_take(in, name, of, rule);
    }
    return status == WEFT_OK ? together(in, value) : status;
}

/* ---- a file */

static uint64_t ranges_count(const json_t *rules)
{
    uint64_t count = 0;
    size_t i;
    json_t *rule;
    json_array_foreach(rules, i, rule) count += json_array_size(json_object_get(rule, "ranges")) + 1;
    return count;
}

static weft_status rules_take(weft_share_file *file, const json_t *rules)
{
    reader in = {.file = file};
    weft_status status = WEFT_OK;
    file->count = json_array_size(rules);
    file->rules = weft_mem_take(file->count + 1, sizeof *file->rules);
    file->ranges = weft_mem_take(ranges_count(rules) + 1, sizeof *file->ranges);
    if (!file->rules || !file->ranges)
        return weft_fail(WEFT_E_MEMORY, "no memory for the %llu rules of a share", (ull)file->count);
    for (uint64_t i = 0; i < file->count && status == WEFT_OK; i++)
        status = rule_take(&in, json_array_get(rules, i), &file->rules[i]);
    return status;
}

static weft_status document_check(const json_t *document)
{
    const char *form = json_string_value(json_object_get(document, "form")), *name;
    json_t *value;
    if (!form || strcmp(form, FORM) != 0)
        return weft_fail(WEFT_E_LAYOUT, "no share file: need \"form\": \"" FORM "\"");
    json_object_foreach((json_t *)document, name, value)
    {
        if (strcmp(name, "form") != 0 && strcmp(name, "rules") != 0)
            return weft_fail(WEFT_E_LAYOUT, "a share file has form and rules, and no '%.80s'", name);
    }
    return json_is_array(json_object_get(document, "rules"))
               ? WEFT_OK
               : weft_fail(WEFT_E_LAYOUT, "a share file needs a list of rules");
}

weft_status weft_share_file_read(const char *text, uint64_t length, weft_share_file *file)
{
    json_error_t error;
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    *file = (weft_share_file){.document = document};
    if (!document)
        return weft_fail(WEFT_E_LAYOUT, "no JSON at line %d, column %d: %s", error.line, error.column, error.text);
    weft_status status = document_check(document);
    if (status == WEFT_OK)
        status = rules_take(file, json_object_get(document, "rules"));
    if (status != WEFT_OK)
        weft_share_file_close(file);
    return status;
}

/* Reads a regular file of bounded size. *text comes from weft_mem_take. */
static weft_status text_take(const char *path, char **text, uint64_t *length)
{
    struct stat facts;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    weft_status status = WEFT_OK;
    if (descriptor < 0)
        return weft_fail(WEFT_E_FILE, "cannot be opened: %s", weft_model_unopened(path));
    if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
        status = weft_fail(WEFT_E_FILE, "not a regular file");
    else if ((uint64_t)facts.st_size > FILE_MAX)
        status = weft_fail(WEFT_E_FILE, "%llu bytes: a share file has at most %llu", (ull)facts.st_size, (ull)FILE_MAX);
    if (status == WEFT_OK) {
        *length = (uint64_t)facts.st_size;
        *text = weft_mem_take(*length + 1, 1);
        status = *text ? weft_file_read(descriptor, *text, *length, 0)
                       : weft_fail(WEFT_E_MEMORY, "no memory for %llu bytes of a share file", (ull)*length);
    }
    close(descriptor);
    return status;
}

weft_status weft_share_file_open(const char *path, weft_share_file *file)
{
    char *text = NULL;
    uint64_t length = 0;
    *file = (weft_share_file){0};
    weft_status status = text_take(path, &text, &length);
    if (status == WEFT_OK)
        status = weft_share_file_read(text, length, file);
    weft_mem_give(text);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    return status;
}

void weft_share_file_close(weft_share_file *file)
{
    weft_mem_give(file->rules);
    weft_mem_give(file->ranges);
    json_decref(file->document);
    *file = (weft_share_file){0};
}

/* ---- written */

static json_t *range_json(weft_range range)
{
    return json_pack("[I, I]", (json_int_t)range.first, (json_int_t)range.count);
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
    json_object_set_new(object, key, json_integer((json_int_t)number));
}

static void box_write(json_t *made, const weft_share_rule *rule)
{
    if (rule->kind == WEFT_SHARE_PART || rule->kind == WEFT_SHARE_RANGES)
        set_number(made, "dimension", rule->dimension);
    if (rule->kind == WEFT_SHARE_PART) {
        set_number(made, "part", rule->part);
        set_number(made, "parts", rule->parts);
    }
    if (rule->kind == WEFT_SHARE_PART && rule->pad > 0)
        set_number(made, "pad", rule->pad);
    if (rule->kind == WEFT_SHARE_ELEMENTS)
        json_object_set_new(made, "elements", range_json(rule->ranges[0]));
    if (rule->kind != WEFT_SHARE_RANGES)
        return;
    json_t *ranges = json_array();
    for (uint64_t i = 0; i < rule->range_count; i++)
        json_array_append_new(ranges, range_json(rule->ranges[i]));
    json_object_set_new(made, "ranges", ranges);
}

static json_t *rule_write(const weft_share_rule *rule)
{
    json_t *made = json_pack("{s:s}", "tensors", rule->patterns);
    box_write(made, rule);
    if (rule->by_layer)
        json_object_set_new(made, "layers", range_json(rule->layers));
    if (rule->groups > 0)
        json_object_set_new(made, "experts", range_json((weft_range){rule->group, rule->groups}));
    if (rule->replica)
        json_object_set_new(made, "contributes", json_false());
    return made;
}

static json_t *document_write(const weft_share_rule *rules, uint64_t count)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < count; i++)
        json_array_append_new(list, rule_write(&rules[i]));
    return json_pack("{s:s, s:o}", "form", FORM, "rules", list);
}

/* Puts text into a file, with a line break at its end. */
static weft_status text_save(const char *text, const char *path)
{
    weft_file file;
    weft_status status = weft_file_begin(&file, path);
    if (status != WEFT_OK)
        return status;
    status = weft_file_put(&file, text, strlen(text));
    if (status == WEFT_OK)
        status = weft_file_put(&file, "\n", 1);
    if (status == WEFT_OK)
        status = weft_file_finish(&file);
    weft_file_drop(&file);
    return status;
}

weft_status weft_share_file_save(const weft_share_rule *rules, uint64_t count, const char *path)
{
    json_t *document = document_write(rules, count);
    char *text = document ? json_dumps(document, JSON_INDENT(2)) : NULL;
    weft_status status = text ? text_save(text, path)
                              : weft_fail(WEFT_E_LAYOUT, "the patterns of a share are no UTF-8, or memory is out");
    free(text);
    json_decref(document);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    return status;
}
