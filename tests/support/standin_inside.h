/* standin_inside.h - what the files of the stand-in share. */
#ifndef WEFT_TESTS_STANDIN_INSIDE_H
#define WEFT_TESTS_STANDIN_INSIDE_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "tests/support/standin.h"

#define STANDIN_QUEUE 64u

/* Table of providers/fabric_call.c: libfabric is opened at run time, so that its own names are not linked. */
struct fi_info *weft_fabric_call_dupinfo(const struct fi_info *info);
void weft_fabric_call_freeinfo(struct fi_info *info);

/* One object of libfabric whose tables of functions were replaced by copies that call here first. */
typedef struct standin_object {
    struct standin_object *next;
    const struct fid *fid;
    const standin_rules *rules;
    struct fi_ops base, *real_base;
    int (*on_close)(struct standin_object *object); /* before libfabric's own; NULL: nothing to do */
    struct standin_object *domain;                  /* of an endpoint, queue, vector or region */
} standin_object;

typedef struct standin_domain {
    standin_object object;
    struct fid_domain *domain;
    struct fi_ops_domain ops, *real;
    struct fi_ops_mr mr, *real_mr;
} standin_domain;

typedef struct standin_write {
    const void *data;
    size_t bytes;
    uint64_t immediate, address, key, order;
    fi_addr_t to;
    void *context;
} standin_write;

typedef struct standin_queue standin_queue;

typedef struct standin_endpoint {
    standin_object object;
    struct fid_ep *ep;
    struct fi_ops_ep options;
    struct fi_ops_cm names, *real_names;
    struct fi_ops_rma rma, *real_rma;
    standin_queue *queue;
    standin_write held[STANDIN_QUEUE];
    uint32_t held_count, under_way;
    uint64_t posts, sent_order; /* the highest order that went out */
    double refuses_until, stalls_until;
    bool posted; /* since the last poll */
} standin_endpoint;

struct standin_queue {
    standin_object object;
    struct fid_cq *cq;
    struct fi_ops_cq ops, *real;
    standin_endpoint *endpoint;
    struct fi_cq_data_entry *waiting; /* come, and not read yet: as a device puts them there by itself */
    size_t waiting_count, room;
    struct fi_cq_err_entry errors[STANDIN_QUEUE];
    double error_due[STANDIN_QUEUE];
    uint32_t error_count;
};

typedef struct standin_region {
    standin_object object;
    const uint8_t *memory;
    uint64_t bytes;
    uint64_t access;
} standin_region;

/* The fi_version that weft gets. */
uint32_t __wrap_weft_fabric_version(void);
double standin_now(void);
/* Ends the process with the rule that was broken. */
void standin_broken(const char *provider, const char *rule) __attribute__((noreturn));
/* Takes an object under watch; `object` comes zeroed from the heap and goes back there when the object is closed. */
void standin_watch(standin_object *object, struct fid *fid, const standin_rules *rules);
/* The state of an object; the process ends where there is none. */
void *standin_of(const struct fid *fid);
void standin_count_refused(void);
void standin_count_overtaken(void);
void standin_count_withheld(void);
void standin_count_stalled(void);
/* Zeroed, from the heap. */
void *standin_take(size_t bytes);
bool standin_descriptor_sticks(void); /* of the provider underneath */

/* Puts the rules of registration on a domain. */
void standin_domain_rule(standin_domain *domain);
/* standin_flow.c: puts the rules of writes and completions on an endpoint and a queue. */
void standin_endpoint_rule(standin_endpoint *endpoint);
void standin_queue_rule(standin_queue *queue);
/* For fi_trywait: whether something could happen without the descriptor being raised. */
bool standin_queue_is_busy(standin_queue *queue);

#endif
