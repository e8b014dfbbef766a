/* Copies past the caches: every byte arrives, and none beside them is touched, at all places in a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu_copy_away.h"

enum { LINE = 64, LONGEST = 4 * LINE, ROOM = LONGEST + 2 * LINE };

static void copy_check(uint32_t from_at, uint32_t to_at, uint32_t bytes)
{
    _Alignas(64) uint8_t from[ROOM], to[ROOM], wanted[ROOM];
    for (uint32_t i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    memset(to, 0xee, ROOM);
    memset(wanted, 0xee, ROOM);
    memcpy(wanted + to_at, from + from_at, bytes);
    weft_gpu_copy_away(to + to_at, from + from_at, bytes);
    weft_gpu_copy_away_end();
    assert_memory_equal(to, wanted, ROOM);
}

static void bytes_arrive_at_all_places(void **state)
{
    (void)state;
    for (uint32_t to_at = 0; to_at < LINE; to_at++) {
        for (uint32_t bytes = 0; bytes <= LONGEST; bytes++)
            copy_check((to_at * 5 + bytes) % LINE, to_at, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_arrive_at_all_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
