/* Cutting chains into buckets: every frame once and in order, within every bound, and no bucket smaller than it must.
 */
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <xxhash.h>

#include "bucket/bucket.h"
#include "tests/support/chains.h"

/* The work of a stream on a chain so far. */
typedef struct stream {
    const weft_arena *arena;
    const weft_chain *chain;
    uint64_t seed;
    uint32_t largest, units_step;
    weft_cursor cursor;
    uint64_t frames; /* sent */
    uint64_t target, chunk, unit_limit;
} stream;

static uint32_t frame_bytes(const stream *s, uint64_t frame)
{
    return chain_frame_bytes(s->seed, frame, s->largest);
}

static uint64_t chunks_of(uint64_t bytes, uint64_t chunk)
{
    return (bytes + chunk - 1) / chunk;
}

/* Extents are the frames' bytes in a row, and each frame is whole in one extent. */
static void extents_are_frames(const stream *s, const weft_bucket *bucket)
{
    uint64_t frame = s->frames, bytes = 0, chunks = 0;
    XXH3_state_t checks;
    XXH3_64bits_reset(&checks);
    for (uint32_t i = 0; i < bucket->extent_count; i++) {
        const weft_extent *extent = &bucket->extents[i];
        assert_true(extent->bytes > 0);
        for (uint64_t at = 0; at < extent->bytes; frame++) {
            uint8_t check[8];
            uint32_t length = frame_bytes(s, frame);
            assert_true(at + length <= extent->bytes);
            assert_int_equal(extent->data[at], chain_byte(s->seed, frame));
            assert_int_equal(extent->data[at + length - 1], chain_byte(s->seed, frame));
            weft_bytes_put(check, weft_frame_check(extent->data + at, length), 8);
            XXH3_64bits_update(&checks, check, sizeof check);
            at += length;
        }
        bytes += extent->bytes;
        chunks += chunks_of(extent->bytes, s->chunk);
    }
    assert_int_equal(frame - s->frames, bucket->header.frames);
    assert_int_equal(bytes, bucket->header.payload_bytes);
    assert_int_equal(chunks, bucket->header.chunks);
    assert_true(XXH3_64bits_digest(&checks) == bucket->header.check);
}

static uint32_t block_of(const weft_arena *arena, const uint8_t *data)
{
    return (uint32_t)((uint64_t)(data - arena->memory) / arena->block_bytes);
}

/* True if one more frame would have fitted. */
static bool had_room(const stream *s, const weft_bucket *bucket)
{
    uint64_t next = s->frames + bucket->header.frames;
    if (next == s->chain->frames || next * s->units_step >= s->unit_limit)
        return false;
    uint32_t length = frame_bytes(s, next), block = s->cursor.block;
    const weft_extent *last = &bucket->extents[bucket->extent_count - 1];
    bool joins = block_of(s->arena, last->data) == block && s->cursor.frame < s->arena->blocks[block].frames;
    uint64_t chunks = joins ? chunks_of(last->bytes + length, s->chunk) - chunks_of(last->bytes, s->chunk)
                            : chunks_of(length, s->chunk);
    return bucket->header.payload_bytes + length <= s->target && bucket->header.chunks + chunks <= WEFT_CHUNKS_MAX &&
           (joins || bucket->extent_count < WEFT_BUCKET_EXTENTS);
}

/* Cuts until the limit; the number of buckets. */
static uint64_t cut_all(stream *s, weft_bucket *bucket)
{
    uint64_t buckets = 0;
    while (!weft_cursor_done(s->arena, &s->cursor, s->unit_limit)) {
        memset(bucket, 0xee, sizeof *bucket); /* leftovers of another bucket mean nothing */
        weft_bucket_plan(s->arena, &s->cursor, s->unit_limit, s->target, s->chunk, bucket);
        assert_in_range(bucket->header.frames, 1, UINT32_MAX);
        assert_in_range(bucket->extent_count, 1, WEFT_BUCKET_EXTENTS);
        extents_are_frames(s, bucket);
        if (bucket->header.frames > 1) {
            assert_true(bucket->header.payload_bytes <= s->target);
            assert_true(bucket->header.chunks <= WEFT_CHUNKS_MAX);
        }
        assert_false(had_room(s, bucket));
        s->frames += bucket->header.frames;
        buckets++;
    }
    return buckets;
}

static weft_chain fill_chain(weft_arena *arena, uint64_t seed, uint64_t frames, uint32_t largest, uint32_t step)
{
    weft_chain chain;
    weft_chain_begin(&chain);
    while (chain.frames < frames)
        assert_true(chain_append(arena, &chain, seed, (uint32_t)chain.frames * step, largest));
    return chain;
}

/* Random frames, targets and chunks; the unit limit moves up in steps as a snapshot's deltas have it. */
static void covers_once_in_order(void **state)
{
    (void)state;
    static weft_bucket bucket;
    weft_arena arena;
    assert_int_equal(weft_arena_open(&arena, 16u << 20, 60000), WEFT_OK);
    for (uint64_t seed = 1; seed <= 150; seed++) {
        uint64_t random = weft_mix64(seed);
        uint32_t largest = 32 + (uint32_t)(random % 59968) / 4 * 4;
        weft_chain other = fill_chain(&arena, seed + 1, random % 20, largest, 1); /* so that blocks lie anyhow */
        weft_chain chain = fill_chain(&arena, seed, 1 + (random >> 20) % 300, largest, 3);
        stream s = {.arena = &arena, .chain = &chain, .seed = seed, .largest = largest, .units_step = 3};
        weft_chain_free(&arena, &other);
        s.cursor = weft_cursor_begin(&chain);
        while (s.frames < chain.frames) {
            random = weft_mix64(random);
            s.target = UINT64_C(1) << (10 + random % 14);
            s.chunk = UINT64_C(64) << (random >> 8) % 15;
            s.unit_limit = random & 1 ? UINT64_MAX : 3 * s.frames + (random >> 16) % 400;
            cut_all(&s, &bucket);
            if (s.unit_limit != UINT64_MAX && s.frames < chain.frames)
                assert_int_equal(s.frames, s.unit_limit / 3 + (s.unit_limit % 3 != 0));
        }
        assert_int_equal(s.frames, chain.frames);
        assert_true(weft_cursor_done(&arena, &s.cursor, UINT64_MAX));
        weft_chain_free(&arena, &chain);
    }
    assert_int_equal(arena.free_count, arena.block_count);
    weft_arena_close(&arena);
}

/* One large frame a block: a bucket takes as many extents as it has. */
static void many_blocks(void **state)
{
    (void)state;
    static weft_bucket bucket;
    weft_arena arena;
    weft_chain chain;
    weft_frame_sink sink;
    assert_int_equal(weft_arena_open(&arena, 200u * (64u << 10), 60000), WEFT_OK);
    weft_chain_begin(&chain);
    for (uint32_t i = 0; i < 150; i++) {
        assert_true(weft_chain_extend(&arena, &chain));
        sink = weft_chain_sink(&arena, &chain);
        memset(sink.data, (int)i, 40000);
        weft_chain_note(&arena, &chain, i, 40000);
    }
    weft_cursor cursor = weft_cursor_begin(&chain);
    const uint32_t wanted[] = {WEFT_BUCKET_EXTENTS, WEFT_BUCKET_EXTENTS, 150 - 2 * WEFT_BUCKET_EXTENTS};
    for (size_t b = 0, frame = 0; b < 3; b++) {
        weft_bucket_plan(&arena, &cursor, UINT64_MAX, UINT64_MAX, 1u << 20, &bucket);
        assert_int_equal(bucket.extent_count, wanted[b]);
        assert_int_equal(bucket.header.chunks, wanted[b]);
        for (uint32_t i = 0; i < wanted[b]; i++, frame++)
            assert_int_equal(bucket.extents[i].data[39999], frame);
    }
    assert_true(weft_cursor_done(&arena, &cursor, UINT64_MAX));
    for (uint32_t bytes = 1000; bytes <= 60000; bytes += 59000) { /* behind the last frame, and in a block of its own */
        if (bytes > 1000)
            assert_true(weft_chain_extend(&arena, &chain));
        memset(weft_chain_sink(&arena, &chain).data, 0, bytes);
        weft_chain_note(&arena, &chain, 150, bytes);
        assert_true(weft_cursor_done(&arena, &cursor, UINT64_MAX)); /* until it is told */
        weft_cursor_reach(&cursor, &chain);
        weft_bucket_plan(&arena, &cursor, UINT64_MAX, UINT64_MAX, 1u << 20, &bucket);
        assert_int_equal(bucket.header.payload_bytes, bytes);
    }
    weft_arena_close(&arena);
}

/* Small chunks: a bucket ends where another frame would need a chunk too many. */
static void many_chunks(void **state)
{
    (void)state;
    static weft_bucket bucket;
    weft_arena arena;
    weft_chain chain;
    assert_int_equal(weft_arena_open(&arena, 4u << 20, 1000), WEFT_OK);
    chain = fill_chain(&arena, 5, 6000, 1000, 1);
    stream s = {.arena = &arena, .chain = &chain, .seed = 5, .largest = 1000, .units_step = 1};
    s.cursor = weft_cursor_begin(&chain);
    s.target = s.unit_limit = UINT64_MAX;
    s.chunk = 16;
    uint64_t buckets = cut_all(&s, &bucket);
    assert_true(buckets >= chain.bytes / s.chunk / WEFT_CHUNKS_MAX);
    assert_true(buckets <= chain.bytes / s.chunk / (WEFT_CHUNKS_MAX - 100) + 1);
    weft_arena_close(&arena);
}

static void empty_chain(void **state)
{
    (void)state;
    weft_arena arena;
    weft_chain chain;
    assert_int_equal(weft_arena_open(&arena, 1u << 20, 1000), WEFT_OK);
    weft_chain_begin(&chain);
    weft_cursor cursor = weft_cursor_begin(&chain);
    assert_true(weft_cursor_done(&arena, &cursor, UINT64_MAX));
    assert_true(chain_append(&arena, &chain, 1, 0, 1000));
    weft_cursor_reach(&cursor, &chain);
    assert_false(weft_cursor_done(&arena, &cursor, UINT64_MAX));
    weft_arena_close(&arena);
}

/* Frames of units 0, 3, 6 and so on, in several blocks: skipping and taking stop at the unit that is named. */
static void units_are_found(void **state)
{
    uint8_t frame[1000];
    weft_arena arena;
    weft_chain chain;
    (void)state;
    assert_int_equal(weft_arena_open(&arena, 1u << 20, 1000), WEFT_OK);
    weft_chain_begin(&chain);
    for (uint32_t i = 0; i < 300; i++)
        assert_true(chain_append(&arena, &chain, 9, 3 * i, 1000));
    for (uint64_t unit = 0; unit < 903; unit++) {
        weft_cursor skipped = weft_cursor_begin(&chain), sought = weft_cursor_seek(&arena, &chain, unit);
        uint64_t found = 0, wanted = (unit + 2) / 3 * 3;
        weft_cursor_skip(&arena, &skipped, unit);
        assert_int_equal(weft_cursor_unit(&arena, &skipped, UINT64_MAX, &found), wanted < 900);
        assert_int_equal(found, wanted < 900 ? wanted : 0);
        weft_frame_header next = {0}, taken = {0};
        if (wanted < 900)
            weft_cursor_header(&arena, &skipped, &next);
        assert_int_equal(weft_cursor_take(&arena, &skipped, wanted, frame), 0); /* the limit itself is left */
        assert_int_equal(weft_cursor_take(&arena, &sought, wanted + 1, frame),
                         wanted < 900 ? chain_frame_bytes(9, wanted / 3, 1000) : 0);
        if (wanted < 900) {
            assert_int_equal(frame[0], chain_byte(9, wanted / 3));
            weft_frame_read_header(frame, &taken);
        }
        assert_memory_equal(&next, &taken, sizeof next);
    }
    weft_arena_close(&arena);
}

static void wrapped(void **state)
{
    (void)state;
    static weft_bucket bucket;
    static const uint8_t data[1000];
    weft_bucket_wrap(data, sizeof data, 7, 99, 300, &bucket);
    assert_int_equal(bucket.extent_count, 1);
    assert_ptr_equal(bucket.extents[0].data, data);
    assert_int_equal(bucket.extents[0].bytes, 1000);
    assert_int_equal(bucket.header.payload_bytes, 1000);
    assert_int_equal(bucket.header.frames, 7);
    assert_int_equal(bucket.header.chunks, 4);
    assert_int_equal(bucket.header.check, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_once_in_order), cmocka_unit_test(many_blocks),     cmocka_unit_test(many_chunks),
        cmocka_unit_test(empty_chain),          cmocka_unit_test(units_are_found), cmocka_unit_test(wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
