#include "tools/demo/demo_shards.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/status.h"
#include "model/synth.h"
#include "tools/demo/demo_files.h"
#include "tools/demo/demo_verb.h"
#include "tools/signals.h"

enum { MOST_SOURCES = 16, MOST_RANKS = 64, TICK_MS = 50, SEED = 20250 };

typedef struct shards {
    weft_demo_plan plan;
    const weft_args *args;
    fleet_process *children; /* the sources, then the ranks */
    size_t child_count;
    weft_model *model; /* whole, as the training has it */
} shards;

/* ---- processes */

static void tick(void)
{
    const struct timespec t = {.tv_nsec = TICK_MS * 1000000L};
    nanosleep(&t, NULL);
}

/* Runs weft shard to its end. */
static weft_status parted(const shards *d, const char *model, const char *option, uint64_t parts, const char *folder)
{
    fleet_process process;
    size_t running = 1;
    weft_demo_line line = {.count = 0};
    weft_demo_plan plan = d->plan;
    weft_args bare = *d->args;
    bare.overrides.count = 0; /* it takes none */
    plan.args = &bare;
    weft_demo_word(&line, "shard");
    weft_demo_words(&line, NULL, "%.4000s/%s", d->plan.directory, model);
    weft_demo_words(&line, option, "%" PRIu64, parts);
    weft_demo_words(&line, "-o", "%.4000s/%s", d->plan.directory, folder);
    weft_status status = weft_demo_verb_start(&plan, &process, folder, &line);
    while (status == WEFT_OK && running > 0) {
        tick();
        status = weft_demo_look(&plan, &process, 1, &running);
    }
    if (status == WEFT_OK)
        return WEFT_OK;
    const int code = process.exit_code;
    weft_demo_tail(&process);
    weft_demo_end(&process, 1);
    return code ? weft_fail_quiet(WEFT_E_ARGUMENT, "%s: weft shard ended with exit code %d", folder, code) : status;
}

/* ---- files */

static weft_status folder_make(const shards *d, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/%s", d->plan.directory, name);
    return mkdir(path, 0700) == 0 ? WEFT_OK : weft_fail_quiet(WEFT_E_FILE, "%s: %s", path, strerror(errno));
}

static weft_status model_save(const shards *d, const char *name)
{
    char path[PATH_MAX];
    uint64_t bytes = 0;
    const void *header = weft_model_header(d->model, &bytes);
    snprintf(path, sizeof path, "%.4000s/%s", d->plan.directory, name);
    return weft_model_save(d->model, header, bytes, path);
}

static weft_status site_write(const shards *d)
{
    FILE *site = fopen(d->plan.site, "we");
    char cuts[PATH_MAX];
    if (!site)
        return weft_fail_quiet(WEFT_E_FILE, "%s cannot be written: %s", d->plan.site, strerror(errno));
    fprintf(site, "[site]\nname = demo\n\n[trainer]\nlisten = 127.0.0.1:%u\n\n[peers]\nprovider = %s\n",
            weft_demo_port_free(), d->args->provider);
    for (uint64_t rank = 0; rank < d->args->ranks; rank++)
        fprintf(site, "[peer.rank%" PRIu64 "]\n", rank);
    for (uint64_t source = 0; source < d->args->sources; source++)
        fprintf(site,
                "\n[source.%" PRIu64 "]\nlisten = 127.0.0.1:%u\nholding = %.200s/holdings/rank-%" PRIu64 "-of-%" PRIu64
                ".json\n",
                source, weft_demo_port_free(), d->plan.directory, source, d->args->sources);
    fputs("\n", site);
    snprintf(cuts, sizeof cuts, "%.4000s/views/cuts.ini", d->plan.directory);
    weft_demo_file_append(cuts, site);
    const bool failed = ferror(site);
    return fclose(site) == 0 && !failed ? WEFT_OK : weft_fail_quiet(WEFT_E_FILE, "%s cannot be written", d->plan.site);
}

/* ---- start */

static weft_status source_start(shards *d, uint64_t source)
{
    char name[32];
    weft_demo_line line = {.count = 0};
    snprintf(name, sizeof name, "source%" PRIu64, source);
    weft_demo_word(&line, "trainer");
    weft_demo_word(&line, d->plan.site);
    weft_demo_words(&line, "--model", "%s", d->plan.start);
    weft_demo_words(&line, "--source", "%" PRIu64, source);
    weft_demo_words(&line, "--run", "%lld", (long long)time(NULL));
    weft_demo_words(&line, "--follow", "%.4000s/in", d->plan.directory);
    weft_demo_word(&line, "--json");
    return weft_demo_verb_start(&d->plan, &d->children[source], name, &line);
}

static weft_status rank_start(shards *d, uint64_t rank)
{
    char name[32];
    const char *folder = d->plan.directory;
    const uint64_t ranks = d->args->ranks;
    weft_demo_line line = {.count = 0};
    snprintf(name, sizeof name, "rank%" PRIu64, rank);
    weft_demo_word(&line, "rollout");
    weft_demo_word(&line, d->plan.site);
    weft_demo_words(&line, "--peer", "%s", name);
    weft_demo_words(&line, "--view", "%.4000s/views/rank-%" PRIu64 "-of-%" PRIu64 ".json", folder, rank, ranks);
    weft_demo_words(&line, "--model", "%.4000s/views/rank-%" PRIu64 "-of-%" PRIu64 ".safetensors", folder, rank, ranks);
    weft_demo_words(&line, "--until", "%" PRIu64, d->args->updates);
    weft_demo_words(&line, "--save", "%.4000s/%s.safetensors", folder, name);
    weft_demo_word(&line, "--json");
    return weft_demo_verb_start(&d->plan, &d->children[d->args->sources + rank], name, &line);
}

static weft_status check_arguments(const weft_args *args)
{
    if (args->sources < 1 || args->sources > MOST_SOURCES)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--sources %" PRIu64 ": from 1 to %d", args->sources, MOST_SOURCES);
    if (args->ranks < 1 || args->ranks > MOST_RANKS)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--ranks %" PRIu64 ": from 1 to %d", args->ranks, MOST_RANKS);
    if (args->mixed)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--mixed: goes with --peers, and not with --sources");
    if (weft_args_given(args, WEFT_OPTION_PEERS))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--peers: with --sources the ranks are the peers; give --ranks");
    return WEFT_OK;
}

static weft_status demo_open(shards *d)
{
    weft_status status = weft_demo_files_open(&d->plan);
    d->child_count = (size_t)(d->args->sources + d->args->ranks);
    d->children = calloc(d->child_count, sizeof *d->children);
    if (status == WEFT_OK && !d->children)
        status = weft_fail_quiet(WEFT_E_MEMORY, "no memory to watch %zu processes", d->child_count);
    if (status == WEFT_OK)
        status = folder_make(d, "in");
    if (status == WEFT_OK)
        status = weft_synth_model(d->args->params, SEED, &d->model);
    if (status == WEFT_OK)
        status = model_save(d, "v0.safetensors");
    if (status == WEFT_OK)
        status = parted(d, "v0.safetensors", "--tp", d->args->ranks, "views");
    if (status == WEFT_OK)
        status = parted(d, "v0.safetensors", "--fsdp", d->args->sources, "holdings");
    return status == WEFT_OK ? site_write(d) : status;
}

static weft_status processes_start(shards *d)
{
    weft_status status = WEFT_OK;
    for (uint64_t source = 0; status == WEFT_OK && source < d->args->sources; source++)
        status = source_start(d, source);
    for (uint64_t rank = 0; status == WEFT_OK && rank < d->args->ranks; rank++)
        status = rank_start(d, rank);
    return status;
}

/* ---- training */

static weft_status look(shards *d)
{
    size_t running;
    tick();
    return weft_demo_look(&d->plan, d->children, d->child_count, &running);
}

/* Counts the ranks that hold a version, by their last line. */
static uint64_t held_by(const shards *d, uint64_t version)
{
    uint64_t held = 0;
    for (uint64_t rank = 0; rank < d->args->ranks; rank++) {
        json_t *last = weft_demo_last_object(d->children[d->args->sources + rank].out);
        const json_t *target = json_object_get(last, "target");
        held += json_is_integer(target) && (uint64_t)json_integer_value(target) >= version;
        json_decref(last);
    }
    return held;
}

/* Makes the next version, as a checkpoint that each source takes its holding of, and waits until all ranks hold it. */
static weft_status train(shards *d, uint64_t version)
{
    char from[PATH_MAX], to[PATH_MAX];
    uint64_t changed = 0;
    weft_status status = weft_synth_step(d->model, d->args->changed / 100, SEED + version, &changed);
    if (status == WEFT_OK)
        status = model_save(d, "next.safetensors");
    snprintf(from, sizeof from, "%.4000s/next.safetensors", d->plan.directory);
    snprintf(to, sizeof to, "%.4000s/in/v%" PRIu64 ".safetensors", d->plan.directory, version);
    if (status == WEFT_OK && rename(from, to) != 0)
        status = weft_fail_quiet(WEFT_E_FILE, "%s: %s", to, strerror(errno));
    while (status == WEFT_OK && held_by(d, version) < d->args->ranks)
        status = look(d);
    if (status == WEFT_OK && !d->args->json)
        weft_output_print("version %" PRIu64 "/%" PRIu64 ": %" PRIu64 " elements changed, held by %" PRIu64 " ranks\n",
                          version, d->args->updates, changed, d->args->ranks);
    return status;
}

/* Ranks end by themselves when they hold the last version; sources when they are told to. */
static weft_status processes_end(shards *d)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && fleet_processes_reap(d->children + d->args->sources, (size_t)d->args->ranks))
        status = look(d);
    if (status == WEFT_OK)
        weft_demo_end(d->children, (size_t)d->args->sources);
    return status;
}

/* ---- proof */

static bool rank_is_identical(const shards *d, uint64_t rank)
{
    char saved[PATH_MAX], wanted[PATH_MAX];
    snprintf(saved, sizeof saved, "%.4000s/rank%" PRIu64 ".safetensors", d->plan.directory, rank);
    snprintf(wanted, sizeof wanted, "%.4000s/last/rank-%" PRIu64 "-of-%" PRIu64 ".safetensors", d->plan.directory, rank,
             d->args->ranks);
    const bool same = weft_demo_files_equal(saved, wanted);
    if (!same)
        weft_output_say("weft: rank %" PRIu64 " differs from its slice of the last version", rank);
    return same;
}

/* Adds up a figure of all lines of all ranks. */
static double sum_of(const shards *d, const char *key)
{
    double sum = 0;
    char *text = NULL;
    size_t room = 0;
    for (uint64_t rank = 0; rank < d->args->ranks; rank++) {
        FILE *file = fopen(d->children[d->args->sources + rank].out, "re");
        while (file && getline(&text, &room, file) > 0) {
            json_t *object = json_loads(text, 0, NULL);
            sum += json_number_value(json_object_get(object, key));
            json_decref(object);
        }
        if (file)
            fclose(file);
    }
    free(text);
    return sum;
}

static void report(const shards *d, bool identical)
{
    const double bytes = sum_of(d, "bytes"), dense = sum_of(d, "dense_bytes");
    const double times = bytes > 0 ? dense / bytes : 0, seconds = (weft_now_ms() - d->plan.started) / 1e3;
    if (d->args->json)
        weft_output_object(json_pack("{s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:f}", "identical", identical, "sources",
                                     weft_json_count(d->args->sources), "ranks", weft_json_count(d->args->ranks),
                                     "updates", weft_json_count(d->args->updates), "bytes_sent",
                                     weft_json_count((uint64_t)bytes), "dense_bytes", weft_json_count((uint64_t)dense),
                                     "times_less", weft_json_known(times), "seconds", seconds));
    else
        weft_output_print("%s: %" PRIu64 " ranks hold their slices of what %" PRIu64
                          " sources published, after %" PRIu64
                          " updates\nsent %s, %.1f times less than dense (%s), %.1f seconds\n",
                          identical ? "identical" : "DIFFERENT", d->args->ranks, d->args->sources, d->args->updates,
                          weft_output_size(bytes).text, times, weft_output_size(dense).text, seconds);
    if (d->args->keep && !d->args->json)
        weft_output_print("kept in %s\n", weft_output_plain(d->plan.directory).text);
}

static weft_status prove(const shards *d, bool *identical)
{
    char last[64];
    snprintf(last, sizeof last, "in/v%" PRIu64 ".safetensors", d->args->updates);
    weft_status status = parted(d, last, "--tp", d->args->ranks, "last");
    *identical = true;
    for (uint64_t rank = 0; status == WEFT_OK && rank < d->args->ranks; rank++)
        *identical &= rank_is_identical(d, rank);
    return status;
}

static weft_status work(shards *d, bool *identical)
{
    weft_status status = processes_start(d);
    for (uint64_t version = 1; status == WEFT_OK && version <= d->args->updates; version++)
        status = train(d, version);
    if (status == WEFT_OK)
        status = processes_end(d);
    return status == WEFT_OK ? prove(d, identical) : status;
}

int weft_demo_shards(const weft_args *args)
{
    shards d = {.plan = {.args = args, .started = weft_now_ms()}, .args = args};
    bool identical = false;
    weft_signals_catch();
    weft_status status = check_arguments(args);
    if (status == WEFT_OK)
        status = demo_open(&d);
    const weft_tool_phase phase = status == WEFT_OK ? WEFT_TOOL_WORK : WEFT_TOOL_INPUT;
    const size_t count = d.children ? d.child_count : 0;
    weft_output_serve();
    if (status == WEFT_OK)
        status = work(&d, &identical);
    int code = identical ? WEFT_EXIT_DONE : WEFT_EXIT_DIFFERENT;
    if (status == WEFT_OK)
        report(&d, identical);
    else
        code = weft_demo_failed(&d.plan, d.children, count, phase, status);
    weft_demo_end(d.children, count);
    weft_demo_files_close(&d.plan);
    weft_model_close(d.model);
    free(d.children);
    return code;
}
