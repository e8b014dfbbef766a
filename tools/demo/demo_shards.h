/* demo_shards.h - weft demo --sources S --ranks N: sources and ranks of an engine as processes, and their proof. */
#ifndef WEFT_TOOLS_DEMO_SHARDS_H
#define WEFT_TOOLS_DEMO_SHARDS_H

#include "tools/args.h"

/* Runs the demo. Returns the exit code. */
int weft_demo_shards(const weft_args *args);

#endif
