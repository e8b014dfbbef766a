/* fleet_direct.h - what a file update between two published versions takes, made from the weights themselves. */
#ifndef WEFT_TESTS_FLEET_DIRECT_H
#define WEFT_TESTS_FLEET_DIRECT_H

#include "tests/support/fleet.h"
#include "tests/support/memory_file.h"

/* Versions by their place in the fleet's history. */
static inline uint64_t fleet_direct_bytes(fleet *f, uint64_t base, uint64_t target, const char *level)
{
    weft_diff_options options = {.size = sizeof options, .level = level};
    fleet_model ends[2] = {{0}, {0}};
    memory_file file = {0};
    weft_sink sink = memory_sink(&file);
    for (int i = 0; i < 2; i++) {
        fleet_model_open(&ends[i], f->layout, 0);
        fleet_model_put(&ends[i], f->history[i ? target : base].dense);
    }
    assert_int_equal(weft_diff(f->layout, ends[0].pieces, ends[0].piece_count, ends[1].pieces, ends[1].piece_count,
                               &options, NULL, &sink, NULL),
                     WEFT_OK);
    uint64_t bytes = file.bytes;
    memory_free(&file);
    fleet_model_close(&ends[0]);
    fleet_model_close(&ends[1]);
    return bytes;
}

#endif
