/* profile.h - what weft must know about one libfabric provider, as data. fabric*.c act on it; nothing else differs
 * between tcp, verbs, efa and shm. No libfabric header here: profiles compile without one. */
#ifndef WEFT_PROVIDERS_PROFILE_H
#define WEFT_PROVIDERS_PROFILE_H

#include "port_provider.h"

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

/* Demands on memory registration that a profile lets the provider make. What is not offered here, fi_getinfo refuses:
 * leaving out PROVIDER_KEY is how a profile makes sure that keys are weft's own random ones. */
typedef enum weft_profile_registration {
    WEFT_MR_LOCAL = 1 << 0,
    WEFT_MR_VIRTUAL_ADDRESS = 1 << 1,
    WEFT_MR_ALLOCATED = 1 << 2,
    WEFT_MR_PROVIDER_KEY = 1 << 3,
    WEFT_MR_ENDPOINT = 1 << 4
} weft_profile_registration;

/* Endpoint options, by weft's own names: libfabric's appear and vanish with its version. */
typedef enum weft_profile_option {
    WEFT_OPTION_NONE = 0, /* ends a list */
    WEFT_OPTION_RNR_RETRY,
    WEFT_OPTION_SHARED_MEMORY,
    WEFT_OPTION_CUDA_API
} weft_profile_option;

typedef struct weft_profile_setting {
    weft_profile_option option;
    int value;
} weft_profile_setting;

typedef struct weft_profile_environment {
    const char *name; /* NULL ends a list */
    const char *value;
    const char *reason;
} weft_profile_environment;

/* libfabric's name for the provider from a version on. */
typedef struct weft_profile_name {
    uint32_t since;
    const char *fabric;
} weft_profile_name;

#define WEFT_PROFILE_NAMES       2
#define WEFT_PROFILE_SETTINGS    4
#define WEFT_PROFILE_ENVIRONMENT 3

typedef struct weft_profile {
    const char *name;
    weft_profile_name names[WEFT_PROFILE_NAMES]; /* newest first; the last one has since 0 */
    uint32_t oldest;                             /* libfabric below it is refused; 0: none is */
    const char *oldest_reason;
    weft_profile_addressing addressing;
    unsigned registration; /* weft_profile_registration bits */
    bool message_caps;     /* FI_MSG is asked for besides RMA, because the provider grants no RMA without it */
    bool pass_through;     /* rxm only where it hands each call on: see fabric.c */
    bool shared_endpoint;  /* one endpoint for all peers; false everywhere so far: fabric_port.c opens one per port */
    weft_profile_wait wait;
    uint32_t descriptor_sticks_below; /* libfabric below it leaves the descriptor raised for ever; 0: none does */
    uint64_t chunk_bytes;
    uint32_t depth;
    weft_profile_setting settings[WEFT_PROFILE_SETTINGS];
    weft_profile_environment environment[WEFT_PROFILE_ENVIRONMENT];
    const char *absent;     /* what a failed fi_getinfo most likely means, and what to look at */
    const char *completion; /* what a WRITTEN completion proves */
    const char *abort;      /* how operations under way are ended */
} weft_profile;

/* The table's slots, generic over a profile (fabric*.c; fabric_none.c in a build without libfabric). */
size_t weft_fabric_probe(const weft_profile *profile, weft_provider_info *list, size_t capacity);
weft_status weft_fabric_link_open(const weft_profile *profile, const weft_link_options *options, weft_link **link);
void weft_fabric_link_close(weft_link *link);
void weft_fabric_link_facts(const weft_link *link, weft_link_facts *facts);
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
/* Name and version of the library that is loaded; "none". */
void weft_fabric_library(char *text, size_t capacity);

/* Defines the const table `weft_provider_SYMBOL` over a profile. */
#define WEFT_FABRIC_PROVIDER(SYMBOL, TEXT, PROFILE)                                                                    \
    static size_t SYMBOL##_probe(weft_provider_info *list, size_t capacity)                                            \
    {                                                                                                                  \
        return weft_fabric_probe(&PROFILE, list, capacity);                                                            \
    }                                                                                                                  \
    static weft_status SYMBOL##_link_open(const weft_link_options *options, weft_link **link)                          \
    {                                                                                                                  \
        return weft_fabric_link_open(&PROFILE, options, link);                                                         \
    }                                                                                                                  \
    const weft_provider weft_provider_##SYMBOL = {                                                                     \
        .abi = WEFT_PROVIDER_ABI,                                                                                      \
        .name = TEXT,                                                                                                  \
        .probe = SYMBOL##_probe,                                                                                       \
        .link_open = SYMBOL##_link_open,                                                                               \
        .link_close = weft_fabric_link_close,                                                                          \
        .link_facts = weft_fabric_link_facts,                                                                          \
        .region_open = weft_fabric_region_open,                                                                        \
        .region_close = weft_fabric_region_close,                                                                      \
        .region_remote = weft_fabric_region_remote,                                                                    \
        .port_open = weft_fabric_port_open,                                                                            \
        .port_close = weft_fabric_port_close,                                                                          \
        .port_address = weft_fabric_port_address,                                                                      \
        .port_connect = weft_fabric_port_connect,                                                                      \
        .write = weft_fabric_write,                                                                                    \
        .poll = weft_fabric_poll,                                                                                      \
        .wait_fd = weft_fabric_wait_fd,                                                                                \
        .wait_arm = weft_fabric_wait_arm,                                                                              \
    }

extern const weft_provider weft_provider_tcp;
extern const weft_provider weft_provider_tcp_rxm;
extern const weft_provider weft_provider_verbs;
extern const weft_provider weft_provider_efa;
extern const weft_provider weft_provider_shm;

#endif
