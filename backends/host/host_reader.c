/* host_reader.c - a view read in order, fragment by fragment. */
#include "backends/host/host_boxes.h"

/* Bytes that are copied out of boxes at once: they are still in the first cache when they are read, and memory brings
 * the rows to come meanwhile. Where single elements are copied the tile is filled, because lines of memory have
 * elements of many rows. */
#define CHUNK_BYTES (1u << 11)

/* Elements of a run that are copied at once: whole rows where there are any. */
static uint32_t chunk_of(const weft_boxes *boxes, uint64_t tensor, uint64_t element, uint32_t left, uint8_t width)
{
    const weft_box *box = &boxes->box[boxes->first[tensor]];
    const uint64_t bytes = box->side == 1 ? WEFT_HOST_TILE_BYTES : CHUNK_BYTES;
    const uint64_t end = element + bytes / width, rows_end = end / box->all * box->all;
    const uint64_t count = (rows_end > element ? rows_end : end) - element;
    return count < left ? (uint32_t)count : left;
}

/* Looks at a run once, so that its chunks are copied without a search for their rows. */
static void run_begin(weft_host_reader *reader)
{
    const weft_boxes *boxes = reader->view->boxes;
    reader->box = NULL;
    if (reader->run->data)
        return;
    const weft_box *box = weft_host_boxes_pitched(boxes, reader->run->tensor);
    const uint64_t bytes = box ? box->all * reader->view->width : 0;
    if (!box || bytes > CHUNK_BYTES)
        return;
    reader->box = box;
    reader->rows = (uint32_t)(CHUNK_BYTES / bytes);
    reader->count = reader->rows * (uint32_t)box->all;
    reader->next = UINT64_MAX;
}

/* Copies the next chunk of whole rows. False: a row is begun, or too few are left. */
static bool rows_read(weft_host_reader *reader, uint64_t element, uint32_t left)
{
    if (!reader->box || left < reader->count)
        return false;
    if (element != reader->next) {
        if (element % reader->box->all)
            return false;
        reader->row = element / reader->box->all;
    }
    weft_host_rows_load(reader->kernels, reader->box, reader->row, reader->rows, reader->view->width, reader->tile);
    reader->row += reader->rows;
    reader->next = element + reader->count;
    reader->data = reader->tile;
    reader->end = reader->begin + reader->count;
    return true;
}

/* Copies what comes next of a run that lies in boxes. */
static void boxes_read(weft_host_reader *reader, uint32_t from, uint32_t left)
{
    const weft_view *view = reader->view;
    const weft_run *run = reader->run;
    const uint64_t element = run->element + from;
    if (rows_read(reader, element, left))
        return;
    const uint32_t count = chunk_of(view->boxes, run->tensor, element, left, view->width);
    const weft_host_range range = {run->tensor, element, count, view->width};
    weft_host_boxes_load(reader->kernels, view->boxes, &range, reader->tile);
    reader->data = reader->tile;
    reader->end = reader->begin + count;
}

bool weft_host_reader_next(weft_host_reader *reader)
{
    const weft_view *view = reader->view;
    if (reader->end >= view->count)
        return false;
    if (!reader->run || reader->end - weft_run_position(view, reader->run) == reader->run->count) {
        reader->run = reader->run ? reader->run + 1 : view->runs;
        run_begin(reader);
    }
    const uint32_t first = weft_run_position(view, reader->run);
    reader->begin = reader->end;
    if (!reader->run->data) {
        boxes_read(reader, reader->begin - first, reader->run->count - (reader->begin - first));
        return true;
    }
    reader->data = reader->run->data;
    reader->end = first + reader->run->count;
    return true;
}
