/* Several sources and several ranks, over the loop, in one thread, on a clock of their own: holdings at random (whole
 * tensors, rows, columns), views at random, loss and disorder. Sources publish the same numbers, each in its own time,
 * and some pass a number over. Sources and ranks are killed and start again, and a run is replaced by another one of
 * another world size, whose numbers are the same. Weights rot. Whatever happens, a rank that holds a version has the
 * bits that this run gave that number, in every slice. When quiet comes, all ranks hold the newest. With half of the
 * seeds the ranks come through the first one, which is a relay. A source may begin another run than the others, for a
 * while. Engines may be too busy to commit what is staged.
 *
 * WEFT_SEED=N plays one seed; WEFT_SEEDS=N plays so many; WEFT_FULL more than usual. */
#include "tests/support/source_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "joint/joint.h"
#include "tests/support/deferred.h"

#define SEEDS      10u
#define SEEDS_FULL 60u
#define ROUNDS     1200u

static unsigned commits, holds_undone, queued, kills, runs, overs, rots, kept, strays; /* of all seeds */
static bool acts;

/* ---- ranks */

static void wish(source_world *w, rank *r)
{
    uint64_t newest;
    if (weft_offered(r->session, UINT64_MAX, 0, &newest) != WEFT_OK || (newest == r->wished && source_below(w, 20)))
        return;
    r->wished = newest;
    fleet_need(weft_want(r->session, newest), "want");
}

static void settle_commit(source_world *w, rank *r)
{
    const bool keep = source_below(w, 2);
    holds_undone += !keep;
    const weft_status status = weft_settle(r->session, keep ? WEFT_SETTLE_KEEP : WEFT_SETTLE_UNDO, NULL, NULL);
    if (status != WEFT_E_BASE || !r->rotten) /* a queued commit finds the rot only now */
        fleet_need(status, "settle");
    r->held_back = false;
    source_check(w, r);
}

/* Flips a bit of some weight. */
static void rot(source_world *w, rank *r)
{
    const weft_joint *joint = r->session->joint;
    const weft_rollout *end = joint->ends[source_below(w, joint->count)];
    if (r->blocked || r->held_back || !end->current.bound)
        return;
    const weft_view view = weft_binding_view(&end->current.weights, source_below(w, end->layout->unit_count));
    if (view.run_count == 0 || !view.runs[0].data)
        return;
    view.runs[0].data[source_below(w, (uint64_t)view.runs[0].count * view.width)] ^= 0x20;
    r->rotten = true;
    rots++;
}

/* A pass over the weights finds that, and the rank is repaired. Returns true if there is no rot any more. */
static bool scrub(const source_world *w, rank *r)
{
    const weft_status status = weft_scrub(r->session);
    if (status != WEFT_OK && status != WEFT_E_BASE && status != WEFT_E_STATE)
        fleet_fail("scrub: %s: %s", weft_status_name(status), weft_last_error());
    r->rotten = r->rotten && status != WEFT_OK;
    source_check(w, r);
    return !r->rotten;
}

/* A snapshot is put to the engine where all sources that are there have one run. */
static void check_runs(const rank *r, const weft_staged_info *info)
{
    const weft_joint *joint = r->session->joint;
    uint64_t run = 0;
    for (uint32_t i = 0; i < joint->count && info->kind == WEFT_STAGED_SNAPSHOT; i++) {
        const weft_joining *joining = &joint->ends[i]->joining;
        if (joining->state != WEFT_JOIN_JOINED)
            continue;
        if (run && run != joining->welcome.run)
            fleet_fail("version %llu is staged across runs", (unsigned long long)info->target.number);
        run = joining->welcome.run;
    }
}

/* Takes an engine's turn between two decode steps. */
static void turn(source_world *w, rank *r)
{
    weft_staged_info info = {.size = sizeof info};
    if (r->held_back) {
        if (source_below(w, 3) == 0)
            settle_commit(w, r);
        return;
    }
    if (r->rotten && source_below(w, 8) == 0)
        scrub(w, r);
    if (r->named)
        wish(w, r);
    if (weft_staged(r->session, 0, &info) != WEFT_OK)
        return;
    check_runs(r, &info);
    if (acts && source_below(w, 6) == 0) /* the engine has no time for that */
        r->busy_until_ns = w->time.now_ns + source_below(w, 600) * WEFT_NS_PER_MS;
    if (acts && w->time.now_ns < r->busy_until_ns)
        return;
    const uint64_t begun_ns = w->time.now_ns;
    const bool hold = info.kind == WEFT_STAGED_UPDATE && source_below(w, 4) == 0;
    const uint32_t flags = !hold ? 0 : source_below(w, 2) ? WEFT_COMMIT_HOLD : WEFT_COMMIT_QUEUE;
    r->blocked = true;
    const weft_status status = weft_commit(r->session, info.target.number, NULL, flags, NULL);
    r->blocked = false;
    r->held_back = status == WEFT_OK && hold;
    queued += flags == WEFT_COMMIT_QUEUE;
    commits += status == WEFT_OK;
    if (w->time.now_ns > begun_ns + 10000 * WEFT_NS_PER_MS)
        fleet_fail("a commit took more than ten seconds");
    if (weft_status_scope(status) == WEFT_SCOPE_CALL && status != WEFT_E_TIMEOUT && status != WEFT_E_STATE)
        fleet_fail("commit: %s: %s", weft_status_name(status), weft_last_error());
    source_check(w, r);
}

static const char *snapshots(source_world *w)
{
    return source_below(w, 2) ? "commit.snapshot=staged" : "commit.snapshot=in_place";
}

static void join(source_world *w, unsigned i)
{
    const uint8_t *old = w->history[source_below(w, w->history_count)].dense;
    w->ranks[i].named = source_below(w, 2);
    source_rank_join(w, i, snapshots(w), source_below(w, 2) ? old : NULL);
}

/* ---- sources */

/* A source publishes the next number, if there is one; sometimes the one after, so that a number is passed over. */
static void go_on(source_world *w, source *s)
{
    if (!s->session || s->strays || s->published == w->newest)
        return;
    const bool over = w->newest - s->published > 1 && source_below(w, 40) == 0;
    overs += over;
    source_go_to(w, s, s->published + (over ? 2 : 1));
}

static void begin(source_world *w, uint64_t number)
{
    source_run_begin(w, 1 + (unsigned)source_below(w, SOURCES), number);
}

/* A job ends and comes back: other sources, from an old version's bits, with numbers that were there before. The
 * engines stay, and open with the holdings of the new run. */
static void replace(source_world *w)
{
    const version *from = &w->history[source_below(w, w->history_count)];
    const uint64_t number = from->number;
    weft_version held;
    for (unsigned i = 0; i < w->rank_count; i++)
        if (w->ranks[i].blocked)
            return;
    memcpy(w->dense, from->dense, w->bytes);
    source_run_end(w);
    begin(w, number);
    runs++;
    for (unsigned i = 0; i < w->rank_count; i++) {
        rank *r = &w->ranks[i];
        if (!r->session)
            continue;
        const bool known = weft_held(r->session, &held) == WEFT_OK;
        r->blocked = true;
        weft_close(r->session);
        r->blocked = false;
        r->held_back = r->rotten = false;
        r->wished = 0;
        source_rank_open(w, i, snapshots(w), !known);
    }
}

/* An operator starts one source again with another run, or in the end with the right one. It publishes nothing
 * meanwhile. A rank that has this source alone may follow it. */
static void stray(source_world *w)
{
    const unsigned i = (unsigned)source_below(w, w->source_count);
    const uint8_t *old = w->history[source_below(w, w->history_count)].dense;
    source *s = &w->sources[i];
    for (unsigned at = 0; at < w->source_count; at++)
        if (w->sources[at].strays) {
            source_return(w, at);
            return;
        }
    if (s->has.count == 0 || w->history_count + 8 >= HISTORY)
        return;
    strays++;
    source_stray(w, i, source_below(w, UINT64_MAX) | 1, old);
}

/* ---- rounds */

static void faults(source_world *w)
{
    const uint64_t n = 1 + source_below(w, 12);
    const weft_loop_faults all[] = {{.seed = n, .corrupt_every = n + 3},
                                    {.drop_at = n},
                                    {.duplicate_every = n},
                                    {.seed = n, .reorder_window = (uint32_t)n},
                                    {.fail_every = n + 3},
                                    {.again_every = n + 1},
                                    {.break_at = n}};
    weft_loop_set_faults(source_below(w, 3) == 0 ? &all[source_below(w, sizeof all / sizeof all[0])] : NULL);
}

static void act_on_source(source_world *w, uint64_t what)
{
    const unsigned i = (unsigned)source_below(w, w->source_count);
    source *s = &w->sources[i];
    if (what < 2 && s->session) {
        kills++;
        source_kill(s);
    } else if (what >= 2 && !s->session && s->has.count > 0) {
        source_start(w, i);
    }
}

static void act_on_rank(source_world *w, uint64_t what)
{
    const unsigned i = (unsigned)source_below(w, w->rank_count);
    rank *r = &w->ranks[i];
    if (what == 15 && r->session) {
        rot(w, r);
    } else if (what < 4 && r->session && !r->blocked) {
        kills++;
        source_rank_kill(r);
    } else if (what >= 4 && !r->session) {
        join(w, i);
    }
}

static void act(source_world *w)
{
    const uint64_t what = source_below(w, 64);
    if (what < 30 && w->history_count + 8 < HISTORY)
        source_publish(w, source_below(w, 3) ? 10 : 200);
    else if (what >= 30 && what < 40)
        faults(w);
    else if (what >= 40 && what < 56)
        act_on_rank(w, what - 40);
    else if (what >= 56 && what < 62)
        act_on_source(w, what - 56);
    else if (what == 62 && source_below(w, 3) == 0)
        replace(w);
    else if (what == 63)
        stray(w);
}

/* Counts ends that joined with something staged, which their sources knew. */
static void count_kept(const rank *r)
{
    const weft_joint *joint = r->session->joint;
    for (uint32_t i = 0; i < joint->count; i++)
        kept += joint->ends[i]->joining.said_staged && joint->ends[i]->joining.state == WEFT_JOIN_JOINED &&
                joint->ends[i]->course.state == WEFT_COURSE_STAGED;
}

/* One turn of everybody, but of who waits in a call. */
static void turns(source_world *w)
{
    w->time.rounds++;
    for (unsigned i = 0; i < w->source_count; i++) {
        source *s = &w->sources[i];
        if (s->session)
            fleet_step(s->session);
        if (source_below(w, 4 + 8 * i) == 0) /* the last is the slowest */
            go_on(w, s);
    }
    for (unsigned i = 0; i < w->rank_count; i++) {
        rank *r = &w->ranks[i];
        if (!r->session || r->blocked)
            continue;
        fleet_step(r->session);
        count_kept(r);
        source_check(w, r);
        if (source_below(w, 3) == 0)
            turn(w, r);
    }
    if (acts && source_below(w, 16) == 0)
        act(w);
}

static void round_of(source_world *w)
{
    w->time.now_ns += WEFT_NS_PER_MS;
    turns(w);
}

/* ---- one seed */

static bool is_settled(source_world *w)
{
    weft_version held;
    for (unsigned i = 0; i < w->rank_count; i++)
        if (w->ranks[i].held_back || (w->ranks[i].rotten && !scrub(w, &w->ranks[i])) ||
            weft_held(w->ranks[i].session, &held) != WEFT_OK || held.run != w->run || held.number != w->newest)
            return false;
    return true;
}

/* Everybody is there again, nothing is lost any more, and one more version is published. */
static void calm(source_world *w)
{
    acts = false;
    weft_loop_set_faults(NULL);
    for (unsigned i = 0; i < w->source_count; i++)
        if (w->sources[i].strays)
            source_return(w, i);
        else if (!w->sources[i].session && w->sources[i].has.count > 0)
            source_start(w, i);
    for (unsigned i = 0; i < w->rank_count; i++)
        if (!w->ranks[i].session)
            join(w, i);
    source_publish(w, 10);
}

static void settle(source_world *w)
{
    const uint64_t end_ns = w->time.now_ns + 60000 * WEFT_NS_PER_MS;
    calm(w);
    while (!is_settled(w)) {
        if (w->time.now_ns > end_ns)
            fleet_fail("not settled after a minute");
        round_of(w);
    }
    for (unsigned i = 0; i < w->rank_count; i++) {
        source_check(w, &w->ranks[i]);
        fleet_need(weft_scrub(w->ranks[i].session), "scrub");
        if (!part_is_clean(w, &w->ranks[i].has))
            fleet_fail("something was written beside the view of rank %u", i);
    }
}

static void play(uint64_t seed)
{
    static source_world w;
    const uint64_t blocks = weft_mem_blocks();
    source_world_open(&w, seed);
    if (seed / RANKS % 2)
        source_relay_begin(&w, 1);
    w.turn = turns;
    begin(&w, source_below(&w, 3));
    w.rank_count = 1 + (unsigned)(seed % RANKS);
    for (unsigned i = 0; i < w.rank_count; i++)
        join(&w, i);
    acts = true;
    for (unsigned i = 0; i < ROUNDS; i++)
        round_of(&w);
    settle(&w);
    source_world_close(&w);
    assert_int_equal(weft_mem_blocks(), blocks);
}

static void any_schedule(void **state)
{
    const char *seed = getenv("WEFT_SEED"), *many = getenv("WEFT_SEEDS");
    const uint64_t seeds = many ? strtoull(many, NULL, 0) : getenv("WEFT_FULL") ? SEEDS_FULL : SEEDS;
    (void)state;
    if (seed) {
        play(strtoull(seed, NULL, 0));
        return;
    }
    for (uint64_t i = 1; i <= seeds; i++)
        play(i);
    print_message("%u commits, %u holds undone, %u queued, %u processes killed, %u runs replaced, %u numbers passed "
                  "over, %u bits rotten, %u versions kept over a join, %u sources strayed\n",
                  commits, holds_undone, queued, kills, runs, overs, rots, kept, strays);
    assert_true(commits > 10 * seeds && kills > seeds && runs > 0 && overs > 0 && holds_undone > 0);
    assert_true(queued > seeds && rots > 0 && kept > 0 && strays > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_schedule)};
    deferred_lend_queue();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
