/* Several sources and several ranks, over the loop, in one thread, on a clock of their own: holdings at random (whole
 * tensors, rows, columns), views at random, loss and disorder. Sources publish the same numbers, each in its own time,
 * and some pass a number over. Sources and ranks are killed and start again, and a run is replaced by another one of
 * another world size, whose numbers are the same. Whatever happens, a rank that holds a version has the bits that this
 * run gave that number, in every slice. When quiet comes, all ranks hold the newest.
 *
 * WEFT_SEED=N plays one seed; WEFT_SEEDS=N plays so many; WEFT_FULL more than usual. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "joint/joint.h"
#include "peer/peer.h"

#define SEEDS      10u
#define SEEDS_FULL 60u
#define ROUNDS     1200u
#define SOURCES    4u
#define RANKS      3u
#define SLICES     96u
#define HISTORY    256u

static const char site_text[] = "[trainer]\nlisten = 127.0.0.1:0\njournal = 16MiB\nthreads = 1\nmax_peers = 8\n"
                                "[peers]\nprovider = loop\nbucket_max = 4MiB\nwindow = 2\nstaging = 32MiB\n"
                                "heartbeat = 200ms\n[peer.rank*]\n"
                                "[provider.loop]\nchunk = 16KiB\n"
                                "[session]\nprogress = manual\nconnect_deadline = 3600s\nclose_deadline = 50ms\n"
                                "io_deadline = 300ms\n[commit]\ndeadline = 400ms\n[log]\nlevel = debug\n"
                                "[cut.rows]\ntensors = norm.2, quant\nby = rows\nat = 8, 20\n"
                                "[cut.columns]\ntensors = double, half\nby = columns\nat = 100, 400\n"
                                "[cut.alone]\ntensors = mask, long, packed\n";

/* The part of the model that one process has, in a dense model of its own where all else is a canary. */
typedef struct part {
    weft_slice slices[SLICES];
    uint64_t count;
    uint8_t *dense;
} part;

typedef struct source {
    weft_session *session;
    part has;
    uint64_t published; /* number */
    char listen[96];
} source;

typedef struct rank {
    weft_session *session;
    part has;
    bool named, blocked, held_back;
    uint64_t wished;
} rank;

typedef struct version {
    uint64_t run, number;
    uint8_t *dense;
} version;

typedef struct world {
    uint64_t seed, first_seed, now_ns, rounds, incarnation;
    weft_clock clock;
    site_scratch scratch;
    weft_layout *layout;
    weft_cells cells;
    uint64_t bytes;
    uint64_t run, newest; /* of the sources */
    source sources[SOURCES];
    rank ranks[RANKS];
    unsigned source_count, rank_count;
    version history[HISTORY];
    unsigned history_count;
    uint8_t *dense;
    bool acts;
} world;

static unsigned commits, holds_undone, kills, runs, overs; /* of all seeds */

static void round_of(world *w);

static uint64_t now_ns(void *user)
{
    return ((const world *)user)->now_ns;
}

/* A session waits: the others go on meanwhile. */
static void pass(void *user, uint64_t ns)
{
    (void)ns;
    round_of(user);
}

static void hear(void *user, weft_log_level level, const char *line)
{
    if (getenv("WEFT_TEST_LOG"))
        fprintf(stderr, "%8llu %s %d: %s\n", (unsigned long long)(weft_clock_ns() / WEFT_NS_PER_MS), (const char *)user,
                level, line);
}

static _Noreturn void stop(const world *w, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail_msg("WEFT_SEED=%llu, round %llu: %s", (unsigned long long)w->first_seed, (unsigned long long)w->rounds, text);
    abort();
}

static void must(const world *w, weft_status status, const char *what)
{
    if (status != WEFT_OK)
        stop(w, "%s: %s: %s", what, weft_status_name(status), weft_last_error());
}

static uint64_t below(world *w, uint64_t limit)
{
    return fleet_below(&w->seed, limit);
}

/* ---- parts */

static uint64_t bytes_of(const world *w, uint64_t tensor, uint64_t elements)
{
    return elements * w->layout->entries[tensor].row->bits / 8;
}

/* Where a tensor begins in dense bytes, and in a part's memory, where each is aligned. */
static uint64_t dense_at(const world *w, uint64_t tensor)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < tensor; t++)
        at += w->layout->entries[t].bytes;
    return at;
}

static uint64_t own_at(const world *w, uint64_t tensor)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < tensor; t++)
        at += (w->layout->entries[t].bytes + 63) / 64 * 64;
    return at;
}

/* Calls `each` for the bytes of a part, row by row; rows that are whole together. Returns false if one call does. */
static bool every_row(const world *w, const part *p, const uint8_t *dense, bool (*each)(uint8_t *, const uint8_t *, uint64_t))
{
    bool all = true;
    for (uint64_t i = 0; i < p->count; i++) {
        const weft_slice *slice = &p->slices[i], whole = weft_slice_whole(w->layout, slice->tensor);
        const bool together = slice->columns == whole.columns;
        const uint64_t rows = together ? 1 : slice->rows,
                       columns = together ? slice->rows * slice->columns : slice->columns;
        for (uint64_t r = 0; r < rows; r++) {
            const uint64_t at = bytes_of(w, slice->tensor, (slice->row + r) * whole.columns + slice->column);
            all = all && each(p->dense + own_at(w, slice->tensor) + at, dense + dense_at(w, slice->tensor) + at,
                              bytes_of(w, slice->tensor, columns));
        }
    }
    return all;
}

static bool copy_row(uint8_t *mine, const uint8_t *theirs, uint64_t bytes)
{
    memcpy(mine, theirs, bytes);
    return true;
}

static bool same_row(uint8_t *mine, const uint8_t *theirs, uint64_t bytes)
{
    return memcmp(mine, theirs, bytes) == 0;
}

static void part_open(const world *w, part *p)
{
    p->count = 0;
    p->dense = malloc(own_at(w, w->layout->count));
    memset(p->dense, 0xee, own_at(w, w->layout->count));
}

static void part_add(part *p, weft_slice slice)
{
    if (slice.rows == 0 || slice.columns == 0)
        return;
    if (p->count == SLICES)
        abort();
    p->slices[p->count++] = slice;
}

static void part_bind(const world *w, const part *p, weft_session *session, uint32_t flags)
{
    weft_block blocks[SLICES];
    for (uint64_t i = 0; i < p->count; i++) {
        const weft_slice *slice = &p->slices[i], whole = weft_slice_whole(w->layout, slice->tensor);
        const uint64_t at = own_at(w, slice->tensor) +
                            bytes_of(w, slice->tensor, slice->row * whole.columns + slice->column);
        blocks[i] = (weft_block){.slice = *slice, .data = p->dense + at};
        if (slice->columns != whole.columns)
            blocks[i].row[0] = (weft_stride){slice->rows, bytes_of(w, slice->tensor, whole.columns)};
    }
    must(w, weft_bind_blocks(session, blocks, p->count, NULL, 0, flags), "bind");
}

static bool blank_row(uint8_t *mine, const uint8_t *theirs, uint64_t bytes)
{
    (void)theirs;
    memset(mine, 0xee, bytes);
    return true;
}

/* Nothing is written beside the part. */
static bool is_clean(const world *w, const part *p)
{
    const uint64_t bytes = own_at(w, w->layout->count);
    part copy = *p;
    bool clean = true;
    copy.dense = malloc(bytes);
    memcpy(copy.dense, p->dense, bytes);
    every_row(w, &copy, w->dense, blank_row);
    for (uint64_t i = 0; i < bytes; i++)
        clean = clean && copy.dense[i] == 0xee;
    free(copy.dense);
    return clean;
}

/* ---- what was published */

static const version *find(const world *w, uint64_t run, uint64_t number)
{
    for (unsigned i = w->history_count; i-- > 0;)
        if (w->history[i].run == run && w->history[i].number == number)
            return &w->history[i];
    return NULL;
}

static void remember(world *w)
{
    if (w->history_count == HISTORY)
        stop(w, "more than %u versions", HISTORY);
    w->history[w->history_count] = (version){w->run, w->newest, malloc(w->bytes)};
    memcpy(w->history[w->history_count++].dense, w->dense, w->bytes);
}

static void check(const world *w, const rank *r)
{
    weft_version held;
    if (!r->session || r->held_back || weft_held(r->session, &held) != WEFT_OK || held.run == 0)
        return;
    const version *v = find(w, held.run, held.number);
    if (!v)
        stop(w, "a rank holds version %llu, which nobody published", (unsigned long long)held.number);
    if (!every_row(w, &r->has, v->dense, same_row))
        stop(w, "a rank has other bits than those of version %llu", (unsigned long long)held.number);
}

/* ---- sources */

static weft_site *load_site(const world *w, const char *override, const char *second)
{
    const char *overrides[] = {override, second};
    weft_site *site = NULL;
    must(w, weft_site_load(w->scratch.path, overrides, second ? 2 : override ? 1 : 0, &site), "site");
    return site;
}

static void source_start(world *w, unsigned i)
{
    source *s = &w->sources[i];
    char listen[128];
    weft_options options = {.size = sizeof options, .log = hear, .log_user = s->listen};
    options.first_version = s->published;
    options.incarnation = ++w->incarnation;
    options.slices = s->has.slices;
    options.slice_count = s->has.count;
    options.run = w->run;
    snprintf(listen, sizeof listen, "trainer.listen=%s", s->listen[0] ? s->listen : "127.0.0.1:0");
    weft_site *site = load_site(w, listen, NULL);
    must(w, weft_trainer_open(site, w->layout, &options, &s->session), "source");
    weft_site_free(site);
    every_row(w, &s->has, find(w, w->run, s->published)->dense, copy_row);
    part_bind(w, &s->has, s->session, 0);
    snprintf(s->listen, sizeof s->listen, "%s", fleet_stats(s->session).listen);
}

static void source_kill(source *s)
{
    const weft_trainer *trainer = s->session->trainer;
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        if (trainer->peers.list[i].connection.control.fd >= 0)
            shutdown(trainer->peers.list[i].connection.control.fd, SHUT_RDWR);
    weft_close(s->session);
    s->session = NULL;
    kills++;
}

/* A source publishes the next number, if there is one; sometimes the one after, so that a number is passed over. */
static void source_go_on(world *w, source *s)
{
    if (!s->session || s->published == w->newest)
        return;
    const bool over = w->newest - s->published > 1 && below(w, 40) == 0;
    overs += over;
    const uint64_t number = s->published + (over ? 2 : 1);
    every_row(w, &s->has, find(w, w->run, number)->dense, copy_row);
    must(w, weft_publish(s->session, number, NULL, NULL, NULL), "publish");
    s->published = number;
}

/* Deals every tensor out: whole, or its rows or columns. Rows of a packed dtype stay whole. */
static void deal(world *w)
{
    for (unsigned i = 0; i < w->source_count; i++)
        part_open(w, &w->sources[i].has);
    for (uint64_t t = 0; t < w->layout->count; t++) {
        const weft_slice whole = weft_slice_whole(w->layout, t);
        const bool packed = w->layout->entries[t].row->bits % 8 != 0;
        const uint64_t kind = packed ? 0 : below(w, 3);
        const unsigned first = (unsigned)below(w, w->source_count);
        weft_slice left = whole;
        for (unsigned i = 0; i < w->source_count; i++) {
            weft_slice slice = left;
            const bool last = i + 1 == w->source_count || kind == 0;
            if (kind == 1 && !last)
                slice.rows = below(w, left.rows + 1);
            if (kind == 2 && !last)
                slice.columns = below(w, left.columns + 1);
            part_add(&w->sources[(first + i) % w->source_count].has, slice);
            if (kind == 0)
                break;
            left.row += kind == 1 ? slice.rows : 0;
            left.rows -= kind == 1 ? slice.rows : 0;
            left.column += kind == 2 ? slice.columns : 0;
            left.columns -= kind == 2 ? slice.columns : 0;
        }
    }
}

static void sources_close(world *w)
{
    for (unsigned i = 0; i < w->source_count; i++) {
        weft_close(w->sources[i].session);
        free(w->sources[i].has.dense);
        memset(&w->sources[i], 0, sizeof w->sources[i]);
    }
}

/* A run begins: sources of other holdings, at `number`, whose bits are w->dense. */
static void run_begin(world *w, uint64_t number)
{
    w->run = below(w, UINT64_MAX) | 1;
    w->newest = number;
    w->source_count = 1 + (unsigned)below(w, SOURCES);
    remember(w);
    deal(w);
    for (unsigned i = 0; i < w->source_count; i++) {
        w->sources[i].published = number;
        if (w->sources[i].has.count == 0) /* a source that has nothing opens no session: another deal */
            part_add(&w->sources[i].has, (weft_slice){0, 0, 0, 0, 0});
    }
    for (unsigned i = 0; i < w->source_count; i++)
        if (w->sources[i].has.count > 0)
            source_start(w, i);
}

/* ---- ranks */

/* Takes all keys, or some. */
static void draw_view(world *w, rank *r)
{
    const bool all = below(w, 3) == 0;
    bool wanted[64] = {false};
    for (uint32_t key = 0; key < w->cells.key_count; key++)
        wanted[key] = all || below(w, 2);
    wanted[below(w, w->cells.key_count)] = true;
    for (uint64_t c = 0; c < w->cells.count; c++)
        if (wanted[w->cells.cells[c].key])
            part_add(&r->has, w->cells.cells[c].slice);
}

static void rank_open(world *w, unsigned i, bool empty)
{
    rank *r = &w->ranks[i];
    weft_trainer_source sources[SOURCES];
    char name[16];
    uint32_t count = 0;
    snprintf(name, sizeof name, "rank%u", i);
    for (unsigned s = 0; s < w->source_count; s++)
        if (w->sources[s].has.count > 0)
            sources[count++] =
                (weft_trainer_source){w->sources[s].listen, w->sources[s].has.slices, w->sources[s].has.count};
    weft_options options = {.size = sizeof options, .log = hear, .log_user = "rank"};
    options.incarnation = ++w->incarnation;
    options.slices = r->has.slices;
    options.slice_count = r->has.count;
    options.sources = sources;
    options.source_count = count;
    options.wants = r->named;
    weft_site *site = load_site(w, below(w, 2) ? "commit.snapshot=staged" : "commit.snapshot=in_place", NULL);
    must(w, weft_rollout_open(site, name, w->layout, &options, &r->session), "rollout");
    weft_site_free(site);
    part_bind(w, &r->has, r->session, empty ? WEFT_BIND_EMPTY : 0);
}

static void rank_join(world *w, unsigned i)
{
    rank *r = &w->ranks[i];
    part_open(w, &r->has);
    draw_view(w, r);
    r->named = below(w, 2);
    r->held_back = false;
    r->wished = 0;
    const bool empty = below(w, 2);
    if (!empty)
        every_row(w, &r->has, w->history[below(w, w->history_count)].dense, copy_row);
    rank_open(w, i, empty);
}

static void rank_close(rank *r)
{
    weft_close(r->session);
    free(r->has.dense);
    memset(r, 0, sizeof *r);
}

static void rank_kill(rank *r)
{
    const weft_joint *joint = r->session->joint;
    for (uint32_t i = 0; i < joint->count; i++)
        if (joint->ends[i]->joining.control.fd >= 0)
            shutdown(joint->ends[i]->joining.control.fd, SHUT_RDWR);
    rank_close(r);
    kills++;
}

static void wish(world *w, rank *r)
{
    uint64_t newest;
    if (weft_offered(r->session, UINT64_MAX, 0, &newest) != WEFT_OK || (newest == r->wished && below(w, 20)))
        return;
    r->wished = newest;
    must(w, weft_want(r->session, newest), "want");
}

static void settle_commit(world *w, rank *r)
{
    const bool keep = below(w, 2);
    holds_undone += !keep;
    must(w, weft_settle(r->session, keep ? WEFT_SETTLE_KEEP : WEFT_SETTLE_UNDO, NULL, NULL), "settle");
    r->held_back = false;
    check(w, r);
}

static void turn(world *w, rank *r)
{
    weft_staged_info info = {.size = sizeof info};
    if (r->held_back) {
        if (below(w, 3) == 0)
            settle_commit(w, r);
        return;
    }
    if (r->named)
        wish(w, r);
    if (weft_staged(r->session, 0, &info) != WEFT_OK)
        return;
    const uint64_t begun_ns = w->now_ns;
    r->blocked = true;
    const bool hold = info.kind == WEFT_STAGED_UPDATE && below(w, 4) == 0;
    const weft_status status = weft_commit(r->session, info.target.number, NULL, hold ? WEFT_COMMIT_HOLD : 0, NULL);
    r->blocked = false;
    if (w->now_ns > begun_ns + 10000 * WEFT_NS_PER_MS)
        stop(w, "a commit took %llu ms, %s", (unsigned long long)((w->now_ns - begun_ns) / WEFT_NS_PER_MS),
             status ? weft_last_error() : "and was well");
    r->held_back = status == WEFT_OK && hold;
    commits += status == WEFT_OK;
    if (weft_status_scope(status) == WEFT_SCOPE_CALL && status != WEFT_E_TIMEOUT && status != WEFT_E_STATE)
        stop(w, "commit: %s: %s", weft_status_name(status), weft_last_error());
    check(w, r);
}

/* ---- rounds */

static void step(const world *w, weft_session *session)
{
    weft_event event = {.size = sizeof event};
    must(w, weft_progress(session, 0), "progress");
    while (weft_events(session, &event) == WEFT_OK)
        ;
}

static void publish(world *w)
{
    if (w->history_count + 8 >= HISTORY)
        return;
    fleet_change(w->layout, w->dense, below(w, 3) ? 10 : 200, &w->seed);
    w->newest++;
    remember(w);
}

/* A job that ends and comes back: other sources, from an old version's bits, with numbers that were there before. */
static void run_replace(world *w)
{
    const version *from = &w->history[below(w, w->history_count)];
    const uint64_t number = from->number;
    for (unsigned i = 0; i < w->rank_count; i++)
        if (w->ranks[i].blocked)
            return;
    memcpy(w->dense, from->dense, w->bytes);
    sources_close(w);
    run_begin(w, number);
    runs++;
    for (unsigned i = 0; i < w->rank_count; i++) {
        rank *r = &w->ranks[i];
        if (!r->session)
            continue;
        weft_version held;
        const bool known = weft_held(r->session, &held) == WEFT_OK;
        weft_close(r->session); /* the engine stays, and opens with the holdings of the new run */
        r->held_back = false;
        r->wished = 0;
        rank_open(w, i, !known);
    }
}

static void faults(world *w)
{
    const uint64_t n = 1 + below(w, 12);
    const weft_loop_faults all[] = {{.seed = n, .corrupt_every = n + 3},
                                    {.drop_at = n},
                                    {.duplicate_every = n},
                                    {.seed = n, .reorder_window = (uint32_t)n},
                                    {.fail_every = n + 3},
                                    {.again_every = n + 1},
                                    {.break_at = n}};
    weft_loop_set_faults(below(w, 3) == 0 ? &all[below(w, sizeof all / sizeof all[0])] : NULL);
}

static void act(world *w)
{
    const uint64_t what = below(w, 64);
    const unsigned i = (unsigned)below(w, w->rank_count), s = (unsigned)below(w, w->source_count);
    if (what < 30)
        publish(w);
    else if (what < 40)
        faults(w);
    else if (what < 44 && w->ranks[i].session && !w->ranks[i].blocked)
        rank_kill(&w->ranks[i]);
    else if (what < 56 && !w->ranks[i].session)
        rank_join(w, i);
    else if (what < 58 && w->sources[s].session)
        source_kill(&w->sources[s]);
    else if (what < 62 && !w->sources[s].session && w->sources[s].has.count > 0)
        source_start(w, s);
    else if (what == 62 && below(w, 3) == 0)
        run_replace(w);
}

static void round_of(world *w)
{
    w->rounds++;
    w->now_ns += WEFT_NS_PER_MS;
    for (unsigned i = 0; i < w->source_count; i++) {
        source *s = &w->sources[i];
        if (s->session)
            step(w, s->session);
        if (below(w, 4 + 8 * i) == 0) /* the last is the slowest */
            source_go_on(w, s);
    }
    for (unsigned i = 0; i < w->rank_count; i++) {
        rank *r = &w->ranks[i];
        if (!r->session || r->blocked)
            continue;
        step(w, r->session);
        check(w, r);
        if (below(w, 3) == 0)
            turn(w, r);
    }
    if (w->acts && below(w, 16) == 0)
        act(w);
}

/* ---- one seed */

static bool is_settled(const world *w)
{
    weft_version held;
    for (unsigned i = 0; i < w->rank_count; i++)
        if (w->ranks[i].held_back || weft_held(w->ranks[i].session, &held) != WEFT_OK || held.run != w->run ||
            held.number != w->newest)
            return false;
    return true;
}

static void settle(world *w)
{
    const uint64_t end_ns = w->now_ns + 60000 * WEFT_NS_PER_MS;
    w->acts = false;
    weft_loop_set_faults(NULL);
    for (unsigned i = 0; i < w->source_count; i++)
        if (!w->sources[i].session && w->sources[i].has.count > 0)
            source_start(w, i);
    for (unsigned i = 0; i < w->rank_count; i++)
        if (!w->ranks[i].session)
            rank_join(w, i);
    publish(w);
    while (!is_settled(w)) {
        if (w->now_ns > end_ns)
            stop(w, "not settled after a minute");
        round_of(w);
    }
    for (unsigned i = 0; i < w->rank_count; i++) {
        check(w, &w->ranks[i]);
        must(w, weft_scrub(w->ranks[i].session), "scrub");
        if (!is_clean(w, &w->ranks[i].has))
            stop(w, "something was written beside the view of rank %u", i);
    }
}

static void open_world(world *w, uint64_t seed)
{
    weft_cut cuts[8];
    memset(w, 0, sizeof *w);
    w->seed = w->first_seed = seed;
    w->now_ns = 1;
    w->clock = (weft_clock){now_ns, pass, w};
    weft_clock_own = &w->clock;
    weft_loop_set_faults(NULL);
    site_scratch_open(&w->scratch);
    site_scratch_write(&w->scratch, site_text, sizeof site_text - 1);
    w->layout = fleet_layout(FLEET_SMALL);
    w->bytes = weft_layout_bytes(w->layout);
    w->dense = malloc(w->bytes);
    fleet_fill(w->layout, w->dense, &w->seed);
    weft_site *site = load_site(w, NULL, NULL);
    weft_site_cuts(site, cuts);
    must(w, weft_cells_open(w->layout, cuts, (uint32_t)site->cut_count, &w->cells), "cells");
    weft_site_free(site);
}

static void close_world(world *w)
{
    for (unsigned i = 0; i < w->rank_count; i++)
        rank_close(&w->ranks[i]);
    sources_close(w);
    for (unsigned i = 0; i < w->history_count; i++)
        free(w->history[i].dense);
    weft_cells_close(&w->cells);
    weft_layout_free(w->layout);
    free(w->dense);
    site_scratch_close(&w->scratch);
    weft_clock_own = NULL;
}

static void play(uint64_t seed)
{
    static world w;
    const uint64_t blocks = weft_mem_blocks();
    open_world(&w, seed);
    run_begin(&w, below(&w, 3));
    w.rank_count = 1 + (unsigned)(seed % RANKS);
    for (unsigned i = 0; i < w.rank_count; i++)
        rank_join(&w, i);
    w.acts = true;
    for (unsigned i = 0; i < ROUNDS; i++)
        round_of(&w);
    settle(&w);
    close_world(&w);
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
    print_message("%u commits, %u holds undone, %u processes killed, %u runs replaced, %u numbers passed over\n",
                  commits, holds_undone, kills, runs, overs);
    assert_true(commits > 10 * seeds && kills > seeds && runs > 0 && overs > 0 && holds_undone > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
