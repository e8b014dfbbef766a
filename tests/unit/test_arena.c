/* The arena's blocks, the chains of frames in them, and the journal of updates above. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/status.h"
#include "journal/frame_copies.h"
#include "journal/journal.h"
#include "tests/support/chains.h"

#define LARGEST 20000u
#define CHAINS  8u

/* Every block is free or in one chain; every chain's frames and index are what was written. */
static void chain_is_whole(const weft_arena *arena, const weft_chain *chain, uint64_t seed, uint8_t *owner)
{
    uint64_t frames = 0, bytes = 0;
    uint32_t last = WEFT_NO_BLOCK;
    for (uint32_t block = chain->first; block != WEFT_NO_BLOCK; block = arena->blocks[block].next) {
        const uint8_t *at = weft_arena_block(arena, block);
        uint64_t used = 0;
        assert_true(block < arena->block_count);
        assert_int_equal(owner[block]++, 0);
        for (uint32_t i = 0; i < arena->blocks[block].frames; i++, frames++) {
            const weft_index_entry *entry = weft_arena_index(arena, block, i);
            assert_int_equal(entry->bytes, chain_frame_bytes(seed, frames, LARGEST));
            assert_int_equal(entry->unit, 2 * frames);
            assert_true(entry->check == weft_frame_check(at + used, entry->bytes));
            assert_int_equal(at[used], chain_byte(seed, frames));
            assert_int_equal(at[used + entry->bytes - 1], chain_byte(seed, frames));
            used += entry->bytes;
        }
        assert_int_equal(used, arena->blocks[block].used);
        assert_true(used + arena->blocks[block].frames * sizeof(weft_index_entry) <= arena->block_bytes);
        bytes += used;
        last = block;
    }
    assert_int_equal(last, chain->last);
    assert_int_equal(frames, chain->frames);
    assert_int_equal(bytes, chain->bytes);
}

static void arena_is_whole(const weft_arena *arena, const weft_chain chains[CHAINS], const uint64_t seeds[CHAINS])
{
    uint8_t *owner = calloc(arena->block_count, 1);
    assert_non_null(owner);
    for (uint32_t i = 0; i < CHAINS; i++)
        chain_is_whole(arena, &chains[i], seeds[i], owner);
    for (uint32_t i = 0; i < arena->free_count; i++)
        assert_int_equal(owner[arena->free[i]]++, 0);
    for (uint32_t block = 0; block < arena->block_count; block++)
        assert_int_equal(owner[block], 1);
    free(owner);
}

/* Chains grow side by side and are freed at random, over a full arena too. */
static void chains_come_and_go(void **state)
{
    (void)state;
    weft_arena arena;
    weft_chain chains[CHAINS];
    uint64_t seeds[CHAINS], seed = 0, refused = 0;
    assert_int_equal(weft_arena_open(&arena, 40u * (64u << 10) + 1000, LARGEST), WEFT_OK);
    assert_int_equal(arena.block_count, 40);
    for (uint32_t i = 0; i < CHAINS; i++) {
        weft_chain_begin(&chains[i]);
        seeds[i] = i;
    }
    for (uint32_t round = 0; round < 6000; round++) {
        uint32_t at = (uint32_t)(weft_mix64(++seed) % CHAINS);
        if (weft_mix64(++seed) % 100 == 0) {
            weft_chain_free(&arena, &chains[at]);
            assert_int_equal(chains[at].frames, 0);
            seeds[at] = weft_mix64(++seed);
        }
        refused += !chain_append(&arena, &chains[at], seeds[at], (uint32_t)(2 * chains[at].frames), LARGEST);
        if (round % 100 == 0)
            arena_is_whole(&arena, chains, seeds);
    }
    assert_true(refused > 100);
    arena_is_whole(&arena, chains, seeds);
    for (uint32_t i = 0; i < CHAINS; i++)
        weft_chain_free(&arena, &chains[i]);
    assert_int_equal(arena.free_count, arena.block_count);
    arena_is_whole(&arena, chains, seeds);
    weft_arena_close(&arena);
}

/* A block takes a frame of any size up to the largest, and a sink filled to its last byte leaves the index alone. */
static void sinks(void **state)
{
    (void)state;
    const uint32_t largest[] = {16, 1000, (64u << 10) - 16, (64u << 10) - 15, (1u << 20) + 16};
    for (size_t i = 0; i < sizeof largest / sizeof largest[0]; i++) {
        weft_arena arena;
        weft_chain chain;
        assert_int_equal(weft_arena_open(&arena, 8u << 20, largest[i]), WEFT_OK);
        weft_chain_begin(&chain);
        assert_int_equal(weft_chain_sink(&arena, &chain).capacity, 0);
        assert_true(weft_chain_extend(&arena, &chain));
        weft_frame_sink sink = weft_chain_sink(&arena, &chain);
        assert_true(sink.capacity >= largest[i]);
        memset(sink.data, 0x5a, 16);
        weft_chain_note(&arena, &chain, 77, 16);
        sink = weft_chain_sink(&arena, &chain);
        memset(sink.data, 0xff, sink.capacity);
        weft_chain_note(&arena, &chain, 78, (uint32_t)sink.capacity);
        assert_int_equal(weft_chain_sink(&arena, &chain).capacity, 0);
        assert_int_equal(weft_arena_index(&arena, chain.last, 0)->unit, 77);
        assert_int_equal(weft_arena_index(&arena, chain.last, 0)->bytes, 16);
        assert_int_equal(weft_arena_index(&arena, chain.last, 1)->unit, 78);
        assert_true(weft_arena_index(&arena, chain.last, 1)->check == weft_frame_check(sink.data, sink.capacity));
        weft_arena_close(&arena);
    }
}

/* Frames whose places are given first are copied by any number of lanes, at the latest when that is asked for. */
static void frames_are_copied_later(void **state)
{
    static const uint32_t lanes[] = {0, 1, 3};
    enum { FRAMES = 1300 };
    static uint8_t from[FRAMES][LARGEST];
    (void)state;
    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
        weft_arena arena;
        weft_chain chain;
        weft_frame_copies copies;
        uint8_t owner[512] = {0};
        assert_int_equal(weft_arena_open(&arena, 512u * (64u << 10), LARGEST), WEFT_OK);
        assert_int_equal(weft_frame_copies_open(&copies, lanes[i]), WEFT_OK);
        weft_chain_begin(&chain);
        for (uint32_t n = 0; n < FRAMES; n++) {
            const uint32_t bytes = chain_frame_bytes(i, n, LARGEST);
            memset(from[n], chain_byte(i, n), bytes);
            if (weft_chain_sink(&arena, &chain).capacity < bytes)
                assert_true(weft_chain_extend(&arena, &chain));
            uint8_t *to = weft_chain_sink(&arena, &chain).data;
            weft_frame_copies_add(&copies, from[n], to, weft_chain_place(&arena, &chain, 2 * n, bytes));
        }
        weft_frame_copies_end(&copies);
        weft_frame_copies_end(&copies); /* of nothing */
        memset(from, 0xee, sizeof from);
        chain_is_whole(&arena, &chain, i, owner);
        weft_frame_copies_close(&copies);
        weft_arena_close(&arena);
    }
}

static void too_small(void **state)
{
    (void)state;
    weft_arena arena;
    assert_int_equal(weft_arena_open(&arena, 3u << 20, (1u << 20) + 16), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "need 4194304"));
    weft_arena_close(&arena);
}

/* ---- journal */

static weft_update make_update(weft_journal *journal, uint64_t n, weft_blob *attachment)
{
    weft_update update = {.base = {1, n, n}, .target = {1, n + 1, n + 1}, .levels = 1u << WEFT_LEVEL_FAST};
    weft_chain_begin(&update.chain[WEFT_LEVEL_FAST]);
    assert_true(chain_append(&journal->arena, &update.chain[WEFT_LEVEL_FAST], n, 0, LARGEST));
    if (n % 3 == 0) {
        update.levels |= 1u << WEFT_LEVEL_PAIRS;
        weft_chain_begin(&update.chain[WEFT_LEVEL_PAIRS]);
        assert_true(chain_append(&journal->arena, &update.chain[WEFT_LEVEL_PAIRS], n, 0, LARGEST));
    }
    update.attachment = weft_blob_hold(attachment);
    return update;
}

/* Many times round the ring, never more than `most` kept. */
static void journal_round(uint64_t most)
{
    weft_journal journal;
    weft_blob *blob = weft_blob_make("attached", 8);
    uint64_t dropped = 0;
    assert_non_null(blob);
    assert_int_equal(weft_journal_open(&journal, 128u << 20, LARGEST), WEFT_OK);
    assert_null(weft_journal_oldest(&journal));
    for (uint64_t n = 1; n <= 3 * WEFT_JOURNAL_UPDATES; n++) {
        if (n - 1 - dropped == most) {
            assert_int_equal(weft_journal_full(&journal), most == WEFT_JOURNAL_UPDATES);
            weft_journal_drop(&journal);
            dropped++;
        }
        weft_update update = make_update(&journal, n, blob);
        weft_update *kept = weft_journal_append(&journal, &update);
        assert_int_equal(kept->order, n);
        assert_ptr_equal(weft_journal_at(&journal, n), kept);
        assert_null(weft_journal_at(&journal, n + 1));
        assert_null(weft_journal_at(&journal, dropped));
        assert_int_equal(weft_journal_oldest(&journal)->order, dropped + 1);
        assert_int_equal(weft_journal_at(&journal, dropped + 1)->target.number, dropped + 2);
        assert_int_equal(blob->references, 1 + n - dropped);
    }
    uint64_t kept_thirds = 0;
    for (uint64_t n = dropped + 1; n <= 3 * WEFT_JOURNAL_UPDATES; n++)
        kept_thirds += n % 3 == 0;
    assert_int_equal(weft_journal_bytes(&journal), (most + kept_thirds) * journal.arena.block_bytes);
    weft_journal_close(&journal);
    assert_int_equal(blob->references, 1);
    weft_blob_drop(blob);
}

static void journal(void **state)
{
    (void)state;
    journal_round(1);
    journal_round(100);
    journal_round(WEFT_JOURNAL_UPDATES);
}

/* A chain joins the newest update that has frames of its level. */
static void journal_joins(void **state)
{
    (void)state;
    weft_journal journal;
    weft_chain chain;
    assert_int_equal(weft_journal_open(&journal, 1u << 20, LARGEST), WEFT_OK);
    weft_chain_begin(&chain);
    assert_false(weft_journal_join(&journal, WEFT_LEVEL_FAST, &chain, 16));
    weft_update update = make_update(&journal, 1, NULL), nothing = {.levels = 1u << WEFT_LEVEL_FAST};
    const uint32_t block = update.chain[WEFT_LEVEL_FAST].last;
    weft_chain_begin(&nothing.chain[WEFT_LEVEL_FAST]);
    weft_journal_append(&journal, &update);
    weft_journal_append(&journal, &nothing);
    assert_false(weft_journal_join(&journal, WEFT_LEVEL_TIGHT, &chain, 16));
    assert_true(weft_journal_join(&journal, WEFT_LEVEL_FAST, &chain, 16));
    assert_int_equal(chain.first, block);
    assert_int_equal(chain.first_frame, 1);
    assert_int_equal(weft_chain_free(&journal.arena, &chain), 0); /* the update has the block */
    weft_journal_close(&journal);
}

static void journal_gives_back(void **state)
{
    (void)state;
    weft_journal journal;
    assert_int_equal(weft_journal_open(&journal, 1u << 20, LARGEST), WEFT_OK);
    for (uint64_t n = 1; n <= 4; n++) {
        weft_update update = make_update(&journal, n, NULL);
        weft_journal_append(&journal, &update);
    }
    while (weft_journal_oldest(&journal))
        weft_journal_drop(&journal);
    assert_int_equal(journal.arena.free_count, journal.arena.block_count);
    assert_int_equal(weft_journal_bytes(&journal), 0);
    for (uint32_t i = 0; i < journal.arena.free_count; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(journal.arena.free[i], journal.arena.free[k]);
    weft_journal_close(&journal);
}

/* Readers hold a place, and only updates with frames lead on, from the version that they were made from. */
static void journal_leads(void **state)
{
    (void)state;
    weft_journal journal;
    weft_blob *blob = weft_blob_make("attached", 8);
    assert_int_equal(weft_journal_open(&journal, 1u << 20, LARGEST), WEFT_OK);
    assert_null(weft_journal_after(&journal, 0));
    for (uint64_t n = 1; n <= 4; n++) {
        weft_update update = make_update(&journal, n, blob);
        update.readers = 77; /* of somebody else: those at its place count */
        weft_journal_place(&journal)->readers = (uint32_t)n;
        assert_int_equal(weft_journal_append(&journal, &update)->readers, n);
    }
    weft_update *third = weft_journal_at(&journal, 3);
    for (uint64_t order = 0; order < 4; order++)
        assert_ptr_equal(weft_journal_after(&journal, order), weft_journal_at(&journal, order + 1));
    assert_null(weft_journal_after(&journal, 4));
    third->from = 1; /* of another base than the version before */
    assert_null(weft_journal_after(&journal, 2));
    third->from = 2;
    const weft_version base = third->base, target = third->target;
    const uint32_t free = weft_arena_free_blocks(&journal.arena);
    weft_journal_empty(&journal, third);
    assert_null(weft_journal_after(&journal, 2));
    assert_ptr_equal(weft_journal_at(&journal, 3), third);
    assert_memory_equal(&third->base, &base, sizeof base);
    assert_memory_equal(&third->target, &target, sizeof target);
    assert_null(third->attachment);
    assert_int_equal(weft_arena_free_blocks(&journal.arena), free + 2); /* of both its levels */
    assert_int_equal(blob->references, 4);
    weft_journal_close(&journal);
    weft_blob_drop(blob);
}

static void blocks_are_left(void **state)
{
    (void)state;
    weft_arena arena;
    weft_chain chain;
    assert_int_equal(weft_arena_open(&arena, 4u << 16, LARGEST), WEFT_OK);
    weft_chain_begin(&chain);
    assert_true(weft_chain_extend_leaving(&arena, &chain, 3));
    assert_false(weft_chain_extend_leaving(&arena, &chain, 3));
    assert_int_equal(weft_arena_free_blocks(&arena), 3);
    assert_true(weft_chain_extend_leaving(&arena, &chain, 2));
    weft_chain_free(&arena, &chain);
    weft_arena_close(&arena);
}

static void attachments_are_checked(void **state)
{
    static const struct {
        const void *data;
        uint64_t bytes;
        weft_status status;
    } rows[] = {{NULL, 0, WEFT_OK},
                {"", 0, WEFT_OK},
                {"x", 1, WEFT_OK},
                {NULL, 1, WEFT_E_ARGUMENT},
                {"x", WEFT_ATTACHMENT_MAX, WEFT_OK},
                {"x", WEFT_ATTACHMENT_MAX + 1, WEFT_E_ARGUMENT},
                {"x", UINT64_MAX, WEFT_E_ARGUMENT}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(weft_blob_check("publish", rows[i].data, rows[i].bytes), rows[i].status);
        assert_true(rows[i].status == WEFT_OK || strstr(weft_last_error(), "publish: an attachment of "));
    }
}

static void blobs(void **state)
{
    (void)state;
    weft_blob *empty = weft_blob_make(NULL, 0), *full = weft_blob_make("bytes", 5);
    assert_non_null(empty);
    assert_non_null(full);
    assert_int_equal(empty->hash, 0); /* 0 says none */
    assert_true(full->hash != 0);
    assert_memory_equal(full->data, "bytes", 5);
    weft_blob_drop(empty);
    weft_blob_drop(weft_blob_hold(full));
    assert_int_equal(full->references, 1);
    const uint64_t blocks = weft_mem_blocks();
    weft_blob_drop(full);
    assert_int_equal(weft_mem_blocks(), blocks - 1);
    weft_blob_drop(weft_blob_hold(NULL));
}

/* Blocks of the arena whose first page the kernel has given memory to. */
static uint32_t resident(const weft_arena *arena)
{
    uint32_t count = 0;
    for (uint32_t block = 0; block < arena->block_count; block++) {
        unsigned char page;
        assert_int_equal(mincore(weft_arena_block(arena, block), 1, &page), 0);
        count += page & 1;
    }
    return count;
}

static void take_blocks(weft_arena *arena, weft_chain *chain, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_true(weft_chain_extend(arena, chain));
}

/* Memory comes to as many blocks as are asked for ahead of those that were ever taken, and to no other. */
static void prefaults_ahead(void **state)
{
    const uint32_t ahead = 96; /* of blocks of 64 KiB: three huge pages, and more than one slice */
    weft_arena arena;
    weft_chain chain;
    (void)state;
    assert_int_equal(weft_arena_open(&arena, 32u << 20, LARGEST), WEFT_OK);
    weft_chain_begin(&chain);
    assert_int_equal(weft_arena_bare(&arena, 0), 0);
    assert_int_equal(weft_arena_bare(&arena, ahead), ahead);
    assert_int_equal(resident(&arena), 0);
    weft_arena_prefault(&arena, ahead);
    assert_in_range(weft_arena_bare(&arena, ahead), 1, ahead - 1);
    while (weft_arena_bare(&arena, ahead) > 0)
        weft_arena_prefault(&arena, ahead);
#ifdef MADV_POPULATE_WRITE
    if (madvise(arena.memory, 1, MADV_POPULATE_WRITE) == 0)
        assert_in_range(resident(&arena), ahead, ahead + 32); /* the last huge page whole */
#endif
    take_blocks(&arena, &chain, 10);
    assert_int_equal(weft_arena_bare(&arena, ahead), 10);
    weft_chain_free(&arena, &chain);
    take_blocks(&arena, &chain, 10); /* the same ones: no other is needed */
    assert_int_equal(weft_arena_bare(&arena, ahead), 10);
    take_blocks(&arena, &chain, 200); /* past what has its memory */
    assert_int_equal(weft_arena_bare(&arena, ahead), ahead);
    take_blocks(&arena, &chain, arena.block_count - 210 - 5);
    assert_int_equal(weft_arena_bare(&arena, ahead), 5);
    weft_arena_prefault(&arena, ahead);
    assert_int_equal(weft_arena_bare(&arena, ahead), 0);
    weft_chain_free(&arena, &chain);
    weft_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_come_and_go),
        cmocka_unit_test(sinks),
        cmocka_unit_test(frames_are_copied_later),
        cmocka_unit_test(too_small),
        cmocka_unit_test(journal),
        cmocka_unit_test(journal_joins),
        cmocka_unit_test(journal_gives_back),
        cmocka_unit_test(journal_leads),
        cmocka_unit_test(blocks_are_left),
        cmocka_unit_test(attachments_are_checked),
        cmocka_unit_test(blobs),
        cmocka_unit_test(prefaults_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
