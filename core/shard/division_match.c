/* division_match.c - two orders of one model: which tensor of one layout is which of the other's. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/status.h"
#include "shard/division.h"

/* A tensor of a division's layout, as a slice of what the caller names. */
typedef struct named_slice {
    weft_slice slice;
    uint64_t number;
} named_slice;

static int slice_order(const void *left, const void *right)
{
    return weft_slice_order(&((const named_slice *)left)->slice, &((const named_slice *)right)->slice);
}

/* Lists the tensors of a layout by the caller's numbers. `back` has room for as many numbers as the model has tensors.
 */
static void list(const weft_division *division, uint64_t *back, named_slice *slices)
{
    uint64_t cells = 0;
    const weft_cell *cell = weft_division_is_cut(division) ? weft_division_cells(division, &cells) : NULL;
    for (uint64_t t = 0; t < division->model->count; t++)
        back[weft_division_number(division, t)] = t;
    for (uint64_t i = 0; i < division->layout->count; i++) {
        slices[i] = (named_slice){cell ? cell[i].slice : weft_slice_whole(division->layout, i), i};
        slices[i].slice.tensor = back[slices[i].slice.tensor];
    }
    qsort(slices, division->layout->count, sizeof *slices, slice_order);
}

weft_status weft_division_match(const weft_division *before, const weft_division *to, uint64_t **from)
{
    const uint64_t count = to->layout->count;
    uint64_t *back = weft_mem_take(to->model->count + 1, sizeof *back), *made = weft_mem_take(count + 1, sizeof *made);
    named_slice *old = weft_mem_take(before->layout->count + 1, sizeof *old),
                *new = weft_mem_take(count + 1, sizeof *new);
    bool same = before->layout->count == count && before->model->count == to->model->count;
    const bool memory = back && made && old && new;
    if (memory && same) {
        list(before, back, old);
        list(to, back, new);
    }
    for (uint64_t i = 0; memory && same && i < count; i++) {
        same = slice_order(&old[i], &new[i]) == 0;
        made[new[i].number] = old[i].number;
    }
    weft_mem_give(new);
    weft_mem_give(old);
    weft_mem_give(back);
    if (memory && same) {
        *from = made;
        return WEFT_OK;
    }
    weft_mem_give(made);
    return memory ? weft_fail(WEFT_E_LAYOUT, "the trainer's order of tensors parts the model into other cells")
                  : weft_fail(WEFT_E_MEMORY, "no memory to match %llu tensors", (unsigned long long)count);
}
