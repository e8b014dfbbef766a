/* A single wrong bit is found and called by its name: the tensor, the tile and its elements, at every place where bits
 * can go wrong. In `wide` tile 0 ends at element 262143. */
#include "tests/support/fleet.h"

#include <string.h>

#define WIDE_0 "tensor wide tile 0, elements 0..262143"
#define WIDE_1 "tensor wide tile 1, elements 262144..299898"
#define NORM_2 "tensor norm.2 tile 0, elements 0..1022"

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true};

static const fleet_kind full_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("commit.verify=full")};

static uint64_t place(const fleet *f, const char *tensor, uint64_t byte)
{
    return fleet_tensor_at(f->layout, tensor) + byte;
}

static void flip(fleet *f, uint64_t at)
{
    *fleet_model_at(&f->rollouts[0].model, at) ^= 0x04;
}

static void join(fleet *f)
{
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
}

/* Joins with `dense`, one bit of which is flipped. */
static void join_with_a_wrong_bit(fleet *f, const uint8_t *dense, uint64_t at)
{
    uint8_t *kept = f->dense, *wrong = test_malloc(f->bytes);
    memcpy(wrong, dense, f->bytes);
    wrong[at] ^= 0x04;
    f->dense = wrong;
    fleet_open_rollout(f, 0, NULL);
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    f->dense = kept;
    test_free(wrong);
}

static void resync_names(weft_session *session, weft_status status, const char *name)
{
    weft_event event = {0};
    assert_true(fleet_event(session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    if (event.status != status || !strstr(event.text, name))
        fail_msg("%s: \"%s\" is not %s of \"%s\"", weft_status_name(event.status), event.text, weft_status_name(status),
                 name);
    assert_false(fleet_event(session, WEFT_EVENT_RESYNC, NULL, 0, NULL)); /* one event */
}

/* Once found and named, it is mended and all goes on. */
static void mends(fleet *f)
{
    fleet_catch_up(f, 0);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
}

/* ---- in the base at join */

static void at_join(void **state, const char *tensor, uint64_t byte, const char *name)
{
    fleet *f = *state;
    weft_event event;
    fleet_publish(f, 100);
    join_with_a_wrong_bit(f, f->dense, place(f, tensor, byte));
    weft_staged_info staged = {.size = sizeof staged};
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, 0, &event)); /* before the commit */
    assert_int_equal(event.status, WEFT_E_BASE);
    assert_int_equal(event.version.number, 1);
    assert_non_null(strstr(event.text, name));
    mends(f);
    assert_false(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, 0, NULL));
}

static void at_join_in_the_last_tile(void **state)
{
    at_join(state, "wide", 2 * 262144, WIDE_1);
}

static void at_join_in_the_first_tile(void **state)
{
    at_join(state, "wide", 2 * 262144 - 1, WIDE_0);
}

static void at_join_in_a_pack(void **state)
{
    at_join(state, "norm.2", 2045, NORM_2);
}

/* The bits are an older version's: named by comparing with that, which differs from the newest almost everywhere. */
static void at_join_in_an_older_version(void **state)
{
    fleet *f = *state;
    weft_event event;
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 1000);
    join_with_a_wrong_bit(f, f->history[1].dense, place(f, "wide", 599797));
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.version.number, 1);
    assert_true(event.version.root == f->history[1].root);
    assert_non_null(strstr(event.text, WIDE_1));
    mends(f);
}

/* Bits of another model are no broken version, so no error is reported. */
static void another_model_is_no_error(void **state)
{
    fleet *f = *state;
    fleet_publish(f, 100);
    fleet_open_rollout(f, 0, NULL);
    fleet_bind_rollout(f, 0, FLEET_OTHER, NULL);
    mends(f);
    assert_false(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, 0, NULL));
}

/* ---- at an element that the update touches */

static void before_staging(void **state, const char *tensor, uint64_t byte, const char *name)
{
    fleet *f = *state;
    join(f);
    flip(f, place(f, tensor, byte));
    fleet_publish(f, 1000);
    resync_names(f->rollouts[0].session, WEFT_E_TARGET, name);
    resync_names(f->trainer.session, WEFT_E_TARGET, name);
    mends(f);
    assert_false(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, 0, NULL));
}

static void before_staging_in_a_tile(void **state)
{
    before_staging(state, "wide", 2 * 262144 + 3, WIDE_1);
}

static void before_staging_in_a_pack(void **state)
{
    before_staging(state, "norm.2", 0, NORM_2);
}

/* One element of one tile: the update alone brings it up, at every level. */
static void the_one_element(void **state)
{
    fleet *f = *state;
    static const char *const levels[] = {"peer.a.level=fast", "peer.a.level=pairs", "peer.a.level=full",
                                         "peer.a.level=tight"};
    uint64_t at = place(f, "wide", 2 * 299898);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        fleet_stop_trainer(f);
        f->overrides[f->override_count++] = levels[i];
        fleet_start_trainer(f, NULL);
        join(f);
        flip(f, at);
        f->dense[at] ^= 0x80;
        fleet_publish_dense(f, NULL);
        resync_names(f->rollouts[0].session, WEFT_E_TARGET, WIDE_1);
        mends(f);
        fleet_leave(f, 0);
        f->override_count--;
    }
}

/* The caller makes the progress: a search goes on by itself. */
static void by_hand(void **state)
{
    fleet *f = *state;
    weft_event event = {0};
    fleet_open_rollout(f, 0, "session.progress=manual");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    fleet_catch_up(f, 0);
    flip(f, place(f, "norm.2", 9));
    fleet_publish(f, 1000);
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; event.kind != WEFT_EVENT_RESYNC;) {
        assert_true(fleet_now_ms() < end);
        weft_progress(f->rollouts[0].session, 2);
        fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, 0, &event);
    }
    assert_int_equal(event.status, WEFT_E_TARGET);
    assert_non_null(strstr(event.text, NORM_2));
    mends(f);
}

static void before_commit(void **state, const char *tensor, uint64_t byte, const char *name)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    join(f);
    fleet_publish(f, 1000);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    flip(f, place(f, tensor, byte));
    assert_int_equal(weft_commit(f->rollouts[0].session, staged.target.number, NULL, 0, NULL), WEFT_E_BASE);
    assert_non_null(strstr(weft_last_error(), name));
    resync_names(f->rollouts[0].session, WEFT_E_BASE, name);
    resync_names(f->trainer.session, WEFT_E_BASE, name);
    mends(f);
}

static void before_commit_in_a_tile(void **state)
{
    before_commit(state, "wide", 599797, WIDE_1);
}

static void before_commit_in_a_pack(void **state)
{
    before_commit(state, "norm.2", 100, NORM_2);
}

/* ---- in a frame */

/* The bits of one bucket's payload, of which one is flipped on its way. */
static void in_a_frame(void **state)
{
    fleet *f = *state;
    unsigned named = 0, headers = 0;
    weft_event event;
    join(f);
    for (uint64_t seed = 0; seed < 10; seed++) {
        weft_loop_faults faults = {.seed = seed, .corrupt_at = 1 + seed % 2};
        for (uint64_t i = 0; i < 3000; i++)
            f->dense[place(f, "wide", 2 * 262144 + 7 * i)] ^= 0x10;
        weft_loop_set_faults(&faults);
        fleet_publish_dense(f, NULL);
        assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
        assert_int_equal(event.status, WEFT_E_CHECK);
        named += strstr(event.text, "tensor wide tile 1") != NULL; /* alone, or the last of a run */
        headers += strstr(event.text, "bucket header") != NULL;
        fleet_catch_up(f, 0);
    }
    assert_int_equal(named, 5);
    assert_int_equal(headers, 5);
}

/* A bucket of many units is called by the first and the last. */
static void in_a_frame_of_many(void **state)
{
    fleet *f = *state;
    weft_event event;
    const weft_loop_faults faults = {.seed = 3, .corrupt_at = 2};
    join(f);
    weft_loop_set_faults(&faults);
    fleet_publish(f, 1000);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_CHECK);
    assert_non_null(strstr(event.text, "tensor scalar tile 0 to tensor "));
    mends(f);
}

/* ---- elsewhere */

static const fleet_kind tight_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("peer.a.level=tight")};

/* Level tight goes by the old exponents of all elements of a unit: it trips over one that the update does not touch. */
static void by_level_tight(void **state, uint64_t first, uint64_t elements, weft_status status)
{
    fleet *f = *state;
    weft_event event;
    uint8_t *wide = f->dense + place(f, "wide", 0);
    for (uint64_t i = 0; i < 299899; i++) { /* large ones, and small ones of which every fifth moves */
        wide[2 * i] = (uint8_t)(i * 37);
        wide[2 * i + 1] = i % 2 ? 0x3f : 0x33;
    }
    fleet_publish_dense(f, NULL);
    join(f);
    for (uint64_t i = first; i < first + 2 * elements; i += 2) /* large ones become small, or small ones large */
        *fleet_model_at(&f->rollouts[0].model, place(f, "wide", 2 * i + 1)) ^= 0x0c;
    for (uint64_t i = 0; i < 299899; i += 10)
        wide[2 * i] ^= 1;
    fleet_publish_dense(f, NULL);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, status);
    assert_non_null(strstr(event.text, WIDE_1));
    mends(f);
}

static void by_level_tight_at_the_proof(void **state)
{
    by_level_tight(state, 262145, 1, WEFT_E_TARGET);
}

/* So few are left in their class that the frame no longer decodes. */
static void by_level_tight_at_decoding(void **state)
{
    by_level_tight(state, 262144, 15000, WEFT_E_BASE);
}

static void by_the_scrub(void **state)
{
    fleet *f = *state;
    const struct {
        const char *tensor;
        uint64_t byte;
        const char *name;
    } cases[] = {{"wide", 0, WIDE_0},
                 {"wide", 599797, WIDE_1},
                 {"norm.2", 2045, NORM_2},
                 {"scalar", 3, "tensor scalar tile 0, elements 0..0"},
                 {"packed", 26, "tensor packed tile 0, elements 0..53"},
                 {"complex", 0, "tensor complex tile 0, elements 0..14"}};
    join(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        flip(f, place(f, cases[i].tensor, cases[i].byte));
        assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_E_BASE);
        assert_non_null(strstr(weft_last_error(), cases[i].name));
        assert_int_equal(fleet_commit(f, 0, FLEET_WAIT_MS), WEFT_OK); /* of the repair that follows */
        assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    }
    fleet_check_bytes(f, 0, f->dense);
}

/* Weights that moved and lost a bit on the way are not taken in their place. */
static void by_a_rebind(void **state)
{
    fleet *f = *state;
    fleet_model *model = &f->rollouts[0].model;
    join(f);
    flip(f, place(f, "wide", 9));
    assert_int_equal(weft_bind(f->rollouts[0].session, model->pieces, model->piece_count, NULL, 0, 0), WEFT_E_BASE);
    assert_non_null(strstr(weft_last_error(), WIDE_0));
    flip(f, place(f, "wide", 9));
    assert_int_equal(weft_bind(f->rollouts[0].session, model->pieces, model->piece_count, NULL, 0, 0), WEFT_OK);
}

/* An update that touches another tensor is not staged while a bit is wrong anywhere. */
static void by_verify_full(void **state)
{
    fleet *f = *state;
    join(f);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    flip(f, place(f, "wide", 2 * 262144));
    uint8_t *before = test_malloc(f->bytes);
    fleet_model_get(&f->rollouts[0].model, before);
    f->dense[place(f, "bytes", 7)] ^= 1;
    fleet_publish_dense(f, NULL);
    resync_names(f->rollouts[0].session, WEFT_E_BASE, WIDE_1);
    resync_names(f->trainer.session, WEFT_E_BASE, WIDE_1);
    fleet_check_bytes(f, 0, before);
    test_free(before);
    mends(f);
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(at_join_in_the_last_tile),
        TEST(at_join_in_the_first_tile),
        TEST(at_join_in_a_pack),
        TEST(at_join_in_an_older_version),
        TEST(another_model_is_no_error),
        TEST(before_staging_in_a_tile),
        TEST(before_staging_in_a_pack),
        TEST(the_one_element),
        TEST(by_hand),
        TEST(before_commit_in_a_tile),
        TEST(before_commit_in_a_pack),
        TEST(in_a_frame),
        TEST(in_a_frame_of_many),
        TEST(by_the_scrub),
        TEST(by_a_rebind),
        FLEET_TEST(by_level_tight_at_the_proof, tight_fleet),
        FLEET_TEST(by_level_tight_at_decoding, tight_fleet),
        FLEET_TEST(by_verify_full, full_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
