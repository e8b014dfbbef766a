/* host_portable.c - the kernel set in plain C: the judge of every other set and of every device. */
#include "backends/host/fast/host_fast_loops.h"
#include "backends/host/host_kernels.h"
#include "backends/host/host_loops.h"

#define PORTABLE(W)                                                                                                    \
    static uint32_t portable_diff_##W(const uint8_t *now, const uint8_t *shadow, uint32_t count, uint32_t first,       \
                                      uint32_t *position, uint8_t *before, uint8_t *after)                             \
    {                                                                                                                  \
        return weft_loop_diff(now, shadow, count, first, position, before, after, W);                                  \
    }                                                                                                                  \
    static uint64_t portable_digest_##W(const uint8_t *data, uint64_t element, uint64_t count)                         \
    {                                                                                                                  \
        return weft_loop_digest(data, element, count, W);                                                              \
    }                                                                                                                  \
    static uint64_t portable_delta_##W(const uint32_t *position, uint64_t origin, const uint8_t *before,               \
                                       const uint8_t *after, uint32_t count)                                           \
    {                                                                                                                  \
        return weft_loop_delta(position, origin, before, after, count, W);                                             \
    }                                                                                                                  \
    WEFT_LOOPS_GATHER(portable, W)                                                                                     \
    WEFT_LOOPS_PUT(portable, W)                                                                                        \
    WEFT_LOOPS_STEPS(portable, W)                                                                                      \
    WEFT_LOOPS_FIELDS(portable, W)

static void portable_cast(const uint8_t *from, uint64_t count, uint8_t *to)
{
    weft_loop_cast(from, count, to, WEFT_CAST_BF16);
}

static void portable_cast_half(const uint8_t *from, uint64_t count, uint8_t *to)
{
    weft_loop_cast(from, count, to, WEFT_CAST_F16);
}

PORTABLE(1)
PORTABLE(2)
PORTABLE(4)
PORTABLE(8)
WEFT_LOOPS_FAST(portable)

const weft_host_kernels weft_host_portable = {
    .name = "portable",
    .diff = WEFT_SLOTS(portable, diff),
    .cast = {[WEFT_CAST_BF16] = portable_cast, [WEFT_CAST_F16] = portable_cast_half},
    .digest = WEFT_SLOTS(portable, digest),
    .delta = WEFT_SLOTS(portable, delta),
    .gather = WEFT_SLOTS(portable, gather),
    .scatter = WEFT_SLOTS(portable, scatter),
    .swap = WEFT_SLOTS(portable, swap),
    .step = WEFT_SLOTS(portable, step),
    .exceptions = WEFT_SLOTS(portable, exceptions),
    .gap_sum = portable_gap_sum,
    .fields = WEFT_SLOTS(portable, fields),
    .gap_lows = portable_gap_lows,
    .gap_ones = portable_gap_ones,
    .gaps = WEFT_SLOTS(portable, gaps),
    .gap_places = portable_gap_places,
};
