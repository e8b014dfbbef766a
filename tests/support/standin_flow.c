/* standin_flow.c - the rules on writes under way and on their completions. */
#ifndef WEFT_NO_FABRIC
#include "tests/support/standin_inside.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_SECONDS 0.02 /* in which writes land yet when their endpoint closes */

/* ---- writes */

static void check(const standin_endpoint *endpoint, const standin_write *write, const struct fid_mr *mr)
{
    const char *provider = endpoint->object.rules->provider;
    if (write->immediate > UINT32_MAX)
        standin_broken(provider, "an immediate has 32 bits");
    if (write->bytes > endpoint->object.rules->message_bytes)
        standin_broken(provider, "a write above the largest message");
    if (!write->context)
        standin_broken(provider, "an operation without its context");
    if (!mr && endpoint->object.rules->own_keys)
        return;
    if (!mr)
        standin_broken(provider, "a local buffer without a descriptor");
    const standin_region *region = standin_of(&mr->fid);
    if ((const uint8_t *)write->data < region->memory ||
        (const uint8_t *)write->data + write->bytes > region->memory + region->bytes)
        standin_broken(provider, "a local buffer outside of its descriptor's memory");
    if (!(region->access & FI_WRITE))
        standin_broken(provider, "memory that was registered for something else is written from");
}

static bool is_due(uint64_t posts, uint32_t every)
{
    return every && posts % every == 0;
}

static bool is_refusing(standin_endpoint *endpoint)
{
    const standin_rules *rules = endpoint->object.rules;
    double now = standin_now();
    if (endpoint->under_way >= rules->tx_size || endpoint->refuses_until > now)
        return true;
    endpoint->posts++;
    if (is_due(endpoint->posts, rules->stall_every)) {
        endpoint->stalls_until = now + rules->stall_ms * 1e-3;
        standin_count_stalled();
    }
    if (is_due(endpoint->posts, rules->again_every))
        endpoint->refuses_until = now + rules->again_ms * 1e-3;
    return endpoint->refuses_until > now;
}

static void fail_at_once(standin_endpoint *endpoint, const standin_write *write, int error)
{
    standin_queue *queue = endpoint->queue;
    queue->errors[queue->error_count] =
        (struct fi_cq_err_entry){.op_context = write->context, .flags = FI_RMA | FI_WRITE, .err = error};
    queue->error_due[queue->error_count++] = standin_now() + endpoint->object.rules->late_ms * 1e-3;
}

/* Hands one of those that wait to the provider underneath; false: it takes none now. */
static bool send_one(standin_endpoint *endpoint)
{
    const standin_rules *rules = endpoint->object.rules;
    uint32_t at = rules->window ? (uint32_t)random() % endpoint->held_count : 0;
    standin_write write = endpoint->held[at];
    ssize_t result = endpoint->real_rma->writedata(endpoint->ep, write.data, write.bytes, NULL, write.immediate,
                                                   write.to, write.address, write.key, write.context);
    if (result == -FI_EAGAIN)
        return false;
    memmove(&endpoint->held[at], &endpoint->held[at + 1], (--endpoint->held_count - at) * sizeof write);
    if (write.order < endpoint->sent_order)
        standin_count_overtaken();
    else
        endpoint->sent_order = write.order;
    if (result && rules->death == STANDIN_DEATH_LATE)
        fail_at_once(endpoint, &write, (int)-result);
    else if (result)
        standin_count_withheld();
    return true;
}

static void send_until(standin_endpoint *endpoint, uint32_t stay)
{
    if (endpoint->stalls_until > standin_now())
        return;
    while (endpoint->held_count > stay && send_one(endpoint))
        ;
}

static ssize_t write_data(struct fid_ep *ep, const void *data, size_t bytes, void *descriptor, uint64_t immediate,
                          fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
    standin_endpoint *endpoint = standin_of(&ep->fid);
    standin_write write = {.data = data,
                           .bytes = bytes,
                           .immediate = immediate,
                           .address = address,
                           .key = key,
                           .to = to,
                           .context = context};
    check(endpoint, &write, descriptor);
    if (is_refusing(endpoint)) {
        standin_count_refused();
        return -FI_EAGAIN;
    }
    if (endpoint->object.rules->scribbles)
        memset(context, 0xa5, sizeof(struct fi_context2));
    write.order = endpoint->posts;
    endpoint->held[endpoint->held_count++] = write;
    endpoint->under_way++;
    endpoint->posted = true;
    send_until(endpoint, endpoint->object.rules->window);
    return 0;
}

/* Sends what waits, one at a time, when nothing new comes, as a device does. */
static void move_on(standin_endpoint *endpoint)
{
    if (!endpoint->held_count)
        return;
    if (endpoint->posted)
        send_until(endpoint, endpoint->object.rules->window);
    else if (endpoint->stalls_until <= standin_now())
        send_one(endpoint);
    endpoint->posted = false;
}

/* ---- completions */

static void keep_error(standin_queue *queue)
{
    const standin_rules *rules = queue->object.rules;
    struct fi_cq_err_entry entry = {0};
    if (queue->real->readerr(queue->cq, &entry, 0) < 1)
        return;
    if (rules->death == STANDIN_DEATH_SILENT) {
        standin_count_withheld();
        return;
    }
    if (queue->error_count == STANDIN_QUEUE)
        standin_broken(rules->provider, "more errors than writes under way");
    queue->errors[queue->error_count] = entry;
    queue->error_due[queue->error_count++] = standin_now() + rules->late_ms * 1e-3;
}

static void put(standin_queue *queue, const struct fi_cq_data_entry *entries, size_t count)
{
    const standin_rules *rules = queue->object.rules;
    const size_t all = queue->waiting_count + count;
    if (rules->rx_size && all > queue->room)
        standin_broken(rules->provider, "a completion queue overflows: what came is lost");
    queue->waiting = realloc(queue->waiting, all * sizeof *entries);
    if (!queue->waiting)
        abort();
    memcpy(queue->waiting + queue->waiting_count, entries, count * sizeof *entries);
    queue->waiting_count = all;
}

/* All that is there, read or not. */
static ssize_t take_in(standin_queue *queue)
{
    struct fi_cq_data_entry entries[8];
    ssize_t got;
    while ((got = queue->real->read(queue->cq, entries, 8)) > 0 || got == -FI_EAVAIL) {
        if (got > 0)
            put(queue, entries, (size_t)got);
        else
            keep_error(queue);
    }
    return got;
}

static ssize_t read_queue(struct fid_cq *cq, void *entries, size_t count)
{
    standin_queue *queue = standin_of(&cq->fid);
    if (queue->endpoint)
        move_on(queue->endpoint);
    if (queue->error_count && queue->error_due[0] <= standin_now())
        return -FI_EAVAIL;
    ssize_t nothing = take_in(queue);
    if (!queue->waiting_count || !count)
        return nothing;
    const struct fi_cq_data_entry *out = queue->waiting;
    count = count < queue->waiting_count ? count : queue->waiting_count;
    for (size_t i = 0; i < count && queue->endpoint; i++)
        queue->endpoint->under_way -= (out[i].flags & FI_WRITE) != 0 && !(out[i].flags & FI_REMOTE_CQ_DATA);
    memcpy(entries, out, count * sizeof *out);
    queue->waiting_count -= count;
    memmove(queue->waiting, out + count, queue->waiting_count * sizeof *out);
    return (ssize_t)count;
}

static ssize_t read_error(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    standin_queue *queue = standin_of(&cq->fid);
    (void)flags;
    if (!queue->error_count || queue->error_due[0] > standin_now())
        return -FI_EAGAIN;
    *entry = queue->errors[0];
    queue->error_count--;
    memmove(queue->errors, queue->errors + 1, queue->error_count * sizeof *queue->errors);
    memmove(queue->error_due, queue->error_due + 1, queue->error_count * sizeof *queue->error_due);
    if (queue->endpoint && entry->op_context)
        queue->endpoint->under_way--;
    return 1;
}

static ssize_t read_waiting(struct fid_cq *cq, void *entries, size_t count, const void *condition, int milliseconds)
{
    (void)cq, (void)entries, (void)count, (void)condition, (void)milliseconds;
    standin_broken("libfabric", "fi_cq_sread is for the provider underneath");
}

bool standin_queue_is_busy(standin_queue *queue)
{
    struct pollfd descriptor = {.events = POLLIN};
    struct fi_cq_data_entry kept;
    if (queue->waiting_count || queue->error_count || (queue->endpoint && queue->endpoint->held_count))
        return true;
    if (!standin_descriptor_sticks() || fi_control(&queue->cq->fid, FI_GETWAIT, &descriptor.fd) != 0 ||
        poll(&descriptor, 1, 0) != 1)
        return false;
    ssize_t got = queue->real->sread(queue->cq, &kept, 1, NULL, 1);
    if (got == 1)
        put(queue, &kept, 1);
    return got != -FI_EAGAIN;
}

static int forget(standin_object *object)
{
    free(((standin_queue *)(void *)object)->waiting);
    return 0;
}

void standin_queue_rule(standin_queue *queue)
{
    queue->object.on_close = forget;
    queue->real = queue->cq->ops;
    queue->ops = *queue->real;
    queue->ops.read = read_queue;
    queue->ops.readerr = read_error;
    queue->ops.sread = read_waiting;
    queue->cq->ops = &queue->ops;
}

/* ---- the endpoint */

static int bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    standin_endpoint *endpoint = standin_of(fid);
    if (other->fclass == FI_CLASS_CQ) {
        endpoint->queue = standin_of(other);
        endpoint->queue->endpoint = endpoint;
    }
    return endpoint->object.real_base->bind(fid, other, flags);
}

static int set_option(struct fid *fid, int level, int name, const void *value, size_t length)
{
    standin_endpoint *endpoint = standin_of(fid);
    (void)level, (void)name, (void)value, (void)length;
    return -endpoint->object.rules->option_error;
}

static int finish(standin_object *object)
{
    standin_endpoint *endpoint = (standin_endpoint *)(void *)object;
    struct fi_cq_data_entry lost[8];
    double end = standin_now() + CLOSE_SECONDS;
    if (endpoint->queue && object->rules->lands_after_close) {
        while (endpoint->held_count > 1 && standin_now() < end) {
            send_one(endpoint);
            if (endpoint->queue->real->read(endpoint->queue->cq, lost, 8) == -FI_EAVAIL)
                break;
        }
    }
    if (endpoint->queue)
        endpoint->queue->endpoint = NULL;
    return 0;
}

void standin_endpoint_rule(standin_endpoint *endpoint)
{
    endpoint->object.base.bind = bind;
    endpoint->object.on_close = finish;
    endpoint->options = *endpoint->ep->ops;
    endpoint->options.setopt = set_option;
    endpoint->ep->ops = &endpoint->options;
    endpoint->real_rma = endpoint->ep->rma;
    endpoint->rma = *endpoint->real_rma;
    endpoint->rma.writedata = write_data;
    endpoint->ep->rma = &endpoint->rma;
}
#else
typedef int standin_flow_is_absent;
#endif
