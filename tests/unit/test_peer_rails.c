/* The rails of one peer: what it may say of them, which one carries, what goes again, and the addresses behind them. */
#include "tests/support/peer_world.h"

#include <string.h>

/* Two rails are up when the world begins. */
static weft_rail *rail(uint32_t at)
{
    return &a->sender.rails.list[at];
}

static uint64_t patience_ns(void)
{
    return weft_rail_patience_ns(trainer->session->site);
}

/* ---- what a peer says of its rails */

static void what_has_landed(void **state)
{
    static const struct {
        uint32_t count, turn; /* the rail is in turn 1 */
        uint64_t writes;      /* 5 of 10 have landed before */
        bool taken;
        uint64_t landed;
        bool closed; /* the message crossed CLOSE */
    } rows[] = {{2, 1, 7, true, 7, false},   {2, 1, 5, true, 5, false},  {2, 1, 10, true, 10, false},
                {2, 1, 11, false, 5, false}, {2, 1, 4, false, 5, false}, {2, 0, 99, true, 5, false},
                {2, 2, 7, false, 5, false},  {1, 1, 7, false, 5, false}, {3, 1, 7, false, 5, false},
                {2, 1, 99, true, 5, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_landed landed = {.count = rows[i].count};
        landed.port[0].turn = rows[i].turn;
        landed.port[0].writes = rows[i].writes;
        landed.port[1].turn = rail(1)->turn;
        landed.port[1].writes = rail(1)->landed;
        rail(0)->turn = 1;
        rail(0)->posted = 10;
        rail(0)->landed = 5;
        rail(0)->moved_ns = s->time.now_ns;
        weft_port *const port = rail(0)->port;
        rail(0)->port = rows[i].closed ? NULL : port;
        weft_wire_put_landed(&out, &landed);
        if ((weft_rail_landed(&a->sender, out.data, out.used) == WEFT_OK) != rows[i].taken ||
            rail(0)->landed != rows[i].landed)
            fail_msg("row %zu", i);
        rail(0)->port = port;
    }
}

/* A rail that refuses is given up after its patience: from the first time that it was asked, unless nobody asked for
 * half of that. */
static void how_long_a_rail_refuses(void **state)
{
    const weft_site *site = trainer->session->site;
    const uint64_t half = patience_ns() / 2;
    (void)state;
    rail(0)->refused_ns = rail(0)->asked_ns = 0;
    weft_rail_note_refused(site, rail(0), 1000);
    weft_rail_note_refused(site, rail(0), 1000 + half);
    assert_int_equal(rail(0)->refused_ns, 1000);
    weft_rail_note_refused(site, rail(0), 1000 + 2 * half);
    assert_int_equal(rail(0)->refused_ns, 1000);
    weft_rail_note_refused(site, rail(0), 1001 + 3 * half);
    assert_int_equal(rail(0)->refused_ns, 1001 + 3 * half);
}

/* A rail that is tried carries when a write came through. */
static void a_probe_that_lands(void **state)
{
    (void)state;
    rail(0)->state = WEFT_RAIL_TRYING;
    rail(0)->posted = 1;
    rail(0)->landed = 0;
    for (uint32_t writes = 0; writes < 2; writes++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_landed landed = {.count = 2};
        landed.port[0].writes = writes;
        landed.port[1].writes = rail(1)->landed;
        weft_wire_put_landed(&out, &landed);
        assert_int_equal(weft_rail_landed(&a->sender, out.data, out.used), WEFT_OK);
        assert_int_equal(rail(0)->state, writes ? WEFT_RAIL_UP : WEFT_RAIL_TRYING);
    }
}

/* CLOSED and OPENED answer what was asked for, in its turn. An OPENED that crossed CLOSE says nothing. */
static void what_was_asked_for(void **state)
{
    static const struct {
        bool opened;
        weft_rail_state before;
        uint32_t port, turn; /* the rail is in turn 1 */
        bool taken;
        weft_rail_state after;
    } rows[] = {{false, WEFT_RAIL_CLOSING, 0, 1, true, WEFT_RAIL_COOLING},
                {false, WEFT_RAIL_CLOSING, 0, 0, false, WEFT_RAIL_CLOSING},
                {false, WEFT_RAIL_CLOSING, 2, 1, false, WEFT_RAIL_CLOSING},
                {false, WEFT_RAIL_UP, 0, 1, false, WEFT_RAIL_UP},
                {false, WEFT_RAIL_OPENING, 0, 1, false, WEFT_RAIL_OPENING},
                {true, WEFT_RAIL_OPENING, 0, 1, true, WEFT_RAIL_COOLING}, /* without an address */
                {true, WEFT_RAIL_OPENING, 0, 0, false, WEFT_RAIL_OPENING},
                {true, WEFT_RAIL_CLOSING, 0, 1, true, WEFT_RAIL_CLOSING},
                {true, WEFT_RAIL_CLOSING, 0, 0, false, WEFT_RAIL_CLOSING},
                {true, WEFT_RAIL_COOLING, 0, 1, false, WEFT_RAIL_COOLING}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        const weft_wire_closed closed = {.port = rows[i].port, .turn = rows[i].turn};
        const weft_wire_open opened = {.port = rows[i].port, .turn = rows[i].turn};
        rail(0)->state = rows[i].before;
        rail(0)->turn = 1;
        rows[i].opened ? weft_wire_put_opened(&out, &opened) : weft_wire_put_closed(&out, &closed);
        const weft_status status =
            (rows[i].opened ? weft_rail_opened : weft_rail_closed)(&a->sender, out.data, out.used);
        if ((status == WEFT_OK) != rows[i].taken || rail(0)->state != rows[i].after)
            fail_msg("row %zu", i);
    }
}

/* A peer that opens its port anew may name no host that it may not have. */
static void where_data_may_go(void **state)
{
    /* struct sockaddr_in of 127.0.0.1 and 10.1.2.3, port 1 */
    static const uint8_t hosts[2][16] = {{2, 0, 0, 1, 127, 0, 0, 1}, {2, 0, 0, 1, 10, 1, 2, 3}};
    (void)state;
    for (uint32_t other = 0; other < 2; other++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_open opened = {.turn = rail(0)->turn, .at.address_bytes = sizeof hosts[0]};
        memcpy(opened.at.address, hosts[other], sizeof hosts[0]);
        weft_wire_put_opened(&out, &opened);
        rail(0)->state = WEFT_RAIL_OPENING;
        rail(0)->outlet->facts.dials = true;
        assert_int_equal(weft_rail_opened(&a->sender, out.data, out.used), WEFT_OK);
        rail(0)->outlet->facts.dials = false;
        assert_true(strstr(weft_last_error(), other ? "10.1.2.3" : "no address of this provider") != NULL);
        assert_int_equal(rail(0)->state, WEFT_RAIL_CLOSING);
    }
}

/* A rail that stands still while the other does not fails alone. If both do, the peer is lost, with more patience. */
static void who_stands_still(void **state)
{
    const uint64_t io_ns = SIM_IO_MS * WEFT_NS_PER_MS;
    const struct {
        uint64_t still_ns;
        bool other_busy, other_moves;
        weft_status status;
        weft_rail_state after;
    } rows[] = {{patience_ns() - 1, false, false, WEFT_OK, WEFT_RAIL_UP},
                {patience_ns(), false, false, WEFT_OK, WEFT_RAIL_CLOSING},
                {patience_ns(), true, true, WEFT_OK, WEFT_RAIL_CLOSING},
                {io_ns - 1, true, false, WEFT_OK, WEFT_RAIL_UP},
                {io_ns, true, false, WEFT_E_PEER_LOST, WEFT_RAIL_UP}};
    (void)state;
    assert_int_equal(patience_ns(), io_ns / 4); /* so the others can still take over */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_landed landed = {.count = 2};
        anew();
        for (uint32_t at = 0; at < 2; at++) {
            landed.port[at].turn = rail(at)->turn;
            landed.port[at].writes = rail(at)->landed;
            rail(at)->moved_ns = s->time.now_ns - rows[i].still_ns;
        }
        rail(0)->posted = rail(0)->landed + 1;
        rail(1)->posted = rail(1)->landed + rows[i].other_busy;
        if (rows[i].other_moves)
            rail(1)->moved_ns = s->time.now_ns;
        a->sender.rails.looked_ns = s->time.now_ns;
        weft_wire_put_landed(&out, &landed);
        if (weft_rail_landed(&a->sender, out.data, out.used) != rows[i].status || rail(0)->state != rows[i].after)
            fail_msg("row %zu: %d", i, (int)rail(0)->state);
    }
}

/* ---- what goes again */

/* Of three chunks in slot 1, two went by rail 0. */
static void what_goes_again(void **state)
{
    static const struct {
        bool used, receipted, posting, whole, taken;
        uint32_t chunks;
    } rows[] = {{true, false, false, false, true, 2}, {true, false, false, true, true, 0},
                {true, true, false, false, true, 0},  {false, false, false, false, true, 0},
                {true, false, true, true, false, 0},  {false, false, false, true, false, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_wire_closed closed = {.whole = {rows[i].whole << 1}};
        weft_parcel *parcel = &a->sender.flights.parcels[1];
        uint32_t chunks = 9;
        *parcel = (weft_parcel){.chunks = 3, .rail = {0, 1, 0}};
        a->sender.flights.list[1] = (weft_flight){.used = rows[i].used, .receipted = rows[i].receipted, .slab = -1};
        a->sender.posting.busy = rows[i].posting;
        a->sender.posting.slot = 1;
        a->sender.flights.again_chunks = 0;
        if ((weft_parcel_again(&a->sender, 0, &closed, &chunks) == WEFT_OK) != rows[i].taken ||
            chunks != rows[i].chunks || parcel->again != rows[i].chunks ||
            a->sender.flights.again_chunks != rows[i].chunks ||
            a->sender.flights.list[1].resent != (rows[i].chunks > 0))
            fail_msg("row %zu", i);
    }
    /* the writes of a rail are written off, and no others */
    a->sender.flights.list[1] = (weft_flight){.used = true, .writes = 5, .by = {2, 3}, .slab = -1};
    a->sender.flights.writes = 7;
    weft_flights_write_off(&a->sender.flights, 0);
    assert_int_equal(a->sender.flights.list[1].writes, 3);
    assert_int_equal(a->sender.flights.writes, 5);
    a->sender.flights.list[1] = (weft_flight){.slab = -1};
    a->sender.flights.again_chunks = 0;
    a->sender.posting.busy = false;
    a->sender.flights.parcels[1].again = 0;
}

/* ---- who fails, and for how long */

/* A rail fails alone while another is up or tried; how long it cools is bounded, and short after a long time up. */
static void how_long_a_rail_cools(void **state)
{
    const struct {
        weft_rail_state state, other;
        uint64_t cool, up; /* of patience */
        bool lost;
        uint64_t cools;
    } rows[] = {{WEFT_RAIL_UP, WEFT_RAIL_UP, 1, 0, false, 2},      {WEFT_RAIL_UP, WEFT_RAIL_TRYING, 12, 0, false, 16},
                {WEFT_RAIL_TRYING, WEFT_RAIL_UP, 4, 99, false, 8}, {WEFT_RAIL_UP, WEFT_RAIL_UP, 16, 0, false, 16},
                {WEFT_RAIL_UP, WEFT_RAIL_UP, 16, 65, false, 1},    {WEFT_RAIL_UP, WEFT_RAIL_COOLING, 1, 0, true, 1},
                {WEFT_RAIL_UP, WEFT_RAIL_CLOSING, 1, 0, true, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rail(0)->state = rows[i].state;
        rail(1)->state = rows[i].other;
        rail(0)->cool_ns = rows[i].cool * patience_ns();
        rail(0)->since_ns = s->time.now_ns - rows[i].up * patience_ns();
        const weft_status status = weft_rail_fail(&a->sender, rail(0), "a test");
        if ((status == WEFT_E_PEER_LOST) != rows[i].lost || rail(0)->cool_ns != rows[i].cools * patience_ns() ||
            (rail(0)->state == WEFT_RAIL_CLOSING) == rows[i].lost)
            fail_msg("row %zu", i);
    }
    rail(1)->state = WEFT_RAIL_UP;
}

/* What waits for an answer has its time, one LOOK is under way, and a port that cuts smaller stays closed for
 * a while. */
static void what_is_looked_after(void **state)
{
    const uint64_t answer_ns = SIM_IO_MS * WEFT_NS_PER_MS;
    const struct {
        weft_rail_state state;
        uint64_t since_ns;
        uint32_t chunk; /* agreed */
        bool looking;
        weft_status status;
        weft_rail_state after;
        bool looks;
        uint32_t refuse; /* these rails take no write any more */
    } rows[] = {{WEFT_RAIL_CLOSING, answer_ns, 0, false, WEFT_OK, WEFT_RAIL_CLOSING, false, 0},
                {WEFT_RAIL_CLOSING, answer_ns + 1, 0, false, WEFT_E_PEER_LOST, WEFT_RAIL_CLOSING, false, 0},
                {WEFT_RAIL_OPENING, answer_ns + 1, 0, false, WEFT_E_PEER_LOST, WEFT_RAIL_OPENING, false, 0},
                {WEFT_RAIL_COOLING, 0, UINT32_MAX, false, WEFT_OK, WEFT_RAIL_COOLING, false, 0},
                {WEFT_RAIL_COOLING, 0, 0, false, WEFT_OK, WEFT_RAIL_OPENING, false, 0},
                {WEFT_RAIL_UP, 0, 0, false, WEFT_OK, WEFT_RAIL_UP, true, 0},
                {WEFT_RAIL_UP, answer_ns, 0, true, WEFT_OK, WEFT_RAIL_UP, false, 0},
                {WEFT_RAIL_UP, answer_ns + 1, 0, true, WEFT_E_PEER_LOST, WEFT_RAIL_UP, false, 0},
                {WEFT_RAIL_UP, 1, 0, true, WEFT_OK, WEFT_RAIL_CLOSING, false, 1},
                {WEFT_RAIL_UP, 1, 0, true, WEFT_OK, WEFT_RAIL_UP, false, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_waits waits = {.wake_ns = UINT64_MAX};
        anew();
        rail(0)->state = rows[i].state;
        rail(0)->since_ns = s->time.now_ns - rows[i].since_ns;
        rail(0)->retry_ns = 0;
        rail(0)->posted = rail(0)->landed + 1; /* it stands still */
        rail(0)->moved_ns = s->time.now_ns - patience_ns() / 2;
        for (uint32_t at = 0; at < 2; at++) {
            rail(at)->refused_ns = rows[i].refuse >> at & 1 ? s->time.now_ns - 2 * patience_ns() : 0;
            rail(at)->asked_ns = s->time.now_ns - 1;
        }
        if (rows[i].state == WEFT_RAIL_COOLING)
            weft_rail_port_close(rail(0));
        if (rows[i].chunk)
            a->sender.posting.chunk_bytes = rows[i].chunk;
        a->sender.rails.looking = rows[i].looking;
        a->sender.rails.looked_ns = s->time.now_ns - (rows[i].looking ? rows[i].since_ns : patience_ns());
        if (weft_rail_check(&a->sender, s->time.now_ns, &waits) != rows[i].status || rail(0)->state != rows[i].after ||
            (a->sender.rails.looked_ns == s->time.now_ns) != rows[i].looks ||
            (rail(0)->state == WEFT_RAIL_COOLING && rail(0)->retry_ns <= s->time.now_ns))
            fail_msg("row %zu: %d", i, (int)rail(0)->state);
    }
}

/* ---- by which rail */

/* A chunk goes by the rail where it would land first, as far as the rates of those that are up are known. A slower one
 * that has nothing to do is believed to be faster. */
static void which_rail_carries(void **state)
{
    static const struct {
        double rate[2];
        uint64_t unlanded[2];
        weft_rail_state second;
        uint64_t waiting; /* writes of the first that have not landed */
        uint32_t goes;
        double other; /* rate of the other afterwards */
    } rows[] = {{{1e6, 1e6}, {0, 1000}, WEFT_RAIL_UP, 0, 0, 1e6},
                {{1e6, 1e6}, {1000, 0}, WEFT_RAIL_UP, 0, 1, 1e6},
                {{1e6, 9e6}, {500, 1000}, WEFT_RAIL_UP, 0, 1, 1e6},
                {{0, 9e6}, {500, 1000}, WEFT_RAIL_UP, 0, 0, 9e6},
                {{1e6, 9e6}, {1000, 0}, WEFT_RAIL_COOLING, 0, 0, 9e6},
                {{9e6, 1e6}, {0, 0}, WEFT_RAIL_UP, WEFT_RAIL_WRITES, 1, 9e6},
                {{9e6, 1e6}, {0, 0}, WEFT_RAIL_UP, WEFT_RAIL_WRITES - 1, 0, 1.05 * 1e6},
                {{9e6, 8.9e6}, {0, 0}, WEFT_RAIL_UP, 0, 0, 9e6}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_waits waits = {.wake_ns = UINT64_MAX};
        uint64_t before[2];
        anew();
        for (uint32_t at = 0; at < 2; at++) {
            rail(at)->rate_bytes_s = rows[i].rate[at];
            rail(at)->unlanded = rows[i].unlanded[at];
            before[at] = rail(at)->sent.writes;
        }
        rail(1)->state = rows[i].second;
        rail(0)->posted = rail(0)->landed + rows[i].waiting;
        a->sender.posting.bucket.extents[0] = (weft_extent){trainer->buffers.slabs.memory, 64};
        a->sender.posting.bucket.extent_count = a->sender.posting.bucket.header.chunks = a->sender.posting.chunk = 1;
        a->sender.posting.busy = true;
        a->sender.posting.slot = 0;
        a->sender.flights.parcels[0].chunks = 1;
        assert_int_equal(weft_feed_pump(publisher, a, s->time.now_ns, &waits), WEFT_OK);
        if (rail(0)->sent.writes - before[0] != !rows[i].goes || rail(1)->sent.writes - before[1] != rows[i].goes)
            fail_msg("row %zu", i);
        if (rail(!rows[i].goes)->rate_bytes_s != rows[i].other)
            fail_msg("row %zu: %g", i, rail(!rows[i].goes)->rate_bytes_s);
    }
}

/* Slots are used in turn. Data behind a relay go at its pace. A link that was idle stands still from its first refusal.
 */
static void how_a_bucket_goes(void **state)
{
    const weft_loop_faults refuses = {.again_every = 1};
    weft_waits waits = {.wake_ns = UINT64_MAX};
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(a->sender.flights.next_slot, a->sender.flights.sequence % a->sender.flights.slots);
        sim_publish(s, 10);
        sim_settle(s, 20000);
    }
    b->following.parent = a;
    weft_pace_begin(&a->sender.posting.pace, 1000000);
    const weft_pace before = a->sender.posting.pace;
    b->sender.posting.busy = true;
    b->sender.posting.chunk = 0;
    b->sender.posting.bucket.header.chunks = 0;
    assert_int_equal(weft_feed_pump(publisher, b, s->time.now_ns, &waits), WEFT_OK);
    assert_false(b->sender.posting.busy);
    assert_true(a->sender.posting.pace.tokens < before.tokens || a->sender.posting.pace.filled_ns > before.filled_ns);
    b->following.parent = NULL;
    weft_loop_set_faults(&refuses);
    for (unsigned at = 0; at < 2; at++)
        weft_loop_set_rail(at ? "r1" : "r0", &refuses);
    c->sender.posting.busy = true;
    c->sender.posting.chunk = 0;
    s->time.now_ns += 1000 * WEFT_NS_PER_MS;
    const uint64_t begun_ns = s->time.now_ns;
    for (int i = 0; i < 2; i++, s->time.now_ns += WEFT_NS_PER_MS)
        assert_int_equal(weft_feed_pump(publisher, c, s->time.now_ns, &waits), WEFT_OK);
    assert_true(c->sender.posting.again);
    assert_int_equal(c->sender.flights.progress_ns, begun_ns);
    for (unsigned at = 0; at < 2; at++)
        weft_loop_set_rail(at ? "r1" : "r0", NULL);
    weft_loop_set_faults(NULL);
    c->sender.posting.busy = c->sender.posting.again = false;
}

/* ---- addresses */

static unsigned warnings;

static void count_line(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)line;
    warnings += level == WEFT_LOG_WARN;
}

/* One of two addresses is away: that is said once, and it is asked again after its time. What has ports stays open. */
static void an_address_that_is_away(void **state)
{
    const weft_loop_faults away = {.away = true};
    weft_log_sink sink = {WEFT_LOG_WARN, count_line}, *before = weft_log_enter(&sink);
    weft_outlet *outlet = rail(1)->outlet, *found;
    const weft_link *link = outlet->link;
    (void)state;
    warnings = 0;
    weft_loop_set_rail("r1", &away);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_not_equal(weft_outlet_find(&trainer->outlets, "loop", 1, &found), WEFT_OK);
        assert_ptr_equal(found, outlet);
        s->time.now_ns += patience_ns() + 1;
    }
    assert_int_equal(warnings, 1);
    assert_ptr_equal(outlet->link, link);
    assert_int_not_equal(weft_outlet_find(&trainer->outlets, "loop", 1, &found), WEFT_OK);
    weft_loop_set_rail("r1", NULL);
    assert_int_equal(weft_outlet_find(&trainer->outlets, "loop", 1, &found), WEFT_AGAIN);
    s->time.now_ns += patience_ns() + 1;
    assert_int_equal(weft_outlet_find(&trainer->outlets, "loop", 1, &found), WEFT_OK);
    assert_false(outlet->away);
    weft_log_enter(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_has_landed),    TEST(how_long_a_rail_refuses), TEST(a_probe_that_lands),
        TEST(what_was_asked_for), TEST(where_data_may_go),       TEST(who_stands_still),
        TEST(what_goes_again),    TEST(how_long_a_rail_cools),   TEST(what_is_looked_after),
        TEST(which_rail_carries), TEST(how_a_bucket_goes),       TEST(an_address_that_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
