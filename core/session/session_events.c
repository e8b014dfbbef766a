/* session_events.c - what a session tells its caller: log lines, events, figures. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "session/session.h"

/* Lines of a session with a log callback wait in a ring until the caller's own weft_events or weft_progress. */
void weft_session_line(weft_log_sink *sink, weft_log_level level, const char *line)
{
    weft_session *session = (weft_session *)((char *)sink - offsetof(weft_session, sink));
    if (atomic_load(&session->retired))
        return;
    if (!session->own_log) {
        weft_log_print_level(level, line);
        return;
    }
    pthread_mutex_lock(&session->log_lock);
    if (session->lines_end - session->lines_begin < WEFT_LOG_LINES) {
        uint64_t at = session->lines_end++ % WEFT_LOG_LINES;
        snprintf(session->lines[at], WEFT_LOG_KEPT, "%s", line);
        session->line_levels[at] = level;
    } else {
        session->lines_lost++;
    }
    pthread_mutex_unlock(&session->log_lock);
}

void weft_session_hand_out(weft_session *session)
{
    char line[WEFT_LOG_KEPT];
    for (;;) {
        pthread_mutex_lock(&session->log_lock);
        bool any = session->lines_begin < session->lines_end;
        uint64_t at = session->lines_begin % WEFT_LOG_LINES;
        weft_log_level level = session->line_levels[at];
        if (any) {
            memcpy(line, session->lines[at], sizeof line);
            session->lines_begin++;
        }
        pthread_mutex_unlock(&session->log_lock);
        if (!any)
            return;
        session->options.log(session->options.log_user, level, line);
    }
}

void weft_session_event(weft_session *session, weft_event_kind kind, weft_status status, const char *peer,
                        const weft_version *version, const char *text)
{
    if (session->events_end - session->events_begin == WEFT_EVENTS) {
        session->stats.events_lost++;
        return;
    }
    weft_event *event = &session->events[session->events_end++ % WEFT_EVENTS];
    memset(event, 0, sizeof *event);
    event->kind = kind;
    event->status = status;
    if (version)
        event->version = *version;
    snprintf(event->peer, sizeof event->peer, "%s", peer);
    snprintf(event->text, sizeof event->text, "%s", text);
}

weft_status weft_events(weft_session *session, weft_event *event)
{
    if (!event)
        return weft_fail(WEFT_E_ARGUMENT, "weft_events: event must not be NULL");
    weft_status status = weft_size_check(event, "weft_event");
    if (status != WEFT_OK)
        return status;
    status = weft_turn_join(&session->turn, WEFT_TURN_EVENTS);
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = WEFT_AGAIN;
    if (session->events_begin < session->events_end) {
        weft_event *all = &session->events[session->events_begin++ % WEFT_EVENTS];
        all->size = event->size < sizeof *all ? event->size : sizeof *all;
        memcpy(event, all, all->size);
        status = WEFT_OK;
    }
    weft_session_leave(session, before);
    if (session->own_log)
        weft_session_hand_out(session);
    weft_turn_leave(&session->turn, WEFT_TURN_EVENTS);
    return status;
}

static weft_status step_by_hand(weft_session *session, uint32_t deadline_ms)
{
    weft_status status = weft_turn_begin(&session->turn, WEFT_TURN_STEPS, "weft_progress");
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    if (session->step)
        weft_session_step_once(session, weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS);
    weft_session_leave(session, before);
    weft_turn_end(&session->turn, WEFT_TURN_STEPS);
    return WEFT_OK;
}

weft_status weft_progress(weft_session *session, uint32_t deadline_ms)
{
    weft_status status = weft_turn_join(&session->turn, WEFT_TURN_PROGRESS);
    if (status != WEFT_OK)
        return status;
    if (session->site->session.progress == WEFT_PROGRESS_MANUAL)
        status = step_by_hand(session, deadline_ms);
    if (status == WEFT_OK && session->own_log)
        weft_session_hand_out(session);
    weft_turn_leave(&session->turn, WEFT_TURN_PROGRESS);
    return status;
}

weft_status weft_stats(weft_session *session, weft_stats_info *stats)
{
    if (!stats)
        return weft_fail(WEFT_E_ARGUMENT, "weft_stats: stats must not be NULL");
    weft_status status = weft_size_check(stats, "weft_stats_info");
    if (status == WEFT_OK)
        status = weft_turn_here(&session->turn, "weft_stats");
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    weft_stats_info all = session->stats;
    size_t size = stats->size < sizeof all ? stats->size : sizeof all;
    session->figures(session, &all);
    all.allocations = weft_mem_allocations() - session->allocations_before;
    snprintf(all.backend, sizeof all.backend, "%s", session->backend_name);
    pthread_mutex_lock(&session->log_lock);
    all.events_lost += session->lines_lost;
    pthread_mutex_unlock(&session->log_lock);
    memcpy(stats, &all, size);
    stats->size = size;
    weft_session_leave(session, before);
    return WEFT_OK;
}
