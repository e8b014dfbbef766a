/* direct.c - the memory that a rollout's buckets land in: the host's, or the device's where the weights lie on one and
 * fabric and driver let the one write into the other. Chosen once, at open.
 *
 * A slot is written by others for as long as it is registered, and what a bucket says is judged by the host: from a
 * device's slot each bucket is therefore fetched into memory of the rollout's own before it is looked at, its header
 * when that has landed, the payload when all has. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "rollout/rollout.h"

#define PIECE_BYTES (UINT64_C(1) << 20) /* that one job fetches */

/* ---- the choice */

/* Why it is the host's without asking anybody; NULL: it need not be. */
static const char *why_host(const weft_rollout *rollout)
{
    const weft_backend *backend = rollout->session->backend;
    if (!(backend->caps & WEFT_BACKEND_DEVICE))
        return "the weights are there";
    if (!(backend->caps & (WEFT_BACKEND_CUDA | WEFT_BACKEND_HIP)))
        return "no fabric knows this backend's";
    if (rollout->site.direct == WEFT_DIRECT_OFF)
        return "direct = off";
    return rollout->site.relay[0] ? "a relay passes on from there" : NULL;
}

weft_region_kind weft_direct_kind(const weft_rollout *rollout)
{
    if (why_host(rollout))
        return WEFT_REGION_HOST;
    return rollout->session->backend->caps & WEFT_BACKEND_CUDA ? WEFT_REGION_CUDA : WEFT_REGION_HIP;
}

static void say_host(weft_direct *direct, const char *why)
{
    snprintf(direct->text, sizeof direct->text, "staged in host memory: %s", why);
}

/* Whether every link may write there, else what the first says that may not; `flushes` as any of them says. */
static bool links_are_direct(weft_rollout *rollout)
{
    weft_direct *direct = &rollout->direct;
    for (uint32_t i = 0; i < rollout->link_count; i++) {
        weft_link_facts facts;
        if (!rollout->links[i])
            continue; /* away: weft_direct_admits */
        rollout->provider->link_facts(rollout->links[i], &facts);
        if (!facts.direct) {
            snprintf(direct->text, sizeof direct->text, "%s", facts.memory);
            return false;
        }
        direct->flushes = direct->flushes || facts.needs_flush;
    }
    return true;
}

bool weft_direct_admits(weft_rollout *rollout, const weft_link_facts *facts)
{
    weft_direct *direct = &rollout->direct;
    direct->flushes = direct->flushes || (direct->on && facts->direct && facts->needs_flush);
    return !direct->on || facts->direct;
}

/* Registers with a port of each link and gives it up again: what is refused is refused now. */
static weft_status try_links(weft_rollout *rollout)
{
    const weft_provider *provider = rollout->provider;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < rollout->link_count && status == WEFT_OK; i++) {
        if (!rollout->links[i])
            continue;
        weft_port *port = NULL;
        weft_region *region = NULL;
        status = provider->port_open(rollout->links[i], &port);
        if (status == WEFT_OK)
            status = weft_direct_register(rollout, rollout->links[i], port, &region);
        if (port)
            provider->port_close(port);
        if (region)
            provider->region_close(region);
    }
    return status;
}

/* ---- memory */

static weft_status take_device(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    weft_slots *slots = &rollout->slots;
    const uint64_t pieces = slots->payload / PIECE_BYTES + 1;
    void *memory = NULL, *taken = NULL;
    weft_status status = session->backend->memory_take(session->device, slots->bytes, WEFT_MEMORY_DEVICE, &memory);
    slots->memory = memory;
    if (status == WEFT_OK)
        status = session->backend->memory_take(session->device, slots->payload, WEFT_MEMORY_HOST, &taken);
    rollout->taken.memory = taken;
    if (status != WEFT_OK)
        return status;
    rollout->direct.pieces = weft_mem_take(pieces, sizeof *rollout->direct.pieces);
    slots->headers = weft_mem_take(slots->count, WEFT_BUCKET_HEADER_BYTES);
    return rollout->direct.pieces && slots->headers
               ? WEFT_OK
               : weft_fail(WEFT_E_MEMORY, "no memory for %u headers", slots->count);
}

static void give_device(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    weft_slots *slots = &rollout->slots;
    weft_mem_give(rollout->direct.pieces);
    weft_mem_give(slots->headers);
    if (rollout->taken.memory)
        session->backend->memory_give(session->device, rollout->taken.memory, slots->payload, WEFT_MEMORY_HOST);
    if (slots->memory)
        session->backend->memory_give(session->device, slots->memory, slots->bytes, WEFT_MEMORY_DEVICE);
    rollout->direct.pieces = NULL;
    slots->headers = rollout->taken.memory = slots->memory = NULL;
    rollout->direct.on = false;
}

static weft_status take_host(weft_rollout *rollout)
{
    weft_slots *slots = &rollout->slots;
    slots->memory = weft_mem_map(slots->bytes);
    rollout->taken.memory = weft_mem_map(slots->payload);
    if (slots->memory && rollout->taken.memory)
        return WEFT_OK;
    return weft_fail(WEFT_E_MEMORY, "no memory for %u slots of %llu bytes; lower window or bucket_max", slots->count,
                     (unsigned long long)slots->payload);
}

/* False: the landing's text says why not. */
static bool open_device(weft_rollout *rollout)
{
    weft_direct *direct = &rollout->direct;
    if (!links_are_direct(rollout))
        return false;
    weft_log_sink *before = weft_log_quiet(); /* what cannot be had is no failure */
    direct->on = true;
    weft_status status = take_device(rollout);
    if (status == WEFT_OK)
        status = try_links(rollout);
    weft_log_enter(before);
    if (status == WEFT_OK) {
        snprintf(direct->text, sizeof direct->text, "direct: %s writes into the device's memory, %s",
                 rollout->facts.fabric, direct->flushes ? "flushed before it is read" : "which needs no flush");
        return true;
    }
    say_host(direct, weft_last_error());
    links_are_direct(rollout); /* one that was refused the memory knows best why */
    give_device(rollout);
    return false;
}

weft_status weft_direct_open(weft_rollout *rollout)
{
    const char *why = why_host(rollout);
    if (why)
        say_host(&rollout->direct, why);
    else if (open_device(rollout))
        return WEFT_OK;
    return take_host(rollout);
}

void weft_direct_close(weft_rollout *rollout)
{
    weft_slots *slots = &rollout->slots;
    if (rollout->direct.on) {
        give_device(rollout);
        return;
    }
    if (slots->memory)
        weft_mem_unmap(slots->memory, slots->bytes);
    if (rollout->taken.memory)
        weft_mem_unmap(rollout->taken.memory, slots->payload);
}

/* ---- what lands */

weft_status weft_direct_register(weft_rollout *rollout, weft_link *link, weft_port *port, weft_region **region)
{
    const weft_session *session = rollout->session;
    const weft_slots *slots = &rollout->slots;
    weft_memory_export exported;
    if (!rollout->direct.on)
        return rollout->provider->region_open(link, port, slots->memory, slots->bytes, true, region);
    session->backend->memory_export(session->device, slots->memory, slots->bytes, &exported);
    const weft_region_memory memory = {.data = slots->memory,
                                       .bytes = slots->bytes,
                                       .kind = weft_direct_kind(rollout),
                                       .device = exported.device,
                                       .dmabuf = exported.dmabuf,
                                       .dmabuf_offset = exported.dmabuf_offset};
    weft_status status = rollout->provider->region_open_device(link, port, &memory, true, region);
    if (exported.dmabuf >= 0)
        close(exported.dmabuf);
    return status;
}

typedef struct fetching {
    const weft_direct *direct;
    uint8_t *to;
} fetching;

/* Bytes are elements of one byte. */
static void fetch_fill(void *user, uint64_t piece, weft_job *job)
{
    const fetching *f = user;
    const weft_run *run = &f->direct->pieces[piece];
    job->load = (weft_load_job){
        .view = {.runs = run, .run_count = 1, .count = run->count, .first = run->position, .units = 1, .width = 1},
        .bytes = f->to + piece * PIECE_BYTES};
}

weft_status weft_direct_fetch(weft_rollout *rollout, uint64_t offset, uint64_t bytes, uint8_t *to)
{
    weft_session *session = rollout->session;
    const weft_direct *direct = &rollout->direct;
    fetching f = {direct, to};
    const weft_chore fetch = {WEFT_JOB_LOAD, fetch_fill, NULL, &f};
    uint64_t pieces = 0;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES, pieces++)
        direct->pieces[pieces] = (weft_run){.data = rollout->slots.memory + offset + at,
                                            .count = (uint32_t)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES)};
    weft_status status = direct->flushes ? session->backend->flush(session->device) : WEFT_OK;
    return status == WEFT_OK ? weft_pipeline_run(&session->steps, &fetch, 0, pieces) : status;
}
