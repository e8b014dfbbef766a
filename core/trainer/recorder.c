#include "trainer/recorder.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/thread.h"
#include "peer/peer.h"

typedef unsigned long long ull;

#define NICENESS 10    /* as the bridge's, which says why */
#define RETRY_MS 5000u /* rest after the disk failed */
#define GRACE_S  3600u /* age below which no file goes, because a reader may be at it */

/* ---- open and close */

static weft_status run_check(weft_publisher *publisher, const weft_store *store)
{
    const uint64_t last = store->last_run;
    if (publisher->run >= last)
        return WEFT_OK;
    if (publisher->session->options.run)
        return weft_fail(WEFT_E_CONFIG, "%s: its last run is %016llx, and the run that is given, %016llx, is not later",
                         store->name, (ull)last, (ull)publisher->run);
    publisher->run = last + 1; /* the clock was put back since */
    return WEFT_OK;
}

/* Takes what it takes to write cells. */
static weft_status cells_take(weft_recorder *recorder)
{
    const weft_session *session = recorder->publisher->session;
    weft_status status = WEFT_OK;
    if (!weft_division_is_cut(&session->division))
        return WEFT_OK;
    for (int kind = 0; kind < WEFT_STORE_KINDS && status == WEFT_OK; kind++)
        status = weft_update_cells_open(session->division.model, &session->division.cells, &recorder->cells[kind]);
    return status;
}

static weft_mem_list memory_of(weft_recorder *recorder, const weft_layout *layout)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(recorder->frame, layout->largest_frame + 1),
                            WEFT_MEM_TAKEN(recorder->digests, layout->part_count + 1),
                            WEFT_MEM_TAKEN(recorder->delta, layout->part_count + 1),
                            WEFT_MEM_TAKEN(recorder->before, layout->part_count + 1),
                            WEFT_MEM_TAKEN(recorder->after, layout->part_count + 1)}};
}

uint64_t weft_recorder_need(const weft_layout *layout)
{
    return sizeof(weft_recorder) + weft_mem_list_bytes(memory_of(&(weft_recorder){0}, layout)) +
           weft_rebuilder_need(layout) + weft_encoder_need(layout, 1, 1);
}

static weft_status memory_take(weft_recorder *recorder)
{
    weft_publisher *publisher = recorder->publisher;
    const weft_layout *layout = publisher->session->layout;
    const weft_backend_options options = {-1, publisher->session->site->trainer.kernels, 0, 0};
    recorder->backend = weft_backend_find("host");
    weft_status status = weft_mem_list_take(memory_of(recorder, layout), "to write versions into a store");
    if (status == WEFT_OK)
        status = cells_take(recorder);
    if (status == WEFT_OK)
        status = recorder->backend->open(&options, &recorder->device);
    const weft_rebuilder_owner owner = {publisher,       recorder->backend,  recorder->device,
                                        recorder->frame, &recorder->running, &recorder->broken};
    if (status == WEFT_OK)
        status = weft_rebuilder_open(&recorder->rebuilder, &owner);
    return status == WEFT_OK
               ? weft_encoder_open(&recorder->encoder, recorder->backend, &options, recorder->device, layout, 1)
               : status;
}

weft_status weft_recorder_open(weft_publisher *publisher)
{
    const weft_session *session = publisher->session;
    const weft_store_options options = {.size = sizeof options, .create = 1};
    const uint32_t sources = session->has_share ? (uint32_t)session->site->source_count : 1;
    pthread_condattr_t monotonic;
    if (sources == 0)
        return weft_fail(WEFT_E_CONFIG, "[trainer] store: a trainer of slices is one of several sources, and the "
                                        "site has no section [source.R] that tells how many there are");
    weft_recorder *recorder = weft_mem_take(1, sizeof *recorder);
    if (!recorder)
        return weft_fail(WEFT_E_MEMORY, "no memory to write versions into a store");
    publisher->recorder = recorder;
    recorder->publisher = publisher;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&recorder->wake, &monotonic);
    pthread_cond_init(&recorder->gone, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const uint32_t source = session->has_share ? session->options.source : 0;
    weft_status status =
        weft_store_open_source(session->site->trainer.store, &options, source, sources, &recorder->store);
    if (status == WEFT_OK)
        status = run_check(publisher, recorder->store);
    return status == WEFT_OK ? memory_take(recorder) : status;
}

void weft_recorder_close(weft_recorder *recorder)
{
    if (!recorder || recorder->given_up)
        return;
    weft_blob_drop(recorder->attachment);
    weft_encoder_close(&recorder->encoder);
    weft_rebuilder_close(&recorder->rebuilder);
    if (recorder->device)
        recorder->backend->close(recorder->device);
    for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
        weft_update_cells_close(&recorder->cells[kind]);
    weft_mem_list_give(memory_of(recorder, recorder->publisher->session->layout));
    weft_store_close(recorder->store);
    pthread_cond_destroy(&recorder->gone);
    pthread_cond_destroy(&recorder->wake);
    weft_mem_give(recorder);
}

/* ---- what is there, and what is not */

static void attachment_keep(weft_recorder *recorder, weft_blob *attachment)
{
    weft_blob *before = recorder->attachment;
    recorder->attachment = weft_blob_hold(attachment);
    weft_blob_drop(before);
}

static void rest(weft_recorder *recorder)
{
    recorder->retry_ns = weft_clock_ns() + RETRY_MS * WEFT_NS_PER_MS;
}

/* Tells that a version has no update in the store. */
static void gap(weft_recorder *recorder, const weft_version *version, weft_status status)
{
    recorder->linked = false;
    if (recorder->broken)
        return;
    if (status != WEFT_E_BUDGET)
        rest(recorder);
    weft_log(WEFT_LOG_WARN, "store: version %llu has no update: %s; an anchor closes the gap", (ull)version->number,
             status == WEFT_E_BUDGET ? "the journal gave it up first; raise [trainer] journal" : weft_last_error());
}

/* Judges a file that was not written. One that is there already will do, if it leads to the same bits: a trainer that
 * comes back in the same run publishes versions once more. Else two lives of one run are mixed, and nothing more is
 * written. */
static weft_status taken_judge(weft_recorder *recorder, const weft_version *version, weft_store_kind kind,
                               weft_status status)
{
    const weft_store *store = recorder->store;
    const uint64_t index = weft_store_find(store, version->run, version->number);
    if (status == WEFT_OK || index == WEFT_STORE_NONE || !weft_store_has(&store->versions[index], kind))
        return status;
    if (store->versions[index].version.root == version->root)
        return WEFT_OK;
    if (!recorder->broken)
        weft_log(WEFT_LOG_WARN,
                 "store: it has version %llu of this run with other bits, so nothing more is written; begin a run of "
                 "its own",
                 (ull)version->number);
    recorder->broken = true;
    return status;
}

/* ---- updates */

/* Breaks a merge off when the session closes. */
static weft_status go_on(void *user, uint64_t done, uint64_t total)
{
    weft_recorder *recorder = user;
    (void)done;
    (void)total;
    pthread_mutex_lock(&recorder->publisher->session->lock);
    const bool broken = recorder->broken;
    pthread_mutex_unlock(&recorder->publisher->session->lock);
    return broken ? WEFT_AGAIN : WEFT_OK;
}

/* Writes the files beside an update. Without them readers take the updates. */
static void others_write(weft_recorder *recorder, weft_record *record)
{
    const weft_work work = {.size = sizeof work, .threads = 1, .progress = go_on, .user = recorder};
    weft_store *store = recorder->store;
    const weft_version *version = &record->target;
    const uint64_t index = weft_store_find(store, version->run, version->number);
    weft_status status = WEFT_OK;
    if (recorder->publisher->session->site->trainer.store_level == WEFT_STORE_LEVEL_TIGHT)
        status = weft_record_tight(record);
    if (status != WEFT_OK && !recorder->broken)
        weft_log(WEFT_LOG_WARN, "store: no tight update of version %llu: %s", (ull)version->number,
                 status == WEFT_E_BUDGET ? "later versions came faster than they can be undone; raise [trainer] journal"
                                         : weft_last_error());
    if (index != WEFT_STORE_NONE && weft_store_merge_put(store, index, &work) != WEFT_OK && !recorder->broken)
        weft_log(WEFT_LOG_WARN, "store: no merge of version %llu: %s", (ull)version->number, weft_last_error());
}

/* Writes the next version's update. Enters and leaves with the lock. */
static void next_write(weft_recorder *recorder)
{
    weft_session *session = recorder->publisher->session;
    const weft_update *update = weft_journal_at(&recorder->publisher->journal, recorder->next);
    if (!update || update->snapshot_only) {
        const weft_version lost = update ? update->target : (weft_version){0, recorder->last.number + 1, 0};
        gap(recorder, &lost, WEFT_E_BUDGET);
        return;
    }
    weft_blob *attachment = weft_blob_hold(update->attachment);
    recorder->writing = update->target.number;
    weft_record record = {.recorder = recorder,
                          .base = update->base,
                          .target = update->target,
                          .order = update->order,
                          .attachment = attachment != recorder->attachment ? attachment : NULL,
                          .parameters = update->parameters,
                          .changed = update->changed};
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_record_update(&record);
    if (status == WEFT_OK)
        others_write(recorder, &record);
    pthread_mutex_lock(&session->lock);
    status = taken_judge(recorder, &record.target, WEFT_STORE_UPDATE, status);
    if (status == WEFT_OK) {
        recorder->next = record.order + 1;
        recorder->last = record.target;
        attachment_keep(recorder, attachment);
        session->stats.recorded++;
    } else {
        gap(recorder, &record.target, status);
    }
    weft_blob_drop(attachment);
}

/* True if the next version's update can be written. */
static bool next_is_there(const weft_recorder *recorder)
{
    const weft_publisher *publisher = recorder->publisher;
    const uint64_t newest = publisher->newest.order - (publisher->sealing && publisher->newest.order ? 1 : 0);
    return recorder->linked && recorder->next <= newest;
}

/* Writes the versions that were published since, while an anchor is under way. */
static void meanwhile(weft_recorder *recorder)
{
    pthread_mutex_lock(&recorder->publisher->session->lock);
    while (next_is_there(recorder) && !recorder->broken)
        next_write(recorder);
    pthread_mutex_unlock(&recorder->publisher->session->lock);
}

/* ---- anchors */

static void trim(weft_recorder *recorder)
{
    const weft_site *site = recorder->publisher->session->site;
    const weft_store_keep keep = {sizeof keep, site->trainer.store_versions, site->trainer.store_bytes, 0, GRACE_S};
    uint64_t removed = 0;
    if (!keep.versions && !keep.bytes)
        return;
    if (weft_store_trim(recorder->store, &keep, &removed) != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "store: old versions stay: %s", weft_last_error());
    else if (removed)
        weft_log(WEFT_LOG_INFO, "store: %llu old versions went", (ull)removed);
}

/* Writes the anchor of a version. Enters and leaves with the lock. */
static weft_status anchor_write(weft_recorder *recorder, const weft_version *version, uint64_t order,
                                weft_blob *attachment)
{
    weft_session *session = recorder->publisher->session;
    weft_blob *held = weft_blob_hold(attachment);
    weft_record record = {
        .recorder = recorder, .target = *version, .order = order, .attachment = held, .beside = meanwhile};
    const uint64_t begun_ns = weft_clock_ns();
    recorder->writing = version->number;
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_record_anchor(&record);
    if (status == WEFT_OK && go_on(recorder, 0, 0) == WEFT_OK) {
        weft_log(WEFT_LOG_INFO, "store: anchor of version %llu in %.1f s", (ull)record.target.number,
                 1e-3 * weft_clock_ms(begun_ns, weft_clock_ns()));
        trim(recorder);
    }
    pthread_mutex_lock(&session->lock);
    weft_blob_drop(held);
    status = taken_judge(recorder, &record.target, WEFT_STORE_ANCHOR, status);
    if (status != WEFT_OK && !recorder->broken) {
        recorder->anchor_ns = weft_clock_ns() + RETRY_MS * WEFT_NS_PER_MS;
        weft_log(WEFT_LOG_WARN, "store: no anchor of version %llu: %s; it is tried again with a later version",
                 (ull)record.target.number,
                 status == WEFT_E_BUDGET ? "later versions came faster than they can be undone; raise [trainer] journal"
                                         : weft_last_error());
    }
    return status;
}

/* Removes the updates that were written after a version whose anchor failed, because nothing leads there. */
static weft_status stray_remove(weft_recorder *recorder, const weft_version *version)
{
    weft_store *store = recorder->store;
    weft_status status = WEFT_OK;
    for (uint64_t i = store->count; i-- > 0 && status == WEFT_OK;) {
        const weft_store_version *v = &store->versions[i];
        char name[WEFT_STORE_NAME_MAX];
        if (v->version.run != version->run || v->version.number <= version->number)
            break;
        weft_store_name_put(&v->files[WEFT_STORE_UPDATE].item.name, name);
        status = store->port->remove(store->place, name);
    }
    return status == WEFT_OK ? weft_store_load(store) : status;
}

/* Finds the first version that was not dealt with and that the shadow can still be taken back to; the newest if that
 * failed. */
static uint64_t order_to_begin(const weft_recorder *recorder)
{
    weft_journal *journal = &recorder->publisher->journal;
    uint64_t order = recorder->publisher->newest.order;
    while (!recorder->overtaken && order > recorder->next && weft_journal_after(journal, order - 1)) {
        const weft_update *before = weft_journal_at(journal, order - 1);
        if (order - 1 != recorder->bound && !(before && before->levels))
            break; /* its attachment went with its frames */
        order--;
    }
    return order;
}

/* Begins anew, with an anchor. Versions before are not in the store. Updates that are written meanwhile follow it. */
static void begin_anew(weft_recorder *recorder)
{
    weft_publisher *publisher = recorder->publisher;
    weft_stats_info *stats = &publisher->session->stats;
    const uint64_t order = order_to_begin(recorder), recorded = stats->recorded;
    const weft_update *after = weft_journal_at(&publisher->journal, order + 1);
    const weft_version version = after ? after->base : publisher->newest.version;
    if (!after)
        attachment_keep(recorder, publisher->newest.attachment);
    else if (order != recorder->bound)
        attachment_keep(recorder, weft_journal_at(&publisher->journal, order)->attachment);
    if (recorder->next < order)
        stats->unrecorded += order - recorder->next;
    recorder->next = order + 1;
    recorder->last = version;
    recorder->linked = true;
    const weft_status status = anchor_write(recorder, &version, order, recorder->attachment);
    recorder->overtaken = status == WEFT_E_BUDGET;
    if (status == WEFT_OK) {
        stats->recorded++;
        return;
    }
    recorder->linked = false;
    stats->unrecorded += 1 + stats->recorded - recorded;
    stats->recorded = recorded;
    if (!recorder->overtaken)
        rest(recorder);
    if (recorder->given_up)
        return;
    pthread_mutex_unlock(&publisher->session->lock);
    if (stray_remove(recorder, &version) != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "store: updates that nothing leads to stay: %s", weft_last_error());
    pthread_mutex_lock(&publisher->session->lock);
}

/* Puts the weights that were bound after the version of the store that has the same bits. */
static void origin_link(weft_recorder *recorder)
{
    weft_session *session = recorder->publisher->session;
    weft_record record = {.recorder = recorder, .base = recorder->origin, .target = recorder->last};
    record.same = recorder->bound;
    record.attachment = recorder->attachment;
    recorder->origin = (weft_version){0};
    recorder->writing = recorder->last.number;
    pthread_mutex_unlock(&session->lock);
    const weft_status status = weft_record_update(&record);
    pthread_mutex_lock(&session->lock);
    if (status != WEFT_OK) {
        gap(recorder, &record.target, status);
        return;
    }
    recorder->linked = true;
    recorder->next++;
    session->stats.recorded++;
}

static bool is_anchor_due(const weft_recorder *recorder)
{
    const uint64_t index = weft_store_find(recorder->store, recorder->last.run, recorder->last.number);
    return recorder->linked && weft_clock_ns() >= recorder->anchor_ns &&
           weft_store_anchor_is_due(recorder->store, &recorder->last, index);
}

/* ---- the thread */

/* Does what is next. Returns false if there is nothing to do now. */
static bool act(weft_recorder *recorder)
{
    const weft_publisher *publisher = recorder->publisher;
    if (publisher->shadow.lost || weft_clock_ns() < recorder->retry_ns)
        return false;
    if (recorder->origin.run)
        origin_link(recorder);
    else if (!recorder->linked && !publisher->shadow.busy)
        begin_anew(recorder);
    else if (is_anchor_due(recorder))
        anchor_write(recorder, &recorder->last, recorder->next - 1, recorder->attachment);
    else if (next_is_there(recorder))
        next_write(recorder);
    else
        return false;
    return true;
}

static void wait(weft_recorder *recorder)
{
    pthread_mutex_t *lock = &recorder->publisher->session->lock;
    const uint64_t until_ns = recorder->retry_ns;
    const struct timespec t = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    if (weft_clock_ns() < until_ns)
        pthread_cond_timedwait(&recorder->wake, lock, &t);
    else
        pthread_cond_wait(&recorder->wake, lock);
}

static void *run(void *argument)
{
    weft_recorder *recorder = argument;
    weft_session *session = recorder->publisher->session;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS); /* may be refused: the thread works all the same */
    weft_log_enter(&session->sink);
    pthread_mutex_lock(&session->lock);
    while (!recorder->broken) {
        if (act(recorder))
            continue;
        if (recorder->ending)
            break;
        wait(recorder);
    }
    if (!recorder->given_up)
        weft_recorder_tell_left(recorder);
    recorder->done = true;
    pthread_cond_signal(&recorder->gone);
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* Finds where the bound weights stand in the store. */
static weft_status begin(weft_recorder *recorder)
{
    const weft_publisher *publisher = recorder->publisher;
    const weft_store *store = recorder->store;
    const weft_version *bound = &publisher->newest.version;
    const uint64_t there = weft_store_find(store, bound->run, bound->number);
    recorder->last = *bound;
    attachment_keep(recorder, publisher->newest.attachment);
    if (there != WEFT_STORE_NONE && store->versions[there].version.root != bound->root)
        return weft_fail(WEFT_E_STATE, "%s: it has version %llu of this run, with other bits: begin a run of its own",
                         store->name, (ull)bound->number);
    recorder->next = recorder->bound = publisher->newest.order;
    if (there != WEFT_STORE_NONE) {
        recorder->linked = true;
        recorder->next++;
        return WEFT_OK;
    }
    const uint64_t same = weft_store_find_root(store, bound->root, publisher->session->layout->hash);
    if (same != WEFT_STORE_NONE && store->versions[same].version.run < bound->run)
        recorder->origin = store->versions[same].version;
    return WEFT_OK;
}

weft_status weft_recorder_start(weft_recorder *recorder)
{
    weft_status status = begin(recorder);
    if (status == WEFT_OK)
        status = weft_rebuilder_bind(&recorder->rebuilder, &recorder->publisher->shadow.binding);
    if (status != WEFT_OK || recorder->running)
        return status;
    recorder->running = true;
    const int error = weft_thread_start(&recorder->thread, run, recorder);
    recorder->running = error == 0;
    return error ? weft_fail(WEFT_E_SYSTEM, "no thread to write into a store: %s", strerror(error)) : WEFT_OK;
}

void weft_recorder_hear(weft_recorder *recorder)
{
    if (recorder)
        pthread_cond_signal(&recorder->wake);
}
