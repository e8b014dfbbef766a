/* fetch.c - asks a trainer for its layout, for a rollout that starts with nothing. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "rollout/rollout.h"
#include "wire/control.h"
#include "wire/greeting.h"

#define RETRY_MS 50

/* Waits for `events` on a descriptor (none: for the time alone). */
static void wait_for(int fd, short events, uint64_t ms)
{
    struct pollfd wait = {.fd = fd, .events = events};
    if (weft_clock_own && poll(&wait, 1, 0) == 0)
        weft_clock_pass(ms * WEFT_NS_PER_MS);
    else if (!weft_clock_own)
        poll(&wait, 1, (int)ms);
}

/* Reads exactly `bytes`, waiting for each part until the deadline. */
static weft_status read_all(weft_control *control, uint8_t *data, uint64_t bytes, uint64_t deadline_ns)
{
    uint64_t got = 0;
    while (got < bytes) {
        uint64_t now_ns = weft_clock_ns(), part;
        weft_status status = weft_control_receive(control, data + got, bytes - got, &part);
        got += part;
        if (status == WEFT_E_PEER_LOST)
            return weft_fail_quiet(WEFT_E_UNREACHABLE, "the trainer's answer: %s", weft_last_error());
        if (status != WEFT_OK)
            return status;
        if (part > 0)
            continue;
        if (now_ns >= deadline_ns)
            return weft_fail_quiet(WEFT_E_UNREACHABLE, "the trainer's answer did not come in time");
        uint64_t left_ms = (deadline_ns - now_ns) / WEFT_NS_PER_MS + 1;
        wait_for(control->fd, POLLIN, left_ms < 1000 ? left_ms : 1000);
    }
    return WEFT_OK;
}

static weft_status queue_hello(weft_control *control, const char *peer)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello hello = {.wants_layout = true, .nonce = control->nonce};
    snprintf(hello.name, sizeof hello.name, "%s", peer);
    weft_wire_put_hello(&out, &hello);
    return weft_control_send(control, WEFT_MESSAGE_HELLO, out.data, out.used);
}

/* The knock, and once it is greeted the HELLO. */
static weft_status say(weft_control *control, const char *peer, uint64_t deadline_ns)
{
    weft_status status = control->nonce ? queue_hello(control, peer) : weft_greeting_ask(control);
    while (status == WEFT_OK && weft_control_is_pending(control)) {
        const bool proves = control->guard && !control->sealed && !weft_control_wants_write(control);
        wait_for(control->fd, proves ? POLLIN : POLLOUT, RETRY_MS);
        status = weft_control_flush(control);
        if (status == WEFT_OK && weft_clock_ns() >= deadline_ns)
            status = weft_fail_quiet(WEFT_E_UNREACHABLE, "%s does not answer", control->peer);
    }
    return status;
}

static weft_status take_answer(const weft_control *control, const uint8_t *body, uint64_t type, uint64_t length,
                               weft_layout **layout)
{
    weft_wire_notice notice;
    if (type == WEFT_MESSAGE_LAYOUT)
        return weft_layout_parse(body, length, layout);
    weft_status status = weft_wire_get_notice(body, length, &notice);
    weft_bytes_clean(notice.text);
    if (status != WEFT_OK)
        return status;
    const bool unproved = control->nonce == 0 && notice.status == WEFT_E_CONFIG; /* before any name was said */
    const bool unheard = notice.status == WEFT_E_PROTOCOL || notice.status == WEFT_E_CORRUPT;
    return weft_fail(unproved  ? WEFT_E_CONFIG
                     : unheard ? notice.status
                               : WEFT_E_REFUSED,
                     "the trainer refuses: %s", notice.text);
}

static weft_status take_greeting(weft_control *control, uint64_t length, uint64_t until_ns)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    if (length > sizeof body || control->nonce)
        return weft_fail(WEFT_E_PROTOCOL, "asked for the layout, got a GREETING %s",
                         control->nonce ? "again" : "that is none");
    weft_status status = read_all(control, body, length, until_ns);
    return status == WEFT_OK ? weft_greeting_take(control, body, length) : status;
}

/* Sends the next request and reads its answer. Returns WEFT_AGAIN after a greeting. An answer has to begin before
 * `until_ns`. */
static weft_status ask_once(weft_control *control, const char *peer, uint64_t until_ns, uint64_t deadline_ns,
                            weft_layout **layout)
{
    uint8_t prefix[WEFT_MESSAGE_PREFIX];
    weft_status status = say(control, peer, until_ns);
    if (status == WEFT_OK)
        status = read_all(control, prefix, sizeof prefix, until_ns);
    if (status != WEFT_OK)
        return status;
    uint64_t length = weft_bytes_get(prefix, 4), type = weft_bytes_get(prefix + 4, 2);
    if (type == WEFT_MESSAGE_GREETING) {
        status = take_greeting(control, length, until_ns);
        return status == WEFT_OK ? WEFT_AGAIN : status;
    }
    uint64_t most = type == WEFT_MESSAGE_LAYOUT ? WEFT_LAYOUT_MAX : type == WEFT_MESSAGE_REFUSE ? WEFT_MESSAGE_MAX : 0;
    if (most == 0 || length > most)
        return weft_fail(WEFT_E_PROTOCOL, "asked for the layout, got message %llu of %llu bytes",
                         (unsigned long long)type, (unsigned long long)length);
    uint8_t *body = weft_mem_take(1, length ? length : 1);
    if (!body)
        return weft_fail(WEFT_E_MEMORY, "no memory for a layout of %llu bytes", (unsigned long long)length);
    status = read_all(control, body, length, deadline_ns);
    if (status == WEFT_OK)
        status = take_answer(control, body, type, length, layout);
    weft_mem_give(body);
    return status;
}

static weft_status ask(weft_control *control, const char *peer, uint64_t until_ns, uint64_t deadline_ns,
                       weft_layout **layout)
{
    weft_status status = ask_once(control, peer, until_ns, deadline_ns, layout);
    return status == WEFT_AGAIN ? ask_once(control, peer, until_ns, deadline_ns, layout) : status;
}

/* A host that is silent must not keep the others from being asked: each has a heartbeat to answer, as when a rollout
 * joins, but for one that is the only one. */
static uint64_t answer_until(const weft_resolver *names, uint32_t count, const weft_site_peer *row,
                             uint64_t deadline_ns)
{
    const uint64_t until_ns = weft_clock_ns() + row->heartbeat_ms * WEFT_NS_PER_MS;
    uint32_t addresses = weft_resolver_known(names) ? 0 : 1;
    for (uint32_t i = 0; i < count; i++)
        addresses += weft_resolver_at(names, i)->count;
    return addresses > 1 && until_ns < deadline_ns ? until_ns : deadline_ns;
}

/* The name that the i-th host proves: a relay's, or the trainer's. */
static const char *owner_of(char relays[WEFT_SITE_VIAS][WEFT_SITE_NAME], uint32_t relay_count, uint32_t i)
{
    return i < relay_count ? relays[i] : WEFT_GUARD_TRAINER;
}

/* From the relays that the peer joins through, which have it too, or the trainer: each address once. */
static weft_status try_all(weft_control *control, weft_guard *guard, const weft_resolver *names, uint32_t count,
                           const weft_site_peer *row, uint64_t patience_ms, uint64_t deadline_ns, weft_layout **layout)
{
    char relays[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    const uint32_t relay_count = weft_site_via(row, relays);
    weft_status status = WEFT_E_CONFIG;
    for (uint32_t i = 0; i < count; i++) {
        const weft_name *name = weft_resolver_at(names, i);
        if (name->count == 0 && status != WEFT_E_UNREACHABLE)
            status = weft_fail_quiet(name->status, "%s", name->text);
        for (uint32_t at = 0; at < name->count; at++) {
            const uint64_t until_ns = answer_until(names, count, row, deadline_ns);
            status = weft_control_dial(control, name->address[at], patience_ms);
            if (status == WEFT_OK)
                weft_control_guard(control, guard, owner_of(relays, relay_count, i));
            if (status == WEFT_OK)
                status = ask(control, row->name, until_ns, deadline_ns, layout);
            if (status == WEFT_E_PEER_LOST)
                status = WEFT_E_UNREACHABLE;
            if (status != WEFT_E_UNREACHABLE)
                return status;
            weft_control_hang_up(control);
        }
    }
    return status;
}

/* Names are looked up anew each time, unless somebody still owes an answer. */
static weft_status try_once(weft_control *control, weft_guard *guard, const weft_site *site, const weft_site_peer *row,
                            weft_resolver **names, uint64_t patience_ms, uint64_t deadline_ns, weft_layout **layout)
{
    char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT];
    uint32_t count = weft_gateway_hosts(site, row, 0, hosts);
    if (!*names)
        *names = weft_resolver_ask(hosts, count);
    if (!*names)
        return weft_fail(WEFT_E_MEMORY, "no memory to look up host names");
    weft_resolver_wait(*names, deadline_ns);
    const bool known = weft_resolver_known(*names);
    weft_status status = try_all(control, guard, *names, count, row, patience_ms, deadline_ns, layout);
    if (known) {
        weft_resolver_give(*names);
        *names = NULL;
    }
    return status;
}

/* True for what damage on the way may have made of an answer, or of a question. It is asked once more (dispatch.c). */
static bool may_be_damage(weft_status status)
{
    return status == WEFT_E_PROTOCOL || status == WEFT_E_CORRUPT || status == WEFT_E_CONFIG;
}

weft_status weft_layout_fetch(const weft_site *site, const char *peer, uint32_t deadline_ms, weft_layout **layout)
{
    uint64_t patience_ms = deadline_ms ? deadline_ms : site->session.connect_deadline_ms;
    uint64_t deadline_ns = weft_clock_ns() + patience_ms * WEFT_NS_PER_MS;
    weft_site_peer row;
    weft_control control;
    weft_resolver *names = NULL;
    weft_guard *guard = NULL;
    weft_status status = weft_site_resolve(site, peer, &row);
    if (status == WEFT_OK)
        status = weft_guard_open(site, row.name, &guard);
    if (status == WEFT_OK)
        status = weft_control_open(&control);
    if (status != WEFT_OK) {
        weft_guard_close(guard);
        return status;
    }
    status = try_once(&control, guard, site, &row, &names, patience_ms, deadline_ns, layout);
    for (bool doubts = true;
         (status == WEFT_E_UNREACHABLE || (doubts && may_be_damage(status))) && weft_clock_ns() < deadline_ns;) {
        doubts = doubts && status == WEFT_E_UNREACHABLE;
        wait_for(-1, 0, RETRY_MS);
        status = try_once(&control, guard, site, &row, &names, patience_ms, deadline_ns, layout);
    }
    weft_resolver_give(names);
    weft_control_close(&control);
    weft_guard_close(guard);
    if (status == WEFT_E_UNREACHABLE)
        weft_fail_about("no layout from %s within %llu ms%s; is the trainer running there?", row.listen,
                        (unsigned long long)patience_ms, deadline_ms ? "" : " (connect_deadline)");
    return status;
}
