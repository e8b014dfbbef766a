/* shadow.c - opens the trainer's copy of the bits published last, and fills it at bind. */
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

/* The shadow's units are contiguous. */
weft_status weft_shadow_copy(weft_publisher *publisher)
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
    weft_status status = weft_shadow_copy(publisher);
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

weft_status weft_shadow_again(weft_publisher *publisher)
{
    uint64_t root;
    weft_status status = weft_shadow_copy(publisher);
    return status == WEFT_OK ? weft_session_digest(&publisher->shadow.jobs, &publisher->shadow.binding,
                                                   publisher->newest.digests, &root)
                             : status;
}
