/* Buckets that land in a device's memory: over a provider that grants it, a provider that does not, and one that takes
 * it back later. The log says what was chosen. */
#include <string.h>

#include "base/status.h"
#include "tests/support/deferred.h"
#include "tests/support/fleet.h"
#include "tests/support/granting.h"
#include "tests/support/relay_site.h"

static void put(void *to, const void *from, uint64_t bytes)
{
    memcpy(deferred_bytes(to), from, bytes);
}

/* Landed bytes are not read before this. */
static weft_status arrive(void)
{
    granting_flush(put);
    return WEFT_OK;
}

static fleet *open_granting(granting_how how, const char *const *overrides)
{
    const char *asked[16] = {"peers.direct=auto"};
    for (size_t i = 0; overrides && overrides[i] && i + 2 < sizeof asked / sizeof *asked; i++)
        asked[i + 1] = overrides[i];
    fleet *f = fleet_open_device(FLEET_TILES, asked, false, true, 8);
    granting_lend(how, NULL);
    deferred_arrive = arrive;
    fleet_start_trainer(f, "first");
    return f;
}

static void close_granting(fleet *f)
{
    fleet_close(f);
    assert_int_equal(granting_regions(), 0);
    granting_take_back();
}

static void lands(fleet *f, unsigned at, const char *text)
{
    weft_stats_info stats = fleet_stats(f->rollouts[at].session);
    if (!strstr(stats.landing, text))
        fail_msg("\"%s\" does not say \"%s\"", stats.landing, text);
}

/* Updates, attachments, snapshots into the weights and beside them, from whatever bits. */
static void play(fleet *f)
{
    static const uint32_t densities[] = {1, 30, 1000, 0};
    fleet_join(f, 0, FLEET_SAME);
    for (size_t i = 0; i < sizeof densities / sizeof *densities; i++) {
        fleet_publish(f, densities[i]);
        fleet_catch_up(f, 0);
    }
    fleet_publish_dense(f, "an attachment of another length");
    fleet_catch_up(f, 0);
    fleet_join(f, 1, FLEET_OTHER);
    fleet_catch_up(f, 1);
    fleet_leave(f, 0);
    fleet_publish(f, 5);
    fleet_join(f, 0, FLEET_EMPTY);
    for (unsigned at = 0; at < 2; at++) {
        fleet_catch_up(f, at);
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    }
}

static void what_is_granted_is_used(void **state)
{
    (void)state;
    static const char *const staged_image[] = {"commit.snapshot=staged", "peers.level=tight", "peers.streams=2", NULL};
    for (int image = 0; image < 2; image++) {
        fleet *f = open_granting(GRANTING_ALL, image ? staged_image : NULL);
        play(f);
        lands(f, 0, "direct: loop writes into the device's memory, flushed before it is read");
        assert_true(granting_writes() > 0);
        close_granting(f);
    }
}

/* Damage on the way is found as it is elsewhere. */
static void damage_is_found(void **state)
{
    (void)state;
    fleet *f = open_granting(GRANTING_ALL, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    weft_loop_set_faults(&(weft_loop_faults){.seed = 5, .corrupt_at = 2});
    fleet_publish(f, 30);
    fleet_catch_up(f, 0);
    assert_true(fleet_stats(f->rollouts[0].session).check_failures > 0);
    fleet_check_bytes(f, 0, f->dense);
    close_granting(f);
}

static void stays_staged(granting_how how, const char *override, const char *text)
{
    const char *overrides[] = {override, NULL};
    fleet *f = open_granting(how, overrides);
    fleet_join(f, 0, FLEET_OTHER);
    fleet_publish(f, 5);
    fleet_catch_up(f, 0);
    lands(f, 0, text);
    assert_int_equal(granting_writes(), 0);
    close_granting(f);
}

static void what_is_not_granted_is_staged(void **state)
{
    (void)state;
    relay_site site = {0};
    stays_staged(GRANTING_NONE, NULL, "host memory: ");
    stays_staged(GRANTING_HOLLOW, NULL, "staged in host memory: the test takes no registration");
    stays_staged(GRANTING_ALL, "peers.direct=off", "staged in host memory: direct = off");
    stays_staged(GRANTING_ALL, relay_of(&site, "a"), "staged in host memory: a relay");
}

static void weights_of_the_host_stay_there(void **state)
{
    (void)state;
    fleet *f = fleet_open_device(FLEET_SMALL, NULL, false, false, 1);
    granting_lend(GRANTING_ALL, NULL);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_OTHER);
    fleet_catch_up(f, 0);
    lands(f, 0, "staged in host memory: the weights are there");
    close_granting(f);
}

static weft_status arrive_never(void)
{
    return weft_fail(WEFT_E_DEVICE, "nobody knows what arrived");
}

/* A device that cannot say what arrived is lost. */
static void a_flush_that_fails_ends_the_session(void **state)
{
    (void)state;
    fleet *f = open_granting(GRANTING_ALL, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    deferred_arrive = arrive_never;
    fleet_publish(f, 5);
    uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (fleet_commit(f, 0, 50) != WEFT_E_DEVICE)
        assert_true(fleet_now_ms() < end);
    close_granting(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_granted_is_used),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(what_is_not_granted_is_staged),
        cmocka_unit_test(weights_of_the_host_stay_there),
        cmocka_unit_test(a_flush_that_fails_ends_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
