/* Real providers between real processes: ports closed in the middle of a write, processes killed and stopped. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/fabric_ends.h"
#include "tests/support/standin.h"

static void advance(stream *t)
{
    if (++t->chunk < CHUNKS)
        return;
    t->chunk = 0;
    t->bucket = (t->bucket + 1) % BUCKETS;
}

/* Posts until nothing more is taken, credit or not. */
static void post_all_that_fits(const sender *s, stream *t)
{
    for (double end = play_now() + 0.3; play_now() < end;) {
        if (t->bucket == SLOTS)
            break;
        if (stream_post(s, t) != WEFT_OK) {
            stream_poll(s, t);
            continue;
        }
        advance(t);
    }
}

/* Else the device makes them, and may make the same one again: the endpoint's address tells the two apart. */
static bool keys_are_ours(const char *provider)
{
    return strcmp(provider, "verbs") != 0 && strncmp(provider, "efa", 3) != 0;
}

static void abort_then_send(play *p)
{
    sender s;
    stream t;
    int fd = p->processes[1].line;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, fd);
    post_all_that_fits(&s, &t);
    stream_close(&s, &t);
    play_tell(fd, "", 1);
    uint64_t old = t.to.key;
    stream_open(&s, &t, 0, fd); /* a fresh invitation: new port, new key */
    if (keys_are_ours(p->provider))
        CHECK(t.to.key != old, "a new registration has the old key");
    stream_all(&s, &t);
    stream_close(&s, &t);
    sender_close(&s);
}

/* Looks away while the sender fills the pipe and gives up; then takes the old port down and starts anew. */
static void be_aborted_then_receive(play *p)
{
    receiver r;
    char word;
    int fd = p->line;
    receiver_open(&r, p->provider, fd);
    play_hear(fd, &word, 1);
    receiver_close(&r);
    receive_all(p);
}

static void closing_with_writes_in_flight_is_prompt(void **state)
{
    play p;
    play_start(&p, *state, abort_then_send, be_aborted_then_receive, 1);
    play_finish(&p, 1, 0);
}

#define LONG (UINT64_C(64) << 20) /* more than any socket buffer: it is still landing when it is looked at */

static weft_region *open_long(fabric_end *e, const char *name, bool remote, uint8_t **memory)
{
    weft_region *region;
    weft_link_options options = {.address = end_local(name), .chunk_bytes = LONG};
    *e = (fabric_end){.provider = weft_provider_find(standin_provider(name))};
    standin_use(name);
    CHECK(e->provider->link_open(&options, &e->link) == WEFT_OK, "link_open");
    *memory = weft_mem_map(LONG);
    CHECK(e->provider->region_open(e->link, NULL, *memory, LONG, remote, &region) == WEFT_OK, "region_open");
    return region;
}

static void close_long(fabric_end *e, weft_port *port, weft_region *region, uint8_t *memory)
{
    e->provider->port_close(port);
    e->provider->region_close(region);
    e->provider->link_close(e->link);
    weft_mem_unmap(memory, LONG);
}

static void send_one_long(play *p)
{
    char word;
    fabric_end e;
    uint8_t *memory;
    invitation to;
    weft_completion c[4];
    int fd = p->processes[1].line;
    weft_region *region = open_long(&e, p->provider, false, &memory);
    weft_port *port = end_open_port(&e);
    memset(memory, 1, LONG);
    play_hear(fd, &to, sizeof to);
    CHECK(e.provider->port_connect(port, to.port, to.length) == WEFT_OK, "port_connect");
    weft_write w = {.region = region,
                    .data = memory,
                    .bytes = LONG,
                    .remote_address = to.address,
                    .remote_key = to.key,
                    .immediate = 1};
    while (e.provider->write(port, &w) == WEFT_AGAIN)
        e.provider->poll(port, c, 4);
    while (!play_heard(fd))
        e.provider->poll(port, c, 4);
    play_hear(fd, &word, 1);
    if (word == 'k')
        raise(SIGKILL);
    close_long(&e, port, region, memory);
}

static uint64_t landed_bytes(const uint8_t *memory)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < LONG; i++)
        n += memory[i];
    return n;
}

/* The fence: what has not landed when the port closes never does, with the sender still sending. */
static void close_while_it_lands(play *p)
{
    fabric_end e;
    uint8_t *memory;
    weft_completion c[4];
    int fd = p->line;
    weft_region *region = open_long(&e, p->provider, true, &memory);
    weft_port *port = end_open_port(&e);
    weft_port *other = end_open_port(&e); /* goes on making the link's progress */
    invitation i = end_invite(&e, port, region);
    play_tell(fd, &i, sizeof i);
    while (!*(volatile uint8_t *)memory)
        e.provider->poll(port, c, 4);
    e.provider->port_close(port);
    uint64_t before = landed_bytes(memory);
    for (double end = play_now() + 0.3; play_now() < end;)
        e.provider->poll(other, c, 4);
    uint64_t after = landed_bytes(memory);
    CHECK(before == after, "%llu bytes had landed when the port closed, %llu did later", (unsigned long long)before,
          (unsigned long long)after);
    play_tell(fd, "c", 1);
    close_long(&e, other, region, memory);
}

/* The sender dies while its write lands. Whether the port says so differs; it must neither arrive nor crash. */
static void outlive_the_sender(play *p)
{
    fabric_end e;
    uint8_t *memory;
    weft_completion c[4];
    int fd = p->line;
    weft_region *region = open_long(&e, p->provider, true, &memory);
    weft_port *port = end_open_port(&e);
    invitation i = end_invite(&e, port, region);
    bool all = false;
    play_tell(fd, &i, sizeof i);
    while (!*(volatile uint8_t *)memory)
        e.provider->poll(port, c, 4);
    play_tell(fd, "k", 1);
    play_nap(0.1);
    for (double end = play_now() + 0.5; play_now() < end;)
        for (size_t n = e.provider->poll(port, c, 4); n > 0; n--)
            all = all || c[n - 1].kind == WEFT_COMPLETION_ARRIVED;
    CHECK(!all || landed_bytes(memory) == LONG, "a write arrived that had not landed");
    close_long(&e, port, region, memory);
}

static void a_sender_killed_in_a_write_harms_nobody(void **state)
{
    play p;
    play_start(&p, *state, send_one_long, outlive_the_sender, 1);
    play_finish(&p, 1, 1u << 0);
}

static void closing_the_receiving_port_is_a_fence(void **state)
{
    play p;
    play_start(&p, *state, send_one_long, close_while_it_lands, 1);
    play_finish(&p, 1, 0);
}

static void outlive_the_receiver(play *p)
{
    sender s;
    stream t;
    bool told = false;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->processes[1].line);
    while (t.acknowledged < BUCKETS / 4)
        stream_step(&s, &t);
    CHECK(kill(p->processes[1].pid, SIGKILL) == 0, "kill: %s", strerror(errno));
    for (double end = play_now() + 2;
         play_now() < end && !told;) { /* each call is timed; an error may or may not come */
        if (stream_post(&s, &t) == WEFT_OK)
            advance(&t);
        else
            told = t.failed > DEPTH;
        stream_poll(&s, &t);
        memset(t.seen, 0, sizeof t.seen); /* round and round: a chunk goes again when it is no longer under way */
    }
    stream_close(&s, &t);
    stream_open(&s, &t, 0, p->processes[2].line);
    stream_all(&s, &t);
    stream_close(&s, &t);
    sender_close(&s);
}

static void a_killed_receiver_blocks_nobody(void **state)
{
    play p;
    play_start(&p, *state, outlive_the_receiver, receive_all, 2);
    play_finish(&p, 2, 1u << 1);
}

/* Seconds that the first stream takes, with the second one kept going beside it. */
static double race(const sender *s, stream *first, stream *second)
{
    double begin = play_now();
    while (stream_step(s, first)) {
        if (second->bucket < SLOTS)
            stream_step(s, second);
        CHECK(play_now() - begin < 120, "%u of %u buckets in 120 s", first->acknowledged, BUCKETS);
    }
    play_tell(first->fd, "", 1);
    return play_now() - begin;
}

static void send_beside_a_stopped_one(play *p)
{
    sender s;
    stream alone, first, stopped;
    sender_open(&s, p->provider);
    stream_open(&s, &alone, 0, p->processes[3].line);
    stream none = {.bucket = SLOTS};
    double pace = race(&s, &alone, &none);
    stream_close(&s, &alone);

    stream_open(&s, &first, 0, p->processes[1].line);
    stream_open(&s, &stopped, 1, p->processes[2].line);
    CHECK(kill(p->processes[2].pid, SIGSTOP) == 0, "kill: %s", strerror(errno));
    double beside = race(&s, &first, &stopped);
    CHECK(beside < 5 * pace + 2, "%.3f s alone, %.3f s beside a stopped receiver", pace, beside);
    stream_close(&s, &first);
    stream_close(&s, &stopped);
    sender_close(&s);
    CHECK(kill(p->processes[2].pid, SIGKILL) == 0, "kill: %s", strerror(errno));
}

static void a_stopped_receiver_slows_nobody(void **state)
{
    play p;
    play_start(&p, *state, send_beside_a_stopped_one, receive_all, 3);
    play_finish(&p, 3, 1u << 2);
}

int main(void)
{
    static const struct CMUnitTest tcp[] = {
        ON(closing_with_writes_in_flight_is_prompt, "tcp"), ON(closing_the_receiving_port_is_a_fence, "tcp"),
        ON(a_sender_killed_in_a_write_harms_nobody, "tcp"), ON(a_killed_receiver_blocks_nobody, "tcp"),
        ON(a_stopped_receiver_slows_nobody, "tcp"),
    };
    static const struct CMUnitTest tcp_rxm[] = {
        ON(closing_with_writes_in_flight_is_prompt, "tcp-rxm"), ON(closing_the_receiving_port_is_a_fence, "tcp-rxm"),
        ON(a_sender_killed_in_a_write_harms_nobody, "tcp-rxm"), ON(a_killed_receiver_blocks_nobody, "tcp-rxm"),
        ON(a_stopped_receiver_slows_nobody, "tcp-rxm"),
    };
    static const struct CMUnitTest shm[] = {
        ON(closing_with_writes_in_flight_is_prompt, "shm"), ON(closing_the_receiving_port_is_a_fence, "shm"),
        ON(a_sender_killed_in_a_write_harms_nobody, "shm"), ON(a_killed_receiver_blocks_nobody, "shm"),
        ON(a_stopped_receiver_slows_nobody, "shm"),
    };
    static const struct CMUnitTest verbs[] = {
        ON(closing_with_writes_in_flight_is_prompt, "verbs"), ON(closing_the_receiving_port_is_a_fence, "verbs"),
        ON(a_sender_killed_in_a_write_harms_nobody, "verbs"), ON(a_killed_receiver_blocks_nobody, "verbs"),
        ON(a_stopped_receiver_slows_nobody, "verbs"),
    };
    static const struct CMUnitTest efa[] = {
        ON(closing_with_writes_in_flight_is_prompt, "efa"), ON(closing_the_receiving_port_is_a_fence, "efa"),
        ON(a_sender_killed_in_a_write_harms_nobody, "efa"), ON(a_killed_receiver_blocks_nobody, "efa"),
        ON(a_stopped_receiver_slows_nobody, "efa"),
    };
    static const struct CMUnitTest efa_direct[] = {
        ON(closing_with_writes_in_flight_is_prompt, "efa-direct"), /* its writes are too short to be seen landing */
        ON(a_killed_receiver_blocks_nobody, "efa-direct"),
        ON(a_stopped_receiver_slows_nobody, "efa-direct"),
    };
    static const struct CMUnitTest played_shm[] = {
        ON(closing_with_writes_in_flight_is_prompt, "played-shm"),
        ON(closing_the_receiving_port_is_a_fence, "played-shm"),
        ON(a_killed_receiver_blocks_nobody, "played-shm"),
        ON(a_stopped_receiver_slows_nobody, "played-shm"),
    };
    static const struct CMUnitTest played_rxm[] = {
        ON(closing_with_writes_in_flight_is_prompt, "played-rxm"),
        ON(closing_the_receiving_port_is_a_fence, "played-rxm"),
        ON(a_killed_receiver_blocks_nobody, "played-rxm"),
        ON(a_stopped_receiver_slows_nobody, "played-rxm"),
    };
    int failed = FABRIC_RUN("tcp", tcp);
    failed += FABRIC_RUN("tcp-rxm", tcp_rxm);
    failed += FABRIC_RUN("shm", shm);
    failed += FABRIC_RUN("verbs", verbs); /* stand-ins, where no device is */
    failed += FABRIC_RUN("efa", efa);
    failed += FABRIC_RUN("efa-direct", efa_direct);
    if (getenv("WEFT_FULL")) {
        failed += FABRIC_RUN("played-shm", played_shm);
        failed += FABRIC_RUN("played-rxm", played_rxm);
    }
    return fabric_result(failed);
}
