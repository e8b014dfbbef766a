/* course.h - the course of the version that a rollout gets next, as a table of states and events.
 *
 *   receiving -- OFFER --> weighed -- put to the caller --> offered -- ACCEPT --> accepted -- UPDATE --> snapshot
 *    |    ^                   `------ REPAIR --> repair -- UPDATE --> receiving                             |
 *    |    +-- SETTLED, UNDONE -- committing <-- COMMIT -- staged <------------- WHOLE ----------------------+
 *    |                             `-------- RETURNED -----^
 *    `---------------------------- WHOLE -------------------^
 *
 * `weft_course_move` alone writes course->state. A lost connection leads to `receiving`, but for a version that is
 * proved: the caller may still commit that. */
#ifndef WEFT_CORE_COURSE_H
#define WEFT_CORE_COURSE_H

#include <stdbool.h>
#include <stdint.h>

#include "weft.h"

typedef enum weft_course_state {
    WEFT_COURSE_RECEIVING, /* updates of the journal come, or none */
    WEFT_COURSE_WEIGHED,   /* a snapshot is offered, and the search looks first for a way around it */
    WEFT_COURSE_OFFERED,   /* the offer waits for the caller's commit */
    WEFT_COURSE_ACCEPTED,  /* ACCEPT is on its way, and the snapshot has not begun */
    WEFT_COURSE_SNAPSHOT,  /* the snapshot is being received */
    WEFT_COURSE_REPAIR,    /* REPAIR is on its way, and nothing came since */
    WEFT_COURSE_STAGED,    /* a version is whole and proved */
    WEFT_COURSE_COMMITTING /* the caller moves the weights, or has still to keep or undo that; nothing here may read
                              them */
} weft_course_state;
#define WEFT_COURSE_STATES 8u

typedef enum weft_course_event {
    WEFT_COURSE_ON_UPDATE,   /* an update of the journal, or a repair, is announced */
    WEFT_COURSE_ON_SNAPSHOT, /* a snapshot is announced */
    WEFT_COURSE_ON_OFFER,    /* the trainer offers a snapshot */
    WEFT_COURSE_ON_PUT,      /* the offer is put to the caller, because there is no way around it */
    WEFT_COURSE_ON_ACCEPT,   /* the offer is accepted */
    WEFT_COURSE_ON_REPAIR,   /* a repair is asked for instead */
    WEFT_COURSE_ON_WHOLE,    /* a version is whole and proved */
    WEFT_COURSE_ON_COMMIT,   /* the caller commits */
    WEFT_COURSE_ON_SETTLED,  /* the weights are the new version */
    WEFT_COURSE_ON_UNDONE,   /* the weights are what they were, or of no version */
    WEFT_COURSE_ON_RETURNED, /* the weights are what they were, and the version may be committed again */
    WEFT_COURSE_ON_LOST,     /* the connection is gone */
    WEFT_COURSE_EVENTS
} weft_course_event;

typedef struct weft_course {
    weft_course_state state; /* written by weft_course_move only */
    weft_version offer;      /* version of the offer that came last */
    weft_status failed;      /* reason why a snapshot into the weights broke off; WEFT_OK: none */
} weft_course;

/* Returns where `event` leads from `state`; UINT32_MAX: the event cannot happen there. */
uint32_t weft_course_after(weft_course_state state, weft_course_event event);
/* Returns the name of an event ("a snapshot offered", ...) or of a state; static. */
const char *weft_course_event_name(weft_course_event event);
const char *weft_course_state_name(weft_course_state state);

/* Moves the course. Errors: WEFT_E_PROTOCOL, with the names, when the event cannot happen in its state: a message out
 * of turn, or a fault of this program. The course stays where it is, and the connection is to be lost. */
weft_status weft_course_move(weft_course *course, weft_course_event event);

/* Returns true if a version is whole and proved: staged, or being committed. */
bool weft_course_is_proved(const weft_course *course);
/* Returns true if a snapshot was accepted and is not whole. */
bool weft_course_takes_snapshot(const weft_course *course);

/* Returns how often this process took an event in a state, allowed or not: tests hold schedules to the whole table. */
uint64_t weft_course_moves(weft_course_state state, weft_course_event event);

#endif
