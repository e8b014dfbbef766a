/* One end of a rollout, from the buckets that come to the commit, with the test as its trainer. */
#include "tests/support/rollout_end.h"

/* Lays a bucket of one frame, or of an attachment, into a slot, as all of its chunks would. */
static void lay_bucket(uint32_t at, weft_wire_bucket bucket)
{
    weft_slot *slot = &end->intake.slots.slot[at];
    uint8_t *payload = end->intake.slots.memory + at * end->intake.slots.stride + WEFT_SLOT_HEADER_BYTES;
    const weft_frame_header frame = {.payload_bytes = 16, .level = WEFT_LEVEL_FAST, .changed = 1, .units = 1};
    uint8_t check[8];
    weft_frame_write_header(payload, &frame);
    bucket.payload_bytes = bucket.kind == WEFT_BUCKET_FRAMES ? 32 : 4;
    weft_bytes_put(check, weft_frame_check(payload, bucket.payload_bytes), sizeof check);
    bucket.check += bucket.kind == WEFT_BUCKET_FRAMES ? XXH3_64bits(check, sizeof check) : XXH3_64bits(payload, 4);
    *slot = (weft_slot){.count = 2, .has_header = true, .header = bucket};
    slot->header.chunks = 1;
}

static void buckets_that_are_not_taken(void **state)
{
    const weft_version base = end->current.version, other = {RUN, HELD, 1}, target = {RUN, 6, 0}, next = {RUN, 7, 0};
    const weft_bucket_kind attached = WEFT_BUCKET_ATTACHMENT;
    const struct {
        const char *what;
        weft_wire_bucket bucket;
        weft_status status;
    } rows[] = {
        {"as it should be", {.base = base, .target = target, .frames = 1}, WEFT_OK},
        {"damaged", {.base = base, .target = target, .frames = 1, .check = 1}, WEFT_E_CHECK},
        {"a frame too few", {.base = base, .target = target, .frames = 2}, WEFT_E_CHECK},
        {"another base", {.base = other, .target = target, .frames = 1}, WEFT_E_PROTOCOL},
        {"another target", {.base = base, .target = next, .frames = 1}, WEFT_E_PROTOCOL},
        {"a gap", {.base = base, .target = target, .frames = 1, .offset = 16}, WEFT_E_PROTOCOL},
        {"a later one", {.base = base, .target = target, .frames = 1, .sequence = 1}, WEFT_AGAIN},
        {"an attachment", {.kind = attached, .base = base, .target = target}, WEFT_OK},
        {"a damaged one", {.kind = attached, .base = base, .target = target, .check = 1}, WEFT_E_CHECK},
        {"a gap in it", {.kind = attached, .base = base, .target = target, .offset = 2}, WEFT_E_PROTOCOL},
    };
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        const uint64_t failures = end->session->stats.check_failures;
        connect_end();
        weft_receive_reset(&end->arriving, &end->intake);
        announce(6)->header.attachment_bytes = 8;
        lay_bucket(0, rows[row].bucket);
        const weft_status status = weft_receive_take(end);
        if (status != rows[row].status)
            fail_msg("%s: %s: %s", rows[row].what, weft_status_name(status), weft_last_error());
        assert_int_equal(end->session->stats.check_failures - failures, status != WEFT_OK && status != WEFT_AGAIN);
        assert_int_equal(end->intake.next_sequence, status == WEFT_OK);
        const bool frames = rows[row].bucket.kind == WEFT_BUCKET_FRAMES;
        assert_int_equal(end->arriving.book.bytes,
                         status == WEFT_OK ? WEFT_BUCKET_HEADER_BYTES + (frames ? 32 : 4) : 0);
    }
    weft_receive_reset(&end->arriving, &end->intake);
}

/* Frames are kept for a commit that decodes them again, if staging has room for any of them, and each has an opposite.
 */
static void frames_that_are_kept(void **state)
{
    const uint64_t room = weft_staging_largest(end->layout);
    (void)state;
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++) {
        weft_kept kept = {.capacity = 1};
        weft_stage_kept_note(&kept, &(weft_frame_header){.level = (weft_level)level});
        assert_int_equal(kept.broken, level != WEFT_LEVEL_FAST);
    }
    assert_int_equal(weft_stage_encoded_bytes(end->layout, 160, room - 1), 0);
    assert_int_equal(weft_stage_encoded_bytes(end->layout, 160, room), 160);
    assert_int_equal(weft_stage_encoded_bytes(end->layout, UINT64_MAX, UINT64_MAX / 2), 0);
}

/* A change of a tile that does not decode is found with its frame, and not only by the root in the end. */
static void deltas_that_do_not_decode(void **state)
{
    weft_taken *taken = &end->arriving.taken;
    weft_frame_header frame = {.payload_bytes = 16, .level = WEFT_LEVEL_FAST, .changed = 1, .units = 1};
    (void)state;
    while (end->layout->units[frame.unit].count < 64)
        frame.unit++;
    announce(6)->header.snapshot = true;
    end->arriving.book.next_unit = frame.unit + 1; /* after its tile */
    taken->bytes = 32;
    taken->used = 0;
    taken->delta = true;
    memset(taken->memory, 0, 32);
    weft_frame_write_header(taken->memory, &frame);
    assert_int_equal(weft_stage_frames(end), WEFT_E_CORRUPT);
    assert_int_equal(taken->used, 32); /* it was admitted */
    weft_receive_reset(&end->arriving, &end->intake);
}

static void what_is_not_whole(void **state)
{
    (void)state;
    for (int row = 0; row < 6; row++) {
        connect_end();
        weft_incoming *incoming = announce(6);
        incoming->trailer.frames = row == 0;
        incoming->trailer.frame_bytes = row == 1;
        incoming->header.snapshot = row == 2;
        incoming->header.attachment_bytes = row == 3 || row == 4 ? 4 : 0;
        if (row == 4) {
            end->arriving.attachment = weft_blob_take(4);
            end->arriving.book.attachment_got = 4;
        }
        incoming->trailer.target.root += row == 5;
        const weft_status status = weft_stage_step(end); /* of other bits the trainer is asked */
        if (status != (row < 3 ? WEFT_E_PROTOCOL : row < 5 ? WEFT_E_CHECK : WEFT_AGAIN))
            fail_msg("row %d: %s", row, weft_last_error());
        assert_int_equal(end->course.state, WEFT_COURSE_RECEIVING);
        assert_int_equal(end->current.doubt, row == 5);
    }
    end->current.doubt = false;
    end->arriving.queued = 0;
}

/* A version is told of as staged, and as held when it is. Its commit ends a row of faults, and its time is of no use
 * where the device moved the weights, or frames were decoded again. */
static void staged_and_held_are_told(void **state)
{
    (void)state;
    for (int row = 0; row < 3; row++) {
        announce(6 + (uint64_t)row);
        assert_int_equal(weft_stage_step(end), WEFT_OK);
        assert_int_equal(end->course.state, WEFT_COURSE_STAGED);
        must_say(WEFT_MESSAGE_STAGED);
        assert_true(is_silent());
        end->joining.faults = 2;
        end->arriving.book.changed = 10;
        weft_rollout_commit_begin(end);
        end->stage.queued = row == 0;
        end->arriving.kept.encoded = row == 1;
        end->stage.change_ns = -1;
        weft_stage_settle(end, 1000);
        assert_true(end->stage.change_ns == (row == 2 ? 100 : -1));
        assert_int_equal(end->joining.faults, 0);
        assert_int_equal(end->current.version.number, 6 + row);
        must_say(WEFT_MESSAGE_HELD);
    }
}

/* A commit that is undone has its version staged again. One that found other bits leaves the weights in doubt. */
static void commits_that_move_nothing(void **state)
{
    (void)state;
    announce(6);
    assert_int_equal(weft_stage_step(end), WEFT_OK);
    weft_rollout_commit_begin(end);
    weft_rollout_unmoved(end, WEFT_OK);
    assert_int_equal(end->course.state, WEFT_COURSE_STAGED);
    weft_rollout_commit_begin(end);
    weft_rollout_commit_end(end, own_now, WEFT_E_BASE, true);
    assert_true(end->current.doubt && end->current.known && !end->stage.held_back);
    assert_int_equal(end->session->stats.undone, 1);
    assert_int_equal(end->course.state, WEFT_COURSE_RECEIVING);
    end->current.doubt = false;
    connect_end();
}

/* A snapshot in place: nothing is held from its begin on, also when it breaks off, or stands still for the deadline. */
static void a_snapshot_that_does_not_come(void **state)
{
    (void)state;
    for (int stands = 0; stands < 2; stands++) {
        connect_end();
        end->joining.heartbeat_ms = stands ? 600000 : HEARTBEAT;
        end->joining.control.heard_ns = own_now;
        end->current.known = true;
        end->course.state = WEFT_COURSE_OFFERED;
        const uint64_t begun_ns = own_now;
        pthread_mutex_lock(&end->session->lock);
        assert_int_equal(weft_rollout_receive(&end, 1), stands ? WEFT_E_TIMEOUT : WEFT_E_PEER_LOST);
        pthread_mutex_unlock(&end->session->lock);
        assert_non_null(strstr(weft_last_error(), stands ? "stood still for 3000 ms" : "the snapshot broke off"));
        assert_in_range((own_now - begun_ns) / WEFT_NS_PER_MS, stands ? 3000 : HEARTBEAT, stands ? 3100 : 300);
        assert_false(end->current.known);
        assert_int_equal(end->current.version.run, 0);
    }
    connect_end();
}

/* A frame that does not decode is the trainer's fault only where the weights are what is held. */
static void whose_fault_a_frame_is(void **state)
{
    const weft_frame_header frame = {.unit = 0, .units = 1};
    (void)state;
    assert_int_equal(weft_verify_frame(end, &frame, WEFT_E_CORRUPT), WEFT_E_CORRUPT);
    weft_binding_view(&end->current.weights, 0).runs[0].data[0] ^= 1;
    assert_int_equal(weft_verify_frame(end, &frame, WEFT_E_CORRUPT), WEFT_E_BASE);
    assert_non_null(strstr(weft_last_error(), "somebody else wrote them"));
}

/* What a session ended with is what was said first. */
static void a_session_ends_once(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        weft_fail_quiet(WEFT_E_DEVICE, "end %d", i);
        weft_rollout_end(end, WEFT_E_DEVICE);
        assert_int_equal(weft_rollout_ended(end->session), WEFT_E_DEVICE);
        assert_non_null(strstr(weft_last_error(), "end 0; the weights were not touched"));
    }
}

static weft_version unfollowed;

static void hear_over(weft_relay *relay, const weft_version *target)
{
    (void)relay;
    unfollowed = *target;
}

static unsigned children_busy;

static bool are_busy(const weft_relay *relay)
{
    (void)relay;
    return children_busy > 0 && children_busy-- > 0;
}

static void no_step(weft_relay *relay, weft_waits *waits)
{
    (void)relay;
    (void)waits;
}

static void no_wait(const weft_relay *relay, weft_waits *waits)
{
    (void)relay;
    (void)waits;
}

static void no_pass(weft_relay *relay)
{
    (void)relay;
}

static const weft_relay_hooks hooks = {
    .unfollow = hear_over, .busy = are_busy, .step = no_step, .wait = no_wait, .pass = no_pass};

/* A withdrawn update comes to nothing. The trainer hears what is held, and a relay which update is over. */
static void a_withdrawn_update(void **state)
{
    const weft_relay_hooks *before = end->hooks;
    (void)state;
    speak((word){'U', H, 6});
    speak((word){'W', 0, 0});
    end->hooks = &hooks;
    end->relay = (weft_relay *)&unfollowed; /* not looked into */
    weft_rollout_step(end, true, &(weft_waits){.wake_ns = UINT64_MAX});
    end->relay = NULL;
    end->hooks = before;
    assert_int_equal(end->arriving.queued, 0);
    assert_int_equal(end->current.version.number, HELD);
    assert_int_equal(unfollowed.number, 6);
    must_say(WEFT_MESSAGE_HELD);
}

/* A relay waits at its close for what is on its way to its children, and no longer than the deadline. */
static void a_relay_leaves_in_good_order(void **state)
{
    const weft_relay_hooks *before = end->hooks;
    (void)state;
    end->hooks = &hooks;
    end->relay = (weft_relay *)&unfollowed;
    for (unsigned busy = 3; busy <= 1000; busy += 997) {
        const uint64_t begun_ns = own_now;
        children_busy = busy;
        weft_rollout_let_pass(end, begun_ns + 100 * WEFT_NS_PER_MS);
        assert_int_equal((own_now - begun_ns) / WEFT_NS_PER_MS, busy < 100 ? busy : 100);
    }
    end->relay = NULL;
    end->hooks = before;
}

/* What is staged goes with all that comes after it, and the caller who commits it hears that it was given up, but where
 * the caller let the weights go. */
static void what_is_given_up(void **state)
{
    (void)state;
    for (int unbound = 0; unbound < 2; unbound++) {
        announce(6);
        assert_int_equal(weft_stage_step(end), WEFT_OK);
        speak((word){'U', H, 7});
        assert_int_equal(hear(), WEFT_OK);
        assert_int_equal(end->arriving.queued, 2);
        if (unbound)
            weft_join_rest(end, "of this test");
        else
            weft_stage_give_up(end);
        assert_int_equal(end->course.state, WEFT_COURSE_RECEIVING);
        assert_int_equal(end->arriving.queued, 0);
        assert_int_equal(weft_rollout_check_given_up(end, 6), unbound ? WEFT_OK : WEFT_E_PEER_LOST);
        must_say(WEFT_MESSAGE_STAGED);
        if (unbound)
            must_say(WEFT_MESSAGE_BYE);
        connect_end();
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(buckets_that_are_not_taken),   TEST(frames_that_are_kept),      TEST(what_is_not_whole),
        TEST(staged_and_held_are_told),     TEST(commits_that_move_nothing), TEST(a_snapshot_that_does_not_come),
        TEST(whose_fault_a_frame_is),       TEST(a_session_ends_once),       TEST(a_withdrawn_update),
        TEST(a_relay_leaves_in_good_order), TEST(what_is_given_up),          TEST(deltas_that_do_not_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
