/* bind.c - the public calls that bind weights. */
#include "base/status.h"
#include "rollout/rollout.h"
#include "trainer/publish.h"

/* Weights as the caller names them, by pieces or by blocks. */
typedef struct naming {
    const char *call;
    const weft_piece *pieces;
    const weft_block *blocks;
    uint64_t count;
} naming;

/* Attachment and flags of the call. */
typedef struct terms {
    const void *attachment;
    uint64_t attachment_bytes;
    uint32_t flags;
} terms;

static weft_status weights_bind(weft_session *session, const naming *by, const terms *with)
{
    weft_binding fresh;
    weft_status status;
    if (weft_division_is_cut(&session->division))
        status = weft_division_bind(&session->division, by->pieces, by->blocks, by->count, &fresh);
    else
        status = by->blocks ? weft_binding_open_blocks(session->layout, by->blocks, by->count, &fresh)
                            : weft_binding_open(session->layout, by->pieces, by->count, &fresh);
    if (status != WEFT_OK)
        return status;
    return session->trainer
               ? weft_shadow_bind(&session->trainer->publisher, &fresh, with->attachment, with->attachment_bytes)
               : weft_rollout_bind(session->rollout, &fresh, with->attachment, with->attachment_bytes,
                                   with->flags & WEFT_BIND_EMPTY);
}

static weft_status bind_by(weft_session *session, const naming *by, const terms *with)
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
    status = weights_bind(session, by, with);
    weft_session_leave(session, before);
    weft_turn_end(&session->turn, WEFT_TURN_WEIGHTS);
    return status;
}

weft_status weft_bind(weft_session *session, const weft_piece *pieces, uint64_t count, const void *attachment,
                      uint64_t attachment_bytes, uint32_t flags)
{
    const naming by = {"weft_bind", pieces, NULL, count};
    return bind_by(session, &by, &(terms){attachment, attachment_bytes, flags});
}

weft_status weft_bind_blocks(weft_session *session, const weft_block *blocks, uint64_t count, const void *attachment,
                             uint64_t attachment_bytes, uint32_t flags)
{
    const naming by = {"weft_bind_blocks", NULL, blocks, count};
    return bind_by(session, &by, &(terms){attachment, attachment_bytes, flags});
}
