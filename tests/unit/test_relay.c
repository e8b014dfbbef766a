/* A relay with one child that has joined: the slots that buckets go to, and the moments when the child gets PASSING. */
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "relay/relay.h"
#include "tests/support/control_pair.h"
#include "tests/support/site_load.h"
#include "tests/support/wire_samples.h"
#include "wire/greeting.h"

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
    weft_relay_block blocks[BLOCKS + OWN];
    weft_slot own[OWN];
    weft_child child;
    uint32_t queue[BLOCKS];
    uint8_t memory[BLOCKS * STRIDE], headers[2 * WEFT_CHILD_SLOTS * WEFT_HEADER_STRIDE];
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

/* As where no descriptor is left. */
static weft_status open_no_port(weft_link *link, weft_port **port)
{
    (void)link;
    *port = NULL;
    return WEFT_E_SYSTEM;
}

static const weft_provider provider = {
    .name = "test", .write = take_write, .poll = tell_writes, .port_open = open_no_port, .port_close = forget_writes};

/* ---- the relay */

/* Makes a child of the relay's that has joined, by a port or by none. */
static void child_joins(world *w, weft_child *child, uint32_t place, weft_port *port)
{
    weft_outlet *outlet = &w->relay.outlets.list[0];
    child->state = WEFT_CHILD_JOINED;
    child->relay = &w->relay;
    child->hello.slots = SLOTS;
    child->hello.slot_stride = STRIDE;
    weft_send_bind(&child->sender, &w->relay.outlets, place);
    child->sender.control = &child->down;
    child->sender.hello = &child->hello;
    child->sender.site = &child->site;
    child->sender.flights.give = weft_child_leave;
    child->sender.posting.chunk_bytes = STRIDE;
    child->sender.rails = (weft_rails){.outlet = outlet, .count = 1, .used = 1};
    child->sender.rails.list[0] = (weft_rail){.state = WEFT_RAIL_UP, .outlet = outlet, .port = port};
    weft_send_open(&child->sender);
}

static int open_world(void **state)
{
    static world w;
    be_quiet(state);
    memset(&w, 0, sizeof w);
    w.site.session.io_deadline_ms = w.site.commit.deadline_ms = 4 * EVERY_NS / WEFT_NS_PER_MS;
    w.session.site = &w.site;
    w.session.layout = &w.layout;
    w.rollout.session = &w.session;
    w.rollout.intake.provider = &provider;
    w.relay = (weft_relay){.rollout = &w.rollout,
                           .door = {&w.session, &weft_relay_places, &w.relay, .listen_fd = -1},
                           .buffers.slabs = {.memory = w.memory, .slab_bytes = STRIDE, .count = BLOCKS},
                           .buffers.headers = w.headers,
                           .buffers.slots_most = WEFT_CHILD_SLOTS,
                           .shared_count = BLOCKS,
                           .blocks = w.blocks,
                           .children = &w.child,
                           .child_count = 1};
    w.relay.outlets = (weft_outlets){
        .session = &w.session, .relay = w.relay.listen, .buffers = &w.relay.buffers, .count = WEFT_RELAY_OUTLETS};
    w.relay.outlets.list[0] = (weft_outlet){.provider = &provider, .facts.depth = 64};
    child_joins(&w, &w.child, 0, (weft_port *)&w);
    w.child.queue = w.queue;
    w.child.own.slot = w.own;
    w.child.own.count = OWN;
    weft_log_limit_open(&w.relay.door.strangers, &quiet, 1);
    weft_log_limit_open(&w.child.limit, &quiet, 1);
    connect_pair(&w.child.up, &w.trainer);
    connect_pair(&w.child.down, &w.rollout_end);
    *state = &w;
    return 0;
}

/* The child, and another one that has joined beside it, with nothing under way. */
static weft_child *pair_up(world *w)
{
    static weft_child pair[2];
    static uint32_t queue[BLOCKS];
    pair[0] = w->child;
    pair[1] = (weft_child){.queue = queue};
    child_joins(w, &pair[0], 0, (weft_port *)w);
    child_joins(w, &pair[1], 1, NULL);
    weft_log_limit_open(&pair[1].limit, &quiet, 1);
    assert_int_equal(weft_control_open(&pair[1].up), WEFT_OK);
    assert_int_equal(weft_control_open(&pair[1].down), WEFT_OK);
    w->relay.children = pair;
    w->relay.child_count = 2;
    return pair;
}

static void part(world *w)
{
    weft_control_close(&w->relay.children[1].up);
    weft_control_close(&w->relay.children[1].down);
    w->child = w->relay.children[0];
    child_joins(w, &w->child, 0, (weft_port *)w);
    w->relay.children = &w->child;
    w->relay.child_count = 1;
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
    assert_int_equal(weft_child_pump(&w->child, weft_clock_ns(), &waits), WEFT_OK);
    assert_int_equal(w->slot_count, before + 1);
    assert_int_equal(w->slots[before], slot);
    assert_int_equal(weft_send_poll(&w->child.sender, weft_clock_ns(), &any), WEFT_OK);
}

static void grants(world *w, uint32_t slot)
{
    const weft_wire_receipt receipt = {.sequence = w->child.sender.flights.list[slot].sequence, .slot = slot};
    assert_int_equal(weft_child_receipt(&w->child, &receipt), WEFT_OK);
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
    weft_pace_begin(&w->child.sender.posting.pace, 10000);
    queue_bucket(w);
    queue_bucket(w);
    assert_int_equal(weft_child_pump(&w->child, now_ns, &waits), WEFT_OK);
    assert_int_equal(w->cookie_count, 1); /* the header took all that may go at once */
    assert_in_range(waits.wake_ns, now_ns + 1, now_ns + 1000 * WEFT_NS_PER_MS);
}

/* A slot of the child's own stream is free when the bucket is at the child, whichever slot that is. */
static void own_slots_are_granted_again(void **state)
{
    world *w = *state;
    weft_message type;
    const uint8_t *body;
    uint64_t length;
    weft_wire_receipt receipt;
    for (uint32_t at = 0; at < OWN; at++) {
        w->own[at].has_header = true;
        w->own[at].header.sequence = 40 + at;
        w->blocks[BLOCKS + at].readers = 1;
    }
    for (uint32_t at = OWN; at-- > 0;) {
        weft_child_leave(&w->child.sender.flights, (int32_t)(BLOCKS + at));
        assert_int_equal(w->blocks[BLOCKS + at].readers, 0);
        assert_false(w->own[at].has_header);
        assert_int_equal(w->blocks[BLOCKS].readers, at > 0 ? 1 : 0);
        assert_int_equal(weft_control_flush(&w->child.up), WEFT_OK);
        assert_int_equal(weft_control_fill(&w->trainer), WEFT_OK);
        assert_int_equal(weft_control_next(&w->trainer, &type, &body, &length), WEFT_OK);
        assert_int_equal(weft_wire_get_receipt(body, length, &receipt), WEFT_OK);
        assert_true(type == WEFT_MESSAGE_RECEIPT && receipt.slot == at && receipt.sequence == 40 + at);
        weft_control_drop(&w->trainer);
    }
}

/* Whole buckets of the child's own stream go on in the order in which they were sent. */
static void own_buckets_in_order(void **state)
{
    world *w = *state;
    bool any = false;
    for (uint64_t came = 1; came < 4; came++) { /* the second, the first in part, and the rest of that */
        w->own[0] = (weft_slot){.has_header = true, .count = 2, .header = {.sequence = 1, .chunks = 1}};
        w->own[1] = (weft_slot){.has_header = came > 1, .count = came > 2 ? 2 : 1, .header = {.chunks = 1}};
        w->child.own_port = (weft_port *)w;
        w->cookie_count = 1;
        assert_int_equal(weft_child_arrivals(&w->relay, &w->child, &any), WEFT_OK);
        assert_int_equal(w->child.queue_count, came > 2 ? 2 : 0);
    }
    assert_true(w->queue[0] == BLOCKS + 1 && w->queue[1] == BLOCKS);
    w->child.own_port = NULL;
}

/* ---- what is passed on */

static const weft_version followed = {7, 3, 0}; /* the trailer alone names the root */

/* A bucket of the update that the child follows, whole in the relay's first slot. */
static void bucket_comes(world *w, weft_bucket_kind kind, uint64_t bytes, uint64_t check)
{
    static weft_slot slot;
    static uint8_t memory[STRIDE];
    memset(memory + WEFT_SLOT_HEADER_BYTES, 5, bytes);
    slot = (weft_slot){.has_header = true, .count = 2};
    slot.header =
        (weft_wire_bucket){.kind = kind, .target = followed, .payload_bytes = bytes, .chunks = 1, .check = check};
    slot.header.sequence = w->relay.pass_sequence;
    w->rollout.intake.slots = (weft_slots){.slot = &slot, .count = 1, .memory = memory, .stride = STRIDE};
    w->rollout.arriving.queue[0].header.target = followed;
    w->rollout.arriving.queued = 1;
    weft_relay_pass(&w->relay);
}

/* Bytes that are not what their header says go to nobody, and the stream stands there until the relay's own take. */
static void damage_is_not_passed_on(void **state)
{
    world *w = *state;
    uint8_t bytes[300];
    memset(bytes, 5, sizeof bytes);
    const uint64_t right = XXH3_64bits(bytes, sizeof bytes), none = XXH3_64bits(bytes, 0);
    const struct {
        weft_bucket_kind kind;
        uint64_t bytes, check;
        bool passed;
    } rows[] = {{WEFT_BUCKET_ATTACHMENT, 300, right, true},  {WEFT_BUCKET_ATTACHMENT, 300, right ^ 1, false},
                {WEFT_BUCKET_ATTACHMENT, 299, right, false}, {WEFT_BUCKET_FRAMES, 0, none, true},
                {WEFT_BUCKET_FRAMES, 0, none + 1, false},    {WEFT_BUCKET_FRAMES, 300, none, false}};
    w->child.follows[2] = followed;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t queued = w->child.queue_count;
        const uint64_t next = w->relay.pass_sequence;
        bucket_comes(w, rows[i].kind, rows[i].bytes, rows[i].check);
        if (w->child.queue_count - queued != rows[i].passed || w->relay.pass_sequence - next != rows[i].passed)
            fail_msg("row %zu", i);
    }
}

/* The relay's own stream: two buckets in slots 0 and 1, of which the child follows the update, or of another one. */
static void buckets_in_order(void **state)
{
    static const struct {
        uint64_t sequence[2];
        uint32_t count; /* of the bucket in slot 0; two are all */
        bool unknown, snapshot, other;
        uint32_t passed, queued;
    } rows[] = {
        {{0, 1}, 2, false, false, false, 2, 2}, {{1, 0}, 2, false, false, false, 2, 2},
        {{1, 2}, 2, false, false, false, 0, 0}, {{0, 1}, 1, false, false, false, 0, 0},
        {{1, 0}, 1, false, false, false, 1, 1}, {{0, 1}, 2, true, false, false, 0, 0}, /* FOLLOW may still come */
        {{0, 1}, 2, false, true, false, 2, 0}, /* the relay's snapshot is its own */
        {{0, 1}, 2, false, false, true, 2, 0},
    };
    world *w = *state;
    static weft_slot slots[2];
    static uint8_t memory[2 * STRIDE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        w->relay.pass_sequence = 0;
        w->child.queue_begin = w->child.queue_count = 0;
        memset(w->blocks, 0, sizeof w->blocks);
        for (uint32_t at = 0; at < 2; at++) {
            slots[at] = (weft_slot){.has_header = true, .count = at ? 2 : rows[i].count};
            slots[at].header = (weft_wire_bucket){.kind = WEFT_BUCKET_FRAMES,
                                                  .target = followed,
                                                  .chunks = 1,
                                                  .sequence = rows[i].sequence[at],
                                                  .check = XXH3_64bits(memory, 0)};
        }
        w->rollout.intake.slots = (weft_slots){.slot = slots, .count = 2, .memory = memory, .stride = STRIDE};
        w->child.follows[0] = followed;
        w->child.follows[0].number += rows[i].other;
        w->rollout.arriving.queue[0].header = (weft_wire_update){.target = followed, .snapshot = rows[i].snapshot};
        w->rollout.arriving.queued = !rows[i].unknown;
        weft_relay_pass(&w->relay);
        if (w->relay.pass_sequence != rows[i].passed || w->child.queue_count != rows[i].queued)
            fail_msg("row %zu", i);
        for (uint32_t at = 0; at < rows[i].queued; at++)
            assert_int_equal(w->blocks[w->queue[at]].header.sequence, at);
    }
}

/* Of two children each gets the buckets of what it follows. Where both are as far behind, the one that has granted
 * nothing for longest makes room. */
static void one_of_two(void **state)
{
    world *w = *state;
    weft_child *pair = pair_up(w);
    pair[0].follows[0] = followed;
    pair[1].follows[0] = (weft_version){7, 2, 0};
    bucket_comes(w, WEFT_BUCKET_FRAMES, 0, XXH3_64bits("", 0));
    assert_true(pair[0].queue_count == 1 && pair[1].queue_count == 0);
    memset(w->blocks, 0, sizeof w->blocks);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        w->blocks[block].readers = 1;
        pair[block / (BLOCKS / 2)].queue[block % (BLOCKS / 2)] = block;
    }
    pair[0].queue_count = pair[1].queue_count = BLOCKS / 2;
    pair[0].granted_ns = 5;
    pair[1].granted_ns = 3;
    bucket_comes(w, WEFT_BUCKET_FRAMES, 0, XXH3_64bits("", 0));
    assert_true(pair[0].state == WEFT_CHILD_JOINED && pair[1].state == WEFT_CHILD_LEAVING);
    part(w);
}

/* Only who follows gets a bucket, from HELLO on, and no more once the update is not followed. */
static void who_follows_gets_it(void **state)
{
    world *w = *state;
    uint8_t bytes[300], body[WEFT_MESSAGE_MAX];
    memset(bytes, 5, sizeof bytes);
    const uint64_t right = XXH3_64bits(bytes, sizeof bytes);
    const struct {
        weft_child_state state;
        uint32_t route;
        bool unfollowed, gets;
    } rows[] = {{WEFT_CHILD_JOINED, 4, false, true},    {WEFT_CHILD_GREETING, 4, false, true},
                {WEFT_CHILD_KNOCKING, 4, false, false}, {WEFT_CHILD_LEAVING, 4, false, false},
                {WEFT_CHILD_JOINED, 5, false, false},   {WEFT_CHILD_JOINED, 4, true, false}};
    w->child.route = 4;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_out out = {body, sizeof body, 0, false};
        const weft_wire_follow follow = {.target = followed, .count = 1, .routes = {rows[i].route}};
        const uint32_t queued = w->child.queue_count;
        weft_wire_put_follow(&out, &follow);
        w->child.state = rows[i].state;
        memset(w->child.follows, 0, sizeof w->child.follows);
        assert_int_equal(weft_relay_follow(&w->relay, out.data, out.used), WEFT_OK);
        if (rows[i].unfollowed)
            weft_relay_unfollow(&w->relay, &followed);
        bucket_comes(w, WEFT_BUCKET_ATTACHMENT, 300, right);
        if (w->child.queue_count - queued != rows[i].gets)
            fail_msg("row %zu", i);
    }
    w->child.state = WEFT_CHILD_JOINED;
}

/* Which updates a child follows is forgotten with its connection, also where the next one does not come about. */
static void who_greets_anew_follows_nothing(void **state)
{
    world *w = *state;
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_greeting(&out, &(weft_wire_greeting){WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL, 9});
    w->child.follows[2] = followed;
    assert_int_equal(weft_child_greeting(&w->relay, &w->child, out.data, out.used), WEFT_E_SYSTEM);
    bucket_comes(w, WEFT_BUCKET_FRAMES, 0, XXH3_64bits("", 0));
    assert_int_equal(w->child.queue_count, 0);
}

/* A child that holds all blocks makes room: the trainer hears why, and the child joins again. */
static void who_is_behind_makes_room(void **state)
{
    world *w = *state;
    weft_message type;
    const uint8_t *body;
    uint64_t length;
    weft_wire_notice notice;
    w->child.follows[0] = followed;
    for (uint32_t block = 0; block < BLOCKS; block++)
        queue_bucket(w);
    bucket_comes(w, WEFT_BUCKET_ATTACHMENT, 1, 0);
    assert_int_equal(w->child.state, WEFT_CHILD_LEAVING);
    for (uint32_t block = 0; block < BLOCKS; block++)
        assert_int_equal(w->blocks[block].readers, 0);
    assert_int_equal(weft_control_flush(&w->child.up), WEFT_OK);
    assert_int_equal(weft_control_fill(&w->trainer), WEFT_OK);
    assert_int_equal(weft_control_next(&w->trainer, &type, &body, &length), WEFT_OK);
    assert_int_equal(type, WEFT_MESSAGE_FAULT);
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    assert_int_equal(notice.status, WEFT_E_BUDGET);
}

/* ---- what is under way */

/* A block is not free while the provider still reads from there, though the child has taken what came. */
static void a_block_that_is_read(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    bool any = false;
    queue_bucket(w);
    assert_int_equal(weft_child_pump(&w->child, weft_clock_ns(), &waits), WEFT_OK);
    grants(w, 0);
    assert_int_equal(w->blocks[0].readers, 1);
    assert_int_equal(weft_send_poll(&w->child.sender, weft_clock_ns(), &any), WEFT_OK);
    assert_int_equal(w->blocks[0].readers, 0);
}

/* No more writes are under way than the outlet takes, and no more slots are used than the child has. */
static void bounds_of_a_child(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    for (uint32_t i = 0; i < SLOTS + 1; i++)
        queue_bucket(w);
    w->relay.outlets.list[0].facts.depth = 3;
    assert_int_equal(weft_child_pump(&w->child, weft_clock_ns(), &waits), WEFT_OK);
    assert_int_equal(w->child.sender.flights.writes, 3);
    w->relay.outlets.list[0].facts.depth = 64;
    assert_int_equal(weft_child_pump(&w->child, weft_clock_ns(), &waits), WEFT_OK);
    assert_int_equal(w->child.sender.flights.slots_free, 0);
    assert_int_equal(w->child.queue_count, 1);
}

/* ---- what is said at which moment */

/* A child that is not joined has nothing to say to the trainer: it is lost, and the trainer hears nothing. */
static void messages_before_welcome(void **state)
{
    world *w = *state;
    const struct {
        weft_child_state state;
        weft_message type;
        bool stays, passed;
    } rows[] = {{WEFT_CHILD_JOINED, WEFT_MESSAGE_HELD, true, true},
                {WEFT_CHILD_GUEST, WEFT_MESSAGE_HELLO, false, false}, /* a knock of one that said HELLO */
                {WEFT_CHILD_GREETING, WEFT_MESSAGE_HELD, false, false},
                {WEFT_CHILD_KNOCKING, WEFT_MESSAGE_WANT, false, false},
                {WEFT_CHILD_GUEST, WEFT_MESSAGE_FAULT, false, false},
                {WEFT_CHILD_JOINED, WEFT_MESSAGE_RECEIPT, false, false}}; /* of a bucket that never was */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_message type;
        const uint8_t *body, receipt[40] = {0};
        uint64_t length;
        weft_waits waits = {.wake_ns = UINT64_MAX};
        close_world(state);
        open_world(state);
        w->child.greeted = rows[i].state != WEFT_CHILD_GUEST || rows[i].type == WEFT_MESSAGE_HELLO;
        w->child.open = 1;
        w->child.own_port = NULL;
        weft_child_enter(&w->child, rows[i].state);
        const uint64_t bytes = rows[i].type == WEFT_MESSAGE_RECEIPT ? 28 : 0;
        assert_int_equal(rows[i].type == WEFT_MESSAGE_HELLO
                             ? weft_greeting_ask(&w->rollout_end)
                             : weft_control_send(&w->rollout_end, rows[i].type, receipt, bytes),
                         WEFT_OK);
        assert_int_equal(weft_control_flush(&w->rollout_end), WEFT_OK);
        weft_relay_step(&w->relay, &waits);
        if ((w->child.state == rows[i].state) != rows[i].stays)
            fail_msg("row %zu: state %d", i, (int)w->child.state);
        weft_control_fill(&w->trainer);
        if ((weft_control_next(&w->trainer, &type, &body, &length) == WEFT_OK) != rows[i].passed)
            fail_msg("row %zu: what the trainer heard", i);
        if (rows[i].stays)
            assert_int_equal(w->child.open, 0); /* what it holds is open no more */
    }
}

/* What a child said before it went is heard, and then the child is lost. */
static void a_child_that_went(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    weft_message type;
    const uint8_t *body;
    uint64_t length;
    assert_int_equal(weft_control_send(&w->rollout_end, WEFT_MESSAGE_BYE, NULL, 0), WEFT_OK);
    assert_int_equal(weft_control_flush(&w->rollout_end), WEFT_OK);
    weft_control_hang_up(&w->rollout_end);
    weft_relay_step(&w->relay, &waits);
    assert_true(w->child.state == WEFT_CHILD_LEAVING || w->child.state == WEFT_CHILD_FREE);
    weft_control_fill(&w->trainer);
    assert_int_equal(weft_control_next(&w->trainer, &type, &body, &length), WEFT_OK);
    assert_int_equal(type, WEFT_MESSAGE_BYE);
}

/* ---- HELLO */

/* What is the relay's own reason is not final for the child; what the trainer would say too, is. */
static void hello_is_judged(void **state)
{
    static const struct {
        uint32_t hops, chunk_bytes;
        uint64_t stride, nonce_off;
        const char *name;
        weft_status told;
    } rows[] = {
        {0, 1 << 20, STRIDE, 0, "r0", WEFT_OK},
        {WEFT_SITE_HOPS - 1, 1 << 20, STRIDE, 0, "r0", WEFT_OK},
        {WEFT_SITE_HOPS, 1 << 20, STRIDE, 0, "r0", WEFT_E_SYSTEM},
        {0, 1 << 20, 1u << 31, 0, "r0", WEFT_E_SYSTEM}, /* by writes as the rate allows */
        {0, 1 << 20, STRIDE, 1, "r0", WEFT_E_PROTOCOL},
        {0, 1 << 20, STRIDE, 0, "r1", WEFT_E_CONFIG},
    };
    world *w = *state;
    weft_site *site = load("[peers]\nprovider = loop\nrate_limit = 1MB/s\n[peer.r0]\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t mine[WEFT_MESSAGE_MAX];
        weft_out out = {mine, sizeof mine, 0, false};
        weft_wire_hello hello = sample_hello;
        weft_wire_notice notice = {.status = WEFT_OK};
        weft_message type;
        const uint8_t *body;
        uint64_t length;
        close_world(state);
        open_world(state);
        w->session.site = site;
        w->relay.buffers.slabs.slab_bytes = w->child.own.stride = rows[i].stride;
        w->relay.outlets.list[0] =
            (weft_outlet){.provider = weft_provider_find("loop"), .link = (weft_link *)w, .facts.chunk_bytes = 1 << 20};
        w->child.state = WEFT_CHILD_GUEST;
        w->child.sender.rails.list[0].port = NULL;
        w->child.down.nonce = hello.nonce + rows[i].nonce_off;
        hello.hops = (uint8_t)rows[i].hops;
        hello.route = rows[i].hops ? 1 : 0;
        snprintf(hello.relay, sizeof hello.relay, "%s", rows[i].hops ? "r9" : "");
        snprintf(hello.name, sizeof hello.name, "%s", rows[i].name);
        snprintf(hello.provider, sizeof hello.provider, "loop");
        hello.chunk_bytes = rows[i].chunk_bytes;
        weft_wire_put_hello(&out, &hello);
        assert_int_equal(weft_child_hello(&w->relay, &w->child, out.data, out.used), WEFT_OK);
        weft_control_flush(&w->child.down);
        weft_control_fill(&w->rollout_end);
        if (weft_control_next(&w->rollout_end, &type, &body, &length) == WEFT_OK)
            assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
        if (notice.status != rows[i].told || w->child.greeted != (rows[i].told == WEFT_OK))
            fail_msg("row %zu: %s: %s", i, weft_status_name(notice.status), notice.text);
        if (rows[i].told == WEFT_OK)
            assert_int_equal(w->child.sender.posting.chunk_bytes, weft_pace_chunk(1000000));
    }
    weft_site_free(site);
}

/* A trainer that cannot be dialed, and one that is gone before it greets. */
static void who_has_no_way_to_the_trainer(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    for (int dials = 0; dials < 2; dials++) {
        close_world(state);
        open_world(state);
        w->child.greeted = true;
        weft_child_enter(&w->child, dials ? WEFT_CHILD_DIALING : WEFT_CHILD_GUEST);
        w->rollout.joining.state = WEFT_JOIN_JOINED; /* by a gateway of no address */
        assert_int_equal(weft_greeting_ask(&w->child.up), WEFT_OK);
        weft_control_hang_up(&w->trainer);
        weft_relay_step(&w->relay, &waits);
        assert_true(w->child.state == WEFT_CHILD_LEAVING || w->child.state == WEFT_CHILD_FREE);
    }
}

/* A later HELLO of a name takes the place of one that waits, and never that of a child that has joined. */
static void a_name_comes_again(void **state)
{
    static const struct {
        weft_child_state before, after;
    } rows[] = {{WEFT_CHILD_GUEST, WEFT_CHILD_LEAVING},
                {WEFT_CHILD_GREETING, WEFT_CHILD_LEAVING},
                {WEFT_CHILD_JOINED, WEFT_CHILD_JOINED}};
    world *w = *state;
    weft_site *site = load("[peers]\nprovider = loop\n[peer.r0]\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t mine[WEFT_MESSAGE_MAX];
        weft_out out = {mine, sizeof mine, 0, false};
        weft_wire_hello hello = sample_hello;
        weft_child *pair = pair_up(w);
        w->session.site = site;
        w->relay.outlets.list[0] =
            (weft_outlet){.provider = weft_provider_find("loop"), .link = (weft_link *)w, .facts.chunk_bytes = 1 << 20};
        pair[0].sender.rails.list[0].port = NULL;
        pair[0].state = rows[i].before;
        pair[0].greeted = true;
        snprintf(pair[0].hello.name, sizeof pair[0].hello.name, "r0");
        pair[1].state = WEFT_CHILD_GUEST;
        pair[1].down.nonce = hello.nonce;
        snprintf(hello.provider, sizeof hello.provider, "loop");
        weft_wire_put_hello(&out, &hello);
        assert_int_equal(weft_child_hello(&w->relay, &pair[1], out.data, out.used), WEFT_OK);
        assert_true(pair[1].greeted);
        assert_int_equal(pair[0].state, rows[i].after);
        part(w);
    }
    w->session.site = &w->site;
    weft_site_free(site);
}

/* Who says nothing, is not joined, or takes no write, has a time for it. */
static void times_of_a_child(void **state)
{
    world *w = *state;
    const uint64_t now_ns = weft_clock_ns(), io_ns = w->site.session.io_deadline_ms * WEFT_NS_PER_MS;
    w->site.guests.deadline_ms = 1000;
    const struct {
        weft_child_state state;
        bool greeted;
        uint32_t writes;
        uint64_t since_ns, progress_ns; /* ago */
        bool stays, again;              /* a write is to be tried again */
    } rows[] = {{WEFT_CHILD_GUEST, false, 0, 900000000, 0, true, false},
                {WEFT_CHILD_GUEST, false, 0, 1100000000, 0, false, false},
                {WEFT_CHILD_GUEST, true, 0, 9000000000, 0, true, false},
                {WEFT_CHILD_GREETING, true, 0, 11000000000, 0, false, false},
                {WEFT_CHILD_JOINED, true, 0, 11000000000, io_ns + 1000000000, true, false},
                {WEFT_CHILD_JOINED, true, 1, 0, io_ns - 1000000000, true, false},
                {WEFT_CHILD_JOINED, true, 1, 0, io_ns + 1000000000, false, false},
                {WEFT_CHILD_JOINED, true, 0, 0, io_ns - 1000000000, true, true},
                {WEFT_CHILD_JOINED, true, 0, 0, io_ns + 1000000000, false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_waits waits = {.wake_ns = UINT64_MAX};
        close_world(state);
        open_world(state);
        w->site.guests.deadline_ms = 1000;
        w->child.state = rows[i].state;
        w->child.greeted = rows[i].greeted;
        w->child.sender.flights.writes = rows[i].writes;
        w->child.sender.posting.again = rows[i].again;
        w->child.since_ns = now_ns - rows[i].since_ns;
        w->child.sender.flights.progress_ns = now_ns - rows[i].progress_ns;
        weft_relay_step(&w->relay, &waits);
        if ((w->child.state == rows[i].state) != rows[i].stays)
            fail_msg("row %zu: state %d", i, (int)w->child.state);
    }
}

/* An end that does not read is not read for: so the memory for what waits is bounded. */
static void who_does_not_read(void **state)
{
    world *w = *state;
    weft_waits waits = {.wake_ns = UINT64_MAX};
    static uint8_t body[1000];
    for (int full = 0; full < 4000; full++) {
        if (weft_control_send(&w->rollout_end, WEFT_MESSAGE_WANT, body, sizeof body) != WEFT_OK)
            break;
        weft_control_flush(&w->rollout_end);
        weft_relay_step(&w->relay, &waits);
    }
    assert_int_equal(w->child.state, WEFT_CHILD_JOINED);
    assert_true(w->child.up.out_end - w->child.up.out_begin <= WEFT_CONTROL_OUT_BYTES / 2 + 2 * sizeof body);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(slots_granted_out_of_order),
        TEST(passing_to_who_has_taken_all),
        TEST(passing_while_something_comes_in),
        TEST(no_passing_without_an_update),
        TEST(too_early_is_said_once),
        TEST(children_of_a_lost_relay),
        TEST(damage_is_not_passed_on),
        TEST(who_follows_gets_it),
        TEST(who_is_behind_makes_room),
        TEST(a_block_that_is_read),
        TEST(bounds_of_a_child),
        TEST(messages_before_welcome),
        TEST(times_of_a_child),
        TEST(who_does_not_read),
        TEST(the_rate_limit_holds),
        TEST(own_slots_are_granted_again),
        TEST(own_buckets_in_order),
        TEST(buckets_in_order),
        TEST(one_of_two),
        TEST(a_child_that_went),
        TEST(hello_is_judged),
        TEST(a_name_comes_again),
        TEST(who_greets_anew_follows_nothing),
        TEST(who_has_no_way_to_the_trainer),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
