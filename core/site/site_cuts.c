/* site_cuts.c - [cut.NAME] sections: keys that go together, and the rules that they come to. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "shard/cut_boxes.h"
#include "site/site_resolve.h"
#include "site/site_text.h"

static bool takes_whole_tensors(const weft_site_cut *cut)
{
    return cut->by == WEFT_BY_LAYER || cut->by == WEFT_BY_EXPERT;
}

static uint32_t sizes_given(const weft_site_cut *cut)
{
    return (cut->rows > 0) + (cut->columns > 0) + (cut->middle > 0);
}

/* Returns the text of the fault in a section's keys. NULL: there is none. */
static const char *fault_of(const weft_site_cut *cut)
{
    const uint32_t sizes = sizes_given(cut);
    if (sizes > 1)
        return "rows, columns and middle exclude each other: write a section for each, with other tensors";
    if (sizes && cut->by != WEFT_BY_NONE)
        return "by goes with at or groups: leave rows, columns and middle out";
    if (cut->by == WEFT_BY_EXPERT && (!cut->groups || cut->number_count))
        return "by = expert needs groups, and no at";
    if (cut->by != WEFT_BY_NONE && cut->by != WEFT_BY_EXPERT && !cut->number_count)
        return "by needs at = where parts begin";
    if (cut->by == WEFT_BY_NONE && cut->number_count)
        return "at needs by = rows, columns, middle or layer";
    if (cut->groups && cut->by != WEFT_BY_EXPERT)
        return "groups needs by = expert";
    if (cut->pad && !sizes)
        return "pad needs rows, columns or middle";
    if (!cut->tensors[0] && !takes_whole_tensors(cut) && (sizes || cut->by != WEFT_BY_NONE))
        return "need tensors = patterns of names, such as *.o_proj.weight";
    return NULL;
}

static weft_cut_kind kind_of(const weft_site_cut *cut)
{
    static const weft_cut_kind kinds[] = {WEFT_CUT_ALONE,  WEFT_CUT_ROWS,  WEFT_CUT_COLUMNS,
                                          WEFT_CUT_MIDDLE, WEFT_CUT_LAYER, WEFT_CUT_EXPERT};
    if (cut->rows)
        return WEFT_CUT_ROWS;
    if (cut->columns)
        return WEFT_CUT_COLUMNS;
    return cut->middle ? WEFT_CUT_MIDDLE : kinds[cut->by];
}

/* At most one of the numbers of parts is given. A section that says nothing matches no tensor. */
static weft_cut rule_of(const weft_site_cut *cut)
{
    return (weft_cut){.name = cut->name,
                      .patterns = cut->tensors[0] || !takes_whole_tensors(cut) ? cut->tensors : NULL,
                      .kind = kind_of(cut),
                      .parts = cut->rows + cut->columns + cut->middle + cut->groups,
                      .pad = cut->pad,
                      .at = cut->number_count ? cut->numbers : NULL,
                      .at_count = cut->number_count};
}

void weft_site_cuts(const weft_site *site, weft_cut *cuts)
{
    for (uint64_t i = 0; i < site->cut_count; i++)
        cuts[i] = rule_of(&site->cuts[i]);
}

static weft_status cut_fill(const weft_site *site, uint32_t index, weft_site_cut *cut)
{
    const weft_site_section *section = &site->source->sections[index];
    const weft_site_layers layers = {{index, WEFT_SITE_NOWHERE, WEFT_SITE_NOWHERE}};
    const weft_site_place place = {.path = site->path, .line = section->line, .header = section->header};
    memcpy(cut->name, section->name, sizeof cut->name);
    weft_site_fill(site->source, &layers, "cut", cut);
    cut->number_count = cut->at[0] ? weft_site_numbers(cut->at, cut->numbers) : 0;
    const char *fault = fault_of(cut);
    if (fault)
        return weft_site_refuse(&place, "%s", fault);
    const weft_cut rule = rule_of(cut);
    return weft_cut_check(&rule) == WEFT_OK ? WEFT_OK : weft_site_refuse(&place, "%s", weft_last_error());
}

weft_status weft_site_fill_cuts(weft_site *site)
{
    const weft_site_source *source = site->source;
    weft_status status = WEFT_OK;
    uint64_t count = 0;
    for (uint64_t i = 0; i < source->section_count; i++)
        count += source->sections[i].kind == WEFT_SECTION_CUT;
    if (count > WEFT_CUT_MOST)
        return weft_fail(WEFT_E_CONFIG, "%s has %llu cuts: at most %u", site->path, (unsigned long long)count,
                         WEFT_CUT_MOST);
    site->cuts = weft_mem_take(count, sizeof *site->cuts);
    if (!site->cuts)
        return weft_fail(WEFT_E_MEMORY, "no memory for the site's cuts");
    for (uint32_t i = 0; i < source->section_count && status == WEFT_OK; i++) {
        if (source->sections[i].kind == WEFT_SECTION_CUT)
            status = cut_fill(site, i, &site->cuts[site->cut_count++]);
    }
    return status;
}
