/* demo.h - what the demo's parent, its trainer and its table share. */
#ifndef WEFT_TOOLS_DEMO_H
#define WEFT_TOOLS_DEMO_H

#include <jansson.h>
#include <limits.h>
#include <stdio.h>

#include "tools/args.h"

/* What a rollout's weights lie on. */
typedef struct weft_demo_kind {
    char backend[16];
    char kernels[16]; /* the host's kernel set; empty: the backend has its own */
} weft_demo_kind;

typedef struct weft_demo_mixed {
    weft_demo_kind kinds[6]; /* devices first */
    size_t count, devices;   /* 0: all rollouts are alike */
} weft_demo_mixed;

/* Where the demo works; fixed before the first process starts. */
typedef struct weft_demo_plan {
    const weft_args *args;
    char directory[PATH_MAX];
    char site[PATH_MAX];  /* site.ini */
    char start[PATH_MAX]; /* v0.safetensors, what every rollout starts from */
    char final[PATH_MAX]; /* trainer.safetensors, the last version as the trainer has it */
    double started;       /* on weft_now_ms */
    weft_demo_mixed mixed;
} weft_demo_plan;

/* Messages from the trainer's process, one JSON object a line, told apart by "kind":
 *   ready   listen                              the session is bound
 *   update  weft_json_update                    published
 *   peers   version, peers: [weft_json_peer]    while a version is under way
 *   held    version, peers                      every rollout holds it
 *   done    digest, bytes_sent, snapshot_bytes, elements, model_bytes, changed, update_bytes
 * and, instead of the rest, the error object. */
int weft_demo_trainer(const weft_demo_plan *plan);

/* The live table, or plain lines where there is no terminal. */
typedef struct weft_demo_table {
    bool on_stderr;
    FILE *out;       /* the page that is being drawn; else NULL */
    int live;        /* cursor movement is understood */
    int drawn_lines; /* above the cursor */
    uint64_t updates;
    json_t *update; /* last message of the kind; owned */
} weft_demo_table;

void weft_demo_table_open(weft_demo_table *table, bool on_stderr, uint64_t updates);
void weft_demo_table_take(weft_demo_table *table, const char *kind, json_t *message);
void weft_demo_table_close(weft_demo_table *table);

#endif
