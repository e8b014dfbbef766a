/* fabric_flow.c - what goes through a port: writes, their completions, arrivals, and the sleep until something comes.
 */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

#define BATCH 16 /* completions read at once */

_Static_assert(offsetof(weft_operation, context) == 0, "op_context is taken for the operation");

weft_status weft_fabric_write(weft_port *port, const weft_write *write)
{
    weft_operation *operation = port->free;
    if (!operation)
        return WEFT_AGAIN;
    if (port->peer == FI_ADDR_UNSPEC || !write->bytes || write->bytes > port->link->chunk_bytes)
        return weft_fail(WEFT_E_ARGUMENT, "provider %s: a write of %llu bytes; 1 to %llu fit, on a connected port",
                         port->link->profile->name, (unsigned long long)write->bytes,
                         (unsigned long long)port->link->chunk_bytes);
    void *descriptor = write->region->mr ? fi_mr_desc(write->region->mr) : NULL;
    operation->cookie = write->cookie;
    weft_fabric_enter();
    ssize_t result = fi_writedata(port->ep, write->data, write->bytes, descriptor, write->immediate, port->peer,
                                  write->remote_address, write->remote_key, operation);
    if (result == -FI_EAGAIN)
        return WEFT_AGAIN;
    if (result)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "provider %s: a write to %s is refused: %s", port->link->profile->name,
                               port->peer_text, weft_fabric_call_strerror((int)-result));
    port->free = operation->next;
    return WEFT_OK;
}

static uint64_t retire(weft_port *port, void *context)
{
    weft_operation *operation = context;
    operation->next = port->free;
    port->free = operation;
    return operation->cookie;
}

/* `len` of a remote write's entry is not reliable and is not looked at. */
static bool translate(weft_port *port, const struct fi_cq_data_entry *entry, weft_completion *completion)
{
    *completion = (weft_completion){.status = WEFT_OK};
    if ((entry->flags & FI_REMOTE_CQ_DATA) && !(entry->flags & (FI_WRITE | FI_SEND))) {
        completion->kind = WEFT_COMPLETION_ARRIVED;
        completion->immediate = (uint32_t)entry->data;
        return true;
    }
    if (!entry->op_context)
        return false;
    completion->kind = WEFT_COMPLETION_WRITTEN;
    completion->cookie = retire(port, entry->op_context);
    return true;
}

/* " (the provider's own word)", or nothing: what libfabric says of an error is the same for many causes. */
static void describe_cause(const weft_port *port, const struct fi_cq_err_entry *entry, char *text, size_t capacity)
{
    char said[96] = "";
    const char *cause =
        entry->prov_errno ? fi_cq_strerror(port->cq, entry->prov_errno, entry->err_data, said, sizeof said) : NULL;
    text[0] = '\0';
    if (cause && cause[0])
        snprintf(text, capacity, " (%.100s, %d)", cause, entry->prov_errno);
}

static weft_status describe_error(const weft_port *port, const struct fi_cq_err_entry *entry)
{
    const char *name = port->link->profile->name;
    char cause[128];
    describe_cause(port, entry, cause, sizeof cause);
    if (entry->op_context)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "provider %s: a write to %s failed: %s%s", name, port->peer_text,
                               weft_fabric_call_strerror(entry->err), cause);
    return weft_fail_quiet(WEFT_E_PEER_LOST, "provider %s: a connection of the port failed: %s%s", name,
                           weft_fabric_call_strerror(entry->err), cause);
}

static size_t read_error(weft_port *port, weft_completion *completion)
{
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(port->cq, &entry, 0) < 1)
        return 0;
    *completion = (weft_completion){
        .kind = WEFT_COMPLETION_FAILED,
        .status = describe_error(port, &entry),
        .cookie = entry.op_context ? retire(port, entry.op_context) : UINT64_MAX,
    };
    return 1;
}

static size_t report_broken(weft_port *port, ssize_t error, weft_completion *completion)
{
    port->broken = true;
    *completion = (weft_completion){.kind = WEFT_COMPLETION_FAILED,
                                    .status = weft_fabric_port_refuse(port, "fi_cq_read", (int)error),
                                    .cookie = UINT64_MAX};
    return 1;
}

/* One read of the queue; *more says whether another may bring something. */
static size_t poll_once(weft_port *port, weft_completion *completions, size_t capacity, bool *more)
{
    struct fi_cq_data_entry entries[BATCH];
    size_t count = 0;
    weft_fabric_enter();
    ssize_t got = fi_cq_read(port->cq, entries, capacity < BATCH ? capacity : BATCH);
    *more = got == BATCH || got == -FI_EAVAIL;
    if (got == -FI_EAVAIL) {
        count = read_error(port, completions);
        *more = count != 0;
        return count;
    }
    if (got < 0)
        return got == -FI_EAGAIN || got == -FI_EINTR ? 0 : report_broken(port, got, completions);
    for (ssize_t i = 0; i < got; i++)
        count += translate(port, &entries[i], &completions[count]);
    return count;
}

size_t weft_fabric_poll(weft_port *port, weft_completion *completions, size_t capacity)
{
    size_t count = 0;
    bool more = !port->broken;
    if (port->has_kept && capacity) {
        port->has_kept = false;
        count += translate(port, &port->kept, completions);
    }
    while (more && count < capacity)
        count += poll_once(port, completions + count, capacity - count, &more);
    return count;
}

int weft_fabric_wait_fd(const weft_port *port)
{
    return port->fd;
}

/* Where the descriptor stays raised after a completion was read, fi_trywait does not lower it: only a blocking read
 * does on its way to sleep. One of at most a millisecond, when there is nothing to read, is that. What it brings after
 * all is kept for the next poll. */
static bool lower(weft_port *port)
{
    struct pollfd descriptor = {.fd = port->fd, .events = POLLIN};
    if (weft_fabric_version() >= port->link->profile->descriptor_sticks_below || poll(&descriptor, 1, 0) != 1)
        return true;
    weft_fabric_enter();
    ssize_t got = fi_cq_sread(port->cq, &port->kept, 1, NULL, 1);
    port->has_kept = got == 1;
    return got == -FI_EAGAIN;
}

weft_status weft_fabric_wait_arm(weft_port *port)
{
    struct fid *queue = &port->cq->fid;
    if (port->fd < 0 || port->has_kept)
        return WEFT_AGAIN;
    weft_fabric_enter();
    int error = fi_trywait(port->link->fabric, &queue, 1);
    if (error && error != -FI_EAGAIN)
        return weft_fabric_port_refuse(port, "fi_trywait", error);
    return !error && lower(port) ? WEFT_OK : WEFT_AGAIN;
}
#else
typedef int weft_fabric_flow_is_absent;
#endif
