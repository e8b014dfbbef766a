/* shards.c - the headers of one file or of many as one string of bytes: what a version carries as its attachment. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"

#define MARK       UINT32_C(0x48534657) /* "WFSH": as a length it is above any header's, for the count is not 0 */
#define COUNT_MAX  65535u
#define NAME_BYTES 255u

typedef unsigned long long ull;

bool weft_shards_name_fits(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) <= NAME_BYTES;
}

static weft_status text_take(weft_in *in, char **text)
{
    char name[NAME_BYTES + 1];
    weft_in_text(in, name, sizeof name);
    if (in->bad)
        return weft_fail(WEFT_E_LAYOUT,
                         "the headers of a sharded model are cut short, or too long, at the name of a file");
    if (!weft_shards_name_fits(name))
        return weft_fail(WEFT_E_LAYOUT,
                         "the headers of a sharded model name a file '%s': a name has no slash and no dot in front",
                         name);
    *text = weft_mem_text(name);
    return *text ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for a file name");
}

static weft_status shard_take(weft_in *in, weft_shard *shard)
{
    weft_status status = text_take(in, &shard->name);
    if (status != WEFT_OK)
        return status;
    const uint8_t *prefix = weft_in_block(in, WEFT_MODEL_PREFIX);
    uint64_t length = prefix ? weft_bytes_get(prefix, WEFT_MODEL_PREFIX) : 0;
    if (!prefix || length > WEFT_MODEL_HEADER_MAX || !weft_in_block(in, length))
        return weft_fail(WEFT_E_LAYOUT, "%s: its header is cut short", shard->name);
    shard->header = prefix;
    shard->header_bytes = WEFT_MODEL_PREFIX + length;
    return WEFT_OK;
}

static weft_status many_take(weft_in *in, weft_shards *shards)
{
    uint64_t count = weft_in_word(in, 4);
    weft_status status = text_take(in, &shards->index_name);
    if (status != WEFT_OK)
        return status;
    shards->index_bytes = weft_in_word(in, 4);
    shards->index = weft_in_block(in, shards->index_bytes);
    if (in->bad || count == 0 || count > COUNT_MAX)
        return weft_fail(WEFT_E_LAYOUT, "the headers of a sharded model of %llu files are cut short", (ull)count);
    shards->items = weft_mem_take(count, sizeof *shards->items);
    if (!shards->items)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu shards", (ull)count);
    for (; shards->count < count && status == WEFT_OK; shards->count++)
        status = shard_take(in, &shards->items[shards->count]);
    for (uint64_t i = 1; i < count && status == WEFT_OK; i++)
        if (strcmp(shards->items[i - 1].name, shards->items[i].name) >= 0)
            status =
                weft_fail(WEFT_E_LAYOUT, "the files of a sharded model are out of order at %s", shards->items[i].name);
    if (status == WEFT_OK && !weft_in_done(in))
        status =
            weft_fail(WEFT_E_LAYOUT, "%llu bytes after the headers of a sharded model", (ull)(in->length - in->used));
    return status;
}

static weft_status one_take(const uint8_t *attachment, uint64_t bytes, weft_shards *shards)
{
    shards->items = weft_mem_take(1, sizeof *shards->items);
    if (!shards->items)
        return weft_fail(WEFT_E_MEMORY, "no memory for a header");
    shards->items[0] = (weft_shard){.header = attachment, .header_bytes = bytes};
    shards->count = 1;
    return WEFT_OK;
}

/* One layout of the layouts of all files, in their order. */
static weft_status layouts_join(weft_shards *shards, weft_layout *const *layouts)
{
    uint64_t total = 0, used = 0;
    for (uint64_t i = 0; i < shards->count; i++)
        total += layouts[i]->count;
    weft_tensor *tensors = weft_mem_take(total + 1, sizeof *tensors);
    if (!tensors)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu tensors", (ull)total);
    for (uint64_t i = 0; i < shards->count; i++)
        for (uint64_t t = 0; t < layouts[i]->count; t++)
            tensors[used++] = layouts[i]->entries[t].tensor;
    weft_status status = weft_layout_create(tensors, total, &shards->layout);
    weft_mem_give(tensors);
    return status;
}

static weft_status headers_read(weft_shards *shards)
{
    weft_status status = WEFT_OK;
    weft_layout **layouts = weft_mem_take(shards->count, sizeof(weft_layout *));
    if (!layouts)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu shards", (ull)shards->count);
    for (uint64_t i = 0; i < shards->count && status == WEFT_OK; i++) {
        weft_shard *shard = &shards->items[i];
        status = weft_model_header_read(shard->header, shard->header_bytes, &layouts[i], &shard->data_bytes);
        if (status == WEFT_OK)
            shard->tensors = layouts[i]->count;
        else if (shard->name)
            weft_fail_about("%s", shard->name);
    }
    if (status == WEFT_OK && shards->index_name)
        status = layouts_join(shards, layouts);
    else if (status == WEFT_OK)
        shards->layout = weft_layout_hold(layouts[0]);
    for (uint64_t i = 0; i < shards->count; i++)
        weft_layout_free(layouts[i]);
    weft_mem_give(layouts);
    return status;
}

bool weft_shards_are_many(const uint8_t *attachment, uint64_t bytes)
{
    return bytes >= 8 && weft_bytes_get(attachment, 4) == MARK && weft_bytes_get(attachment + 4, 4) > 0;
}

weft_status weft_shards_read(const uint8_t *attachment, uint64_t bytes, weft_shards *shards)
{
    weft_in in = {attachment, bytes, 0, false};
    memset(shards, 0, sizeof *shards);
    weft_status status;
    if (weft_shards_are_many(attachment, bytes)) {
        weft_in_block(&in, 4);
        status = many_take(&in, shards);
    } else {
        status = one_take(attachment, bytes, shards);
    }
    if (status == WEFT_OK)
        status = headers_read(shards);
    if (status != WEFT_OK)
        weft_shards_close(shards);
    return status;
}

void weft_shards_close(weft_shards *shards)
{
    for (uint64_t i = 0; shards->items && i < shards->count; i++)
        weft_mem_give(shards->items[i].name);
    weft_mem_give(shards->items);
    weft_mem_give(shards->index_name);
    weft_layout_free(shards->layout);
    memset(shards, 0, sizeof *shards);
}

static void put_all(const weft_shards *shards, weft_out *out)
{
    weft_out_word(out, MARK, 4);
    weft_out_word(out, shards->count, 4);
    weft_out_text(out, shards->index_name);
    weft_out_word(out, shards->index_bytes, 4);
    weft_out_block(out, shards->index, shards->index_bytes);
    for (uint64_t i = 0; i < shards->count; i++) {
        weft_out_text(out, shards->items[i].name);
        weft_out_block(out, shards->items[i].header, shards->items[i].header_bytes);
    }
}

weft_status weft_shards_write(const weft_shards *shards, uint8_t **attachment, uint64_t *bytes)
{
    uint64_t room = 14 + strlen(shards->index_name) + shards->index_bytes;
    for (uint64_t i = 0; i < shards->count; i++)
        room += 2 + strlen(shards->items[i].name) + shards->items[i].header_bytes;
    uint8_t *made = weft_mem_take(room, 1);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for headers of %llu bytes", (ull)room);
    weft_out out = {made, room, 0, false};
    put_all(shards, &out);
    *attachment = made;
    *bytes = out.used;
    return WEFT_OK;
}
