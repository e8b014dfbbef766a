/* standin_region.c - keys of the provider's, and a descriptor that every local buffer needs. */
#ifndef WEFT_NO_FABRIC
#include "tests/support/standin_inside.h"

static int registration;

void standin_registers(int error)
{
    registration = error;
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

void standin_domain_rule(standin_domain *domain)
{
    domain->real_mr = domain->domain->mr;
    domain->mr = *domain->real_mr;
    domain->mr.reg = open_region;
    domain->domain->mr = &domain->mr;
}
#else
#include "tests/support/standin.h"

void standin_registers(int error)
{
    (void)error;
}

void standin_lock_limit(uint64_t bytes)
{
    (void)bytes;
}

void standin_draw(uint64_t number, unsigned times)
{
    (void)number;
    (void)times;
}
#endif
