/* check.c - weft check: a site file, resolved. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "model/safetensors.h"
#include "security/library.h"
#include "site/site.h"
#include "tools/check/check.h"
#include "tools/output.h"
#include "tools/verbs.h"

enum { VALUE_ROOM = 512 };

/* Bytes that the trainer is taken to register where its journal follows from a model that is not given. */
#define JOURNAL_UNKNOWN (UINT64_C(256) << 20)

static bool section_is(const weft_key *key, const char *section)
{
    return strcmp(key->section, section) == 0;
}

/* Keys of [peer.*], [provider.*], [cut.*] and [source.*] have no one value. */
static bool key_is_plain(const weft_key *key)
{
    return !section_is(key, "peer") && !section_is(key, "provider") && !section_is(key, "cut") &&
           !section_is(key, "source");
}

static weft_status key_value(const weft_site *site, const char *peer, const weft_key *key, char *value)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", key->section, key->key);
    return weft_site_get(site, peer, name, value, VALUE_ROOM);
}

static json_t *peer_json(const weft_site *site, const char *peer)
{
    json_t *object = json_pack("{s:s}", "name", peer);
    const weft_key *key;
    for (size_t i = 0; (key = weft_key_at(i)); i++) {
        char value[VALUE_ROOM];
        if (section_is(key, "peer") && key_value(site, peer, key, value) == WEFT_OK)
            json_object_set_new(object, key->key, weft_json_text(value));
    }
    return object;
}

static json_t *patterns_json(const weft_site *site)
{
    json_t *patterns = json_array();
    weft_site_peer row;
    bool pattern;
    for (size_t i = 0; weft_site_row(site, i, &row, &pattern); i++) {
        char name[WEFT_SITE_NAME + 2];
        snprintf(name, sizeof name, "%s*", row.name);
        if (pattern)
            json_array_append_new(patterns, peer_json(site, name));
    }
    return patterns;
}

/* `layout`: of the model at `model_path`; NULL: none is given. `cells`: what the cuts make of it. `shares`: of share
 * files, or NULL. `sources`: of the site's holdings, or NULL. */
static json_t *site_json(const weft_site *site, const char *path, const weft_layout *layout, const char *model_path,
                         json_t *cells, json_t *shares, json_t *sources)
{
    uint64_t journal = site->trainer.journal ? site->trainer.journal : JOURNAL_UNKNOWN;
    json_t *object = json_pack("{s:o}", "path", weft_json_text(path)), *peers = json_array();
    const weft_key *key;
    for (size_t i = 0; (key = weft_key_at(i)); i++) {
        char value[VALUE_ROOM];
        if (!key_is_plain(key) || key_value(site, NULL, key, value) != WEFT_OK)
            continue;
        json_t *section = json_object_get(object, key->section);
        if (!section)
            json_object_set_new(object, key->section, section = json_object());
        json_object_set_new(section, key->key, weft_json_text(value));
    }
    const char *name;
    for (size_t i = 0; weft_site_peer_name(site, i, &name) == WEFT_OK; i++)
        json_array_append_new(peers, peer_json(site, name));
    json_object_set_new(object, "peers", peers);
    json_object_set_new(object, "patterns", patterns_json(site));
    json_object_set_new(object, "cuts", weft_check_cuts(site));
    if (cells)
        json_object_set_new(object, "cells", cells);
    if (shares)
        json_object_set_new(object, "shares", shares);
    if (sources)
        json_object_set_new(object, "sources", sources);
    if (layout)
        json_object_set_new(object, "memory", weft_check_sizes(site, model_path, layout, &journal));
    json_object_set_new(object, "fabrics", weft_check_fabrics(site, journal));
    json_object_set_new(object, "backends", weft_check_backends(site));
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : "-";
}

static void print_peer(const json_t *peer)
{
    char bucket[VALUE_ROOM];
    bool automatic = strcmp(text_of(peer, "bucket"), "auto") == 0;
    snprintf(bucket, sizeof bucket, automatic ? "auto %s..%s" : "%s",
             text_of(peer, automatic ? "bucket_min" : "bucket"), text_of(peer, "bucket_max"));
    printf("  %-16s provider %-8s backend %-5s bucket %-20s window %-4s level %-6s rate %-10s address %s\n",
           text_of(peer, "name"), text_of(peer, "provider"), text_of(peer, "backend"), bucket, text_of(peer, "window"),
           text_of(peer, "level"), text_of(peer, "rate_limit"), text_of(peer, "address"));
}

/* Peers that join through `above`, and so on down: a site that loads has no rings. */
static void print_behind(const json_t *peers, bool several, const char *above, int depth)
{
    size_t index;
    const json_t *peer;
    json_array_foreach((json_t *)peers, index, peer)
    {
        const char *via = text_of(peer, "via"), *relay = text_of(peer, "relay"), *else_via = strchr(via, ',');
        size_t first = strcspn(via, ",");
        while (first > 0 && via[first - 1] == ' ')
            first--;
        if (strlen(above) != first || strncmp(via, above, first) != 0)
            continue;
        printf("  %*s%s", 2 * depth, "", text_of(peer, "name"));
        if (strcmp(relay, "-") != 0)
            printf(", a relay on %s%s with %s", relay, several ? " and the next ports, one for each source," : "",
                   text_of(peer, "relay_memory"));
        if (strcmp(via, "trainer") != 0)
            printf(" (else%s%s%s)", else_via ? else_via + 1 : "", else_via && depth ? " or " : " ",
                   strcmp(text_of(peer, "last_resort"), "none") == 0 ? "nobody"
                   : several                                         ? "the sources"
                                                                     : "the trainer");
        putchar('\n');
        print_behind(peers, several, text_of(peer, "name"), depth + 1);
    }
}

/* `several`: the site has sections for sources, and no model is needed to say so. */
static void print_tree(const json_t *site, bool several)
{
    size_t index;
    const json_t *peer, *peers = json_object_get(site, "peers");
    bool relayed = false;
    json_array_foreach((json_t *)peers, index, peer) relayed = relayed || strcmp(text_of(peer, "via"), "trainer") != 0;
    if (!relayed)
        return;
    printf("tree: %s\n", several ? "sources" : "trainer");
    print_behind(peers, several, "trainer", 1);
}

/* Prints what the mode leaves open, and what this host lacks for the mode. */
static void print_security(const json_t *site)
{
    if (strcmp(text_of(json_object_get(site, "security"), "mode"), "tls") != 0)
        return;
    size_t index, plain = 0;
    const json_t *peer, *peers = json_object_get(site, "peers");
    json_array_foreach((json_t *)peers, index, peer) plain += strcmp(text_of(peer, "provider"), "stream") != 0;
    printf("security: names are proved; %s (docs/SECURITY.md)\n",
           plain == 0 ? "messages and weights are secret"
                      : "weights go in plain, but for those of peers with provider = stream");
    if (*weft_library_absence())
        printf("security: no tls on this host: %s\n", weft_library_absence());
}

static void print_lines(const json_t *site, bool several)
{
    const char *section, *key;
    json_t *object, *value;
    printf("%s is valid\n", weft_output_plain(text_of(site, "path")).text);
    json_object_foreach((json_t *)site, section, object)
    {
        if (!json_is_object(object) || strcmp(section, "memory") == 0 || strcmp(section, "cells") == 0)
            continue;
        printf("[%s]", section);
        json_object_foreach(object, key, value) printf(" %s=%s", key, json_string_value(value));
        putchar('\n');
    }
    json_t *peers = json_object_get(site, "peers"), *peer;
    size_t index;
    printf("peers: %zu\n", json_array_size(peers));
    json_array_foreach(peers, index, peer) print_peer(peer);
    print_tree(site, several);
    print_security(site);
    json_t *patterns = json_object_get(site, "patterns");
    if (json_array_size(patterns))
        printf("patterns: any number of peers of these names, up to max_peers\n");
    json_array_foreach(patterns, index, peer) print_peer(peer);
    weft_check_cuts_print(json_object_get(site, "cuts"), json_object_get(site, "cells"));
    weft_check_shares_print(json_object_get(site, "shares"));
    weft_check_sources_print(json_object_get(site, "sources"));
    if (json_object_get(site, "memory"))
        weft_check_sizes_print(json_object_get(site, "memory"));
    json_t *fabrics = json_object_get(site, "fabrics"), *backends = json_object_get(site, "backends");
    if (json_array_size(fabrics) + json_array_size(backends) > 0)
        printf("on this host:\n");
    weft_check_backends_print(backends);
    weft_check_fabrics_print(fabrics);
}

int weft_verb_check(const weft_args *args)
{
    weft_site *site = NULL;
    weft_model *model = NULL;
    weft_status status = weft_site_load(args->site, args->overrides.items, args->overrides.count, &site);
    json_t *cells = NULL, *shares = NULL, *sources = NULL;
    if (status == WEFT_OK && args->shares.count && !args->model)
        status = weft_fail_quiet(WEFT_E_ARGUMENT, "--share needs the model that it is of: --model FILE");
    if (status == WEFT_OK && args->model)
        status = weft_model_open(args->model, 0, &model);
    if (status == WEFT_OK && model)
        status = weft_check_cells(site, weft_model_layout(model), &cells);
    if (status == WEFT_OK && args->shares.count)
        status = weft_check_shares(site, weft_model_layout(model), args->shares.items, args->shares.count, &shares);
    if (status == WEFT_OK && model)
        status = weft_check_sources(site, weft_model_layout(model), &sources);
    if (status != WEFT_OK) {
        json_decref(cells);
        json_decref(shares);
        json_decref(sources);
        weft_model_close(model);
        weft_site_free(site);
        return weft_output_error(args->json, WEFT_TOOL_INPUT, status);
    }
    json_t *object =
        site_json(site, args->site, model ? weft_model_layout(model) : NULL, args->model, cells, shares, sources);
    const bool several = site->source_count > 0;
    weft_model_close(model);
    weft_site_free(site);
    if (args->json) {
        weft_output_object(object);
        return WEFT_EXIT_DONE;
    }
    print_lines(object, several);
    json_decref(object);
    return WEFT_EXIT_DONE;
}
