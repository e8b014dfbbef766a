/* shadow.c - keeps the trainer's copy of the bits published last: taken at bind, brought forward by each version. */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "trainer/publish.h"
#include "trainer/recorder.h"

/* Bytes of memory for the changes of several frames that are put into the shadow together. */
#define SCRATCH (UINT64_C(32) << 20)
/* A shadow that the site leaves to weft takes one part in so many of the device memory that is free. The rest is for
 * what a framework takes later. */
#define AUTO_SHARE 2u

/* ---- open */

static uint64_t image_bytes(const weft_layout *layout)
{
    const uint64_t bytes = weft_binding_spaced_bytes(layout);
    return bytes ? bytes : 1;
}

uint64_t weft_shadow_lists(const weft_layout *layout, const weft_backend *backend)
{
    const uint64_t largest = weft_staging_largest(layout);
    return backend->depth > 1 && largest < SCRATCH ? SCRATCH : largest;
}

/* Settles where the shadow lies, as if the site had said so. */
void weft_shadow_settle(weft_session *session)
{
    const weft_backend *backend = session->backend;
    const uint64_t bytes = image_bytes(session->layout), left = backend->memory_left(session->device);
    if (session->site->trainer.shadow != WEFT_SHADOW_AUTO)
        return;
    const bool fits = bytes <= left / AUTO_SHARE;
    session->site->trainer.shadow = fits ? WEFT_SHADOW_DEVICE : WEFT_SHADOW_HOST;
    if (!(backend->caps & WEFT_BACKEND_DEVICE))
        return;
    if (fits)
        weft_log(WEFT_LOG_INFO,
                 "trainer: shadow = auto is device: %.1f MB of the device's memory, of which %.1f are free",
                 (double)bytes / 1e6, (double)left / 1e6);
    else
        weft_log(WEFT_LOG_WARN,
                 "trainer: shadow = auto is host, because its %.1f MB are more than half of the %.1f MB that are free "
                 "on the "
                 "device: each publish reads them across the bus",
                 (double)bytes / 1e6, (double)left / 1e6);
}

/* Opens what works on the shadow alone: the host backend if the shadow is in host memory, whatever works on the
 * weights. */
static weft_status open_windows(weft_shadow *shadow, const weft_layout *layout, const weft_backend *backend,
                                weft_backend_state *device)
{
    const uint64_t bytes = weft_shadow_lists(layout, backend);
    weft_status status = weft_pipeline_open(&shadow->jobs, backend, device);
    if (status == WEFT_OK)
        status = weft_pipeline_open(&shadow->loads, backend, device);
    if (status == WEFT_OK)
        status = weft_pipeline_open(&shadow->bridge_loads, backend, device);
    return status == WEFT_OK
               ? weft_staging_open(&shadow->scratch, backend, device, bytes + 16, backend->depth, "of the largest tile")
               : status;
}

static weft_status open_host(weft_shadow *shadow, weft_session *session)
{
    const weft_backend *host = weft_backend_find("host");
    const weft_backend_options options = {-1, session->site->trainer.kernels, 0, 0};
    if (session->backend == host)
        return open_windows(shadow, session->layout, host, session->device);
    weft_status status = host->open(&options, &shadow->host);
    return status == WEFT_OK ? open_windows(shadow, session->layout, host, shadow->host) : status;
}

weft_status weft_shadow_open(weft_shadow *shadow, weft_session *session)
{
    const weft_backend *backend = session->backend;
    const bool device = session->site->trainer.shadow == WEFT_SHADOW_DEVICE;
    void *image = NULL;
    if (device && !(backend->caps & WEFT_BACKEND_DEVICE))
        return weft_fail(WEFT_E_CONFIG, "[trainer] shadow = device: backend %s has no device; use shadow = host",
                         backend->name);
    shadow->kind = device ? WEFT_MEMORY_DEVICE : WEFT_MEMORY_HOST;
    weft_status status = backend->memory_take(session->device, image_bytes(session->layout), shadow->kind, &image);
    if (status != WEFT_OK)
        return weft_fail(status, "no memory for a shadow of %llu bytes: %s",
                         (unsigned long long)image_bytes(session->layout), weft_last_error());
    shadow->image = image;
    status = device ? open_windows(shadow, session->layout, backend, session->device) : open_host(shadow, session);
    return status == WEFT_OK ? weft_binding_open_spaced(session->layout, image, &shadow->binding) : status;
}

void weft_shadow_close(weft_shadow *shadow, weft_session *session)
{
    weft_binding_close(&shadow->binding);
    weft_staging_close(&shadow->scratch);
    weft_pipeline_close(&shadow->bridge_loads);
    weft_pipeline_close(&shadow->loads);
    weft_pipeline_close(&shadow->jobs);
    if (shadow->host)
        weft_backend_find("host")->close(shadow->host);
    if (shadow->image)
        session->backend->memory_give(session->device, shadow->image, image_bytes(session->layout), shadow->kind);
}

/* ---- bind */

static void copy_fill(void *user, uint64_t unit, weft_job *job)
{
    const weft_publisher *publisher = user;
    job->load = (weft_load_job){.view = weft_binding_view(&publisher->weights, unit),
                                .bytes = weft_binding_view(&publisher->shadow.binding, unit).runs[0].data};
}

/* Copies the weights into the shadow, whose units are contiguous. */
static weft_status copy_to_shadow(weft_publisher *publisher)
{
    const weft_chore chore = {WEFT_JOB_LOAD, copy_fill, NULL, publisher};
    return weft_pipeline_run(&publisher->session->calls, &chore, 0, publisher->session->layout->unit_count);
}

/* Binds the first weights. No step looks at shadow or digests while nothing is bound. So both passes go without the
 * lock, and whoever comes is answered meanwhile. */
static weft_status bind_first(weft_publisher *publisher, weft_blob *attachment)
{
    weft_session *session = publisher->session;
    uint64_t root = 0;
    pthread_mutex_unlock(&session->lock);
    weft_status status = copy_to_shadow(publisher);
    if (status == WEFT_OK)
        status =
            weft_session_digest(&publisher->shadow.jobs, &publisher->shadow.binding, publisher->newest.digests, &root);
    const weft_version bound = {publisher->run, session->options.first_version, root};
    if (status == WEFT_OK && publisher->recorder)
        status = weft_resume(publisher, &bound, attachment);
    pthread_mutex_lock(&session->lock);
    if (status == WEFT_OK)
        status = weft_bridge_start(&publisher->bridge);
    if (status != WEFT_OK)
        return status;
    publisher->newest.version = bound;
    publisher->newest.attachment = attachment;
    if (publisher->recorder)
        status = weft_recorder_start(publisher->recorder);
    if (status != WEFT_OK) {
        publisher->newest.version = (weft_version){0, 0, 0};
        publisher->newest.attachment = NULL;
        return status;
    }
    publisher->bound = true;
    weft_log(WEFT_LOG_INFO, "version %llu is bound: peers may join",
             (unsigned long long)publisher->newest.version.number);
    return WEFT_OK;
}

/* Takes new addresses, whatever bits are there, because the shadow has those that were published. */
static weft_status rebind(weft_publisher *publisher, weft_binding *fresh)
{
    const weft_status status = weft_session_rest(publisher->session);
    if (status != WEFT_OK)
        return status;
    weft_binding_close(&publisher->weights);
    publisher->weights = *fresh;
    publisher->away = false;
    return WEFT_OK;
}

weft_status weft_shadow_bind(weft_publisher *publisher, weft_binding *fresh, const void *attachment,
                             uint64_t attachment_bytes)
{
    weft_blob *blob = NULL;
    weft_status status = weft_session_check(publisher->session, fresh);
    if (status == WEFT_OK && publisher->bound) {
        status = rebind(publisher, fresh);
    } else if (status == WEFT_OK) {
        blob = attachment_bytes ? weft_blob_make(attachment, attachment_bytes) : NULL;
        publisher->weights = *fresh;
        status = attachment_bytes && !blob ? weft_fail(WEFT_E_MEMORY, "no memory for the attachment")
                                           : bind_first(publisher, blob);
        if (status != WEFT_OK)
            memset(&publisher->weights, 0, sizeof publisher->weights);
    }
    if (status != WEFT_OK) {
        weft_binding_close(fresh);
        weft_blob_drop(blob);
    }
    return status;
}

weft_status weft_shadow_unbind(weft_publisher *publisher)
{
    if (!publisher->bound)
        return weft_fail(WEFT_E_STATE, "unbind: no weights are bound");
    weft_binding_close(&publisher->weights);
    memset(&publisher->weights, 0, sizeof publisher->weights);
    publisher->away = true;
    return weft_session_rest(publisher->session);
}

/* ---- from version to version */

static void apply_fill(void *user, uint64_t list, weft_job *job)
{
    weft_shadow *shadow = user;
    weft_changes *changes = weft_staging_at(&shadow->scratch, list);
    job->apply = (weft_apply_job){.target = weft_binding_span(&shadow->binding, changes->unit, changes->units),
                                  .changes = changes};
}

static weft_status apply_done(void *user, uint64_t list, const weft_job *job)
{
    (void)user;
    (void)list;
    return job->status == WEFT_OK && job->apply.mismatch ? WEFT_E_BASE : job->status;
}

/* Puts the frames that are under way into the shadow. */
static weft_status frames_end(weft_shadow *shadow)
{
    const weft_chore apply = {WEFT_JOB_APPLY, apply_fill, apply_done, shadow};
    weft_pipeline *window = &shadow->jobs;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && window->ended < window->begun)
        status = weft_pipeline_end(window)->status;
    if (status == WEFT_OK)
        status = weft_pipeline_run(window, &apply, 0, shadow->scratch.count);
    weft_staging_clear(&shadow->scratch);
    return status;
}

/* Begins to bring the units of one frame to the target, from the frame itself: O(changes). */
static weft_status frame_begin(weft_publisher *publisher, const uint8_t *bytes, uint64_t length)
{
    const weft_layout *layout = publisher->session->layout;
    weft_pipeline *window = &publisher->shadow.jobs;
    weft_frame frame;
    weft_status status = weft_frame_admit(layout, bytes, length, &frame);
    if (status != WEFT_OK)
        return status;
    const weft_frame_header *header = &frame.header;
    const uint8_t width = layout->units[header->unit].width;
    weft_changes *changes = weft_staging_take(&publisher->shadow.scratch, header->unit, header->changed, width);
    if (!changes) {
        status = frames_end(&publisher->shadow);
        if (status != WEFT_OK)
            return status;
        changes = weft_staging_take(&publisher->shadow.scratch, header->unit, header->changed, width);
    }
    weft_pipeline_next(window)->decode = (weft_decode_job){
        .frame = frame,
        .base = weft_binding_span(&publisher->shadow.binding, header->unit, header->units),
        .changes = changes, /* there is room for the largest frame, and for as many frames as the window takes */
        .tensor_delta = publisher->encoding.discard};
    weft_pipeline_begin(window, WEFT_JOB_DECODE);
    return WEFT_OK;
}

static weft_status chain_frames(weft_publisher *publisher, const weft_chain *chain)
{
    const weft_arena *arena = &publisher->journal.arena;
    weft_cursor cursor = weft_cursor_begin(chain);
    const uint8_t *frame;
    uint32_t bytes;
    while ((frame = weft_cursor_next(arena, &cursor, &bytes)) != NULL) {
        weft_status status = frame_begin(publisher, frame, bytes);
        if (status != WEFT_OK)
            return status;
    }
    return frames_end(&publisher->shadow);
}

static weft_status shadow_chain(weft_publisher *publisher, const weft_chain *chain)
{
    weft_status status = chain_frames(publisher, chain);
    weft_pipeline_drop(&publisher->shadow.jobs);
    weft_staging_clear(&publisher->shadow.scratch);
    return status;
}

weft_status weft_shadow_follow(weft_publisher *publisher, const weft_chain *chain)
{
    memset(publisher->encoding.discard, 0,
           publisher->session->layout->part_count * sizeof *publisher->encoding.discard);
    return shadow_chain(publisher, chain);
}

weft_status weft_shadow_again(weft_publisher *publisher)
{
    uint64_t root;
    weft_status status = copy_to_shadow(publisher);
    return status == WEFT_OK ? weft_session_digest(&publisher->shadow.jobs, &publisher->shadow.binding,
                                                   publisher->newest.digests, &root)
                             : status;
}

/* Counts how far the shadow's digests are from those of the version before. newest.digests are the announced ones
 * already. */
static weft_status count_whole(weft_publisher *publisher)
{
    uint64_t root;
    weft_status status =
        weft_session_digest(&publisher->shadow.jobs, &publisher->shadow.binding, publisher->encoding.discard, &root);
    for (uint64_t part = 0; part < publisher->session->layout->part_count; part++)
        publisher->encoding.discard[part] -= publisher->newest.digests[part] - publisher->encoding.delta[part];
    return status;
}

/* Frames and digests come from several looks at the weights. If the weights change in between, these are of different
 * bits, or the frames do not decode. The next version starts from what the shadow has then. */
weft_status weft_shadow_update(weft_publisher *publisher, const weft_update *update, bool *torn)
{
    const uint64_t bytes = publisher->session->layout->part_count * sizeof *publisher->encoding.discard;
    memset(publisher->encoding.discard, 0, bytes);
    weft_status status =
        update->snapshot_only ? WEFT_E_BUDGET : shadow_chain(publisher, &update->chain[WEFT_JOURNAL_LEVEL]);
    const bool framed = status == WEFT_OK, broken = !framed && !update->snapshot_only && status != WEFT_E_DEVICE;
    if (broken)
        weft_log(WEFT_LOG_WARN,
                 "version %llu: own frames do not decode (%s): shadow copied whole; report this if nothing "
                 "changed the weights meanwhile",
                 (unsigned long long)update->target.number, weft_last_error());
    if (!framed)
        status = copy_to_shadow(publisher);
    if (!framed && status == WEFT_OK)
        status = count_whole(publisher);
    *torn = status == WEFT_OK && (broken || memcmp(publisher->encoding.discard, publisher->encoding.delta, bytes) != 0);
    return status;
}
