#include "layout/part.h"

#include <stdio.h>
#include <string.h>

#define NAME_KEPT  60u /* bytes of a tensor's name; its end tells more than its beginning */
#define LABEL_TEXT 86u /* "tensor ...", a name, " tile " and a number below 2^24 */

uint64_t weft_part_count(const weft_layout *layout, uint64_t tensor)
{
    uint64_t end = tensor + 1 < layout->count ? layout->entries[tensor + 1].part : layout->part_count;
    return end - layout->entries[tensor].part;
}

uint64_t weft_part_tensor(const weft_layout *layout, uint64_t part)
{
    uint64_t low = 0, high = layout->count - 1;
    while (low < high) { /* the last tensor whose parts begin at or before `part` */
        uint64_t middle = high - (high - low) / 2;
        if (layout->entries[middle].part <= part)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

uint64_t weft_part_of_unit(const weft_layout *layout, uint64_t unit)
{
    const weft_unit *u = &layout->units[unit];
    return layout->entries[u->tensor].part + u->first / weft_tile_elements(u->width);
}

/* Converts to elements of the dtype. A coded word may hold a part of an element, or several elements. */
static unsigned long long element_at(const weft_layout_entry *entry, uint64_t coded, uint64_t less)
{
    return (unsigned long long)((coded * 8 * entry->row->width - less) / entry->row->bits);
}

/* Writes "tensor a tile 2" and returns the length. */
static size_t label(const weft_layout *layout, uint64_t part, char text[LABEL_TEXT])
{
    const weft_layout_entry *entry = &layout->entries[weft_part_tensor(layout, part)];
    const char *name = entry->tensor.name;
    size_t length = strlen(name);
    bool whole = length <= NAME_KEPT;
    int written = snprintf(text, LABEL_TEXT, "tensor %s%s tile %u", whole ? "" : "...",
                           whole ? name : name + length - NAME_KEPT, (unsigned)(part - entry->part));
    return written < 0 ? 0 : (size_t)written;
}

void weft_part_name(const weft_layout *layout, uint64_t part, char text[WEFT_PART_TEXT])
{
    uint64_t tensor = weft_part_tensor(layout, part);
    const weft_layout_entry *entry = &layout->entries[tensor];
    uint64_t tile = part - entry->part, step = weft_tile_elements(entry->row->width), first = tile * step;
    uint64_t left = entry->coded - first, end = first + (left < step ? left : step);
    size_t written = label(layout, part, text);
    if (end > first)
        snprintf(text + written, WEFT_PART_TEXT - written, ", elements %llu..%llu", element_at(entry, first, 0),
                 element_at(entry, end, 1));
}

void weft_part_name_range(const weft_layout *layout, uint64_t first, uint64_t last, char text[WEFT_PART_TEXT])
{
    char end[LABEL_TEXT];
    if (first == last) {
        weft_part_name(layout, first, text);
        return;
    }
    size_t written = label(layout, first, text);
    label(layout, last, end);
    snprintf(text + written, WEFT_PART_TEXT - written, " to %s", end);
}

uint64_t weft_part_differs(const weft_layout *layout, uint64_t first, uint64_t count, const uint64_t *a,
                           const uint64_t *b, char text[WEFT_PART_TEXT])
{
    uint64_t tensors = 0, last = UINT64_MAX;
    text[0] = 0;
    for (uint64_t part = first; part < first + count; part++) {
        if (a[part] == b[part])
            continue;
        uint64_t tensor = weft_part_tensor(layout, part);
        if (tensors == 0)
            weft_part_name(layout, part, text);
        tensors += tensor != last;
        last = tensor;
    }
    return tensors;
}
