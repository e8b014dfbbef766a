/* bind.c - the public calls that bind weights. */
#include "base/status.h"
#include "joint/joint.h"
#include "trainer/publish.h"

/* Attachment and flags of the call. */
typedef struct terms {
    const void *attachment;
    uint64_t attachment_bytes;
    uint32_t flags;
} terms;

static weft_status bind_rollout(weft_joint *joint, const weft_naming *by, const terms *with)
{
    weft_blob *blob = with->attachment_bytes ? weft_blob_make(with->attachment, with->attachment_bytes) : NULL;
    if (with->attachment_bytes && !blob)
        return weft_fail(WEFT_E_MEMORY, "no memory for the attachment");
    return weft_joint_bind(joint, by, blob, with->flags & WEFT_BIND_EMPTY);
}

static weft_status bind_trainer(weft_session *session, const weft_naming *by, const terms *with)
{
    weft_binding fresh;
    if (with->attachment_bytes && session->has_share)
        return weft_fail(WEFT_E_ARGUMENT, "bind: one of several sources has no attachment");
    const weft_status status = weft_naming_bind(&session->division, by, false, &fresh);
    return status == WEFT_OK
               ? weft_shadow_bind(&session->trainer->publisher, &fresh, with->attachment, with->attachment_bytes)
               : status;
}

static weft_status bind_by(weft_session *session, const weft_naming *by, const terms *with)
{
    const uint32_t flags = with->flags;
    if (flags & ~WEFT_BIND_EMPTY || (session->trainer && flags))
        return weft_fail(WEFT_E_ARGUMENT, "bind: flags %x; a %s", flags,
                         session->trainer ? "trainer takes none" : "rollout takes none but WEFT_BIND_EMPTY");
    weft_status status = weft_blob_check("bind", with->attachment, with->attachment_bytes);
    if (status == WEFT_OK)
        status = weft_turn_begin(&session->turn, WEFT_TURN_WEIGHTS, by->call);
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = session->trainer ? bind_trainer(session, by, with) : bind_rollout(session->joint, by, with);
    weft_session_leave(session, before);
    weft_turn_end(&session->turn, WEFT_TURN_WEIGHTS);
    return status;
}

weft_status weft_bind(weft_session *session, const weft_piece *pieces, uint64_t count, const void *attachment,
                      uint64_t attachment_bytes, uint32_t flags)
{
    const weft_naming by = {"weft_bind", pieces, NULL, count};
    return bind_by(session, &by, &(terms){attachment, attachment_bytes, flags});
}

weft_status weft_bind_blocks(weft_session *session, const weft_block *blocks, uint64_t count, const void *attachment,
                             uint64_t attachment_bytes, uint32_t flags)
{
    const weft_naming by = {"weft_bind_blocks", NULL, blocks, count};
    return bind_by(session, &by, &(terms){attachment, attachment_bytes, flags});
}

weft_status weft_unbind(weft_session *session)
{
    const weft_status status = weft_turn_begin(&session->turn, WEFT_TURN_WEIGHTS, "weft_unbind");
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    const weft_status unbound =
        session->trainer ? weft_shadow_unbind(&session->trainer->publisher) : weft_joint_unbind(session->joint);
    weft_session_leave(session, before);
    weft_turn_end(&session->turn, WEFT_TURN_WEIGHTS);
    return unbound;
}
