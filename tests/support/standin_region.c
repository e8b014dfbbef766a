/* standin_region.c - keys of the provider's, a descriptor that every local buffer needs, and memory of devices, which
 * is ordinary memory under their name. */
#ifndef WEFT_NO_FABRIC
#include "tests/support/standin_inside.h"

#include <fcntl.h>

static standin_device device;
static int registration;

void standin_registers(int error)
{
    registration = error;
}

void standin_use_device(standin_device how)
{
    device = how;
}

bool standin_answers_device(void)
{
    return device != STANDIN_DEVICE_NONE;
}

bool standin_grants_device(void)
{
    return device != STANDIN_DEVICE_NONE && device != STANDIN_DEVICE_UNASKED;
}

bool standin_knows_dmabuf(void)
{
#ifdef FI_MR_DMABUF
    return __wrap_fi_version() >= FI_VERSION(1, 20);
#else
    return false;
#endif
}

bool standin_knows_cuda_option(void)
{
    return FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 18));
}

static int keep_region(standin_domain *domain, const void *memory, size_t bytes, uint64_t access, uint64_t key,
                       uint64_t flags, struct fid_mr **mr, void *context)
{
    if (registration)
        return -registration;
    int error = domain->real_mr->reg(&domain->domain->fid, memory, bytes, access, 0, key, flags, mr, context);
    if (error)
        return error;
    standin_region *region = standin_take(sizeof *region);
    standin_watch(&region->object, &(*mr)->fid, domain->object.rules);
    region->memory = memory;
    region->bytes = bytes;
    region->access = access;
    (*mr)->mem_desc = *mr;
    return 0;
}

static int open_region(struct fid *fid, const void *memory, size_t bytes, uint64_t access, uint64_t offset,
                       uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    standin_domain *domain = standin_of(fid);
    if (offset)
        standin_broken(domain->object.rules->provider, "registration has no offset");
    return keep_region(domain, memory, bytes, access, domain->object.rules->own_keys ? key : 0, flags, mr, context);
}

#ifdef FI_MR_DMABUF
static int open_dmabuf(standin_domain *domain, const struct fi_mr_attr *attributes, struct fid_mr **mr)
{
    const struct fi_mr_dmabuf *dmabuf = attributes->dmabuf;
    if (device == STANDIN_DEVICE_ADDRESS)
        return -FI_EOPNOTSUPP;
    if (fcntl(dmabuf->fd, F_GETFD) < 0)
        standin_broken(domain->object.rules->provider, "a dmabuf without its descriptor");
    standin_count_device(true);
    return keep_region(domain, (const uint8_t *)dmabuf->base_addr + dmabuf->offset, dmabuf->len, attributes->access, 0,
                       0, mr, attributes->context);
}
#endif

static int open_attributes(struct fid *fid, const struct fi_mr_attr *attributes, uint64_t flags, struct fid_mr **mr)
{
    standin_domain *domain = standin_of(fid);
    if (attributes->iface != FI_HMEM_SYSTEM && !standin_grants_device())
        standin_broken(domain->object.rules->provider, "memory of a device is registered that was not granted");
    if (device == STANDIN_DEVICE_HOLLOW)
        return -FI_ENOSYS;
#ifdef FI_MR_DMABUF
    if (flags & FI_MR_DMABUF)
        return open_dmabuf(domain, attributes, mr);
#endif
    if (flags)
        return -FI_EBADFLAGS;
    if (device == STANDIN_DEVICE_DMABUF)
        return -FI_EINVAL;
    standin_count_device(false);
    return keep_region(domain, attributes->mr_iov->iov_base, attributes->mr_iov->iov_len, attributes->access, 0, 0, mr,
                       attributes->context);
}

void standin_domain_rule(standin_domain *domain)
{
    domain->real_mr = domain->domain->mr;
    domain->mr = *domain->real_mr;
    domain->mr.reg = open_region;
    domain->mr.regattr = open_attributes;
    domain->domain->mr = &domain->mr;
}
#else
#include "tests/support/standin.h"

void standin_use_device(standin_device how)
{
    (void)how;
}

void standin_registers(int error)
{
    (void)error;
}

void standin_lock_limit(uint64_t bytes)
{
    (void)bytes;
}

bool standin_knows_dmabuf(void)
{
    return false;
}

bool standin_knows_cuda_option(void)
{
    return false;
}

void standin_draw(uint64_t number, unsigned times)
{
    (void)number;
    (void)times;
}
#endif
