/* bench_fleet.c - weft bench fleet: what one more rollout costs the trainer, in memory and in time. */
#include "bench_fleet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "output.h"

#define PARAMS     UINT64_C(65536)
#define PEERS_MOST 4096u
#define SEED       UINT64_C(1)

weft_status weft_fleet_site_write(const weft_fleet_terms *terms, const char *listen, const char *provider,
                                  uint32_t max_peers, bool manual)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/site.ini", terms->folder);
    FILE *site = fopen(path, "we");
    if (site) {
        fprintf(site,
                "[trainer]\nlisten = %s\njournal = 16MiB\nmax_peers = %u\n[peers]\nprovider = %s\nwindow = 1\n"
                "bucket_max = 1MiB\nstaging = 4MiB\nheartbeat = 60s\n[peer.p*]\n[session]\nprogress = %s\n"
                "connect_deadline = 60s\n[log]\nlevel = error\n",
                listen, max_peers, provider, manual ? "manual" : "thread");
        if (fclose(site) == 0)
            return WEFT_OK;
    }
    return weft_fail(WEFT_E_FILE, "%s: %s", path, strerror(errno));
}

weft_status weft_fleet_site_load(const weft_fleet_terms *terms, weft_site **site)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/site.ini", terms->folder);
    return weft_site_load(path, NULL, 0, site);
}

void weft_fleet_turn(const weft_fleet_terms *terms, uint64_t version, uint8_t *image)
{
    memcpy(image, version % 2 ? terms->pair->after : terms->pair->before, terms->pair->bytes);
}

/* ---- what is printed */

static void print_head(const weft_fleet_terms *terms)
{
    printf("%llu bytes of weights; CPU times are the trainer's; medians of %u updates\n"
           "%9s %6s %12s %12s %10s %10s %12s %12s %10s %10s\n",
           (unsigned long long)terms->pair->bytes, terms->updates, "fabric", "peers", "bytes/peer", "rollout", "update",
           "publish ms", "together us", "alone us", "join us", "held ms");
}

static void print_row(const weft_fleet_row *row)
{
    printf("%9s %6u %12llu %12llu %10llu %10.2f %12.1f %12.1f %10.1f %10.1f\n", row->processes ? "tcp" : "loop",
           row->peers, (unsigned long long)row->peer_bytes, (unsigned long long)row->rollout_bytes,
           (unsigned long long)row->update_bytes, row->publish_ms, row->together_us, row->alone_us, row->join_us,
           row->held_ms);
    fflush(stdout);
}

static void print_json(const weft_fleet_row *row)
{
    weft_output_object(json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "fabric",
                                 row->processes ? "tcp" : "loop", "peers", (int)row->peers, "peer_bytes",
                                 weft_json_count(row->peer_bytes), "rollout_bytes", weft_json_count(row->rollout_bytes),
                                 "bytes", weft_json_count(row->update_bytes), "publish_cpu_ms",
                                 weft_json_known(row->publish_ms), "together_us", weft_json_known(row->together_us),
                                 "alone_us", weft_json_known(row->alone_us), "join_us", weft_json_known(row->join_us),
                                 "held_ms", weft_json_known(row->held_ms)));
}

/* ---- the command line */

/* Fleets of 1, 10, 100 ... and of as many as asked for; processes: 1, 8, 32 ... */
static uint32_t sizes_of(uint32_t most, bool processes, uint32_t sizes[WEFT_BENCH_FLEETS_MAX])
{
    uint32_t count = 0;
    for (uint32_t size = 1; size < most && count + 1 < WEFT_BENCH_FLEETS_MAX; size *= processes ? 4 : 10)
        sizes[count++] = size;
    sizes[count++] = most;
    return count;
}

static weft_status terms_open(const weft_args *args, weft_bench_pair *pair, weft_fleet_terms *terms)
{
    const char *base = getenv("TMPDIR");
    uint64_t params = weft_args_given(args, WEFT_OPTION_PARAMS) ? args->params : PARAMS;
    if (args->peers < 1 || args->peers > PEERS_MOST)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--peers must be 1 to %u", PEERS_MOST);
    if (args->updates < 1 || args->updates > WEFT_BENCH_ROUNDS_MAX / 2)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--updates must be 1 to %u", WEFT_BENCH_ROUNDS_MAX / 2);
    *terms = (weft_fleet_terms){.pair = pair, .updates = (uint32_t)args->updates};
    snprintf(terms->folder, sizeof terms->folder, "%.3900s/weft-bench-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(terms->folder)) {
        weft_fail_quiet(WEFT_E_FILE, "%s cannot be made: %s", terms->folder, strerror(errno));
        terms->folder[0] = '\0';
        return WEFT_E_FILE;
    }
    return weft_bench_pair_make(pair, params, args->changed / 100, SEED);
}

static void terms_close(const weft_fleet_terms *terms, weft_bench_pair *pair)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/site.ini", terms->folder);
    if (terms->folder[0]) {
        unlink(path);
        rmdir(terms->folder);
    }
    weft_bench_pair_close(pair);
}

static weft_status fleets_measure(const weft_args *args, const weft_fleet_terms *terms)
{
    uint32_t sizes[WEFT_BENCH_FLEETS_MAX], count = sizes_of((uint32_t)args->peers, args->processes, sizes);
    weft_status status = WEFT_OK;
    if (!args->json)
        print_head(terms);
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        weft_fleet_row row;
        status = (args->processes ? weft_fleet_run : weft_fleet_simulate)(terms, sizes[i], &row);
        if (status == WEFT_OK)
            (args->json ? print_json : print_row)(&row);
    }
    return status;
}

int weft_bench_fleet(const weft_args *args)
{
    weft_bench_pair pair = {0};
    weft_fleet_terms terms = {0};
    weft_tool_phase phase = WEFT_TOOL_INPUT;
    weft_status status = terms_open(args, &pair, &terms);
    if (status == WEFT_OK) {
        phase = WEFT_TOOL_WORK;
        status = fleets_measure(args, &terms);
    }
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, phase, status);
    terms_close(&terms, &pair);
    return code;
}
