/* encode.h - a whole pass of diff and encode over two bindings: run by run, in as many lanes as asked for, the frames
 * handed on in the order of their units. The bytes do not depend on the lanes.
 *
 * Where the backend takes several jobs at once there is one lane, whose runs are with the backend together. */
#ifndef WEFT_CORE_ENCODE_H
#define WEFT_CORE_ENCODE_H

#include "base/lanes.h"
#include "encode/pipeline.h"

/* With a backend that takes several jobs at once: frames of the largest size that there is room for at each level. */
#define WEFT_ENCODE_PLACES 128u

/* Takes a frame; called in the order of the units at each level, from one lane at a time. The frame stays until the
 * call returns, or until `settle` does where there is one. */
typedef weft_status (*weft_frame_emit)(void *user, weft_level level, const uint8_t *frame, uint32_t bytes);

/* One pass of encoding: both ends, the levels, and who takes the frames. */
typedef struct weft_encode_pass {
    const weft_binding *now, *shadow; /* of one layout */
    const weft_parameters *parameters;
    uint32_t levels; /* mask of 1 << weft_level */
    uint64_t *delta; /* one word per part of the layout: digest(now) - digest(shadow) is added */
    weft_frame_emit emit;
    void *user;
    void *stream;      /* the caller's, on which `now` was written */
    bool behind;       /* the choice of the parameters waited for that in the same call */
    uint64_t *digests; /* NULL, or one word per part: digest(shadow) is added; only with backends of depth 1 */
    /* NULL, or told in turn up to which unit all is handed on; another status than WEFT_OK ends the pass. */
    weft_status (*moved)(void *user, uint64_t unit);
    /* NULL, or told when `now` was read for the last time, and the pass may still end with an error. `follows`: the
     * shadow has all of the pass once it has followed. */
    void (*read)(void *user, bool follows);
    /* NULL, or told that the frames handed on so far go from where they are; only with backends of another depth
     * than 1. Also told after an error. */
    void (*settle)(void *user);
    /* NULL, or asked for a run whose frame was handed on and whose shadow the backend can move on: true if it shall.
     * The shadow has moved when the pass ends, also with an error. WEFT_E_DEVICE: no one knows. */
    bool (*follow)(void *user, uint64_t unit);
    uint64_t changed;          /* out: elements */
    double diff_ms, encode_ms; /* out: of all lanes, divided by their number */
} weft_encode_pass;

typedef struct weft_encoder {
    const weft_backend *backend;
    const weft_layout *layout;
    weft_lanes lanes;
    struct weft_encode_lane *own;      /* one per lane */
    struct weft_encode_frames *frames; /* one per place of the lanes */
    struct weft_encode_batch *batch;   /* NULL: the backend's depth is 1 */
    weft_pipeline *windows;            /* one per lane, for surveys; the batch's runs are in the first */
    weft_survey *surveys;              /* one per lane */
    double density;                    /* part of the elements that the last choice saw changed; 0: none was made */
    weft_encode_pass *pass;
} weft_encoder;

/* Takes the memory of all lanes; lane 0 works with `device`, the others open their own with `options`.
 * Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM, and those of the backend's open. */
weft_status weft_encoder_open(weft_encoder *encoder, const weft_backend *backend, const weft_backend_options *options,
                              weft_backend_state *device, const weft_layout *layout, uint32_t lanes);
void weft_encoder_close(weft_encoder *encoder);
/* Bytes that it takes with a backend of so much depth, if all of them were touched. */
uint64_t weft_encoder_need(const weft_layout *layout, uint32_t lanes, uint32_t depth);

/* Chooses the parameters of an update at `levels` (a mask) from a sample of the two bindings. */
weft_status weft_encoder_choose(weft_encoder *encoder, const weft_binding *now, const weft_binding *shadow,
                                uint32_t levels, weft_parameters *parameters);
/* The same for a pass that is to be run with them; its `moved` is told unit 0 now and then, on the calling thread, and
 * may end the choice. */
weft_status weft_encoder_choose_for(weft_encoder *encoder, const weft_encode_pass *pass, weft_parameters *parameters);

/* Memory for a frame of any run, which is idle while no pass is under way. */
uint8_t *weft_encoder_scratch(const weft_encoder *encoder);

/* Runs a pass; on an error nothing is known of `delta`. */
weft_status weft_encoder_run(weft_encoder *encoder, weft_encode_pass *pass);
/* Encodes one run on the calling thread, for passes whose weights come about run by run; `pass` sums up. Only with
 * backends of depth 1. */
weft_status weft_encoder_one(weft_encoder *encoder, weft_encode_pass *pass, uint64_t unit, uint32_t units);

/* ---- between encode.c and encode_batch.c */
/* Clears the digest moves of these units, because they are counted anew. */
void weft_encode_delta_clear(const weft_layout *layout, uint64_t *delta, uint64_t unit, uint32_t units);
weft_status weft_encode_batch_open(weft_encoder *encoder);
uint64_t weft_encode_batch_need(const weft_layout *layout, uint32_t depth);
void weft_encode_batch_close(weft_encoder *encoder);
weft_status weft_encode_batch_run(weft_encoder *encoder, weft_encode_pass *pass);

#endif
