/* store_put.c - weft put: a model as the next version of a store. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "base/status.h"
#include "tools/signals.h"
#include "tools/store/stored.h"
#include "tools/verbs.h"

typedef struct put {
    const weft_args *args;
    weft_model *model;
    weft_stored stored;
    weft_stored_model base; /* the last version; without a model: there is none */
    weft_store_put_options options;
    weft_update_info info;
    weft_tool_phase phase;
} put;

/* A run begins with the time of its start, so later runs have higher numbers (docs/STORE.md). */
static weft_status run_begin(uint64_t *run)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return weft_fail_quiet(WEFT_E_SYSTEM, "the system gives no random number");
    *run = (uint64_t)time(NULL) << 32 | random;
    return WEFT_OK;
}

/* Names the new version: after the last one, in the same run. */
static weft_status version_name(put *p)
{
    const weft_store_entry *last = p->stored.count ? &p->stored.entries[p->stored.count - 1] : NULL;
    weft_version *target = &p->options.target;
    char *end = NULL;
    if (last)
        p->options.base = last->version;
    target->run = last ? last->version.run : 0;
    target->number = last ? last->version.number + 1 : 1;
    if (p->args->version)
        target->number = strtoull(p->args->version, &end, 10);
    if (end && (*end || end == p->args->version || strspn(p->args->version, "0123456789") != strlen(p->args->version)))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--version %s: need a number", p->args->version);
    if (target->number == 0 || (last && target->number <= last->version.number))
        return weft_fail_quiet(WEFT_E_ARGUMENT,
                               "version %" PRIu64 ": the store ends at version %" PRIu64 "; need a later number",
                               target->number, last ? last->version.number : 0);
    return last ? WEFT_OK : run_begin(&target->run);
}

static weft_status body(void *user)
{
    put *p = user;
    uint64_t base_count = 0, count;
    const weft_piece *base = p->base.model ? weft_model_pieces(p->base.model, &base_count) : NULL;
    const weft_piece *pieces = weft_model_pieces(p->model, &count);
    uint64_t header_bytes;
    const void *header = weft_model_header(p->model, &header_bytes);
    const bool same =
        p->base.header && p->base.header_bytes == header_bytes && memcmp(p->base.header, header, header_bytes) == 0;
    weft_offline_bar bar;
    weft_work work = weft_offline_work(p->args, "write", &bar);
    p->options.level = p->args->level;
    p->options.attachment = same ? NULL : header;
    p->options.attachment_bytes = same ? 0 : header_bytes;
    weft_status status = weft_store_put(p->stored.store, weft_model_layout(p->model), base, base_count, pieces, count,
                                        &p->options, &work, &p->info);
    weft_offline_bar_end(&bar);
    return status;
}

/* Takes the last version. A store whose end is damaged goes on with an anchor, because the new model is at hand. */
static weft_status base_take(put *p)
{
    weft_log_sink *before = weft_log_quiet();
    const weft_status status = weft_stored_take(&p->stored, &p->options.base, p->args, &p->base);
    weft_log_enter(before);
    if (status != WEFT_E_MISSING && status != WEFT_E_CORRUPT && status != WEFT_E_CHECK)
        return status;
    weft_output_say("weft: warn: version %" PRIu64 " cannot be had (%s), so version %" PRIu64
                    " is written as an anchor",
                    p->options.base.number, weft_last_error(), p->options.target.number);
    weft_stored_give(&p->base);
    p->options.base = (weft_version){0};
    return WEFT_OK;
}

static weft_status put_run(put *p)
{
    weft_status status = weft_model_open(p->args->words[1], 0, &p->model);
    if (status == WEFT_OK)
        status = weft_stored_open(p->args->words[0], true, &p->stored);
    if (status == WEFT_OK)
        status = version_name(p);
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    if (status != WEFT_OK)
        return status;
    p->phase = WEFT_TOOL_WORK;
    if (p->options.base.run)
        status = base_take(p);
    if (status == WEFT_OK && p->base.model)
        status =
            weft_model_take_order(p->model, weft_model_layout(p->base.model), p->args->words[1], "the last version");
    if (status == WEFT_E_LAYOUT)
        p->phase = WEFT_TOOL_INPUT;
    const weft_model *model = p->model;
    if (status == WEFT_OK)
        status = weft_model_guard_all(&model, 1, body, p);
    if (status == WEFT_E_ARGUMENT)
        p->phase = WEFT_TOOL_INPUT; /* a level that no store has */
    return status;
}

static void report(const put *p)
{
    const weft_version *target = &p->options.target;
    if (p->args->json) {
        json_t *object = weft_json_update(&p->info);
        char run[17];
        snprintf(run, sizeof run, "%016" PRIx64, target->run);
        json_object_set_new(object, "run", json_string(run));
        json_object_set_new(object, "version", weft_json_count(target->number));
        weft_output_object(object);
        return;
    }
    printf("%016" PRIx64 "/%" PRIu64 ": ", target->run, target->number);
    if (p->base.model)
        weft_output_update(&p->info);
    else
        printf("anchor, %s\n", weft_output_size((double)p->info.bytes).text);
}

int weft_verb_put(const weft_args *args)
{
    put p = {.args = args, .options = {.size = sizeof p.options}, .phase = WEFT_TOOL_INPUT};
    p.info.size = sizeof p.info;
    weft_signals_catch_files(args->json);
    weft_status status = put_run(&p);
    const int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, p.phase, status);
    if (status == WEFT_OK)
        report(&p);
    weft_stored_give(&p.base);
    weft_stored_close(&p.stored);
    weft_model_close(p.model);
    return code;
}
