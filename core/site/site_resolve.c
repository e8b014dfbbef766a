/* site_resolve.c - precedence and admission. */
#include "site/site_resolve.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "site/site_text.h"

bool weft_site_layers_of(const weft_site_source *source, const char *name, weft_site_layers *layers)
{
    *layers = (weft_site_layers){{weft_site_peer_find(source, name), weft_site_pattern_find(source, name),
                                  weft_site_section_find(source, "peers")}};
    return layers->section[0] != WEFT_SITE_NOWHERE || layers->section[1] != WEFT_SITE_NOWHERE;
}

weft_site_layers weft_site_layers_at(const weft_site_source *source, uint32_t section)
{
    weft_site_layers layers = {{WEFT_SITE_NOWHERE, section, weft_site_section_find(source, "peers")}};
    if (source->sections[section].kind == WEFT_SECTION_PEER)
        weft_site_layers_of(source, source->sections[section].name, &layers);
    return layers;
}

const weft_site_entry *weft_site_layers_find(const weft_site_source *source, const weft_site_layers *layers,
                                             const weft_site_field *field)
{
    const weft_site_entry *entry = NULL;
    for (int i = 0; i < 3 && !entry; i++)
        entry = weft_site_entry_find(source, layers->section[i], field);
    return entry;
}

void weft_site_fill(const weft_site_source *source, const weft_site_layers *layers, const char *table, void *to)
{
    weft_site_value fallback;
    for (uint64_t i = 0; weft_site_field_at(i); i++) {
        const weft_site_field *field = weft_site_field_at(i);
        if (strcmp(field->key.section, table))
            continue;
        const weft_site_entry *entry = weft_site_layers_find(source, layers, field);
        if (!entry)
            weft_site_value_parse(field, field->key.fallback, &fallback);
        weft_site_value_put(field, entry ? &entry->value : &fallback, to);
    }
}

/* "a, b, gpu-* and 7 more" */
static void print_admitted(const weft_site_source *source, char *text, size_t capacity)
{
    size_t at = 0;
    uint64_t left = 0;
    snprintf(text, capacity, "nobody");
    for (uint64_t i = 0; i < source->section_count; i++) {
        const weft_site_section *section = &source->sections[i];
        if (section->kind != WEFT_SECTION_PEER && section->kind != WEFT_SECTION_PATTERN)
            continue;
        if (left || at + sizeof(section->name) + 40 > capacity)
            left++;
        else
            at += (size_t)snprintf(text + at, capacity - at, "%s%s%s", at ? ", " : "", section->name,
                                   section->kind == WEFT_SECTION_PATTERN ? "*" : "");
    }
    if (left)
        snprintf(text + at, capacity - at, " and %llu more", (unsigned long long)left);
}

static weft_status refuse_name(const weft_site *site, const char *name)
{
    char admitted[512];
    print_admitted(site->source, admitted, sizeof(admitted));
    weft_status status = weft_fail(WEFT_E_CONFIG, "%s admits no peer '%s'; it admits %s; add [peer.%s] for it",
                                   site->path, name, admitted, name);
    weft_fail_outside("the site file of this end admits no peer '%s'; add [peer.%s] for it there", name, name);
    return status;
}

weft_status weft_site_resolve(const weft_site *site, const char *name, weft_site_peer *peer)
{
    weft_site_layers layers;
    if (!weft_site_is_name(name)) {
        weft_fail(WEFT_E_CONFIG, "%s: a peer's name is 1 to 63 of a-z 0-9 _ -; the one given is not", site->path);
        weft_fail_outside("a peer's name is 1 to 63 of a-z 0-9 _ -; the one given is not");
        return WEFT_E_CONFIG;
    }
    if (!weft_site_layers_of(site->source, name, &layers))
        return refuse_name(site, name);
    *peer = (weft_site_peer){0};
    memcpy(peer->name, name, strlen(name));
    snprintf(peer->listen, sizeof peer->listen, "%s", weft_site_source_listen(site, 0));
    weft_site_fill(site->source, &layers, "peer", peer);
    return WEFT_OK;
}

uint32_t weft_site_via(const weft_site_peer *peer, char names[WEFT_SITE_VIAS][WEFT_SITE_NAME])
{
    const char *at = peer->via, *name;
    size_t bytes;
    uint32_t count = 0;
    if (!strcmp(peer->via, "trainer"))
        return 0;
    while (count < WEFT_SITE_VIAS && (name = weft_site_via_next(&at, &bytes)) && bytes > 0 && bytes < WEFT_SITE_NAME) {
        memset(names[count], 0, WEFT_SITE_NAME);
        memcpy(names[count++], name, bytes);
    }
    return count;
}

static bool is_row(const weft_site_section *section)
{
    return section->kind == WEFT_SECTION_PEER || section->kind == WEFT_SECTION_PATTERN;
}

bool weft_site_row(const weft_site *site, size_t index, weft_site_peer *row, bool *pattern)
{
    const weft_site_source *source = site->source;
    for (uint32_t i = 0; i < source->section_count; i++) {
        const weft_site_section *section = &source->sections[i];
        if (!is_row(section) || index-- > 0)
            continue;
        const weft_site_layers layers = weft_site_layers_at(source, i);
        *row = (weft_site_peer){0};
        *pattern = section->kind == WEFT_SECTION_PATTERN;
        memcpy(row->name, section->name, sizeof row->name);
        snprintf(row->listen, sizeof row->listen, "%s", weft_site_source_listen(site, 0));
        weft_site_fill(source, &layers, "peer", row);
        return true;
    }
    return false;
}
