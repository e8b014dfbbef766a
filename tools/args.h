/* args.h - the command line of one verb, read over one const table of options. */
#ifndef WEFT_TOOLS_ARGS_H
#define WEFT_TOOLS_ARGS_H

#include <stdbool.h>

#include "weft.h"

typedef enum weft_option {
    WEFT_OPTION_HELP,
    WEFT_OPTION_JSON,
    WEFT_OPTION_SET,
    WEFT_OPTION_LOG,
    WEFT_OPTION_MODEL,
    WEFT_OPTION_VERSIONS,
    WEFT_OPTION_FOLLOW,
    WEFT_OPTION_FIRST_VERSION,
    WEFT_OPTION_PEER,
    WEFT_OPTION_EMPTY,
    WEFT_OPTION_UNTIL,
    WEFT_OPTION_SAVE,
    WEFT_OPTION_PEERS,
    WEFT_OPTION_SOURCES,
    WEFT_OPTION_RANKS,
    WEFT_OPTION_PARAMS,
    WEFT_OPTION_UPDATES,
    WEFT_OPTION_CHANGED,
    WEFT_OPTION_PROVIDER,
    WEFT_OPTION_KEEP,
    WEFT_OPTION_TIMEOUT,
    WEFT_OPTION_OUTPUT,
    WEFT_OPTION_LEVEL,
    WEFT_OPTION_THREADS,
    WEFT_OPTION_BASE,
    WEFT_OPTION_DENSITY,
    WEFT_OPTION_TEAMS,
    WEFT_OPTION_RUNS,
    WEFT_OPTION_PROFILE,
    WEFT_OPTION_MANUAL,
    WEFT_OPTION_SERVE,
    WEFT_OPTION_JOIN,
    WEFT_OPTION_MEGABYTES,
    WEFT_OPTION_NAMES,
    WEFT_OPTION_ALLOW_MISSING,
    WEFT_OPTION_FOLLOW_ALL,
    WEFT_OPTION_TP,
    WEFT_OPTION_FSDP,
    WEFT_OPTION_EXPERTS,
    WEFT_OPTION_KEY_HEADS,
    WEFT_OPTION_PAD,
    WEFT_OPTION_WHOLE,
    WEFT_OPTION_SHARE,
    WEFT_OPTION_VIEW,
    WEFT_OPTION_VERSION,
    WEFT_OPTION_STORE,
    WEFT_OPTION_KEEP_ON,
    WEFT_OPTION_SOURCE,
    WEFT_OPTION_RUN,
    WEFT_OPTION_SAVE_EACH,
    WEFT_OPTION_KEPT,
    WEFT_OPTION_ON_VERSION,
    WEFT_OPTION_LEVEL_OF, /* merge, invert */
    WEFT_OPTION_LEVEL_PUT,
    WEFT_OPTION_STAY, /* trim */
    WEFT_OPTION_BYTES,
    WEFT_OPTION_AGE,
    WEFT_OPTION_GRACE,
    WEFT_OPTION_MIXED
} weft_option;

#define WEFT_TAKES(name) (UINT64_C(1) << WEFT_OPTION_##name)

/* Strings out of argv; the array belongs to the weft_args. */
typedef struct weft_arg_list {
    const char **items;
    size_t count;
} weft_arg_list;

#define WEFT_ARG_WORDS 32u

typedef struct weft_args {
    uint64_t given; /* WEFT_TAKES of every option that was there */
    bool help;
    bool json;
    bool empty;
    bool allow_missing;
    bool follow_all;
    bool serve;
    bool join;
    bool keep_on;                      /* --follow of a store */
    const char *site;                  /* the positional argument, or */
    const char *words[WEFT_ARG_WORDS]; /* these, as many as the verb has */
    const char *log;
    const char *model;
    const char *follow;
    const char *peer;
    const char *save;
    const char *save_each;
    const char *on_version; /* a command of the shell */
    const char *view;
    const char *store;
    const char *version; /* NUMBER, or RUN/NUMBER */
    const char *provider;
    const char *profile;
    bool manual;
    bool mixed;
    const char *keep;
    const char *output;
    const char *level;
    const char *names;
    const char *base;
    const char *density; /* percentages with commas between them */
    const char *teams;   /* thread counts, the same */
    weft_arg_list versions;
    weft_arg_list shares;    /* --share */
    weft_arg_list overrides; /* --set, and --log as "log.level=LEVEL" */
    uint64_t first_version;
    uint64_t until;
    uint64_t kept;  /* folders of --save-each, or versions of a store */
    uint64_t bytes; /* of a store */
    uint64_t age;   /* seconds, as grace is */
    uint64_t grace;
    uint64_t source; /* number of a trainer */
    uint64_t run;
    uint64_t peers;
    uint64_t sources;
    uint64_t ranks;
    uint64_t params;
    uint64_t updates;
    uint64_t timeout; /* seconds */
    uint64_t threads; /* 0: the library's choice */
    uint64_t runs;
    uint64_t megabytes;
    uint64_t tp; /* ranks, as fsdp and experts are */
    uint64_t fsdp;
    uint64_t experts;
    uint64_t key_heads; /* 0: not known */
    uint64_t pad;
    double changed; /* percent */
    char log_override[64];
} weft_args;

/* Each verb is a row: its options, words and function. */
typedef struct weft_verb {
    const char *name;
    const char *synopsis; /* after "weft NAME" */
    const char *summary;
    uint64_t options; /* mask of WEFT_TAKES; --help is taken always */
    bool site;        /* takes SITE.ini */
    uint8_t words;    /* takes so many other positional arguments, named in the synopsis, */
    uint8_t more;     /* and up to so many further ones; WEFT_ARG_WORDS in all */
    int (*run)(const weft_args *args);
} weft_verb;

/* Reads argv (after the verb) into args, defaults first. `args` must be given back with weft_args_close, also after
 * an error. Errors: WEFT_E_ARGUMENT (the text says what is allowed), WEFT_E_MEMORY. */
weft_status weft_args_read(const weft_verb *verb, int argc, char **argv, weft_args *args);
void weft_args_close(weft_args *args);
bool weft_args_given(const weft_args *args, weft_option option);
/* As it is given: "--model". */
const char *weft_args_name(weft_option option);

/* Prints what a verb takes to stdout. */
void weft_args_help(const weft_verb *verb);

/* The one of `count` names nearest to `word`, or NULL if none is near. `names(user, i)` gives the i-th. */
const char *weft_args_nearest(const char *word, size_t count, const char *(*names)(const void *user, size_t index),
                              const void *user);

#endif
