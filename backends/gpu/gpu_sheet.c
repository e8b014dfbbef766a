/* gpu_sheet.c - rows for a batch. */
#include "backends/gpu/gpu_sheet.h"

#include <string.h>

weft_gpu_sheet weft_gpu_sheet_open(weft_gpu_slab *slab, uint64_t bytes, bool mirrored)
{
    weft_gpu_sheet sheet = {.address = weft_gpu_take_device(slab, bytes), .bytes = bytes};
    if (mirrored)
        sheet.host = weft_gpu_take_pinned(slab, bytes, &sheet.pinned);
    return sheet;
}

uint64_t weft_gpu_sheet_take(weft_gpu_sheet *sheet, uint64_t bytes, void **row)
{
    uint64_t at = sheet->used;
    sheet->used += weft_gpu_row_bytes(bytes);
    if (row)
        *row = sheet->host + at;
    return sheet->address + at;
}

weft_gpu_sheet weft_gpu_sheet_stretch(weft_gpu_sheet *sheet, uint64_t bytes)
{
    const uint64_t at = sheet->used, whole = weft_gpu_row_bytes(bytes);
    sheet->used += whole;
    return (weft_gpu_sheet){
        .host = sheet->host + at, .pinned = sheet->pinned + at, .address = sheet->address + at, .bytes = whole};
}

weft_gpu_sheet weft_gpu_sheet_part(weft_gpu_sheet *sheet, uint64_t bytes)
{
    weft_gpu_sheet part = weft_gpu_sheet_stretch(sheet, bytes);
    memset(part.host, 0, part.bytes);
    return part;
}

weft_status weft_gpu_sheet_send(weft_gpu *gpu, weft_gpu_slab *slab, const weft_gpu_sheet *sheet)
{
    return weft_gpu_copy(gpu, slab, sheet->address, sheet->pinned, sheet->used);
}

weft_status weft_gpu_sheet_fetch(weft_gpu *gpu, weft_gpu_slab *slab, const weft_gpu_sheet *sheet)
{
    return weft_gpu_copy(gpu, slab, sheet->pinned, sheet->address, sheet->used);
}

uint64_t weft_gpu_view_bytes(const weft_view *view)
{
    return weft_gpu_row_bytes(view->run_count * sizeof(weft_k_run));
}

weft_k_view weft_gpu_view_put(weft_gpu_sheet *sheet, const weft_view *view)
{
    void *rows;
    weft_k_view made = {.count = view->count, .width = view->width, .is_float = view->is_float};
    made.runs = weft_gpu_sheet_take(sheet, view->run_count * sizeof(weft_k_run), &rows);
    weft_k_run *row = rows;
    for (uint32_t r = 0; r < view->run_count; r++) {
        const weft_run *run = &view->runs[r];
        if (run->count > 0)
            row[made.run_count++] = (weft_k_run){.data = weft_gpu_place_of(view, run).data,
                                                 .element = run->element,
                                                 .position = weft_run_position(view, run),
                                                 .count = run->count};
    }
    return made;
}

uint64_t weft_gpu_copy_bytes(const weft_view *view)
{
    return weft_gpu_row_bytes(sizeof(weft_k_copy)) + weft_gpu_view_bytes(view) +
           (view->boxes ? weft_gpu_row_bytes(view->run_count) : 0);
}

/* Writes how the runs of a view with boxes are cast; the view's row has no empty run. */
static void casts_put(weft_gpu_sheet *sheet, const weft_view *view, weft_k_copy *row)
{
    void *casts;
    if (!view->boxes)
        return;
    row->view.width = WEFT_K_CAST;
    row->casts = weft_gpu_sheet_take(sheet, view->run_count, &casts);
    uint8_t *cast = casts;
    for (uint32_t r = 0; r < view->run_count; r++)
        if (view->runs[r].count > 0)
            *cast++ = weft_gpu_place_of(view, &view->runs[r]).cast;
}

uint64_t weft_gpu_copy_put(weft_gpu_sheet *sheet, const weft_view *view, uint64_t bytes)
{
    void *made;
    const uint64_t address = weft_gpu_sheet_take(sheet, sizeof(weft_k_copy), &made);
    *(weft_k_copy *)made = (weft_k_copy){.view = weft_gpu_view_put(sheet, view), .bytes = bytes};
    casts_put(sheet, view, made);
    return address;
}

void weft_gpu_classes_put(weft_gpu_classes *classes, weft_gpu_sheet *sheet, const weft_parameters *parameters,
                          const weft_view *view)
{
    void *of;
    if (classes->of && classes->parameters == parameters && classes->map.width == view->width &&
        classes->exponent_bits == view->exponent_bits)
        return;
    weft_class_map_make(&classes->map, parameters, view->width, view->exponent_bits);
    classes->parameters = parameters;
    classes->exponent_bits = view->exponent_bits;
    classes->of = weft_gpu_sheet_take(sheet, classes->map.mask + UINT64_C(1), &of);
    memcpy(of, classes->map.of, classes->map.mask + UINT64_C(1));
}

weft_k_part *weft_gpu_parts_put(weft_k_part *row, uint64_t job, uint64_t parts, uint32_t list)
{
    for (uint32_t index = 0; index < parts; index++)
        *row++ = (weft_k_part){.job = job, .index = index, .list = list};
    return row;
}
