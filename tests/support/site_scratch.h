/* site_scratch.h - a folder of its own for a test's site files, and the tree's conf/ to read. */
#ifndef WEFT_TESTS_SITE_SCRATCH_H
#define WEFT_TESTS_SITE_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/folder.h"

typedef struct site_scratch {
    char folder[200];
    char path[224]; /* of the one file in it */
} site_scratch;

static inline void site_scratch_open(site_scratch *scratch)
{
    folder_open(scratch->folder, sizeof scratch->folder);
    snprintf(scratch->path, sizeof(scratch->path), "%s/site.ini", scratch->folder);
}

static inline void site_scratch_write(const site_scratch *scratch, const void *bytes, size_t count)
{
    FILE *file = fopen(scratch->path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file))
        abort();
}

static inline void site_scratch_close(const site_scratch *scratch)
{
    unlink(scratch->path);
    rmdir(scratch->folder);
}

/* The bytes of conf/NAME, ended by a 0, to be freed. */
static inline char *site_scratch_conf(const char *name, char path[512], size_t *count)
{
    const char *source = getenv("WEFT_SOURCE");
    snprintf(path, 512, "%s/conf/%s", source && source[0] ? source : ".", name);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!file || !text)
        abort();
    *count = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    return text;
}

#endif
