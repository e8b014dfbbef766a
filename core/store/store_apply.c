/* store_apply.c - moves weights from what they hold to a version of the store: all of them, or none. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "layout/layout.h"
#include "store/store.h"
#include "update/update_work.h"

typedef unsigned long long ull;

/* ---- one file */

static weft_status step_prove(weft_store_mover *m, weft_store *store, const weft_store_step *step,
                              const weft_layout *layout, const weft_binding *weights, const weft_work *work)
{
    const weft_status status = weft_store_mover_open(m, store, layout, NULL, weights, work);
    return status == WEFT_OK ? weft_store_mover_prove(m, step, 1) : status;
}

weft_status weft_store_step_take(weft_store *store, const weft_store_step *step, bool proof, const weft_layout *layout,
                                 const weft_piece *pieces, const weft_work *work)
{
    weft_binding weights = {0};
    weft_store_mover m = {0};
    weft_status status = weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, layout->count, &weights);
    if (status == WEFT_OK)
        status = step_prove(&m, store, step, layout, &weights, work);
    if (status == WEFT_OK && !proof)
        status = weft_store_mover_write(&m, &weights);
    weft_store_mover_close(&m);
    weft_binding_close(&weights);
    return status;
}

/* ---- a version */

static const uint64_t *root_held(const weft_store_mover *m, const void *user)
{
    uint64_t *root = (uint64_t *)(uintptr_t)user;
    *root = weft_digest_parts_root(m->mover.part.layout, m->mover.digests);
    return root;
}

static weft_status apply(weft_store *store, uint64_t to, const weft_layout *layout, const weft_piece *pieces,
                         uint64_t count, const weft_work *work, weft_store_info *figures)
{
    weft_binding weights = {0};
    weft_store_mover m = {0};
    uint64_t root;
    weft_status status = weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, count, &weights);
    if (status == WEFT_OK)
        status = weft_binding_apart(&weights);
    if (status == WEFT_OK)
        status = weft_store_mover_open(&m, store, layout, NULL, &weights, work);
    do {
        if (status == WEFT_OK)
            status = weft_store_mover_lead(&m, root_held, &root, to);
        if (status == WEFT_OK)
            status = weft_store_mover_write(&m, &weights);
    } while (status == WEFT_OK && m.more);
    *figures = m.figures;
    weft_store_mover_close(&m);
    weft_binding_close(&weights);
    return status;
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
