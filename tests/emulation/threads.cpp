/* threads.cpp - the engine in which every lane is a thread, for the thread checker: what two lanes do to one word
 * without a barrier between them is a race, and found.
 *
 * Only barriers, atomic words and the begin and end of a block order anything. A collective does not: it passes its
 * words by relaxed atomics and sleeps on a word of the kernel's, of which the checker knows nothing. Divergence is not
 * looked for here; fibers.cpp does. */
#include "tests/emulation/emulation.h"
#include "tests/emulation/engine.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/futex.h>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

using weft_engine::place;

namespace
{

const uint32_t BLOCK = 256, RESIDENT = 2;

struct warp {
    uint32_t arrived = 0, round = 0;
    uint32_t words[2][64];
};

struct shared_object {
    place where;
    std::unique_ptr<unsigned char[]> memory;
};

struct block {
    pthread_barrier_t barrier;
    std::mutex mutex; /* guards objects */
    std::vector<shared_object> objects;
    warp warps[BLOCK / 32];
};

struct lane {
    weft_engine::self self;
    block *in;
    uint32_t width; /* lanes of a warp */
};

thread_local lane now;

/* Writes before the fence are visible before writes after it; the checker takes no notice. */
void fence()
{
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb ish" ::: "memory");
#else
#error "say how this machine orders its stores"
#endif
}

uint32_t get(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

void put(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

void sleep_while(uint32_t *word, uint32_t value)
{
    while (get(word) == value)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

/* All lanes of the warp come here, each with a word; returns those of all. */
const uint32_t *meet(uint32_t word)
{
    warp *mine = &now.in->warps[now.self.thread / now.width];
    const uint32_t round = get(&mine->round);
    uint32_t *words = mine->words[round % 2];
    put(&words[now.self.thread % now.width], word);
    fence();
    if (__atomic_add_fetch(&mine->arrived, 1, __ATOMIC_RELAXED) < now.width) {
        sleep_while(&mine->round, round);
    } else {
        put(&mine->arrived, 0);
        fence();
        put(&mine->round, round + 1);
        syscall(SYS_futex, &mine->round, FUTEX_WAKE_PRIVATE, BLOCK, nullptr, nullptr, 0);
    }
    fence();
    return words;
}

/* Lanes live on from one run to the next: they meet before and after each run. */
struct lanes {
    block blocks[RESIDENT];
    pthread_barrier_t begin, end;
    weft_emulated kernel;
    uint64_t argument;
    uint32_t width, count; /* lanes of a warp, blocks of the run */
    lanes();
};

lanes *all;

void lane_run(uint32_t resident, uint32_t thread)
{
    block *b = &all->blocks[resident];
    now = {{thread, 0, all->count}, b, all->width};
    for (uint32_t number = resident; number < all->count; number += RESIDENT) {
        now.self.block = number;
        all->kernel(all->argument);
        if (pthread_barrier_wait(&b->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            b->objects.clear();
        pthread_barrier_wait(&b->barrier);
    }
}

void lane_live(uint32_t resident, uint32_t thread)
{
    for (;;) {
        pthread_barrier_wait(&all->begin);
        lane_run(resident, thread);
        pthread_barrier_wait(&all->end);
    }
}

lanes::lanes()
{
    all = this;
    pthread_barrier_init(&begin, nullptr, RESIDENT * BLOCK + 1);
    pthread_barrier_init(&end, nullptr, RESIDENT * BLOCK + 1);
    for (uint32_t r = 0; r < RESIDENT; r++) {
        pthread_barrier_init(&blocks[r].barrier, nullptr, BLOCK);
        for (uint32_t t = 0; t < BLOCK; t++)
            std::thread(lane_live, r, t).detach();
    }
}

} // namespace

/* ---- for lanes.h */

const weft_engine::self &weft_engine::current()
{
    return now.self;
}

void weft_engine::barrier(const place &)
{
    pthread_barrier_wait(&now.in->barrier);
}

uint64_t weft_engine::ballot(const place &, bool holds)
{
    const uint32_t *words = meet(holds);
    uint64_t mask = 0;
    for (uint32_t l = 0; l < now.width; l++)
        mask |= static_cast<uint64_t>(get(&words[l])) << l;
    return mask;
}

uint32_t weft_engine::shuffle(const place &, uint32_t value, uint32_t lane)
{
    return get(&meet(value)[lane]);
}

void *weft_engine::shared(const place &here, size_t bytes)
{
    std::lock_guard<std::mutex> lock(now.in->mutex);
    for (auto &object : now.in->objects)
        if (object.where.line == here.line && object.where.file == here.file && object.where.what == here.what)
            return object.memory.get();
    now.in->objects.push_back({here, std::make_unique<unsigned char[]>(bytes)});
    memset(now.in->objects.back().memory.get(), 0xa5, bytes);
    return now.in->objects.back().memory.get();
}

void weft_engine::step()
{
}

const char *weft_emulation_run(const weft_schedule *schedule, weft_emulated kernel, uint32_t blocks, uint64_t argument)
{
    if (!all)
        new lanes();
    all->kernel = kernel;
    all->argument = argument;
    all->width = schedule->lanes;
    all->count = blocks;
    pthread_barrier_wait(&all->begin);
    pthread_barrier_wait(&all->end);
    return nullptr;
}
