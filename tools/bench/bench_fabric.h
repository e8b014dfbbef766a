/* bench_fabric.h - weft bench fabric: what the fabric of a site's peers gives, and the keys that follow from it. */
#ifndef WEFT_TOOLS_BENCH_FABRIC_H
#define WEFT_TOOLS_BENCH_FABRIC_H

#include "tools/args.h"
#include "tools/bench/fabric/measure.h"

int weft_bench_fabric(const weft_args *args);

/* `address`: of the end that measured; `site`: the keys that are set now. */
typedef struct weft_fabric_found {
    const char *provider, *address, *other;
    weft_bench_fabric_figures figures;
} weft_fabric_found;

void weft_bench_fabric_print(const weft_fabric_found *found);
void weft_bench_fabric_print_json(const weft_fabric_found *found);

#endif
