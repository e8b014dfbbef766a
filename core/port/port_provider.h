/* port_provider.h - the table through which core moves buckets between processes.
 *
 * A *link* is one local address on one provider, used by one thread at a time. A *port* is one endpoint on it, the unit
 * of abort: closing it ends all its operations. The trainer opens one per peer, rail and stream; a rollout one per rail
 * and stream. A *region* is registered memory. Data moves one way: `write` puts bytes into the remote region and raises
 * a 32-bit immediate there. Completion of a write says the local bytes may be reused, nothing about delivery.
 *
 * Posting never blocks; WEFT_AGAIN takes nothing. No slot is optional. */
#ifndef WEFT_CORE_PORT_PROVIDER_H
#define WEFT_CORE_PORT_PROVIDER_H

#include <stdbool.h>

#include "weft.h"

#define WEFT_PROVIDER_ABI     2u
#define WEFT_PORT_ADDRESS_MAX 256u

typedef struct weft_link weft_link;
typedef struct weft_port weft_port;
typedef struct weft_region weft_region;

/* Whose memory a region is. */
typedef enum weft_region_kind { WEFT_REGION_HOST, WEFT_REGION_CUDA, WEFT_REGION_HIP } weft_region_kind;

/* Memory to register as one region: a whole slab, once, when it is taken; never a tensor. */
typedef struct weft_region_memory {
    void *data; /* of a device: the address by which its driver knows it */
    uint64_t bytes;
    weft_region_kind kind;
    int device;             /* the driver's number for it */
    int dmabuf;             /* descriptor by which the driver exports it, lent for the call; -1: none */
    uint64_t dmabuf_offset; /* of `data` in what is exported */
} weft_region_memory;

/* What may land on a port while its owner does not poll. All 0: nothing does. */
typedef struct weft_landing {
    uint32_t slots;  /* each with a header */
    uint32_t pieces; /* of a slot at most, each ending in a chunk of its own */
    uint64_t bytes;  /* of a slot */
    uint64_t chunk;  /* least size of those that are not the last; the link's own where that is less */
} weft_landing;

typedef struct weft_link_options {
    const char *address;  /* local interface address or name; "nearN": see accelerator; "" lets the provider choose */
    uint32_t accelerator; /* whose NICs "near1", "near2", ... name, counted from 1 as in PCI addresses; 0: none */
    uint64_t chunk_bytes; /* 0: the profile's */
    uint32_t depth;       /* writes in flight per port that the caller will want; 0: the profile's */
    const void *faults;   /* loop: const weft_loop_faults *, else NULL */
    uint32_t port_low;    /* TCP ports that endpoints may listen on, both ends included; 0: any */
    uint32_t port_high;
    bool only_writes;        /* nobody writes to its ports: a provider keeps strangers away from them where it can */
    weft_landing landing;    /* its arrivals have room in each port's queue */
    weft_region_kind memory; /* whose memory regions will be of besides the host's; the facts tell what came of it */
} weft_link_options;

/* What an open link can do. */
typedef struct weft_link_facts {
    const char *fabric;   /* libfabric's provider name, "loop" for the loop */
    uint64_t chunk_bytes; /* largest write */
    uint32_t depth;       /* writes in flight per port */
    bool has_fd;          /* ports have a file descriptor to wait on */
    uint32_t version;     /* of the fabric library, major << 16 | minor; 0: none */
    uint32_t descriptors; /* of the process, that an open port takes, about */
    bool one_major;       /* both ends need a library of one major */
    bool dials;           /* ports are known by socket addresses, and one that is connected dials the other's */
    bool direct;          /* region_open_device may be called: the adapter reads and writes a device's memory itself */
    /* Bytes that have ARRIVED in a device's region are not yet what the device reads: whoever hands them on must first
     * call the driver for it (CUDA: cuFlushGPUDirectRDMAWrites, or work submitted after the arrival was polled; HIP:
     * work submitted after it). False wherever `direct` is false. */
    bool needs_flush;
    const char *memory; /* direct or staged, and why; as long as the link */
} weft_link_facts;

typedef struct weft_write {
    weft_region *region; /* of `data` */
    const void *data;
    uint64_t bytes;
    uint64_t remote_address; /* region_remote's address plus an offset */
    uint64_t remote_key;
    uint32_t immediate;
    uint64_t cookie; /* comes back in the completion */
} weft_write;

typedef enum weft_completion_kind {
    WEFT_COMPLETION_WRITTEN = 1, /* the local bytes may be reused */
    WEFT_COMPLETION_ARRIVED = 2, /* a remote write with `immediate` has landed whole */
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
    uint64_t caps; /* 0: reserved */
    size_t (*probe)(weft_provider_info *list, size_t capacity);
    /* Errors: WEFT_AGAIN (the address is none of this host's now, or its interface is not up, which may pass: quietly);
     * WEFT_E_CONFIG (it can never be); WEFT_E_MISSING, WEFT_E_PROVIDER, WEFT_E_SYSTEM, WEFT_E_MEMORY. */
    weft_status (*link_open)(const weft_link_options *options, weft_link **link);
    void (*link_close)(weft_link *link); /* after its ports and regions */
    void (*link_facts)(const weft_link *link, weft_link_facts *facts);
    /* Whether its address can be reached now, as far as this host knows: the interface is there, up, and has a carrier.
     * Errors, which are not logged: WEFT_E_CONFIG with what is the matter; WEFT_E_SYSTEM. */
    weft_status (*link_here)(const weft_link *link);
    /* Registers memory for local sends (remote false) or remote writes (true, with a fresh random key where the caller
     * may choose it). */
    weft_status (*region_open)(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                               weft_region **region);
    /* The same of a device's memory, through a link that is direct. Where it cannot be had the error says what is
     * missing (WEFT_E_MISSING), the link is direct no longer, and buckets go through host memory. */
    weft_status (*region_open_device)(weft_link *link, weft_port *port, const weft_region_memory *memory, bool remote,
                                      weft_region **region);
    /* Of remotely writable memory only after the port that received into it: a write that has begun to land goes on
     * landing until its port is closed (tcp streams into the memory without asking again). That order is the fence. */
    void (*region_close)(weft_region *region);
    void (*region_remote)(const weft_region *region, uint64_t *address, uint64_t *key);
    weft_status (*port_open)(weft_link *link, weft_port **port);
    /* Ends its operations, in both directions; their completions are never reported, and nothing lands any more through
     * this port. */
    void (*port_close)(weft_port *port);
    weft_status (*port_address)(const weft_port *port, uint8_t *address, uint32_t *length); /* MAX bytes of room */
    weft_status (*port_connect)(weft_port *port, const uint8_t *address, uint32_t length);
    weft_status (*write)(weft_port *port, const weft_write *write);
    /* Makes progress and takes up to `capacity` completions; 0 if there are none. */
    size_t (*poll)(weft_port *port, weft_completion *completions, size_t capacity);
    int (*wait_fd)(const weft_port *port); /* -1: none, poll with an adaptive sleep */
    /* Before sleeping on the descriptor: WEFT_AGAIN says do not sleep, poll again. */
    weft_status (*wait_arm)(weft_port *port);
} weft_provider;

/* registry of providers (providers/registry.c): by weft's name; NULL: no such provider. */
const weft_provider *weft_provider_find(const char *name);
const weft_provider *weft_provider_at(size_t index);
/* A table from outside, found before that of its name; NULL takes it away. While no session is open. */
void weft_provider_lend(const weft_provider *provider);
/* What `provider = auto` tries, in its order; NULL past the last. */
const char *weft_provider_auto_at(size_t index);
/* The first of them that could serve from a local address (as weft_link_options.address) here; NULL: none. `text`
 * gets the choice and why those before it were not taken. */
const weft_provider *weft_provider_auto(const char *address, char *text, size_t capacity);
/* Where that is none: whether one may serve once the address is there or up, which the last error then says. */
bool weft_provider_auto_waits(const char *address);
/* Name and version of the fabric library in use, at least 64 bytes of room; "none" when built without. */
void weft_provider_library(char *text, size_t capacity);

#endif
