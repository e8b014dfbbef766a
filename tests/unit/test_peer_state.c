/* The state machine of a peer, cell by cell: what is drawn in docs/ARCHITECTURE.md and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "peer/peer.h"

#define GUEST   WEFT_PEER_GUEST
#define JOINING WEFT_PEER_JOINING
#define BEHIND  WEFT_PEER_CATCHING_UP
#define LIVE    WEFT_PEER_LIVE
#define LOST    WEFT_PEER_LOST

typedef struct arrow {
    weft_peer_state from;
    weft_peer_event event;
    weft_peer_state to;
} arrow;

static const arrow arrows[] = {
    {GUEST, WEFT_ON_HELLO, JOINING},     {LOST, WEFT_ON_HELLO, JOINING},       {GUEST, WEFT_ON_REFUSED, GUEST},
    {JOINING, WEFT_ON_REFUSED, LOST},    {JOINING, WEFT_ON_HELD_NEWEST, LIVE}, {JOINING, WEFT_ON_HELD_OLDER, BEHIND},
    {BEHIND, WEFT_ON_HELD_NEWEST, LIVE}, {BEHIND, WEFT_ON_HELD_OLDER, BEHIND}, {LIVE, WEFT_ON_HELD_NEWEST, LIVE},
    {LIVE, WEFT_ON_PUBLISH, BEHIND},     {BEHIND, WEFT_ON_PUBLISH, BEHIND},    {BEHIND, WEFT_ON_OFFERED, BEHIND},
    {BEHIND, WEFT_ON_ACCEPTED, BEHIND},  {LOST, WEFT_ON_FORGOTTEN, GUEST},
};

/* Each of these events ends a peer that got WELCOME, whatever the peer holds. */
static const weft_peer_event ends[] = {WEFT_ON_FAULT,  WEFT_ON_GOODBYE, WEFT_ON_SILENCE,  WEFT_ON_STALL, WEFT_ON_BROKEN,
                                       WEFT_ON_CLOSED, WEFT_ON_EVICTED, WEFT_ON_REPLACED, WEFT_ON_ENDED};

static uint32_t drawn(weft_peer_state state, weft_peer_event event)
{
    for (size_t i = 0; i < sizeof arrows / sizeof arrows[0]; i++)
        if (arrows[i].from == state && arrows[i].event == event)
            return arrows[i].to;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if ((state == BEHIND || state == LIVE) && ends[i] == event)
            return LOST;
    return UINT32_MAX;
}

static void quiet(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    (void)line;
}

static void every_cell(void **state)
{
    weft_session session = {.stopping = false};
    weft_log_sink sink = {WEFT_LOG_ERROR, quiet}, *before = weft_log_enter(&sink);
    (void)state;
    pthread_cond_init(&session.changed, NULL);
    for (unsigned from = 0; from < WEFT_PEER_STATES; from++)
        for (unsigned event = 0; event < WEFT_PEER_EVENTS; event++) {
            weft_peer peer = {.session = &session, .claim.name = "p", .state = (weft_peer_state)from};
            uint32_t to = drawn(peer.state, (weft_peer_event)event);
            uint64_t taken = weft_peer_moves(peer.state, (weft_peer_event)event);
            weft_status status = weft_peer_move(&peer, (weft_peer_event)event);
            assert_int_equal(status, to == UINT32_MAX ? WEFT_E_PROTOCOL : WEFT_OK);
            assert_int_equal(peer.state, to == UINT32_MAX ? from : to);
            assert_int_equal(weft_peer_moves((weft_peer_state)from, (weft_peer_event)event), taken + 1);
        }
    pthread_cond_destroy(&session.changed);
    weft_log_enter(before);
}

static void a_wrong_event_is_named(void **state)
{
    weft_session session = {.stopping = false};
    weft_peer peer = {.session = &session, .claim.name = "p", .state = LIVE};
    weft_log_sink sink = {WEFT_LOG_ERROR, quiet}, *before = weft_log_enter(&sink);
    (void)state;
    assert_int_equal(weft_peer_move(&peer, WEFT_ON_ACCEPTED), WEFT_E_PROTOCOL);
    assert_string_equal(weft_last_error(), "p: a snapshot accepted while live: out of turn");
    weft_log_enter(before);
}

static void events_have_names(void **state)
{
    (void)state;
    for (unsigned a = 0; a < WEFT_PEER_EVENTS; a++)
        for (unsigned b = 0; b < WEFT_PEER_EVENTS; b++)
            assert_int_equal(
                strcmp(weft_peer_event_name((weft_peer_event)a), weft_peer_event_name((weft_peer_event)b)) == 0,
                a == b);
}

/* No state is a trap: from each a peer can come to live again. */
static void live_can_be_reached(void **state)
{
    (void)state;
    for (unsigned from = 0; from < WEFT_PEER_STATES; from++) {
        unsigned reached = 1u << from;
        for (unsigned turn = 0; turn < WEFT_PEER_STATES; turn++)
            for (unsigned at = 0; at < WEFT_PEER_STATES; at++)
                for (unsigned event = 0; reached >> at & 1 && event < WEFT_PEER_EVENTS; event++) {
                    uint32_t to = weft_peer_after((weft_peer_state)at, (weft_peer_event)event);
                    reached |= to == UINT32_MAX ? 0 : 1u << to;
                }
        assert_true(reached >> LIVE & 1);
    }
}

/* A bucket's slot is free when the peer granted it and the provider has told of every write. */
static void a_flight_ends_with_its_last_write(void **state)
{
    weft_flights flights = {.slots_free = 0};
    weft_flight flight = {.used = true, .receipted = true, .writes = 1, .slab = -1};
    (void)state;
    weft_flight_release(&flights, &flight);
    assert_true(flight.used);
    flight.writes = 0;
    weft_flight_release(&flights, &flight);
    assert_false(flight.used);
    assert_int_equal(flights.slots_free, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cell), cmocka_unit_test(a_wrong_event_is_named),
                                       cmocka_unit_test(events_have_names), cmocka_unit_test(live_can_be_reached),
                                       cmocka_unit_test(a_flight_ends_with_its_last_write)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
