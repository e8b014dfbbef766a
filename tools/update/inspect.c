/* inspect.c - weft inspect: what an update changes, as a whole and tensor by tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "layout/layout.h"
#include "tools/shown.h"
#include "tools/update/offline.h"
#include "tools/verbs.h"

typedef struct inspect {
    const weft_args *args;
    weft_update_file *update;
    weft_update_header header;
    weft_model *model;         /* the base; NULL: not given */
    const weft_layout *layout; /* the model's, else the update's own */
    weft_update_tensor *tensors;
    int exact;
    weft_tool_phase phase;
} inspect;

static weft_status open_all(inspect *in)
{
    int named;
    weft_status status = weft_update_open(in->args->words[0], NULL, &in->update);
    in->header.size = sizeof in->header;
    if (status == WEFT_OK)
        status = weft_update_describe(in->update, &in->header);
    if (status == WEFT_OK)
        status = weft_update_layout(in->update, &in->layout, &named);
    if (status == WEFT_OK && in->args->model)
        status = weft_model_open(in->args->model, 0, &in->model);
    if (status == WEFT_OK && in->model)
        status = weft_offline_fits(in->update, in->model, in->args->model);
    if (status == WEFT_OK && in->model)
        in->layout = weft_model_layout(in->model);
    return status;
}

static weft_status body(void *user)
{
    inspect *in = user;
    uint64_t count = 0;
    const weft_piece *pieces = in->model ? weft_model_pieces(in->model, &count) : NULL;
    return weft_update_tensors(in->update, in->layout, pieces, count, in->tensors, &in->exact);
}

static weft_status inspect_run(inspect *in)
{
    weft_status status = open_all(in);
    if (status != WEFT_OK)
        return status;
    in->tensors = calloc(weft_layout_count(in->layout) + 1, sizeof *in->tensors);
    if (!in->tensors)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for %" PRIu64 " tensors", weft_layout_count(in->layout));
    const weft_model *model = in->model;
    in->phase = WEFT_TOOL_WORK;
    status = weft_model_guard_all(&model, model ? 1 : 0, body, in);
    if (status != WEFT_OK && status != WEFT_E_FILE) /* which says whose it is */
        weft_fail_about("%s", in->args->words[0]);
    return status;
}

/* ---- output */

static weft_update_info summary(const inspect *in)
{
    const weft_update_header *header = &in->header;
    return (weft_update_info){.size = sizeof(weft_update_info),
                              .base = header->base,
                              .target = header->target,
                              .level = header->level,
                              .elements = header->elements,
                              .changed = header->changed,
                              .dense_bytes = header->dense_bytes,
                              .bytes = header->bytes};
}

static const char *dtype_name(const inspect *in, uint64_t tensor)
{
    return in->layout->entries[tensor].row->name;
}

/* `seen` has a bit a dtype. */
static bool dtype_is_new(const inspect *in, uint64_t tensor, uint32_t *seen)
{
    const uint32_t bit = UINT32_C(1) << in->layout->entries[tensor].tensor.dtype;
    bool fresh = !(*seen & bit);
    *seen |= bit;
    return fresh;
}

static uint32_t classes_of(const inspect *in, uint64_t tensor, uint32_t thresholds[WEFT_THRESHOLDS_MAX])
{
    return weft_update_thresholds(in->update, in->layout->entries[tensor].tensor.dtype, thresholds);
}

static json_t *classes_json(const inspect *in)
{
    json_t *object = json_object();
    uint32_t seen = 0, thresholds[WEFT_THRESHOLDS_MAX];
    for (uint64_t t = 0; t < in->layout->count; t++) {
        if (!dtype_is_new(in, t, &seen))
            continue;
        json_t *list = json_array();
        const uint32_t count = classes_of(in, t, thresholds);
        for (uint32_t i = 0; i < count; i++)
            json_array_append_new(list, weft_json_count(thresholds[i]));
        json_object_set_new(object, dtype_name(in, t), list);
    }
    return object;
}

static json_t *tensors_json(const inspect *in)
{
    json_t *list = json_array();
    for (uint64_t t = 0; t < in->layout->count; t++) {
        const weft_update_tensor *sum = &in->tensors[t];
        json_t *bits = sum->changed ? json_real(8 * sum->bytes / (double)sum->changed) : json_null();
        json_array_append_new(
            list, json_pack("{s:o,s:s,s:o,s:o,s:f,s:o}", "name", weft_json_text(in->layout->entries[t].tensor.name),
                            "dtype", dtype_name(in, t), "elements", weft_json_count(in->layout->entries[t].coded),
                            "changed", weft_json_count(sum->changed), "bytes", sum->bytes, "bits_per_change", bits));
    }
    return list;
}

static void print_json(const inspect *in)
{
    const weft_update_header *header = &in->header;
    weft_update_info info = summary(in);
    json_t *object = weft_json_update(&info);
    char layout[33];
    snprintf(layout, sizeof layout, "%016" PRIx64 "%016" PRIx64, header->layout[1], header->layout[0]);
    json_t *more = json_pack("{s:n,s:n,s:o,s:s,s:o,s:o,s:o,s:i,s:b,s:b,s:o,s:o}", "diff_ms", "encode_ms", "base_digest",
                             weft_json_hash(header->base.root), "layout", layout, "frames",
                             weft_json_count(header->frames), "frame_bytes", weft_json_count(header->frame_bytes),
                             "attachment_bytes", weft_json_count(header->attachment_bytes), "run_shift",
                             (int)header->run_shift, "named", header->named || in->model, "exact", in->exact, "classes",
                             classes_json(in), "tensors", tensors_json(in));
    json_object_update(object, more);
    json_decref(more);
    weft_output_object(object);
}

static void print_classes(const inspect *in)
{
    uint32_t seen = 0, thresholds[WEFT_THRESHOLDS_MAX];
    for (uint64_t t = 0; t < in->layout->count; t++) {
        const uint32_t count = classes_of(in, t, thresholds);
        if (!dtype_is_new(in, t, &seen) || count == 0)
            continue;
        printf("classes of %s begin at exponents", dtype_name(in, t));
        for (uint32_t i = 0; i < count; i++)
            printf(" %u", thresholds[i]);
        putchar('\n');
    }
}

static void print_tensors(const inspect *in)
{
    const bool utf8 = weft_shown_is_utf8();
    printf("%-52s %-11s %14s %12s %9s %14s\n", "tensor", "dtype", "elements", "changed", "share", "bits a change");
    for (uint64_t t = 0; t < in->layout->count; t++) {
        const weft_layout_entry *entry = &in->layout->entries[t];
        const weft_update_tensor *sum = &in->tensors[t];
        char bits[24] = "-";
        if (sum->changed)
            snprintf(bits, sizeof bits, "%.2f", 8 * sum->bytes / (double)sum->changed);
        printf("%s %-11s %14" PRIu64 " %12" PRIu64 " %7.3f %% %14s\n",
               weft_shown_name(entry->tensor.name, utf8, 52, 200).text, entry->row->name, entry->coded, sum->changed,
               entry->coded ? 100.0 * (double)sum->changed / (double)entry->coded : 0, bits);
    }
    if (!in->exact)
        puts("Some counts are not exact: a count is an estimate if a frame codes several tensors, and an upper bound "
             "if a tensor's frame is coded as full. --model BASE makes them exact.");
}

static void print_lines(const inspect *in)
{
    const weft_update_header *header = &in->header;
    double bits = header->changed ? 8.0 * (double)header->bytes / (double)header->changed : 0;
    printf("%s: level %s, version %" PRIu64 " (%016" PRIx64 ") to %" PRIu64 " (%016" PRIx64 ")\n",
           weft_output_plain(in->args->words[0]).text, header->level, header->base.number, header->base.root,
           header->target.number, header->target.root);
    printf("%" PRIu64 " of %" PRIu64 " elements changed (%.3f %%), ", header->changed, header->elements,
           header->elements ? 100.0 * (double)header->changed / (double)header->elements : 0);
    printf("%s, dense %s, %.2f bits a change\n", weft_output_size((double)header->bytes).text,
           weft_output_size((double)header->dense_bytes).text, bits);
    printf("%" PRIu64 " frames of runs of up to %u units, %s", header->frames, 1u << header->run_shift,
           weft_output_size((double)header->frame_bytes).text);
    printf(", attachment %s\n",
           header->attachment_bytes ? weft_output_size((double)header->attachment_bytes).text : "none");
    print_classes(in);
    print_tensors(in);
}

int weft_verb_inspect(const weft_args *args)
{
    inspect in = {.args = args, .phase = WEFT_TOOL_INPUT};
    weft_status status = inspect_run(&in);
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(args->json, in.phase, status);
    if (status == WEFT_OK && args->json)
        print_json(&in);
    else if (status == WEFT_OK)
        print_lines(&in);
    free(in.tensors);
    weft_model_close(in.model);
    weft_update_close(in.update);
    return code;
}
