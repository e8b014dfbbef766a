/* Arrivals are counted into the slots of the connection that is there: what a write of an older one raises is passed
 * over, whatever it names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rollout/rollout.h"

#define SLOTS   2u
#define PAYLOAD 4096u
#define EPOCH   7u

static const uint64_t hash[2] = {0x1716151413121110, 0x1f1e1d1c1b1a1918};
static const weft_slots_law law = {hash, EPOCH, 99};
static weft_slots slots;

static int open_slots(void **state)
{
    (void)state;
    slots = (weft_slots){.count = SLOTS, .payload = PAYLOAD, .stride = weft_slots_stride(PAYLOAD)};
    slots.bytes = SLOTS * slots.stride;
    slots.memory = calloc(1, slots.bytes);
    slots.slot = calloc(SLOTS, sizeof *slots.slot);
    return !slots.memory || !slots.slot;
}

static int close_slots(void **state)
{
    (void)state;
    free(slots.memory);
    free(slots.slot);
    return 0;
}

/* A bucket of two chunks, which lies in slot 0. */
static const weft_wire_bucket two = {.layout = {0x1716151413121110, 0x1f1e1d1c1b1a1918},
                                     .incarnation = 99,
                                     .base = {1, 1, 1},
                                     .target = {1, 2, 0},
                                     .epoch = EPOCH,
                                     .chunks = 2,
                                     .payload_bytes = 100,
                                     .frames = 1};

static void lay_header(uint32_t at)
{
    weft_wire_bucket bucket = two;
    bucket.slot = at;
    weft_wire_put_bucket(slots.memory + at * slots.stride, &bucket);
}

static uint32_t counted(void)
{
    uint32_t sum = 0;
    for (uint32_t at = 0; at < SLOTS; at++)
        sum += slots.slot[at].count;
    return sum;
}

static weft_status count(uint32_t epoch, uint32_t at, uint32_t chunk)
{
    return weft_slots_count(&slots, &law, 0, weft_wire_immediate(epoch, at, chunk), 1);
}

/* Arrivals of every other epoch: a chunk, the header, no slot at all, and twice. */
static void of_other_connections(void **state)
{
    (void)state;
    lay_header(0);
    for (uint32_t epoch = 0; epoch < 256; epoch++) {
        if (epoch == EPOCH)
            continue;
        for (int twice = 0; twice < 2; twice++) {
            assert_int_equal(count(epoch, 0, 1), WEFT_OK);
            assert_int_equal(count(epoch, 1, 0), WEFT_OK);
            assert_int_equal(count(epoch, SLOTS, 3), WEFT_OK);
        }
        assert_int_equal(counted(), 0);
    }
    assert_int_equal(count(EPOCH, 0, 0), WEFT_OK); /* and this bucket is whole by its own chunks alone */
    assert_int_equal(count(EPOCH, 0, 1), WEFT_OK);
    assert_int_equal(slots.slot[0].whole_ns, 0);
    assert_int_equal(count(EPOCH - 1, 0, 2), WEFT_OK);
    assert_int_equal(slots.slot[0].whole_ns, 0);
    assert_int_equal(count(EPOCH, 0, 2), WEFT_OK);
    assert_int_equal(slots.slot[0].whole_ns, 1);
}

static void of_this_connection(void **state)
{
    (void)state;
    lay_header(0);
    assert_int_equal(count(EPOCH, 0, 2), WEFT_OK);
    assert_int_equal(count(EPOCH, 0, 2), WEFT_E_PROTOCOL);
    assert_int_equal(count(EPOCH, SLOTS, 1), WEFT_E_PROTOCOL);
    assert_int_equal(count(EPOCH, WEFT_SLOT_PROBE, 0), WEFT_OK);
    assert_int_equal(counted(), 1);
}

static void headers_of_something_else(void **state)
{
    weft_wire_bucket lies[] = {two, two, two, two};
    (void)state;
    lies[0].slot = 1;
    lies[1].epoch = EPOCH + 1;
    lies[2].incarnation++;
    lies[3].payload_bytes = PAYLOAD + 1;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        weft_wire_put_bucket(slots.memory, &lies[i]);
        memset(slots.slot, 0, SLOTS * sizeof *slots.slot);
        assert_int_equal(count(EPOCH, 0, 0), WEFT_E_PROTOCOL);
        assert_false(slots.slot[0].has_header);
    }
    lay_header(0);
    memset(slots.slot, 0, SLOTS * sizeof *slots.slot);
    for (uint32_t chunk = 1; chunk <= 3; chunk++)
        assert_int_equal(count(EPOCH, 0, chunk), WEFT_OK);
    assert_int_equal(count(EPOCH, 0, 0), WEFT_E_PROTOCOL); /* which says that there are two */
}

/* What came by a port that is closed is forgotten, but for a bucket that is whole, which the trainer hears of. */
static void of_a_closed_port(void **state)
{
    uint8_t whole[WEFT_SLOTS_MAX / 8];
    (void)state;
    for (uint32_t at = 0; at < SLOTS; at++) {
        lay_header(at);
        for (uint32_t chunk = 0; chunk < 2 + at; chunk++)
            assert_int_equal(weft_slots_count(&slots, &law, chunk == 0, weft_wire_immediate(EPOCH, at, chunk), 1),
                             WEFT_OK);
    }
    weft_slots_forget(&slots, 1, whole);
    assert_int_equal(whole[0], 1u << 1);
    assert_true(slots.slot[1].has_header && slots.slot[1].count == 3);
    assert_true(!slots.slot[0].has_header && slots.slot[0].count == 1);
    assert_int_equal(count(EPOCH, 0, 0), WEFT_OK); /* comes again */
    weft_slots_forget(&slots, 0, whole);
    assert_int_equal(slots.slot[0].count, 0); /* nor is there anything by the other port */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(of_other_connections, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(of_this_connection, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(headers_of_something_else, open_slots, close_slots),
        cmocka_unit_test_setup_teardown(of_a_closed_port, open_slots, close_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
