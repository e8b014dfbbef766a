/* gpu_pair.c - rows for the kernels that compare two views, whose runs may be cut differently. */
#include "backends/gpu/gpu_encode.h"

#define SLICE_BITMAP_BYTES (WEFT_K_SLICE / 8)

uint32_t weft_gpu_tiles(const weft_view *view)
{
    return weft_gpu_parts(view->count, WEFT_K_TILE);
}

weft_gpu_pair_need weft_gpu_pair_needs(const weft_view *now, const weft_view *shadow)
{
    const uint64_t pieces = (uint64_t)now->run_count + shadow->run_count;
    const uint32_t slices = weft_gpu_parts(now->count, WEFT_K_SLICE);
    return (weft_gpu_pair_need){.rows = weft_gpu_row_bytes(pieces * sizeof(weft_k_piece)) +
                                        weft_gpu_tiles(now) * sizeof(weft_k_diff),
                                .bits = (uint64_t)slices * SLICE_BITMAP_BYTES,
                                .counts = ((uint64_t)slices + 1) * sizeof(uint32_t),
                                .pieces = pieces};
}

/* A walk over the pieces into which the runs of both views cut the elements. */
typedef struct piece_walk {
    const weft_view *now, *shadow;
    const weft_run *a, *b;
    uint32_t position;
} piece_walk;

static uint64_t element_at(const weft_view *view, const weft_run *run, uint32_t position)
{
    const weft_gpu_place place = weft_gpu_place_of(view, run);
    return place.data + (uint64_t)(position - weft_run_position(view, run)) * place.width;
}

_Static_assert(WEFT_K_BF16 == WEFT_CAST_BF16 && WEFT_K_F16 == WEFT_CAST_F16, "kernels take the numbers of casts");

static weft_k_piece piece_next(piece_walk *walk)
{
    const uint32_t a_end = weft_run_position(walk->now, walk->a) + walk->a->count;
    const uint32_t b_end = weft_run_position(walk->shadow, walk->b) + walk->b->count;
    const uint32_t end = a_end < b_end ? a_end : b_end;
    const weft_k_piece piece = {.now = element_at(walk->now, walk->a, walk->position),
                                .shadow = element_at(walk->shadow, walk->b, walk->position),
                                .element = walk->b->element + walk->position - weft_run_position(walk->shadow, walk->b),
                                .position = walk->position,
                                .count = end - walk->position,
                                .cast = weft_gpu_place_of(walk->now, walk->a).cast};
    walk->a += a_end == end;
    walk->b += b_end == end;
    walk->position = end;
    return piece;
}

/* Fills the pieces, each with the number of its part's sum. Returns their number. */
static uint32_t pieces_make(weft_gpu_pair *pair, weft_k_piece *pieces)
{
    piece_walk walk = {pair->now, pair->shadow, pair->now->runs, pair->shadow->runs, 0};
    uint32_t made = 0;
    pair->sum_count = 0;
    while (walk.position < pair->now->count) {
        const uint64_t part = walk.b->part;
        pieces[made] = piece_next(&walk);
        if (pieces[made].count == 0) /* an empty run would end a slice for the kernels */
            continue;
        if (pair->sum_count == 0 || pair->parts[pair->sum_count - 1] != part)
            pair->parts[pair->sum_count++] = part;
        pieces[made++].sum = pair->sum_count - 1;
    }
    return made;
}

static bool has_cast(const weft_k_piece *pieces, uint32_t count)
{
    uint32_t at = 0;
    while (at < count && !pieces[at].cast)
        at++;
    return at < count;
}

static void tiles_make(const weft_gpu_pair *pair, weft_k_diff *tiles, uint64_t bits, const weft_k_piece *pieces,
                       uint64_t address, uint32_t count)
{
    uint32_t from = 0, to = 0;
    for (uint32_t t = 0; t < pair->tile_count; t++) {
        const uint32_t first = t * WEFT_K_TILE, left = pair->now->count - first, slice = t * WEFT_K_SLICES;
        const uint32_t elements = left < WEFT_K_TILE ? left : WEFT_K_TILE;
        while (pieces[from].position + pieces[from].count <= first)
            from++;
        while (to < count && pieces[to].position < first + elements)
            to++;
        tiles[t] = (weft_k_diff){.pieces = address + from * sizeof *pieces,
                                 .bitmap = bits + (uint64_t)slice * SLICE_BITMAP_BYTES,
                                 .counts = pair->counts + slice * sizeof(uint32_t),
                                 .piece_count = to - from,
                                 .first = first,
                                 .count = elements,
                                 .width = has_cast(pieces + from, to - from) ? WEFT_K_CAST : pair->now->width};
    }
}

void weft_gpu_pair_make(weft_gpu_pair *pair, weft_gpu_sheet *rows, weft_k_diff *tiles, uint64_t bits)
{
    uint64_t address;
    const uint64_t most = (uint64_t)pair->now->run_count + pair->shadow->run_count;
    weft_k_piece *pieces = weft_gpu_rows_add(rows, most * sizeof *pieces, &address);
    pair->slices = weft_gpu_parts(pair->now->count, WEFT_K_SLICE);
    tiles_make(pair, tiles, bits, pieces, address, pieces_make(pair, pieces));
}
