/* disk.h - the file operations of a program that is linked with --wrap for each of them: a disk that fails, or hangs.
 *
 * Only operations on files and folders count, because sessions write to other descriptors too. */
#ifndef WEFT_TESTS_DISK_H
#define WEFT_TESTS_DISK_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

typedef struct disk {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    long calls;       /* operations so far */
    long from, until; /* operations from..until - 1 fail */
    long hangs;       /* this operation hangs until the disk is let go; -1: none. Those of the owner do not count */
    pthread_t owner;  /* who gave these rules */
    bool naming;      /* what hung gives a file its name */
    bool hanging, released; /* somebody hangs there now; the disk goes on */
} disk;

static disk the_disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER, .from = -1, .hangs = -1};

static void disk_rules(long from, long until, long hangs)
{
    pthread_mutex_lock(&the_disk.lock);
    the_disk.calls = 0;
    the_disk.from = from;
    the_disk.until = until;
    the_disk.hangs = hangs;
    the_disk.owner = pthread_self();
    the_disk.hanging = the_disk.released = false;
    pthread_mutex_unlock(&the_disk.lock);
}

static inline void disk_is_well(void)
{
    disk_rules(-1, -1, -1);
}

static inline void disk_fails(long from, long until)
{
    disk_rules(from, until, -1);
}

static inline void disk_hangs(long at)
{
    disk_rules(-1, -1, at);
}

static inline void disk_goes_on(void)
{
    pthread_mutex_lock(&the_disk.lock);
    the_disk.released = true;
    pthread_cond_broadcast(&the_disk.moved);
    pthread_mutex_unlock(&the_disk.lock);
}

static inline bool disk_is_hanging(void)
{
    pthread_mutex_lock(&the_disk.lock);
    const bool hanging = the_disk.hanging;
    pthread_mutex_unlock(&the_disk.lock);
    return hanging;
}

/* Returns true if the operation is to fail; before that, it may hang. */
static bool operation_goes(int reason, bool naming)
{
    pthread_mutex_lock(&the_disk.lock);
    const bool counts = the_disk.hangs < 0 || !pthread_equal(the_disk.owner, pthread_self());
    const long call = counts ? the_disk.calls++ : -2;
    if (counts && call == the_disk.hangs) {
        the_disk.hanging = true;
        the_disk.naming = naming;
        pthread_cond_broadcast(&the_disk.moved);
        while (!the_disk.released)
            pthread_cond_wait(&the_disk.moved, &the_disk.lock);
        the_disk.hanging = false;
    }
    const bool fails = call >= the_disk.from && call < the_disk.until;
    pthread_mutex_unlock(&the_disk.lock);
    errno = reason;
    return fails;
}

static bool operation_fails(int reason)
{
    return operation_goes(reason, false);
}

ssize_t __real_write(int descriptor, const void *data, size_t bytes);
ssize_t __wrap_write(int descriptor, const void *data, size_t bytes);
int __wrap_fsync(int descriptor);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

/* A full disk takes a part of what it is given. */
ssize_t __wrap_write(int descriptor, const void *data, size_t bytes)
{
    struct stat facts;
    const bool file = fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
    if (!file || !operation_fails(ENOSPC))
        return __real_write(descriptor, data, bytes);
    if (bytes > 1 && __real_write(descriptor, data, bytes / 2) < 0)
        return -1;
    errno = ENOSPC;
    return -1;
}

/* Nothing is brought to the disk, because no power fails here and the test would wait for the disk. */
int __wrap_fsync(int descriptor)
{
    (void)descriptor;
    return operation_fails(EIO) ? -1 : 0;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return operation_fails(ENOSPC) ? -1 : __real_mkdir(path, mode);
}

int __wrap_renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    return operation_goes(EIO, true) ? -1 : __real_renameat2(from, old, to, new, flags);
}

int __wrap_unlink(const char *path)
{
    return operation_fails(EROFS) ? -1 : __real_unlink(path);
}

#endif
