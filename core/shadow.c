/* shadow.c - the trainer's copy of the bits published last: taken at bind, brought forward by each version. */
#include <string.h>
#include <unistd.h>

#include "publish.h"
#include "status.h"

/* ---- bind */

/* Copies the weights into the shadow, whose units are contiguous. */
static weft_status copy_to_shadow(weft_trainer *trainer)
{
    weft_session *session = trainer->session;
    for (uint64_t unit = 0; unit < session->layout->unit_count; unit++) {
        weft_load_job job = {weft_binding_view(&trainer->weights, unit),
                             weft_binding_view(&trainer->shadow, unit).runs[0].data, NULL};
        weft_status status =
            weft_backend_wait(session->backend, session->device, session->backend->load(session->device, &job), &job);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status bind_first(weft_trainer *trainer, weft_blob *attachment)
{
    weft_session *session = trainer->session;
    weft_status status = copy_to_shadow(trainer);
    if (status == WEFT_OK)
        status = weft_session_digest(session->backend, session->device, &trainer->shadow, trainer->digests,
                                     &trainer->newest.root);
    if (status != WEFT_OK)
        return status;
    trainer->newest.run = trainer->run;
    trainer->newest.number = session->options.first_version;
    trainer->attachment = attachment;
    trainer->bound = true;
    status = weft_trainer_listen(trainer);
    if (status != WEFT_OK) {
        trainer->bound = false;
        trainer->attachment = NULL;
        if (trainer->listen_fd >= 0)
            close(trainer->listen_fd);
        trainer->listen_fd = -1;
    }
    return status;
}

/* New addresses for the same bits. */
static weft_status rebind(weft_trainer *trainer, weft_binding *fresh)
{
    weft_session *session = trainer->session;
    uint64_t root;
    pthread_mutex_unlock(&session->lock); /* a pass over the weights must not silence heartbeats */
    weft_status status = weft_session_digest(session->backend, session->device, fresh, trainer->discard, &root);
    pthread_mutex_lock(&session->lock);
    if (status == WEFT_OK && root != trainer->newest.root)
        status = weft_fail(WEFT_E_BASE, "rebind: the weights have digest %016llx, version %llu is %016llx",
                           (unsigned long long)root, (unsigned long long)trainer->newest.number,
                           (unsigned long long)trainer->newest.root);
    if (status != WEFT_OK)
        return status;
    weft_binding_close(&trainer->weights);
    trainer->weights = *fresh;
    return WEFT_OK;
}

weft_status weft_shadow_bind(weft_trainer *trainer, const weft_piece *pieces, uint64_t count, const void *attachment,
                             uint64_t attachment_bytes)
{
    weft_binding fresh;
    weft_blob *blob = NULL;
    weft_status status = weft_binding_open(trainer->session->layout, pieces, count, &fresh);
    if (status != WEFT_OK)
        return status;
    if (trainer->bound) {
        status = rebind(trainer, &fresh);
    } else {
        blob = attachment_bytes ? weft_blob_make(attachment, attachment_bytes) : NULL;
        trainer->weights = fresh;
        status = attachment_bytes && !blob ? weft_fail(WEFT_E_MEMORY, "no memory for the attachment")
                                           : bind_first(trainer, blob);
        if (status != WEFT_OK)
            memset(&trainer->weights, 0, sizeof trainer->weights);
    }
    if (status != WEFT_OK) {
        weft_binding_close(&fresh);
        weft_blob_drop(blob);
    }
    return status;
}

/* ---- shadow */

/* Brings one frame's unit of the shadow to the target, from the frame itself: O(changes). */
static weft_status shadow_frame(weft_trainer *trainer, const uint8_t *bytes, uint64_t length)
{
    weft_session *session = trainer->session;
    weft_decode_job decode = {.changes = &trainer->scratch, .tensor_delta = trainer->discard};
    weft_status status = weft_frame_admit(session->layout, bytes, length, &decode.frame);
    if (status != WEFT_OK)
        return status;
    decode.base = weft_binding_span(&trainer->shadow, decode.frame.header.unit, decode.frame.header.units);
    status = weft_backend_wait(session->backend, session->device, session->backend->decode(session->device, &decode),
                               &decode);
    if (status != WEFT_OK)
        return status;
    weft_apply_job apply = {.target = decode.base, .changes = &trainer->scratch};
    status =
        weft_backend_wait(session->backend, session->device, session->backend->apply(session->device, &apply), &apply);
    return status == WEFT_OK && apply.mismatch ? WEFT_E_BASE : status;
}

static weft_status shadow_chain(weft_trainer *trainer, const weft_chain *chain)
{
    const weft_arena *arena = &trainer->journal.arena;
    for (uint32_t block = chain->first; block != WEFT_NO_BLOCK; block = arena->blocks[block].next) {
        const uint8_t *frame = weft_arena_block(arena, block);
        for (uint32_t i = 0; i < arena->blocks[block].frames; i++) {
            uint32_t bytes = weft_arena_index(arena, block, i)->bytes;
            weft_status status = shadow_frame(trainer, frame, bytes);
            if (status != WEFT_OK)
                return status;
            frame += bytes;
        }
    }
    return WEFT_OK;
}

/* Should the frames not lead to the target, which no data can cause, the weights
 * themselves still do. */
weft_status weft_shadow_update(weft_trainer *trainer, const weft_update *update)
{
    weft_status status =
        update->snapshot_only ? WEFT_E_BUDGET : shadow_chain(trainer, &update->chain[WEFT_JOURNAL_LEVEL]);
    if (status == WEFT_OK)
        return WEFT_OK;
    if (!update->snapshot_only)
        weft_log(WEFT_LOG_ERROR, "version %llu: own frames do not decode (%s): shadow copied whole; report this",
                 (unsigned long long)update->target.number, weft_last_error());
    return copy_to_shadow(trainer);
}
