#include "tools/share/shard_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef unsigned long long ull;

/* Names of tensors as Hugging Face has them. */
#define ROWS    "*.q_proj.*, *.gate_proj.*, *.up_proj.*"
#define KEYS    "*.k_proj.*, *.v_proj.*"
#define COLUMNS "*.o_proj.weight, *.down_proj.weight, *.o_proj.weight_scale_inv, *.down_proj.weight_scale_inv"
#define WORDS   "*embed_tokens.weight, *lm_head.weight"
#define EXPERTS "*.experts.*"

/* ---- the plan */

static bool any_matches(const weft_layout *layout, const char *patterns)
{
    const weft_cut cut = {.patterns = patterns};
    for (uint64_t t = 0; t < layout->count; t++) {
        if (weft_cut_matches(&cut, layout->entries[t].tensor.name))
            return true;
    }
    return false;
}

static weft_status names_check(const weft_layout *layout, const weft_shard_plan *plan)
{
    const bool tp = plan->kind == WEFT_SHARD_TP;
    const char *known = tp ? ROWS ", " KEYS ", " COLUMNS ", " WORDS : EXPERTS;
    if (plan->kind == WEFT_SHARD_FSDP || any_matches(layout, known))
        return WEFT_OK;
    return weft_fail(WEFT_E_LAYOUT,
                     "no tensor has a name that %s knows: %s; write share files by hand "
                     "(docs/SHARDING.md)",
                     tp ? "--tp" : "--experts", known);
}

static weft_status heads_check(const weft_shard_plan *plan)
{
    const uint64_t heads = plan->key_heads, ranks = plan->ranks;
    if (plan->kind != WEFT_SHARD_TP || heads == 0 || ranks % heads == 0 || heads % ranks == 0)
        return WEFT_OK;
    return weft_fail(WEFT_E_ARGUMENT, "%llu ranks do not share %llu key heads evenly: neither divides the other",
                     (ull)ranks, (ull)heads);
}

/* Writes a name as a pattern that matches the name. A comma, which ends patterns, becomes "any character". */
static size_t pattern_write(const char *name, char *text)
{
    size_t used = 0;
    for (; *name; name++) {
        if (strchr("*?[\\", *name))
            text[used++] = '\\';
        text[used++] = *name == ',' || *name == ' ' || *name == '\t' ? '?' : *name;
    }
    text[used++] = ',';
    return used;
}

static weft_status scalars_list(const weft_layout *layout, weft_shard_plan *plan)
{
    uint64_t room = 1, used = 0;
    for (uint64_t t = 0; t < layout->count; t++)
        room += layout->entries[t].tensor.rank == 0 ? 2 * strlen(layout->entries[t].tensor.name) + 1 : 0;
    plan->scalars = weft_mem_take(room, 1);
    if (!plan->scalars)
        return weft_fail(WEFT_E_MEMORY, "no memory for the names of scalars");
    for (uint64_t t = 0; t < layout->count; t++) {
        if (layout->entries[t].tensor.rank == 0)
            used += pattern_write(layout->entries[t].tensor.name, plan->scalars + used);
    }
    return WEFT_OK;
}

/* Rounds the vocabulary's pad up to a multiple of the ranks, so that padded parts are always equal. */
static weft_status pad_round(weft_shard_plan *plan)
{
    uint64_t a = plan->pad ? plan->pad : 1, b = plan->ranks, pad;
    while (b > 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    if (__builtin_mul_overflow((plan->pad ? plan->pad : 1) / a, plan->ranks, &pad))
        return weft_fail(WEFT_E_ARGUMENT, "--pad %llu is too large", (ull)plan->pad);
    plan->pad = pad;
    return WEFT_OK;
}

weft_status weft_shard_plan_make(const weft_layout *layout, weft_shard_plan *plan)
{
    weft_status status = heads_check(plan);
    if (status == WEFT_OK)
        status = names_check(layout, plan);
    if (status == WEFT_OK)
        status = pad_round(plan);
    return status == WEFT_OK ? scalars_list(layout, plan) : status;
}

void weft_shard_plan_close(weft_shard_plan *plan)
{
    weft_mem_give(plan->scalars);
    plan->scalars = NULL;
}

/* ---- rules */

static weft_share_rule part_of(const char *patterns, uint32_t dimension, uint64_t part, uint64_t parts, uint64_t pad)
{
    return (weft_share_rule){.patterns = patterns,
                             .kind = WEFT_SHARE_PART,
                             .dimension = dimension,
                             .part = part,
                             .parts = parts,
                             .pad = pad};
}

static uint64_t key_parts(const weft_shard_plan *plan)
{
    return plan->key_heads > 0 && plan->key_heads < plan->ranks ? plan->key_heads : plan->ranks;
}

static uint64_t tp_rules(const weft_shard_plan *plan, uint64_t rank, weft_share_rule *rules)
{
    const uint64_t sharers = plan->ranks / key_parts(plan);
    rules[0] = part_of(ROWS, 0, rank, plan->ranks, 0);
    rules[1] = part_of(KEYS, 0, rank / sharers, key_parts(plan), 0);
    rules[1].replica = rank % sharers != 0;
    rules[2] = part_of(COLUMNS, 1, rank, plan->ranks, 0);
    rules[3] = part_of(WORDS, 0, rank, plan->ranks, plan->pad);
    rules[4] = (weft_share_rule){.patterns = "*", .replica = rank != 0};
    return 5;
}

/* Chunks as torch makes them: each of the size rounded up, the last ones shorter or empty. */
static uint64_t fsdp_rules(const weft_shard_plan *plan, uint64_t rank, weft_share_rule *rules)
{
    static const weft_range none = {0, 0};
    uint64_t count = 0;
    if (plan->scalars[0]) {
        rules[count] = (weft_share_rule){.patterns = plan->scalars};
        if (rank != 0) {
            rules[count].kind = WEFT_SHARE_ELEMENTS;
            rules[count].ranges = &none;
            rules[count].range_count = 1;
        }
        count++;
    }
    rules[count++] = part_of("*", 0, rank, plan->ranks, plan->ranks);
    return count;
}

uint64_t weft_shard_rules(const weft_shard_plan *plan, uint64_t rank, weft_share_rule rules[WEFT_SHARD_RULES_MOST])
{
    if (plan->kind == WEFT_SHARD_TP)
        return tp_rules(plan, rank, rules);
    if (plan->kind == WEFT_SHARD_FSDP)
        return fsdp_rules(plan, rank, rules);
    rules[0] = (weft_share_rule){.patterns = EXPERTS, .group = rank, .groups = plan->ranks};
    rules[1] = (weft_share_rule){.patterns = "*", .replica = rank != 0};
    return 2;
}

/* ---- cuts */

void weft_shard_cuts(const weft_shard_plan *plan, char text[WEFT_SHARD_CUTS])
{
    const ull ranks = (ull)plan->ranks;
    if (plan->kind == WEFT_SHARD_TP)
        snprintf(text, WEFT_SHARD_CUTS,
                 "[cut.rows]\ntensors = " ROWS "\nrows = %llu\n\n[cut.keys]\ntensors = " KEYS "\nrows = %llu\n\n"
                 "[cut.columns]\ntensors = " COLUMNS "\ncolumns = %llu\n\n"
                 "[cut.words]\ntensors = " WORDS "\nrows = %llu\npad = %llu\n",
                 ranks, (ull)key_parts(plan), ranks, ranks, (ull)plan->pad);
    else if (plan->kind == WEFT_SHARD_EXPERTS)
        snprintf(text, WEFT_SHARD_CUTS, "[cut.experts]\nby = expert\ntensors = " EXPERTS "\ngroups = %llu\n", ranks);
    else
        snprintf(text, WEFT_SHARD_CUTS, "# Holdings need no cuts: weft parts what they have by the cuts of engines.\n");
}
