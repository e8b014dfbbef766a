/* joint_ends.c - the part of a view that each source contributes. */
#include "base/mem.h"
#include "base/status.h"
#include "joint/joint.h"
#include "shard/cover.h"
#include "shard/share.h"

/* Site's cuts and the options' lists, as the functions of core/shard take them. */
typedef struct terms {
    const weft_options *options;
    const weft_layout *model;
    weft_cut *cuts;
    uint32_t cut_count;
    weft_slice_list view;
} terms;

static weft_status check_options(const weft_site *site, const weft_options *options)
{
    if (options->source_count > WEFT_SOURCES_MAX)
        return weft_fail(WEFT_E_ARGUMENT, "options: %u sources; there may be %u", options->source_count,
                         WEFT_SOURCES_MAX);
    for (uint32_t r = 0; r < options->source_count; r++)
        if ((!options->sources[r].address && r >= site->source_count) || !options->sources[r].slices)
            return weft_fail(WEFT_E_ARGUMENT, "options: source %u has no %s", r,
                             options->sources[r].slices ? "address, and the site has no section for it" : "slices");
    return WEFT_OK;
}

/* Divides the model for the source numbered `r`. A source that has nothing of the view is left out. */
static weft_status divide_for(weft_joint *joint, const terms *by, uint32_t r, uint32_t sources[WEFT_SOURCES_MAX])
{
    const weft_slice_list holding = {by->options->sources[r].slices, by->options->sources[r].slice_count};
    weft_division *division = weft_mem_take(1, sizeof *division);
    if (!division)
        return weft_fail(WEFT_E_MEMORY, "no memory for source %u", r);
    weft_status status = weft_division_open_view(by->model, by->cuts, by->cut_count, &holding, &by->view, division);
    if (status != WEFT_OK || division->excerpt.cell_count == 0) {
        if (status == WEFT_OK)
            weft_division_close(division);
        weft_mem_give(division);
        return status;
    }
    joint->divisions[joint->count] = division;
    sources[joint->count++] = r;
    return WEFT_OK;
}

/* Marks the keys of the view. */
static weft_status mark_keys(const terms *by, const weft_cells *cells, bool *wanted)
{
    const weft_share share = {
        .layout = by->model, .slices = (weft_slice *)by->view.slice, .slice_count = by->view.count};
    for (uint32_t key = 0; key < cells->key_count; key++)
        wanted[key] = true;
    return by->view.slice ? weft_share_keys(&share, cells, wanted) : WEFT_OK;
}

static weft_status check_cover(const weft_joint *joint, const terms *by, const uint32_t sources[WEFT_SOURCES_MAX])
{
    weft_contribution contributions[WEFT_SOURCES_MAX] = {{0}};
    weft_cells cells;
    weft_status status = weft_cells_open(by->model, by->cuts, by->cut_count, &cells);
    if (status != WEFT_OK)
        return status;
    bool *wanted = weft_mem_take(cells.key_count + 1u, sizeof *wanted);
    status = wanted ? mark_keys(by, &cells, wanted) : weft_fail(WEFT_E_MEMORY, "no memory for keys");
    for (uint32_t i = 0; i < joint->count; i++)
        contributions[sources[i]] =
            (weft_contribution){joint->divisions[i]->excerpt.cells, joint->divisions[i]->excerpt.cell_count};
    if (status == WEFT_OK)
        status = weft_cover_check(by->model, &cells, wanted, contributions, by->options->source_count);
    weft_mem_give(wanted);
    weft_cells_close(&cells);
    return status;
}

weft_status weft_joint_divide(weft_joint *joint, const weft_options *options, uint32_t sources[WEFT_SOURCES_MAX])
{
    const weft_site *site = joint->session->site;
    terms by = {options,
                joint->session->division.model,
                NULL,
                (uint32_t)site->cut_count,
                {options->slices, options->slice_count}};
    weft_status status = check_options(site, options);
    if (status != WEFT_OK)
        return status;
    by.cuts = weft_mem_take(site->cut_count + 1, sizeof *by.cuts);
    if (!by.cuts)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cuts", (unsigned long long)site->cut_count);
    weft_site_cuts(site, by.cuts);
    for (uint32_t r = 0; r < options->source_count && status == WEFT_OK; r++)
        status = divide_for(joint, &by, r, sources);
    if (status == WEFT_OK)
        status = check_cover(joint, &by, sources);
    if (status == WEFT_OK && joint->count == 0)
        status = weft_fail(WEFT_E_LAYOUT, "the view has no elements that a source could contribute");
    weft_mem_give(by.cuts);
    return status;
}
