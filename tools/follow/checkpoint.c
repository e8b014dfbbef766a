#include "tools/follow/checkpoint.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/safetensors.h"

#define BLOCK 512u /* of st_blocks, whatever the file system's are */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool weft_checkpoint_is_file(const char *name)
{
    return name[0] != '.' && ends_with(name, ".safetensors");
}

static bool is_index(const char *name)
{
    return strcmp(name, "model.safetensors.index.json") == 0;
}

static bool is_mark(const char *name)
{
    return strcmp(name, "STABLE") == 0 || strcmp(name, ".done") == 0;
}

/* Names as model-00001-of-00004.safetensors. */
static bool is_shard(const char *name)
{
    const char *of = strstr(name, "-of-");
    return weft_checkpoint_is_file(name) && of && of > name && isdigit((unsigned char)of[-1]) &&
           isdigit((unsigned char)of[4]) && strtoul(of + 4, NULL, 10) > 1;
}

static bool has_number(const char *name)
{
    return strpbrk(name, "0123456789") != NULL;
}

/* ---- looking */

static void look_add(weft_look *look, const struct stat *file)
{
    const uint64_t bytes = (uint64_t)file->st_size, stored = (uint64_t)file->st_blocks * BLOCK;
    look->inodes += file->st_ino;
    look->bytes += bytes;
    look->missing += bytes > stored ? bytes - stored : 0;
    if (file->st_mtim.tv_sec > look->changed.tv_sec ||
        (file->st_mtim.tv_sec == look->changed.tv_sec && file->st_mtim.tv_nsec > look->changed.tv_nsec))
        look->changed = file->st_mtim;
}

static void look_into(DIR *folder, weft_look *look)
{
    bool indexed = false, shards = false;
    for (const struct dirent *item; (item = readdir(folder));) {
        const char *name = item->d_name;
        struct stat file;
        look->marked = look->marked || is_mark(name);
        look->others += name[0] != '.' && !weft_checkpoint_is_file(name);
        if ((!weft_checkpoint_is_file(name) && !is_index(name)) || fstatat(dirfd(folder), name, &file, 0) != 0 ||
            !S_ISREG(file.st_mode))
            continue;
        look_add(look, &file);
        look->weights += weft_checkpoint_is_file(name);
        indexed = indexed || is_index(name);
        shards = shards || is_shard(name);
    }
    look->parted = shards && !indexed;
}

bool weft_look_at(int directory, const char *name, weft_look *look)
{
    *look = (weft_look){0};
    if (fstatat(directory, name, &look->self, 0) != 0)
        return false;
    look->folder = S_ISDIR(look->self.st_mode);
    if (!look->folder) {
        look_add(look, &look->self);
        look->weights = weft_checkpoint_is_file(name) && S_ISREG(look->self.st_mode);
        return true;
    }
    const int folder = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = folder >= 0 ? fdopendir(folder) : NULL;
    if (!listing && folder >= 0)
        close(folder);
    if (!listing)
        return false;
    look_into(listing, look);
    closedir(listing);
    return true;
}

bool weft_look_same(const weft_look *a, const weft_look *b, bool missing)
{
    return a->self.st_ino == b->self.st_ino && a->inodes == b->inodes && a->bytes == b->bytes &&
           a->weights == b->weights && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec && (!missing || a->missing == b->missing);
}

/* ---- judging */

bool weft_checkpoint_is(const char *name, const weft_look *look)
{
    if (name[0] == '.' || strncmp(name, "tmp-", 4) == 0 || ends_with(name, ".tmp"))
        return false;
    return look->weights > 0 || (look->folder && look->others > 0 && has_number(name));
}

const char *weft_checkpoint_unfit(const char *name, const weft_look *look)
{
    if (!look->folder)
        return is_shard(name) ? "is a shard: weft takes shards in a folder of their own, with their index" : NULL;
    if (!has_number(name))
        return "has no number in its name, so it has no place in the order";
    if (!look->weights)
        return "has no *.safetensors in it, and weft reads no other format (Megatron's, DeepSpeed's, torch's)";
    return look->parted ? "has shards, and no model.safetensors.index.json that says which belong together" : NULL;
}

weft_status weft_checkpoint_whole(const char *path)
{
    weft_model *model = NULL;
    weft_status status = weft_model_open(path, 0, &model);
    if (status == WEFT_OK)
        status = weft_model_written(model);
    weft_model_close(model);
    return status;
}
