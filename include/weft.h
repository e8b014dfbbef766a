/* weft.h - the only public header of weft (WEight Fabric Transport).
 *
 * One trainer keeps a fleet of rollouts bit-identical with itself by sending only the weights that changed.
 *
 *   trainer                                   rollout
 *     weft_site_load                            weft_site_load
 *     weft_trainer_open                         weft_rollout_open
 *     weft_bind        (copies the shadow)      weft_bind        (starts to join)
 *     loop:                                     loop:
 *       optimizer step                            generate tokens ...        (weft receives meanwhile)
 *       weft_publish(v)                           weft_staged -> weft_commit (between two decode steps)
 *     weft_wait, weft_close                     weft_close
 *
 * Conventions, unless a function says otherwise:
 *   - Every call returns a weft_status. Out-parameters are written only on WEFT_OK.
 *   - One thread at a time uses a session. Five calls are free of this rule, between open and close: weft_held,
 *     weft_stats, weft_peers, weft_interrupt and weft_last_error.
 *   - A call that collides with a running call does nothing and returns WEFT_E_STATE. The text names the running call.
 *     weft_bind, weft_unbind, weft_publish, weft_commit, weft_settle, weft_scrub and weft_close collide with each
 *     other. With manual progress weft_wait, weft_staged, weft_progress and weft_commit collide too. weft_close
 *     collides with every call but the five.
 *   - A session belongs to the process that opened it. In a forked child every call returns WEFT_E_STATE at once and
 *     does nothing. The parent's session goes on.
 *   - Sizes are bytes in uint64_t. Times are milliseconds.
 *   - `void *stream` is the caller's device stream. NULL is the default stream, and the host backend ignores the
 *     parameter. A stream that is being captured into a graph is WEFT_E_ARGUMENT.
 *   - Structs that begin with `size` can grow. The caller sets `size` to sizeof(the struct), and weft leaves out the
 *     fields for which the caller has no room. On return `size` is the number of bytes written. In an array the first
 *     entry's `size` counts for all. A `size` of 0 is WEFT_E_ARGUMENT, because the caller forgot it.
 *   - Structs without `size` never grow.
 *   - Pointers must not be NULL. Each function names the pointers that may be NULL, or that return WEFT_E_ARGUMENT.
 *   - Strings are UTF-8. A returned const char * lives until the call that the function's comment names.
 *   - After any error but WEFT_E_DEVICE the weights have the same bits as before. weft_status_scope() says what to give
 *     up. After WEFT_E_DEVICE the text says what is known of the weights.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status */

/* Status of a call. The groups name who is hurt: call -1x, peer -2x, version -3x, session -4x. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_AGAIN = 1, /* nothing was taken and nothing is wrong: try later */

    WEFT_E_ARGUMENT = -10, /* a parameter breaks its contract */
    WEFT_E_CONFIG = -11,   /* the site file or an override is wrong */
    WEFT_E_LAYOUT = -12,   /* tensors, pieces or a model file do not fit the layout */
    WEFT_E_STATE = -13,    /* the call does not fit the session's state (version order, not bound, nothing staged) */
    WEFT_E_FILE = -14,     /* a file cannot be read or written */
    WEFT_E_TIMEOUT = -15,  /* the deadline passed; the session is well */
    WEFT_E_MISSING = -16,  /* this build or host lacks a part that the caller or the site file names */

    WEFT_E_PEER_LOST = -20,   /* the peer died, left or missed its deadline */
    WEFT_E_REFUSED = -21,     /* the other end refused: the text says why */
    WEFT_E_PROTOCOL = -22,    /* the other end, or a file, breaks the protocol or has another version of it */
    WEFT_E_UNREACHABLE = -23, /* nobody answered before the deadline */

    WEFT_E_CORRUPT = -30, /* bytes are no well-formed frame, header or message */
    WEFT_E_CHECK = -31,   /* a checksum differs from the bytes */
    WEFT_E_BASE = -32,    /* the weights are not the base of this update */
    WEFT_E_TARGET = -33,  /* the result differs from the published version; it was undone */
    WEFT_E_BUDGET = -34,  /* the update needs more memory than was granted at open */
    WEFT_E_PASSED = -35,  /* the version that weft_want named cannot be had: the text says why */

    WEFT_E_MEMORY = -40,   /* memory is not available */
    WEFT_E_SYSTEM = -41,   /* the operating system refused: the text says why */
    WEFT_E_PROVIDER = -42, /* the fabric provider failed */
    WEFT_E_DEVICE = -43    /* the accelerator failed */
} weft_status;

typedef enum weft_scope {
    WEFT_SCOPE_NONE = 0,    /* OK and AGAIN */
    WEFT_SCOPE_CALL = 1,    /* fix the call */
    WEFT_SCOPE_PEER = 2,    /* drop the peer */
    WEFT_SCOPE_VERSION = 3, /* drop the version */
    WEFT_SCOPE_SESSION = 4  /* close the session */
} weft_scope;

/* Names a status in lower case ("peer_lost"). Any thread; never NULL; the string is static. */
WEFT_API const char *weft_status_name(weft_status status);

/* Returns who is hurt by a status. A number that is no status hurts the session. Any thread; pure. */
WEFT_API weft_scope weft_status_scope(weft_status status);

/* Returns the library's version, "MAJOR.MINOR.PATCH". Any thread; the string is static. */
WEFT_API const char *weft_version_string(void);

/* Returns the text of the last error on the calling thread: what failed, with which values, and what to do.
 * The text is kept per thread, because another thread's error must not replace it. The text is "" if there was no
 * error. An error of a call without a session is reported only here.
 * Memory: the string is valid until the next weft call of this thread. Blocks: never. */
WEFT_API const char *weft_last_error(void);

/* ---------------------------------------------------------------- log */

typedef enum weft_log_level {
    WEFT_LOG_ERROR = 0, /* someone must act */
    WEFT_LOG_WARN = 1,  /* a peer or a version was lost */
    WEFT_LOG_INFO = 2,  /* one line per version */
    WEFT_LOG_DEBUG = 3  /* one line per bucket */
} weft_log_level;

/* Receives one line of the log, without newline. */
typedef void (*weft_log_fn)(void *user, weft_log_level level, const char *line);

/* ---------------------------------------------------------------- site */

typedef struct weft_site weft_site;

/* Loads a site file: an INI file that names who takes part and how each is reached.
 *
 * Every key is checked against the key table; conf/weft.ini is the manual. Unknown, duplicated and ill-typed keys are
 * errors that name file, line and key. `overrides` are strings "section.key=value" that win over the file, as on the
 * command line: "trainer.listen=127.0.0.1:7000", "peer.a.bucket=1MiB".
 * A section [cut.NAME] may stand in the file or be made by overrides: "cut.o.tensors=*.o_proj.weight",
 * "cut.o.columns=8".
 *
 * path       path of the file
 * overrides  array of `override_count` strings, or NULL
 * site       receives the site
 * Memory: the caller frees the site with weft_site_free. The site may be freed after open, because sessions copy it.
 * Threads: any. Blocks: while the file is read.
 * Errors: WEFT_E_FILE (the file cannot be read), WEFT_E_CONFIG (the content is wrong), WEFT_E_MEMORY. */
WEFT_API weft_status weft_site_load(const char *path, const char *const *overrides, size_t override_count,
                                    weft_site **site);

/* Frees a site. NULL is allowed. */
WEFT_API void weft_site_free(weft_site *site);

/* Writes one resolved value of a site as text, in the unit of conf/weft.ini ("8MiB", "2s", "tcp").
 *
 * peer      name of a peer, for keys of [peer.*]. Or a pattern of the site ("gpu-*"), for a peer that only the pattern
 *           names; else NULL
 * key       "section.key"; the section of a peer's keys is "peer" ("peer.provider", "trainer.listen")
 * text      receives the value, always terminated; `capacity` bytes
 * Errors: WEFT_E_ARGUMENT (no such key or peer, or `capacity` is too small). Any thread; never blocks. */
WEFT_API weft_status weft_site_get(const weft_site *site, const char *peer, const char *key, char *text,
                                   size_t capacity);

/* Returns the name of a peer that the site lists as a [peer.NAME] section. Patterns are not peers.
 *
 * index  number of the peer, from 0
 * name   receives the name, which lives as long as the site
 * Errors: WEFT_E_ARGUMENT (`index` is past the last peer). Any thread; never blocks. */
WEFT_API weft_status weft_site_peer_name(const weft_site *site, size_t index, const char **name);

/* ---------------------------------------------------------------- layout */

/* Element types, as safetensors names them. The numbers are on the wire. */
typedef enum weft_dtype {
    WEFT_BOOL = 1,
    WEFT_U8 = 2,
    WEFT_I8 = 3,
    WEFT_F8_E4M3 = 4,
    WEFT_F8_E5M2 = 5,
    WEFT_F8_E8M0 = 6,
    WEFT_F4 = 7,      /* packed, 2 elements a byte; bound and coded as bytes */
    WEFT_F6_E2M3 = 8, /* packed, 4 elements in 3 bytes; bound and coded as bytes */
    WEFT_F6_E3M2 = 9, /* packed, 4 elements in 3 bytes; bound and coded as bytes */
    WEFT_I16 = 10,
    WEFT_U16 = 11,
    WEFT_F16 = 12,
    WEFT_BF16 = 13,
    WEFT_I32 = 14,
    WEFT_U32 = 15,
    WEFT_F32 = 16,
    WEFT_I64 = 17,
    WEFT_U64 = 18,
    WEFT_F64 = 19,
    WEFT_C64 = 20, /* two F32 an element */
    WEFT_F8_E4M3FNUZ = 21,
    WEFT_F8_E5M2FNUZ = 22
} weft_dtype;

#define WEFT_MAX_RANK 16
#define WEFT_MAX_NAME 511

#define WEFT_THRESHOLDS_MAX 15 /* of the classes of a dtype */

/* One tensor of a layout. `shape` holds `rank` sizes in elements. Rank 0 is a scalar. */
typedef struct weft_tensor {
    const char *name; /* name, 1..WEFT_MAX_NAME bytes, unique in the layout */
    weft_dtype dtype;
    uint32_t rank; /* number of dimensions, 0..WEFT_MAX_RANK */
    const uint64_t *shape;
} weft_tensor;

typedef struct weft_layout weft_layout;

/* Creates a layout: the ordered list of tensors that trainer and rollouts share.
 *
 * The layout's hash covers names, dtypes and shapes in this order. A session's layout is the trainer's: a rollout whose
 * layout has the same tensors in another order takes the trainer's order when it joins. Any other difference keeps the
 * two ends apart.
 *
 * tensors  array of `count` tensors; copied
 * layout   receives the layout; the caller frees it with weft_layout_free
 * Threads: any. Blocks: never.
 * Errors: WEFT_E_LAYOUT (a name is empty, too long or given twice; a dtype or rank is out of range; sizes overflow; the
 * elements of a packed dtype do not fill whole bytes), WEFT_E_MEMORY. */
WEFT_API weft_status weft_layout_create(const weft_tensor *tensors, uint64_t count, weft_layout **layout);

/* Frees a layout. NULL is allowed. Sessions hold their own reference. */
WEFT_API void weft_layout_free(weft_layout *layout);

/* Writes the layout's 128-bit hash as two words, low first. Any thread; never blocks. */
WEFT_API void weft_layout_hash(const weft_layout *layout, uint64_t hash[2]);

/* Returns the number of tensors. Any thread; never blocks. */
WEFT_API uint64_t weft_layout_count(const weft_layout *layout);

/* Returns the dense bytes of all tensors. Any thread; never blocks. */
WEFT_API uint64_t weft_layout_bytes(const weft_layout *layout);

/* Returns one tensor of the layout. The tensor's strings and shape live as long as the layout. Any thread; never
 * blocks.
 * Errors: WEFT_E_ARGUMENT (`index` is past the last tensor). */
WEFT_API weft_status weft_layout_tensor(const weft_layout *layout, uint64_t index, weft_tensor *tensor);

/* Returns the dense bytes of one tensor, or 0 if `index` is past the last tensor. Any thread; never blocks. */
WEFT_API uint64_t weft_layout_tensor_bytes(const weft_layout *layout, uint64_t index);

/* Matches the tensors of two layouts by name, dtype and shape, whatever their order.
 *
 * order  receives for each tensor of `layout` its number in `other`, or NULL
 * Threads: any. Blocks: never.
 * Errors: WEFT_E_LAYOUT (they have not the same tensors: weft_last_error names the first that differ, and what would
 * mend that), WEFT_E_MEMORY. */
WEFT_API weft_status weft_layout_match(const weft_layout *layout, const weft_layout *other, uint64_t *order);

/* Asks the site's trainer for its layout, for a rollout that starts with nothing.
 *
 * weft tries all addresses of the peer's relays and of the trainer in turn, until one answers. Names are looked up anew
 * each time. If there are several addresses, each one has the peer's heartbeat to begin its answer. A trainer gives its
 * layout from weft_trainer_open on.
 *
 * site, peer   site, and the name of the peer that asks; the site must admit the name
 * deadline_ms  time for all attempts; 0 takes the site's connect_deadline
 * layout       receives the layout; the caller frees it with weft_layout_free
 * Threads: any. Blocks: until the answer or the deadline, even if a name server is slow.
 * Errors: WEFT_E_CONFIG (the site does not admit the name, an address is invalid, or one end does not take the
 * other's proof of its name), WEFT_E_MISSING (no OpenSSL here for [security] mode = tls), WEFT_E_UNREACHABLE (nobody
 * answered in time, or a host's name is unknown), WEFT_E_SYSTEM (no descriptor is free here), WEFT_E_REFUSED,
 * WEFT_E_PROTOCOL, WEFT_E_CORRUPT and WEFT_E_LAYOUT (the answer is no layout), WEFT_E_MEMORY. */
WEFT_API weft_status weft_layout_fetch(const weft_site *site, const char *peer, uint32_t deadline_ms,
                                       weft_layout **layout);

/* Place of a part of one tensor in memory. The pieces of a tensor cover the tensor exactly, in any order. A piece may
 * lie inside a larger allocation (fused qkv, stacked experts). For packed dtypes `first` and `count` fill whole bytes.
 * No two tensors may share memory that weft writes: a rollout's, and weft_update_apply's. Of tied tensors leave all but
 * one out of the layout. */
typedef struct weft_piece {
    uint64_t tensor; /* number of the tensor in the layout */
    uint64_t first;  /* first element of the row-major tensor that this piece holds */
    uint64_t count;  /* number of elements */
    void *data;      /* address, aligned to the element's size */
} weft_piece;

/* Box of one tensor, in elements. A tensor is seen as a matrix: the last dimension is the columns, all other dimensions
 * together are the rows. A tensor of rank 0 or 1 is one row. This struct never grows. */
typedef struct weft_slice {
    uint64_t tensor;  /* number of the tensor in the layout */
    uint64_t row;     /* first row */
    uint64_t rows;    /* number of rows */
    uint64_t column;  /* first column */
    uint64_t columns; /* number of columns */
} weft_slice;

#define WEFT_STRIDES_MAX 3

/* One part of an index. This struct never grows. */
typedef struct weft_stride {
    uint64_t extent; /* number of values that the part takes; 0: the part is not used */
    uint64_t stride; /* bytes from one value to the next, a multiple of the element's size */
} weft_stride;

/* Slice of a tensor and its place in memory, for weights that do not lie as the tensor does: columns of a fused matrix,
 * transposed or tiled storage. This struct never grows.
 *
 * The index of a row is counted from the slice's first row, and is split into up to three parts, the outermost first.
 * With row = {{a, x}, {b, y}} row r lies r / b * x + r % b * y bytes after row 0. The extents multiply to the slice's
 * rows. `column` says the same of the index of a column. Transposed storage swaps the strides. Tiles of 16 x 16
 * elements of 2 bytes are row = {{rows / 16, columns * 32}, {16, 32}} and column = {{columns / 16, 512}, {16, 2}}.
 *
 * Strides that are all zero say: columns lie side by side, rows follow each other without padding. For packed dtypes
 * every row of the slice fills whole bytes, and the extents of `column` count bytes.
 *
 * Memory of WEFT_F32 under a layout of WEFT_BF16 or WEFT_F16 is cast while a trainer reads the memory, for float32
 * masters without a copy of the weights. The cast rounds to nearest, ties to even, and keeps subnormals and the sign of
 * zero. What is too large for WEFT_F16 becomes infinite. The bits are those of torch's cast on every device, but for
 * NaN. Each NaN becomes 7fc0 of WEFT_BF16 or 7e00 of WEFT_F16, because torch writes several ones by place and device.
 * `data` and all strides are then those of float32. Where weights are written such a block is refused by name. */
typedef struct weft_block {
    weft_slice slice;
    void *data;                           /* address of the slice's first element, aligned to the element's size */
    weft_stride row[WEFT_STRIDES_MAX];    /* strides of the row index; all zero: the bytes of a row of the slice */
    weft_stride column[WEFT_STRIDES_MAX]; /* strides of the column index; all zero: the element's size */
    weft_dtype memory; /* dtype in memory: 0 or the layout's; or WEFT_F32 where the layout says WEFT_BF16 or WEFT_F16 */
    uint32_t flags;    /* 0; other values are reserved */
} weft_block;

/* ---------------------------------------------------------------- session */

typedef struct weft_session weft_session;

/* A version. Two versions are the same if their roots are equal; `number` is the caller's label. */
typedef struct weft_version {
    uint64_t run;    /* run, which begins when a trainer starts; 0: a model that joined by its bits alone */
    uint64_t number; /* number, chosen by the caller of weft_publish */
    uint64_t root;   /* digest of all bits */
} weft_version;

#define WEFT_SOURCES_MAX 64u /* trainers that one rollout receives from, at most */

/* One of the trainers that publish one model together. This struct never grows. */
typedef struct weft_trainer_source {
    const char *address;      /* host:port that it listens on; NULL: what the site's [source.R] says */
    const weft_slice *slices; /* array of `slice_count` slices that it contributes: the slices of its own options */
    uint64_t slice_count;
} weft_trainer_source;

typedef struct weft_options {
    size_t size; /* sizeof(weft_options) */
    /* Callback for log lines, called inside weft_events, weft_progress and weft_close. NULL: standard error. The line
     * that reports the close comes after the close, and so the callback must not use that session. Only one thread of
     * the process writes to standard error, because no call may wait for a slow reader. 64 KiB of lines can wait;
     * further lines are dropped, and one line reports how many. */
    weft_log_fn log;
    void *log_user;         /* pointer handed to `log` */
    uint64_t first_version; /* trainer: number of the weights bound first (default 0) */
    uint64_t incarnation;   /* 0: taken from the clock; a restarted end should have a higher one */
    /* Array of `slice_count` slices of the model that this process has, in any order; copied. NULL: all of the model.
     * weft_bind then takes pieces or blocks of these slices alone, and roots are theirs.
     * rollout: the view. The site's cuts part the model into cells, and cells into keys; the view has all of a key or
     * nothing of it.
     * trainer: the holding, which is what this one of several sources contributes. There are no attachments then. */
    const weft_slice *slices;
    uint64_t slice_count;
    uint32_t wants; /* rollout: 0: each version comes by itself; 1: versions come when weft_want names them */
    /* rollout: number of `sources`, which together contribute each element of the view once; 0: one trainer, at the
     * site's address. The weights move when all of them have one number. */
    uint32_t source_count;
    const weft_trainer_source *sources; /* rollout: array of `source_count` sources; copied */
    uint32_t source; /* trainer: its number among the site's [source.R], whose address it listens on */
    /* trainer: the run, which is in each version's name; 0: the time since 1970, in seconds in the upper half, and a
     * random number in the 12 lowest bits. All sources of one training run have one, and a higher one than the run
     * before. */
    uint64_t run;
    /* rollout: 0: after its first join the rollout waits for a trainer that is away, and weft_staged and weft_offered
     * return WEFT_AGAIN meanwhile. 1: they report that the trainer is away, at each deadline. */
    uint32_t tells_away;
    /* number of the device on which the weights lie, and 1: what `device = current` means in the site, whichever thread
     * opens the session. A number that no device has is refused at open (WEFT_E_CONFIG). 0: the thread's current
     * device, or the first one that the process works with */
    uint32_t device;
} weft_options;

/* Opens the trainer's end of a session: takes the memory of the steady state and listens for rollouts.
 *
 * The memory is the shadow, the journal, slabs, and room to merge and encode. The log names the most that is taken, and
 * the size of the journal. [trainer] journal = auto follows the layout and the memory that is available to this process
 * now. weft_stats has the address that the trainer listens on.
 *
 * Until weft_bind is done the trainer asks each rollout to come again later. Such rollouts do not lose patience. A
 * rollout that asks for the layout gets it at once. With manual progress the answers go out inside weft_progress.
 *
 * [trainer] store names a folder that each version goes to, beside publish, on a thread of its own (docs/STORE.md).
 *
 * weft raises the soft limit on descriptors (RLIMIT_NOFILE) to the hard limit and leaves it there. A process that uses
 * select() must set the hard limit first. While a session is open weft keeps 24 descriptors in reserve.
 *
 * site     the site; copied
 * layout   the tensors; the session holds a reference
 * options  NULL for the defaults
 * session  receives the session; the caller gives it back with weft_close
 * Threads: any. Blocks: at most the site's connect_deadline. weft waits for a named interface that is absent, is down,
 * or lacks a carrier or an IP. weft also waits for a listen address that the host lacks. The log says so at once.
 * Errors: WEFT_E_CONFIG, WEFT_E_MISSING (a backend or provider that the site names is not available),
 * WEFT_E_UNREACHABLE (the interface or address did not come), WEFT_E_MEMORY, WEFT_E_SYSTEM (the port is taken),
 * WEFT_E_PROVIDER, those of weft_store_open. */
WEFT_API weft_status weft_trainer_open(const weft_site *site, const weft_layout *layout, const weft_options *options,
                                       weft_session **session);

/* Opens a rollout's end of a session under the name of one of the site's peers. weft_bind starts to join.
 *
 * The memory taken is slots and staging. Open the session after the weights have their memory, because [peer] staging =
 * auto takes at most a quarter of the rest. All else is as for weft_trainer_open.
 *
 * The layout may have the trainer's tensors in another order. The caller's numbers stay its own, while the session
 * takes the trainer's order when it joins, and roots are by that from then on. Other tensors are refused with
 * WEFT_E_REFUSED in the calls that wait, and the text names the first that differ.
 *
 * Blocks, each at most the site's connect_deadline: first until the address of one host to join through is known, if
 * the site has hosts by name. The other names get at most one more second. Then for interfaces and a route, and for a
 * relay's own address. The call never waits for the network otherwise. If nobody is reached, names are looked up anew
 * later, in the background.
 * Errors: as weft_trainer_open, and WEFT_E_CONFIG (the site does not admit the name), WEFT_E_UNREACHABLE (no name is
 * known in time). */
WEFT_API weft_status weft_rollout_open(const weft_site *site, const char *peer, const weft_layout *layout,
                                       const weft_options *options, weft_session **session);

#define WEFT_ATTACHMENT_MAX (256ull << 20) /* largest attachment of a version, in bytes */

#define WEFT_BIND_EMPTY 1u /* rollout: the memory holds no model yet; join by snapshot */

/* Binds the weights in place and starts the session's work.
 *
 * Trainer: copies the weights to the shadow as version options.first_version, and lets peers join. If the trainer's
 * store has these bits, the journal is filled with what leads peers there from the versions around them.
 * Rollout: digests the weights (unless WEFT_BIND_EMPTY) and joins the trainer with the version that it holds.
 * A later call with the same layout rebinds, for weights that moved. A trainer takes new addresses with whatever bits:
 * the call reads none of them, and the next weft_publish compares them with what was published last. A rollout takes
 * the same bits at new addresses, and proves them even with WEFT_BIND_EMPTY. A rebind checks attachment and flags but
 * does not use them, so that the caller may repeat the first call unchanged. The held version keeps its attachment,
 * which only weft_publish changes.
 *
 * pieces      array of `count` pieces that cover every tensor exactly, in memory that the backend works in. Work that
 *             is queued on the default stream is done first.
 * attachment  opaque bytes that travel with the weights, outside digest and layout hash, or NULL; copied. For
 *             example the raw header of a model file. At most WEFT_ATTACHMENT_MAX bytes.
 * Memory: the weights stay the caller's and must stay valid until close, rebind or weft_unbind.
 * Blocks: for one pass over the weights; a trainer's rebind as weft_unbind.
 * Errors: WEFT_E_LAYOUT (gaps, overlaps, misaligned pieces), WEFT_E_MEMORY, WEFT_E_SYSTEM (no thread is available),
 * WEFT_E_BASE (a rollout's rebind with other bits), WEFT_E_STATE (also: the trainer's store has that version of the
 * run, with other bits), WEFT_E_ARGUMENT (a piece lies outside the backend's memory: the text names tensor and
 * address), WEFT_E_TIMEOUT (a trainer's rebind, as weft_unbind), WEFT_E_DEVICE. */
WEFT_API weft_status weft_bind(weft_session *session, const weft_piece *pieces, uint64_t count, const void *attachment,
                               uint64_t attachment_bytes, uint32_t flags);

/* Binds weights as weft_bind does, by blocks in place of pieces.
 *
 * weft computes addresses from the strides, and keeps no table that grows with rows. A tensor whose blocks all lie as
 * pieces do costs no more than with weft_bind.
 *
 * blocks  array of `count` blocks that hold every element of the layout exactly once, in any order; copied
 * All else is as for weft_bind.
 * Errors: as for weft_bind, and WEFT_E_LAYOUT (a box reaches past its tensor, extents do not fit the box, strides lead
 * two elements of a block to one address), WEFT_E_ARGUMENT (`memory` is a dtype that the layout's is not read from, or
 * is cast and would be written; flags). The text names tensor, box and rule. A device copies elements with strides to
 * dense memory of its own and back, in each pass over them. */
WEFT_API weft_status weft_bind_blocks(weft_session *session, const weft_block *blocks, uint64_t count,
                                      const void *attachment, uint64_t attachment_bytes, uint32_t flags);

/* Lets go of the weights, for an engine that gives their memory away while it sleeps, or a trainer while its rollouts
 * work.
 *
 * After the call weft touches no weight, and weft_held goes on to name the version.
 * Trainer: peers stay, join and are served as before, because the shadow has what was published. weft_publish is
 * refused until weft_bind or weft_bind_blocks binds weights again, with whatever bits.
 * Rollout: it leaves the trainer, and a version that was staged is dropped. A relay's children join another way.
 * weft_bind or weft_bind_blocks binds memory with the same bits again, or with WEFT_BIND_EMPTY memory that holds no
 * model any more. The rollout then joins anew, and gets as one update what it lacks, or a snapshot.
 *
 * Blocks: until a pass over the weights that is under way has ended.
 * Errors: WEFT_E_STATE (no weights were bound, a commit waits for weft_settle), WEFT_E_TIMEOUT and WEFT_E_DEVICE (work
 * on the device that was given up may still read the weights: keep their memory, and call again). */
WEFT_API weft_status weft_unbind(weft_session *session);

/* Closes the session: says goodbye to the other ends, stops the session's thread and gives everything back in reverse.
 *
 * The weights stay as they are. NULL is allowed.
 *
 * Blocks: at most the site's close_deadline, and as long again, two seconds at most, where the thread that writes into
 * a store does not end. A thread that its disk does not let go then is given up: a warning says how much memory stays
 * until the process ends. Without a log callback the call also waits for the last lines on standard error. That takes
 * half a second if nobody reads, and two seconds if the reader is slow.
 * Errors: WEFT_E_STATE (another call of the session is running, or this is a forked child and the session is its
 * parent's). Then nothing is closed and the session goes on; close it after the running call returns. */
WEFT_API weft_status weft_close(weft_session *session);

/* ---------------------------------------------------------------- trainer */

/* Figures of one update. */
typedef struct weft_update_info {
    size_t size;          /* sizeof(weft_update_info) */
    weft_version base;    /* version that the update starts from; all 0 for a snapshot */
    weft_version target;  /* version that the update makes */
    const char *level;    /* densest level encoded: "tight", "fast", "pairs", "full"; static */
    uint64_t elements;    /* elements of the layout, in coded elements */
    uint64_t changed;     /* elements whose bits differ */
    uint64_t dense_bytes; /* bytes of the layout, dense */
    uint64_t bytes;       /* bytes of the update at `level`, headers and trailer included */
    double diff_ms;       /* time to find the changes; 0 on a device that finds and codes them in one go */
    double encode_ms;     /* time to code the changes and to bring the shadow up to date */
} weft_update_info;

typedef struct weft_publish_options {
    size_t size;               /* sizeof(weft_publish_options) */
    const void *attachment;    /* the version's attachment as in weft_bind; NULL with bytes 0 keeps the last one */
    uint64_t attachment_bytes; /* length of the attachment, at most WEFT_ATTACHMENT_MAX */
    /* NULL, or called once on the calling thread, with `user`, when weft has read the weights for the last time: they
     * may change from here on, before the call returns, because what is left needs frames and the last version alone.
     * Not called if the call fails before that. May queue work on devices. Must not publish, bind, unbind or close. */
    void (*weights_free)(void *user);
    void *user;
} weft_publish_options;

/* Publishes the bound weights as a version: finds the changes since the last version, encodes them and returns.
 *
 * The progress thread sends the update while it is being encoded. The call never waits for a peer. A version without
 * changes is a version too.
 *
 * All or nothing: after any failure the last version stands, peers drop their part of this one, and the same number may
 * be published again. One exception: if the device dies after encoding finished, the version is already out and the
 * session can publish no further. An update that does not fit the journal goes out as a snapshot, with a warning that
 * names the size needed. The warning comes once, until a larger update follows.
 *
 * Do not change the weights before the call returns, or before `weights_free` is called (with `stream`: before the pass
 * ends). Otherwise the version may hold bits that the weights never had. If weft notices, it logs an error, and the
 * root here and in weft_held is the root of the bits kept. A rollout may fail such a version. The next version of
 * weights that stand still is right everywhere.
 *
 * version  must exceed the last version; gaps are allowed
 * stream   device stream to order against. Weights are read after the work queued before the call. Work queued after
 *          the call runs after the pass that finds the changes, and may change the weights again. Host weights may
 *          change after the call returns.
 * options  NULL for none
 * info     receives the figures, or NULL
 * Blocks: until the device has done the work on the stream, at most ten minutes, and for diff and encode.
 * After WEFT_E_TIMEOUT work that was given up may still read the weights, because a device takes no work back. The late
 * work changes nothing, and its results are dropped. Keep the memory of the weights until a later weft_publish returns
 * WEFT_OK, because that call waits for the late work as weft_unbind does, or until weft_close returned without a loss
 * of the device. Errors: WEFT_E_STATE (not bound, unbound since, version too low), WEFT_E_ARGUMENT, WEFT_E_TIMEOUT (the
 * stream, or other work on the device for longer than `[session] device_deadline`; nothing was published),
 * WEFT_E_DEVICE. */
WEFT_API weft_status weft_publish(weft_session *session, uint64_t version, void *stream,
                                  const weft_publish_options *options, weft_update_info *info);

/* Waits until peers have proved that they hold a version (or a later one of this run) with its attachment.
 *
 * peers        array of `count` names; NULL: every peer that has joined and is not lost
 * deadline_ms  longest wait; 0 asks without waiting
 * Blocks: at most deadline_ms (with manual progress the call makes the progress).
 * Errors: WEFT_E_TIMEOUT (the text names missing peers, and how many more), WEFT_E_PEER_LOST (a named peer is lost, or
 * with NULL every peer is; the text names them), WEFT_E_STATE (the version was not published). */
WEFT_API weft_status weft_wait(weft_session *session, uint64_t version, const char *const *peers, size_t count,
                               uint32_t deadline_ms);

/* ---------------------------------------------------------------- rollout */

typedef enum weft_staged_kind {
    WEFT_STAGED_UPDATE = 1,  /* update, decoded and proved; commit is O(changes) */
    WEFT_STAGED_SNAPSHOT = 2 /* snapshot, offered by the trainer; commit receives it */
} weft_staged_kind;

typedef struct weft_staged_info {
    size_t size; /* sizeof(weft_staged_info) */
    weft_staged_kind kind;
    weft_version base;
    weft_version target; /* of a snapshot in place: the offer; the held version may be later */
    uint64_t changed;    /* elements that change */
    uint64_t bytes;      /* bytes received for it, headers and trailer included; 0 for an offer */
    double receive_ms;   /* time from the first byte to the last */
    double decode_ms;    /* time to decode and prove */
    uint32_t encoded;    /* 1: the update is larger than staging and kept encoded, so commit decodes again */
    double pause_ms;     /* time that the commit of an update is expected to take; 0: nothing was measured yet */
} weft_staged_info;

/* Returns the version that is whole, proved and ready to commit. Waits at most deadline_ms for one.
 *
 * If there is no trainer, the rollout goes on dialing. A rollout that never joined reports so after connect_deadline,
 * at the deadline of each call: with deadline_ms 0 at once. A rollout that joined once serves what it holds, and waits
 * for a trainer that closed, died or cannot be reached, for as long as that takes: the call returns WEFT_AGAIN.
 * WEFT_EVENT_LOST or WEFT_EVENT_GOODBYE comes once, and WEFT_EVENT_JOINED when the trainer is back. weft_stats says for
 * how long it is away. With weft_options.tells_away a rollout that joined reports like one that never did, and after a
 * goodbye at once.
 *
 * If a trainer says that it is not ready yet, connect_deadline begins anew.
 *
 * The staged version stays while there is no trainer. If the trainer that comes back knows the bits, it goes on from
 * them, under its own label. Else the version is given up, because no update of that trainer leads on from there. A
 * commit by the number before then returns WEFT_E_PEER_LOST.
 *
 * Errors: WEFT_AGAIN (nothing yet), WEFT_E_UNREACHABLE (no trainer for connect_deadline; it never joined, or was to
 * tell, or a trainer is there that it cannot talk to), WEFT_E_SYSTEM, WEFT_E_PROVIDER and WEFT_E_MEMORY (no connection
 * for as long, because this host lacks something), WEFT_E_REFUSED (the trainer refuses this rollout: the text says
 * why), WEFT_E_PASSED (what weft_want named cannot be had; told once), WEFT_E_CONFIG (one end does not take the other's
 * proof of its name), WEFT_E_STATE (not bound), WEFT_E_PEER_LOST (tells_away: the trainer said goodbye and nothing is
 * staged), WEFT_E_DEVICE (nothing can be staged any more; the text says what the
 * weights are; close the session; in the same way WEFT_E_MEMORY and others, if the trainer's order of tensors cannot be
 * taken), WEFT_E_TIMEOUT (weft_interrupt). */
WEFT_API weft_status weft_staged(weft_session *session, uint32_t deadline_ms, weft_staged_info *info);

/* Asks for a version by its number, in a session opened with weft_options.wants.
 *
 * weft brings the rollout to exactly that version, by one update, and stages it. The processes of one engine agree on a
 * number, and each wants it. A wish replaces the one before. What is staged or on its way stays, and the version wanted
 * comes after it. A version that is not published yet comes when it is published. A rollout that no update can serve
 * gets a snapshot, or a repair of its weights (an update whose base has run 0), whose end is the newest version then.
 * Such a snapshot or repair answers a wish for an earlier version too, so that the wish is no WEFT_E_PASSED.
 *
 * number  number of the version
 * Threads: as for every call of a session. Never blocks. What cannot be had is WEFT_E_PASSED from weft_staged, once.
 * Errors: WEFT_E_STATE (the session takes each version). */
WEFT_API weft_status weft_want(weft_session *session, uint64_t number);

/* Returns the number of the newest version at the trainer, in a session opened with weft_options.wants. Waits at most
 * deadline_ms for a number above `after`.
 *
 * After the trainer went away nothing is offered until it is back.
 *
 * after   number that the caller knows; UINT64_MAX: none
 * number  receives the number
 * Errors: WEFT_AGAIN (no such number yet), WEFT_E_STATE (the session takes each version, or is not bound), and those of
 * weft_staged for a trainer that is away. With several sources: the newest number that all of them offer. */
WEFT_API weft_status weft_offered(weft_session *session, uint64_t after, uint32_t deadline_ms, uint64_t *number);

/* Moves the bound weights to the staged version, every tensor or none. Call it between two decode steps.
 *
 * Update: applies the proved change list in place. The call undoes all of it if a weight has changed since staging.
 * Snapshot: with `[commit] snapshot = in_place` receives the weights in place, and the rollout holds nothing until the
 * call returns WEFT_OK. With `staged` the old weights stand until the new weights are whole.
 *
 * version  number of the staged target
 * stream   device stream to order against; the caller may end it after the call returns
 * flags    0, WEFT_COMMIT_HOLD or WEFT_COMMIT_QUEUE; other values are reserved
 * held     receives the version that the rollout now holds, or NULL: with these flags the old one. run and number are
 *          0 if the version's attachment changed during a snapshot; an update without changes brings both later.
 * Blocks: until the device has done the work on the stream, at most ten minutes. Then an update takes O(changes). A
 * snapshot takes the transfer, and fails if nothing arrives for `[commit] deadline`. With WEFT_COMMIT_QUEUE the call
 * does not wait for the device.
 * Errors: WEFT_E_STATE (nothing staged, or another version; a commit is held, or a snapshot was to be held),
 * WEFT_E_ARGUMENT (flags, stream), WEFT_E_BASE (the weights changed after staging; undone), WEFT_E_TARGET,
 * WEFT_E_PEER_LOST (a snapshot broke off, or the version was given up or named anew since weft_staged), WEFT_E_TIMEOUT,
 * WEFT_E_MEMORY, WEFT_E_DEVICE, WEFT_E_PASSED (several sources: a snapshot of one ended at a number that another passes
 * over; nothing is held, and the next commit goes on). After WEFT_E_TIMEOUT the rollout rejoins. If the stream timed
 * out, or other work on the device took longer than
 * `[session] device_deadline`, nothing was done. If a snapshot broke off, nothing is held unless the snapshot was
 * `staged`. */
WEFT_API weft_status weft_commit(weft_session *session, uint64_t version, void *stream, uint32_t flags,
                                 weft_version *held);

/* The processes of one engine move together: each commits with WEFT_COMMIT_HOLD, they agree by means of their own, and
 * each settles. Between the two calls the weights are the new version's, and weft_held names the old one. */
#define WEFT_COMMIT_HOLD 1u

/* As WEFT_COMMIT_HOLD, but the commit is put on the stream of a device, and the call returns. On the stream, work
 * before the call reads the old weights, and work after it the new ones. The device compares all changed weights with
 * what the version was staged on, and writes every change or none. weft_settle learns which, and costs no wait if the
 * caller has waited for later work of the stream. Until then the stream and the weights stay the session's too: the
 * stream is not ended, and nobody else writes the weights. Where the device cannot do that by itself, the weights are
 * moved before the call returns, as with WEFT_COMMIT_HOLD: on the host, and where the update is `encoded` or has more
 * lists than the device's batches have room for. */
#define WEFT_COMMIT_QUEUE 2u

typedef enum weft_settlement {
    WEFT_SETTLE_KEEP = 1, /* the new version is held, and the trainer is told so */
    WEFT_SETTLE_UNDO = 2  /* the old weights are there again, bit for bit; the version stays staged */
} weft_settlement;

/* Keeps or undoes the commit that is held.
 *
 * A held commit never ends by time. weft_close undoes it. Meanwhile nothing is decoded, and weft_commit, weft_bind,
 * weft_unbind and weft_scrub return WEFT_E_STATE.
 *
 * stream  device stream to order against, as for weft_commit. UNDO need not wait for it: the caller has ended what
 *         reads the weights
 * held    receives the version that the rollout now holds, or NULL
 * Blocks: KEEP does not. UNDO blocks as the commit did. Both wait until the device has done a queued commit, and lose
 * the device after ten minutes.
 * Errors: WEFT_E_STATE (no commit is held), WEFT_E_ARGUMENT (how), WEFT_E_DEVICE, WEFT_E_BASE (KEEP of a queued commit:
 * the weights changed after staging; the old version is held, and the rollout joins again). */
WEFT_API weft_status weft_settle(weft_session *session, weft_settlement how, void *stream, weft_version *held);

/* Returns the attachment of the held version (trainer: of the version published last).
 *
 * data   receives the address, NULL if there is none; valid until the next weft_commit, weft_publish, weft_bind or
 *        weft_close
 * bytes  receives the length, 0 if there is none
 * Blocks: never for the network. Errors: WEFT_E_ARGUMENT (NULL). */
WEFT_API weft_status weft_attachment(weft_session *session, const void **data, uint64_t *bytes);

/* Digests the bound weights afresh and compares them with the held version, because a bit may have rotted anywhere.
 * If they differ, weft_held has no name for the weights any more, what is staged is given up, and the rollout joins
 * again with the bits that it has. The trainer sends the tiles that differ, and the caller commits them like any
 * version. Blocks: for one pass over the weights. Errors: WEFT_E_BASE (the text names the first tensor and tile that
 * differ), WEFT_E_STATE (nothing held). */
WEFT_API weft_status weft_scrub(weft_session *session);

/* ---------------------------------------------------------------- both ends */

/* Returns the version held now (trainer: published last). Any thread; never waits for the network.
 * With several sources the version of all of them, whose root is one word over the roots of each. A root is by the
 * trainer's order of tensors, and before a rollout joined by its own.
 * Errors: WEFT_E_STATE (nothing is held, or the sources' parts are of different versions). */
WEFT_API weft_status weft_held(weft_session *session, weft_version *held);

typedef enum weft_peer_state {
    WEFT_PEER_JOINING = 1,     /* handshake */
    WEFT_PEER_CATCHING_UP = 2, /* lacks versions and is being served */
    WEFT_PEER_LIVE = 3,        /* holds the last version or is taking it now */
    WEFT_PEER_LOST = 4         /* gone; may join again */
} weft_peer_state;

/* Names a peer's state: "joining", "catching_up", "live", "lost". Static. */
WEFT_API const char *weft_peer_state_name(weft_peer_state state);

#define WEFT_RAILS_MAX 8

/* A rail: a local address and its connections to the other end. This struct never grows. */
typedef struct weft_rail_info {
    char address[64];      /* address as the site names it, or else the address that weft chose */
    uint32_t connections;  /* connections over the rail */
    uint32_t up;           /* connections that carry data now */
    uint64_t writes;       /* writes: trainer: sent; rollout: landed */
    uint64_t bytes;        /* trainer: bytes of buckets sent */
    uint64_t resent_bytes; /* trainer: bytes sent again, because another rail had failed with them */
    uint64_t failures;     /* failures after which other rails carried on */
} weft_rail_info;

/* One peer as the trainer sees it. On a rollout: the rollout itself. */
typedef struct weft_peer_info {
    size_t size; /* sizeof(weft_peer_info) */
    char name[64];
    weft_peer_state state;
    const char *provider; /* name of the provider; static */
    char backend[24];     /* backend as the peer reports it */
    const char *level;    /* level of the version sent last (rollout: committed last), "" before the first; static */
    weft_version held;    /* version proved by the peer; all 0: nothing; all but root 0: the attachment is on its way */
    uint64_t lag;         /* number of published versions that the peer does not hold */
    uint64_t bucket_bytes;   /* size of a bucket, chosen now */
    uint64_t bytes;          /* bytes of updates sent so far: frames, headers, trailers */
    uint64_t snapshot_bytes; /* bytes of snapshots sent so far */
    uint64_t update_bytes;   /* bytes of the update that the peer took last */
    double rate_bytes_s;     /* estimated link rate; 0: unknown yet */
    double rtt_ms;           /* estimated round trip; 0: unknown yet */
    double send_ms;          /* time of the last update from the first bucket posted to the last bucket acknowledged */
    double apply_ms;         /* time to decode and prove the last update, reported by the peer */
    double commit_ms;        /* time to commit the last update, reported by the peer; queued: to put it on the stream */
    /* The next fields, with rate and round trip, decide bucket_bytes: docs/OPERATIONS.md. */
    double apply_bytes_s;  /* bytes of `level` that the peer copies, checks and decodes in a second, estimated */
    double bucket_cost_ms; /* fixed cost of a bucket of any size, estimated */
    uint32_t streams;      /* connections that carry the data */
    const char
        *bucket_bound; /* reason for bucket_bytes: "model", "floor", "ceiling", "window", "fixed", "start"; static */
    char via[64];      /* relay that the peer joined through; "": none */
    double lag_ms;     /* age of the oldest published version that the peer lacks; 0: it lacks none */
    uint32_t rail_count;
    weft_rail_info rails[WEFT_RAILS_MAX]; /* rails of the peer, or the rollout's own */
} weft_peer_info;

/* Lists the peers. Trainer: every peer seen in this run. Rollout: one entry, the rollout itself; with
 * several sources one for each that it joins, by the name "source R".
 *
 * peers     array of `capacity` entries, the first with its `size` set; may be NULL if `capacity` is 0
 * count     receives the number of peers, which may exceed `capacity`
 * Any thread; never waits for the network. Errors: WEFT_E_ARGUMENT (NULL, or no `size`). */
WEFT_API weft_status weft_peers(weft_session *session, weft_peer_info *peers, size_t capacity, size_t *count);

typedef struct weft_stats_info {
    size_t size;             /* sizeof(weft_stats_info) */
    uint64_t versions;       /* versions published, or committed */
    uint64_t bytes_sent;     /* bytes sent: trainer: updates; relay: all that was passed on */
    uint64_t snapshot_bytes; /* bytes of snapshots */
    uint64_t memory_bytes;   /* bytes taken at open and bind, weights not counted */
    uint64_t allocations;    /* allocations by the process since open */
    uint64_t events_lost;    /* events and log lines dropped because weft_events was not called */
    uint64_t peers_joined;   /* trainer: joins so far */
    uint64_t peers_lost;     /* trainer: losses so far, goodbyes not counted */
    uint64_t journal_bytes;  /* trainer: bytes of the journal in use */
    uint64_t undone;         /* rollout: commits that were undone */
    uint64_t check_failures; /* rollout: buckets that were refused */
    char listen[64];         /* trainer: address that it listens on since open, host:port */
    char backend[24];        /* "host/portable", "host/avx512", ... */
    char provider[24];       /* rollout: provider in use */
    uint64_t merges;         /* trainer: merged updates made for peers that lack several versions */
    double merge_ms;         /* trainer: time to make the last merged update, in the background */
    uint32_t rail_count;
    weft_rail_info rails[WEFT_RAILS_MAX]; /* trainer: rails of all peers served so far; rollout: its own */
    uint64_t recorded;                    /* trainer: versions written into its store */
    uint64_t unrecorded; /* trainer: versions that the store lacks, because disk or journal could not take them */
    double away_ms; /* rollout: time since the trainer was there last; 0: it is there, or the rollout never joined */
} weft_stats_info;

/* Returns the figures of the session. Any thread; never waits for the network. Errors: WEFT_E_ARGUMENT (NULL, or no
 * `size`). */
WEFT_API weft_status weft_stats(weft_session *session, weft_stats_info *stats);

typedef enum weft_event_kind {
    WEFT_EVENT_JOINED = 1, /* trainer: a peer joined; rollout: it joined the trainer */
    WEFT_EVENT_LOST =
        2, /* trainer: a peer is lost; rollout: the trainer is lost, other than by a RESYNC of the rollout's own */
    WEFT_EVENT_HELD = 3,   /* trainer: a peer proved that it holds `version` */
    WEFT_EVENT_STAGED = 4, /* rollout: `version` is ready to commit */
    WEFT_EVENT_RESYNC =
        5, /* a version failed at a peer and is served again; the text names tensor and tile, if known */
    WEFT_EVENT_GOODBYE = 6,   /* the other end closed in good order */
    WEFT_EVENT_NOTHING = 7,   /* rollout: holds nothing until the snapshot is whole */
    WEFT_EVENT_LAGGING = 8,   /* trainer: a peer lacks more versions than max_lag; the text says how many */
    WEFT_EVENT_RAIL = 9,      /* trainer: a rail of a peer failed, with its status, or carries again, with WEFT_OK */
    WEFT_EVENT_UNSETTLED = 10 /* rollout: a commit waits for weft_settle beyond [commit] deadline; told once */
} weft_event_kind;

typedef struct weft_event {
    size_t size; /* sizeof(weft_event) */
    weft_event_kind kind;
    weft_status status; /* reason of LOST, RESYNC and RAIL */
    char peer[64];
    weft_version version;
    char text[192];
} weft_event;

/* Takes the next event off the session's bounded ring and hands waiting log lines to the log callback.
 *
 * event  receives the event, with `size` set before; unchanged if there is none
 * Blocks: never. Errors: WEFT_AGAIN (none), WEFT_E_ARGUMENT (NULL, or no `size`: no event is taken off). */
WEFT_API weft_status weft_events(weft_session *session, weft_event *event);

/* Interrupts the session's blocking call: weft_commit of a snapshot, weft_wait or weft_staged soon returns
 * WEFT_E_TIMEOUT.
 * If no such call is running on any thread, the next one is interrupted. If a snapshot in place is interrupted, the
 * rollout holds nothing. Any thread, also from a signal handler; never blocks. In a forked child the function does
 * nothing. */
WEFT_API void weft_interrupt(weft_session *session);

/* Makes progress by hand, for `[session] progress = manual`: waits at most deadline_ms for work and does it.
 * With a progress thread the call only hands out log lines. Errors: the session's. */
WEFT_API weft_status weft_progress(weft_session *session, uint32_t deadline_ms);

/* ---------------------------------------------------------------- updates as files */

/* Updates as files: the same bytes for disks, object stores and links of the caller's own. An update file holds the
 * changes between two sets of weights of one layout. docs/WIRE_FORMAT.md is the law of the file. None of these
 * functions needs a site or a session.
 *
 *   weft_diff          base and target -> bytes
 *   weft_update_open   bytes -> header, proved whole
 *   weft_update_apply  base in place -> target;  weft_update_rewrite: base -> target as a stream
 *
 * Memory is bounded for any size of model. Each thread needs the frames of a few runs of units. All need 16 bytes a
 * tile and the end of the file (16 bytes a frame, the attachment). */

/* Sink for bytes in order. One thread at a time calls `write`, possibly a thread of weft's. Any status but WEFT_OK ends
 * the work and is returned to the caller. */
typedef struct weft_sink {
    void *user;
    weft_status (*write)(void *user, const void *data, uint64_t bytes);
} weft_sink;

/* Source of `bytes` bytes at `offset`: `read` gives all of them or an error, which is returned to the caller. weft may
 * read bytes more than once. They may change between reads, because weft uses only bytes that it has checked. One
 * thread at a time. */
typedef struct weft_source {
    void *user;
    weft_status (*read)(void *user, uint64_t offset, void *data, uint64_t bytes);
    uint64_t bytes; /* length of the source */
} weft_source;

/* Threads, progress and memory of a piece of work. */
typedef struct weft_work {
    size_t size;      /* sizeof(weft_work) */
    uint32_t threads; /* number of threads; 0: half of the processors, at most 8; bytes and bits do not depend on it */
    /* Callback that reports progress now and then, or NULL. One thread at a time calls it, possibly a thread of weft's.
     * Any status but WEFT_OK ends the work and is returned to the caller. */
    weft_status (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    uint64_t memory_bytes; /* weft_update_apply: memory for the list of changes; where files are read twice: for frames,
                              so that these are read once; 0: 1 GiB */
} weft_work;

typedef struct weft_diff_options {
    size_t size;         /* sizeof(weft_diff_options) */
    const char *level;   /* "full", "pairs", "fast" or "tight"; NULL: "tight" */
    weft_version base;   /* labels of the base: run and number; weft computes the root */
    weft_version target; /* labels of the target; in the base's run the number is not below the base's */
    const void
        *attachment; /* bytes that travel along, for instance the target's file header if it changed; NULL: none */
    uint64_t attachment_bytes; /* length of the attachment, at most WEFT_ATTACHMENT_MAX */
    const char *names;         /* "always": the file holds the layout's names and shapes; or "never"; NULL: "always" */
} weft_diff_options;

/* Writes the update that turns `base` into `target`.
 *
 * The bytes are a function of both sets of weights, the options and the library's choice of parameters. They also
 * depend on the version of zstd, where a whole tile is coded in planes or names are packed.
 *
 * base, target  pieces that cover every tensor exactly, as for weft_bind
 * options       NULL for the defaults
 * work          NULL for one thread
 * sink          receives the file; after an error its bytes are no update file
 * info          receives the figures, or NULL: `bytes` is the file's length; diff_ms and encode_ms are means over
 *               threads
 * Threads: any; the weights must not change before the call returns. Blocks: for one pass over both.
 * Errors: WEFT_E_ARGUMENT (level, names, labels, attachment), WEFT_E_LAYOUT (the pieces; more than 2^20 tensors),
 * WEFT_E_MEMORY, WEFT_E_SYSTEM, the errors of sink and progress. */
WEFT_API weft_status weft_diff(const weft_layout *layout, const weft_piece *base, uint64_t base_count,
                               const weft_piece *target, uint64_t target_count, const weft_diff_options *options,
                               const weft_work *work, const weft_sink *sink, weft_update_info *info);

/* An open update file. One thread at a time uses a handle, as a store's. */
typedef struct weft_update_file weft_update_file;

/* Opens an update file: reads both ends of the file and proves them whole. Frames are proved when they are read.
 *
 * path    a file on disk, which is replaced only by rename while it is open; NULL: `source` has the bytes
 * source  copied; `user` must stay valid until weft_update_close; NULL: `path` names the file
 * update  receives the file; the caller gives it back with weft_update_close
 * Threads: one at a time. Blocks: for the reads.
 * Errors: WEFT_E_ARGUMENT (both are given, or neither), WEFT_E_FILE (no update file), WEFT_E_CORRUPT (cut short or
 * damaged), WEFT_E_CHECK (damaged), WEFT_E_PROTOCOL (whole, but for another version of weft), WEFT_E_MEMORY, the errors
 * of the source. */
WEFT_API weft_status weft_update_open(const char *path, const weft_source *source, weft_update_file **update);
/* Closes an update file. NULL is allowed. */
WEFT_API void weft_update_close(weft_update_file *update);

/* Header of an update file. */
typedef struct weft_update_header {
    size_t size; /* sizeof(weft_update_header) */
    weft_version base;
    weft_version target;
    const char *level;    /* level; a frame may be coded as "full" in its stead; static */
    uint64_t layout[2];   /* hash of the layout */
    uint64_t elements;    /* elements of the layout, in coded elements */
    uint64_t dense_bytes; /* bytes of the layout, dense */
    uint64_t tensors;     /* tensors of the layout */
    uint64_t changed;     /* elements that change */
    uint64_t bytes;       /* bytes of the file */
    uint64_t frame_bytes; /* bytes of the file that are frames */
    uint64_t frames;
    uint64_t attachment_bytes; /* length of the attachment; 0: none */
    uint32_t run_shift;        /* frames code runs of 2^run_shift units */
    int named;                 /* 1: the file holds the layout's names and shapes too */
} weft_update_header;

/* Writes the header of an update file. Never blocks. Errors: WEFT_E_CORRUPT (the file's layout is invalid),
 * WEFT_E_MEMORY. */
WEFT_API weft_status weft_update_describe(weft_update_file *update, weft_update_header *header);

/* Copies the exponents at which the classes of level "tight" begin for elements of one dtype, rising. Returns how many
 * these are: one less than classes, and 0 for a number that is no dtype. Never blocks. */
WEFT_API uint32_t weft_update_thresholds(const weft_update_file *update, weft_dtype dtype,
                                         uint32_t thresholds[WEFT_THRESHOLDS_MAX]);

/* Returns the layout that an update file carries. The layout lives as long as the update. In a file that is not `named`
 * (names "never") the tensors are called "#0", "#1" and so on and have one dimension. Errors: as weft_update_describe.
 */
WEFT_API weft_status weft_update_layout(weft_update_file *update, const weft_layout **layout, int *named);

/* Copies the attachment. `bytes` receives the attachment's length; nothing is copied if `capacity` is less (ask with 0
 * first).
 * Errors: WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_MEMORY. */
WEFT_API weft_status weft_update_attachment(const weft_update_file *update, void *data, uint64_t capacity,
                                            uint64_t *bytes);

/* Changes of one tensor by an update. */
typedef struct weft_update_tensor {
    uint64_t changed; /* elements that change */
    double bytes; /* bytes of frames; the bytes of a frame of several tensors are shared out by the changes in each */
} weft_update_tensor;

/* Sums an update by tensor.
 *
 * Two figures are less exact without `pieces`. At level "tight" a frame of several tensors does not say which tensor
 * changed, and so its changes are shared out by the tensors' elements. In a frame coded as "full" all elements count as
 * changed, because that is the most that can have changed.
 *
 * pieces   the base's weights, or NULL with piece_count 0
 * tensors  array of weft_layout_count entries
 * exact    receives 1 if every `changed` is exact, else 0; or NULL
 * Blocks: while all frames are decoded, and with `pieces` for a pass over the weights, which proves the base.
 * Errors: as weft_update_apply; without `pieces` neither WEFT_E_BASE nor WEFT_E_LAYOUT. */
WEFT_API weft_status weft_update_tensors(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                         uint64_t piece_count, weft_update_tensor *tensors, int *exact);

/* Figures of applying an update. */
typedef struct weft_apply_info {
    size_t size;          /* sizeof(weft_apply_info) */
    weft_version version; /* version now held: the update's target */
    uint64_t changed;     /* elements that changed */
    double digest_ms;     /* time to prove the base, mean over threads */
    double decode_ms;     /* time to decode and to prove the target, mean over threads */
    double apply_ms;      /* time to put the changes in place, or to write the target */
} weft_apply_info;

/* Moves weights from the update's base to its target, in place, every tensor or none.
 *
 * weft decodes all of the update and proves the target's digest before it writes a bit. A layout whose tensors have
 * another order than the update's is matched by name, if the update is `named`.
 *
 * pieces  the base's weights, as for weft_bind
 * work    NULL for one thread and 1 GiB
 * info    receives the figures, or NULL
 * Threads: any; nobody else may use the weights before the call returns. Blocks: for a pass over the weights, which
 * proves the base.
 * Errors: WEFT_E_BASE (the weights are not the base), WEFT_E_LAYOUT (the tensors differ: the text names the first, or
 * says that the update has no names), WEFT_E_TARGET (the changes do not lead to the target), WEFT_E_CORRUPT,
 * WEFT_E_CHECK, WEFT_E_BUDGET (the changes need more than memory_bytes: use weft_update_rewrite), WEFT_E_MEMORY, the
 * errors of source and progress. The weights are untouched after any error. */
WEFT_API weft_status weft_update_apply(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                       uint64_t count, const weft_work *work, weft_apply_info *info);

/* Writes the target to a sink: every tensor's bytes in layout order, nothing in between.
 *
 * The base is only read. The sink gets nothing before base and target are proved. The layout is the update's, in its
 * order, because the bytes come in that. All else is as for weft_update_apply. Frames stay in memory between the two
 * passes over the weights, up to memory_bytes; what finds no room there is read twice. Blocks: for these passes. */
WEFT_API weft_status weft_update_rewrite(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                         uint64_t count, const weft_work *work, const weft_sink *sink,
                                         weft_apply_info *info);

/* Merges several updates that follow each other into one, from the first base to the last target.
 *
 * Elements that return to their old bits are no change. Without the base no weight is read, and the target is proved
 * only where the update is applied. Updates of level "tight" need their base. Updates of "fast" and "full" become one,
 * and so do updates of "pairs" and "full". One case fails: "pairs" that together are as large as some unit.
 * "pairs" and "fast" do not mix.
 *
 * updates  array of `count`; each starts at the root where the one before ends. The newest attachment goes along. The
 *          numbers are those of the first base and the last target, and the last may not be below the first, but
 *          where all updates are inverted ones.
 * layout   the layout; without the base it may be NULL, which takes the layout of the updates
 * base     the weights that the first starts from, or NULL with base_count 0
 * level    as in weft_diff_options; NULL without the base: the only possible level
 * All else is as for weft_diff. With the base the target is proved before the sink has the whole file.
 * Errors: WEFT_E_ARGUMENT (the updates do not follow each other, their numbers lead back, or the base is needed),
 * WEFT_E_LAYOUT, WEFT_E_BASE, WEFT_E_TARGET, WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_MEMORY, the errors of sources, sink
 * and progress. */
WEFT_API weft_status weft_update_merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                                       const weft_piece *base, uint64_t base_count, const char *level,
                                       const weft_work *work, const weft_sink *sink, weft_update_info *info);

/* Writes the update that leads back: from the target of `update` to its base, with both labels exchanged.
 *
 * Without the base no weight is read. Each frame is inverted by itself, and the file is as long as the update but for
 * the attachment. Only level "fast" inverts so; a frame of new bits, which a merge may leave in such an update, does
 * not. With the base any level can be read and written, and base and target are proved.
 *
 * layout      the layout; without the base it may be NULL, which takes the layout of the update
 * base        the weights that `update` starts from, or NULL with base_count 0
 * level       as in weft_diff_options; without the base NULL or the update's own
 * attachment  bytes that belong to the base. An update that brings an attachment needs them, because it does not say
 *             what was there before. NULL with attachment_bytes 0: the new update leaves the attachment as it is
 * All else is as for weft_diff.
 * Errors: WEFT_E_ARGUMENT (the base or its attachment is needed), WEFT_E_LAYOUT, WEFT_E_BASE, WEFT_E_TARGET,
 * WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_MEMORY, the errors of source, sink and progress. */
WEFT_API weft_status weft_update_invert(weft_update_file *update, const weft_layout *layout, const weft_piece *base,
                                        uint64_t base_count, const char *level, const void *attachment,
                                        uint64_t attachment_bytes, const weft_work *work, const weft_sink *sink,
                                        weft_update_info *info);

/* ---------------------------------------------------------------- digest */

/* Computes the root digest of weights by their pieces, without a session, and the digest of every tensor.
 * `work` may be NULL: one thread, no progress. `tensors` has weft_layout_count words, or is NULL.
 * Threads: any. Blocks: for one pass over the weights. Errors: WEFT_E_ARGUMENT, WEFT_E_LAYOUT, WEFT_E_MEMORY,
 * WEFT_E_SYSTEM, the errors of progress. */
WEFT_API weft_status weft_digest_tensors(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                                         const weft_work *work, uint64_t *tensors, uint64_t *root);

/* ---------------------------------------------------------------- stores */

/* A store keeps the versions of a model as files: an update for each version, now and then an anchor, which has all
 * bits of a version, and for each eight numbers a merge of their updates. Nothing is ever overwritten. docs/STORE.md is
 * the law of the names.
 *
 *   weft_store_open    a folder -> the versions in that folder
 *   weft_store_put     weights -> the next version
 *   weft_store_apply   weights of any version -> weights of another, forward or back
 *   weft_store_apply_blocks  the same for the weights of one process of many
 *   weft_store_view    slices -> the versions that these slices can have
 *   weft_store_wait    returns when somebody wrote a file
 *   weft_store_check   proves every file
 *   weft_store_trim    removes old versions
 *
 * A request of an object server has a time that grows with its bytes. A server that does not serve ends a call with
 * WEFT_E_TIMEOUT, and weft_store_open, weft_store_refresh and weft_store_wait with WEFT_E_FILE.
 * Several processes may read a store while one writes. Trainers that publish one model together write each its own
 * files, and a version is there when all of them have written theirs. One thread at a time uses a handle, and no
 * callback of a call gives that call's handle back. A debug build of weft ends the process where this is broken, and
 * says which call came second. */
typedef struct weft_store weft_store;

typedef struct weft_store_options {
    size_t size;      /* sizeof(weft_store_options) */
    int create;       /* 1: the folder is made if there is none */
    uint64_t anchors; /* numbers from one anchor to the next; 0: 64 */
} weft_store_options;

/* Opens a store, and reads the ends of all of its files. A damaged file is no error here.
 *
 * place    path of a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX, with the credentials that docs/STORE.md names
 * options  NULL for the defaults
 * store    receives the store; the caller gives it back with weft_store_close
 * Blocks: for the disk, or the server.
 * Errors: WEFT_E_FILE (no folder, or the server does not serve), WEFT_E_ARGUMENT, WEFT_E_CONFIG (no credentials),
 * WEFT_E_MISSING (no libcurl), WEFT_E_MEMORY. */
WEFT_API weft_status weft_store_open(const char *place, const weft_store_options *options, weft_store **store);
/* Closes a store. NULL is allowed. */
WEFT_API void weft_store_close(weft_store *store);
/* Looks for what others wrote since. A file that was found damaged is looked at again. After an error the versions of
 * before are still there. Errors: WEFT_E_FILE, WEFT_E_MEMORY. */
WEFT_API weft_status weft_store_refresh(weft_store *store);
/* Refreshes the store until it has other files than before, or the time is over.
 *
 * A folder of a local file system tells all at once by inotify. An object server, and a folder that other hosts may
 * write, is looked at after 50 ms, and after up to a second while nothing comes, however short the waits are. A look at
 * a folder takes the times of its folders, and lists them only where these changed.
 * timeout_ms  time to wait at most; 0: one look, at once
 * Returns WEFT_OK (there are other files), WEFT_AGAIN (the time is over, or a signal came). Errors: as
 * weft_store_refresh. */
WEFT_API weft_status weft_store_wait(weft_store *store, uint32_t timeout_ms);
/* Has the store be that of one process of many: from here on a version is there as soon as the sources that the slices
 * need have written it. Without a view it takes the files of all sources.
 *
 * A source that wrote nothing in a run may have any slice, so it is waited for.
 * layout  layout of the whole model, as weft_store_layout returns it
 * slices  `count` slices of the model, copied; NULL with 0: all of the model again
 * Blocks: for the ends of one file of each source. Errors: WEFT_E_LAYOUT (no such tensor or box), WEFT_E_MEMORY, those
 * of weft_store_refresh. */
WEFT_API weft_status weft_store_view(weft_store *store, const weft_layout *layout, const weft_slice *slices,
                                     uint64_t count);

/* One version of a store. */
typedef struct weft_store_entry {
    weft_version version;
    weft_version base;     /* version that the update starts from; all 0: there is no update */
    uint64_t update_bytes; /* bytes of the update; 0: none */
    uint64_t anchor_bytes; /* bytes of the anchor; 0: none */
    uint64_t time_s;       /* time at which the version was written, in seconds since 1970 */
    int damaged;           /* 1: an end of a file is damaged, or is not what the file's name says */
    int reachable;         /* 1: whole files lead to the version */
    uint64_t merge_bytes;  /* bytes of the merge, which is a few updates in one; 0: none */
    uint64_t tight_bytes;  /* bytes of the update at level tight; 0: none */
} weft_store_entry;

/* Lists the versions by run and number, rising. `capacity` and `count` are as for weft_peers. Errors: WEFT_E_MEMORY. */
WEFT_API weft_status weft_store_list(const weft_store *store, weft_store_entry *entries, size_t capacity,
                                     size_t *count);

/* Returns the layout of a version's model. The caller gives the layout back with weft_layout_free.
 * version  run and number; run 0: the last run that has the number
 * Errors: WEFT_E_MISSING (no such version), those of weft_update_open. */
WEFT_API weft_status weft_store_layout(weft_store *store, const weft_version *version, weft_layout **layout);

/* Copies the attachment of a version, out of any whole file that tells it: an anchor, or an update that brought it, to
 * which files without an attachment lead, forward or back; as weft_update_attachment.
 * Errors: WEFT_E_MISSING (no such version, or no whole file tells the attachment: the text names the file that is
 * damaged or not there), those of weft_update_attachment. */
WEFT_API weft_status weft_store_attachment(weft_store *store, const weft_version *version, void *data,
                                           uint64_t capacity, uint64_t *bytes);

/* Figures of weft_store_apply. */
typedef struct weft_store_info {
    size_t size;          /* sizeof(weft_store_info) */
    weft_version version; /* version that the weights are now */
    uint64_t files;       /* files that were applied */
    uint64_t anchors;     /* anchors among these files */
    uint64_t bytes;       /* bytes of these files */
    uint64_t damaged;     /* files that failed, and were gone round */
} weft_store_info;

/* Moves weights to a version of the store, by the files that take the fewest bytes.
 *
 * Weights of a version of the store go forward by its updates, or back by the same updates, inverted. All other weights
 * are overwritten from an anchor. All files are proved before a weight changes. Where one is damaged, another way is
 * taken. So the weights are what they were after an error, with two exceptions, which the text names. A way of more
 * than 64 files is gone in stretches of 64, and an error may leave a version between. And an anchor's frames, and those
 * that found no room in memory_bytes of `work`, are read once more while the weights are written: if that fails, the
 * weights are of no version. A layout whose tensors have another order than the version's is matched by name.
 *
 * version  run and number; run 0: the last run that has the number
 * pieces   weights, as for weft_bind
 * info     receives the figures, or NULL
 * Memory: some 50 MiB for one thread, 1 MiB for each file, and frames of updates up to memory_bytes.
 * Blocks: for three passes over the weights: one finds the version that they are, one proves the way, one writes.
 * Errors: WEFT_E_MISSING (no such version, or no way to it), WEFT_E_LAYOUT, those of weft_update_apply. */
WEFT_API weft_status weft_store_apply(weft_store *store, const weft_version *version, const weft_layout *layout,
                                      const weft_piece *pieces, uint64_t count, const weft_work *work,
                                      weft_store_info *info);

/* Moves the weights of one process of many to a version that trainers with cuts, or of several sources, wrote.
 *
 * weft reads the frames of the blocks' keys alone, of each source's files, and proves those of all sources before a
 * weight changes. All else is as for weft_store_apply, which does the same for all of a model.
 *
 * layout  layout of the whole model, as weft_store_layout returns it
 * blocks  `count` slices of the model with their places, as for weft_bind_blocks; they have all of a key or nothing of
 *         it
 * Errors: as weft_store_apply; WEFT_E_LAYOUT (also: the blocks have a part of a key, the text names the cell; the
 * sources do not have each element of the blocks once; the files are of a trainer without cuts). */
WEFT_API weft_status weft_store_apply_blocks(weft_store *store, const weft_version *version, const weft_layout *layout,
                                             const weft_block *blocks, uint64_t count, const weft_work *work,
                                             weft_store_info *info);

typedef struct weft_store_put_options {
    size_t size;               /* sizeof(weft_store_put_options) */
    weft_version base;         /* run and number of the base; all 0: there is none, and the version gets an anchor */
    weft_version target;       /* run and number of the new version: later than the base, and not 0 */
    const void *attachment;    /* attachment of the new version; with bytes 0: that of the base */
    uint64_t attachment_bytes; /* length of the attachment, at most WEFT_ATTACHMENT_MAX */
    const char *level;         /* "tight": an update of that level too, for readers that go forward; NULL or "fast" */
} weft_store_put_options;

/* Writes a version: the update from its base, and an anchor where one is due.
 *
 * An anchor is due at the first number of each `anchors` numbers, and without a base. A reader sees the version as soon
 * as its first file is whole. If the update is written and the anchor fails, the version is there, and the next version
 * gets an anchor. Where no file tells the base's attachment any more, an anchor waits for a version that has its own. A
 * version has the order of tensors that its base has in the store, whatever order `layout` has.
 *
 * base    weights of the base, or NULL with base_count 0
 * target  weights of the new version
 * info    receives the figures of the update, or of the anchor where there is no update; or NULL
 * Errors: WEFT_E_STATE (the version is there already, or several sources write the store), WEFT_E_ARGUMENT (the
 * labels), WEFT_E_BASE (the weights are not the base's), WEFT_E_MISSING (the store lacks the base), WEFT_E_FILE, those
 * of weft_diff. */
WEFT_API weft_status weft_store_put(weft_store *store, const weft_layout *layout, const weft_piece *base,
                                    uint64_t base_count, const weft_piece *target, uint64_t target_count,
                                    const weft_store_put_options *options, const weft_work *work,
                                    weft_update_info *info);

/* A fault of a store. */
typedef struct weft_store_fault {
    const char *file;     /* name of the damaged file within the store; NULL: a version that no whole files lead to */
    weft_version version; /* version of the file, or the version that is lost */
    weft_status status;   /* kind of damage */
    const char *text;     /* description of the damage; of a lost version: its source, if several write, and the gap */
} weft_store_fault;

/* Proves every file of a store against weights: each anchor, each update, each merge, and the root after each. So each
 * version that is listed, and is not reported as lost, can be had, with its attachment. A version of which no file is
 * left is reported too, where an update starts from it.
 *
 * report  gets each fault; any status but WEFT_OK ends the work and is returned
 * faults  receives their number
 * Blocks: for a pass over the weights of the model for each file. Needs memory for the weights.
 * Errors: WEFT_E_MISSING (the place has no file of a store), those of the place, WEFT_E_MEMORY, the errors of report
 * and progress. */
WEFT_API weft_status weft_store_check(weft_store *store, const weft_work *work,
                                      weft_status (*report)(void *user, const weft_store_fault *fault), void *user,
                                      uint64_t *faults);

/* What a copy came to. */
typedef struct weft_store_copied {
    size_t size;    /* sizeof(weft_store_copied) */
    uint64_t files; /* files that were copied */
    uint64_t bytes; /* bytes of these */
    uint64_t there; /* files that were there already */
} weft_store_copied;

/* Copies all files of a store into another one, of all runs and sources, byte for byte, and reads each back. A file
 * that is there stays, and both of its ends are compared. So a copy that was ended goes on when it is called again.
 *
 * report  gets each file that is damaged or in the way, as weft_store_check reports them; any status but WEFT_OK ends
 *         the work and is returned
 * faults  receives their number
 * copied  NULL, or receives figures, after an error too
 * Blocks: for both places. Needs memory for a part of a file.
 * Errors: those of both places, WEFT_E_CHECK (other bytes are read back; the file is removed), WEFT_E_MEMORY, the
 * errors of report and progress. */
WEFT_API weft_status weft_store_copy(weft_store *from, weft_store *to, const weft_work *work,
                                     weft_status (*report)(void *user, const weft_store_fault *fault), void *user,
                                     uint64_t *faults, weft_store_copied *copied);

typedef struct weft_store_keep {
    size_t size;       /* sizeof(weft_store_keep) */
    uint64_t versions; /* versions to keep at most; 0: any number */
    uint64_t bytes;    /* bytes to keep at most; 0: any number */
    uint64_t age_s;    /* age in seconds that a version may have; 0: any age */
    uint64_t grace_s;  /* age in seconds below which no file goes, because somebody may be reading it */
} weft_store_keep;

/* Removes the oldest versions until the rest is within all bounds, and unfinished files whose writers are gone: on file
 * systems that one host writes as soon as the writer ended, and else, as on an object server, after the grace time. A
 * store in a folder that is opened with `create` loses those of the folder, too.
 *
 * Only versions before an anchor go, so that every version that stays can be read. The newest anchor and all after it
 * stay.
 * removed  receives the number of versions that went; or NULL
 * Errors: WEFT_E_FILE. */
WEFT_API weft_status weft_store_trim(weft_store *store, const weft_store_keep *keep, uint64_t *removed);

/* ---------------------------------------------------------------- what is here */

typedef struct weft_device_info {
    char backend[16]; /* "host", "cuda", "hip" */
    int device;       /* number within the backend */
    char name[96];
    char detail[192]; /* kernels chosen and features, or the reason why the device cannot be used */
    uint64_t memory_bytes;
    int usable; /* 1 or 0 */
} weft_device_info;

/* Lists the devices that backends found. A backend without a device has one line that says why. An absent driver is no
 * error. `capacity` and `count` are as for weft_peers. */
WEFT_API weft_status weft_devices(weft_device_info *devices, size_t capacity, size_t *count);

typedef struct weft_provider_info {
    char provider[16];      /* weft's name: "tcp", "tcp-rxm", "stream", "verbs", "efa", "efa-direct", "shm", "loop" */
    char fabric[48];        /* libfabric's provider name: "net", "tcp", "tcp;ofi_rxm", ... */
    char address[64];       /* interface or address, if any */
    char detail[192];       /* limits, or the reason why the provider is not available */
    uint64_t message_bytes; /* largest write in bytes */
    int usable;             /* 1 or 0 */
} weft_provider_info;

/* Lists providers, with the service that each can give on this host. `library` receives the fabric library's name and
 * version; it may be NULL, or has at least 64 bytes. `capacity` and `count` are as for weft_peers. */
WEFT_API weft_status weft_providers(weft_provider_info *providers, size_t capacity, size_t *count, char *library);

#ifdef __cplusplus
}
#endif
#endif
