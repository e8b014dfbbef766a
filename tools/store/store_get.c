/* store_get.c - weft get: a version of a store as a model file or folder. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "tools/signals.h"
#include "tools/store/stored.h"
#include "tools/verbs.h"

typedef struct get {
    const weft_args *args;
    weft_stored stored;
    weft_version version;
    weft_stored_model taken;
    weft_tool_phase phase;
} get;

/* Looks at the place of the output before any weights are read. */
static weft_status output_check(get *g)
{
    weft_status status = weft_stored_header(&g->stored, &g->version, &g->taken);
    if (status == WEFT_OK && !g->taken.header) /* of several sources, or of a library's trainer */
        status = weft_stored_header_make(&g->stored, &g->version, &g->taken);
    if (status == WEFT_OK)
        status = weft_model_save_check(g->taken.header, g->taken.header_bytes, g->args->output);
    weft_stored_give(&g->taken);
    return status;
}

static weft_status get_run(get *g)
{
    if (!g->args->version || !g->args->output)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft get needs --version N and -o MODEL");
    weft_status status = weft_stored_open(g->args->words[0], false, &g->stored);
    if (status == WEFT_OK)
        status = weft_stored_find(&g->stored, g->args->version, &g->version);
    if (status == WEFT_OK)
        status = output_check(g);
    if (status == WEFT_OK)
        status = weft_offline_wanted();
    if (status != WEFT_OK)
        return status;
    g->phase = WEFT_TOOL_WORK;
    status = weft_stored_take(&g->stored, &g->version, g->args, &g->taken);
    if (status == WEFT_OK && !g->taken.header)
        status = weft_stored_header_make(&g->stored, &g->version, &g->taken);
    if (status != WEFT_OK)
        return status;
    status = weft_model_save(g->taken.model, g->taken.header, g->taken.header_bytes, g->args->output);
    if (status != WEFT_OK)
        weft_fail_about("%s", g->args->output);
    return status;
}

static void report(const get *g)
{
    const weft_store_info *info = &g->taken.info;
    if (g->args->json)
        weft_output_object(json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "model", weft_json_text(g->args->output),
                                     "version", weft_json_count(info->version.number), "digest",
                                     weft_json_hash(info->version.root), "files", weft_json_count(info->files),
                                     "anchors", weft_json_count(info->anchors), "bytes", weft_json_count(info->bytes),
                                     "damaged", weft_json_count(info->damaged)));
    else
        printf("%s: version %" PRIu64 ", digest %016" PRIx64 ": %" PRIu64 " files, %s\n",
               weft_output_plain(g->args->output).text, info->version.number, info->version.root, info->files,
               weft_output_size((double)info->bytes).text);
}

int weft_verb_get(const weft_args *args)
{
    get g = {.args = args, .phase = WEFT_TOOL_INPUT};
    weft_signals_catch_files(args->json);
    weft_status status = get_run(&g);
    const int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, g.phase, status);
    if (status == WEFT_OK)
        report(&g);
    weft_stored_give(&g.taken);
    weft_stored_close(&g.stored);
    return code;
}
