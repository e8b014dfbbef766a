/* The frames in this folder: encoding gives the good ones byte for byte, decoding gives their bits, the bad ones are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/status.h"
#include "tests/support/golden_files.h"

#define BF16_COUNT 64u
#define F32_COUNT  100u
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

/* Base and target of both units: "example", 64 bf16 from 1.0 on in steps of one; "wide", 100 f32. */
typedef struct bits {
    uint16_t example[BF16_COUNT];
    uint32_t wide[F32_COUNT];
} bits;

/* Two classes of bf16 and four of f32, on both sides of the magnitude bases. */
static const uint16_t words[] = {0, 7 | 2 << 8, 0x80, 0x7f, 8 | 4 << 8, 0x79, 0x79, 0x7a, 0x7b};

static weft_layout *layout;
static weft_backend_state *backend;
static weft_binding base_binding, target_binding;
static weft_parameters parameters;
static bits base, target;
static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

static void bits_make(void)
{
    const struct {
        uint32_t position;
        int step;
    } example[] = {{3, 1}, {17, -1}, {18, 1}, {40, -5}, {63, 2}};
    for (uint32_t i = 0; i < BF16_COUNT; i++)
        base.example[i] = (uint16_t)(0x3f80 + i);
    for (uint32_t i = 0; i < F32_COUNT; i++)
        base.wide[i] = (i % 2 ? 0x80000000u : 0u) | (0x3c000000u + i * 0x01010101u % 0x02000000u);
    target = base;
    for (size_t i = 0; i < COUNT(example); i++)
        target.example[example[i].position] = (uint16_t)(target.example[example[i].position] + example[i].step);
    for (uint32_t i = 5; i < F32_COUNT; i += 9)
        target.wide[i] += (i % 4 < 2 ? 1u : UINT32_MAX) * (1u + i * i * 7);
    target.wide[50] ^= 0x80000000u;
    target.wide[51] = 0x7fc00123;
}

static weft_status images_bind(bits *from, weft_binding *binding)
{
    const weft_piece pieces[] = {{0, 0, BF16_COUNT, from->example}, {1, 0, F32_COUNT, from->wide}};
    return weft_binding_open(layout, pieces, 2, binding);
}

static int group_open(void **state)
{
    (void)state;
    const uint64_t example = BF16_COUNT, wide = F32_COUNT;
    const weft_tensor tensors[] = {{"example", WEFT_BF16, 1, &example}, {"wide", WEFT_F32, 1, &wide}};
    const weft_backend_options options = {.device = -1, .kernels = "auto"};
    weft_log_enter(&quiet);
    bits_make();
    if (weft_parameters_read(words, COUNT(words), &parameters) != WEFT_OK)
        return 1;
    return weft_layout_create(tensors, 2, &layout) != WEFT_OK || images_bind(&base, &base_binding) != WEFT_OK ||
           images_bind(&target, &target_binding) != WEFT_OK || weft_backend_host.open(&options, &backend) != WEFT_OK;
}

static int group_close(void **state)
{
    (void)state;
    weft_backend_host.close(backend);
    weft_binding_close(&base_binding);
    weft_binding_close(&target_binding);
    weft_layout_free(layout);
    weft_log_enter(NULL);
    return 0;
}

/* A word of a tensor, and its place in the order of the floats. */
static uint64_t place(const void *words, uint32_t i, uint32_t width)
{
    uint64_t x = weft_bytes_get((const uint8_t *)words + (uint64_t)i * width, width);
    const uint64_t top = UINT64_C(1) << (8 * width - 1);
    return x & top ? x ^ (top - 1) : x;
}

/* By the law alone: an encoder has smaller frames for these. */
static uint64_t steps(const golden_good *g, uint8_t *bytes)
{
    const uint32_t count = layout->units[g->unit].count, width = layout->units[g->unit].width;
    const weft_frame_header header = {g->unit, 1, WEFT_LEVEL_FULL, count * width, count, WEFT_FULL_STEPS};
    const void *from = g->unit ? (const void *)base.wide : base.example;
    const void *to = g->unit ? (const void *)target.wide : target.example;
    weft_frame_write_header(bytes, &header);
    for (uint32_t i = 0; i < count; i++)
        weft_bytes_put(bytes + WEFT_FRAME_HEADER_BYTES + (uint64_t)i * width,
                       place(to, i, width) - place(from, i, width), width);
    return WEFT_FRAME_HEADER_BYTES + header.payload_bytes;
}

static uint64_t encode(const golden_good *g, uint8_t *bytes)
{
    if (g->steps)
        return steps(g, bytes);
    uint64_t ignored[2] = {0};
    weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
    sinks[g->level] = (weft_frame_sink){.data = bytes, .capacity = GOLDEN_MOST};
    weft_encode_job job = {.now = weft_binding_view(&target_binding, g->unit),
                           .shadow = weft_binding_view(&base_binding, g->unit),
                           .parameters = &parameters,
                           .largest_frame = layout->largest_frame,
                           .levels = 1u << g->level,
                           .sinks = sinks,
                           .tensor_delta = ignored};
    assert_int_equal(weft_backend_host.encode(backend, &job), WEFT_OK);
    return sinks[g->level].used;
}

/* Admits and decodes bytes against the base. */
static weft_status decode(const uint8_t *bytes, uint64_t length, weft_changes *changes)
{
    uint64_t ignored[2] = {0};
    weft_frame frame;
    weft_status status = weft_frame_admit(layout, bytes, length, &frame);
    if (status != WEFT_OK)
        return status;
    weft_decode_job job = {.frame = frame,
                           .base = weft_binding_view(&base_binding, frame.header.unit),
                           .parameters = &parameters,
                           .changes = changes,
                           .tensor_delta = ignored};
    return weft_backend_host.decode(backend, &job);
}

/* Files about the frames, for readers in other languages. */
static void layout_and_bits_are_these_bytes(void **state)
{
    (void)state;
    uint8_t bytes[GOLDEN_MOST];
    uint64_t count = weft_layout_wire_bytes(layout);
    assert_true(count <= GOLDEN_MOST);
    weft_layout_write(layout, bytes);
    golden_is("layout_frames.bin", bytes, count);
    golden_is("base_frames.bin", &base, sizeof(base));
    golden_is("target_frames.bin", &target, sizeof(target));
    for (size_t i = 0; i < COUNT(words); i++)
        weft_bytes_put(bytes + 2 * i, words[i], 2);
    golden_is("parameters_frames.bin", bytes, 2 * COUNT(words));
}

/* A tensor of each dtype, called as it is, of 8 elements. */
static void dtypes_are_these_bytes(void **state)
{
    (void)state;
    const uint64_t shape = 8;
    uint8_t bytes[GOLDEN_MOST];
    weft_tensor tensors[WEFT_DTYPE_LAST];
    weft_layout *all;
    for (uint32_t d = 0; d < WEFT_DTYPE_LAST; d++) {
        const weft_dtype dtype = (weft_dtype)(d + 1);
        tensors[d] = (weft_tensor){weft_dtype_find(dtype)->name, dtype, 1, &shape};
    }
    assert_int_equal(weft_layout_create(tensors, WEFT_DTYPE_LAST, &all), WEFT_OK);
    uint64_t count = weft_layout_wire_bytes(all);
    assert_true(count <= GOLDEN_MOST);
    weft_layout_write(all, bytes);
    golden_is("layout_dtypes.bin", bytes, count);
    weft_layout_free(all);
}

static void good_frames_are_these_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_good_count; i++) {
        uint8_t made[GOLDEN_MOST];
        golden_is(golden_good_rows[i].file, made, encode(&golden_good_rows[i], made));
    }
}

static void good_frames_give_the_target(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_good_count; i++) {
        const golden_good *g = &golden_good_rows[i];
        uint8_t bytes[GOLDEN_MOST], before[GOLDEN_MOST], after[GOLDEN_MOST];
        uint32_t position[F32_COUNT];
        weft_changes changes = {.capacity = F32_COUNT, .position = position, .before = before, .after = after};
        assert_int_equal(decode(bytes, golden_read(g->file, bytes), &changes), WEFT_OK);
        bits landed = base;
        weft_binding binding;
        assert_int_equal(images_bind(&landed, &binding), WEFT_OK);
        weft_apply_job apply = {.target = weft_binding_view(&binding, g->unit), .changes = &changes};
        assert_int_equal(weft_backend_host.apply(backend, &apply), WEFT_OK);
        assert_false(apply.mismatch);
        if (g->unit == 0)
            assert_memory_equal(landed.example, target.example, sizeof(target.example));
        else
            assert_memory_equal(landed.wide, target.wide, sizeof(target.wide));
        weft_binding_close(&binding);
    }
}

static void bad_frames_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_bad_count; i++) {
        const golden_bad *b = &golden_bad_rows[i];
        uint8_t bytes[GOLDEN_MOST], before[GOLDEN_MOST], after[GOLDEN_MOST];
        uint32_t position[F32_COUNT];
        weft_changes changes = {.capacity = F32_COUNT, .position = position, .before = before, .after = after};
        if (golden_writing()) {
            uint64_t count = golden_read(b->from, bytes);
            bytes[b->at] = b->byte;
            golden_write(b->file, bytes, count - b->cut);
        }
        weft_status status = decode(bytes, golden_read(b->file, bytes), &changes);
        if (status != b->status || !strstr(weft_last_error(), b->words))
            fail_msg("%s: %s, \"%s\" does not say \"%s\"", b->file, weft_status_name(status), weft_last_error(),
                     b->words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_and_bits_are_these_bytes), cmocka_unit_test(dtypes_are_these_bytes),
        cmocka_unit_test(good_frames_are_these_bytes),     cmocka_unit_test(good_frames_give_the_target),
        cmocka_unit_test(bad_frames_are_refused),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}
