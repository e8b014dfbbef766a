#include "tests/support/golden_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const golden_good golden_good_rows[] = {
    {"full.bin", 0, WEFT_LEVEL_FULL, false},     {"steps.bin", 0, WEFT_LEVEL_FULL, true},
    {"steps_f32.bin", 1, WEFT_LEVEL_FULL, true}, {"pairs.bin", 0, WEFT_LEVEL_PAIRS, false},
    {"fast.bin", 0, WEFT_LEVEL_FAST, false},     {"fast_f32.bin", 1, WEFT_LEVEL_FAST, false},
    {"tight.bin", 0, WEFT_LEVEL_TIGHT, false},   {"tight_f32.bin", 1, WEFT_LEVEL_TIGHT, false},
};
const size_t golden_good_count = sizeof golden_good_rows / sizeof *golden_good_rows;

const golden_bad golden_bad_rows[] = {
    {"bad_level.bin", "fast.bin", 7, 0x04, 0, WEFT_E_CORRUPT, "unknown level"},
    {"bad_reserved.bin", "fast.bin", 7, 0x12, 0, WEFT_E_CORRUPT, "reserved bits"},
    {"bad_unit.bin", "fast.bin", 0, 0x02, 0, WEFT_E_CORRUPT, "the layout has 2 units"},
    {"bad_changed.bin", "full.bin", 8, 0x3f, 0, WEFT_E_CORRUPT, "full with 63 of 64"},
    {"bad_full_parameters.bin", "full.bin", 12, 0x04, 0, WEFT_E_CORRUPT, "level full has parameters 0 to 3"},
    {"bad_steps_changed.bin", "steps.bin", 8, 0x3f, 0, WEFT_E_CORRUPT, "full with 63 of 64"},
    {"bad_steps_length.bin", "steps.bin", 4, 0x7c, 0, WEFT_E_CORRUPT, "124 bytes, 128 expected"},
    {"bad_steps_cut.bin", "steps_f32.bin", 0, 0x01, 4, WEFT_E_CORRUPT, "are there"},
    {"bad_steps_units.bin", "steps.bin", 10, 0x10, 0, WEFT_E_CORRUPT, "2 units in one frame (full)"},
    {"bad_steps_pairs.bin", "pairs.bin", 12, 0x03, 0, WEFT_E_CORRUPT, "level pairs has no parameters"},
    {"bad_exceptions.bin", "fast.bin", 12, 0x06, 0, WEFT_E_CORRUPT, "6 exceptions among 5"},
    {"bad_cut.bin", "fast.bin", 0, 0x00, 4, WEFT_E_CORRUPT, "are there"},
    {"bad_position.bin", "pairs.bin", 16 + 16, 0x40, 0, WEFT_E_CORRUPT, "position 64 of 64"},
    {"bad_order.bin", "pairs.bin", 16 + 8, 0x11, 0, WEFT_E_CORRUPT, "position 17 after 17"},
    {"bad_unary.bin", "fast.bin", 16 + 4, 0x00, 0, WEFT_E_CORRUPT, "position 119 of 64"},
    {"bad_end.bin", "fast.bin", 16 + 5, 0x00, 0, WEFT_E_CORRUPT, "unary plane runs past"},
    {"bad_padding.bin", "fast.bin", 16 + 7, 0x80, 0, WEFT_E_CORRUPT, "padding that is not zero"},
    {"bad_units.bin", "fast.bin", 10, 0x10, 0, WEFT_E_CORRUPT, "not of one dtype"},
    {"bad_units_many.bin", "tight.bin", 11, 0x04, 0, WEFT_E_CORRUPT, "65 units"},
    {"bad_units_pairs.bin", "pairs.bin", 10, 0x10, 0, WEFT_E_CORRUPT, "2 units in one frame (pairs)"},
    {"bad_gap_bits.bin", "fast.bin", 14, 0xf0, 0, WEFT_E_CORRUPT, "gap parameter 15"},
    {"bad_tight_subset.bin", "tight.bin", 14, 0x01, 0, WEFT_E_CORRUPT, "masks 0x2 and 0x1"},
    {"bad_tight_length.bin", "tight.bin", 16 + 2, 0x0e, 0, WEFT_E_CORRUPT, "131077 members"},
    {"bad_tight_low_bits.bin", "tight.bin", 16 + 8, 0x04, 0, WEFT_E_CORRUPT, "0 members with 1 low bits"},
    {"bad_tight_ranks.bin", "tight.bin", 16, 0x06, 0, WEFT_E_CORRUPT, "lists of 6, 2 and 0 members for 5"},
    {"bad_tight_rank.bin", "tight.bin", 16 + 12, 0x00, 0, WEFT_E_CORRUPT, "rank 75 among 64"},
    {"bad_tight_unary.bin", "tight.bin", 16 + 14, 0x00, 0, WEFT_E_CORRUPT, "past"},
    {"bad_tight_directions.bin", "tight.bin", 16 + 9, 0x2a, 0, WEFT_E_CORRUPT, "padding that is not zero"},
    {"bad_tight_padding.bin", "tight.bin", 16 + 15, 0x05, 0, WEFT_E_CORRUPT, "padding that is not zero"},
    {"bad_base_count.bin", "tight.bin", 8, 0x06, 0, WEFT_E_BASE, "5 changes, the frame has 6"},
    {"bad_base_rank.bin", "tight.bin", 16 + 13, 0xc2, 0, WEFT_E_BASE, "not its base"},
};
const size_t golden_bad_count = sizeof golden_bad_rows / sizeof *golden_bad_rows;

bool golden_writing(void)
{
    const char *wanted = getenv("WEFT_GOLDEN_WRITE");
    return wanted && strcmp(wanted, "1") == 0;
}

static FILE *golden_open(const char *name, const char *mode)
{
    char path[512];
    const char *source = getenv("WEFT_SOURCE");
    snprintf(path, sizeof path, "%s/tests/golden/%s", source && source[0] ? source : ".", name);
    FILE *file = fopen(path, mode);
    if (!file)
        fail_msg("%s cannot be opened; WEFT_SOURCE says where the sources are", path);
    return file;
}

uint64_t golden_read(const char *name, uint8_t bytes[GOLDEN_MOST])
{
    FILE *file = golden_open(name, "rb");
    uint64_t count = fread(bytes, 1, GOLDEN_MOST, file);
    fclose(file);
    return count;
}

void golden_write(const char *name, const void *bytes, uint64_t count)
{
    FILE *file = golden_open(name, "wb");
    if (fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        fail_msg("%s cannot be written", name);
}

void golden_is(const char *name, const void *bytes, uint64_t count)
{
    uint8_t kept[GOLDEN_MOST];
    if (golden_writing())
        golden_write(name, bytes, count);
    if (golden_read(name, kept) != count || memcmp(kept, bytes, count) != 0)
        fail_msg("%s: these are other bytes", name);
}
