/* Weights that are unbound: weft touches none of them, which pages without access prove. A rollout comes back with the
 * bits that it had, or with nothing, and a trainer with any. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/support/source_rank.h"

/* ---- memory that can be taken from under weft */

static struct {
    void *at;
    uint64_t bytes;
} pages;

static void *pages_take(uint64_t bytes)
{
    pages.bytes = bytes;
    pages.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages.at != MAP_FAILED);
    return pages.at;
}

static void pages_give(void *memory)
{
    munmap(memory, pages.bytes);
}

static void pages_write(void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
}

static void pages_read(void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
}

static const fleet_far far_pages = {pages_take, pages_give, pages_write, pages_read};

static void pages_allow(bool access)
{
    assert_int_equal(mprotect(pages.at, pages.bytes, access ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
}

/* ---- a fleet of one rollout */

static void has_pages(fleet *f)
{
    f->rollouts[0].far = &far_pages;
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .joins = 1, .open = has_pages};

static weft_session *rollout(fleet *f)
{
    return f->rollouts[0].session;
}

static void sleep_now(fleet *f)
{
    assert_int_equal(weft_unbind(rollout(f)), WEFT_OK);
    pages_allow(false);
}

static weft_status bind_again(fleet *f, uint32_t flags)
{
    return fleet_model_bind(&f->rollouts[0].model, rollout(f), NULL, flags);
}

/* ---- tests */

/* It gets as one update what it lacks. */
static void what_it_lacks_comes_at_once(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    weft_version before, after;
    assert_int_equal(weft_held(rollout(f), &before), WEFT_OK);
    sleep_now(f);
    fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 20);
    assert_int_equal(weft_held(rollout(f), &after), WEFT_OK);
    assert_memory_equal(&after, &before, sizeof after);
    pages_allow(true);
    assert_int_equal(bind_again(f, 0), WEFT_OK);
    assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.kind, WEFT_STAGED_UPDATE);
    assert_int_equal(info.base.number, before.number);
    assert_int_equal(info.target.number, f->newest);
    fleet_catch_up(f, 0);
    fleet_check(f, 0);
    assert_int_equal(weft_scrub(rollout(f)), WEFT_OK);
}

static void other_calls_say_so(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    fleet_publish(f, 20);
    assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(weft_commit(rollout(f), info.target.number, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_OK);
    assert_int_equal(weft_unbind(rollout(f)), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "call weft_settle first"));
    assert_int_equal(weft_settle(rollout(f), WEFT_SETTLE_UNDO, NULL, NULL), WEFT_OK);
    sleep_now(f); /* the version that is staged goes */
    assert_int_equal(weft_staged(rollout(f), 0, &info), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "no weights are bound"));
    assert_int_equal(weft_commit(rollout(f), info.target.number, NULL, 0, NULL), WEFT_E_STATE);
    assert_int_equal(weft_scrub(rollout(f)), WEFT_E_STATE);
    assert_int_equal(weft_unbind(rollout(f)), WEFT_OK); /* as it is */
    pages_allow(true);
    assert_int_equal(bind_again(f, 0), WEFT_OK);
    fleet_catch_up(f, 0);
    fleet_check(f, 0);
}

/* Other bits are refused, and the rollout stays as it was. Memory that holds nothing is filled. */
static void other_bits_are_refused(void **state)
{
    fleet *f = *state;
    weft_version held;
    sleep_now(f);
    pages_allow(true);
    memset(pages.at, 0x5a, pages.bytes);
    assert_int_equal(bind_again(f, 0), WEFT_E_BASE);
    assert_int_equal(weft_scrub(rollout(f)), WEFT_E_STATE);
    fleet_publish(f, 20);
    assert_int_equal(bind_again(f, WEFT_BIND_EMPTY), WEFT_OK);
    assert_int_equal(weft_held(rollout(f), &held), WEFT_E_STATE);
    fleet_catch_up(f, 0);
    fleet_check(f, 0);
    assert_int_equal(weft_scrub(rollout(f)), WEFT_OK);
}

/* The engine sleeps at any moment of a stream of updates, and wakes again. */
static void at_any_moment(void **state)
{
    fleet *f = *state;
    uint64_t seed = 5;
    for (int i = 0; i < 60; i++) {
        fleet_publish(f, i % 3 ? 300 : 3);
        const uint64_t spin_ns = weft_clock_ns() + fleet_below(&seed, 3 * WEFT_NS_PER_MS);
        while (weft_clock_ns() < spin_ns)
            ;
        sleep_now(f);
        fleet_publish(f, 10);
        fleet_sleep_ms((uint32_t)fleet_below(&seed, 3));
        pages_allow(true);
        assert_int_equal(bind_again(f, 0), WEFT_OK);
        if (i % 4 == 0) {
            fleet_catch_up(f, 0);
            fleet_check(f, 0);
        }
    }
    fleet_catch_up(f, 0);
    fleet_check(f, 0);
    assert_int_equal(weft_scrub(rollout(f)), WEFT_OK);
}

static void closed_while_it_sleeps(void **state)
{
    fleet *f = *state;
    sleep_now(f);
    assert_int_equal(weft_close(rollout(f)), WEFT_OK);
    f->rollouts[0].session = NULL;
    pages_allow(true);
}

/* ---- a trainer */

/* Peers take what was published, and join, while the weights are away. Then whatever is there is published. */
static void a_trainer_gives_its_weights_away(void **state)
{
    (void)state;
    fleet *f = fleet_open(FLEET_TILES, NULL);
    f->trainer.far = &far_pages;
    fleet_open_trainer(f);
    assert_int_equal(weft_unbind(f->trainer.session), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "no weights are bound"));
    fleet_bind_trainer(f, "attached");
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 3; i++) {
        fleet_publish(f, 20);
        assert_int_equal(weft_unbind(f->trainer.session), WEFT_OK);
        assert_int_equal(weft_unbind(f->trainer.session), WEFT_OK); /* as it is */
        pages_allow(false);
        fleet_catch_up(f, 0);
        fleet_join(f, (unsigned)i + 1, i ? FLEET_OTHER : FLEET_EMPTY);
        fleet_catch_up(f, (unsigned)i + 1);
        fleet_check_bytes(f, (unsigned)i + 1, f->dense);
        assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL), WEFT_E_STATE);
        assert_non_null(strstr(weft_last_error(), "the weights are unbound; bind them again first"));
        pages_allow(true);
        fleet_change(f->layout, f->dense, 30, &f->seed);
        fleet_model_put(&f->trainer.model, f->dense);
        assert_int_equal(fleet_model_bind(&f->trainer.model, f->trainer.session, NULL, 0), WEFT_OK);
    }
    fleet_publish(f, 20);
    for (unsigned at = 0; at < 4; at++) {
        fleet_catch_up(f, at);
        fleet_check_bytes(f, at, f->dense);
    }
    fleet_close(f);
}

/* A snapshot that is under way when the weights go is whole all the same. */
static void a_trainer_is_closed_while_its_weights_are_away(void **state)
{
    (void)state;
    fleet *f = fleet_open(FLEET_TILES, NULL);
    f->trainer.far = &far_pages;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_EMPTY);
    assert_int_equal(weft_unbind(f->trainer.session), WEFT_OK);
    pages_allow(false);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_close(f->trainer.session), WEFT_OK);
    f->trainer.session = NULL;
    pages_allow(true);
    fleet_close(f);
}

/* ---- of several sources */

static void a_rank_of_several_sources(void **state)
{
    rank_setup(state);
    join_same(false);
    for (uint64_t number = 6; number < 10; number += 2) {
        publish_all(100);
        come_to(number);
        assert_int_equal(weft_unbind(rank_session()), WEFT_OK);
        publish_all(30);
        rounds_of(100);
        source_check(&w, &w.ranks[0]); /* as it was */
        uint8_t *old = w.ranks[0].has.dense;
        part_move(&w, &w.ranks[0].has);
        free(old);
        part_bind(&w, &w.ranks[0].has, rank_session(), number == 6 ? 0 : WEFT_BIND_EMPTY);
        come_to(number + 1);
    }
    rank_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(what_it_lacks_comes_at_once, plain_fleet),
        FLEET_TEST(other_calls_say_so, plain_fleet),
        FLEET_TEST(other_bits_are_refused, plain_fleet),
        FLEET_TEST(at_any_moment, plain_fleet),
        FLEET_TEST(closed_while_it_sleeps, plain_fleet),
        cmocka_unit_test(a_trainer_gives_its_weights_away),
        cmocka_unit_test(a_trainer_is_closed_while_its_weights_are_away),
        cmocka_unit_test(a_rank_of_several_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
