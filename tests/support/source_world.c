/* source_world.c - sources and ranks of a simulation. */
#include "tests/support/source_world.h"

#include <stdlib.h>
#include <string.h>

#include "site/site.h"
#include "tests/support/port.h"

static const char site_text[] =
    "[trainer]\nlisten = 127.0.0.1:0\njournal = 16MiB\nthreads = 1\nmax_peers = 8\n"
    "[peers]\nbackend = host\nprovider = loop\nbucket_max = 4MiB\nwindow = 2\nstaging = 32MiB\n"
    "heartbeat = 200ms\n[peer.rank*]\n"
    "[provider.loop]\nchunk = 16KiB\n"
    "[session]\nprogress = manual\nconnect_deadline = 3600s\nclose_deadline = 50ms\n"
    "io_deadline = 300ms\n[commit]\ndeadline = 400ms\n[log]\nlevel = debug\n"
    "[cut.rows]\ntensors = norm.2, quant\nby = rows\nat = 8, 20\n"
    "[cut.columns]\ntensors = double, half\nby = columns\nat = 100, 400\n"
    "[cut.alone]\ntensors = mask, long, packed\n";

/* A session waits: the others go on meanwhile. */
static void pass(void *user, uint64_t ns)
{
    source_world *w = user;
    (void)ns;
    w->time.now_ns += WEFT_NS_PER_MS;
    if (w->turn)
        w->turn(w);
}

void (*source_heard)(const char *line);

static void hear(void *user, weft_log_level level, const char *line)
{
    if (source_heard)
        source_heard(line);
    fleet_hear(user, level, line);
}

uint64_t source_below(source_world *w, uint64_t limit)
{
    return fleet_below(&w->seed, limit);
}

/* ---- what was published */

const version *source_find(const source_world *w, uint64_t run, uint64_t number)
{
    for (unsigned i = w->history_count; i-- > 0;)
        if (w->history[i].run == run && w->history[i].number == number)
            return &w->history[i];
    return NULL;
}

static void remember_as(source_world *w, uint64_t run, uint64_t number, const uint8_t *dense)
{
    if (w->history_count == HISTORY)
        fleet_fail("more than %u versions", HISTORY);
    w->history[w->history_count] = (version){run, number, malloc(w->bytes)};
    memcpy(w->history[w->history_count++].dense, dense, w->bytes);
}

static void remember(source_world *w)
{
    remember_as(w, w->run, w->newest, w->dense);
}

void source_check(const source_world *w, const rank *r)
{
    if (r->rotten)
        return;
    weft_version held;
    if (!r->session || r->held_back || weft_held(r->session, &held) != WEFT_OK || held.run == 0)
        return;
    const version *v = source_find(w, held.run, held.number);
    if (!v)
        fleet_fail("a rank holds version %llu, which nobody published", (unsigned long long)held.number);
    if (!part_has(w, &r->has, v->dense))
        fleet_fail("a rank has other bits than those of version %llu", (unsigned long long)held.number);
}

/* ---- sources */

weft_site *source_site(const source_world *w, const char *override)
{
    return fleet_site_load(w->text, &override, override ? 1 : 0);
}

/* Loads the site with a store, and with a section for each source. */
static weft_site *stored_site(const source_world *w)
{
    char text[2048], store[400], level[64];
    const char *const overrides[] = {store, level};
    int used = snprintf(text, sizeof text, "%s", site_text);
    for (unsigned i = 0; i < w->source_count; i++) {
        const char *listen = w->sources[i].listen;
        used += snprintf(text + used, sizeof text - (size_t)used, "[source.%u]\nlisten = ", i);
        used += listen[0] ? snprintf(text + used, sizeof text - (size_t)used, "%s\n", listen)
                          : snprintf(text + used, sizeof text - (size_t)used, "127.0.0.%u:0\n", i + 1);
    }
    snprintf(store, sizeof store, "trainer.store=%s", w->store);
    snprintf(level, sizeof level, "trainer.store_level=%s", w->store_level);
    return fleet_site_load(text, overrides, 2);
}

void source_open(source_world *w, unsigned i)
{
    source *s = &w->sources[i];
    char listen[128], address[64];
    weft_options options = {.size = sizeof options, .log = hear, .log_user = s->listen};
    weft_slice slices[SLICES];
    s->has.order = w->orders[i].layout ? &w->orders[i] : NULL;
    options.first_version = s->published;
    options.incarnation = ++w->incarnation;
    options.slices = part_names(&s->has, &s->has, slices);
    options.slice_count = s->has.count;
    options.run = s->strays ? s->strays : w->run;
    options.source = w->store ? i : 0;
    snprintf(listen, sizeof listen, "trainer.listen=%s", s->listen[0] ? s->listen : "127.0.0.1:0");
    weft_site *site = w->store ? stored_site(w) : source_site(w, listen);
    s->session = fleet_trainer_open(site, s->has.order ? s->has.order->layout : w->layout, &options, address);
    weft_site_free(site);
    part_put(w, &s->has, source_find(w, options.run, s->published)->dense);
}

void source_start(source_world *w, unsigned i)
{
    source *s = &w->sources[i];
    source_open(w, i);
    part_bind(w, &s->has, s->session, 0);
    snprintf(s->listen, sizeof s->listen, "%s", fleet_stats(s->session).listen);
}

void source_kill(source *s)
{
    fleet_cut(s->session);
    weft_close(s->session);
    s->session = NULL;
}

void source_stray(source_world *w, unsigned i, uint64_t run, const uint8_t *dense)
{
    source *s = &w->sources[i];
    if (s->session)
        source_kill(s);
    s->strays = run;
    remember_as(w, run, s->published, dense);
    source_start(w, i);
}

void source_return(source_world *w, unsigned i)
{
    source *s = &w->sources[i];
    if (s->session)
        source_kill(s);
    s->strays = 0;
    source_start(w, i);
}

void source_go_to(source_world *w, source *s, uint64_t number)
{
    part_put(w, &s->has, source_find(w, w->run, number)->dense);
    fleet_need(weft_publish(s->session, number, NULL, NULL, NULL), "publish");
    s->published = number;
}

/* Adds elements of a tensor from `from` to `to`, in row-major order: at most three boxes. */
static void add_elements(part *p, weft_slice whole, uint64_t from, uint64_t to)
{
    const uint64_t columns = whole.columns;
    while (from < to) {
        weft_slice box = whole;
        box.row = from / columns;
        box.column = from % columns;
        box.rows = box.column == 0 && to - from >= columns ? (to - from) / columns : 1;
        box.columns = box.column == 0 && to - from >= columns ? columns : to - from;
        if (box.column + box.columns > columns)
            box.columns = columns - box.column;
        part_add(p, box);
        from += box.rows * box.columns;
    }
}

/* Deals a tensor's elements out as flat ranges, as ZeRO does. */
static void deal_elements(source_world *w, weft_slice whole, unsigned first)
{
    const uint64_t elements = whole.rows * whole.columns;
    uint64_t from = 0;
    for (unsigned i = 0; i < w->source_count; i++) {
        const bool last = i + 1 == w->source_count;
        const uint64_t to = last ? elements : from + source_below(w, elements - from + 1);
        add_elements(&w->sources[(first + i) % w->source_count].has, whole, from, to);
        from = to;
    }
}

/* Deals a tensor's rows or columns out. */
static void deal_boxes(source_world *w, weft_slice left, unsigned first, bool rows)
{
    for (unsigned i = 0; i < w->source_count; i++) {
        weft_slice slice = left;
        const bool last = i + 1 == w->source_count;
        if (rows && !last)
            slice.rows = source_below(w, left.rows + 1);
        if (!rows && !last)
            slice.columns = source_below(w, left.columns + 1);
        part_add(&w->sources[(first + i) % w->source_count].has, slice);
        left.row += rows ? slice.rows : 0;
        left.rows -= rows ? slice.rows : 0;
        left.column += rows ? 0 : slice.columns;
        left.columns -= rows ? 0 : slice.columns;
    }
}

/* Deals every tensor out: whole, or its rows, its columns or ranges of its elements. Packed dtypes stay whole. */
static void deal(source_world *w)
{
    enum { WHOLE, ROWS, COLUMNS, ELEMENTS, KINDS };
    for (unsigned i = 0; i < w->source_count; i++)
        part_open(w, &w->sources[i].has);
    for (uint64_t t = 0; t < w->layout->count; t++) {
        const weft_slice whole = weft_slice_whole(w->layout, t);
        const bool packed = w->layout->entries[t].row->bits % 8 != 0;
        const uint64_t kind = packed ? WHOLE : source_below(w, KINDS);
        const unsigned first = (unsigned)source_below(w, w->source_count);
        if (kind == WHOLE)
            part_add(&w->sources[first].has, whole);
        else if (kind == ELEMENTS)
            deal_elements(w, whole, first);
        else
            deal_boxes(w, whole, first, kind == ROWS);
    }
}

void source_run_end(source_world *w)
{
    for (unsigned i = 0; i < w->source_count; i++) {
        weft_close(w->sources[i].session);
        part_free(&w->sources[i].has);
        memset(&w->sources[i], 0, sizeof w->sources[i]);
    }
}

/* A run begins: sources of other holdings, at `number`, whose bits are w->dense. */
void source_run_begin(source_world *w, unsigned count, uint64_t number)
{
    w->run = source_below(w, UINT64_MAX) | 1;
    w->newest = number;
    w->source_count = count;
    remember(w);
    deal(w);
    for (unsigned i = 0; i < w->source_count; i++)
        w->sources[i].published = number;
    for (unsigned i = 0; i < w->source_count; i++)
        if (w->sources[i].has.count > 0)
            source_start(w, i);
}

void source_run_whole(source_world *w, unsigned count, uint64_t number)
{
    for (bool whole = false; !whole;) {
        source_run_end(w);
        source_run_begin(w, count, number);
        whole = true;
        for (unsigned i = 0; i < count; i++)
            whole = whole && w->sources[i].session;
    }
}

void source_run_again(source_world *w, const version *from)
{
    for (unsigned i = 0; i < w->source_count; i++) {
        if (w->sources[i].session)
            source_kill(&w->sources[i]);
        w->sources[i].published = from->number;
        w->sources[i].strays = 0;
    }
    memcpy(w->dense, from->dense, w->bytes);
    w->run++;
    w->newest = from->number;
    remember(w);
    for (unsigned i = 0; i < w->source_count; i++)
        source_start(w, i);
}

/* ---- ranks */

void source_view_draw(source_world *w, rank *r)
{
    const bool all = source_below(w, 3) == 0;
    bool wanted[64] = {false};
    for (uint32_t key = 0; key < w->cells.key_count; key++)
        wanted[key] = all || source_below(w, 2);
    wanted[source_below(w, w->cells.key_count)] = true;
    for (uint64_t c = 0; c < w->cells.count; c++)
        if (wanted[w->cells.cells[c].key])
            part_add(&r->has, w->cells.cells[c].slice);
}

void source_rank_open(source_world *w, unsigned i, const char *override, bool empty)
{
    rank *r = &w->ranks[i];
    weft_trainer_source sources[SOURCES];
    weft_slice slices[SLICES], contributed[SOURCES][SLICES];
    char name[16];
    uint32_t count = 0;
    r->has.order = w->orders[SOURCES + i].layout ? &w->orders[SOURCES + i] : NULL;
    snprintf(name, sizeof name, "rank%u", i);
    for (unsigned s = 0; s < w->source_count; s++)
        if (w->sources[s].has.count > 0)
            sources[count++] = (weft_trainer_source){
                w->sources[s].listen, part_names(&r->has, &w->sources[s].has, contributed[s]), w->sources[s].has.count};
    weft_options options = {.size = sizeof options, .log = hear, .log_user = "rank"};
    options.incarnation = ++w->incarnation;
    options.slices = part_names(&r->has, &r->has, slices);
    options.slice_count = r->has.count;
    options.sources = sources;
    options.source_count = count;
    options.wants = r->named;
    weft_site *site = source_site(w, override);
    r->session = fleet_rollout_open(site, name, r->has.order ? r->has.order->layout : w->layout, &options);
    weft_site_free(site);
    part_bind(w, &r->has, r->session, empty ? WEFT_BIND_EMPTY : 0);
}

void source_rank_join(source_world *w, unsigned i, const char *override, const uint8_t *dense)
{
    rank *r = &w->ranks[i];
    part_open(w, &r->has);
    source_view_draw(w, r);
    if (dense)
        part_put(w, &r->has, dense);
    source_rank_open(w, i, override, !dense);
}

/* A relay that closes lets the ranks behind it have what is under way, and everybody goes on meanwhile. */
void source_rank_close(rank *r)
{
    r->blocked = true;
    weft_close(r->session);
    part_free(&r->has);
    memset(r, 0, sizeof *r);
}

void source_rank_kill(rank *r)
{
    fleet_cut(r->session);
    source_rank_close(r);
}

void source_world_open(source_world *w, uint64_t seed)
{
    weft_cut cuts[8];
    memset(w, 0, sizeof *w);
    w->seed = seed;
    fleet_clock_open(&w->time, pass, w);
    w->time.first_seed = seed;
    weft_loop_set_faults(NULL);
    snprintf(w->text, sizeof w->text, "%s", site_text);
    w->layout = fleet_layout(FLEET_SMALL);
    w->bytes = weft_layout_bytes(w->layout);
    w->dense = malloc(w->bytes);
    fleet_fill(w->layout, w->dense, &w->seed);
    weft_site *site = source_site(w, NULL);
    weft_site_cuts(site, cuts);
    fleet_need(weft_cells_open(w->layout, cuts, (uint32_t)site->cut_count, &w->cells), "cells");
    weft_site_free(site);
    if (getenv("WEFT_TEST_ORDER"))
        source_shuffle(w);
}

void source_shuffle(source_world *w)
{
    if (w->orders[0].layout)
        return;
    for (unsigned i = 0; i < SOURCES + RANKS; i++) {
        w->orders[i].layout = fleet_layout_shuffled(w->layout, w->seed + i);
        fleet_need(weft_layout_match(w->layout, w->orders[i].layout, w->orders[i].number), "orders");
    }
}

void source_relay_begin(source_world *w, unsigned relays)
{
    const unsigned port = port_free_row(relays * SOURCES);
    int used = snprintf(w->text, sizeof w->text, "%s", site_text);
    for (unsigned i = 0; i < RANKS; i++) {
        used += snprintf(w->text + used, sizeof w->text - (size_t)used, "[peer.rank%u]\n", i);
        if (i > 0)
            used += snprintf(w->text + used, sizeof w->text - (size_t)used, "via = rank%u\n",
                             i < relays ? i - 1 : relays - 1);
        if (i < relays)
            used += snprintf(w->text + used, sizeof w->text - (size_t)used,
                             "relay = 127.0.0.1:%u\nrelay_memory = 64MiB\n", port + i * SOURCES);
    }
}

void source_world_close(source_world *w)
{
    for (unsigned i = 0; i < w->rank_count; i++)
        source_rank_close(&w->ranks[i]);
    source_run_end(w);
    for (unsigned i = 0; i < w->history_count; i++)
        free(w->history[i].dense);
    weft_cells_close(&w->cells);
    for (unsigned i = 0; i < SOURCES + RANKS; i++)
        weft_layout_free(w->orders[i].layout);
    weft_layout_free(w->layout);
    free(w->dense);
    fleet_clock_close();
}

void source_publish(source_world *w, uint32_t per_mille)
{
    fleet_change(w->layout, w->dense, per_mille, &w->seed);
    w->newest++;
    remember(w);
}
