/* decode_classes.h - level tight: what of the lists belongs to which part of the base. */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_CLASSES_H
#define WEFT_BACKENDS_KERNELS_DECODE_CLASSES_H

#include "backends/kernels/classes.h"
#include "backends/kernels/decode_tight.h"

static_assert(WEFT_K_ELEMENTS == WEFT_STRIP && WEFT_K_SHARE == WEFT_CHUNK, "a part is a strip");

struct weft_classes_shared {
    weft_class_table table;
    weft_class_ranks ranks;
};

WEFT_KERNEL(decode_classes)(const weft_k_decode_classes *rows)
{
    WEFT_SHARED(weft_classes_shared, shared);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t first = part->index * WEFT_K_ELEMENTS + weft_thread() * WEFT_K_SHARE;
    weft_class_table_load(&shared.table, tight->of, tight->mask);
    const uint32_t count = weft_share_of(job, first);
    const weft_quad planes = weft_planes_of(&shared.table, tight->shift, tight->mask, &job->view, first, count);
    weft_ranks_make(&shared.ranks, planes, count, tight->classes);
    WEFT_AT(weft_quad, tight->planes)[part->index * WEFT_BLOCK + weft_thread()] = planes;
    if (weft_thread() < tight->classes)
        WEFT_AT(uint32_t, tight->populations)
    [part->index * WEFT_K_CLASSES + weft_thread()] = shared.ranks.all[weft_thread()];
}

#define WEFT_K_SEGMENTS (WEFT_BLOCK / WEFT_K_CLASSES)
#define WEFT_K_AHEAD    8u /* parts whose counts are read before the first is used */

struct weft_populations_shared {
    uint32_t segment[WEFT_BLOCK];
    uint32_t changed[WEFT_K_CLASSES];
};

/* The lists of a class against its population. One thread a class. */
WEFT_DEVICE void weft_population_check(const weft_k_decode *job, uint32_t cls, uint32_t population, uint32_t *changed)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const weft_k_set *positions = &tight->positions[cls];
    const bool fits = weft_set_fits(positions, population);
    *changed = fits ? weft_set_size(positions, population, positions->count) : 0;
    if (!fits || !weft_set_fits(&tight->exceptions[cls], *changed))
        weft_fault_note(job, WEFT_K_LAUNCH_POPULATIONS, WEFT_K_FAULT_BASE);
}

/* Threads stand in rows of a thread a class; each row sums a segment of the parts. */
WEFT_KERNEL(decode_populations)(const weft_k_decode_populations *rows)
{
    WEFT_SHARED(weft_populations_shared, shared);
    const weft_k_decode *job = weft_decode_of(rows + weft_block());
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t *populations = WEFT_AT(const uint32_t, tight->populations);
    uint32_t *starts = WEFT_AT(uint32_t, tight->starts);
    const uint32_t cls = weft_thread() % WEFT_K_CLASSES, segment = weft_thread() / WEFT_K_CLASSES;
    const uint32_t each = (tight->parts + WEFT_K_SEGMENTS - 1) / WEFT_K_SEGMENTS;
    const uint32_t first = segment * each, beyond = first + each < tight->parts ? first + each : tight->parts;
    const bool there = cls < tight->classes;
    if (weft_faulted(job, WEFT_K_LAUNCH_POPULATIONS))
        return;
    uint32_t sum = 0, before = 0, all = 0;
    for (uint32_t p = first; there && p < beyond; p++)
        sum += populations[p * WEFT_K_CLASSES + cls];
    shared.segment[weft_thread()] = sum;
    weft_barrier();
    for (uint32_t s = 0; s < WEFT_K_SEGMENTS; s++) {
        const uint32_t other = shared.segment[s * WEFT_K_CLASSES + cls];
        before += s < segment ? other : 0;
        all += other;
    }
    for (uint32_t p = first; p < beyond; p += WEFT_K_AHEAD) {
        uint32_t some[WEFT_K_AHEAD];
        for (uint32_t i = 0; i < WEFT_K_AHEAD; i++)
            some[i] = there && p + i < beyond ? populations[(p + i) * WEFT_K_CLASSES + cls] : 0;
        for (uint32_t i = 0; i < WEFT_K_AHEAD; i++) {
            if (p + i < beyond)
                starts[(p + i) * WEFT_K_CLASSES + cls] = before;
            before += some[i];
        }
    }
    if (segment == 0) {
        starts[tight->parts * WEFT_K_CLASSES + cls] = all;
        weft_population_check(job, cls, all, &shared.changed[cls]);
    }
    weft_barrier();
    if (weft_thread() != 0)
        return;
    uint32_t changed = 0;
    for (uint32_t c = 0; c < WEFT_K_CLASSES; c++)
        changed += shared.changed[c];
    if (changed != job->changed)
        weft_fault_note(job, WEFT_K_LAUNCH_POPULATIONS, WEFT_K_FAULT_BASE);
}

/* One thread a part and class, and one part more than there are. */
WEFT_KERNEL(decode_bounds)(const weft_k_decode_bounds *rows)
{
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t index = part->index * WEFT_BLOCK + weft_thread(), cls = index % WEFT_K_CLASSES;
    if (weft_faulted(job, WEFT_K_LAUNCH_BOUNDS) || index >= (tight->parts + 1) * WEFT_K_CLASSES)
        return;
    const uint32_t start = WEFT_AT(const uint32_t, tight->starts)[index];
    const uint32_t listed = weft_set_below(&tight->positions[cls], start);
    const uint32_t changed = weft_set_size(&tight->positions[cls], start, listed);
    weft_k_bound *bound = WEFT_AT(weft_k_bound, tight->bounds) + index;
    bound->positions = listed;
    bound->changed = changed;
    bound->exceptions = weft_set_below(&tight->exceptions[cls], changed);
}

#endif
