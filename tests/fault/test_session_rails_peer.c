/* Peers with two rails that say of them what no rollout of ours says, or nothing: each is lost in its time, however
 * well it answers PINGs; and one whose answer crossed what it answers is not. */
#include "tests/support/fleet_fake.h"

#include <poll.h>
#include <string.h>

#define PEERS 5u
#define PORTS 2u

/* The behaviour of a peer with its rails. */
typedef enum manner {
    NEVER_CLOSED, /* does not answer CLOSE */
    NEVER_OPENED, /* does not answer OPEN */
    NEVER_LANDED, /* does not answer LOOK */
    NOTHING_LANDS,
    CROSSES /* says that a port failed while it answers OPEN */
} manner;

typedef struct mad {
    const char *name;
    manner manner;
    const char *word; /* word in the error when the peer is lost; NULL: it is not lost */
    fleet_fake fake;
    weft_port *second;
    weft_region *second_region;
    uint64_t arrivals[PORTS];
    uint32_t turn; /* of the first port */
    bool open, welcome, up, said;
} mad;

static mad all[PEERS];

static const mad manners[PEERS] = {{.name = "b", .manner = NEVER_CLOSED, .word = "CLOSE"},
                                   {.name = "c", .manner = NEVER_OPENED, .word = "OPEN"},
                                   {.name = "x1", .manner = NEVER_LANDED, .word = "LOOK"},
                                   {.name = "x2", .manner = NOTHING_LANDS, .word = "writes did not come"},
                                   {.name = "x3", .manner = CROSSES}};

static void say_landed(mad *m, bool failed)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_landed landed = {.count = PORTS};
    for (uint32_t at = 0; at < PORTS; at++)
        landed.port[at].writes = m->manner == NOTHING_LANDS && m->arrivals[at] ? 1 : m->arrivals[at];
    landed.port[0].turn = m->turn;
    landed.port[0].failed = failed;
    if (m->turn > 0)
        landed.port[0].writes = 0;
    weft_wire_put_landed(&out, &landed);
    fake_say(&m->fake, WEFT_MESSAGE_LANDED, &out);
}

/* Takes what comes through the peer's ports. Once all carry, the peer reports that to the trainer and, mostly, that one
 * failed. */
static void take_arrivals(mad *m)
{
    weft_port *const ports[PORTS] = {m->fake.port, m->second};
    weft_completion list[16];
    for (uint32_t at = 0; at < PORTS; at++)
        for (size_t count; (count = weft_provider_loop.poll(ports[at], list, 16)) > 0;)
            for (size_t i = 0; i < count; i++)
                m->arrivals[at] += list[i].kind == WEFT_COMPLETION_ARRIVED;
    if (!m->welcome || m->up || !m->arrivals[0] || !m->arrivals[1])
        return;
    m->up = true;
    say_landed(m, false);
    if (m->manner != NEVER_LANDED && m->manner != NOTHING_LANDS)
        say_landed(m, true);
}

static void say_closed(mad *m, const uint8_t *body, uint64_t length)
{
    uint8_t mine[WEFT_MESSAGE_MAX];
    weft_out out = {mine, sizeof mine, 0, false};
    weft_wire_close close;
    assert_int_equal(weft_wire_get_close(body, length, &close), WEFT_OK);
    weft_wire_put_closed(&out, &(weft_wire_closed){.port = close.port, .turn = close.turn});
    fake_say(&m->fake, WEFT_MESSAGE_CLOSED, &out);
}

/* The first answer follows a word that the port failed, so that CLOSE crosses it; the others are that it cannot now. */
static void say_opened(mad *m, const uint8_t *body, uint64_t length)
{
    uint8_t mine[WEFT_MESSAGE_MAX];
    weft_out out = {mine, sizeof mine, 0, false};
    weft_wire_open open, opened = {0};
    assert_int_equal(weft_wire_get_open(body, length, &open), WEFT_OK);
    m->said = m->turn > 0; /* it is spoken to yet */
    m->turn = opened.turn = open.turn;
    opened.port = open.port;
    if (m->turn == 1) {
        say_landed(m, true);
        memcpy(opened.at.address, open.at.address, open.at.address_bytes);
        opened.at.address_bytes = open.at.address_bytes;
    }
    weft_wire_put_opened(&out, &opened);
    fake_say(&m->fake, WEFT_MESSAGE_OPENED, &out);
}

static void hear(mad *m)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length = 0;
    const uint32_t type = fake_read(&m->fake, body, &length);
    m->open = type != 0;
    m->welcome = m->welcome || type == WEFT_MESSAGE_WELCOME;
    if (type == WEFT_MESSAGE_PING)
        fake_say(&m->fake, WEFT_MESSAGE_PONG, &(weft_out){body, length, length, false});
    else if (type == WEFT_MESSAGE_LOOK && m->manner != NEVER_LANDED)
        say_landed(m, false);
    else if (type == WEFT_MESSAGE_CLOSE && m->manner != NEVER_CLOSED)
        say_closed(m, body, length);
    else if (type == WEFT_MESSAGE_OPEN && m->manner != NEVER_OPENED)
        say_opened(m, body, length);
}

/* One round of all of them; how many are still connected. */
static unsigned play(void)
{
    struct pollfd wait[PEERS];
    unsigned open = 0;
    for (unsigned i = 0; i < PEERS; i++)
        wait[i] = (struct pollfd){.fd = all[i].open ? all[i].fake.fd : -1, .events = POLLIN};
    poll(wait, PEERS, 5);
    for (unsigned i = 0; i < PEERS; i++) {
        if (wait[i].revents)
            hear(&all[i]);
        if (all[i].open)
            take_arrivals(&all[i]);
        open += all[i].open;
    }
    return open;
}

static void join(fleet *f, mad *m)
{
    const weft_provider *loop = &weft_provider_loop;
    weft_wire_hello hello;
    fake_open(&m->fake, f);
    fake_hello(&m->fake, f, m->name, f->history[0].root, &hello);
    assert_int_equal(loop->port_open(m->fake.link, &m->second), WEFT_OK);
    assert_int_equal(loop->region_open(m->fake.link, m->second, m->fake.memory, hello.slot_stride * hello.slots, true,
                                       &m->second_region),
                     WEFT_OK);
    hello.further = hello.further_rails = PORTS - 1;
    assert_int_equal(loop->port_address(m->second, hello.more[0].address, &hello.more[0].address_bytes), WEFT_OK);
    loop->region_remote(m->second_region, &hello.more[0].region_address, &hello.more[0].region_key);
    fake_send_hello(&m->fake, &hello);
    m->open = true;
}

static int setup(void **state)
{
    static const char *const site[] = {"trainer.address=r0, r1", "peers.address=r0, r1", "provider.loop.chunk=32KiB",
                                       "session.io_deadline=2s", "peers.heartbeat=2s",   NULL};
    fleet *f = *state = fleet_open(FLEET_TILES, site);
    fleet_start_trainer(f, NULL);
    memcpy(all, manners, sizeof all);
    for (unsigned i = 0; i < PEERS; i++)
        join(f, &all[i]);
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < PEERS; i++) {
        weft_provider_loop.region_close(all[i].second_region);
        weft_provider_loop.port_close(all[i].second);
        fake_close(&all[i].fake);
    }
    fleet_close(*state);
    return 0;
}

static bool all_up(void)
{
    bool up = true;
    for (unsigned i = 0; i < PEERS; i++)
        up = up && all[i].up;
    return up;
}

/* Why it was lost, among all that happened. */
static void check_lost(const weft_event *event)
{
    for (unsigned i = 0; i < PEERS; i++)
        if (strcmp(event->peer, all[i].name) == 0) {
            if (!all[i].word || !strstr(event->text, all[i].word))
                fail_msg("%s was lost: %s", event->peer, event->text);
            all[i].said = true;
        }
}

static void answers_late_or_never(void **state)
{
    fleet *f = *state;
    const uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS;
    weft_event event;
    while (!all_up()) {
        assert_true(fleet_now_ms() < until_ms);
        play();
    }
    fleet_publish(f, 300);
    while (play() > 1 || !all[CROSSES].said)
        if (fleet_now_ms() > until_ms)
            fail_msg("%u peers are not lost; the last %s", play(), all[CROSSES].said ? "stays" : "was not tried again");
    assert_true(all[CROSSES].open);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, PEERS - 1);
    while (fleet_event(f->trainer.session, WEFT_EVENT_LOST, NULL, 0, &event))
        check_lost(&event);
    for (unsigned i = 0; i < PEERS; i++)
        assert_true(all[i].said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_late_or_never, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
