/* A peer at level tight gets what it lacks as one update of the bytes that both ends make, or as close as the kept bits
 * of the base allow. Such updates are made of the bits of old versions. */
#include "tests/support/fleet_direct.h"

#include <string.h>

#include "peer/peer.h"
#include "peer/rebuild.h"

static const fleet_kind plain_fleet = {
    FLEET_TILES, .starts = true,
    .overrides = FLEET_WITH("trainer.journal=256MiB", "peers.level=tight", "peer.b.level=fast")};

static const fleet_kind large_fleet = {FLEET_LARGE, .starts = true,
                                       .overrides = FLEET_WITH("trainer.journal=256MiB", "peers.level=tight")};

/* ---- what it takes */

/* a comes back with the bits of version `base`, takes one update and leaves. The bytes that it received. */
static uint64_t rejoins(fleet *f, uint64_t base)
{
    weft_peer_info before = {0};
    fleet_peer(f, "a", &before);
    fleet_join_bits(f, 0, f->history[base].dense);
    fleet_catch_up(f, 0);
    weft_peer_info a = fleet_line(f, "a");
    assert_int_equal(fleet_stats(f->rollouts[0].session).versions, 1);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    assert_string_equal(a.level, "tight");
    assert_int_equal(a.snapshot_bytes, 0);
    fleet_leave(f, 0);
    return a.bytes - before.bytes;
}

/* ... are those of a direct update. */
static void rejoins_as_directly(fleet *f, uint64_t base)
{
    uint64_t received = rejoins(f, base), direct = fleet_direct_bytes(f, base, f->newest, "tight");
    print_message("%llu versions: received %llu bytes, a direct update has %llu\n",
                  (unsigned long long)(f->newest - base), (unsigned long long)received, (unsigned long long)direct);
    assert_true(received * 100 <= direct * 105);
}

/* Gives some tensors the bits that they had in version `from`. */
static void restore(fleet *f, uint64_t from, const char *but)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < f->layout->count; t++) {
        const weft_layout_entry *entry = &f->layout->entries[t];
        if (fleet_below(&f->seed, 2) && strcmp(entry->tensor.name, but) != 0)
            memcpy(f->dense + at, f->history[from].dense + at, entry->bytes);
        at += entry->bytes;
    }
    fleet_publish_dense(f, NULL);
}

/* All bits of one tensor are others. */
static void change_wholly(fleet *f, const char *name)
{
    const uint64_t at = fleet_tensor_at(f->layout, name);
    for (uint64_t t = 0; t < f->layout->count; t++)
        for (uint64_t i = 0; strcmp(f->layout->entries[t].tensor.name, name) == 0 && i < f->layout->entries[t].bytes;
             i++)
            f->dense[at + i] ^= (uint8_t)(1 + fleet_below(&f->seed, 255));
    fleet_publish_dense(f, NULL);
}

/* Changes here and there, bits that come back, versions that change a tensor wholly or nothing. */
static void any_versions(void **state)
{
    static const uint32_t densities[] = {0, 1, 5, 40, 200};
    fleet *f = *state;
    for (int round = 0; round < 5; round++) {
        const uint64_t base = f->newest, versions = 3 + fleet_below(&f->seed, 5);
        fleet_publish(f, 40);
        while (f->newest < base + versions) {
            uint64_t drawn = fleet_below(&f->seed, 8);
            if (drawn == 0)
                restore(f, base + fleet_below(&f->seed, f->newest - base), "bytes");
            else if (drawn == 1)
                change_wholly(f, "bytes");
            else
                fleet_publish(f, densities[drawn % 5]);
        }
        rejoins_as_directly(f, base);
    }
    assert_int_equal(fleet_stats(f->trainer.session).merges, 5);
}

/* Two wide tensors of four tiles each and more, of two widths. */
static void large_tensors(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 4; i++)
        fleet_publish(f, 10);
    restore(f, 2, "");
    rejoins_as_directly(f, 0);
}

/* The journal has one version as fast only, because no peer at tight was there. It is encoded anew. */
static void one_version(void **state)
{
    fleet *f = *state;
    fleet_publish(f, 40);
    rejoins_as_directly(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).merges, 1);
}

/* Everything came back: nothing is sent of it. */
static void all_came_back(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 40);
    memcpy(f->dense, f->history[0].dense, f->bytes);
    fleet_publish_dense(f, NULL);
    fleet_publish(f, 1);
    rejoins_as_directly(f, 0);
}

/* Every version changes all: nothing is known of the base, and each unit goes whole, once. */
static void all_of_it_wholly(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 1000);
    assert_true(rejoins(f, 0) <= f->bytes + 4096); /* and headers */
}

/* Two at one base that want other levels get each their own. */
static void each_its_level(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 4; i++)
        fleet_publish(f, 30);
    for (unsigned at = 0; at < 3; at++)
        fleet_join_bits(f, at, f->history[0].dense);
    for (unsigned at = 0; at < 3; at++)
        fleet_catch_up(f, at);
    weft_peer_info a = fleet_line(f, "a"), b = fleet_line(f, "b"), c = fleet_line(f, "c");
    assert_string_equal(a.level, "tight");
    assert_string_equal(b.level, "fast");
    assert_string_equal(c.level, "tight");
    assert_int_equal(a.bytes, c.bytes);
    assert_true(a.bytes < b.bytes);
    assert_int_equal(fleet_stats(f->trainer.session).merges, 2);
}

/* ---- where it cannot be */

/* Room for what one version changes, not for all of them: they come one by one. */
static const fleet_kind little_staging_fleet = {FLEET_TILES, .starts = true,
                                                .overrides = FLEET_WITH("trainer.journal=256MiB", "peers.level=tight",
                                                                        "peers.staging=2200KiB", "peers.encoded=0MiB")};

static void beyond_the_staging(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 4; i++)
        fleet_publish(f, 600);
    fleet_join_bits(f, 0, f->history[0].dense);
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
    assert_true(fleet_stats(f->rollouts[0].session).versions > 1);
}

/* A journal of sixteen blocks that forgot what lies between. */
static const fleet_kind little_journal_fleet = {FLEET_TILES, .starts = true,
                                                .overrides = FLEET_WITH("peers.level=tight")};

static void beyond_the_journal(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 30; i++)
        fleet_publish(f, 600);
    fleet_join_bits(f, 0, f->history[0].dense);
    fleet_catch_up(f, 0);
    assert_true(fleet_line(f, "a").snapshot_bytes > 0);
    assert_int_equal(fleet_stats(f->trainer.session).merges, 0);
    fleet_leave(f, 0);
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 30);
    fleet_join_bits(f, 0, f->history[30].dense);
    fleet_catch_up(f, 0);
    assert_string_equal(fleet_line(f, "a").level, "tight");
}

/* ---- bits of old versions */

/* Returns the offset of a unit's bytes in the dense image. */
static uint64_t place_of(const weft_layout *layout, uint64_t unit)
{
    uint64_t at = 0;
    for (uint64_t u = 0; u < unit; u++)
        at += (uint64_t)layout->units[u].count * layout->units[u].width;
    return at;
}

/* Version `order` in the block around a unit. */
static void check_image(const fleet *f, const weft_image *image, uint64_t order)
{
    assert_int_equal(image->order, order);
    for (uint32_t i = 0; i < image->units; i++) {
        const uint64_t unit = image->unit + i, at = place_of(f->layout, unit);
        const weft_unit *u = &f->layout->units[unit];
        assert_memory_equal(weft_image_at(f->layout, image, unit), f->history[order].dense + at,
                            (size_t)u->count * u->width);
    }
}

/* Orders are version numbers here. The bridge's thread has nothing to do. */
static void bits_of_any_version(void **state)
{
    fleet *f = *state;
    weft_bridge *bridge = &f->trainer.session->trainer->publisher.bridge;
    fleet_publish(f, 20);
    change_wholly(f, "bytes"); /* 2 */
    fleet_publish(f, 3);
    fleet_publish(f, 0);
    fleet_publish(f, 1000); /* 5 */
    fleet_publish(f, 100);
    for (uint64_t order = 0; order <= f->newest; order++)
        for (uint64_t unit = 0; unit < f->layout->unit_count; unit++) {
            assert_int_equal(weft_rebuild_target(bridge->rebuilder, order, unit, 0), WEFT_OK);
            check_image(f, &bridge->rebuilder->target, order);
            if (order == 0)
                continue;
            assert_int_equal(weft_rebuild_base(bridge->rebuilder, order - 1), WEFT_OK);
            check_image(f, &bridge->rebuilder->base, order - 1);
        }
    assert_int_equal(weft_rebuild_target(bridge->rebuilder, f->newest + 1, 0, 0), WEFT_E_BUDGET);
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_versions),
        FLEET_TEST(large_tensors, large_fleet),
        TEST(one_version),
        TEST(all_came_back),
        TEST(all_of_it_wholly),
        TEST(each_its_level),
        FLEET_TEST(beyond_the_staging, little_staging_fleet),
        FLEET_TEST(beyond_the_journal, little_journal_fleet),
        TEST(bits_of_any_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
