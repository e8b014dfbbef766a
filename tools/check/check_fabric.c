#include "tools/check/check.h"

#include <stdio.h>
#include <string.h>

#include "api/plan.h"
#include "providers/profile.h"
#include "site/site_keys.h"
#include "site/site_link.h"
#include "tools/check/fabric.h"

#define NAMES_MS 2000

/* One question, and who asks it. */
typedef struct question {
    const char *provider, *asked; /* asked: as the site has it, auto or the same */
    const char *address;
    int64_t device;
    uint64_t pin_bytes; /* 0: the provider locks nothing */
    const char *key;    /* that gives the address; NULL: the end's own */
    const char *end;
} question;

/* Weights on the host have no device; else the number that the site names, the first where it names none. */
static int64_t device_of(const char *backend, int64_t device)
{
    if (strcmp(backend, "host") == 0)
        return -1;
    return device < 0 ? 0 : device;
}

static bool pins(const char *provider)
{
    const weft_profile *profile = weft_profile_find(provider);
    return profile && profile->pins;
}

static bool has(const json_t *fabric, const char *key, const char *text)
{
    return strcmp(json_string_value(json_object_get(fabric, key)), text) == 0;
}

/* The same question asked before; NULL: none. */
static json_t *find_asked(json_t *fabrics, const question *q)
{
    size_t index;
    json_t *fabric;
    json_array_foreach(fabrics, index, fabric)
    {
        if (has(fabric, "provider", q->provider) && has(fabric, "asked", q->asked) &&
            has(fabric, "named", q->address) && json_integer_value(json_object_get(fabric, "number")) == q->device &&
            (uint64_t)json_integer_value(json_object_get(fabric, "pin_bytes")) == q->pin_bytes)
            return fabric;
    }
    return NULL;
}

/* Where the address is wrong, whose it is. */
static void name_key(json_t *fabric, const question *q)
{
    char text[768];
    if (!q->key || !has(fabric, "missing", "address"))
        return;
    snprintf(text, sizeof text, "%s: %s", q->key, json_string_value(json_object_get(fabric, "text")));
    json_object_set_new(fabric, "text", json_string(text));
}

static void ask(json_t *fabrics, const question *q)
{
    json_t *fabric = find_asked(fabrics, q);
    if (fabric) {
        json_array_append_new(json_object_get(fabric, "peers"), json_string(q->end));
        return;
    }
    fabric = weft_fabric_json(q->provider, q->address, q->device, q->pin_bytes);
    if (json_is_null(fabric)) {
        json_decref(fabric);
        return;
    }
    name_key(fabric, q);
    json_object_set_new(fabric, "named", json_string(q->address)); /* "near1": which one that is stands in "address" */
    json_object_set_new(fabric, "asked", json_string(q->asked));
    json_object_set_new(fabric, "number", json_integer(q->device));
    json_object_set_new(fabric, "pin_bytes", json_integer((json_int_t)q->pin_bytes));
    json_object_set_new(fabric, "peers", json_pack("[s]", q->end));
    json_array_append_new(fabrics, fabric);
}

/* ---- the peers' ends */

static void ask_peer(json_t *fabrics, const weft_site *site, const weft_site_peer *peer, const char *provider,
                     const char *name)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t rails = weft_site_rails(peer->address, list);
    question q = {.provider = provider,
                  .asked = peer->provider,
                  .device = device_of(peer->backend, peer->device),
                  .pin_bytes = pins(provider) ? weft_plan_slots(peer) * peer->streams * rails : 0,
                  .end = name};
    if (!list[0][0])
        weft_plan_address(site, peer, NAMES_MS, list[0]);
    for (uint32_t rail = 0; rail < rails; rail++) {
        q.address = list[rail];
        ask(fabrics, &q);
    }
}

/* The provider that auto takes where none of those above can be had. */
static void ask_stream(json_t *fabrics, const weft_site *site, const weft_site_peer *peer, const char *name)
{
    char why[640], text[768];
    if (strcmp(peer->provider, "auto") != 0 || !weft_plan_stream(site, peer, NAMES_MS, why, sizeof why))
        return;
    json_t *fabric = weft_fabric_json("stream", "", 0, 0);
    snprintf(text, sizeof text, "taken on this host, by the port that the rollout joins by: %s", why);
    json_object_set_new(fabric, "text", json_string(text));
    json_object_set_new(fabric, "named", json_string(""));
    json_object_set_new(fabric, "asked", json_string("auto"));
    json_object_set_new(fabric, "number", json_integer(device_of(peer->backend, peer->device)));
    json_object_set_new(fabric, "pin_bytes", json_integer(0));
    json_object_set_new(fabric, "peers", json_pack("[s]", name));
    json_array_append_new(fabrics, fabric);
}

/* ---- the trainer's end */

/* The peers' wants of their trainer. */
typedef struct wanted {
    uint32_t rails[WEFT_SITE_RAILS]; /* by the number of the provider */
    bool named[WEFT_SITE_RAILS];     /* not by auto alone */
} wanted;

static void want(wanted *all, const weft_site *site, const weft_site_peer *peer, const char *provider)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t there = weft_site_rails(peer->address, list), here = weft_site_trainer_rails(site, provider, list), at = 0;
    while (weft_site_provider_at(at) && strcmp(weft_site_provider_at(at), provider) != 0)
        at++;
    uint32_t rails = there < here ? there : here;
    all->rails[at] = rails > all->rails[at] ? rails : all->rails[at];
    all->named[at] = all->named[at] || strcmp(peer->provider, "auto") != 0;
}

static void ask_trainer(json_t *fabrics, const weft_site *site, const wanted *all, uint64_t journal)
{
    const char *provider;
    uint64_t lanes = 0;
    for (uint32_t at = 0; (provider = weft_site_provider_at(at)); at++)
        lanes += pins(provider) && all->named[at] ? all->rails[at] : 0;
    for (uint32_t at = 0; (provider = weft_site_provider_at(at)); at++) {
        char list[WEFT_SITE_RAILS][WEFT_SITE_NAME], key[WEFT_SITE_LINK_KEY];
        uint64_t mine = all->named[at] ? lanes : lanes + all->rails[at];
        question q = {.provider = provider,
                      .asked = all->named[at] ? provider : "auto",
                      .device = device_of(site->trainer.backend, site->trainer.device),
                      .pin_bytes = pins(provider) ? mine * weft_plan_trainer(site, journal) : 0,
                      .key = key,
                      .end = "trainer"};
        weft_site_trainer_rails(site, provider, list);
        weft_site_trainer_key(site, provider, key);
        for (uint32_t rail = 0; rail < all->rails[at]; rail++) {
            q.address = list[rail];
            ask(fabrics, &q);
        }
    }
}

/* ---- all */

/* `auto` asks for each that it may choose. */
static const char *provider_at(const weft_site_peer *peer, size_t index)
{
    if (strcmp(peer->provider, "auto") == 0)
        return weft_fabric_auto(index);
    return index == 0 ? peer->provider : NULL;
}

json_t *weft_check_fabrics(const weft_site *site, uint64_t journal)
{
    json_t *fabrics = json_array();
    const char *provider;
    weft_site_peer peer;
    wanted all = {.rails = {0}};
    bool pattern;
    for (size_t i = 0; weft_site_row(site, i, &peer, &pattern); i++)
        for (size_t p = 0; (provider = provider_at(&peer, p)); p++)
            want(&all, site, &peer, provider);
    ask_trainer(fabrics, site, &all, journal);
    for (size_t i = 0; weft_site_row(site, i, &peer, &pattern); i++) {
        char name[WEFT_SITE_NAME + 2];
        snprintf(name, sizeof name, "%s%s", peer.name, pattern ? "*" : "");
        for (size_t p = 0; (provider = provider_at(&peer, p)); p++)
            ask_peer(fabrics, site, &peer, provider, name);
        ask_stream(fabrics, site, &peer, name);
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
    const char *named = text_of(fabric, "named"), *address = text_of(fabric, "address");
    bool resolved = *named && *address && strcmp(named, address) != 0;
    printf("  provider %s%s%s%s%s%s%s for", text_of(fabric, "provider"),
           strcmp(text_of(fabric, "asked"), "auto") == 0 ? " (auto)" : "", *address ? " on " : "",
           resolved ? named : address, resolved ? " (" : "", resolved ? address : "", resolved ? ")" : "");
    json_array_foreach(json_object_get(fabric, "peers"), index, name)
        printf("%s %s", index ? "," : "", json_string_value(name));
    printf(": %s%s\n", missing ? "MISSING, " : "", text_of(fabric, "text"));
    if (strcmp(text_of(fabric, "missing"), "address") == 0)
        printf("    (if the address is another host's: run this there)\n");
    weft_fabric_print(fabric, 4);
}

void weft_check_fabrics_print(const json_t *fabrics)
{
    size_t index;
    json_t *fabric;
    json_array_foreach((json_t *)fabrics, index, fabric) print_fabric(fabric);
}
