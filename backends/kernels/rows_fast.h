/* rows_fast.h - rows for batches of level fast alone: the device gives the jobs their memory, and makes whole payloads.
 *
 * The memory of lists and frames is counted in quads of 16 bytes. A frame takes a quad for the header and those of the
 * payload. rows.h includes this file. */
#ifndef WEFT_BACKENDS_KERNELS_ROWS_FAST_H
#define WEFT_BACKENDS_KERNELS_ROWS_FAST_H

/* A job of level fast alone, an array of which is a batch. */
typedef struct weft_k_fast_job {
    weft_k_changes changes; /* by fast_lists: arrays and count; count 0: no memory this time, or none is needed */
    uint64_t ranks;         /* by fast_lists, as are the next two: as in weft_k_fast_count */
    uint64_t payload;       /* on the device */
    uint64_t copy;          /* the same on the host */
    uint64_t made;          /* weft_k_fast_made */
    uint64_t total;         /* u32: changes of the job */
    uint32_t place;         /* by fast_lists: the payload's first quad among the frames; 0 before */
    uint32_t room;          /* by fast_lists: bytes of the payload, at most */
    uint32_t changed_most;  /* a job with more changes gets no memory */
    uint32_t payload_most;  /* bytes of a payload that is worth a frame, at most */
} weft_k_fast_job;

/* fast_lists: one block gives memory to jobs that had none, in their order, for as long as there is memory. */
typedef struct weft_k_fast_lists {
    uint64_t jobs; /* weft_k_fast_job[count] */
    uint64_t lists;
    uint64_t payloads; /* of the frames on the device */
    uint64_t copies;   /* and on the host */
    uint32_t count;
    uint32_t list_quads, frame_quads;
    uint32_t unused;
} weft_k_fast_lists;

/* fast_frame: one block a row, which is a weft_k_fast_job, chooses parameters and leaves the payload on the host. */
typedef weft_k_fast_job weft_k_fast_frame;

/* What fast_frame says of a payload. */
typedef struct weft_k_fast_made {
    uint32_t place; /* as in the job; 0: nothing was made */
    uint32_t bytes; /* 0: the payload is not worth a frame */
    uint32_t exceptions;
    uint16_t gap_bits;
    uint8_t magnitude_bits;
    uint8_t still; /* 1: the bits of some change are equal, because the weights changed after diff had seen them */
} weft_k_fast_made;

#endif
