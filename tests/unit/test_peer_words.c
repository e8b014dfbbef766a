/* What a peer may say to a trainer and when, what HELLO has to say, and how long either may take. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/peer_world.h"

/* auto1 says it; false: it is lost for that. */
static bool stays(weft_message type, const weft_out *body)
{
    weft_waits waits = {.wake_ns = UINT64_MAX};
    weft_control *control = &s->rollouts[0].session->rollout->joining.control;
    assert_int_equal(weft_control_send(control, type, body->data, body->used), WEFT_OK);
    assert_int_equal(weft_control_flush(control), WEFT_OK);
    assert_int_equal(weft_peer_listen(trainer, a, &waits), WEFT_OK);
    return a->connection.greeted;
}

/* Who reports anything but the version that is due is lost. */
static void what_is_held(void **state)
{
    static const struct {
        uint64_t number, root, run, layout; /* off */
        bool withdrawn, none, stays;
    } rows[] = {{0, 0, 0, 0, false, false, true},  {1, 0, 0, 0, false, false, false}, {0, 1, 0, 0, false, false, false},
                {0, 0, 1, 0, false, false, false}, {0, 0, 0, 1, false, false, false}, {0, 0, 0, 0, false, true, false},
                {0, 0, 0, 0, true, false, true},   {0, 1, 0, 0, true, false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        anew();
        const weft_version due = publisher->newest.version;
        weft_wire_held held = {
            .version = {due.run ^ rows[i].run, due.number + rows[i].number, due.root ^ rows[i].root}};
        memcpy(held.layout, s->layout->hash, sizeof held.layout);
        held.layout[0] ^= rows[i].layout;
        step_back(a);
        a->receipts.count = rows[i].none ? 0 : 2;
        a->receipts.expected[0] =
            (weft_expected){.order = publisher->newest.order, .version = due, .withdrawn = rows[i].withdrawn};
        weft_wire_put_held(&out, &held);
        if (stays(WEFT_MESSAGE_HELD, &out) != rows[i].stays ||
            (rows[i].stays && a->receipts.count != (rows[i].withdrawn ? 0 : 1)) ||
            a->standing.held_order != publisher->newest.order - !(rows[i].stays && !rows[i].withdrawn))
            fail_msg("row %zu", i);
    }
}

/* What has its place only after an offer, or after a HELLO that says so, and what no rollout says. */
static void what_is_out_of_turn(void **state)
{
    static const struct {
        weft_message type;
        poke change;
        bool stays;
    } rows[] = {{WEFT_MESSAGE_ACCEPT, POKE(feed.kind, WEFT_FEED_NONE), false},
                {WEFT_MESSAGE_ACCEPT, POKE(feed.kind, WEFT_FEED_FOLLOWING), false},
                {WEFT_MESSAGE_ACCEPT, POKE(feed.kind, WEFT_FEED_OFFERED), true},
                {WEFT_MESSAGE_WANT, POKE(wish.named, false), false},
                {WEFT_MESSAGE_WANT, POKE(wish.named, true), true},
                {WEFT_MESSAGE_UPDATE, {0}, false},
                {WEFT_MESSAGE_PONG, {0}, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[8];
        weft_out out = {body, sizeof body, 0, false};
        anew();
        a->state = WEFT_PEER_CATCHING_UP;
        put(a, &rows[i].change);
        const uint32_t rtts = a->tuning.estimate.rtt_count;
        if (rows[i].type != WEFT_MESSAGE_ACCEPT)
            weft_wire_put_word(&out, s->time.now_ns + 1);
        if (stays(rows[i].type, &out) != rows[i].stays)
            fail_msg("row %zu", i);
        assert_int_equal(a->tuning.estimate.rtt_count, rtts); /* none of a time to come */
        if (rows[i].type == WEFT_MESSAGE_ACCEPT && rows[i].stays)
            assert_true(a->feed.kind == WEFT_FEED_SNAPSHOT && a->standing.held.root == 0);
    }
}

/* A relay drops who is too far behind: so long the peer is served alone. Whatever else fails there parts nobody. */
static void whom_the_relay_dropped(void **state)
{
    static const struct {
        uint64_t version;
        weft_status status;
        bool apart;
    } rows[] = {{0, WEFT_E_BUDGET, true}, {3, WEFT_E_BUDGET, false}, {0, WEFT_E_CORRUPT, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        const weft_wire_notice notice = {.status = rows[i].status, .version = rows[i].version};
        anew();
        a->following.parent = b;
        b->following.children = 1;
        weft_wire_put_notice(&out, &notice);
        assert_false(stays(WEFT_MESSAGE_FAULT, &out));
        assert_int_equal(a->following.apart_until > 0, rows[i].apart);
    }
}

/* A receipt is for the bucket that is on its way in that slot, whole, once. */
static void what_is_received(void **state)
{
    static const struct {
        uint32_t slot, off;
        bool posting, again, used, receipted, resent, taken;
    } rows[] = {{1, 0, false, false, true, false, false, true},   {1, 1, false, false, true, false, false, false},
                {1, 0, true, false, true, false, false, false},   {1, 0, false, true, true, false, false, false},
                {1, 0, false, false, false, false, false, false}, {1, 0, false, false, true, true, false, false},
                {2, 0, false, false, true, false, false, false},  {1, 0, false, false, true, false, true, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const weft_wire_receipt receipt = {.sequence = 40 + rows[i].off, .slot = rows[i].slot, .take_ns = 1000};
        const weft_estimate before = a->tuning.estimate;
        a->sender.posting.busy = rows[i].posting;
        a->sender.posting.slot = 1;
        a->sender.flights.again_chunks = a->sender.flights.parcels[1].again = rows[i].again;
        a->sender.flights.list[1] = (weft_flight){.used = rows[i].used,
                                                  .receipted = rows[i].receipted,
                                                  .resent = rows[i].resent,
                                                  .writes = 1,
                                                  .sequence = 40,
                                                  .bytes = 1000,
                                                  .posted_ns = s->time.now_ns - 1000000,
                                                  .slab = -1};
        a->sender.flights.list[2] = a->sender.flights.list[1]; /* beyond the slots that the peer has */
        if ((weft_receipts_take(a, &receipt, s->time.now_ns) == WEFT_OK) != rows[i].taken ||
            a->sender.flights.list[1].receipted != (rows[i].taken || rows[i].receipted) ||
            (memcmp(&before, &a->tuning.estimate, sizeof before) != 0) != (rows[i].taken && !rows[i].resent))
            fail_msg("row %zu", i);
    }
    a->sender.flights.list[1] = a->sender.flights.list[2] = (weft_flight){.slab = -1};
    a->sender.flights.again_chunks = a->sender.flights.parcels[1].again = 0;
}

/* ---- HELLO */

/* What auto4 says that has the fields of b; its far end is `far`. */
static weft_status greet(weft_peer **greeted, int *far)
{
    static uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    weft_control_adopt(&guest->connection.control, fd[0], 1000);
    *far = fd[1];
    guest->claim.hello.nonce = guest->connection.control.nonce = 5;
    snprintf(guest->claim.hello.name, sizeof guest->claim.hello.name, "auto4");
    weft_wire_put_hello(&out, &guest->claim.hello);
    weft_log_sink *before = weft_log_enter(&trainer->session->sink);
    const weft_status status = weft_peer_greet(trainer, guest, out.data, out.used, greeted);
    weft_log_enter(before);
    return status;
}

static void who_may_join(void **state)
{
    static const struct {
        poke change;
        weft_status status;
    } rows[] = {{{0}, WEFT_OK},
                {POKE(claim.hello.slot_payload, 8), WEFT_E_REFUSED},
                {POKE(claim.hello.levels, 1u << WEFT_LEVEL_FAST), WEFT_E_PROTOCOL},
                {POKE(claim.hello.levels, 1u << WEFT_LEVEL_FULL), WEFT_E_PROTOCOL},
                {POKE(claim.hello.chunk_bytes, 16), WEFT_E_PROTOCOL},
                {POKE(claim.hello.provider, 0x706374), WEFT_E_REFUSED}, /* tcp */
                {POKE(claim.hello.slots, WEFT_SLOTS_MAX), WEFT_OK},
                {POKE(claim.hello.chunk_bytes, 1 << 20), WEFT_OK}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_peer *greeted;
        int far;
        anew();
        guest->claim.hello = b->claim.hello;
        put(guest, &rows[i].change);
        guest->wish.open = true; /* of a life before */
        const weft_status status = greet(&greeted, &far);
        if (status != rows[i].status || guest->connection.greeted != (status == WEFT_OK))
            fail_msg("row %zu: %s: %s", i, weft_status_name(status), weft_last_error());
        assert_true(status != WEFT_OK || (guest->sender.flights.slots <= 2 && !guest->wish.open)); /* window = 2 */
        assert_true(status != WEFT_OK ||
                    guest->sender.posting.chunk_bytes <= guest->sender.rails.outlet->facts.chunk_bytes);
        for (uint32_t at = 0; status == WEFT_OK && at < guest->sender.rails.count; at++)
            assert_int_equal(guest->sender.rails.list[at].state, WEFT_RAIL_TRYING); /* until a probe came through */
        close(far);
    }
}

/* The version of each order, and the bits of none. */
static weft_version version_of(uint64_t order)
{
    const weft_update *next = weft_journal_at(&publisher->journal, order + 1);
    return order == WEFT_ORDER_UNKNOWN ? (weft_version){0, 0, 7} : next ? next->base : publisher->newest.version;
}

/* What is held and staged is found by its bits. A version of other bits is as none. */
static void what_it_is_known_to_hold(void **state)
{
    enum { NONE = 9, OTHER = 8 };
    static const struct {
        uint32_t holds, stages;
        bool bound, lost, attached, joins; /* attached: it says so */
        uint64_t held, sent;
        bool labelled;
        uint32_t expected;
    } rows[] = {
        {3, NONE, true, false, true, true, 3, 3, true, 0},
        {3, NONE, true, false, false, true, 3, 3, false, 0}, /* the label comes with the attachment */
        {1, NONE, true, false, true, true, 1, 1, true, 0},
        {OTHER, NONE, true, false, true, true, WEFT_ORDER_UNKNOWN, WEFT_ORDER_UNKNOWN, false, 0},
        {1, 2, true, false, true, true, 1, 2, true, 1},
        {1, OTHER, true, false, true, true, 1, 1, true, 0},
        {3, NONE, false, false, true, false, 0, 0, false, 0},
        {1, NONE, true, true, true, true, 1, 1, true, 0},
        {OTHER, NONE, true, true, true, false, 0, 0, false, 0},
        {NONE, 1, true, false, true, true, WEFT_ORDER_UNKNOWN, 1, false, 1}, /* by its name: 2 has the same bits */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_peer *greeted;
        int far;
        anew();
        weft_wire_hello *hello = &guest->claim.hello;
        *hello = b->claim.hello;
        weft_journal_at(&publisher->journal, 2)->base.root =
            rows[i].holds == NONE ? version_of(2).root : version_of(1).root;
        publisher->bound = rows[i].bound;
        publisher->shadow.lost = rows[i].lost;
        hello->holds = rows[i].holds != NONE;
        hello->held = version_of(rows[i].holds == OTHER ? WEFT_ORDER_UNKNOWN : rows[i].holds);
        hello->stages = rows[i].stages != NONE;
        hello->staged = version_of(rows[i].stages == OTHER ? WEFT_ORDER_UNKNOWN : rows[i].stages);
        hello->attachment = hello->staged_attachment = rows[i].attached ? publisher->newest.attachment->hash : 0;
        hello->attachment += rows[i].holds == NONE;
        greet(&greeted, &far);
        const bool joined = guest->state == WEFT_PEER_LIVE || guest->state == WEFT_PEER_CATCHING_UP;
        const weft_standing *standing = &guest->standing;
        if (joined != rows[i].joins ||
            (joined && (standing->held_order != rows[i].held || standing->sent_order != rows[i].sent ||
                        (standing->held.run != 0) != rows[i].labelled || guest->receipts.count != rows[i].expected)))
            fail_msg("row %zu: %s", i, weft_last_error());
        publisher->bound = true;
        close(far);
    }
}

/* ---- time */

/* How long a peer may be silent, may take no write, and may not say who it is. */
static void how_long_it_stays(void **state)
{
    static const struct {
        bool greeted, leaving;
        uint64_t silent_ms, still_ms, here_ms; /* ago */
        uint32_t writes;
        bool again, stays;
    } rows[] = {{true, false, SIM_HEARTBEAT_MS - 1, 0, 0, 0, false, true},
                {true, false, SIM_HEARTBEAT_MS + 1, 0, 0, 0, false, false},
                {true, false, 0, SIM_IO_MS + 1, 0, 0, false, true},
                {true, false, 0, SIM_IO_MS - 1, 0, 1, false, true},
                {true, false, 0, SIM_IO_MS + 1, 0, 1, false, false},
                {true, false, 0, SIM_IO_MS + 1, 0, 0, true, false},
                {false, false, 0, 0, 900, 0, false, true},
                {false, false, 0, 0, 1100, 0, false, false},
                {false, true, 0, 0, 1100, 0, false, true},
                {false, true, 0, 0, 60001, 0, false, false}};
    static weft_peer before;
    (void)state;
    before = *a;
    trainer->session->site->guests.deadline_ms = 1000;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_waits waits = {.wake_ns = UINT64_MAX};
        *a = before;
        a->connection.greeted = rows[i].greeted;
        a->connection.leaving = rows[i].leaving;
        a->connection.control.heard_ns = s->time.now_ns - rows[i].silent_ms * WEFT_NS_PER_MS;
        a->sender.flights.progress_ns = s->time.now_ns - rows[i].still_ms * WEFT_NS_PER_MS;
        a->connection.opened_ns = s->time.now_ns - rows[i].here_ms * WEFT_NS_PER_MS;
        a->sender.flights.writes = rows[i].writes;
        a->sender.posting.again = rows[i].again;
        if ((weft_peer_check_time(trainer, a, s->time.now_ns, &waits) == WEFT_OK) != rows[i].stays)
            fail_msg("row %zu", i);
    }
    *a = before;
    for (uint64_t early = 2; early-- > 0;) { /* a quarter of its heartbeat after the last one it gets another PING */
        weft_waits waits = {.wake_ns = UINT64_MAX};
        a->connection.control.heard_ns = s->time.now_ns;
        a->connection.pinged_ns = s->time.now_ns - SIM_HEARTBEAT_MS * WEFT_NS_PER_MS / 4 + early;
        assert_int_equal(weft_peer_check_time(trainer, a, s->time.now_ns, &waits), WEFT_OK);
        assert_int_equal(a->connection.pinged_ns == s->time.now_ns, !early);
    }
}

/* However slow the link is said to be, a bucket is waited for no longer than at 100 kB/s. */
static void how_long_a_bucket_may_take(void **state)
{
    weft_waits waits = {.wake_ns = UINT64_MAX};
    (void)state;
    a->sender.flights.list[0] = (weft_flight){.used = true, .bytes = 1000000, .slab = -1};
    a->sender.flights.slots_free--;
    a->tuning.estimate.rate_bytes_s = 1;
    assert_int_equal(weft_receipts_check(a, s->time.now_ns, &waits), WEFT_OK);
    s->time.now_ns += (SIM_PATIENCE_MS + 16 * 20000 + 1000) * WEFT_NS_PER_MS; /* there and at the peer */
    assert_int_equal(weft_receipts_check(a, s->time.now_ns, &waits), WEFT_E_PEER_LOST);
    a->sender.flights.list[0] = (weft_flight){.slab = -1};
    a->sender.flights.slots_free++;
}

/* PASSING goes, once in its time, to a peer that has taken all and waits for what is still being made. */
static void who_hears_passing(void **state)
{
    static const struct {
        weft_feed_kind kind;
        uint32_t taken; /* slots */
        bool posting, told;
    } rows[] = {{WEFT_FEED_SNAPSHOT, 0, false, true},  {WEFT_FEED_REPAIR, 0, false, true},
                {WEFT_FEED_UPDATE, 0, false, false},   {WEFT_FEED_NONE, 0, false, false},
                {WEFT_FEED_SNAPSHOT, 1, false, false}, {WEFT_FEED_SNAPSHOT, 0, true, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_waits waits = {.wake_ns = UINT64_MAX};
        a->connection.told_ns = 1;
        a->feed.kind = rows[i].kind;
        a->sender.posting.busy = rows[i].posting;
        a->sender.flights.slots_free -= rows[i].taken;
        assert_int_equal(weft_peer_check_time(trainer, a, s->time.now_ns, &waits), WEFT_OK);
        if ((a->connection.told_ns == s->time.now_ns) != rows[i].told)
            fail_msg("row %zu", i);
        a->sender.flights.slots_free += rows[i].taken;
    }
    a->feed.kind = WEFT_FEED_NONE;
    a->sender.posting.busy = false;
}

/* What a lost peer owes is forgotten, and who comes through it is lost too. */
static void who_is_lost(void **state)
{
    (void)state;
    b->following.parent = a;
    c->following.parent = b;
    a->following.children = b->following.children = 1;
    a->receipts.count = c->receipts.count = 1;
    a->sender.flights.list[0] = (weft_flight){.used = true, .writes = 1, .update = newest()};
    newest()->readers = 1;
    a->sender.flights.list[0].slab = weft_feed_take_slab(&trainer->peers, &a->sender.flights);
    weft_peer_lose(&trainer->peers, a, WEFT_E_PEER_LOST, "a test");
    assert_false(a->connection.greeted || b->connection.greeted || c->connection.greeted);
    assert_int_equal(a->receipts.count + c->receipts.count, 0);
    assert_int_equal(newest()->readers, 0); /* by what was under way */
    assert_int_equal(trainer->buffers.slabs.free_count, trainer->buffers.slabs.count);
    assert_int_equal(a->following.children + b->following.children, 0);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 3);
    weft_peer_lose(&trainer->peers, a, WEFT_E_PEER_LOST, "a test");
    weft_peer_lose(&trainer->peers, guest, WEFT_E_PEER_LOST, "a test");
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_held),           TEST(what_is_out_of_turn),
        TEST(whom_the_relay_dropped), TEST(what_is_received),
        TEST(who_may_join),           TEST(what_it_is_known_to_hold),
        TEST(how_long_it_stays),      TEST(how_long_a_bucket_may_take),
        TEST(who_hears_passing),      TEST(who_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
