/* store_move.c - weights led to a version of the store: a way is found and proved, and then written.
 *
 * Where a file on the way is damaged, another way is looked for, from the weights as they are. */
#include "base/mem.h"
#include "base/status.h"
#include "store/store.h"

/* ---- open and close */

weft_status weft_store_mover_open(weft_store_mover *m, weft_store *store, const weft_layout *layout,
                                  const weft_excerpt *excerpt, const weft_binding *weights, const weft_work *work)
{
    *m = (weft_store_mover){.store = store, .steps = weft_mem_take(WEFT_STORE_STEPS, sizeof *m->steps)};
    if (!m->steps)
        return weft_fail(WEFT_E_MEMORY, "no memory for the steps of a way");
    const weft_status status = weft_mover_open(&m->mover, layout, excerpt, weights, work);
    m->mover.passes = 2;
    return status;
}

static void steps_close(weft_store_mover *m)
{
    weft_mover_leave(&m->mover);
    for (uint64_t i = 0; i < m->count; i++)
        weft_update_close(m->steps[i].file);
    m->count = 0;
}

void weft_store_mover_close(weft_store_mover *m)
{
    steps_close(m);
    weft_mover_close(&m->mover);
    weft_mem_give(m->steps);
    m->steps = NULL;
}

/* ---- a way */

bool weft_store_is_damage(weft_status status)
{
    return status == WEFT_E_FILE || status == WEFT_E_CORRUPT || status == WEFT_E_CHECK || status == WEFT_E_BASE ||
           status == WEFT_E_TARGET || status == WEFT_E_PROTOCOL;
}

static weft_store_file *file_of(const weft_store_mover *m, const weft_store_step *step)
{
    return &m->store->versions[step->index].files[step->kind];
}

static weft_status steps_open(weft_store_mover *m, const weft_store_step *steps, uint64_t count)
{
    weft_status status = WEFT_OK;
    while (m->count < count && status == WEFT_OK) {
        const weft_store_step *step = &steps[m->count];
        m->steps[m->count] = (weft_update_step){.back = step->act == WEFT_STORE_BACK};
        m->mover.fault = m->count;
        status = weft_store_file_open(m->store, file_of(m, step), &m->steps[m->count].file);
        m->count += status == WEFT_OK;
    }
    return status == WEFT_OK ? weft_mover_way(&m->mover, m->steps, count, steps[0].act == WEFT_STORE_SET) : status;
}

weft_status weft_store_mover_prove(weft_store_mover *m, const weft_store_step *steps, uint64_t count)
{
    steps_close(m);
    if (count == 0)
        return WEFT_OK;
    weft_status status = steps_open(m, steps, count);
    if (status == WEFT_OK)
        status = weft_mover_prove(&m->mover);
    if (weft_store_is_damage(status))
        file_of(m, &steps[m->mover.fault])->status = status;
    for (uint64_t i = 0; i < count && status == WEFT_OK; i++) {
        m->figures.files++;
        m->figures.anchors += steps[i].act == WEFT_STORE_SET;
        m->figures.bytes +=
            m->steps[i].bytes + file_of(m, &steps[i])->item.bytes - m->steps[i].file->trailer.frame_bytes;
    }
    return status;
}

weft_status weft_store_mover_lead(weft_store_mover *m, weft_store_held *held, const void *user, uint64_t to)
{
    weft_status failed = WEFT_OK;
    for (;;) {
        weft_store_way way;
        weft_mover_leave(&m->mover);
        weft_status status = weft_mover_measure(&m->mover, false);
        if (status == WEFT_OK)
            status = weft_store_way_find(m->store, held(m, user), to, &way);
        if (status != WEFT_OK)
            return status == WEFT_E_MISSING && failed != WEFT_OK ? failed : status;
        m->more = way.count > WEFT_STORE_STEPS;
        status = weft_store_mover_prove(m, way.steps, m->more ? WEFT_STORE_STEPS : way.count);
        weft_store_way_close(&way);
        if (!weft_store_is_damage(status))
            return status;
        failed = status;
        m->figures.damaged++;
    }
}

weft_status weft_store_mover_write(weft_store_mover *m, const weft_binding *weights)
{
    if (m->count == 0)
        return WEFT_OK;
    const weft_status status = weft_mover_write(&m->mover, weights);
    if (status != WEFT_OK)
        weft_fail_about("%s: the weights were being written, and are of no version now", m->store->name);
    return status;
}

const uint64_t *weft_store_mover_digests(const weft_store_mover *m)
{
    return m->count > 0 ? m->mover.reached : m->mover.digests;
}
