/* earlier.c - a file that is to be written again: while it comes out equal to an earlier one, nothing is written, and
 * at the end a hard link will do. */
#include "model.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

#define PART (UINT64_C(1) << 16) /* bytes that are read at once */

void weft_earlier_open(const char *folder, const char *name, uint64_t bytes, weft_earlier *earlier)
{
    char path[PATH_MAX];
    struct stat facts;
    *earlier = (weft_earlier){.file = -1};
    if (!folder || snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return;
    earlier->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    earlier->path = weft_mem_text(path);
    if (earlier->file >= 0 && (!earlier->path || fstat(earlier->file, &facts) != 0 || !S_ISREG(facts.st_mode) ||
                               (uint64_t)facts.st_size != bytes))
        weft_earlier_close(earlier);
}

bool weft_earlier_is(weft_earlier *earlier, const void *data, uint64_t bytes)
{
    uint8_t part[PART];
    for (uint64_t done = 0; done < bytes && earlier->file >= 0;) {
        const uint64_t now = bytes - done < PART ? bytes - done : PART;
        if (weft_file_read(earlier->file, part, now, earlier->same + done) != WEFT_OK ||
            memcmp(part, (const uint8_t *)data + done, now) != 0)
            return false;
        done += now;
    }
    earlier->same += bytes;
    return earlier->file >= 0;
}

weft_status weft_earlier_copy(const weft_earlier *earlier, weft_file *file)
{
    uint8_t part[PART];
    weft_status status = WEFT_OK;
    for (uint64_t done = 0; done < earlier->same && status == WEFT_OK;) {
        const uint64_t now = earlier->same - done < PART ? earlier->same - done : PART;
        status = weft_file_read(earlier->file, part, now, done);
        if (status == WEFT_OK)
            status = weft_file_put(file, part, now);
        done += now;
    }
    return status;
}

bool weft_earlier_link(const weft_earlier *earlier, const char *path)
{
    return linkat(AT_FDCWD, earlier->path, AT_FDCWD, path, 0) == 0;
}

void weft_earlier_close(weft_earlier *earlier)
{
    if (earlier->file >= 0)
        close(earlier->file);
    weft_mem_give(earlier->path);
    *earlier = (weft_earlier){.file = -1};
}

bool weft_earlier_stand_in(const char *folder, const char *name, const char *from, const char *to)
{
    weft_earlier earlier;
    uint8_t part[PART];
    struct stat facts;
    const int source = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const uint64_t bytes = source >= 0 && fstat(source, &facts) == 0 ? (uint64_t)facts.st_size : UINT64_MAX;
    weft_earlier_open(folder, name, bytes, &earlier);
    bool same = earlier.file >= 0;
    while (same && earlier.same < bytes) {
        const uint64_t left = bytes - earlier.same, now = left < PART ? left : PART;
        same = weft_file_read(source, part, now, earlier.same) == WEFT_OK && weft_earlier_is(&earlier, part, now);
    }
    same = same && weft_earlier_link(&earlier, to);
    weft_earlier_close(&earlier);
    if (source >= 0)
        close(source);
    return same;
}
