/* store_copy.c - files of one store into another, byte for byte: what is there stays, and what was cut off begins anew.
 */
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/status.h"
#include "store/store.h"
#include "update/update_format.h"
#include "update/update_work.h"

typedef unsigned long long ull;

#define PART (UINT64_C(1) << 20) /* bytes that are read at once */

typedef struct copier {
    weft_store *from, *to;
    const weft_work *work;
    weft_status (*report)(void *user, const weft_store_fault *fault);
    void *user;
    weft_store_copied copied;
    uint64_t faults;
    weft_update_file *update; /* the file that is being copied */
    uint8_t *part;
    uint64_t sum;         /* one word for the bytes read */
    uint64_t done, total; /* bytes of all files */
} copier;

/* ---- the order */

static int kind_rank(weft_store_kind kind)
{
    return kind == WEFT_STORE_ANCHOR ? -1 : (int)kind;
}

/* By version, the anchor of each first, so that all that is there can be read at every moment. */
static int items_compare(const void *a, const void *b)
{
    const weft_store_name *x = &((const weft_store_item *)a)->name, *y = &((const weft_store_item *)b)->name;
    if (x->run != y->run)
        return x->run < y->run ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->kind != y->kind)
        return kind_rank(x->kind) < kind_rank(y->kind) ? -1 : 1;
    return x->source != y->source ? (x->source < y->source ? -1 : 1)
                                  : (x->sources > y->sources) - (x->sources < y->sources);
}

static weft_status items_sorted(weft_store *store, weft_store_items *items)
{
    weft_status status = store->port->list(store->place, items);
    if (status == WEFT_OK && items->count)
        qsort(items->items, items->count, sizeof *items->items, items_compare);
    return status;
}

/* ---- one file */

/* Reads all of a file, and hands the bytes on if there is a sink. */
static weft_status bytes_read(copier *c, const weft_update_file *file, const weft_sink *sink, uint64_t *sum)
{
    weft_status status = WEFT_OK;
    XXH3_state_t bits;
    XXH3_64bits_reset(&bits);
    for (uint64_t at = 0; status == WEFT_OK && at < file->source.bytes;) {
        const uint64_t left = file->source.bytes - at, now = left < PART ? left : PART;
        status = weft_update_read(&file->source, at, c->part, now);
        if (status == WEFT_OK)
            XXH3_64bits_update(&bits, c->part, now);
        if (status == WEFT_OK && sink)
            status = weft_update_write(sink, c->part, now);
        at += now;
        if (status == WEFT_OK && sink)
            status = weft_update_progress(c->work, c->done + at, c->total);
    }
    *sum = XXH3_64bits_digest(&bits);
    return status;
}

static weft_status fill(void *user, const weft_sink *sink)
{
    copier *c = user;
    return bytes_read(c, c->update, sink, &c->sum);
}

/* The place is read back, because a store is what comes out of it. A file that is there counts as copied, so one with
 * other bytes goes. */
static weft_status written_prove(copier *c, const char *name)
{
    weft_update_file *file;
    uint64_t sum = 0;
    weft_status status = c->to->port->open(c->to->place, name, &file);
    if (status != WEFT_OK)
        return status;
    status = bytes_read(c, file, NULL, &sum);
    weft_update_close(file);
    if (status != WEFT_OK || sum == c->sum)
        return status;
    const bool gone = c->to->port->remove(c->to->place, name) == WEFT_OK;
    return weft_fail(WEFT_E_CHECK, "%s: %s was written, and other bytes are read there; %s", c->to->name, name,
                     gone ? "it was removed again" : "remove it");
}

/* A file that is there stays. It is the same one if both ends say so. */
static weft_status there_prove(copier *c, const weft_store_item *item, const weft_store_item *there, const char *name)
{
    weft_update_file *file;
    if (there->bytes != item->bytes)
        return weft_fail_quiet(WEFT_E_STATE,
                               "%s: %s is there with %llu bytes, and not %llu; a store overwrites nothing", c->to->name,
                               name, (ull)there->bytes, (ull)item->bytes);
    weft_status status = c->to->port->open(c->to->place, name, &file);
    if (status != WEFT_OK)
        return status;
    const weft_wire_update *own = &file->header, *other = &c->update->header;
    const bool same = memcmp(&own->base, &other->base, sizeof own->base) == 0 &&
                      memcmp(&own->target, &other->target, sizeof own->target) == 0 &&
                      memcmp(own->layout, other->layout, sizeof own->layout) == 0;
    weft_update_close(file);
    if (same)
        c->copied.there++;
    return same ? WEFT_OK
                : weft_fail_quiet(WEFT_E_STATE, "%s: %s is there with another version; a store overwrites nothing",
                                  c->to->name, name);
}

/* `fault`: the error is of this file alone, and not of a place. */
static weft_status file_copy(copier *c, const weft_store_item *item, const weft_store_items *there, const char *name,
                             bool *fault)
{
    const weft_store_item *found =
        there->count ? bsearch(item, there->items, there->count, sizeof *item, items_compare) : NULL;
    weft_status status = c->from->port->open(c->from->place, name, &c->update);
    *fault = status != WEFT_OK || found;
    if (status != WEFT_OK)
        return status;
    if (found) {
        status = there_prove(c, item, found, name);
    } else {
        status = c->to->port->put(c->to->place, name, fill, c);
        if (status == WEFT_OK)
            status = written_prove(c, name);
        c->copied.files += status == WEFT_OK;
        c->copied.bytes += status == WEFT_OK ? item->bytes : 0;
    }
    weft_update_close(c->update);
    return status;
}

/* ---- all */

/* A damaged file, and one that is in the way, are reported, and the others copied. */
static weft_status fault_say(copier *c, const weft_store_item *item, const char *name, weft_status status)
{
    if (!weft_store_is_damage(status) && status != WEFT_E_STATE)
        return status;
    const weft_store_fault fault = {name, {item->name.run, item->name.number, 0}, status, weft_last_error()};
    c->faults++;
    return c->report ? c->report(c->user, &fault) : WEFT_OK;
}

static weft_status all_copy(copier *c, const weft_store_items *items, const weft_store_items *there)
{
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < items->count; i++)
        c->total += items->items[i].bytes;
    for (uint64_t i = 0; status == WEFT_OK && i < items->count; i++) {
        char name[WEFT_STORE_NAME_MAX];
        bool fault = false;
        weft_store_name_put(&items->items[i].name, name);
        status = weft_update_progress(c->work, c->done, c->total);
        if (status != WEFT_OK)
            break;
        status = file_copy(c, &items->items[i], there, name, &fault);
        if (status != WEFT_OK && fault)
            status = fault_say(c, &items->items[i], name, status);
        c->done += items->items[i].bytes;
    }
    return status;
}

static void copied_report(const weft_store_copied *all, weft_store_copied *copied)
{
    const size_t size = copied ? copied->size : 0;
    if (copied)
        memcpy(copied, all, size < sizeof *all ? size : sizeof *all);
    if (copied)
        copied->size = size;
}

static weft_status stores_copy(copier *c)
{
    weft_store_items items = {0}, there = {0};
    weft_status status = items_sorted(c->from, &items);
    if (status == WEFT_OK)
        status = items_sorted(c->to, &there);
    if (status == WEFT_OK)
        status = all_copy(c, &items, &there);
    weft_mem_give(items.items);
    weft_mem_give(there.items);
    return status;
}

weft_status weft_store_copy(weft_store *from, weft_store *to, const weft_work *work,
                            weft_status (*report)(void *user, const weft_store_fault *fault), void *user,
                            uint64_t *faults, weft_store_copied *copied)
{
    WEFT_ALONE(from, "weft_store_copy");
    WEFT_ALONE(to, "weft_store_copy");
    weft_work own;
    weft_status status = weft_size_check(work, "weft_work");
    if (status == WEFT_OK)
        status = weft_size_check(copied, "weft_store_copied");
    if (status != WEFT_OK)
        return status;
    copier c = {.from = from, .to = to, .work = weft_update_work_take(work, &own), .report = report, .user = user};
    c.part = weft_mem_take(PART, 1);
    status = c.part ? stores_copy(&c) : weft_fail(WEFT_E_MEMORY, "no memory to copy a store");
    *faults = c.faults;
    copied_report(&c.copied, copied);
    weft_mem_give(c.part);
    return status;
}
