/* site_section.c - what one header and one key mean, and the words for those that mean nothing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "port/port_names.h"
#include "site/site_source.h"
#include "site/site_text.h"

static const char *const fixed[] = {"site", "trainer", "peers", "session", "commit", "security", "log"};
#define FIXED_COUNT (sizeof(fixed) / sizeof(fixed[0]))

static void print_place(const weft_site_place *place, char *text, size_t capacity)
{
    const char *key = place->key ? place->key : "", *value = place->value ? place->value : "";
    if (place->line && place->value)
        snprintf(text, capacity, "%s:%u: [%.80s] %.64s = %.80s", place->path, place->line, place->header, key, value);
    else if (place->line)
        snprintf(text, capacity, "%s:%u: [%.80s] %.64s", place->path, place->line, place->header, key);
    else
        snprintf(text, capacity, "override %.80s%s%.64s%s%.80s", place->header, place->key ? "." : "", key,
                 place->value ? "=" : "", value);
    size_t length = strlen(text);
    if (length && text[length - 1] == ' ')
        text[length - 1] = 0;
}

weft_status weft_site_refuse(const weft_site_place *place, const char *format, ...)
{
    char where[512], why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    print_place(place, where, sizeof(where));
    return weft_fail(WEFT_E_CONFIG, "%s: %s", where, why);
}

static weft_status refuse_unknown(const weft_site_place *place)
{
    const char *near = NULL;
    uint32_t best = 3;
    for (size_t i = 0; i < FIXED_COUNT; i++) {
        uint32_t distance = weft_site_distance(fixed[i], place->header);
        if (distance < best) {
            best = distance;
            near = fixed[i];
        }
    }
    if (near)
        return weft_site_refuse(place, "no such section; did you mean [%s]?", near);
    return weft_site_refuse(place, "no such section; need site, trainer, source.R, peers, peer.NAME, provider.NAME, "
                                   "cut.NAME, session, commit, security or log");
}

static weft_status read_peer(const weft_site_place *place, const char *name, weft_site_section *section)
{
    const char *star = strchr(name, '*');
    size_t bytes = star ? (size_t)(star - name) : strlen(name);
    if (star && star[1])
        return weft_site_refuse(place, "a pattern has one * and ends in it, such as [peer.gpu-*]");
    if (!(star && bytes == 0) && !weft_site_is_name_of(name, bytes))
        return weft_site_refuse(place, "a peer's name is 1 to 63 of a-z 0-9 _ -%s", star ? ", then *" : "");
    section->kind = star ? WEFT_SECTION_PATTERN : WEFT_SECTION_PEER;
    section->table = "peer";
    memcpy(section->name, name, bytes);
    return WEFT_OK;
}

static weft_status read_provider(const weft_site_place *place, const char *name, weft_site_section *section)
{
    for (uint64_t i = 0; weft_site_provider_at(i); i++) {
        if (!strcmp(weft_site_provider_at(i), name)) {
            section->kind = WEFT_SECTION_PROVIDER;
            section->table = "provider";
            memcpy(section->name, name, strlen(name));
            return WEFT_OK;
        }
    }
    return weft_site_refuse(place, "no such provider; need%s", &WEFT_OR_PROVIDERS[2]);
}

static weft_status read_cut(const weft_site_place *place, const char *name, weft_site_section *section)
{
    if (!weft_site_is_name(name))
        return weft_site_refuse(place, "a cut's name is 1 to 63 of a-z 0-9 _ -");
    section->kind = WEFT_SECTION_CUT;
    section->table = "cut";
    memcpy(section->name, name, strlen(name));
    return WEFT_OK;
}

static weft_status read_source(const weft_site_place *place, const char *name, weft_site_section *section)
{
    const size_t digits = strspn(name, "0123456789");
    if (digits == 0 || digits > 2 || name[digits] || (digits > 1 && name[0] == '0'))
        return weft_site_refuse(place, "a source's name is its number, from 0 to 63, such as [source.0]");
    section->kind = WEFT_SECTION_SOURCE;
    section->table = "source";
    memcpy(section->name, name, digits);
    return WEFT_OK;
}

static weft_status read_fixed(const weft_site_place *place, weft_site_section *section)
{
    for (size_t i = 0; i < FIXED_COUNT; i++) {
        if (!strcmp(fixed[i], place->header)) {
            section->kind = WEFT_SECTION_FIXED;
            section->table = strcmp(fixed[i], "peers") ? fixed[i] : "peer";
            return WEFT_OK;
        }
    }
    if (!strcmp(place->header, "peer"))
        return weft_site_refuse(place, "need [peer.NAME] for one peer or [peers] for all");
    if (!strcmp(place->header, "provider"))
        return weft_site_refuse(place, "need [provider.NAME], such as [provider.tcp]");
    if (!strcmp(place->header, "cut"))
        return weft_site_refuse(place, "need [cut.NAME], such as [cut.heads]");
    if (!strcmp(place->header, "source"))
        return weft_site_refuse(place, "need [source.R] with a number, such as [source.0]");
    return refuse_unknown(place);
}

static bool has_capital(const char *text)
{
    for (; *text; text++) {
        if (*text >= 'A' && *text <= 'Z')
            return true;
    }
    return false;
}

weft_status weft_site_section_read(const weft_site_place *place, weft_site_section *section)
{
    weft_status status;
    if (has_capital(place->header))
        return weft_site_refuse(place, "sections and names are written in lower case");
    *section = (weft_site_section){.line = place->line};
    if (!strncmp(place->header, "peer.", 5))
        status = read_peer(place, place->header + 5, section);
    else if (!strncmp(place->header, "provider.", 9))
        status = read_provider(place, place->header + 9, section);
    else if (!strncmp(place->header, "cut.", 4))
        status = read_cut(place, place->header + 4, section);
    else if (!strncmp(place->header, "source.", 7))
        status = read_source(place, place->header + 7, section);
    else
        status = read_fixed(place, section);
    if (!status)
        snprintf(section->header, sizeof(section->header), "%s", place->header);
    return status;
}

/* A key that stands in the wrong section is named with the right one. */
static const char *home_of(const char *key)
{
    for (uint64_t i = 0; weft_site_field_at(i); i++) {
        const weft_key *known = &weft_site_field_at(i)->key;
        if (!strcmp(known->key, key))
            return !strcmp(known->section, "peer")       ? "peers] or [peer.NAME"
                   : !strcmp(known->section, "provider") ? "provider.NAME"
                   : !strcmp(known->section, "cut")      ? "cut.NAME"
                   : !strcmp(known->section, "source")   ? "source.R"
                                                         : known->section;
    }
    return NULL;
}

static weft_status refuse_key(const weft_site_place *place, const char *table)
{
    const char *near = weft_site_field_near(table, place->key), *home = home_of(place->key);
    const char *now = weft_site_removed(table, place->key);
    if (now)
        return weft_site_refuse(place, "%s", now);
    if (home)
        return weft_site_refuse(place, "this key belongs to [%s]", home);
    if (near)
        return weft_site_refuse(place, "no such key; did you mean %s?", near);
    char known[256] = "";
    for (uint64_t i = 0, at = 0; weft_site_field_at(i) && at < sizeof(known); i++) {
        const weft_key *row = &weft_site_field_at(i)->key;
        if (!strcmp(row->section, table))
            at += (uint64_t)snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", row->key);
    }
    return weft_site_refuse(place, "no such key; need one of %s", known);
}

weft_status weft_site_key_read(const weft_site_place *place, const char *table, const weft_site_field **field)
{
    weft_site_place key = *place;
    key.value = NULL;
    *field = weft_site_field_of(table, place->key);
    return *field ? WEFT_OK : refuse_key(&key, table);
}

weft_status weft_site_value_read(const weft_site_place *place, const weft_site_field *field, weft_site_value *value)
{
    char need[256];
    if (weft_site_value_parse(field, place->value, value))
        return WEFT_OK;
    weft_site_value_need(field, need, sizeof(need));
    return weft_site_refuse(place, "%s", need);
}
