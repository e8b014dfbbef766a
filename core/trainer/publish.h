/* publish.h - the way from weights to a version: diff, encode, journal, shadow; and the trainer's side of weft_bind. */
#ifndef WEFT_CORE_PUBLISH_H
#define WEFT_CORE_PUBLISH_H

#include "peer/peer.h"

/* Takes the memory that publishing needs besides the journal: for digests, encoder and shadow. */
weft_status weft_publish_open(weft_publisher *publisher);
void weft_publish_close(weft_publisher *publisher);
weft_mem_list weft_publish_digests(weft_publisher *publisher, const weft_layout *layout);

/* ---- buffers.c: registered memory beside the journal */
weft_status weft_trainer_buffers_open(weft_buffers *buffers, const weft_session *session);
void weft_trainer_buffers_close(weft_buffers *buffers);
/* Returns the bytes that these take, with a journal of so many bytes. */
uint64_t weft_trainer_buffers_need(const weft_site *site, const weft_layout *layout, uint64_t journal_bytes);
/* Returns how many slabs are in the pool, with a journal of so many bytes. */
uint32_t weft_trainer_slabs(const weft_layout *layout, uint64_t journal_bytes);

/* ---- resume.c */
/* Fills the journal and the history from the recorder's store. The shadow has the bound weights before and after. An
 * error of the store, or a lack of room, is told, and leaves the journal empty. Not under the lock, before anybody
 * looks at journal or shadow. Errors: WEFT_E_DEVICE, because the shadow is lost. */
weft_status weft_resume(weft_publisher *publisher, const weft_version *bound, weft_blob *attachment);

/* ---- eviction.c: room in the journal, whatever lags */
/* Gives something up, first what is cheapest to have again: levels beside the journal's own, merged updates, the oldest
 * version that nobody reads, at last the oldest that peers read. Those peers are lost. Returns false if nothing is
 * left. */
bool weft_eviction_give_up(weft_publisher *publisher);
/* Appends a block to a chain of publish's own, and gives up what that needs. Returns false if there is no room to be
 * had. */
bool weft_eviction_extend(weft_publisher *publisher, weft_chain *chain);
/* Loses the peers that read the update; they join again. Under the lock. */
void weft_eviction_of_readers(weft_peer_table *peers, const weft_update *update);
/* Makes a place in the journal's ring for one more update. Under the lock. */
void weft_eviction_make_place(weft_publisher *publisher);

/* ---- lag.c */
/* Returns the time since the oldest version that the peer lacks was published. For unknown bits that is the time since
 * the peer joined. 0: the peer lacks none. */
uint64_t weft_peer_lag_ns(weft_journal *journal, const weft_newest *newest, const weft_peer *peer);
/* Holds a peer to its max_lag: reports once that the peer lags beyond that, or loses the peer, as the site has it. */
void weft_lag_judge(weft_publisher *publisher, weft_peer *peer);

/* ---- trainer_step.c: places for guests, which are records of peers */
extern const weft_door_places weft_trainer_places;

/* ---- trainer_limit.c */
/* Warns if max_peers may take more descriptors than the process may open. Errors: WEFT_E_SYSTEM, because the listed
 * peers alone take more. */
weft_status weft_trainer_limit(const weft_outlets *outlets);

/* ---- append.c: the frames of an update, on their way into the journal */
/* Blocks that a level's frames take, whether the journal has them or not. */
typedef struct weft_append_blocks {
    uint64_t blocks, left; /* left: bytes free in the last block */
} weft_append_blocks;

typedef struct weft_append {
    weft_publisher *publisher;
    weft_update *update;
    const weft_publish_options *given;
    bool free; /* the caller was told that the weights are */
    weft_append_blocks count[WEFT_LEVEL_COUNT];
} weft_append;

/* Takes the frames of a pass. */
void weft_append_take(weft_append *append, weft_encode_pass *pass);
/* Returns the bytes of blocks that the frames take. */
uint64_t weft_append_need(const weft_append *append);
/* Tells the caller of weft_publish, once, that nobody reads the weights any more. */
void weft_append_weights_free(weft_append *append);

/* ---- eager.c: updates that go out while they are encoded */
/* Lets out what `update` has so far, now and then, after frames were handed on. Does nothing if the lock is taken. Not
 * under the lock. */
void weft_eager_show(weft_publisher *publisher, const weft_update *update);
/* Ends the eager update, because it is whole and in the journal. */
void weft_eager_seal(weft_publisher *publisher, const weft_update *update);
/* Takes the eager update back, with its frames, because it comes to nothing. Peers that have some of it drop that. */
void weft_eager_withdraw(weft_publisher *publisher, weft_update *update);
/* Gives up what is left of a withdrawn update; with `read` also its readers. Returns false if nothing is left. */
bool weft_eager_give_up(weft_publisher *publisher, bool read);

/* ---- shadow.c */
/* Settles what `auto` comes to for the shadow, as if the site had said so. */
void weft_shadow_settle(weft_session *session);
/* Returns the bytes of change lists that a shadow has beside it, where the backend works on it. */
uint64_t weft_shadow_lists(const weft_layout *layout, const weft_backend *backend);
/* Takes the memory for the shadow, as the site wants it. Errors: WEFT_E_CONFIG, WEFT_E_MEMORY. */
weft_status weft_shadow_open(weft_shadow *shadow, weft_session *session);
void weft_shadow_close(weft_shadow *shadow, weft_session *session);
/* Binds weights for the trainer. Takes the binding over, after an error too. The first binding copies the weights into
 * the shadow, and from then on peers may join. A later one takes the addresses alone. */
weft_status weft_shadow_bind(weft_publisher *publisher, weft_binding *fresh, const void *attachment,
                             uint64_t attachment_bytes);
/* Lets go of the weights. What was published is in the shadow, so that peers are served as before. */
weft_status weft_shadow_unbind(weft_publisher *publisher);
/* Copies the bound weights into the shadow. */
weft_status weft_shadow_copy(weft_publisher *publisher);

/* ---- shadow_update.c */
/* Returns how many words have a bit for each unit. */
static inline uint64_t weft_shadow_words(const weft_layout *layout)
{
    return layout->unit_count / 64 + 1;
}
/* Notes that the backend moves the shadow on by the frame that begins at `unit` and stands in the update's chain. The
 * first one makes the shadow busy. Not under the lock. */
void weft_shadow_takes(weft_publisher *publisher, uint64_t unit);
/* Takes back what moved, because the publish ends with `why`. Not under the lock. Returns `why`; WEFT_E_DEVICE if the
 * shadow is lost. */
weft_status weft_shadow_return(weft_publisher *publisher, const weft_update *update, weft_status why);
/* Brings the shadow, which is busy, to the update's target. `free`: the weights may have other bits by now and are not
 * read. `*torn`: the weights changed meanwhile, so the shadow has other bits. Then encoding.discard says how the
 * digests moved, in place of encoding.delta. Errors: WEFT_E_DEVICE, because the shadow is lost. */
weft_status weft_shadow_update(weft_publisher *publisher, const weft_update *update, bool free, bool *torn);

/* Brings the shadow on by an update's frames, and counts in encoding.discard how the digests move. */
weft_status weft_shadow_follow(weft_publisher *publisher, const weft_chain *chain);
/* Copies the bound weights into the shadow again, and digests them. */
weft_status weft_shadow_again(weft_publisher *publisher);

/* ---- trainer_step.c */
/* Takes one step of the progress thread, or of the caller. Without `work` the step only keeps connections alive. */
void weft_trainer_step(weft_session *session, bool work, weft_waits *waits);

#endif
