/* rollout_store.h - weft rollout --store: versions out of a store, without a trainer. */
#ifndef WEFT_TOOLS_ROLLOUT_STORE_H
#define WEFT_TOOLS_ROLLOUT_STORE_H

#include "tools/args.h"
#include "tools/follow/save_each.h"
#include "tools/share/share_weights.h"

/* Runs the verb for args->store. Returns the exit code. */
int weft_rollout_store(const weft_args *args);

/* Moves weights to the last whole version of args->store, before a trainer is joined; with --empty takes memory for
 * them first.
 *
 * view   receives the slices that args->view, or all of the model, comes to, and the weights are theirs; NULL: pieces
 *        of all of the model
 * each   saves that version, if asked for
 * taken  the weights are that version's; false without an error: the store has none yet
 * Errors: those of weft_store_open and weft_store_apply_blocks. */
weft_status weft_rollout_store_first(const weft_args *args, weft_weights *weights, weft_share_weights *view,
                                     weft_save_each *each, bool *taken);

#endif
