/* Units that change nearly everywhere: full frames of steps, by their law, against every base, back and forth; and the
 * frames that lead back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "codec/planes.h"
#include "tests/support/unit_pair.h"

static const char *const sets[] = {"portable", "auto"};
static const weft_level levels[] = {WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A pair whose elements all have any bits, and a frame of it. */
typedef struct dense_world {
    unit_pair pair;
    weft_changes changes;
    weft_packer packer;
    weft_unpacker unpacker;
    uint8_t *frame, *packed;
    uint32_t bytes, packed_bytes;
    uint64_t delta[PAIR_PARTS];
    uint8_t width;
} dense_world;

static uint64_t top_of(uint8_t width)
{
    return UINT64_C(1) << (8 * width - 1);
}

static uint64_t mask_of(uint8_t width)
{
    return UINT64_MAX >> (64 - 8 * width);
}

/* docs/WIRE_FORMAT.md: place. */
static uint64_t place(uint64_t x, const weft_dtype_row *row)
{
    return row->exponent_bits && x & top_of(row->width) ? x ^ (top_of(row->width) - 1) : x;
}

static void world_open(dense_world *w, uint64_t *seed, weft_dtype dtype, const char *kernels)
{
    const uint64_t sizes[] = {1500 + pair_below(seed, 40), 1, 0, 700};
    const weft_dtype_row *row = weft_dtype_find(dtype);
    *w = (dense_world){.width = row->width, .changes = pair_changes()};
    pair_open(&w->pair, seed, dtype, sizes, COUNT(sizes), kernels);
    for (uint64_t i = 0; i < w->pair.layout->elements; i++) {
        uint64_t bits = pair_bits(seed, row);
        if (i % 9 == 0) /* the way that is as long up as down */
            bits = place((place(pair_get(w->pair.base, i, row->width), row) + top_of(row->width)) & mask_of(row->width),
                         row);
        pair_put(w->pair.target, i, bits, row->width);
    }
    w->frame = pair_memory(w->pair.layout->largest_frame);
    w->packed = pair_memory(w->pair.layout->largest_frame);
    pair_must(weft_packer_open(&w->packer), "packer");
    pair_must(weft_unpacker_open(&w->unpacker), "unpacker");
}

static void world_close(dense_world *w)
{
    weft_unpacker_close(&w->unpacker);
    weft_packer_close(&w->packer);
    free(w->packed);
    free(w->frame);
    pair_changes_free(&w->changes);
    pair_close(&w->pair);
}

static void world_encode(dense_world *w, weft_level level)
{
    weft_frame_sink sink = {.data = w->frame, .capacity = w->pair.layout->largest_frame};
    w->bytes = pair_encode(&w->pair, 0, level, &sink, w->delta);
    memcpy(w->packed, w->frame, w->bytes);
    w->packed_bytes = weft_planes_pack(&w->packer, &w->pair.layout->units[0], w->packed);
}

/* Every word is the difference of places, and nothing else is in the frame. */
static void frame_is_the_law(const dense_world *w, const weft_dtype_row *row)
{
    const uint32_t count = w->pair.layout->units[0].count;
    const uint64_t payload = weft_frame_full_payload(count, w->width);
    weft_frame frame;
    assert_int_equal(w->bytes, WEFT_FRAME_HEADER_BYTES + payload);
    pair_must(weft_frame_admit(w->pair.layout, w->frame, w->bytes, &frame), "admit");
    assert_int_equal(frame.header.level, WEFT_LEVEL_FULL);
    assert_int_equal(frame.header.parameters, WEFT_FULL_STEPS);
    assert_int_equal(frame.header.changed, count);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t steps =
            place(pair_get(w->pair.target, i, w->width), row) - place(pair_get(w->pair.base, i, w->width), row);
        assert_int_equal(pair_get(frame.payload, i, w->width), steps & mask_of(w->width));
    }
}

/* Decodes a frame against live, which has the bits of one image, applies it and undoes it: live has those of the other
 * in between. */
static void frame_leads(dense_world *w, const uint8_t *bytes, uint32_t length, const weft_binding *from,
                        const weft_binding *to)
{
    uint64_t taken, delta[PAIR_PARTS] = {0};
    weft_decode_job decode = {.changes = &w->changes, .tensor_delta = delta};
    pair_must(weft_planes_admit(&w->unpacker, w->pair.layout, bytes, length, &decode.frame, &taken), "admit");
    assert_int_equal(taken, length);
    decode.base = weft_binding_view(&w->pair.live_binding, 0);
    weft_apply_job apply = {.target = decode.base, .changes = &w->changes};
    weft_undo_job undo = {.target = decode.base, .changes = &w->changes};
    pair_restore(&w->pair, from);
    pair_must(weft_backend_host.decode(w->pair.state, &decode), "decode");
    for (uint32_t i = 0; i < w->changes.count; i++)
        assert_int_not_equal(pair_get(w->changes.before, i, w->width), pair_get(w->changes.after, i, w->width));
    pair_must(weft_backend_host.apply(w->pair.state, &apply), "apply");
    assert_false(apply.mismatch);
    assert_true(pair_holds(&w->pair, to, 0));
    pair_must(weft_backend_host.undo(w->pair.state, &undo), "undo");
    assert_true(pair_holds(&w->pair, from, 0));
}

/* The opposite of each step; the one of magnitude 2^(8w-1) is its own. */
static void frame_invert(dense_world *w)
{
    const uint32_t count = w->pair.layout->units[0].count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *words = w->frame + WEFT_FRAME_HEADER_BYTES;
        const uint64_t steps = pair_get(words, i, w->width);
        kept += steps == top_of(w->width);
        pair_put(words, i, (0 - steps) & mask_of(w->width), w->width);
    }
    assert_true(kept >= count / 9);
}

static void dense_units_are_steps(void **state)
{
    (void)state;
    for (weft_dtype dtype = 1; dtype <= WEFT_DTYPE_LAST; dtype++) {
        for (size_t i = 0; i < COUNT(sets) * COUNT(levels); i++) {
            uint64_t seed = 100 * dtype + i;
            dense_world w;
            world_open(&w, &seed, dtype, sets[i % COUNT(sets)]);
            assert_int_equal(w.pair.layout->unit_count, 1);
            world_encode(&w, levels[i / COUNT(sets)]);
            frame_is_the_law(&w, weft_dtype_find(dtype));
            frame_leads(&w, w.frame, w.bytes, &w.pair.base_binding, &w.pair.target_binding);
            frame_leads(&w, w.packed, w.packed_bytes, &w.pair.base_binding, &w.pair.target_binding);
            frame_invert(&w);
            frame_leads(&w, w.frame, w.bytes, &w.pair.target_binding, &w.pair.base_binding);
            world_close(&w);
        }
    }
}

/* ---- frames turned round */

/* The frame from one image to another; its bytes. */
static uint32_t encode_between(dense_world *w, const weft_binding *from, const weft_binding *to, weft_level level,
                               uint8_t *bytes)
{
    weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
    sinks[level] = (weft_frame_sink){.data = bytes, .capacity = w->pair.layout->largest_frame};
    weft_encode_job job = {.now = weft_binding_view(to, 0),
                           .shadow = weft_binding_view(from, 0),
                           .levels = 1u << level,
                           .sinks = sinks,
                           .tensor_delta = w->delta};
    pair_must(weft_backend_host.encode(w->pair.state, &job), "encode");
    return job.frame_bytes[level];
}

static weft_status invert(dense_world *w, const uint8_t *bytes, uint32_t length, uint8_t *out)
{
    uint64_t taken;
    weft_invert_job job = {.layout = w->pair.layout, .bytes = out};
    pair_must(weft_planes_admit(&w->unpacker, w->pair.layout, bytes, length, &job.frame, &taken), "admit");
    return weft_backend_host.invert(w->pair.state, &job);
}

/* Some elements change, in every way; `whole`: all of them. */
static void target_change(dense_world *w, uint64_t *seed, const weft_dtype_row *row, bool whole)
{
    const uint64_t sparse = 2 + pair_below(seed, 40);
    for (uint64_t i = 0; i < w->pair.layout->elements; i++) {
        const uint64_t from = place(pair_get(w->pair.base, i, row->width), row);
        const uint64_t steps[] = {1, UINT64_MAX, 2 + pair_below(seed, 5), top_of(row->width), pair_random(seed)};
        const bool same = !whole && pair_below(seed, sparse) > 0;
        const uint64_t step = same ? 0 : steps[whole && i % 9 > 0 ? 4 : pair_below(seed, 4)];
        pair_put(w->pair.target, i, place((from + step) & mask_of(row->width), row), row->width);
    }
}

/* The very bytes of the way back, of frames of level fast and of full ones; and those inverted are the way there. */
static void inverted_frames_lead_back(void **state)
{
    (void)state;
    uint32_t full = 0, rounds = 0;
    for (weft_dtype dtype = 1; dtype <= WEFT_DTYPE_LAST; dtype++) {
        for (uint32_t i = 0; i < 8; i++, rounds++) {
            uint64_t seed = 1000 * dtype + i;
            dense_world w;
            world_open(&w, &seed, dtype, sets[i % 2]);
            const uint64_t room = w.pair.layout->largest_frame;
            uint8_t *back = pair_memory(room), *made = pair_memory(room), *again = pair_memory(room);
            target_change(&w, &seed, weft_dtype_find(dtype), i >= 6);
            w.bytes = encode_between(&w, &w.pair.base_binding, &w.pair.target_binding, WEFT_LEVEL_FAST, w.frame);
            const uint32_t bytes =
                encode_between(&w, &w.pair.target_binding, &w.pair.base_binding, WEFT_LEVEL_FAST, back);
            assert_int_equal(bytes, w.bytes);
            pair_must(invert(&w, w.frame, w.bytes, made), "invert");
            assert_memory_equal(made, back, bytes);
            pair_must(invert(&w, made, bytes, again), "invert");
            assert_memory_equal(again, w.frame, bytes);
            frame_leads(&w, made, bytes, &w.pair.target_binding, &w.pair.base_binding);
            full += (w.frame[7] & 0x0f) == WEFT_LEVEL_FULL;
            free(again);
            free(made);
            free(back);
            world_close(&w);
        }
    }
    assert_in_range(full, 10, rounds - 10);
}

/* New bits say nothing of what was before; tight says nothing without its base; and planes are believed only when read.
 * Nothing is written then. */
static void what_has_no_opposite_is_refused(void **state)
{
    (void)state;
    static const weft_level none[] = {WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_TIGHT};
    uint64_t seed = 3;
    dense_world w;
    world_open(&w, &seed, WEFT_BF16, "auto");
    const uint64_t room = w.pair.layout->largest_frame;
    uint8_t *out = pair_memory(room), *untouched = pair_memory(room);
    memcpy(w.pair.target, w.pair.base, w.pair.layout->bytes);
    w.pair.target[0] ^= 1;
    w.pair.target[900] ^= 1;
    for (size_t i = 0; i < COUNT(none); i++) {
        w.bytes = encode_between(&w, &w.pair.base_binding, &w.pair.target_binding, none[i], w.frame);
        assert_int_equal(invert(&w, w.frame, w.bytes, out), WEFT_E_ARGUMENT);
    }
    w.bytes = encode_between(&w, &w.pair.base_binding, &w.pair.target_binding, WEFT_LEVEL_FAST, w.frame);
    w.frame[w.bytes - 1] |= 0x80;
    assert_int_equal(invert(&w, w.frame, w.bytes, out), WEFT_E_CORRUPT);
    assert_memory_equal(out, untouched, room);
    free(untouched);
    free(out);
    world_close(&w);
}

/* Steps that are small in magnitude have zeros above: in planes they take less than a byte each and some. */
static void small_steps_pack(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_I16, WEFT_BF16, WEFT_F32, WEFT_F64};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        uint64_t seed = d;
        dense_world w;
        world_open(&w, &seed, dtypes[d], "auto");
        const uint32_t count = w.pair.layout->units[0].count;
        const weft_frame_header header = {
            0, 1, WEFT_LEVEL_FULL, (uint32_t)weft_frame_full_payload(count, w.width), count, WEFT_FULL_STEPS};
        weft_frame_write_header(w.packed, &header);
        memset(w.packed + WEFT_FRAME_HEADER_BYTES, 0, header.payload_bytes);
        for (uint32_t i = 0; i < count; i++)
            pair_put(w.packed + WEFT_FRAME_HEADER_BYTES, i, (pair_below(&seed, 200) - 100) & mask_of(w.width), w.width);
        memcpy(w.frame, w.packed, WEFT_FRAME_HEADER_BYTES + header.payload_bytes);
        w.packed_bytes = weft_planes_pack(&w.packer, &w.pair.layout->units[0], w.packed);
        assert_in_range(w.packed_bytes, count * 3 / 4, WEFT_FRAME_HEADER_BYTES + 40 + count);
        assert_int_equal(weft_bytes_get(w.packed + 12, 4), WEFT_FULL_STEP_PLANES);
        uint64_t taken;
        weft_frame frame;
        pair_must(weft_planes_admit(&w.unpacker, w.pair.layout, w.packed, w.packed_bytes, &frame, &taken), "admit");
        assert_int_equal(frame.header.parameters, WEFT_FULL_STEPS);
        assert_memory_equal(frame.payload, w.frame + WEFT_FRAME_HEADER_BYTES, header.payload_bytes);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_units_are_steps),
        cmocka_unit_test(small_steps_pack),
        cmocka_unit_test(inverted_frames_lead_back),
        cmocka_unit_test(what_has_no_opposite_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
