/* cases_codec.c - the jobs of a backend, from weights to frames and back, as launches of their kernels: thousands of
 * elements of each width, sparse and dense, in pieces that begin anywhere, all units in one batch. */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "tests/isa/cases.h"
#include "tests/support/unit_pair.h"

enum { TENSORS = 5, UNITS = 32, LARGE = 1 << 17, ANY = 2000000 }; /* ANY of a million elements: all, to any bits */

typedef struct world {
    weft_layout *layout;
    uint8_t *base, *target, *live; /* elements begin off the quads */
    weft_binding base_binding, target_binding, live_binding;
    uint8_t *master; /* F32 that are read as the target's bits; NULL: there is none */
    weft_binding casts;
    weft_parameters parameters;
    weft_backend_state *host;
    weft_gpu *gpu;
    uint32_t units;
} world;

typedef struct room { /* memory of the jobs of one unit */
    uint8_t *frame[WEFT_LEVEL_COUNT], *host_frame[WEFT_LEVEL_COUNT];
    uint32_t length[WEFT_LEVEL_COUNT];
    weft_changes changes, host_changes;
    uint64_t *delta, *host_delta;
} room;

static uint8_t *image(const world *w, uint8_t width)
{
    return (uint8_t *)weft_record_take(w->layout->bytes + 32) + 3 * width;
}

static void must_equal(const char *what, const void *a, const void *b, uint64_t bytes)
{
    if (bytes == 0 || memcmp(a, b, bytes) == 0)
        return;
    fprintf(stderr, "isa: %s: kernels and host differ\n", what);
    abort();
}

static void world_open(world *w, weft_dtype dtype, uint64_t largest, uint64_t *seed)
{
    static const char *const names[TENSORS] = {"a", "b", "c", "d", "e"};
    const weft_dtype_row *row = weft_dtype_find(dtype);
    const uint64_t sizes[TENSORS] = {largest, 300, 1, 77, largest / 5};
    const weft_backend_options options = {.device = -1, .kernels = "portable", .budget_bytes = UINT64_C(512) << 20};
    weft_tensor tensors[TENSORS];
    memset(w, 0, sizeof *w);
    for (int t = 0; t < TENSORS; t++)
        tensors[t] = (weft_tensor){names[t], dtype, 1, &sizes[t]};
    pair_must(weft_layout_create(tensors, TENSORS, &w->layout), "layout");
    w->base = image(w, row->width);
    w->target = image(w, row->width);
    w->live = image(w, row->width);
    for (uint64_t i = 0; i < w->layout->elements; i++)
        pair_put(w->base, i, pair_bits(seed, row), row->width);
    memcpy(w->live, w->base, w->layout->bytes);
    pair_must(weft_binding_open_image(w->layout, w->base, &w->base_binding), "image");
    pair_must(weft_binding_open_image(w->layout, w->target, &w->target_binding), "image");
    pair_must(weft_binding_open_image(w->layout, w->live, &w->live_binding), "image");
    pair_parameters(seed, &w->parameters);
    pair_must(weft_backend_host.open(&options, &w->host), "host");
    pair_must(weft_gpu_open(&weft_record_driver, &options, &w->gpu), "kernels");
    w->units = (uint32_t)w->layout->unit_count;
    if (w->units > UNITS)
        abort();
}

/* Bits of the F32 that has the value of these, or infinity. */
static uint32_t half_wide(uint16_t bits)
{
    const float small = (float)(bits & 0x3ff) * 0x1p-24f;
    uint32_t wide = bits & 0x7c00 ? (112u << 23) + (bits & 0x7fffu) * 0x2000u : 0;
    if (!(bits & 0x7c00))
        memcpy(&wide, &small, sizeof wide);
    if ((bits & 0x7c00) == 0x7c00)
        wide = 0x7f800000u;
    return (bits & 0x8000u) << 16 | wide;
}

/* Bits of an F32 that rounds to these of F16. A NaN becomes the one that is. */
static uint32_t half_master_of(uint64_t *seed, uint16_t *bits)
{
    const uint16_t magnitude = *bits & 0x7fff;
    if (magnitude > 0x7c00)
        *bits = 0x7e00;
    if (magnitude > 0x7c00)
        return (uint32_t)pair_random(seed) | 0x7f800001u;
    if (magnitude > 0 && pair_below(seed, 2))
        return half_wide(*bits) - (uint32_t)pair_below(seed, 0x1000);
    return half_wide(*bits) + (magnitude == 0x7c00 ? 0 : (uint32_t)pair_below(seed, 0x1000));
}

/* The same of BF16. */
static uint32_t master_of(uint64_t *seed, uint16_t *bits)
{
    const uint16_t magnitude = *bits & 0x7fff;
    if (magnitude > 0x7f80)
        *bits = 0x7fc0;
    if (magnitude > 0x7f80)
        return (uint32_t)pair_random(seed) | 0x7f800001u;
    if (magnitude > 0 && pair_below(seed, 2))
        return ((uint32_t)(*bits - 1) << 16 | 0x8001u) + (uint32_t)pair_below(seed, 0x7fff);
    return (uint32_t)*bits << 16 | (magnitude == 0x7f80 ? 0 : (uint32_t)pair_below(seed, 0x8000));
}

/* Binds the target as masters, but for one tensor of a pack. */
static void world_cast(world *w, uint64_t *seed, bool half)
{
    const uint16_t infinite = half ? 0x7c00 : 0x7f80, nan = half ? 0x7e00 : 0x7fc0;
    weft_block blocks[TENSORS];
    w->master = (uint8_t *)weft_record_take(2 * w->layout->bytes + 32) + 12;
    for (uint64_t t = 0; t < TENSORS; t++) {
        const uint64_t at = w->layout->entries[t].offset;
        const bool cast = t != 3;
        for (uint64_t i = 0; cast && i < w->layout->entries[t].elements; i++) {
            uint16_t bits = (uint16_t)pair_get(w->target + at, i, 2);
            pair_put(w->master + 2 * at, i, half ? half_master_of(seed, &bits) : master_of(seed, &bits), 4);
            pair_put(w->target + at, i, bits, 2);
            if ((pair_get(w->base + at, i, 2) & 0x7fff) <= infinite)
                continue;
            pair_put(w->base + at, i, nan, 2);
            pair_put(w->live + at, i, nan, 2);
        }
        blocks[t] = (weft_block){.slice = weft_slice_whole(w->layout, t),
                                 .data = cast ? w->master + 2 * at : w->target + at,
                                 .memory = cast ? WEFT_F32 : 0};
    }
    pair_must(weft_binding_open_blocks(w->layout, blocks, TENSORS, &w->casts), "masters");
}

static const weft_binding *now_of(const world *w)
{
    return w->master ? &w->casts : &w->target_binding;
}

static void world_close(world *w, uint8_t width)
{
    if (w->master) {
        weft_binding_close(&w->casts);
        weft_record_give(w->master - 12);
    }
    weft_gpu_close(w->gpu);
    weft_backend_host.close(w->host);
    weft_binding_close(&w->base_binding);
    weft_binding_close(&w->target_binding);
    weft_binding_close(&w->live_binding);
    weft_layout_free(w->layout);
    weft_record_give(w->base - 3 * width);
    weft_record_give(w->target - 3 * width);
    weft_record_give(w->live - 3 * width);
}

static void world_change(world *w, uint64_t *seed, uint64_t per_million, uint8_t width)
{
    memcpy(w->target, w->base, w->layout->bytes);
    for (uint64_t i = 0; i < w->layout->elements; i++) {
        if (per_million == ANY)
            pair_put(w->target, i, pair_random(seed), width);
        if (per_million == ANY || pair_below(seed, 1000000) >= per_million)
            continue;
        const uint64_t bits = pair_get(w->base, i, width);
        pair_put(w->target, i, pair_below(seed, 8) ? bits + (pair_below(seed, 2) ? 1 : UINT64_MAX) : pair_random(seed),
                 width);
    }
}

static void changes_open(weft_changes *changes, uint32_t count, uint8_t width)
{
    *changes = (weft_changes){.capacity = count};
    changes->position = weft_record_take(4 * (uint64_t)count);
    changes->before = weft_record_take((uint64_t)count * width);
    changes->after = weft_record_take((uint64_t)count * width);
}

static void changes_close(weft_changes *changes)
{
    weft_record_give(changes->position);
    weft_record_give(changes->before);
    weft_record_give(changes->after);
}

static void room_open(const world *w, uint32_t unit, uint8_t width, room *r)
{
    const uint32_t count = weft_binding_view(&w->base_binding, unit).count;
    memset(r, 0, sizeof *r);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        r->frame[level] = pair_memory(w->layout->largest_frame);
        r->host_frame[level] = pair_memory(w->layout->largest_frame);
    }
    changes_open(&r->changes, count, width);
    changes_open(&r->host_changes, count, width);
    r->delta = pair_memory(w->layout->part_count * sizeof *r->delta);
    r->host_delta = pair_memory(w->layout->part_count * sizeof *r->delta);
}

static void room_close(room *r)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        free(r->frame[level]);
        free(r->host_frame[level]);
    }
    changes_close(&r->changes);
    changes_close(&r->host_changes);
    free(r->delta);
    free(r->host_delta);
}

/* Has all jobs of a kind done in one batch. */
static void batch(world *w, const weft_gpu_kind *kind, void *jobs, uint32_t size)
{
    for (uint32_t u = 0; u < w->units; u++) {
        if (weft_gpu_submit(w->gpu, kind, (char *)jobs + (size_t)u * size) != WEFT_AGAIN)
            pair_must(WEFT_E_STATE, "submit");
    }
    for (uint32_t u = 0; u < w->units; u++) {
        weft_status status = WEFT_AGAIN;
        while (status == WEFT_AGAIN)
            status = weft_gpu_poll(w->gpu, (char *)jobs + (size_t)u * size);
        pair_must(status, "poll");
    }
}

static weft_encode_job encode_job(world *w, uint32_t unit, uint32_t levels, weft_frame_sink *sinks, uint64_t *delta)
{
    return (weft_encode_job){.now = weft_binding_view(now_of(w), unit),
                             .shadow = weft_binding_view(&w->base_binding, unit),
                             .parameters = &w->parameters,
                             .largest_frame = w->layout->largest_frame,
                             .levels = levels,
                             .sinks = sinks,
                             .tensor_delta = delta,
                             .lend = levels == 1u << WEFT_LEVEL_FAST};
}

/* Has the shadow follow. It has the target's bits if it followed in all. */
static void follow(const world *w, weft_encode_job *jobs)
{
    bool all = true;
    for (uint32_t u = 0; u < w->units; u++) {
        weft_encode_job *job = &jobs[u];
        job->follow = job->follows;
        all = all && (job->follows || job->changed == 0);
        weft_gpu_give(w->gpu, job);
    }
    pair_must(weft_gpu_followed(w->gpu), "followed");
    if (all)
        must_equal("follow", w->base, w->target, w->layout->bytes);
    memcpy(w->base, w->live, w->layout->bytes);
}

static void encoded_prove(const world *w, const weft_encode_job *job, const room *r)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        pair_must(job->frame_bytes[level] == r->length[level] ? WEFT_OK : WEFT_E_STATE, "encode: length");
        must_equal("encode", job->lent[level] ? job->lent[level] : r->frame[level], r->host_frame[level],
                   job->frame_bytes[level]);
    }
    must_equal("digests", r->delta, r->host_delta, w->layout->part_count * sizeof(uint64_t));
}

static void encode(world *w, uint32_t levels, room *rooms)
{
    weft_encode_job jobs[UNITS];
    weft_frame_sink sinks[UNITS][WEFT_LEVEL_COUNT];
    const uint64_t digests = w->layout->part_count * sizeof(uint64_t), capacity = w->layout->largest_frame;
    for (uint32_t u = 0; u < w->units; u++) {
        room *r = &rooms[u];
        memset(r->delta, 0, digests);
        memset(r->host_delta, 0, digests);
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            sinks[u][level] = (weft_frame_sink){.data = r->host_frame[level], .capacity = capacity};
        jobs[u] = encode_job(w, u, levels, sinks[u], r->host_delta);
        pair_must(weft_backend_host.encode(w->host, &jobs[u]), "encode");
        memcpy(r->length, jobs[u].frame_bytes, sizeof r->length);
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            sinks[u][level] = (weft_frame_sink){.data = r->frame[level], .capacity = capacity};
        jobs[u] = encode_job(w, u, levels, sinks[u], r->delta);
    }
    batch(w, &weft_gpu_encode, jobs, sizeof jobs[0]);
    for (uint32_t u = 0; u < w->units; u++)
        encoded_prove(w, &jobs[u], &rooms[u]);
    follow(w, jobs);
}

static void list_fill(void *user, uint64_t list, weft_apply_job *job)
{
    *job = ((const weft_apply_job *)user)[list];
}

/* Puts the lists in place by a queued commit: none at first, because one list is wrong, and then all. */
static void queue(world *w, weft_apply_job *applies)
{
    weft_queued_commit commit = {.count = w->units, .fill = list_fill, .user = applies};
    for (int wrong = commit.count > 0; wrong >= 0 && commit.count > 0; wrong--) {
        uint8_t *bits = applies[commit.count - 1].changes->before;
        weft_status status = WEFT_AGAIN;
        *bits ^= (uint8_t)wrong;
        pair_must(weft_gpu_commit_queue(w->gpu, &commit), "queue");
        while (status == WEFT_AGAIN)
            status = weft_gpu_commit_ask(w->gpu, &commit);
        pair_must(status, "queued");
        *bits ^= (uint8_t)wrong;
        must_equal("queued", w->live, wrong ? w->base : w->target, w->layout->bytes);
    }
}

/* Decodes what encode left at a level, applies it, holds it against the target, and undoes it. Then the same once more
 * under another name, by a commit that is queued. */
static void apply(world *w, weft_level level, room *rooms, uint8_t width, const char *queued)
{
    weft_decode_job decodes[UNITS];
    weft_apply_job applies[UNITS];
    weft_undo_job undoes[UNITS];
    uint32_t jobs = 0;
    const uint32_t units = w->units;
    for (uint32_t u = 0; u < units; u++) {
        room *r = &rooms[u];
        if (r->length[level] == 0) /* nothing changed */
            continue;
        decodes[jobs] = (weft_decode_job){.base = weft_binding_view(&w->live_binding, u),
                                          .parameters = &w->parameters,
                                          .changes = &r->host_changes,
                                          .tensor_delta = r->host_delta};
        pair_must(weft_frame_admit(w->layout, r->host_frame[level], r->length[level], &decodes[jobs].frame), "admit");
        pair_must(weft_backend_host.decode(w->host, &decodes[jobs]), "decode");
        decodes[jobs].changes = &r->changes;
        decodes[jobs].tensor_delta = r->delta;
        applies[jobs] = (weft_apply_job){.target = decodes[jobs].base, .changes = &r->changes};
        undoes[jobs] = (weft_undo_job){.target = decodes[jobs].base, .changes = &r->changes};
        jobs++;
    }
    w->units = jobs;
    batch(w, &weft_gpu_decode, decodes, sizeof decodes[0]);
    for (uint32_t u = 0; u < units; u++) {
        room *r = &rooms[u];
        if (r->length[level] == 0)
            continue;
        must_equal("positions", r->changes.position, r->host_changes.position, 4 * (uint64_t)r->host_changes.count);
        must_equal("new bits", r->changes.after, r->host_changes.after, width * (uint64_t)r->host_changes.count);
    }
    batch(w, &weft_gpu_apply, applies, sizeof applies[0]);
    must_equal("apply", w->live, w->target, w->layout->bytes);
    batch(w, &weft_gpu_undo, undoes, sizeof undoes[0]);
    must_equal("undo", w->live, w->base, w->layout->bytes);
    if (level == WEFT_LEVEL_FAST) { /* lists of one kind do, whatever they were decoded from */
        weft_record_case(queued, w->layout->elements);
        queue(w, applies);
        batch(w, &weft_gpu_undo, undoes, sizeof undoes[0]);
        must_equal("undo", w->live, w->base, w->layout->bytes);
    }
    w->units = units;
}

/* Has digests taken by both, which have to agree. */
static void digests_prove(world *w, weft_digest_job *jobs, room *rooms)
{
    const uint64_t bytes = w->layout->part_count * sizeof(uint64_t);
    for (uint32_t u = 0; u < w->units; u++) {
        memset(rooms[u].delta, 0, bytes);
        memset(rooms[u].host_delta, 0, bytes);
    }
    batch(w, &weft_gpu_digest, jobs, sizeof jobs[0]);
    for (uint32_t u = 0; u < w->units; u++) {
        weft_digest_job job = {.view = jobs[u].view, .tensor_delta = rooms[u].host_delta};
        pair_must(weft_backend_host.digest(w->host, &job), "digest");
        must_equal("digest", rooms[u].delta, rooms[u].host_delta, bytes);
    }
}

/* A sample that is counted, dense bytes and back, digests. */
static void dense(world *w, room *rooms)
{
    weft_load_job loads[UNITS];
    weft_store_job stores[UNITS];
    weft_digest_job digests[UNITS];
    weft_survey_job surveys[UNITS];
    static weft_survey counts;
    for (uint32_t u = 0; u < w->units; u++) {
        const weft_view from = weft_binding_view(now_of(w), u), to = weft_binding_view(&w->live_binding, u);
        uint8_t *bytes = rooms[u].frame[WEFT_LEVEL_FULL]; /* host memory, as long as the largest frame */
        loads[u] = (weft_load_job){.view = from, .bytes = bytes};
        stores[u] = (weft_store_job){.view = to, .bytes = bytes};
        digests[u] = (weft_digest_job){.view = w->master ? from : to, .tensor_delta = rooms[u].delta};
        surveys[u] = (weft_survey_job){.now = from, .shadow = to, .count = 64, .stride = 256, .survey = &counts};
    }
    memset(&counts, 0, sizeof counts);
    batch(w, &weft_gpu_survey, surveys, sizeof surveys[0]);
    batch(w, &weft_gpu_load, loads, sizeof loads[0]);
    batch(w, &weft_gpu_store, stores, sizeof stores[0]);
    must_equal("load and store", w->live, w->target, w->layout->bytes);
    digests_prove(w, digests, rooms);
    memcpy(w->live, w->base, w->layout->bytes);
}

/* As many classes as models have, of a like number of exponents each. */
static void world_classes(world *w, weft_dtype dtype, uint32_t count)
{
    const weft_dtype_row *row = weft_dtype_find(dtype);
    weft_classes *classes = &w->parameters.classes[weft_kind_of(row->width, row->exponent_bits)];
    classes->thresholds = count - 1;
    for (uint32_t c = 1; c < count; c++)
        classes->threshold[c - 1] = (c << row->exponent_bits) / count;
    classes->magnitude_base = 1u << (row->exponent_bits - 1);
}

/* `masters`: the device reads F32. */
static void record_as(weft_dtype dtype, uint64_t largest, uint64_t per_million, const char *density, int levels,
                      bool masters)
{
    static const char *const names[WEFT_LEVEL_COUNT] = {"full", "pairs", "fast", "tight"};
    uint64_t seed = 5 + per_million;
    const uint8_t width = weft_dtype_find(dtype)->width;
    char name[64], queued[80];
    room rooms[UNITS];
    world w;
    memset(rooms, 0, sizeof rooms);
    world_open(&w, dtype, largest, &seed);
    world_change(&w, &seed, per_million, width);
    if (masters)
        world_cast(&w, &seed, dtype == WEFT_F16);
    if (largest == LARGE)
        world_classes(&w, dtype, 12);
    for (uint32_t u = 0; u < w.units; u++)
        room_open(&w, u, width, &rooms[u]);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        if (!(levels >> level & 1))
            continue;
        snprintf(name, sizeof name, "%s-%s-%s", weft_dtype_find(dtype)->name, density, names[level]);
        weft_record_case(name, w.layout->elements);
        encode(&w, 1u << level, rooms);
        snprintf(queued, sizeof queued, "%s-queued", name);
        apply(&w, (weft_level)level, rooms, width, queued);
    }
    snprintf(name, sizeof name, "%s-%s-rounds", weft_dtype_find(dtype)->name, density);
    weft_record_case(name, w.layout->elements); /* the host decides between launches */
    if (levels >> WEFT_LEVEL_FAST & 1)
        encode(&w, 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_PAIRS, rooms);
    snprintf(name, sizeof name, "%s-%sdense", weft_dtype_find(dtype)->name, masters ? "cast-" : "");
    weft_record_case(name, w.layout->elements);
    if (levels >> WEFT_LEVEL_FULL & 1)
        dense(&w, rooms);
    for (uint32_t u = 0; u < w.units; u++)
        room_close(&rooms[u]);
    world_close(&w, width);
}

static void record(weft_dtype dtype, uint64_t largest, uint64_t per_million, const char *density, int levels)
{
    record_as(dtype, largest, per_million, density, levels, false);
}

void weft_cases_codec(int full)
{
    const int all = (1 << WEFT_LEVEL_COUNT) - 1;
    record(WEFT_BF16, 16384, 10000, "1%", all);
    record(WEFT_F32, 2000, 300000, "30%", all);
    record(WEFT_BF16, 4000, ANY, "any", 1 << WEFT_LEVEL_FAST); /* steps */
    record_as(WEFT_BF16, 16384, 10000, "cast-1%", all, true);
    record_as(WEFT_BF16, 3000, ANY, "cast-any", 1 << WEFT_LEVEL_FAST, true);
    record_as(WEFT_F16, 3000, ANY, "cast-any", 1 << WEFT_LEVEL_FULL | 1 << WEFT_LEVEL_FAST, true);
    if (!full)
        return;
    record(WEFT_BF16, LARGE, 10000, "1%-large", 1 << WEFT_LEVEL_FAST | 1 << WEFT_LEVEL_TIGHT);
    record(WEFT_BF16, 16384, 0, "0%", all);
    record(WEFT_BF16, 16384, 300, "0.03%", all);
    record(WEFT_BF16, 16384, 400000, "40%", all);
    record(WEFT_F16, 9000, 20000, "2%", all);
    record(WEFT_U8, 9000, 50000, "5%", all);
    record(WEFT_F64, 3000, 50000, "5%", all);
    record(WEFT_I64, 3000, 900000, "90%", all);
    record(WEFT_U8, 3000, ANY, "any", 1 << WEFT_LEVEL_FAST);
    record(WEFT_F32, 3000, ANY, "any", 1 << WEFT_LEVEL_TIGHT);
    record(WEFT_F64, 3000, ANY, "any", 1 << WEFT_LEVEL_FAST);
}
