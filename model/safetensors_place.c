/* safetensors_place.c - whether a path takes a model: a file, or a folder that is not there yet. */
#include "model.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/status.h"

/* Whether the last name of the path is . or .., which no rename takes. */
static bool ends_in_dots(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] == '.')
        begin--;
    return end - begin >= 1 && end - begin <= 2 && (begin == 0 || path[begin - 1] == '/');
}

bool weft_model_folder_fits(const char *path)
{
    uint64_t found = 0;
    struct stat facts;
    if (ends_in_dots(path))
        return false;
    if (lstat(path, &facts) != 0)
        return errno == ENOENT;
    DIR *listing = S_ISDIR(facts.st_mode) ? opendir(path) : NULL;
    while (listing && readdir(listing))
        found++;
    if (listing)
        closedir(listing);
    return listing && found <= 2;
}

weft_status weft_model_folder_check(const char *path)
{
    if (ends_in_dots(path))
        return weft_fail(WEFT_E_FILE, "is not the folder's own name, and an output is renamed into its place when "
                                      "whole; name a folder that is not there yet");
    weft_status status = weft_file_place_check(path);
    if (status != WEFT_OK || weft_model_folder_fits(path))
        return status;
    return weft_fail(WEFT_E_FILE, "there is something; name a folder that is not there yet");
}

weft_status weft_model_place_check(const void *attachment, uint64_t bytes, const weft_model_place *place)
{
    return place->name || weft_shards_are_many(attachment, bytes) ? weft_model_folder_check(place->path)
                                                                  : weft_file_check(place->path);
}

weft_status weft_model_save_check(const void *attachment, uint64_t bytes, const char *path)
{
    return weft_model_place_check(attachment, bytes, &(weft_model_place){.path = path});
}
