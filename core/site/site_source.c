/* site_source.c - sections and values as read: growing, finding, copying. */
#include "site/site_source.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

static weft_status no_memory(void)
{
    return weft_fail(WEFT_E_MEMORY, "no memory for the site");
}

/* Doubles an array when it is full. */
static weft_status make_room(void **array, uint64_t count, uint64_t *room, uint64_t bytes)
{
    if (count < *room)
        return WEFT_OK;
    void *grown = weft_mem_grow(*array, *room, *room * 2 + 16, bytes);
    if (!grown)
        return no_memory();
    *array = grown;
    *room = *room * 2 + 16;
    return WEFT_OK;
}

weft_status weft_site_section_add(weft_site_source *source, const weft_site_section *section, uint32_t *index)
{
    void *array = source->sections;
    weft_status status = make_room(&array, source->section_count, &source->section_room, sizeof(*section));
    if (status)
        return status;
    source->sections = array;
    *index = (uint32_t)source->section_count++;
    source->sections[*index] = *section;
    return WEFT_OK;
}

weft_status weft_site_entry_add(weft_site_source *source, const weft_site_entry *entry)
{
    void *array = source->entries;
    weft_status status = make_room(&array, source->entry_count, &source->entry_room, sizeof(*entry));
    if (status)
        return status;
    source->entries = array;
    source->entries[source->entry_count++] = *entry;
    source->sections[entry->section].given[weft_site_field_index(entry->field)] = (uint32_t)source->entry_count;
    return WEFT_OK;
}

uint32_t weft_site_section_find(const weft_site_source *source, const char *header)
{
    for (uint32_t i = 0; i < source->section_count; i++) {
        if (!strcmp(source->sections[i].header, header))
            return i;
    }
    return WEFT_SITE_NOWHERE;
}

uint32_t weft_site_peer_find(const weft_site_source *source, const char *name)
{
    for (uint32_t i = 0; i < source->section_count; i++) {
        const weft_site_section *section = &source->sections[i];
        if (section->kind == WEFT_SECTION_PEER && !strcmp(section->name, name))
            return i;
    }
    return WEFT_SITE_NOWHERE;
}

uint32_t weft_site_pattern_find(const weft_site_source *source, const char *name)
{
    uint32_t found = WEFT_SITE_NOWHERE;
    size_t longest = 0;
    for (uint32_t i = 0; i < source->section_count; i++) {
        const weft_site_section *section = &source->sections[i];
        size_t bytes = strlen(section->name);
        if (section->kind != WEFT_SECTION_PATTERN || strncmp(section->name, name, bytes))
            continue;
        if (found == WEFT_SITE_NOWHERE || bytes > longest) {
            found = i;
            longest = bytes;
        }
    }
    return found;
}

const weft_site_entry *weft_site_entry_find(const weft_site_source *source, uint32_t section,
                                            const weft_site_field *field)
{
    if (section == WEFT_SITE_NOWHERE)
        return NULL;
    uint32_t given = source->sections[section].given[weft_site_field_index(field)];
    return given ? &source->entries[given - 1] : NULL;
}

weft_status weft_site_source_copy(const weft_site_source *source, weft_site_source *copy)
{
    *copy = (weft_site_source){.section_count = source->section_count,
                               .section_room = source->section_count,
                               .entry_count = source->entry_count,
                               .entry_room = source->entry_count};
    if (source->section_count) {
        copy->sections = weft_mem_take(source->section_count, sizeof(*copy->sections));
        if (!copy->sections)
            return no_memory();
        memcpy(copy->sections, source->sections, source->section_count * sizeof(*copy->sections));
    }
    if (source->entry_count) {
        copy->entries = weft_mem_take(source->entry_count, sizeof(*copy->entries));
        if (!copy->entries)
            return no_memory();
        memcpy(copy->entries, source->entries, source->entry_count * sizeof(*copy->entries));
    }
    return WEFT_OK;
}

void weft_site_source_clear(weft_site_source *source)
{
    weft_mem_give(source->entries);
    weft_mem_give(source->sections);
    *source = (weft_site_source){0};
}
