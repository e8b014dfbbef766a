/* store_part.c - versions whose files are of cells, into the weights of one process of many.
 *
 * The weights that a process has of each source are copied, the copies go along the ways of their sources, and when all
 * have arrived they are copied back. */
#include <string.h>

#include "base/mem.h"
#include "base/mix64.h"
#include "base/status.h"
#include "layout/digest.h"
#include "layout/layout_match.h"
#include "shard/holding.h"
#include "shard/naming.h"
#include "shard/share.h"
#include "store/store.h"

typedef unsigned long long ull;

/* The part of the weights whose files one source writes. */
typedef struct end {
    weft_store *store;
    uint64_t to;                    /* index of the version; WEFT_STORE_NONE: the source has not written it */
    weft_update_file *like;         /* a file of the version, which tells the cells */
    const weft_update_cells *cells; /* its cells */
    uint64_t *order;                /* its model's number of each tensor of the caller's; NULL: the same number */
    uint64_t *back;                 /* the caller's number of each tensor of its model; NULL: the same number */
    weft_division division;         /* the cells that the process has of these */
    weft_binding weights;           /* they */
    weft_store_mover mover;
} end;

typedef struct mover {
    const weft_layout *model;
    weft_naming by;
    weft_slice *slices; /* slices of the blocks; NULL: all of the model */
    const weft_work *work;
    end *ends;
    uint32_t end_count;
    weft_store_info info;
} mover;

/* ---- the cells of one source */

/* A source has the same cells in all versions of a run, so another one will do where the version is not there. */
static weft_store_file *like_find(const end *e, uint64_t run)
{
    return e->to == WEFT_STORE_NONE ? weft_store_view_like(e->store, run) : weft_store_like(e->store, e->to);
}

static weft_status like_open(end *e, uint64_t run)
{
    weft_store_file *like = like_find(e, run);
    weft_status status = like ? weft_store_file_open(e->store, like, &e->like)
                              : weft_fail(WEFT_E_MISSING, "%s: source %u of %u has no whole file", e->store->name,
                                          e->store->source, e->store->sources);
    if (status == WEFT_OK)
        status = weft_update_division(e->like, &e->cells);
    if (status == WEFT_OK && !e->cells)
        status = weft_fail(WEFT_E_LAYOUT, "%s: source %u of %u wrote no cells", e->store->name, e->store->source,
                           e->store->sources);
    return status;
}

/* Copies the slices of the blocks by the numbers of the source's model. Numbers that are none stay as they are. */
static weft_slice *slices_of(const mover *m, const end *e)
{
    weft_slice *slices = weft_mem_take(m->by.count + 1, sizeof *slices);
    for (uint64_t i = 0; slices && i < m->by.count; i++) {
        slices[i] = m->slices[i];
        if (e->order && slices[i].tensor < m->model->count)
            slices[i].tensor = e->order[slices[i].tensor];
    }
    return slices;
}

/* Keys of which the source has nothing go with the key before, so that ranges are few. */
static weft_status keys_wanted(const mover *m, const end *e, bool *wanted)
{
    const weft_cells *cells = &e->cells->cells;
    weft_slice *slices = m->slices ? slices_of(m, e) : NULL;
    weft_status status = WEFT_OK;
    if (m->slices && !slices)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %llu slices", (ull)m->by.count);
    const weft_share share = {.layout = e->cells->model, .slices = slices, .slice_count = m->by.count};
    if (m->slices && status == WEFT_OK)
        status = weft_share_keys(&share, cells, wanted);
    weft_mem_give(slices);
    uint32_t at = 0;
    for (uint32_t i = 0; i < e->cells->share_count; i++) {
        const uint32_t key = e->cells->shares[i].key;
        const bool take = !m->slices || wanted[key];
        for (; at < key; at++)
            wanted[at] = at > 0 ? wanted[at - 1] : take;
        wanted[at++] = take;
    }
    return status;
}

static bool takes_nothing(const bool *wanted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (wanted[i])
            return false;
    return true;
}

/* Finds what the process has of the source's cells. No cells: nothing. */
static weft_status end_divide(const mover *m, end *e)
{
    const weft_cells *cells = &e->cells->cells;
    weft_view_keys keys;
    bool *wanted = weft_mem_take(cells->key_count + 1u, sizeof *wanted);
    weft_status status =
        wanted ? keys_wanted(m, e, wanted) : weft_fail(WEFT_E_MEMORY, "no memory for %u keys", cells->key_count);
    if (status == WEFT_OK && !takes_nothing(wanted, cells->key_count)) {
        status = weft_view_keys_of(wanted, cells->key_count, &keys);
        if (status == WEFT_OK)
            status = weft_excerpt_open(e->cells->model, cells, e->like->layout, &keys, &e->division.excerpt);
    }
    weft_mem_give(wanted);
    if (status != WEFT_OK || e->division.excerpt.cell_count == 0)
        return status;
    e->division.model = weft_layout_hold(e->cells->model);
    e->division.order = e->order; /* which owns it from here on */
    e->order = NULL;
    e->division.layout = weft_layout_hold(e->division.excerpt.layout);
    return WEFT_OK;
}

static void end_close(end *e)
{
    weft_store_mover_close(&e->mover);
    weft_binding_close(&e->weights);
    if (e->division.model)
        weft_division_close(&e->division);
    weft_excerpt_close(&e->division.excerpt);
    weft_mem_give(e->order);
    weft_mem_give(e->back);
    weft_update_close(e->like);
}

/* Matches the caller's tensors with those of a model that has another order. */
static weft_status order_take(const mover *m, end *e)
{
    const weft_match_side mine = weft_match_layout("the model", m->model),
                          theirs = weft_match_layout("it", e->cells->model);
    char text[WEFT_MATCH_TEXT];
    e->order = weft_mem_take(m->model->count + 1, sizeof *e->order);
    e->back = weft_mem_take(m->model->count + 1, sizeof *e->back);
    if (!e->order || !e->back)
        return weft_fail(WEFT_E_MEMORY, "no memory for an order of %llu tensors", (ull)m->model->count);
    const weft_status status = weft_match_by_name(&mine, &theirs, e->order, text);
    if (status == WEFT_E_LAYOUT)
        weft_fail_about("%s: version %llu", e->store->name, (ull)m->info.version.number);
    for (uint64_t t = 0; status == WEFT_OK && t < m->model->count; t++)
        e->back[e->order[t]] = t;
    return status;
}

static weft_status end_open(const mover *m, end *e)
{
    const ull number = m->info.version.number;
    weft_status status = like_open(e, m->info.version.run);
    if (status == WEFT_OK && memcmp(e->cells->model->hash, m->model->hash, sizeof m->model->hash) != 0)
        status = order_take(m, e);
    if (status == WEFT_OK)
        status = end_divide(m, e);
    if (status == WEFT_OK && e->division.layout && e->to == WEFT_STORE_NONE)
        status = weft_fail(WEFT_E_MISSING, "%s: source %u of %u has not written version %llu", e->store->name,
                           e->store->source, e->store->sources, number);
    return status;
}

static weft_status weights_take(const mover *m, end *e)
{
    weft_status status = weft_naming_bind(&e->division, &m->by, true, &e->weights);
    if (status == WEFT_OK)
        status = weft_binding_apart(&e->weights);
    return status == WEFT_OK
               ? weft_store_mover_open(&e->mover, e->store, e->like->layout, &e->division.excerpt, &e->weights, m->work)
               : status;
}

/* ---- the cells of all sources */

static uint64_t elements_wanted(const mover *m)
{
    uint64_t elements = 0;
    for (uint64_t t = 0; !m->slices && t < m->model->count; t++)
        elements += m->model->entries[t].elements;
    for (uint64_t i = 0; m->slices && i < m->by.count; i++)
        elements += weft_slice_elements(&m->slices[i]);
    return elements;
}

/* All cells lie within the slices. So they cover these, if they share no element and have as many. */
static weft_status cover_check(const mover *m)
{
    const weft_cells none = {0};
    weft_cell *entries = NULL;
    uint64_t count = 0, at = 0, elements = 0, wanted = elements_wanted(m);
    for (uint32_t i = 0; i < m->end_count; i++)
        count += m->ends[i].division.excerpt.cell_count;
    weft_slice *slices = weft_mem_take(count + 1, sizeof *slices);
    if (!slices)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cells", (ull)count);
    for (uint32_t i = 0; i < m->end_count; i++) {
        const weft_excerpt *excerpt = &m->ends[i].division.excerpt;
        const uint64_t *back = m->ends[i].back;
        for (uint64_t c = 0; c < excerpt->cell_count; c++) {
            slices[at] = excerpt->cells[c].slice;
            slices[at].tensor = back ? back[slices[at].tensor] : slices[at].tensor;
            at++;
            elements += weft_slice_elements(&excerpt->cells[c].slice);
        }
    }
    weft_status status = weft_holding_open(m->model, &none, slices, count, &entries, &count);
    weft_mem_give(entries);
    weft_mem_give(slices);
    if (status == WEFT_OK && elements != wanted)
        status = weft_fail(WEFT_E_LAYOUT, "%s: its sources have %llu of the %llu elements that are wanted",
                           m->ends[0].store->name, (ull)elements, (ull)wanted);
    return status;
}

static weft_status slices_take(mover *m)
{
    if (!m->by.blocks)
        return WEFT_OK;
    m->slices = weft_mem_take(m->by.count + 1, sizeof *m->slices);
    if (!m->slices)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu slices", (ull)m->by.count);
    for (uint64_t i = 0; i < m->by.count; i++)
        m->slices[i] = m->by.blocks[i].slice;
    return WEFT_OK;
}

static weft_status ends_open(mover *m)
{
    weft_status status = slices_take(m);
    for (uint32_t i = 0; i < m->end_count && status == WEFT_OK; i++)
        status = end_open(m, &m->ends[i]);
    if (status == WEFT_OK)
        status = cover_check(m);
    for (uint32_t i = 0; i < m->end_count && status == WEFT_OK; i++)
        if (m->ends[i].division.layout)
            status = weights_take(m, &m->ends[i]);
    return status;
}

/* ---- ways */

/* Tells whether the weights have the bits that a file leads to. Both lists rise by key. */
static bool is_held(const weft_update_part *part, const weft_store_file *file)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < part->sum_count; i++) {
        while (at < file->sum_count && file->sums[at].key < part->sums[i].key)
            at++;
        if (at == file->sum_count || file->sums[at].key != part->sums[i].key || file->sums[at].sum != part->sums[i].sum)
            return false;
    }
    return true;
}

/* Finds the root of the last version that the weights have the bits of. */
static const uint64_t *sums_held(const weft_store_mover *mover, const void *user)
{
    end *e = (end *)(uintptr_t)user;
    weft_update_part_sum(&e->mover.mover.part, mover->mover.digests);
    for (uint64_t i = e->store->count; i-- > 0;) {
        const weft_store_version *v = &e->store->versions[i];
        for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
            if (weft_store_has(v, (weft_store_kind)kind) &&
                memcmp(v->files[kind].layout, e->like->header.layout, sizeof v->files[kind].layout) == 0 &&
                is_held(&mover->mover.part, &v->files[kind]))
                return &v->version.root;
    }
    return NULL;
}

/* Proves the ways of all sources before a weight of any is written. */
static weft_status ends_move(mover *m)
{
    weft_status status = WEFT_OK;
    bool more = false;
    for (uint32_t i = 0; i < m->end_count && status == WEFT_OK; i++)
        if (m->ends[i].division.layout)
            status = weft_store_mover_lead(&m->ends[i].mover, sums_held, &m->ends[i], m->ends[i].to);
    for (uint32_t i = 0; i < m->end_count && status == WEFT_OK; i++) {
        if (m->ends[i].division.layout)
            status = weft_store_mover_write(&m->ends[i].mover, &m->ends[i].weights);
        more = more || m->ends[i].mover.more;
    }
    return status == WEFT_OK && more ? ends_move(m) : status;
}

static void figures_sum(mover *m)
{
    for (uint32_t i = 0; i < m->end_count; i++) {
        const weft_store_info *figures = &m->ends[i].mover.figures;
        m->info.files += figures->files;
        m->info.anchors += figures->anchors;
        m->info.bytes += figures->bytes;
        m->info.damaged += figures->damaged;
    }
}

/* Names the version as weft_held does for these weights. */
static void version_name(mover *m)
{
    uint64_t root = 0;
    for (uint32_t i = 0; i < m->end_count; i++) {
        const end *e = &m->ends[i];
        if (!e->division.layout)
            continue;
        const uint64_t own = weft_digest_parts_root(e->division.layout, weft_store_mover_digests(&e->mover));
        root = m->end_count > 1 ? weft_mix64(root + own) : own;
    }
    m->info.version.root = root;
}

weft_status weft_store_part_apply(const weft_store_set *set, const weft_layout *model, const weft_piece *pieces,
                                  const weft_block *blocks, uint64_t count, const weft_work *work,
                                  weft_store_info *info)
{
    mover m = {.model = model, .by = {"weft_store_apply", pieces, blocks, count}, .work = work};
    m.info.version = set->version;
    m.ends = weft_mem_take(set->count, sizeof *m.ends);
    if (!m.ends)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u sources", set->count);
    m.end_count = set->count;
    for (uint32_t i = 0; i < set->count; i++) {
        m.ends[i].store = set->shelf[i];
        m.ends[i].to = set->index[i];
    }
    weft_status status = ends_open(&m);
    if (status == WEFT_OK)
        status = ends_move(&m);
    if (status == WEFT_OK) {
        version_name(&m);
        figures_sum(&m);
        weft_store_info_report(&m.info, info);
    }
    for (uint32_t i = 0; i < m.end_count; i++)
        end_close(&m.ends[i]);
    weft_mem_give(m.slices);
    weft_mem_give(m.ends);
    return status;
}
