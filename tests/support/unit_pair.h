/* unit_pair.h - a random layout with base and target bits, bound once as images and once in scattered pieces, and the
 * host backend to move between them. */
#ifndef WEFT_TESTS_UNIT_PAIR_H
#define WEFT_TESTS_UNIT_PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/host/host.h"
#include "layout/digest.h"

#define PAIR_TENSORS 6
#define PAIR_PARTS   10 /* words of a digest: a tensor may have a few tiles */
#define PAIR_PIECES  64
#define PAIR_PACKED  4 /* elements of a packed dtype that fill whole bytes */

typedef struct unit_pair {
    weft_layout *layout;
    uint8_t *base;   /* image of the base bits */
    uint8_t *target; /* image of the target bits */
    uint8_t *live;   /* scattered memory, holding the base bits at first */
    weft_binding base_binding, target_binding, live_binding;
    weft_backend_state *state;
    const weft_parameters *parameters; /* of the frames; NULL: the default ones */
} unit_pair;

static inline uint64_t pair_random(uint64_t *seed)
{
    *seed += WEFT_PHI;
    return weft_mix64(*seed);
}

static inline uint64_t pair_below(uint64_t *seed, uint64_t limit)
{
    return pair_random(seed) % limit;
}

static inline void pair_must(weft_status status, const char *what)
{
    if (status != WEFT_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, weft_status_name(status), weft_last_error());
        abort();
    }
}

static inline void *pair_memory(uint64_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        abort();
    return memory;
}

/* Bits worth meeting: zeros of both signs, infinities, NaNs with payloads, subnormals, the extremes, or any. */
static inline uint64_t pair_bits(uint64_t *seed, const weft_dtype_row *row)
{
    uint64_t all = UINT64_MAX >> (64 - 8 * row->width), top = UINT64_C(1) << (8 * row->width - 1);
    unsigned fraction = 8u * row->width - 1 - row->exponent_bits;
    uint64_t infinity = row->exponent_bits ? top - (UINT64_C(1) << fraction) : 0;
    uint64_t sign = pair_below(seed, 2) ? top : 0;
    switch (pair_below(seed, 12)) {
    case 0:
        return sign;
    case 1:
        return sign | infinity;
    case 2:
        return sign | infinity | pair_below(seed, UINT64_C(1) << fraction);
    case 3:
        return sign | 1;
    case 4:
        return sign ? all : top - 1;
    default:
        return pair_random(seed) & all;
    }
}

static inline uint64_t pair_get(const uint8_t *image, uint64_t index, uint8_t width)
{
    uint64_t bits = 0;
    memcpy(&bits, image + index * width, width);
    return bits;
}

static inline void pair_put(uint8_t *image, uint64_t index, uint64_t bits, uint8_t width)
{
    memcpy(image + index * width, &bits, width);
}

/* Changes elements of the target: `per_million` of them, mostly by a step, in clusters if asked. */
static inline void pair_change(unit_pair *pair, uint64_t *seed, uint64_t per_million, bool clustered)
{
    for (uint64_t t = 0; t < pair->layout->count; t++) {
        const weft_layout_entry *entry = &pair->layout->entries[t];
        uint8_t *image = pair->target + entry->offset;
        bool inside = false;
        for (uint64_t i = 0; i < entry->coded; i++) {
            if (clustered && pair_below(seed, 50) == 0)
                inside = pair_below(seed, 1000000) < per_million;
            if (!(clustered ? inside : pair_below(seed, 1000000) < per_million))
                continue;
            uint64_t bits = pair_get(image, i, entry->row->width);
            switch (pair_below(seed, 8)) {
            case 0:
                bits = pair_bits(seed, entry->row);
                break;
            case 1:
                bits += pair_below(seed, 64);
                break;
            default:
                bits += pair_below(seed, 2) ? 1 : UINT64_MAX;
            }
            pair_put(image, i, bits, entry->row->width);
        }
    }
}

/* Cuts every tensor at random into pieces that lie apart from one another. */
static inline void pair_scatter(unit_pair *pair, uint64_t *seed)
{
    weft_piece pieces[PAIR_PIECES];
    uint64_t used = 0, at = 0;
    pair->live = pair_memory(2 * pair->layout->bytes + 64 * PAIR_PIECES);
    for (uint64_t t = 0; t < pair->layout->count; t++) {
        const weft_layout_entry *entry = &pair->layout->entries[t];
        uint64_t group = entry->row->bits < 8 ? PAIR_PACKED : 1;
        for (uint64_t first = 0; first < entry->elements;) {
            uint64_t rest = (entry->elements - first) / group;
            uint64_t count = used + PAIR_TENSORS + 1 < PAIR_PIECES && rest > 1 ? 1 + pair_below(seed, rest) : rest;
            at = (at + 15) / 16 * 16 + 8 * pair_below(seed, 3);
            pieces[used++] = (weft_piece){t, first, count * group, pair->live + at};
            at += count * group * entry->row->bits / 8;
            first += count * group;
        }
    }
    pair_must(weft_binding_open(pair->layout, pieces, used, &pair->live_binding), "binding");
}

/* The live memory takes the bits of an image. */
static inline void pair_restore(unit_pair *pair, const weft_binding *from)
{
    uint8_t *dense = pair_memory(1 << 20);
    for (uint64_t u = 0; u < pair->layout->unit_count; u++) {
        weft_load_job load = {.view = weft_binding_view(from, u), .bytes = dense};
        weft_store_job store = {.view = weft_binding_view(&pair->live_binding, u), .bytes = dense, .stream = NULL};
        weft_backend_host.load(pair->state, &load);
        weft_backend_host.store(pair->state, &store);
    }
    free(dense);
}

/* True if the live memory holds the bits of an image in one unit. */
static inline bool pair_holds(unit_pair *pair, const weft_binding *image, uint64_t unit)
{
    weft_view view = weft_binding_view(image, unit);
    uint64_t bytes = (uint64_t)view.count * view.width;
    uint8_t *a = pair_memory(bytes), *b = pair_memory(bytes);
    weft_load_job wanted = {.view = view, .bytes = a},
                  there = {.view = weft_binding_view(&pair->live_binding, unit), .bytes = b};
    weft_backend_host.load(pair->state, &wanted);
    weft_backend_host.load(pair->state, &there);
    bool same = memcmp(a, b, bytes) == 0;
    free(a);
    free(b);
    return same;
}

/* Sizes are elements; of packed dtypes groups that fill whole bytes. */
static inline void pair_open(unit_pair *pair, uint64_t *seed, weft_dtype dtype, const uint64_t *sizes, uint64_t count,
                             const char *kernels)
{
    weft_tensor tensors[PAIR_TENSORS];
    char names[PAIR_TENSORS][8];
    uint64_t shapes[PAIR_TENSORS];
    const weft_dtype_row *row = weft_dtype_find(dtype);
    weft_backend_options options = {.device = -1, .kernels = kernels};
    *pair = (unit_pair){0};
    for (uint64_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof(names[t]), "t%u", (unsigned)t);
        shapes[t] = sizes[t] * (row->bits < 8 ? PAIR_PACKED : 1);
        tensors[t] = (weft_tensor){names[t], dtype, 1, &shapes[t]};
    }
    pair_must(weft_layout_create(tensors, count, &pair->layout), "layout");
    pair_must(weft_backend_host.open(&options, &pair->state), "backend");
    pair->base = pair_memory(pair->layout->bytes);
    pair->target = pair_memory(pair->layout->bytes);
    for (uint64_t i = 0; i < pair->layout->elements; i++)
        pair_put(pair->base, i, pair_bits(seed, row), row->width);
    memcpy(pair->target, pair->base, pair->layout->bytes);
    pair_must(weft_binding_open_image(pair->layout, pair->base, &pair->base_binding), "image");
    pair_must(weft_binding_open_image(pair->layout, pair->target, &pair->target_binding), "image");
    pair_scatter(pair, seed);
    pair_restore(pair, &pair->base_binding);
}

static inline void pair_close(unit_pair *pair)
{
    weft_binding_close(&pair->base_binding);
    weft_binding_close(&pair->target_binding);
    weft_binding_close(&pair->live_binding);
    weft_backend_host.close(pair->state);
    weft_layout_free(pair->layout);
    free(pair->base);
    free(pair->target);
    free(pair->live);
}

/* Encodes one unit at one level, target against live; returns the frame's bytes. */
static inline uint32_t pair_encode(unit_pair *pair, uint64_t unit, weft_level level, weft_frame_sink *sink,
                                   uint64_t *tensor_delta)
{
    weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
    sinks[level] = *sink;
    weft_encode_job job = {.now = weft_binding_view(&pair->target_binding, unit),
                           .shadow = weft_binding_view(&pair->live_binding, unit),
                           .parameters = pair->parameters,
                           .levels = 1u << level,
                           .sinks = sinks,
                           .tensor_delta = tensor_delta};
    pair_must(weft_backend_host.encode(pair->state, &job), "encode");
    *sink = sinks[level];
    return job.frame_bytes[level];
}

/* Any classes and magnitude base that an update may have: what they are good for is not asked here. */
static inline void pair_parameters(uint64_t *seed, weft_parameters *parameters)
{
    memset(parameters, 0, sizeof *parameters);
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        weft_classes *classes = &parameters->classes[k];
        const uint32_t exponents = 1u << weft_kinds[k].exponent_bits;
        uint32_t next = 1 + (uint32_t)pair_below(seed, exponents / 2 + 1);
        while (next < exponents && classes->thresholds < pair_below(seed, WEFT_CLASS_MAX)) {
            classes->threshold[classes->thresholds++] = next;
            next += 1 + (uint32_t)pair_below(seed, exponents / 8 + 1);
        }
        classes->magnitude_base = (uint32_t)pair_below(seed, pair_below(seed, 2) ? 2112 : exponents + 8);
    }
}

/* A change list of the largest unit. */
static inline weft_changes pair_changes(void)
{
    weft_changes changes = {.capacity = 1 << 18};
    changes.position = pair_memory(sizeof(uint32_t) << 18);
    changes.before = pair_memory(1 << 20);
    changes.after = pair_memory(1 << 20);
    return changes;
}

static inline void pair_changes_free(weft_changes *changes)
{
    free(changes->position);
    free(changes->before);
    free(changes->after);
}

#endif
