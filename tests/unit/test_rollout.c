/* One end of a rollout, whose trainer is the test: what it is told, and what it says and does of that. */
#include "tests/support/rollout_end.h"

static const struct {
    const char *what;
    word words[10];
    weft_status status; /* of the last word */
    weft_course_state course;
} talks[] = {
    {"what follows", {{'U', H, 6}, {'T', 0, 6}, {'U', 6, 7}, {'T', 0, 7}}, WEFT_OK, WEFT_COURSE_RECEIVING},
    {"from other bits", {{'U', 55, 6}}, WEFT_E_BASE, WEFT_COURSE_RECEIVING},
    {"not from the one before", {{'U', H, 6}, {'T', 0, 6}, {'U', H, 7}}, WEFT_E_BASE, WEFT_COURSE_RECEIVING},
    {"before the last has ended", {{'U', H, 6}, {'U', H, 7}}, WEFT_E_PROTOCOL, WEFT_COURSE_RECEIVING},
    {"from one that was withdrawn", {{'U', H, 6}, {'W', 0, 0}, {'U', 0, 7}}, WEFT_E_PROTOCOL, WEFT_COURSE_RECEIVING},
    {"too many", {{'U', H, 6}, {'T', 0, 6}, {'U', 6, 7}, {'T', 0, 7}, {'U', 7, 8}}, WEFT_E_PROTOCOL, 0},
    {"another number", {{'U', H, 6}, {'T', 0, 7}}, WEFT_E_PROTOCOL, WEFT_COURSE_RECEIVING},
    {"a snapshot that is withdrawn", {{'S', 0, 6}, {'W', 0, 0}}, WEFT_E_PROTOCOL, WEFT_COURSE_ACCEPTED},
    {"a snapshot that nobody accepted", {{'S', 0, 6}}, WEFT_E_PROTOCOL, WEFT_COURSE_OFFERED},
};

static void updates_follow_each_other(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof talks / sizeof *talks; row++) {
        weft_status status = WEFT_OK;
        connect_end();
        end->course.state = talks[row].course;
        end->arriving.queued = 0;
        for (const word *at = talks[row].words; at->kind; at++) {
            assert_int_equal(status, WEFT_OK);
            speak(*at);
            status = hear();
        }
        if (status != talks[row].status)
            fail_msg("%s: %s: %s", talks[row].what, weft_status_name(status), weft_last_error());
    }
    end->course.state = WEFT_COURSE_RECEIVING;
    end->arriving.queued = 0;
}

static const struct {
    const char *text, *heard; /* NULL: it is no refusal */
    weft_status why;
    unsigned times; /* until it is believed */
} refusals[] = {
    {"no\x1b[2J\nplace", "no", WEFT_E_REFUSED, 1},
    {"damaged", "damaged", WEFT_E_PROTOCOL, 2},
    {"no memory here", NULL, WEFT_E_MEMORY, 1},
};

static void what_is_a_refusal(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof refusals / sizeof *refusals; row++) {
        weft_joining *joining = &end->joining;
        weft_wire_notice notice = {.status = refusals[row].why};
        snprintf(notice.text, sizeof notice.text, "%s", refusals[row].text);
        joining->doubted = WEFT_OK;
        for (unsigned i = 1; i <= refusals[row].times; i++) {
            connect_end();
            joining->state = WEFT_JOIN_GREETING;
            joining->verdict = WEFT_VERDICT_NONE;
            SAY(WEFT_MESSAGE_REFUSE, weft_wire_put_notice, notice);
            const bool believed = refusals[row].heard && i == refusals[row].times;
            assert_int_equal(hear(), believed ? WEFT_OK : WEFT_E_PEER_LOST);
            assert_int_equal(joining->verdict, believed ? WEFT_VERDICT_REFUSED : WEFT_VERDICT_NONE);
            for (const char *at = joining->refusal_text; believed && *at; at++)
                assert_in_range(*at, ' ', '~');
        }
    }
    end->joining.verdict = WEFT_VERDICT_NONE;
    connect_end();
}

/* WELCOME gives a label to the bits that it names, of this layout, by as many ports as this end has. What is staged is
 * given up if the trainer does not know that. */
static void what_a_welcome_says(void **state)
{
    const uint64_t root = end->current.version.root;
    const struct {
        uint64_t layout, held, staged; /* 0: as here */
        uint32_t further;
        weft_status status;
        uint64_t labels; /* number of what is held after that */
        weft_course_state course;
    } rows[] = {
        {1, 0, 0, 0, WEFT_E_PROTOCOL, HELD, WEFT_COURSE_STAGED},
        {0, 0, 0, 1, WEFT_E_PROTOCOL, HELD, WEFT_COURSE_STAGED},
        {0, 0, 0, 0, WEFT_OK, 77, WEFT_COURSE_STAGED},
        {0, 1, 0, 0, WEFT_OK, HELD, WEFT_COURSE_STAGED},
        {0, 0, 1, 0, WEFT_OK, 77, WEFT_COURSE_RECEIVING},
    };
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        connect_end();
        end->joining.control.nonce = 7;
        end->current.version = (weft_version){RUN, HELD, root};
        end->course.state = WEFT_COURSE_STAGED;
        end->arriving.queued = 1;
        end->arriving.queue[0].trailer.target = (weft_version){RUN, 6, 66};
        assert_int_equal(weft_greet_hello(end), WEFT_OK);
        weft_wire_welcome welcome = {.run = RUN,
                                     .held = {RUN, 77, root + rows[row].held},
                                     .staged = {RUN, 6, 66 + rows[row].staged},
                                     .heartbeat_ms = HEARTBEAT,
                                     .further = rows[row].further};
        memcpy(welcome.layout, end->layout->hash, sizeof welcome.layout);
        welcome.layout[1] ^= rows[row].layout;
        end->intake.provider->port_address(end->intake.inlets[0].port, welcome.address, &welcome.address_bytes);
        memcpy(welcome.more[0].address, welcome.address, sizeof welcome.address);
        welcome.more[0].address_bytes = welcome.address_bytes;
        SAY(WEFT_MESSAGE_WELCOME, weft_wire_put_welcome, welcome);
        const weft_status status = hear();
        if (status != rows[row].status || end->current.version.number != rows[row].labels ||
            end->course.state != rows[row].course)
            fail_msg("row %zu: %s: %s", row, weft_status_name(status), weft_last_error());
        weft_inlet_close(&end->intake, false);
    }
    connect_end();
    end->joining.state = WEFT_JOIN_GREETING;
    say(WEFT_MESSAGE_PING, &(weft_out){.data = said, .used = 8}); /* before WELCOME */
    assert_int_equal(hear(), WEFT_E_PROTOCOL);
    connect_end();
}

/* A process that never joined is refused for good after one more try. One that was joined tries again. */
static void whose_proof_is_not_taken(void **state)
{
    weft_joining *joining = &end->joining;
    (void)state;
    joining->was_joined = true;
    for (int i = 0; i < 4; i++)
        assert_int_equal(weft_dispatch_unproved(joining), WEFT_E_CONFIG);
    joining->was_joined = false;
    assert_int_equal(weft_dispatch_unproved(joining), WEFT_E_PEER_LOST);
    assert_int_equal(joining->verdict, WEFT_VERDICT_NONE);
    assert_int_equal(weft_dispatch_unproved(joining), WEFT_OK);
    assert_int_equal(joining->verdict, WEFT_VERDICT_REFUSED);
    joining->verdict = WEFT_VERDICT_NONE;
}

static void passed_of_an_earlier_wish(void **state)
{
    (void)state;
    end->wishing.named = true;
    assert_int_equal(weft_wishing_want(end, 7), WEFT_OK);
    for (uint64_t number = 6; number <= 7; number++) {
        SAY(WEFT_MESSAGE_PASSED, weft_wire_put_passed, (weft_wire_passed){.number = number, .reason = WEFT_PASS_GONE});
        assert_int_equal(hear(), WEFT_OK);
        assert_int_equal(end->wishing.open, number == 6);
        assert_int_equal(weft_wishing_check(&end->wishing), number == 6 ? WEFT_OK : WEFT_E_PASSED);
    }
    assert_int_equal(weft_wishing_want(end, 7), WEFT_OK);
    for (uint64_t held = 6; held <= 7; held++) { /* and a version that is held ends the wish for it alone */
        weft_wishing_settle(&end->wishing, held);
        assert_int_equal(end->wishing.open, held == 6);
    }
}

static const struct {
    bool opens;
    uint32_t port, turn;
} strays[] = {{false, 0, 1}, {false, 0, 3}, {false, 1, 0}, {true, 0, 2}, {true, 0, 4}, {true, 1, 1}};

/* CLOSE and OPEN of other ports and turns: the one port here is closed, in turn 2. */
static void ports_have_their_turns(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof strays / sizeof *strays; row++) {
        connect_end();
        end->intake.inlet_count = 1;
        end->intake.inlets[0].turn = 2;
        if (strays[row].opens)
            SAY(WEFT_MESSAGE_OPEN, weft_wire_put_open,
                (weft_wire_open){strays[row].port, strays[row].turn, {.address = "x", .address_bytes = 1}});
        else
            SAY(WEFT_MESSAGE_CLOSE, weft_wire_put_close, (weft_wire_close){strays[row].port, strays[row].turn});
        if (hear() != WEFT_E_PROTOCOL)
            fail_msg("row %zu", row);
    }
    end->intake.inlet_count = 0;
}

static uint64_t *theirs; /* digests of the trainer's version */

static void theirs_open(void)
{
    theirs = test_malloc(end->layout->part_count * sizeof *theirs);
    memcpy(theirs, end->current.digests, end->layout->part_count * sizeof *theirs);
    weft_search_drop(&end->searching);
    end->searching.done = end->searching.told = false;
    end->joining.welcome.held = (weft_version){0, 0, 0};
}

static void offer(void)
{
    connect_end();
    end->course.state = WEFT_COURSE_RECEIVING;
    SAY(WEFT_MESSAGE_OFFER, weft_wire_put_version, (weft_version){RUN, 6, 66});
    assert_int_equal(hear(), WEFT_OK);
}

/* Answers the question that the rollout has asked, of version `number`. */
static weft_status answer(uint64_t number, uint64_t first_wrong)
{
    weft_wire_digests digests = {.version = {RUN, number, 1000 + number}, .before = {RUN, number - 1, 999 + number}};
    const weft_wire_query query = end->searching.search.query;
    must_say(WEFT_MESSAGE_QUERY);
    if (query.version.run)
        digests.version = query.version;
    digests.kind = query.kind;
    digests.tensor = query.tensor;
    digests.first = query.first + first_wrong;
    digests.count = query.count;
    for (uint32_t i = 0; i < query.count; i++)
        digests.digest[i] = query.kind == WEFT_DIGESTS_TENSORS
                                ? weft_digest_tensor(end->layout, theirs, query.first + i)
                                : theirs[end->layout->entries[query.tensor].part + query.first + i];
    SAY(WEFT_MESSAGE_DIGESTS, weft_wire_put_digests, digests);
    return hear();
}

static uint64_t tensor_of(const char *name)
{
    uint64_t t = 0;
    while (strcmp(end->layout->entries[t].tensor.name, name) != 0)
        t++;
    return t;
}

/* One tile differs: the units are asked for if staging has room for their changes, and the offer stands if not. */
static void a_repair_fits_staging(void **state)
{
    const uint64_t staging = end->stage.staging.bytes;
    (void)state;
    for (int fits = 1; fits >= 0; fits--) {
        theirs_open();
        theirs[end->layout->entries[tensor_of("wide")].part] ^= 1;
        end->stage.staging.bytes = fits ? staging : 1000;
        offer();
        while (!end->searching.search.done)
            assert_int_equal(answer(6, 0), WEFT_OK);
        assert_int_equal(weft_search_check(end, own_now, &(weft_waits){.wake_ns = 0}), WEFT_OK);
        assert_int_equal(end->course.state, fits ? WEFT_COURSE_REPAIR : WEFT_COURSE_OFFERED);
        offer(); /* again: one search a connection */
        assert_int_equal(end->course.state, WEFT_COURSE_OFFERED);
        test_free(theirs);
    }
    end->stage.staging.bytes = staging;
    end->course.state = WEFT_COURSE_RECEIVING;
}

/* Bits that are near to no version are compared with sixteen at most. */
static void a_search_has_an_end(void **state)
{
    unsigned versions = 0;
    (void)state;
    theirs_open();
    for (uint64_t part = 0; part < end->layout->part_count; part++)
        theirs[part] ^= 1;
    offer();
    while (!end->searching.search.done && !end->searching.search.tiles) {
        assert_int_equal(answer(900 - versions++, 0), WEFT_OK);
        assert_true(versions <= 16);
    }
    assert_int_equal(versions, 16);
    weft_search_drop(&end->searching);
    test_free(theirs);
    end->course.state = WEFT_COURSE_RECEIVING;
}

static void digests_of_another_question(void **state)
{
    (void)state;
    theirs_open();
    offer();
    assert_int_equal(answer(6, 1), WEFT_E_PROTOCOL);
    weft_search_drop(&end->searching);
    test_free(theirs);
    end->course.state = WEFT_COURSE_RECEIVING;
}

/* Staged bits do not lead to the target. The weights are in doubt at once, the fault waits for the search no longer
 * than io_deadline, whatever was answered, and a later answer is passed over. */
static void a_fault_waits_for_its_search(void **state)
{
    (void)state;
    theirs_open();
    theirs[end->layout->entries[tensor_of("wide")].part] ^= 1;
    announce(6)->trailer.target.root ^= 1;
    assert_int_equal(weft_stage_step(end), WEFT_AGAIN);
    assert_true(end->current.doubt);
    own_now += PATIENCE / 2 * WEFT_NS_PER_MS;
    assert_int_equal(answer(6, 0), WEFT_OK); /* and asks for the tiles */
    own_now += PATIENCE / 2 * WEFT_NS_PER_MS;
    assert_int_equal(weft_search_check(end, own_now, &(weft_waits){.wake_ns = 0}), WEFT_E_TARGET);
    const weft_wire_digests late = {.version = {RUN, 6, 66}, .kind = WEFT_DIGESTS_TILES, .count = 1};
    uint8_t cut[8] = {0};
    say(WEFT_MESSAGE_DIGESTS, &(weft_out){cut, sizeof cut, sizeof cut, false});
    assert_int_equal(hear(), WEFT_E_CORRUPT); /* late or not */
    for (int times = 0; times < 2; times++) {
        SAY(WEFT_MESSAGE_DIGESTS, weft_wire_put_digests, late);
        assert_int_equal(hear(), times == 0 ? WEFT_OK : WEFT_E_PROTOCOL);
    }
    end->current.doubt = false;
    end->arriving.queued = 0;
    test_free(theirs);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(updates_follow_each_other),    TEST(what_is_a_refusal),         TEST(what_a_welcome_says),
        TEST(whose_proof_is_not_taken),     TEST(passed_of_an_earlier_wish), TEST(ports_have_their_turns),
        TEST(a_repair_fits_staging),        TEST(a_search_has_an_end),       TEST(digests_of_another_question),
        TEST(a_fault_waits_for_its_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
