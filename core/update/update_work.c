/* update_work.c - the caller's structs and functions. A failure of such a function without a text gets one, because the
 * thread's last error is about something else. */
#include "update/update_work.h"

#include "base/status.h"

static weft_status judge(weft_status status, uint64_t said, const char *what)
{
    if (status == WEFT_OK || weft_fail_count() != said)
        return status;
    return weft_fail_quiet(status, "the caller's %s ended the work with '%s'", what, weft_status_name(status));
}

weft_status weft_update_sizes_check(const weft_work *work, const void *info, const char *info_type)
{
    weft_status status = weft_size_check(work, "weft_work");
    return status == WEFT_OK ? weft_size_check(info, info_type) : status;
}

weft_status weft_update_progress(const weft_work *work, uint64_t done, uint64_t total)
{
    const uint64_t said = weft_fail_count();
    return work && work->progress ? judge(work->progress(work->user, done, total), said, "progress") : WEFT_OK;
}

weft_status weft_update_read(const weft_source *source, uint64_t offset, void *data, uint64_t bytes)
{
    const uint64_t said = weft_fail_count();
    return bytes ? judge(source->read(source->user, offset, data, bytes), said, "source") : WEFT_OK;
}

weft_status weft_update_write(const weft_sink *sink, const void *data, uint64_t bytes)
{
    const uint64_t said = weft_fail_count();
    return bytes ? judge(sink->write(sink->user, data, bytes), said, "sink") : WEFT_OK;
}
