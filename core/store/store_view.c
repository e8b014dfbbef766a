/* store_view.c - a store as the store of one process of many: which sources the process needs.
 *
 * A source has the same cells in all versions of a run, so one file of the source tells them. Only the last run of a
 * source is judged, because all versions of an earlier one were written, or never will be. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout_match.h"
#include "layout/slice.h"
#include "shard/share.h"
#include "store/store.h"

/* ---- one source */

weft_store_file *weft_store_view_like(const weft_store *source, uint64_t run)
{
    for (uint64_t i = source->count; i-- > 0;) {
        weft_store_version *v = &source->versions[i];
        for (int kind = 0; v->version.run == run && kind < WEFT_STORE_KINDS; kind++)
            if (weft_store_has(v, (weft_store_kind)kind) && v->files[kind].divided)
                return &v->files[kind];
    }
    return NULL;
}

/* Tells whether a source has a key that is wanted. */
static bool has_wanted(const weft_update_cells *cells, const bool *wanted)
{
    for (uint32_t i = 0; i < cells->share_count; i++)
        if (wanted[cells->shares[i].key])
            return true;
    return false;
}

/* Copies the view's slices by the numbers of a source's model, which may have another order. Errors: WEFT_E_LAYOUT (it
 * has other tensors), WEFT_E_MEMORY. */
static weft_status slices_match(const weft_store *store, const weft_layout *model, weft_slice **slices)
{
    char text[WEFT_MATCH_TEXT];
    const weft_match_side mine = weft_match_layout("the view", store->model), theirs = weft_match_layout("it", model);
    uint64_t *order = weft_mem_take(store->model->count + 1, sizeof *order);
    weft_slice *made = weft_mem_take(store->slice_count + 1, sizeof *made);
    weft_status status = order && made ? weft_match_by_name(&mine, &theirs, order, text)
                                       : weft_fail(WEFT_E_MEMORY, "no memory to match a view's tensors");
    for (uint64_t i = 0; status == WEFT_OK && i < store->slice_count; i++) {
        made[i] = store->slices[i];
        made[i].tensor = order[made[i].tensor]; /* checked by weft_store_view */
    }
    weft_mem_give(order);
    if (status == WEFT_OK)
        *slices = made;
    else
        weft_mem_give(made);
    return status;
}

/* A source of another model, and one whose cuts do not suit the view, are needed: whoever applies the version is told
 * why that cannot be. */
static weft_status cells_judge(const weft_store *store, const weft_update_cells *cells, bool *needed)
{
    weft_slice *slices = NULL;
    *needed = true;
    if (!cells)
        return WEFT_OK;
    weft_status status = slices_match(store, cells->model, &slices);
    const weft_share share = {.layout = cells->model, .slices = slices, .slice_count = store->slice_count};
    bool *wanted = weft_mem_take(cells->cells.key_count + 1u, sizeof *wanted);
    if (!wanted)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %u keys", cells->cells.key_count);
    if (status == WEFT_OK)
        status = weft_share_keys(&share, &cells->cells, wanted);
    if (status == WEFT_OK)
        *needed = has_wanted(cells, wanted);
    weft_mem_give(wanted);
    weft_mem_give(slices);
    return status == WEFT_E_LAYOUT ? WEFT_OK : status;
}

static weft_status source_judge(const weft_store *store, weft_store *source)
{
    const uint64_t run = source->count ? source->versions[source->count - 1].version.run : 0;
    const weft_update_cells *cells;
    weft_update_file *update;
    weft_store_file *like = run != source->judged_run ? weft_store_view_like(source, run) : NULL;
    if (!like)
        return WEFT_OK;
    weft_status status = weft_store_file_open(source, like, &update);
    if (status != WEFT_OK) /* removed or damaged since: the next look finds that */
        return status == WEFT_E_MEMORY ? status : WEFT_OK;
    status = weft_update_division(update, &cells);
    if (status == WEFT_OK)
        status = cells_judge(store, cells, &source->needed);
    if (status == WEFT_OK)
        source->judged_run = run;
    weft_update_close(update);
    return status == WEFT_E_MEMORY ? status : WEFT_OK;
}

bool weft_store_view_needs(const weft_store *source, uint64_t run)
{
    return source->judged_run != run || source->needed;
}

weft_status weft_store_view_judge(weft_store *store)
{
    weft_status status = WEFT_OK;
    weft_store *each;
    for (uint32_t i = 0; store->slices && status == WEFT_OK && (each = weft_store_each(store, i)); i++)
        status = source_judge(store, each);
    return status;
}

/* ---- the view */

void weft_store_view_give(weft_store *store)
{
    weft_store *each;
    for (uint32_t i = 0; (each = weft_store_each(store, i)); i++)
        each->judged_run = 0;
    weft_layout_free(store->model);
    weft_mem_give(store->slices);
    store->model = NULL;
    store->slices = NULL;
    store->slice_count = 0;
}

weft_status weft_store_view(weft_store *store, const weft_layout *layout, const weft_slice *slices, uint64_t count)
{
    WEFT_ALONE(store, "weft_store_view");
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; status == WEFT_OK && i < count; i++)
        status = weft_slice_check(layout, &slices[i]);
    if (status != WEFT_OK)
        return status;
    weft_store_view_give(store);
    if (count == 0)
        return WEFT_OK;
    store->slices = weft_mem_take(count, sizeof *slices);
    if (!store->slices)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu slices", (unsigned long long)count);
    memcpy(store->slices, slices, count * sizeof *slices);
    store->slice_count = count;
    store->model = weft_layout_hold((weft_layout *)(uintptr_t)layout);
    return weft_store_view_judge(store);
}
