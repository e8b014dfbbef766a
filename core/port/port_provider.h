/* port_provider.h - the table through which core moves buckets between processes.
 *
 * A *link* is one local address on one provider, used by one thread at a time. A *port* is one endpoint on a link, and
 * the unit of abort: closing the port ends all its operations. The trainer opens a port for each peer, rail and stream,
 * a rollout for each rail and stream. A *region* is registered memory. Data moves one way: `write` puts bytes into the
 * remote region and raises a 32-bit immediate there. The completion of a write frees the local bytes. It does not say
 * that they were delivered.
 *
 * Posting never blocks; WEFT_AGAIN takes nothing. No slot is optional. */
#ifndef WEFT_CORE_PORT_PROVIDER_H
#define WEFT_CORE_PORT_PROVIDER_H

#include <stdbool.h>

#include "port/port_names.h"
#include "weft.h"

#define WEFT_PROVIDER_ABI     4u
#define WEFT_PORT_ADDRESS_MAX 256u

/* Capabilities of a table. */
#define WEFT_PROVIDER_PIPED UINT64_C(1) /* ports reach each other by pipes that core makes, and by no address */

typedef struct weft_link weft_link;
typedef struct weft_port weft_port;
typedef struct weft_region weft_region;
typedef struct weft_pipe weft_pipe; /* port_pipe.h */

/* The most that may arrive on a port while its owner does not poll. All 0: nothing arrives. */
typedef struct weft_landing {
    uint32_t slots;  /* slots, each with a header */
    uint32_t pieces; /* pieces of a slot at most, each of which ends in a chunk of its own */
    uint64_t bytes;  /* bytes of a slot */
    uint64_t chunk;  /* least bytes of a chunk that is not the last, or the link's own if less */
} weft_landing;

typedef struct weft_link_options {
    const char *address; /* address or name of a local interface; "nearN": see accelerator; "": the provider chooses */
    uint32_t
        accelerator; /* the accelerator whose NICs are "near1", "near2", ..., counted from 1 in PCI order; 0: none */
    uint64_t chunk_bytes; /* bytes of the largest write; 0: the profile's */
    uint32_t depth;       /* writes in flight for each port; 0: the profile's */
    const void *faults;   /* for the loop: const weft_loop_faults *, else NULL */
    uint32_t port_low;    /* TCP ports on which endpoints may listen, both ends included; 0: any */
    uint32_t port_high;
    bool only_writes;     /* the link's ports receive nothing: a provider keeps strangers away if it can */
    weft_landing landing; /* arrivals for which each port's queue has room */
} weft_link_options;

/* Abilities of an open link. */
typedef struct weft_link_facts {
    const char *fabric;   /* libfabric's provider name, "loop" for the loop */
    uint64_t chunk_bytes; /* bytes of the largest write */
    uint32_t depth;       /* writes in flight for each port */
    bool has_fd;          /* ports have a file descriptor to wait on */
    uint32_t version;     /* version of the fabric library, major << 16 | minor; 0: none */
    uint32_t descriptors; /* descriptors of the process that an open port takes, about */
    bool one_major;       /* both ends need a library of the same major */
    bool dials;           /* ports have socket addresses, and connecting a port dials the other's address */
} weft_link_facts;

typedef struct weft_write {
    weft_region *region; /* region of `data` */
    const void *data;
    uint64_t bytes;
    uint64_t remote_address; /* address from region_remote plus an offset */
    uint64_t remote_key;
    uint32_t immediate;
    uint64_t cookie; /* number that comes back in the completion */
} weft_write;

typedef enum weft_completion_kind {
    WEFT_COMPLETION_WRITTEN = 1, /* the local bytes may be reused */
    WEFT_COMPLETION_ARRIVED = 2, /* a remote write with `immediate` is complete here */
    WEFT_COMPLETION_FAILED = 3   /* the write failed, or the port did (cookie UINT64_MAX) */
} weft_completion_kind;

typedef struct weft_completion {
    weft_completion_kind kind;
    weft_status status;
    uint32_t immediate;
    uint64_t cookie;
} weft_completion;

typedef struct weft_provider {
    uint32_t abi;
    const char *name;
    uint64_t caps; /* WEFT_PROVIDER_PIPED */
    size_t (*probe)(weft_provider_info *list, size_t capacity);
    /* Opens a link. Errors: WEFT_AGAIN, not logged (this host does not have the address now, or its interface is down;
     * that may pass); WEFT_E_CONFIG (the address is never possible); WEFT_E_MISSING, WEFT_E_PROVIDER, WEFT_E_SYSTEM,
     * WEFT_E_MEMORY. */
    weft_status (*link_open)(const weft_link_options *options, weft_link **link);
    void (*link_close)(weft_link *link); /* close its ports and regions before */
    void (*link_facts)(const weft_link *link, weft_link_facts *facts);
    /* Checks that the link's address can be reached now, as far as this host knows: the interface exists, is up, and
     * has a carrier. Errors, not logged: WEFT_E_CONFIG with the reason; WEFT_E_SYSTEM. */
    weft_status (*link_here)(const weft_link *link);
    /* Registers memory for local sends (remote false) or for remote writes (remote true). Remote writes get a fresh
     * random key if the caller may choose the key. */
    weft_status (*region_open)(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                               weft_region **region);
    /* Ends a registration. Close the port that receives into a remotely writable region first, because a write that
     * began goes on until its port is closed (tcp streams into the memory without asking again). That order is the
     * fence. */
    void (*region_close)(weft_region *region);
    void (*region_remote)(const weft_region *region, uint64_t *address, uint64_t *key);
    weft_status (*port_open)(weft_link *link, weft_port **port);
    /* Ends the port's operations in both directions. Their completions are never reported, and nothing arrives any more
     * through this port. */
    void (*port_close)(weft_port *port);
    weft_status (*port_address)(const weft_port *port, uint8_t *address,
                                uint32_t *length); /* `address` has room for MAX bytes */
    weft_status (*port_connect)(weft_port *port, const uint8_t *address, uint32_t length);
    /* Gives a port of a piped provider the connection with the other end's port; the port closes the pipe. Errors:
     * WEFT_E_ARGUMENT (the port has a pipe, or needs none), and the pipe stays the caller's. */
    weft_status (*port_pipe)(weft_port *port, weft_pipe *pipe);
    weft_status (*write)(weft_port *port, const weft_write *write);
    /* Makes progress and takes up to `capacity` completions. Returns their number. */
    size_t (*poll)(weft_port *port, weft_completion *completions, size_t capacity);
    int (*wait_fd)(const weft_port *port); /* descriptor to wait on; -1: none, poll with an adaptive sleep */
    /* Prepares for sleep on the descriptor. WEFT_AGAIN: do not sleep, poll again. */
    weft_status (*wait_arm)(weft_port *port);
} weft_provider;

#define WEFT_PROVIDER_DECLARE(name, symbol) extern const weft_provider weft_provider_##symbol;
WEFT_EACH_PROVIDER(WEFT_PROVIDER_DECLARE, WEFT_PROVIDER_DECLARE)

/* Finds a provider's table by weft's name for it (providers/registry.c). NULL: no such provider. */
const weft_provider *weft_provider_find(const char *name);
const weft_provider *weft_provider_at(size_t index);
/* True if ports of that provider reach each other by pipes. */
static inline bool weft_provider_is_piped(const weft_provider *provider)
{
    return provider && (provider->caps & WEFT_PROVIDER_PIPED);
}
/* Lends a table, which is found before the built-in one of its name; NULL ends the loan. Only while no session is open.
 */
void weft_provider_lend(const weft_provider *provider);
/* Returns the name of a provider that `provider = auto` tries, in order; NULL past the last. */
const char *weft_provider_auto_at(size_t index);
/* Finds the first of those providers that could serve from a local address (as weft_link_options.address) on this host.
 * `text` gets the choice, and why earlier ones were not taken. NULL: none could. */
const weft_provider *weft_provider_auto(const char *address, char *text, size_t capacity);
/* True if no provider could, but one may once the address is there or up. The last error says so. */
bool weft_provider_auto_waits(const char *address);
/* Writes name and version of the fabric library in use; "none" in a build without one. Needs 64 bytes of room. */
void weft_provider_library(char *text, size_t capacity);

#endif
