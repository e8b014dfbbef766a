/* world.c - see world.h. */
#include "tests/emulation/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/digest.h"

uint64_t world_draw(emulation_world *world, uint64_t limit)
{
    world->seed += WEFT_PHI;
    return weft_mix64(world->seed) % limit;
}

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "world: %s\n", what);
    abort();
}

/* Cuts the tensors into pieces in `target`, each at any place that is aligned to the width. */
static uint64_t pieces_make(emulation_world *world, const world_kind *kind, weft_piece *pieces)
{
    uint64_t made = 0, at = 0;
    for (uint64_t t = 0; t < world->layout->count; t++) {
        const weft_layout_entry *entry = &world->layout->entries[t];
        uint64_t left = entry->elements;
        for (uint32_t p = 0; left > 0; p++) {
            const uint64_t take = p + 1 >= kind->pieces ? left : 1 + world_draw(world, left);
            const unsigned width = entry->row->width;
            at += (16 - at % 16) % 16 + (world_draw(world, 3) ? 0 : world_draw(world, 17) * width);
            pieces[made++] = (weft_piece){t, entry->elements - left, take, world->target + at};
            at += take * entry->row->bits / 8;
            left -= take;
        }
    }
    return made;
}

static void binding_make(emulation_world *world, const world_kind *kind)
{
    static weft_piece pieces[WORLD_PIECES];
    const uint64_t bytes = weft_layout_bytes(world->layout);
    world->base = malloc(bytes + 8);
    world->target = malloc(bytes + (uint64_t)kind->tensors * kind->pieces * 176 + 8);
    must(world->base && world->target, "no memory");
    for (uint64_t i = 0; i < bytes; i += 8) {
        const uint64_t bits = world_draw(world, UINT64_MAX);
        memcpy(world->base + i, &bits, bytes - i < 8 ? bytes - i : 8);
    }
    must(weft_binding_open_image(world->layout, world->base, &world->shadow) == WEFT_OK, "image");
    const uint64_t count = pieces_make(world, kind, pieces);
    must(weft_binding_open(world->layout, pieces, count, &world->now) == WEFT_OK, "pieces");
}

void world_make(emulation_world *world, const world_kind *kind, uint64_t seed)
{
    weft_tensor tensors[WORLD_TENSORS];
    uint64_t sizes[WORLD_TENSORS];
    char names[WORLD_TENSORS][16];
    *world = (emulation_world){.seed = seed};
    for (uint32_t t = 0; t < kind->tensors; t++) {
        sizes[t] = kind->equal ? kind->elements : 1 + world_draw(world, kind->elements);
        snprintf(names[t], sizeof names[t], "t%u", t);
        tensors[t] = (weft_tensor){names[t], kind->mixed && t % 2 ? WEFT_U8 : kind->dtype, 1, &sizes[t]};
    }
    must(weft_layout_create(tensors, kind->tensors, &world->layout) == WEFT_OK, "layout");
    binding_make(world, kind);
}

void world_drop(emulation_world *world)
{
    weft_binding_close(&world->shadow);
    weft_binding_close(&world->now);
    weft_layout_free(world->layout);
    free(world->base);
    free(world->target);
}

static uint64_t bits_get(const uint8_t *at, unsigned width)
{
    uint64_t bits = 0;
    memcpy(&bits, at, width);
    return bits;
}

/* Another value than `bits`. */
static uint64_t bits_change(emulation_world *world, uint64_t bits, unsigned width, const world_change *change)
{
    const uint64_t mask = UINT64_MAX >> (64 - 8 * width);
    uint64_t to = bits;
    if (world_draw(world, 100) >= change->wild)
        to = bits + (world_draw(world, 2) ? 1 : UINT64_MAX) * (world_draw(world, 8) ? 1 : world_draw(world, 300));
    else if (world_draw(world, 4) == 0)
        to = UINT64_C(1) << world_draw(world, 8 * width);
    else
        to = world_draw(world, UINT64_MAX);
    return (to & mask) == bits ? bits ^ 1 : to & mask;
}

static void run_step(emulation_world *world, const weft_run *run, const uint8_t *base, unsigned width,
                     const world_change *change)
{
    const uint64_t gap = change->per_million ? UINT64_C(2000000) / change->per_million : 0;
    memcpy(run->data, base, (uint64_t)run->count * width);
    for (uint64_t i = 0; change->per_million > 0; i++) {
        const bool in = change->clusters && i % change->clusters != change->clusters - 1;
        static uint64_t at;
        at = i == 0 ? world_draw(world, gap) : at + 1;
        if (i > 0 && !in)
            at += gap > 1 ? world_draw(world, change->clusters ? gap * change->clusters : gap - 1) : 0;
        if (at >= run->count)
            break;
        const uint64_t bits = bits_change(world, bits_get(base + at * width, width), width, change);
        memcpy(run->data + at * width, &bits, width);
    }
}

void world_step(emulation_world *world, const world_change *change)
{
    for (uint64_t unit = 0; unit < world->layout->unit_count; unit++) {
        const weft_view now = weft_binding_view(&world->now, unit), shadow = weft_binding_view(&world->shadow, unit);
        const weft_run *base = shadow.runs;
        for (uint32_t r = 0; r < now.run_count; r++) {
            const uint32_t position = weft_run_position(&now, &now.runs[r]);
            while (weft_run_position(&shadow, base) + base->count <= position)
                base++;
            run_step(world, &now.runs[r],
                     base->data + (uint64_t)(position - weft_run_position(&shadow, base)) * now.width, now.width,
                     change);
        }
    }
}
