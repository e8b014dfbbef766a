#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include "bucket/bucket.h"

#include <xxhash.h>

weft_cursor weft_cursor_begin(const weft_chain *chain)
{
    return (weft_cursor){chain->first, chain->first_frame, chain->first_offset, chain->last, chain->last_frames};
}

void weft_cursor_reach(weft_cursor *cursor, const weft_chain *chain)
{
    if (cursor->block == WEFT_NO_BLOCK)
        *cursor = weft_cursor_begin(chain);
    cursor->last = chain->last;
    cursor->last_frames = chain->last_frames;
}

static uint32_t frames_of(const weft_arena *arena, const weft_cursor *cursor)
{
    return cursor->block == cursor->last ? cursor->last_frames : arena->blocks[cursor->block].frames;
}

/* Steps over blocks that have no further frame. Of the last block nothing is read but its frames: others may append. */
static weft_cursor settle(const weft_arena *arena, weft_cursor cursor)
{
    while (cursor.block != WEFT_NO_BLOCK && cursor.frame == frames_of(arena, &cursor)) {
        cursor.block = cursor.block == cursor.last ? WEFT_NO_BLOCK : arena->blocks[cursor.block].next;
        cursor.frame = cursor.offset = 0;
    }
    return cursor;
}

bool weft_cursor_done(const weft_arena *arena, const weft_cursor *cursor, uint64_t unit_limit)
{
    weft_cursor at = settle(arena, *cursor);
    return at.block == WEFT_NO_BLOCK || weft_arena_index(arena, at.block, at.frame)->unit >= unit_limit;
}

weft_cursor weft_cursor_seek(const weft_arena *arena, const weft_chain *chain, uint64_t unit)
{
    return weft_cursor_seek_on(arena, weft_cursor_begin(chain), unit);
}

weft_cursor weft_cursor_seek_on(const weft_arena *arena, weft_cursor cursor, uint64_t unit)
{
    weft_cursor at = settle(arena, cursor);
    while (at.block != WEFT_NO_BLOCK) {
        uint32_t frames = frames_of(arena, &at);
        if (weft_arena_index(arena, at.block, frames - 1)->unit >= unit)
            break; /* in this block */
        at.frame = frames;
        at = settle(arena, at);
    }
    while (at.block != WEFT_NO_BLOCK && weft_arena_index(arena, at.block, at.frame)->unit < unit)
        at.offset += weft_arena_index(arena, at.block, at.frame++)->bytes;
    return at;
}

bool weft_cursor_unit(const weft_arena *arena, const weft_cursor *cursor, uint64_t limit, uint64_t *unit)
{
    if (weft_cursor_done(arena, cursor, limit))
        return false;
    const weft_cursor at = settle(arena, *cursor);
    *unit = weft_arena_index(arena, at.block, at.frame)->unit;
    return true;
}

void weft_cursor_header(const weft_arena *arena, const weft_cursor *cursor, weft_frame_header *header)
{
    const weft_cursor at = settle(arena, *cursor);
    weft_frame_read_header(weft_arena_block(arena, at.block) + at.offset, header);
}

void weft_cursor_skip(const weft_arena *arena, weft_cursor *cursor, uint64_t unit)
{
    while (!weft_cursor_done(arena, cursor, unit)) {
        *cursor = settle(arena, *cursor);
        const uint32_t frames = frames_of(arena, cursor);
        if (cursor->block != cursor->last && weft_arena_index(arena, cursor->block, frames - 1)->unit < unit)
            cursor->frame = frames;
        else
            cursor->offset += weft_arena_index(arena, cursor->block, cursor->frame++)->bytes;
    }
}

const uint8_t *weft_cursor_next(const weft_arena *arena, weft_cursor *cursor, uint32_t *bytes)
{
    *cursor = settle(arena, *cursor);
    if (cursor->block == WEFT_NO_BLOCK)
        return NULL;
    const uint8_t *frame = weft_arena_block(arena, cursor->block) + cursor->offset;
    *bytes = weft_arena_index(arena, cursor->block, cursor->frame++)->bytes;
    cursor->offset += *bytes;
    return frame;
}

uint32_t weft_cursor_take(const weft_arena *arena, weft_cursor *cursor, uint64_t unit_limit, uint8_t *frame)
{
    uint32_t bytes = 0;
    const uint8_t *there = weft_cursor_done(arena, cursor, unit_limit) ? NULL : weft_cursor_next(arena, cursor, &bytes);
    if (there)
        memcpy(frame, there, bytes);
    return bytes;
}

static uint64_t chunks_of(uint64_t bytes, uint64_t chunk_bytes)
{
    return (bytes + chunk_bytes - 1) / chunk_bytes;
}

/* Adds a frame after the last extent, or as a new one; false if the bucket has no room for it. The first frame always
 * fits: a slot holds the largest. */
static bool add(weft_bucket *bucket, const uint8_t *frame, uint32_t bytes, uint64_t target_bytes, uint64_t chunk_bytes)
{
    weft_wire_bucket *header = &bucket->header;
    weft_extent *last = bucket->extent_count ? &bucket->extents[bucket->extent_count - 1] : NULL;
    bool joins = last && last->data + last->bytes == frame;
    uint64_t before = joins ? last->bytes : 0;
    uint64_t chunks = header->chunks - chunks_of(before, chunk_bytes) + chunks_of(before + bytes, chunk_bytes);
    if (!joins && bucket->extent_count == WEFT_BUCKET_EXTENTS)
        return false;
    if (header->frames && (header->payload_bytes + bytes > target_bytes || chunks > WEFT_CHUNKS_MAX))
        return false;
    if (joins)
        last->bytes += bytes;
    else
        bucket->extents[bucket->extent_count++] = (weft_extent){frame, bytes};
    header->payload_bytes += bytes;
    header->chunks = (uint32_t)chunks;
    header->frames++;
    return true;
}

void weft_bucket_plan(const weft_arena *arena, weft_cursor *cursor, uint64_t unit_limit, uint64_t target_bytes,
                      uint64_t chunk_bytes, weft_bucket *bucket)
{
    XXH3_state_t checks;
    XXH3_64bits_reset(&checks);
    bucket->extent_count = 0;
    bucket->header.frames = bucket->header.chunks = 0;
    bucket->header.payload_bytes = 0;
    while (!weft_cursor_done(arena, cursor, unit_limit)) {
        *cursor = settle(arena, *cursor);
        const weft_index_entry *entry = weft_arena_index(arena, cursor->block, cursor->frame);
        uint8_t check[8];
        if (!add(bucket, weft_arena_block(arena, cursor->block) + cursor->offset, entry->bytes, target_bytes,
                 chunk_bytes))
            break;
        weft_bytes_put(check, entry->check, 8);
        XXH3_64bits_update(&checks, check, sizeof check);
        cursor->frame++;
        cursor->offset += entry->bytes;
    }
    bucket->header.check = XXH3_64bits_digest(&checks);
}

void weft_bucket_wrap(const uint8_t *data, uint64_t bytes, uint32_t frames, uint64_t check, uint64_t chunk_bytes,
                      weft_bucket *bucket)
{
    bucket->extents[0] = (weft_extent){data, bytes};
    bucket->extent_count = 1;
    bucket->header.frames = frames;
    bucket->header.payload_bytes = bytes;
    bucket->header.chunks = (uint32_t)chunks_of(bytes, chunk_bytes);
    bucket->header.check = check;
}
