/* A snapshot that begins anew, by a trainer that means it or lies: what came before is void in all but the counts, and
 * a rollout that stages keeps its weights until all of it is proved. */
#include "tests/support/fleet_fake.h"

#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "codec/frame.h"
#include "layout/layout.h"

static fleet_fake fake;
static int listener;
static weft_wire_hello hello;
static weft_wire_trailer told; /* what was sent so far */

static const weft_version nothing = {0, 0, 0}, before = {9, 1, 0};

/* A rollout that stages, to whom a snapshot is announced. */
static int setup(void **state)
{
    static const char *const overrides[] = {"commit.snapshot=staged", "session.io_deadline=10s", NULL};
    uint8_t body[WEFT_UPDATE_HEADER_MAX], offer[32], heard[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_out out = {body, sizeof body, 0, false}, version = {offer, sizeof offer, 0, false};
    fleet *f = *state = fleet_open(FLEET_SMALL, overrides);
    fake.fd = -1;
    listener = fake_listen(f);
    fleet_join(f, 0, FLEET_OTHER);
    fake_take_hello(&fake, listener, &hello);
    fake_welcome(&fake, f, &hello, 600000);
    assert_int_equal(weft_provider_loop.port_connect(fake.port, hello.address, hello.address_bytes), WEFT_OK);
    weft_wire_put_version(&version, &before);
    fake_say(&fake, WEFT_MESSAGE_OFFER, &version);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_ACCEPT, heard, &length));
    weft_wire_update update = {.snapshot = true, .level = WEFT_LEVEL_FULL, .target = {9, 2, 0}};
    memcpy(update.layout, hello.layout, sizeof update.layout);
    weft_wire_put_update(&out, &update);
    fake_say(&fake, WEFT_MESSAGE_UPDATE, &out);
    told = (weft_wire_trailer){.target = {9, 2, 0}};
    return 0;
}

static int teardown(void **state)
{
    fake_close(&fake);
    if (listener >= 0)
        close(listener);
    fleet_close(*state);
    return 0;
}

static void write_chunk(uint32_t chunk, const uint8_t *data, uint64_t bytes, uint64_t at)
{
    const weft_provider *loop = &weft_provider_loop;
    uint32_t slot = (uint32_t)told.buckets % hello.slots;
    weft_write write = {.region = fake.region,
                        .data = data,
                        .bytes = bytes,
                        .remote_address = hello.region_address + slot * hello.slot_stride + at,
                        .remote_key = hello.region_key,
                        .immediate = weft_wire_immediate(hello.epoch, slot, chunk)};
    weft_completion done;
    assert_int_equal(loop->write(fake.port, &write), WEFT_OK);
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; loop->poll(fake.port, &done, 1) == 0; fleet_sleep_ms(1))
        assert_true(fleet_now_ms() < end);
    assert_int_equal(done.kind, WEFT_COMPLETION_WRITTEN);
}

/* A bucket of one frame; the rollout takes it, or ends the connection. */
static void send_bucket(const weft_version *base, const uint8_t *frame, uint32_t bytes)
{
    uint8_t *header = fake.memory + (1u << 20), check[8], body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_bucket bucket = {.incarnation = 1,
                               .sequence = told.buckets,
                               .base = *base,
                               .target = {9, 2, 0},
                               .epoch = hello.epoch,
                               .slot = (uint32_t)told.buckets % hello.slots,
                               .chunks = 1,
                               .offset = told.frame_bytes,
                               .payload_bytes = bytes,
                               .frames = 1};
    memcpy(bucket.layout, hello.layout, sizeof bucket.layout);
    weft_bytes_put(check, weft_frame_check(frame, bytes), 8);
    bucket.check = XXH3_64bits(check, sizeof check);
    weft_wire_put_bucket(header, &bucket);
    write_chunk(0, header, WEFT_BUCKET_HEADER_BYTES, 0);
    write_chunk(1, frame, bytes, WEFT_SLOT_HEADER_BYTES);
    fake_read_until(&fake, WEFT_MESSAGE_RECEIPT, body, &length);
    told.buckets++;
    told.frames++;
    told.frame_bytes += bytes;
}

/* Where a unit's bytes lie in a dense image. */
static uint64_t unit_at(const fleet *f, uint64_t unit)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < unit; i++)
        at += (uint64_t)f->layout->units[i].count * f->layout->units[i].width;
    return at;
}

/* The words of a unit as one frame; `parameters` say whether they are new bits or steps. */
static void send_words(const fleet *f, uint64_t unit, const uint8_t *words, uint32_t parameters,
                       const weft_version *base)
{
    const weft_unit *u = &f->layout->units[unit];
    uint64_t bytes = (uint64_t)u->count * u->width, payload = weft_frame_full_payload(u->count, u->width);
    weft_frame_header header = {(uint32_t)unit, 1, WEFT_LEVEL_FULL, (uint32_t)payload, u->count, parameters};
    memset(fake.memory, 0, WEFT_FRAME_HEADER_BYTES + payload);
    weft_frame_write_header(fake.memory, &header);
    memcpy(fake.memory + WEFT_FRAME_HEADER_BYTES, words, bytes);
    send_bucket(base, fake.memory, (uint32_t)(WEFT_FRAME_HEADER_BYTES + payload));
}

/* A unit whole, with the bits that it has in `dense`. */
static void send_unit(const fleet *f, uint64_t unit, const uint8_t *dense, const weft_version *base)
{
    send_words(f, unit, dense + unit_at(f, unit), WEFT_FULL_BITS, base);
}

static void send_tiles(const fleet *f, uint64_t count, const uint8_t *dense)
{
    for (uint64_t unit = 0; unit < count; unit++)
        send_unit(f, unit, dense, &nothing);
}

static void send_trailer(fleet *f)
{
    uint8_t body[WEFT_UPDATE_TRAILER_BYTES];
    weft_out out = {body, sizeof body, 0, false};
    fleet_model model;
    fleet_model_open(&model, f->layout, 0);
    fleet_model_put(&model, f->dense);
    assert_int_equal(weft_digest_tensors(f->layout, model.pieces, model.piece_count, NULL, NULL, &told.target.root),
                     WEFT_OK);
    fleet_model_close(&model);
    weft_wire_put_trailer(&out, &told);
    fake_say(&fake, WEFT_MESSAGE_TRAILER, &out);
}

/* Other bits, of which some come before it begins anew. */
static void send_void(fleet *f, uint64_t count)
{
    memcpy(f->scratch_dense, f->dense, f->bytes);
    fleet_change(f->layout, f->scratch_dense, 1000, &f->seed);
    send_tiles(f, count, f->scratch_dense);
}

/* The rollout ends the connection, and serves what it held; the trainer itself is believed. */
static void must_break_off(fleet *f, const char *words)
{
    weft_event event;
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
    if (event.status != WEFT_E_PROTOCOL || !strstr(event.text, words))
        fail_msg("%s, not \"%s\"", event.text, words);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    fake_close(&fake);
    close(listener);
    listener = -1;
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
}

static void tiles_of(void **state, bool all)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    const uint64_t units = f->layout->unit_count;
    send_void(f, all ? units : 3);
    send_unit(f, 1, f->scratch_dense, &before);
    send_tiles(f, 1, f->scratch_dense);
    send_tiles(f, units, f->dense);
    send_trailer(f);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(weft_commit(f->rollouts[0].session, 2, NULL, 0, NULL), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
}

static void in_between(void **state)
{
    tiles_of(state, false);
}

static void when_all_came(void **state)
{
    tiles_of(state, true);
}

static void counts_of_the_rest_alone(void **state)
{
    fleet *f = *state;
    send_void(f, 2);
    const weft_wire_trailer gone = told;
    send_tiles(f, f->layout->unit_count, f->dense);
    told.frames -= gone.frames;
    told.frame_bytes -= gone.frame_bytes;
    send_trailer(f);
    must_break_off(f, "the trailer says");
}

static void delta_for_a_void_tile(void **state)
{
    fleet *f = *state;
    send_void(f, 3);
    send_tiles(f, 1, f->dense);
    send_unit(f, 2, f->dense, &before);
    must_break_off(f, "before its tile");
}

static void goes_on_where_it_was(void **state)
{
    fleet *f = *state;
    send_void(f, 3);
    send_tiles(f, 1, f->dense);
    send_unit(f, 3, f->dense, &nothing);
    must_break_off(f, "expected unit 1");
}

/* Bits under a tile are nobody's base. */
static void tile_of_steps(void **state)
{
    fleet *f = *state;
    send_tiles(f, 1, f->dense);
    send_words(f, 1, f->dense + unit_at(f, 1), WEFT_FULL_STEPS, &nothing);
    must_break_off(f, "unit 1 as full of steps, expected unit 1 as full");
}

/* A tile and steps from it on make the bits that the trainer has. */
static void delta_of_steps(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    const weft_unit *u = &f->layout->units[1];
    const uint64_t at = unit_at(f, 1), top = UINT64_C(1) << (8 * u->width - 1);
    uint8_t *steps = malloc((uint64_t)u->count * u->width);
    assert_non_null(steps);
    memcpy(f->scratch_dense, f->dense, f->bytes);
    for (uint64_t i = 0; i < u->count; i++) {
        uint8_t *bits = f->scratch_dense + at + i * u->width;
        const uint64_t now = weft_bytes_get(bits, u->width), old = now ^ (i * 0x9e3779b97f4a7c15u & (2 * top - 1));
        const uint64_t flip = u->is_float ? top - 1 : 0;
        const uint64_t to = now & top ? now ^ flip : now, from = old & top ? old ^ flip : old;
        weft_bytes_put(bits, old, u->width);
        weft_bytes_put(steps + i * u->width, to - from, u->width);
    }
    send_tiles(f, f->layout->unit_count, f->scratch_dense);
    send_words(f, 1, steps, WEFT_FULL_STEPS, &before);
    send_trailer(f);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(weft_commit(f->rollouts[0].session, 2, NULL, 0, NULL), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
    free(steps);
}

static void ends_at_once(void **state)
{
    fleet *f = *state;
    send_void(f, f->layout->unit_count);
    send_tiles(f, 1, f->dense);
    send_trailer(f);
    must_break_off(f, "snapshot of version 2: 1 of");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(in_between),
                                       TEST(when_all_came),
                                       TEST(counts_of_the_rest_alone),
                                       TEST(delta_for_a_void_tile),
                                       TEST(goes_on_where_it_was),
                                       TEST(ends_at_once),
                                       TEST(tile_of_steps),
                                       TEST(delta_of_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
