/* site_load.c - fills a source: the file first, then the overrides over it. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "site/site_file.h"
#include "site/site_source.h"
#include "site/site_text.h"

static weft_status take_header(weft_site_source *source, const weft_site_place *place, uint32_t *index)
{
    weft_site_section section;
    weft_status status = weft_site_section_read(place, &section);
    if (status)
        return status;
    *index = weft_site_section_find(source, section.header);
    if (*index != WEFT_SITE_NOWHERE)
        return weft_site_refuse(place, "this section stands twice (first on line %u); put its keys together",
                                source->sections[*index].line);
    return weft_site_section_add(source, &section, index);
}

static weft_status take_key(weft_site_source *source, const weft_site_place *place, uint32_t index)
{
    weft_site_entry entry = {.section = index, .line = place->line};
    weft_status status = weft_site_key_read(place, source->sections[index].table, &entry.field);
    if (status)
        return status;
    const weft_site_entry *first = weft_site_entry_find(source, index, entry.field);
    if (first)
        return weft_site_refuse(place, "this key is given twice (first on line %u); keep one", first->line);
    return weft_site_entry_add(source, &entry);
}

/* Every header and key, still without values: iniparser would keep the last of two and tell nobody. */
static weft_status take_lines(weft_site_source *source, const char *path, const weft_site_lines *lines)
{
    weft_status status = WEFT_OK;
    uint32_t index = 0;
    for (uint64_t i = 0; i < lines->count && !status; i++) {
        const weft_site_line *line = &lines->line[i];
        weft_site_place place = {path, line->number, line->section, line->key, NULL};
        status = line->key ? take_key(source, &place, index) : take_header(source, &place, &index);
    }
    return status;
}

static weft_status take_values(weft_site_source *source, const char *path, const weft_site_ini *ini)
{
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < source->entry_count && !status; i++) {
        weft_site_entry *entry = &source->entries[i];
        weft_site_place place = {path, entry->line, source->sections[entry->section].header, entry->field->key.key,
                                 NULL};
        place.value = weft_site_ini_value(ini, place.header, place.key);
        status = weft_site_value_read(&place, entry->field, &entry->value);
    }
    return status;
}

static weft_status read_parts(weft_site_source *source, const char *path, const char *text, uint64_t bytes,
                              const weft_site_lines *lines)
{
    weft_site_ini *ini;
    weft_status status = take_lines(source, path, lines);
    if (!status)
        status = weft_site_ini_open(path, text, bytes, &ini);
    if (status)
        return status;
    if (weft_site_ini_agrees(ini, lines))
        status = take_values(source, path, ini);
    else
        status = weft_fail(WEFT_E_CONFIG, "%s: iniparser finds other keys than stand in the file", path);
    weft_site_ini_close(ini);
    return status;
}

weft_status weft_site_source_load(weft_site_source *source, const char *path)
{
    char *text, *cut;
    uint64_t bytes;
    weft_site_lines lines;
    weft_status status = weft_site_file_read(path, &text, &bytes);
    if (status)
        return status;
    cut = weft_mem_take(bytes + 1, 1);
    if (!cut) {
        weft_mem_give(text);
        return weft_fail(WEFT_E_MEMORY, "no memory to read site file %s", path);
    }
    memcpy(cut, text, bytes);
    status = weft_site_locate(path, cut, bytes, &lines);
    if (!status) {
        status = read_parts(source, path, text, bytes, &lines);
        weft_mem_give(lines.line);
    }
    weft_mem_give(cut);
    weft_mem_give(text);
    return status;
}

/* "peer.a.bucket=1MiB" into header "peer.a", key "bucket", value "1MiB": the key follows the last dot before the =. */
static weft_status cut_override(char *text, weft_site_place *place)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return weft_fail(WEFT_E_CONFIG, "override '%.80s': need section.key=value", text);
    *equals = 0;
    char *dot = strrchr(text, '.');
    if (!dot || dot == text || !dot[1])
        return weft_fail(WEFT_E_CONFIG, "override '%.80s=%.80s': need section.key=value", text, equals + 1);
    *dot = 0;
    *place = (weft_site_place){place->path, 0, text, dot + 1, equals + 1};
    return WEFT_OK;
}

/* The section an override goes to: the file's, or one made for it. A peer or pattern is made only where a pattern
 * of the file admits the name anyway. */
static weft_status find_section(weft_site_source *source, const weft_site_place *place, uint32_t *index)
{
    weft_site_section section;
    weft_site_place head = {place->path, 0, place->header, NULL, NULL};
    weft_status status = weft_site_section_read(&head, &section);
    if (status)
        return status;
    *index = weft_site_section_find(source, section.header);
    if (*index != WEFT_SITE_NOWHERE)
        return WEFT_OK;
    bool made =
        section.kind == WEFT_SECTION_FIXED || section.kind == WEFT_SECTION_PROVIDER ||
        section.kind == WEFT_SECTION_CUT || section.kind == WEFT_SECTION_SOURCE ||
        (section.kind == WEFT_SECTION_PEER && weft_site_pattern_find(source, section.name) != WEFT_SITE_NOWHERE);
    if (!made)
        return weft_site_refuse(place, "%s has no section [%s]; add it there", place->path, place->header);
    return weft_site_section_add(source, &section, index);
}

static weft_status take_override(weft_site_source *source, weft_site_place *place, char *text)
{
    weft_site_entry entry = {0};
    weft_status status = cut_override(text, place);
    if (!status)
        status = find_section(source, place, &entry.section);
    if (!status)
        status = weft_site_key_read(place, source->sections[entry.section].table, &entry.field);
    if (!status)
        status = weft_site_value_read(place, entry.field, &entry.value);
    return status ? status : weft_site_entry_add(source, &entry);
}

weft_status weft_site_source_override(weft_site_source *source, const char *path, const char *text)
{
    if (!text || !weft_site_is_clean(text))
        return weft_fail(WEFT_E_CONFIG, "an override holds a control character or is none; need section.key=value");
    char *copy = weft_mem_text(text);
    if (!copy)
        return weft_fail(WEFT_E_MEMORY, "no memory for override %.80s", text);
    weft_site_place place = {.path = path};
    weft_status status = take_override(source, &place, copy);
    weft_mem_give(copy);
    return status;
}
