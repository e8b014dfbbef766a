/* relay_greet.c - the handshake of a child, through the relay: what either end may write to, and where. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "relay/relay.h"
#include "wire/duct.h"
#include "wire/greeting.h"
#include "wire/refusal.h"
#include "wire/voucher.h"

/* ---- HELLO */

/* Refuses a child with the text of the last error and the status `told`. WEFT_E_SYSTEM is not final for the child,
 * which goes on to the next gateway of its site. */
static weft_status refuse(weft_relay *relay, weft_child *child, weft_status why, weft_status told)
{
    char from[WEFT_SITE_NAME + 16];
    weft_wire_notice notice;
    snprintf(from, sizeof from, "relay %s: ", relay->rollout->site.name);
    weft_refusal_notice(why, from, &notice);
    if (weft_refusal_withholds(why))
        weft_log(WEFT_LOG_WARN, "refused: %s: %s", child->hello.name, weft_last_error());
    notice.status = told;
    weft_control_notice(&child->down, WEFT_MESSAGE_REFUSE, &notice);
    weft_child_lose(child, notice.text);
    return WEFT_OK;
}

static weft_status answer_layout(weft_relay *relay, weft_child *child)
{
    weft_status status = weft_door_answer(&relay->door, &child->down);
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
            weft_child_lose(child, "it came again");
    }
}

/* Finds the way to the child that HELLO describes, as the relay's own connections allow. */
static weft_status check_way(weft_relay *relay, weft_child *child)
{
    if (child->hello.hops >= WEFT_SITE_HOPS)
        return weft_fail(WEFT_E_REFUSED, "%s: more than %u relays stand between it and the trainer", child->hello.name,
                         WEFT_SITE_HOPS);
    weft_outlet **outlet = &child->sender.rails.outlet;
    weft_status status = weft_outlet_find(&relay->outlets, child->hello.provider, 0, outlet);
    if (status == WEFT_AGAIN) /* it may come later, and so may the child */
        status = weft_fail_quiet(WEFT_E_PROVIDER, "%s", weft_last_error());
    if (status == WEFT_OK)
        status = weft_wire_check_fabric(&child->hello, &(*outlet)->facts);
    if (status == WEFT_OK)
        status = weft_rail_may_reach(&relay->outlets, *outlet, &child->down, &child->hello, child->hello.address,
                                     child->hello.address_bytes);
    if (status != WEFT_OK)
        return status;
    weft_rail_choose(&child->sender);
    const uint64_t most = relay->buffers.slabs.slab_bytes;
    return (uint64_t)child->sender.posting.chunk_bytes * WEFT_CHUNKS_MAX >= most
               ? WEFT_OK
               : weft_fail(WEFT_E_REFUSED, "%s takes %u bytes at a time: too little for a bucket of %llu",
                           child->hello.name, child->sender.posting.chunk_bytes, (unsigned long long)most);
}

weft_status weft_child_hello(weft_relay *relay, weft_child *child, const uint8_t *body, uint64_t length)
{
    const weft_site *all = relay->rollout->session->site;
    weft_status status = weft_wire_get_hello(body, length, &child->hello);
    if (status == WEFT_OK)
        status = weft_greeting_check(&child->down, &child->hello);
    if (status == WEFT_OK)
        status = weft_voucher_check(all, &child->down, &child->hello);
    if (status == WEFT_OK && child->hello.wants_layout)
        return answer_layout(relay, child);
    if (status == WEFT_OK)
        status = weft_site_resolve(all, child->hello.name, &child->site);
    if (status != WEFT_OK)
        return refuse(relay, child, status, status); /* as the trainer would, from the same site */
    weft_bytes_clean(child->hello.provider);
    status = check_way(relay, child);
    if (status != WEFT_OK)
        return refuse(relay, child, status, WEFT_E_SYSTEM);
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
    child->own.bytes = child->own.stride * count;
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
    hello.slot_stride = child->own.stride;
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
static weft_status answer_later(weft_child *child)
{
    weft_status status = weft_control_send(&child->down, WEFT_MESSAGE_PASSING, NULL, 0);
    weft_child_lose(child, "the trainer is not ready yet");
    return status;
}

weft_status weft_child_greet(weft_relay *relay, weft_child *child)
{
    weft_rollout *rollout = relay->rollout;
    uint64_t io_ms = rollout->session->site->session.io_deadline_ms;
    if (child->state == WEFT_CHILD_GUEST && child->greeted && rollout->joining.later)
        return answer_later(child);
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
    weft_send_open(&child->sender);
    if (status == WEFT_OK)
        status = weft_rail_open(&child->sender, &welcome);
    if (status != WEFT_OK)
        return status;
    child->incarnation = welcome.incarnation;
    if (welcome.chunk_bytes > child->sender.posting.chunk_bytes)
        welcome.chunk_bytes = child->sender.posting.chunk_bytes;
    child->open = 0;
    weft_child_enter(child, WEFT_CHILD_JOINED);
    child->moved_ns = child->told_ns = child->granted_ns = child->since_ns;
    weft_log(WEFT_LOG_INFO, "joined: %s behind this relay%s, from %s by %s", child->hello.name, relay->source,
             child->down.peer, child->sender.rails.outlet->facts.fabric);
    weft_wire_put_welcome(&out, &welcome);
    return weft_control_send(&child->down, WEFT_MESSAGE_WELCOME, out.data, out.used);
}

/* ---- DUCT */

weft_status weft_child_duct(weft_relay *relay, weft_child *guest, const uint8_t *body, uint64_t length)
{
    const weft_rail *rail = NULL;
    const weft_child *child = relay->children;
    weft_wire_duct duct;
    weft_status status = weft_wire_get_duct(body, length, &duct);
    for (; status == WEFT_OK && child < relay->children + relay->child_count; child++)
        if (child->state == WEFT_CHILD_JOINED && (rail = weft_rail_of_duct(&child->sender.rails, &duct)))
            break;
    if (status == WEFT_OK && !rail)
        status = weft_fail(WEFT_E_PROTOCOL, "%s sent DUCT for a port that is not here", guest->down.peer);
    if (status == WEFT_OK)
        status = weft_voucher_check(relay->rollout->session->site, &guest->down, &child->hello);
    return status == WEFT_OK ? weft_duct_take(&guest->down, rail->outlet->provider, rail->port) : status;
}
