/* session.h - what each driver of the harness does with sessions: opens them, asks them, steps them.
 *
 * A call that cannot go on ends the program by fleet_fail, which the user of the harness defines: a test fails, a
 * measurement exits. */
#ifndef WEFT_HARNESS_SESSION_H
#define WEFT_HARNESS_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft.h"

/* Defined by the user of the harness. */
_Noreturn void fleet_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fails unless `status` is WEFT_OK. */
void fleet_need(weft_status status, const char *what);

/* Loads a site from text, with overrides, by a file that is gone afterwards. */
weft_site *fleet_site_load(const char *text, const char *const *overrides, size_t count);
/* Opens a trainer, which gets options that may be NULL; `listen` gets its address. */
weft_session *fleet_trainer_open(const weft_site *site, const weft_layout *layout, const weft_options *options,
                                 char listen[64]);
weft_session *fleet_rollout_open(const weft_site *site, const char *name, const weft_layout *layout,
                                 const weft_options *options);

weft_stats_info fleet_stats(weft_session *session);
/* All zero: none. */
weft_version fleet_held(weft_session *session);
/* The trainer's line for a peer; false: never seen. */
bool fleet_find(weft_session *trainer, const char *name, weft_peer_info *info);
/* Takes one step of a session without a thread, and drops its events. */
void fleet_step(weft_session *session);
/* Commits what is staged now; WEFT_AGAIN: nothing is. */
weft_status fleet_take(weft_session *rollout);

#endif
