/* A rollout with a wrong bit asks the trainer for a tile that comes, is being made, or is forgotten. It waits exactly
 * as long as that is right (core/rollout/rollout.c), on a clock of the test's own. */
#include "tests/support/sim_tick.h"

#include "rollout/rollout.h"

static sim *with_a_repair_asked_for(void)
{
    sim *s = sim_open(FLEET_TILES, 1, 1);
    sim_start_trainer(s);
    memcpy(s->other, s->dense, s->bytes);
    s->other[s->bytes / 2] ^= 1;
    sim_join(s, &s->rollouts[0], "auto1", s->other, NULL);
    while (s->rollouts[0].session->rollout->course.state != WEFT_COURSE_REPAIR)
        sim_tick(s);
    weft_peer *peer = sim_record(s, "auto1");
    const uint32_t free = peer->sender.flights.slots_free;
    peer->sender.flights.slots_free = 0; /* the trainer reads, and sends nothing */
    s->time.now_ns += WEFT_NS_PER_MS;
    fleet_step(s->trainer.session);
    assert_int_equal(peer->feed.kind, WEFT_FEED_REPAIR);
    peer->sender.flights.slots_free = free;
    return s;
}

static void repair_that_is_being_made(void **state)
{
    (void)state;
    sim *s = with_a_repair_asked_for();
    weft_feed *stream = &sim_record(s, "auto1")->feed;
    weft_bridged slow = {.turn = stream->made_turn, .state = WEFT_BRIDGED_MAKING}, *made = stream->made;
    stream->made = &slow;
    for (unsigned i = 0; i < 10 * SIM_PATIENCE_MS; i++)
        sim_tick(s);
    assert_int_equal(sim_lost(s), 0);
    stream->made = made;
    sim_settle(s, 20000);
    assert_int_equal(sim_lost(s), 0);
    sim_close(s);
}

static void repair_that_is_forgotten(void **state)
{
    (void)state;
    sim *s = with_a_repair_asked_for();
    weft_event event = {.size = sizeof event};
    const uint64_t begun_ms = sim_ms(s);
    sim_record(s, "auto1")->feed.kind = WEFT_FEED_OFFERED;
    while (sim_lost(s) == 0) {
        s->time.now_ns += WEFT_NS_PER_MS;
        fleet_step(s->trainer.session);
        weft_progress(s->rollouts[0].session, 0);
        if (sim_ms(s) > begun_ms + 2 * SIM_PATIENCE_MS)
            fleet_fail("it waits for ever");
    }
    assert_true(sim_ms(s) >= begun_ms + SIM_PATIENCE_MS - 10);
    do
        assert_int_equal(weft_events(s->rollouts[0].session, &event), WEFT_OK);
    while (event.kind != WEFT_EVENT_LOST);
    assert_non_null(strstr(event.text, "no repair was begun"));
    sim_settle(s, 20000);
    sim_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(repair_that_is_being_made),
                                       cmocka_unit_test(repair_that_is_forgotten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
