/* site_relays.c - rules on relays: every `via` names one, no chain of them is a ring or too long, and no port is that
 * of two. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "site/site_resolve.h"
#include "site/site_text.h"

/* How far the walk has come with a section. */
enum { UNSEEN, OPEN, DONE };

typedef struct walk {
    const weft_site *site;
    uint8_t *state;  /* per section */
    uint8_t *height; /* relays above, once DONE */
} walk;

static weft_status refuse(const weft_site *site, uint32_t section, const char *key, const char *format,
                          const char *detail)
{
    char value[64];
    weft_site_place place;
    weft_site_layers layers = weft_site_layers_at(site->source, section);
    weft_site_place_of(site, &layers, (const char *const[2]){key, key}, value, &place);
    return weft_site_refuse(&place, format, site->source->sections[section].header, detail);
}

static void fill(const weft_site *site, uint32_t section, weft_site_peer *peer)
{
    weft_site_layers layers = weft_site_layers_at(site->source, section);
    memset(peer, 0, sizeof *peer);
    weft_site_fill(site->source, &layers, "peer", peer);
}

static weft_status check_address(const weft_site *site, uint32_t section, const weft_site_peer *peer)
{
    char host[WEFT_SITE_TEXT];
    uint32_t port = 0;
    if (!peer->relay[0])
        return WEFT_OK;
    if (!weft_site_listen_split(peer->relay, host, &port) || port == 0)
        return refuse(site, section, "relay", "for [%s] a relay needs a port that others can dial%s", "");
    if (port + site->source_count > UINT16_MAX + 1u)
        return refuse(site, section, "relay", "for [%s] a relay takes a port for each source, from this one on%s", "");
    if (weft_site_is_wildcard(host))
        return refuse(site, section, "relay", "for [%s] a relay needs the address that others dial%s", "");
    if (site->security == WEFT_SECURITY_LOOPBACK && !weft_site_is_loopback(host))
        return refuse(site, section, "relay",
                      "for [%s] beyond loopback anyone who reaches the port may join: write [security] mode = tls to "
                      "ask for proof, or mode = open to accept that%s",
                      "");
    if (peer->relay_memory / 4 < (peer->bucket_max ? peer->bucket_max : WEFT_SITE_BUCKET_AUTO) + (8u << 10))
        return refuse(site, section, "relay_memory", "for [%s] a relay needs more than four times bucket_max%s", "");
    return WEFT_OK;
}

/* ---- ports: a relay takes one for each source, in a row */

typedef struct row {
    char host[WEFT_SITE_TEXT];
    uint32_t first;
    uint64_t count;
} row;

static bool row_of(const char *listen, uint64_t count, row *ports)
{
    ports->count = count;
    return weft_site_listen_split(listen, ports->host, &ports->first) && ports->first != 0;
}

static bool meet(const row *a, const row *b)
{
    return strcmp(a->host, b->host) == 0 && a->first < b->first + b->count && b->first < a->first + a->count;
}

static weft_status refuse_shared(const weft_site *site, uint32_t section, const row *own, const char *other)
{
    char text[2 * WEFT_SITE_TEXT];
    if (own->count == 1)
        snprintf(text, sizeof text, "[%s] has that port too", other);
    else
        snprintf(text, sizeof text, "ports %u to %llu, one for each source, meet those of [%s]", own->first,
                 (unsigned long long)(own->first + own->count - 1), other);
    return refuse(site, section, "relay", "for [%s] %s; choose others", text);
}

/* Compares with the relays of the sections before this one, so each pair is compared once, and with the trainers. A
 * host that is written in two ways is found when the second end listens. */
static weft_status check_ports(const weft_site *site, uint32_t section, const weft_site_peer *peer)
{
    const uint64_t sources = site->source_count, each = sources ? sources : 1;
    char name[WEFT_SITE_TEXT] = "trainer";
    row own, other;
    if (!peer->relay[0] || !row_of(peer->relay, each, &own))
        return WEFT_OK;
    for (uint32_t i = 0; i < section; i++) {
        weft_site_peer before;
        if (site->source->sections[i].kind != WEFT_SECTION_PEER)
            continue;
        fill(site, i, &before);
        if (before.relay[0] && row_of(before.relay, each, &other) && meet(&own, &other))
            return refuse_shared(site, section, &own, site->source->sections[i].header);
    }
    for (uint64_t i = 0; i < each; i++) {
        if (!row_of(weft_site_source_listen(site, i), 1, &other) || !meet(&own, &other))
            continue;
        if (sources)
            snprintf(name, sizeof name, "source.%llu", (unsigned long long)i);
        return refuse_shared(site, section, &own, name);
    }
    return WEFT_OK;
}

/* ---- ways */

static weft_status visit(walk *w, uint32_t section, uint32_t depth);

/* One name in a section's `via`. */
static weft_status follow(walk *w, uint32_t section, const char *name, uint32_t depth)
{
    const weft_site *site = w->site;
    uint32_t next = weft_site_peer_find(site->source, name);
    weft_site_peer peer;
    if (next == WEFT_SITE_NOWHERE)
        return refuse(site, section, "via", "for [%s] via names %s: need a section of its own for that relay", name);
    fill(site, next, &peer);
    if (!peer.relay[0])
        return refuse(site, section, "via", "for [%s] via names %s, which is no relay: give it relay = host:port",
                      name);
    if (w->state[next] == OPEN)
        return refuse(site, section, "via", "for [%s] via closes a ring at %s: a relay cannot stand behind itself",
                      name);
    weft_status status = visit(w, next, depth + 1);
    if (status == WEFT_OK && w->height[section] < w->height[next] + 1)
        w->height[section] = (uint8_t)(w->height[next] + 1);
    return status;
}

static weft_status visit(walk *w, uint32_t section, uint32_t depth)
{
    char names[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    weft_site_peer peer;
    weft_status status = WEFT_OK;
    if (w->state[section] == DONE)
        return WEFT_OK;
    fill(w->site, section, &peer);
    uint32_t count = weft_site_via(&peer, names);
    w->state[section] = OPEN;
    for (uint32_t i = 0; i < count && status == WEFT_OK && depth <= WEFT_SITE_HOPS; i++)
        status = follow(w, section, names[i], depth);
    if (status == WEFT_OK && (depth > WEFT_SITE_HOPS || w->height[section] > WEFT_SITE_HOPS))
        status = refuse(w->site, section, "via", "for [%s] more than 8 relays stand between the trainer and it%s", "");
    w->state[section] = DONE;
    return status;
}

weft_status weft_site_rules_relays(const weft_site *site)
{
    uint32_t count = (uint32_t)site->source->section_count;
    walk w = {site, weft_mem_take(count + 1, 1), weft_mem_take(count + 1, 1)};
    weft_status status = w.state && w.height ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for the site");
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        weft_section_kind kind = site->source->sections[i].kind;
        weft_site_peer peer;
        if (kind != WEFT_SECTION_PEER && kind != WEFT_SECTION_PATTERN)
            continue;
        fill(site, i, &peer);
        status = check_address(site, i, &peer);
        if (status == WEFT_OK && kind == WEFT_SECTION_PEER)
            status = check_ports(site, i, &peer);
        if (status == WEFT_OK)
            status = visit(&w, i, 0);
    }
    weft_mem_give(w.height);
    weft_mem_give(w.state);
    return status;
}
