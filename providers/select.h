/* select.h - which of libfabric's answers serves a peer, as a pure function: plain data in, a verdict on each candidate
 * and the one taken or the missing piece out. No libfabric and no system call here, so that recorded lists of hosts
 * that are not at hand are judged by the same code. */
#ifndef WEFT_PROVIDERS_SELECT_H
#define WEFT_PROVIDERS_SELECT_H

#include "providers/profile.h"

typedef enum weft_link_state { WEFT_LINK_UNKNOWN, WEFT_LINK_DOWN, WEFT_LINK_UP } weft_link_state;

/* One fi_info. */
typedef struct weft_candidate {
    char provider[48];
    char fabric[64];
    char domain[64];
    char address[64]; /* numeric IP; "": none that is one */
    weft_profile_protocol protocol;
    unsigned caps;         /* weft_profile_cap bits that are granted */
    unsigned registration; /* weft_profile_registration bits that are demanded */
    uint32_t immediate_bytes;
    uint32_t key_bytes;
    uint64_t message_bytes;
    uint64_t transmit; /* entries of the queues */
    uint64_t receive;
    weft_link_state link;
    uint64_t bits_s;  /* 0: unknown */
    char network[16]; /* "InfiniBand", "Ethernet"; "": unknown */
    char bus[16];     /* PCI address "0000:17:00.0"; "": unknown */
    int gids;         /* of the device that others can reach, where it is told apart by them; -1: unknown */
} weft_candidate;

/* In the order in which a candidate is asked: of several that fail, the one that came furthest tells what is missing.
 */
typedef enum weft_verdict {
    WEFT_VERDICT_PROVIDER, /* another provider, listed because its name begins alike */
    WEFT_VERDICT_FABRIC,   /* the provider's other fabric */
    WEFT_VERDICT_PROTOCOL,
    WEFT_VERDICT_CAPS,
    WEFT_VERDICT_REGISTRATION,
    WEFT_VERDICT_IMMEDIATE,
    WEFT_VERDICT_ADDRESS, /* another interface or device than the one asked for */
    WEFT_VERDICT_DOWN,
    WEFT_VERDICT_LINK_LOCAL,
    WEFT_VERDICT_GID,
    WEFT_VERDICT_FITS, /* would serve, but one before it was taken */
    WEFT_VERDICT_TAKEN
} weft_verdict;

typedef enum weft_missing {
    WEFT_MISSING_NOTHING,
    WEFT_MISSING_LIBRARY,    /* no libfabric in the build or on the host */
    WEFT_MISSING_VERSION,    /* the library is too old */
    WEFT_MISSING_PROVIDER,   /* the device is here, the library does not know the provider */
    WEFT_MISSING_DEVICE,     /* no device, or for a provider without devices: no answer */
    WEFT_MISSING_CAPABILITY, /* answers, but none that grants what is asked */
    WEFT_MISSING_ADDRESS,    /* no answer on the interface or device asked for */
    WEFT_MISSING_LINK,       /* it is down */
    WEFT_MISSING_ROUTABLE,   /* link-local addresses only */
    WEFT_MISSING_GID,
    WEFT_MISSING_PINNING /* the process may not lock as much memory as will be registered */
} weft_missing;

/* The facts of this host for one profile. */
typedef struct weft_host_survey {
    const weft_profile *profile;
    uint32_t library;    /* version loaded; 0: built without */
    const char *address; /* as asked for, "" for any */
    const char *numeric; /* the same as a numeric IP; "": it is none, or any */
    const weft_candidate *candidates;
    size_t count;
    bool known;           /* the library lists the provider */
    const char *here;     /* names of this host's devices of the profile's kind; "": none */
    const char *error;    /* fi_getinfo's word where it had no answer; without a library the reason */
    const char *hindered; /* what is the matter with the interface that has `numeric`; "" or NULL: nothing */
    uint64_t pin_limit;   /* bytes that this process may lock; UINT64_MAX: any number */
    uint64_t pin_bytes;   /* that will be registered; 0: not known yet */
} weft_host_survey;

typedef struct weft_selection {
    weft_missing missing;
    size_t taken;   /* index of the candidate, where nothing is missing */
    char text[320]; /* what was taken, or what is missing with the mend */
} weft_selection;

/* Judges every candidate into `verdicts` (as many as candidates) and chooses the first that fits. */
void weft_select(const weft_host_survey *survey, weft_verdict *verdicts, weft_selection *selection);

/* The status that goes with what is missing. */
weft_status weft_select_status(weft_missing missing);

/* One word for each: "taken", "address", ... */
const char *weft_verdict_name(weft_verdict verdict);
const char *weft_missing_name(weft_missing missing);
/* The verdict on one candidate in words. */
void weft_verdict_text(const weft_host_survey *survey, size_t index, weft_verdict verdict, char *text, size_t capacity);

/* Whether `bytes` more than `pinned` may be locked; else the refusal, with the number needed, in `text`. */
bool weft_select_may_pin(const weft_profile *profile, uint64_t limit, uint64_t pinned, uint64_t bytes, char *text,
                         size_t capacity);

#endif
