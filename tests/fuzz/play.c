/* Plays the files of folders through a fuzz target, in order of name: the corpus as an ordinary test. */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static void stop(const char *what, const char *path)
{
    fprintf(stderr, "play: %s: %s\n", path, what);
    exit(1);
}

static void play_file(const char *path)
{
    struct stat facts;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &facts) != 0)
        stop("cannot be read", path);
    size_t size = (size_t)facts.st_size;
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes || fread(bytes, 1, size, file) != size)
        stop("cannot be read", path);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int play_folder(const char *folder)
{
    struct dirent **entries;
    char path[4096];
    int count = scandir(folder, &entries, visible, alphasort);
    if (count <= 0)
        stop("no folder with files", folder);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        play_file(path);
        free(entries[i]);
    }
    free(entries);
    return count;
}

int main(int argc, char **argv)
{
    int played = 0;
    if (argc < 2)
        stop("name the folders to play", argv[0]);
    for (int i = 1; i < argc; i++)
        played += play_folder(argv[i]);
    fprintf(stderr, "%d inputs played\n", played);
    return 0;
}
