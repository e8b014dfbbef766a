/* Receipts that are due (core/peer/receipts.c), on a clock of the test's own. A peer that never takes a bucket is lost
 * within the bound and gives back what it held. A slow peer is not lost, whatever the reason: a link that is shared and
 * ten times slower than before, long work, a process stopped for less than a heartbeat, an engine that does not commit.
 *
 * WEFT_SEED=N plays one seed. */
#include "tests/support/sim_tick.h"

#include <stdlib.h>
#include <string.h>

#include "rollout/rollout.h"

#define SEEDS     4u
#define LINE      UINT64_C(12500000) /* 100 Mbit/s */
#define PAUSE_MS  140u               /* less than a heartbeat, with the quarter of one between two PINGs */
#define PATIENCE  16u
#define SLACK_MS  (SIM_HEARTBEAT_MS / 4 + 10u)
#define FOREVER_S 60u

static void line(uint64_t bytes_s)
{
    const weft_loop_faults faults = {.line_bytes_s = bytes_s};
    weft_loop_set_faults(&faults);
}

static uint32_t under_way(const weft_peer *peer)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < peer->sender.flights.slots; slot++)
        count += peer->sender.flights.list[slot].used && !peer->sender.flights.list[slot].receipted;
    return count;
}

static sim *start(fleet_size size, unsigned rollouts, uint64_t seed, const char *bucket)
{
    sim *s = sim_open(size, rollouts, seed);
    s->overrides[0] = bucket;
    s->overrides[1] = "trainer.journal=128MiB";  /* no peer is evicted */
    s->overrides[2] = "provider.loop.depth=500"; /* what a link buffers is sent long before it is there */
    s->overrides[3] = "commit.snapshot=staged";
    sim_start_trainer(s);
    return s;
}

/* ---- one who takes nothing */

/* The end reads, answers and counts what lands, but no bucket leaves its slot. */
static void mute(const sim_end *end)
{
    end->session->rollout->course.state = WEFT_COURSE_COMMITTING;
}

/* Publishes, and mutes it when it has the header, before a bucket is there. */
static void mute_in_update(sim *s, const sim_end *end)
{
    line(100000);
    sim_publish(s, 100);
    while (!end->session->rollout->arriving.queued)
        sim_tick(s);
    mute(end);
    weft_loop_set_faults(NULL);
    while (!sim_record(s, end->name)->receipts.count) /* all of it is on its way */
        sim_tick(s);
    for (unsigned i = 0; i < 10; i++)
        sim_tick(s);
}

/* From now on: it owes a receipt; when it is lost, and how that reads. */
static void check_lost_in_time(sim *s, sim_end *end)
{
    const weft_trainer *trainer = s->trainer.session->trainer;
    const uint64_t before = sim_lost(s), begun_ms = sim_ms(s), most_ms = SIM_PATIENCE_MS + PATIENCE * 2000u + SLACK_MS;
    weft_event event = {.size = sizeof event};
    uint64_t pinned = under_way(sim_record(s, end->name));
    weft_estimate *estimate = &sim_record(s, end->name)->tuning.estimate;
    assert_true(pinned > 0);
    estimate->rate_bytes_s = 2e6; /* as if it had been measured */
    while (sim_lost(s) == before) {
        assert_int_equal(end->session->rollout->course.state, WEFT_COURSE_COMMITTING);
        if (sim_ms(s) > begun_ms + most_ms)
            fleet_fail("%s holds %u buckets and is not lost", end->name, under_way(sim_record(s, end->name)));
        s->time.now_ns += WEFT_NS_PER_MS;
        weft_progress(s->trainer.session, 0);
        weft_progress(end->session, 0);
    }
    assert_true(sim_ms(s) >= begun_ms + SIM_PATIENCE_MS);
    assert_true(estimate->rate_bytes_s == 0); /* and is not believed next time */
    do
        assert_int_equal(weft_events(s->trainer.session, &event), WEFT_OK);
    while (event.kind != WEFT_EVENT_LOST);
    if (!strstr(event.text, "took no bucket for"))
        fleet_fail("%s", event.text);
    assert_int_equal(trainer->buffers.slabs.free_count, trainer->buffers.slabs.count);
    for (uint64_t order = trainer->publisher.journal.oldest; order < trainer->publisher.journal.next; order++)
        assert_int_equal(weft_journal_at((weft_journal *)&trainer->publisher.journal, order)->readers, 0);
    end->session->rollout->course.state = WEFT_COURSE_RECEIVING;
    sim_settle(s, 20000);
}

static void of_a_snapshot(void **state)
{
    (void)state;
    sim *s = start(FLEET_TILES, 1, 1, "peers.bucket_start=128KiB");
    sim_join(s, &s->rollouts[0], "auto1", NULL, NULL);
    while (!s->rollouts[0].session->rollout->arriving.book.buckets)
        sim_tick(s);
    mute(&s->rollouts[0]);
    sim_tick(s);
    check_lost_in_time(s, &s->rollouts[0]);
    sim_close(s);
}

static sim *with_one_live(void)
{
    sim *s = start(FLEET_TILES, 1, 1, "peers.bucket_start=128KiB");
    sim_join(s, &s->rollouts[0], "auto1", s->dense, NULL);
    sim_settle(s, 20000);
    return s;
}

static void of_an_update(void **state)
{
    (void)state;
    sim *s = with_one_live();
    mute_in_update(s, &s->rollouts[0]);
    check_lost_in_time(s, &s->rollouts[0]);
    sim_close(s);
}

/* It says that it holds what it never took: what came with that is owed all the same. */
static void of_an_update_that_it_says_it_holds(void **state)
{
    (void)state;
    sim *s = with_one_live();
    weft_rollout *rollout = s->rollouts[0].session->rollout;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    mute_in_update(s, &s->rollouts[0]);
    weft_wire_held held = {.version = s->trainer.session->trainer->publisher.newest.version};
    memcpy(held.layout, rollout->session->layout->hash, sizeof held.layout);
    weft_wire_put_held(&out, &held);
    weft_control_send(&rollout->joining.control, WEFT_MESSAGE_HELD, out.data, out.used);
    for (unsigned i = 0; i < 5; i++)
        sim_tick(s);
    assert_int_equal(sim_record(s, "auto1")->standing.held.number, s->newest);
    check_lost_in_time(s, &s->rollouts[0]);
    sim_close(s);
}

/* ---- engines that take their time */

static void not_of_what_waits_for_a_commit(void **state)
{
    (void)state;
    sim *s = with_one_live();
    weft_staged_info info = {.size = sizeof info};
    sim_publish(s, 100);
    while (weft_staged(s->rollouts[0].session, 0, &info) != WEFT_OK)
        sim_tick(s);
    sim_publish(s, 100);
    for (unsigned i = 0; i < FOREVER_S * 1000; i++)
        sim_tick(s);
    assert_true(under_way(sim_record(s, "auto1")) > 0);
    assert_int_equal(sim_lost(s), 0);
    sim_settle(s, 20000);
    assert_int_equal(sim_lost(s), 0);
    sim_close(s);
}

static void not_of_a_snapshot_that_waits_for_a_commit(void **state)
{
    (void)state;
    sim *s = start(FLEET_TILES, 2, 1, "peers.bucket_start=128KiB");
    sim_join(s, &s->rollouts[0], "auto1", NULL, NULL);
    sim_join(s, &s->rollouts[1], "auto2", NULL, "commit.snapshot=in_place");
    for (unsigned i = 0; i < FOREVER_S * 1000; i++)
        sim_tick(s);
    assert_int_equal(sim_lost(s), 0);
    sim_settle(s, 20000);
    assert_int_equal(sim_lost(s), 0);
    sim_close(s);
}

static unsigned staged(sim *s, unsigned first, unsigned end)
{
    unsigned count = 0;
    for (unsigned i = first; i < end; i++) {
        weft_staged_info info = {.size = sizeof info};
        count += weft_staged(s->rollouts[i].session, 0, &info) == WEFT_OK;
    }
    return count;
}

/* Attachments of what waits there do not keep a snapshot from another peer. */
static void not_of_a_slab_that_others_need(void **state)
{
    (void)state;
    sim *s = start(FLEET_TILES, 7, 1, "peers.bucket_start=128KiB");
    for (unsigned i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "auto%u", i);
        sim_join(s, &s->rollouts[i], name, s->dense, NULL);
    }
    sim_settle(s, 20000);
    assert_true(s->trainer.session->trainer->buffers.slabs.count <= 6);
    sim_publish(s, 10);
    while (staged(s, 0, 6) < 6)
        sim_tick(s);
    snprintf(s->attachment, sizeof s->attachment, "another");
    sim_publish(s, 10);
    for (unsigned i = 0; i < 100; i++)
        sim_tick(s);
    sim_join(s, &s->rollouts[6], "auto6", NULL, NULL);
    for (unsigned i = 0; staged(s, 6, 7) == 0; i++) {
        if (i == 5000)
            fleet_fail("no snapshot: %u of %u slabs are free", s->trainer.session->trainer->buffers.slabs.free_count,
                       s->trainer.session->trainer->buffers.slabs.count);
        sim_tick(s);
    }
    sim_settle(s, 20000);
    assert_int_equal(sim_lost(s), 0);
    sim_close(s);
}

/* More snapshots than slabs: each goes on, and none waits until those before it are whole. */
static void not_of_slabs_that_others_take(void **state)
{
    (void)state;
    sim *s = start(FLEET_LARGE, 7, 1, "peers.bucket=256KiB");
    line(LINE); /* four snapshots take two seconds */
    assert_in_range(4 * s->bytes * 1000 / LINE, 1500, 2500);
    for (unsigned i = 0; i < 7; i++) {
        char name[16];
        snprintf(name, sizeof name, "auto%u", i);
        sim_join(s, &s->rollouts[i], name, NULL, "session.io_deadline=350ms");
    }
    assert_int_equal(s->trainer.session->trainer->buffers.slabs.count, 4);
    sim_settle(s, 60000);
    if (sim_lost(s) > 0)
        fleet_fail("%llu peers were lost", (unsigned long long)sim_lost(s));
    sim_close(s);
}

/* ---- slow ones */

static bool works;

/* At the rollout time passes with whatever it does. */
static uint64_t drag(void *user)
{
    fleet_clock *time = user;
    time->now_ns += works ? 12 * WEFT_NS_PER_MS : 0;
    return time->now_ns;
}

/* A bucket takes it longer than the deadlines alone would allow. */
static void not_when_work_takes_long(void **state)
{
    (void)state;
    sim *s = sim_open(FLEET_LARGE, 1, 1);
    sim_end *end = &s->rollouts[0];
    s->overrides[0] = "peers.bucket=2MiB";
    s->overrides[1] = "session.io_deadline=100ms";
    s->overrides[2] = "commit.snapshot=staged";
    s->time.clock.now_ns = drag;
    sim_start_trainer(s);
    sim_join(s, end, "auto1", NULL, "session.io_deadline=60s");
    weft_staged_info info = {.size = sizeof info};
    uint64_t begun_ms = 0;
    for (unsigned i = 0; weft_staged(end->session, 0, &info) != WEFT_OK; i++) {
        if (i == 1000)
            fleet_fail("no snapshot");
        if (begun_ms == 0 && end->session->rollout->arriving.book.buckets)
            begun_ms = sim_ms(s);
        s->time.now_ns += WEFT_NS_PER_MS;
        fleet_step(s->trainer.session);
        works = true;
        fleet_step(end->session);
        works = false;
    }
    const uint64_t each_ms = (sim_ms(s) - begun_ms) / end->session->rollout->arriving.book.buckets;
    if (each_ms < SIM_HEARTBEAT_MS + 100)
        fleet_fail("%llu ms a bucket are no time", (unsigned long long)each_ms);
    assert_int_equal(sim_lost(s), 0);
    sim_close(s);
}

/* Bytes that moved meanwhile wait for the trainer, and that is not the peer's fault. */
static void not_when_the_trainer_stops(void **state)
{
    (void)state;
    sim *s = sim_open(FLEET_LARGE, 1, 1);
    s->overrides[0] = "peers.heartbeat=5s";
    s->overrides[1] = "commit.snapshot=staged";
    sim_start_trainer(s);
    sim_join(s, &s->rollouts[0], "auto1", NULL, "session.io_deadline=60s");
    while (!s->rollouts[0].session->rollout->arriving.book.buckets)
        sim_tick(s);
    assert_true(sim_record(s, "auto1")->sender.flights.writes > 0);
    for (unsigned i = 0; i < 10 * SIM_IO_MS; i++) {
        s->time.now_ns += WEFT_NS_PER_MS;
        fleet_step(s->rollouts[0].session);
    }
    sim_settle(s, 20000);
    assert_int_equal(sim_lost(s), 0);
    sim_close(s);
}

/* The life of a fleet on one line: versions, stops, and a rate that falls tenfold and comes back. */
static void suffer(sim *s)
{
    sim_end *end = &s->rollouts[sim_below(s, s->rollout_count)];
    const uint64_t what = sim_below(s, 100);
    if (what < 2)
        line(what == 0 ? LINE : LINE / 10); /* for a second or two */
    else if (what < 10 && sim_awake(s, end))
        sim_stop(s, end, 1 + sim_below(s, PAUSE_MS));
    else if (what < 15 && s->history_count < 40)
        sim_publish(s, (uint32_t)(1 + sim_below(s, 300)));
}

static void play(uint64_t seed)
{
    static const char *const names[] = {"auto1", "auto2", "tight3",
                                        "full4"}; /* with buckets alike: one line, one queue */
    sim *s = start(FLEET_LARGE, 1 + (unsigned)(seed % 4), seed, "peers.bucket=1MiB");
    line(LINE);
    for (unsigned i = 0; i < s->rollout_count; i++)
        sim_join(s, &s->rollouts[i], names[i], i % 2 ? s->dense : NULL, "session.io_deadline=60s");
    s->act = suffer;
    sim_rounds(s, 6000);
    s->act = NULL;
    line(LINE);
    sim_settle(s, 60000);
    if (sim_lost(s) > 0)
        fleet_fail("%llu peers were lost", (unsigned long long)sim_lost(s));
    sim_close(s);
}

static void not_on_slow_links(void **state)
{
    const char *text = getenv("WEFT_SEED");
    (void)state;
    if (text)
        play(strtoull(text, NULL, 0));
    for (uint64_t seed = 1; !text && seed <= SEEDS; seed++)
        play(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_snapshot),
        cmocka_unit_test(of_an_update),
        cmocka_unit_test(of_an_update_that_it_says_it_holds),
        cmocka_unit_test(not_of_what_waits_for_a_commit),
        cmocka_unit_test(not_of_a_snapshot_that_waits_for_a_commit),
        cmocka_unit_test(not_of_a_slab_that_others_need),
        cmocka_unit_test(not_of_slabs_that_others_take),
        cmocka_unit_test(not_when_work_takes_long),
        cmocka_unit_test(not_when_the_trainer_stops),
        cmocka_unit_test(not_on_slow_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
