/* update_chain.h - versions of a model that follow each other, the update files between them, and files merged of
 * those.
 */
#ifndef WEFT_TESTS_UPDATE_CHAIN_H
#define WEFT_TESTS_UPDATE_CHAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout/layout.h"
#include "tests/support/memory_file.h"

#define VERSIONS 10
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const levels[] = {"full", "pairs", "fast", "tight"};
static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_BF16, WEFT_F32, WEFT_F8_E5M2, WEFT_I64, WEFT_F64, WEFT_F16};
/* Elements of the first tensor: more than a tile, unless the test is about something else. */
#ifndef CHAIN_FIRST
#define CHAIN_FIRST (262144 + 500)
#endif
static const uint64_t sizes[] = {CHAIN_FIRST, 9000, 3000, 1500, 700, 65, 0};
#define TENSORS COUNT(dtypes)

static uint64_t dice = 0x2545f4914f6cdd1d;

static inline uint64_t roll(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    return dice ^= dice << 17;
}

typedef struct chain {
    weft_layout *layout;
    uint8_t *image[VERSIONS + 1], *work;
    uint32_t length; /* updates */
    memory_file files[VERSIONS];
    weft_update_file *updates[VERSIONS];
} chain;

static inline void pieces_of(const chain *c, uint8_t *image, weft_piece pieces[TENSORS])
{
    for (uint64_t t = 0; t < TENSORS; t++) {
        pieces[t] = (weft_piece){t, 0, sizes[t], image};
        image += (c->layout->entries[t].bytes + 7) / 8 * 8;
    }
}

static inline uint64_t image_bytes(const chain *c)
{
    uint64_t bytes = 8;
    for (uint64_t t = 0; t < TENSORS; t++)
        bytes += (c->layout->entries[t].bytes + 7) / 8 * 8;
    return bytes;
}

static inline void chain_open(chain *c)
{
    weft_tensor tensors[TENSORS];
    char names[TENSORS][24];
    memset(c, 0, sizeof *c);
    for (size_t t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "model.layers.%zu", t);
        tensors[t] = (weft_tensor){names[t], dtypes[t], 1, &sizes[t]};
    }
    assert_int_equal(weft_layout_create(tensors, TENSORS, &c->layout), WEFT_OK);
    c->image[0] = calloc(1, image_bytes(c));
    c->work = calloc(1, image_bytes(c));
    weft_piece pieces[TENSORS];
    pieces_of(c, c->image[0], pieces);
    for (uint64_t t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < c->layout->entries[t].bytes; i++)
            ((uint8_t *)pieces[t].data)[i] = (uint8_t)(roll() % 7 ? roll() & 0x3f : roll());
}

static inline void chain_close(chain *c)
{
    for (uint32_t v = 0; v < c->length; v++) {
        weft_update_close(c->updates[v]);
        memory_free(&c->files[v]);
    }
    for (uint32_t v = 0; v <= c->length; v++)
        free(c->image[v]);
    free(c->work);
    weft_layout_free(c->layout);
}

static inline weft_update_file *opened(memory_file *file)
{
    weft_update_file *update = NULL;
    weft_source source = memory_source(file);
    if (weft_update_open(NULL, &source, &update) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    return update;
}

static inline void diff_into(const chain *c, uint32_t from, uint32_t to, const char *level, memory_file *file)
{
    weft_piece base[TENSORS], target[TENSORS];
    weft_sink sink = memory_sink(file);
    weft_diff_options options = {
        .size = sizeof options, .level = level, .base.number = from + 1, .target.number = to + 1};
    pieces_of(c, c->image[from], base);
    pieces_of(c, c->image[to], target);
    if (weft_diff(c->layout, base, TENSORS, target, TENSORS, &options, NULL, &sink, NULL) != WEFT_OK)
        fail_msg("no diff: %s", weft_last_error());
}

/* One more version and the update to it; about one element in `sparsity` moves by a few steps, and some of them back to
 * what they were two versions ago. 0: none. */
static inline void chain_step(chain *c, uint64_t sparsity, const char *level)
{
    uint32_t v = c->length;
    weft_piece now[TENSORS], old[TENSORS];
    c->image[v + 1] = malloc(image_bytes(c));
    memcpy(c->image[v + 1], c->image[v], image_bytes(c));
    pieces_of(c, c->image[v + 1], now);
    pieces_of(c, c->image[v > 0 ? v - 1 : 0], old);
    for (uint64_t t = 0; t < TENSORS && sparsity; t++) {
        uint8_t width = c->layout->entries[t].row->width, *to = now[t].data, *from = old[t].data;
        for (uint64_t i = 0; i < sizes[t]; i++) {
            if (roll() % sparsity)
                continue;
            if (roll() % 4 == 0)
                memcpy(to + i * width, from + i * width, width);
            else
                to[i * width] = (uint8_t)(to[i * width] + roll() % 5 - 2);
        }
    }
    diff_into(c, v, v + 1, level, &c->files[v]);
    c->updates[v] = opened(&c->files[v]);
    c->length++;
}

/* Merges updates first..end - 1, with their base if `bound`. */
static inline weft_status merge_into(const chain *c, uint32_t first, uint32_t end, bool bound, const char *level,
                                     memory_file *file, weft_update_info *info)
{
    weft_piece base[TENSORS];
    weft_sink sink = memory_sink(file);
    file->bytes = 0;
    pieces_of(c, c->image[first], base);
    return weft_update_merge(c->updates + first, end - first, bound ? c->layout : NULL, bound ? base : NULL,
                             bound ? TENSORS : 0, level, NULL, &sink, info);
}

static inline void leads_to(const chain *c, memory_file *file, uint32_t from, uint32_t to)
{
    weft_piece pieces[TENSORS];
    weft_update_file *update = opened(file);
    memcpy(c->work, c->image[from], image_bytes(c));
    pieces_of(c, c->work, pieces);
    if (weft_update_apply(update, c->layout, pieces, TENSORS, NULL, NULL) != WEFT_OK)
        fail_msg("not applied: %s", weft_last_error());
    assert_memory_equal(c->work, c->image[to], image_bytes(c));
    weft_update_close(update);
}

#endif
