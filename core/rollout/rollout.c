/* rollout.c - one end of a rollout: opens and closes it, and knows the order of the stages. */
#include "rollout/rollout.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "rollout/sizes_rollout.h"

/* Decoding goes on for so long before the lock is let go of. */
#define SLICE_NS (2 * WEFT_NS_PER_MS)

/* ---- one step */

/* Checks that an update moves on. Only this end can see that it stands still, because a chunk that the fabric lost but
 * reported as delivered leaves the trainer nothing to wait for. A commit in place has a deadline of its own. */
static weft_status check_stall(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    uint64_t patience_ms = rollout->session->site->session.io_deadline_ms;
    uint64_t until_ns = rollout->intake.moved_ns + patience_ms * WEFT_NS_PER_MS;
    const bool in_place = weft_course_takes_snapshot(&rollout->course) && !rollout->stage.into_image;
    if (rollout->arriving.queued == 0 || weft_course_is_proved(&rollout->course) || in_place)
        return WEFT_OK;
    if (now_ns > until_ns)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "version %llu stands still for %llu ms (io_deadline) at bucket %llu",
                               (unsigned long long)rollout->arriving.queue[0].header.target.number,
                               (unsigned long long)patience_ms, (unsigned long long)rollout->intake.next_sequence);
    weft_waits_until(waits, until_ns + WEFT_NS_PER_MS);
    return WEFT_OK;
}

/* Checks that the trainer answers ACCEPT or REPAIR. It announces the update at once, or PASSING says that the update is
 * being made. A trainer may be silent for a heartbeat, and has io_deadline after that. */
static weft_status check_asked(const weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    uint64_t patience_ms = rollout->session->site->session.io_deadline_ms + rollout->joining.heartbeat_ms;
    uint64_t until_ns = rollout->intake.moved_ns + patience_ms * WEFT_NS_PER_MS;
    const bool accepted = rollout->course.state == WEFT_COURSE_ACCEPTED && rollout->stage.into_image;
    if (!accepted && rollout->course.state != WEFT_COURSE_REPAIR)
        return WEFT_OK;
    if (now_ns > until_ns)
        return weft_fail_quiet(
            WEFT_E_PEER_LOST, "no %s was begun for %llu ms (io_deadline + heartbeat) since it was %s",
            accepted ? "snapshot" : "repair", (unsigned long long)patience_ms, accepted ? "accepted" : "asked for");
    weft_waits_until(waits, until_ns + WEFT_NS_PER_MS);
    return WEFT_OK;
}

/* Hands the stage the next bucket when it has used up the one before. */
static weft_status step_bucket(weft_rollout *rollout)
{
    return weft_stage_at(rollout) == WEFT_STAGE_HUNGRY ? weft_receive_take(rollout) : weft_stage_step(rollout);
}

/* A relay passes whole buckets on before they leave their slots, and hears of an update that came to nothing. */
static weft_status step_stage(weft_rollout *rollout)
{
    if (!rollout->relay)
        return step_bucket(rollout);
    if (rollout->arriving.queued && !weft_course_is_proved(&rollout->course))
        rollout->hooks->pass(rollout->relay);
    rollout->arriving.over = (weft_version){0, 0, 0};
    weft_status status = step_bucket(rollout);
    if (rollout->arriving.over.run)
        rollout->hooks->unfollow(rollout->relay, &rollout->arriving.over);
    return status;
}

static weft_status serve_data(weft_rollout *rollout, bool work, uint64_t now_ns, weft_waits *waits)
{
    bool any = false;
    weft_status status = weft_receive_poll(rollout, &any);
    if (status == WEFT_OK && rollout->searching.search.reason != WEFT_SEARCH_NONE) {
        waits->busy = waits->busy || any;
        return weft_search_check(rollout, now_ns, waits);
    }
    while (status == WEFT_OK && work && rollout->joining.state == WEFT_JOIN_JOINED) {
        status = step_stage(rollout);
        any = any || status == WEFT_OK;
        if (weft_clock_ns() > now_ns + SLICE_NS)
            break;
    }
    if (status == WEFT_AGAIN)
        status = work && !any ? check_stall(rollout, now_ns, waits) : WEFT_OK;
    if (status == WEFT_OK && work)
        status = check_asked(rollout, now_ns, waits);
    waits->busy = waits->busy || any;
    return status;
}

void weft_rollout_step(weft_rollout *rollout, bool work, weft_waits *waits)
{
    uint64_t now_ns = weft_clock_ns();
    if (!rollout->current.bound || rollout->current.digesting || rollout->session->ended != WEFT_OK)
        return;
    weft_join_step(rollout, now_ns, waits);
    if (rollout->joining.state == WEFT_JOIN_JOINED) {
        weft_status status = serve_data(rollout, work, now_ns, waits);
        weft_rollout_end(rollout, status);
        if (status != WEFT_OK && weft_status_scope(status) == WEFT_SCOPE_PEER)
            weft_join_lose(rollout, status, weft_last_error());
        else if (status != WEFT_OK)
            weft_join_fault(rollout, status, status == WEFT_E_TARGET || status == WEFT_E_BASE);
    }
    if (rollout->relay)
        rollout->hooks->step(rollout->relay, waits);
    if (rollout->joining.state == WEFT_JOIN_AWAY || rollout->joining.state == WEFT_JOIN_REFUSED)
        return;
    if (weft_control_flush(&rollout->joining.control) != WEFT_OK) {
        weft_join_lose(rollout, WEFT_E_PEER_LOST, weft_last_error());
        return;
    }
    bool writes = weft_control_wants_write(&rollout->joining.control);
    weft_waits_fd(waits, rollout->joining.control.fd, (short)(writes ? POLLIN | POLLOUT : POLLIN));
    if (rollout->joining.state == WEFT_JOIN_JOINED)
        weft_inlet_wait(&rollout->arriving, &rollout->intake, waits);
    if (rollout->relay)
        rollout->hooks->wait(rollout->relay, waits);
}

/* ---- open and close */

static uint64_t image_bytes(const weft_layout *layout)
{
    const uint64_t bytes = weft_binding_spaced_bytes(layout);
    return bytes ? bytes : 1;
}

static weft_status open_image(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    const uint64_t bytes = image_bytes(rollout->layout);
    rollout->stage.into_image = session->site->commit.snapshot == WEFT_SNAPSHOT_STAGED;
    if (!rollout->stage.into_image)
        return WEFT_OK;
    void *image = NULL;
    weft_status status = session->backend->memory_take(session->device, bytes, WEFT_MEMORY_HOST, &image);
    if (status != WEFT_OK)
        return weft_fail(status, "no memory for [commit] snapshot = staged: %s; use in_place", weft_last_error());
    rollout->stage.image = image;
    return weft_binding_open_spaced(rollout->layout, rollout->stage.image, &rollout->stage.image_binding);
}

static weft_status check_staging(const weft_layout *layout, const weft_site_peer *site)
{
    uint64_t need = weft_staging_largest(layout);
    if (site->staging >= need)
        return WEFT_OK;
    return weft_fail(WEFT_E_CONFIG, "[peer.%s] staging = %llu bytes: this layout's largest unit may need %llu",
                     site->name, (unsigned long long)site->staging, (unsigned long long)need);
}

/* Takes the staging memory. A size of the site is had or refused; `auto` makes do with half, and half of that. */
static weft_status open_staging(weft_rollout *rollout, weft_sizes *sizes)
{
    const weft_session *session = rollout->session;
    const uint64_t least = weft_staging_largest(rollout->layout) + 16;
    for (;;) {
        const bool again = sizes->chosen.automatic && rollout->site.staging / 2 >= least;
        weft_log_sink *before = again ? weft_log_quiet() : NULL;
        weft_status status =
            weft_staging_open(&rollout->stage.staging, session->backend, session->device, rollout->site.staging,
                              rollout->layout->unit_count + 1, "[peers] staging");
        if (again)
            weft_log_enter(before);
        if (status == WEFT_OK || !again)
            return status;
        weft_staging_close(&rollout->stage.staging);
        rollout->site.staging /= 2;
        weft_rollout_sizes_lower(sizes, rollout);
    }
}

/* Opens what the grid of the layout gives its size. */
static weft_status open_laid(weft_rollout *rollout, weft_sizes *sizes)
{
    weft_status status = check_staging(rollout->layout, &rollout->site);
    if (status == WEFT_OK)
        status = weft_search_open(&rollout->searching, rollout->layout);
    if (status == WEFT_OK)
        status = weft_receive_open(rollout);
    if (status == WEFT_OK)
        status = open_staging(rollout, sizes);
    if (status == WEFT_OK)
        status = weft_receive_keep(&rollout->arriving, rollout->layout, weft_sizes_need(sizes, "encoded")->bytes);
    return status == WEFT_OK ? open_image(rollout) : status;
}

static void close_laid(weft_rollout *rollout)
{
    weft_binding_close(&rollout->stage.image_binding);
    if (rollout->stage.image)
        rollout->session->backend->memory_give(rollout->session->device, rollout->stage.image,
                                               image_bytes(rollout->layout), WEFT_MEMORY_HOST);
    rollout->stage.image = NULL;
    weft_staging_close(&rollout->stage.staging);
    weft_receive_close(&rollout->arriving, &rollout->intake);
    weft_search_close(&rollout->searching, rollout->layout);
}

weft_mem_list weft_rollout_digests(weft_rollout *rollout, const weft_layout *layout)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(rollout->current.digests, layout->part_count + 1),
                            WEFT_MEM_TAKEN(rollout->stage.digests, layout->part_count + 1),
                            WEFT_MEM_TAKEN(rollout->current.fresh, layout->part_count + 1)}};
}

static weft_status open_parts(weft_rollout *rollout, weft_sizes *sizes)
{
    uint64_t parts = rollout->layout->part_count ? rollout->layout->part_count : 1;
    weft_status status = weft_mem_list_take(weft_rollout_digests(rollout, rollout->layout), "for digests");
    if (status == WEFT_OK)
        status = open_laid(rollout, sizes);
    if (status == WEFT_OK)
        status = weft_unpacker_open(&rollout->stage.unpacker);
    if (status == WEFT_OK)
        status = weft_pipeline_open(&rollout->stage.window, rollout->session->backend, rollout->session->device);
    if (status == WEFT_OK)
        status = weft_proof_open(&rollout->stage.proof, rollout->session->backend, rollout->session->device, parts);
    if (status == WEFT_OK)
        status = weft_join_open(rollout);
    return status == WEFT_OK && rollout->site.relay[0] ? rollout->hooks->open(rollout) : status;
}

void weft_rollout_give_back(weft_rollout *rollout)
{
    if (rollout->relay)
        rollout->hooks->close(rollout);
    weft_join_close(&rollout->intake, &rollout->joining);
    weft_proof_close(&rollout->stage.proof);
    weft_pipeline_close(&rollout->stage.window);
    weft_unpacker_close(&rollout->stage.unpacker);
    close_laid(rollout);
    weft_blob_drop(rollout->arriving.attachment);
    weft_blob_drop(rollout->current.attachment);
    weft_binding_close(&rollout->current.weights);
    weft_mem_list_give(weft_rollout_digests(rollout, rollout->layout));
    weft_mem_give(rollout);
}

void weft_rollout_let_pass(weft_rollout *rollout, uint64_t deadline_ns)
{
    weft_session *session = rollout->session;
    pthread_mutex_lock(&session->lock);
    while (rollout->relay && rollout->current.bound && rollout->joining.state == WEFT_JOIN_JOINED &&
           rollout->hooks->busy(rollout->relay) && weft_clock_ns() < deadline_ns) {
        pthread_mutex_unlock(&session->lock);
        weft_clock_pass(WEFT_NS_PER_MS);
        pthread_mutex_lock(&session->lock);
    }
    pthread_mutex_unlock(&session->lock);
}

/* Undoes a commit that nobody settled. */
static void let_go(weft_rollout *rollout)
{
    if (rollout->stage.held_back && weft_stage_undo(rollout) != WEFT_OK)
        weft_log(WEFT_LOG_ERROR, "a commit that was held could not be undone: the weights are those of no version");
    rollout->stage.held_back = false;
}

void weft_rollout_leave(weft_rollout *rollout, uint64_t deadline_ns)
{
    let_go(rollout);
    if (rollout->joining.state == WEFT_JOIN_JOINED) {
        weft_join_bye(rollout, "the rollout closes");
        while (weft_control_flush(&rollout->joining.control) == WEFT_OK &&
               weft_control_wants_write(&rollout->joining.control) && weft_clock_ns() < deadline_ns)
            weft_clock_pass(WEFT_NS_PER_MS);
    }
    if (rollout->relay)
        rollout->hooks->flush(rollout->relay, deadline_ns);
}

static void print_memory(const weft_rollout *rollout, weft_sizes *sizes)
{
    weft_session *session = rollout->session;
    weft_need *relay = weft_sizes_need(sizes, "relay");
    char size[WEFT_SIZE_PRINTED], source[WEFT_SITE_NAME + 8] = "";
    sizes->bytes -= relay->bytes;
    relay->bytes = rollout->relay ? rollout->hooks->bytes(rollout->relay) : 0;
    sizes->bytes += relay->bytes;
    if (rollout->joining.route.source)
        snprintf(source, sizeof source, ", source %u", rollout->joining.route.source - 1);
    session->stats.memory_bytes += sizes->bytes;
    snprintf(session->stats.provider, sizeof session->stats.provider, "%s", rollout->intake.provider->name);
    weft_log(WEFT_LOG_INFO, "rollout %s%s: at most %.1f MB beside the weights' %.1f: %s; backend %s, provider %s (%s)",
             rollout->site.name, source, (double)sizes->bytes / 1e6, (double)rollout->layout->bytes / 1e6,
             weft_sizes_print(sizes).text, session->backend_name, rollout->intake.provider->name,
             rollout->intake.facts.fabric);
    if (sizes->device > 0)
        weft_log(WEFT_LOG_INFO, "rollout %s: %.1f MB of the device's memory: batches %.1f, staging %.1f; %.1f are free",
                 rollout->site.name, (double)sizes->device / 1e6, (double)sizes->batches / 1e6,
                 (double)sizes->chosen.bytes / 1e6, (double)session->backend->memory_left(session->device) / 1e6);
    if (sizes->chosen.automatic)
        weft_log(WEFT_LOG_INFO, "rollout %s: staging = auto is %s: %s; an update of %.1f %% fits for certain",
                 rollout->site.name, weft_size_print(sizes->chosen.bytes, size), sizes->chosen.why,
                 sizes->chosen.percent);
}

/* Leaves to an end its share of what the process may take. */
static void share_out(const weft_rollout_share *share, weft_site_peer *site, weft_mem_host *memory,
                      const weft_layout *layout)
{
    const uint64_t least = weft_staging_largest(layout) + 16;
    const uint64_t staging = (uint64_t)((double)site->staging * share->of_bytes);
    memory->available = (uint64_t)((double)memory->available * share->of_bytes);
    if (site->staging)
        site->staging = staging > least ? staging : least;
    if (site->encoded != UINT64_MAX)
        site->encoded = (uint64_t)((double)site->encoded * share->of_bytes);
    site->relay_memory /= share->ends; /* as buckets, so that all ends have room for as many behind them */
    const uint64_t bucket = weft_size_bucket(layout, site) / share->ends;
    site->bucket_max = bucket > layout->largest_frame ? bucket : layout->largest_frame;
}

/* Resolves each `auto` to a size, from here on as if the site had said so. */
static void settle_sizes(weft_rollout *rollout, const weft_rollout_share *share, weft_sizes *sizes)
{
    const weft_session *session = rollout->session;
    weft_mem_host memory;
    weft_mem_host_read("", &memory);
    if (!(session->backend->caps & WEFT_BACKEND_DEVICE))
        weft_mem_host_reserve(&memory, rollout->layout->bytes);
    if (share->ends > 1)
        share_out(share, &rollout->site, &memory, rollout->layout);
    *sizes = weft_rollout_sizes(session->site, &rollout->site, rollout->layout, session->backend, &memory);
    rollout->site.bucket_max = sizes->bucket;
    rollout->site.staging = sizes->chosen.bytes;
}

weft_status weft_rollout_make(weft_session *session, const weft_site_peer *row, const weft_division *division,
                              const weft_rollout_share *share, const weft_relay_hooks *hooks, weft_rollout **made)
{
    weft_sizes sizes;
    weft_rollout *rollout = weft_mem_take(1, sizeof *rollout);
    if (!rollout)
        return weft_fail(WEFT_E_MEMORY, "no memory for a rollout");
    rollout->session = session;
    rollout->division = division;
    rollout->layout = division->layout;
    rollout->hooks = hooks;
    rollout->site = *row;
    rollout->joining.route.source = share->several ? share->source + 1 : 0;
    rollout->stage.level = "";
    rollout->wishing.named = session->options.wants || share->several;
    settle_sizes(rollout, share, &sizes);
    weft_status status = open_parts(rollout, &sizes);
    if (status == WEFT_OK)
        print_memory(rollout, &sizes);
    if (status != WEFT_OK)
        weft_rollout_give_back(rollout);
    else
        *made = rollout;
    return status;
}

/* ---- another order */

/* Carries each tensor's digests over, because no bit is another in another order. The root is. */
static void carry_digests(weft_current *current, const weft_layout *before, const weft_layout *layout,
                          const uint64_t *from)
{
    uint64_t *carried = current->fresh;
    for (uint64_t t = 0; t < layout->count; t++)
        memcpy(carried + layout->entries[t].part, current->digests + before->entries[from[t]].part,
               weft_part_count(layout, t) * sizeof *carried);
    current->fresh = current->digests;
    current->digests = carried;
    if (current->known)
        current->version.root = weft_digest_parts_root(layout, carried);
}

weft_status weft_rollout_lay(weft_rollout *rollout, const weft_division *division, weft_binding *fresh,
                             const uint64_t *from)
{
    const uint64_t least = weft_staging_largest(division->layout) + 16, largest = division->layout->largest_frame;
    weft_sizes sizes = {.count = 0};
    weft_sizes_add(&sizes, "encoded", rollout->arriving.kept.capacity);
    if (rollout->relay)
        rollout->hooks->close(rollout);
    close_laid(rollout);
    carry_digests(&rollout->current, rollout->layout, division->layout, from);
    weft_binding_close(&rollout->current.weights);
    rollout->current.weights = *fresh;
    rollout->division = division;
    rollout->layout = division->layout;
    if (rollout->site.bucket_max < largest) /* other tensors stand side by side in packs */
        rollout->site.bucket_max = largest;
    if (rollout->site.staging < least)
        rollout->site.staging = least;
    weft_status status = open_laid(rollout, &sizes);
    if (status == WEFT_OK && rollout->site.relay[0])
        status = rollout->hooks->open(rollout);
    if (status == WEFT_OK)
        return WEFT_OK;
    weft_rollout_end_unlaid(rollout, status); /* first, because it says the last error */
    if (rollout->relay)
        rollout->hooks->close(rollout);
    return status;
}
