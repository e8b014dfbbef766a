/* Snapshots in byte planes: what the site or a slow link asks for is packed, and the bits are the trainer's. */
#include "tests/support/fleet.h"

#include <string.h>

/* Bits that shrink in places: every second 4 KiB holds bytes of a few values, which is regular in any dtype. */
static void make_regular(fleet *f)
{
    for (uint64_t i = 0; i < f->bytes; i++)
        f->dense[i] = i / 4096 % 2 ? f->dense[i] & 0x41 : f->dense[i];
}

static const fleet_kind plain_fleet = {
    FLEET_TILES, .starts = true,
    .overrides = FLEET_WITH("peer.a.snapshot_coding=planes", "peer.b.snapshot_coding=verbatim",
                            "peer.c.rate_limit=1000Mbit/s", "peer.b.rate_limit=1000Mbit/s"),
    .open = make_regular};

static uint64_t snapshot_bytes(fleet *f, const char *name)
{
    weft_peer_info info;
    assert_true(fleet_peer(f, name, &info));
    return info.snapshot_bytes;
}

static void joins_by_snapshot(fleet *f, unsigned at, fleet_start start)
{
    fleet_join(f, at, start);
    fleet_catch_up(f, at);
    fleet_check_bytes(f, at, f->dense);
}

static void planes_are_chosen_by_key_and_limit(void **state)
{
    fleet *f = *state;
    joins_by_snapshot(f, 0, FLEET_EMPTY);
    joins_by_snapshot(f, 1, FLEET_OTHER);
    joins_by_snapshot(f, 2, FLEET_EMPTY);
    assert_true(snapshot_bytes(f, "a") < f->bytes * 9 / 10);
    assert_true(snapshot_bytes(f, "b") >= f->bytes);
    assert_int_equal(snapshot_bytes(f, "c"), snapshot_bytes(f, "a"));
}

/* Deltas follow packed tiles as they follow verbatim ones, and updates go on after them. */
static void updates_follow_packed_tiles(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_EMPTY);
    for (int i = 0; i < 4; i++)
        fleet_publish(f, i == 2 ? 1000 : 20);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
    fleet_publish(f, 5);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(planes_are_chosen_by_key_and_limit, plain_fleet),
        FLEET_TEST(updates_follow_packed_tiles, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
