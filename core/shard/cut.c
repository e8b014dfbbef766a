/* cut.c - the boxes that one cut makes of one tensor. */
#include "shard/cut_boxes.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

typedef unsigned long long ull;

/* ---- the rule by itself */

static weft_status list_check(const weft_cut *cut)
{
    for (uint64_t i = 1; i < cut->at_count; i++) {
        if (cut->at[i] <= cut->at[i - 1])
            return weft_fail(WEFT_E_ARGUMENT, "[cut.%s] at: %llu after %llu: need rising numbers", cut->name,
                             (ull)cut->at[i], (ull)cut->at[i - 1]);
    }
    return WEFT_OK;
}

weft_status weft_cut_check(const weft_cut *cut)
{
    const bool parted = cut->parts > 0, listed = cut->at_count > 0;
    if (cut->kind == WEFT_CUT_ALONE && (parted || listed))
        return weft_fail(WEFT_E_ARGUMENT, "[cut.%s]: whole tensors have no parts", cut->name);
    if (cut->kind == WEFT_CUT_LAYER && (parted || !listed))
        return weft_fail(WEFT_E_ARGUMENT, "[cut.%s] by = layer: need at = the first layer of each block", cut->name);
    if (cut->kind == WEFT_CUT_EXPERT && (!parted || listed))
        return weft_fail(WEFT_E_ARGUMENT, "[cut.%s] by = expert: need groups = a number", cut->name);
    if (cut->kind != WEFT_CUT_ALONE && parted == listed)
        return weft_fail(WEFT_E_ARGUMENT, "[cut.%s]: need a number of parts or a list of where they begin", cut->name);
    if (cut->parts > WEFT_CUT_PARTS || cut->at_count > WEFT_CUT_PARTS)
        return weft_fail(WEFT_E_ARGUMENT, "[cut.%s]: at most %u parts", cut->name, WEFT_CUT_PARTS);
    if (cut->pad > 0 && (!parted || cut->kind == WEFT_CUT_EXPERT))
        return weft_fail(WEFT_E_ARGUMENT, "[cut.%s] pad: only of equal parts of tensors", cut->name);
    return list_check(cut);
}

bool weft_cut_is_for_boxes(const weft_cut *cut)
{
    return cut->kind != WEFT_CUT_LAYER && cut->kind != WEFT_CUT_EXPERT;
}

/* ---- parts of a size */

/* A dimension that a cut parts. */
typedef struct sizes {
    uint64_t size;  /* rows or columns of the dimension */
    uint64_t each;  /* rows or columns of each equal part */
    uint64_t parts; /* number of parts, with empty parts at a padded end */
} sizes;

static bool begins_with_zero(const weft_cut *cut)
{
    return cut->at_count > 0 && cut->at[0] == 0;
}

static weft_status does_not_fit(const weft_cut *cut, const char *name, const char *what, uint64_t size)
{
    if (cut->parts > 0)
        return weft_fail(WEFT_E_LAYOUT, "[cut.%s]: %s has %llu %s, which %llu equal parts%s do not fit", cut->name,
                         name, (ull)size, what, (ull)cut->parts, cut->pad ? " of the padded size" : "");
    return weft_fail(WEFT_E_LAYOUT, "[cut.%s]: %s has %llu %s, a part begins at %llu", cut->name, name, (ull)size, what,
                     (ull)cut->at[cut->at_count - 1]);
}

static weft_status sizes_of(const weft_cut *cut, const char *name, const char *what, uint64_t size, sizes *made)
{
    const uint64_t pad = cut->pad ? cut->pad : 1, over = size % pad;
    uint64_t padded = size;
    *made = (sizes){.size = size, .parts = cut->parts};
    if (cut->parts == 0) {
        made->parts = cut->at_count + !begins_with_zero(cut);
        return cut->at[cut->at_count - 1] < size ? WEFT_OK : does_not_fit(cut, name, what, size);
    }
    if ((over > 0 && __builtin_add_overflow(size, pad - over, &padded)) || padded % cut->parts != 0)
        return does_not_fit(cut, name, what, size);
    made->each = padded / cut->parts;
    return WEFT_OK;
}

/* Returns the begin of a part, or the end of the dimension for the part after the last. */
static uint64_t part_begin(const weft_cut *cut, const sizes *of, uint64_t part)
{
    if (part >= of->parts)
        return of->size;
    if (cut->parts > 0)
        return part * of->each < of->size ? part * of->each : of->size;
    if (begins_with_zero(cut))
        return cut->at[part];
    return part > 0 ? cut->at[part - 1] : 0;
}

/* ---- boxes */

static weft_status box_put(weft_box_taker *boxes, const weft_layout *layout, const weft_cut *cut, weft_slice box,
                           uint64_t part)
{
    char name[WEFT_SLICE_TEXT];
    if (weft_slice_elements(&box) == 0)
        return WEFT_OK;
    if (weft_slice_check(layout, &box) != WEFT_OK) {
        weft_slice_name(layout, &box, name);
        return weft_fail(WEFT_E_LAYOUT, "[cut.%s]: part %llu, %s: its rows of %s do not fill whole bytes", cut->name,
                         (ull)part, name, layout->entries[box.tensor].row->name);
    }
    return boxes->put(boxes, &box, (uint32_t)part);
}

/* Puts every part of one dimension of the box `all`: of its rows, or of its columns. */
static weft_status parts_put(weft_box_taker *boxes, const weft_layout *layout, const weft_cut *cut,
                             const weft_slice *all, bool rows)
{
    const char *name = layout->entries[all->tensor].tensor.name;
    sizes of;
    weft_status status = sizes_of(cut, name, rows ? "rows" : "columns", rows ? all->rows : all->columns, &of);
    for (uint64_t part = 0; part < of.parts && status == WEFT_OK; part++) {
        const uint64_t begin = part_begin(cut, &of, part), count = part_begin(cut, &of, part + 1) - begin;
        weft_slice box = *all;
        if (rows) {
            box.row += begin;
            box.rows = count;
        } else {
            box.column += begin;
            box.columns = count;
        }
        status = box_put(boxes, layout, cut, box, part);
    }
    return status;
}

/* Puts the parts of the last dimension but one, within every index of the dimensions before it. */
static weft_status middle_put(weft_box_taker *boxes, const weft_layout *layout, const weft_cut *cut,
                              const weft_slice *all)
{
    const weft_tensor *tensor = &layout->entries[all->tensor].tensor;
    if (tensor->rank < 3)
        return weft_fail(WEFT_E_LAYOUT, "[cut.%s] middle: %s has %u dimensions, of which none lies between two others",
                         cut->name, tensor->name, tensor->rank);
    weft_slice one = *all;
    weft_status status = WEFT_OK;
    one.rows = tensor->shape[tensor->rank - 2];
    for (; one.row < all->rows && status == WEFT_OK; one.row += one.rows)
        status = parts_put(boxes, layout, cut, &one, true);
    return status;
}

weft_status weft_cut_boxes(const weft_layout *layout, uint64_t tensor, const weft_cut *cut, weft_box_taker *boxes)
{
    const weft_slice all = weft_slice_whole(layout, tensor);
    const bool vector = layout->entries[tensor].tensor.rank <= 1;
    if (weft_slice_elements(&all) == 0 || cut->kind == WEFT_CUT_ALONE)
        return boxes->put(boxes, &all, 0);
    if (cut->kind == WEFT_CUT_MIDDLE)
        return middle_put(boxes, layout, cut, &all);
    return parts_put(boxes, layout, cut, &all, cut->kind == WEFT_CUT_ROWS && !vector);
}

weft_status weft_cut_block(const weft_cut *cut, const char *name, uint64_t experts, uint32_t *block)
{
    uint64_t number;
    *block = 0;
    if (cut->kind == WEFT_CUT_LAYER && weft_cut_layer_of(name, &number)) {
        const sizes all = {.size = UINT64_MAX, .parts = cut->at_count + !begins_with_zero(cut)};
        while (*block < all.parts && part_begin(cut, &all, *block) <= number)
            ++*block;
    }
    if (cut->kind != WEFT_CUT_EXPERT || !weft_cut_expert_of(name, &number))
        return WEFT_OK;
    if (experts % cut->parts != 0)
        return weft_fail(WEFT_E_LAYOUT, "[cut.%s]: %s is of %llu experts, which %llu equal groups do not fit",
                         cut->name, name, (ull)experts, (ull)cut->parts);
    *block = (uint32_t)(number / (experts / cut->parts)) + 1;
    return WEFT_OK;
}
