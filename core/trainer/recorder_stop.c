/* recorder_stop.c - ends the recorder's thread, or gives the thread up, because a disk may hang. */
#include <stdatomic.h>

#include "peer/peer.h"
#include "trainer/recorder.h"

typedef unsigned long long ull;

void weft_recorder_tell_left(weft_recorder *recorder)
{
    weft_stats_info *stats = &recorder->publisher->session->stats;
    const uint64_t newest = recorder->publisher->newest.order;
    if (recorder->next <= newest)
        stats->unrecorded += newest + 1 - recorder->next;
    if (recorder->next <= newest || !recorder->linked)
        weft_log(WEFT_LOG_WARN,
                 "store: version %llu, the last one published, is not there; raise [session] close_deadline",
                 (ull)recorder->publisher->newest.version.number);
}

/* Waits for the thread to be done. Under the lock. */
static void done_await(weft_recorder *recorder, uint64_t until_ns)
{
    const struct timespec t = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    while (!recorder->done && weft_clock_ns() < until_ns)
        pthread_cond_timedwait(&recorder->gone, &recorder->publisher->session->lock, &t);
}

/* Gives the thread up, which no call of the system lets go. Under the lock. */
static void give_up(weft_recorder *recorder)
{
    static weft_recorder *_Atomic given_up; /* so that no memory counts as lost */
    const weft_store *store = recorder->store;
    const weft_layout *layout = recorder->publisher->session->layout;
    const uint64_t bytes =
        weft_recorder_need(layout) + recorder->backend->host_bytes + layout->unit_count * sizeof *layout->units;
    weft_log_sink *before = weft_log_enter(&recorder->publisher->session->sink);
    weft_store_leave(recorder->store);
    recorder->given_up = true;
    recorder->later = atomic_exchange(&given_up, recorder);
    weft_recorder_tell_left(recorder);
    weft_log(WEFT_LOG_WARN,
             "store: %s does not answer, so the thread that writes version %llu there is given up; about %.1f MB stay "
             "allocated until the process ends",
             store->name, (ull)recorder->writing, (double)bytes / 1e6);
    weft_log_enter(before);
}

bool weft_recorder_is_given_up(const weft_recorder *recorder)
{
    return recorder && recorder->given_up;
}

void weft_recorder_stop(weft_recorder *recorder, uint64_t deadline_ns, uint64_t grace_ms)
{
    if (!recorder || !recorder->running)
        return;
    weft_session *session = recorder->publisher->session;
    pthread_mutex_lock(&session->lock);
    recorder->ending = true;
    recorder->retry_ns = recorder->anchor_ns = 0; /* what failed may go now */
    pthread_cond_signal(&recorder->wake);
    done_await(recorder, deadline_ns);
    recorder->broken = true;
    weft_session_changed(session); /* the thread may wait for a publish to be done with the shadow */
    weft_store_end(recorder->store);
    done_await(recorder, weft_clock_ns() + grace_ms * WEFT_NS_PER_MS);
    if (!recorder->done)
        give_up(recorder);
    pthread_mutex_unlock(&session->lock);
    if (recorder->given_up)
        pthread_detach(recorder->thread);
    else
        pthread_join(recorder->thread, NULL);
}
