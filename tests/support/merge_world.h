/* merge_world.h - a chain of weights of one layout, and updates between them as frames in memory. */
#ifndef WEFT_TESTS_MERGE_WORLD_H
#define WEFT_TESTS_MERGE_WORLD_H

#include "encode/encode.h"
#include "encode/merge.h"
#include "tests/support/unit_pair.h"

#define WORLD_VERSIONS 12

/* Frames of one update, back to back. */
typedef struct update_frames {
    uint8_t *data;
    uint64_t bytes, capacity, at;
    weft_level level;
    uint32_t shift;
    uint64_t changed;
    uint64_t unit_limit; /* of a merge; 0: none */
} update_frames;

typedef struct merge_world {
    weft_layout *layout;
    const weft_dtype_row *row;
    uint8_t *image[WORLD_VERSIONS];
    weft_binding binding[WORLD_VERSIONS];
    uint8_t *work; /* where updates are applied */
    weft_binding work_binding;
    uint32_t versions; /* made so far */
    weft_encoder encoder;
    weft_backend_state *state;
    weft_unpacker unpacker;
    weft_changes changes;
    uint64_t *discard;
} merge_world;

static inline uint8_t *world_image(merge_world *w, weft_binding *binding)
{
    uint8_t *image = pair_memory(w->layout->bytes);
    pair_must(weft_binding_open_image(w->layout, image, binding), "image");
    return image;
}

/* One stretch of tensors of the given sizes, and its first version; kernels of one set or another. */
static inline void world_open(merge_world *w, uint64_t *seed, weft_dtype dtype, const uint64_t *sizes, uint64_t count)
{
    const weft_backend_options options = {.device = -1, .kernels = pair_below(seed, 2) ? "auto" : "portable"};
    weft_tensor tensors[16];
    char names[16][8];
    *w = (merge_world){.row = weft_dtype_find(dtype), .versions = 1};
    for (uint64_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof(names[t]), "t%u", (unsigned)t);
        tensors[t] = (weft_tensor){names[t], dtype, 1, &sizes[t]};
    }
    pair_must(weft_layout_create(tensors, count, &w->layout), "layout");
    pair_must(weft_backend_host.open(&options, &w->state), "backend");
    pair_must(weft_encoder_open(&w->encoder, &weft_backend_host, &options, w->state, w->layout, 1), "encoder");
    pair_must(weft_unpacker_open(&w->unpacker), "unpacker");
    w->changes = pair_changes();
    w->discard = pair_memory((w->layout->part_count + 1) * 8);
    w->work = world_image(w, &w->work_binding);
    w->image[0] = world_image(w, &w->binding[0]);
    for (uint64_t i = 0; i < w->layout->elements; i++)
        pair_put(w->image[0], i, pair_bits(seed, w->row), w->row->width);
}

static inline void world_close(merge_world *w)
{
    for (uint32_t v = 0; v < w->versions; v++) {
        weft_binding_close(&w->binding[v]);
        free(w->image[v]);
    }
    weft_binding_close(&w->work_binding);
    free(w->work);
    free(w->discard);
    pair_changes_free(&w->changes);
    weft_unpacker_close(&w->unpacker);
    weft_encoder_close(&w->encoder);
    weft_backend_host.close(w->state);
    weft_layout_free(w->layout);
}

/* A further version, changed from the newest in about `per_million` elements; some go back to what they were two
 * versions ago. */
static inline void world_step(merge_world *w, uint64_t *seed, uint64_t per_million)
{
    uint32_t v = w->versions++;
    uint8_t width = w->row->width;
    w->image[v] = world_image(w, &w->binding[v]);
    memcpy(w->image[v], w->image[v - 1], w->layout->bytes);
    for (uint64_t i = 0; i < w->layout->elements && per_million; i++) {
        if (pair_below(seed, 1000000) >= per_million)
            continue;
        uint64_t bits = pair_get(w->image[v], i, width), kind = pair_below(seed, 10);
        if (kind == 0)
            bits = pair_bits(seed, w->row);
        else if (kind < 3 && v > 1)
            bits = pair_get(w->image[v - 2], i, width);
        else
            bits += pair_below(seed, 2) ? 1 : UINT64_MAX;
        pair_put(w->image[v], i, bits, width);
    }
}

/* A further version of which every element has any bits. */
static inline void world_scatter(merge_world *w, uint64_t *seed)
{
    uint32_t v = w->versions++;
    w->image[v] = world_image(w, &w->binding[v]);
    for (uint64_t i = 0; i < w->layout->elements; i++)
        pair_put(w->image[v], i, pair_random(seed), w->row->width);
}

static inline void frames_free(update_frames *frames)
{
    free(frames->data);
    *frames = (update_frames){0};
}

static inline void frames_put(update_frames *frames, const uint8_t *bytes, uint64_t length)
{
    if (frames->bytes + length > frames->capacity) {
        frames->capacity = 2 * (frames->bytes + length);
        frames->data = realloc(frames->data, frames->capacity);
        if (!frames->data)
            abort();
    }
    memcpy(frames->data + frames->bytes, bytes, length);
    frames->bytes += length;
}

static inline weft_status frames_encoded(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    (void)level;
    frames_put(user, frame, bytes);
    return WEFT_OK;
}

/* The update between two versions. */
static inline update_frames world_encode(merge_world *w, uint32_t from, uint32_t to, weft_level level, uint32_t shift)
{
    update_frames made = {.level = level, .shift = level == WEFT_LEVEL_FAST ? shift : 0};
    weft_parameters parameters = {.run_shift = made.shift};
    weft_encode_pass pass = {.now = &w->binding[to],
                             .shadow = &w->binding[from],
                             .parameters = &parameters,
                             .levels = 1u << level,
                             .delta = w->discard,
                             .emit = frames_encoded,
                             .user = &made};
    pair_must(weft_encoder_run(&w->encoder, &pass), "encode");
    made.changed = pass.changed;
    return made;
}

/* Packs every full frame in planes where that makes it smaller. */
static inline update_frames world_pack(merge_world *w, const update_frames *plain)
{
    update_frames packed = {.level = plain->level, .shift = plain->shift};
    weft_packer packer;
    uint8_t *frame = pair_memory(w->layout->largest_frame);
    pair_must(weft_packer_open(&packer), "packer");
    for (uint64_t at = 0, length; at < plain->bytes; at += length) {
        length = weft_frame_measure(plain->data + at, plain->bytes - at);
        memcpy(frame, plain->data + at, length);
        bool full = (frame[7] & 0x0f) == WEFT_LEVEL_FULL;
        uint32_t unit = (uint32_t)pair_get(frame, 0, 4);
        frames_put(&packed, frame, full ? weft_planes_pack(&packer, &w->layout->units[unit], frame) : length);
    }
    weft_packer_close(&packer);
    free(frame);
    return packed;
}

static inline weft_status frames_next(void *user, uint64_t unit_limit, const uint8_t **frame, uint64_t *bytes)
{
    update_frames *frames = user;
    *bytes = 0;
    if (frames->at == frames->bytes)
        return WEFT_OK;
    const uint8_t *at = frames->data + frames->at;
    if (pair_get(at, 0, 4) >= unit_limit)
        return WEFT_OK;
    *bytes = weft_frame_measure(at, frames->bytes - frames->at);
    frames->at += *bytes;
    *frame = at;
    return *bytes ? WEFT_OK : WEFT_E_CORRUPT;
}

static inline weft_status frames_merged(void *user, const uint8_t *frames, uint64_t bytes)
{
    frames_put(user, frames, bytes);
    return WEFT_OK;
}

/* The updates as one, at the level and run shift that go with them; what the merger says where it cannot. */
static inline weft_status world_merge(merge_world *w, weft_merger *merger, update_frames *updates, size_t count,
                                      update_frames *made)
{
    weft_merge_source sources[WORLD_VERSIONS];
    weft_merge_pass pass = {.sources = sources, .count = count, .emit = frames_merged, .user = made};
    (void)w;
    for (size_t i = 0; i < count; i++) {
        updates[i].at = 0;
        sources[i] =
            (weft_merge_source){&updates[i], frames_next, updates[i].level, updates[i].shift, updates[i].unit_limit};
    }
    *made = (update_frames){0};
    weft_status status = weft_merge_level(sources, count, &pass.level);
    pass.run_shift = weft_merge_shift(sources, count);
    if (status == WEFT_OK)
        status = weft_merger_run(merger, &pass);
    made->level = pass.level;
    made->shift = pass.run_shift;
    made->changed = pass.changed;
    if (status != WEFT_OK)
        frames_free(made);
    return status;
}

/* Moves the work image on by an update. */
static inline void world_apply_on(merge_world *w, const update_frames *update)
{
    for (uint64_t at = 0, length; at < update->bytes; at += length) {
        weft_decode_job decode = {.changes = &w->changes, .tensor_delta = w->discard};
        pair_must(
            weft_planes_admit(&w->unpacker, w->layout, update->data + at, update->bytes - at, &decode.frame, &length),
            "admit");
        decode.base = weft_binding_span(&w->work_binding, decode.frame.header.unit, decode.frame.header.units);
        pair_must(weft_backend_host.decode(w->state, &decode), "decode");
        weft_apply_job apply = {.target = decode.base, .changes = &w->changes};
        pair_must(weft_backend_host.apply(w->state, &apply), "apply");
    }
}

/* Moves the work image from `version` on by an update. */
static inline void world_apply(merge_world *w, uint32_t version, const update_frames *update)
{
    memcpy(w->work, w->image[version], w->layout->bytes);
    world_apply_on(w, update);
}

static inline bool world_is(const merge_world *w, uint32_t version)
{
    return memcmp(w->work, w->image[version], w->layout->bytes) == 0;
}

/* True if a unit is coded as a word for each element. */
static inline bool frames_have_full(const update_frames *update)
{
    for (uint64_t at = 0, length; at < update->bytes; at += length) {
        length = weft_frame_measure(update->data + at, update->bytes - at);
        if ((update->data[at + 7] & 0x0f) == WEFT_LEVEL_FULL)
            return true;
    }
    return false;
}

#endif
