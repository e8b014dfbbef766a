/* broken.cpp - kernels with faults that the engine must find, and sound ones that must pass. */
#include "tests/emulation/broken.h"
#include "tests/emulation/lanes.h"

namespace
{

struct words {
    uint32_t word[WEFT_BLOCK];
};

/* Each thread writes what its neighbour left in shared memory, the sum over its warp and the mask of even lanes. */
void sound(uint64_t argument)
{
    uint64_t *out = WEFT_AT(uint64_t, argument) + 3 * (weft_block() * WEFT_BLOCK + weft_thread());
    WEFT_SHARED(words, left);
    left.word[weft_thread()] = weft_thread() * 7;
    weft_barrier();
    out[0] = left.word[(weft_thread() + 1) % WEFT_BLOCK];
    uint32_t sum = weft_thread();
    for (uint32_t step = WEFT_LANES / 2; step > 0; step /= 2)
        sum += weft_shuffle(sum, weft_lane() ^ step);
    out[1] = sum;
    out[2] = weft_ballot(weft_lane() % 2 == 0);
}

void add(uint64_t argument)
{
    weft_add64(WEFT_AT(uint64_t, argument), weft_thread());
}

/* Half of a warp is missing. */
void ballot_in_branch(uint64_t)
{
    if (weft_lane() < WEFT_LANES / 2)
        weft_ballot(true);
}

/* All of them come, but to two different ones. */
void ballots_in_branches(uint64_t)
{
    if (weft_lane() % 2 == 0)
        weft_ballot(true);
    else
        weft_ballot(false);
}

void barrier_in_branch(uint64_t)
{
    if (weft_thread() != 77)
        weft_barrier();
}

void barriers_in_branches(uint64_t)
{
    if (weft_thread() < WEFT_BLOCK / 2)
        weft_barrier();
    else
        weft_barrier();
}

void barrier_for_ballot(uint64_t)
{
    if (weft_lane() == 0)
        weft_barrier();
    else
        weft_ballot(true);
}

/* Reads what another warp has perhaps not written yet. */
void barrier_missing(uint64_t argument)
{
    WEFT_SHARED(words, left);
    left.word[weft_thread()] = weft_thread();
    WEFT_AT(uint32_t, argument)
    [weft_block() * WEFT_BLOCK + weft_thread()] = left.word[(weft_thread() + WEFT_LANES) % WEFT_BLOCK];
}

} // namespace

#if WEFT_LANES == 32
#define TABLE weft_broken_32
#else
#define TABLE weft_broken_64
#endif

const weft_emulated TABLE[] = {sound,
                               add,
                               ballot_in_branch,
                               ballots_in_branches,
                               barrier_in_branch,
                               barriers_in_branches,
                               barrier_for_ballot,
                               barrier_missing};
