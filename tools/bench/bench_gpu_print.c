/* bench_gpu_print.c - what was measured of a device, as a table and as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/bench/bench_gpu.h"
#include "tools/output.h"

#define SECTOR 32 /* bytes */

const weft_bench_gpu_row weft_bench_gpu_rows[WEFT_BENCH_GPU_ROWS] = {
    {"diff, the bitmap pass", "G1", WEFT_BENCH_GPU_DIFF, 0, WEFT_BENCH_GPU_COPY, 0.80, false},
    {"diff against a shadow on the host", "G1h", WEFT_BENCH_GPU_DIFF_HOST, 0, WEFT_BENCH_GPU_TO_DEVICE, 0.85, false},
    {"diff + encode, nothing changed", NULL, WEFT_BENCH_GPU_UNCHANGED, 0, WEFT_BENCH_GPU_COPY, 0, false},
    {"diff + encode fast", "G2", WEFT_BENCH_GPU_ENCODE_FAST, 0, WEFT_BENCH_GPU_COPY, 0.65, false},
    {"diff + encode tight", "G2", WEFT_BENCH_GPU_ENCODE_TIGHT, 0, WEFT_BENCH_GPU_COPY, 0.45, false},
    {"decode + apply fast", "G3", WEFT_BENCH_GPU_DECODE_FAST, WEFT_BENCH_GPU_APPLY_FAST, WEFT_BENCH_GPU_COPY, 2.0,
     true},
    {"decode + apply tight", NULL, WEFT_BENCH_GPU_DECODE_TIGHT, WEFT_BENCH_GPU_APPLY_TIGHT, WEFT_BENCH_GPU_COPY, 0,
     true},
};

static const weft_bench_gpu_pass yards[] = {WEFT_BENCH_GPU_COPY, WEFT_BENCH_GPU_TO_DEVICE, WEFT_BENCH_GPU_TO_HOST};
enum { YARDS = sizeof yards / sizeof *yards };

/* ---- figures */

const char *weft_bench_gpu_yard_name(weft_bench_gpu_pass yard)
{
    static const char *const names[] = {"copy device to device", "copy host to device", "copy device to host"};
    return names[yard];
}

double weft_bench_gpu_median(const weft_bench_gpu_found *found, weft_bench_gpu_pass pass)
{
    return weft_bench_median(found->ms[pass], found->rounds);
}

uint64_t weft_bench_gpu_moved(const weft_bench_gpu_found *found, weft_bench_gpu_pass pass)
{
    const bool link =
        pass == WEFT_BENCH_GPU_TO_DEVICE || pass == WEFT_BENCH_GPU_TO_HOST || pass == WEFT_BENCH_GPU_DIFF_HOST;
    return link ? found->bytes : 2 * found->bytes;
}

static double took_ms(const weft_bench_gpu_found *found, const weft_bench_gpu_row *row, uint32_t round)
{
    return found->ms[row->pass][round] + (row->also ? found->ms[row->also][round] : 0);
}

double weft_bench_gpu_ratio(const weft_bench_gpu_found *found, const weft_bench_gpu_row *row)
{
    const double sectors = 2.0 * SECTOR * (double)found->facts->sectors;
    double ratios[WEFT_BENCH_ROUNDS_MAX];
    for (uint32_t round = 0; round < found->rounds; round++) {
        const double yard = found->ms[row->yard][round], took = took_ms(found, row, round);
        const double reads = yard * sectors / (double)weft_bench_gpu_moved(found, row->yard);
        ratios[round] = row->sectors ? (reads > 0 ? took / reads : 0) : (took > 0 ? yard / took : 0);
    }
    return weft_bench_median(ratios, found->rounds);
}

bool weft_bench_gpu_holds(const weft_bench_gpu_row *row, double ratio)
{
    return row->sectors ? ratio <= row->bar : ratio >= row->bar;
}

static double row_ms(const weft_bench_gpu_found *found, const weft_bench_gpu_row *row)
{
    double ms[WEFT_BENCH_ROUNDS_MAX];
    for (uint32_t round = 0; round < found->rounds; round++)
        ms[round] = took_ms(found, row, round);
    return weft_bench_median(ms, found->rounds);
}

static double gb_s(uint64_t bytes, double ms)
{
    return ms > 0 ? (double)bytes / ms / 1e6 : 0;
}

/* ---- for people */

static void print_row(const weft_bench_gpu_found *found, const weft_bench_gpu_row *row)
{
    const double ms = row_ms(found, row), ratio = weft_bench_gpu_ratio(found, row);
    printf("  %-34s %-4s %11.3f", row->name, row->mark ? row->mark : "", ms);
    if (row->sectors)
        printf(" %9s %8.2fx of two reads of the touched sectors", "", ratio);
    else
        printf(" %9.1f %8.2f  of %s", gb_s(weft_bench_gpu_moved(found, row->pass), ms), ratio,
               weft_bench_gpu_yard_name(row->yard));
    if (row->bar > 0)
        printf("; bar %.2f: %s", row->bar, weft_bench_gpu_holds(row, ratio) ? "holds" : "missed");
    if (row->also)
        printf("; decode %.3f ms, apply %.3f ms", weft_bench_gpu_median(found, row->pass),
               weft_bench_gpu_median(found, row->also));
    putchar('\n');
}

void weft_bench_gpu_print(const weft_bench_gpu_found *found)
{
    const weft_bench_gpu_facts *f = found->facts;
    printf("%s device %d, %s, image %s: %.3f GiB of weights, %" PRIu64 " of %" PRIu64
           " elements changed (%.3f %%), in %" PRIu64 " sectors of %d bytes\n",
           found->backend, f->device, found->name, f->image, (double)found->bytes / (1u << 30), f->changed,
           found->elements, 100 * (double)f->changed / (double)found->elements, f->sectors, SECTOR);
    printf("frames, digests and applied weights are the host's to the byte: fast %" PRIu64 " frames, %s; ",
           f->fast.frames, weft_output_size((double)f->fast.bytes).text);
    printf("tight %" PRIu64 " frames, %s\n\n", f->tight.frames, weft_output_size((double)f->tight.bytes).text);
    printf("  %-34s %-4s %11s %9s\n", "yardsticks", "", "ms", "GB/s");
    for (int i = 0; i < YARDS; i++) {
        const double ms = weft_bench_gpu_median(found, yards[i]);
        printf("  %-39s %11.3f %9.1f\n", weft_bench_gpu_yard_name(yards[i]), ms,
               gb_s(weft_bench_gpu_moved(found, yards[i]), ms));
    }
    printf("\n  %-34s %-4s %11s %9s %8s\n", "pass", "bar", "ms", "GB/s", "ratio");
    for (size_t i = 0; i < WEFT_BENCH_GPU_ROWS; i++)
        print_row(found, &weft_bench_gpu_rows[i]);
    printf("  (medians of %u rounds; bytes of device memory count once for each time they are read or written)\n",
           found->rounds);
    fflush(stdout);
}

/* ---- JSON */

static json_t *yards_json(const weft_bench_gpu_found *found)
{
    json_t *all = json_array();
    for (int i = 0; i < YARDS; i++) {
        const double ms = weft_bench_gpu_median(found, yards[i]);
        json_array_append_new(all, json_pack("{s:s,s:o,s:o}", "yardstick", weft_bench_gpu_yard_name(yards[i]), "ms",
                                             weft_json_known(ms), "gb_s",
                                             weft_json_known(gb_s(weft_bench_gpu_moved(found, yards[i]), ms))));
    }
    return all;
}

static json_t *row_json(const weft_bench_gpu_found *found, const weft_bench_gpu_row *row)
{
    const double ms = row_ms(found, row), ratio = weft_bench_gpu_ratio(found, row);
    json_t *object =
        json_pack("{s:s,s:s?,s:o,s:o,s:s,s:o,s:o,s:o}", "pass", row->name, "mark", row->mark, "ms", weft_json_known(ms),
                  "gb_s", weft_json_known(row->sectors ? 0 : gb_s(weft_bench_gpu_moved(found, row->pass), ms)),
                  "yardstick", row->sectors ? "two reads of the touched sectors" : weft_bench_gpu_yard_name(row->yard),
                  "ratio", weft_json_known(ratio), "bar", weft_json_known(row->bar), "holds",
                  row->bar > 0 ? json_boolean(weft_bench_gpu_holds(row, ratio)) : json_null());
    if (row->also) {
        json_object_set_new(object, "decode_ms", weft_json_known(weft_bench_gpu_median(found, row->pass)));
        json_object_set_new(object, "apply_ms", weft_json_known(weft_bench_gpu_median(found, row->also)));
    }
    return object;
}

static json_t *size_json(const char *level, const weft_bench_gpu_size *size, uint64_t changed)
{
    return json_pack("{s:s,s:o,s:o,s:o}", "level", level, "frames", weft_json_count(size->frames), "bytes",
                     weft_json_count(size->bytes), "bits_per_change", weft_json_bits_per_change(size->bytes, changed));
}

void weft_bench_gpu_print_json(const weft_bench_gpu_found *found)
{
    const weft_bench_gpu_facts *f = found->facts;
    json_t *rows = json_array();
    for (size_t i = 0; i < WEFT_BENCH_GPU_ROWS; i++)
        json_array_append_new(rows, row_json(found, &weft_bench_gpu_rows[i]));
    weft_output_object(json_pack("{s:s,s:i,s:s,s:s,s:o,s:o,s:o,s:o,s:i,s:b,s:[o,o],s:o,s:o}", "backend", found->backend,
                                 "device", f->device, "name", found->name, "image", f->image, "dense_bytes",
                                 weft_json_count(found->bytes), "elements", weft_json_count(found->elements), "changed",
                                 weft_json_count(f->changed), "sectors", weft_json_count(f->sectors), "runs",
                                 (int)found->rounds, "equal", 1, "levels", size_json("fast", &f->fast, f->changed),
                                 size_json("tight", &f->tight, f->changed), "yardsticks", yards_json(found), "passes",
                                 rows));
}
