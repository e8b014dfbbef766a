/* update_merge.c - merges updates that follow each other, with their base at hand.
 *
 * One block of units after another is copied from the base, moved through all updates, and compared with the base. An
 * element that came back to its old bits is no change. Any level can be read and written. The way back of one update is
 * made alike, with both sides of the comparison exchanged. */
#include "base/mem.h"
#include "base/status.h"
#include "encode/encode_blocks.h"
#include "update/update_fit.h"
#include "update/update_invert.h"
#include "update/update_move.h"
#include "update/update_work.h"

#define SPAN_SHIFT WEFT_RUN_SHIFT_MAX /* runs of every update end where these runs do */

/* The base is digested, the parameters are chosen, the frames are made: a pass each. */
enum { PASS_DIGEST, PASS_CHOICE, PASS_FRAMES, PASSES };

typedef struct weft_update_merger {
    weft_update_chain chain;
    const weft_layout *layout;
    const weft_work *work;
    weft_binding base;
    weft_update_step *steps;
    weft_mover mover; /* its image is the base's units, moved to the last target */
    weft_encoder encoder;
    uint64_t *delta; /* by part */
    bool back;       /* the new update leads from the last target to the base */
    uint32_t at;     /* of the passes */
} merger;

/* ---- open */

static weft_status steps_take(merger *m)
{
    m->delta = weft_mem_take(m->layout->part_count + 1, sizeof *m->delta);
    m->steps = weft_mem_take(m->chain.count, sizeof *m->steps);
    if (!m->delta || !m->steps)
        return weft_fail(WEFT_E_MEMORY, "no memory to merge %zu updates", m->chain.count);
    for (size_t i = 0; i < m->chain.count; i++)
        m->steps[i].file = m->chain.updates[i];
    return weft_mover_way(&m->mover, m->steps, m->chain.count, false);
}

static weft_status merger_open(merger *m, weft_update_file *const *updates, size_t count, const weft_piece *base,
                               uint64_t base_count)
{
    static const weft_backend_options options = {-1, "auto", 0, 0};
    weft_status status = weft_update_layout_fits(updates[0], m->layout);
    if (status == WEFT_OK)
        status = weft_update_chain_open(&m->chain, updates, count, m->layout);
    if (status == WEFT_OK)
        status = weft_binding_open((weft_layout *)(uintptr_t)m->layout, base, base_count, &m->base);
    if (status == WEFT_OK)
        status = weft_mover_open(&m->mover, m->layout, NULL, &m->base, m->work);
    if (status == WEFT_OK)
        status = steps_take(m);
    m->mover.passes = PASSES;
    return status == WEFT_OK ? weft_encoder_open(&m->encoder, weft_backend_find("host"), &options, NULL, m->layout, 1)
                             : status;
}

static void merger_close(merger *m)
{
    weft_encoder_close(&m->encoder);
    weft_mover_close(&m->mover);
    weft_mem_give(m->steps);
    weft_mem_give(m->delta);
    weft_binding_close(&m->base);
    weft_update_chain_close(&m->chain);
}

static weft_status progress(void *user, uint64_t unit)
{
    const merger *m = user;
    const uint64_t units = m->layout->unit_count;
    return weft_update_progress(m->work, m->at * units + unit, PASSES * units);
}

/* Makes the next block stand, moved to the last update's target. */
static weft_status block_stand(void *user, uint64_t unit, uint32_t units, bool wanted, bool *any)
{
    merger *m = user;
    (void)any;
    return weft_mover_stand(&m->mover, unit, units, wanted);
}

/* ---- the new update */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    merger *m = user;
    (void)level;
    return weft_update_writer_frame(&m->chain.writer, m->layout, frame, bytes);
}

static weft_status judge_base(merger *m)
{
    const weft_status status = weft_mover_measure(&m->mover, true);
    return status == WEFT_OK ? weft_update_step_judge(&m->steps[0], &m->mover.part, m->mover.digests, true) : status;
}

static weft_status judge_target(merger *m)
{
    uint64_t *reached = m->mover.reached;
    weft_status status = WEFT_OK;
    for (uint64_t part = 0; part < m->layout->part_count; part++)
        reached[part] = m->mover.digests[part] + (m->back ? 0 - m->delta[part] : m->delta[part]);
    for (size_t i = 0; i < m->chain.count && status == WEFT_OK; i++)
        status = weft_update_step_finish(&m->steps[i]);
    return status == WEFT_OK ? weft_update_step_judge(&m->steps[m->chain.count - 1], &m->mover.part, reached, false)
                             : status;
}

static weft_status write_file(merger *m, const weft_sink *sink, const weft_encode_blocks *blocks)
{
    weft_status status = weft_update_chain_begin(&m->chain, sink);
    m->at = PASS_FRAMES;
    if (status == WEFT_OK)
        status = weft_encode_blocks_run(blocks);
    if (status == WEFT_OK)
        status = judge_target(m);
    return status == WEFT_OK ? weft_update_chain_finish(&m->chain, true, blocks->pass->changed) : status;
}

static weft_status merge_bound(merger *m, const weft_sink *sink, weft_update_info *info)
{
    weft_wire_update *header = &m->chain.header;
    weft_encode_pass pass = {.now = m->back ? &m->base : &m->mover.image,
                             .shadow = m->back ? &m->mover.image : &m->base,
                             .parameters = &header->parameters,
                             .levels = 1u << header->level,
                             .delta = m->delta,
                             .emit = frame_write,
                             .user = m};
    weft_encode_blocks blocks = {.encoder = &m->encoder,
                                 .pass = &pass,
                                 .parameters = &header->parameters,
                                 .shift = SPAN_SHIFT,
                                 .stand = block_stand,
                                 .moved = progress,
                                 .user = m};
    weft_status status = judge_base(m);
    m->at = PASS_CHOICE;
    if (status == WEFT_OK && header->level >= WEFT_LEVEL_FAST)
        status = weft_encode_blocks_choose(&blocks);
    if (status == WEFT_OK)
        status = write_file(m, sink, &blocks);
    if (status == WEFT_OK && info)
        weft_update_chain_report(&m->chain, pass.changed, pass.diff_ms, pass.encode_ms, info);
    return status;
}

static weft_status merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                         const weft_piece *base, uint64_t base_count, const char *level, const weft_work *work,
                         const weft_sink *sink, weft_update_info *info)
{
    weft_work own;
    merger m = {.layout = layout, .work = weft_update_work_take(work, &own)};
    weft_level wanted = WEFT_LEVEL_TIGHT;
    weft_status status = weft_update_sizes_check(work, info, "weft_update_info");
    if (status != WEFT_OK)
        return status;
    if (count == 0)
        return weft_fail(WEFT_E_ARGUMENT, "no updates to merge");
    if (!base)
        return weft_update_merge_free(updates, count, layout, level, m.work, sink, info);
    status = level ? weft_level_by_name(level, &wanted) : WEFT_OK;
    if (status == WEFT_OK)
        status = merger_open(&m, updates, count, base, base_count);
    m.chain.header.level = wanted;
    if (status == WEFT_OK)
        status = merge_bound(&m, sink, info);
    merger_close(&m);
    return status;
}

weft_status weft_update_invert_bound(weft_update_file *update, const weft_layout *layout, const weft_piece *base,
                                     uint64_t base_count, weft_level level, const weft_update_attachment_of *attachment,
                                     const weft_work *work, const weft_sink *sink, weft_update_info *info)
{
    merger m = {.layout = layout, .work = work, .back = true};
    weft_status status = merger_open(&m, &update, 1, base, base_count);
    m.chain.header.level = level;
    m.chain.attachment = attachment;
    weft_update_turn(&m.chain);
    if (status == WEFT_OK)
        status = merge_bound(&m, sink, info);
    merger_close(&m);
    return status;
}

weft_status weft_update_merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                              const weft_piece *base, uint64_t base_count, const char *level, const weft_work *work,
                              const weft_sink *sink, weft_update_info *info)
{
    for (size_t i = 0; WEFT_ALONE_LOOKS && i < count; i++)
        weft_alone_begin(&updates[i]->alone_in, "weft_update_merge");
    const weft_status status = merge(updates, count, layout, base, base_count, level, work, sink, info);
    for (size_t i = 0; WEFT_ALONE_LOOKS && i < count; i++)
        weft_alone_end(&(weft_alone_call){&updates[i]->alone_in});
    return status;
}
