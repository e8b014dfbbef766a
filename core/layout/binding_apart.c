/* binding_apart.c - whether the memory of a binding can be written: no address is there twice, and nothing is cast. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/box.h"

typedef unsigned long long ull;

/* A run that names its memory, or a block with strides. */
typedef struct placed {
    uintptr_t low;
    uint64_t span; /* bytes */
    uint64_t tensor;
    const weft_pattern *pattern; /* NULL: every byte of the span */
    const weft_slice *slice;     /* of the block */
} placed;

static uint64_t places_take(const weft_binding *binding, placed *places)
{
    const weft_boxes *boxes = binding->boxes;
    uint64_t count = 0;
    for (uint64_t i = 0; i < binding->run_count; i++) {
        const weft_run *run = &binding->runs[i];
        const uint64_t bytes = (uint64_t)run->count * binding->layout->entries[run->tensor].row->width;
        if (run->data)
            places[count++] = (placed){(uintptr_t)run->data, bytes, run->tensor, NULL, NULL};
    }
    for (uint64_t i = 0; boxes && i < boxes->pattern_count; i++)
        places[count++] = (placed){boxes->pattern[i].low, boxes->pattern[i].span, boxes->slice[i].tensor,
                                   &boxes->pattern[i], &boxes->slice[i]};
    return count;
}

static int placed_order(const void *left, const void *right)
{
    const placed *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

/* Two whose spans meet. */
static bool places_meet(const placed *a, const placed *b)
{
    const weft_pattern a_all = {.low = a->low, .bytes = a->span, .span = a->span},
                       b_all = {.low = b->low, .bytes = b->span, .span = b->span};
    if (!a->pattern && !b->pattern)
        return true;
    return weft_pattern_meets(a->pattern ? a->pattern : &a_all, b->pattern ? b->pattern : &b_all);
}

static weft_status share(const weft_layout *layout, const placed *a, const placed *b)
{
    char first[WEFT_SLICE_TEXT], second[WEFT_SLICE_TEXT];
    const char *a_name = layout->entries[a->tensor].tensor.name, *b_name = layout->entries[b->tensor].tensor.name;
    if (!a->slice && !b->slice)
        return weft_fail(WEFT_E_LAYOUT, "tensors %s and %s share memory at %p: leave all but one out of the layout",
                         a_name, b_name, (void *)b->low);
    const weft_slice a_whole = weft_slice_whole(layout, a->tensor), b_whole = weft_slice_whole(layout, b->tensor);
    weft_slice_name(layout, a->slice ? a->slice : &a_whole, first);
    weft_slice_name(layout, b->slice ? b->slice : &b_whole, second);
    return weft_fail(WEFT_E_LAYOUT, "two blocks that are written share memory: %s, at %p; %s, at %p", first,
                     (void *)a->low, second, (void *)b->low);
}

/* In order of address: nothing meets a place that begins after its last byte. */
static weft_status places_apart(const weft_layout *layout, const placed *places, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t j = i + 1; j < count && places[j].low - places[i].low < places[i].span; j++) {
            if (places_meet(&places[i], &places[j]))
                return share(layout, &places[i], &places[j]);
        }
    }
    return WEFT_OK;
}

/* Values that are rounded on the way out have no way back in. */
static weft_status casts_refuse(const weft_binding *binding)
{
    const weft_boxes *boxes = binding->boxes;
    const weft_layout *layout = binding->layout;
    char name[WEFT_SLICE_TEXT];
    for (uint64_t i = 0; boxes && i < boxes->count; i++) {
        if (!boxes->box[i].cast)
            continue;
        const char *dtype = layout->entries[boxes->slice[i].tensor].row->name;
        weft_slice_name(layout, &boxes->slice[i], name);
        return weft_fail(WEFT_E_ARGUMENT,
                         "%s: memory F32 under a layout of %s is read by trainers alone, and weights are written "
                         "here: bind memory of %s",
                         name, dtype, dtype);
    }
    return WEFT_OK;
}

weft_status weft_binding_apart(const weft_binding *binding)
{
    const uint64_t most = binding->run_count + (binding->boxes ? binding->boxes->pattern_count : 0);
    weft_status status = casts_refuse(binding);
    if (status != WEFT_OK)
        return status;
    placed *places = weft_mem_take(most + 1, sizeof *places);
    if (!places)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu places", (ull)most);
    const uint64_t count = places_take(binding, places);
    qsort(places, count, sizeof *places, placed_order);
    status = places_apart(binding->layout, places, count);
    weft_mem_give(places);
    return status;
}
