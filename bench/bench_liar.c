/* A peer that proves its name and then lies, until it is killed. bench/worst_day/10_before_proof.py sets it loose on a
 * trainer, whose site has mode = tls, provider = stream and a numeric address.
 *
 *   bench_liar SITE NAME ask    asks for digests without end, and reads the answers
 *   bench_liar SITE NAME lie    joins, says what no rollout says, is dropped, and joins again */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/status.h"
#include "layout/layout.h"
#include "wire/control.h"

#define ASKED 32u /* questions under way */
#define WAIT  2000

static weft_site *site;
static weft_guard *guard;
static weft_layout *layout;
static weft_control line;
static const char *name;
static uint64_t incarnation;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_liar: %s: %s\n", what, weft_last_error());
    exit(1);
}

/* ---- messages */

static void say(weft_message type, const weft_out *body)
{
    if (weft_control_send(&line, type, body->data, body->used) == WEFT_OK)
        weft_control_flush(&line);
}

/* The next message but PINGs, which it drops; 0: none came in time, or the connection is closed. */
static weft_message hear(uint8_t body[WEFT_MESSAGE_MAX], uint64_t *length, int wait_ms)
{
    for (;;) {
        weft_message type;
        const uint8_t *bytes;
        const weft_status lost = line.connecting ? weft_control_flush(&line) : weft_control_fill(&line);
        if (weft_control_next(&line, &type, &bytes, length) == WEFT_OK) {
            memcpy(body, bytes, *length);
            weft_control_drop(&line);
            if (type != WEFT_MESSAGE_PING)
                return type;
            continue;
        }
        const bool writes = line.connecting && !line.seal;
        struct pollfd ready = {line.fd, writes ? POLLOUT : POLLIN, 0};
        if (lost != WEFT_OK || poll(&ready, 1, wait_ms) <= 0)
            return 0;
    }
}

/* ---- join */

static void say_knock(void)
{
    uint8_t body[16];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_knock(&out, &(weft_wire_knock){WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL});
    say(WEFT_MESSAGE_HELLO, &out);
}

static void say_hello(uint64_t nonce)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello hello = {.nonce = nonce,
                             .incarnation = ++incarnation,
                             .provider = "stream",
                             .backend = "liar",
                             .address = {'w', 'f', 's', 't', 'r', 'm', '1'},
                             .address_bytes = 24,
                             .slot_stride = WEFT_SLOT_HEADER_BYTES + (4u << 20),
                             .slot_payload = 4u << 20,
                             .slots = 2,
                             .epoch = 1,
                             .chunk_bytes = 1u << 20,
                             .levels = 15,
                             .staging_bytes = 32u << 20};
    snprintf(hello.name, sizeof hello.name, "%s", name);
    memcpy(hello.layout, layout->hash, sizeof hello.layout);
    weft_wire_put_hello(&out, &hello);
    say(WEFT_MESSAGE_HELLO, &out);
}

static bool join(void)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_greeting greeting;
    weft_control_hang_up(&line);
    if (weft_control_dial(&line, site->trainer.listen, 10000) != WEFT_OK)
        return false;
    weft_control_guard(&line, guard, WEFT_GUARD_TRAINER);
    say_knock();
    if (hear(body, &length, WAIT) != WEFT_MESSAGE_GREETING ||
        weft_wire_get_greeting(body, length, &greeting) != WEFT_OK)
        return false;
    say_hello(greeting.nonce);
    return hear(body, &length, WAIT) == WEFT_MESSAGE_WELCOME;
}

/* ---- lies */

static void lie(uint64_t number)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_held held = {.version = {1, 1, number}};
    switch (number % 4) {
    case 0:
        weft_wire_put_receipt(&out, &(weft_wire_receipt){.sequence = number});
        return say(WEFT_MESSAGE_RECEIPT, &out);
    case 1:
        memcpy(held.layout, layout->hash, sizeof held.layout);
        weft_wire_put_held(&out, &held);
        return say(WEFT_MESSAGE_HELD, &out);
    case 2:
        weft_wire_put_closed(&out, &(weft_wire_closed){.port = 0, .turn = 0});
        return say(WEFT_MESSAGE_CLOSED, &out);
    default:
        return say_hello(1);
    }
}

static _Noreturn void lie_on(void)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length, lies = 0;
    for (uint64_t number = 0;; number++) {
        if (!join()) {
            nanosleep(&(struct timespec){0, 5000000}, NULL);
            continue;
        }
        lie(number);
        while (hear(body, &length, WAIT))
            ;
        if (++lies % 100 == 0)
            fprintf(stderr, "bench_liar: %llu lies\n", (unsigned long long)lies);
    }
}

static void ask(void)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    const uint64_t most = layout->count < WEFT_DIGESTS_MAX ? layout->count : WEFT_DIGESTS_MAX;
    weft_wire_put_query(&out, &(weft_wire_query){.count = (uint32_t)most});
    say(WEFT_MESSAGE_QUERY, &out);
}

static void ask_on(void)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length, answers = 0;
    while (!join())
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    for (uint32_t i = 0; i < ASKED; i++)
        ask();
    for (weft_message type; (type = hear(body, &length, WAIT)) != 0;) {
        if (type != WEFT_MESSAGE_DIGESTS)
            continue;
        ask();
        if (++answers % 10000 == 0)
            fprintf(stderr, "bench_liar: %llu answers\n", (unsigned long long)answers);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "usage: bench_liar SITE NAME ask|lie\n"), 2;
    name = argv[2];
    incarnation = (uint64_t)time(NULL) * 1000000;
    if (weft_site_load(argv[1], NULL, 0, &site) != WEFT_OK || weft_guard_open(site, name, &guard) != WEFT_OK ||
        weft_layout_fetch(site, name, 10000, &layout) != WEFT_OK || weft_control_open(&line) != WEFT_OK)
        die(argv[1]);
    if (strcmp(argv[3], "lie") == 0)
        lie_on();
    for (;;)
        ask_on();
}
