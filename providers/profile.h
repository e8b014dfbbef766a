/* profile.h - what weft must know about one libfabric provider, as data. fabric*.c act on it; nothing else differs
 * between tcp, verbs, efa and shm. No libfabric header here: profiles compile without one. */
#ifndef WEFT_PROVIDERS_PROFILE_H
#define WEFT_PROVIDERS_PROFILE_H

#include "port/port_provider.h"
#include "providers/no_pipe.h"

/* As libfabric counts: also weft_link_facts.version. */
#define WEFT_FABRIC_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

/* How weft_link_options.address is understood. */
typedef enum weft_profile_addressing {
    WEFT_ADDRESS_SOURCE, /* an IP of this host or an interface name; required */
    WEFT_ADDRESS_DOMAIN, /* a libfabric domain (device) name; empty or an IP of this host: the first device */
    WEFT_ADDRESS_NONE    /* ignored */
} weft_profile_addressing;

typedef enum weft_profile_wait {
    WEFT_WAIT_FD,   /* ask for a completion queue with a descriptor; polling if the provider has none */
    WEFT_WAIT_SLEEP /* never ask: the caller polls and sleeps adaptively */
} weft_profile_wait;

/* The hardware that it takes, as the host's sysfs tells it. */
typedef enum weft_profile_device {
    WEFT_DEVICE_NONE, /* none */
    WEFT_DEVICE_RDMA, /* an RDMA device that is no EFA */
    WEFT_DEVICE_EFA
} weft_profile_device;

/* Capabilities, by weft's own names; what a profile lacks in `caps` is not asked for. */
typedef enum weft_profile_cap {
    WEFT_CAP_WRITE = 1 << 0,  /* remote writes, both as their source and as their target */
    WEFT_CAP_MESSAGE = 1 << 1 /* messages, where the provider grants no writes without them */
} weft_profile_cap;

/* The peers that an endpoint may reach. */
typedef enum weft_profile_reach {
    WEFT_REACH_ANY,   /* the provider decides by which way */
    WEFT_REACH_REMOTE /* the same way for peers on this host as for others: nothing else underneath */
} weft_profile_reach;

/* Demands on memory registration that a profile lets the provider make. What is not offered here, fi_getinfo refuses:
 * leaving out PROVIDER_KEY is how a profile makes sure that keys are weft's own random ones. */
typedef enum weft_profile_registration {
    WEFT_MR_LOCAL = 1 << 0,           /* local memory has a descriptor too */
    WEFT_MR_VIRTUAL_ADDRESS = 1 << 1, /* remote writes name addresses, not offsets */
    WEFT_MR_ALLOCATED = 1 << 2,       /* the pages are there when they are registered */
    WEFT_MR_PROVIDER_KEY = 1 << 3,    /* the provider chooses the keys */
    WEFT_MR_ENDPOINT = 1 << 4,        /* a region belongs to one endpoint, and goes before it: never offered, for the
                                         endpoint that receives is closed first, which is the fence */
    WEFT_MR_OTHER = 1 << 5            /* something that weft does not know: never offered */
} weft_profile_registration;

/* Protocol that the answer must name, because one name stands for several. */
typedef enum weft_profile_protocol {
    WEFT_PROTOCOL_ANY,
    WEFT_PROTOCOL_RXM_THROUGH, /* rxm that hands each call on to the provider underneath */
    WEFT_PROTOCOL_OTHER        /* of a candidate: none of those above */
} weft_profile_protocol;

/* Endpoint options, by weft's own names: libfabric's appear and vanish with its version. */
typedef enum weft_profile_option {
    WEFT_OPTION_NONE = 0, /* ends a list */
    WEFT_OPTION_RNR_RETRY,
    WEFT_OPTION_SHARED_MEMORY,
    WEFT_OPTION_CUDA_API,
    WEFT_OPTION_EMULATED_WRITE, /* read, not set: another value than the row's is warned of */
    WEFT_OPTION_UNSOLICITED     /* whether writes with an immediate arrive without consuming a receive */
} weft_profile_option;

typedef struct weft_profile_setting {
    weft_profile_option option;
    int value;
} weft_profile_setting;

typedef enum weft_profile_duty {
    WEFT_DUTY_WARN, /* the user's to set: a line in the log where it is not */
    WEFT_DUTY_SET   /* weft sets it before its first call of libfabric unless it is there */
} weft_profile_duty;

typedef struct weft_profile_environment {
    const char *name; /* NULL ends a list */
    const char *value;
    weft_profile_duty duty;
    const char *reason;
} weft_profile_environment;

/* libfabric's name for the provider from a version on. */
typedef struct weft_profile_name {
    uint32_t since;
    const char *fabric;
} weft_profile_name;

/* Whether both ends of a connection must have libfabric of one major version. */
typedef enum weft_profile_mixing { WEFT_MIXING_ALLOWED, WEFT_MIXING_REFUSED } weft_profile_mixing;

#define WEFT_PROFILE_NAMES       2
#define WEFT_PROFILE_SETTINGS    7
#define WEFT_PROFILE_ENVIRONMENT 4

typedef struct weft_profile {
    const char *name;
    weft_profile_name names[WEFT_PROFILE_NAMES]; /* newest first; the last one has since 0 */
    const char *only;                            /* the one fabric of the provider that serves; NULL: any but `never` */
    const char *never;                           /* the fabric of the provider that does not; NULL: none */
    weft_profile_protocol protocol;
    uint32_t oldest; /* libfabric below it is refused; 0: none is */
    uint32_t newest_api;
    unsigned caps; /* weft_profile_cap bits */
    weft_profile_reach reach;
    weft_profile_addressing addressing;
    bool dials;            /* weft_link_facts.dials */
    unsigned registration; /* weft_profile_registration bits */
    bool pins;             /* registering locks the pages: the process's limit must hold them */
    uint32_t immediate_bytes;
    uint64_t chunk_bytes; /* of one write, unless the site says otherwise; */
    uint64_t chunk_max;   /* never more */
    uint32_t depth;       /* writes in flight per port, unless the site says otherwise; */
    uint32_t depth_max;   /* never more, nor than the provider's transmit queue */
    weft_profile_setting settings[WEFT_PROFILE_SETTINGS];
    weft_profile_environment environment[WEFT_PROFILE_ENVIRONMENT];
    weft_profile_wait wait;
    uint32_t descriptors;             /* of the process, that an open port takes; 0: none, or not counted */
    uint32_t descriptor_sticks_below; /* libfabric below it leaves the descriptor raised for ever; 0: none does */
    bool listens;                     /* an endpoint has a TCP listener of this process, which takes whoever connects */
    weft_profile_mixing mixing;
    weft_profile_device device;
    const char *absent;     /* the places to look at where there is none */
    const char *completion; /* the proof that a WRITTEN completion is */
    const char *abort;      /* the way in which operations under way are ended */
} weft_profile;

/* Every profile, in the order of `weft info`; NULL past the last. */
const weft_profile *weft_profile_at(size_t index);
/* By weft's name; NULL: none. */
const weft_profile *weft_profile_find(const char *name);
/* libfabric's name for the provider in a version of it. */
const char *weft_profile_fabric(const weft_profile *profile, uint32_t version);
/* The version whose rules are asked for: the least of library, header and what weft was tried under. */
uint32_t weft_profile_api(const weft_profile *profile, uint32_t library, uint32_t header);
/* Writes one line of the profile's table into `text`; returns the line's name, NULL past the last line. */
const char *weft_profile_line(const weft_profile *profile, size_t line, char *text, size_t capacity);
const char *weft_profile_option_name(weft_profile_option option);

/* The table's slots, generic over a profile (fabric*.c; fabric_none.c in a build without libfabric). */
size_t weft_fabric_probe(const weft_profile *profile, weft_provider_info *list, size_t capacity);
weft_status weft_fabric_link_open(const weft_profile *profile, const weft_link_options *options, weft_link **link);
void weft_fabric_link_close(weft_link *link);
void weft_fabric_link_facts(const weft_link *link, weft_link_facts *facts);
weft_status weft_fabric_link_here(const weft_link *link);
weft_status weft_fabric_region_open(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                                    weft_region **region);
void weft_fabric_region_close(weft_region *region);
void weft_fabric_region_remote(const weft_region *region, uint64_t *address, uint64_t *key);
weft_status weft_fabric_port_open(weft_link *link, weft_port **port);
void weft_fabric_port_close(weft_port *port);
weft_status weft_fabric_port_address(const weft_port *port, uint8_t *address, uint32_t *length);
weft_status weft_fabric_port_connect(weft_port *port, const uint8_t *address, uint32_t length);
weft_status weft_fabric_write(weft_port *port, const weft_write *write);
size_t weft_fabric_poll(weft_port *port, weft_completion *completions, size_t capacity);
int weft_fabric_wait_fd(const weft_port *port);
weft_status weft_fabric_wait_arm(weft_port *port);
/* Name and version of the library that is loaded; "no libfabric". */
void weft_fabric_library(char *text, size_t capacity);
/* An address inside the libfabric that weft's calls reach; NULL without one. */
const void *weft_fabric_anchor(void);

/* The slots of an open link, which a build without libfabric never has. */
#ifdef WEFT_NO_FABRIC
#define WEFT_FABRIC_SLOTS
#else
#define WEFT_FABRIC_SLOTS                                                                                              \
    .link_close = weft_fabric_link_close, .link_facts = weft_fabric_link_facts, .link_here = weft_fabric_link_here,    \
    .region_open = weft_fabric_region_open, .region_close = weft_fabric_region_close,                                  \
    .region_remote = weft_fabric_region_remote, .port_open = weft_fabric_port_open,                                    \
    .port_close = weft_fabric_port_close, .port_address = weft_fabric_port_address,                                    \
    .port_connect = weft_fabric_port_connect, .port_pipe = weft_no_pipe, .write = weft_fabric_write,                   \
    .poll = weft_fabric_poll, .wait_fd = weft_fabric_wait_fd, .wait_arm = weft_fabric_wait_arm
#endif

/* Defines the const table `weft_provider_SYMBOL` over a profile. */
#define WEFT_FABRIC_PROVIDER(SYMBOL, TEXT)                                                                             \
    static size_t SYMBOL##_probe(weft_provider_info *list, size_t capacity)                                            \
    {                                                                                                                  \
        return weft_fabric_probe(&weft_profile_##SYMBOL, list, capacity);                                              \
    }                                                                                                                  \
    static weft_status SYMBOL##_link_open(const weft_link_options *options, weft_link **link)                          \
    {                                                                                                                  \
        return weft_fabric_link_open(&weft_profile_##SYMBOL, options, link);                                           \
    }                                                                                                                  \
    const weft_provider weft_provider_##SYMBOL = {.abi = WEFT_PROVIDER_ABI,                                            \
                                                  .name = TEXT,                                                        \
                                                  .probe = SYMBOL##_probe,                                             \
                                                  .link_open = SYMBOL##_link_open,                                     \
                                                  WEFT_FABRIC_SLOTS}

#define WEFT_PROFILE_DECLARE(name, symbol) extern const weft_profile weft_profile_##symbol;
WEFT_EACH_PROVIDER(WEFT_PROFILE_DECLARE, WEFT_NAME_NONE)

#endif
