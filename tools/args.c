#include "tools/args.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef enum arg_kind { ARG_FLAG, ARG_TEXT, ARG_EACH, ARG_MANY, ARG_COUNT, ARG_SIZE, ARG_NUMBER } arg_kind;

typedef struct arg_row {
    weft_option option;
    const char *name;
    const char *value; /* NULL: a flag */
    arg_kind kind;
    size_t offset;
    const char *help;
} arg_row;

#define AT(field) offsetof(weft_args, field)

static const arg_row rows[] = {
    {WEFT_OPTION_MODEL, "--model", "FILE", ARG_TEXT, AT(model),
     "safetensors file, or folder of shards with its index. trainer and rollout start from the model. check reports "
     "the memory that the model takes. inspect takes names and exact counts from it"},
    {WEFT_OPTION_VERSIONS, "--versions", "FILE...", ARG_MANY, AT(versions),
     "publish these files, or folders of shards, one after the other, then end"},
    {WEFT_OPTION_FOLLOW, "--follow", "DIR", ARG_TEXT, AT(follow),
     "publish every checkpoint that appears in DIR, until interrupted: *.safetensors files, and folders with a number "
     "in "
     "their names (step_9, checkpoint-10) that have one such file, or shards and model.safetensors.index.json. A "
     "checkpoint is whole when it was renamed into DIR, when its folder has a file STABLE or .done, or when it stands "
     "still for two seconds with all bytes that its headers announce. It counts if its name comes later in natural "
     "order (v9, v10) than the last published name. The newest counts again if it is replaced. If the model lies "
     "elsewhere, checkpoints already in DIR count if their number is higher, or, with other names, if they are newer"},
    {WEFT_OPTION_FOLLOW_ALL, "--follow-all", NULL, ARG_FLAG, AT(follow_all),
     "with --follow and a model that lies elsewhere: publish also the older files that are already in DIR. If the "
     "model lies in DIR, the option changes nothing"},
    {WEFT_OPTION_ALLOW_MISSING, "--allow-missing", NULL, ARG_FLAG, AT(allow_missing),
     "with --versions: end with exit code 0 even if some of the site's peers never joined"},
    {WEFT_OPTION_FIRST_VERSION, "--first-version", "N", ARG_COUNT, AT(first_version),
     "number of the model bound first (0)"},
    {WEFT_OPTION_SOURCE, "--source", "R", ARG_COUNT, AT(source),
     "be source R of the site's [source.R] sections, and publish what its holding says of each model alone"},
    {WEFT_OPTION_RUN, "--run", "N", ARG_COUNT, AT(run),
     "with --source: number of this training run, the same at all sources, and another one than the run before"},
    {WEFT_OPTION_PEER, "--peer", "NAME", ARG_TEXT, AT(peer), "name of this process among the site's peers"},
    {WEFT_OPTION_EMPTY, "--empty", NULL, ARG_FLAG, AT(empty), "take layout and weights from the trainer"},
    {WEFT_OPTION_UNTIL, "--until", "V", ARG_COUNT, AT(until),
     "end when version V or a later one is committed and acknowledged"},
    {WEFT_OPTION_SAVE, "--save", "FILE", ARG_TEXT, AT(save),
     "write the weights held at the end, as the trainer has them, also if the run fails (exit code 1). FILE is a file, "
     "or a folder if the trainer's model is a folder of shards. A folder also gets config.json, the tokenizer and "
     "other files from the folder that --model names, but no weights of other formats"},
    {WEFT_OPTION_SAVE_EACH, "--save-each", "DIR", ARG_TEXT, AT(save_each),
     "write each version as a folder DIR/version-NUMBER-DIGEST, whole under its name, with hard links for equal files"},
    {WEFT_OPTION_KEPT, "--keep", "N", ARG_COUNT, AT(kept), "newest folders of --save-each to keep (2)"},
    {WEFT_OPTION_STAY, "--keep", "N", ARG_COUNT, AT(kept), "newest versions that stay (all)"},
    {WEFT_OPTION_BYTES, "--bytes", "SIZE", ARG_SIZE, AT(bytes),
     "bytes that the newest versions may have, as 500G or 2T (any number)"},
    {WEFT_OPTION_AGE, "--age", "SECONDS", ARG_COUNT, AT(age), "age that a version may have (any)"},
    {WEFT_OPTION_GRACE, "--grace", "SECONDS", ARG_COUNT, AT(grace),
     "age below which no file goes, because somebody may be reading the file (3600)"},
    {WEFT_OPTION_ON_VERSION, "--on-version", "COMMAND", ARG_TEXT, AT(on_version),
     "with --save-each: run COMMAND by the shell for each folder, and wait for its end; WEFT_PATH, WEFT_VERSION, "
     "WEFT_RUN and WEFT_DIGEST are in its environment"},
    {WEFT_OPTION_VIEW, "--view", "FILE", ARG_TEXT, AT(view),
     "take the slices of this share file alone (docs/SHARDING.md). --model and --save are then slice files, as weft "
     "shard makes them"},
    {WEFT_OPTION_STORE, "--store", "STORE", ARG_TEXT, AT(store),
     "take the last version of this store (docs/STORE.md), without a trainer, or before the trainer of SITE.ini is "
     "joined"},
    {WEFT_OPTION_KEEP_ON, "--follow", NULL, ARG_FLAG, AT(keep_on),
     "with --store: take each version that comes to the store, until interrupted, or until --until"},
    {WEFT_OPTION_VERSION, "--version", "N", ARG_TEXT, AT(version),
     "number of a version, which get also takes as RUN/NUMBER. put takes the number after the last one by itself"},
    {WEFT_OPTION_PEERS, "--peers", "N", ARG_COUNT, AT(peers), "rollouts to start (3)"},
    {WEFT_OPTION_MIXED, "--mixed", NULL, ARG_FLAG, AT(mixed),
     "give each rollout another backend: devices that are here, and the kernel sets that this processor runs, which "
     "stand in where no device is"},
    {WEFT_OPTION_SOURCES, "--sources", "S", ARG_COUNT, AT(sources),
     "trainers that have parts of the model, by rows (2); an engine of --ranks takes the model"},
    {WEFT_OPTION_RANKS, "--ranks", "N", ARG_COUNT, AT(ranks),
     "ranks of the engine that takes the model of --sources, each its tensor-parallel part (4)"},
    {WEFT_OPTION_PARAMS, "--params", "M", ARG_SIZE, AT(params),
     "elements of the model, as 16M or 1.5G (16M; 64M for weft demo without --sources)"},
    {WEFT_OPTION_UPDATES, "--updates", "K", ARG_COUNT, AT(updates),
     "versions to publish (8; 6 for weft demo without --sources)"},
    {WEFT_OPTION_CHANGED, "--changed", "PERCENT", ARG_NUMBER, AT(changed),
     "percent of the elements that change in each version (1.2; 3 for weft demo without --sources)"},
    {WEFT_OPTION_PROVIDER, "--provider", "NAME", ARG_TEXT, AT(provider), "fabric provider of every peer (tcp)"},
    {WEFT_OPTION_KEEP, "--keep", "DIR", ARG_TEXT, AT(keep), "work in DIR, which must be new or empty, and keep it"},
    {WEFT_OPTION_TIMEOUT, "--timeout", "SECONDS", ARG_COUNT, AT(timeout), "seconds until the demo gives up (120)"},
    {WEFT_OPTION_OUTPUT, "--output", "FILE", ARG_TEXT, AT(output),
     "-o: output path; the output is written whole, or not at all"},
    {WEFT_OPTION_LEVEL, "--level", "LEVEL", ARG_TEXT, AT(level),
     "level of the code: full, pairs, fast or tight (tight)"},
    {WEFT_OPTION_LEVEL_OF, "--level", "LEVEL", ARG_TEXT, AT(level),
     "level of the code: full, pairs, fast or tight (tight with --base, without it that of the updates)"},
    {WEFT_OPTION_LEVEL_PUT, "--level", "LEVEL", ARG_TEXT, AT(level),
     "fast, or tight for a smaller update beside the one of level fast (fast)"},
    {WEFT_OPTION_NAMES, "--names", "WHEN", ARG_TEXT, AT(names),
     "always or never: store the tensors' names in the update, which weft inspect shows (always)"},
    {WEFT_OPTION_BASE, "--base", "MODEL", ARG_TEXT, AT(base),
     "model that the first update starts from, a file or a folder of shards"},
    {WEFT_OPTION_THREADS, "--threads", "N", ARG_COUNT, AT(threads), "threads to work with (half of the processors)"},
    {WEFT_OPTION_DENSITY, "--density", "LIST", ARG_TEXT, AT(density),
     "percent of the elements that change, a table for each (0.1,1.17,8)"},
    {WEFT_OPTION_TEAMS, "--threads", "LIST", ARG_TEXT, AT(teams),
     "numbers of threads, measured one after the other (1,2)"},
    {WEFT_OPTION_RUNS, "--runs", "N", ARG_COUNT, AT(runs), "rounds; each figure is their median (7)"},
    {WEFT_OPTION_MANUAL, "--manual", NULL, ARG_FLAG, AT(manual),
     "print the manual of the site file: every section, every key, with its default and its range"},
    {WEFT_OPTION_PROFILE, "--profile", "PROVIDER", ARG_TEXT, AT(profile),
     "print all that weft knows of a provider, line by line with reason and source, and the answers of this host"},
    {WEFT_OPTION_SERVE, "--serve", NULL, ARG_FLAG, AT(serve),
     "wait for the peer's --join on the trainer's listen address, then measure"},
    {WEFT_OPTION_JOIN, "--join", NULL, ARG_FLAG, AT(join), "be the other end of a --serve on the trainer's host"},
    {WEFT_OPTION_MEGABYTES, "--megabytes", "N", ARG_COUNT, AT(megabytes),
     "fabric: least megabytes sent to measure one rate (64); gpu: device memory that weft may take besides the "
     "weights"},
    {WEFT_OPTION_TP, "--tp", "N", ARG_COUNT, AT(tp),
     "share the model among N ranks as tensor-parallel engines do: rows of q, k, v, gate, up and of the vocabulary, "
     "columns of o and down; the first rank contributes the rest"},
    {WEFT_OPTION_FSDP, "--fsdp", "N", ARG_COUNT, AT(fsdp),
     "share the model among N ranks as FSDP2 does: chunks of the first dimension"},
    {WEFT_OPTION_EXPERTS, "--experts", "N", ARG_COUNT, AT(experts),
     "share the experts among N ranks in equal groups; the first rank contributes the rest"},
    {WEFT_OPTION_KEY_HEADS, "--key-heads", "N", ARG_COUNT, AT(key_heads),
     "with --tp: number of key heads, which ranks share where they are more (config.json of a folder says it)"},
    {WEFT_OPTION_PAD, "--pad", "N", ARG_COUNT, AT(pad),
     "with --tp: size to whose multiple the vocabulary is rounded up before it is parted (64)"},
    {WEFT_OPTION_WHOLE, "--join", NULL, ARG_FLAG, AT(join),
     "make the whole model of a folder of shares: FOLDER --join -o MODEL"},
    {WEFT_OPTION_SHARE, "--share", "FILE", ARG_EACH, AT(shares),
     "with --model: print slices, keys and bytes of a share file (docs/SHARDING.md); may be repeated"},
    {WEFT_OPTION_SET, "--set", "SECTION.KEY=VALUE", ARG_EACH, AT(overrides),
     "override a key of the site file; may be repeated"},
    {WEFT_OPTION_LOG, "--log", "LEVEL", ARG_TEXT, AT(log), "error, warn, info or debug; on standard error"},
    {WEFT_OPTION_JSON, "--json", NULL, ARG_FLAG, AT(json), "print JSON objects, one per line, on standard output"},
    {WEFT_OPTION_HELP, "--help", NULL, ARG_FLAG, AT(help), "print this help and exit"},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

static bool row_taken(const weft_verb *verb, const arg_row *row)
{
    return row->option == WEFT_OPTION_HELP || ((verb->options >> row->option) & 1);
}

static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 48 };
    size_t la = strlen(a), lb = strlen(b), line[LONGEST + 1];
    if (la > LONGEST || lb > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= lb; j++)
        line[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t corner = line[0];
        line[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            corner = line[j];
            best = corner + 1 < best ? corner + 1 : best;
            line[j] = line[j - 1] + 1 < best ? line[j - 1] + 1 : best;
        }
    }
    return line[lb];
}

const char *weft_args_nearest(const char *word, size_t count, const char *(*names)(const void *user, size_t index),
                              const void *user)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2;
    for (size_t i = 0; i < count; i++) {
        const char *name = names(user, i);
        size_t distance = name ? edit_distance(word, name) : SIZE_MAX;
        if (distance < best_distance) {
            best = name;
            best_distance = distance;
        }
    }
    return best;
}

static const char *taken_name(const void *user, size_t index)
{
    return row_taken(user, &rows[index]) ? rows[index].name : NULL;
}

static weft_status option_unknown(const weft_verb *verb, const char *word)
{
    const char *nearest = weft_args_nearest(word, ROW_COUNT, taken_name, verb);
    return weft_fail_quiet(WEFT_E_ARGUMENT, "'%s' is no option of weft %s%s%s%s; see %s %s --help", word, verb->name,
                           nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "",
                           program_invocation_short_name, verb->name);
}

static const arg_row *row_find(const weft_verb *verb, const char *word, size_t length)
{
    if (length == 2 && strncmp(word, "-h", 2) == 0)
        return row_find(verb, "--help", 6);
    if (length == 2 && strncmp(word, "-o", 2) == 0)
        return row_find(verb, "--output", 8);
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (row_taken(verb, &rows[i]) && strlen(rows[i].name) == length && strncmp(rows[i].name, word, length) == 0)
            return &rows[i];
    return NULL;
}

/* Versions are plain JSON integers, which are signed: the largest is INT64_MAX, and the first has room behind it. */
static weft_status read_count(const arg_row *row, const char *text, uint64_t *value)
{
    const int64_t most = row->option == WEFT_OPTION_FIRST_VERSION ? INT64_MAX / 2 : INT64_MAX;
    char *end = NULL;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || parsed > (uint64_t)most)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "%s '%s' is no whole number from 0 to %lld", row->name, text,
                               (long long)most);
    *value = parsed;
    return WEFT_OK;
}

static weft_status read_number(const arg_row *row, const char *text, const char *suffixes, double *value)
{
    static const double factors[] = {1e3, 1e6, 1e9, 1e12};
    char *end = NULL;
    double parsed = strtod(text, &end);
    const char *suffix = end != text && *end ? strchr(suffixes, *end) : NULL;
    if (suffix) {
        parsed *= factors[suffix - suffixes];
        end++;
    }
    if (end == text || *end || text[0] == '-' || !isfinite(parsed))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "%s '%s' is no number%s", row->name, text,
                               *suffixes ? " such as 200K, 16M or 1.5G" : " such as 1.2");
    *value = parsed;
    return WEFT_OK;
}

static weft_status read_size(const arg_row *row, const char *text, uint64_t *value)
{
    double parsed = 0;
    weft_status status = read_number(row, text, "KMGT", &parsed);
    if (status == WEFT_OK && parsed > 1e15)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "%s '%s' is more than 1000T", row->name, text);
    if (status == WEFT_OK)
        *value = (uint64_t)parsed;
    return status;
}

static void list_push(weft_arg_list *list, const char *item)
{
    list->items[list->count++] = item;
}

/* argv is consumed from *at on; `value` is what stood after '=' or NULL. */
static weft_status read_value(const arg_row *row, const char *value, int argc, char **argv, int *at, weft_args *args)
{
    void *field = (char *)args + row->offset;
    args->given |= UINT64_C(1) << row->option;
    if (row->kind == ARG_FLAG) {
        if (value)
            return weft_fail_quiet(WEFT_E_ARGUMENT, "%s takes no value", row->name);
        *(bool *)field = true;
        return WEFT_OK;
    }
    if (!value && *at < argc && (strncmp(argv[*at], "--", 2) != 0 || row->kind == ARG_EACH))
        value = argv[(*at)++];
    if (!value || !*value)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "%s needs a value: %s %s", row->name, row->name, row->value);
    switch (row->kind) {
    case ARG_COUNT:
        return read_count(row, value, field);
    case ARG_SIZE:
        return read_size(row, value, field);
    case ARG_NUMBER:
        return read_number(row, value, "", field);
    case ARG_MANY:
        for (list_push(field, value); *at < argc && argv[*at][0] != '-'; (*at)++)
            list_push(field, argv[*at]);
        return WEFT_OK;
    case ARG_EACH:
        list_push(field, value);
        return WEFT_OK;
    default:
        *(const char **)field = value;
        return WEFT_OK;
    }
}

static weft_status read_word(const weft_verb *verb, int argc, char **argv, int *at, weft_args *args)
{
    const char *word = argv[(*at)++];
    if (word[0] == '-' && word[1]) {
        size_t length = strcspn(word, "=");
        const arg_row *row = row_find(verb, word, length);
        if (!row)
            return option_unknown(verb, word);
        return read_value(row, word[length] ? word + length + 1 : NULL, argc, argv, at, args);
    }
    for (uint8_t i = 0; i < verb->words + verb->more; i++)
        if (!args->words[i])
            return args->words[i] = word, WEFT_OK;
    if (verb->words + verb->more == WEFT_ARG_WORDS) /* its synopsis names no limit */
        return weft_fail_quiet(WEFT_E_ARGUMENT, "'%s' is one file too many: weft %s takes at most %u", word, verb->name,
                               verb->words + verb->more);
    if (!verb->site)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "'%s' is one word too many: weft %s %s", word, verb->name,
                               verb->synopsis);
    if (args->site)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "'%s' is one word too many after the site file '%s'", word, args->site);
    args->site = word;
    return WEFT_OK;
}

static weft_status args_finish(const weft_verb *verb, weft_args *args)
{
    if (args->help)
        return WEFT_OK;
    if (verb->site && !args->site && !args->store)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "the site file is missing: weft %s %s", verb->name, verb->synopsis);
    if (verb->words && !args->words[verb->words - 1])
        return weft_fail_quiet(WEFT_E_ARGUMENT, "a file is missing: weft %s %s", verb->name, verb->synopsis);
    if ((verb->options & WEFT_TAKES(OUTPUT)) && !args->output)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "-o FILE is missing: weft %s %s", verb->name, verb->synopsis);
    if (args->log) {
        snprintf(args->log_override, sizeof args->log_override, "log.level=%s", args->log);
        list_push(&args->overrides, args->log_override);
    }
    return WEFT_OK;
}

weft_status weft_args_read(const weft_verb *verb, int argc, char **argv, weft_args *args)
{
    *args = (weft_args){.provider = "tcp",
                        .peers = 3,
                        .sources = 2,
                        .ranks = 4,
                        .params = 16000000,
                        .updates = 8,
                        .changed = 1.2,
                        .timeout = 120,
                        .density = "0.1,1.17,8",
                        .teams = "1,2",
                        .runs = 7,
                        .megabytes = 64,
                        .pad = 64};
    args->versions.items = calloc((size_t)argc + 1, sizeof(char *));
    args->overrides.items = calloc((size_t)argc + 2, sizeof(char *));
    args->shares.items = calloc((size_t)argc + 1, sizeof(char *));
    if (!args->versions.items || !args->overrides.items || !args->shares.items)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for %d arguments", argc);
    /* --json decides how even a later word's error is told */
    for (int i = 0; i < argc; i++)
        args->json |= strcmp(argv[i], "--json") == 0;
    weft_status status = WEFT_OK;
    for (int at = 0; at < argc && status == WEFT_OK && !args->help;)
        status = read_word(verb, argc, argv, &at, args);
    return status == WEFT_OK ? args_finish(verb, args) : status;
}

void weft_args_close(weft_args *args)
{
    free(args->versions.items);
    free(args->shares.items);
    free(args->overrides.items);
    *args = (weft_args){0};
}

bool weft_args_given(const weft_args *args, weft_option option)
{
    return (args->given >> option) & 1;
}

const char *weft_args_name(weft_option option)
{
    size_t i = 0;
    while (rows[i].option != option)
        i++;
    return rows[i].name;
}

#define AGAIN "\n       weft " /* in a table's text; the wheel has the command under another name */
static void print_called(const char *text)
{
    for (const char *line; (line = strstr(text, AGAIN)); text = line + sizeof AGAIN - 1)
        printf("%.*s\n       %s ", (int)(line - text), text, program_invocation_short_name);
    fputs(text, stdout);
}

void weft_args_help(const weft_verb *verb)
{
    printf("%s %s ", program_invocation_short_name, verb->name);
    print_called(verb->synopsis);
    printf("\n\n%s.\n\n", verb->summary);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!row_taken(verb, &rows[i]))
            continue;
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", rows[i].name, rows[i].value ? " " : "",
                 rows[i].value ? rows[i].value : "");
        printf("  %-24s %s\n", left, rows[i].help);
    }
}
