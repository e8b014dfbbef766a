/* store_put.c - writes a version: its update first, because the update makes the version visible, and then an anchor.
 */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "journal/journal.h"
#include "layout/layout.h"
#include "store/store.h"
#include "update/update_work.h"

typedef unsigned long long ull;

typedef struct put {
    weft_store *store;
    const weft_layout *layout;
    const weft_piece *base, *target;
    uint64_t base_count, target_count;
    const weft_store_put_options *options;
    const weft_work *work;
    uint64_t parent;                         /* index of the base; WEFT_STORE_NONE: there is none */
    uint64_t root;                           /* root of the base */
    bool tight;                              /* an update of level tight goes beside the other */
    weft_layout *stored;                     /* layout of the parent; NULL: the caller's */
    weft_piece *stored_base, *stored_target; /* pieces by its numbers */
    void *before;                            /* attachment of the base */
    uint64_t before_bytes;
    bool lost; /* no whole file tells the attachment of the base */
    weft_update_info *info;
} put;

/* ---- attachments: an anchor has the version's own always, an update only one that is new */

static weft_status before_read(put *p)
{
    const weft_version *base = &p->options->base;
    if (p->parent == WEFT_STORE_NONE)
        return WEFT_OK;
    weft_status status = weft_store_attachment(p->store, base, NULL, 0, &p->before_bytes);
    p->lost = status == WEFT_E_MISSING;
    if (status != WEFT_OK || p->before_bytes == 0)
        return status == WEFT_E_MISSING ? WEFT_OK : status;
    p->before = weft_mem_take(p->before_bytes, 1);
    if (!p->before)
        return weft_fail(WEFT_E_MEMORY, "no memory for an attachment of %llu bytes", (ull)p->before_bytes);
    return weft_store_attachment(p->store, base, p->before, p->before_bytes, &p->before_bytes);
}

static bool attachment_is_new(const put *p)
{
    const weft_store_put_options *o = p->options;
    return o->attachment_bytes &&
           (o->attachment_bytes != p->before_bytes || memcmp(o->attachment, p->before, p->before_bytes) != 0);
}

/* ---- the two files */

static weft_status update_write(put *p, const char *level, const weft_sink *sink)
{
    const weft_store_put_options *o = p->options;
    weft_diff_options options = {.size = sizeof options, .level = level, .base = o->base, .target = o->target};
    weft_update_info info = {.size = sizeof info};
    if (attachment_is_new(p)) {
        options.attachment = o->attachment;
        options.attachment_bytes = o->attachment_bytes;
    }
    weft_status status =
        weft_diff(p->layout, p->base, p->base_count, p->target, p->target_count, &options, p->work, sink, &info);
    if (status == WEFT_OK && info.base.root != p->root)
        return weft_fail(WEFT_E_BASE,
                         "the weights given as version %llu have digest %016llx, and the store has "
                         "%016llx for it",
                         (ull)o->base.number, (ull)info.base.root, (ull)p->root);
    if (!p->info->size)
        *p->info = info;
    return status;
}

static weft_status update_fill(void *user, const weft_sink *sink)
{
    return update_write(user, "fast", sink);
}

static weft_status tight_fill(void *user, const weft_sink *sink)
{
    return update_write(user, "tight", sink);
}

static weft_status anchor_fill(void *user, const weft_sink *sink)
{
    put *p = user;
    const weft_store_put_options *o = p->options;
    const bool own = o->attachment_bytes > 0;
    weft_diff_options options = {.size = sizeof options,
                                 .level = "full",
                                 .target = o->target,
                                 .attachment = own ? o->attachment : p->before,
                                 .attachment_bytes = own ? o->attachment_bytes : p->before_bytes};
    weft_update_info info = {.size = sizeof info};
    weft_store_zero zero;
    weft_status status = weft_store_zero_open(p->layout, &zero);
    if (status == WEFT_OK)
        status = weft_diff(p->layout, zero.pieces, p->layout->count, p->target, p->target_count, &options, p->work,
                           sink, &info);
    weft_store_zero_close(&zero);
    if (status == WEFT_OK && p->info->size == 0)
        *p->info = info;
    return status;
}

weft_status weft_store_file_put(weft_store *store, const weft_version *version, weft_store_kind kind,
                                weft_status (*fill)(void *user, const weft_sink *sink), void *user)
{
    const weft_store_name name = {version->run, version->number, kind, store->source, store->sources};
    char text[WEFT_STORE_NAME_MAX];
    weft_store_name_put(&name, text);
    weft_status status = store->port->put(store->place, text, fill, user);
    return status == WEFT_OK ? weft_store_note(store, &name) : status;
}

/* ---- the rule */

bool weft_store_anchor_is_due(const weft_store *store, const weft_version *target, uint64_t parent)
{
    uint64_t index = parent, merged = WEFT_STORE_NONE; /* where the last merge that was passed starts */
    while (index != WEFT_STORE_NONE && !weft_store_has(&store->versions[index], WEFT_STORE_ANCHOR)) {
        if (weft_store_has(&store->versions[index], WEFT_STORE_MERGE))
            merged = store->versions[index].start[WEFT_STORE_MERGE];
        index = weft_store_before(store, index);
        if (index == WEFT_STORE_NONE) {
            index = merged;
            merged = WEFT_STORE_NONE;
        }
    }
    if (index == WEFT_STORE_NONE)
        return true;
    const weft_version *last = &store->versions[index].version;
    return last->run != target->run || target->number / store->anchors != last->number / store->anchors;
}

/* Goes on in the order of tensors that the parent has, because an update leads from one layout to the same. */
static weft_status order_take(put *p)
{
    weft_layout *again = NULL;
    if (p->parent == WEFT_STORE_NONE || weft_store_has_layout(p->store, p->parent, p->layout))
        return WEFT_OK;
    weft_status status =
        weft_store_match(p->store, p->parent, p->layout, p->base, p->base_count, &p->stored, &p->stored_base);
    if (status == WEFT_OK)
        status =
            weft_store_match(p->store, p->parent, p->layout, p->target, p->target_count, &again, &p->stored_target);
    weft_layout_free(again);
    if (status != WEFT_OK)
        return status;
    p->layout = p->stored;
    p->base = p->stored_base;
    p->target = p->stored_target;
    return WEFT_OK;
}

static weft_status labels_check(put *p)
{
    const weft_version *base = &p->options->base, *target = &p->options->target;
    p->parent = WEFT_STORE_NONE;
    if (target->run == 0)
        return weft_fail(WEFT_E_ARGUMENT, "a version of a store needs a run other than 0");
    if (weft_store_find(p->store, target->run, target->number) != WEFT_STORE_NONE)
        return weft_fail(WEFT_E_STATE, "%s: version %llu is there already, and a store overwrites nothing",
                         p->store->name, (ull)target->number);
    for (uint32_t i = 0; i < p->store->shelf_count; i++)
        if (p->store->shelves[i]->count)
            return weft_fail(WEFT_E_STATE, "%s: trainers of several sources write it: put versions into another store",
                             p->store->name);
    if (base->run == 0)
        return p->base ? weft_fail(WEFT_E_ARGUMENT, "weights of a base are given, and no run of the base") : WEFT_OK;
    if (base->run > target->run || (base->run == target->run && base->number >= target->number))
        return weft_fail(WEFT_E_ARGUMENT, "version %llu is not later than its base, version %llu", (ull)target->number,
                         (ull)base->number);
    p->parent = weft_store_find(p->store, base->run, base->number);
    if (p->parent == WEFT_STORE_NONE)
        return weft_fail(WEFT_E_MISSING, "%s: the base, version %llu, is not there", p->store->name, (ull)base->number);
    p->root = p->store->versions[p->parent].version.root;
    return WEFT_OK;
}

static weft_status files_put(put *p)
{
    weft_status status = before_read(p);
    const weft_version *target = &p->options->target;
    /* An anchor tells an attachment, and none where it has none. One that nobody knows is told by no anchor. */
    const bool told = !p->lost || p->options->attachment_bytes > 0;
    const bool due = told && weft_store_anchor_is_due(p->store, target, p->parent);
    if (status == WEFT_OK && p->parent != WEFT_STORE_NONE)
        status = weft_store_file_put(p->store, target, WEFT_STORE_UPDATE, update_fill, p);
    if (status == WEFT_OK && p->parent != WEFT_STORE_NONE && p->tight)
        status = weft_store_file_put(p->store, target, WEFT_STORE_TIGHT, tight_fill, p);
    if (status == WEFT_OK && due)
        status = weft_store_file_put(p->store, target, WEFT_STORE_ANCHOR, anchor_fill, p);
    const uint64_t index = weft_store_find(p->store, target->run, target->number);
    return status == WEFT_OK && index != WEFT_STORE_NONE ? weft_store_merge_put(p->store, index, NULL) : status;
}

weft_status weft_store_put(weft_store *store, const weft_layout *layout, const weft_piece *base, uint64_t base_count,
                           const weft_piece *target, uint64_t target_count, const weft_store_put_options *options,
                           const weft_work *work, weft_update_info *info)
{
    WEFT_ALONE(store, "weft_store_put");
    weft_work own;
    weft_update_info figures = {0};
    weft_store_put_options chosen = {0};
    if (!options)
        return weft_fail(WEFT_E_ARGUMENT, "a version of a store needs options, with a run and a number");
    weft_status status = weft_size_check(options, "weft_store_put_options");
    if (status == WEFT_OK)
        status = weft_update_sizes_check(work, info, "weft_update_info");
    if (status != WEFT_OK)
        return status;
    memcpy(&chosen, options, options->size < sizeof chosen ? options->size : sizeof chosen);
    put p = {store,           layout,       base,    target,
             base_count,      target_count, &chosen, weft_update_work_take(work, &own),
             .info = &figures};
    status = weft_blob_check("weft_store_put", chosen.attachment, chosen.attachment_bytes);
    p.tight = chosen.level && strcmp(chosen.level, "tight") == 0;
    if (status == WEFT_OK && chosen.level && !p.tight && strcmp(chosen.level, "fast") != 0)
        status = weft_fail(WEFT_E_ARGUMENT, "a store has updates of level fast, and tight ones beside them, none of %s",
                           chosen.level);
    if (status == WEFT_OK)
        status = labels_check(&p);
    if (status == WEFT_OK)
        status = order_take(&p);
    if (status == WEFT_OK)
        status = files_put(&p);
    weft_mem_give(p.stored_target);
    weft_mem_give(p.stored_base);
    weft_layout_free(p.stored);
    weft_mem_give(p.before);
    if (status != WEFT_OK || !info)
        return status;
    figures.size = info->size < sizeof figures ? info->size : sizeof figures;
    memcpy(info, &figures, figures.size);
    return WEFT_OK;
}
