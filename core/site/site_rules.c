/* site_rules.c - rules that tie keys together, said at the key that broke them. */
#include <stdio.h>
#include <string.h>

#include "site/site_link.h"
#include "site/site_resolve.h"
#include "site/site_text.h"

void weft_site_place_of(const weft_site *site, const weft_site_layers *layers, const char *const keys[2],
                        char value[64], weft_site_place *place)
{
    const weft_site_entry *entry = NULL;
    for (int i = 0; i < 2 && !entry; i++)
        entry = weft_site_layers_find(site->source, layers, weft_site_field_of("peer", keys[i]));
    *place = (weft_site_place){.path = site->path, .header = "peers"};
    if (!entry)
        return;
    weft_site_value_print(entry->field, &entry->value, value, 64);
    place->line = entry->line;
    place->header = site->source->sections[entry->section].header;
    place->key = entry->field->key.key;
    place->value = value;
}

static void print_size(const char *key, const weft_site_peer *peer, char text[64])
{
    weft_site_value value;
    const weft_site_field *field = weft_site_field_of("peer", key);
    weft_site_value_take(field, peer, &value);
    weft_site_value_print(field, &value, text, 64);
}

static weft_status check_buckets(const weft_site *site, uint32_t section)
{
    char value[64], low[64], high[64];
    weft_site_place place;
    weft_site_peer peer = {0};
    weft_site_layers layers = weft_site_layers_at(site->source, section);
    const char *who = site->source->sections[section].header;
    weft_site_fill(site->source, &layers, "peer", &peer);
    print_size("bucket_min", &peer, low);
    print_size("bucket_max", &peer, high);
    if (peer.bucket_max && peer.bucket_min > peer.bucket_max) {
        weft_site_place_of(site, &layers, (const char *const[2]){"bucket_min", "bucket_max"}, value, &place);
        return weft_site_refuse(&place, "for [%s] bucket_min %s exceeds bucket_max %s", who, low, high);
    }
    if (peer.bucket && (peer.bucket < peer.bucket_min || (peer.bucket_max && peer.bucket > peer.bucket_max))) {
        weft_site_place_of(site, &layers, (const char *const[2]){"bucket", "bucket"}, value, &place);
        return weft_site_refuse(&place, "for [%s] a bucket must lie between bucket_min %s and bucket_max %s", who, low,
                                high);
    }
    return WEFT_OK;
}

/* The most that the trainer may have for a peer, whose provider may be chosen later. */
static uint32_t trainer_rails(const weft_site *site, const char *provider)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t most = weft_site_trainer_rails(site, provider, list);
    for (uint64_t i = 0; !strcmp(provider, "auto") && i < site->provider_count; i++) {
        uint32_t rails = weft_site_trainer_rails(site, site->providers[i].name, list);
        most = rails > most ? rails : most;
    }
    return most;
}

/* A rail needs an address at both ends. */
static weft_status check_rails(const weft_site *site, uint32_t section)
{
    char value[64], list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_site_place place;
    weft_site_peer peer = {0};
    weft_site_layers layers = weft_site_layers_at(site->source, section);
    const char *who = site->source->sections[section].header;
    weft_site_fill(site->source, &layers, "peer", &peer);
    uint32_t rails = weft_site_rails(peer.address, list), here = trainer_rails(site, peer.provider);
    const weft_site_provider *knobs = weft_site_provider_of(site, peer.provider);
    bool own = knobs && knobs->address[0];
    weft_site_place_of(site, &layers, (const char *const[2]){"address", "streams"}, value, &place);
    if (rails > here)
        return weft_site_refuse(&place, "for [%s] %u addresses need as many in [%s%s] address, which has %u", who,
                                rails, own ? "provider." : "trainer", own ? peer.provider : "", here);
    if (rails * peer.streams > WEFT_SITE_RAILS)
        return weft_site_refuse(&place, "for [%s] %u addresses with %llu streams each: at most %u connections", who,
                                rails, (unsigned long long)peer.streams, WEFT_SITE_RAILS);
    return WEFT_OK;
}

static weft_status check_peers(const weft_site *site)
{
    uint64_t listed = 0;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < site->source->section_count && !status; i++) {
        const weft_site_section *section = &site->source->sections[i];
        bool named = section->kind == WEFT_SECTION_PEER;
        weft_site_place place = {.path = site->path, .line = section->line, .header = section->header};
        if (named && section->line && ++listed > site->trainer.max_peers)
            return weft_site_refuse(&place, "more peers than [trainer] max_peers = %llu; raise it",
                                    (unsigned long long)site->trainer.max_peers);
        if (named || section->kind == WEFT_SECTION_PATTERN)
            status = check_buckets(site, i);
        if (!status && (named || section->kind == WEFT_SECTION_PATTERN))
            status = check_rails(site, i);
    }
    return status;
}

static weft_status check_listen(const weft_site *site)
{
    char host[WEFT_SITE_TEXT];
    uint32_t port;
    if (site->security != WEFT_SECURITY_LOOPBACK || !weft_site_listen_split(site->trainer.listen, host, &port) ||
        weft_site_is_loopback(host))
        return WEFT_OK;
    uint32_t section = weft_site_section_find(site->source, "trainer");
    const weft_site_entry *entry = weft_site_entry_find(site->source, section, weft_site_field_of("trainer", "listen"));
    weft_site_place place = {site->path, entry ? entry->line : 0, "trainer", "listen", site->trainer.listen};
    return weft_site_refuse(&place, "beyond loopback anyone who reaches the port may join: write [security] mode = tls "
                                    "to ask for proof, mode = open to accept that, or listen on 127.0.0.1");
}

/* A range means nothing to an endpoint that listens on no TCP port of its own. */
static weft_status check_ports(const weft_site *site)
{
    for (uint64_t i = 0; i < site->provider_count; i++) {
        const weft_site_provider *provider = &site->providers[i];
        char header[WEFT_SITE_TEXT];
        if (!strcmp(provider->ports, "auto") || !strcmp(provider->name, "tcp") || !strcmp(provider->name, "tcp-rxm"))
            continue;
        snprintf(header, sizeof header, "provider.%s", provider->name);
        uint32_t section = weft_site_section_find(site->source, header);
        const weft_site_entry *entry =
            weft_site_entry_find(site->source, section, weft_site_field_of("provider", "ports"));
        weft_site_place place = {site->path, entry ? entry->line : 0, header, "ports", provider->ports};
        return weft_site_refuse(&place, "only tcp and tcp-rxm listen on ports that can be chosen");
    }
    return WEFT_OK;
}

weft_status weft_site_rules(const weft_site *site)
{
    weft_status status = check_listen(site);
    if (!status)
        status = check_ports(site);
    if (!status)
        status = check_peers(site);
    if (!status)
        status = weft_site_rules_security(site);
    return status ? status : weft_site_rules_relays(site);
}
