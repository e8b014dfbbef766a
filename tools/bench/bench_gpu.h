/* bench_gpu.h - weft bench gpu: what a device's passes take, beside copies of the same bytes on the same device. */
#ifndef WEFT_TOOLS_BENCH_GPU_H
#define WEFT_TOOLS_BENCH_GPU_H

#include "model/bench_pair.h"
#include "tools/args.h"
#include "tools/bench/gpu/rig.h"

int weft_bench_gpu_verb(const weft_args *args);

typedef struct weft_bench_gpu_found {
    const char *backend, *name; /* of the device */
    uint64_t bytes, elements;   /* of the weights */
    uint32_t rounds;
    const weft_bench_gpu_facts *facts;
    double ms[WEFT_BENCH_GPU_PASSES][WEFT_BENCH_ROUNDS_MAX];
} weft_bench_gpu_found;

/* A row of the table: one pass, or two that follow each other. */
typedef struct weft_bench_gpu_row {
    const char *name;
    const char *mark;               /* the bar's name, NULL: none */
    weft_bench_gpu_pass pass, also; /* `also` 0: none */
    weft_bench_gpu_pass yard;
    double bar;   /* 0: none */
    bool sectors; /* the yardstick is two reads of the sectors that changed, at the yard's rate, and the ratio how many
                     times as long it took; else a share of the yard's rate */
} weft_bench_gpu_row;

#define WEFT_BENCH_GPU_ROWS 7u
extern const weft_bench_gpu_row weft_bench_gpu_rows[WEFT_BENCH_GPU_ROWS];

const char *weft_bench_gpu_yard_name(weft_bench_gpu_pass yard);
double weft_bench_gpu_median(const weft_bench_gpu_found *found, weft_bench_gpu_pass pass);
/* Bytes that a copy moves in device memory, read and written, or over the link. */
uint64_t weft_bench_gpu_moved(const weft_bench_gpu_found *found, weft_bench_gpu_pass pass);
/* Median over the rounds. */
double weft_bench_gpu_ratio(const weft_bench_gpu_found *found, const weft_bench_gpu_row *row);
bool weft_bench_gpu_holds(const weft_bench_gpu_row *row, double ratio);

void weft_bench_gpu_print(const weft_bench_gpu_found *found);
void weft_bench_gpu_print_json(const weft_bench_gpu_found *found);

#endif
