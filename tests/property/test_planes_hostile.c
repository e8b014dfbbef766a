/* Packed frames with flipped bits, lengths cut and directories invented: refused as corrupt, or unpacked to a frame
 * that is whole. Every frame lies in memory of exactly its size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/log.h"
#include "codec/planes.h"
#include "tests/support/unit_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const weft_dtype dtypes[] = {WEFT_U8, WEFT_F8_E4M3, WEFT_BF16, WEFT_F32, WEFT_I64, WEFT_F64};

static weft_packer packer;
static weft_unpacker unpacker;

typedef struct tally {
    uint64_t corrupt;
    uint64_t unpacked;
} tally;

static void attack(const weft_layout *layout, const uint8_t *bytes, uint64_t length, tally *sum)
{
    uint8_t *exact = pair_memory(length);
    weft_frame frame;
    uint64_t taken = 0;
    memcpy(exact, bytes, length);
    weft_status status = weft_planes_admit(&unpacker, layout, exact, length, &frame, &taken);
    assert_true(status == WEFT_OK || status == WEFT_E_CORRUPT);
    if (status == WEFT_OK) {
        const weft_unit *unit = &layout->units[0];
        assert_true(taken <= length);
        if (frame.header.level == WEFT_LEVEL_FULL) {
            assert_int_equal(frame.header.parameters, 0);
            assert_int_equal(frame.header.changed, unit->count);
            assert_int_equal(frame.header.payload_bytes, weft_frame_full_payload(unit->count, unit->width));
            (void)weft_frame_check(frame.payload, frame.header.payload_bytes); /* reads all of it */
        }
    }
    sum->corrupt += status != WEFT_OK;
    sum->unpacked += status == WEFT_OK;
    free(exact);
}

static weft_layout *layout_make(weft_dtype dtype, uint64_t elements)
{
    const weft_tensor tensor = {"t", dtype, 1, &elements};
    weft_layout *layout;
    pair_must(weft_layout_create(&tensor, 1, &layout), "layout");
    return layout;
}

/* A packed frame whose top bytes are few and whose others are noise; its bytes. */
static uint32_t packed_make(const weft_layout *layout, uint64_t *seed, uint8_t *bytes)
{
    const weft_unit *unit = &layout->units[0];
    uint32_t payload = (uint32_t)weft_frame_full_payload(unit->count, unit->width);
    const weft_frame_header header = {0, 1, WEFT_LEVEL_FULL, payload, unit->count, 0};
    weft_frame_write_header(bytes, &header);
    memset(bytes + WEFT_FRAME_HEADER_BYTES, 0, payload);
    for (uint64_t i = 0; i < unit->count; i++) {
        uint64_t noise = pair_random(seed), top = pair_below(seed, 4) * pair_below(seed, 3);
        pair_put(bytes + WEFT_FRAME_HEADER_BYTES, i,
                 noise >> 8 >> (64 - 8 * unit->width) | top << (8 * unit->width - 6), unit->width);
    }
    return weft_planes_pack(&packer, unit, bytes);
}

static void altered_frames_are_harmless(void **state)
{
    (void)state;
    tally sum = {0, 0};
    for (uint64_t round = 0; round < 48; round++) {
        uint64_t seed = round;
        weft_layout *layout = layout_make(dtypes[round % COUNT(dtypes)], round % 5 == 0 ? 60 : 3000);
        uint8_t *good = pair_memory(layout->largest_frame), *bad = pair_memory(layout->largest_frame);
        uint32_t length = packed_make(layout, &seed, good);
        attack(layout, good, length, &sum);
        for (int i = 0; i < 400; i++) {
            memcpy(bad, good, length);
            uint64_t reach = pair_below(&seed, 2) ? 16 + 4u * layout->units[0].width + 40 : length;
            for (uint64_t flips = 1 + pair_below(&seed, 3); flips > 0; flips--) {
                uint64_t at = pair_below(&seed, reach < length ? reach : length);
                bad[at] = pair_below(&seed, 4) == 0 ? (uint8_t)pair_random(&seed)
                                                    : bad[at] ^ (uint8_t)(1u << pair_below(&seed, 8));
            }
            attack(layout, bad, i % 10 ? length : pair_below(&seed, length), &sum);
        }
        free(good);
        free(bad);
        weft_layout_free(layout);
    }
    assert_true(sum.corrupt > 1000);
    assert_true(sum.unpacked > 1000);
}

/* Directories that fit their payload, over planes of noise, some after zstd's magic number. */
static void invented_directories_are_harmless(void **state)
{
    (void)state;
    tally sum = {0, 0};
    for (uint64_t round = 0; round < 4000; round++) {
        uint64_t seed = 4242 + round;
        weft_layout *layout = layout_make(dtypes[round % COUNT(dtypes)], 1 + pair_below(&seed, 200));
        const weft_unit *unit = &layout->units[0];
        uint8_t *bytes = pair_memory(2 * (uint64_t)layout->largest_frame + 64);
        uint64_t used = 16 + 4u * (uint64_t)unit->width;
        for (uint32_t p = 0; p < unit->width; p++) {
            static const uint8_t start[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20};
            uint64_t kind = pair_below(&seed, 3);
            uint64_t size = kind == 0 ? unit->count : kind == 1 ? 1 : pair_below(&seed, unit->count);
            weft_bytes_put(bytes + 16 + 4 * (uint64_t)p, size | kind << 24, 4);
            for (uint64_t i = 0; i < size; i++)
                bytes[used + i] = kind == 2 && i < 5    ? start[i]
                                  : kind == 2 && i == 5 ? (uint8_t)unit->count
                                                        : (uint8_t)pair_random(&seed);
            used += size;
        }
        weft_frame_header header = {0, 1, WEFT_LEVEL_FULL, (uint32_t)weft_frame_pad(used - 16), unit->count, 1};
        weft_frame_write_header(bytes, &header);
        attack(layout, bytes, 16 + header.payload_bytes, &sum);
        free(bytes);
        weft_layout_free(layout);
    }
    assert_true(sum.corrupt > 1000);
    assert_true(sum.unpacked > 100);
}

static int group_open(void **state)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    (void)state;
    weft_log_enter(&quiet);
    return weft_packer_open(&packer) != WEFT_OK || weft_unpacker_open(&unpacker) != WEFT_OK;
}

static int group_close(void **state)
{
    (void)state;
    weft_unpacker_close(&unpacker);
    weft_packer_close(&packer);
    weft_log_enter(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(altered_frames_are_harmless),
        cmocka_unit_test(invented_directories_are_harmless),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}
