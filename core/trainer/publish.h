/* publish.h - from weights to a version: diff, encode, journal, shadow; and the trainer's side of bind. */
#ifndef WEFT_CORE_PUBLISH_H
#define WEFT_CORE_PUBLISH_H

#include "peer/peer.h"

/* Takes the memory that publishing needs besides the journal. */
weft_status weft_publish_open(weft_publisher *publisher);
void weft_publish_close(weft_publisher *publisher);

/* ---- eviction.c: room in the journal, whatever lags */
/* Gives something up, first what is cheapest to have again: levels beside the journal's own, merged updates, the oldest
 * version that nobody reads, at last the oldest that peers read, which are lost. False: there is nothing left. */
bool weft_eviction_give_up(weft_publisher *publisher);
/* Appends a block to a chain of publish's own, making room if need be; false: there is none to be had. */
bool weft_eviction_extend(weft_publisher *publisher, weft_chain *chain);
/* Whoever reads the update is lost, and joins again. Under the lock. */
void weft_eviction_of_readers(weft_peer_table *peers, const weft_update *update);
/* Makes a place in the journal's ring for one more update. Under the lock. */
void weft_eviction_make_place(weft_publisher *publisher);

/* ---- lag.c */
/* Time since the oldest version that it lacks was published; of unknown bits since it joined. 0: it lacks none. */
uint64_t weft_peer_lag_ns(weft_publisher *publisher, const weft_peer *peer);
/* Holds a peer to its max_lag: says once that it lags beyond, or loses it. */
void weft_lag_judge(weft_publisher *publisher, weft_peer *peer);

/* ---- trainer_limit.c */
/* Warns where max_peers may take more descriptors than the process may open. Errors: WEFT_E_SYSTEM,
 * the listed peers alone take more. */
weft_status weft_trainer_limit(const weft_outlets *outlets);

/* ---- eager.c: updates that go out while they are encoded */
/* Frames were handed on: lets out what `update` has so far, now and then, unless the lock is taken. Not under it. */
void weft_eager_show(weft_publisher *publisher, const weft_update *update);
/* The update is whole and in the journal. */
void weft_eager_seal(weft_publisher *publisher, const weft_update *update);
/* It will not be: whoever has some of it is told to drop that. Takes the update's frames. */
void weft_eager_withdraw(weft_publisher *publisher, weft_update *update);
/* Gives up what is left of a withdrawn update; with `read` those too who read it. False: there is none. */
bool weft_eager_give_up(weft_publisher *publisher, bool read);

/* ---- shadow.c */
/* Takes the memory for the shadow, where the site wants it. Errors: WEFT_E_CONFIG, WEFT_E_MEMORY. */
weft_status weft_shadow_open(weft_shadow *shadow, weft_session *session);
void weft_shadow_close(weft_shadow *shadow, weft_session *session);
/* The trainer's side of weft_bind, which takes the binding over, after an error too: the first copies the weights into
 * the shadow, and peers may join. */
weft_status weft_shadow_bind(weft_publisher *publisher, weft_binding *fresh, const void *attachment,
                             uint64_t attachment_bytes);
/* Brings the shadow, which is busy, to the update's target. `*torn`: it is another one, for the weights changed
 * meanwhile, and trainer->discard tells how the digests moved instead of by trainer->delta. */
weft_status weft_shadow_update(weft_publisher *publisher, const weft_update *update, bool *torn);

/* ---- trainer_step.c */
/* One step of the progress thread, or of the caller; without `work` it only keeps connections alive. */
void weft_trainer_step(weft_session *session, bool work, weft_waits *waits);

#endif
