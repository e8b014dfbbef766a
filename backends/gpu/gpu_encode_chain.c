/* gpu_encode_chain.c - a batch as one chain of launches, from the weights to payloads on the host:
 *
 *   diff, scan          which elements differ
 *   frame_lists         memory for the lists and the frames of each job, for as long as there is memory
 *   gather              the changes
 *   fast_frame          level fast: counts, parameters, planes
 *   class_rank, tight_count, list_make, tight_frame
 *                       level tight: classes of the base, sets, lists of these, parameters and planes
 *
 * The host puts the headers in front. Once a caller has all frames of a batch that took one pass, the shadow can follow
 * from the lists (gpu_follow.c). If jobs lacked memory, the launches after scan are repeated for those. A payload that
 * is not worth a frame is refused, and its job is the host's. */
#include <stddef.h>
#include <string.h>

#include "backends/gpu/gpu_encode.h"
#include "backends/host/host_state.h"

#define QUAD WEFT_GPU_HEADER_ROOM
_Static_assert(QUAD == 16, "a header takes a quad");
_Static_assert(offsetof(weft_k_frame_job, changes) == 0, "a job's address is that of its changes");
_Static_assert(WEFT_K_CLASSES == WEFT_CLASS_MAX && WEFT_K_EXPONENTS == WEFT_EXPONENTS_MAX, "as core has them");

#define FAST_BIT  (1u << WEFT_LEVEL_FAST)
#define TIGHT_BIT (1u << WEFT_LEVEL_TIGHT)

#define UNIT_BYTES    (1u << 20)
#define UNIT_ELEMENTS (1u << 18)

/* ---- memory, as frame_lists takes it */

static uint64_t quads(uint64_t bytes)
{
    return (bytes + QUAD - 1) / QUAD * QUAD;
}

/* The bytes of the largest payload that may be a frame (weft_encode_fits). */
static uint32_t payload_most(const weft_encode_job *job)
{
    const uint64_t dense = weft_frame_full_payload(job->now.count, job->now.width) - WEFT_FRAME_ALIGN;
    const uint64_t frame = job->largest_frame - WEFT_FRAME_HEADER_BYTES;
    return (uint32_t)(job->now.units == 1 || dense < frame ? dense : frame);
}

static uint64_t payload_room(const weft_encode_job *job, uint32_t changed, uint64_t bits)
{
    const uint64_t all = weft_fast_rice(job->now.count, changed) + bits, most = payload_most(job);
    const uint64_t room = (changed * all / 8 + 256 + 3) / 4 * 4;
    return QUAD + quads(room < most ? room : most);
}

static uint64_t payloads_room(const weft_encode_job *job, uint32_t changed)
{
    const uint8_t width = job->now.width;
    return (job->levels & FAST_BIT ? payload_room(job, changed, WEFT_K_FAST_BITS(width)) : 0) +
           (job->levels & TIGHT_BIT ? payload_room(job, changed, WEFT_K_TIGHT_BITS(width)) : 0);
}

static uint64_t tight_bytes(const weft_encode_job *job, uint32_t changed)
{
    const uint64_t words = sizeof(uint32_t) * (uint64_t)changed, elements = job->now.count;
    const uint64_t slices = weft_gpu_parts(elements, WEFT_K_SLICE) + 1;
    return quads(sizeof(uint32_t) * WEFT_K_CLASSES * slices) + quads(words) + quads(3 * words) +
           2 * quads((elements + WEFT_K_CLASSES * WEFT_K_SET_ALIGN + 127) / 8) + quads((changed + 127) / 8) +
           quads(WEFT_K_TIGHT_LISTS * sizeof(weft_k_set_list));
}

static uint64_t lists_bytes(const weft_encode_job *job, uint32_t changed)
{
    const uint64_t words = quads(sizeof(uint32_t) * (uint64_t)changed), elements = (uint64_t)changed * job->now.width;
    return words + 2 * quads(elements) + (job->levels & FAST_BIT ? words : 0) +
           (job->levels & TIGHT_BIT ? tight_bytes(job, changed) : 0);
}

static uint32_t frames_of(const weft_encode_job *job)
{
    return !!(job->levels & FAST_BIT) + !!(job->levels & TIGHT_BIT);
}

uint64_t weft_gpu_chain_later(const weft_encode_job *job, uint32_t changed)
{
    return changed && frames_of(job) ? lists_bytes(job, changed) + payloads_room(job, changed) : 0;
}

weft_gpu_need weft_gpu_chain_least(void)
{
    weft_encode_job largest = {.now = {.count = UNIT_ELEMENTS, .width = UNIT_BYTES / UNIT_ELEMENTS, .units = 1},
                               .largest_frame = UNIT_BYTES + WEFT_FRAME_HEADER_BYTES,
                               .levels = FAST_BIT | TIGHT_BIT};
    const uint64_t payloads = 2 * (UNIT_BYTES + QUAD) + 2 * WEFT_GPU_ALIGN, unit = lists_bytes(&largest, UNIT_ELEMENTS);
    largest.now.count <<= WEFT_RUN_SHIFT_MAX;
    const uint64_t run = lists_bytes(&largest, WEFT_FRAME_RUN_CHANGES);
    /* A third of what is left is the frames'. */
    const uint64_t lists = unit > run ? unit : run;
    return (weft_gpu_need){.device = lists > 2 * payloads ? lists + payloads + lists / 2 : 3 * payloads,
                           .pinned = payloads + 4 * WEFT_GPU_ALIGN};
}

/* ---- rows */

static uint64_t tight_rows(const weft_encode_job *job)
{
    return sizeof(weft_k_tight_job) + weft_gpu_classes_bytes(&job->now) + weft_gpu_view_bytes(&job->shadow) +
           weft_gpu_tiles(&job->now) * sizeof(weft_k_class_rank) + WEFT_GPU_ROW_ALIGN;
}

static uint64_t job_rows(const weft_encode_job *job)
{
    return sizeof(weft_k_frame_job) + weft_gpu_tiles(&job->now) * sizeof(weft_k_gather) +
           (job->levels & TIGHT_BIT ? tight_rows(job) : 0);
}

weft_gpu_need weft_gpu_chain_need(const weft_encode_job *job)
{
    const uint64_t rows = job_rows(job);
    return (weft_gpu_need){.device = rows, .pinned = rows + 2 * sizeof(weft_k_made)};
}

uint64_t weft_gpu_chain_rows(const weft_gpu_slab *slab, uint32_t tiles)
{
    uint64_t bytes = sizeof(weft_k_frame_lists) + tiles * sizeof(weft_k_gather) + 8 * WEFT_GPU_ROW_ALIGN;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_encode_job *job = slab->jobs[i];
        bytes += sizeof(weft_k_frame_job) + (job->levels & TIGHT_BIT ? tight_rows(job) : 0);
    }
    return bytes;
}

static weft_k_made *made_take(weft_gpu_slab *slab, uint64_t *address)
{
    const uint64_t bytes = slab->count * sizeof(weft_k_made);
    return memset(weft_gpu_take_pinned(slab, bytes, address), 0, bytes);
}

void weft_gpu_chain_open(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint32_t tiles)
{
    weft_gpu_chain *chain = &batch->chain;
    weft_gpu_slab *slab = batch->slab;
    chain->tiles = tiles;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_encode_job *job = slab->jobs[i];
        const bool tight = job->levels & TIGHT_BIT;
        chain->fast_jobs += !!(job->levels & FAST_BIT);
        chain->tight_jobs += tight;
        chain->tight_tiles += tight ? weft_gpu_tiles(&job->now) : 0;
    }
    chain->fast_made = made_take(slab, &chain->fast_at);
    chain->tight_made = made_take(slab, &chain->tight_at);
    chain->job_rows = weft_gpu_rows_add(rows, slab->count * sizeof *chain->job_rows, &chain->jobs);
    chain->tight_rows = weft_gpu_rows_add(rows, chain->tight_jobs * sizeof *chain->tight_rows, &chain->tight);
    chain->next_gather = weft_gpu_rows_add(rows, tiles * sizeof *chain->next_gather, &chain->gathers);
    chain->next_rank = weft_gpu_rows_add(rows, chain->tight_tiles * sizeof *chain->next_rank, &chain->ranks);
    chain->list_row = weft_gpu_rows_add(rows, sizeof *chain->list_row, &chain->lists);
    chain->tight_jobs = 0; /* counts those that are filled */
}

/* Fills the row of a job's level tight. Returns its address. */
static uint64_t tight_put(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint32_t place)
{
    weft_gpu_chain *chain = &batch->chain;
    const weft_gpu_encoding *encoding = &batch->encodings[place];
    const weft_encode_job *job = encoding->job;
    const weft_class_map *map = &batch->classes->map;
    const uint64_t address = chain->tight + chain->tight_jobs++ * sizeof *chain->tight_rows;
    weft_gpu_classes_put(batch->classes, rows, job->parameters, &job->now);
    *chain->tight_rows++ = (weft_k_tight_job){.base = weft_gpu_view_put(rows, &job->shadow),
                                              .of = batch->classes->of,
                                              .job = chain->jobs + place * sizeof *chain->job_rows,
                                              .payload.made = chain->tight_at + place * sizeof *chain->tight_made,
                                              .slices = encoding->pair.slices,
                                              .classes = map->count,
                                              .shift = map->shift,
                                              .mask = map->mask,
                                              .magnitude_base = map->classes->magnitude_base,
                                              .rice_most = job->now.width == 8 ? 56 : 8u * job->now.width - 2};
    for (uint32_t t = 0; t < encoding->pair.tile_count; t++)
        *chain->next_rank++ =
            (weft_k_class_rank){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff), .job = address};
    return address;
}

void weft_gpu_chain_put(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint32_t place)
{
    weft_gpu_chain *chain = &batch->chain;
    const weft_gpu_encoding *encoding = &batch->encodings[place];
    const weft_encode_job *job = encoding->job;
    const weft_view *now = &job->now;
    const uint32_t most = payload_most(job);
    chain->job_rows[place] =
        (weft_k_frame_job){.changes = {.width = now->width, .is_float = now->is_float, .elements = now->count},
                           .fast.made = job->levels & FAST_BIT ? chain->fast_at + place * sizeof *chain->fast_made : 0,
                           .tight = job->levels & TIGHT_BIT ? tight_put(batch, rows, place) : 0,
                           .total = encoding->pair.counts + encoding->pair.slices * sizeof(uint32_t),
                           .changed_most = now->units > 1 ? WEFT_FRAME_RUN_CHANGES : UINT32_MAX,
                           .payload_most = most};
    for (uint32_t t = 0; t < encoding->pair.tile_count; t++)
        *chain->next_gather++ = (weft_k_gather){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff),
                                                .changes = chain->jobs + place * sizeof(weft_k_frame_job),
                                                .sums = encoding->device_sums};
    chain->frames_most += frames_of(job) * (QUAD + quads(most));
}

/* Returns what is left of a room, in whole quads. */
static uint64_t room_left(const weft_gpu_room *room)
{
    const uint64_t used = (room->used + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    return used < room->bytes ? (room->bytes - used) / QUAD * QUAD : 0;
}

/* Frames get what they need at most, or a third of the device's memory that is left, because a job's lists take two to
 * three times the room for its payload. Both have room for the largest job, because weft_gpu_chain_least has. */
void weft_gpu_chain_memory(weft_gpu_batch *batch)
{
    weft_gpu_slab *slab = batch->slab;
    weft_gpu_chain *chain = &batch->chain;
    const uint64_t share = room_left(&slab->device) / 3 / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    const uint64_t need = (chain->frames_most + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    const uint64_t most = share < need ? share : need, pinned = room_left(&slab->pinned);
    const uint64_t frames = most < pinned ? most : pinned;
    *chain->list_row = (weft_k_frame_lists){.jobs = chain->jobs,
                                            .count = slab->count,
                                            .payloads = weft_gpu_take_device(slab, frames),
                                            .frame_quads = (uint32_t)(frames / QUAD)};
    chain->frames = weft_gpu_take_pinned(slab, frames, &chain->list_row->copies);
    chain->frame_bytes = frames;
    const uint64_t lists = room_left(&slab->device);
    chain->list_row->lists = weft_gpu_take_device(slab, lists);
    chain->list_row->list_quads = (uint32_t)(lists / QUAD);
}

static weft_status tight_launch(weft_gpu *gpu, weft_gpu_slab *slab, const weft_gpu_chain *chain)
{
    weft_status status =
        weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_class_rank, chain->tight_tiles * WEFT_K_SLICES, chain->ranks);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_tight_count, chain->tight_jobs, chain->tight);
    if (status == WEFT_OK)
        status =
            weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_list_make, chain->tight_jobs * WEFT_K_TIGHT_LISTS, chain->tight);
    return status == WEFT_OK ? weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_tight_frame, chain->tight_jobs, chain->tight)
                             : status;
}

weft_status weft_gpu_chain_launch(weft_gpu_batch *batch)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    const weft_gpu_chain *chain = &batch->chain;
    if (chain->fast_jobs + chain->tight_jobs == 0)
        return WEFT_OK;
    weft_status status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_frame_lists, 1, chain->lists);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_gather, chain->tiles * WEFT_K_SLICES, chain->gathers);
    if (status == WEFT_OK && chain->fast_jobs > 0)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_fast_frame, slab->count, chain->jobs);
    if (status == WEFT_OK)
        status = tight_launch(gpu, slab, chain);
    return status == WEFT_OK ? weft_gpu_sheet_fetch(gpu, slab, &batch->sums) : status;
}

/* ---- what came of it */

static const weft_k_made *made_of(const weft_gpu_chain *chain, uint32_t place, weft_level level)
{
    return &(level == WEFT_LEVEL_FAST ? chain->fast_made : chain->tight_made)[place];
}

/* The host writes a header and reads a payload where the device says that they are. */
static bool made_fits(const weft_gpu_chain *chain, const weft_encode_job *job, const weft_k_made *made)
{
    const uint64_t end = (uint64_t)QUAD * made->place + made->bytes;
    return made->bytes == 0 || (made->place > 0 && made->bytes <= payload_most(job) && end <= chain->frame_bytes);
}

/* Notes the changes that the pass over all elements found. A run with too many has no frame, nor has one at the levels
 * that code elements as they are: its units go alone. */
static void changed_note(const weft_gpu_batch *batch, uint32_t place)
{
    weft_gpu_encoding *encoding = &batch->encodings[place];
    weft_encode_job *job = encoding->job;
    const uint32_t changed = batch->totals[place];
    if (job->now.units > 1)
        job->alone = changed > WEFT_FRAME_RUN_CHANGES ? job->levels : job->levels & ~(FAST_BIT | TIGHT_BIT);
    encoding->left = changed > 0 ? job->levels & ~job->alone : 0;
    if (changed == 0)
        job->alone = 0;
    if (job->alone != job->levels || changed == 0)
        job->changed = changed;
}

/* Sorts out what the pass made of a job: frames, payloads that are refused, or nothing for lack of memory. */
static weft_status made_note(weft_gpu_batch *batch, uint32_t place, uint32_t *lacking)
{
    static const weft_level levels[] = {WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};
    const weft_gpu_chain *chain = &batch->chain;
    weft_gpu_encoding *encoding = &batch->encodings[place];
    encoding->fresh = 0;
    for (int l = 0; l < 2; l++) {
        const uint32_t bit = 1u << levels[l];
        const weft_k_made *made = made_of(chain, place, levels[l]);
        if (!(encoding->left & bit))
            continue;
        if (!made_fits(chain, encoding->job, made))
            return weft_gpu_wrong_fail(batch->gpu, "a frame that is not in the memory for frames");
        if (made->bytes > 0)
            encoding->fresh |= bit;
        else if (made->place > 0 && encoding->job->now.units > 1)
            encoding->job->alone |= bit;
        else
            *lacking += made->place == 0;
    }
    encoding->left &= ~(encoding->fresh | encoding->job->alone);
    return WEFT_OK;
}

static weft_frame_header header_of(const weft_gpu_batch *batch, uint32_t place, weft_level level)
{
    const weft_k_made *made = made_of(&batch->chain, place, level);
    const weft_view *now = &batch->encodings[place].job->now;
    const weft_fast_shape shape = {
        .exceptions = made->exceptions, .gap_bits = made->gap_bits, .magnitude_bits = made->magnitude_bits};
    return (weft_frame_header){.unit = now->unit,
                               .units = now->units,
                               .level = level,
                               .payload_bytes = made->bytes,
                               .changed = batch->totals[place],
                               .parameters =
                                   level == WEFT_LEVEL_FAST ? weft_fast_parameters(&shape) : made->exceptions};
}

/* Hands over a frame: lends it, or puts it into the job's sink. */
static void frame_end(weft_gpu_batch *batch, uint32_t place, weft_level level, bool lend)
{
    weft_gpu_encoding *encoding = &batch->encodings[place];
    weft_encode_job *job = encoding->job;
    const weft_k_made *made = made_of(&batch->chain, place, level);
    const weft_frame_header header = header_of(batch, place, level);
    uint8_t *frame = batch->chain.frames + (uint64_t)QUAD * made->place - WEFT_FRAME_HEADER_BYTES;
    const uint32_t bytes = WEFT_FRAME_HEADER_BYTES + made->bytes;
    weft_frame_write_header(frame, &header);
    job->frame_bytes[level] = bytes;
    if (!lend || !job->lend) {
        weft_gpu_frame_put(job, level, frame);
        return;
    }
    job->lent[level] = frame;
    batch->slab->lent += !encoding->lent;
    encoding->lent = true;
}

static void digests_end(const weft_gpu_encoding *encoding)
{
    for (uint32_t s = 0; s < encoding->pair.sum_count; s++)
        encoding->job->tensor_delta[encoding->pair.parts[s]] += encoding->sums[s];
}

/* Jobs ahead of which the place of the header is fetched, because the device wrote there last and no cache has it. */
#define AHEAD 8u

static void header_fetch(const weft_gpu_chain *chain, uint32_t place)
{
    if (chain->fast_made[place].place > 0)
        __builtin_prefetch(chain->frames + (uint64_t)QUAD * chain->fast_made[place].place - QUAD, 1);
    if (chain->tight_made[place].place > 0)
        __builtin_prefetch(chain->frames + (uint64_t)QUAD * chain->tight_made[place].place - QUAD, 1);
}

/* Hands over the frames of a pass. The digests of a job that the host codes too come from there. */
static void frames_end(weft_gpu_batch *batch, double each, bool lend)
{
    const uint32_t count = batch->slab->count;
    for (uint32_t i = 0; i < count; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        if (i + AHEAD < count)
            header_fetch(&batch->chain, i + AHEAD);
        encoding->job->encode_ms += each;
        if (encoding->fresh & FAST_BIT)
            frame_end(batch, i, WEFT_LEVEL_FAST, lend);
        if (encoding->fresh & TIGHT_BIT)
            frame_end(batch, i, WEFT_LEVEL_TIGHT, lend);
        if (encoding->fresh && !encoding->left)
            digests_end(encoding);
        /* Units that go alone look at the shadow again. */
        encoding->job->follows = encoding->lent && batch->chain.follows && encoding->job->alone == 0;
    }
}

weft_status weft_gpu_chain_end(weft_gpu_batch *batch, double each)
{
    weft_gpu_chain *chain = &batch->chain;
    uint32_t lacking = 0, left = 0, still = 0;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < batch->slab->count && status == WEFT_OK; i++) {
        if (!chain->ended)
            changed_note(batch, i);
        status = made_note(batch, i, &lacking);
        left |= batch->encodings[i].left;
        still += chain->fast_made[i].still;
    }
    if (status != WEFT_OK)
        return status;
    const bool again = lacking > 0 && (!chain->ended || lacking < chain->lacking);
    if (lacking > 0 && !again)
        return weft_gpu_wrong_fail(batch->gpu, "jobs without memory, of which there is enough");
    chain->follows = !chain->ended && left == 0 && still == 0 && chain->fast_jobs == batch->slab->count;
    chain->lacking = lacking;
    frames_end(batch, each, left == 0);
    chain->ended = true;
    return again ? WEFT_AGAIN : WEFT_OK;
}
