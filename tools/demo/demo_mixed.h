/* demo_mixed.h - weft demo --mixed: what the weights of each rollout lie on, another one for each. */
#ifndef WEFT_TOOLS_DEMO_MIXED_H
#define WEFT_TOOLS_DEMO_MIXED_H

#include "tools/demo/demo.h"

/* Finds the devices of this machine and the kernel sets that its processor runs, at most one of each backend. */
void weft_demo_mixed_find(weft_demo_mixed *mixed);
/* The kind of rollout `index`: in turn. */
const weft_demo_kind *weft_demo_mixed_at(const weft_demo_mixed *mixed, size_t index);
/* Says on what each rollout is, and what stands in for a device where there is none. */
void weft_demo_mixed_say(const weft_demo_plan *plan);

#endif
