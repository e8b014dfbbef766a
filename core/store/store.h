/* store.h - versions in files that nobody overwrites: updates, and anchors that need no base.
 *
 * A store is a place with files, and a place is a table of functions, so that a folder and an object store differ in
 * the table alone. All that a store knows is in names and in both ends of each file (docs/STORE.md). */
#ifndef WEFT_CORE_STORE_H
#define WEFT_CORE_STORE_H

#include <stdbool.h>

#include "base/turn.h"
#include "update/update_move.h"

#define WEFT_STORE_NONE     UINT64_MAX
#define WEFT_STORE_NAME_MAX 96u /* bytes of a name, its end included */
#define WEFT_STORE_GAP_MAX  192u

/* The kinds of file that a version may have. */
typedef enum weft_store_kind {
    WEFT_STORE_UPDATE, /* from the version before */
    WEFT_STORE_ANCHOR, /* from zeros */
    WEFT_STORE_MERGE,  /* from the version that the merge before leads to: a few updates in one */
    WEFT_STORE_TIGHT,  /* as the update, at level tight: less bytes, and no way back */
    WEFT_STORE_KINDS
} weft_store_kind;

/* The parts of a file's name. */
typedef struct weft_store_name {
    uint64_t run, number;
    weft_store_kind kind;
    uint32_t source, sources; /* source r of S */
} weft_store_name;

/* A file of the place. */
typedef struct weft_store_item {
    weft_store_name name;
    uint64_t bytes;  /* bytes; 0: there is no such file */
    uint64_t time_s; /* time of the last change, in seconds since 1970 */
} weft_store_item;

/* Files of a place, in no order. */
typedef struct weft_store_items {
    weft_store_item *items;
    uint64_t count, capacity;
    uint64_t others;     /* files whose names follow no rule, and unfinished files */
    uint64_t unfinished; /* unfinished files, of writers that live, and of others */
} weft_store_items;

/* A place for files. Errors name the file. */
typedef struct weft_store_port {
    uint32_t abreast; /* files that several threads are to open at once, because each waits for a server; 0: one */
    weft_status (*list)(void *place, weft_store_items *items);
    /* Opens a file, which the caller closes before the store. */
    weft_status (*open)(void *place, const char *name, weft_update_file **update);
    /* Writes a whole file by `fill`, or none. A name that is taken stays as it is. Errors: WEFT_E_STATE (the name is
     * taken), WEFT_E_FILE, those of `fill`. */
    weft_status (*put)(void *place, const char *name, weft_status (*fill)(void *user, const weft_sink *sink),
                       void *user);
    weft_status (*remove)(void *place, const char *name);
    /* Removes unfinished files whose writers are gone, or, where nobody can tell, which were last written before
     * `time_s`. */
    weft_status (*tidy)(void *place, uint64_t time_s);
    /* Somebody waits for files from here on, which `stirred` and `wait` may tell of. NULL: they do not. */
    void (*watch)(void *place);
    /* Tells whether a listing may differ from the last one. NULL: it may. */
    bool (*stirred)(void *place);
    /* Returns after so many milliseconds, or as soon as somebody wrote. False: a signal came. */
    bool (*wait)(void *place, uint32_t ms);
    /* Ends what is under way, and has all later calls fail. Any thread. NULL: nothing can be ended. */
    void (*end)(void *place);
    /* Has what is under way change nothing any more, whenever it comes back. Any thread. NULL: `end` does. */
    void (*leave)(void *place);
    void (*close)(void *place);
} weft_store_port;

/* One file of a version, as its ends describe the file. */
typedef struct weft_store_file {
    weft_store_item item;
    weft_version base, target;
    uint64_t layout[2]; /* hash of the layout */
    weft_status status; /* OK: both ends are whole and fit the name; AGAIN: nobody looked at them */
    bool attached;      /* the file brings an attachment */
    bool divided;       /* its layout is of cells of a model */
    bool read;          /* its ends were read, and are whole */
    weft_key_sum *sums; /* what each key adds to the target's root, where the layout is of cells */
    uint32_t sum_count;
} weft_store_file;

/* One version. */
typedef struct weft_store_version {
    weft_version version;
    uint64_t parent;                         /* index of the version that the update starts from; WEFT_STORE_NONE */
    uint64_t start[WEFT_STORE_KINDS];        /* the same by kind of file; WEFT_STORE_NONE also for an anchor */
    weft_store_file files[WEFT_STORE_KINDS]; /* files by kind */
} weft_store_version;

struct weft_store {
    weft_alone alone_in;
    const weft_store_port *port;
    void *place;
    char *name;                   /* name of the place, for messages */
    uint64_t anchors;             /* numbers from one anchor to the next */
    uint32_t source, sources;     /* whose files these are: source r of S */
    weft_store_version *versions; /* versions by run and number, rising */
    uint64_t count, capacity;
    uint64_t others;     /* files that are no files of a store */
    uint64_t unfinished; /* unfinished files among these */
    uint64_t last_run;   /* last run of any source; 0: there are no files */
    uint64_t seen;       /* one word for the names and sizes of all files; 0: the last look failed */
    uint32_t look_ms;    /* time from one look at the place to the next */
    uint64_t look_ns;    /* time of the next look */
    /* A reader looks at the files of one trainer, and has a store for each source of several beside them. These share
     * its place and its name. */
    bool alone; /* only files of this source are looked at */
    weft_store **shelves;
    uint32_t shelf_count;
    weft_store *whole; /* store that has this one among its shelves; NULL: none */
    /* The view of a reader that is one process of many. */
    weft_layout *model; /* the model's layout */
    weft_slice *slices; /* NULL: no view */
    uint64_t slice_count;
    uint64_t judged_run; /* run of this source in which `needed` holds; 0: none */
    bool needed;         /* the view has a key of this source */
};

/* ---- store_name.c: names by rule */

/* Writes a name: RUN/NUMBER/KIND-R-of-S.weft. */
void weft_store_name_put(const weft_store_name *name, char out[WEFT_STORE_NAME_MAX]);
/* Reads a name. False: the name is not as weft_store_name_put writes it. */
bool weft_store_name_get(const char *text, weft_store_name *name);

/* ---- store_folder.c, store_s3.c, store_abreast.c, store_list.c, store_find.c */

/* Opens a folder as a place. Errors: WEFT_E_FILE (no folder, or it cannot be made), WEFT_E_MEMORY. */
weft_status weft_store_folder_open(const char *path, bool create, const weft_store_port **port, void **place);
/* Opens s3://BUCKET/PREFIX as a place. Errors: WEFT_E_ARGUMENT, WEFT_E_CONFIG (no credentials), WEFT_E_MISSING (no
 * libcurl), WEFT_E_MEMORY. */
weft_status weft_store_s3_open(const char *url, const weft_store_port **port, void **place);
/* Adds a file to a listing. Errors: WEFT_E_MEMORY. */
weft_status weft_store_items_add(weft_store_items *items, const weft_store_item *item);
/* Lists the place anew, and reads the ends of all files. A damaged file is no error here. */
weft_status weft_store_load(weft_store *store);
/* Has `read` look at each file that nobody looked at (its status is WEFT_AGAIN), at as many at once as the place
 * allows. Errors: the first of `read`, after which no other file is looked at. */
weft_status weft_store_abreast(weft_store *store, weft_status (*read)(const weft_store *store, weft_store_file *file));
/* Gives versions back. */
void weft_store_versions_give(weft_store_version *versions, uint64_t count);
/* Adds or updates a version after the store wrote a file of that version. Errors: WEFT_E_MEMORY. */
weft_status weft_store_note(weft_store *store, const weft_store_name *name);
/* Opens the file of a version, and checks that it is what its name says. */
weft_status weft_store_file_open(const weft_store *store, weft_store_file *file, weft_update_file **update);
/* Finds the version of a run and number; with run 0 that of the last run that has the number. */
uint64_t weft_store_find(const weft_store *store, uint64_t run, uint64_t number);
/* Tells whether a version has a file of a kind of which nothing wrong is known. */
bool weft_store_has(const weft_store_version *version, weft_store_kind kind);

/* Returns the kind of the file that tells the attachment of its version: the anchor, or an update that brings one.
 * WEFT_STORE_KINDS: the version has none such. */
weft_store_kind weft_store_attached(const weft_store_version *version);
/* Finds the version that a whole file of this one starts from: its update, or else a tight one or a merge.
 * WEFT_STORE_NONE: none. */
uint64_t weft_store_before(const weft_store *store, uint64_t index);
/* Finds a whole file with the layout of a version: one of its own, or else one that starts there. NULL: none. */
weft_store_file *weft_store_like(const weft_store *store, uint64_t index);
/* Writes what ends the chain of files before a version: a file that is damaged, or one that is not there. Returns the
 * damaged file, or NULL. */
weft_store_file *weft_store_gap(const weft_store *store, uint64_t index, char text[WEFT_STORE_GAP_MAX]);
/* Says that there is no way to a version, with the gap, and with what reading the file there ends in now. */
weft_status weft_store_gap_say(const weft_store *store, uint64_t index, const char *what);

/* Finds the last version with a root, for a layout, of which a file is whole. */
uint64_t weft_store_find_root(const weft_store *store, uint64_t root, const uint64_t layout[2]);

/* ---- store_put.c */

/* Writes a file of a version, whole or not at all. `fill` may put other files meanwhile. Errors: those of the place and
 * of `fill`. */
weft_status weft_store_file_put(weft_store *store, const weft_version *version, weft_store_kind kind,
                                weft_status (*fill)(void *user, const weft_sink *sink), void *user);
/* Tells whether an anchor is due for a version whose base has the index `parent`: none lies between the version and the
 * last number that is a multiple of `anchors`. An anchor that failed is due again at the next version. */
bool weft_store_anchor_is_due(const weft_store *store, const weft_version *version, uint64_t parent);

/* ---- store_merge.c */

/* Writes the merge of a version, if one is due: the version is the first of eight numbers, and updates lead there from
 * the last such version of the run. There is none where one of these updates is damaged or brings an attachment.
 * Errors: those of the place and of weft_update_merge. */
weft_status weft_store_merge_put(weft_store *store, uint64_t index, const weft_work *work);

/* ---- store.c */

/* Opens the files of one source of several, or of the one trainer (0 of 1), to write them. Errors: as
 * weft_store_open. */
weft_status weft_store_open_source(const char *place, const weft_store_options *options, uint32_t source,
                                   uint32_t sources, weft_store **store);
/* Finds a version; run 0: that of the last run that has the number. Errors: WEFT_E_MISSING. */
weft_status weft_store_version_find(const weft_store *store, const weft_version *version, uint64_t *index);
/* Returns the layout that the files of a version have: of all tensors, or of cells. Errors: as weft_store_layout. */
weft_status weft_store_file_layout(weft_store *store, const weft_version *version, weft_layout **layout);
/* Ends what is under way, so that the store can be closed soon. Any thread. */
void weft_store_end(weft_store *store);
/* Has what is under way, and hangs, change nothing any more when it comes back. Any thread. */
void weft_store_leave(weft_store *store);

/* ---- store_order.c: weights whose tensors have another order than the files */
/* Tells whether a version's files have this layout, as far as it has files. */
bool weft_store_has_layout(const weft_store *store, uint64_t index, const weft_layout *layout);
/* Matches pieces of a layout with a version's, which has the same tensors in another order. *stored receives the
 * version's layout, and *renumbered the pieces by its numbers; the caller gives both back. Errors: WEFT_E_LAYOUT (other
 * tensors, which the text names), WEFT_E_MEMORY, those of weft_store_file_layout. */
weft_status weft_store_match(weft_store *store, uint64_t index, const weft_layout *layout, const weft_piece *pieces,
                             uint64_t count, weft_layout **stored, weft_piece **renumbered);

/* ---- store_way.c: the shortest way to a version */

typedef enum weft_store_act { WEFT_STORE_SET, WEFT_STORE_FORWARD, WEFT_STORE_BACK } weft_store_act;

typedef struct weft_store_step {
    weft_store_act act;
    uint64_t index;       /* version whose file the step reads */
    weft_store_kind kind; /* kind of that file */
} weft_store_step;

typedef struct weft_store_way {
    weft_store_step *steps;
    uint64_t count;
    uint64_t bytes; /* bytes of all files on the way */
} weft_store_way;

/* Finds the way of the fewest bytes to version `to`, from weights of root `held`, if `held` is not NULL, or from an
 * anchor. Updates lead forward, and those without an attachment back. The caller gives the way back with
 * weft_store_way_close. Errors: WEFT_E_MISSING (there is no way), WEFT_E_MEMORY. */
weft_status weft_store_way_find(const weft_store *store, const uint64_t *held, uint64_t to, weft_store_way *way);
/* Finds the version whose own file tells the attachment of a version, along all files that keep the attachment. *found
 * is WEFT_STORE_NONE if there is none. Errors: WEFT_E_MEMORY. */
weft_status weft_store_attachment_find(const weft_store *store, uint64_t index, uint64_t *found);
void weft_store_way_close(weft_store_way *way);
/* Tells for each version whether an anchor and updates lead there, past no version before `first`. Errors:
 * WEFT_E_MEMORY. */
weft_status weft_store_reach(const weft_store *store, uint64_t first, bool *reached);

/* ---- store_move.c: weights led along a way */

#define WEFT_STORE_STEPS 64u /* files that are open at once; longer ways are gone in stretches of so many */

typedef struct weft_store_mover {
    weft_store *store;
    weft_mover mover;
    weft_update_step *steps; /* WEFT_STORE_STEPS, of the stretch that was proved */
    uint64_t count;          /* 0: the weights stay what they are */
    bool more;               /* the way goes on after this stretch */
    weft_store_info figures; /* of what was proved */
} weft_store_mover;

/* Opens a mover of weights, which are bound for the excerpt's layout, or else for `layout`, that of the files. Errors:
 * those of weft_mover_open. */
weft_status weft_store_mover_open(weft_store_mover *mover, weft_store *store, const weft_layout *layout,
                                  const weft_excerpt *excerpt, const weft_binding *weights, const weft_work *work);
void weft_store_mover_close(weft_store_mover *mover);

/* Proves a stretch of a way, and writes nothing. A file that is damaged is marked as such. Errors: those of
 * weft_mover_prove, and of the place. */
weft_status weft_store_mover_prove(weft_store_mover *mover, const weft_store_step *steps, uint64_t count);
/* Returns the root of the version that measured weights have the bits of; NULL: of none. */
typedef const uint64_t *weft_store_held(const weft_store_mover *mover, const void *user);
/* Finds and proves the way of the fewest bytes to a version, or its first stretch. Errors: WEFT_E_MISSING, those of
 * weft_store_mover_prove where no other way is left. */
weft_status weft_store_mover_lead(weft_store_mover *mover, weft_store_held *held, const void *user, uint64_t to);
/* Writes what was proved. Errors: those of weft_mover_write. */
weft_status weft_store_mover_write(weft_store_mover *mover, const weft_binding *weights);
/* Returns the digests by part of the weights after what was proved. */
const uint64_t *weft_store_mover_digests(const weft_store_mover *mover);
/* Returns true if a file that fails so is damaged, so that the next way goes round the file. */
bool weft_store_is_damage(weft_status status);

/* ---- store_set.c: versions of several sources */

/* The stores that together have a version: one, or one for each source. */
typedef struct weft_store_set {
    weft_store *shelf[WEFT_SOURCES_MAX];
    uint64_t index[WEFT_SOURCES_MAX]; /* index of the version in each; WEFT_STORE_NONE: not yet, and not needed */
    uint32_t count;
    uint32_t first;       /* first source that has the version */
    weft_version version; /* run and number */
    bool divided;         /* the files are of cells of a model */
} weft_store_set;

/* Finds the files of a version; run 0: of the last run that has the number. Several sources have a version when all of
 * them have it that the view needs. Errors: WEFT_E_MISSING. */
weft_status weft_store_set_find(weft_store *store, const weft_version *version, weft_store_set *set);
/* Returns one word for all bits of a version, from the roots of its sources, as weft_held does; 0: the roots of sources
 * that are not needed are not known. */
uint64_t weft_store_set_root(const weft_store_set *set);
/* Returns the stores of all files: this one, and its shelves, from 0 on; NULL: there are no more. */
weft_store *weft_store_each(weft_store *store, uint32_t number);
/* Finds the store of source r of S among these. NULL: the source wrote nothing. */
weft_store *weft_store_source(weft_store *store, uint32_t source, uint32_t sources);

/* ---- store_view.c */

/* Returns a whole file of cells that a source wrote in a run; NULL: there is none. */
weft_store_file *weft_store_view_like(const weft_store *source, uint64_t run);
/* Tells whether a version of a run needs the files of a source. */
bool weft_store_view_needs(const weft_store *source, uint64_t run);
/* Judges which sources the view needs, where a source has a new run. Errors: WEFT_E_MEMORY. */
weft_status weft_store_view_judge(weft_store *store);
void weft_store_view_give(weft_store *store);

/* ---- store_part.c */

/* Moves weights of a model to a version whose files are of cells. Either pieces or blocks are given. Errors: as
 * weft_store_apply_blocks. */
weft_status weft_store_part_apply(const weft_store_set *set, const weft_layout *model, const weft_piece *pieces,
                                  const weft_block *blocks, uint64_t count, const weft_work *work,
                                  weft_store_info *info);

/* ---- store_apply.c */

/* Moves weights of the files' own layout to a version. Errors: as weft_store_apply. */
weft_status weft_store_apply_files(weft_store *store, const weft_version *version, const weft_layout *layout,
                                   const weft_piece *pieces, uint64_t count, const weft_work *work,
                                   weft_store_info *info);
/* Copies figures into the caller's struct, as far as that has room; NULL: there is none. */
void weft_store_info_report(const weft_store_info *all, weft_store_info *info);
/* Takes one step, or only proves the step. Errors: those of weft_mover_prove, and of the place. */
weft_status weft_store_step_take(weft_store *store, const weft_store_step *step, bool proof, const weft_layout *layout,
                                 const weft_piece *pieces, const weft_work *work);

/* ---- store_zero.c */

/* Weights of zeros, which no memory backs until somebody writes there. */
typedef struct weft_store_zero {
    void *data;
    uint64_t bytes;
    weft_piece *pieces; /* pieces, one a tensor */
} weft_store_zero;

weft_status weft_store_zero_open(const weft_layout *layout, weft_store_zero *zero);
void weft_store_zero_close(weft_store_zero *zero);

#endif
