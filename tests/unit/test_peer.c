/* Which peers follow a relay, and whose a name, a place and a duct are. */
#include "tests/support/peer_world.h"

/* ---- who follows a relay */

/* b is behind a, and c behind b; all lack the newest version. */
static void be_behind(void)
{
    b->following.parent = a;
    c->following.parent = b;
    a->following.children = b->following.children = 1;
    step_back(a);
    step_back(b);
    step_back(c);
}

/* Who has what the relay has, and room for what comes, is sent the header alone. */
static void who_follows(void **state)
{
    static weft_peer_view view;
    static weft_peer before[2];
    (void)state;
    be_behind();
    const uint64_t order = publisher->newest.order;
    const struct {
        poke change, more;
        bool follows;
    } rows[] = {{{0}, {0}, true},
                {POKE(claim.hello.slot_payload, a->claim.hello.slot_payload - 1), {0}, false},
                {POKE(view, (uintptr_t)&view), {0}, false},
                {POKE(standing.sent_order, order), {0}, false},
                {POKE(standing.sent_order, order - 2), {0}, false},
                {POKE(standing.held_order, WEFT_ORDER_UNKNOWN), {0}, false},
                {POKE(standing.sent_attachment, 9), {0}, false},
                {POKE(feed.kind, WEFT_FEED_SNAPSHOT), {0}, false},
                {POKE(connection.leaving, true), {0}, false},
                {POKE(connection.greeted, false), {0}, false},
                {POKE(following.apart_until, order), {0}, false},
                {POKE(following.apart_until, order - 1), {0}, true},
                {POKE(wish.named, true), {0}, false},
                {POKE(standing.held.root, 9), {0}, false},
                {POKE(claim.hello.levels, 1u << WEFT_LEVEL_FULL), {0}, false},
                {POKE(claim.hello.staging_bytes, 1), POKE(claim.hello.encoded_bytes, 1), false},
                {POKE(receipts.count, 1), {0}, false}, /* of its own feed */
                {POKE(receipts.count, 1), POKE(following.followed, true), true},
                {POKE(receipts.count, WEFT_UPDATES_AHEAD), POKE(following.followed, true), false}};
    before[0] = *a;
    before[1] = *b;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *a = before[0];
        *b = before[1];
        b->receipts.expected[0].version = b->receipts.expected[1].version = b->standing.held;
        put(b, &rows[i].change);
        put(b, &rows[i].more);
        assert_int_equal(weft_feed_begin(publisher, a, newest()), WEFT_OK);
        if ((b->feed.kind == WEFT_FEED_FOLLOWING) != rows[i].follows)
            fail_msg("row %zu", i);
        newest()->readers = 0;
    }
    *a = before[0];
    *b = before[1];
}

/* Who follows is to report what the relay is sent, and the buckets of its own slots. */
static void what_a_follower_owes(void **state)
{
    (void)state;
    be_behind();
    b->sender.flights.sequence = 40;
    assert_int_equal(weft_feed_begin(publisher, a, newest()), WEFT_OK);
    assert_int_equal(c->feed.kind, WEFT_FEED_FOLLOWING); /* at whatever distance */
    assert_int_equal(weft_feed_finish(&trainer->peers, a, &newest()->target), WEFT_OK);
    assert_int_equal(b->receipts.count, 1);
    assert_int_equal(c->receipts.count, 1);
    assert_int_equal(b->receipts.expected[0].end, 40);
    assert_int_equal(b->receipts.expected[0].order, publisher->newest.order);
    assert_int_equal(b->feed.kind, WEFT_FEED_NONE);
    b->following.apart_until = 0;
    weft_follow_dropped(&publisher->newest, &a->following); /* who has no relay */
    weft_follow_dropped(&publisher->newest, &b->following);
    assert_int_equal(a->following.apart_until, 0);
    assert_int_equal(b->following.apart_until, publisher->newest.order + 8);
    weft_follow_forget(&trainer->peers); /* at close nobody is lost for another */
    assert_true(!b->following.parent && !c->following.parent && a->following.children + b->following.children == 0);
}

/* A relay that does not begin holds nobody back for more than half a heartbeat. */
static void how_long_one_waits_for_a_relay(void **state)
{
    (void)state;
    be_behind();
    assert_true(weft_follow_waits(&publisher->newest, b));
    s->time.now_ns += (SIM_HEARTBEAT_MS / 2 - 1) * WEFT_NS_PER_MS;
    assert_true(weft_follow_waits(&publisher->newest, b));
    s->time.now_ns += 2 * WEFT_NS_PER_MS;
    assert_false(weft_follow_waits(&publisher->newest, b));
    /* who names versions waits for one that may name the same, for a moment */
    a->wish = (weft_wish){.named = true};
    b->wish = (weft_wish){.named = true, .open = true, .number = 3, .since_ns = s->time.now_ns};
    b->following.waits_since_ns = 0;
    assert_true(weft_follow_waits(&publisher->newest, b));
    s->time.now_ns += 25 * WEFT_NS_PER_MS;
    assert_false(weft_follow_waits(&publisher->newest, b));
    a->wish = b->wish = (weft_wish){.named = true, .number = 3};
    assert_false(weft_follow_waits(&publisher->newest, b)); /* who wants nothing */
    a->wish.open = true;
    a->wish.since_ns = s->time.now_ns;
    assert_true(weft_follow_gathers(publisher, a));
    s->time.now_ns += 25 * WEFT_NS_PER_MS;
    assert_false(weft_follow_gathers(publisher, a));
}

static void who_may_come_through_a_relay(void **state)
{
    (void)state;
    const uint64_t life = a->claim.hello.incarnation;
    const struct {
        const char *relay;
        uint64_t incarnation;
        uint32_t hops;
        bool greeted;
        weft_status status;
    } rows[] = {{"auto1", life, 1, true, WEFT_OK},           {"auto1", life, 1, false, WEFT_E_SYSTEM},
                {"auto1", life + 1, 1, true, WEFT_E_SYSTEM}, {"auto1", life, 2, true, WEFT_E_SYSTEM},
                {"auto3", life, 1, true, WEFT_E_SYSTEM},     {"", 0, 0, true, WEFT_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_wire_hello *hello = &b->claim.hello;
        const bool behind = rows[i].status == WEFT_OK && rows[i].hops > 0;
        snprintf(hello->relay, sizeof hello->relay, "%s", rows[i].relay);
        hello->relay_incarnation = rows[i].incarnation;
        hello->hops = rows[i].hops;
        a->connection.greeted = rows[i].greeted;
        a->following.children = 0;
        if (weft_follow_join(&trainer->peers, b) != rows[i].status || (b->following.parent != NULL) != behind ||
            a->following.children != behind)
            fail_msg("row %zu", i);
    }
    a->connection.greeted = true;
    b->following.parent = NULL;
    a->following.children = 0;
}

/* ---- who has a name and a place */

/* A newcomer as auto1, whose bearer has the incarnation 10 and was heard `silent_ms` ago. */
static void whose_name_it_is(void **state)
{
    static const struct {
        uint64_t incarnation;
        uint32_t silent_ms, joined_ms; /* ago */
        bool proved, replace, idle, takes;
    } rows[] = {
        {10, 0, 0, false, false, false, true},
        {11, 0, 0, false, false, false, false},
        {11, SIM_HEARTBEAT_MS / 2 + 1, 0, false, false, false, true},
        {11, SIM_HEARTBEAT_MS / 2 - 1, 0, false, false, false, false},
        {9, SIM_HEARTBEAT_MS / 2 + 1, 0, false, false, false, false},
        {11, 0, 0, true, true, false, true},
        {11, 0, 0, false, true, false, false},
        {11, 0, 0, true, false, false, false},
        {9, 0, 0, true, true, false, false},
        {9, 0, SIM_PATIENCE_MS + 1, false, false, true, true},
        {9, 0, SIM_PATIENCE_MS - 1, false, false, true, false},
        {9, 0, SIM_PATIENCE_MS + 1, false, false, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_wire_hello hello = {.name = "auto1", .incarnation = rows[i].incarnation};
        weft_peer *record = NULL;
        anew();
        a->claim.hello.incarnation = 10;
        a->connection.control.heard_ns = s->time.now_ns - rows[i].silent_ms * WEFT_NS_PER_MS;
        a->claim.joined_ns = s->time.now_ns - rows[i].joined_ms * WEFT_NS_PER_MS;
        a->standing.held_order = rows[i].idle ? WEFT_ORDER_UNKNOWN : a->standing.held_order;
        guest->session->site->replace = rows[i].replace ? WEFT_REPLACE_YES : WEFT_REPLACE_NO;
        guest->connection.control.guard = rows[i].proved ? (weft_guard *)1 : NULL;
        snprintf(guest->connection.control.peer, sizeof guest->connection.control.peer, "the guest's");
        const weft_status status = weft_claim_take(&trainer->peers, guest, &hello, &record);
        if ((status == WEFT_OK) != rows[i].takes ||
            (rows[i].takes && (record != a || a->connection.greeted || a->connection.control.peer[0] != 't')))
            fail_msg("row %zu: %s", i, weft_status_name(status));
        assert_true(status != WEFT_E_SYSTEM || !rows[i].idle || strstr(weft_last_error(), "gives way in "));
        a->connection.control.guard = guest->connection.control.guard = NULL;
    }
}

/* A newcomer as auto1, of that incarnation. */
static weft_status asks(uint64_t incarnation)
{
    const weft_wire_hello hello = {.name = "auto1", .incarnation = incarnation};
    weft_peer *record;
    return weft_claim_take(&trainer->peers, guest, &hello, &record);
}

static void a_is_heard(void)
{
    s->time.now_ns += WEFT_NS_PER_MS;
    a->connection.control.heard_ns = s->time.now_ns;
    s->time.now_ns += WEFT_NS_PER_MS;
}

/* One rival asks at a time until it has its answer, or does not come for it. */
static void rivals(void **state)
{
    (void)state;
    a_is_heard();
    assert_int_equal(asks(11), WEFT_E_SYSTEM);
    assert_int_equal(a->connection.pinged_ns, 0); /* the bearer is asked at once */
    assert_int_equal(asks(12), WEFT_E_SYSTEM);
    a_is_heard();
    assert_int_equal(asks(12), WEFT_E_SYSTEM);
    assert_int_equal(asks(11), WEFT_E_REFUSED);
    assert_int_equal(asks(12), WEFT_E_SYSTEM);
    s->time.now_ns += 3000 * WEFT_NS_PER_MS;
    a_is_heard();
    assert_int_equal(asks(11), WEFT_E_SYSTEM);
    a_is_heard();
    assert_int_equal(asks(11), WEFT_E_REFUSED);
    assert_true(a->connection.greeted);
}

/* Three are joined, of which two hold nothing; the second has been so for longest. */
static void whose_place_it_is(void **state)
{
    static const struct {
        uint32_t most, idle_ms; /* the second's */
        poke change;
        bool gone; /* the third */
        bool makes_room;
        weft_status status;
    } rows[] = {{4, SIM_PATIENCE_MS + 1, {0}, false, false, WEFT_OK},
                {3, SIM_PATIENCE_MS + 1, {0}, false, true, WEFT_OK},
                {3, SIM_PATIENCE_MS - 1, {0}, false, false, WEFT_E_SYSTEM},
                {3, SIM_PATIENCE_MS + 1, POKE(following.children, 1), false, false, WEFT_E_SYSTEM},
                {3, SIM_PATIENCE_MS + 1, POKE(feed.kind, WEFT_FEED_SNAPSHOT), false, false, WEFT_E_SYSTEM},
                {3, SIM_PATIENCE_MS + 1, POKE(receipts.count, 1), false, false, WEFT_E_SYSTEM},
                {3, SIM_PATIENCE_MS + 1, {0}, true, false, WEFT_OK}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_wire_hello hello = {.name = "x", .incarnation = 1};
        anew();
        weft_peer *record = NULL, *first = a < b ? a : b, *second = a < b ? b : a;
        a->session->site->trainer.max_peers = rows[i].most;
        first->standing.held_order = second->standing.held_order = WEFT_ORDER_UNKNOWN;
        first->claim.joined_ns = s->time.now_ns;
        second->claim.joined_ns = s->time.now_ns - rows[i].idle_ms * WEFT_NS_PER_MS;
        put(second, &rows[i].change);
        c->connection.greeted = !rows[i].gone;
        const weft_status status = weft_claim_take(&trainer->peers, guest, &hello, &record);
        if (status != rows[i].status || !first->connection.greeted ||
            second->connection.greeted == rows[i].makes_room || c->connection.greeted == rows[i].gone)
            fail_msg("row %zu: %s", i, weft_status_name(status));
        c->connection.greeted = true;
    }
}

/* ---- ducts */

#define ADDRESS "port-1"

static weft_status port_address(const weft_port *port, uint8_t *address, uint32_t *length)
{
    (void)port;
    memcpy(address, ADDRESS, *length = sizeof ADDRESS - 1);
    return WEFT_OK;
}

/* A duct is taken from who may say HELLO for the port's peer, while that is joined. Here it is no whole message, which
 * is the last of all that is looked at. */
static void whose_duct_is_taken(void **state)
{
    static const struct {
        bool guarded, joined;
        const char *address, *error;
    } rows[] = {{false, true, ADDRESS, "sent more after DUCT"},
                {true, true, ADDRESS, "its key or certificate is not its own"},
                {false, false, ADDRESS, "DUCT for a port that is not here"},
                {false, true, "port-2", "DUCT for a port that is not here"}};
    static weft_provider piped;
    weft_outlet *outlet = a->sender.rails.list[0].outlet;
    const weft_provider *plain = outlet->provider;
    (void)state;
    piped = *plain;
    piped.caps = WEFT_PROVIDER_PIPED;
    piped.port_address = port_address;
    b->sender.rails.count = c->sender.rails.count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_duct duct = {.address_bytes = sizeof ADDRESS - 1};
        memcpy(duct.address, rows[i].address, duct.address_bytes);
        weft_wire_put_duct(&out, &duct);
        outlet->provider = &piped;
        guest->connection.control.guard = rows[i].guarded ? (weft_guard *)1 : NULL;
        a->connection.greeted = rows[i].joined;
        const weft_status status = weft_peer_duct(&trainer->peers, guest, out.data, out.used);
        outlet->provider = plain;
        guest->connection.control.guard = NULL;
        a->connection.greeted = true;
        if (status == WEFT_OK || !strstr(weft_last_error(), rows[i].error))
            fail_msg("row %zu: %s", i, weft_last_error());
    }
    b->sender.rails.count = c->sender.rails.count = 2;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_follows),
        TEST(what_a_follower_owes),
        TEST(how_long_one_waits_for_a_relay),
        TEST(who_may_come_through_a_relay),
        TEST(whose_name_it_is),
        TEST(rivals),
        TEST(whose_place_it_is),
        TEST(whose_duct_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
