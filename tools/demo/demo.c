/* demo.c - weft demo: one trainer and N rollouts as processes on this machine, and the proof that all are identical. */
#include "tools/demo/demo.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/status.h"
#include "tools/demo/demo_files.h"
#include "tools/demo/demo_mixed.h"
#include "tools/demo/demo_shards.h"
#include "tools/demo/demo_verb.h"
#include "tools/output.h"
#include "tools/signals.h"
#include "tools/verbs.h"

enum { TICK_MS = 50, MOST_PEERS = 64, MESSAGE_ROOM = 256 * 1024 };

typedef struct demo {
    weft_demo_plan plan;
    weft_demo_table table;
    fleet_process *children; /* the trainer, then the rollouts; some not yet started */
    size_t child_count;
    bool heard;   /* all that the trainer says */
    char *buffer; /* MESSAGE_ROOM bytes, the start of a line not yet whole */
    size_t buffered;
    json_t *peers; /* as the last message had them */
    json_t *done;  /* the trainer's last message; NULL: not yet */
} demo;

static weft_status check_arguments(const weft_args *args)
{
    if (args->peers < 1 || args->peers > MOST_PEERS)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--peers %" PRIu64 ": from 1 to %d", args->peers, MOST_PEERS);
    if (args->updates < 1 || args->updates > 1000000)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--updates %" PRIu64 ": from 1 to 1000000", args->updates);
    if (args->params < 1000)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--params %" PRIu64 ": at least 1K", args->params);
    if (args->changed > 100)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--changed %g: from 0 to 100 percent", args->changed);
    if (args->timeout < 1 || args->timeout > 86400)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--timeout %" PRIu64 ": from 1 to 86400 seconds", args->timeout);
    return WEFT_OK;
}

/* A wrong provider or --set is told before anything starts. */
static weft_status check_site(const weft_demo_plan *plan)
{
    weft_site *site = NULL;
    weft_status status = weft_site_load(plan->site, plan->args->overrides.items, plan->args->overrides.count, &site);
    weft_site_free(site);
    return status;
}

static int trainer_body(void *user, int line)
{
    (void)line; /* it is the standard output */
    return weft_output_end(weft_demo_trainer(user));
}

static weft_status start_trainer(demo *d)
{
    const fleet_spawn start = {
        .name = "trainer", .folder = d->plan.directory, .talks = true, .body = trainer_body, .user = &d->plan};
    return fleet_process_start(&d->children[0], &start);
}

static void saved_path(const weft_demo_plan *plan, const char *name, char *path)
{
    snprintf(path, PATH_MAX, "%.4000s/%s.safetensors", plan->directory, name);
}

static weft_status start_rollout(demo *d, size_t index)
{
    char name[32];
    weft_demo_line line = {.count = 0};
    weft_demo_peer_name(index, name, sizeof name);
    weft_demo_word(&line, "rollout");
    weft_demo_word(&line, d->plan.site);
    weft_demo_words(&line, "--peer", "%s", name);
    weft_demo_words(&line, "--model", "%s", d->plan.start);
    weft_demo_words(&line, "--until", "%" PRIu64, d->plan.args->updates);
    weft_demo_words(&line, "--save", "%.4000s/%s.safetensors", d->plan.directory, name);
    weft_demo_word(&line, "--json");
    if (d->plan.mixed.count > 0 && *weft_demo_mixed_at(&d->plan.mixed, index)->kernels)
        line.kernels = weft_demo_mixed_at(&d->plan.mixed, index)->kernels;
    return weft_demo_verb_start(&d->plan, &d->children[index + 1], name, &line);
}

static weft_status start_rollouts(demo *d, const char *listen)
{
    weft_status status = weft_demo_site_write(&d->plan, listen);
    for (size_t i = 1; status == WEFT_OK && i < d->child_count; i++)
        status = start_rollout(d, i - 1);
    return status;
}

static weft_status take_message(demo *d, json_t *message)
{
    const char *kind = json_string_value(json_object_get(message, "kind"));
    json_t *peers = json_object_get(message, "peers");
    if (!kind)
        return WEFT_OK; /* the error object: the exit code and the log say the same */
    if (peers) {
        json_decref(d->peers);
        d->peers = json_incref(peers);
    }
    if (strcmp(kind, "ready") == 0)
        return start_rollouts(d, json_string_value(json_object_get(message, "listen")));
    if (strcmp(kind, "done") == 0)
        d->done = json_incref(message);
    weft_demo_table_take(&d->table, kind, message);
    return WEFT_OK;
}

static weft_status take_lines(demo *d)
{
    weft_status status = WEFT_OK;
    char *end, *line = d->buffer;
    while (status == WEFT_OK && (end = memchr(line, '\n', d->buffered - (size_t)(line - d->buffer)))) {
        json_t *message = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (message)
            status = take_message(d, message);
        json_decref(message);
        line = end + 1;
    }
    d->buffered -= (size_t)(line - d->buffer);
    memmove(d->buffer, line, d->buffered);
    return status;
}

/* Waits one tick at most. */
static weft_status take_messages(demo *d)
{
    struct pollfd ready = {.fd = d->heard ? -1 : d->children[0].line, .events = POLLIN};
    if (poll(&ready, 1, TICK_MS) <= 0)
        return WEFT_OK;
    ssize_t length = recv(ready.fd, d->buffer + d->buffered, MESSAGE_ROOM - d->buffered, MSG_DONTWAIT);
    if (length < 0 && errno != ECONNRESET)
        return WEFT_OK; /* interrupted, or nothing there after all */
    if (length <= 0) {
        d->heard = true;
        return WEFT_OK;
    }
    d->buffered += (size_t)length;
    weft_status status = take_lines(d);
    if (status == WEFT_OK && d->buffered == MESSAGE_ROOM)
        return weft_fail_quiet(WEFT_E_PROTOCOL, "the trainer's process sent a line of more than %d bytes",
                               MESSAGE_ROOM);
    return status;
}

static weft_status watch(demo *d)
{
    for (;;) {
        size_t running = 0;
        weft_status status = take_messages(d);
        if (status == WEFT_OK)
            status = weft_demo_look(&d->plan, d->children, d->child_count, &running);
        if (status != WEFT_OK)
            return status;
        if (!running && d->heard)
            return d->done ? WEFT_OK : weft_fail_quiet(WEFT_E_PEER_LOST, "the trainer's process ended early");
    }
}

/* Digest and bytes: the digest as the rollout printed it, the bytes as both ends saved them. */
static bool rollout_is_identical(const demo *d, const fleet_process *rollout)
{
    char path[PATH_MAX];
    saved_path(&d->plan, rollout->name, path);
    json_t *last = weft_demo_last_object(rollout->out);
    bool digest = json_equal(json_object_get(last, "digest"), json_object_get(d->done, "digest"));
    bool bytes = weft_demo_files_equal(path, d->plan.final);
    json_decref(last);
    if (!digest || !bytes)
        weft_output_say("weft: %s differs from the trainer in %s", rollout->name,
                        digest  ? "the saved bytes"
                        : bytes ? "the digest"
                                : "digest and saved bytes");
    return digest && bytes;
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static json_t *totals(demo *d, bool identical)
{
    const weft_args *args = d->plan.args;
    double dense = number_of(d->done, "model_bytes") * (double)args->updates * (double)args->peers;
    double sent = number_of(d->done, "bytes_sent");
    json_t *object =
        json_pack("{s:b,s:o,s:o,s:o,s:o,s:o,s:f}", "identical", identical, "updates", weft_json_count(args->updates),
                  "peers", weft_json_count(args->peers), "dense_bytes", weft_json_count((uint64_t)dense), "times_less",
                  weft_json_known(sent > 0 ? dense / sent : 0), "bits_per_change",
                  weft_json_bits_per_change((uint64_t)sent, (uint64_t)number_of(d->done, "changed") * args->peers),
                  "seconds", (weft_now_ms() - d->plan.started) / 1e3);
    json_object_update_missing(object, d->done);
    json_object_del(object, "kind");
    json_object_set(object, "rollouts", d->peers);
    return object;
}

static void print_totals(const demo *d, const json_t *object, bool identical)
{
    weft_output_print("%s: %.0f rollouts %s after %.0f updates, digest %s\n"
                      "sent %s, %.1f times less than dense (%s), %.2f bits a change, snapshots %s, %.1f seconds\n",
                      identical ? "identical" : "DIFFERENT", number_of(object, "peers"),
                      identical ? "hold the trainer's bits" : "were compared", number_of(object, "updates"),
                      json_string_value(json_object_get(object, "digest")),
                      weft_output_size(number_of(object, "bytes_sent")).text, number_of(object, "times_less"),
                      weft_output_size(number_of(object, "dense_bytes")).text, number_of(object, "bits_per_change"),
                      weft_output_size(number_of(object, "snapshot_bytes")).text, number_of(object, "seconds"));
    if (d->plan.args->keep)
        weft_output_print("kept in %s\n", weft_output_plain(d->plan.directory).text);
}

static int prove(demo *d)
{
    bool identical = true;
    for (size_t i = 1; i < d->child_count; i++)
        identical &= rollout_is_identical(d, &d->children[i]);
    json_t *object = totals(d, identical);
    if (d->plan.args->json) {
        weft_output_object(object);
    } else {
        print_totals(d, object, identical);
        json_decref(object);
    }
    return identical ? WEFT_EXIT_DONE : WEFT_EXIT_DIFFERENT;
}

static weft_status demo_open(demo *d)
{
    weft_status status = check_arguments(d->plan.args);
    if (status != WEFT_OK)
        return status;
    size_t count = (size_t)d->plan.args->peers + 1;
    d->children = calloc(count, sizeof *d->children);
    d->buffer = malloc(MESSAGE_ROOM);
    if (!d->children || !d->buffer)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory to watch %zu processes", count);
    d->child_count = count;
    weft_signals_catch();
    if (d->plan.args->mixed) {
        weft_demo_mixed_find(&d->plan.mixed);
        weft_demo_mixed_say(&d->plan);
    }
    status = weft_demo_files_open(&d->plan);
    if (status == WEFT_OK)
        status = weft_demo_site_write(&d->plan, "127.0.0.1:0");
    if (status == WEFT_OK)
        status = check_site(&d->plan);
    return status == WEFT_OK ? start_trainer(d) : status;
}

static void demo_close(demo *d)
{
    weft_demo_end(d->children, d->child_count);
    weft_demo_files_close(&d->plan);
    weft_demo_table_close(&d->table);
    json_decref(d->peers);
    json_decref(d->done);
    free(d->children);
    free(d->buffer);
}

/* Updates of so many bytes that the best bucket of each link is above the least one, and so differs by peer. */
static weft_args defaults(const weft_args *args)
{
    weft_args own = *args;
    if (!weft_args_given(args, WEFT_OPTION_PARAMS))
        own.params = 64000000;
    if (!weft_args_given(args, WEFT_OPTION_CHANGED))
        own.changed = 3;
    if (!weft_args_given(args, WEFT_OPTION_UPDATES))
        own.updates = 6;
    return own;
}

int weft_verb_demo(const weft_args *args)
{
    if (weft_args_given(args, WEFT_OPTION_SOURCES) || weft_args_given(args, WEFT_OPTION_RANKS))
        return weft_demo_shards(args);
    const weft_args own = defaults(args);
    demo d = {.plan = {.args = &own, .started = weft_now_ms()}};
    weft_demo_table_open(&d.table, args->json, own.updates);
    weft_status status = demo_open(&d);
    weft_tool_phase phase = status == WEFT_OK ? WEFT_TOOL_WORK : WEFT_TOOL_INPUT;
    weft_output_serve(); /* the trainer's process, which is forked by now, speaks to this one, and that listens */
    if (status == WEFT_OK)
        status = watch(&d);
    int code = status == WEFT_OK ? prove(&d) : weft_demo_failed(&d.plan, d.children, d.child_count, phase, status);
    demo_close(&d);
    return code;
}
