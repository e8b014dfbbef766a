/* The totals that descriptors of level tight may name: as many members as there are changes, and none more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(totals_up_to_the_changes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
