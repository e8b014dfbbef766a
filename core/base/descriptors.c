#include "base/descriptors.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define LOOK_NS (1000 * WEFT_NS_PER_MS)

static struct {
    pthread_mutex_t lock;
    uint32_t users;
    int kept[WEFT_DESCRIPTORS_KEPT];
    uint32_t count;
    bool warned;
} here = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint64_t look_ns; /* the next time */

static int take_one(void)
{
    return eventfd(0, EFD_CLOEXEC);
}

static uint64_t limit_now(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); /* refused: the old one holds */
}

/* The kernel gives the lowest number that is free: without holes below, that many are open. */
static uint64_t open_now(void)
{
    int next = take_one();
    if (next < 0)
        return limit_now();
    close(next);
    return (uint64_t)next;
}

static void give_up(void)
{
    while (here.count > 0)
        close(here.kept[--here.count]);
}

/* All or none: the last that are free are for others. */
static void keep(void)
{
    while (here.count < WEFT_DESCRIPTORS_KEPT) {
        int fd = take_one();
        if (fd < 0) {
            give_up();
            return;
        }
        here.kept[here.count++] = fd;
    }
}

void weft_descriptors_open(void)
{
    pthread_mutex_lock(&here.lock);
    if (here.users++ == 0) {
        raise_limit();
        keep();
    }
    pthread_mutex_unlock(&here.lock);
}

void weft_descriptors_close(void)
{
    pthread_mutex_lock(&here.lock);
    if (--here.users == 0) {
        give_up();
        here.warned = false;
    }
    pthread_mutex_unlock(&here.lock);
}

static bool give_up_for_need(void)
{
    const uint32_t had = here.count;
    if (had == 0)
        return false;
    give_up();
    weft_log(WEFT_LOG_WARN,
             "no descriptor is left: this process may open %llu (ulimit -n); the %u in reserve are used now, so that "
             "peers can go on joining for a while",
             (unsigned long long)limit_now(), had);
    here.warned = true;
    return true;
}

bool weft_descriptors_short(int error)
{
    bool gave = false;
    if (error != EMFILE && error != ENFILE)
        return false;
    pthread_mutex_lock(&here.lock);
    gave = give_up_for_need();
    pthread_mutex_unlock(&here.lock);
    return gave;
}

void weft_descriptors_need(uint32_t count)
{
    int taken[WEFT_DESCRIPTORS_KEPT];
    uint32_t had = 0;
    if (count > WEFT_DESCRIPTORS_KEPT)
        count = WEFT_DESCRIPTORS_KEPT;
    pthread_mutex_lock(&here.lock);
    while (had < count && (taken[had] = take_one()) >= 0)
        had++;
    const bool enough = had == count;
    while (had > 0)
        close(taken[--had]);
    if (!enough)
        give_up_for_need();
    pthread_mutex_unlock(&here.lock);
}

/* Warns above three quarters, and again only after fewer than half were open. */
static void judge(void)
{
    const uint64_t limit = limit_now(), open = open_now();
    if (here.count == 0 && open + 2 * WEFT_DESCRIPTORS_KEPT <= limit)
        keep();
    if (open < limit / 2)
        here.warned = false;
    if (here.warned || open <= limit / 4 * 3)
        return;
    here.warned = true;
    weft_log(WEFT_LOG_WARN,
             "%llu descriptors are open, this process may open %llu: new peers are refused when none is left; raise "
             "the hard limit (ulimit -Hn, LimitNOFILE= of a service), and look who holds them (ls -l /proc/%ld/fd, ss "
             "-tnp): strangers connected to the data ports, or the rest of the process",
             (unsigned long long)open, (unsigned long long)limit, (long)getpid());
}

void weft_descriptors_watch(void)
{
    const uint64_t now_ns = weft_clock_ns();
    uint64_t due_ns = atomic_load(&look_ns);
    if (now_ns < due_ns && due_ns - now_ns <= LOOK_NS)
        return;
    if (!atomic_compare_exchange_strong(&look_ns, &due_ns, now_ns + LOOK_NS))
        return;
    pthread_mutex_lock(&here.lock);
    judge();
    pthread_mutex_unlock(&here.lock);
}

weft_descriptors_use weft_descriptors_now(void)
{
    pthread_mutex_lock(&here.lock);
    const weft_descriptors_use use = {open_now(), limit_now(), here.count};
    pthread_mutex_unlock(&here.lock);
    return use;
}
