/* A connection that ends while a version is staged: the rollout dials with that, and says so. A trainer that knows the
 * version goes on from there. One that does not know it offers its own, and nothing that nobody offers is in the way.
 */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "peer/peer.h"
#include "rollout/rollout.h"

#define BEHIND 3u /* rollout x1, behind relay a */

static void join_behind(fleet *f)
{
    fleet_join_behind(f, BEHIND);
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .joins = 1};

static const fleet_kind wants_fleet = {FLEET_TILES, .starts = true, .wants = true, .joins = 1};

static const fleet_kind image_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("commit.snapshot=staged"),
                                       .joins = 1};

static const fleet_kind relay_fleet = {
    FLEET_TILES,          .starts = true, .overrides = FLEET_WITH("peer.a.relay_memory=64MiB", "peer.x*.via=a"),
    .relays = "a",        .wants = true,  .joins = 1,
    .opened = join_behind};

static weft_session *session_of(fleet *f)
{
    return f->rollouts[0].session;
}

static void hear(weft_session *session, weft_event_kind kind)
{
    assert_true(fleet_event(session, kind, NULL, FLEET_WAIT_MS, NULL));
}

/* Waits until something is staged. A wish by a number that the new trainer never had may be passed over before. */
static weft_status staged_now(weft_session *session, weft_staged_info *info)
{
    const weft_status status = weft_staged(session, FLEET_WAIT_MS, info);
    return status == WEFT_E_PASSED ? weft_staged(session, FLEET_WAIT_MS, info) : status;
}

/* Waits until something is staged, which is version `number`. */
static void await_staged(weft_session *session, uint64_t number)
{
    weft_staged_info info = {.size = sizeof info};
    const weft_status status = staged_now(session, &info);
    if (status != WEFT_OK)
        fail_msg("version %llu: %s: %s", (unsigned long long)number, weft_status_name(status), weft_last_error());
    assert_int_equal(info.target.number, number);
}

static void publish_and_stage(fleet *f)
{
    fleet_publish(f, 50);
    if (f->wants)
        assert_int_equal(weft_want(session_of(f), f->newest), WEFT_OK);
    await_staged(session_of(f), f->newest);
}

static void commit(fleet *f, unsigned at, uint64_t number)
{
    const weft_status status = weft_commit(f->rollouts[at].session, number, NULL, 0, NULL);
    if (status != WEFT_OK)
        fail_msg("commit %llu: %s: %s", (unsigned long long)number, weft_status_name(status), weft_last_error());
    fleet_check(f, at);
}

/* The trainer ends, and another begins at `number`, with the bits of now or of another training. */
static void trainer_again(fleet *f, uint64_t number, bool other)
{
    fleet_stop_trainer(f);
    hear(session_of(f), WEFT_EVENT_GOODBYE);
    f->first_version = number;
    if (other)
        fleet_change(f->layout, f->dense, 300, &f->seed);
    fleet_start_trainer(f, NULL);
}

/* Breaks a connection between two ends that know each other. */
static void cut_of(weft_session *session)
{
    pthread_mutex_lock(&session->lock);
    shutdown(session->rollout->joining.control.fd, SHUT_RDWR);
    pthread_mutex_unlock(&session->lock);
    hear(session, WEFT_EVENT_LOST);
}

static void cut(fleet *f)
{
    cut_of(session_of(f));
}

static void await_joined(fleet *f)
{
    hear(session_of(f), WEFT_EVENT_JOINED);
}

/* Engines that agree on the least number offered must hear of the new one, and then get it. */
static void what_nobody_offers_is_given_up(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    uint64_t offered = 0;
    publish_and_stage(f);
    const uint64_t before = f->newest;
    fleet_stop_trainer(f);
    hear(session_of(f), WEFT_EVENT_GOODBYE);
    assert_int_equal(weft_offered(session_of(f), UINT64_MAX, 0, &offered), WEFT_AGAIN);
    await_staged(session_of(f), before); /* may be committed while there is no other trainer */
    f->first_version = 55;
    fleet_change(f->layout, f->dense, 300, &f->seed);
    fleet_start_trainer(f, NULL);
    const uint64_t begun_ms = fleet_now_ms(), number = f->newest;
    assert_int_equal(weft_offered(session_of(f), before, FLEET_WAIT_MS, &offered), WEFT_OK);
    assert_int_equal(offered, number);
    assert_true(weft_staged(session_of(f), 0, &info) == WEFT_AGAIN || info.target.number == number);
    assert_int_equal(weft_commit(session_of(f), before, NULL, 0, NULL), WEFT_E_PEER_LOST);
    assert_non_null(strstr(weft_last_error(), "given up"));
    assert_int_equal(weft_want(session_of(f), number), WEFT_OK);
    await_staged(session_of(f), number);
    commit(f, 0, number);
    print_message("held %.3f s after the trainer was there again\n", (double)(fleet_now_ms() - begun_ms) / 1e3);
}

/* The trainer comes back with the bits that are staged, under another number. Nothing is sent but what follows. */
static void known_bits_stay_staged(void **state)
{
    fleet *f = *state;
    publish_and_stage(f);
    const uint64_t before = f->newest;
    trainer_again(f, 55, false);
    await_joined(f);
    await_staged(session_of(f), 55);
    assert_int_equal(weft_commit(session_of(f), before, NULL, 0, NULL), WEFT_E_PEER_LOST); /* no misuse: it was that */
    commit(f, 0, 55);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(fleet_line(f, "a").bytes + fleet_line(f, "a").snapshot_bytes, 0);
    publish_and_stage(f);
    commit(f, 0, f->newest);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

/* A rollout that takes each version takes the new trainer's, too. */
static void another_trainer_has_its_own(void **state)
{
    fleet *f = *state;
    publish_and_stage(f);
    trainer_again(f, 55, true);
    await_joined(f);
    fleet_catch_up(f, 0);
}

/* The line breaks, and the trainer has gone on meanwhile: the next update leads on from what is staged. */
static void a_cut_line_leaves_it_staged(void **state)
{
    fleet *f = *state;
    for (unsigned i = 0; i < 8; i++) {
        publish_and_stage(f);
        const uint64_t number = f->newest;
        cut(f);
        if (i % 2)
            fleet_publish(f, 50);
        await_joined(f);
        await_staged(session_of(f), number);
        commit(f, 0, number);
        if (i % 2 == 0) {
            fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
            assert_true(fleet_line(f, "a").send_ms < FLEET_WAIT_MS); /* by whichever connection */
        } else {
            if (f->wants)
                assert_int_equal(weft_want(session_of(f), f->newest), WEFT_OK);
            await_staged(session_of(f), f->newest);
            commit(f, 0, f->newest);
        }
    }
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
    assert_int_equal(fleet_stats(session_of(f)).versions, 12);
}

/* The commit begins at any moment between the cut and WELCOME. */
static void a_commit_while_it_dials(void **state)
{
    fleet *f = *state;
    for (uint32_t i = 0; i < 40; i++) {
        publish_and_stage(f);
        cut(f);
        fleet_sleep_ms(i % 40);
        commit(f, 0, f->newest);
    }
    publish_and_stage(f);
    commit(f, 0, f->newest);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

/* Nothing is dialed while a commit is held. What is undone then is staged again, and given up for the new trainer's. */
static void a_held_commit(void **state)
{
    fleet *f = *state;
    weft_version held;
    for (unsigned undo = 0; undo < 2; undo++) {
        publish_and_stage(f);
        const uint64_t number = f->newest;
        assert_int_equal(weft_commit(session_of(f), number, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_OK);
        trainer_again(f, number + 50, true);
        assert_int_equal(weft_settle(session_of(f), undo ? WEFT_SETTLE_UNDO : WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
        assert_int_equal(held.number, undo ? number - 1 : number);
        fleet_check(f, 0);
        await_joined(f);
        assert_int_equal(weft_want(session_of(f), f->newest), WEFT_OK);
        await_staged(session_of(f), f->newest);
        commit(f, 0, f->newest);
    }
}

/* What is staged brings an attachment, and the trainer sends that no second time. */
static void an_attachment_comes_once(void **state)
{
    fleet *f = *state;
    const void *text;
    uint64_t bytes;
    fleet_change(f->layout, f->dense, 50, &f->seed);
    fleet_publish_dense(f, "first");
    await_staged(session_of(f), f->newest);
    cut(f);
    await_joined(f);
    await_staged(session_of(f), f->newest);
    commit(f, 0, f->newest);
    assert_int_equal(weft_attachment(session_of(f), &text, &bytes), WEFT_OK);
    assert_true(bytes == 5 && memcmp(text, "first", 5) == 0);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_publish(f, 50); /* without one: the attachment stays */
    fleet_catch_up(f, 0);
    assert_true(fleet_stats(session_of(f)).versions == 2);
}

/* Another version with the same bits came meanwhile, one that brings only an attachment: what is staged keeps its name,
 * because the engine may commit it by that. */
static void bits_that_come_twice(void **state)
{
    fleet *f = *state;
    for (unsigned i = 0; i < 2; i++) {
        publish_and_stage(f);
        const uint64_t number = f->newest;
        fleet_publish_dense(f, i ? "later" : NULL);
        cut(f);
        await_joined(f);
        await_staged(session_of(f), number);
        commit(f, 0, number);
        if (f->wants)
            assert_int_equal(weft_want(session_of(f), f->newest), WEFT_OK);
        await_staged(session_of(f), f->newest);
        commit(f, 0, f->newest);
    }
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

/* The newest version has the bits that are held, and what is staged comes between them. */
static void bits_that_come_back(void **state)
{
    fleet *f = *state;
    uint8_t *before = malloc(f->bytes);
    assert_non_null(before);
    memcpy(before, f->dense, f->bytes);
    const uint64_t first = f->newest;
    publish_and_stage(f);
    memcpy(f->dense, before, f->bytes);
    fleet_publish_dense(f, NULL);
    cut(f);
    await_joined(f);
    weft_version held;
    assert_int_equal(weft_held(session_of(f), &held), WEFT_OK);
    assert_int_equal(held.number, first);
    await_staged(session_of(f), first + 1);
    assert_int_equal(weft_commit(session_of(f), first + 1, NULL, 0, NULL), WEFT_OK);
    if (f->wants)
        assert_int_equal(weft_want(session_of(f), f->newest), WEFT_OK);
    await_staged(session_of(f), f->newest);
    commit(f, 0, f->newest);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
    free(before);
}

/* The trainer comes back with the same bits and another attachment. It comes, with the label, to an engine that names
 * its versions too, because that may hold the number already and wants nothing. */
static void another_attachment_comes(fleet *f, uint64_t number)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version version = {0, 0, 0};
    const void *text;
    uint64_t bytes;
    fleet_stop_trainer(f);
    hear(session_of(f), WEFT_EVENT_GOODBYE);
    f->first_version = number;
    fleet_start_trainer(f, "other");
    await_joined(f);
    for (unsigned i = 0; i < 2 && version.run == 0; i++) {
        assert_int_equal(staged_now(session_of(f), &info), WEFT_OK);
        assert_int_equal(weft_commit(session_of(f), info.target.number, NULL, 0, &version), WEFT_OK);
        if (f->wants && version.run == 0) /* as an engine does that holds no version */
            assert_int_equal(weft_want(session_of(f), number), WEFT_OK);
    }
    fleet_check(f, 0);
    assert_int_equal(version.number, number);
    assert_int_equal(weft_attachment(session_of(f), &text, &bytes), WEFT_OK);
    assert_true(bytes == 5 && memcmp(text, "other", 5) == 0);
}

static void a_label_comes_to_what_is_held(void **state)
{
    fleet *f = *state;
    another_attachment_comes(f, f->newest);
}

static void a_label_comes_to_what_is_staged(void **state)
{
    publish_and_stage(*state);
    another_attachment_comes(*state, 55);
}

/* A snapshot that is whole beside the weights is no less a version. */
static void a_staged_snapshot(void **state)
{
    fleet *f = *state;
    fleet_join(f, 1, FLEET_EMPTY);
    weft_session *second = f->rollouts[1].session;
    await_staged(second, f->newest);
    cut_of(second);
    hear(second, WEFT_EVENT_JOINED);
    await_staged(second, f->newest);
    fleet_publish(f, 50);
    commit(f, 1, f->newest - 1);
    fleet_catch_up(f, 1);
    assert_int_equal(fleet_stats(f->trainer.session).snapshot_bytes > 0, true);
}

/* A relay whose engine never commits serves those behind it all the same. */
static void a_relay_serves_on(void **state)
{
    fleet *f = *state;
    weft_session *child = f->rollouts[BEHIND].session;
    publish_and_stage(f); /* at the relay */
    trainer_again(f, 55, true);
    assert_int_equal(weft_want(child, 55), WEFT_OK);
    await_staged(child, 55);
    commit(f, BEHIND, 55);
    await_staged(session_of(f), 55);
    commit(f, 0, 55);
    publish_and_stage(f);
    cut(f); /* and with what the trainer knows */
    fleet_publish(f, 50);
    assert_int_equal(weft_want(child, f->newest), WEFT_OK);
    await_staged(child, f->newest);
    commit(f, BEHIND, f->newest);
    assert_string_equal(fleet_line(f, "x1").via, "a");
    await_staged(session_of(f), f->newest - 1);
}

/* Behind a relay, too, HELLO says what is staged. */
static void a_child_says_so(void **state)
{
    fleet *f = *state;
    weft_session *child = f->rollouts[BEHIND].session;
    fleet_publish(f, 50);
    const uint64_t number = f->newest;
    assert_int_equal(weft_want(child, number), WEFT_OK);
    await_staged(child, number);
    cut(f); /* the relay's own line, and with it the child's */
    hear(child, WEFT_EVENT_LOST);
    hear(child, WEFT_EVENT_JOINED);
    await_staged(child, number);
    commit(f, BEHIND, number);
    fleet_publish(f, 50);
    assert_int_equal(weft_want(child, f->newest), WEFT_OK);
    await_staged(child, f->newest);
    commit(f, BEHIND, f->newest);
    assert_int_equal(fleet_line(f, "x1").snapshot_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(what_nobody_offers_is_given_up, wants_fleet),
        FLEET_TEST(known_bits_stay_staged, wants_fleet),
        FLEET_TEST(known_bits_stay_staged, plain_fleet),
        FLEET_TEST(another_trainer_has_its_own, plain_fleet),
        FLEET_TEST(a_cut_line_leaves_it_staged, wants_fleet),
        FLEET_TEST(a_cut_line_leaves_it_staged, plain_fleet),
        FLEET_TEST(a_commit_while_it_dials, plain_fleet),
        FLEET_TEST(a_held_commit, wants_fleet),
        FLEET_TEST(an_attachment_comes_once, plain_fleet),
        FLEET_TEST(bits_that_come_twice, wants_fleet),
        FLEET_TEST(bits_that_come_twice, plain_fleet),
        FLEET_TEST(bits_that_come_back, wants_fleet),
        FLEET_TEST(bits_that_come_back, plain_fleet),
        FLEET_TEST(a_label_comes_to_what_is_held, wants_fleet),
        FLEET_TEST(a_label_comes_to_what_is_held, plain_fleet),
        FLEET_TEST(a_label_comes_to_what_is_staged, wants_fleet),
        FLEET_TEST(a_label_comes_to_what_is_staged, plain_fleet),
        FLEET_TEST(a_staged_snapshot, image_fleet),
        FLEET_TEST(a_relay_serves_on, relay_fleet),
        FLEET_TEST(a_child_says_so, relay_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
