/* store_forge.h - files of a store that say of themselves what is not so. */
#ifndef WEFT_TESTS_STORE_FORGE_H
#define WEFT_TESTS_STORE_FORGE_H

#include "tests/support/reseal.h"
#include "tests/support/store_world.h"

static inline void is_said(const char *words)
{
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static inline void file_write(const world *w, uint32_t v, weft_store_kind kind, const memory_file *bytes)
{
    char path[512];
    file_path(w, v, kind, path);
    FILE *file = fopen(path, "we");
    assert_true(file && fwrite(bytes->data, 1, bytes->bytes, file) == bytes->bytes);
    fclose(file);
}

static inline void diff_made(const world *w, uint32_t from, uint32_t to, const weft_diff_options *options,
                             memory_file *file)
{
    weft_piece base[TENSORS], target[TENSORS];
    const weft_sink sink = memory_sink(file);
    pieces_of(&w->c, w->c.image[from], base);
    pieces_of(&w->c, w->c.image[to], target);
    assert_int_equal(weft_diff(w->c.layout, base, TENSORS, target, TENSORS, options, NULL, &sink, NULL), WEFT_OK);
}

static inline void root_replace(memory_file *file, uint64_t root, uint64_t by)
{
    unsigned found = 0;
    for (uint8_t *at = file->data; (at = memmem(at, file->bytes - (size_t)(at - file->data), &root, 8)) != NULL;
         at += 8) {
        memcpy(at, &by, 8);
        found++;
    }
    assert_true(found > 0);
    reseal(file->data, file->bytes);
}

#endif
