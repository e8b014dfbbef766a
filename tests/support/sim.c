#include "tests/support/sim.h"

#include <stdlib.h>
#include <string.h>

#include "rollout/rollout.h"

#define TICK_NS WEFT_NS_PER_MS

static const char site_text[] =
    "[trainer]\n"
    "listen = 127.0.0.1:0\n"
    "journal = 16MiB\n"
    "threads = 1\n"
    "max_peers = 8\n"
    "[peers]\n"
    "provider = loop\n"
    "bucket_max = 2MiB\n"
    "window = 2\n"
    "staging = 16MiB\n"
    "heartbeat = 200ms\n"
    "[peer.auto*]\n[peer.fast*]\nlevel = fast\nmax_lag = 4\nlag_action = drop\n[peer.tight*]\nlevel = tight\n"
    "[peer.pairs*]\nlevel = pairs\nbucket = 64KiB\n[peer.full*]\nlevel = full\n"
    "[provider.loop]\nchunk = 16KiB\n"
    "[session]\n"
    "progress = manual\n"
    "connect_deadline = 3600s\n"
    "close_deadline = 50ms\n"
    "io_deadline = 300ms\n"
    "[commit]\n"
    "deadline = 400ms\n"
    "[log]\n"
    "level = debug\n";

static const char cut_text[] = "[cut.rows]\ntensors = norm.2, quant\nby = rows\nat = 8, 20\n"
                               "[cut.columns]\ntensors = double, half\nby = columns\nat = 100, 400\n"
                               "[cut.wide]\ntensors = wide, big.0\nby = columns\nat = 480\n"
                               "[cut.e4m3]\ntensors = e4m3\nby = columns\nat = 3\n"
                               "[cut.alone]\ntensors = mask, long, packed\n";

/* A session waits: the others go on meanwhile. */
static void pass(void *user, uint64_t ns)
{
    sim *s = user;
    (void)ns;
    sim_round(s);
}

uint64_t sim_below(sim *s, uint64_t limit)
{
    return fleet_below(&s->seed, limit);
}

sim *sim_open(fleet_size size, unsigned rollouts, uint64_t seed)
{
    sim *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->seed = seed;
    fleet_clock_open(&s->time, pass, s);
    s->time.first_seed = seed;
    s->rollout_count = rollouts;
    s->small = size == FLEET_SMALL;
    weft_loop_set_faults(NULL);
    snprintf(s->text, sizeof s->text, "%s", site_text);
    s->layout = fleet_layout(size);
    s->bytes = weft_layout_bytes(s->layout);
    s->dense = malloc(s->bytes);
    s->other = malloc(s->bytes);
    if (!s->dense || !s->other)
        abort();
    fleet_fill(s->layout, s->dense, &s->seed);
    snprintf(s->trainer.name, sizeof s->trainer.name, "trainer");
    snprintf(s->listen, sizeof s->listen, "trainer.listen=127.0.0.1:0");
    return s;
}

static weft_site *load_site(const sim *s, const char *override);

void sim_cut(sim *s)
{
    weft_cut cuts[8];
    snprintf(s->text, sizeof s->text, "%s%s", site_text, cut_text);
    weft_site *site = load_site(s, NULL);
    weft_site_cuts(site, cuts);
    fleet_need(weft_cells_open(s->layout, cuts, (uint32_t)site->cut_count, &s->cells), "cells");
    weft_site_free(site);
}

static void close_end(sim_end *end)
{
    weft_close(end->session);
    end->session = NULL;
    fleet_model_close(&end->model);
    sim_view_close(end->view);
    end->view = NULL;
    free(end->start);
    end->start = NULL;
    end->held_back = 0;
    end->wishes = 0;
    end->staged_root = 0;
    end->wishing = false;
    end->zombie = end->rotten = false;
    end->stopped_until_ns = end->busy_until_ns = 0;
}

void sim_close(sim *s)
{
    s->act = NULL;
    weft_loop_set_faults(NULL);
    for (unsigned i = 0; i < s->rollout_count; i++)
        close_end(&s->rollouts[i]);
    close_end(&s->trainer);
    for (uint64_t i = 0; i < s->history_count; i++)
        free(s->history[i].dense);
    weft_cells_close(&s->cells);
    weft_layout_free(s->layout);
    free(s->dense);
    free(s->other);
    fleet_clock_close();
    free(s);
}

static weft_site *load_site(const sim *s, const char *override)
{
    const char *overrides[6] = {s->listen};
    size_t count = 1;
    for (size_t i = 0; i < 4 && s->overrides[i]; i++)
        overrides[count++] = s->overrides[i];
    if (override)
        overrides[count++] = override;
    return fleet_site_load(s->text, overrides, count);
}

/* ---- rounds */

bool sim_awake(const sim *s, const sim_end *end)
{
    return end->session && !end->zombie && !end->blocked && s->time.now_ns >= end->stopped_until_ns;
}

/* The root that a version has for an end. */
static uint64_t root_of(const sim_end *end, const fleet_version *version)
{
    return end->view ? sim_view_root(end->view, version->dense) : version->root;
}

/* The same of a version of the history, which is computed once. */
static uint64_t root_at(const sim *s, const sim_end *end, uint64_t at)
{
    if (!end->view)
        return s->history[at].root;
    if (!end->view->roots && !(end->view->roots = calloc(FLEET_HISTORY, sizeof *end->view->roots)))
        abort();
    if (end->view->roots[at] == 0)
        end->view->roots[at] = root_of(end, &s->history[at]);
    return end->view->roots[at];
}

void sim_check(sim *s, const sim_end *end)
{
    weft_version held;
    if (end->rotten || weft_held(end->session, &held) != WEFT_OK)
        return; /* nothing is held, and it says so */
    const uint64_t root = end->held_back ? end->held_back : held.root;
    const uint8_t *expected = end->start && root == end->start_root ? end->start : NULL;
    for (uint64_t i = s->history_count; i-- > 0 && !expected;)
        if (root_at(s, end, i) == root)
            expected = s->history[i].dense;
    if (!expected)
        fleet_fail("%s holds version %llu, digest %016llx, which nobody published", end->name,
                   (unsigned long long)held.number, (unsigned long long)root);
    if (!end->view)
        fleet_model_get(&end->model, s->other);
    if (end->view ? !sim_view_has(end->view, expected) : memcmp(s->other, expected, s->bytes) != 0)
        fleet_fail("%s has other bits than those of version %llu", end->name, (unsigned long long)held.number);
}

/* Whether another end came under the same name, which has the name when this one is lost. */
static bool is_followed(const sim *s, const sim_end *end)
{
    bool followed = false;
    for (unsigned i = 0; i < s->rollout_count; i++) {
        const sim_end *other = &s->rollouts[i];
        followed = followed || (other != end && other->session && strcmp(other->name, end->name) == 0);
    }
    return followed;
}

/* A rollout that says nothing is lost after its heartbeat, whatever else goes on. */
static void check_silent(const sim *s, const sim_end *end)
{
    weft_peer_info info;
    uint64_t since = end->stopped_since_ns > s->trainer_steady_ns ? end->stopped_since_ns : s->trainer_steady_ns;
    bool stopped = end->session && !end->zombie && s->time.now_ns < end->stopped_until_ns && !is_followed(s, end);
    if (!stopped || !sim_awake(s, &s->trainer) || s->time.now_ns < since + (SIM_HEARTBEAT_MS + 20) * WEFT_NS_PER_MS)
        return;
    if (sim_peer(s, end->name, &info) && info.state != WEFT_PEER_LOST)
        fleet_fail("%s is %s, silent for %llu ms", end->name, weft_peer_state_name(info.state),
                   (unsigned long long)((s->time.now_ns - since) / WEFT_NS_PER_MS));
}

/* Keeps or undoes the commit that an end holds. */
static void settle_commit(sim *s, sim_end *end)
{
    weft_version before, after;
    const uint64_t root = end->held_back;
    const bool keep = sim_below(s, 2);
    fleet_need(weft_held(end->session, &before), "held");
    fleet_need(weft_settle(end->session, keep ? WEFT_SETTLE_KEEP : WEFT_SETTLE_UNDO, NULL, &after), "settle");
    if (after.root != (keep ? root : before.root))
        fleet_fail("%s: settled at version %llu", end->name, (unsigned long long)after.number);
    end->held_back = 0;
    sim_check(s, end);
}

/* Names a version: mostly the newest, else one in between, or one that nobody published yet. */
static void wish(sim *s, sim_end *end)
{
    weft_version held = {0, 0, 0};
    uint64_t newest;
    weft_held(end->session, &held);
    end->wishing = end->wishing && held.number < end->wished[(end->wishes - 1) % SIM_WISHES];
    if (weft_offered(end->session, held.run ? held.number : UINT64_MAX, 0, &newest) != WEFT_OK ||
        (end->wishing && sim_below(s, 8)))
        return;
    uint64_t number = newest;
    if (sim_below(s, 3) == 0 && held.run)
        number -= sim_below(s, newest - held.number);
    else if (sim_below(s, 12) == 0)
        number++;
    end->wished[end->wishes++ % SIM_WISHES] = number;
    end->wishing = true;
    fleet_need(weft_want(end->session, number), "want");
}

/* What is staged for an end that names its versions is one of these. A repair is in place of a snapshot: it begins at
 * no version, and ends at the newest. What was staged may have another number since a trainer came that knows it by
 * that. Bits without a label are led to the newest version. */
static void check_wished(sim_end *end, const weft_staged_info *info)
{
    weft_version held = {0, 0, 0};
    const bool kept = info->target.root == end->staged_root;
    const bool labelled = weft_held(end->session, &held) == WEFT_OK && held.run != 0;
    bool wished = !end->named || info->kind != WEFT_STAGED_UPDATE || info->changed == 0 || info->base.run == 0 ||
                  kept || !labelled;
    end->staged_root = info->target.root;
    for (unsigned i = 0; i < SIM_WISHES && !wished; i++)
        wished = end->wished[i] == info->target.number;
    if (!wished)
        fleet_fail("%s: version %llu is staged, which it did not want", end->name,
                   (unsigned long long)info->target.number);
}

/* Flips a bit of some weight, where that has an address. */
static void rot(sim *s, sim_end *end)
{
    const weft_rollout *rollout = end->session->rollout;
    if (end->held_back || end->blocked || !rollout->current.bound)
        return;
    const weft_view view = weft_binding_view(&rollout->current.weights, sim_below(s, rollout->layout->unit_count));
    if (view.run_count == 0 || view.runs[0].count == 0 || !view.runs[0].data)
        return;
    view.runs[0].data[sim_below(s, (uint64_t)view.runs[0].count * view.width)] ^= 0x20;
    end->rotten = true;
}

/* A pass over the weights finds rot, and has that repaired. What was held without a name may be rotten too. */
static void scrub(sim *s, sim_end *end)
{
    weft_version held;
    const weft_status status = weft_scrub(end->session);
    if (status != WEFT_OK && status != WEFT_E_BASE && status != WEFT_E_STATE)
        fleet_fail("%s: scrub: %s: %s", end->name, weft_status_name(status), weft_last_error());
    if (status == WEFT_OK && weft_held(end->session, &held) == WEFT_OK && held.run != 0)
        end->rotten = false;
    sim_check(s, end);
}

static void play_rot(sim *s, sim_end *end)
{
    if (end->rotten && sim_below(s, 8) == 0)
        scrub(s, end);
    else if (s->act && sim_below(s, 300) == 0)
        rot(s, end);
}

void sim_commit(sim *s, sim_end *end)
{
    if (s->rots && !end->held_back)
        play_rot(s, end);
    if (end->held_back) {
        if (sim_below(s, 3) == 0)
            settle_commit(s, end);
        return;
    }
    weft_staged_info info = {.size = sizeof info};
    weft_version held;
    if (end->named)
        wish(s, end);
    weft_status status = weft_staged(end->session, 0, &info);
    end->wishing = end->wishing && status != WEFT_E_PASSED;
    if (status == WEFT_OK)
        check_wished(end, &info);
    if (status == WEFT_E_REFUSED) {
        close_end(end);
        return;
    }
    if (status != WEFT_OK)
        return;
    if (s->act && sim_below(s, 12) == 0) /* the engine has no time for that */
        end->busy_until_ns = s->time.now_ns + sim_below(s, 3 * SIM_HEARTBEAT_MS) * WEFT_NS_PER_MS;
    if (s->time.now_ns < end->busy_until_ns)
        return;
    uint64_t begun_ns = s->time.now_ns;
    end->blocked = true;
    const bool hold = s->holds && info.kind == WEFT_STAGED_UPDATE && sim_below(s, 4) == 0;
    status = weft_commit(end->session, info.target.number, NULL, hold ? WEFT_COMMIT_HOLD : 0, &held);
    end->held_back = status == WEFT_OK && hold ? info.target.root : 0;
    end->blocked = false;
    if (weft_status_scope(status) == WEFT_SCOPE_CALL && status != WEFT_E_TIMEOUT && status != WEFT_E_STATE)
        fleet_fail("%s: commit: %s: %s", end->name, weft_status_name(status), weft_last_error());
    if (s->time.now_ns > begun_ns + 60000 * WEFT_NS_PER_MS)
        fleet_fail("%s: a commit took %llu ms", end->name,
                   (unsigned long long)((s->time.now_ns - begun_ns) / WEFT_NS_PER_MS));
    sim_check(s, end);
}

void sim_round(sim *s)
{
    sim_end *order[SIM_ROLLOUTS + 1];
    unsigned count = 0;
    s->time.rounds++;
    s->time.now_ns += TICK_NS;
    for (unsigned i = 0; i < s->rollout_count; i++)
        order[count++] = &s->rollouts[i];
    order[count++] = &s->trainer;
    for (unsigned i = count; i > 1; i--) {
        unsigned other = (unsigned)sim_below(s, i);
        sim_end *end = order[i - 1];
        order[i - 1] = order[other];
        order[other] = end;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!sim_awake(s, order[i])) /* a commit that waits inside this loop plays rounds of its own */
            continue;
        fleet_step(order[i]->session);
        if (order[i] != &s->trainer && sim_below(s, 3) == 0)
            (s->commit ? s->commit : sim_commit)(s, order[i]);
    }
    for (unsigned i = 0; i < s->rollout_count; i++) {
        if (s->small && s->rollouts[i].session)
            sim_check(s, &s->rollouts[i]);
        check_silent(s, &s->rollouts[i]);
    }
    if (s->act && sim_below(s, 16) == 0)
        s->act(s);
}

void sim_rounds(sim *s, uint64_t count)
{
    while (count-- > 0)
        sim_round(s);
}

void sim_calm(sim *s, uint64_t rounds)
{
    void (*act)(sim *) = s->act;
    s->act = NULL;
    sim_rounds(s, rounds);
    s->act = act;
}

/* ---- the trainer */

void sim_remember(sim *s)
{
    weft_version held;
    fleet_need(weft_held(s->trainer.session, &held), "held");
    s->newest = held.number;
    if (s->history_count && s->history[s->history_count - 1].root == held.root)
        return; /* the same bits under another label */
    if (s->history_count == FLEET_HISTORY)
        fleet_fail("more than %d versions", FLEET_HISTORY);
    s->history[s->history_count] = (fleet_version){held.root, held.number, malloc(s->bytes)};
    memcpy(s->history[s->history_count++].dense, s->dense, s->bytes);
}

void sim_start_trainer(sim *s)
{
    sim_end *end = &s->trainer;
    weft_options options = {.size = sizeof options, .log = fleet_hear, .log_user = end->name};
    char listen[64];
    options.first_version = s->newest;
    options.incarnation = ++s->incarnation;
    weft_site *site = load_site(s, NULL);
    end->session = fleet_trainer_open(site, s->layout, &options, listen);
    weft_site_free(site);
    fleet_model_open(&end->model, s->layout, 0);
    fleet_model_put(&end->model, s->dense);
    fleet_need(
        weft_bind(end->session, end->model.pieces, end->model.piece_count, s->attachment, strlen(s->attachment), 0),
        "bind trainer");
    snprintf(s->listen, sizeof s->listen, "trainer.listen=%s", listen);
    s->trainer_steady_ns = s->time.now_ns;
    sim_remember(s);
}

void sim_stop_trainer(sim *s)
{
    close_end(&s->trainer);
}

void sim_kill_trainer(sim *s)
{
    fleet_cut(s->trainer.session);
    close_end(&s->trainer);
}

void sim_publish(sim *s, uint32_t per_mille)
{
    weft_publish_options options = {
        .size = sizeof options, .attachment = s->attachment, .attachment_bytes = strlen(s->attachment)};
    uint64_t before_ns = s->time.now_ns;
    fleet_change(s->layout, s->dense, per_mille, &s->seed);
    fleet_model_put(&s->trainer.model, s->dense);
    fleet_need(weft_publish(s->trainer.session, s->newest + 1, NULL, &options, NULL), "publish");
    if (s->time.now_ns != before_ns)
        fleet_fail("publish waited");
    sim_remember(s);
}

bool sim_peer(const sim *s, const char *name, weft_peer_info *info)
{
    return s->trainer.session && fleet_find(s->trainer.session, name, info);
}

/* ---- rollouts */

/* The root of all cells, as a rollout has it that takes all keys. */
static uint64_t whole_root(const sim *s, const uint8_t *dense)
{
    bool wanted[64];
    memset(wanted, true, sizeof wanted);
    sim_view *all = sim_view_open(s->layout, &s->cells, wanted, 1);
    const uint64_t root = sim_view_root(all, dense);
    sim_view_close(all);
    return root;
}

/* Draws a part of the model; NULL: all of it. */
static sim_view *draw_view(sim *s)
{
    bool wanted[64] = {false};
    uint32_t taken = 0;
    if (s->cells.count == 0 || sim_below(s, 4) == 0)
        return NULL;
    for (uint32_t key = 0; key < s->cells.key_count; key++)
        taken += wanted[key] = sim_below(s, 2);
    if (taken == 0)
        wanted[sim_below(s, s->cells.key_count)] = true;
    return sim_view_open(s->layout, &s->cells, wanted, sim_below(s, 1u << 30));
}

/* Rows of a packed dtype that do not fill whole bytes are in no piece of a cut model, unless the piece has them all. */
static void open_model(const sim *s, sim_end *end, unsigned style)
{
    if (s->cells.count > 0)
        fleet_model_open_blocks(&end->model, s->layout, style, NULL);
    else
        fleet_model_open(&end->model, s->layout, style);
}

static void give_bits(sim *s, sim_end *end, const uint8_t *dense)
{
    end->start = malloc(s->bytes);
    memcpy(end->start, dense, s->bytes);
    if (end->view) {
        sim_view_put(end->view, dense);
        end->start_root = sim_view_root(end->view, dense);
        return;
    }
    fleet_model_put(&end->model, dense);
    if (s->cells.count > 0)
        end->start_root = whole_root(s, dense);
    else
        fleet_need(
            weft_digest_tensors(s->layout, end->model.pieces, end->model.piece_count, NULL, NULL, &end->start_root),
            "digest");
}

void sim_join(sim *s, sim_end *end, const char *name, const uint8_t *dense, const char *override)
{
    weft_options options = {.size = sizeof options, .log = fleet_hear, .log_user = end->name};
    options.incarnation = ++s->incarnation;
    snprintf(end->name, sizeof end->name, "%s", name);
    end->view = draw_view(s);
    options.slices = end->view ? end->view->slices : NULL;
    options.slice_count = end->view ? end->view->count : 0;
    end->named = s->named_in && sim_below(s, s->named_in) == 0;
    options.wants = end->named;
    weft_site *site = load_site(s, override);
    end->session = fleet_rollout_open(site, end->name, s->layout, &options);
    weft_site_free(site);
    open_model(s, end, (unsigned)sim_below(s, 4));
    if (dense)
        give_bits(s, end, dense);
    const uint32_t flags = dense ? 0 : WEFT_BIND_EMPTY;
    fleet_need(end->view ? sim_view_bind(end->view, end->session, flags)
                         : fleet_model_bind(&end->model, end->session, NULL, flags),
               "bind rollout");
}

void sim_leave(sim *s, sim_end *end)
{
    (void)s;
    close_end(end);
}

void sim_kill(sim *s, sim_end *end)
{
    (void)s;
    fleet_cut(end->session);
    close_end(end);
}

void sim_stop(sim *s, sim_end *end, uint64_t ms)
{
    end->stopped_since_ns = s->time.now_ns;
    end->stopped_until_ns = s->time.now_ns + ms * WEFT_NS_PER_MS;
    if (end == &s->trainer)
        s->trainer_steady_ns = end->stopped_until_ns;
}

/* Returns whether an end holds the newest version, by the root that it has for that end. */
static bool holds_newest(const sim *s, const sim_end *end, const weft_version *newest)
{
    weft_version held;
    const fleet_version last = {newest->root, newest->number, s->dense};
    return weft_held(end->session, &held) == WEFT_OK && held.run == newest->run && held.number == newest->number &&
           held.root == root_of(end, &last);
}

static bool settled(const sim *s)
{
    weft_version newest;
    weft_peer_info info;
    fleet_need(weft_held(s->trainer.session, &newest), "held");
    for (unsigned i = 0; i < s->rollout_count; i++) {
        const sim_end *end = &s->rollouts[i];
        if (!end->session)
            continue;
        if (end->rotten || !holds_newest(s, end, &newest))
            return false;
        if (!sim_peer(s, end->name, &info) || info.state != WEFT_PEER_LIVE)
            return false;
    }
    return true;
}

void sim_settle(sim *s, uint64_t bound_ms)
{
    uint64_t end_ns = s->time.now_ns + bound_ms * WEFT_NS_PER_MS;
    s->trainer.stopped_until_ns = 0;
    for (unsigned i = 0; i < s->rollout_count; i++) {
        if (s->rollouts[i].zombie)
            close_end(&s->rollouts[i]);
        s->rollouts[i].stopped_until_ns = 0;
    }
    while (!settled(s)) {
        if (s->time.now_ns > end_ns)
            fleet_fail("not settled after %llu ms", (unsigned long long)bound_ms);
        sim_calm(s, 1);
    }
    for (unsigned i = 0; i < s->rollout_count; i++)
        if (s->rollouts[i].session) {
            sim_check(s, &s->rollouts[i]);
            fleet_need(weft_scrub(s->rollouts[i].session), "scrub");
        }
}
