#include "tools/update/offline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/serve/weights.h"
#include "tools/signals.h"

enum { FIRST_MS = 500, NEXT_MS = 200 };

/* ---- progress */

weft_status weft_offline_wanted(void)
{
    if (weft_signals_stopping())
        return weft_fail_quiet(WEFT_E_STATE, "%s; nothing was written", weft_signals_reason());
    return WEFT_OK;
}

static weft_status progress(void *user, uint64_t done, uint64_t total)
{
    weft_offline_bar *bar = user;
    double now = weft_now_ms();
    weft_status status = weft_offline_wanted();
    if (status != WEFT_OK)
        return status;
    if (now < bar->next_ms || total == 0 || !isatty(STDERR_FILENO))
        return WEFT_OK;
    bar->next_ms = now + NEXT_MS;
    bar->shown = true;
    fprintf(stderr, "\r%s: %3.0f %%", bar->what, 100.0 * (double)done / (double)total);
    return WEFT_OK;
}

weft_work weft_offline_work(const weft_args *args, const char *what, weft_offline_bar *bar)
{
    *bar = (weft_offline_bar){.what = what, .next_ms = weft_now_ms() + FIRST_MS};
    return (weft_work){
        .size = sizeof(weft_work), .threads = (uint32_t)args->threads, .progress = progress, .user = bar};
}

void weft_offline_bar_end(weft_offline_bar *bar)
{
    if (bar->shown)
        fputs("\r\033[K", stderr);
    bar->shown = false;
}

/* ---- models */

weft_status weft_offline_fits(weft_update_file *update, weft_model *model, const char *path)
{
    weft_update_header header = {.size = sizeof header};
    const weft_layout *layout;
    uint64_t have[2];
    int named;
    weft_status status = weft_update_describe(update, &header);
    weft_layout_hash(weft_model_layout(model), have);
    if (status != WEFT_OK || (header.layout[0] == have[0] && header.layout[1] == have[1]))
        return status;
    status = weft_update_layout(update, &layout, &named);
    if (status == WEFT_OK && named)
        return weft_model_take_order(model, layout, path, "the update");
    return status != WEFT_OK ? status
                             : weft_fail_quiet(WEFT_E_LAYOUT,
                                               "%s: the update has no names (--names never), and its layout's hash is "
                                               "not the model's: other tensors, or the same in another order, which "
                                               "cannot be matched without names",
                                               path);
}

const void *weft_offline_new_header(const weft_model *base, const weft_model *model, uint64_t *bytes)
{
    uint64_t base_bytes;
    const void *before = weft_model_header(base, &base_bytes), *header = weft_model_header(model, bytes);
    if (*bytes == base_bytes && memcmp(before, header, base_bytes) == 0)
        *bytes = 0;
    return *bytes ? header : NULL;
}

/* ---- files */

weft_status weft_offline_begin(weft_file *file, const char *path, weft_tool_phase *phase)
{
    weft_status status = weft_file_check(path);
    if (status == WEFT_OK) {
        *phase = WEFT_TOOL_WORK;
        status = weft_file_begin(file, path);
    }
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    return status;
}

weft_status weft_offline_finish(weft_file *file, const char *path)
{
    weft_status status = weft_file_finish(file);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    return status;
}

static weft_status file_write(void *user, const void *data, uint64_t bytes)
{
    const weft_file *file = user;
    weft_status status = weft_file_put(user, data, bytes);
    if (status != WEFT_OK)
        weft_fail_about("%s", file->path);
    return status;
}

weft_sink weft_offline_sink(weft_file *file)
{
    return (weft_sink){file, file_write};
}

weft_model_place weft_offline_place(const char *base, const char *path, char name[256])
{
    static const char end[] = ".safetensors";
    const size_t length = strlen(path), tail = sizeof end - 1;
    const bool file = length >= tail && strcmp(path + length - tail, end) == 0;
    return (weft_model_place){.path = path,
                              .name = base && !file && weft_model_is_folder_of_one(base, name) ? name : NULL};
}
