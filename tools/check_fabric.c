#include "check_fabric.h"

#include <stdio.h>
#include <string.h>

#include "fabric.h"

/* Weights on the host have no device; else the number that the site names, the first where it names none. */
static int64_t device_of(const weft_site_peer *peer)
{
    if (strcmp(peer->backend, "host") == 0)
        return -1;
    return peer->device < 0 ? 0 : peer->device;
}

/* Whether the same was asked before: then the peer is named there. */
static bool is_asked(json_t *fabrics, const weft_site_peer *peer, const char *address, const char *provider,
                     const char *name)
{
    size_t index;
    json_t *fabric;
    json_array_foreach(fabrics, index, fabric)
    {
        if (strcmp(json_string_value(json_object_get(fabric, "provider")), provider) != 0 ||
            strcmp(json_string_value(json_object_get(fabric, "address")), address) != 0 ||
            json_integer_value(json_object_get(fabric, "number")) != device_of(peer))
            continue;
        json_array_append_new(json_object_get(fabric, "peers"), json_string(name));
        return true;
    }
    return false;
}

static void ask_rail(json_t *fabrics, const weft_site_peer *peer, const char *address, const char *provider,
                     const char *name)
{
    if (is_asked(fabrics, peer, address, provider, name))
        return;
    json_t *fabric =
        weft_fabric_json(provider, address, device_of(peer), peer->window * peer->bucket_max * peer->streams);
    if (json_is_null(fabric)) {
        json_decref(fabric);
        return;
    }
    json_object_set_new(fabric, "asked", json_string(peer->provider));
    json_object_set_new(fabric, "number", json_integer(device_of(peer)));
    json_object_set_new(fabric, "peers", json_pack("[s]", name));
    json_array_append_new(fabrics, fabric);
}

static void ask(json_t *fabrics, const weft_site_peer *peer, const char *provider, const char *name)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t rails = weft_site_rails(peer->address, list);
    for (uint32_t rail = 0; rail < rails; rail++)
        ask_rail(fabrics, peer, list[rail], provider, name);
}

/* `auto` asks for each that it may choose. */
static void ask_for(json_t *fabrics, const weft_site_peer *peer, const char *name)
{
    const char *provider;
    if (strcmp(peer->provider, "auto") != 0)
        ask(fabrics, peer, peer->provider, name);
    else
        for (size_t i = 0; (provider = weft_fabric_auto(i)); i++)
            ask(fabrics, peer, provider, name);
}

json_t *weft_check_fabrics(const weft_site *site)
{
    json_t *fabrics = json_array();
    weft_site_peer peer;
    const char *name;
    for (size_t i = 0; weft_site_peer_name(site, i, &name) == WEFT_OK; i++)
        if (weft_site_resolve(site, name, &peer) == WEFT_OK)
            ask_for(fabrics, &peer, name);
    for (size_t i = 0; (name = weft_site_pattern(site, i)); i++) {
        char text[WEFT_SITE_NAME + 2];
        snprintf(text, sizeof text, "%sx", name);
        if (weft_site_resolve(site, text, &peer) != WEFT_OK)
            continue;
        snprintf(text, sizeof text, "%s*", name);
        ask_for(fabrics, &peer, text);
    }
    return fabrics;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_fabric(const json_t *fabric)
{
    size_t index;
    json_t *name;
    bool missing = strcmp(text_of(fabric, "missing"), "nothing") != 0;
    printf("  provider %s%s%s%s for", text_of(fabric, "provider"),
           strcmp(text_of(fabric, "asked"), "auto") == 0 ? " (auto)" : "", *text_of(fabric, "address") ? " on " : "",
           text_of(fabric, "address"));
    json_array_foreach(json_object_get(fabric, "peers"), index, name)
        printf("%s %s", index ? "," : "", json_string_value(name));
    printf(": %s%s\n", missing ? "MISSING, " : "", text_of(fabric, "text"));
    if (!missing)
        printf("    %s\n", text_of(fabric, "memory"));
    else if (strcmp(text_of(fabric, "missing"), "address") == 0)
        printf("    (if the address is another host's: run this there)\n");
    weft_fabric_print(fabric, 4);
}

void weft_check_fabrics_print(const json_t *fabrics)
{
    size_t index;
    json_t *fabric;
    if (json_array_size(fabrics))
        printf("on this host:\n");
    json_array_foreach((json_t *)fabrics, index, fabric) print_fabric(fabric);
}
