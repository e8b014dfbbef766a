/* offline.h - what the verbs over files share: models under guard, progress on a terminal, whole files or none. */
#ifndef WEFT_TOOLS_OFFLINE_H
#define WEFT_TOOLS_OFFLINE_H

#include "base/file.h"
#include "model/safetensors.h"
#include "tools/args.h"
#include "tools/output.h"

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

/* Gives the model read from `path` the order of the update's layout. Errors: as weft_model_take_order, those of
 * weft_update_describe. */
weft_status weft_offline_fits(weft_update_file *update, weft_model *model, const char *path);

/* Where a model that comes of `base` (NULL: of none) goes: a base that is a folder with one file leads to such a
 * folder, but for a path that ends in .safetensors. `name` has room for the file's name. */
weft_model_place weft_offline_place(const char *base, const char *path, char name[256]);

/* The header of `model` where it is another than the base's; 0 bytes: it is the same. */
const void *weft_offline_new_header(const weft_model *base, const weft_model *model, uint64_t *bytes);

/* An output begun, written by a sink, and put in its place: as weft_file_begin, weft_file_put and weft_file_finish,
 * with `path` named in errors. A path that takes no output is wrong input; with `begin` the work begins, as `phase`
 * tells: a disk that is full is nobody's wrong use. */
weft_status weft_offline_begin(weft_file *file, const char *path, weft_tool_phase *phase);
weft_status weft_offline_finish(weft_file *file, const char *path);
weft_sink weft_offline_sink(weft_file *file);

#endif
