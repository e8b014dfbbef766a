#include "update/update_fit.h"

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout_match.h"

typedef unsigned long long ull;

/* Checks that the file's grid is the layout's, because frames are read by the one and applied by the other. */
static weft_status grid_fits(weft_update_file *file, const weft_layout *layout)
{
    const weft_layout *said;
    int named;
    weft_status status = weft_update_layout(file, &said, &named);
    if (status != WEFT_OK)
        return status;
    bool same = said->count == layout->count;
    for (uint64_t t = 0; t < layout->count && same; t++)
        same = said->entries[t].row == layout->entries[t].row && said->entries[t].coded == layout->entries[t].coded;
    return same ? WEFT_OK : weft_fail(WEFT_E_CORRUPT, "the update's grid is not that of the layout it names");
}

/* Says how the layouts differ, as far as the file has names. */
static weft_status differs(weft_update_file *file, const weft_layout *layout)
{
    const weft_layout *said;
    char text[WEFT_MATCH_TEXT];
    int named;
    weft_status status = weft_update_layout(file, &said, &named);
    if (status != WEFT_OK)
        return status;
    if (!named)
        return weft_fail(WEFT_E_LAYOUT,
                         "the update has no names (names = never), and its layout's hash is not that of the weights: "
                         "other tensors, or the same in another order, which cannot be matched without names");
    const weft_match_side mine = weft_match_layout("the weights", layout),
                          theirs = weft_match_layout("the update", said);
    status = weft_match_by_name(&mine, &theirs, NULL, text);
    return status != WEFT_OK ? status
                             : weft_fail(WEFT_E_LAYOUT,
                                         "the update has the tensors of the weights in another order: give its layout "
                                         "(weft_update_layout), and pieces by the numbers of that (weft_layout_match)");
}

weft_status weft_update_layout_fits(weft_update_file *file, const weft_layout *layout)
{
    const uint64_t *want = file->header.layout, *have = layout->hash;
    if (want[0] == have[0] && want[1] == have[1])
        return grid_fits(file, layout);
    return differs(file, layout);
}

weft_status weft_update_pieces_match(weft_update_file *file, const weft_layout **layout, const weft_piece *pieces,
                                     uint64_t count, weft_piece **renumbered)
{
    const uint64_t *want = file->header.layout, *have = (*layout)->hash;
    const weft_layout *said;
    int named;
    *renumbered = NULL;
    if (want[0] == have[0] && want[1] == have[1])
        return WEFT_OK;
    weft_status status = weft_update_layout(file, &said, &named);
    if (status != WEFT_OK || !named)
        return status == WEFT_OK ? differs(file, *layout) : status;
    const weft_match_side mine = weft_match_layout("the weights", *layout),
                          theirs = weft_match_layout("the update", said);
    status = weft_match_pieces(&mine, &theirs, pieces, count, renumbered);
    if (status == WEFT_OK)
        *layout = said;
    return status;
}
