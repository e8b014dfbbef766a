/* site.h - the site file as one const struct, resolved from one key table (site_keys.c). */
#ifndef WEFT_CORE_SITE_H
#define WEFT_CORE_SITE_H

#include <stdbool.h>

#include "weft.h"

#define WEFT_SITE_NAME 64  /* a name and its terminator */
#define WEFT_SITE_TEXT 256 /* a text value and its terminator */

typedef enum weft_choice_progress { WEFT_PROGRESS_THREAD = 0, WEFT_PROGRESS_MANUAL = 1 } weft_choice_progress;
typedef enum weft_choice_shadow {
    WEFT_SHADOW_AUTO = 0,
    WEFT_SHADOW_HOST = 1,
    WEFT_SHADOW_DEVICE = 2
} weft_choice_shadow;
typedef enum weft_choice_store { WEFT_STORE_LEVEL_FAST = 0, WEFT_STORE_LEVEL_TIGHT = 1 } weft_choice_store;
typedef enum weft_choice_snapshot { WEFT_SNAPSHOT_IN_PLACE = 0, WEFT_SNAPSHOT_STAGED = 1 } weft_choice_snapshot;
typedef enum weft_choice_verify { WEFT_VERIFY_TOUCHED = 0, WEFT_VERIFY_FULL = 1 } weft_choice_verify;
typedef enum weft_choice_security {
    WEFT_SECURITY_LOOPBACK = 0,
    WEFT_SECURITY_OPEN = 1,
    WEFT_SECURITY_TLS = 2
} weft_choice_security;
typedef enum weft_choice_level {
    WEFT_CHOICE_AUTO = 0,
    WEFT_CHOICE_FULL = 1,
    WEFT_CHOICE_PAIRS = 2,
    WEFT_CHOICE_FAST = 3,
    WEFT_CHOICE_TIGHT = 4
} weft_choice_level;

/* Where a peer with `via` turns when no relay that it names answers. */
typedef enum weft_choice_replace { WEFT_REPLACE_NO = 0, WEFT_REPLACE_YES = 1 } weft_choice_replace;
typedef enum weft_choice_last { WEFT_LAST_TRAINER = 0, WEFT_LAST_NONE = 1 } weft_choice_last;
typedef enum weft_choice_lag { WEFT_LAG_WARN = 0, WEFT_LAG_DROP = 1 } weft_choice_lag;

typedef enum weft_choice_coding {
    WEFT_CODING_AUTO = 0,
    WEFT_CODING_PLANES = 1,
    WEFT_CODING_VERBATIM = 2
} weft_choice_coding;

/* The settings of one peer, after [peer.NAME], [peer.PREFIX*], [peers] and defaults. */
typedef struct weft_site_peer {
    char name[WEFT_SITE_NAME];
    char address[WEFT_SITE_TEXT];  /* local interfaces or IPs of the rollout's fabric endpoints: weft_site_rails */
    char provider[WEFT_SITE_NAME]; /* auto, or a name of port_names.h */
    char backend[WEFT_SITE_NAME];  /* auto, or a name of port_names.h */
    char kernels[WEFT_SITE_NAME];  /* auto, portable, avx2, avx512 */
    int64_t device;                /* -1: current */
    uint64_t device_memory;        /* bytes that weft may take of it; 0: what it wants */
    uint64_t bucket;               /* bytes; 0: auto */
    uint64_t bucket_start;         /* while nothing is measured */
    uint64_t bucket_min;
    uint64_t bucket_max; /* the slot's payload; 0: auto, until a layout is known (sizes.h) */
    uint64_t window;     /* slots */
    uint64_t streams;    /* ports of each rail, that is connections of the data plane */
    uint64_t staging;    /* bytes of change lists and scratch at the rollout; 0: auto */
    uint64_t encoded;    /* bytes of frames of an update beyond staging; UINT64_MAX: auto */
    weft_choice_level level;
    weft_choice_coding snapshot_coding;
    uint64_t rate_limit; /* bytes/s; 0: none */
    uint64_t max_lag;    /* versions; 0: none */
    weft_choice_lag lag_action;
    uint64_t heartbeat_ms;       /* silence after which the peer is lost */
    char listen[WEFT_SITE_TEXT]; /* host:port of its trainer */
    char via[WEFT_SITE_TEXT];    /* relays to join through, in order; "trainer": none (weft_site_via) */
    weft_choice_last last_resort;
    char relay[WEFT_SITE_TEXT];         /* host:port where it listens for peers behind it; "": it is no relay */
    uint64_t relay_memory;              /* bytes for passing on */
    char key_file[WEFT_SITE_TEXT];      /* path of the peer's own key, as written; "": the site's (weft_site_key) */
    char key_file_next[WEFT_SITE_TEXT]; /* path of a second key that is accepted; "": none */
} weft_site_peer;

/* The things that a [cut.NAME] counts. */
typedef enum weft_choice_by {
    WEFT_BY_NONE = 0,
    WEFT_BY_ROWS = 1,
    WEFT_BY_COLUMNS = 2,
    WEFT_BY_MIDDLE = 3,
    WEFT_BY_LAYER = 4,
    WEFT_BY_EXPERT = 5
} weft_choice_by;

#define WEFT_SITE_NUMBERS 128u /* of a list */

/* One [cut.NAME] section. */
typedef struct weft_site_cut {
    char name[WEFT_SITE_NAME];
    char tensors[WEFT_SITE_TEXT];   /* patterns; "": all tensors, for a cut by layer or expert */
    uint64_t rows, columns, middle; /* equal parts; 0: not given */
    uint64_t pad;                   /* 0: none */
    uint64_t groups;                /* of experts; 0: not given */
    weft_choice_by by;
    char at[WEFT_SITE_TEXT];             /* where parts begin, as written */
    uint64_t numbers[WEFT_SITE_NUMBERS]; /* the same as numbers */
    uint64_t number_count;
} weft_site_cut;

#define WEFT_SITE_BUCKET_AUTO (UINT64_C(4) << 20) /* the most that bucket_max = auto comes to by itself */

#define WEFT_SITE_VIAS 4u /* relays that one peer may name */
#define WEFT_SITE_HOPS 8u /* relays between the trainer and a peer */

/* One [provider.NAME] section. */
typedef struct weft_site_provider {
    char name[WEFT_SITE_NAME];
    char address[WEFT_SITE_TEXT]; /* local interfaces or IPs of who sends by it; "": see site_link.h */
    uint64_t chunk;               /* largest write; 0: the profile's */
    uint64_t depth;               /* writes in flight per port; 0: the profile's */
    char ports[16];               /* "auto" or "LOW-HIGH": see weft_site_ports_split */
} weft_site_provider;

/* One [source.R] section. */
typedef struct weft_site_trainer {
    char name[WEFT_SITE_NAME];    /* R */
    char listen[WEFT_SITE_TEXT];  /* host:port of its control plane; "": the trainer's */
    char holding[WEFT_SITE_TEXT]; /* path of its share file; "": none */
} weft_site_trainer;

struct weft_site {
    char path[WEFT_SITE_TEXT];
    char name[WEFT_SITE_NAME];
    struct {
        char listen[WEFT_SITE_TEXT];  /* host:port of the control plane; port 0: any free one */
        char address[WEFT_SITE_TEXT]; /* local interfaces or IPs of its fabric endpoints; "": listen's host */
        char backend[WEFT_SITE_NAME];
        char kernels[WEFT_SITE_NAME];
        int64_t device;
        uint64_t device_memory;
        weft_choice_shadow shadow;
        uint64_t journal; /* bytes of the arena that keeps encoded updates; 0: auto */
        uint64_t threads; /* that encode, the caller's included; 0: auto */
        uint64_t max_peers;
        uint64_t join_deadline_ms;
        char store[WEFT_SITE_TEXT]; /* folder that each version is written to; "": none */
        uint64_t store_versions;    /* versions that the store keeps; 0: any number */
        uint64_t store_bytes;       /* bytes that it keeps; 0: any number */
        weft_choice_store store_level;
    } trainer;
    struct {
        weft_choice_progress progress;
        uint64_t connect_deadline_ms;
        uint64_t close_deadline_ms;
        uint64_t io_deadline_ms;     /* no progress on a bucket for this long: the peer is lost */
        uint64_t device_deadline_ms; /* longest wait of a job for other work on the device */
    } session;
    struct {
        weft_choice_snapshot snapshot;
        weft_choice_verify verify;
        uint64_t deadline_ms;
    } commit;
    weft_choice_security security;
    struct {
        char key_file[WEFT_SITE_TEXT];      /* path of the site's key; "": none */
        char key_file_next[WEFT_SITE_TEXT]; /* path of a second key that is accepted; "": none */
        char ca[WEFT_SITE_TEXT];            /* path of the certificates that are trusted; "": keys are used */
        char certificate[WEFT_SITE_TEXT];   /* path of this end's chain */
        char key[WEFT_SITE_TEXT];           /* path of the private key for it */
    } proof;                                /* what mode = tls proves names by */
    weft_choice_replace replace;            /* whether a live peer's name is taken over by a second proof of it */
    struct {
        uint64_t most;        /* guests at one time, of all hosts */
        uint64_t of_address;  /* guests at one time of one host */
        uint64_t deadline_ms; /* time within which a guest says who it is */
        uint64_t bytes;       /* bytes that a guest sends before its name is proved, at most */
    } guests;                 /* connections that have not said who they are */
    weft_log_level log_level;
    weft_site_peer *peers; /* of [peer.NAME] sections, resolved, in file order */
    uint64_t peer_count;
    weft_site_provider *providers; /* one per known provider, resolved */
    uint64_t provider_count;
    weft_site_cut *cuts; /* in file order, then in that of overrides */
    uint64_t cut_count;
    weft_site_trainer *sources;      /* by number */
    uint64_t source_count;           /* 0: there is one trainer */
    struct weft_site_source *source; /* site.c's own: sections as read, for patterns and weft_site_get */
};

/* Resolves a peer by name; a name without its own section is admitted only by a pattern section.
 * Errors: WEFT_E_CONFIG (not admitted, with the names that are). */
weft_status weft_site_resolve(const weft_site *site, const char *name, weft_site_peer *peer);
/* Names the file of a peer's key, or of its next one: its own, else the site's. "*" in a path stands for the peer's
 * name. False: the site names none, or the path would be longer than 255 bytes. */
bool weft_site_key(const weft_site *site, const weft_site_peer *peer, bool next, char path[WEFT_SITE_TEXT]);
/* True if the site puts a relay before a peer, at most `hops` steps of `via` away: 1 is a relay that the peer's own
 * `via` names. */
bool weft_site_vouches(const weft_site *site, const char *relay, const char *peer, uint32_t hops);
/* Returns host:port of a source; of source 0 of a site without sections, that of the trainer. */
const char *weft_site_source_listen(const weft_site *site, uint64_t number);
/* Writes host:port at which a relay serves those that join source `number` through it: the port of its key for source
 * 0, the next port for source 1, and so on. False: ports do not go so far. */
bool weft_site_relay_listen(const char *relay, uint64_t number, char listen[WEFT_SITE_TEXT]);
const weft_site_provider *weft_site_provider_of(const weft_site *site, const char *name);

/* The rules of the site's cuts, which borrow from it. `cuts` has room for site->cut_count of them. */
struct weft_cut;
void weft_site_cuts(const weft_site *site, struct weft_cut *cuts);

/* The relays that a peer joins through, in order; 0: it joins the trainer. */
uint32_t weft_site_via(const weft_site_peer *peer, char names[WEFT_SITE_VIAS][WEFT_SITE_NAME]);

#define WEFT_SITE_RAILS 8u /* addresses that one end may name */

/* Cuts a list of addresses; 1 and "" for the empty text. */
uint32_t weft_site_rails(const char *address, char list[WEFT_SITE_RAILS][WEFT_SITE_NAME]);

/* Resolves the index-th of all [peer.NAME] and [peer.PREFIX*] sections, sections of overrides included:
 * whoever joins gets one of these rows. A pattern's has its prefix for a name. False past the last. */
bool weft_site_row(const weft_site *site, size_t index, weft_site_peer *row, bool *pattern);

/* Deep copy, for sessions. */
weft_status weft_site_copy(const weft_site *site, weft_site **copy);

/* The key table, for `weft check`, the manual's test and the locator. */
typedef enum weft_key_type {
    WEFT_KEY_TEXT,
    WEFT_KEY_CHOICE,
    WEFT_KEY_SIZE,
    WEFT_KEY_TIME,
    WEFT_KEY_RATE,
    WEFT_KEY_COUNT
} weft_key_type;
typedef struct weft_key {
    const char *section; /* "trainer", "peer", "provider", "cut", ... */
    const char *key;
    weft_key_type type;
    const char *fallback; /* default, as written in the file */
    const char *range;    /* "64KiB..1GiB", or "a | b | c" for a choice */
    bool rare;            /* for support cases: it stands last in the manual of its section */
    const char *help;     /* paragraphs of the manual */
} weft_key;
/* index from 0; NULL past the last. */
const weft_key *weft_key_at(size_t index);

#endif
