/* companions.c - what lies beside the weights of a model in a folder, such as its config.json and tokenizer, without
 * which no engine loads it: copied into a new folder, or linked where it is large and the file system links. */
#include "model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"

#define PART   (UINT64_C(1) << 16) /* bytes that are copied at once */
#define COPIED (16 << 20)          /* a file of more is linked: a link ties the new folder to its base */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Weights in whatever format, and their indexes. */
static bool is_weights(const char *name)
{
    static const char *const ends[] = {
        ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".gguf", ".h5",
        ".msgpack"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* Weights are written anew, and those of other files would be of another version; what is hidden or unfinished is
 * nobody's. */
static bool goes_along(const weft_folder *base, const weft_shards *made, const char *name)
{
    bool own = (made->index_name && strcmp(name, made->index_name) == 0) ||
               (base->index_name && strcmp(name, base->index_name) == 0);
    for (uint64_t i = 0; i < base->file_count; i++)
        own = own || strcmp(name, base->files[i]) == 0;
    for (uint64_t i = 0; i < made->count; i++)
        own = own || strcmp(name, made->items[i].name) == 0;
    return !own && name[0] != '.' && !ends_with(name, ".tmp") && !is_weights(name);
}

static weft_status copy_parts(int from, weft_file *to)
{
    uint8_t part[PART];
    ssize_t got;
    while ((got = read(from, part, sizeof part)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        weft_status status = got < 0 ? weft_fail(WEFT_E_FILE, "cannot be read: %s", strerror(errno))
                                     : weft_file_put(to, part, (uint64_t)got);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status copy(const char *from, const char *to)
{
    weft_file file = {.descriptor = -1};
    int source = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    weft_status status = source >= 0 ? weft_file_begin(&file, to)
                                     : weft_fail(WEFT_E_FILE, "cannot be opened: %s", weft_model_unopened(from));
    if (status == WEFT_OK)
        status = copy_parts(source, &file);
    if (status == WEFT_OK)
        status = weft_file_finish(&file);
    weft_file_drop(&file);
    if (source >= 0)
        close(source);
    return status;
}

static weft_status bring(const weft_folder *base, const char *name, const char *folder, const char *earlier)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct stat facts;
    if (snprintf(from, sizeof from, "%s%s", base->path, name) >= PATH_MAX ||
        snprintf(to, sizeof to, "%s/%s", folder, name) >= PATH_MAX)
        return weft_fail(WEFT_E_FILE, "its path is longer than %d bytes", PATH_MAX);
    if (stat(from, &facts) != 0 || !S_ISREG(facts.st_mode)) /* a link to a file is that file, in caches of hubs */
        return WEFT_OK;
    if (facts.st_size > COPIED && linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
        return WEFT_OK;
    return weft_earlier_stand_in(earlier, name, from, to) ? WEFT_OK : copy(from, to);
}

static weft_status bring_all(const weft_folder *base, const weft_shards *made, const char *folder, const char *earlier)
{
    DIR *listing = opendir(*base->path ? base->path : ".");
    weft_status status = WEFT_OK;
    if (!listing)
        return weft_fail(WEFT_E_FILE, "%s cannot be listed: %s", base->path, strerror(errno));
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(listing));) {
        if (!goes_along(base, made, entry->d_name))
            continue;
        status = bring(base, entry->d_name, folder, earlier);
        if (status != WEFT_OK)
            weft_fail_about("%s%s, which goes along with the weights", base->path, entry->d_name);
    }
    closedir(listing);
    return status;
}

weft_status weft_companions_bring(const char *path, const weft_shards *made, const char *folder, const char *earlier)
{
    weft_folder base;
    weft_status status = weft_folder_open(path, &base);
    if (status != WEFT_OK)
        return status;
    if (base.index_name || base.searched) /* whoever names a file alone means that */
        status = bring_all(&base, made, folder, earlier);
    weft_folder_close(&base);
    return status;
}
