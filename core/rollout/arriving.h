/* arriving.h - updates on their way to the rollout, from the first bucket to the commit.
 *
 * One update is received and decoded at a time. While one is staged the next waits in its slots. */
#ifndef WEFT_CORE_ARRIVING_H
#define WEFT_CORE_ARRIVING_H

#include "codec/planes.h"
#include "encode/proof.h"
#include "encode/sizes.h"
#include "encode/staging.h"
#include "journal/journal.h"
#include "rollout/course.h"
#include "session/session.h"
#include "wire/wire.h"

/* An update on its way: its header, and its trailer once that came. */
typedef struct weft_incoming {
    weft_wire_update header;
    weft_wire_trailer trailer;
    bool has_trailer;
    bool withdrawn; /* as the trailer says: it comes to nothing */
} weft_incoming;

/* A bucket copied out of its slot and checked: nobody else can write it. */
typedef struct weft_taken {
    uint8_t *memory;                /* in the memory of weft_kept */
    uint64_t capacity, bytes, used; /* used: decoded so far */
    bool delta;                     /* of a snapshot: frames with a base, for tiles already there */
    bool unpacked;                  /* the frame admitted last stands in the unpacker */
} weft_taken;

/* Frames of the update that is received, back to back as they came. If its change lists exceed staging, the update is
 * *encoded*: its lists were dropped after their proof, and the commit decodes the frames again. */
typedef struct weft_kept {
    uint8_t *memory;   /* frames, and room for one bucket after `capacity` */
    uint64_t capacity; /* bytes of frames; 0: no update is kept */
    uint64_t bytes;    /* bytes kept so far */
    bool broken;       /* a frame is missing here, or has no opposite: the update needs change lists */
    bool encoded;      /* change lists were dropped */
    uint64_t *again;   /* sums of the digests' changes at commit, one for each part */
} weft_kept;

/* Parts received of the first queued update. */
typedef struct weft_receipt_book {
    uint64_t buckets, frames, frame_bytes, changed;
    uint64_t bytes; /* headers and trailer too */
    uint64_t attachment_got;
    uint64_t next_unit; /* first unit that has not come, or cannot come any more */
    bool proved;        /* all of it came and leads to the target */
    uint64_t verified;  /* [commit] verify = full: units of the weights found to be what is held */
    uint64_t begun_ns, whole_ns, decode_ns;
} weft_receipt_book;

/* Updates that were announced, in their order, and the one that is received. receive.c and stage.c own it. */
typedef struct weft_arriving {
    weft_incoming queue[WEFT_UPDATES_AHEAD];
    uint32_t queued;
    weft_taken taken;
    weft_kept kept;
    weft_receipt_book book;
    weft_blob *attachment;
    weft_version
        given_up;      /* version that was staged last and given up, or named anew, before its commit; run 0: none */
    weft_version over; /* target of the update that the last step found withdrawn; run 0: none */
} weft_arriving;

/* The version that is decoded and proved, and its way into the weights. stage.c owns it. */
typedef struct weft_stage {
    uint64_t *digests;    /* digests of the version being staged, one for each part */
    weft_pipeline window; /* jobs of decoding and storing, begun in the steps */
    weft_staging staging;
    weft_unpacker unpacker;
    weft_proof proof;       /* proof of a snapshot's tiles */
    weft_receipt_book last; /* book of the version committed last */
    const char *level;      /* level of that version; "" before the first */
    double change_ns;       /* time that a change took at that commit; 0: nothing was measured */
    bool into_image;        /* [commit] snapshot = staged */
    uint8_t *image;
    weft_binding image_binding;
    void *stream;          /* stream of the caller, of the commit under way */
    bool held_back;        /* WEFT_COMMIT_HOLD: the weights are moved, and the caller is to keep or undo that */
    bool queued;           /* WEFT_COMMIT_QUEUE: the device moves or moved them, in a time that is not known */
    bool held_long;        /* that it takes long was told */
    uint64_t held_back_ns; /* time when the weights were moved */
    uint64_t held_moving;  /* time in ns that it took */
} weft_stage;

typedef struct weft_current weft_current;

/* ---- ask.c */
/* Puts the trainer's offer to the caller, or accepts at once a snapshot that goes into the image. */
weft_status weft_ask_offered(weft_rollout *rollout);
/* Sends a message that UPDATE or OFFER is to answer in its time, and moves the course by `event`. */
weft_status weft_ask_send(weft_rollout *rollout, weft_course_event event, weft_message type, const weft_out *body);

/* ---- stage.c */
/* The stage's next act. The caller hands a hungry stage the next bucket (weft_receive_take). */
typedef enum weft_stage_state {
    WEFT_STAGE_IDLE,     /* no update came, or one is proved and waits for its commit */
    WEFT_STAGE_HUNGRY,   /* the bucket that was taken is used up, and the update has more */
    WEFT_STAGE_DECODING, /* frames of the bucket are left */
    WEFT_STAGE_WHOLE,    /* all came: what is left is the proof */
} weft_stage_state;
weft_stage_state weft_stage_at(const weft_rollout *rollout);
/* Decodes the bucket that was taken, or proves the update. WEFT_AGAIN: there is nothing to do now. */
weft_status weft_stage_step(weft_rollout *rollout);
/* Moves the weights to the staged version, outside the lock. After WEFT_E_DEVICE the weights are of no version. */
weft_status weft_stage_commit(weft_rollout *rollout);
/* Moves the weights back from a version that weft_stage_commit moved them to. Errors: WEFT_E_DEVICE. */
weft_status weft_stage_undo(weft_rollout *rollout);
/* Says that the weights of a list are not those that the version was staged on: WEFT_E_BASE. */
weft_status weft_stage_altered(weft_rollout *rollout, const weft_changes *changes);
/* Moves the weights by the lists in staging, all or none. Errors: WEFT_E_BASE (a weight changed meanwhile; undone),
 * WEFT_E_DEVICE. */
weft_status weft_stage_apply(weft_rollout *rollout);
/* Ends the commit of the first queued update: moves version and digests, and reports HELD to the trainer. */
void weft_stage_settle(weft_rollout *rollout, uint64_t commit_ns);
/* Starts afresh with the first queued update. */
void weft_stage_clear(weft_rollout *rollout);
/* Gives up what is staged, if anything, and what comes after it: the weights stay as they are. */
void weft_stage_give_up(weft_rollout *rollout);
/* Decodes or stores frames of the bucket that was taken: one frame, or some windows full. */
weft_status weft_stage_frames(weft_rollout *rollout);
/* Returns the binding that a snapshot goes into: the weights, or the image. */
const weft_binding *weft_stage_target(const weft_current *current, const weft_stage *stage);

/* Takes a list for the changes of a frame. NULL: staging is full. */
weft_changes *weft_stage_list(const weft_layout *layout, weft_stage *stage, const weft_frame_header *frame);

/* ---- stage_encoded.c */
/* Returns the bytes of frames that a rollout keeps beside so much staging. 0: staging does not hold the changes of each
 * possible frame, and without that no frame can be decoded again; or, with auto, staging holds every update. */
uint64_t weft_stage_encoded_bytes(const weft_layout *layout, uint64_t given, uint64_t staging);
/* Notes a frame of the update at hand: one without an opposite cannot be kept encoded. */
void weft_stage_kept_note(weft_kept *kept, const weft_frame_header *frame);
/* Moves the weights to an encoded version. Errors: WEFT_E_BASE (weights changed meanwhile; undone), WEFT_E_DEVICE. */
weft_status weft_stage_commit_encoded(weft_rollout *rollout);
/* Moves the weights back from an encoded version. Errors: WEFT_E_DEVICE. */
weft_status weft_stage_undo_encoded(weft_rollout *rollout);

#endif
