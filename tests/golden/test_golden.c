/* The frames in this folder: encoding gives the good ones byte for byte, decoding gives their bits, the bad ones are
 * refused. WEFT_GOLDEN_WRITE=1 writes the files anew, for a deliberate change of the format alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host.h"
#include "bytes.h"
#include "log.h"
#include "status.h"

#define BF16_COUNT 64u
#define F32_COUNT  100u
#define MOST       4096u
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

/* Base and target of both units: "example", 64 bf16 from 1.0 on in steps of one; "wide", 100 f32. */
typedef struct bits {
    uint16_t example[BF16_COUNT];
    uint32_t wide[F32_COUNT];
} bits;

typedef struct good_case {
    const char *file;
    uint32_t unit;
    weft_level level;
} good_case;

typedef struct bad_case {
    const char *file;
    const char *from; /* the good file it was made of */
    uint32_t at;      /* this byte .. */
    uint8_t byte;     /* .. is this one, */
    uint32_t cut;     /* and so many bytes are missing at the end */
    const char *words;
} bad_case;

static const good_case good[] = {
    {"full.bin", 0, WEFT_LEVEL_FULL},     {"pairs.bin", 0, WEFT_LEVEL_PAIRS}, {"fast.bin", 0, WEFT_LEVEL_FAST},
    {"fast_f32.bin", 1, WEFT_LEVEL_FAST}, {"tight.bin", 0, WEFT_LEVEL_TIGHT}, {"tight_f32.bin", 1, WEFT_LEVEL_TIGHT},
};

/* Two classes of bf16 and four of f32, on both sides of the magnitude bases. */
static const uint16_t words[] = {0, 7 | 2 << 8, 0x80, 0x7f, 8 | 4 << 8, 0x79, 0x79, 0x7a, 0x7b};

static const bad_case bad[] = {
    {"bad_level.bin", "fast.bin", 7, 0x04, 0, "unknown level"},
    {"bad_reserved.bin", "fast.bin", 7, 0x12, 0, "reserved bits"},
    {"bad_unit.bin", "fast.bin", 0, 0x02, 0, "the layout has 2 units"},
    {"bad_changed.bin", "full.bin", 8, 0x3f, 0, "full with 63 of 64"},
    {"bad_exceptions.bin", "fast.bin", 12, 0x06, 0, "6 exceptions among 5"},
    {"bad_cut.bin", "fast.bin", 0, 0x00, 4, "are there"},
    {"bad_position.bin", "pairs.bin", 16 + 16, 0x40, 0, "position 64 of 64"},
    {"bad_order.bin", "pairs.bin", 16 + 8, 0x11, 0, "position 17 behind 17"},
    {"bad_unary.bin", "fast.bin", 16 + 4, 0x00, 0, "position 119 of 64"},
    {"bad_end.bin", "fast.bin", 16 + 5, 0x00, 0, "unary plane runs past"},
    {"bad_padding.bin", "fast.bin", 16 + 7, 0x80, 0, "padding that is not zero"},
    {"bad_units.bin", "fast.bin", 10, 0x10, 0, "not of one dtype"},
    {"bad_units_many.bin", "tight.bin", 11, 0x04, 0, "65 units"},
    {"bad_units_pairs.bin", "pairs.bin", 10, 0x10, 0, "2 units in one frame (pairs)"},
    {"bad_gap_bits.bin", "fast.bin", 14, 0xf0, 0, "gap parameter 15"},
    {"bad_tight_subset.bin", "tight.bin", 14, 0x01, 0, "masks 0x2 and 0x1"},
    {"bad_tight_length.bin", "tight.bin", 16 + 2, 0x0e, 0, "131077 members"},
    {"bad_tight_low_bits.bin", "tight.bin", 16 + 8, 0x04, 0, "0 members with 1 low bits"},
    {"bad_tight_ranks.bin", "tight.bin", 16, 0x06, 0, "lists of 6, 2 and 0 members for 5"},
    {"bad_tight_rank.bin", "tight.bin", 16 + 12, 0x00, 0, "rank 75 among 64"},
    {"bad_tight_unary.bin", "tight.bin", 16 + 14, 0x00, 0, "past"},
    {"bad_tight_directions.bin", "tight.bin", 16 + 9, 0x2a, 0, "padding that is not zero"},
    {"bad_tight_padding.bin", "tight.bin", 16 + 15, 0x05, 0, "padding that is not zero"},
    {"bad_base_count.bin", "tight.bin", 8, 0x06, 0, "5 changes, the frame has 6"},
    {"bad_base_rank.bin", "tight.bin", 16 + 13, 0xc2, 0, "not its base"},
};

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

static void path_of(const char *file, char path[512])
{
    const char *source = getenv("WEFT_SOURCE");
    snprintf(path, 512, "%s/tests/golden/%s", source && source[0] ? source : ".", file);
}

static uint64_t file_read(const char *name, uint8_t *bytes)
{
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    uint64_t count = fread(bytes, 1, MOST, file);
    fclose(file);
    return count;
}

static void file_write(const char *name, const uint8_t *bytes, uint64_t count)
{
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        fail_msg("%s cannot be written", path);
}

static bool writing(void)
{
    const char *wanted = getenv("WEFT_GOLDEN_WRITE");
    return wanted && strcmp(wanted, "1") == 0;
}

static uint64_t encode(const good_case *g, uint8_t *bytes)
{
    uint64_t ignored[2] = {0};
    weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
    sinks[g->level] = (weft_frame_sink){.data = bytes, .capacity = MOST};
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

/* Holds a file to the bytes that this test makes. */
static void file_is(const char *name, const void *bytes, uint64_t count)
{
    uint8_t kept[MOST];
    if (writing())
        file_write(name, bytes, count);
    assert_int_equal(file_read(name, kept), count);
    assert_memory_equal(bytes, kept, count);
}

/* What the frames are about, for readers in other languages. */
static void layout_and_bits_are_these_bytes(void **state)
{
    (void)state;
    uint8_t bytes[MOST];
    uint64_t count = weft_layout_wire_bytes(layout);
    assert_true(count <= MOST);
    weft_layout_write(layout, bytes);
    file_is("layout_frames.bin", bytes, count);
    file_is("base_frames.bin", &base, sizeof(base));
    file_is("target_frames.bin", &target, sizeof(target));
    for (size_t i = 0; i < COUNT(words); i++)
        weft_bytes_put(bytes + 2 * i, words[i], 2);
    file_is("parameters_frames.bin", bytes, 2 * COUNT(words));
}

static void good_frames_are_these_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        uint8_t made[MOST];
        file_is(good[i].file, made, encode(&good[i], made));
    }
}

static void good_frames_give_the_target(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        uint8_t bytes[MOST], before[MOST], after[MOST];
        uint32_t position[F32_COUNT];
        weft_changes changes = {.capacity = F32_COUNT, .position = position, .before = before, .after = after};
        assert_int_equal(decode(bytes, file_read(good[i].file, bytes), &changes), WEFT_OK);
        bits landed = base;
        weft_binding binding;
        assert_int_equal(images_bind(&landed, &binding), WEFT_OK);
        weft_apply_job apply = {.target = weft_binding_view(&binding, good[i].unit), .changes = &changes};
        assert_int_equal(weft_backend_host.apply(backend, &apply), WEFT_OK);
        assert_false(apply.mismatch);
        if (good[i].unit == 0)
            assert_memory_equal(landed.example, target.example, sizeof(target.example));
        else
            assert_memory_equal(landed.wide, target.wide, sizeof(target.wide));
        weft_binding_close(&binding);
    }
}

static void bad_frames_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint8_t bytes[MOST], before[MOST], after[MOST];
        uint32_t position[F32_COUNT];
        weft_changes changes = {.capacity = F32_COUNT, .position = position, .before = before, .after = after};
        if (writing()) {
            uint64_t count = file_read(bad[i].from, bytes);
            bytes[bad[i].at] = bad[i].byte;
            file_write(bad[i].file, bytes, count - bad[i].cut);
        }
        weft_status status = decode(bytes, file_read(bad[i].file, bytes), &changes);
        weft_status wanted = strncmp(bad[i].file, "bad_base_", 9) == 0 ? WEFT_E_BASE : WEFT_E_CORRUPT;
        if (status != wanted || !strstr(weft_last_error(), bad[i].words))
            fail_msg("%s: %s, \"%s\" does not say \"%s\"", bad[i].file, weft_status_name(status), weft_last_error(),
                     bad[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_and_bits_are_these_bytes),
        cmocka_unit_test(good_frames_are_these_bytes),
        cmocka_unit_test(good_frames_give_the_target),
        cmocka_unit_test(bad_frames_are_refused),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}
