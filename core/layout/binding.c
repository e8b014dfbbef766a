/* binding.c - a layout bound to memory: pieces checked, then cut at unit borders into runs. */
#include "layout/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/box.h"
#include "layout/part.h"
#include "layout/stretch.h"

static weft_status piece_check(const weft_layout *layout, const weft_piece *piece, uint64_t number)
{
    if (piece->tensor >= layout->count)
        return weft_fail(WEFT_E_LAYOUT, "piece %llu names tensor %llu of a layout of %llu", (unsigned long long)number,
                         (unsigned long long)piece->tensor, (unsigned long long)layout->count);
    const weft_layout_entry *entry = &layout->entries[piece->tensor];
    const char *name = entry->tensor.name;
    if (piece->first > entry->elements || piece->count > entry->elements - piece->first)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s has %llu elements; a piece has %llu from %llu on", name,
                         (unsigned long long)entry->elements, (unsigned long long)piece->count,
                         (unsigned long long)piece->first);
    if (piece->first * entry->row->bits % 8 != 0 || piece->count * entry->row->bits % 8 != 0)
        return weft_fail(WEFT_E_LAYOUT,
                         "tensor %s: a piece of %llu elements of %s from %llu on does not fill whole bytes", name,
                         (unsigned long long)piece->count, entry->row->name, (unsigned long long)piece->first);
    if (piece->count > 0 && !piece->data)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: the piece from %llu on has no memory", name,
                         (unsigned long long)piece->first);
    if (piece->count > 0 && (uintptr_t)piece->data % entry->row->width != 0)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: the piece from %llu on lies at %p, not aligned to %u bytes", name,
                         (unsigned long long)piece->first, piece->data, entry->row->width);
    if (piece->count * entry->row->bits / 8 > UINTPTR_MAX - (uintptr_t)piece->data)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: the piece from %llu on runs past the end of memory", name,
                         (unsigned long long)piece->first);
    return WEFT_OK;
}

static int stretch_order(const void *left, const void *right)
{
    const weft_stretch *a = left, *b = right;
    if (a->tensor != b->tensor)
        return a->tensor < b->tensor ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Pieces that hold elements, checked, as stretches in order of tensor and element. */
static weft_status stretches_take(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                                  weft_stretch *stretches, uint64_t *stretch_count)
{
    uint64_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        weft_status status = piece_check(layout, &pieces[i], i);
        if (status != WEFT_OK)
            return status;
        if (pieces[i].count == 0)
            continue;
        const weft_dtype_row *row = layout->entries[pieces[i].tensor].row;
        uint64_t unit_bits = 8 * (uint64_t)row->width;
        stretches[used++] = (weft_stretch){pieces[i].tensor, pieces[i].first * row->bits / unit_bits,
                                           pieces[i].count * row->bits / unit_bits, pieces[i].data};
    }
    qsort(stretches, used, sizeof *stretches, stretch_order);
    *stretch_count = used;
    return WEFT_OK;
}

/* In elements of the dtype, for messages. */
static unsigned long long elements_of(const weft_layout_entry *entry, uint64_t coded)
{
    return (unsigned long long)(coded * 8 * entry->row->width / entry->row->bits);
}

/* Every tensor is covered exactly: each stretch begins where the one before it ends. */
static weft_status stretches_cover(const weft_layout *layout, const weft_stretch *stretches, uint64_t count)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        uint64_t covered = 0;
        for (; at < count && stretches[at].tensor == t && stretches[at].first == covered; at++)
            covered += stretches[at].count;
        bool more = at < count && stretches[at].tensor == t;
        if (more && stretches[at].first < covered)
            return weft_fail(WEFT_E_LAYOUT, "tensor %s: pieces overlap at element %llu", entry->tensor.name,
                             elements_of(entry, stretches[at].first));
        if (covered != entry->coded)
            return weft_fail(WEFT_E_LAYOUT, "tensor %s: no piece holds its elements %llu to %llu", entry->tensor.name,
                             elements_of(entry, covered),
                             elements_of(entry, more ? stretches[at].first : entry->coded) - 1);
    }
    return WEFT_OK;
}

/* Joins neighbours that lie one behind the other in memory too. */
static void stretches_join(const weft_layout *layout, weft_stretch *stretches, uint64_t count)
{
    uint64_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        weft_stretch *last = used > 0 ? &stretches[used - 1] : NULL;
        uint64_t width = layout->entries[stretches[i].tensor].row->width;
        if (last && last->tensor == stretches[i].tensor && last->data + last->count * width == stretches[i].data)
            last->count += stretches[i].count;
        else
            stretches[used++] = stretches[i];
    }
}

/* Cuts stretches at unit borders. Units and stretches both go through the coded elements in layout order, so that one
 * pass suffices. Without binding->runs it only counts. */
static uint64_t runs_cut(weft_binding *binding, const weft_stretch *stretches)
{
    const weft_layout *layout = binding->layout;
    uint64_t runs = 0, used = 0; /* elements used of *stretches */
    uint32_t begin = 0;          /* of the unit, in its stretch of units */
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        const weft_unit *unit = &layout->units[u];
        uint64_t part = weft_part_of_unit(layout, u);
        if (unit->place == 0)
            begin = 0;
        if (binding->runs)
            binding->first_run[u] = runs;
        for (uint32_t position = 0; position < unit->count; runs++) {
            uint64_t left = stretches->count - used;
            uint32_t room = unit->count - position;
            uint32_t count = left < room ? (uint32_t)left : room;
            if (binding->runs)
                binding->runs[runs] = (weft_run){.data = stretches->data ? stretches->data + used * unit->width : NULL,
                                                 .tensor = stretches->tensor,
                                                 .element = stretches->first + used,
                                                 .position = begin + position,
                                                 .count = count,
                                                 .part = part + stretches->tensor - unit->tensor};
            position += count;
            used += count;
            if (used == stretches->count) {
                stretches++;
                used = 0;
            }
        }
        begin += unit->count;
    }
    return runs;
}

weft_status weft_binding_fill(weft_binding *binding, weft_stretch *stretches, uint64_t count)
{
    uint64_t units = binding->layout->unit_count;
    stretches_join(binding->layout, stretches, count);
    binding->run_count = runs_cut(binding, stretches);
    binding->first_run = weft_mem_take(units + 1, sizeof *binding->first_run);
    binding->runs = weft_mem_take(binding->run_count + 1, sizeof *binding->runs);
    if (!binding->first_run || !binding->runs) {
        weft_binding_close(binding);
        return weft_fail(WEFT_E_MEMORY, "no memory for a binding of %llu runs", (unsigned long long)binding->run_count);
    }
    binding->first_run[units] = runs_cut(binding, stretches);
    return WEFT_OK;
}

weft_status weft_binding_open(weft_layout *layout, const weft_piece *pieces, uint64_t count, weft_binding *binding)
{
    weft_binding made = {.layout = layout};
    uint64_t used = 0;
    weft_stretch *stretches = count < UINT64_MAX ? weft_mem_take(count + 1, sizeof *stretches) : NULL;
    if (!stretches)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (unsigned long long)count);
    weft_status status = stretches_take(layout, pieces, count, stretches, &used);
    if (status == WEFT_OK)
        status = stretches_cover(layout, stretches, used);
    if (status == WEFT_OK)
        status = weft_binding_fill(&made, stretches, used);
    weft_mem_give(stretches);
    if (status == WEFT_OK)
        *binding = made;
    return status;
}

weft_status weft_binding_open_image(weft_layout *layout, void *image, weft_binding *binding)
{
    weft_piece *pieces = weft_mem_take(layout->count + 1, sizeof *pieces);
    if (!pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (unsigned long long)layout->count);
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        pieces[t] = (weft_piece){t, 0, entry->elements, (uint8_t *)image + entry->offset};
    }
    weft_status status = weft_binding_open(layout, pieces, layout->count, binding);
    weft_mem_give(pieces);
    return status;
}

void weft_binding_close(weft_binding *binding)
{
    weft_boxes_free(binding->boxes);
    weft_mem_give(binding->runs);
    weft_mem_give(binding->first_run);
    *binding = (weft_binding){0};
}

weft_view weft_binding_view(const weft_binding *binding, uint64_t unit)
{
    return weft_binding_span(binding, unit, 1);
}

/* The boxes, if a run of these units lies in them. */
static const weft_boxes *boxes_of(const weft_binding *binding, uint64_t unit, uint32_t units)
{
    const weft_unit *first = &binding->layout->units[unit], *last = first + units - 1;
    const weft_boxes *boxes = binding->boxes;
    return boxes && boxes->first[last->tensor + last->tensor_count] > boxes->first[first->tensor] ? boxes : NULL;
}

weft_view weft_binding_span(const weft_binding *binding, uint64_t unit, uint32_t units)
{
    const weft_unit *grid = &binding->layout->units[unit];
    uint64_t first = binding->first_run[unit];
    return (weft_view){.runs = binding->runs + first,
                       .boxes = boxes_of(binding, unit, units),
                       .run_count = (uint32_t)(binding->first_run[unit + units] - first),
                       .count = weft_layout_count_units(binding->layout, unit, units),
                       .first = binding->runs[first].position,
                       .unit = (uint32_t)unit,
                       .units = units,
                       .width = grid->width,
                       .is_float = grid->is_float,
                       .exponent_bits = grid->exponent_bits};
}
