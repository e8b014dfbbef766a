/* weft.c - the command: a table of verbs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "tools/output.h"
#include "tools/signals.h"
#include "tools/verbs.h"

#define OVER_SITE  (WEFT_TAKES(JSON) | WEFT_TAKES(SET))
#define OVER_FILES (WEFT_TAKES(JSON) | WEFT_TAKES(THREADS))

static const weft_verb verbs[] = {
    {"info", "[--profile PROVIDER | --manual] [--json]",
     "Lists the parts of this build and this machine: backends, devices, fabric providers",
     WEFT_TAKES(JSON) | WEFT_TAKES(PROFILE) | WEFT_TAKES(MANUAL), false, 0, 0, weft_verb_info},
    {"check", "SITE.ini [--model FILE [--share FILE]...] [--set SECTION.KEY=VALUE]... [--json]",
     "Checks a site file, prints each peer's settings and the parts that this host has, and, with a model, the memory "
     "of each end, cells, keys and shares",
     OVER_SITE | WEFT_TAKES(MODEL) | WEFT_TAKES(SHARE), true, 0, 0, weft_verb_check},
    {"trainer", "SITE.ini --model FILE (--versions FILE... | --follow DIR) [--source R --run N] [options]",
     "Publishes checkpoints, one version after the other, to the rollouts of a site",
     OVER_SITE | WEFT_TAKES(LOG) | WEFT_TAKES(MODEL) | WEFT_TAKES(VERSIONS) | WEFT_TAKES(FOLLOW) |
         WEFT_TAKES(FOLLOW_ALL) | WEFT_TAKES(FIRST_VERSION) | WEFT_TAKES(ALLOW_MISSING) | WEFT_TAKES(SOURCE) |
         WEFT_TAKES(RUN),
     true, 0, 0, weft_verb_trainer},
    {"rollout",
     "SITE.ini --peer NAME (--model FILE | --empty) [--view FILE] [--store STORE] [--until V] [--save FILE]\n"
     "       [--save-each DIR [--keep N] [--on-version COMMAND]] [options]\n"
     "       weft rollout --store STORE (--model FILE | --empty) [--view FILE] [--follow] [--until V] [--save FILE] "
     "[--json]",
     "Joins a trainer and keeps its weights bit-identical with the trainer's",
     OVER_SITE | WEFT_TAKES(LOG) | WEFT_TAKES(PEER) | WEFT_TAKES(MODEL) | WEFT_TAKES(EMPTY) | WEFT_TAKES(UNTIL) |
         WEFT_TAKES(SAVE) | WEFT_TAKES(SAVE_EACH) | WEFT_TAKES(KEPT) | WEFT_TAKES(ON_VERSION) | WEFT_TAKES(VIEW) |
         WEFT_TAKES(STORE) | WEFT_TAKES(KEEP_ON) | WEFT_TAKES(THREADS),
     true, 0, 0, weft_verb_rollout},
    {"demo",
     "[--peers N] [--mixed] [--params M] [--updates K] [options]\n"
     "       weft demo --sources S [--ranks N] [--params M] [--updates K] [options]",
     "Runs one trainer and N rollouts on this machine and proves every rollout bit-identical",
     WEFT_TAKES(JSON) | WEFT_TAKES(SET) | WEFT_TAKES(PEERS) | WEFT_TAKES(MIXED) | WEFT_TAKES(SOURCES) |
         WEFT_TAKES(RANKS) | WEFT_TAKES(PARAMS) | WEFT_TAKES(UPDATES) | WEFT_TAKES(CHANGED) | WEFT_TAKES(PROVIDER) |
         WEFT_TAKES(KEEP) | WEFT_TAKES(TIMEOUT),
     false, 0, 0, weft_verb_demo},
    {"diff", "BASE NEW -o U.weft [--level L] [--threads N] [--first-version N] [--json]",
     "Writes the update that turns model BASE into model NEW",
     OVER_FILES | WEFT_TAKES(OUTPUT) | WEFT_TAKES(LEVEL) | WEFT_TAKES(NAMES) | WEFT_TAKES(FIRST_VERSION), false, 2, 0,
     weft_verb_diff},
    {"apply", "BASE U.weft -o NEW [--threads N] [--json]",
     "Applies an update to a base, proves the new model and writes it; a folder also gets config.json and the like",
     OVER_FILES | WEFT_TAKES(OUTPUT), false, 2, 0, weft_verb_apply},
    {"inspect", "U.weft [--model BASE] [--json]", "Shows the changes of an update, tensor by tensor",
     WEFT_TAKES(JSON) | WEFT_TAKES(MODEL), false, 1, 0, weft_verb_inspect},
    {"merge", "A.weft B.weft [C.weft]... -o ABC.weft [--base MODEL] [--level L] [--threads N] [--json]",
     "Merges up to 32 updates that follow each other into one",
     OVER_FILES | WEFT_TAKES(OUTPUT) | WEFT_TAKES(LEVEL_OF) | WEFT_TAKES(BASE), false, 2, WEFT_ARG_WORDS - 2,
     weft_verb_merge},
    {"invert", "U.weft -o BACK.weft [--base MODEL] [--level L] [--threads N] [--json]",
     "Writes the update that leads back; one of level fast needs no base",
     OVER_FILES | WEFT_TAKES(OUTPUT) | WEFT_TAKES(LEVEL_OF) | WEFT_TAKES(BASE), false, 1, 0, weft_verb_invert},
    {"digest", "MODEL [--threads N] [--json]", "Prints the digest that identifies a version", OVER_FILES, false, 1, 0,
     weft_verb_digest},
    {"shard",
     "MODEL (--tp N | --fsdp N | --experts N) -o FOLDER [--key-heads N] [--pad N] [--json]\n"
     "       weft shard FOLDER --join -o MODEL [--json]",
     "Parts a model into the shares of many ranks, with their share files, or joins such shares again",
     WEFT_TAKES(JSON) | WEFT_TAKES(OUTPUT) | WEFT_TAKES(TP) | WEFT_TAKES(FSDP) | WEFT_TAKES(EXPERTS) |
         WEFT_TAKES(KEY_HEADS) | WEFT_TAKES(PAD) | WEFT_TAKES(WHOLE),
     false, 1, 0, weft_verb_shard},
    {"put", "STORE MODEL [--version N] [--level L] [--threads N] [--json]",
     "Writes a model as the next version of a store, a folder or s3://BUCKET/PREFIX (docs/STORE.md)",
     OVER_FILES | WEFT_TAKES(VERSION) | WEFT_TAKES(LEVEL_PUT), false, 2, 0, weft_verb_put},
    {"get", "STORE --version N -o MODEL [--threads N] [--json]", "Writes a version of a store as a model",
     OVER_FILES | WEFT_TAKES(VERSION) | WEFT_TAKES(OUTPUT), false, 1, 0, weft_verb_get},
    {"log", "STORE [--json]", "Lists the versions of a store", WEFT_TAKES(JSON), false, 1, 0, weft_verb_log},
    {"fsck", "STORE [--threads N] [--json]",
     "Proves every file of a store; exit code 3 if a file is damaged or a version is lost", OVER_FILES, false, 1, 0,
     weft_verb_fsck},
    {"trim", "STORE [--keep N] [--bytes SIZE] [--age SECONDS] [--grace SECONDS] [--json]",
     "Removes old versions of a store until the rest is within all bounds, and what writers never finished",
     WEFT_TAKES(JSON) | WEFT_TAKES(STAY) | WEFT_TAKES(BYTES) | WEFT_TAKES(AGE) | WEFT_TAKES(GRACE), false, 1, 0,
     weft_verb_trim},
    {"copy", "FROM TO [--json]",
     "Copies all versions of a store into another, a folder or s3://BUCKET/PREFIX, and goes on where a copy ended",
     WEFT_TAKES(JSON), false, 2, 0, weft_verb_copy},
    {"key", "FILE [--json]", "Makes a key by which a peer and its trainer prove their names ([security] mode = tls)",
     WEFT_TAKES(JSON), false, 1, 0, weft_verb_key},
    {"bench",
     "codec [OLD NEW] [--params M] [--density LIST] [--threads LIST] [--runs N] [--json]\n"
     "       weft bench fabric SITE.ini [--peer NAME] [--serve | --join] [--megabytes N] [--runs N] [--json]\n"
     "       weft bench gpu [cuda|hip] [--params M] [--changed PERCENT] [--megabytes N] [--runs N] [--json]",
     "Measures updates: size, and speed beside a copy; the fabric of a site's peers; a device's passes beside its "
     "copies",
     WEFT_TAKES(JSON) | WEFT_TAKES(PARAMS) | WEFT_TAKES(DENSITY) | WEFT_TAKES(TEAMS) | WEFT_TAKES(RUNS) |
         WEFT_TAKES(CHANGED) | WEFT_TAKES(SET) | WEFT_TAKES(PEER) | WEFT_TAKES(SERVE) | WEFT_TAKES(JOIN) |
         WEFT_TAKES(MEGABYTES),
     false, 1, 2, weft_verb_bench},
};

#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static void print_help(void)
{
    const char *called = program_invocation_short_name;
    printf("weft keeps rollouts bit-identical with their trainer by sending only the weights that changed.\n\n");
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("  %s %-8s %s\n", called, verbs[i].name, verbs[i].summary);
    printf("\n%s VERB --help lists a verb's options; %s --version prints the version.\ntrainer, rollout and demo "
           "never wait for a reader of their output: while a pipe is full, whole lines are dropped\nand counted on "
           "standard error. A closed pipe is reported there once and changes no exit code.\nExit codes: 0 done, 1 "
           "failed while working, 2 wrong use or bad configuration, 3 verification failed.\n",
           called, called);
}

static const char *verb_name(const void *user, size_t index)
{
    (void)user;
    return verbs[index].name;
}

static int verb_unknown(const char *word, bool json)
{
    const char *nearest = weft_args_nearest(word, VERB_COUNT, verb_name, NULL);
    return weft_output_error(json, WEFT_TOOL_INPUT,
                             weft_fail_quiet(WEFT_E_ARGUMENT, "'%s' is no verb of weft%s%s%s; see %s --help", word,
                                             nearest ? "; did you mean " : "", nearest ? nearest : "",
                                             nearest ? "?" : "", program_invocation_short_name));
}

static int verb_run(const weft_verb *verb, int argc, char **argv)
{
    weft_args args;
    int code = WEFT_EXIT_DONE;
    weft_status status = weft_args_read(verb, argc, argv, &args);
    if (status != WEFT_OK)
        code = weft_output_error(args.json, WEFT_TOOL_INPUT, status);
    else if (args.help)
        weft_args_help(verb);
    else
        code = verb->run(&args);
    weft_args_close(&args);
    return code;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        weft_fail_quiet(WEFT_E_ARGUMENT,
                        "a verb is missing: info, check, trainer, rollout, demo, diff, apply, "
                        "inspect, merge, digest, shard, put, get, log, fsck, trim, copy, key or bench; see %s --help",
                        program_invocation_short_name);
        return weft_output_error(false, WEFT_TOOL_INPUT, WEFT_E_ARGUMENT);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return print_help(), WEFT_EXIT_DONE;
    if (strcmp(argv[1], "--version") == 0)
        return printf("weft %s\n", weft_version_string()), WEFT_EXIT_DONE;
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verb_run(&verbs[i], argc - 2, argv + 2);
    bool json = false;
    for (int i = 2; i < argc; i++)
        json |= strcmp(argv[i], "--json") == 0;
    return verb_unknown(argv[1], json);
}

int main(int argc, char **argv)
{
    weft_signals_prepare();
    return weft_output_end(dispatch(argc, argv));
}
