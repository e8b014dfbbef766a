/* The memory that both ends take beyond the weights is as promised: the trainer's shadow, journal and little else, the
 * rollout's slots and staging. No update takes more. */
#include "tests/support/sim.h"

#include <string.h>

#include "base/mem.h"
#include "layout/layout.h"
#include "peer/peer.h"
#include "rollout/rollout.h"

#define MIB UINT64_C(1048576)

static const char site_text[] =
    "[trainer]\nlisten = 127.0.0.1:0\njournal = 256MiB\n[peers]\nprovider = loop\n"
    "staging = 256MiB\nencoded = 64MiB\nbucket_max = 4MiB\n[peer.p*]\n[log]\nlevel = error\n";

static weft_layout *dense_layout(uint64_t bytes)
{
    const uint64_t shape[] = {bytes / 2 / 4096, 4096};
    const weft_tensor tensor = {"w", WEFT_BF16, 2, shape};
    weft_layout *layout = NULL;
    assert_int_equal(weft_layout_create(&tensor, 1, &layout), WEFT_OK);
    return layout;
}

/* Bar M1, with 64 peers and a journal of 256 MiB. Room for merging, encoding and digests of past versions is address
 * space that is touched as far as it is needed: bench_memory measures what is. With models below 1 GiB the fixed part
 * (10 MB of slabs, 0.1 MB a peer) is more than 2 %. */
static void trainer_beyond_the_weights(void **state)
{
    static const uint64_t sizes[] = {1024 * MIB, 4096 * MIB, 16384 * MIB};
    weft_site *site = fleet_site_load(site_text, NULL, 0);
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        weft_stats_info stats = {.size = sizeof stats};
        weft_session *trainer = NULL;
        weft_layout *layout = dense_layout(sizes[i]);
        assert_int_equal(weft_trainer_open(site, layout, NULL, &trainer), WEFT_OK);
        assert_int_equal(weft_stats(trainer, &stats), WEFT_OK);
        const uint64_t past = trainer->trainer->publisher.history.bytes,
                       lanes = trainer->trainer->publisher.encoding.encoder.lanes.count;
        const uint64_t apart = weft_bridge_need(layout) + weft_encoder_need(layout, (uint32_t)lanes, 1) + past +
                               (lanes + 1) * trainer->backend->host_bytes;
        assert_true(past <= 64 * MIB + 4096);
        if ((stats.memory_bytes - apart) * 100 > (sizes[i] + 256 * MIB) * 102)
            fail_msg("a model of %llu bytes: %llu, %.3f times shadow and journal", (unsigned long long)sizes[i],
                     (unsigned long long)stats.memory_bytes,
                     (double)stats.memory_bytes / (double)(sizes[i] + 256 * MIB));
        assert_true(stats.memory_bytes >= sizes[i] + 256 * MIB);
        weft_close(trainer);
        weft_layout_free(layout);
    }
    weft_site_free(site);
}

/* Bar M2: the slots with their header pages, the staging, one bucket aside and the room to unpack a tile; no copy of
 * the model, whose size changes nothing. */
static void rollout_beyond_the_weights(void **state)
{
    weft_site *site = fleet_site_load(site_text, NULL, 0);
    const uint64_t slots = 4 * (4 * MIB + WEFT_SLOT_HEADER_BYTES), staging = 256 * MIB;
    (void)state;
    for (uint64_t size = 64 * MIB; size <= 4096 * MIB; size *= 8) {
        weft_stats_info stats = {.size = sizeof stats};
        weft_session *rollout = NULL;
        weft_layout *layout = dense_layout(size);
        assert_int_equal(weft_rollout_open(site, "p1", layout, NULL, &rollout), WEFT_OK);
        assert_int_equal(weft_stats(rollout, &stats), WEFT_OK);
        const weft_rollout *r = rollout->rollout;
        assert_int_equal(r->intake.slots.bytes, slots);
        assert_int_equal(r->stage.staging.bytes, staging);
        assert_int_equal(r->arriving.kept.capacity, 64 * MIB);
        const uint64_t fixed = slots + staging + 64 * MIB + r->arriving.taken.capacity + r->stage.unpacker.bytes;
        assert_true(r->arriving.taken.capacity + r->stage.unpacker.bytes <= 8 * MIB);
        const uint64_t decoding = rollout->backend->host_bytes;
        assert_in_range(stats.memory_bytes, fixed + decoding,
                        fixed + decoding + size / 1000); /* digests, runs of tiles */
        weft_close(rollout);
        weft_layout_free(layout);
    }
    weft_site_free(site);
}

/* Bar M3: after the first update of its kind none takes a block, whatever the levels of the peers, at any end. */
static void updates_take_nothing(void **state)
{
    static const char *const names[] = {"auto0", "fast0", "tight0", "pairs0", "full0", "tight1"};
    sim *s = sim_open(FLEET_SMALL, 6, 42);
    (void)state;
    sim_start_trainer(s);
    for (unsigned i = 0; i < 6; i++)
        sim_join(s, &s->rollouts[i], names[i], s->dense, "commit.snapshot=staged");
    for (unsigned version = 0; version < 6; version++) {
        sim_publish(s, version % 2 ? 20 : 600);
        sim_settle(s, 5000);
    }
    uint64_t allocations = weft_mem_allocations(), scrubs = 0;
    for (unsigned version = 0; version < 20; version++) {
        sim_publish(s, version % 2 ? 20 : 600);
        uint64_t before = weft_mem_allocations();
        sim_settle(s, 5000); /* ends with a scrub of each, which takes digests for itself */
        scrubs += 6;
        assert_true(weft_mem_allocations() - before <= 6);
    }
    assert_int_equal(weft_mem_allocations() - allocations, scrubs);
    sim_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trainer_beyond_the_weights),
                                       cmocka_unit_test(rollout_beyond_the_weights),
                                       cmocka_unit_test(updates_take_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
