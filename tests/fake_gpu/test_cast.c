/* Masters of F32 in a device's memory, as tensors lie and in blocks with strides: rollouts get the bits that the device
 * rounds. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "layout/slice.h"
#include "tests/fake_gpu/far.h"
#include "tests/support/cast_world.h"

/* Each tensor in one block, as the tensor lies; those of BF16 and F16 as F32. */
typedef struct far_masters {
    cast_world w;
    const fleet_far *far;
    uint8_t *bound, *copy; /* on the device, and what is written there */
    uint64_t bytes;
    weft_block blocks[CAST_TENSORS];
    uint64_t count;
} far_masters;

static void masters_put(far_masters *m)
{
    const uint8_t *from = m->w.dense;
    for (uint64_t t = 0, b = 0; t < m->w.layout->count; t++) {
        const uint64_t bytes = m->w.master->entries[t].bytes;
        if (bytes > 0)
            memcpy(m->copy + ((uint8_t *)m->blocks[b++].data - m->bound), from, bytes);
        from += bytes;
    }
    m->far->write(m->bound, m->copy, m->bytes);
}

static void masters_open(far_masters *m, fleet *f, const fleet_far *far)
{
    uint64_t at = 0;
    *m = (far_masters){.far = far};
    cast_world_open(&m->w, f->layout, &f->seed);
    m->bytes = m->w.master->bytes + 64 * f->layout->count;
    m->bound = far->take(m->bytes);
    m->copy = pair_memory(m->bytes);
    for (uint64_t t = 0; t < f->layout->count; t++) {
        const bool cast = cast_is(f->layout->entries[t].row->dtype);
        if (f->layout->entries[t].elements == 0)
            continue;
        at = (at + 15) / 16 * 16 + (cast ? 4 * (t % 4) : 0);
        m->blocks[m->count++] =
            (weft_block){.slice = weft_slice_whole(f->layout, t), .data = m->bound + at, .memory = cast ? WEFT_F32 : 0};
        at += m->w.master->entries[t].bytes;
    }
    masters_put(m);
    cast_mirror(&m->w, f->dense, false);
}

static void masters_close(far_masters *m)
{
    cast_world_close(&m->w);
    m->far->give(m->bound);
    free(m->copy);
}

static weft_status masters_bind(const fleet *f, const far_masters *m)
{
    return weft_bind_blocks(f->trainer.session, m->blocks, m->count, NULL, 0, 0);
}

/* What is bound now has the bits of what was bound first. */
static void mirror_is_equal(fleet *f)
{
    weft_update_info info = {.size = sizeof info};
    assert_int_equal(weft_publish(f->trainer.session, ++f->newest, NULL, NULL, &info), WEFT_OK);
    assert_int_equal(info.changed, 0);
}

/* ---- rollouts get what the device rounds */

static void updates_land(const char *backend, const fleet_far *far, const char *shadow)
{
    static const uint64_t densities[] = {20, 300, 1000, 0};
    const char *overrides[] = {backend,
                               shadow,
                               "peers.backend=host",
                               "peer.a.level=tight",
                               "peer.b.level=full",
                               "peer.c.level=fast",
                               "peer.x*.level=pairs",
                               NULL};
    far_masters m;
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    f->trainer.far = far;
    masters_open(&m, f, far);
    fleet_open_trainer(f);
    assert_int_equal(masters_bind(f, &m), WEFT_OK);
    fleet_bind_trainer(f, NULL);
    mirror_is_equal(f);
    assert_int_equal(masters_bind(f, &m), WEFT_OK);
    for (unsigned at = 0; at < 4; at++)
        fleet_join(f, at, at % 2 ? FLEET_OTHER : FLEET_SAME);
    for (size_t d = 0; d < sizeof densities / sizeof *densities; d++) {
        cast_change(&m.w, &f->seed, densities[d]);
        cast_mirror(&m.w, f->dense, false);
        masters_put(&m);
        fleet_publish_dense(f, NULL);
        for (unsigned at = 0; at < 4; at++)
            fleet_catch_up(f, at);
    }
    for (unsigned at = 0; at < 4; at++)
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    masters_close(&m);
    far_fleet_close(f);
}

static void cuda_rounds(void **state)
{
    (void)state;
    updates_land("trainer.backend=cuda", &far_cuda_0, "trainer.shadow=device");
}

static void hip_rounds(void **state)
{
    (void)state;
    updates_land("trainer.backend=hip", &far_hip_0, "trainer.shadow=host");
}

/* ---- masters in blocks with strides */

static void strided_put(const cast_world *w, uint8_t *bound)
{
    far_cuda_0.write(bound, w->world.memory, w->world.bytes);
}

static void strides_and_casts_go_together(void **state)
{
    static const char *const overrides[] = {"trainer.backend=cuda", "peers.backend=host", NULL};
    cast_world w;
    weft_block blocks[BLOCK_MOST];
    (void)state;
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    cast_world_open(&w, f->layout, &f->seed);
    uint8_t *bound = far_cuda_0.take(w.world.bytes);
    for (uint64_t i = 0; i < w.world.count; i++) {
        blocks[i] = w.world.blocks[i];
        blocks[i].data = bound + ((uint8_t *)blocks[i].data - w.world.memory);
    }
    strided_put(&w, bound);
    cast_mirror(&w, f->dense, false);
    f->trainer.far = &far_cuda_0;
    fleet_open_trainer(f);
    fleet_bind_trainer(f, NULL);
    assert_int_equal(weft_bind_blocks(f->trainer.session, blocks, w.world.count, NULL, 0, 0), WEFT_OK);
    mirror_is_equal(f);
    fleet_join(f, 0, FLEET_SAME);
    for (unsigned i = 0; i < 3; i++) {
        cast_change(&w, &f->seed, 200);
        cast_mirror(&w, f->dense, false);
        strided_put(&w, bound);
        fleet_publish_dense(f, NULL);
        fleet_catch_up(f, 0);
    }
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    blocks[0].data = w.world.memory;
    assert_int_equal(weft_bind_blocks(f->trainer.session, blocks, w.world.count, NULL, 0, 0), WEFT_E_ARGUMENT);
    far_cuda_0.give(bound);
    cast_world_close(&w);
    far_fleet_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuda_rounds), cmocka_unit_test(hip_rounds),
                                       cmocka_unit_test(strides_and_casts_go_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
