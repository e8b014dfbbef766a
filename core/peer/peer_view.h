/* peer_view.h - the views that peers take: keys of the model, and the root of each version over these keys alone.
 *
 * A trainer encodes once for all. To a peer with a view every root is the view's, and the peer is sent the frames of
 * its keys. Peers with the same keys share one record. The publisher owns the records. A record that no peer takes is
 * kept until its place is needed, because a peer that was lost comes back. A peer without a view takes all of the
 * model, and functions here take NULL for that. */
#ifndef WEFT_CORE_PEER_VIEW_H
#define WEFT_CORE_PEER_VIEW_H

#include <stdatomic.h>

#include "bucket/bucket.h"
#include "journal/history.h"
#include "peer/peer_state.h"
#include "session/session.h"
#include "wire/wire.h"

#define WEFT_PEER_VIEWS   64u /* different views of one trainer's peers, at most */
#define WEFT_VIEW_COUNTED 4u  /* chains of which a view remembers what it needs */
#define WEFT_VIEW_NAMES   256u

/* What a view needs of a chain, as far as the chain was there. */
typedef struct weft_view_need {
    uint32_t first;        /* first block of the chain */
    uint32_t first_frame;  /* and the frame in it that the chain begins with */
    uint64_t given_back;   /* chains that the arena had got back: another number means that the chain may be another */
    weft_cursor cursor;    /* place after the frames that were counted */
    uint64_t staged_bytes; /* bytes of staging that the frames before the cursor take, as change lists */
    uint64_t frame_bytes;  /* bytes of these frames */
} weft_view_need;

typedef struct weft_peer_view {
    weft_excerpt excerpt;
    uint32_t peers;                           /* peers that take it */
    uint64_t oldest, newest;                  /* orders of the versions whose roots are known */
    uint64_t roots[WEFT_JOURNAL_UPDATES + 1]; /* by order, modulo */
    weft_view_need needs[WEFT_VIEW_COUNTED];  /* the latest counts */
    uint32_t next_need;
} weft_peer_view;

/* A name that asked for a view which nobody had. */
typedef struct weft_view_asked {
    uint64_t name;     /* xxh3-64 */
    uint64_t until_ns; /* until then it has no other one */
    bool came;         /* it had one before */
} weft_view_asked;

typedef struct weft_peer_views {
    weft_peer_view *list[WEFT_PEER_VIEWS];
    weft_view_asked asked[WEFT_VIEW_NAMES]; /* the latest */
    uint32_t next_asked;
} weft_peer_views;

void weft_peer_views_close(weft_peer_views *views);
/* Finds or makes the record for the keys of a HELLO. *view receives NULL if these are all keys.
 *
 * The roots of past versions are computed as far as journal and history reach. Weights are bound. Errors: WEFT_E_LAYOUT
 * (the trainer's model is not cut, or has no such keys), WEFT_E_REFUSED (too many views), WEFT_E_MEMORY. */
weft_status weft_peer_view_find(weft_publisher *publisher, const weft_wire_hello *hello, weft_peer_view **view);
/* Returns true if the name of a HELLO brought another new view a short time ago; else notes that it brings one now, if
 * the view is new. A name may bring no more, because computing the roots of a view takes long under the lock. */
bool weft_peer_view_hurries(weft_peer_views *views, const weft_wire_hello *hello);
/* Notes how long the view that a name brought took to be made. */
void weft_peer_view_took(weft_peer_views *views, const char *name, uint64_t took_ns);
/* Lets the peer take a view, in place of the view that the peer took before. NULL: none. */
void weft_peer_view_take(weft_peer *peer, weft_peer_view *view);
/* Computes all views' roots of the newest version, which is new, or was amended. */
void weft_peer_views_note(weft_publisher *publisher);

/* Returns the layout of a view, or the trainer's. */
const weft_layout *weft_peer_view_layout(const weft_peer_view *view, const weft_session *session);
/* Names a version as peers of the view know it. `order` is the version's; of unknown bits the root stays. */
weft_version weft_peer_view_version(const weft_peer_view *view, const weft_version *version, uint64_t order);
/* Moves a chain's cursor to the next frame of the view, below `limit`. Returns the unit at which what follows in a row
 * ends: the frames up to there are all the view's. */
uint64_t weft_peer_view_seek(const weft_peer_view *view, const weft_arena *arena, weft_cursor *cursor, uint64_t limit);
/* Returns the bytes of the peer's staging that the update takes at that level, as change lists. */
uint64_t weft_peer_view_lists(const weft_peer *peer, const weft_arena *arena, const weft_update *update,
                              weft_level level);
/* Tells whether the staging of a peer can hold the update at that level: as change lists, or encoded, which level fast
 * alone can be, because its frames are steps. */
bool weft_peer_view_stages(const weft_peer *peer, const weft_arena *arena, const weft_update *update, weft_level level);
/* Returns the share of the model's bytes that a view takes, from 0 to 1. */
double weft_peer_view_share(const weft_peer_view *view, const weft_session *session);
/* Counts the changes in the next `frames` frames from a cursor on. */
uint64_t weft_peer_view_changed(const weft_arena *arena, weft_cursor cursor, uint32_t frames);

#endif
