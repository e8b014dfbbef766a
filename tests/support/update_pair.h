/* update_pair.h - two versions of a model of many dtypes, in pieces of which none lies where the next one ends, and the
 * update file between them. */
#ifndef WEFT_TESTS_UPDATE_PAIR_H
#define WEFT_TESTS_UPDATE_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout/layout.h"
#include "tests/support/memory_file.h"

static const char *const levels[] = {"full", "pairs", "fast", "tight"};
#define LEVELS (sizeof levels / sizeof *levels)

static uint64_t dice = 88172645463325252u;

static inline uint64_t roll(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    return dice ^= dice << 17;
}

static const uint64_t shapes[][2] = {{700, 512}, {0, 8},   {64, 65}, {257, 1}, {1, 1},   {33, 1},  {31, 7},
                                     {1000, 1},  {900, 1}, {2, 3},   {900, 1}, {900, 1}, {900, 1}, {10, 1}};
static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_BF16, WEFT_F16, WEFT_F32,  WEFT_F32,  WEFT_F64,  WEFT_F8_E4M3,
                                    WEFT_U8,   WEFT_BF16, WEFT_I64, WEFT_BF16, WEFT_BF16, WEFT_BF16, WEFT_F4};
#define TENSORS (sizeof dtypes / sizeof *dtypes)

typedef struct model {
    weft_layout *layout;
    uint8_t *data; /* tensor by tensor, 64 bytes apart */
    uint64_t bytes;
    weft_piece pieces[TENSORS];
} model;

static inline weft_layout *layout_make(void)
{
    static char names[TENSORS][24];
    weft_tensor tensors[TENSORS];
    weft_layout *layout = NULL;
    for (size_t t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "model.layers.%zu.w", t);
        bool packed = dtypes[t] == WEFT_F4;
        tensors[t] = (weft_tensor){names[t], dtypes[t], packed ? 1 : 2, shapes[t]};
    }
    assert_int_equal(weft_layout_create(tensors, TENSORS, &layout), WEFT_OK);
    return layout;
}

static inline void model_make(weft_layout *layout, model *m)
{
    m->layout = layout;
    m->bytes = weft_layout_bytes(layout) + 64 * TENSORS;
    m->data = calloc(1, m->bytes);
    uint8_t *at = m->data;
    for (uint64_t t = 0; t < TENSORS; t++) {
        m->pieces[t] = (weft_piece){t, 0, layout->entries[t].elements, at};
        at += (layout->entries[t].bytes + 63) / 64 * 64;
    }
}

static inline void model_copy(model *to, const model *from)
{
    memcpy(to->data, from->data, from->bytes);
}

static inline void model_roll(model *m)
{
    for (uint64_t i = 0; i + 8 <= m->bytes; i += 8) {
        uint64_t word = roll() & 0x3fff3fff3fff3fff; /* floats of a likely size, mostly */
        memcpy(m->data + i, &word, 8);
    }
}

/* Flips bits in about one of `sparsity` bytes of each tensor; 0: in none. */
static inline void model_step(model *m, uint64_t sparsity)
{
    for (uint64_t t = 0; t < TENSORS && sparsity; t++) {
        uint8_t *data = m->pieces[t].data;
        for (uint64_t i = 0; i < m->layout->entries[t].bytes; i++)
            if (roll() % sparsity == 0)
                data[i] ^= (uint8_t)(1u << roll() % 8);
    }
}

typedef struct pair {
    model base, target, work;
    memory_file file;
} pair;

static inline void pair_make(pair *p, uint64_t sparsity)
{
    weft_layout *layout = layout_make();
    memset(p, 0, sizeof *p);
    model_make(layout, &p->base);
    model_make(layout, &p->target);
    model_make(layout, &p->work);
    model_roll(&p->base);
    model_copy(&p->target, &p->base);
    model_step(&p->target, sparsity);
    model_copy(&p->work, &p->base);
}

static inline void pair_free(pair *p)
{
    weft_layout_free(p->base.layout);
    free(p->base.data);
    free(p->target.data);
    free(p->work.data);
    memory_free(&p->file);
}

static inline weft_update_info pair_diff(pair *p, const char *level, uint32_t threads)
{
    weft_sink sink = memory_sink(&p->file);
    weft_work work = {.size = sizeof work, .threads = threads};
    weft_diff_options options = {.size = sizeof options, .level = level, .base = {7, 3, 0}, .target = {7, 4, 0}};
    weft_update_info info = {.size = sizeof info};
    p->file.bytes = 0;
    weft_status status =
        weft_diff(p->base.layout, p->base.pieces, TENSORS, p->target.pieces, TENSORS, &options, &work, &sink, &info);
    if (status != WEFT_OK)
        fail_msg("level %s: %s", level, weft_last_error());
    assert_int_equal(info.bytes, p->file.bytes);
    return info;
}

static inline weft_update_file *pair_open(pair *p)
{
    weft_source source = memory_source(&p->file);
    weft_update_file *file = NULL;
    if (weft_update_open(NULL, &source, &file) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    return file;
}

static inline void same(const model *a, const model *b)
{
    for (uint64_t t = 0; t < TENSORS; t++)
        assert_memory_equal(a->pieces[t].data, b->pieces[t].data, a->layout->entries[t].bytes);
}

#endif
