/* The totals that descriptors of level tight may name: as many members as there are changes, and none more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "codec/tight.h"

#define CHANGED 6u

static weft_status read_again(const weft_tight_shape *shape)
{
    uint8_t payload[64] = {0};
    const weft_frame_header header = {.level = WEFT_LEVEL_TIGHT,
                                      .units = 1,
                                      .changed = CHANGED,
                                      .parameters = weft_tight_parameters(shape),
                                      .payload_bytes = sizeof payload};
    weft_tight_shape read;
    weft_tight_write_lists(shape, payload);
    return weft_tight_shape_read(&header, payload, WEFT_CLASS_MAX, &read);
}

static void totals_up_to_the_changes(void **state)
{
    (void)state;
    weft_tight_shape shape = {.changed = CHANGED, .positioned = 5, .exceptional = 5};
    uint32_t *const members[] = {&shape.positions[2].members, &shape.exceptions[2].members, &shape.further.members};
    shape.positions[0].members = shape.exceptions[0].members = 2;
    shape.positions[2].members = shape.exceptions[2].members = CHANGED - 2;
    shape.further.members = CHANGED;
    assert_int_equal(read_again(&shape), WEFT_OK);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        ++*members[i];
        assert_int_equal(read_again(&shape), WEFT_E_CORRUPT);
        --*members[i];
    }
}

/* Each descriptor of its own: masks, words, and how many bytes there are for them. */
static void descriptors_are_bounded(void **state)
{
    static const struct {
        uint32_t positioned, exceptional, members, low_bits, bytes;
        weft_status status;
    } rows[] = {
        {1, 0, 1, WEFT_TIGHT_LOW_MAX, 64, WEFT_OK},
        {1, 0, 1, WEFT_TIGHT_LOW_MAX + 1, 64, WEFT_E_CORRUPT},
        {1, 0, 0, 0, 64, WEFT_OK},
        {1, 0, 0, 1, 64, WEFT_E_CORRUPT}, /* no members, so nothing else */
        {1, 1, 1, 0, 64, WEFT_OK},
        {1, 2, 1, 0, 64, WEFT_E_CORRUPT}, /* exceptions of what has no positions */
        {3, 0, 1, 0, 4, WEFT_E_CORRUPT},  /* two descriptors have six bytes */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint32_t word = rows[i].members | rows[i].low_bits << 18;
        uint8_t *payload = calloc(rows[i].bytes, 1); /* of this size, so that a read beyond it is seen */
        const weft_frame_header header = {.level = WEFT_LEVEL_TIGHT,
                                          .units = 1,
                                          .changed = CHANGED,
                                          .parameters = rows[i].positioned | rows[i].exceptional << WEFT_CLASS_MAX,
                                          .payload_bytes = rows[i].bytes};
        weft_tight_shape read;
        memcpy(payload, &word, 3);
        assert_int_equal(weft_tight_shape_read(&header, payload, WEFT_CLASS_MAX, &read), rows[i].status);
        if (rows[i].bytes == 4)
            assert_non_null(strstr(weft_last_error(), "cannot hold its lists"));
        free(payload);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(totals_up_to_the_changes),
                                       cmocka_unit_test(descriptors_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
