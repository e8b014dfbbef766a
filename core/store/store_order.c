/* store_order.c - matches a caller's weights with the tensors of a version, which its files may have in another order.
 */
#include <string.h>

#include "base/status.h"
#include "layout/layout_match.h"
#include "store/store.h"

typedef unsigned long long ull;

bool weft_store_has_layout(const weft_store *store, uint64_t index, const weft_layout *layout)
{
    const weft_store_file *like = weft_store_like(store, index);
    return !like || memcmp(like->layout, layout->hash, sizeof layout->hash) == 0;
}

weft_status weft_store_match(weft_store *store, uint64_t index, const weft_layout *layout, const weft_piece *pieces,
                             uint64_t count, weft_layout **stored, weft_piece **renumbered)
{
    const weft_version *version = &store->versions[index].version;
    weft_layout *told = NULL;
    weft_status status = weft_store_file_layout(store, version, &told);
    if (status != WEFT_OK)
        return status;
    const weft_match_side mine = weft_match_layout("the model", layout), theirs = weft_match_layout("it", told);
    status = weft_match_pieces(&mine, &theirs, pieces, count, renumbered);
    if (status == WEFT_OK) {
        *stored = told;
        return WEFT_OK;
    }
    weft_fail_about("%s: version %llu", store->name, (ull)version->number);
    weft_layout_free(told);
    return status;
}
