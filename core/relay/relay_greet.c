/* relay_greet.c - the handshake of a child, through the relay: what either end may write to, and where. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "relay/relay.h"
#include "site/site_link.h"
#include "wire/duct.h"
#include "wire/greeting.h"
#include "wire/refusal.h"
#include "wire/target.h"
#include "wire/voucher.h"

/* ---- outlets: where the relay sends from */

void weft_relay_outlet_close(weft_relay_outlet *outlet)
{
    if (outlet->headers)
        outlet->provider->region_close(outlet->headers);
    if (outlet->memory)
        outlet->provider->region_close(outlet->memory);
    if (outlet->link)
        outlet->provider->link_close(outlet->link);
    memset(outlet, 0, sizeof *outlet);
}

static weft_status open_outlet(weft_relay *relay, weft_relay_outlet *outlet, const weft_provider *provider)
{
    const weft_site *site = relay->rollout->session->site;
    char address[WEFT_SITE_TEXT];
    weft_site_relay_address(site, provider->name, relay->listen,
                            address); /* as bound: the site may have a host's name */
    weft_link_options options = weft_site_link(site, provider->name, address);
    options.only_writes = true;
    options.accelerator = weft_site_accelerator(relay->rollout->site.backend, relay->rollout->site.device);
    outlet->provider = provider;
    weft_status status = weft_link_rest_open(&relay->rests, provider, &options, &outlet->link);
    if (status == WEFT_AGAIN) /* it may come later, and so may the child */
        status = weft_fail_quiet(WEFT_E_PROVIDER, "%s", weft_last_error());
    if (status == WEFT_OK) {
        provider->link_facts(outlet->link, &outlet->facts);
        status = provider->region_open(outlet->link, NULL, relay->memory, relay->memory_bytes, false, &outlet->memory);
    }
    if (status == WEFT_OK)
        status =
            provider->region_open(outlet->link, NULL, relay->headers, relay->headers_bytes, false, &outlet->headers);
    if (status != WEFT_OK)
        weft_relay_outlet_close(outlet);
    return status;
}

static weft_status find_outlet(weft_relay *relay, const char *name, weft_relay_outlet **outlet)
{
    const weft_provider *provider = weft_provider_find(name);
    weft_relay_outlet *unused = NULL;
    if (!provider)
        return weft_fail(WEFT_E_MISSING, "provider %s: the relay's build has none of that name", name);
    for (uint32_t i = 0; i < WEFT_RELAY_OUTLETS; i++) {
        if (relay->outlets[i].provider == provider) {
            *outlet = &relay->outlets[i];
            return WEFT_OK;
        }
        if (!unused && !relay->outlets[i].provider)
            unused = &relay->outlets[i];
    }
    if (!unused)
        return weft_fail(WEFT_E_PROVIDER, "provider %s: all %u outlets of the relay are in use", name,
                         WEFT_RELAY_OUTLETS);
    *outlet = unused;
    return open_outlet(relay, unused, provider);
}

/* Whether data may go where the child wants them: target.h. */
static weft_status may_reach(const weft_relay *relay, const weft_child *child)
{
    const weft_wire_hello *hello = &child->hello;
    weft_target_law law = {
        .site = relay->rollout->session->site, .provider = child->outlet->provider->name, .own_count = 1};
    char own[WEFT_SITE_TEXT];
    if (!child->outlet->facts.dials)
        return WEFT_OK;
    weft_site_relay_address(law.site, law.provider, relay->listen, own);
    snprintf(law.own[0], sizeof law.own[0], "%.*s", (int)sizeof law.own[0] - 1, own);
    return weft_target_check(&law, hello, &child->down, hello->address, hello->address_bytes);
}

/* ---- HELLO */

/* Refuses a child with the text of the last error and the status `told`. WEFT_E_SYSTEM is not final for the child,
 * which goes on to the next gateway of its site. */
static weft_status refuse(weft_relay *relay, weft_child *child, weft_status why, weft_status told)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    char from[WEFT_SITE_NAME + 16];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice;
    snprintf(from, sizeof from, "relay %s: ", relay->rollout->site.name);
    weft_refusal_notice(why, from, &notice);
    if (weft_refusal_withholds(why))
        weft_log(WEFT_LOG_WARN, "refused: %s: %s", child->hello.name, weft_last_error());
    notice.status = told;
    weft_wire_put_notice(&out, &notice);
    weft_control_send(&child->down, WEFT_MESSAGE_REFUSE, out.data, out.used);
    weft_child_lose(relay, child, notice.text);
    return WEFT_OK;
}

static weft_status answer_layout(weft_relay *relay, weft_child *child)
{
    weft_status status =
        weft_control_send_long(&child->down, WEFT_MESSAGE_LAYOUT, relay->layout_bytes, relay->layout_length);
    weft_child_enter(child, WEFT_CHILD_LEAVING);
    return status;
}

/* The newcomer takes the place of those with its name that are not joined yet, because one peer could take all places
 * else, for as long as the relay lets them wait. */
static void make_way(weft_relay *relay, const weft_child *newcomer)
{
    for (uint32_t i = 0; i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child != newcomer && child->greeted && child->state >= WEFT_CHILD_GUEST &&
            child->state < WEFT_CHILD_JOINED && strcmp(child->hello.name, newcomer->hello.name) == 0)
            weft_child_lose(relay, child, "it came again");
    }
}

/* Finds the way to the child that HELLO describes, as the relay's own connections allow. */
static weft_status check_way(weft_relay *relay, weft_child *child)
{
    if (child->hello.hops >= WEFT_SITE_HOPS)
        return weft_fail(WEFT_E_REFUSED, "%s: more than %u relays stand between it and the trainer", child->hello.name,
                         WEFT_SITE_HOPS);
    weft_status status = find_outlet(relay, child->hello.provider, &child->outlet);
    if (status == WEFT_OK)
        status = weft_wire_check_fabric(&child->hello, &child->outlet->facts);
    return status == WEFT_OK ? may_reach(relay, child) : status;
}

/* Chooses the bytes of a write: the least that the child, its outlet and its rate allow. */
static weft_status choose_chunk(const weft_relay *relay, weft_child *child, uint64_t rate_limit)
{
    child->chunk_bytes = child->hello.chunk_bytes;
    if (child->chunk_bytes > child->outlet->facts.chunk_bytes)
        child->chunk_bytes = (uint32_t)child->outlet->facts.chunk_bytes;
    if (child->chunk_bytes > weft_pace_chunk(rate_limit))
        child->chunk_bytes = (uint32_t)weft_pace_chunk(rate_limit);
    if ((uint64_t)child->chunk_bytes * WEFT_CHUNKS_MAX >= relay->stride)
        return WEFT_OK;
    return weft_fail(WEFT_E_REFUSED, "%s takes %u bytes at a time: too little for a bucket of %llu", child->hello.name,
                     child->chunk_bytes, (unsigned long long)relay->stride);
}

weft_status weft_child_hello(weft_relay *relay, weft_child *child, const uint8_t *body, uint64_t length)
{
    const weft_site *all = relay->rollout->session->site;
    weft_site_peer site;
    weft_status status = weft_wire_get_hello(body, length, &child->hello);
    if (status == WEFT_OK)
        status = weft_greeting_check(&child->down, &child->hello);
    if (status == WEFT_OK)
        status = weft_voucher_check(all, &child->down, &child->hello);
    if (status == WEFT_OK && child->hello.wants_layout)
        return answer_layout(relay, child);
    if (status == WEFT_OK)
        status = weft_site_resolve(all, child->hello.name, &site);
    if (status != WEFT_OK)
        return refuse(relay, child, status, status); /* as the trainer would, from the same site */
    weft_bytes_clean(child->hello.provider);
    status = check_way(relay, child);
    if (status == WEFT_OK)
        status = choose_chunk(relay, child, site.rate_limit);
    if (status != WEFT_OK)
        return refuse(relay, child, status, WEFT_E_SYSTEM);
    weft_pace_begin(&child->pace, site.rate_limit);
    child->greeted = true;
    make_way(relay, child);
    return WEFT_OK;
}

/* ---- towards the trainer */

static weft_status open_own(weft_relay *relay, weft_child *child, weft_wire_hello *hello)
{
    weft_rollout *rollout = relay->rollout;
    const weft_provider *provider = rollout->intake.provider;
    uint32_t count = child->hello.slots < WEFT_CHILD_OWN ? child->hello.slots : WEFT_CHILD_OWN;
    memset(child->own.slot, 0, WEFT_CHILD_OWN * sizeof *child->own.slot);
    child->own.count = count;
    child->own.bytes = relay->stride * count;
    child->own.payload = rollout->intake.slots.payload;
    if (child->own.payload > child->hello.slot_payload)
        child->own.payload = child->hello.slot_payload;
    child->own_next = 0;
    weft_status status = provider->port_open(rollout->intake.links[0], &child->own_port);
    if (status == WEFT_OK)
        status = provider->region_open(rollout->intake.links[0], child->own_port, child->own.memory, child->own.bytes,
                                       true, &child->own_region);
    if (status == WEFT_OK)
        status = provider->port_address(child->own_port, hello->address, &hello->address_bytes);
    if (status == WEFT_OK)
        provider->region_remote(child->own_region, &hello->region_address, &hello->region_key);
    return status;
}

static weft_status pass_hello(weft_relay *relay, weft_child *child)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    const weft_rollout *rollout = relay->rollout;
    weft_wire_hello hello = child->hello;
    hello.nonce = child->up.nonce;
    memset(child->follows, 0, sizeof child->follows);
    weft_status status = open_own(relay, child, &hello);
    if (status != WEFT_OK)
        return status;
    snprintf(hello.provider, sizeof hello.provider, "%s", rollout->intake.provider->name);
    hello.fabric = rollout->intake.facts.version;
    hello.further = hello.further_rails = 0;
    hello.slots = child->own.count;
    hello.slot_stride = relay->stride;
    hello.slot_payload = child->own.payload;
    hello.chunk_bytes = (uint32_t)rollout->intake.facts.chunk_bytes;
    if (hello.hops++ == 0) {
        snprintf(hello.relay, sizeof hello.relay, "%s", rollout->site.name);
        hello.relay_incarnation = rollout->session->incarnation;
        hello.route = child->route;
    }
    weft_wire_put_hello(&out, &hello);
    weft_child_enter(child, WEFT_CHILD_GREETING);
    return out.bad ? weft_fail(WEFT_E_PROTOCOL, "HELLO of %s does not fit a message", hello.name)
                   : weft_control_send(&child->up, WEFT_MESSAGE_HELLO, out.data, out.used);
}

/* Tells the child to come again later, because the trainer told this relay so. */
static weft_status answer_later(weft_relay *relay, weft_child *child)
{
    weft_status status = weft_control_send(&child->down, WEFT_MESSAGE_PASSING, NULL, 0);
    weft_child_lose(relay, child, "the trainer is not ready yet");
    return status;
}

weft_status weft_child_greet(weft_relay *relay, weft_child *child)
{
    weft_rollout *rollout = relay->rollout;
    uint64_t io_ms = rollout->session->site->session.io_deadline_ms;
    if (child->state == WEFT_CHILD_GUEST && child->greeted && rollout->joining.later)
        return answer_later(relay, child);
    if (child->state == WEFT_CHILD_GUEST && child->greeted && rollout->joining.state == WEFT_JOIN_JOINED) {
        weft_status status =
            weft_control_dial(&child->up, rollout->joining.route.gateways[rollout->joining.route.at].address, io_ms);
        if (status != WEFT_OK)
            return status;
        weft_control_guard(&child->up, rollout->session->guard, weft_gateway_owner(&rollout->joining.route));
        weft_child_enter(child, WEFT_CHILD_DIALING);
    }
    if (child->state != WEFT_CHILD_DIALING)
        return WEFT_OK;
    weft_status status = weft_control_flush(&child->up);
    if (status == WEFT_E_CONFIG)
        weft_log(WEFT_LOG_WARN, "no connection for %s: %s", child->hello.name, weft_last_error());
    if (status != WEFT_OK || child->up.connecting)
        return status;
    weft_child_enter(child, WEFT_CHILD_KNOCKING);
    return weft_greeting_ask(&child->up);
}

weft_status weft_child_greeting(weft_relay *relay, weft_child *child, const uint8_t *body, uint64_t length)
{
    weft_status status = weft_greeting_take(&child->up, body, length);
    return status == WEFT_OK ? pass_hello(relay, child) : status;
}

/* ---- WELCOME */

static weft_status open_way(weft_child *child, weft_wire_welcome *welcome)
{
    const weft_provider *provider = child->outlet->provider;
    weft_status status = provider->port_open(child->outlet->link, &child->port);
    if (status == WEFT_OK)
        status = provider->port_address(child->port, welcome->address, &welcome->address_bytes);
    if (status == WEFT_OK)
        status = provider->port_connect(child->port, child->hello.address, child->hello.address_bytes);
    return status;
}

weft_status weft_child_welcome(weft_relay *relay, weft_child *child, const uint8_t *body, uint64_t length)
{
    uint8_t mine[WEFT_MESSAGE_MAX];
    weft_out out = {mine, sizeof mine, 0, false};
    weft_wire_welcome welcome;
    weft_status status = weft_wire_get_welcome(body, length, &welcome);
    if (status == WEFT_OK)
        status = relay->rollout->intake.provider->port_connect(child->own_port, welcome.address, welcome.address_bytes);
    if (status == WEFT_OK)
        status = weft_duct_dial(&child->up, relay->rollout->intake.provider, child->own_port, welcome.address,
                                welcome.address_bytes);
    if (status == WEFT_OK)
        status = open_way(child, &welcome);
    if (status != WEFT_OK)
        return status;
    child->incarnation = welcome.incarnation;
    welcome.further = 0;
    if (welcome.chunk_bytes > child->chunk_bytes)
        welcome.chunk_bytes = child->chunk_bytes;
    child->open = 0;
    weft_child_enter(child, WEFT_CHILD_JOINED);
    child->progress_ns = child->moved_ns = child->told_ns = child->granted_ns = child->since_ns;
    weft_log(WEFT_LOG_INFO, "joined: %s behind this relay%s, from %s by %s", child->hello.name, relay->source,
             child->down.peer, child->outlet->facts.fabric);
    weft_wire_put_welcome(&out, &welcome);
    return weft_control_send(&child->down, WEFT_MESSAGE_WELCOME, out.data, out.used);
}

/* ---- DUCT */

weft_status weft_child_duct(weft_relay *relay, weft_child *guest, const uint8_t *body, uint64_t length)
{
    weft_wire_duct duct;
    weft_status status = weft_wire_get_duct(body, length, &duct);
    for (uint32_t i = 0; status == WEFT_OK && i < relay->child_count; i++) {
        const weft_child *child = &relay->children[i];
        if (child->state != WEFT_CHILD_JOINED || !weft_duct_leads(&duct, child->outlet->provider, child->port))
            continue;
        status = weft_voucher_check(relay->rollout->session->site, &guest->down, &child->hello);
        return status == WEFT_OK ? weft_duct_take(&guest->down, child->outlet->provider, child->port) : status;
    }
    return status == WEFT_OK ? weft_fail(WEFT_E_PROTOCOL, "%s sent DUCT for a port that is not here", guest->down.peer)
                             : status;
}
