/* host_tight_portable.c - the loops of level tight in plain C: the judge. */
#include "backends/host/tight/host_tight_packed.h"
#include "backends/host/tight/host_tight_sort.h"

WEFT_TIGHT_PACKED(portable, 1)
WEFT_TIGHT_PACKED(portable, 2)
WEFT_TIGHT_PACKED(portable, 4)
WEFT_TIGHT_PACKED(portable, 8)
WEFT_TIGHT_FIND(portable, 1, portable_rank_1)
WEFT_TIGHT_FIND(portable, 2, portable_rank_2)
WEFT_TIGHT_FIND(portable, 4, portable_rank_4)
WEFT_TIGHT_FIND(portable, 8, portable_rank_8)
WEFT_TIGHT_SORT(portable)

const weft_host_tight_kernels weft_host_tight_portable = {
    .find = {portable_find_1, portable_find_2, portable_find_4, portable_find_8},
    .rank = {portable_rank_1, portable_rank_2, portable_rank_4, portable_rank_8},
    .place = {portable_place_1, portable_place_2, portable_place_4, portable_place_8},
    .sort = portable_sort,
    .split = portable_split,
};
