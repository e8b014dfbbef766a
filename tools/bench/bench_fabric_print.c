/* bench_fabric_print.c - what was measured of a fabric, as a table and as JSON. */
#include <stdio.h>
#include <string.h>

#include "tools/bench/bench_fabric.h"
#include "tools/output.h"

static void print_rates(const weft_bench_fabric_figures *f)
{
    char ignored[200];
    const bool worth = weft_bench_noise_passes(&f->noise, ignored);
    printf("rate in GB/s, by size of a write and how many are in flight\n%12s", "");
    for (uint32_t d = 0; d < f->depths; d++)
        printf(" %7u", f->depth[d]);
    puts(worth ? "   90 % of its peak with" : "");
    for (uint32_t c = 0; c < f->chunks; c++) {
        printf("%12s", weft_output_size((double)f->chunk[c]).text);
        for (uint32_t d = 0; d < f->depths; d++)
            printf(" %7.3f", f->rate[c][d] / 1e9);
        if (worth)
            printf("   %u in flight", f->enough[c]);
        putchar('\n');
    }
}

static void print_sides(const weft_bench_fabric_figures *f)
{
    printf("latency of 64 bytes, half of a round trip: %.1f us polling, %.1f us asleep until it comes\n", f->latency_us,
           f->woken_us);
    if (f->raw)
        printf("raw TCP between the same ends: %.3f GB/s in writes of 1 MiB, %.1f us; the fabric reaches %.2f of its "
               "rate\n",
               f->raw_rate / 1e9, f->raw_latency_us, f->peak / f->raw_rate);
    printf("registering memory and giving it back:");
    for (uint32_t i = 0; i < WEFT_BENCH_REGIONS; i++)
        printf("%s %s %.3f ms", i ? "," : "", weft_output_size((double)f->region_bytes[i]).text, f->region_ms[i]);
    putchar('\n');
}

/* "1MiB", as the site file takes it. */
static const char *key_size(uint64_t bytes, char text[32])
{
    bool mib = bytes >= 1u << 20 && bytes % (1u << 20) == 0;
    snprintf(text, 32, "%llu%s", (unsigned long long)(bytes >> (mib ? 20 : 10)), mib ? "MiB" : "KiB");
    return text;
}

void weft_bench_fabric_print(const weft_fabric_found *found)
{
    const weft_bench_fabric_figures *f = &found->figures;
    char chunk[32], bucket[32], why[200];
    printf("provider %s (libfabric's %s), from %s to %s\n\n", found->provider, f->fabric, found->address, found->other);
    print_rates(f);
    putchar('\n');
    print_sides(f);
    if (!weft_bench_noise_passes(&f->noise, why)) {
        printf("\nthese figures are worth nothing: %s\nno keys follow from them; repeat the measurement when both "
               "hosts are quiet and have a free processor for each end\n",
               why);
        return;
    }
    printf(
        "\nthe smallest that reach %.0f %% of the peak, as keys of the site:\n[provider.%s]\nchunk = %s\ndepth = %u\n"
        "[peers]\nbucket_min = %s\n",
        90.0, found->provider, key_size(f->best_chunk, chunk), f->best_depth, key_size(f->bucket_min, bucket));
}

static json_t *rates_json(const weft_bench_fabric_figures *f)
{
    json_t *rows = json_array();
    for (uint32_t c = 0; c < f->chunks; c++)
        for (uint32_t d = 0; d < f->depths; d++)
            json_array_append_new(rows, json_pack("{s:o,s:i,s:o}", "bytes", weft_json_count(f->chunk[c]), "in_flight",
                                                  (int)f->depth[d], "bytes_s", weft_json_known(f->rate[c][d])));
    return rows;
}

static json_t *enough_json(const weft_bench_fabric_figures *f)
{
    json_t *rows = json_array();
    for (uint32_t c = 0; c < f->chunks; c++)
        json_array_append_new(
            rows, json_pack("{s:o,s:i}", "bytes", weft_json_count(f->chunk[c]), "in_flight", (int)f->enough[c]));
    return rows;
}

static json_t *regions_json(const weft_bench_fabric_figures *f)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < WEFT_BENCH_REGIONS; i++)
        json_array_append_new(
            rows, json_pack("{s:o,s:f}", "bytes", weft_json_count(f->region_bytes[i]), "ms", f->region_ms[i]));
    return rows;
}

/* Below 0: not known. */
static json_t *share_json(double share)
{
    return share < 0 ? json_null() : json_real(share);
}

static json_t *noise_json(const weft_bench_noise *noise)
{
    return json_pack("{s:o,s:o,s:o,s:o}", "waited_here", share_json(noise->waited_here), "waited_there",
                     share_json(noise->waited_there), "stolen_here", share_json(noise->stolen_here), "rate_spread",
                     share_json(noise->rate_spread));
}

static json_t *keys_json(const weft_bench_fabric_figures *f)
{
    return json_pack("{s:o,s:i,s:o}", "chunk", weft_json_count(f->best_chunk), "depth", (int)f->best_depth,
                     "bucket_min", weft_json_count(f->bucket_min));
}

void weft_bench_fabric_print_json(const weft_fabric_found *found)
{
    const weft_bench_fabric_figures *f = &found->figures;
    char why[200];
    const bool worth = weft_bench_noise_passes(&f->noise, why);
    json_t *raw = f->raw ? json_pack("{s:o,s:o}", "bytes_s", weft_json_known(f->raw_rate), "latency_us",
                                     weft_json_known(f->raw_latency_us))
                         : json_null();
    weft_output_object(json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:s?}", "provider",
                                 found->provider, "fabric", f->fabric, "address", found->address, "other", found->other,
                                 "rates", rates_json(f), "enough", worth ? enough_json(f) : json_null(), "latency_us",
                                 weft_json_known(f->latency_us), "woken_us", weft_json_known(f->woken_us), "raw_tcp",
                                 raw, "registration", regions_json(f), "keys", worth ? keys_json(f) : json_null(),
                                 "noise", noise_json(&f->noise), "worth", worth, "why", worth ? NULL : why));
}
