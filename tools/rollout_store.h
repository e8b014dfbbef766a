/* rollout_store.h - weft rollout --store: versions out of a store, without a trainer. */
#ifndef WEFT_TOOLS_ROLLOUT_STORE_H
#define WEFT_TOOLS_ROLLOUT_STORE_H

#include "args.h"

/* Runs the verb for args->store. Returns the exit code. */
int weft_rollout_store(const weft_args *args);

#endif
