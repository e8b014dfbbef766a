/* A relay with one child that has joined: the slots that buckets go to, and the moments when the child gets PASSING. */
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "relay/relay.h"
#include "tests/support/control_pair.h"

#define SLOTS    4u
#define BLOCKS   8u
#define OWN      2u /* slots of the child's own stream */
#define STRIDE   (WEFT_SLOT_HEADER_BYTES + 4096u)
#define EVERY_NS (10000 * WEFT_NS_PER_MS) /* from one PASSING to the next */

typedef struct world {
    weft_site site;
    weft_layout layout;
    weft_session session;
    weft_rollout rollout;
    weft_relay relay;
    weft_relay_outlet outlet;
    weft_relay_block blocks[BLOCKS + OWN];
    weft_slot own[OWN];
    weft_child child;
    uint32_t queue[BLOCKS];
    uint8_t memory[BLOCKS * STRIDE], headers[WEFT_CHILD_SLOTS * WEFT_RELAY_HEADER];
    weft_control trainer, rollout_end; /* the far ends of the child's connections */
    uint32_t slots[16], slot_count;    /* to which buckets went, in this order */
    uint64_t cookies[16], cookie_count;
} world;

/* ---- a provider that takes every write and tells of it at the next poll; a port is the world */

static weft_status take_write(weft_port *port, const weft_write *write)
{
    world *w = (world *)port;
    assert_true(w->cookie_count < 16 && w->slot_count < 16);
    w->cookies[w->cookie_count++] = write->cookie;
    if (write->bytes == WEFT_BUCKET_HEADER_BYTES)
        w->slots[w->slot_count++] = (uint32_t)(write->remote_address / STRIDE);
    return WEFT_OK;
}

static size_t tell_writes(weft_port *port, weft_completion *list, size_t capacity)
{
    world *w = (world *)port;
    size_t count = 0;
    while (w && w->cookie_count > 0 && count < capacity)
        list[count++] = (weft_completion){.kind = WEFT_COMPLETION_WRITTEN, .cookie = w->cookies[--w->cookie_count]};
    return count;
}

static void forget_writes(weft_port *port)
{
    ((world *)port)->cookie_count = 0;
}

static const weft_provider provider = {
    .name = "test", .write = take_write, .poll = tell_writes, .port_close = forget_writes};

/* ---- the relay */

static void connect_ends(weft_control *near_end, weft_control *far_end)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(weft_control_open(near_end), WEFT_OK);
    assert_int_equal(weft_control_open(far_end), WEFT_OK);
    weft_control_adopt(near_end, fd[0], 1000);
    weft_control_adopt(far_end, fd[1], 1000);
}

static int open_world(void **state)
{
    static world w;
    setup(state);
    memset(&w, 0, sizeof w);
    w.site.session.io_deadline_ms = w.site.commit.deadline_ms = 4 * EVERY_NS / WEFT_NS_PER_MS;
    w.session.site = &w.site;
    w.session.layout = &w.layout;
    w.rollout.session = &w.session;
    w.rollout.intake.provider = &provider;
    w.outlet = (weft_relay_outlet){.provider = &provider, .facts.depth = 64};
    w.relay = (weft_relay){.rollout = &w.rollout,
                           .listen_fd = -1,
                           .memory = w.memory,
                           .stride = STRIDE,
                           .block_count = BLOCKS,
                           .shared_count = BLOCKS,
                           .blocks = w.blocks,
                           .headers = w.headers,
                           .children = &w.child,
                           .child_count = 1};
    w.child.state = WEFT_CHILD_JOINED;
    w.child.outlet = &w.outlet;
    w.child.port = (weft_port *)&w;
    w.child.chunk_bytes = STRIDE;
    w.child.queue = w.queue;
    w.child.hello.slots = SLOTS;
    w.child.hello.slot_stride = STRIDE;
    w.child.own.slot = w.own;
    w.child.own.count = OWN;
    weft_log_limit_open(&w.relay.strangers, &quiet, 1);
    weft_log_limit_open(&w.child.limit, &quiet, 1);
    connect_ends(&w.child.up, &w.trainer);
    connect_ends(&w.child.down, &w.rollout_end);
    *state = &w;
    return 0;
}

static int close_world(void **state)
{
    world *w = *state;
    weft_control *ends[4] = {&w->child.up, &w->child.down, &w->trainer, &w->rollout_end};
    for (int i = 0; i < 4; i++)
        weft_control_close(ends[i]);
    return 0;
}

/* A bucket for the child, which waits in a free block. */
static void queue_bucket(world *w)
{
    uint32_t block = 0;
    while (w->blocks[block].readers > 0)
        block++;
    w->blocks[block] = (weft_relay_block){.header.payload_bytes = 100, .readers = 1};
    w->queue[(w->child.queue_begin + w->child.queue_count++) % BLOCKS] = block;
}

/* The next bucket goes to this slot. */
static void goes_to(world *w, uint32_t slot)
{
    weft_waits waits = {.wake_ns = UINT64_MAX};
    bool any = false;
    const uint32_t before = w->slot_count;
    queue_bucket(w);
    assert_int_equal(weft_child_pump(&w->relay, &w->child, weft_clock_ns(), &waits), WEFT_OK);
    assert_int_equal(w->slot_count, before + 1);
    assert_int_equal(w->slots[before], slot);
    assert_int_equal(weft_child_poll(&w->relay, &w->child, weft_clock_ns(), &any), WEFT_OK);
}

static void grants(world *w, uint32_t slot)
{
    const weft_wire_receipt receipt = {.sequence = w->child.passing[slot].sequence, .slot = slot};
    assert_int_equal(weft_child_receipt(&w->relay, &w->child, &receipt), WEFT_OK);
}

/* Slots are used in turn, and one that is not granted yet is passed over. */
static void slots_granted_out_of_order(void **state)
{
    world *w = *state;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        goes_to(w, slot);
    grants(w, 2);
    goes_to(w, 2);
    grants(w, 1);
    grants(w, 0);
    goes_to(w, 0);
    goes_to(w, 1);
    grants(w, 3);
    grants(w, 1);
    goes_to(w, 3);
    goes_to(w, 1);
}

/* True if the child gets PASSING in a step. */
static bool told_passing(world *w)
{
    weft_waits waits = {.wake_ns = UINT64_MAX};
    const uint64_t before_ns = weft_clock_ns(), next_ns = w->child.told_ns + EVERY_NS;
    weft_message type;
    const uint8_t *body;
    uint64_t length;
    weft_relay_step(&w->relay, &waits);
    assert_int_equal(w->child.state, WEFT_CHILD_JOINED);
    assert_in_range(waits.wake_ns, before_ns, next_ns > before_ns ? next_ns : weft_clock_ns() + EVERY_NS);
    assert_int_equal(weft_control_fill(&w->rollout_end), WEFT_OK);
    if (weft_control_next(&w->rollout_end, &type, &body, &length) == WEFT_AGAIN)
        return false;
    assert_int_equal(type, WEFT_MESSAGE_PASSING);
    assert_int_equal(length, 0);
    weft_control_drop(&w->rollout_end);
    assert_int_equal(weft_control_next(&w->rollout_end, &type, &body, &length), WEFT_AGAIN);
    return true;
}

/* The child got PASSING `ago_ns` ago, and buckets of the update came in since. */
static void more_comes_in(world *w, uint64_t ago_ns)
{
    w->child.told_ns = weft_clock_ns() - ago_ns;
    w->rollout.intake.moved_ns = w->child.moved_ns = w->child.told_ns + 1;
}

/* A child that has taken all gets PASSING. Another child must notice by itself whether its buckets are lost. */
static void passing_to_who_has_taken_all(void **state)
{
    world *w = *state;
    w->child.open = 1;
    more_comes_in(w, 2 * EVERY_NS);
    queue_bucket(w);
    assert_false(told_passing(w)); /* the bucket waits, and leaves in this step */
    assert_int_equal(w->slot_count, 1);
    assert_false(told_passing(w)); /* the bucket is on its way */
    grants(w, 0);
    assert_true(told_passing(w));
}

/* PASSING comes for either stream, once in its time, and only where something has come in since the last one. */
static void passing_while_something_comes_in(void **state)
{
    world *w = *state;
    w->child.open = 1;
    more_comes_in(w, 2 * EVERY_NS);
    w->rollout.intake.moved_ns = w->child.told_ns;
    assert_true(told_passing(w));
    assert_false(told_passing(w));
    more_comes_in(w, 2 * EVERY_NS);
    w->child.moved_ns = w->child.told_ns;
    assert_true(told_passing(w));
    more_comes_in(w, EVERY_NS / 2);
    assert_false(told_passing(w));
    more_comes_in(w, 2 * EVERY_NS);
    w->rollout.intake.moved_ns = w->child.moved_ns = w->child.told_ns;
    assert_false(told_passing(w));
}

/* A child to which no update was announced waits for nothing. */
static void no_passing_without_an_update(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    more_comes_in(w, 2 * EVERY_NS);
    weft_relay_step(&w->relay, &waits);
    assert_int_equal(waits.wake_ns, UINT64_MAX);
    assert_int_equal(weft_control_fill(&w->rollout_end), WEFT_OK);
    assert_int_equal(w->rollout_end.in_used, 0);
}

/* The relay was refused because nothing can be joined yet. It says so once to its children, and closes. */
static void too_early_is_said_once(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    weft_message type;
    const uint8_t *body;
    uint64_t length;
    w->rollout.joining.later = true;
    w->child.greeted = true;
    weft_child_enter(&w->child, WEFT_CHILD_GUEST);
    for (int steps = 0; steps < 3; steps++)
        weft_relay_step(&w->relay, &waits);
    assert_int_equal(weft_control_fill(&w->rollout_end), WEFT_E_PEER_LOST);
    assert_int_equal(weft_control_next(&w->rollout_end, &type, &body, &length), WEFT_OK);
    assert_int_equal(type, WEFT_MESSAGE_PASSING);
    weft_control_drop(&w->rollout_end);
    assert_int_equal(weft_control_next(&w->rollout_end, &type, &body, &length), WEFT_AGAIN);
    assert_int_equal(w->child.state, WEFT_CHILD_FREE);
}

/* The relay is lost: a child that is on its way in begins anew, and one that leaves goes on to leave. */
static void children_of_a_lost_relay(void **state)
{
    world *w = *state;
    const struct {
        weft_child_state before, after;
    } rows[] = {{WEFT_CHILD_FREE, WEFT_CHILD_FREE},
                {WEFT_CHILD_GUEST, WEFT_CHILD_GUEST},
                {WEFT_CHILD_GREETING, WEFT_CHILD_GUEST},
                {WEFT_CHILD_LEAVING, WEFT_CHILD_LEAVING}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        w->child.state = rows[i].before;
        weft_relay_lose(&w->relay, WEFT_E_PEER_LOST, "a test");
        assert_int_equal(w->child.state, rows[i].after);
    }
}

/* A child's rate limit counts every byte that goes to the child. */
static void the_rate_limit_holds(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    const uint64_t now_ns = weft_clock_ns();
    weft_pace_begin(&w->child.pace, 10000);
    queue_bucket(w);
    queue_bucket(w);
    assert_int_equal(weft_child_pump(&w->relay, &w->child, now_ns, &waits), WEFT_OK);
    assert_int_equal(w->cookie_count, 1); /* the header took all that may go at once */
    assert_in_range(waits.wake_ns, now_ns + 1, now_ns + 1000 * WEFT_NS_PER_MS);
}

/* A slot of the child's own stream is free when the bucket is at the child, whichever slot that is. */
static void own_slots_are_granted_again(void **state)
{
    world *w = *state;
    for (uint32_t at = 0; at < OWN; at++) {
        w->own[at].has_header = true;
        w->blocks[BLOCKS + at].readers = 1;
    }
    for (uint32_t at = OWN; at-- > 0;) {
        weft_relay_leave(&w->relay, &w->child, BLOCKS + at);
        assert_int_equal(w->blocks[BLOCKS + at].readers, 0);
        assert_false(w->own[at].has_header);
        assert_int_equal(w->blocks[BLOCKS].readers, at > 0 ? 1 : 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slots_granted_out_of_order),   TEST(passing_to_who_has_taken_all), TEST(passing_while_something_comes_in),
        TEST(no_passing_without_an_update), TEST(too_early_is_said_once),       TEST(children_of_a_lost_relay),
        TEST(the_rate_limit_holds),         TEST(own_slots_are_granted_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
