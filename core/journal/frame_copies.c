#include "journal/frame_copies.h"

#include <string.h>

#include "base/mem.h"

#define COPIES_MOST 512u
/* Bytes that a lane copies in one go: fewer take less time than a lane needs to wake. */
#define STRETCH_BYTES (256u << 10)

static weft_mem_list memory_of(weft_frame_copies *copies)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(copies->list, COPIES_MOST)}};
}

static uint32_t lanes_of(uint32_t lanes)
{
    return lanes < WEFT_FRAME_COPIES_LANES ? lanes : WEFT_FRAME_COPIES_LANES;
}

uint64_t weft_frame_copies_need(uint32_t lanes)
{
    return lanes ? weft_mem_list_bytes(memory_of(&(weft_frame_copies){0})) + weft_lanes_need(lanes_of(lanes)) : 0;
}

weft_status weft_frame_copies_open(weft_frame_copies *copies, uint32_t lanes)
{
    *copies = (weft_frame_copies){0};
    if (lanes == 0)
        return WEFT_OK;
    weft_status status = weft_lanes_open(&copies->lanes, lanes_of(lanes));
    return status == WEFT_OK ? weft_mem_list_take(memory_of(copies), "for copies of frames") : status;
}

void weft_frame_copies_close(weft_frame_copies *copies)
{
    weft_lanes_close(&copies->lanes);
    weft_mem_list_give(memory_of(copies));
    copies->list = NULL;
}

static void frame_copy(const weft_frame_copy *copy)
{
    memcpy(copy->to, copy->from, copy->entry->bytes);
    copy->entry->check = weft_frame_check(copy->to, copy->entry->bytes);
}

static uint64_t stretch_end(void *user, uint64_t from)
{
    const weft_frame_copies *copies = user;
    uint64_t bytes = 0;
    while (from < copies->count && bytes < STRETCH_BYTES)
        bytes += copies->list[from++].entry->bytes;
    return from;
}

static weft_status stretch_copy(void *user, const weft_lane_turn *turn)
{
    const weft_frame_copies *copies = user;
    for (uint64_t i = turn->from; i < turn->end; i++)
        frame_copy(&copies->list[i]);
    return WEFT_OK;
}

void weft_frame_copies_end(weft_frame_copies *copies)
{
    const weft_lane_work work = {.count = copies->count, .stretch = stretch_end, .work = stretch_copy, .user = copies};
    weft_lanes_run(&copies->lanes, &work); /* cannot fail, because no copy does */
    copies->count = 0;
}

void weft_frame_copies_add(weft_frame_copies *copies, const uint8_t *from, uint8_t *to, weft_index_entry *entry)
{
    const weft_frame_copy copy = {from, to, entry};
    if (!copies->list) {
        frame_copy(&copy);
        return;
    }
    copies->list[copies->count++] = copy;
    if (copies->count == COPIES_MOST)
        weft_frame_copies_end(copies);
}
