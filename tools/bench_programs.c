/* bench_programs.c - general programs for differences between files, where they are installed: zstd --patch-from and
 * xdelta3, on files in a temporary folder. Their times include reading and writing those. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "bench.h"
#include "output.h"

extern char **environ;

#define WORDS_MAX  12
#define PATH_BYTES (PATH_MAX + 8) /* of a folder and a file in it */

/* Words of a command line; "OLD", "NEW", "PATCH" and "MADE" stand for files of the folder. */
typedef struct program {
    const char *name;
    const char *encode[WORDS_MAX];
    const char *decode[WORDS_MAX];
} program;

static const program programs[] = {
    {"zstd --patch-from",
     {"zstd", "-q", "-f", "--long=31", "--patch-from=OLD", "NEW", "-o", "PATCH", NULL},
     {"zstd", "-q", "-f", "-d", "--long=31", "--patch-from=OLD", "PATCH", "-o", "MADE", NULL}},
    {"xdelta3",
     {"xdelta3", "-e", "-q", "-f", "-S", "none", "-s", "OLD", "NEW", "PATCH", NULL},
     {"xdelta3", "-d", "-q", "-f", "-s", "OLD", "PATCH", "MADE", NULL}},
};
static const char *const files[] = {"OLD", "NEW", "PATCH", "MADE"};

/* ---- a program */

/* Runs it in the folder; `code` receives what it ended with, 127 if there is no such program. */
static weft_status program_run(const char *folder, const char *const words[], int *code)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int ended = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(&child, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    *code = 127;
    if (failed == ENOENT)
        return WEFT_OK;
    if (failed)
        return weft_fail(WEFT_E_SYSTEM, "%s cannot be started: %s", words[0], strerror(failed));
    while (waitpid(child, &ended, 0) < 0)
        if (errno != EINTR)
            return weft_fail(WEFT_E_SYSTEM, "%s cannot be waited for: %s", words[0], strerror(errno));
    *code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
    return WEFT_OK;
}

/* ---- files */

static void path_of(char path[PATH_BYTES], const char *folder, const char *name)
{
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

static weft_status file_write(const char *folder, const char *name, const uint8_t *data, uint64_t bytes)
{
    char path[PATH_BYTES];
    weft_file file = {.descriptor = -1};
    path_of(path, folder, name);
    weft_status status = weft_file_begin(&file, path);
    if (status == WEFT_OK)
        status = weft_file_put(&file, data, bytes);
    if (status == WEFT_OK)
        status = weft_file_finish(&file);
    weft_file_drop(&file);
    return status;
}

static bool file_is(const char *folder, const char *name, const uint8_t *data, uint64_t bytes, uint8_t *room)
{
    char path[PATH_BYTES];
    path_of(path, folder, name);
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(room, 1, bytes, file) : 0;
    bool more = file && fgetc(file) != EOF;
    if (file)
        fclose(file);
    return got == bytes && !more && memcmp(room, data, bytes) == 0;
}

static void folder_remove(const char *folder)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        path_of(path, folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* ---- both */

static weft_status program_measure(weft_bench_pair *pair, const char *folder, const program *program,
                                   weft_bench_rival *rival)
{
    char path[PATH_BYTES];
    struct stat patch;
    int code;
    double begun = weft_now_ms();
    weft_status status = program_run(folder, program->encode, &code);
    rival->encode_ms = weft_now_ms() - begun;
    if (status != WEFT_OK)
        return status;
    path_of(path, folder, "PATCH");
    if (code || stat(path, &patch)) {
        rival->skipped = code == 127 ? "not installed here" : "the program failed";
        return WEFT_OK;
    }
    begun = weft_now_ms();
    status = program_run(folder, program->decode, &code);
    rival->decode_ms = weft_now_ms() - begun;
    rival->bytes = (uint64_t)patch.st_size;
    if (status == WEFT_OK && (code || !file_is(folder, "MADE", pair->after, pair->bytes, pair->work)))
        status = weft_fail(WEFT_E_TARGET, "%s did not give the new weights", program->name);
    return status;
}

static weft_status programs_measure(weft_bench_pair *pair, const char *folder, weft_bench_rival rivals[2])
{
    weft_status status = file_write(folder, "OLD", pair->before, pair->bytes);
    if (status == WEFT_OK)
        status = file_write(folder, "NEW", pair->after, pair->bytes);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        rivals[i] = (weft_bench_rival){.name = programs[i].name};
        status = program_measure(pair, folder, &programs[i], &rivals[i]);
    }
    return status;
}

weft_status weft_bench_programs_run(weft_bench_pair *pair, weft_bench_rival rivals[2])
{
    const char *base = getenv("TMPDIR");
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/weft-bench-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder))
        return weft_fail(WEFT_E_FILE, "%s: no folder can be made: %s", folder, strerror(errno));
    weft_status status = programs_measure(pair, folder, rivals);
    folder_remove(folder);
    return status;
}
