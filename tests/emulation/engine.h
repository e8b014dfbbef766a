/* engine.h - what lanes.h asks of the engine that runs the lanes. */
#ifndef WEFT_TESTS_EMULATION_ENGINE_H
#define WEFT_TESTS_EMULATION_ENGINE_H

#include <cstddef>
#include <cstdint>

namespace weft_engine
{

/* The place in the source where a lane stands. */
struct place {
    const char *file;
    int line;
    const char *what;
};

/* Numbers of the calling lane. */
struct self {
    uint32_t thread, block, blocks;
};
const self &current();

void barrier(const place &here);
uint64_t ballot(const place &here, bool holds);
uint32_t shuffle(const place &here, uint32_t value, uint32_t lane);

/* Memory of the block for the object declared here: the same for all its threads, noise at first. */
void *shared(const place &here, size_t bytes);

/* Called ahead of an atomic operation: others may come first. */
void step();

} // namespace weft_engine

#endif
