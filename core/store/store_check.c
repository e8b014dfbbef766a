/* store_check.c - proves each file of a store against weights.
 *
 * Forward from each anchor, every update is applied, and each root is compared with what the file says. Updates after a
 * damaged file are proved backward from the next anchor. */
#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "store/store.h"
#include "update/update_work.h"

typedef unsigned long long ull;

typedef struct checker {
    weft_store *store;
    const weft_work *work; /* the caller's work; NULL: none */
    weft_work files;       /* work of one file */
    uint64_t done;         /* versions that are done, in both directions */
    weft_status (*report)(void *user, const weft_store_fault *fault);
    void *user;
    uint64_t faults;
    bool *unproved;                     /* updates that no weights were at hand for, by version */
    bool (*reported)[WEFT_STORE_KINDS]; /* files whose damage was reported, by version */
    weft_layout *layout;                /* layout of the weights; NULL: none yet */
    weft_store_zero weights;            /* memory for the weights */
    uint64_t at;                        /* version that the weights are; WEFT_STORE_NONE: none */
} checker;

/* Files are the progress that a caller sees. */
static weft_status files_progress(void *user, uint64_t done, uint64_t total)
{
    const checker *c = user;
    (void)done;
    (void)total;
    return weft_update_progress(c->work, c->done, 2 * c->store->count);
}

/* ---- faults */

static weft_status fault_say(checker *c, const weft_store_fault *fault)
{
    c->faults++;
    return c->report ? c->report(c->user, fault) : WEFT_OK;
}

/* Reports what the last error says of a file, once. */
static weft_status file_is_damaged(checker *c, uint64_t index, weft_store_kind kind, weft_status status)
{
    weft_store_version *v = &c->store->versions[index];
    char name[WEFT_STORE_NAME_MAX];
    const bool ends = status == WEFT_E_MEMORY || status == WEFT_E_SYSTEM || status == WEFT_E_STATE ||
                      status == WEFT_E_TIMEOUT; /* which says nothing of the file */
    if (ends || c->reported[index][kind])
        return ends ? status : WEFT_OK;
    v->files[kind].status = status;
    c->reported[index][kind] = true;
    weft_store_name_put(&v->files[kind].item.name, name);
    const weft_store_fault fault = {name, v->version, status, weft_last_error()};
    return fault_say(c, &fault);
}

/* ---- weights */

static weft_status layout_take(checker *c, uint64_t index)
{
    weft_layout *layout;
    weft_status status = weft_store_file_layout(c->store, &c->store->versions[index].version, &layout);
    if (status != WEFT_OK)
        return status;
    if (c->layout && c->layout->hash[0] == layout->hash[0] && c->layout->hash[1] == layout->hash[1]) {
        weft_layout_free(layout);
        return WEFT_OK;
    }
    weft_store_zero_close(&c->weights);
    weft_layout_free(c->layout);
    c->layout = layout;
    c->at = WEFT_STORE_NONE;
    return weft_store_zero_open(layout, &c->weights);
}

static weft_status step(checker *c, weft_store_act act, uint64_t index, weft_store_kind kind, bool proof)
{
    const weft_store_step taken = {act, index, kind};
    return weft_store_step_take(c->store, &taken, proof, c->layout, c->weights.pieces, &c->files);
}

/* Leads the weights to a version. False: no whole files lead there. */
static bool led_to(checker *c, uint64_t index)
{
    const weft_version *to = &c->store->versions[index].version;
    const weft_status status =
        weft_store_apply_files(c->store, to, c->layout, c->weights.pieces, c->layout->count, &c->files, NULL);
    c->at = status == WEFT_OK ? index : WEFT_STORE_NONE;
    return status == WEFT_OK;
}

/* ---- one file */

/* Proves the frames alone, where no weights can be had. */
static weft_status frames_prove(checker *c, uint64_t index, weft_store_kind kind)
{
    weft_update_file *update;
    weft_update_tensor *tensors = weft_mem_take(c->layout->count + 1, sizeof *tensors);
    if (!tensors)
        return weft_fail(WEFT_E_MEMORY, "no memory for the changes of %llu tensors", (ull)c->layout->count);
    weft_status status = weft_store_file_open(c->store, &c->store->versions[index].files[kind], &update);
    if (status == WEFT_OK)
        status = weft_update_tensors(update, c->layout, NULL, 0, tensors, NULL);
    weft_update_close(update);
    weft_mem_give(tensors);
    return status;
}

/* ---- forward */

static weft_status update_forward(checker *c, uint64_t index)
{
    const weft_store_version *v = &c->store->versions[index];
    if (v->parent == WEFT_STORE_NONE || c->at != v->parent) {
        c->unproved[index] = true;
        return WEFT_OK;
    }
    const weft_status status = step(c, WEFT_STORE_FORWARD, index, WEFT_STORE_UPDATE, false);
    if (status == WEFT_OK)
        c->at = index;
    return status == WEFT_OK ? status : file_is_damaged(c, index, WEFT_STORE_UPDATE, status);
}

static weft_status anchor_forward(checker *c, uint64_t index)
{
    const weft_status status = step(c, WEFT_STORE_SET, index, WEFT_STORE_ANCHOR, c->at == index);
    if (status == WEFT_OK)
        c->at = index;
    return status == WEFT_OK ? status : file_is_damaged(c, index, WEFT_STORE_ANCHOR, status);
}

/* A tight update needs its base. Where nothing leads there, nothing of it can be told. */
static weft_status tight_forward(checker *c, uint64_t index)
{
    const uint64_t start = c->store->versions[index].start[WEFT_STORE_TIGHT];
    if (start == WEFT_STORE_NONE || (c->at != start && !led_to(c, start)))
        return WEFT_OK;
    const weft_status status = step(c, WEFT_STORE_FORWARD, index, WEFT_STORE_TIGHT, true);
    return status == WEFT_OK ? status : file_is_damaged(c, index, WEFT_STORE_TIGHT, status);
}

/* A merge is proved back to its base, and forward again. Where the updates do not lead, the merge does. */
static weft_status merge_forward(checker *c, uint64_t index)
{
    const uint64_t before = c->store->versions[index].start[WEFT_STORE_MERGE];
    const bool whole = before != WEFT_STORE_NONE && (c->at == index || led_to(c, before));
    weft_status status = WEFT_OK;
    if (!whole)
        status = frames_prove(c, index, WEFT_STORE_MERGE);
    else if (c->at == index)
        status = step(c, WEFT_STORE_BACK, index, WEFT_STORE_MERGE, false);
    if (whole && status == WEFT_OK) {
        status = step(c, WEFT_STORE_FORWARD, index, WEFT_STORE_MERGE, false);
        c->at = status == WEFT_OK ? index : before;
    }
    return status == WEFT_OK ? status : file_is_damaged(c, index, WEFT_STORE_MERGE, status);
}

/* Reads a file with damaged ends once more for the words that say so. */
static weft_status ends_forward(checker *c, uint64_t index, weft_store_kind kind)
{
    weft_store_file *file = &c->store->versions[index].files[kind];
    weft_update_file *update;
    if (file->item.bytes == 0 || file->status == WEFT_OK)
        return WEFT_OK;
    weft_status status = weft_store_file_open(c->store, file, &update);
    weft_update_close(update);
    if (status == WEFT_OK)
        status = weft_fail_quiet(file->status, kind == WEFT_STORE_UPDATE
                                                   ? "the changes do not lead to the digest of the version"
                                                   : "it has another digest than the update of its version");
    return file_is_damaged(c, index, kind, status);
}

static weft_status version_forward(checker *c, uint64_t index)
{
    const weft_store_version *v = &c->store->versions[index];
    weft_status status = WEFT_OK;
    for (int kind = 0; kind < WEFT_STORE_KINDS && status == WEFT_OK; kind++)
        status = ends_forward(c, index, (weft_store_kind)kind);
    const bool update = weft_store_has(v, WEFT_STORE_UPDATE), anchor = weft_store_has(v, WEFT_STORE_ANCHOR);
    const weft_store_file *like = weft_store_like(c->store, index);
    if (status != WEFT_OK || !like || like != &v->files[like->item.name.kind])
        return status;
    status = layout_take(c, index);
    if (status == WEFT_OK && weft_store_has(v, WEFT_STORE_TIGHT))
        status = tight_forward(c, index);
    if (status != WEFT_OK)
        return file_is_damaged(c, index, like->item.name.kind, status);
    if (update)
        status = update_forward(c, index);
    if (status == WEFT_OK && anchor)
        status = anchor_forward(c, index);
    return status == WEFT_OK && weft_store_has(v, WEFT_STORE_MERGE) ? merge_forward(c, index) : status;
}

/* ---- backward */

/* An update is proved at its own version, from which it leads back, or at its base. */
static weft_status version_backward(checker *c, uint64_t index)
{
    const weft_store_version *v = &c->store->versions[index];
    weft_status status = layout_take(c, index);
    if (status != WEFT_OK)
        return file_is_damaged(c, index, WEFT_STORE_UPDATE, status);
    if (!v->files[WEFT_STORE_UPDATE].attached && led_to(c, index)) {
        status = step(c, WEFT_STORE_BACK, index, WEFT_STORE_UPDATE, false);
        c->at = status == WEFT_OK ? v->parent : index;
    } else if (v->parent != WEFT_STORE_NONE && led_to(c, v->parent)) {
        status = step(c, WEFT_STORE_FORWARD, index, WEFT_STORE_UPDATE, false);
        c->at = status == WEFT_OK ? index : v->parent;
    } else if (weft_store_has(v, WEFT_STORE_UPDATE)) {
        status = frames_prove(c, index, WEFT_STORE_UPDATE);
    }
    return status == WEFT_OK ? status : file_is_damaged(c, index, WEFT_STORE_UPDATE, status);
}

/* ---- all */

static weft_status version_is_lost(checker *c, const weft_version *version, const char *why)
{
    char text[2 * WEFT_STORE_GAP_MAX], source[64] = "";
    if (c->store->sources > 1)
        snprintf(source, sizeof source, "source %u of %u: ", c->store->source, c->store->sources);
    snprintf(text, sizeof text, "%s%s", source, why);
    const weft_store_fault fault = {NULL, *version, WEFT_E_MISSING, text};
    return fault_say(c, &fault);
}

/* A version of which no file is left is known by the update that starts from it. What was trimmed lies before an
 * anchor.
 */
static weft_status base_look(checker *c, uint64_t index)
{
    const weft_store_version *v = &c->store->versions[index];
    const weft_version *base = &v->files[WEFT_STORE_UPDATE].base;
    char why[WEFT_STORE_GAP_MAX];
    if (!weft_store_has(v, WEFT_STORE_UPDATE) || v->files[WEFT_STORE_ANCHOR].item.bytes ||
        weft_store_find(c->store, base->run, base->number) != WEFT_STORE_NONE)
        return WEFT_OK;
    snprintf(why, sizeof why, "version %llu goes on from it, and no file of it is there", (ull)v->version.number);
    return version_is_lost(c, base, why);
}

static weft_status lost_say(checker *c)
{
    bool *reached = weft_mem_take(c->store->count + 1, sizeof *reached);
    if (!reached)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu versions", (ull)c->store->count);
    weft_status status = weft_store_reach(c->store, 0, reached);
    for (uint64_t i = 0; status == WEFT_OK && i < c->store->count; i++) {
        char gap[WEFT_STORE_GAP_MAX], why[WEFT_STORE_GAP_MAX + 64];
        status = base_look(c, i);
        if (status != WEFT_OK || reached[i])
            continue;
        weft_store_gap(c->store, i, gap);
        snprintf(why, sizeof why, "no whole files lead to this version: %s", gap);
        status = version_is_lost(c, &c->store->versions[i].version, why);
    }
    weft_mem_give(reached);
    return status;
}

static weft_status check(checker *c)
{
    const uint64_t count = c->store->count;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; status == WEFT_OK && i < count; i++) {
        status = version_forward(c, i);
        c->done++;
    }
    for (uint64_t i = count; status == WEFT_OK && i-- > 0; c->done++)
        if (c->unproved[i] && weft_store_has(&c->store->versions[i], WEFT_STORE_UPDATE))
            status = version_backward(c, i);
    for (uint64_t i = 0; status == WEFT_OK && i < count; i++) /* found on the ways of others */
        for (int kind = 0; status == WEFT_OK && kind < WEFT_STORE_KINDS; kind++)
            if (!c->reported[i][kind])
                status = ends_forward(c, i, (weft_store_kind)kind);
    return status == WEFT_OK ? lost_say(c) : status;
}

/* Checks the files of one source. */
static weft_status source_check(weft_store *store, const checker *like, uint64_t *faults)
{
    checker c = *like;
    c.store = store;
    c.files = c.work ? *c.work : (weft_work){0};
    c.files.size = sizeof c.files;
    c.files.progress = files_progress;
    c.files.user = &c;
    c.unproved = weft_mem_take(store->count + 1, sizeof *c.unproved);
    c.reported = weft_mem_take(store->count + 1, sizeof *c.reported);
    const weft_status status =
        c.unproved && c.reported ? check(&c) : weft_fail(WEFT_E_MEMORY, "no memory to check a store");
    *faults += c.faults;
    weft_store_zero_close(&c.weights);
    weft_layout_free(c.layout);
    weft_mem_give(c.reported);
    weft_mem_give(c.unproved);
    return status;
}

weft_status weft_store_check(weft_store *store, const weft_work *work,
                             weft_status (*report)(void *user, const weft_store_fault *fault), void *user,
                             uint64_t *faults)
{
    WEFT_ALONE(store, "weft_store_check");
    weft_work own;
    weft_store *each;
    weft_status status = weft_size_check(work, "weft_work");
    if (status == WEFT_OK)
        status = weft_store_load(store);
    if (status == WEFT_OK && !store->last_run)
        status = weft_fail(WEFT_E_MISSING, "%s: no store is there: it has no file of one", store->name);
    if (status != WEFT_OK)
        return status;
    const checker like = {
        .work = weft_update_work_take(work, &own), .report = report, .user = user, .at = WEFT_STORE_NONE};
    *faults = 0;
    for (uint32_t i = 0; status == WEFT_OK && (each = weft_store_each(store, i)); i++)
        status = source_check(each, &like, faults);
    return status;
}
