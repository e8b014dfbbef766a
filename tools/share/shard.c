/* shard.c - weft shard: a model as the shares of many ranks, with their files, and the whole model again. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "model/share_folder.h"
#include "tools/share/shard_rules.h"
#include "tools/signals.h"
#include "tools/update/offline.h"
#include "tools/verbs.h"

typedef struct shard {
    const weft_args *args;
    weft_model *model;
    weft_shard_plan plan;
    weft_share_folder folder;
    weft_share_set *set;
    json_t *ranks;
    uint64_t bytes; /* bytes of all slices, or of the joined model */
    weft_tool_phase phase;
} shard;

/* ---- the plan */

/* Reads the number of key heads that a model's configuration names. 0: there is none, or it does not say. */
static uint64_t heads_of(const char *model)
{
    char path[PATH_MAX];
    struct stat facts;
    json_error_t error;
    if (stat(model, &facts) != 0 || !S_ISDIR(facts.st_mode) ||
        snprintf(path, sizeof path, "%s/config.json", model) >= (int)sizeof path)
        return 0;
    json_t *config = stat(path, &facts) == 0 && S_ISREG(facts.st_mode) ? json_load_file(path, 0, &error) : NULL;
    const json_t *heads = json_object_get(config, "num_key_value_heads");
    if (!heads)
        heads = json_object_get(json_object_get(config, "text_config"), "num_key_value_heads");
    const json_int_t number = json_integer_value(heads);
    json_decref(config);
    return number > 0 ? (uint64_t)number : 0;
}

static weft_status plan_read(const weft_args *args, weft_shard_plan *plan)
{
    const uint64_t numbers[] = {args->tp, args->fsdp, args->experts};
    uint64_t given = 0;
    for (int i = 0; i < 3; i++) {
        if (!weft_args_given(args, (weft_option)(WEFT_OPTION_TP + i)))
            continue;
        plan->kind = (weft_shard_kind)i;
        plan->ranks = numbers[i];
        given++;
    }
    if (given != 1)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "name one of --tp N, --fsdp N, --experts N and --join");
    if (plan->ranks == 0 || plan->ranks > WEFT_SHARE_RANKS_MOST)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "%llu ranks: need 1 to %u", (unsigned long long)plan->ranks,
                               WEFT_SHARE_RANKS_MOST);
    plan->key_heads = args->key_heads ? args->key_heads : heads_of(args->words[0]);
    plan->pad = args->pad;
    return WEFT_OK;
}

/* ---- parted */

/* Opens every share once, because a shape that does not fit is to be told before anything is written. */
static weft_status shares_check(const shard *s)
{
    weft_status status = WEFT_OK;
    for (uint64_t rank = 0; rank < s->plan.ranks && status == WEFT_OK; rank++) {
        weft_share_rule rules[WEFT_SHARD_RULES_MOST];
        weft_share share;
        status = weft_share_open(weft_model_layout(s->model), rules, weft_shard_rules(&s->plan, rank, rules), &share);
        if (status == WEFT_OK)
            weft_share_close(&share);
    }
    return status;
}

static weft_status rank_write(shard *s, uint64_t rank)
{
    weft_share_rule rules[WEFT_SHARD_RULES_MOST];
    weft_share_put put;
    weft_status status = weft_offline_wanted();
    if (status == WEFT_OK)
        status = weft_share_folder_put(&s->folder, rank, rules, weft_shard_rules(&s->plan, rank, rules), &put);
    if (status != WEFT_OK)
        return status;
    s->bytes += put.bytes;
    json_array_append_new(s->ranks, json_pack("{s:I, s:I, s:I}", "rank", (json_int_t)rank, "tensors",
                                              (json_int_t)put.tensors, "bytes", (json_int_t)put.bytes));
    return WEFT_OK;
}

static weft_status parts_write(void *user)
{
    shard *s = user;
    char cuts[WEFT_SHARD_CUTS];
    weft_status status = WEFT_OK;
    for (uint64_t rank = 0; rank < s->plan.ranks && status == WEFT_OK; rank++)
        status = rank_write(s, rank);
    weft_shard_cuts(&s->plan, cuts);
    return status == WEFT_OK ? weft_share_folder_write(&s->folder, "cuts.ini", cuts, strlen(cuts)) : status;
}

static weft_status part_run(shard *s)
{
    weft_status status = plan_read(s->args, &s->plan);
    if (status == WEFT_OK)
        status = weft_model_open(s->args->words[0], 0, &s->model);
    if (status == WEFT_OK)
        status = weft_shard_plan_make(weft_model_layout(s->model), &s->plan);
    if (status == WEFT_OK)
        status = shares_check(s);
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    if (status == WEFT_OK)
        status = weft_share_folder_begin(&s->folder, s->args->output, s->model, s->plan.ranks);
    if (status != WEFT_OK)
        return status;
    s->phase = WEFT_TOOL_WORK;
    const weft_model *model = s->model;
    status = weft_model_guard_all(&model, 1, parts_write, s);
    return status == WEFT_OK ? weft_share_folder_finish(&s->folder) : status;
}

/* ---- joined */

static weft_status join_run(shard *s)
{
    const uint64_t others =
        WEFT_TAKES(TP) | WEFT_TAKES(FSDP) | WEFT_TAKES(EXPERTS) | WEFT_TAKES(KEY_HEADS) | WEFT_TAKES(PAD);
    if (s->args->given & others)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--join reads the parts from the folder: leave other options out");
    weft_status status = weft_share_set_open(s->args->words[0], &s->set);
    if (status == WEFT_OK)
        status = weft_share_set_check(s->set, s->args->output);
    if (status != WEFT_OK)
        return status;
    s->phase = WEFT_TOOL_WORK;
    status = weft_share_set_join(s->set, s->args->output, weft_offline_wanted, &s->bytes);
    if (status == WEFT_E_LAYOUT) /* replicas differ */
        s->phase = WEFT_TOOL_INPUT;
    return status;
}

/* ---- told */

static void report(const shard *s)
{
    size_t index;
    json_t *rank;
    const char *output = weft_output_plain(s->args->output).text;
    const uint64_t ranks = s->set ? weft_share_set_ranks(s->set) : s->plan.ranks;
    if (s->args->json) {
        weft_output_object(json_pack("{s:o, s:I, s:I, s:O}", "output", weft_json_text(s->args->output), "ranks",
                                     (json_int_t)ranks, "bytes", (json_int_t)s->bytes, "shares", s->ranks));
        return;
    }
    json_array_foreach(s->ranks, index, rank)
        printf("rank %lld: %lld tensors, %.1f MB\n", (long long)json_integer_value(json_object_get(rank, "rank")),
               (long long)json_integer_value(json_object_get(rank, "tensors")),
               (double)json_integer_value(json_object_get(rank, "bytes")) / 1e6);
    printf("%llu ranks %s %s: %.1f MB\n", (unsigned long long)ranks, s->set ? "joined in" : "in", output,
           (double)s->bytes / 1e6);
}

int weft_verb_shard(const weft_args *args)
{
    shard s = {.args = args, .ranks = json_array(), .phase = WEFT_TOOL_INPUT};
    weft_signals_catch_files(args->json);
    weft_status status = args->join ? join_run(&s) : part_run(&s);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, s.phase, status);
    if (status == WEFT_OK)
        report(&s);
    weft_share_folder_close(&s.folder);
    weft_share_set_close(s.set);
    weft_shard_plan_close(&s.plan);
    weft_model_close(s.model);
    json_decref(s.ranks);
    return code;
}
