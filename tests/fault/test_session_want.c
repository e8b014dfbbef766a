/* Rollouts that name their versions: they get exactly these, by one update each, or are told why not. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "peer/peer.h"

/* How often the trainer passed a wish over, as its log says. */
static unsigned passed_over_lines;

static void hear(void *user, weft_log_level level, const char *line)
{
    (void)user;
    (void)level;
    passed_over_lines += strstr(line, "is passed over") != NULL;
}

static void hears(fleet *f)
{
    f->heard = hear;
    passed_over_lines = 0;
}

static void join_one(fleet *f)
{
    fleet_join(f, 0, FLEET_SAME);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_JOINED, "a", FLEET_WAIT_MS, NULL));
}

static const fleet_kind plain_fleet = {FLEET_SMALL, .starts = true, .wants = true, .open = hears, .opened = join_one};

static const fleet_kind short_fleet = {FLEET_TILES,   .starts = true, .overrides = FLEET_WITH("trainer.journal=16MiB"),
                                       .wants = true, .open = hears,  .opened = join_one};

static const fleet_kind little_fleet = {
    FLEET_TILES,
    .starts = true,
    .overrides = FLEET_WITH("peers.staging=2200KiB", "peers.encoded=0KiB", "trainer.journal=128MiB"),
    .wants = true,
    .open = hears,
    .opened = join_one};

/* A snapshot goes into an image, and takes seconds if nobody makes its link faster. */
static const fleet_kind slow_fleet = {FLEET_TILES,
                                      .starts = true,
                                      .overrides = FLEET_WITH("peers.bucket_min=64KiB", "peers.bucket=64KiB",
                                                              "provider.loop.chunk=32KiB", "commit.snapshot=staged",
                                                              "peer.b.rate_limit=4Mbit/s"),
                                      .wants = true,
                                      .open = hears,
                                      .opened = join_one};

static weft_session *rollout(fleet *f)
{
    return f->rollouts[0].session;
}

static void publish_many(fleet *f, unsigned count, uint32_t per_mille)
{
    for (unsigned i = 0; i < count; i++)
        fleet_publish(f, per_mille);
}

static uint64_t held(fleet *f)
{
    weft_version version;
    assert_int_equal(weft_held(rollout(f), &version), WEFT_OK);
    return version.number;
}

/* Waits until that version is staged, and commits it. */
static void take(fleet *f, uint64_t number)
{
    weft_staged_info info = {.size = sizeof info};
    weft_status status = weft_staged(rollout(f), FLEET_WAIT_MS, &info);
    if (status != WEFT_OK)
        fail_msg("version %llu: %s: %s", (unsigned long long)number, weft_status_name(status), weft_last_error());
    assert_int_equal(info.kind, WEFT_STAGED_UPDATE);
    assert_int_equal(info.target.number, number);
    assert_int_equal(info.base.number, held(f));
    assert_int_equal(weft_commit(rollout(f), number, NULL, 0, NULL), WEFT_OK);
    fleet_check(f, 0);
}

static void nothing_comes(fleet *f)
{
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(rollout(f), 150, &info), WEFT_AGAIN);
}

static void passed(fleet *f, const char *words)
{
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_E_PASSED);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
    nothing_comes(f); /* told once */
}

static void await_offer(fleet *f, uint64_t number)
{
    uint64_t offered = 0;
    while (offered < number)
        assert_int_equal(weft_offered(rollout(f), offered, FLEET_WAIT_MS, &offered), WEFT_OK);
    assert_int_equal(offered, number);
    assert_int_equal(weft_offered(rollout(f), number, 0, &offered), WEFT_AGAIN);
}

static void exactly_what_is_wanted(void **state)
{
    fleet *f = *state;
    publish_many(f, 5, 100);
    await_offer(f, f->newest);
    nothing_comes(f);
    const uint64_t first = f->newest - 4;
    assert_int_equal(weft_want(rollout(f), first + 2), WEFT_OK);
    take(f, first + 2);
    nothing_comes(f);
    assert_int_equal(weft_want(rollout(f), first + 3), WEFT_OK);
    take(f, first + 3);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    take(f, f->newest);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK); /* is held */
    nothing_comes(f);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

static void not_published_yet(void **state)
{
    fleet *f = *state;
    const uint64_t first = f->newest + 1;
    assert_int_equal(weft_want(rollout(f), first + 2), WEFT_OK);
    publish_many(f, 2, 100);
    nothing_comes(f);
    publish_many(f, 2, 100);
    take(f, first + 2);
    nothing_comes(f);
}

/* What is staged stays, and the next one wanted comes after it, while the trainer goes on. */
static void one_after_the_other(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    fleet_publish(f, 100);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_OK);
        const uint64_t staged = info.target.number;
        publish_many(f, 3, 100);
        assert_int_equal(weft_want(rollout(f), f->newest - 1), WEFT_OK);
        fleet_sleep_ms(i % 2 ? 20 : 0);
        take(f, staged);
    }
    take(f, f->newest - 1);
    nothing_comes(f);
}

static void passed_over(void **state)
{
    fleet *f = *state;
    char words[96];
    publish_many(f, 2, 100);
    const uint64_t first = f->newest - 1;
    f->newest += 3;
    fleet_publish(f, 100);
    assert_int_equal(weft_want(rollout(f), first + 3), WEFT_OK);
    snprintf(words, sizeof words, "no version has that number; near are version %llu below and %llu above",
             (unsigned long long)first + 1, (unsigned long long)f->newest);
    passed(f, words);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    take(f, f->newest);
    assert_int_equal(weft_want(rollout(f), first), WEFT_OK);
    passed(f, "a later version was sent already");
    assert_int_equal(weft_want(rollout(f), f->newest + 1), WEFT_OK);
    fleet_publish(f, 100);
    take(f, f->newest);
    fleet_drop_events(f);
    assert_int_equal(passed_over_lines, 2);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void take_snapshot(fleet *f, uint64_t target)
{
    weft_staged_info info = {.size = sizeof info};
    const weft_status status = weft_staged(rollout(f), FLEET_WAIT_MS, &info);
    if (status != WEFT_OK)
        fail_msg("%s: %s", weft_status_name(status), weft_last_error());
    assert_int_equal(info.kind, WEFT_STAGED_SNAPSHOT);
    assert_int_equal(info.target.number, target);
    fleet_publish(f, 10); /* so the snapshot ends later than the version that was wanted */
    assert_int_equal(weft_commit(rollout(f), target, NULL, 0, NULL), WEFT_OK);
    fleet_check(f, 0);
    assert_true(held(f) > target);
    nothing_comes(f);
    fleet_publish(f, 10);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    take(f, f->newest);
    fleet_drop_events(f);
    assert_int_equal(passed_over_lines, 0);
}

/* The journal gave up what leads on. A snapshot is on its way all along, so no wish fails, whatever it names. */
static void the_journal_was_too_short(void **state)
{
    fleet *f = *state;
    publish_many(f, 40, 1000);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    take_snapshot(f, f->newest);
    publish_many(f, 40, 1000);
    assert_int_equal(weft_want(rollout(f), f->newest - 1), WEFT_OK);
    take_snapshot(f, f->newest);
}

/* Small updates take little room, so the least journal leads on from hundreds of versions. */
static void many_small_ones_have_room(void **state)
{
    fleet *f = *state;
    publish_many(f, 300, 1);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    take(f, f->newest);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

/* Bits of no version are repaired to the version that they are nearest to, whatever was wanted. */
static void a_repair_answers_the_wish(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    publish_many(f, 2, 10);
    f->dense[0] ^= 1;
    fleet_open_rollout(f, 1, NULL);
    assert_int_equal(weft_want(f->rollouts[1].session, f->newest - 1), WEFT_OK);
    fleet_bind_rollout(f, 1, FLEET_SAME, NULL);
    f->dense[0] ^= 1;
    assert_int_equal(weft_staged(f->rollouts[1].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.base.run, 0);
    assert_int_equal(info.target.number, f->newest);
    assert_int_equal(weft_commit(f->rollouts[1].session, f->newest, NULL, 0, NULL), WEFT_OK);
    fleet_check(f, 1);
    assert_int_equal(weft_staged(f->rollouts[1].session, 150, &info), WEFT_AGAIN);
    fleet_drop_events(f);
    assert_int_equal(passed_over_lines, 0);
}

/* A repair ends before the version that is wanted, which still comes when it is published. */
static void a_repair_leaves_a_later_wish(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    publish_many(f, 2, 10);
    f->dense[0] ^= 1;
    fleet_open_rollout(f, 1, NULL);
    weft_session *second = f->rollouts[1].session;
    assert_int_equal(weft_want(second, f->newest + 1), WEFT_OK);
    fleet_bind_rollout(f, 1, FLEET_SAME, NULL);
    f->dense[0] ^= 1;
    assert_int_equal(weft_staged(second, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.base.run, 0);
    assert_int_equal(weft_commit(second, f->newest, NULL, 0, NULL), WEFT_OK);
    fleet_publish(f, 10);
    assert_int_equal(weft_staged(second, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.target.number, f->newest);
    assert_int_equal(weft_commit(second, f->newest, NULL, 0, NULL), WEFT_OK);
    fleet_check(f, 1);
}

/* No update leads on, because the next one alone is larger than the rollout's staging: a snapshot comes. */
static void none_fits(fleet *f, unsigned versions)
{
    weft_staged_info info = {.size = sizeof info};
    publish_many(f, versions, 1000);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    const weft_status status = weft_staged(rollout(f), FLEET_WAIT_MS, &info);
    if (status != WEFT_OK)
        fail_msg("%s: %s", weft_status_name(status), weft_last_error());
    assert_int_equal(info.kind, WEFT_STAGED_SNAPSHOT);
    assert_int_equal(weft_commit(rollout(f), f->newest, NULL, 0, NULL), WEFT_OK);
    fleet_check(f, 0);
    assert_int_equal(held(f), f->newest);
    assert_true(fleet_line(f, "a").snapshot_bytes > 0);
    fleet_publish(f, 10);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    take(f, f->newest);
    fleet_drop_events(f);
    assert_int_equal(passed_over_lines, 0);
}

static void not_even_the_next_one_fits(void **state)
{
    none_fits(*state, 1);
    none_fits(*state, 3);
}

/* Returns the trainer's record of b, under the trainer's lock, when its snapshot runs. */
static weft_peer *snapshot_of_b(weft_session *session)
{
    weft_trainer *trainer = session->trainer;
    pthread_mutex_lock(&session->lock);
    for (uint32_t i = 0; i < trainer->peers.count; i++) {
        weft_peer *peer = &trainer->peers.list[i];
        if (peer->connection.greeted && strcmp(peer->claim.name, "b") == 0 && peer->feed.kind == WEFT_FEED_SNAPSHOT)
            return peer;
    }
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* The attachment changes while a snapshot is on its way, so that the snapshot's bits have no label. Attachment and
 * label follow, also for a rollout that wants no more than it got. */
static void a_label_follows(fleet *f, unsigned later)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version version = {0, 0, 0};
    const void *data = NULL;
    uint64_t bytes = 0;
    weft_peer *peer = NULL;
    fleet_open_rollout(f, 1, NULL);
    weft_session *second = f->rollouts[1].session;
    assert_int_equal(weft_want(second, f->newest), WEFT_OK);
    fleet_bind_rollout(f, 1, FLEET_EMPTY, NULL);
    while (!(peer = snapshot_of_b(f->trainer.session)))
        fleet_sleep_ms(1);
    pthread_mutex_unlock(&f->trainer.session->lock);
    fleet_change(f->layout, f->dense, 100, &f->seed);
    fleet_publish_dense(f, "other");
    for (unsigned i = 0; i < later; i++)
        fleet_publish(f, 10);
    peer = snapshot_of_b(f->trainer.session);
    assert_non_null(peer); /* it runs still */
    peer->sender.posting.pace.bytes_s = 1e9;
    pthread_mutex_unlock(&f->trainer.session->lock);
    for (unsigned i = 0; i < 2 && version.number != f->newest; i++) {
        assert_int_equal(weft_staged(second, FLEET_WAIT_MS, &info), WEFT_OK);
        assert_int_equal(weft_commit(second, info.target.number, NULL, 0, &version), WEFT_OK);
    }
    fleet_check(f, 1);
    assert_int_equal(version.number, f->newest);
    assert_true(version.run != 0);
    assert_int_equal(weft_attachment(second, &data, &bytes), WEFT_OK);
    assert_true(bytes == 5 && memcmp(data, "other", 5) == 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_joined, 2); /* by one connection each */
}

static void a_label_follows_a_snapshot(void **state)
{
    a_label_follows(*state, 0);
}

static void a_label_follows_several_versions(void **state)
{
    a_label_follows(*state, 3);
}

/* Three versions as one are too large here, and each is not. */
static void a_nearer_one_is_named(void **state)
{
    fleet *f = *state;
    publish_many(f, 20, 200);
    const uint64_t next = held(f) + 1;
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_E_PASSED);
    assert_non_null(strstr(weft_last_error(), "no update to it fits"));
    assert_int_equal(weft_want(rollout(f), next), WEFT_OK);
    take(f, next);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

/* A wish outlives its connection. */
static void the_trainer_comes_again(void **state)
{
    fleet *f = *state;
    fleet_publish(f, 100);
    assert_int_equal(weft_want(rollout(f), f->newest), WEFT_OK);
    take(f, f->newest);
    const uint64_t wanted = f->newest + 2;
    assert_int_equal(weft_want(rollout(f), wanted), WEFT_OK);
    fleet_stop_trainer(f);
    fleet_start_trainer(f, NULL);
    while (f->newest <= wanted)
        fleet_publish(f, 100);
    take(f, wanted);
}

static void a_rollout_that_takes_each(void **state)
{
    fleet *f = *state;
    uint64_t number;
    f->wants = false;
    fleet_join(f, 1, FLEET_SAME);
    fleet_publish(f, 100);
    fleet_catch_up(f, 1);
    assert_int_equal(weft_want(f->rollouts[1].session, 7), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "weft_options.wants"));
    assert_int_equal(weft_offered(f->rollouts[1].session, 0, 0, &number), WEFT_E_STATE);
    assert_int_equal(weft_want(f->trainer.session, 7), WEFT_E_STATE);
    assert_int_equal(weft_offered(rollout(f), 0, 0, NULL), WEFT_E_ARGUMENT);
    nothing_comes(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(exactly_what_is_wanted, plain_fleet),     FLEET_TEST(not_published_yet, plain_fleet),
        FLEET_TEST(one_after_the_other, plain_fleet),        FLEET_TEST(passed_over, plain_fleet),
        FLEET_TEST(the_journal_was_too_short, short_fleet),  FLEET_TEST(many_small_ones_have_room, short_fleet),
        FLEET_TEST(a_repair_answers_the_wish, little_fleet), FLEET_TEST(a_repair_leaves_a_later_wish, little_fleet),
        FLEET_TEST(a_nearer_one_is_named, little_fleet),     FLEET_TEST(not_even_the_next_one_fits, little_fleet),
        FLEET_TEST(a_label_follows_a_snapshot, slow_fleet),  FLEET_TEST(a_label_follows_several_versions, slow_fleet),
        FLEET_TEST(the_trainer_comes_again, plain_fleet),    FLEET_TEST(a_rollout_that_takes_each, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
