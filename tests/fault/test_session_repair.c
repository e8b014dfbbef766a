/* Bits that are no version are mended by the units that differ, and by a snapshot only where those are most. */
#include "tests/support/fleet_fake.h"

#include <string.h>

#define TILE_BYTES (262144u * 2u) /* of the first tile of `wide` */

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("trainer.journal=64MiB")};

static const fleet_kind full_fleet = {FLEET_TILES, .starts = true,
                                      .overrides = FLEET_WITH("trainer.journal=64MiB", "commit.verify=full")};

static const fleet_kind small_staging_fleet = {FLEET_TILES, .starts = true,
                                               .overrides = FLEET_WITH("trainer.journal=64MiB", "peers.staging=3MiB")};

static void flip(fleet *f, unsigned at, const char *tensor, uint64_t byte)
{
    *fleet_model_at(&f->rollouts[at].model, fleet_tensor_at(f->layout, tensor) + byte) ^= 0x04;
}

/* Joins with the bits of a version but for one. */
static void join_flipped(fleet *f, unsigned at, uint64_t version, const char *tensor, uint64_t byte)
{
    uint8_t *wrong = test_malloc(f->bytes);
    memcpy(wrong, f->history[version].dense, f->bytes);
    wrong[fleet_tensor_at(f->layout, tensor) + byte] ^= 0x04;
    fleet_join_bits(f, at, wrong);
    test_free(wrong);
}

/* It holds the newest bits, without a snapshot, and goes on. */
static void mended(fleet *f, unsigned at)
{
    fleet_catch_up(f, at);
    assert_int_equal(fleet_line(f, f->rollouts[at].name).snapshot_bytes, 0);
    assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    fleet_publish(f, 10);
    fleet_catch_up(f, at);
    assert_int_equal(fleet_line(f, f->rollouts[at].name).snapshot_bytes, 0);
}

static void one_bit(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_publish(f, 100);
    join_flipped(f, 0, 1, "wide", 1000);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(staged.kind, WEFT_STAGED_UPDATE);
    assert_int_equal(staged.base.run, 0);
    assert_int_equal(staged.changed, 1);
    fleet_catch_up(f, 0);
    weft_peer_info a = fleet_line(f, "a");
    print_message("repaired with %llu bytes, the tile has %u\n", (unsigned long long)a.bytes, TILE_BYTES);
    assert_true(a.bytes >= TILE_BYTES && a.bytes < TILE_BYTES + 2048);
    mended(f, 0);
}

/* A tensor in a pack of many, and a tile, of one version. */
static void several_bits(void **state)
{
    fleet *f = *state;
    uint8_t *wrong = test_malloc(f->bytes);
    memcpy(wrong, f->dense, f->bytes);
    wrong[fleet_tensor_at(f->layout, "norm.0")] ^= 1;
    wrong[fleet_tensor_at(f->layout, "norm.2") + 7] ^= 1;
    wrong[fleet_tensor_at(f->layout, "wide") + 599797] ^= 1;
    fleet_join_bits(f, 0, wrong);
    test_free(wrong);
    mended(f, 0);
}

/* Nearest is a version that is no longer the newest: its bits are rebuilt, and what followed comes as one update. */
static void an_older_version(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 4; i++)
        fleet_publish(f, 20);
    join_flipped(f, 0, 1, "wide", 600);
    join_flipped(f, 1, 3, "norm.2", 9);
    mended(f, 0);
    fleet_catch_up(f, 1);
    assert_int_equal(fleet_line(f, "b").snapshot_bytes, 0);
}

/* A version that changed every element is undone, because its frames hold steps. */
static void everything_changed(void **state)
{
    fleet *f = *state;
    fleet_publish(f, 20);
    fleet_publish(f, 1000);
    join_flipped(f, 0, 1, "wide", 600);
    mended(f, 0);
}

static void more_than_staging_holds(void **state)
{
    fleet *f = *state;
    uint8_t *wrong = test_malloc(f->bytes);
    memcpy(wrong, f->dense, f->bytes);
    for (uint64_t tile = 0; tile < 2; tile++)
        wrong[fleet_tensor_at(f->layout, "wide") + tile * TILE_BYTES] ^= 1;
    wrong[fleet_tensor_at(f->layout, "double")] ^= 1;
    fleet_join_bits(f, 0, wrong);
    test_free(wrong);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
}

/* ---- found later */

static void by_scrub(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
    flip(f, 0, "wide", 77);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_E_BASE);
    assert_int_equal(fleet_commit(f, 0, FLEET_WAIT_MS), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
    mended(f, 0);
}

static weft_event next_event(weft_session *session)
{
    weft_event event = {.size = sizeof event};
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; weft_events(session, &event) != WEFT_OK; fleet_sleep_ms(2))
        assert_true(fleet_now_ms() < end);
    return event;
}

typedef struct told {
    bool again, away;
} told;

static void note(void *user, weft_log_level level, const char *line)
{
    told *t = user;
    (void)level;
    t->again = t->again || strstr(line, "joins again to have version 1 repaired: scrub: tensor wide");
    t->away = t->away || strstr(line, "away");
}

/* The trainer was there throughout, and nothing says otherwise. */
static void tells_what_it_is(void **state)
{
    fleet *f = *state;
    told t = {false, false};
    const weft_options options = {.size = sizeof options, .log = note, .log_user = &t};
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_rollout_open(site, "a", f->layout, &options, &f->rollouts[0].session), WEFT_OK);
    weft_site_free(site);
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
    weft_session *session = f->rollouts[0].session;
    weft_event event = {.size = sizeof event};
    while (weft_events(session, &event) == WEFT_OK)
        continue;
    flip(f, 0, "wide", 77);
    assert_int_equal(weft_scrub(session), WEFT_E_BASE);
    event = next_event(session);
    assert_int_equal(event.kind, WEFT_EVENT_RESYNC);
    assert_int_equal(event.version.number, 1);
    assert_int_equal(next_event(session).kind, WEFT_EVENT_JOINED);
    assert_int_equal(next_event(session).kind, WEFT_EVENT_STAGED);
    mended(f, 0);
    fleet_leave(f, 0);
    assert_true(t.again);
    assert_false(t.away);
}

static void by_verify(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
    flip(f, 0, "wide", 77);
    f->dense[fleet_tensor_at(f->layout, "bytes")] ^= 1;
    fleet_publish_dense(f, NULL);
    mended(f, 0);
}

/* ---- another trainer */

static void restart(fleet *f, const uint8_t *dense)
{
    fleet_stop_trainer(f);
    memcpy(f->dense, dense, f->bytes);
    fleet_start_trainer(f, NULL);
}

static void the_same_bits(void **state)
{
    fleet *f = *state;
    weft_event event;
    weft_version held;
    fleet_publish(f, 100);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    uint8_t *dense = test_malloc(f->bytes);
    memcpy(dense, f->dense, f->bytes);
    fleet_stop_trainer(f);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_GOODBYE, "trainer", FLEET_WAIT_MS, &event));
    assert_non_null(strstr(event.text, "trainer away, serving version 1"));
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK); /* served meanwhile */
    fleet_sleep_ms(200);
    assert_false(fleet_event(f->rollouts[0].session, WEFT_EVENT_GOODBYE, NULL, 0, NULL)); /* reported once */
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, dense);
    test_free(dense);
    assert_int_equal(fleet_stats(f->trainer.session).bytes_sent, 0);
    mended(f, 0);
}

/* From a checkpoint of some versions ago, between which few tiles changed. */
static void an_older_checkpoint(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 3; i++) {
        f->dense[fleet_tensor_at(f->layout, "wide") + 2 * (uint64_t)i] ^= 0x10;
        fleet_publish_dense(f, NULL);
        fleet_catch_up(f, 0);
    }
    restart(f, f->history[1].dense);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->history[1].dense);
    assert_true(fleet_line(f, "a").bytes < TILE_BYTES + 2048);
    mended(f, 0);
}

static void another_model(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    uint8_t *other = test_malloc(f->bytes);
    uint64_t seed = 5;
    fleet_fill(f->layout, other, &seed);
    restart(f, other);
    test_free(other);
    fleet_catch_up(f, 0);
    assert_true(fleet_line(f, "a").snapshot_bytes > 0);
}

/* ---- on a bad link, and from a bad peer */

static void lost_in_the_middle(void **state)
{
    fleet *f = *state;
    const weft_loop_faults faults = {.seed = 5, .fail_at = 1};
    fleet_publish(f, 30);
    weft_loop_set_faults(&faults);
    join_flipped(f, 0, 1, "wide", 9);
    mended(f, 0);
}

/* Repairs that fail each time are not asked for without end: a snapshot is. */
static void never_whole(void **state)
{
    fleet *f = *state;
    const weft_loop_faults faults = {.seed = 7, .corrupt_every = 1};
    weft_staged_info staged = {.size = sizeof staged};
    fleet_publish(f, 30);
    weft_loop_set_faults(&faults);
    join_flipped(f, 0, 1, "wide", 9);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(staged.kind, WEFT_STAGED_SNAPSHOT);
    assert_true(fleet_stats(f->trainer.session).peers_joined <= 4); /* after three faults in a row */
    weft_loop_set_faults(NULL);
    fleet_catch_up(f, 0);
    assert_true(fleet_line(f, "a").snapshot_bytes > 0);
}

static void publishes_meanwhile(void **state)
{
    fleet *f = *state;
    for (int round = 0; round < 6; round++) {
        join_flipped(f, 0, f->history_count - 1, "wide", 1000u * (unsigned)round);
        for (int i = 0; i < 4; i++)
            fleet_publish(f, 10);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
        fleet_leave(f, 0);
    }
}

static fleet_fake fake;

static void greet(fleet *f, uint64_t root)
{
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_open(&fake, f);
    fake_hello(&fake, f, "b", root, &hello);
    fake_send_hello(&fake, &hello);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_WELCOME, body, &length));
    if (root != f->history[0].root)
        assert_true(fake_read_until(&fake, WEFT_MESSAGE_OFFER, body, &length));
}

static void ask(const weft_wire_repair *repair)
{
    uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX] = {0};
    weft_out out = {message + WEFT_MESSAGE_PREFIX, WEFT_MESSAGE_MAX, 0, false};
    weft_wire_put_repair(&out, repair);
    weft_bytes_put(message, out.used, 4);
    weft_bytes_put(message + 4, WEFT_MESSAGE_REPAIR, 2);
    fake_send(&fake, message, WEFT_MESSAGE_PREFIX + out.used);
}

static void closes_on(void **state, bool offered, weft_wire_repair repair)
{
    fleet *f = *state;
    weft_event event;
    greet(f, offered ? 99 : f->history[0].root);
    ask(&repair);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PROTOCOL);
    fake_close(&fake);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
}

static void not_offered(void **state)
{
    closes_on(state, false, (weft_wire_repair){.root = 99, .count = 1, .range = {{0, 1}}});
}

static void other_bits(void **state)
{
    closes_on(state, true, (weft_wire_repair){.root = 98, .count = 1, .range = {{0, 1}}});
}

static void no_such_unit(void **state)
{
    closes_on(state, true, (weft_wire_repair){.root = 99, .count = 1, .range = {{0, 1000}}});
}

static void no_such_unit_by_far(void **state)
{
    closes_on(state, true, (weft_wire_repair){.root = 99, .count = 2, .range = {{0, 1}, {UINT32_MAX, UINT32_MAX}}});
}

/* A version that is not known: the snapshot is offered again. */
static void no_such_version(void **state)
{
    fleet *f = *state;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    greet(f, 99);
    ask(&(weft_wire_repair){.root = 99, .version = {1, 2, 3}, .count = 1, .range = {{0, 1}}});
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_OFFER, body, &length));
    fake_close(&fake);
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_bit),
        TEST(several_bits),
        TEST(an_older_version),
        TEST(everything_changed),
        FLEET_TEST(more_than_staging_holds, small_staging_fleet),
        TEST(by_scrub),
        TEST(tells_what_it_is),
        FLEET_TEST(by_verify, full_fleet),
        TEST(the_same_bits),
        TEST(an_older_checkpoint),
        TEST(another_model),
        TEST(lost_in_the_middle),
        TEST(never_whole),
        TEST(publishes_meanwhile),
        TEST(not_offered),
        TEST(other_bits),
        TEST(no_such_unit),
        TEST(no_such_unit_by_far),
        TEST(no_such_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
