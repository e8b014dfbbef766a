/* store_world.h - the versions of update_chain.h as a store in a folder of the test's own. */
#ifndef WEFT_TESTS_STORE_WORLD_H
#define WEFT_TESTS_STORE_WORLD_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"
#include "tests/support/folder.h"
#include "tests/support/update_chain.h"

#define RUN 0x1234500000000001u

typedef struct world {
    chain c;
    char folder[256];
    weft_store *store;
    uint64_t anchors;
} world;

static inline void store_reopen(world *w)
{
    const weft_store_options options = {.size = sizeof options, .create = 1, .anchors = w->anchors};
    weft_store_close(w->store);
    w->store = NULL;
    if (weft_store_open(w->folder, &options, &w->store) != WEFT_OK)
        fail_msg("no store: %s", weft_last_error());
}

static inline void world_open(world *w, uint64_t anchors)
{
    memset(w, 0, sizeof *w);
    chain_open(&w->c);
    w->anchors = anchors;
    folder_open(w->folder, sizeof w->folder);
    store_reopen(w);
}

static inline void world_close(world *w)
{
    weft_store_close(w->store);
    folder_close(w->folder);
    chain_close(&w->c);
}

static inline weft_version label(uint32_t v)
{
    return (weft_version){RUN, v + 1, 0};
}

/* Puts image `v` as version v + 1; from no base if v is `first`. */
static inline weft_status put_from(world *w, uint32_t first, uint32_t v, weft_update_info *info)
{
    weft_piece base[TENSORS], target[TENSORS];
    weft_store_put_options options = {.size = sizeof options, .target = label(v), .attachment = "head"};
    options.attachment_bytes = 4;
    pieces_of(&w->c, w->c.image[v], target);
    if (v > first) {
        pieces_of(&w->c, w->c.image[v - 1], base);
        options.base = label(v - 1);
    }
    return weft_store_put(w->store, w->c.layout, v > first ? base : NULL, v > first ? TENSORS : 0, target, TENSORS,
                          &options, NULL, info);
}

static inline weft_status put(world *w, uint32_t v)
{
    return put_from(w, 0, v, NULL);
}

/* Makes `versions` versions and puts them. */
static inline void world_fill(world *w, uint32_t versions)
{
    for (uint32_t v = 0; v < versions; v++) {
        if (v > 0)
            chain_step(&w->c, 50, "fast");
        if (put(w, v) != WEFT_OK)
            fail_msg("version %u: %s", v + 1, weft_last_error());
    }
}

/* Moves the chain's work weights to version v + 1. */
static inline weft_status move(world *w, uint32_t v, weft_store_info *info)
{
    weft_piece pieces[TENSORS];
    const weft_version to = label(v);
    pieces_of(&w->c, w->c.work, pieces);
    return weft_store_apply(w->store, &to, w->c.layout, pieces, TENSORS, NULL, info);
}

static inline void moves(world *w, uint32_t v, weft_store_info *info)
{
    if (move(w, v, info) != WEFT_OK)
        fail_msg("not at version %u: %s", v + 1, weft_last_error());
    assert_memory_equal(w->c.work, w->c.image[v], image_bytes(&w->c));
}

static inline void file_path(const world *w, uint32_t v, weft_store_kind kind, char path[512])
{
    const weft_store_name name = {RUN, v + 1, kind, 0, 1};
    char text[WEFT_STORE_NAME_MAX];
    weft_store_name_put(&name, text);
    snprintf(path, 512, "%s/%s", w->folder, text);
}

static inline uint64_t file_bytes(const world *w, uint32_t v, weft_store_kind kind)
{
    char path[512];
    struct stat facts;
    file_path(w, v, kind, path);
    return stat(path, &facts) == 0 ? (uint64_t)facts.st_size : 0;
}

/* Flips bits of one byte of a file. */
static inline void file_flip(const world *w, uint32_t v, weft_store_kind kind, uint64_t at)
{
    char path[512];
    uint8_t byte = 0;
    file_path(w, v, kind, path);
    int file = open(path, O_RDWR);
    assert_true(file >= 0 && pread(file, &byte, 1, (off_t)at) == 1);
    byte ^= 0x55;
    assert_int_equal(pwrite(file, &byte, 1, (off_t)at), 1);
    close(file);
}

#endif
