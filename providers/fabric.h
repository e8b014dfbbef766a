/* fabric.h - what fabric*.c share: the only files that know libfabric. */
#ifndef WEFT_PROVIDERS_FABRIC_H
#define WEFT_PROVIDERS_FABRIC_H

#include <errno.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#include "providers/interface.h"
#include "providers/profile.h"
#include "providers/review.h"

struct weft_link {
    const weft_profile *profile;
    const char *fabric_name;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    char asked[WEFT_INTERFACE_TEXT];   /* the same as the site has it, an interface perhaps; cut where it is longer */
    char address[WEFT_INTERFACE_TEXT]; /* numeric IP asked for; "": the provider's choice */
    uint64_t chunk_bytes;
    uint32_t depth;
    uint64_t arrivals; /* that a port's queue has room for beside its writes */
    bool has_fd;
    uint32_t port_low; /* of endpoints; 0: any */
    uint32_t port_high;
    bool only_writes;
};

struct weft_region {
    struct fid_mr *mr; /* NULL: local memory of a provider that needs no registration for it */
    uint64_t address;  /* what remote writes are aimed at */
    uint64_t key;
    uint64_t pinned; /* bytes */
};

/* One write under way; the provider owns `context` until it completes. */
typedef struct weft_operation {
    struct fi_context2 context; /* first: the completion's op_context is its address */
    struct weft_operation *next;
    uint64_t cookie;
} weft_operation;

struct weft_port {
    weft_link *link;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t peer; /* FI_ADDR_UNSPEC until connected */
    int fd;
    bool broken;   /* the completion queue failed, and that was reported */
    bool has_kept; /* `kept` was read before its time: see weft_fabric_wait_arm */
    struct fi_cq_data_entry kept;
    weft_operation *free;
    weft_operation *operations;
    char peer_text[64]; /* for messages */
};

/* fabric_call.c: the calls of libfabric that its headers do not define inline. Without the library they fail with
 * -FI_ENOSYS or NULL. fi_allocinfo is weft_fabric_call_dupinfo(NULL). */
int weft_fabric_call_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                             const struct fi_info *hints, struct fi_info **info);
void weft_fabric_call_freeinfo(struct fi_info *info);
struct fi_info *weft_fabric_call_dupinfo(const struct fi_info *info);
int weft_fabric_call_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
const char *weft_fabric_call_strerror(int number);

/* libfabric reads its switches once, in its first call: every call of it that may be the first comes after this. */
void weft_fabric_switches(void);

/* libfabric's bits for weft_profile_registration's. */
int weft_fabric_modes(unsigned registration);

/* Asks libfabric for exactly the candidate: one entry, which the caller gives back with weft_fabric_call_freeinfo.
 * `node` is a numeric source IP or NULL. Returns libfabric's (negative) error. */
int weft_fabric_getinfo(const weft_profile *profile, const weft_candidate *candidate, const char *node,
                        struct fi_info **info);

/* fabric_option.c: sets the row's options on an endpoint that is not enabled yet. */
void weft_fabric_options_set(const weft_link *link, struct fid_ep *ep);
/* Looks at those that can only be read, of one that is enabled. */
void weft_fabric_options_read(const weft_link *link, struct fid_ep *ep);

/* Before every call of libfabric that makes progress. If a connection ends before its first message, libfabric 1.17 and
 * 2.1 read errno, which a read of no bytes leaves unset. A stale EAGAIN makes libfabric wait for ever and keep the
 * socket, so errno is cleared first. */
static inline void weft_fabric_enter(void)
{
    errno = 0;
}

/* fabric_listener.c: nobody reaches the listener of a port that only writes. */
void weft_fabric_listener_fence(const weft_port *port);
/* Ends the listener of a port that is about to be closed and all connections that it took, and has libfabric see it. */
void weft_fabric_listener_shut(weft_port *port);

/* Fails with what a call of libfabric said to a port. */
weft_status weft_fabric_port_refuse(const weft_port *port, const char *call, int error);

/* A completion queue for a port of the link; `fd` asks for a descriptor. Returns libfabric's error. */
int weft_fabric_queue(const weft_link *link, bool fd, struct fid_cq **queue);

#endif
