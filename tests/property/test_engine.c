/* An engine of several ranks, each with a view of its own, follows one trainer in a simulated fleet with loss, disorder
 * and faults: the ranks agree on a version, each wants it, all commit with HOLD, and all keep or undo that. Ranks are
 * killed at any moment, also between HOLD and settle, and join again with old bits or none; the trainer starts anew.
 * While the engine serves, its ranks hold one version, bit for bit. When quiet comes, it serves the newest.
 *
 * WEFT_SEED=N plays one seed; WEFT_SEEDS=N plays so many; WEFT_FULL more than usual. */
#include "tests/support/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SEEDS      8u
#define SEEDS_FULL 24u
#define ROUNDS     1500u
#define PATIENCE   3000u /* turns after which ranks agree anew */

typedef enum phase { AGREE, WANTED, HOLDING } phase;

/* What the engine's own collective would know. */
typedef struct engine {
    phase phase;
    bool serves; /* all ranks hold one version, and did not part since */
    uint64_t number;
    uint64_t run;    /* run of the version that is being held */
    uint64_t served; /* number of the version that all ranks took last */
    unsigned patience;
    unsigned kept, undone; /* commits of all ranks */
    unsigned faults;       /* ranks and trainers killed */
} engine;

static engine e;

static bool all_here(const sim *s)
{
    for (unsigned i = 0; i < s->rollout_count; i++)
        if (!s->rollouts[i].session)
            return false;
    return true;
}

static weft_version held_by(const sim_end *rank)
{
    weft_version held;
    return weft_held(rank->session, &held) == WEFT_OK ? held : (weft_version){0, 0, 0};
}

/* Commits alone what leads a rank to no version of its own choice: a snapshot, a repair, an attachment; and, while the
 * engine does not serve, whatever is staged. Returns the version that is staged otherwise; run 0: none. */
static weft_version take_alone(sim *s, sim_end *rank, bool *passed)
{
    weft_staged_info info = {.size = sizeof info};
    const weft_version held = held_by(rank);
    weft_status status = weft_staged(rank->session, 0, &info);
    *passed = *passed || status == WEFT_E_PASSED;
    if (status != WEFT_OK)
        return (weft_version){0, 0, 0};
    const bool repair = info.kind == WEFT_STAGED_SNAPSHOT || info.base.run == 0;
    const bool label = info.target.root == held.root && (held.run == 0 || held.number == info.target.number);
    if (!repair && !label && e.serves)
        return info.target;
    e.serves = e.serves && label;
    rank->blocked = true;
    status = weft_commit(rank->session, info.target.number, NULL, 0, NULL);
    rank->blocked = false;
    sim_check(s, rank);
    return (weft_version){0, 0, 0};
}

/* The least that all were offered, unless one holds more already. UINT64_MAX: they do not know yet. */
static uint64_t common(const sim *s)
{
    uint64_t least = UINT64_MAX, most = 0, number;
    for (unsigned i = 0; i < s->rollout_count; i++) {
        const weft_version held = held_by(&s->rollouts[i]);
        if (weft_offered(s->rollouts[i].session, UINT64_MAX, 0, &number) != WEFT_OK)
            return UINT64_MAX;
        least = number < least ? number : least;
        most = held.run && held.number > most ? held.number : most;
    }
    return least >= most ? least : UINT64_MAX;
}

static bool all_hold(const sim *s, uint64_t number)
{
    const uint64_t run = held_by(&s->rollouts[0]).run;
    for (unsigned i = 0; i < s->rollout_count; i++) {
        const weft_version held = held_by(&s->rollouts[i]);
        if (!held.run || held.run != run || held.number != number)
            return false;
    }
    return true;
}

static void agree(sim *s)
{
    bool passed = false;
    for (unsigned i = 0; i < s->rollout_count; i++)
        take_alone(s, &s->rollouts[i], &passed);
    const uint64_t number = common(s);
    if (number == UINT64_MAX)
        return;
    if (all_hold(s, number)) {
        e.serves = true;
        e.number = e.served = number;
        return;
    }
    for (unsigned i = 0; i < s->rollout_count; i++)
        if (weft_want(s->rollouts[i].session, number) != WEFT_OK)
            fleet_fail("%s: want: %s", s->rollouts[i].name, weft_last_error());
    e.number = number;
    e.phase = WANTED;
    e.patience = PATIENCE;
}

static void await(sim *s)
{
    bool passed = false, ready = true;
    for (unsigned i = 0; i < s->rollout_count; i++) {
        const weft_version staged = take_alone(s, &s->rollouts[i], &passed), held = held_by(&s->rollouts[i]);
        const uint64_t run = staged.run ? staged.run : held.run;
        ready = ready && (staged.run ? staged.number : held.number) == e.number;
        e.run = i == 0 ? run : e.run == run ? run : 0;
    }
    if (passed || (ready && e.run == 0) || --e.patience == 0 || !e.serves) {
        e.serves = false; /* who has something staged takes it, and all agree anew */
        e.phase = AGREE;
    } else if (ready) {
        e.phase = HOLDING;
    }
}

static void undo_all(sim *s)
{
    for (unsigned i = 0; i < s->rollout_count; i++) {
        sim_end *rank = &s->rollouts[i];
        if (!rank->session || !rank->held_back)
            continue;
        if (weft_settle(rank->session, WEFT_SETTLE_UNDO, NULL, NULL) != WEFT_OK)
            fleet_fail("%s: undo: %s", rank->name, weft_last_error());
        rank->held_back = 0;
        sim_check(s, rank);
    }
    e.undone++;
    e.phase = AGREE;
}

/* One rank's turn to hold; the last one's ends it, unless somebody failed. */
static void hold(sim *s, sim_end *rank)
{
    weft_staged_info info = {.size = sizeof info};
    bool all = true;
    if (!rank->held_back && held_by(rank).number != e.number) {
        weft_status status = weft_staged(rank->session, 0, &info);
        if (status == WEFT_OK && info.target.number == e.number && info.target.run == e.run)
            status = weft_commit(rank->session, e.number, NULL, WEFT_COMMIT_HOLD, NULL);
        else
            status = WEFT_E_STATE;
        if (status != WEFT_OK) {
            e.serves = false;
            undo_all(s);
            return;
        }
        rank->held_back = info.target.root;
        sim_check(s, rank);
    }
    for (unsigned i = 0; i < s->rollout_count; i++)
        all = all && (s->rollouts[i].held_back || held_by(&s->rollouts[i]).number == e.number);
    if (!all)
        return;
    if (sim_below(s, 4) == 0) {
        undo_all(s);
        return;
    }
    for (unsigned i = 0; i < s->rollout_count; i++) {
        if (s->rollouts[i].held_back && weft_settle(s->rollouts[i].session, WEFT_SETTLE_KEEP, NULL, NULL) != WEFT_OK)
            fleet_fail("%s: keep: %s", s->rollouts[i].name, weft_last_error());
        s->rollouts[i].held_back = 0;
    }
    if (!all_hold(s, e.number))
        fleet_fail("ranks that kept version %llu hold others", (unsigned long long)e.number);
    e.served = e.number;
    e.kept++;
    e.phase = AGREE;
}

/* The root that the version served has for a rank. */
static uint64_t served_root(const sim *s, const sim_end *rank)
{
    uint64_t at = s->history_count;
    while (at > 0 && s->history[at - 1].number != e.served)
        at--;
    if (at == 0)
        fleet_fail("nobody published version %llu", (unsigned long long)e.served);
    return rank->view ? sim_view_root(rank->view, s->history[at - 1].dense) : s->history[at - 1].root;
}

/* While the engine serves, every rank that is there has the bits of one version, but for HOLD. A trainer may know them
 * by a later number too, where a view did not change since. */
static void check_engine(const sim *s)
{
    for (unsigned i = 0; i < s->rollout_count && e.serves; i++) {
        const sim_end *rank = &s->rollouts[i];
        const weft_version held = rank->session ? held_by(rank) : (weft_version){0, 0, 0};
        if (held.run && held.number != e.served && held.root != served_root(s, rank))
            fleet_fail("%s has version %llu, and the engine serves %llu", rank->name, (unsigned long long)held.number,
                       (unsigned long long)e.served);
    }
}

static void turn(sim *s, sim_end *rank)
{
    if (!all_here(s)) {
        if (e.phase == HOLDING)
            undo_all(s);
        e.serves = false;
        e.phase = AGREE;
        return;
    }
    if (rank->blocked)
        return;
    if (e.phase == AGREE)
        agree(s);
    else if (e.phase == WANTED)
        await(s);
    else
        hold(s, rank);
    check_engine(s);
}

/* ---- what happens meanwhile */

static void rank_join(sim *s, unsigned i, const uint8_t *dense)
{
    char name[32];
    snprintf(name, sizeof name, "auto%u", i);
    sim_join(s, &s->rollouts[i], name, dense, "commit.snapshot=staged");
}

static void act(sim *s)
{
    const unsigned i = (unsigned)sim_below(s, s->rollout_count);
    sim_end *rank = &s->rollouts[i];
    const uint64_t what = sim_below(s, 40);
    const bool room = s->trainer.session && s->history_count + 8 < FLEET_HISTORY;
    if (what < 22 && room)
        sim_publish(s, what % 3 ? 10 : 200);
    if (what >= 25 && what < 35 && !rank->session)
        rank_join(s, i, sim_below(s, 2) ? NULL : s->history[sim_below(s, s->history_count)].dense);
    if (what >= 22 && what < 25 && rank->session && !rank->blocked) {
        e.faults++;
        e.serves = false; /* which its siblings notice, however soon it comes again */
        sim_kill(s, rank);
    }
    if (what == 38 && s->trainer.session) {
        e.faults++;
        sim_kill_trainer(s);
    }
    if (what == 39 && !s->trainer.session)
        sim_start_trainer(s);
}

static void play(uint64_t seed)
{
    const uint64_t blocks = weft_mem_blocks();
    const unsigned kept = e.kept;
    sim *s = sim_open(FLEET_SMALL, 2 + (unsigned)(seed % 3), seed);
    e.phase = AGREE;
    e.serves = false;
    s->named_in = 1;
    s->commit = turn;
    sim_cut(s);
    sim_start_trainer(s);
    for (unsigned i = 0; i < s->rollout_count; i++)
        rank_join(s, i, sim_below(s, 2) ? NULL : s->dense);
    s->act = act;
    sim_rounds(s, ROUNDS);
    s->act = NULL;
    if (!s->trainer.session)
        sim_start_trainer(s);
    for (unsigned i = 0; i < s->rollout_count; i++)
        if (!s->rollouts[i].session)
            rank_join(s, i, NULL);
    sim_publish(s, 10);
    sim_settle(s, 40000);
    for (unsigned turns = 0; !e.serves && turns < 200; turns++)
        sim_round(s);
    if (!e.serves || e.number != s->newest)
        fleet_fail("in the end the engine does not serve version %llu", (unsigned long long)s->newest);
    sim_close(s);
    assert_true(e.kept >= kept);
    assert_int_equal(weft_mem_blocks(), blocks);
}

static void any_schedule(void **state)
{
    const char *seed = getenv("WEFT_SEED");
    (void)state;
    if (seed) {
        play(strtoull(seed, NULL, 0));
        return;
    }
    const char *many = getenv("WEFT_SEEDS");
    const uint64_t seeds = many ? strtoull(many, NULL, 0) : getenv("WEFT_FULL") ? SEEDS_FULL : SEEDS;
    for (uint64_t i = 1; i <= seeds; i++)
        play(i);
    print_message("%u commits kept by all ranks, %u undone by all, %u ranks and trainers killed\n", e.kept, e.undone,
                  e.faults);
    assert_true(e.kept > SEEDS && e.undone > SEEDS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
