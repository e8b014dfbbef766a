/* bench_pair.c - two sets of weights side by side in memory, and updates between them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "model/bench_pair.h"
#include "model/synth.h"

#define LINE 64u /* bytes */

/* ---- images */

static uint64_t image_offset(const weft_layout *layout, uint64_t tensor)
{
    uint64_t offset = 0;
    for (uint64_t t = 0; t < tensor; t++)
        offset += (layout->entries[t].bytes + 7) & ~UINT64_C(7);
    return offset;
}

static weft_status image_open(const weft_bench_pair *pair, uint8_t **image, weft_piece **pieces)
{
    *image = weft_mem_map(pair->bytes + 64);
    *pieces = weft_mem_take(pair->count + 1, sizeof **pieces);
    if (!*image || !*pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for an image of %llu bytes", (unsigned long long)pair->bytes);
    uint64_t offset = 0;
    for (uint64_t t = 0; t < pair->count; t++) {
        const weft_layout_entry *entry = &pair->layout->entries[t];
        (*pieces)[t] = (weft_piece){t, 0, entry->elements, *image + offset};
        offset += (entry->bytes + 7) & ~UINT64_C(7);
    }
    return WEFT_OK;
}

static weft_status images_open(weft_bench_pair *pair, const weft_layout *layout)
{
    pair->layout = weft_layout_hold((weft_layout *)(uintptr_t)layout); /* counts a reference, nothing else */
    pair->count = layout->count;
    pair->bytes = image_offset(layout, layout->count);
    pair->words = true;
    for (uint64_t t = 0; t < layout->count; t++)
        pair->words &= layout->entries[t].row->width == 2;
    weft_status status = image_open(pair, &pair->before, &pair->pieces_before);
    if (status == WEFT_OK)
        status = image_open(pair, &pair->after, &pair->pieces_after);
    return status == WEFT_OK ? image_open(pair, &pair->work, &pair->pieces_work) : status;
}

static void image_fill(const weft_bench_pair *pair, const weft_piece *to, const weft_model *model)
{
    uint64_t count;
    const weft_piece *from = weft_model_pieces(model, &count);
    for (uint64_t t = 0; t < pair->count; t++)
        if (pair->layout->entries[t].bytes) /* an empty tensor may have no memory */
            memcpy(to[t].data, from[t].data, pair->layout->entries[t].bytes);
}

/* ---- pairs */

typedef struct models {
    weft_bench_pair *pair;
    weft_model *before, *after;
} models;

static weft_status models_copy(void *user)
{
    const models *m = user;
    image_fill(m->pair, m->pair->pieces_before, m->before);
    image_fill(m->pair, m->pair->pieces_after, m->after);
    return WEFT_OK;
}

static weft_status models_read(models *m, const char *before, const char *after)
{
    weft_status status = weft_model_open(before, 0, &m->before);
    if (status == WEFT_OK)
        status = weft_model_open(after, 0, &m->after);
    if (status == WEFT_OK)
        status = weft_model_take_order(m->after, weft_model_layout(m->before), after, "the first model");
    if (status == WEFT_OK)
        status = images_open(m->pair, weft_model_layout(m->before));
    const weft_model *both[] = {m->before, m->after};
    return status == WEFT_OK ? weft_model_guard_all(both, 2, models_copy, m) : status;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

weft_status weft_bench_pair_open(weft_bench_pair *pair, const char *before, const char *after)
{
    models m = {.pair = pair};
    memset(pair, 0, sizeof *pair);
    snprintf(pair->name, sizeof pair->name, "%s to %s", name_of(before), name_of(after));
    weft_status status = models_read(&m, before, after);
    weft_model_close(m.after);
    weft_model_close(m.before);
    return status;
}

weft_status weft_bench_pair_make(weft_bench_pair *pair, uint64_t params, double share, uint64_t seed)
{
    weft_model *model = NULL;
    memset(pair, 0, sizeof *pair);
    snprintf(pair->name, sizeof pair->name, "made-up transformer, seed %llu", (unsigned long long)seed);
    weft_status status = weft_synth_model(params, seed, &model);
    if (status == WEFT_OK)
        status = images_open(pair, weft_model_layout(model));
    if (status == WEFT_OK) {
        image_fill(pair, pair->pieces_before, model);
        status = weft_synth_step(model, share, seed, NULL);
    }
    if (status == WEFT_OK)
        image_fill(pair, pair->pieces_after, model);
    weft_model_close(model);
    return status;
}

weft_status weft_bench_pair_compare(weft_bench_pair *pair)
{
    pair->places = weft_mem_take(pair->bytes / LINE + 1, sizeof *pair->places);
    if (!pair->places)
        return weft_fail(WEFT_E_MEMORY, "no memory for the places of %llu bytes that change",
                         (unsigned long long)pair->bytes);
    for (uint64_t at = 0; at < pair->bytes; at += LINE) {
        const uint64_t bytes = pair->bytes - at < LINE ? pair->bytes - at : LINE;
        if (memcmp(pair->before + at, pair->after + at, bytes) != 0)
            pair->places[pair->place_count++] = at;
    }
    return WEFT_OK;
}

static void image_close(const weft_bench_pair *pair, uint8_t *image, weft_piece *pieces)
{
    weft_mem_unmap(image, pair->bytes + 64);
    weft_mem_give(pieces);
}

void weft_bench_pair_close(weft_bench_pair *pair)
{
    weft_mem_give(pair->places);
    image_close(pair, pair->work, pair->pieces_work);
    image_close(pair, pair->after, pair->pieces_after);
    image_close(pair, pair->before, pair->pieces_before);
    weft_layout_free(pair->layout);
    memset(pair, 0, sizeof *pair);
}

/* ---- bytes */

weft_status weft_bench_bytes_open(weft_bench_bytes *bytes, uint64_t capacity)
{
    *bytes = (weft_bench_bytes){.data = weft_mem_map(capacity), .capacity = capacity};
    if (bytes->data)
        return WEFT_OK;
    return weft_fail(WEFT_E_MEMORY, "no memory for %llu bytes", (unsigned long long)capacity);
}

void weft_bench_bytes_close(weft_bench_bytes *bytes)
{
    weft_mem_unmap(bytes->data, bytes->capacity);
    *bytes = (weft_bench_bytes){0};
}

weft_status weft_bench_bytes_put(weft_bench_bytes *bytes, const void *data, uint64_t count)
{
    if (count > bytes->capacity - bytes->used)
        return weft_fail(WEFT_E_MEMORY, "%llu bytes do not fit the %llu that were expected at most",
                         (unsigned long long)(bytes->used + count), (unsigned long long)bytes->capacity);
    memcpy(bytes->data + bytes->used, data, count);
    bytes->used += count;
    return WEFT_OK;
}

static weft_status bytes_write(void *user, const void *data, uint64_t count)
{
    return weft_bench_bytes_put(user, data, count);
}

static weft_status bytes_read(void *user, uint64_t offset, void *data, uint64_t count)
{
    const weft_bench_bytes *bytes = user;
    if (offset > bytes->used || count > bytes->used - offset)
        return weft_fail(WEFT_E_CORRUPT, "an update ends before byte %llu", (unsigned long long)(offset + count));
    memcpy(data, bytes->data + offset, count);
    return WEFT_OK;
}

/* ---- updates */

static weft_status update_open(const weft_bench_bytes *file, weft_update_file **update)
{
    const weft_source source = {(void *)(uintptr_t)file, bytes_read, file->used};
    return weft_update_open(NULL, &source, update);
}

weft_status weft_bench_diff(const weft_bench_pair *pair, const char *level, uint32_t threads, weft_bench_bytes *file,
                            weft_update_info *info)
{
    const weft_diff_options options = {.size = sizeof options, .level = level, .target.number = 1};
    const weft_work work = {.size = sizeof work, .threads = threads};
    const weft_sink sink = {file, bytes_write};
    file->used = 0;
    *info = (weft_update_info){.size = sizeof *info};
    return weft_diff(pair->layout, pair->pieces_before, pair->count, pair->pieces_after, pair->count, &options, &work,
                     &sink, info);
}

/* Where the stream of a rewrite stands in the new weights. */
typedef struct reader {
    const weft_bench_pair *pair;
    uint64_t tensor, offset;
} reader;

static weft_status stream_compare(void *user, const void *data, uint64_t count)
{
    reader *r = user;
    const uint8_t *from = data;
    for (uint64_t left = count; left > 0;) {
        while (r->tensor < r->pair->count && r->offset == r->pair->layout->entries[r->tensor].bytes) {
            r->tensor++;
            r->offset = 0;
        }
        uint64_t there = r->tensor < r->pair->count ? r->pair->layout->entries[r->tensor].bytes - r->offset : 0;
        uint64_t take = left < there ? left : there;
        if (take == 0 || memcmp((const uint8_t *)r->pair->pieces_after[r->tensor].data + r->offset, from, take) != 0)
            return weft_fail(WEFT_E_TARGET, "an update of %s did not give the new weights", r->pair->name);
        r->offset += take;
        from += take;
        left -= take;
    }
    return WEFT_OK;
}

weft_status weft_bench_rewrite(const weft_bench_pair *pair, const weft_bench_bytes *file, uint32_t threads,
                               weft_apply_info *info)
{
    const weft_work work = {.size = sizeof work, .threads = threads};
    reader reader = {.pair = pair};
    const weft_sink sink = {&reader, stream_compare};
    weft_update_file *update;
    weft_status status = update_open(file, &update);
    if (status != WEFT_OK)
        return status;
    *info = (weft_apply_info){.size = sizeof *info};
    status = weft_update_rewrite(update, pair->layout, pair->pieces_before, pair->count, &work, &sink, info);
    weft_update_close(update);
    return status;
}

weft_status weft_bench_describe(const weft_bench_bytes *file, weft_update_header *header)
{
    weft_update_file *update;
    weft_status status = update_open(file, &update);
    if (status != WEFT_OK)
        return status;
    *header = (weft_update_header){.size = sizeof *header};
    status = weft_update_describe(update, header);
    weft_update_close(update);
    return status;
}

/* ---- figures */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double weft_bench_median(const double *values, uint32_t count)
{
    double sorted[WEFT_BENCH_ROUNDS_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, by_value);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}
