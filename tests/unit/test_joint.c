/* The ends of several sources as one: what is wanted of each, what has to join, and what waits for another end. A rank
 * joins its sources, and then its ends are written by hand, row by row. */
#include "tests/support/source_rank.h"

#include <string.h>

#include "backends/host/host.h"

#define ENDS 3u

typedef enum way {
    IDLE,     /* nothing is on its way */
    COMES,    /* an update is */
    STAGED,   /* an update is staged */
    REPAIR,   /* an update from bits of no version is staged */
    SNAPSHOT, /* a snapshot is staged */
    OFFERED   /* one is offered */
} way;

/* The place of an end: the version that it has (0: bits of no version), the one that it heads for, and the one that its
 * trainer offers. A number below 0 was offered by a trainer that is away. */
typedef struct place {
    way way;
    uint64_t has, heads;
    int offered;
    uint64_t wish; /* wanted of the trainer already; 0: nothing */
} place;

static weft_joint *joint(void)
{
    return rank_session()->joint;
}

static void lay(weft_rollout *end, const place *at)
{
    weft_incoming *first = &end->arriving.queue[0];
    const uint64_t run = joint()->accord.run;
    end->current.version = (weft_version){at->has ? run : 0, at->has, end->current.version.root};
    end->current.known = true;
    end->course.state = at->way == OFFERED  ? WEFT_COURSE_OFFERED
                        : at->way >= STAGED ? WEFT_COURSE_STAGED
                                            : WEFT_COURSE_RECEIVING;
    end->course.offer = (weft_version){run, at->heads, 1};
    end->arriving.queued = at->way != IDLE && at->way != OFFERED;
    memset(first, 0, sizeof *first);
    first->header.target = first->trailer.target = (weft_version){run, at->heads, 1};
    first->header.snapshot = at->way == SNAPSHOT;
    first->header.base = at->way == REPAIR ? (weft_version){0, 0, 1} : end->current.version;
    end->wishing.offers = at->offered > 0;
    end->wishing.offered = (uint64_t)(at->offered < 0 ? -at->offered : at->offered);
    end->wishing.open = at->wish > 0;
    end->wishing.number = at->wish;
    end->wishing.passed.reason = (weft_wire_pass)0;
}

static void lay_all(const place places[ENDS])
{
    assert_int_equal(joint()->count, ENDS);
    for (uint32_t i = 0; i < ENDS; i++)
        lay(rank_end(i), &places[i]);
}

/* A rank that has joined, before each row: what a row does to connections is done for good. */
static void begin(bool named)
{
    if (rank_session())
        source_rank_close(&w.ranks[0]);
    join_same(named);
}

/* ---- what is agreed on */

typedef struct row {
    const char *what;
    place ends[ENDS];
    weft_accord accord; /* run 0: the trainers' */
    bool named, held_back;
    uint64_t passed; /* the second trainer passes it over */
    /* After the step: */
    uint64_t number, next;  /* wanted, and after that; 0: nothing */
    uint64_t wishes[ENDS];  /* what each trainer was asked for */
    bool again[ENDS], told; /* who joins again; and that the caller is told of `passed` */
} row;

#define OPEN(n)  .open = true, .number = (n)
#define SHUNS(n) .shuns = true, .shunned = (n)
#define NAMES(n) .named = true, .wanted = (n)
#define OFFER(n)                                                                                                       \
    {                                                                                                                  \
        IDLE, 5, 0, (n), 0                                                                                             \
    }

static const row rows[] = {
    {"the newest that all offer", .ends = {OFFER(7), OFFER(6), OFFER(8)}, .number = 6, .wishes = {6, 6, 6}},
    {"not before each has offered one", .ends = {OFFER(7), OFFER(-7), OFFER(8)}},
    {"none that an end has passed", .ends = {{IDLE, 7, 0, 7, 0}, OFFER(6), OFFER(6)}},
    {"none that was passed over", .ends = {OFFER(6), OFFER(6), OFFER(6)}, .accord = {SHUNS(6)}},
    {"but the one below that", .ends = {OFFER(7), OFFER(7), OFFER(7)}, .accord = {SHUNS(7), .below = 6}, .number = 6,
     .wishes = {6, 6, 6}},
    {"nothing while a commit is held", .ends = {OFFER(6), OFFER(6), OFFER(6)}, .held_back = true},
    {"an end that comes further leads, and the others leave their way",
     .ends = {{COMES, 5, 7, 7, 0}, {COMES, 5, 6, 6, 0}, OFFER(6)}, .number = 7, .wishes = {0, 7, 7},
     .again = {false, true, false}},
    {"what is staged of another number is dropped", .ends = {{COMES, 5, 7, 7, 0}, {STAGED, 5, 6, 7, 7}, OFFER(7)},
     .accord = {OPEN(7)}, .number = 7, .wishes = {0, 7, 7}, .again = {false, true, false}},
    {"an end that gave its part up is asked again",
     .ends = {{STAGED, 5, 6, 6, 6}, {IDLE, 5, 0, 6, 0}, {STAGED, 5, 6, 6, 6}}, .accord = {OPEN(6)}, .number = 6,
     .wishes = {6, 6, 6}},
    {"a wish waits for the one under way", .ends = {{COMES, 5, 6, 8, 6}, {IDLE, 5, 0, 8, 6}, {IDLE, 5, 0, 8, 6}},
     .accord = {OPEN(6), NAMES(8)}, .named = true, .number = 6, .next = 8, .wishes = {6, 6, 6}},
    {"a repair comes before the wish, which comes next",
     .ends = {{REPAIR, 0, 5, 7, 7}, {IDLE, 5, 0, 7, 7}, {IDLE, 5, 0, 7, 7}}, .accord = {OPEN(7)}, .named = true,
     .number = 5, .next = 7, .wishes = {7, 5, 5}},
    {"what one passes over is told, and the others are asked for what they have",
     .ends = {{IDLE, 5, 0, 7, 7}, {IDLE, 5, 0, 7, 0}, {IDLE, 5, 0, 7, 7}}, .accord = {OPEN(7)}, .named = true,
     .passed = 7, .wishes = {5, 0, 5}, .told = true},
    {"it is no news to who names none", .ends = {{IDLE, 5, 0, 7, 7}, {IDLE, 5, 0, 7, 0}, {IDLE, 5, 0, 7, 7}},
     .accord = {OPEN(7)}, .passed = 7, .wishes = {5, 0, 5}},
    {"an earlier one that is passed over is no news",
     .ends = {{IDLE, 5, 0, 7, 7}, {IDLE, 5, 0, 7, 7}, {IDLE, 5, 0, 7, 7}}, .accord = {OPEN(7)}, .named = true,
     .passed = 6, .number = 7, .wishes = {7, 7, 7}},
    {"nor is one whose wish was replaced", .ends = {{IDLE, 5, 0, 8, 7}, {IDLE, 5, 0, 8, 0}, {IDLE, 5, 0, 8, 7}},
     .accord = {OPEN(7), NAMES(8)}, .named = true, .passed = 7, .number = 8, .wishes = {8, 8, 8}},
    {"another run of all begins anew", .ends = {{IDLE, 5, 0, 6, 7}, {IDLE, 5, 0, 6, 7}, {IDLE, 5, 0, 6, 7}},
     .accord = {.run = 1, OPEN(7), SHUNS(6)}, .number = 6, .wishes = {6, 6, 6}},
};

static void play(const row *r)
{
    weft_accord *accord = &joint()->accord;
    *accord = r->accord;
    accord->run = r->accord.run ? r->accord.run : w.run;
    lay_all(r->ends);
    joint()->whole = true;
    joint()->held_back = r->held_back;
    if (r->passed)
        rank_end(1)->wishing.passed = (weft_wire_passed){.number = r->passed, .reason = WEFT_PASS_SKIPPED};
    weft_accord_step(joint());
    joint()->held_back = false;
}

static void what_is_agreed_on(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
        const row *r = &rows[at];
        begin(r->named);
        play(r);
        const weft_accord *accord = &joint()->accord;
        const uint64_t number = accord->open ? accord->number : 0, next = accord->named ? accord->wanted : 0;
        const bool told = joint()->wishes.passed.reason != 0;
        bool right = number == r->number && next == r->next && told == r->told;
        for (uint32_t i = 0; i < ENDS; i++) {
            const weft_rollout *end = rank_end(i);
            right = right && (end->wishing.open ? end->wishing.number : 0) == r->wishes[i] &&
                    (end->joining.state == WEFT_JOIN_AWAY) == r->again[i];
        }
        if (!right)
            fail_msg("%s: %llu is wanted, %llu next, told %d", r->what, (unsigned long long)number,
                     (unsigned long long)next, told);
    }
}

/* ---- what has to join */

static const struct {
    const char *what;
    place ends[ENDS];
    uint64_t shunned;
    bool torn, joins;
} leads[] = {
    {"updates", {{STAGED, 5, 6, 0, 0}, {STAGED, 5, 6, 0, 0}, {STAGED, 5, 6, 0, 0}}, 0, false, false},
    {"an offer", {{OFFERED, 5, 6, 0, 0}, {STAGED, 5, 6, 0, 0}, {IDLE, 5, 0, 0, 0}}, 0, false, true},
    {"two repairs", {{REPAIR, 0, 6, 0, 0}, {REPAIR, 0, 6, 0, 0}, {IDLE, 6, 0, 0, 0}}, 0, false, true},
    {"a repair beside its number", {{REPAIR, 0, 6, 0, 0}, {STAGED, 5, 6, 0, 0}, {IDLE, 6, 0, 0, 0}}, 0, false, false},
    {"the same of weights that are torn",
     {{REPAIR, 0, 6, 0, 0}, {IDLE, 6, 0, 0, 0}, {IDLE, 6, 0, 0, 0}},
     0,
     true,
     true},
    {"a repair beside later ones", {{REPAIR, 0, 5, 0, 0}, {IDLE, 6, 0, 0, 0}, {IDLE, 6, 0, 0, 0}}, 0, false, true},
    {"a snapshot that leads", {{SNAPSHOT, 5, 7, 0, 0}, {STAGED, 5, 7, 0, 0}, {STAGED, 5, 7, 0, 0}}, 0, false, false},
    {"one that cannot", {{SNAPSHOT, 5, 7, 0, 0}, {IDLE, 5, 0, 0, 0}, {IDLE, 5, 0, 0, 0}}, 7, false, true},
};

static void what_has_to_join(void **state)
{
    (void)state;
    begin(false);
    for (size_t at = 0; at < sizeof leads / sizeof *leads; at++) {
        lay_all(leads[at].ends);
        joint()->whole = !leads[at].torn;
        joint()->accord.shuns = leads[at].shunned > 0;
        joint()->accord.shunned = leads[at].shunned;
        if (weft_joint_has_to_join(joint()) != leads[at].joins)
            fail_msg("%s", leads[at].what);
    }
}

/* A commit takes the snapshots of one run. Offers of another run stay for the next, and nothing is ready before this
 * one is over. */
static void offers_wait_for_a_commit(void **state)
{
    const place offer = {OFFERED, 5, 6, 0, 0};
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    begin(false);
    lay(rank_end(0), &offer);
    joint()->taking = w.run;
    for (unsigned other = 0; other < 2; other++)
        for (unsigned moves = 0; moves < 2; moves++) {
            joint()->moving = moves;
            rank_end(0)->joining.welcome.run = w.run + other;
            assert_int_equal(weft_joint_is_offered(joint(), rank_end(0)), !moves || !other);
        }
    rank_end(0)->joining.welcome.run = w.run;
    assert_false(weft_joint_describe(joint(), &info));
    joint()->moving = false;
    joint()->held_back = true;
    assert_false(weft_joint_describe(joint(), &info));
    joint()->held_back = false;
    assert_true(weft_joint_describe(joint(), &info));
}

/* ---- what the weights are */

static void weights_of_one_version_or_of_none(void **state)
{
    const place torn[ENDS] = {{IDLE, 6, 0, 0, 0}, {IDLE, 6, 0, 0, 0}, {IDLE, 7, 0, 0, 0}};
    const place one[ENDS] = {{IDLE, 7, 0, 0, 0}, {IDLE, 7, 0, 0, 0}, {IDLE, 7, 0, 0, 0}};
    weft_version held;
    (void)state;
    begin(false);
    joint()->whole = false;
    lay_all(torn);
    weft_accord_note(joint());
    assert_int_equal(weft_held(rank_session(), &held), WEFT_E_STATE);
    lay_all(one);
    weft_accord_note(joint());
    assert_int_equal(held_number(), 7);
    rank_end(2)->current.version.root ^= 1; /* a pass over the weights of one end found other bits */
    joint()->held_back = true;
    assert_int_equal(held_number(), 7); /* the ends do not move at one moment */
    joint()->held_back = false;
    assert_int_equal(weft_held(rank_session(), &held), WEFT_OK);
    assert_true(held.run == 0 && held.number == 0);
}

/* ---- the wishes and the ends of sources */

static unsigned apart_lines;

static void hear_apart(const char *line)
{
    apart_lines += strstr(line, "source 0 has run ") && strstr(line, "source 1 has run ");
}

/* Sources of two runs are told of once, and again after they had one run. */
static void two_runs_are_told_of_once(void **state)
{
    (void)state;
    begin(false);
    apart_lines = 0;
    source_heard = hear_apart;
    for (unsigned times = 1; times <= 2; times++) {
        rank_end(1)->joining.welcome.run = w.run + 77;
        for (unsigned i = 0; i < 3; i++)
            fleet_step(rank_session());
        assert_int_equal(apart_lines, times);
        rank_end(1)->joining.welcome.run = w.run;
        fleet_step(rank_session());
    }
}

static void a_new_wish_forgets_what_the_last_was_told(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    begin(true);
    joint()->wishes.passed = (weft_wire_passed){.number = 6, .reason = WEFT_PASS_SKIPPED};
    assert_int_equal(weft_want(rank_session(), 7), WEFT_OK);
    assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_AGAIN);
}

/* One source that refuses, whichever it is, ends what the caller waits for. */
static void each_source_may_end_it(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    begin(false);
    for (uint32_t i = 0; i < ENDS; i++) {
        char words[32];
        snprintf(words, sizeof words, "source %u refuses", i);
        rank_end(i)->joining.state = WEFT_JOIN_REFUSED;
        assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_E_REFUSED);
        assert_non_null(strstr(weft_last_error(), words));
        rank_end(i)->joining.state = WEFT_JOIN_JOINED;
    }
}

/* An end that has the version already has nothing held back. The commit of any other end counts as well. */
static void nothing_is_unbound_while_any_end_is_held(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version held;
    (void)state;
    begin(false);
    stage_next(100);
    assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_OK);
    assert_int_equal(commit_flags(6, WEFT_COMMIT_HOLD), WEFT_OK);
    for (uint32_t i = 0; i < ENDS; i++) {
        for (uint32_t other = 0; other < ENDS; other++)
            rank_end(other)->stage.held_back = other == i;
        assert_int_equal(weft_unbind(rank_session()), WEFT_E_STATE);
        assert_non_null(strstr(weft_last_error(), "the commit of version 6 is held"));
        assert_true(rank_end(0)->current.bound);
    }
    for (uint32_t i = 0; i < ENDS; i++)
        rank_end(i)->stage.held_back = true;
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
    assert_int_equal(held.root, info.target.root); /* which was said of it before */
    source_check(&w, &w.ranks[0]);
}

/* ---- another order of tensors */

/* An order waits for everything that is on its way into the weights, and for calls that read these. */
static void an_order_waits(void **state)
{
    (void)state;
    begin(false);
    weft_rollout *end = rank_end(1);
    bool *const flags[] = {&joint()->said.reading, &joint()->moving, &joint()->held_back, &end->stage.held_back,
                           &end->current.digesting};
    const weft_course_state courses[] = {WEFT_COURSE_STAGED, WEFT_COURSE_COMMITTING};
    weft_waits waits = {.wake_ns = UINT64_MAX};
    end->joining.comparing.told = w.layout; /* not looked into */
    weft_joint_order_step(joint(), &waits); /* joined */
    end->joining.state = WEFT_JOIN_AWAY;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        *flags[i] = true;
        weft_joint_order_step(joint(), &waits);
        *flags[i] = false;
    }
    for (size_t i = 0; i < sizeof courses / sizeof *courses; i++) {
        end->course.state = courses[i];
        weft_joint_order_step(joint(), &waits);
    }
    assert_ptr_equal(end->joining.comparing.told, w.layout);
    end->joining.comparing.told = NULL;
    end->course.state = WEFT_COURSE_RECEIVING;
}

/* An order that cannot be taken: the trainer is refused, and the caller hears why. */
static void an_order_that_cannot_be_taken(void **state)
{
    const uint64_t shape[] = {4};
    const weft_tensor alone = {.name = "other", .dtype = WEFT_BF16, .rank = 1, .shape = shape};
    weft_staged_info info = {.size = sizeof info};
    weft_waits waits = {.wake_ns = UINT64_MAX};
    (void)state;
    begin(false);
    weft_joining *joining = &rank_end(1)->joining;
    assert_int_equal(weft_layout_create(&alone, 1, &joining->comparing.told), WEFT_OK);
    joining->comparing.order = calloc(w.layout->count, sizeof(uint64_t));
    joining->state = WEFT_JOIN_AWAY;
    weft_joint_order_step(joint(), &waits);
    assert_int_equal(joining->state, WEFT_JOIN_REFUSED);
    assert_null(joining->comparing.told);
    assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_E_REFUSED);
    assert_non_null(strstr(weft_last_error(), "order of tensors cannot be taken: "));
}

/* ---- while the lock is let go of */

static void (*meanwhile)(void);
static unsigned jobs_before; /* that many jobs come before `meanwhile` */

static void job_begins(void)
{
    void (*call)(void) = meanwhile;
    if (!call || jobs_before-- > 0)
        return;
    meanwhile = NULL;
    pthread_mutex_lock(&rank_session()->lock);
    call();
    pthread_mutex_unlock(&rank_session()->lock);
}

static weft_status apply(weft_backend_state *state, weft_apply_job *job)
{
    job_begins();
    return weft_backend_host.apply(state, job);
}

static weft_status digest(weft_backend_state *state, weft_digest_job *job)
{
    job_begins();
    return weft_backend_host.digest(state, job);
}

static int setup_jobs(void **state)
{
    static weft_backend table;
    table = weft_backend_host;
    table.apply = apply;
    table.digest = digest;
    weft_backend_lend(&table);
    return rank_setup(state);
}

static int teardown_jobs(void **state)
{
    meanwhile = NULL;
    const int code = rank_teardown(state);
    weft_backend_lend(NULL);
    return code;
}

static void the_last_source_comes_back(void)
{
    weft_join_again(last_end(), "its source came back, and does not know the version");
}

static void the_last_version_is_renamed(void)
{
    last_end()->arriving.queue[0].trailer.target.number++;
}

/* A source comes back while the weights of another one move, and does not know what is staged there, or by another
 * number: no weight is moved for good. */
static void a_part_that_is_lost_meanwhile(void (*call)(void))
{
    begin(false);
    stage_next(300);
    meanwhile = call;
    jobs_before = 0;
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_PEER_LOST);
    assert_null(meanwhile);
    assert_int_equal(held_number(), 5);
    assert_true(has_bits(5));
}

static void a_part_that_is_given_up_meanwhile(void **state)
{
    (void)state;
    a_part_that_is_lost_meanwhile(the_last_source_comes_back);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_PEER_LOST);
    assert_non_null(strstr(weft_last_error(), "it was given up"));
    come_to(6); /* the end that gave it up gets it again */
}

static void a_part_that_is_renamed_meanwhile(void **state)
{
    (void)state;
    a_part_that_is_lost_meanwhile(the_last_version_is_renamed);
}

static void the_first_end_stages(void)
{
    rank_end(0)->course.state = WEFT_COURSE_STAGED;
}

/* While the weights of the last end are digested, the first one stages a version: nothing is bound again. */
static void a_version_that_is_staged_meanwhile(void **state)
{
    weft_block blocks[SLICES];
    (void)state;
    begin(false);
    part before = w.ranks[0].has;
    part_move(&w, &w.ranks[0].has);
    part_blocks(&w, &w.ranks[0].has, blocks);
    meanwhile = the_first_end_stages;
    jobs_before = (unsigned)(rank_end(0)->layout->unit_count + rank_end(1)->layout->unit_count);
    assert_int_equal(weft_bind_blocks(rank_session(), blocks, before.count, NULL, 0, 0), WEFT_E_STATE);
    assert_null(meanwhile);
    assert_non_null(strstr(weft_last_error(), "is staged; commit it first"));
    rank_end(0)->course.state = WEFT_COURSE_RECEIVING;
    part_free(&w.ranks[0].has);
    w.ranks[0].has = before;
    stage_next(100);
    come_to(6); /* where the weights lie still */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_agreed_on, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(what_has_to_join, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(offers_wait_for_a_commit, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(weights_of_one_version_or_of_none, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(two_runs_are_told_of_once, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_new_wish_forgets_what_the_last_was_told, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(each_source_may_end_it, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_unbound_while_any_end_is_held, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(an_order_waits, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(an_order_that_cannot_be_taken, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_part_that_is_given_up_meanwhile, setup_jobs, teardown_jobs),
        cmocka_unit_test_setup_teardown(a_part_that_is_renamed_meanwhile, setup_jobs, teardown_jobs),
        cmocka_unit_test_setup_teardown(a_version_that_is_staged_meanwhile, setup_jobs, teardown_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
