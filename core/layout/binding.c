/* binding.c - a layout bound to memory: pieces checked, then cut at unit borders into runs. */
#include "layout/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/box.h"
#include "layout/coded_piece.h"
#include "layout/part.h"

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

static int coded_order(const void *left, const void *right)
{
    const weft_coded_piece *a = left, *b = right;
    if (a->tensor != b->tensor)
        return a->tensor < b->tensor ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Checks the pieces, and keeps those that hold elements in order of tensor and element. */
static weft_status coded_take(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                              weft_coded_piece *coded, uint64_t *coded_count)
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
        coded[used++] = (weft_coded_piece){pieces[i].tensor, pieces[i].first * row->bits / unit_bits,
                                           pieces[i].count * row->bits / unit_bits, pieces[i].data};
    }
    qsort(coded, used, sizeof *coded, coded_order);
    *coded_count = used;
    return WEFT_OK;
}

/* Converts to elements of the dtype, for messages. */
static unsigned long long elements_of(const weft_layout_entry *entry, uint64_t coded)
{
    return (unsigned long long)(coded * 8 * entry->row->width / entry->row->bits);
}

/* Checks that every tensor is covered exactly: each piece begins where the piece before it ends. */
static weft_status coded_cover(const weft_layout *layout, const weft_coded_piece *coded, uint64_t count)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        uint64_t covered = 0;
        for (; at < count && coded[at].tensor == t && coded[at].first == covered; at++)
            covered += coded[at].count;
        bool more = at < count && coded[at].tensor == t;
        if (more && coded[at].first < covered)
            return weft_fail(WEFT_E_LAYOUT, "tensor %s: pieces overlap at element %llu", entry->tensor.name,
                             elements_of(entry, coded[at].first));
        if (covered != entry->coded)
            return weft_fail(WEFT_E_LAYOUT, "tensor %s: no piece holds its elements %llu to %llu", entry->tensor.name,
                             elements_of(entry, covered),
                             elements_of(entry, more ? coded[at].first : entry->coded) - 1);
    }
    return WEFT_OK;
}

/* Joins neighbours that follow each other in memory too. */
static void coded_join(const weft_layout *layout, weft_coded_piece *coded, uint64_t count)
{
    uint64_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        weft_coded_piece *last = used > 0 ? &coded[used - 1] : NULL;
        uint64_t width = layout->entries[coded[i].tensor].row->width;
        if (last && last->tensor == coded[i].tensor && last->data + last->count * width == coded[i].data)
            last->count += coded[i].count;
        else
            coded[used++] = coded[i];
    }
}

/* Cuts pieces at the borders of units. One pass suffices, because units and pieces both follow the layout's order.
 * Without binding->runs the pass only counts. */
static uint64_t runs_cut(weft_binding *binding, const weft_coded_piece *coded)
{
    const weft_layout *layout = binding->layout;
    uint64_t runs = 0, used = 0; /* elements used of *coded */
    uint32_t begin = 0;          /* position of the unit in its stretch */
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        const weft_unit *unit = &layout->units[u];
        uint64_t part = weft_part_of_unit(layout, u);
        if (unit->place == 0)
            begin = 0;
        if (binding->runs)
            binding->first_run[u] = runs;
        for (uint32_t position = 0; position < unit->count; runs++) {
            uint64_t left = coded->count - used;
            uint32_t room = unit->count - position;
            uint32_t count = left < room ? (uint32_t)left : room;
            if (binding->runs)
                binding->runs[runs] = (weft_run){.data = coded->data ? coded->data + used * unit->width : NULL,
                                                 .tensor = coded->tensor,
                                                 .element = coded->first + used,
                                                 .position = begin + position,
                                                 .count = count,
                                                 .part = part + coded->tensor - unit->tensor};
            position += count;
            used += count;
            if (used == coded->count) {
                coded++;
                used = 0;
            }
        }
        begin += unit->count;
    }
    return runs;
}

static weft_mem_list memory_of(weft_binding *binding, uint64_t units, uint64_t runs)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(binding->first_run, units + 1), WEFT_MEM_TAKEN(binding->runs, runs + 1)}};
}

uint64_t weft_binding_need(const weft_layout *layout)
{
    return weft_mem_list_bytes(memory_of(&(weft_binding){0}, layout->unit_count, layout->unit_count + layout->count));
}

weft_status weft_binding_fill(weft_binding *binding, weft_coded_piece *coded, uint64_t count)
{
    uint64_t units = binding->layout->unit_count;
    coded_join(binding->layout, coded, count);
    binding->run_count = runs_cut(binding, coded);
    weft_status status = weft_mem_list_take(memory_of(binding, units, binding->run_count), "for a binding");
    if (status == WEFT_OK)
        binding->first_run[units] = runs_cut(binding, coded);
    return status;
}

weft_status weft_binding_open(weft_layout *layout, const weft_piece *pieces, uint64_t count, weft_binding *binding)
{
    weft_binding made = {.layout = layout};
    uint64_t used = 0;
    weft_coded_piece *coded = count < UINT64_MAX ? weft_mem_take(count + 1, sizeof *coded) : NULL;
    if (!coded)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (unsigned long long)count);
    weft_status status = coded_take(layout, pieces, count, coded, &used);
    if (status == WEFT_OK)
        status = coded_cover(layout, coded, used);
    if (status == WEFT_OK)
        status = weft_binding_fill(&made, coded, used);
    weft_mem_give(coded);
    if (status == WEFT_OK)
        *binding = made;
    return status;
}

static weft_status pieces_take(const weft_layout *layout, weft_piece **pieces)
{
    *pieces = weft_mem_take(layout->count + 1, sizeof **pieces);
    if (!*pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (unsigned long long)layout->count);
    for (uint64_t t = 0; t < layout->count; t++)
        (*pieces)[t] = (weft_piece){.tensor = t, .count = layout->entries[t].elements};
    return WEFT_OK;
}

static weft_status pieces_bind(weft_layout *layout, weft_piece *pieces, weft_binding *binding)
{
    weft_status status = weft_binding_open(layout, pieces, layout->count, binding);
    weft_mem_give(pieces);
    return status;
}

weft_status weft_binding_open_image(weft_layout *layout, void *image, weft_binding *binding)
{
    weft_piece *pieces;
    weft_status status = pieces_take(layout, &pieces);
    if (status != WEFT_OK)
        return status;
    for (uint64_t t = 0; t < layout->count; t++)
        pieces[t].data = (uint8_t *)image + layout->entries[t].offset;
    return pieces_bind(layout, pieces, binding);
}

/* Places the tensors of a spaced image (pieces NULL: nowhere) and returns the bytes up to its end. */
static uint64_t place_spaced(const weft_layout *layout, uint8_t *image, weft_piece *pieces)
{
    uint64_t next = 0;
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        const weft_unit *unit = &layout->units[u];
        if (unit->first != 0) /* a tile that goes on in its tensor */
            continue;
        next = (next + WEFT_SPACED_ALIGN - 1) / WEFT_SPACED_ALIGN * WEFT_SPACED_ALIGN;
        for (uint64_t t = unit->tensor; t < unit->tensor + unit->tensor_count; t++) {
            if (pieces)
                pieces[t].data = image + next;
            next += layout->entries[t].bytes;
        }
    }
    return next;
}

weft_status weft_binding_open_spaced(weft_layout *layout, void *image, weft_binding *binding)
{
    weft_piece *pieces;
    weft_status status = pieces_take(layout, &pieces);
    if (status != WEFT_OK)
        return status;
    for (uint64_t t = 0; t < layout->count; t++)
        pieces[t].data = image; /* of what is empty */
    place_spaced(layout, image, pieces);
    return pieces_bind(layout, pieces, binding);
}

uint64_t weft_binding_spaced_bytes(const weft_layout *layout)
{
    if (layout->unit_count > (UINT64_MAX - layout->bytes) / WEFT_SPACED_ALIGN)
        return UINT64_MAX;
    return place_spaced(layout, NULL, NULL);
}

weft_status weft_binding_copy(const weft_binding *binding, weft_binding *copy)
{
    const uint64_t units = binding->layout->unit_count;
    *copy = (weft_binding){.layout = binding->layout, .run_count = binding->run_count};
    weft_status status = weft_mem_list_take(memory_of(copy, units, copy->run_count), "for a binding");
    if (status != WEFT_OK)
        return status;
    memcpy(copy->runs, binding->runs, copy->run_count * sizeof *copy->runs);
    memcpy(copy->first_run, binding->first_run, (units + 1) * sizeof *copy->first_run);
    return WEFT_OK;
}

void weft_binding_close(weft_binding *binding)
{
    weft_boxes_free(binding->boxes);
    weft_mem_list_give(memory_of(binding, 0, 0));
    *binding = (weft_binding){0};
}

weft_view weft_binding_view(const weft_binding *binding, uint64_t unit)
{
    return weft_binding_span(binding, unit, 1);
}

/* Returns the boxes if a run of these units lies in them. */
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
