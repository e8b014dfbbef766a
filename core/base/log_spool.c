#include "base/log_spool.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

/* Written at once: a pipe takes so much whole, so that lines of several processes stay apart. */
#define PART_BYTES PIPE_BUF
#define SPOOLS     4u
#define LOST_BYTES 96u

/* The spools that have a thread. A fork must find their locks free. */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static weft_spool *spools[SPOOLS];
static uint32_t spool_count;
static bool forks_are_watched;

/* The system's: a reader's patience is no test's to own. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint64_t count_lines(const char *text, uint64_t bytes)
{
    uint64_t lines = 0;
    for (const char *at = text; (at = memchr(at, '\n', bytes - (uint64_t)(at - text))); at++)
        lines++;
    return lines;
}

/* ---- the ring: under the lock */

static void copy_in(weft_spool *spool, const char *text, uint64_t bytes)
{
    const uint64_t at = spool->end % spool->capacity, room = spool->capacity - at, first = bytes < room ? bytes : room;
    memcpy(spool->memory + at, text, first);
    memcpy(spool->memory, text + first, bytes - first);
    spool->end += bytes;
}

/* The next lines that a part has room for, or a part of a longer one. */
static uint64_t copy_out(const weft_spool *spool, char part[PART_BYTES])
{
    const uint64_t waiting = spool->end - spool->begin, bytes = waiting < PART_BYTES ? waiting : PART_BYTES;
    const uint64_t at = spool->begin % spool->capacity, room = spool->capacity - at,
                   first = bytes < room ? bytes : room;
    memcpy(part, spool->memory + at, first);
    memcpy(part + first, spool->memory, bytes - first);
    const char *last = memrchr(part, '\n', bytes);
    return last ? (uint64_t)(last - part) + 1 : bytes;
}

static uint64_t lines_waiting(const weft_spool *spool)
{
    const uint64_t at = spool->begin % spool->capacity, bytes = spool->end - spool->begin;
    const uint64_t room = spool->capacity - at, first = bytes < room ? bytes : room;
    return count_lines(spool->memory + at, first) + count_lines(spool->memory, bytes - first);
}

/* Starts at the beginning of the memory again whenever all is written, so that few pages are touched. */
static void take_off(weft_spool *spool, uint64_t bytes)
{
    spool->begin += bytes;
    if (bytes)
        spool->moved_ns = now_ns();
    if (spool->begin == spool->end)
        spool->begin = spool->end = 0;
}

/* ---- the thread */

/* Writes it whole, however long the reader takes; the bytes that went before it failed, with errno. */
static uint64_t write_all(int fd, const char *text, uint64_t bytes)
{
    uint64_t gone = 0;
    while (gone < bytes) {
        ssize_t written = write(fd, text + gone, bytes - gone);
        if (written >= 0) {
            gone += (uint64_t)written;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) { /* another process made the descriptor non-blocking */
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            break;
        }
    }
    return gone;
}

/* Takes the count of dropped lines and writes the line that reports it. */
static uint64_t lost_line(weft_spool *spool, char line[LOST_BYTES])
{
    const uint64_t lost = spool->lost;
    spool->lost = 0;
    return (uint64_t)snprintf(line, LOST_BYTES, "weft warn: %llu line%s lost, because nobody read here\n",
                              (unsigned long long)lost, lost == 1 ? "" : "s");
}

/* All waiting lines are written, so the report of dropped lines comes in their place. */
static void end_dropping(weft_spool *spool)
{
    char line[LOST_BYTES];
    const uint64_t lost = spool->lost;
    spool->dropping = false;
    if (!spool->tell) {
        copy_in(spool, line, lost_line(spool, line));
        return;
    }
    spool->lost = 0;
    spool->telling = true;
    pthread_mutex_unlock(&spool->lock);
    spool->tell(WEFT_SPOOL_TAKES, lost);
    pthread_mutex_lock(&spool->lock);
    spool->telling = false;
    pthread_cond_broadcast(&spool->moved);
}

static void write_part(weft_spool *spool)
{
    char part[PART_BYTES];
    const uint64_t bytes = copy_out(spool, part);
    const bool failed_before = spool->failing;
    spool->again = false;
    pthread_mutex_unlock(&spool->lock);
    const uint64_t gone = write_all(spool->fd, part, bytes);
    const int error = errno;
    if (gone < bytes && !failed_before && spool->tell)
        spool->tell(WEFT_SPOOL_FAILS, (uint64_t)error);
    pthread_mutex_lock(&spool->lock);
    spool->failing = gone < bytes;
    take_off(spool, gone);
    pthread_cond_broadcast(&spool->moved);
}

/* Bytes whose write failed are tried again when a line is queued. */
static bool has_work(const weft_spool *spool)
{
    return spool->begin < spool->end ? !spool->failing || spool->again : spool->lost > 0;
}

static void *write_lines(void *argument)
{
    weft_spool *spool = argument;
    pthread_mutex_lock(&spool->lock);
    for (;;) {
        while (!has_work(spool))
            pthread_cond_wait(&spool->moved, &spool->lock);
        if (spool->begin < spool->end)
            write_part(spool);
        else
            end_dropping(spool);
    }
    return NULL;
}

/* ---- start and fork */

static void before_fork(void)
{
    pthread_mutex_lock(&starting);
    for (uint32_t i = 0; i < spool_count; i++)
        pthread_mutex_lock(&spools[i]->lock);
}

static void after_fork_parent(void)
{
    for (uint32_t i = spool_count; i-- > 0;)
        pthread_mutex_unlock(&spools[i]->lock);
    pthread_mutex_unlock(&starting);
}

/* The lines are the parent's, who writes them. */
static void after_fork_child(void)
{
    for (uint32_t i = spool_count; i-- > 0;) {
        weft_spool *spool = spools[i];
        spool->begin = spool->end = spool->lost = 0;
        spool->failing = spool->dropping = spool->telling = false;
        atomic_store(&spool->started, false);
        pthread_mutex_unlock(&spool->lock);
    }
    spool_count = 0;
    pthread_mutex_unlock(&starting);
}

static void init_moved(weft_spool *spool)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&spool->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Before it has a thread: without one its lock is held at times too. */
static bool watch_forks(weft_spool *spool)
{
    for (uint32_t i = 0; i < spool_count; i++)
        if (spools[i] == spool)
            return true;
    if (spool_count == SPOOLS)
        return false;
    if (!forks_are_watched && pthread_atfork(before_fork, after_fork_parent, after_fork_child) != 0)
        return false;
    forks_are_watched = true;
    spools[spool_count++] = spool;
    return true;
}

static bool start_thread(weft_spool *spool)
{
    pthread_t thread;
    if (!watch_forks(spool))
        return false;
    init_moved(spool);
    if (weft_thread_start(&thread, write_lines, spool) != 0)
        return false;
    pthread_detach(thread);
    return true;
}

bool weft_spool_start(weft_spool *spool)
{
    if (atomic_load(&spool->started))
        return true;
    pthread_mutex_lock(&starting);
    if (!atomic_load(&spool->started) && start_thread(spool))
        atomic_store(&spool->started, true);
    pthread_mutex_unlock(&starting);
    return atomic_load(&spool->started);
}

/* ---- put and drain */

static bool writes_at_once(const weft_spool *spool)
{
    struct pollfd ready = {.fd = spool->fd, .events = POLLOUT};
    return poll(&ready, 1, 0) == 1 && ready.revents & POLLOUT;
}

/* Without a thread: a pipe that can be written takes a part whole. */
static void write_now(weft_spool *spool, const char *text, uint64_t bytes)
{
    char line[LOST_BYTES];
    const uint64_t lost = spool->lost;
    if (lost && !spool->tell && writes_at_once(spool) && write(spool->fd, line, lost_line(spool, line)) < 0)
        spool->lost = lost;
    if (bytes > PART_BYTES || !writes_at_once(spool) || write(spool->fd, text, bytes) != (ssize_t)bytes)
        spool->lost += count_lines(text, bytes);
}

/* True: the first that is dropped. */
static bool put_or_drop(weft_spool *spool, const char *text, uint64_t bytes)
{
    const uint64_t waiting = spool->end - spool->begin;
    const bool dropped_before = spool->dropping;
    spool->again = true;
    pthread_cond_broadcast(&spool->moved);
    spool->dropping = dropped_before || bytes > spool->capacity || (waiting && waiting + bytes > spool->most);
    if (spool->dropping) {
        spool->lost += count_lines(text, bytes);
        return !dropped_before && !spool->failing;
    }
    if (!waiting)
        spool->moved_ns = now_ns();
    copy_in(spool, text, bytes);
    return false;
}

void weft_spool_put(weft_spool *spool, const char *text, uint64_t bytes)
{
    bool drops = false;
    weft_spool_start(spool);
    pthread_mutex_lock(&spool->lock);
    if (atomic_load(&spool->started)) /* again: it may be another's doing */
        drops = put_or_drop(spool, text, bytes);
    else
        write_now(spool, text, bytes);
    pthread_mutex_unlock(&spool->lock);
    if (drops && spool->tell)
        spool->tell(WEFT_SPOOL_DROPS, 0);
}

uint64_t weft_spool_drain(weft_spool *spool, uint32_t still_ms, uint32_t most_ms)
{
    const uint64_t most_ns = now_ns() + most_ms * UINT64_C(1000000), still_ns = still_ms * UINT64_C(1000000);
    pthread_mutex_lock(&spool->lock);
    while (atomic_load(&spool->started) && (has_work(spool) || spool->telling)) {
        const uint64_t until = spool->moved_ns + still_ns < most_ns ? spool->moved_ns + still_ns : most_ns;
        const struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
        if (now_ns() >= until)
            break;
        pthread_cond_timedwait(&spool->moved, &spool->lock, &t);
    }
    const uint64_t lost = spool->lost + lines_waiting(spool);
    pthread_mutex_unlock(&spool->lock);
    return lost;
}
