/* verbs.h - what each verb's file offers to the table in weft.c; each returns the exit code. */
#ifndef WEFT_TOOLS_VERBS_H
#define WEFT_TOOLS_VERBS_H

#include "tools/args.h"

int weft_verb_info(const weft_args *args);
int weft_verb_check(const weft_args *args);
int weft_verb_trainer(const weft_args *args);
int weft_verb_rollout(const weft_args *args);
int weft_verb_demo(const weft_args *args);
int weft_verb_diff(const weft_args *args);
int weft_verb_apply(const weft_args *args);
int weft_verb_inspect(const weft_args *args);
int weft_verb_merge(const weft_args *args);
int weft_verb_invert(const weft_args *args);
int weft_verb_digest(const weft_args *args);
int weft_verb_shard(const weft_args *args);
int weft_verb_log(const weft_args *args);
int weft_verb_fsck(const weft_args *args);
int weft_verb_trim(const weft_args *args);
int weft_verb_get(const weft_args *args);
int weft_verb_copy(const weft_args *args);
int weft_verb_put(const weft_args *args);
int weft_verb_key(const weft_args *args);
int weft_verb_bench(const weft_args *args);

#endif
