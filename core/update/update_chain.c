#include "update/update_chain.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef unsigned long long ull;

/* ---- open */

static bool back(const weft_version *base, const weft_version *target)
{
    return base->run == target->run && base->number > target->number;
}

/* Numbers are labels, which need not meet in between: updates of several makers may each count from 0. Numbers of
 * inverted updates lead back, all of them. */
static weft_status numbers_check(const weft_update_chain *chain)
{
    const weft_version *base = &chain->header.base, *target = &chain->header.target;
    bool inverted = true;
    for (size_t i = 0; i < chain->count; i++)
        inverted = inverted && back(&chain->updates[i]->header.base, &chain->updates[i]->header.target);
    if (inverted || !back(base, target))
        return WEFT_OK;
    return weft_fail(
        WEFT_E_ARGUMENT,
        "the first update starts from version %llu, the last ends at version %llu: numbers must grow; label "
        "the updates in their order",
        (ull)base->number, (ull)target->number);
}

static weft_status chain_check(const weft_update_chain *chain)
{
    const uint64_t *layout = chain->header.layout;
    for (size_t i = 0; i < chain->count; i++) {
        const weft_wire_update *header = &chain->updates[i]->header;
        const weft_version *before = i > 0 ? &chain->updates[i - 1]->header.target : &header->base;
        if (header->layout[0] != layout[0] || header->layout[1] != layout[1])
            return weft_fail(WEFT_E_LAYOUT, "update %zu is for another layout than the first", i + 1);
        if (before->root != header->base.root)
            return weft_fail(WEFT_E_ARGUMENT, "update %zu starts from %016llx, the one before ends at %016llx", i + 1,
                             (ull)header->base.root, (ull)before->root);
    }
    return numbers_check(chain);
}

/* Takes over the cells, with what their keys add to the new base and the new target. */
static weft_status cells_take(weft_update_chain *chain)
{
    const weft_update_cells *first, *last;
    weft_status status = weft_update_division(chain->updates[0], &first);
    if (status == WEFT_OK)
        status = weft_update_division(chain->updates[chain->count - 1], &last);
    if (status != WEFT_OK || !first)
        return status;
    status = weft_update_cells_open(first->model, &first->cells, &chain->cells);
    for (uint32_t i = 0; status == WEFT_OK && i < first->share_count; i++) {
        chain->cells.shares[i].base = first->shares[i].base;
        chain->cells.shares[i].target = last->shares[i].target;
    }
    return status;
}

weft_status weft_update_chain_open(weft_update_chain *chain, weft_update_file *const *updates, size_t count,
                                   const weft_layout *layout)
{
    *chain = (weft_update_chain){.updates = updates, .count = count, .layout = layout};
    if (count == 0)
        return weft_fail(WEFT_E_ARGUMENT, "no updates to merge");
    chain->header.base = updates[0]->header.base;
    chain->header.target = updates[count - 1]->header.target;
    memcpy(chain->header.layout, updates[0]->header.layout, sizeof chain->header.layout);
    const weft_status status = chain_check(chain);
    return status == WEFT_OK ? cells_take(chain) : status;
}

weft_status weft_update_chain_read(weft_update_chain *chain)
{
    weft_status status = WEFT_OK;
    chain->cursors = weft_mem_take(chain->count, sizeof *chain->cursors);
    if (!chain->cursors)
        return weft_fail(WEFT_E_MEMORY, "no memory to merge %zu updates", chain->count);
    for (size_t i = 0; i < chain->count && status == WEFT_OK; i++)
        status = weft_update_cursor_open(&chain->cursors[i], chain->updates[i], chain->layout);
    return status;
}

void weft_update_chain_close(weft_update_chain *chain)
{
    weft_update_writer_close(&chain->writer);
    weft_update_cells_close(&chain->cells);
    for (size_t i = 0; chain->cursors && i < chain->count; i++)
        weft_update_cursor_close(&chain->cursors[i]);
    weft_mem_give(chain->cursors);
    chain->cursors = NULL;
}

weft_status weft_update_chain_end(const weft_update_chain *chain)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < chain->count && status == WEFT_OK; i++)
        status = weft_update_cursor_finish(&chain->cursors[i]);
    return status;
}

/* ---- the new update */

/* *data comes from weft_mem_take, NULL if there is none. */
static weft_status attachment_take(const weft_update_chain *chain, uint8_t **data, uint64_t *bytes)
{
    weft_update_file *last = NULL;
    for (size_t i = 0; i < chain->count; i++)
        last = chain->updates[i]->header.attachment_bytes ? chain->updates[i] : last;
    *bytes = last ? last->header.attachment_bytes : 0;
    *data = last ? weft_mem_take(*bytes, 1) : NULL;
    if (last && !*data)
        return weft_fail(WEFT_E_MEMORY, "no memory for an attachment of %llu bytes", (ull)*bytes);
    return last ? weft_update_attachment(last, *data, *bytes, bytes) : WEFT_OK;
}

weft_status weft_update_chain_begin(weft_update_chain *chain, const weft_sink *sink)
{
    uint8_t *attachment = NULL;
    uint64_t bytes;
    weft_status status;
    if (chain->attachment) {
        status = weft_update_writer_begin(&chain->writer, sink, &chain->header, chain->attachment->data,
                                          chain->attachment->bytes);
    } else {
        status = attachment_take(chain, &attachment, &bytes);
        if (status == WEFT_OK)
            status = weft_update_writer_begin(&chain->writer, sink, &chain->header, attachment, bytes);
        weft_mem_give(attachment);
    }
    if (status == WEFT_OK && chain->cells.model)
        weft_update_writer_divide(&chain->writer, chain->layout, &chain->cells);
    return status;
}

weft_status weft_update_chain_finish(weft_update_chain *chain, bool named, uint64_t changed)
{
    return weft_update_writer_finish(&chain->writer, chain->layout, named, chain->header.base.root,
                                     &chain->header.target, changed);
}

void weft_update_chain_report(const weft_update_chain *chain, uint64_t changed, double diff_ms, double encode_ms,
                              weft_update_info *info)
{
    weft_update_info all = {.base = chain->header.base,
                            .target = chain->header.target,
                            .level = weft_level_name(chain->header.level),
                            .elements = chain->layout->elements,
                            .changed = changed,
                            .dense_bytes = chain->layout->bytes,
                            .bytes = chain->writer.bytes,
                            .diff_ms = diff_ms,
                            .encode_ms = encode_ms + chain->writer.pack_ms};
    size_t size = info->size < sizeof all ? info->size : sizeof all;
    all.size = size;
    memcpy(info, &all, size);
}
