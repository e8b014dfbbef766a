/* fibers.cpp - the engine in which every lane is a fiber of the calling thread.
 *
 * A lane runs until it waits for others or an atomic operation lets others go first; then the scheduler draws a block
 * and a warp in it and runs those of its lanes that can run, in an order that is drawn too: each once, or, when greedy,
 * until none can. */
#include "tests/emulation/emulation.h"
#include "tests/emulation/engine.h"
#include "tests/emulation/fiber.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#if defined(WEFT_SANITIZE_ADDRESS)
#include <sanitizer/asan_interface.h>
#define UNPOISON(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

using weft_engine::place;

namespace
{

const uint32_t BLOCK = 256, RESIDENT = 4;
const size_t STACK = 64 * 1024;

enum class standing { ready, meeting, waiting, over };

/* ---- lanes, warps, blocks */

struct lane {
    weft_engine::self self;
    weft_fiber at;
    standing state;
    place where;
    char *stack;
};

struct warp {
    uint32_t arrived;
    place where;    /* of the first to arrive */
    uint32_t round; /* who is through may come to the next meeting before the others have read */
    uint64_t words[2][64];
};

struct shared_object {
    place where;
    size_t bytes;
    void *memory;
};

struct block {
    bool busy;
    uint32_t arrived, over;
    place where; /* of the first at the barrier */
    char *stacks;
    lane lanes[BLOCK];
    warp warps[BLOCK / 32];
    std::vector<shared_object> objects;
};

struct engine {
    std::vector<std::unique_ptr<block>> blocks;
    weft_fiber scheduler;
    lane *now;
    block *in;
    uint64_t random;
    uint32_t width; /* lanes of a warp */
    weft_emulated kernel;
    uint64_t argument;
    std::string error;
    ~engine();
};

thread_local engine run;

void shared_give(block *b)
{
    for (auto &object : b->objects)
        free(object.memory);
    b->objects.clear();
}

engine::~engine()
{
    for (auto &b : blocks) {
        shared_give(b.get());
        free(b->stacks);
    }
}

uint64_t draw()
{
    run.random ^= run.random << 13;
    run.random ^= run.random >> 7;
    run.random ^= run.random << 17;
    return run.random;
}

void leave()
{
    weft_fiber_switch(&run.now->at, &run.scheduler);
}

/* The first thing wrong ends the run; the fiber is not resumed. */
void fail(const std::string &what)
{
    if (run.error.empty())
        run.error = what;
    for (;;)
        leave();
}

std::string at(const place &where)
{
    const char *slash = strrchr(where.file, '/');
    return std::string(where.what) + " at " + (slash ? slash + 1 : where.file) + ":" + std::to_string(where.line);
}

std::string named(const lane &l)
{
    return "thread " + std::to_string(l.self.thread) + " of block " + std::to_string(l.self.block);
}

/* Equal texts of one file are one text. */
bool same(const place &a, const place &b)
{
    return a.line == b.line && a.file == b.file && a.what == b.what;
}

/* ---- collectives */

void join_check(const place &first, const place &here)
{
    if (!same(first, here))
        fail(named(*run.now) + " comes to " + at(here) + ", others to " + at(first));
}

/* All lanes of the warp come here, each with a word; returns those of all. */
const uint64_t *meet(const place &here, uint64_t word)
{
    lane *self = run.now, *lanes = run.in->lanes + self->self.thread / run.width * run.width;
    warp *mine = &run.in->warps[self->self.thread / run.width];
    if (mine->arrived == 0)
        mine->where = here;
    join_check(mine->where, here);
    self->where = here;
    uint64_t *words = mine->words[mine->round % 2];
    words[self->self.thread % run.width] = word;
    if (++mine->arrived < run.width) {
        self->state = standing::meeting;
        leave();
        return words;
    }
    mine->arrived = 0;
    mine->round++;
    for (uint32_t l = 0; l < run.width; l++)
        lanes[l].state = standing::ready;
    return words;
}

/* ---- a fiber's life */

void lane_end()
{
    block *b = run.in;
    lane *self = run.now;
    self->state = standing::over;
    b->over++;
    const warp &mine = b->warps[self->self.thread / run.width];
    if (b->arrived > 0)
        fail(named(*self) + " ends, others wait: " + at(b->where));
    if (mine.arrived > 0)
        fail(named(*self) + " ends, others of its warp wait: " + at(mine.where));
    for (;;)
        leave();
}

void lane_main()
{
    run.kernel(run.argument);
    lane_end();
}

void block_begin(block *b, uint32_t number, uint32_t blocks)
{
    shared_give(b);
    b->busy = true;
    b->arrived = b->over = 0;
    for (auto &w : b->warps)
        w.arrived = 0;
    for (uint32_t t = 0; t < BLOCK; t++) {
        lane *l = &b->lanes[t];
        l->self = {t, number, blocks};
        l->state = standing::ready;
        UNPOISON(l->stack, STACK); /* of a lane that was not resumed */
        weft_fiber_make(&l->at, l->stack, STACK, lane_main);
    }
}

/* ---- the scheduler */

bool warp_pass(block *b, uint32_t first, uint32_t turn)
{
    bool ran = false;
    for (uint32_t i = 0; i < run.width && run.error.empty(); i++) {
        lane *l = &b->lanes[first + (i ^ turn)];
        if (l->state != standing::ready)
            continue;
        run.now = l;
        run.in = b;
        weft_fiber_switch(&run.scheduler, &l->at);
        ran = true;
    }
    return ran;
}

/* True if any lane ran. */
bool block_pass(block *b)
{
    const uint64_t drawn = draw();
    const uint32_t warps = BLOCK / run.width, from = (uint32_t)(drawn % warps), turn = drawn >> 8 & (run.width - 1);
    const uint32_t left_out = drawn >> 16 & 7; /* of eight warps, this pass */
    const bool greedy = (drawn >> 24 & 3) != 0;
    bool ran = false;
    for (uint32_t w = 0; w < warps && run.error.empty(); w++) {
        if (ran && draw() % 8 < left_out)
            continue;
        const uint32_t first = (w + from) % warps * run.width;
        uint32_t passes = greedy ? 64 : 1;
        while (passes-- > 0 && warp_pass(b, first, turn))
            ran = true;
    }
    return ran;
}

void stuck(const block *b)
{
    for (const lane &l : b->lanes)
        if (l.state == standing::meeting || l.state == standing::waiting) {
            run.error = named(l) + " waits for ever: " + at(l.where);
            return;
        }
}

void prepare(uint32_t resident)
{
    while (run.blocks.size() < resident) {
        run.blocks.emplace_back(new block());
        block *b = run.blocks.back().get();
        b->stacks = static_cast<char *>(aligned_alloc(4096, BLOCK * STACK));
        for (uint32_t t = 0; t < BLOCK; t++)
            b->lanes[t].stack = b->stacks + t * STACK;
    }
}

void blocks_run(uint32_t blocks, uint32_t resident)
{
    std::vector<uint32_t> order(blocks);
    for (uint32_t i = 0; i < blocks; i++)
        order[i] = i;
    for (uint32_t i = blocks; i > 1; i--)
        std::swap(order[i - 1], order[draw() % i]);
    uint32_t begun = 0, ended = 0;
    for (auto &b : run.blocks)
        b->busy = false;
    while (ended < blocks && run.error.empty()) {
        bool ran = false;
        for (uint32_t r = 0; r < resident && run.error.empty(); r++) {
            block *b = run.blocks[r].get();
            if (!b->busy && begun < blocks)
                block_begin(b, order[begun++], blocks);
            if (!b->busy)
                continue;
            ran |= block_pass(b);
            if (b->over == BLOCK) {
                b->busy = false;
                ended++;
            }
        }
        for (uint32_t r = 0; !ran && r < resident && run.error.empty(); r++)
            if (run.blocks[r]->busy)
                stuck(run.blocks[r].get());
    }
}

} // namespace

/* ---- for lanes.h */

const weft_engine::self &weft_engine::current()
{
    return run.now->self;
}

void weft_engine::barrier(const place &here)
{
    block *b = run.in;
    lane *self = run.now;
    if (b->over > 0)
        fail(named(*self) + " comes to " + at(here) + ", others have ended");
    if (b->arrived == 0)
        b->where = here;
    join_check(b->where, here);
    self->where = here;
    self->state = standing::waiting;
    if (++b->arrived < BLOCK) {
        leave();
        return;
    }
    b->arrived = 0;
    for (lane &other : b->lanes)
        other.state = standing::ready;
}

uint64_t weft_engine::ballot(const place &here, bool holds)
{
    const uint64_t *words = meet(here, holds);
    uint64_t mask = 0;
    for (uint32_t l = 0; l < run.width; l++)
        mask |= words[l] << l;
    return mask;
}

uint32_t weft_engine::shuffle(const place &here, uint32_t value, uint32_t lane)
{
    return static_cast<uint32_t>(meet(here, value)[lane]);
}

void *weft_engine::shared(const place &here, size_t bytes)
{
    for (auto &object : run.in->objects)
        if (same(object.where, here))
            return object.memory;
    unsigned char *memory = static_cast<unsigned char *>(malloc(bytes));
    for (size_t i = 0; i < bytes; i++)
        memory[i] = static_cast<unsigned char>(draw());
    run.in->objects.push_back({here, bytes, memory});
    return memory;
}

void weft_engine::step()
{
    if (draw() % 8 == 0)
        leave();
}

const char *weft_emulation_run(const weft_schedule *schedule, weft_emulated kernel, uint32_t blocks, uint64_t argument)
{
    run.random = (schedule->seed + 1) * 0x9e3779b97f4a7c15u | 1;
    run.width = schedule->lanes;
    run.kernel = kernel;
    run.argument = argument;
    run.error.clear();
    uint32_t resident = schedule->resident > 0 ? schedule->resident : 1 + static_cast<uint32_t>(draw() % RESIDENT);
    prepare(resident);
    blocks_run(blocks, resident);
    return run.error.empty() ? nullptr : run.error.c_str();
}
