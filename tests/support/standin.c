/* standin.c - what a provider that is played answers when it is asked for and opened. */
#ifndef WEFT_NO_FABRIC
#include "tests/support/standin_inside.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* The linker's names: calls of X come to __wrap_X, and __real_X is the library's. */
int __real_weft_fabric_call_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                                    const struct fi_info *hints, struct fi_info **info);
int __real_weft_fabric_call_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
uint32_t __real_weft_fabric_version(void);
ssize_t __real_getrandom(void *bytes, size_t count, unsigned flags);
int __real_getrlimit(int resource, struct rlimit *limit);
int __wrap_weft_fabric_call_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                                    const struct fi_info *hints, struct fi_info **info);
int __wrap_weft_fabric_call_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
int __wrap_getrlimit(int resource, struct rlimit *limit);

#define GID_BYTES 16 /* in front of the sockaddr underneath, in an address of the provider's own */

static const uint8_t gid[GID_BYTES] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 's', 't', 'a', 'n', 'd', '-', 'i', 'n'};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const standin_rules *played;
static uint64_t drawn; /* what the next `draws` numbers are */
static unsigned draws;
static rlim_t lockable = RLIM_INFINITY;
static struct fi_info *plains; /* kept to the end of the process */

typedef struct fabric_object {
    standin_object object;
    struct fi_ops_fabric ops, *real;
} fabric_object;

typedef struct vector_object {
    standin_object object;
    struct fi_ops_av ops, *real;
} vector_object;

static const standin_rules *row_of(const char *play)
{
    const standin_rules *found = NULL;
    for (size_t i = 0; standin_at(i); i++) {
        const standin_rules *row = standin_at(i);
        if (strcmp(row->play ? row->play : row->provider, play) == 0)
            found = row;
    }
    return found;
}

void standin_use(const char *provider)
{
    played = row_of(provider);
}

const char *standin_provider(const char *play)
{
    const standin_rules *row = row_of(play);
    return row ? row->provider : play;
}

void standin_draw(uint64_t number, unsigned times)
{
    drawn = number;
    draws = times;
}

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
    if (!draws || count != sizeof drawn)
        return __real_getrandom(bytes, count, flags);
    draws--;
    memcpy(bytes, &drawn, sizeof drawn);
    return sizeof drawn;
}

void standin_lock_limit(uint64_t bytes)
{
    lockable = bytes;
}

/* The runtimes of the checkers of threads and of addresses come here too, before they have begun: none of their calls
 * may be in this. The first attribute turns nothing off for addresses. */
#if defined(__clang__)
__attribute__((disable_sanitizer_instrumentation, no_sanitize("address", "undefined")))
#else
__attribute__((no_sanitize("thread", "address", "undefined")))
#endif
int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    if (!played || resource != (int)RLIMIT_MEMLOCK)
        return __real_getrlimit(resource, limit);
    *limit = (struct rlimit){lockable, lockable};
    return 0;
}

/* ---- asking */

static const char *underneath(void)
{
    return __real_weft_fabric_version() < FI_VERSION(1, 18) ? "net" : "tcp";
}

bool standin_descriptor_sticks(void)
{
    return __real_weft_fabric_version() < FI_VERSION(2, 1);
}

uint32_t __wrap_weft_fabric_version(void)
{
    uint32_t real = __real_weft_fabric_version();
    return played && played->version > real ? played->version : real;
}

static int demanded_modes(const standin_rules *rules)
{
    if (rules->own_keys)
        return FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
    return FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
}

/* True if the provider would grant this to a caller that asks for less. */
static bool grants(const standin_rules *rules, const struct fi_info *hints)
{
    const char *name = hints->domain_attr->name;
    if (name && strcmp(name, rules->domain) != 0)
        return false;
    if (rules->message_caps && hints->caps && !(hints->caps & FI_MSG)) /* none at all: whatever there is */
        return false;
    if (rules->scribbles && !(hints->mode & FI_CONTEXT2))
        return false;
    return hints->ep_attr->type == FI_EP_RDM && (demanded_modes(rules) & ~hints->domain_attr->mr_mode) == 0;
}

static void rename_to(char **name, const char *text)
{
    free(*name);
    *name = strdup(text);
}

static bool is_source(const struct fi_info *a, const struct fi_info *b)
{
    return a->src_addrlen == b->src_addrlen && memcmp(a->src_addr, b->src_addr, a->src_addrlen) == 0;
}

/* Returns the answer of the provider underneath for an address of this host. */
static const struct fi_info *plain_of(const struct fi_info *info)
{
    const struct fi_info *found = plains;
    while (found && !is_source(found, info))
        found = found->next;
    return found;
}

static void keep_plain(const struct fi_info *info)
{
    pthread_mutex_lock(&lock);
    if (!plain_of(info)) {
        struct fi_info *copy = weft_fabric_call_dupinfo(info);
        if (!copy)
            abort();
        copy->next = plains;
        plains = copy;
    }
    pthread_mutex_unlock(&lock);
}

/* An entry of the provider underneath as the other one would show it. */
static void disguise(const standin_rules *rules, struct fi_info *info)
{
    keep_plain(info);
    rename_to(&info->fabric_attr->prov_name, rules->fabric);
    rename_to(&info->fabric_attr->name, rules->network);
    rename_to(&info->domain_attr->name, rules->domain);
    info->caps |= FI_MSG;
    info->domain_attr->mr_mode = demanded_modes(rules);
    info->domain_attr->mr_key_size = rules->own_keys ? 8 : 4;
    info->domain_attr->cq_data_size = 4;
    info->tx_attr->size = rules->tx_size;
    info->rx_attr->size = rules->rx_size ? rules->rx_size : info->rx_attr->size;
    info->ep_attr->max_msg_size = rules->message_bytes;
    info->ep_attr->protocol = rules->passes_through ? FI_PROTO_RXM_TCP : FI_PROTO_UNSPEC;
    info->tx_attr->msg_order = 0;
    info->rx_attr->msg_order = 0;
    if (rules->raw_address)
        info->addr_format = FI_ADDR_EFA;
}

/* The other way round, with the keys and addresses that the other one has. Give back with fi_freeinfo. */
static struct fi_info *undisguise(const standin_rules *rules, const struct fi_info *info)
{
    pthread_mutex_lock(&lock);
    const struct fi_info *plain = plain_of(info);
    struct fi_info *copy = plain ? weft_fabric_call_dupinfo(plain) : NULL;
    pthread_mutex_unlock(&lock);
    if (!copy)
        standin_broken("libfabric", "an info that fi_getinfo did not give");
    copy->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | (rules->own_keys ? 0 : FI_MR_PROV_KEY);
    return copy;
}

int __wrap_weft_fabric_call_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                                    const struct fi_info *hints, struct fi_info **info)
{
    const char *asked = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
    if (!played || !asked || strcmp(asked, played->fabric) != 0)
        return __real_weft_fabric_call_getinfo(version, node, service, flags, hints, info);
    if (!grants(played, hints))
        return -FI_ENODATA;
    struct fi_info *plain = weft_fabric_call_dupinfo(NULL);
    if (!plain)
        return -FI_ENOMEM;
    plain->caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    plain->mode = hints->mode;
    *plain->ep_attr = *hints->ep_attr;
    *plain->domain_attr = *hints->domain_attr;
    plain->domain_attr->name = NULL;
    plain->fabric_attr->prov_name = strdup(underneath());
    int error = __real_weft_fabric_call_getinfo(version, node ? node : "127.0.0.1", NULL, FI_SOURCE | FI_NUMERICHOST,
                                                plain, info);
    weft_fabric_call_freeinfo(plain);
    for (struct fi_info *i = error ? NULL : *info; i; i = i->next)
        disguise(played, i);
    return error;
}

/* ---- addresses of the provider's own */

static int own_name(struct fid *fid, void *address, size_t *length)
{
    standin_endpoint *endpoint = standin_of(fid);
    size_t room = *length;
    uint8_t plain[128];
    size_t bytes = sizeof plain;
    int error = endpoint->real_names->getname(fid, plain, &bytes);
    *length = bytes + GID_BYTES;
    if (error)
        return error;
    if (room < *length)
        return -FI_ETOOSMALL;
    memcpy(address, gid, GID_BYTES);
    memcpy((uint8_t *)address + GID_BYTES, plain, bytes);
    return 0;
}

static int insert(struct fid_av *av, const void *address, size_t count, fi_addr_t *to, uint64_t flags, void *context)
{
    vector_object *vector = standin_of(&av->fid);
    if (memcmp(address, gid, GID_BYTES) != 0)
        return 0;
    return vector->real->insert(av, (const uint8_t *)address + GID_BYTES, count, to, flags, context);
}

static const char *straddr(struct fid_av *av, const void *address, char *text, size_t *length)
{
    vector_object *vector = standin_of(&av->fid);
    return vector->real->straddr(av, (const uint8_t *)address + GID_BYTES, text, length);
}

static int open_vector(struct fid_domain *fid, struct fi_av_attr *attributes, struct fid_av **av, void *context)
{
    standin_domain *domain = standin_of(&fid->fid);
    int error = domain->real->av_open(fid, attributes, av, context);
    if (error || !domain->object.rules->raw_address)
        return error;
    vector_object *vector = standin_take(sizeof *vector);
    standin_watch(&vector->object, &(*av)->fid, domain->object.rules);
    vector->real = (*av)->ops;
    vector->ops = *vector->real;
    vector->ops.insert = insert;
    vector->ops.straddr = straddr;
    (*av)->ops = &vector->ops;
    return 0;
}

/* ---- opening */

static int open_queue(struct fid_domain *fid, struct fi_cq_attr *attributes, struct fid_cq **cq, void *context)
{
    standin_domain *domain = standin_of(&fid->fid);
    if (attributes->wait_obj != FI_WAIT_NONE && !domain->object.rules->has_fd)
        return -FI_ENOSYS;
    int error = domain->real->cq_open(fid, attributes, cq, context);
    if (error)
        return error;
    standin_queue *queue = standin_take(sizeof *queue);
    standin_watch(&queue->object, &(*cq)->fid, domain->object.rules);
    queue->cq = *cq;
    queue->room = attributes->size;
    standin_queue_rule(queue);
    return 0;
}

static int open_endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context)
{
    standin_domain *domain = standin_of(&fid->fid);
    const char *name = info->fabric_attr->prov_name;
    if (!name || strcmp(name, domain->object.rules->fabric) != 0)
        return domain->real->endpoint(fid, info, ep, context); /* one of the provider's own, of a connection */
    struct fi_info *plain = undisguise(domain->object.rules, info);
    int error = domain->real->endpoint(fid, plain, ep, context);
    weft_fabric_call_freeinfo(plain);
    if (error)
        return error;
    standin_endpoint *endpoint = standin_take(sizeof *endpoint);
    standin_watch(&endpoint->object, &(*ep)->fid, domain->object.rules);
    endpoint->ep = *ep;
    endpoint->real_names = (*ep)->cm;
    endpoint->names = *endpoint->real_names;
    if (domain->object.rules->raw_address)
        endpoint->names.getname = own_name;
    (*ep)->cm = &endpoint->names;
    standin_endpoint_rule(endpoint);
    return 0;
}

static int open_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **opened, void *context)
{
    fabric_object *fabric = standin_of(&fid->fid);
    struct fi_info *plain = undisguise(fabric->object.rules, info);
    int error = fabric->real->domain(fid, plain, opened, context);
    weft_fabric_call_freeinfo(plain);
    if (error)
        return error;
    standin_domain *domain = standin_take(sizeof *domain);
    standin_watch(&domain->object, &(*opened)->fid, fabric->object.rules);
    domain->real = (*opened)->ops;
    domain->ops = *domain->real;
    domain->ops.av_open = open_vector;
    domain->ops.cq_open = open_queue;
    domain->ops.endpoint = open_endpoint;
    (*opened)->ops = &domain->ops;
    domain->domain = *opened;
    standin_domain_rule(domain);
    return 0;
}

static int try_wait(struct fid_fabric *fid, struct fid **fids, int count)
{
    fabric_object *fabric = standin_of(&fid->fid);
    int error = fabric->real->trywait(fid, fids, count);
    for (int i = 0; i < count && !error; i++)
        if (standin_queue_is_busy(standin_of(fids[i])))
            return -FI_EAGAIN;
    return error;
}

int __wrap_weft_fabric_call_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **opened, void *context)
{
    if (!played || strcmp(attributes->prov_name, played->fabric) != 0)
        return __real_weft_fabric_call_fabric(attributes, opened, context);
    struct fi_fabric_attr plain = *attributes;
    char name[16];
    snprintf(name, sizeof name, "%s", underneath());
    plain.prov_name = name;
    int error = __real_weft_fabric_call_fabric(&plain, opened, context);
    if (error)
        return error;
    fabric_object *fabric = standin_take(sizeof *fabric);
    standin_watch(&fabric->object, &(*opened)->fid, played);
    fabric->real = (*opened)->ops;
    fabric->ops = *fabric->real;
    fabric->ops.domain = open_domain;
    fabric->ops.trywait = try_wait;
    (*opened)->ops = &fabric->ops;
    return 0;
}
#else
#include "tests/support/standin.h"

void standin_use(const char *provider)
{
    (void)provider;
}

const char *standin_provider(const char *play)
{
    return play;
}

standin_counts standin_counted(void)
{
    return (standin_counts){0};
}
#endif
