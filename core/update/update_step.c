#include "update/update_step.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "update/update_fit.h"

typedef unsigned long long ull;

/* Frames that follow each other in the file. */
typedef struct weft_step_stretch {
    weft_number_range units; /* units of the file's layout, and where they begin in what is moved */
    uint64_t frame, at;      /* number and offset of the first frame */
    uint64_t frame_end, end; /* UINT64_MAX: the end of the frames */
} weft_step_stretch;

/* ---- what is moved */

weft_status weft_update_part_open(weft_update_part *part, const weft_layout *layout, const weft_excerpt *excerpt)
{
    uint32_t count = 0;
    *part = (weft_update_part){excerpt ? excerpt->layout : layout, layout, excerpt, NULL, 0};
    for (uint64_t c = 0; excerpt && c < excerpt->cell_count; c++)
        count += c == 0 || excerpt->cells[c].key != excerpt->cells[c - 1].key;
    part->sum_count = count;
    part->sums = weft_mem_take(count + 1u, sizeof *part->sums);
    return part->sums ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for %u keys", count);
}

void weft_update_part_close(weft_update_part *part)
{
    weft_mem_give(part->sums);
    *part = (weft_update_part){0};
}

/* A term's index is the tensor's number in the layout of all cells. */
void weft_update_part_sum(weft_update_part *part, const uint64_t *digests)
{
    const weft_excerpt *excerpt = part->excerpt;
    uint32_t at = 0;
    for (uint32_t i = 0; i < excerpt->tensors.count; i++) {
        const weft_number_range *range = &excerpt->tensors.range[i];
        for (uint64_t t = 0; t < range->count; t++) {
            const uint64_t own = range->own + t, digest = weft_digest_tensor(excerpt->layout, digests, own);
            const uint32_t key = excerpt->cells[own].key;
            at += own > 0 && excerpt->cells[own - 1].key != key;
            if (own == 0 || excerpt->cells[own - 1].key != key)
                part->sums[at] = (weft_key_sum){key, 0};
            part->sums[at].sum += weft_digest_term(range->first + t, digest);
        }
    }
}

/* Tells whether the sums are those of the file's base, or of its target. Both lists rise by key. */
static bool sums_equal(const weft_update_part *part, const weft_update_cells *cells, bool base)
{
    uint32_t share = 0;
    for (uint32_t i = 0; i < part->sum_count; i++) {
        while (share < cells->share_count && cells->shares[share].key < part->sums[i].key)
            share++;
        if (share == cells->share_count || cells->shares[share].key != part->sums[i].key ||
            (base ? cells->shares[share].base : cells->shares[share].target) != part->sums[i].sum)
            return false;
    }
    return true;
}

/* ---- the frames of an excerpt */

/* Finds the frames of each range of keys. Keys before the first range, and between ranges, are passed over. */
static void stretches_find(weft_update_step *step, const weft_excerpt *excerpt)
{
    const weft_update_cells *cells = step->cells;
    weft_step_stretch now = {0};
    uint32_t share = 0;
    for (uint32_t i = 0; i < excerpt->units.count; i++) {
        const weft_key_range all = {0, UINT32_MAX}, *keys = excerpt->keys.count ? &excerpt->keys.range[i] : &all;
        for (; share < cells->share_count && cells->shares[share].key < keys->first; share++) {
            now.frame_end += cells->shares[share].frames;
            now.end += cells->shares[share].bytes;
        }
        now.frame = now.frame_end;
        now.at = now.end;
        now.units = excerpt->units.range[i];
        for (; share < cells->share_count && cells->shares[share].key - keys->first < keys->count; share++) {
            now.frame_end += cells->shares[share].frames;
            now.end += cells->shares[share].bytes;
        }
        step->stretches[i] = now;
    }
    step->stretch_count = excerpt->units.count;
}

static weft_status cells_find(weft_update_step *step, const weft_update_part *part)
{
    const weft_status status = weft_update_division(step->file, &step->cells);
    if (status != WEFT_OK)
        return status;
    const bool same =
        step->cells && memcmp(step->file->header.layout, part->whole->hash, sizeof part->whole->hash) == 0;
    return same ? WEFT_OK : weft_fail(WEFT_E_LAYOUT, "%s: it has other cells", weft_update_name(step->file));
}

/* ---- open and close */

weft_status weft_update_step_open(weft_update_step *step, const weft_update_part *part, uint64_t keep)
{
    weft_status status = part->excerpt ? cells_find(step, part) : weft_update_layout_fits(step->file, part->whole);
    if (status == WEFT_OK)
        status = weft_update_cursor_open(&step->cursor, step->file, part->whole);
    if (status == WEFT_OK && keep > 0)
        status = weft_update_keep_open(&step->keep, step->file, keep);
    if (status != WEFT_OK)
        return status;
    step->stretches = weft_mem_take(WEFT_EXCERPT_RANGES, sizeof *step->stretches);
    if (!step->stretches)
        return weft_fail(WEFT_E_MEMORY, "no memory to read an update");
    if (part->excerpt) {
        stretches_find(step, part->excerpt);
    } else {
        step->stretches[0] = (weft_step_stretch){{0, part->whole->unit_count, 0}, 0, 0, UINT64_MAX, UINT64_MAX};
        step->stretch_count = 1;
    }
    return WEFT_OK;
}

void weft_update_step_close(weft_update_step *step)
{
    weft_mem_give(step->stretches);
    weft_update_keep_close(&step->keep);
    weft_update_cursor_close(&step->cursor);
    step->stretches = NULL;
}

/* ---- frames */

static void stretch_begin(weft_update_step *step)
{
    const weft_step_stretch *stretch = &step->stretches[step->stretch];
    if (step->stretch < step->stretch_count)
        weft_update_cursor_seek(&step->cursor, stretch->frame, stretch->at, stretch->units.first);
}

void weft_update_step_begin(weft_update_step *step)
{
    weft_update_cursor_begin(&step->cursor);
    step->stretch = 0;
    step->bytes = 0;
    stretch_begin(step);
}

static weft_status damaged(const weft_update_step *step)
{
    return weft_fail(WEFT_E_CORRUPT, "%s: the frames of a key are not where its list of cells says",
                     weft_update_name(step->file));
}

/* Takes the next frame of a stretch, if the frame is the group's. */
static weft_status frame_take(weft_update_step *step, const weft_step_stretch *stretch, weft_update_group *group,
                              bool *taken)
{
    const weft_number_range *units = &stretch->units;
    const bool all = units->own + units->count <= group->end;
    const uint64_t limit = all ? UINT64_MAX : units->first + (group->end - units->own);
    const uint8_t *frame;
    uint64_t bytes;
    weft_status status = weft_update_cursor_next(&step->cursor, limit, &frame, &bytes);
    *taken = status == WEFT_OK && bytes > 0;
    if (!*taken)
        return status == WEFT_OK && all && step->cells ? damaged(step) : status;
    const uint64_t unit = weft_bytes_get(frame, 4);
    if (step->cells && (unit - units->first >= units->count || step->cursor.at > stretch->end))
        return damaged(step);
    if (bytes > group->capacity - group->used)
        return weft_fail(WEFT_E_CORRUPT, "%s: frames of units %llu to %llu are larger than dense",
                         weft_update_name(step->file), (ull)group->unit, (ull)group->end);
    memcpy(group->data + group->used, frame, bytes);
    weft_bytes_put(group->data + group->used, units->own + (unit - units->first), 4);
    group->used += bytes;
    step->bytes += bytes;
    return WEFT_OK;
}

weft_status weft_update_step_take(weft_update_step *step, weft_update_group *group)
{
    weft_status status = WEFT_OK;
    bool taken = true;
    while (status == WEFT_OK && taken && step->stretch < step->stretch_count) {
        const weft_step_stretch *stretch = &step->stretches[step->stretch];
        if (step->cursor.frame < stretch->frame_end) {
            if (stretch->units.own >= group->end)
                break;
            status = frame_take(step, stretch, group, &taken);
            continue;
        }
        if (step->cursor.at != stretch->end)
            return damaged(step);
        step->stretch++;
        stretch_begin(step);
    }
    return status;
}

weft_status weft_update_step_finish(const weft_update_step *step)
{
    return step->cells ? WEFT_OK : weft_update_cursor_finish(&step->cursor);
}

/* ---- proofs */

static weft_status judge_sums(const weft_update_step *step, weft_update_part *part, const uint64_t *digests, bool start)
{
    const bool base = start != step->back;
    const weft_version *version = base ? &step->file->header.base : &step->file->header.target;
    weft_update_part_sum(part, digests);
    if (sums_equal(part, step->cells, base))
        return WEFT_OK;
    return weft_fail(start ? WEFT_E_BASE : WEFT_E_TARGET, "%s: the weights are not those of version %llu",
                     weft_update_name(step->file), (ull)version->number);
}

static weft_status judge_root(const weft_update_step *step, const weft_layout *layout, const uint64_t *digests,
                              bool start)
{
    const weft_wire_update *header = &step->file->header;
    const weft_version *version = start != step->back ? &header->base : &header->target;
    const uint64_t root = weft_digest_parts_root(layout, digests);
    if (root == version->root)
        return WEFT_OK;
    return start ? weft_fail(WEFT_E_BASE,
                             "the weights have digest %016llx, the update starts from %016llx (version "
                             "%llu)",
                             (ull)root, (ull)version->root, (ull)version->number)
                 : weft_fail(WEFT_E_TARGET,
                             "base and changes have digest %016llx, the update's target %016llx (version %llu)",
                             (ull)root, (ull)version->root, (ull)version->number);
}

weft_status weft_update_step_judge(const weft_update_step *step, weft_update_part *part, const uint64_t *digests,
                                   bool start)
{
    return part->excerpt ? judge_sums(step, part, digests, start) : judge_root(step, part->layout, digests, start);
}
