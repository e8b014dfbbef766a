/* Plays corpora through a fuzz target, as an ordinary test: archives of ar(1) in their order, or the files of folders
 * in order of name. */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static void stop(const char *what, const char *path)
{
    fprintf(stderr, "play: %s: %s\n", path, what);
    exit(1);
}

/* Comes from malloc. */
static uint8_t *file_read(const char *path, size_t *size)
{
    struct stat facts;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &facts) != 0)
        stop("cannot be read", path);
    *size = (size_t)facts.st_size;
    uint8_t *bytes = malloc(*size ? *size : 1);
    if (!bytes || fread(bytes, 1, *size, file) != *size)
        stop("cannot be read", path);
    fclose(file);
    return bytes;
}

static void play(const uint8_t *data, size_t size)
{
    uint8_t *bytes = fuzz_copy(data, size);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

/* ---- archives */

#define ARCHIVE_MAGIC "!<arch>\n"
#define MAGIC_BYTES   8u

/* Header of each member: text, filled up with spaces. Members begin on even bytes. */
typedef struct member {
    char name[16]; /* begins with a slash where it is an index or a table of long names */
    char date[12], owner[6], group[6], mode[8];
    char size[10]; /* decimal */
    char end[2];
} member;

static int play_archive(const char *path)
{
    size_t size, used = MAGIC_BYTES;
    int count = 0;
    uint8_t *archive = file_read(path, &size);
    if (size < MAGIC_BYTES || memcmp(archive, ARCHIVE_MAGIC, MAGIC_BYTES) != 0)
        stop("no archive", path);
    while (used < size) {
        member head;
        char digits[sizeof(head.size) + 1] = "";
        if (size - used < sizeof(head))
            stop("cut short", path);
        memcpy(&head, archive + used, sizeof(head));
        memcpy(digits, head.size, sizeof(head.size));
        used += sizeof(head);
        const size_t bytes = strtoul(digits, NULL, 10);
        if (head.name[0] == '/' || memcmp(head.end, "`\n", 2) != 0 || bytes > size - used)
            stop("not inputs alone, whose names have at most 15 bytes", path);
        play(archive + used, bytes);
        used += bytes + bytes % 2;
        count++;
    }
    free(archive);
    return count;
}

/* ---- folders */

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int play_folder(const char *folder)
{
    struct dirent **entries;
    char path[4096];
    int count = scandir(folder, &entries, visible, alphasort);
    for (int i = 0; i < count; i++) {
        size_t size;
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        uint8_t *bytes = file_read(path, &size);
        play(bytes, size);
        free(bytes);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return count;
}

int main(int argc, char **argv)
{
    int played = 0;
    if (argc < 2)
        stop("name the archives or folders to play", argv[0]);
    for (int i = 1; i < argc; i++) {
        struct stat facts;
        int count = stat(argv[i], &facts) == 0 && S_ISDIR(facts.st_mode) ? play_folder(argv[i]) : play_archive(argv[i]);
        if (count <= 0)
            stop("no inputs in it", argv[i]);
        played += count;
    }
    fprintf(stderr, "%d inputs played\n", played);
    return 0;
}
