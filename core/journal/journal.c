#include "journal/journal.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/status.h"

uint64_t weft_blob_hash(const void *data, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    uint64_t hash = XXH3_64bits(data, bytes);
    return hash ? hash : 1;
}

weft_status weft_blob_check(const char *call, const void *data, uint64_t bytes)
{
    if (bytes > WEFT_ATTACHMENT_MAX)
        return weft_fail(WEFT_E_ARGUMENT, "%s: an attachment of %llu bytes; the most is %llu", call,
                         (unsigned long long)bytes, WEFT_ATTACHMENT_MAX);
    if (bytes && !data)
        return weft_fail(WEFT_E_ARGUMENT, "%s: an attachment of %llu bytes at NULL", call, (unsigned long long)bytes);
    return WEFT_OK;
}

weft_blob *weft_blob_take(uint64_t bytes)
{
    weft_blob *blob = weft_mem_take(1, sizeof *blob + bytes);
    if (blob) {
        blob->references = 1;
        blob->bytes = bytes;
    }
    return blob;
}

weft_blob *weft_blob_make(const void *data, uint64_t bytes)
{
    weft_blob *blob = weft_blob_take(bytes);
    if (!blob)
        return NULL;
    if (bytes)
        memcpy(blob->data, data, bytes);
    blob->hash = weft_blob_hash(blob->data, bytes);
    return blob;
}

weft_blob *weft_blob_hold(weft_blob *blob)
{
    if (blob)
        __atomic_fetch_add(&blob->references, 1, __ATOMIC_RELAXED);
    return blob;
}

void weft_blob_drop(weft_blob *blob)
{
    if (blob && __atomic_sub_fetch(&blob->references, 1, __ATOMIC_ACQ_REL) == 0)
        weft_mem_give(blob);
}

weft_status weft_journal_open(weft_journal *journal, uint64_t bytes, uint32_t largest_frame)
{
    memset(journal, 0, sizeof *journal);
    weft_status status = weft_arena_open(&journal->arena, bytes, largest_frame);
    if (status != WEFT_OK)
        return status;
    journal->updates = weft_mem_take(WEFT_JOURNAL_UPDATES, sizeof *journal->updates);
    journal->oldest = journal->next = 1;
    if (journal->updates)
        return WEFT_OK;
    weft_arena_close(&journal->arena);
    return weft_fail(WEFT_E_MEMORY, "no memory for the journal's %u entries", WEFT_JOURNAL_UPDATES);
}

void weft_journal_close(weft_journal *journal)
{
    while (journal->updates && weft_journal_oldest(journal))
        weft_journal_drop(journal);
    weft_mem_give(journal->updates);
    weft_arena_close(&journal->arena);
    journal->updates = NULL;
}

weft_update *weft_journal_at(weft_journal *journal, uint64_t order)
{
    if (order < journal->oldest || order >= journal->next)
        return NULL;
    return &journal->updates[order % WEFT_JOURNAL_UPDATES];
}

weft_update *weft_journal_oldest(weft_journal *journal)
{
    return weft_journal_at(journal, journal->oldest);
}

weft_update *weft_journal_after(weft_journal *journal, uint64_t order)
{
    weft_update *update = weft_journal_at(journal, order + 1);
    return update && update->from == order && !update->snapshot_only ? update : NULL;
}

void weft_journal_empty(weft_journal *journal, weft_update *update)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (update->levels >> level & 1)
            weft_chain_free(&journal->arena, &update->chain[level]);
    weft_blob_drop(update->attachment);
    update->attachment = NULL;
    update->levels = 0;
    update->snapshot_only = true;
}

void weft_journal_drop(weft_journal *journal)
{
    weft_update *update = weft_journal_oldest(journal);
    weft_journal_empty(journal, update);
    memset(update, 0, sizeof *update);
    journal->oldest++;
}

bool weft_journal_join(weft_journal *journal, weft_level level, weft_chain *chain, uint32_t bytes)
{
    const weft_update *update;
    for (uint64_t order = journal->next - 1; (update = weft_journal_at(journal, order)) != NULL; order--)
        if (update->levels >> level & 1 && update->chain[level].last != WEFT_NO_BLOCK)
            return weft_chain_join(&journal->arena, chain, &update->chain[level], bytes);
    return false;
}

bool weft_journal_full(const weft_journal *journal)
{
    return journal->next - journal->oldest == WEFT_JOURNAL_UPDATES;
}

weft_update *weft_journal_place(weft_journal *journal)
{
    return &journal->updates[journal->next % WEFT_JOURNAL_UPDATES];
}

weft_update *weft_journal_append(weft_journal *journal, const weft_update *update)
{
    weft_update *kept = weft_journal_place(journal);
    uint32_t readers = kept->readers;
    *kept = *update;
    kept->readers = readers;
    kept->from = journal->next - 1;
    kept->order = journal->next++;
    return kept;
}

uint64_t weft_journal_bytes(weft_journal *journal)
{
    return (uint64_t)(journal->arena.block_count - weft_arena_free_blocks(&journal->arena)) *
           journal->arena.block_bytes;
}
