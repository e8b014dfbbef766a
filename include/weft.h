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
 *   - Every call returns a weft_status; out-parameters are written only on WEFT_OK.
 *   - One session is used from one thread at a time. weft_held, weft_stats, weft_peers, weft_interrupt and
 *     weft_last_error may be called from any thread at any time between open and close. A call that another one is in
 *     the way of does nothing: WEFT_E_STATE, and the text names the other. In each other's way are weft_bind,
 *     weft_publish, weft_commit, weft_scrub and weft_close; with progress by hand weft_wait, weft_staged, weft_progress
 *     and weft_commit; and weft_close with all but what may be called at any time.
 *   - A session belongs to the process that opened it. In a forked child every call of it does nothing, at once:
 *     WEFT_E_STATE. The parent's goes on as before.
 *   - Sizes are bytes in uint64_t, times are milliseconds, `void *stream` is the caller's device stream (NULL: the
 *     default stream; ignored by the host backend), which must not be being captured into a graph (WEFT_E_ARGUMENT).
 *   - Structs that begin with `size` are set by the caller to sizeof(the struct) so that they can grow: what a caller
 *     has no room for is left out, and `size` tells how much was written. In an array the first one's counts for all.
 *     A size of 0 was forgotten: WEFT_E_ARGUMENT, and nothing is done. Structs without a size never grow.
 *   - Pointers must not be NULL. Where one is tolerated, or told as WEFT_E_ARGUMENT, the function says so.
 *   - Strings are UTF-8; what weft returns as const char * lives until the call named in its comment.
 *   - After any error but WEFT_E_DEVICE the weights are bit for bit what they were; weft_status_scope() tells what to
 *     give up. When the device fails the text says what is known of them.
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

/* What a call came to. Groups by who is hurt: call -1x, peer -2x, version -3x, session -4x. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_AGAIN = 1, /* nothing was taken and nothing is wrong: try later */

    WEFT_E_ARGUMENT = -10, /* a parameter is out of its contract */
    WEFT_E_CONFIG = -11,   /* the site file or an override is wrong */
    WEFT_E_LAYOUT = -12,   /* tensors, pieces or a model file do not fit the layout */
    WEFT_E_STATE = -13,    /* the call does not fit the session's state (version order, not bound, nothing staged) */
    WEFT_E_FILE = -14,     /* a file cannot be read or written */
    WEFT_E_TIMEOUT = -15,  /* the deadline passed; the session is well */
    WEFT_E_MISSING = -16,  /* this build or host lacks what was asked for by name */

    WEFT_E_PEER_LOST = -20,   /* the peer died, left or missed its deadline */
    WEFT_E_REFUSED = -21,     /* the other end refused: see the text */
    WEFT_E_PROTOCOL = -22,    /* the other end broke or speaks another protocol; a file is of another */
    WEFT_E_UNREACHABLE = -23, /* nobody answered before the deadline */

    WEFT_E_CORRUPT = -30, /* bytes that are no well-formed frame, header or message */
    WEFT_E_CHECK = -31,   /* a checksum differs from the bytes */
    WEFT_E_BASE = -32,    /* the weights are not the base of this update */
    WEFT_E_TARGET = -33,  /* the result is not what the trainer published; undone */
    WEFT_E_BUDGET = -34,  /* the update does not fit the memory granted at open */

    WEFT_E_MEMORY = -40,   /* memory could not be had */
    WEFT_E_SYSTEM = -41,   /* the operating system refused: see the text */
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

/* Tells whom a status hurts; a number that is no status: the session. Any thread; pure. */
WEFT_API weft_scope weft_status_scope(weft_status status);

/* Names a scope ("call", "peer", "version", "session", "none"). Any thread; the string is static. */
WEFT_API const char *weft_scope_name(weft_scope scope);

/* The library's version, "MAJOR.MINOR.PATCH". Any thread; the string is static. */
WEFT_API const char *weft_version_string(void);

/* The text of the last error decided on the calling thread: what failed, with which values, what to do.
 * Kept per thread, so that another thread's error never replaces it; "" if there was none. An error of a call without a
 * session is told nowhere else.
 * Memory: the string is valid until the next weft call of this thread. Blocks: never. */
WEFT_API const char *weft_last_error(void);

/* ---------------------------------------------------------------- log */

typedef enum weft_log_level {
    WEFT_LOG_ERROR = 0, /* someone must act */
    WEFT_LOG_WARN = 1,  /* a peer or a version was lost */
    WEFT_LOG_INFO = 2,  /* a line per version */
    WEFT_LOG_DEBUG = 3  /* per bucket */
} weft_log_level;

/* Receives one line of log, without newline. */
typedef void (*weft_log_fn)(void *user, weft_log_level level, const char *line);

/* ---------------------------------------------------------------- site */

typedef struct weft_site weft_site;

/* Loads a site file, the INI that says who takes part and how each is reached.
 *
 * Every key is checked against the key table (conf/weft.ini is its manual): unknown, duplicated and ill-typed keys
 * are errors that name file, line and key. `overrides` are "section.key=value" strings that win over the file, as the
 * command line gives them ("trainer.listen=127.0.0.1:7000", "peer.a.bucket=1MiB").
 *
 * path       the file's path
 * overrides  array of `override_count` strings, or NULL
 * site       receives the site
 * Memory: the caller gives it back with weft_site_free. Sessions copy what they need: it may be freed after open.
 * Threads: any. Blocks: for reading the file.
 * Errors: WEFT_E_FILE (cannot be read), WEFT_E_CONFIG (wrong content), WEFT_E_MEMORY. */
WEFT_API weft_status weft_site_load(const char *path, const char *const *overrides, size_t override_count,
                                    weft_site **site);

/* Gives a site back. NULL is allowed. */
WEFT_API void weft_site_free(weft_site *site);

/* Reads one resolved value of a site as text, in the unit of conf/weft.ini ("8MiB", "2s", "tcp").
 *
 * peer      for keys of [peer.*] the name of a peer, or a pattern as the site has it ("gpu-*"): what a peer gets that
 *           no section but the pattern names; else NULL
 * key       "section.key", where the section of a peer's keys is "peer" ("peer.provider", "trainer.listen")
 * text      receives the value, always terminated; `capacity` bytes
 * Errors: WEFT_E_ARGUMENT (no such key or peer, or no room). Any thread; never blocks. */
WEFT_API weft_status weft_site_get(const weft_site *site, const char *peer, const char *key, char *text,
                                   size_t capacity);

/* The names of the peers that the site lists as [peer.NAME] sections (patterns are not peers).
 *
 * index  0-based
 * name   receives the name; it lives as long as the site
 * Errors: WEFT_E_ARGUMENT when index is past the last. Any thread; never blocks. */
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

/* One tensor of a layout. `shape` holds `rank` sizes in elements; rank 0 is a scalar. */
typedef struct weft_tensor {
    const char *name; /* 1..WEFT_MAX_NAME bytes, unique in the layout */
    weft_dtype dtype;
    uint32_t rank; /* 0..WEFT_MAX_RANK */
    const uint64_t *shape;
} weft_tensor;

typedef struct weft_layout weft_layout;

/* Makes a layout: the ordered list of tensors that trainer and rollouts share.
 *
 * Its hash covers names, dtypes and shapes in this order, nothing else; two ends meet only with equal hashes.
 *
 * tensors  array of `count` tensors, copied
 * layout   receives the layout; give it back with weft_layout_free
 * Threads: any. Blocks: never.
 * Errors: WEFT_E_LAYOUT (a name twice, too long or empty; a dtype or rank out of range; sizes that overflow; a packed
 * dtype whose elements do not fill whole bytes), WEFT_E_MEMORY. */
WEFT_API weft_status weft_layout_create(const weft_tensor *tensors, uint64_t count, weft_layout **layout);

/* Gives a layout back. NULL is allowed; sessions hold their own reference. */
WEFT_API void weft_layout_free(weft_layout *layout);

/* The layout's 128-bit hash as two words, low first. Any thread; never blocks. */
WEFT_API void weft_layout_hash(const weft_layout *layout, uint64_t hash[2]);

/* Number of tensors. Any thread; never blocks. */
WEFT_API uint64_t weft_layout_count(const weft_layout *layout);

/* Dense bytes of all tensors. Any thread; never blocks. */
WEFT_API uint64_t weft_layout_bytes(const weft_layout *layout);

/* One tensor of the layout; its strings and shape live as long as the layout. Any thread; never blocks.
 * Errors: WEFT_E_ARGUMENT (index past the last). */
WEFT_API weft_status weft_layout_tensor(const weft_layout *layout, uint64_t index, weft_tensor *tensor);

/* Dense bytes of one tensor; 0 for an index past the last. Any thread; never blocks. */
WEFT_API uint64_t weft_layout_tensor_bytes(const weft_layout *layout, uint64_t index);

/* Asks the site's trainer for its layout, for a rollout that starts with nothing.
 *
 * All addresses of the relays that the peer joins through, and of the trainer, are tried in turn, names looked up anew
 * each time, until one answers; where there are several, each has the peer's heartbeat to begin to. A trainer gives its
 * layout from weft_trainer_open on.
 *
 * site, peer   who asks: the name must be admitted by the site
 * deadline_ms  gives up after this long; 0 takes the site's connect_deadline
 * layout       receives the layout; give it back with weft_layout_free
 * Threads: any. Blocks: until the answer or the deadline, whatever a name server does.
 * Errors: WEFT_E_CONFIG (the site does not admit the name, or an address is none), WEFT_E_UNREACHABLE (nobody answered
 * in time, or a host's name is not known), WEFT_E_SYSTEM (no descriptor for it here), WEFT_E_REFUSED, WEFT_E_PROTOCOL,
 * WEFT_E_CORRUPT and WEFT_E_LAYOUT (what came is no layout), WEFT_E_MEMORY. */
WEFT_API weft_status weft_layout_fetch(const weft_site *site, const char *peer, uint32_t deadline_ms,
                                       weft_layout **layout);

/* Where a part of one tensor lies in memory. The pieces of a tensor cover it exactly, in any order; a piece may lie
 * inside a larger allocation (fused qkv, stacked experts). For packed dtypes first and count fill whole bytes. Where
 * weights are written (a rollout's, weft_update_apply's) no two tensors may share memory: of tied ones leave all but
 * one out of the layout. */
typedef struct weft_piece {
    uint64_t tensor; /* number in the layout */
    uint64_t first;  /* first element of the row-major tensor that this piece holds */
    uint64_t count;  /* elements */
    void *data;      /* aligned to the element's size */
} weft_piece;

/* ---------------------------------------------------------------- session */

typedef struct weft_session weft_session;

/* A version is matched by its root digest; the number is the caller's label. */
typedef struct weft_version {
    uint64_t run;    /* drawn at random by each trainer start; 0: a model that joined by its bits alone */
    uint64_t number; /* chosen by the caller of weft_publish */
    uint64_t root;   /* digest of all bits */
} weft_version;

typedef struct weft_options {
    size_t size; /* sizeof(weft_options) */
    /* Receives log lines inside weft_events, weft_progress and weft_close. What says how the session closed comes when
     * it has: of a session that closes nothing may be asked in it. NULL: standard error, to which one thread of the
     * process writes, so that no call waits for who reads that: 64 KiB wait, what comes beyond is dropped, and a line
     * in its place says how many were. */
    weft_log_fn log;
    void *log_user;         /* handed to `log` */
    uint64_t first_version; /* trainer: number of the weights bound first (default 0) */
    uint64_t incarnation;   /* 0: taken from the clock; a restarted end should have a higher one */
} weft_options;

/* Opens the trainer's end: takes all memory of its steady state (shadow, journal, slabs, room to merge and encode),
 * logs how much at most, and what [trainer] journal = auto came to (`auto` follows the layout and the memory that is
 * available to this process now), and listens: weft_stats tells the address. Until weft_bind is done rollouts that come
 * are told to come again, which they do without losing patience; the layout is given to those who
 * ask. (With progress by hand they are answered whenever weft_progress is called.) Raises the process's soft limit on
 * descriptors (RLIMIT_NOFILE) to the hard one, where it stays: what uses select() in the process must set the hard
 * limit before. Keeps 24 descriptors for need while a session is open.
 *
 * site     the site; copied
 * layout   the tensors; a reference is held
 * options  NULL for the defaults
 * session  receives the session; give it back with weft_close
 * Threads: any. Blocks: while an interface that the site names is not there, is down, has no carrier or has no IP yet,
 * or while the host lacks the listen address, at most the site's connect_deadline; the log says at once what is waited
 * for.
 * Errors: WEFT_E_CONFIG, WEFT_E_MISSING (a backend or provider that the site names is not to be had),
 * WEFT_E_UNREACHABLE (what was waited for did not come), WEFT_E_MEMORY, WEFT_E_SYSTEM (the port is taken),
 * WEFT_E_PROVIDER. */
WEFT_API weft_status weft_trainer_open(const weft_site *site, const weft_layout *layout, const weft_options *options,
                                       weft_session **session);

/* Opens a rollout's end under the name of one of the site's peers; otherwise as weft_trainer_open (slots,
 * staging). Open it when the weights have their memory: [peer] staging = auto takes no more than a quarter of what is
 * left.
 *
 * Blocks: where the site has hosts by name, until the address of one that the peer may join is known, at most the
 * site's connect_deadline, and at most a second longer for the others; then as weft_trainer_open for interfaces, a
 * route and, of a relay, its address, each at most as long again; else never for the network. weft_bind starts to join.
 * What a name stands for is asked anew whenever nobody is reached, beside everything else. Errors: also WEFT_E_CONFIG
 * (the site does not admit the name), WEFT_E_UNREACHABLE (no name is known in time). */
WEFT_API weft_status weft_rollout_open(const weft_site *site, const char *peer, const weft_layout *layout,
                                       const weft_options *options, weft_session **session);

#define WEFT_ATTACHMENT_MAX (256ull << 20) /* bytes that travel with a version, at most */

#define WEFT_BIND_EMPTY 1u /* rollout: the memory holds no model yet; join by snapshot */

/* Binds the weights in place and starts the session's work.
 *
 * Trainer: copies the weights to the shadow as version options.first_version, and lets peers join.
 * Rollout: digests the weights (unless WEFT_BIND_EMPTY) and joins the trainer with what it holds.
 * A later call with the same layout rebinds: same bits, new addresses, for engines that move their weights. Attachment
 * and flags are judged then, but not used, so that the call may be made again as it was: what is held keeps its
 * attachment, which weft_publish changes, and its bits are proved, WEFT_BIND_EMPTY or not.
 *
 * pieces      array of `count` pieces that cover every tensor exactly, in memory that the backend works in; what was
 *             queued on the default stream before comes first
 * attachment  opaque bytes that travel with the weights outside digest and layout hash (the raw header of a model
 *             file), or NULL; at most WEFT_ATTACHMENT_MAX bytes; copied
 * Memory: the weights stay the caller's; they must stay valid until close or rebind.
 * Blocks: for one pass over the weights. Errors: WEFT_E_LAYOUT (gaps, overlaps, misaligned pieces), WEFT_E_MEMORY,
 * WEFT_E_SYSTEM (no thread to be had), WEFT_E_BASE (a rebind with other bits), WEFT_E_STATE,
 * WEFT_E_ARGUMENT (a piece lies elsewhere than the backend works: the text names tensor and address), WEFT_E_DEVICE. */
WEFT_API weft_status weft_bind(weft_session *session, const weft_piece *pieces, uint64_t count, const void *attachment,
                               uint64_t attachment_bytes, uint32_t flags);

/* Closes the session: says goodbye to the other ends, stops its thread, gives everything back in reverse.
 * NULL is allowed. Blocks: at most the site's close_deadline, and without a log callback for the last lines on standard
 * error: half a second if nobody reads, two if somebody does slowly. The weights stay as they are.
 *
 * Errors: WEFT_E_STATE, after which nothing is closed or given back, and the session goes on: another call of it is
 * under way, after which it may be closed; or this is a forked child, and the session is its parent's. */
WEFT_API weft_status weft_close(weft_session *session);

/* ---------------------------------------------------------------- trainer */

/* What one update came to. */
typedef struct weft_update_info {
    size_t size;          /* sizeof(weft_update_info) */
    weft_version base;    /* what it starts from; run, number and root 0 for a snapshot */
    weft_version target;  /* what it makes */
    const char *level;    /* densest level encoded: "tight", "fast", "pairs", "full"; static */
    uint64_t elements;    /* of the layout, in coded elements */
    uint64_t changed;     /* elements whose bits differ */
    uint64_t dense_bytes; /* of the layout */
    uint64_t bytes;       /* of the update at `level`, headers and trailer included */
    double diff_ms;       /* finding the changes */
    double encode_ms;     /* coding them, and bringing the shadow up to date */
} weft_update_info;

typedef struct weft_publish_options {
    size_t size;               /* sizeof(weft_publish_options) */
    const void *attachment;    /* the version's attachment as in weft_bind; NULL with bytes 0 keeps the last one */
    uint64_t attachment_bytes; /* at most WEFT_ATTACHMENT_MAX */
} weft_publish_options;

/* Publishes the bound weights as a version: finds what changed since the last one, encodes it, hands it to the
 * progress thread, which sends it on while it is being encoded, and returns. Never waits for a peer.
 *
 * All or nothing: on any failure the last version stands, peers drop what they have of this one, and the same number
 * may be published again. Only where the device dies when all is encoded the version is out, and the session publishes
 * no more. A version that changes nothing is a version. An update that does not fit the journal becomes snapshot-only,
 * with a warning that names the size it would take, once until one is larger.
 *
 * Weights that change before it returns (with `stream`: before the pass ends) make a version that may be none of the
 * bits they ever had. Where that shows an error is logged and the version's root, here and in weft_held, is that of
 * the bits kept; a rollout may fail it. The next version of weights that stand still is right everywhere.
 *
 * version  must exceed the last one; gaps are allowed
 * stream   device stream to order against: weights are read after what was queued on it before, and what is queued on
 *          it afterwards comes after the pass that finds the changes, so that the weights may change again (host
 *          weights: on return)
 * options  NULL for none
 * info     receives the figures, or NULL
 * Blocks: until the device has done what was on the stream, at most ten minutes, and for diff and encode. Errors:
 * WEFT_E_STATE (not bound, version too low), WEFT_E_ARGUMENT, WEFT_E_TIMEOUT (the stream), WEFT_E_DEVICE. */
WEFT_API weft_status weft_publish(weft_session *session, uint64_t version, void *stream,
                                  const weft_publish_options *options, weft_update_info *info);

/* Waits until peers have proved that they hold a version (or a later one of this run), its attachment with it.
 *
 * peers        array of `count` names; NULL: every peer that has joined and is not lost
 * deadline_ms  0 asks without waiting
 * Blocks: at most deadline_ms (with manual progress it makes the progress).
 * Errors: WEFT_E_TIMEOUT (the text names who is missing, and how many more), WEFT_E_PEER_LOST (a named peer is lost, or
 * with NULL every one is; the text names them), WEFT_E_STATE (the version was not published). */
WEFT_API weft_status weft_wait(weft_session *session, uint64_t version, const char *const *peers, size_t count,
                               uint32_t deadline_ms);

/* ---------------------------------------------------------------- rollout */

typedef enum weft_staged_kind {
    WEFT_STAGED_UPDATE = 1,  /* decoded and proved; commit is O(changes) */
    WEFT_STAGED_SNAPSHOT = 2 /* the trainer offers a snapshot; commit receives it */
} weft_staged_kind;

typedef struct weft_staged_info {
    size_t size; /* sizeof(weft_staged_info) */
    weft_staged_kind kind;
    weft_version base;
    weft_version target; /* of a snapshot in place: the offer; the held version may be later */
    uint64_t changed;    /* elements */
    uint64_t bytes;      /* received for it, headers and trailer included; 0 for an offer */
    double receive_ms;   /* first byte to whole */
    double decode_ms;    /* decode and proof */
} weft_staged_info;

/* Tells whether a version is whole, proved and ready to commit. Waits at most deadline_ms for one.
 *
 * That there is no trainer is said at once, and once: the rollout goes on dialing, and from the next call on
 * weft_staged waits to its deadline for a trainer's version before it says so again. Who is not to wait for one that
 * comes back ends at the first WEFT_E_PEER_LOST.
 *
 * A trainer that says that it is not ready yet is waited for: connect_deadline begins anew each time.
 *
 * Errors: WEFT_AGAIN (nothing yet), WEFT_E_UNREACHABLE (no trainer for connect_deadline), WEFT_E_SYSTEM,
 * WEFT_E_PROVIDER and WEFT_E_MEMORY (no connection for as long, for want of something on this host), WEFT_E_REFUSED
 * (the trainer will not have this rollout: see the text), WEFT_E_STATE (not bound), WEFT_E_PEER_LOST (the trainer said
 * goodbye and nothing is staged), WEFT_E_DEVICE (nothing will be any more: the text says what the weights are; close
 * the session), WEFT_E_TIMEOUT (weft_interrupt). */
WEFT_API weft_status weft_staged(weft_session *session, uint32_t deadline_ms, weft_staged_info *info);

/* Moves the bound weights to the staged version, every tensor or none.
 *
 * Call it between two decode steps. For an update it applies the proved change list in place and undoes it if a weight
 * was not what it was when staged. For a snapshot with `[commit] snapshot = in_place` it receives the weights in
 * place: until it returns WEFT_OK the rollout holds nothing; with `staged` the old weights stand until the new ones
 * are whole.
 *
 * version  the staged target's number
 * stream   device stream to order against; used until it returns and no longer: the caller may end it then
 * flags    0; other values are reserved
 * held     receives what the rollout now holds, or NULL; run and number are 0 when the version's attachment changed
 *          while a snapshot was under way: an update that changes nothing brings both
 * Blocks: until the device has done what was on the stream, at most ten minutes; then, update: for O(changes);
 * snapshot: for the transfer, which fails when nothing arrives for `[commit] deadline`.
 * Errors: WEFT_E_STATE (nothing staged, or another version), WEFT_E_ARGUMENT (flags, stream), WEFT_E_BASE (the weights
 * were altered since staging; undone), WEFT_E_TARGET, WEFT_E_PEER_LOST, WEFT_E_TIMEOUT (a snapshot broke off: nothing
 * is held if it was in place, and the rollout rejoins; or the stream: nothing was done, and the rollout rejoins),
 * WEFT_E_DEVICE. */
WEFT_API weft_status weft_commit(weft_session *session, uint64_t version, void *stream, uint32_t flags,
                                 weft_version *held);

/* The attachment of the held version (trainer: of the one published last).
 *
 * data   receives where it lies, NULL if there is none; it lives until the next weft_commit, weft_publish, weft_bind or
 *        weft_close
 * bytes  receives its length, 0 if there is none
 * Blocks: never for the network. Errors: WEFT_E_ARGUMENT (NULL). */
WEFT_API weft_status weft_attachment(weft_session *session, const void **data, uint64_t *bytes);

/* Digests the bound weights afresh and compares with what is held: finds a bit that rotted anywhere. What it finds is
 * mended: the rollout joins again with what the weights are, and the trainer sends the tiles that differ, to be
 * committed like any version.
 * Blocks: for one pass over the weights. Errors: WEFT_E_BASE (the text names the first tensor and tile that differ),
 * WEFT_E_STATE (nothing held). */
WEFT_API weft_status weft_scrub(weft_session *session);

/* ---------------------------------------------------------------- both ends */

/* The version held now (trainer: published last). Any thread; never waits for the network.
 * Errors: WEFT_E_STATE (nothing is held). */
WEFT_API weft_status weft_held(weft_session *session, weft_version *held);

typedef enum weft_peer_state {
    WEFT_PEER_JOINING = 1,     /* handshake */
    WEFT_PEER_CATCHING_UP = 2, /* behind; being served */
    WEFT_PEER_LIVE = 3,        /* holds the last version or takes it now */
    WEFT_PEER_LOST = 4         /* gone; it may join again */
} weft_peer_state;

/* "joining", "catching_up", "live", "lost". Static. */
WEFT_API const char *weft_peer_state_name(weft_peer_state state);

#define WEFT_RAILS_MAX 8

/* A rail: an address of this end and what is joined with it. It never grows. */
typedef struct weft_rail_info {
    char address[64];      /* as the site names it; where it names none, the one chosen */
    uint32_t connections;  /* by it */
    uint32_t up;           /* of them that carry */
    uint64_t writes;       /* trainer: sent; rollout: landed */
    uint64_t bytes;        /* trainer: of buckets sent */
    uint64_t resent_bytes; /* trainer: of them sent again, since another rail had failed with them */
    uint64_t failures;     /* that others carried on after */
} weft_rail_info;

/* One peer as the trainer sees it; on a rollout, itself. */
typedef struct weft_peer_info {
    size_t size; /* sizeof(weft_peer_info) */
    char name[64];
    weft_peer_state state;
    const char *provider;    /* static */
    char backend[24];        /* as the peer reports it */
    const char *level;       /* of the last version sent; a rollout's: committed, "" before the first; static */
    weft_version held;       /* proved by the peer; all 0: nothing; all but root: the attachment is on its way */
    uint64_t lag;            /* versions published that it does not hold */
    uint64_t bucket_bytes;   /* chosen now */
    uint64_t bytes;          /* of updates sent so far: frames, headers, trailers */
    uint64_t snapshot_bytes; /* of snapshots sent so far */
    uint64_t update_bytes;   /* of the update it took last */
    double rate_bytes_s;     /* estimated link rate; 0: unknown yet */
    double rtt_ms;           /* estimated round trip; 0: unknown yet */
    double send_ms;          /* of the last update: first bucket posted to last bucket acknowledged */
    double apply_ms;         /* of the last update, reported by the peer: decode and proof */
    double commit_ms;        /* of the last update, reported by the peer */
    /* What bucket_bytes follows from, besides rate and round trip: docs/OPERATIONS.md. */
    double apply_bytes_s;     /* estimated: bytes of `level` that the peer copies, checks and decodes in a second */
    double bucket_cost_ms;    /* estimated: fixed cost of a bucket, whatever its size */
    uint32_t streams;         /* connections that carry the data */
    const char *bucket_bound; /* what decided: "model", "floor", "ceiling", "window", "fixed", "start"; static */
    char via[64];             /* the relay that it joined through; "": none */
    double lag_ms;            /* since the oldest version that it lacks was published; 0: it lacks none */
    uint32_t rail_count;
    weft_rail_info rails[WEFT_RAILS_MAX]; /* of the peer, or the rollout's own */
} weft_peer_info;

/* Lists the peers. Trainer: every peer seen in this run. Rollout: one entry, itself.
 *
 * peers     array of `capacity`, the first with its size set; may be NULL with capacity 0
 * count     receives how many there are, which may exceed capacity
 * Any thread; never waits for the network. Errors: WEFT_E_ARGUMENT (NULL, or no size). */
WEFT_API weft_status weft_peers(weft_session *session, weft_peer_info *peers, size_t capacity, size_t *count);

typedef struct weft_stats_info {
    size_t size;             /* sizeof(weft_stats_info) */
    uint64_t versions;       /* published, or committed */
    uint64_t bytes_sent;     /* trainer: updates; relay: all that was passed on */
    uint64_t snapshot_bytes; /* snapshots */
    uint64_t memory_bytes;   /* taken at open and bind, weights not counted */
    uint64_t allocations;    /* by the process since open */
    uint64_t events_lost;    /* events and log lines dropped because weft_events was not called */
    uint64_t peers_joined;   /* trainer: joins so far */
    uint64_t peers_lost;     /* trainer: losses so far, goodbyes not counted */
    uint64_t journal_bytes;  /* trainer: journal in use */
    uint64_t undone;         /* rollout: commits undone */
    uint64_t check_failures; /* rollout: buckets refused */
    char listen[64];         /* trainer: the address it listens on from open on, host:port */
    char backend[24];        /* "host/portable", "host/avx512", ... */
    char provider[24];       /* rollout: provider in use */
    uint64_t merges;         /* trainer: merged updates made for peers that were behind */
    double merge_ms;         /* trainer: time that making the last of them took, beside everything else */
    uint32_t rail_count;
    weft_rail_info rails[WEFT_RAILS_MAX]; /* trainer: of all peers that it served, so far; rollout: its own */
    char landing[320]; /* rollout: where buckets land: "direct: ...", or "staged in host memory: " and why */
} weft_stats_info;

/* Figures of the session. Any thread; never waits for the network. Errors: WEFT_E_ARGUMENT (NULL, or no size). */
WEFT_API weft_status weft_stats(weft_session *session, weft_stats_info *stats);

typedef enum weft_event_kind {
    WEFT_EVENT_JOINED = 1, /* trainer: a peer joined; rollout: joined the trainer */
    WEFT_EVENT_LOST = 2,   /* trainer: a peer is lost; rollout: the trainer is, other than by a RESYNC of its own */
    WEFT_EVENT_HELD = 3,   /* trainer: a peer proved that it holds `version` */
    WEFT_EVENT_STAGED = 4, /* rollout: `version` is ready to commit */
    WEFT_EVENT_RESYNC =
        5, /* a version failed at a peer and is served again; the text names tensor and tile, if known */
    WEFT_EVENT_GOODBYE = 6, /* the other end closed in good order */
    WEFT_EVENT_NOTHING = 7, /* rollout: holds nothing until the snapshot is whole */
    WEFT_EVENT_LAGGING = 8, /* trainer: a peer lacks more versions than max_lag; the text says how many */
    WEFT_EVENT_RAIL = 9     /* trainer: a rail of a peer failed, with its status, or carries again, with WEFT_OK */
} weft_event_kind;

typedef struct weft_event {
    size_t size; /* sizeof(weft_event) */
    weft_event_kind kind;
    weft_status status; /* why, for LOST, RESYNC and RAIL */
    char peer[64];
    weft_version version;
    char text[192];
} weft_event;

/* Takes the next event off the session's bounded ring and hands waiting log lines to the log callback.
 *
 * event  receives it, its size set before; as it was where there is none
 * Blocks: never. Errors: WEFT_AGAIN (none), WEFT_E_ARGUMENT (NULL, or no size: nothing is taken off). */
WEFT_API weft_status weft_events(weft_session *session, weft_event *event);

/* Makes the session's blocking call of this or another thread (weft_commit of a snapshot, weft_wait, weft_staged)
 * return WEFT_E_TIMEOUT soon; without one, the next. A snapshot in place that is broken off leaves the rollout holding
 * nothing. Any thread, also from a signal handler; never blocks. In a forked child it does nothing. */
WEFT_API void weft_interrupt(weft_session *session);

/* Makes progress by hand, for `[session] progress = manual`: waits at most deadline_ms for something to do and does it.
 * With a progress thread it only hands out log lines. Errors: as the session's. */
WEFT_API weft_status weft_progress(weft_session *session, uint32_t deadline_ms);

/* ---------------------------------------------------------------- updates as files */

/* The same updates as bytes: for disks, object stores and links of the caller's own. An update file holds what changed
 * between two sets of weights of one layout; docs/WIRE_FORMAT.md is its law. Nothing here needs a site or a session.
 *
 *   weft_diff          base and target -> bytes
 *   weft_update_open   bytes -> what they say, proved whole
 *   weft_update_apply  base in place -> target;  weft_update_rewrite: base -> target as a stream
 *
 * Memory is bounded whatever the model's size: frames of a few runs of units a thread, 16 bytes a tile, and what is
 * behind the frames of the file (16 bytes a frame, the attachment). */

/* Takes bytes one behind the other, on one thread at a time, which may be one of weft's. Any status but WEFT_OK ends
 * the work and is passed on. */
typedef struct weft_sink {
    void *user;
    weft_status (*write)(void *user, const void *data, uint64_t bytes);
} weft_sink;

/* Gives `bytes` bytes at `offset`, all of them or an error, which is passed on. Bytes are taken more than once and may
 * change meanwhile: what is used was checked. One thread at a time. */
typedef struct weft_source {
    void *user;
    weft_status (*read)(void *user, uint64_t offset, void *data, uint64_t bytes);
    uint64_t bytes; /* in all */
} weft_source;

/* How long work is done. */
typedef struct weft_work {
    size_t size;      /* sizeof(weft_work) */
    uint32_t threads; /* 0: half of the processors, at most 8; the bytes and bits do not depend on it */
    /* Told now and then how much is done, on one thread at a time, which may be one of weft's; another status than
     * WEFT_OK ends the work and is passed on. NULL: nobody asks. */
    weft_status (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    uint64_t memory_bytes; /* weft_update_apply: for the list of changes; 0: 1 GiB */
} weft_work;

typedef struct weft_diff_options {
    size_t size;               /* sizeof(weft_diff_options) */
    const char *level;         /* "full", "pairs", "fast" or "tight"; NULL: "tight" */
    weft_version base;         /* labels: run and number; roots are found out */
    weft_version target;       /* the same; in the base's run its number is not below the base's */
    const void *attachment;    /* travels along, for instance the target's file header if it changed; NULL: none */
    uint64_t attachment_bytes; /* at most WEFT_ATTACHMENT_MAX */
    const char *names;         /* "always": the file holds the layout's names and shapes; or "never"; NULL: "always" */
} weft_diff_options;

/* Writes the update that makes `target` of `base`.
 *
 * The bytes are a function of both sets of weights, the options and the library's choice of parameters (and, where a
 * whole tile is coded in planes or names are packed, of zstd's version).
 *
 * base, target  pieces that cover every tensor exactly, as for weft_bind
 * options       NULL for the defaults
 * work          NULL for one thread
 * sink          receives the file; after an error what it got is none
 * info          receives the figures, or NULL: bytes is what the sink got; diff_ms and encode_ms are the lanes' mean
 * Threads: any; the weights must not change meanwhile. Blocks: for one pass over both.
 * Errors: WEFT_E_ARGUMENT (level, names, labels, attachment), WEFT_E_LAYOUT (the pieces; more than 2^20 tensors),
 * WEFT_E_MEMORY, WEFT_E_SYSTEM, those of sink and progress. */
WEFT_API weft_status weft_diff(const weft_layout *layout, const weft_piece *base, uint64_t base_count,
                               const weft_piece *target, uint64_t target_count, const weft_diff_options *options,
                               const weft_work *work, const weft_sink *sink, weft_update_info *info);

typedef struct weft_update_file weft_update_file;

/* Opens an update file: reads both of its ends and proves them whole. Frames are proved when they are read.
 *
 * source  copied; what it names must live until weft_update_close
 * update  receives it; give it back with weft_update_close
 * Threads: one at a time. Blocks: for the reads.
 * Errors: WEFT_E_FILE (no update file), WEFT_E_CORRUPT (cut short or damaged), WEFT_E_CHECK (damaged), WEFT_E_PROTOCOL
 * (whole, but for another version of weft), WEFT_E_MEMORY, the source's. */
WEFT_API weft_status weft_update_open(const weft_source *source, weft_update_file **update);
/* The same for a file on disk, which is replaced by rename if at all. */
WEFT_API weft_status weft_update_open_path(const char *path, weft_update_file **update);
/* Gives it back. NULL is allowed. */
WEFT_API void weft_update_close(weft_update_file *update);

/* What an update file says of itself. Never blocks. */
typedef struct weft_update_header {
    size_t size; /* sizeof(weft_update_header) */
    weft_version base;
    weft_version target;
    const char *level;    /* static; a frame may be coded as "full" in its stead */
    uint64_t layout[2];   /* hash of the layout it belongs to */
    uint64_t elements;    /* of the layout, in coded elements */
    uint64_t dense_bytes; /* of the layout */
    uint64_t tensors;     /* of the layout */
    uint64_t changed;     /* elements */
    uint64_t bytes;       /* of the file */
    uint64_t frame_bytes; /* of them in frames */
    uint64_t frames;
    uint64_t attachment_bytes; /* 0: none */
    uint32_t run_shift;        /* frames code runs of 2^run_shift units */
    int named;                 /* 1: the file holds the layout's names and shapes too */
} weft_update_header;

/* Errors: WEFT_E_CORRUPT (its layout is none), WEFT_E_MEMORY. */
WEFT_API weft_status weft_update_describe(weft_update_file *update, weft_update_header *header);

/* The layout that an update file carries: of a file that is not `named`, as with names "never", the tensors are called
 * "#0", "#1" and so on, and have one dimension. Lives as long as the update. Errors: as weft_update_describe. */
WEFT_API weft_status weft_update_layout(weft_update_file *update, const weft_layout **layout, int *named);

/* The exponents at which the classes of level "tight" begin, for elements of a dtype: `count` of them, of which the
 * first `capacity` are written. Errors: WEFT_E_ARGUMENT (no such dtype). Never blocks. */
WEFT_API weft_status weft_update_classes(const weft_update_file *update, weft_dtype dtype, uint32_t *thresholds,
                                         size_t capacity, size_t *count);

/* Copies the attachment. `bytes` receives its length, which is not written where `capacity` is less (ask with 0 first).
 * Errors: WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_MEMORY. */
WEFT_API weft_status weft_update_attachment(const weft_update_file *update, void *data, uint64_t capacity,
                                            uint64_t *bytes);

/* What an update does to one tensor. */
typedef struct weft_update_tensor {
    uint64_t changed; /* elements */
    double bytes;     /* of frames: one that codes several tensors is shared out by what changed in each */
} weft_update_tensor;

/* Sums an update by tensor.
 *
 * pieces   the base's weights, or NULL with piece_count 0: then level "tight" does not tell which tensor of a frame
 *          changed, and `changed` of such a frame is shared out by the tensors' elements; and of a frame coded as
 *          "full", whatever the update's level, all elements count as changed, which is the most that can have
 * tensors  array of weft_layout_count entries
 * exact    receives 1 if every `changed` is what changed, 0 if one may not be; or NULL
 * Blocks: for decoding all frames, and with pieces for a pass over the weights, which proves the base. Errors: as
 * weft_update_apply; without pieces neither WEFT_E_BASE nor WEFT_E_LAYOUT. */
WEFT_API weft_status weft_update_tensors(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                         uint64_t piece_count, weft_update_tensor *tensors, int *exact);

/* What applying came to. */
typedef struct weft_apply_info {
    size_t size;          /* sizeof(weft_apply_info) */
    weft_version version; /* now held: the update's target */
    uint64_t changed;     /* elements */
    double digest_ms;     /* proving the base, the lanes' mean */
    double decode_ms;     /* decoding and proving the target, the lanes' mean */
    double apply_ms;      /* putting it in place, or writing it */
} weft_apply_info;

/* Moves weights from the update's base to its target, in place, every tensor or none.
 *
 * All of it is decoded and the digest of base and changes is proved to be the target's before a bit is written.
 *
 * pieces  the base's weights, as for weft_bind
 * work    NULL for one thread and 1 GiB
 * info    receives the figures, or NULL
 * Blocks: for a pass over the weights, which proves the base. Threads: any; nobody else uses the weights meanwhile.
 * Errors: WEFT_E_BASE (the weights are not the base), WEFT_E_LAYOUT (nor is their layout), WEFT_E_TARGET (the changes
 * do not lead to the target), WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_BUDGET (the changes need more than memory_bytes:
 * use weft_update_rewrite), WEFT_E_MEMORY, those of source and progress. The weights are untouched after any. */
WEFT_API weft_status weft_update_apply(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                       uint64_t count, const weft_work *work, weft_apply_info *info);

/* Writes the target to a sink: every tensor's bytes in layout order, nothing in between. The base is only read, and the
 * sink gets nothing before base and target are proved. As weft_update_apply, in memory that does not depend on what
 * changed. Blocks: for two passes over the weights. */
WEFT_API weft_status weft_update_rewrite(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                         uint64_t count, const weft_work *work, const weft_sink *sink,
                                         weft_apply_info *info);

/* Makes one update of several that follow each other: from the first one's base to the last one's target. Elements that
 * came back to their old bits are no change.
 *
 * Without the base no weight is read, and the target is proved only where the update is applied. Updates of level
 * "tight" need their base. Any of "fast" and "full" become one, and any of "pairs" and "full", unless what they make
 * of some unit is as large as that unit; "pairs" and "fast" do not mix.
 *
 * updates  `count` of them, each from where the one before ends, by their roots; the newest attachment goes along, and
 *          the numbers are the first one's base's and the last one's target's, which may not be less
 * layout   may be NULL without the base: the updates' own
 * base     the weights that the first starts from, or NULL with base_count 0
 * level    as in weft_diff_options; NULL without the base: the one that they can have
 * As weft_diff otherwise; with the base the target is proved before the sink has all of its file.
 * Errors: WEFT_E_ARGUMENT (they do not follow each other, their numbers lead back; the base is needed), WEFT_E_LAYOUT,
 * WEFT_E_BASE, WEFT_E_TARGET, WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_MEMORY, those of sources, sink and progress. */
WEFT_API weft_status weft_update_merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                                       const weft_piece *base, uint64_t base_count, const char *level,
                                       const weft_work *work, const weft_sink *sink, weft_update_info *info);

/* ---------------------------------------------------------------- digest */

/* Digests weights by their pieces without a session: the root that versions carry.
 * Threads: any. Blocks: for one pass over the weights. Errors: WEFT_E_LAYOUT, WEFT_E_MEMORY. */
WEFT_API weft_status weft_digest(const weft_layout *layout, const weft_piece *pieces, uint64_t count, uint64_t *root);

/* The same with threads and progress, and every tensor's digest (`tensors` of weft_layout_count words, or NULL).
 * Errors: also WEFT_E_SYSTEM, progress's. */
WEFT_API weft_status weft_digest_tensors(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                                         const weft_work *work, uint64_t *tensors, uint64_t *root);

/* ---------------------------------------------------------------- what is here */

typedef struct weft_device_info {
    char backend[16]; /* "host", "cuda", "hip" */
    int device;       /* number within the backend */
    char name[96];
    char detail[192]; /* kernels chosen, features, or the reason why it cannot be used */
    uint64_t memory_bytes;
    int usable; /* 1 or 0 */
} weft_device_info;

/* Lists the devices that backends found, and for a backend without one a line that says why. Never crashes for an
 * absent driver. As weft_peers for capacity and count. */
WEFT_API weft_status weft_devices(weft_device_info *devices, size_t capacity, size_t *count);

typedef struct weft_provider_info {
    char provider[16];      /* weft's name: "tcp", "tcp-rxm", "verbs", "efa", "efa-direct", "shm", "loop" */
    char fabric[48];        /* libfabric's provider name: "net", "tcp", "tcp;ofi_rxm", ... */
    char address[64];       /* interface or address, if any */
    char detail[192];       /* limits, or the reason why it cannot be had */
    uint64_t message_bytes; /* largest write */
    int usable;             /* 1 or 0 */
} weft_provider_info;

/* Lists providers and what each could serve here; as weft_devices. `library` (may be NULL, at least 64 bytes) receives
 * the fabric library's name and version. */
WEFT_API weft_status weft_providers(weft_provider_info *providers, size_t capacity, size_t *count, char *library);

/* A copy of libfabric in this process. */
typedef struct weft_library_info {
    char version[32]; /* "1.17"; "" where the file does not tell */
    char path[480];   /* the file; one with a longer path by its end */
} weft_library_info;

/* Lists the copies of libfabric that are mapped into this process, the one that weft uses first. More than one is a
 * fault of the installation: they share neither memory nor settings, and providers are missing or hang. Empty where
 * weft was built without libfabric and nobody else loaded one. As weft_devices for capacity and count. */
WEFT_API weft_status weft_libraries(weft_library_info *libraries, size_t capacity, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
