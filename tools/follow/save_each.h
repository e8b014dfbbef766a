/* save_each.h - a rollout's versions as folders that an engine loads: each whole under its name, or not there. */
#ifndef WEFT_TOOLS_SAVE_EACH_H
#define WEFT_TOOLS_SAVE_EACH_H

#include "tools/serve/weights.h"

#include "tools/args.h"

typedef struct weft_save_each {
    const weft_args *args; /* NULL, or without --save-each: nothing is saved */
    char *folder;          /* whole path of --save-each */
    char *last;            /* of the version saved last; NULL: none */
    char *base;            /* whole path of --model; NULL: none */
    char name[256];        /* file in a folder of a model that is one file */
    bool failed;           /* the version saved last is not there, which was said */
} weft_save_each;

/* Reads --save-each, --keep and --on-version, and makes the folder. Errors: WEFT_E_ARGUMENT, WEFT_E_FILE. */
weft_status weft_save_each_open(const weft_args *args, weft_save_each *each);

/* Writes a version as a folder version-NUMBER-DIGEST, with hard links to the version before for each file that did not
 * change, gives up the oldest beyond --keep but for the base, and runs --on-version. Returns when that command ended.
 * What fails is said, because the weights in memory are right, and the next version is written anew. */
void weft_save_each_version(weft_save_each *each, const weft_weights *weights, const void *header, uint64_t bytes,
                            const weft_version *version);

/* Whether the version saved last is there. Errors: WEFT_E_FILE, which was said. */
weft_status weft_save_each_settle(const weft_save_each *each);

void weft_save_each_close(weft_save_each *each);

#endif
