/* file_left.c - unfinished files whose writers are gone: a writer holds a lock, which its end takes away. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"

/* ext, XFS, btrfs, bcachefs, F2FS, ZFS, tmpfs, ramfs, overlayfs. */
bool weft_file_is_local(int descriptor)
{
    static const uint32_t kinds[] = {0xef53,     0x58465342, 0x9123683e, 0xca451a4e, 0xf2f52010,
                                     0x2fc12fc1, 0x01021994, 0x858458f6, 0x794c7630};
    struct statfs facts;
    if (fstatfs(descriptor, &facts) != 0)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((uint32_t)facts.f_type == kinds[i])
            return true;
    return false;
}

bool weft_file_lock(int descriptor)
{
    struct stat facts;
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK; /* a file system without locks has files of its writers by their age */
    return fstat(descriptor, &facts) != 0 || facts.st_nlink > 0;
}

bool weft_file_left_remove(const char *path, uint64_t time_s)
{
    struct stat facts;
    const int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return false;
    const bool locked = flock(file, LOCK_EX | LOCK_NB) == 0, lives = !locked && errno == EWOULDBLOCK;
    const bool gone = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && !lives &&
                      ((locked && weft_file_is_local(file)) || (uint64_t)facts.st_mtim.tv_sec < time_s) &&
                      unlink(path) == 0;
    close(file);
    return gone;
}
