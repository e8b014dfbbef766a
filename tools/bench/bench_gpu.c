/* bench_gpu.c - weft bench gpu: weights for a device, rounds of passes, and their figures. */
#include "tools/bench/bench_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "tools/output.h"

#define SEED          UINT64_C(1)
#define PARAMS        (UINT64_C(1) << 32) /* 8 GiB of bf16 */
#define PARAMS_LEAST  UINT64_C(10000)
#define MODEL_PARAMS  (UINT64_C(1) << 27) /* larger weights are copies of a model of so many: many times any cache */
#define CHANGED       1.0
#define WEFTS_OWN     (UINT64_C(4) << 30) /* device memory that is left to weft where the weights' size is chosen */
#define DEVICES_MAX   64
#define MEGABYTES_MAX (UINT64_C(1) << 30)

/* ---- the device */

/* The backend that was asked for or has a device that can be used, cuda before hip; its first device. */
static weft_status device_find(const char *wanted, weft_device_info *device)
{
    weft_device_info all[DEVICES_MAX];
    size_t count;
    weft_status status = weft_devices(all, DEVICES_MAX, &count);
    const weft_device_info *why = NULL;
    for (size_t i = 0; i < count && i < DEVICES_MAX && status == WEFT_OK; i++) {
        if (strcmp(all[i].backend, "host") == 0 || (wanted && strcmp(all[i].backend, wanted) != 0))
            continue;
        if (all[i].usable)
            return *device = all[i], WEFT_OK;
        why = why ? why : &all[i];
    }
    if (status == WEFT_OK && !why)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft bench gpu is for cuda or hip, not '%s'", wanted ? wanted : "");
    return status == WEFT_OK ? weft_fail_quiet(WEFT_E_MISSING, "backend %s: %s", why->backend, why->detail) : status;
}

/* 8 GiB of bf16, or what goes three times into the device beside what weft takes, and once into half of the host. */
static uint64_t params_choose(const weft_device_info *device)
{
    const uint64_t own = device->memory_bytes < 2 * WEFTS_OWN ? device->memory_bytes / 2 : WEFTS_OWN;
    const uint64_t there = (device->memory_bytes - own) / 3;
    const uint64_t here = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    const uint64_t most = (there < here ? there : here) / sizeof(uint16_t);
    return most < PARAMS ? most : PARAMS;
}

/* ---- weights: copies of one model, side by side */

typedef struct weights {
    weft_bench_pair pair;
    weft_bench_gpu_weights all;
    weft_piece *before, *after;
} weights;

static weft_status names_make(const weft_layout *layout, uint64_t copies, weft_tensor *tensors, char (*names)[256])
{
    for (uint64_t i = 0; i < copies * layout->count; i++) {
        tensors[i] = layout->entries[i % layout->count].tensor;
        snprintf(names[i], sizeof *names, "%" PRIu64 ".%.200s", i / layout->count, tensors[i].name);
        tensors[i].name = names[i];
    }
    return WEFT_OK;
}

static weft_status layout_make(weights *w, uint64_t copies)
{
    const uint64_t count = copies * w->pair.layout->count;
    weft_tensor *tensors = weft_mem_take(count, sizeof *tensors);
    char(*names)[256] = weft_mem_take(count, sizeof *names);
    weft_status status = tensors && names ? names_make(w->pair.layout, copies, tensors, names)
                                          : weft_fail(WEFT_E_MEMORY, "no memory for names of tensors");
    if (status == WEFT_OK)
        status = weft_layout_create(tensors, count, &w->all.layout);
    weft_mem_give(names);
    weft_mem_give(tensors);
    return status;
}

static weft_status pieces_make(weights *w, uint64_t copies)
{
    const uint64_t each = w->pair.count;
    w->all.count = copies * each;
    w->all.before = w->before = weft_mem_take(w->all.count, sizeof *w->before);
    w->all.after = w->after = weft_mem_take(w->all.count, sizeof *w->after);
    if (!w->before || !w->after)
        return weft_fail(WEFT_E_MEMORY, "no memory for pieces");
    for (uint64_t i = 0; i < w->all.count; i++) {
        w->before[i] = w->pair.pieces_before[i % each];
        w->after[i] = w->pair.pieces_after[i % each];
        w->before[i].tensor = w->after[i].tensor = i;
    }
    return WEFT_OK;
}

static weft_status weights_open(weights *w, uint64_t params, double share)
{
    const uint64_t each = params / 2 < MODEL_PARAMS ? params / 2 : MODEL_PARAMS;
    weft_status status = weft_bench_pair_make(&w->pair, each, share, SEED);
    const uint64_t copies = status == WEFT_OK ? (params + each / 2) / w->pair.layout->elements : 0;
    if (status == WEFT_OK)
        status = layout_make(w, copies ? copies : 1);
    return status == WEFT_OK ? pieces_make(w, copies ? copies : 1) : status;
}

static void weights_close(weights *w)
{
    weft_mem_give(w->after);
    weft_mem_give(w->before);
    weft_layout_free(w->all.layout);
    weft_bench_pair_close(&w->pair);
}

/* ---- rounds */

static weft_status rounds_run(weft_bench_gpu *rig, weft_bench_gpu_found *found)
{
    weft_status status = WEFT_OK;
    for (uint32_t round = 0; round < found->rounds && status == WEFT_OK; round++) {
        double ms[WEFT_BENCH_GPU_PASSES] = {0};
        status = weft_bench_gpu_round(rig, ms);
        for (int pass = 0; pass < WEFT_BENCH_GPU_PASSES; pass++)
            found->ms[pass][round] = ms[pass];
    }
    return status;
}

static weft_status measure(const weft_args *args, const weights *w, const weft_device_info *device)
{
    weft_bench_gpu *rig = NULL;
    weft_bench_gpu_found *found = weft_mem_take(1, sizeof *found);
    const uint64_t budget = args->given & WEFT_TAKES(MEGABYTES) ? args->megabytes * 1000000 : 0;
    weft_status status = found ? weft_bench_gpu_open(&w->all, device->backend, budget, &rig)
                               : weft_fail(WEFT_E_MEMORY, "no memory for figures");
    if (status == WEFT_OK) {
        found->backend = device->backend;
        found->name = device->name;
        found->bytes = w->all.layout->bytes;
        found->elements = w->all.layout->elements;
        found->rounds = (uint32_t)args->runs;
        found->facts = weft_bench_gpu_facts_of(rig);
        status = rounds_run(rig, found);
    }
    if (status == WEFT_OK)
        (args->json ? weft_bench_gpu_print_json : weft_bench_gpu_print)(found);
    weft_bench_gpu_close(rig);
    weft_mem_give(found);
    return status;
}

/* ---- the command line */

static weft_status check_words(const weft_args *args)
{
    if (args->runs < 1 || args->runs > WEFT_BENCH_ROUNDS_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--runs must be 1 to %u", WEFT_BENCH_ROUNDS_MAX);
    if ((args->given & WEFT_TAKES(PARAMS)) && args->params < PARAMS_LEAST)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--params must be at least %" PRIu64, PARAMS_LEAST);
    if ((args->given & WEFT_TAKES(CHANGED)) && !(args->changed > 0 && args->changed <= 100))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--changed must be more than 0 and at most 100");
    if (args->megabytes < 1 || args->megabytes > MEGABYTES_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--megabytes must be 1 to %" PRIu64, MEGABYTES_MAX);
    return WEFT_OK;
}

int weft_bench_gpu_verb(const weft_args *args)
{
    weft_device_info device;
    weights w = {0};
    weft_status status = check_words(args);
    if (status == WEFT_OK)
        status = device_find(args->words[1], &device);
    if (status != WEFT_OK)
        return weft_output_error(args->json, WEFT_TOOL_INPUT, status);
    const uint64_t params = args->given & WEFT_TAKES(PARAMS) ? args->params : params_choose(&device);
    status = weights_open(&w, params, (args->given & WEFT_TAKES(CHANGED) ? args->changed : CHANGED) / 100);
    if (status == WEFT_OK)
        status = measure(args, &w, &device);
    int code = status == WEFT_OK         ? WEFT_EXIT_DONE
               : status == WEFT_E_TARGET ? (weft_output_error(args->json, WEFT_TOOL_WORK, status), WEFT_EXIT_DIFFERENT)
                                         : weft_output_error(args->json, WEFT_TOOL_WORK, status);
    weights_close(&w);
    return code;
}
