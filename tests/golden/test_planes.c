/* Full frames in byte planes: planes_plain.bin and planes_steps_plain.bin, which have no plane of zstd's, are packed
 * byte for byte; planes_zstd.bin and planes_steps_zstd.bin only have to be read, since zstd's bytes depend on its
 * version; the bad ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include "codec/planes.h"
#include "tests/support/golden_files.h"

#define PLAIN    64u
#define REGULAR  600u
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *file;
    const char *from; /* the good file it was made of */
    uint32_t at;      /* this byte .. */
    uint8_t byte;     /* .. is this one */
    const char *words;
} bad[] = {
    {"bad_planes_parameters.bin", "planes_plain.bin", 12, 0x04, "full has parameters 0 to 3"},
    {"bad_planes_steps_words.bin", "planes_steps_plain.bin", 12, 0x03, "76 bytes, 128 expected"},
    {"bad_planes_steps_kind.bin", "planes_steps_plain.bin", 16 + 3, 0x03, "plane 0 of kind 3"},
    {"bad_planes_steps_end.bin", "planes_steps_plain.bin", 4, 0x48, "planes reach to byte 73 of 72"},
    {"bad_planes_steps_padding.bin", "planes_steps_plain.bin", 16 + 74, 0x80, "padding byte 74 is 0x80"},
    {"bad_planes_kind.bin", "planes_plain.bin", 16 + 7, 0x03, "plane 1 of kind 3"},
    {"bad_planes_reserved.bin", "planes_plain.bin", 16 + 3, 0x80, "plane 0 of kind 128"},
    {"bad_planes_length.bin", "planes_plain.bin", 16, 0x3f, "plane 0 of kind 0 has 63 bytes for 64 elements"},
    {"bad_planes_end.bin", "planes_plain.bin", 4, 0x48, "planes reach to byte 73 of 72"},
    {"bad_planes_padding.bin", "planes_plain.bin", 16 + 75, 0x01, "padding byte 75 is 0x01"},
    {"bad_planes_zstd.bin", "planes_zstd.bin", 0, 0, "plane 1 is no zstd frame of 600 bytes"},
};

static weft_layout *layout;
static weft_packer packer;
static weft_unpacker unpacker;
static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

/* The elements: unit 0 from 1.0 on in steps of one bit; unit 1 with exponents that halve in number as they fall, and
 * signs and mantissas that look random. */
static uint16_t element(uint32_t unit, uint32_t i)
{
    uint32_t noise = (i + 1) * 2654435761u;
    noise ^= noise >> 15;
    noise *= 2246822519u;
    if (unit == 0)
        return (uint16_t)(0x3f80 + i);
    uint32_t exponent = 0x7a;
    for (uint32_t bits = noise >> 8; bits % 2 == 0 && exponent > 0x70; bits /= 2)
        exponent--;
    return (uint16_t)((noise >> 31) << 15 | exponent << 7 | (noise & 0x7f));
}

/* The step of an element from a base of zeros; none goes down further than the most negative float. */
static uint16_t step(uint32_t unit, uint32_t i)
{
    const uint16_t bits = element(unit, i);
    return bits & 0x8000 ? bits ^ 0x7fff : bits;
}

static uint64_t pack(uint32_t unit, bool steps, uint8_t bytes[GOLDEN_MOST])
{
    const weft_unit *of = &layout->units[unit];
    uint32_t payload = (uint32_t)weft_frame_full_payload(of->count, of->width);
    const weft_frame_header header = {unit,    1,         WEFT_LEVEL_FULL,
                                      payload, of->count, steps ? WEFT_FULL_STEPS : WEFT_FULL_BITS};
    memset(bytes, 0, GOLDEN_MOST);
    weft_frame_write_header(bytes, &header);
    for (uint32_t i = 0; i < of->count; i++) {
        uint16_t bits = steps ? step(unit, i) : element(unit, i);
        memcpy(bytes + WEFT_FRAME_HEADER_BYTES + 2 * (uint64_t)i, &bits, 2);
    }
    return weft_planes_pack(&packer, of, bytes);
}

static void gives_its_elements(const char *name, uint32_t unit, bool steps)
{
    uint8_t bytes[GOLDEN_MOST];
    uint64_t count = golden_read(name, bytes), length;
    weft_frame frame;
    if (weft_planes_admit(&unpacker, layout, bytes, count, &frame, &length) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error());
    assert_int_equal(length, count);
    assert_int_equal(frame.header.unit, unit);
    assert_int_equal(frame.header.parameters, steps ? WEFT_FULL_STEPS : WEFT_FULL_BITS);
    for (uint32_t i = 0; i < layout->units[unit].count; i++) {
        uint16_t bits;
        memcpy(&bits, frame.payload + 2 * (uint64_t)i, 2);
        assert_int_equal(bits, steps ? step(unit, i) : element(unit, i));
    }
}

/* Files about the frames, for readers in other languages. The base is zeros. */
static void layout_and_bits_are_these_bytes(void **state)
{
    (void)state;
    uint8_t bytes[GOLDEN_MOST] = {0};
    uint16_t elements[PLAIN + REGULAR];
    golden_is("base_planes.bin", bytes, sizeof elements);
    assert_true(weft_layout_wire_bytes(layout) <= GOLDEN_MOST);
    weft_layout_write(layout, bytes);
    golden_is("layout_planes.bin", bytes, weft_layout_wire_bytes(layout));
    for (uint32_t i = 0; i < PLAIN + REGULAR; i++)
        elements[i] = i < PLAIN ? element(0, i) : element(1, i - PLAIN);
    golden_is("target_planes.bin", (const uint8_t *)elements, sizeof elements);
}

static void plain_planes_are_these_bytes(void **state)
{
    (void)state;
    uint8_t made[GOLDEN_MOST];
    golden_is("planes_plain.bin", made, pack(0, false, made));
    gives_its_elements("planes_plain.bin", 0, false);
    golden_is("planes_steps_plain.bin", made, pack(0, true, made));
    gives_its_elements("planes_steps_plain.bin", 0, true);
}

static void kept_zstd_gives_its_elements(void **state)
{
    (void)state;
    const char *const names[] = {"planes_zstd.bin", "planes_steps_zstd.bin"};
    for (uint32_t steps = 0; steps < 2; steps++) {
        uint8_t made[GOLDEN_MOST];
        uint64_t count = pack(1, steps, made);
        assert_true(count < WEFT_FRAME_HEADER_BYTES + 2 * REGULAR * 7 / 8);
        if (golden_writing())
            golden_write(names[steps], made, count);
        gives_its_elements(names[steps], 1, steps);
    }
}

static void bad_planes_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint8_t bytes[GOLDEN_MOST];
        uint64_t count = golden_read(bad[i].from, bytes), length;
        weft_frame frame;
        bytes[bad[i].at ? bad[i].at : 16 + 8 + REGULAR] = bad[i].byte; /* 0: the magic number after plane 0 */
        if (golden_writing())
            golden_write(bad[i].file, bytes, count);
        count = golden_read(bad[i].file, bytes);
        weft_status status = weft_planes_admit(&unpacker, layout, bytes, count, &frame, &length);
        if (status != WEFT_E_CORRUPT || !strstr(weft_last_error(), bad[i].words))
            fail_msg("%s: %s, \"%s\" does not say \"%s\"", bad[i].file, weft_status_name(status), weft_last_error(),
                     bad[i].words);
    }
}

static int group_open(void **state)
{
    (void)state;
    const uint64_t plain = PLAIN, regular = REGULAR;
    const weft_tensor tensors[] = {{"plain", WEFT_BF16, 1, &plain}, {"regular", WEFT_F16, 1, &regular}};
    weft_log_enter(&quiet);
    return weft_layout_create(tensors, 2, &layout) != WEFT_OK || weft_packer_open(&packer) != WEFT_OK ||
           weft_unpacker_open(&unpacker) != WEFT_OK;
}

static int group_close(void **state)
{
    (void)state;
    weft_unpacker_close(&unpacker);
    weft_packer_close(&packer);
    weft_layout_free(layout);
    weft_log_enter(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_and_bits_are_these_bytes),
        cmocka_unit_test(plain_planes_are_these_bytes),
        cmocka_unit_test(kept_zstd_gives_its_elements),
        cmocka_unit_test(bad_planes_are_refused),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}
