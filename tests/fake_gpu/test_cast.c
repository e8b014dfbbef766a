/* Masters of F32 in a device's memory: rollouts get the bits that the device rounds, and blocks that no device takes
 * yet are refused by name. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "layout/slice.h"
#include "tests/fake_gpu/far.h"
#include "tests/support/cast_world.h"

/* Each tensor in one block, as the tensor lies; those of BF16 as F32. */
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
        const bool cast = f->layout->entries[t].row->dtype == WEFT_BF16;
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
    fleet_bind_trainer(f, NULL); /* the mirror has the same bits */
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

/* ---- refusals */

static void refused(const fleet *f, const far_masters *m, weft_block *blocks, const weft_block *more, const char *words)
{
    uint64_t count = m->count;
    if (more)
        blocks[count++] = *more;
    assert_int_equal(weft_bind_blocks(f->trainer.session, blocks, count, NULL, 0, 0), WEFT_E_ARGUMENT);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void other_blocks_are_refused_by_name(void **state)
{
    static const char *const overrides[] = {"trainer.backend=cuda", NULL};
    weft_block blocks[CAST_TENSORS + 1];
    far_masters m;
    uint64_t norm = 0;
    (void)state;
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    f->trainer.far = &far_cuda_0;
    masters_open(&m, f, &far_cuda_0);
    fleet_open_trainer(f);
    while (strcmp(f->layout->entries[m.blocks[norm].slice.tensor].tensor.name, "norm.2") != 0)
        norm++;
    memcpy(blocks, m.blocks, sizeof m.blocks);
    weft_block second = blocks[norm];
    blocks[norm].slice.rows = 10;
    second.slice.row = 10;
    second.slice.rows -= 10;
    second.data = (uint8_t *)second.data + 10 * second.slice.columns * 4;
    refused(f, &m, blocks, &second, "norm.2, 10 rows from 0 of 33");
    refused(f, &m, blocks, &second, "reads memory F32 as BF16 where one block has all of the tensor here");
    blocks[norm] = m.blocks[norm];
    blocks[norm].data = m.bound;
    blocks[norm].row[0] = (weft_stride){33, 4};
    blocks[norm].column[0] = (weft_stride){31, 33 * 4};
    refused(f, &m, blocks, NULL, "lies as the tensor does: bind such a block, or work on the host");
    blocks[norm] = m.blocks[norm];
    blocks[norm].data = m.w.dense;
    refused(f, &m, blocks, NULL, "norm.2");
    assert_int_equal(masters_bind(f, &m), WEFT_OK);
    masters_close(&m);
    far_fleet_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuda_rounds), cmocka_unit_test(hip_rounds),
                                       cmocka_unit_test(other_blocks_are_refused_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
