/* site_get.c - one resolved value as text. */
#include <string.h>

#include "base/status.h"
#include "site/site_resolve.h"
#include "site/site_text.h"

/* Resolves a pattern by its name PREFIX*. */
static bool find_pattern(const weft_site *site, const char *name, weft_site_peer *row)
{
    const size_t bytes = strlen(name) - 1;
    bool pattern;
    for (size_t i = 0; weft_site_row(site, i, row, &pattern); i++)
        if (pattern && strlen(row->name) == bytes && memcmp(row->name, name, bytes) == 0)
            return true;
    return false;
}

static const weft_site_cut *cut_of(const weft_site *site, const char *name)
{
    for (uint64_t i = 0; i < site->cut_count; i++) {
        if (!strcmp(site->cuts[i].name, name))
            return &site->cuts[i];
    }
    return NULL;
}

static const weft_site_trainer *source_of(const weft_site *site, const char *name)
{
    for (uint64_t i = 0; i < site->source_count; i++) {
        if (!strcmp(site->sources[i].name, name))
            return &site->sources[i];
    }
    return NULL;
}

/* The struct that the row's offset is into; NULL after an error. */
static const void *fields_of(const weft_site *site, const weft_site_field *field, const char *name,
                             weft_site_peer *peer)
{
    weft_site_layers layers;
    bool of_peer = !strcmp(field->key.section, "peer"), of_provider = !strcmp(field->key.section, "provider");
    bool of_cut = !strcmp(field->key.section, "cut"), of_source = !strcmp(field->key.section, "source");
    if (!of_peer && !of_provider && !of_cut && !of_source)
        return site;
    if (!name)
        return NULL;
    if (of_provider)
        return weft_site_provider_of(site, name);
    if (of_cut)
        return cut_of(site, name);
    if (of_source)
        return source_of(site, name);
    if (*name && name[strlen(name) - 1] == '*')
        return find_pattern(site, name, peer) ? peer : NULL;
    if (!weft_site_is_name(name) || !weft_site_layers_of(site->source, name, &layers))
        return NULL;
    return weft_site_resolve(site, name, peer) ? NULL : peer;
}

/* Cuts "trainer.listen", "peer.window", "provider.tcp.chunk", "cut.heads.rows" or "source.0.listen"; `named` gets the
 * name in the middle. */
static const weft_site_field *field_of(const char *key, char named[WEFT_SITE_NAME])
{
    char section[WEFT_SITE_NAME];
    const char *first = strchr(key, '.'), *last = strrchr(key, '.');
    named[0] = 0;
    if (!first || first - key >= WEFT_SITE_NAME || last - first > WEFT_SITE_NAME)
        return NULL;
    memcpy(section, key, (size_t)(first - key));
    section[first - key] = 0;
    if ((last != first) != (!strcmp(section, "provider") || !strcmp(section, "cut") || !strcmp(section, "source")))
        return NULL;
    if (last != first) {
        memcpy(named, first + 1, (size_t)(last - first - 1));
        named[last - first - 1] = 0;
    }
    return weft_site_field_of(section, last + 1);
}

weft_status weft_site_get(const weft_site *site, const char *peer, const char *key, char *text, size_t capacity)
{
    char named[WEFT_SITE_NAME], printed[WEFT_SITE_TEXT];
    weft_site_peer resolved;
    weft_site_value value;
    if (!site || !key || !text || !capacity)
        return weft_fail(WEFT_E_ARGUMENT, "weft_site_get: need a site, a key and room for a text");
    const weft_site_field *field = field_of(key, named);
    if (!field)
        return weft_fail(WEFT_E_ARGUMENT, "weft_site_get: no key %.80s; need section.key of conf/weft.ini", key);
    const void *fields = fields_of(site, field, named[0] ? named : peer, &resolved);
    if (!fields)
        return weft_fail(WEFT_E_ARGUMENT,
                         "weft_site_get: %.80s needs the name of a peer, provider, cut or source of %s; got '%.63s'",
                         key, site->path,
                         named[0] ? named
                         : peer   ? peer
                                  : "");
    weft_site_value_take(field, fields, &value);
    weft_site_value_print(field, &value, printed, sizeof(printed));
    if (strlen(printed) >= capacity)
        return weft_fail(WEFT_E_ARGUMENT, "weft_site_get: %.80s takes %zu bytes, there is room for %zu", key,
                         strlen(printed) + 1, capacity);
    memcpy(text, printed, strlen(printed) + 1);
    return WEFT_OK;
}
