#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

#define WRITE_MAX (UINT64_C(1) << 30) /* the kernel takes little more in one call */
#define ATTEMPTS  100

/* The name is its own and short: the final one may be as long as names can be. */
char *weft_file_beside(const char *path)
{
    static const size_t room = sizeof "weft-01234567.tmp";
    const char *slash = strrchr(path, '/');
    const size_t directory = slash ? (size_t)(slash - path) + 1 : 0;
    uint32_t draw = 0;
    char *name = weft_mem_take(directory + room, 1);
    if (!name)
        return NULL;
    if (getrandom(&draw, sizeof draw, 0) < 0)
        draw = (uint32_t)getpid();
    memcpy(name, path, directory);
    snprintf(name + directory, room, "weft-%08x.tmp", draw);
    return name;
}

/* "a/b" and "a/b/" lie in "a", "/b" in "/", "b" in ".". There is room for the ".". */
static void directory_of(char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = 0;
    char *slash = strrchr(path, '/');
    if (slash == path)
        slash[1] = 0;
    else if (slash)
        *slash = 0;
    else
        strcpy(path, ".");
}

static weft_status directory_check(const char *path)
{
    const size_t room = strlen(path) + sizeof "./.";
    char *directory = weft_mem_take(room, 1);
    if (!directory)
        return weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    snprintf(directory, room, "%s", path);
    directory_of(directory);
    size_t length = strlen(directory);
    snprintf(directory + length, room - length, "/."); /* so that a file is no directory */
    bool usable = access(directory, W_OK | X_OK) == 0;
    int reason = errno;
    directory[length] = 0;
    weft_status status =
        usable ? WEFT_OK : weft_fail(WEFT_E_FILE, "cannot be created in %s: %s", directory, strerror(reason));
    weft_mem_give(directory);
    return status;
}

/* Kernels before 5.8 do not say. */
static bool is_mounted_on(const char *path)
{
    struct statx facts;
    return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &facts) == 0 &&
           (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

weft_status weft_file_place_check(const char *path)
{
    struct stat facts;
    weft_status status = directory_check(path);
    if (status != WEFT_OK)
        return status;
    if (lstat(path, &facts) != 0)
        return errno == ENOENT ? WEFT_OK : weft_fail(WEFT_E_FILE, "cannot be created: %s", strerror(errno));
    if (is_mounted_on(path))
        return weft_fail(WEFT_E_FILE, "something is mounted there, and a whole output is renamed to its name; "
                                      "give a name that does not exist yet");
    return WEFT_OK;
}

/* A rename onto a device, or onto a link that stands for one, would take it away from everybody. */
weft_status weft_file_check(const char *path)
{
    struct stat facts;
    size_t length = strlen(path);
    if (length > 0 && path[length - 1] == '/')
        return weft_fail(WEFT_E_FILE, "is the name of a folder: name a file");
    if (lstat(path, &facts) != 0 || S_ISREG(facts.st_mode))
        return weft_file_place_check(path);
    return weft_fail(WEFT_E_FILE, "is a %s, and a whole output is renamed to its name; name a file",
                     S_ISDIR(facts.st_mode)   ? "folder"
                     : S_ISLNK(facts.st_mode) ? "link"
                                              : "device, pipe or socket");
}

weft_status weft_file_begin(weft_file *file, const char *path)
{
    weft_status status = weft_file_check(path);
    *file = (weft_file){.descriptor = -1};
    if (status != WEFT_OK)
        return status;
    file->path = weft_mem_text(path);
    for (int attempt = 0; file->path && attempt < ATTEMPTS; attempt++) {
        file->temporary = weft_file_beside(path);
        if (!file->temporary)
            break;
        file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        int reason = file->descriptor < 0 ? errno : EEXIST;
        if (file->descriptor >= 0 && weft_file_lock(file->descriptor)) {
            weft_file_note(file->temporary);
            return WEFT_OK;
        }
        if (file->descriptor >= 0)
            close(file->descriptor);
        file->descriptor = -1;
        weft_mem_give(file->temporary);
        file->temporary = NULL;
        if (reason != EEXIST) {
            weft_file_drop(file);
            return weft_fail(WEFT_E_FILE, "cannot create a file beside it: %s", strerror(reason));
        }
    }
    weft_file_drop(file);
    return weft_fail(WEFT_E_MEMORY, "no memory for a file name");
}

static weft_status not_written(void)
{
    if (errno == EFAULT) /* how a shrunken mapping shows itself to the kernel */
        return weft_fail(WEFT_E_FILE, "not written: the model file was cut short while it was read");
    return weft_fail(WEFT_E_FILE, "cannot be written: %s%s", strerror(errno),
                     errno == ENOSPC || errno == EFBIG || errno == EDQUOT
                         ? "; nothing was changed; free some space or choose another place"
                         : "");
}

weft_status weft_file_put(weft_file *file, const void *data, uint64_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        ssize_t put = write(file->descriptor, from, bytes < WRITE_MAX ? bytes : WRITE_MAX);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return not_written();
        from += put;
        bytes -= (uint64_t)put;
    }
    return WEFT_OK;
}

weft_status weft_file_put_at(weft_file *file, const void *data, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t left = bytes - done;
        ssize_t put = pwrite(file->descriptor, (const uint8_t *)data + done, left < WRITE_MAX ? left : WRITE_MAX,
                             (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return not_written();
        done += (uint64_t)put;
    }
    return WEFT_OK;
}

static weft_status descriptor_close(weft_file *file)
{
    int result = close(file->descriptor);
    file->descriptor = -1;
    return result == 0 ? WEFT_OK : weft_fail(WEFT_E_FILE, "cannot be closed: %s", strerror(errno));
}

weft_status weft_file_sync_directory(const char *path)
{
    char *parent = weft_mem_take(strlen(path) + 2, 1);
    if (!parent)
        return weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    strcpy(parent, path);
    directory_of(parent);
    int directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = directory >= 0 && (fsync(directory) == 0 || errno == EINVAL);
    int reason = errno;
    if (directory >= 0)
        close(directory);
    weft_mem_give(parent);
    return synced ? WEFT_OK
                  : weft_fail(WEFT_E_FILE, "written, but its directory cannot be synced: %s", strerror(reason));
}

/* Renames, and refuses a name that is taken. File systems that know no such rename (NFS) know links. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return link(from, to) == 0 ? unlink(from) : -1;
}

static weft_status renamed(weft_file *file, int (*move)(const char *, const char *))
{
    if (move(file->temporary, file->path) == 0)
        return WEFT_OK;
    if (errno == EEXIST)
        return weft_fail(WEFT_E_STATE, "was there already when this one was whole, and is left as it is");
    return weft_fail(WEFT_E_FILE, "cannot be put in its place: %s", strerror(errno));
}

static weft_status finish_by(weft_file *file, int (*move)(const char *, const char *))
{
    weft_status status = WEFT_OK;
    const int lock = fcntl(file->descriptor, F_DUPFD_CLOEXEC, 0); /* until the file has its name */
    if (fsync(file->descriptor) != 0)
        status = weft_fail(WEFT_E_FILE, "cannot be brought to disk: %s", strerror(errno));
    if (status == WEFT_OK)
        status = descriptor_close(file);
    if (status == WEFT_OK && file->unwanted && *file->unwanted)
        status = weft_fail(WEFT_E_STATE, "is not wanted any more, because its place hung");
    if (status == WEFT_OK)
        status = renamed(file, move);
    if (status == WEFT_OK) {
        weft_file_forget(file->temporary);
        file->temporary = NULL;
        status = weft_file_sync_directory(file->path);
    }
    if (lock >= 0)
        close(lock);
    weft_file_drop(file);
    return status;
}

weft_status weft_file_finish(weft_file *file)
{
    return finish_by(file, rename);
}

weft_status weft_file_finish_new(weft_file *file)
{
    return finish_by(file, rename_new);
}

void weft_file_drop(weft_file *file)
{
    if (file->temporary) {
        if (file->descriptor >= 0)
            close(file->descriptor);
        unlink(file->temporary);
    }
    weft_file_forget(file->temporary);
    weft_mem_give(file->path);
    *file = (weft_file){.descriptor = -1};
}

weft_status weft_file_read(int descriptor, void *out, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(descriptor, (uint8_t *)out + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft_fail(WEFT_E_FILE, "cannot be read: %s", strerror(errno));
        if (got == 0)
            return weft_fail(WEFT_E_FILE, "cut short: it ends at byte %llu", (unsigned long long)(offset + done));
        done += (uint64_t)got;
    }
    return WEFT_OK;
}
