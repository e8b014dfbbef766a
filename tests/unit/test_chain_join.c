/* Chains that share blocks, as small updates of a journal do: each begins where the one before ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bucket/bucket.h"
#include "tests/support/chains.h"

#define LARGEST 20000u
#define CHAINS  300u
#define BLOCK   (64u << 10)

/* A journal: chains in order, the oldest first. */
typedef struct row {
    weft_arena arena;
    weft_chain chains[CHAINS];
    uint64_t seeds[CHAINS];
    uint32_t oldest, count;
} row;

static weft_chain *chain_at(row *r, uint32_t at)
{
    return &r->chains[(r->oldest + at) % CHAINS];
}

static void drop_oldest(row *r)
{
    weft_chain_free(&r->arena, chain_at(r, 0));
    r->oldest++;
    r->count--;
}

static const weft_chain *last_with_frames(row *r)
{
    for (uint32_t at = r->count; at > 0; at--)
        if (chain_at(r, at - 1)->frames > 0)
            return chain_at(r, at - 1);
    return NULL;
}

/* Appends the chain's next frame; whatever is older gives way. */
static void append(row *r, weft_chain *chain, uint64_t seed, uint32_t largest)
{
    const uint32_t bytes = chain_frame_bytes(seed, chain->frames, largest);
    const weft_chain *before = last_with_frames(r);
    if (weft_chain_sink(&r->arena, chain).capacity < bytes &&
        !(before && weft_chain_join(&r->arena, chain, before, bytes)))
        while (!weft_chain_extend(&r->arena, chain))
            drop_oldest(r);
    const weft_frame_sink sink = weft_chain_sink(&r->arena, chain);
    assert_true(sink.capacity >= bytes);
    memset(sink.data, chain_byte(seed, chain->frames), bytes);
    weft_chain_note(&r->arena, chain, (uint32_t)(2 * chain->frames), bytes);
}

static void publish(row *r, uint64_t seed, bool withdrawn)
{
    const uint32_t largest = seed % 5 ? 64 : LARGEST, frames = (uint32_t)(weft_mix64(seed) % 12);
    weft_chain chain;
    weft_chain_begin(&chain);
    if (r->count == CHAINS)
        drop_oldest(r);
    for (uint32_t i = 0; i < frames; i++)
        append(r, &chain, seed, largest);
    if (withdrawn) {
        weft_chain_free(&r->arena, &chain);
        return;
    }
    r->seeds[(r->oldest + r->count) % CHAINS] = seed;
    r->chains[(r->oldest + r->count++) % CHAINS] = chain;
}

/* A cursor reads the chain's own frames, and no other's. */
static void is_whole(row *r, uint32_t at)
{
    const weft_chain *chain = chain_at(r, at);
    const uint64_t seed = r->seeds[(r->oldest + at) % CHAINS];
    const uint32_t largest = seed % 5 ? 64 : LARGEST;
    weft_cursor cursor = weft_cursor_begin(chain);
    const uint8_t *frame;
    uint32_t bytes = 0;
    uint64_t unit = 0, n = 0;
    for (; weft_cursor_unit(&r->arena, &cursor, UINT64_MAX, &unit); n++) {
        assert_int_equal(unit, 2 * n);
        frame = weft_cursor_next(&r->arena, &cursor, &bytes);
        assert_int_equal(bytes, chain_frame_bytes(seed, n, largest));
        assert_int_equal(frame[0], chain_byte(seed, n));
        assert_int_equal(frame[bytes - 1], chain_byte(seed, n));
    }
    assert_int_equal(n, chain->frames);
    assert_null(weft_cursor_next(&r->arena, &cursor, &bytes));
    if (n < 2)
        return;
    cursor = weft_cursor_seek(&r->arena, chain, n);
    assert_true(weft_cursor_unit(&r->arena, &cursor, UINT64_MAX, &unit));
    assert_int_equal(unit, n + n % 2);
}

/* Updates come, are withdrawn, and give way, over a full arena. */
static void come_and_go(void **state)
{
    static row r;
    uint64_t most = 0;
    (void)state;
    assert_int_equal(weft_arena_open(&r.arena, 12 * BLOCK, LARGEST), WEFT_OK);
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        publish(&r, seed, weft_mix64(seed * 7) % 4 == 0);
        most = r.count > most ? r.count : most;
        if (seed % 20 == 0)
            for (uint32_t at = 0; at < r.count; at++)
                is_whole(&r, at);
    }
    assert_true(most > 2 * r.arena.block_count);
    while (r.count > 0)
        drop_oldest(&r);
    assert_int_equal(r.arena.free_count, r.arena.block_count);
    for (uint32_t i = 0; i < r.arena.free_count; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(r.arena.free[i], r.arena.free[k]);
    weft_arena_close(&r.arena);
}

/* An update of some hundred bytes takes that, and no block of its own. */
static void small_ones_take_little(void **state)
{
    static row r;
    (void)state;
    assert_int_equal(weft_arena_open(&r.arena, 4 * BLOCK, LARGEST), WEFT_OK);
    for (uint64_t seed = 1; r.count < 200; seed++)
        if (seed % 5)
            publish(&r, seed, false);
    assert_int_equal(r.oldest, 0);
    assert_int_equal(weft_arena_free_blocks(&r.arena), 3);
    while (r.count > 0)
        drop_oldest(&r);
    weft_arena_close(&r.arena);
}

/* Where a chain that was withdrawn went on to another block, nothing joins, because its blocks are given back later. */
static void nothing_joins_where_one_went_on(void **state)
{
    weft_arena arena;
    weft_chain kept, gone, next;
    (void)state;
    assert_int_equal(weft_arena_open(&arena, 4 * BLOCK, LARGEST), WEFT_OK);
    weft_chain_begin(&kept);
    weft_chain_begin(&gone);
    weft_chain_begin(&next);
    assert_false(weft_chain_join(&arena, &next, &kept, 16)); /* it has no block */
    assert_true(weft_chain_extend(&arena, &kept));
    weft_chain_note(&arena, &kept, 1, 16);
    assert_false(weft_chain_join(&arena, &next, &kept, BLOCK));
    assert_true(weft_chain_join(&arena, &gone, &kept, 16));
    assert_false(weft_chain_join(&arena, &gone, &kept, 16)); /* it has begun */
    weft_chain_note(&arena, &gone, 1, 16);
    assert_true(weft_chain_extend(&arena, &gone));
    assert_false(weft_chain_join(&arena, &next, &kept, 16));
    assert_int_equal(weft_chain_free(&arena, &gone), 1);
    assert_int_equal(weft_chain_free(&arena, &kept), 1);
    weft_arena_close(&arena);
}

/* A chain takes the room to its last byte, and not one more. Until its first frame comes there is nothing to read. */
static void the_last_byte_is_room(void **state)
{
    weft_arena arena;
    weft_chain before, next;
    (void)state;
    assert_int_equal(weft_arena_open(&arena, 2 * BLOCK, LARGEST), WEFT_OK);
    weft_chain_begin(&before);
    weft_chain_begin(&next);
    assert_true(weft_chain_extend(&arena, &before));
    weft_chain_note(&arena, &before, 1, 16);
    const uint32_t room = (uint32_t)weft_chain_sink(&arena, &before).capacity;
    assert_false(weft_chain_join(&arena, &next, &before, room + 1));
    assert_true(weft_chain_join(&arena, &next, &before, room));
    const weft_cursor cursor = weft_cursor_begin(&next);
    assert_true(weft_cursor_done(&arena, &cursor, UINT64_MAX));
    weft_chain_free(&arena, &next);
    weft_chain_free(&arena, &before);
    weft_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(come_and_go),
        cmocka_unit_test(small_ones_take_little),
        cmocka_unit_test(nothing_joins_where_one_went_on),
        cmocka_unit_test(the_last_byte_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
