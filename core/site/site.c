/* site.c - INI to one const struct: loading, asking, copying, giving back. */
#include "site/site.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "site/site_resolve.h"
#include "site/site_text.h"

static weft_status no_memory(void)
{
    return weft_fail(WEFT_E_MEMORY, "no memory for the site");
}

/* The key table's sections whose fields lie in weft_site itself. */
static void fill_fixed(weft_site *site)
{
    static const char *const tables[] = {"site", "trainer", "session", "commit", "security", "log"};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        weft_site_layers layers = {
            {weft_site_section_find(site->source, tables[i]), WEFT_SITE_NOWHERE, WEFT_SITE_NOWHERE}};
        weft_site_fill(site->source, &layers, tables[i], site);
    }
}

static weft_status fill_providers(weft_site *site)
{
    while (weft_site_provider_at(site->provider_count))
        site->provider_count++;
    site->providers = weft_mem_take(site->provider_count, sizeof(*site->providers));
    if (!site->providers)
        return no_memory();
    for (uint64_t i = 0; i < site->provider_count; i++) {
        char header[16 + WEFT_SITE_NAME];
        snprintf(header, sizeof(header), "provider.%s", weft_site_provider_at(i));
        weft_site_layers layers = {
            {weft_site_section_find(site->source, header), WEFT_SITE_NOWHERE, WEFT_SITE_NOWHERE}};
        snprintf(site->providers[i].name, sizeof(site->providers[i].name), "%s", weft_site_provider_at(i));
        weft_site_fill(site->source, &layers, "provider", &site->providers[i]);
    }
    return WEFT_OK;
}

/* A section that only an override made is a name that a pattern admits, not a listed peer. */
static bool is_listed(const weft_site_section *section)
{
    return section->kind == WEFT_SECTION_PEER && section->line;
}

static weft_status fill_peers(weft_site *site)
{
    const weft_site_source *source = site->source;
    uint64_t count = 0;
    for (uint64_t i = 0; i < source->section_count; i++)
        count += is_listed(&source->sections[i]);
    site->peers = weft_mem_take(count, sizeof(*site->peers));
    if (!site->peers)
        return no_memory();
    for (uint64_t i = 0; i < source->section_count; i++) {
        if (!is_listed(&source->sections[i]))
            continue;
        weft_status status = weft_site_resolve(site, source->sections[i].name, &site->peers[site->peer_count]);
        if (status)
            return status;
        site->peer_count++;
    }
    return WEFT_OK;
}

static weft_status load(weft_site *site, const char *const *overrides, size_t override_count)
{
    weft_status status = weft_site_source_load(site->source, site->path);
    for (size_t i = 0; i < override_count && !status; i++)
        status = weft_site_source_override(site->source, site->path, overrides[i]);
    if (status)
        return status;
    fill_fixed(site);
    status = fill_providers(site);
    if (!status)
        status = weft_site_fill_sources(site);
    if (!status)
        status = weft_site_rules(site);
    if (!status)
        status = weft_site_fill_cuts(site);
    return status ? status : fill_peers(site);
}

static weft_site *site_new(void)
{
    weft_site *site = weft_mem_take(1, sizeof(*site));
    if (site)
        site->source = weft_mem_take(1, sizeof(*site->source));
    if (site && !site->source) {
        weft_mem_give(site);
        return NULL;
    }
    return site;
}

weft_status weft_site_load(const char *path, const char *const *overrides, size_t override_count, weft_site **site)
{
    if (!path || !site || (override_count && !overrides))
        return weft_fail(WEFT_E_ARGUMENT, "weft_site_load: path, site and overrides must not be NULL");
    if (strlen(path) >= WEFT_SITE_TEXT)
        return weft_fail(WEFT_E_FILE, "a site file's path has at most %d bytes: %.80s...", WEFT_SITE_TEXT - 1, path);
    weft_site *fresh = site_new();
    if (!fresh)
        return no_memory();
    memcpy(fresh->path, path, strlen(path));
    weft_status status = load(fresh, overrides, override_count);
    if (status) {
        weft_site_free(fresh);
        return status;
    }
    *site = fresh;
    return WEFT_OK;
}

void weft_site_free(weft_site *site)
{
    if (!site)
        return;
    weft_mem_give(site->peers);
    weft_mem_give(site->providers);
    weft_mem_give(site->cuts);
    weft_mem_give(site->sources);
    weft_site_source_clear(site->source);
    weft_mem_give(site->source);
    weft_mem_give(site);
}

/* Copies what the fixed part does not hold. `copy` has its own source and no arrays yet. */
static weft_status copy_arrays(const weft_site *site, weft_site *copy)
{
    weft_status status = weft_site_source_copy(site->source, copy->source);
    if (status)
        return status;
    copy->peers = weft_mem_take(site->peer_count, sizeof(*copy->peers));
    copy->providers = weft_mem_take(site->provider_count, sizeof(*copy->providers));
    copy->cuts = weft_mem_take(site->cut_count, sizeof(*copy->cuts));
    copy->sources = weft_mem_take(site->source_count, sizeof(*copy->sources));
    if (!copy->peers || !copy->providers || !copy->cuts || !copy->sources)
        return no_memory();
    memcpy(copy->sources, site->sources, site->source_count * sizeof(*copy->sources));
    memcpy(copy->cuts, site->cuts, site->cut_count * sizeof(*copy->cuts));
    memcpy(copy->peers, site->peers, site->peer_count * sizeof(*copy->peers));
    memcpy(copy->providers, site->providers, site->provider_count * sizeof(*copy->providers));
    return WEFT_OK;
}

weft_status weft_site_copy(const weft_site *site, weft_site **copy)
{
    weft_site *fresh = site_new();
    if (!fresh)
        return no_memory();
    struct weft_site_source *source = fresh->source;
    *fresh = *site;
    fresh->source = source;
    fresh->peers = NULL;
    fresh->providers = NULL;
    fresh->cuts = NULL;
    fresh->sources = NULL;
    weft_status status = copy_arrays(site, fresh);
    if (status) {
        weft_site_free(fresh);
        return status;
    }
    *copy = fresh;
    return WEFT_OK;
}

const weft_site_provider *weft_site_provider_of(const weft_site *site, const char *name)
{
    for (uint64_t i = 0; i < site->provider_count; i++) {
        if (!strcmp(site->providers[i].name, name))
            return &site->providers[i];
    }
    return NULL;
}

weft_status weft_site_peer_name(const weft_site *site, size_t index, const char **name)
{
    if (!site || !name)
        return weft_fail(WEFT_E_ARGUMENT, "weft_site_peer_name: site and name must not be NULL");
    if (index >= site->peer_count)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "%s lists %llu peers; index %zu is past the last", site->path,
                               (unsigned long long)site->peer_count, index);
    *name = site->peers[index].name;
    return WEFT_OK;
}
