/* offline.h - what the verbs over files share: models under guard, progress on a terminal, whole files or none. */
#ifndef WEFT_TOOLS_OFFLINE_H
#define WEFT_TOOLS_OFFLINE_H

#include "args.h"
#include "file.h"
#include "model/safetensors.h"
#include "output.h"

/* Progress of one piece of work; a signal ends it. */
typedef struct weft_offline_bar {
    const char *what;
    bool shown;
    double next_ms; /* not before */
} weft_offline_bar;

/* To be asked before an output is begun, with signals caught from the verb's first call on: a signal that ends the
 * process from then on would leave temporaries behind. Errors: WEFT_E_STATE once a signal came. */
weft_status weft_offline_wanted(void);

/* The work's terms: threads of the command line, progress to `bar`. */
weft_work weft_offline_work(const weft_args *args, const char *what, weft_offline_bar *bar);
/* Wipes the line that the bar drew; for before anything else is printed. */
void weft_offline_bar_end(weft_offline_bar *bar);

/* Whether two models have one layout; `b` was read from `path`. Errors: WEFT_E_LAYOUT, naming the first tensor that
 * differs. */
weft_status weft_offline_same_layout(const weft_model *a, const weft_model *b, const char *path);

/* The header of `model` where it is another than the base's; 0 bytes: it is the same. */
const void *weft_offline_new_header(const weft_model *base, const weft_model *model, uint64_t *bytes);

/* A sink that writes a file. */
weft_sink weft_offline_sink(weft_file *file);

#endif
