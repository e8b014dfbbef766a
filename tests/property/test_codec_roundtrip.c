/* Random units of every width through encode, admit, decode, apply and undo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/unit_pair.h"

#define ROUNDS 60

static const weft_dtype dtypes[] = {
    WEFT_BOOL,    WEFT_U8,  WEFT_I8,  WEFT_F8_E4M3, WEFT_F8_E5M2,     WEFT_F8_E8M0,    WEFT_F4,  WEFT_F6_E2M3,
    WEFT_F6_E3M2, WEFT_I16, WEFT_U16, WEFT_F16,     WEFT_BF16,        WEFT_I32,        WEFT_U32, WEFT_F32,
    WEFT_I64,     WEFT_U64, WEFT_F64, WEFT_C64,     WEFT_F8_E4M3FNUZ, WEFT_F8_E5M2FNUZ};
static const uint64_t densities[] = {0, 30, 1000, 11700, 79000, 300000, 700000, 1000000};
static const weft_level levels[] = {WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

typedef struct digests {
    uint64_t word[PAIR_PARTS];
} digests;

static digests digest_of(unit_pair *pair, const weft_binding *binding)
{
    digests sum = {{0}};
    for (uint64_t u = 0; u < pair->layout->unit_count; u++) {
        weft_digest_job job = {.view = weft_binding_view(binding, u), .tensor_delta = sum.word};
        assert_int_equal(weft_backend_host.digest(pair->state, &job), WEFT_OK);
    }
    return sum;
}

/* The digest as its definition has it, element by element over an image. */
static digests digest_defined(const unit_pair *pair, const uint8_t *image)
{
    digests sum = {{0}};
    for (uint64_t t = 0; t < pair->layout->count; t++) {
        const weft_layout_entry *entry = &pair->layout->entries[t];
        for (uint64_t i = 0; i < entry->coded; i++)
            sum.word[entry->part + i / weft_tile_elements(entry->row->width)] +=
                weft_digest_term(i, pair_get(image + entry->offset, i, entry->row->width));
    }
    return sum;
}

static void sizes_choose(uint64_t *seed, uint64_t *sizes, uint64_t *count)
{
    *count = 1 + pair_below(seed, PAIR_TENSORS);
    for (uint64_t t = 0; t < *count; t++) {
        const uint64_t limits[] = {2, 70, 3000, 20000};
        sizes[t] = pair_below(seed, limits[pair_below(seed, 4)]);
    }
    if (pair_below(seed, 15) == 0)
        sizes[0] = (1 << 18) + pair_below(seed, 1000);
}

/* Decodes one frame against live, applies it, undoes it and applies it again. */
static void frame_lands(unit_pair *pair, const uint8_t *bytes, uint64_t length, weft_changes *changes, uint64_t *delta)
{
    weft_frame frame;
    assert_int_equal(weft_frame_measure(bytes, length), length);
    pair_must(weft_frame_admit(pair->layout, bytes, length, &frame), "admit");
    uint64_t unit = frame.header.unit;
    weft_view view = weft_binding_view(&pair->live_binding, unit);
    weft_decode_job decode = {
        .frame = frame, .base = view, .parameters = pair->parameters, .changes = changes, .tensor_delta = delta};
    pair_must(weft_backend_host.decode(pair->state, &decode), "decode");
    assert_true(pair_holds(pair, &pair->base_binding, unit));
    weft_apply_job apply = {.target = view, .changes = changes};
    weft_undo_job undo = {.target = view, .changes = changes};
    pair_must(weft_backend_host.apply(pair->state, &apply), "apply");
    assert_false(apply.mismatch);
    assert_true(pair_holds(pair, &pair->target_binding, unit));
    pair_must(weft_backend_host.undo(pair->state, &undo), "undo");
    assert_true(pair_holds(pair, &pair->base_binding, unit));
    pair_must(weft_backend_host.apply(pair->state, &apply), "apply");
}

/* All units at one level; live ends at the target. */
static void level_round(unit_pair *pair, weft_level level, weft_changes *changes)
{
    uint64_t capacity = pair->layout->largest_frame;
    weft_frame_sink sink = {.data = pair_memory(capacity), .capacity = capacity};
    digests encoded = {{0}}, decoded = {{0}};
    digests base = digest_of(pair, &pair->base_binding), target = digest_of(pair, &pair->target_binding);
    pair_restore(pair, &pair->base_binding);
    for (uint64_t u = 0; u < pair->layout->unit_count; u++) {
        sink.used = 0;
        uint32_t bytes = pair_encode(pair, u, level, &sink, encoded.word);
        assert_false(sink.full);
        assert_int_equal(sink.used, bytes);
        assert_int_equal(bytes == 0, pair_holds(pair, &pair->target_binding, u));
        if (bytes > 0)
            frame_lands(pair, sink.data, bytes, changes, decoded.word);
    }
    assert_true(pair->layout->part_count <= PAIR_PARTS);
    for (uint64_t p = 0; p < pair->layout->part_count; p++) {
        assert_int_equal(encoded.word[p], target.word[p] - base.word[p]);
        assert_int_equal(decoded.word[p], target.word[p] - base.word[p]);
    }
    digests live = digest_of(pair, &pair->live_binding);
    assert_memory_equal(&live, &target, sizeof(live));
    free(sink.data);
}

static void random_units_come_through(void **state)
{
    (void)state;
    weft_changes changes = pair_changes();
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t seed = round, sizes[PAIR_TENSORS], count;
        unit_pair pair;
        weft_parameters parameters;
        pair_parameters(&seed, &parameters);
        sizes_choose(&seed, sizes, &count);
        pair_open(&pair, &seed, dtypes[round % COUNT(dtypes)], sizes, count, "auto");
        pair.parameters = round >= COUNT(dtypes) ? &parameters : NULL;
        pair_change(&pair, &seed, densities[pair_below(&seed, COUNT(densities))], pair_below(&seed, 3) == 0);
        digests defined = digest_defined(&pair, pair.target), found = digest_of(&pair, &pair.target_binding);
        assert_memory_equal(&defined, &found, sizeof(found));
        for (size_t i = 0; i < COUNT(levels); i++)
            level_round(&pair, levels[i], &changes);
        pair_close(&pair);
    }
    pair_changes_free(&changes);
}

/* Every bf16 value to every step of interest: the whole order in one tensor of 2^16 elements. */
static void every_bf16_pattern_comes_through(void **state)
{
    (void)state;
    const uint64_t size = 1 << 16;
    const uint16_t steps[] = {1, 2, 3, 0x7fff, 0x8000, 0xfffe};
    weft_changes changes = pair_changes();
    for (size_t s = 0; s < COUNT(steps); s++) {
        uint64_t seed = s;
        unit_pair pair;
        pair_open(&pair, &seed, WEFT_BF16, &size, 1, "auto");
        for (uint64_t i = 0; i < size; i++) {
            pair_put(pair.base, i, i, 2);
            pair_put(pair.target, i, (i + (i % 5 == 0 ? steps[s] : 0)) & 0xffff, 2);
        }
        for (size_t i = 0; i < COUNT(levels); i++)
            level_round(&pair, levels[i], &changes);
        pair_close(&pair);
    }
    pair_changes_free(&changes);
}

/* The extremes of 64-bit differences, whose magnitudes need every bit of the code. */
static void widest_differences_come_through(void **state)
{
    (void)state;
    const uint64_t size = 4000;
    const weft_dtype kinds[] = {WEFT_I64, WEFT_F64, WEFT_I8, WEFT_I32};
    weft_changes changes = pair_changes();
    for (size_t k = 0; k < COUNT(kinds); k++) {
        uint64_t seed = k;
        unit_pair pair;
        pair_open(&pair, &seed, kinds[k], &size, 1, "auto");
        uint8_t width = weft_dtype_find(kinds[k])->width;
        for (uint64_t i = 0; i < 40; i++) {
            uint64_t at = i * 97, bits = pair_get(pair.base, at, width), top = UINT64_C(1) << (8 * width - 1);
            const uint64_t steps[] = {top, top - 1, top + 1, 2, UINT64_MAX - 1};
            pair_put(pair.target, at, bits + steps[i % 5], width);
        }
        for (size_t i = 0; i < COUNT(levels); i++)
            level_round(&pair, levels[i], &changes);
        pair_close(&pair);
    }
    pair_changes_free(&changes);
}

/* The bytes depend on the bits alone: not on how memory is cut, nor on the kernel set. */
static void bytes_are_canonical(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < COUNT(dtypes); round++) {
        uint64_t seed = 1000 + round, other = 5000 + round;
        const uint64_t sizes[] = {3000, 1, 0, 5000};
        digests ignored = {{0}};
        unit_pair pair, twin;
        weft_parameters parameters;
        pair_parameters(&seed, &parameters);
        pair_open(&pair, &seed, dtypes[round], sizes, 4, "portable");
        pair_change(&pair, &seed, 20000, round % 2);
        pair_open(&twin, &other, dtypes[round], sizes, 4, "auto");
        pair.parameters = twin.parameters = &parameters;
        memcpy(twin.base, pair.base, pair.layout->bytes);
        memcpy(twin.target, pair.target, pair.layout->bytes);
        pair_restore(&twin, &twin.base_binding);
        uint64_t capacity = pair.layout->largest_frame;
        weft_frame_sink a = {.data = pair_memory(capacity), .capacity = capacity};
        weft_frame_sink b = {.data = pair_memory(capacity), .capacity = capacity};
        memset(b.data, 0xa5, capacity);
        for (size_t i = 0; i < COUNT(levels); i++) {
            for (uint64_t u = 0; u < pair.layout->unit_count; u++) {
                a.used = b.used = 0;
                assert_int_equal(pair_encode(&pair, u, levels[i], &a, ignored.word),
                                 pair_encode(&twin, u, levels[i], &b, ignored.word));
                assert_memory_equal(a.data, b.data, a.used);
            }
        }
        free(a.data);
        free(b.data);
        pair_close(&pair);
        pair_close(&twin);
    }
}

static void a_frame_without_room_writes_nothing(void **state)
{
    (void)state;
    uint64_t seed = 7;
    const uint64_t size = 2000;
    digests ignored = {{0}};
    unit_pair pair;
    pair_open(&pair, &seed, WEFT_BF16, &size, 1, "auto");
    pair_change(&pair, &seed, 50000, false);
    for (size_t i = 0; i < COUNT(levels); i++) {
        weft_frame_sink sink = {.data = pair_memory(8192), .capacity = 8192};
        uint32_t bytes = pair_encode(&pair, 0, levels[i], &sink, ignored.word);
        free(sink.data);
        sink = (weft_frame_sink){.data = pair_memory(bytes), .capacity = bytes - 1, .used = 0};
        memset(sink.data, 0x5a, bytes);
        assert_int_equal(pair_encode(&pair, 0, levels[i], &sink, ignored.word), 0);
        assert_true(sink.full);
        assert_int_equal(sink.used, 0);
        for (uint32_t k = 0; k < bytes; k++)
            assert_int_equal(sink.data[k], 0x5a);
        free(sink.data);
    }
    pair_close(&pair);
}

static void an_altered_base_is_noticed_and_undone(void **state)
{
    (void)state;
    uint64_t seed = 9;
    const uint64_t size = 5000;
    digests ignored = {{0}};
    unit_pair pair;
    weft_frame frame;
    weft_changes changes = pair_changes();
    pair_open(&pair, &seed, WEFT_F32, &size, 1, "auto");
    pair_change(&pair, &seed, 100000, false);
    weft_frame_sink sink = {.data = pair_memory(1 << 16), .capacity = 1 << 16};
    uint32_t bytes = pair_encode(&pair, 0, WEFT_LEVEL_FAST, &sink, ignored.word);
    pair_must(weft_frame_admit(pair.layout, sink.data, bytes, &frame), "admit");
    weft_view view = weft_binding_view(&pair.live_binding, 0);
    weft_decode_job decode = {.frame = frame, .base = view, .changes = &changes, .tensor_delta = ignored.word};
    pair_must(weft_backend_host.decode(pair.state, &decode), "decode");
    uint32_t struck = changes.position[changes.count / 2];
    pair.base[4 * (uint64_t)struck] ^= 0x10;
    pair_restore(&pair, &pair.base_binding);
    weft_apply_job apply = {.target = view, .changes = &changes};
    weft_undo_job undo = {.target = view, .changes = &changes};
    pair_must(weft_backend_host.apply(pair.state, &apply), "apply");
    assert_true(apply.mismatch);
    pair_must(weft_backend_host.undo(pair.state, &undo), "undo");
    assert_true(pair_holds(&pair, &pair.base_binding, 0));
    pair_changes_free(&changes);
    free(sink.data);
    pair_close(&pair);
}

/* A coded frame is never as large as the dense one: then it is the dense one. */
static void dense_changes_fall_back_to_full(void **state)
{
    (void)state;
    uint64_t seed = 11;
    const uint64_t size = 1000;
    digests ignored = {{0}};
    unit_pair pair;
    weft_frame frame;
    pair_open(&pair, &seed, WEFT_U8, &size, 1, "auto");
    for (uint64_t i = 0; i < size; i++)
        pair.target[i] = (uint8_t)(pair.base[i] ^ (1 + pair_below(&seed, 255)));
    weft_frame_sink sink = {.data = pair_memory(8192), .capacity = 8192};
    for (size_t i = 0; i < COUNT(levels); i++) {
        sink.used = 0;
        uint32_t bytes = pair_encode(&pair, 0, levels[i], &sink, ignored.word);
        pair_must(weft_frame_admit(pair.layout, sink.data, bytes, &frame), "admit");
        assert_int_equal(frame.header.level, WEFT_LEVEL_FULL);
        assert_int_equal(frame.header.parameters, levels[i] >= WEFT_LEVEL_FAST ? WEFT_FULL_STEPS : WEFT_FULL_BITS);
        assert_int_equal(bytes, WEFT_FRAME_HEADER_BYTES + size);
    }
    free(sink.data);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_units_come_through),           cmocka_unit_test(every_bf16_pattern_comes_through),
        cmocka_unit_test(widest_differences_come_through),     cmocka_unit_test(bytes_are_canonical),
        cmocka_unit_test(a_frame_without_room_writes_nothing), cmocka_unit_test(an_altered_base_is_noticed_and_undone),
        cmocka_unit_test(dense_changes_fall_back_to_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
