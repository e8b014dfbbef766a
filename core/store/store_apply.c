/* store_apply.c - moves weights from what they hold to a version of the store, file by file, each proved before a
 * weight changes. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "store/store.h"
#include "update/update_work.h"

typedef unsigned long long ull;

/* ---- anchors: all bits, in layout order, into pieces */

typedef struct scatter {
    const weft_layout *layout;
    weft_piece *pieces; /* pieces in order of tensor and element */
    uint64_t count;
    uint64_t at;   /* piece that is filled next */
    uint64_t done; /* bytes of that piece that are filled */
    bool moved;    /* a weight was written */
} scatter;

static int pieces_compare(const void *a, const void *b)
{
    const weft_piece *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static uint64_t piece_bytes(const scatter *s, const weft_piece *piece)
{
    return piece->count * s->layout->entries[piece->tensor].row->bits / 8;
}

static weft_status scatter_write(void *user, const void *data, uint64_t bytes)
{
    scatter *s = user;
    const uint8_t *from = data;
    s->moved = true;
    while (bytes > 0) {
        if (s->at == s->count)
            return weft_fail(WEFT_E_LAYOUT, "the pieces end before the anchor does");
        const weft_piece *piece = &s->pieces[s->at];
        const uint64_t left = piece_bytes(s, piece) - s->done, now = left < bytes ? left : bytes;
        if (now)
            memcpy((uint8_t *)piece->data + s->done, from, now);
        s->done += now;
        from += now;
        bytes -= now;
        if (now == left) {
            s->at++;
            s->done = 0;
        }
    }
    return WEFT_OK;
}

static weft_status scatter_open(scatter *s, const weft_layout *layout, const weft_piece *pieces, uint64_t count)
{
    *s = (scatter){.layout = layout, .count = count, .pieces = weft_mem_take(count + 1, sizeof *s->pieces)};
    if (!s->pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (ull)count);
    if (count) {
        memcpy(s->pieces, pieces, count * sizeof *pieces);
        qsort(s->pieces, count, sizeof *s->pieces, pieces_compare);
    }
    return WEFT_OK;
}

/* Rewrites zeros into the anchor's bits. The sink gets nothing before all of the anchor is proved. */
static weft_status anchor_read(weft_store *store, uint64_t index, const weft_layout *layout, const weft_work *work,
                               const weft_sink *sink)
{
    weft_update_file *update;
    weft_store_zero zero;
    weft_status status = weft_store_file_open(store, &store->versions[index].files[WEFT_STORE_ANCHOR], &update);
    if (status != WEFT_OK)
        return status;
    status = weft_store_zero_open(layout, &zero);
    if (status == WEFT_OK)
        status = weft_update_rewrite(update, layout, zero.pieces, layout->count, work, sink, NULL);
    weft_store_zero_close(&zero);
    weft_update_close(update);
    return status;
}

static weft_status proved_stop(void *user, const void *data, uint64_t bytes)
{
    (void)data;
    (void)bytes;
    *(bool *)user = true;
    return WEFT_AGAIN;
}

weft_status weft_store_anchor_prove(weft_store *store, uint64_t index, const weft_layout *layout, const weft_work *work)
{
    bool proved = false;
    const weft_sink sink = {&proved, proved_stop};
    const weft_status status = anchor_read(store, index, layout, work, &sink);
    return proved ? WEFT_OK : status;
}

weft_status weft_store_update_prove(weft_store *store, uint64_t index, weft_store_kind kind, const weft_layout *layout,
                                    const weft_piece *pieces, const weft_work *work)
{
    weft_update_file *update;
    bool proved = false;
    const weft_sink sink = {&proved, proved_stop};
    weft_status status = weft_store_file_open(store, &store->versions[index].files[kind], &update);
    if (status != WEFT_OK)
        return status;
    status = weft_update_rewrite(update, layout, pieces, layout->count, work, &sink, NULL);
    weft_update_close(update);
    return proved ? WEFT_OK : status;
}

/* ---- steps */

/* The opposite of an update, in memory. */
typedef struct opposite {
    uint8_t *data;
    uint64_t bytes, capacity;
} opposite;

static weft_status opposite_write(void *user, const void *data, uint64_t bytes)
{
    opposite *o = user;
    if (bytes > o->capacity - o->bytes) {
        const uint64_t capacity = 2 * (o->bytes + bytes);
        uint8_t *grown = weft_mem_grow(o->data, o->capacity, capacity, 1);
        if (!grown)
            return weft_fail(WEFT_E_MEMORY, "no memory for an update of %llu bytes", (ull)capacity);
        o->data = grown;
        o->capacity = capacity;
    }
    memcpy(o->data + o->bytes, data, bytes);
    o->bytes += bytes;
    return WEFT_OK;
}

static weft_status opposite_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    const opposite *o = user;
    memcpy(data, o->data + offset, bytes);
    return WEFT_OK;
}

static weft_status back(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                        const weft_work *work)
{
    opposite o = {0};
    const weft_sink sink = {&o, opposite_write};
    weft_update_file *turned = NULL;
    weft_status status = weft_update_invert(update, layout, NULL, 0, NULL, NULL, 0, work, &sink, NULL);
    const weft_source source = {&o, opposite_read, o.bytes};
    if (status == WEFT_OK)
        status = weft_update_open(&source, &turned);
    if (status == WEFT_OK)
        status = weft_update_apply(turned, layout, pieces, count, work, NULL);
    weft_update_close(turned);
    weft_mem_give(o.data);
    return status;
}

static weft_status set(weft_store *store, uint64_t index, const weft_layout *layout, const weft_piece *pieces,
                       uint64_t count, const weft_work *work)
{
    scatter s;
    const weft_sink sink = {&s, scatter_write};
    weft_status status = scatter_open(&s, layout, pieces, count);
    if (status == WEFT_OK)
        status = anchor_read(store, index, layout, work, &sink);
    weft_mem_give(s.pieces);
    return status;
}

weft_status weft_store_step_take(weft_store *store, const weft_store_step *step, const weft_layout *layout,
                                 const weft_piece *pieces, uint64_t count, const weft_work *work)
{
    if (step->act == WEFT_STORE_SET)
        return set(store, step->index, layout, pieces, count, work);
    weft_update_file *update;
    weft_store_file *file = &store->versions[step->index].files[step->kind];
    weft_status status = weft_store_file_open(store, file, &update);
    if (status != WEFT_OK)
        return status;
    status = step->act == WEFT_STORE_BACK ? back(update, layout, pieces, count, work)
                                          : weft_update_apply(update, layout, pieces, count, work, NULL);
    weft_update_close(update);
    return status;
}

/* ---- the way */

bool weft_store_is_damage(weft_status status)
{
    return status == WEFT_E_FILE || status == WEFT_E_CORRUPT || status == WEFT_E_CHECK || status == WEFT_E_BASE ||
           status == WEFT_E_TARGET || status == WEFT_E_PROTOCOL;
}

/* Goes along a way until it ends, or a file fails. */
static weft_status way_take(weft_store *store, const weft_store_way *way, const weft_layout *layout,
                            const weft_piece *pieces, uint64_t count, const weft_work *work, weft_store_info *info)
{
    for (uint64_t i = 0; i < way->count; i++) {
        weft_store_file *file = &store->versions[way->steps[i].index].files[way->steps[i].kind];
        const weft_status status = weft_store_step_take(store, &way->steps[i], layout, pieces, count, work);
        if (status != WEFT_OK) {
            if (weft_store_is_damage(status))
                file->status = status;
            return status;
        }
        info->files++;
        info->anchors += way->steps[i].act == WEFT_STORE_SET;
        info->bytes += file->item.bytes;
    }
    return WEFT_OK;
}

/* A file that fails leaves the weights at a version on the way, and the next way starts there. */
static weft_status apply(weft_store *store, uint64_t to, const weft_layout *layout, const weft_piece *pieces,
                         uint64_t count, const weft_work *work, weft_store_info *info)
{
    weft_status failed = WEFT_OK;
    for (;;) {
        uint64_t held;
        weft_store_way way;
        weft_status status = weft_digest_tensors(layout, pieces, count, work, NULL, &held);
        if (status == WEFT_OK)
            status = weft_store_way_find(store, &held, to, &way);
        if (status != WEFT_OK)
            return status == WEFT_E_MISSING && failed != WEFT_OK ? failed : status;
        status = way_take(store, &way, layout, pieces, count, work, info);
        weft_store_way_close(&way);
        if (!weft_store_is_damage(status))
            return status;
        failed = status;
        info->damaged++;
    }
}

void weft_store_info_report(const weft_store_info *all, weft_store_info *info)
{
    if (!info)
        return;
    const size_t size = info->size < sizeof *all ? info->size : sizeof *all;
    memcpy(info, all, size);
    info->size = size;
}

weft_status weft_store_apply_files(weft_store *store, const weft_version *version, const weft_layout *layout,
                                   const weft_piece *pieces, uint64_t count, const weft_work *work,
                                   weft_store_info *info)
{
    weft_store_info figures = {0};
    weft_layout *stored = NULL;
    weft_piece *renumbered = NULL;
    uint64_t to;
    weft_status status = weft_store_version_find(store, version, &to);
    if (status == WEFT_OK && !weft_store_has_layout(store, to, layout))
        status = weft_store_match(store, to, layout, pieces, count, &stored, &renumbered);
    if (status == WEFT_OK)
        status = apply(store, to, stored ? stored : layout, stored ? renumbered : pieces, count, work, &figures);
    weft_mem_give(renumbered);
    weft_layout_free(stored);
    if (status != WEFT_OK)
        return status;
    figures.version = store->versions[to].version;
    weft_store_info_report(&figures, info);
    return WEFT_OK;
}

weft_status weft_store_apply(weft_store *store, const weft_version *version, const weft_layout *layout,
                             const weft_piece *pieces, uint64_t count, const weft_work *work, weft_store_info *info)
{
    WEFT_ALONE(store, "weft_store_apply");
    weft_work own;
    weft_store_set set;
    weft_status status = weft_update_sizes_check(work, info, "weft_store_info");
    if (status == WEFT_OK)
        status = weft_store_set_find(store, version, &set);
    if (status != WEFT_OK)
        return status;
    work = weft_update_work_take(work, &own);
    if (set.divided)
        return weft_store_part_apply(&set, layout, pieces, NULL, count, work, info);
    return weft_store_apply_files(set.shelf[0], version, layout, pieces, count, work, info);
}

weft_status weft_store_apply_blocks(weft_store *store, const weft_version *version, const weft_layout *layout,
                                    const weft_block *blocks, uint64_t count, const weft_work *work,
                                    weft_store_info *info)
{
    WEFT_ALONE(store, "weft_store_apply_blocks");
    weft_work own;
    weft_store_set set;
    weft_status status = weft_update_sizes_check(work, info, "weft_store_info");
    if (status == WEFT_OK)
        status = weft_store_set_find(store, version, &set);
    if (status == WEFT_OK && !set.divided)
        status = weft_fail(WEFT_E_LAYOUT,
                           "%s: version %llu is of a trainer without cuts, so its files are of all of the model",
                           store->name, (ull)version->number);
    return status == WEFT_OK
               ? weft_store_part_apply(&set, layout, NULL, blocks, count, weft_update_work_take(work, &own), info)
               : status;
}
