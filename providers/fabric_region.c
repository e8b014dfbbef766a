/* fabric_region.c - memory registered with a link. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "providers/place.h"

#define KEY_RETRIES 4 /* random keys may collide where the provider's are short */

/* Locked by registrations of this process: its limit is one for all sessions. */
static _Atomic uint64_t pinned_bytes;

/* Keys are random so that a write meant for an earlier registration finds none. */
static weft_status random_key(const weft_link *link, uint64_t *key)
{
    *key = 0;
    if (link->info->domain_attr->mr_mode & FI_MR_PROV_KEY)
        return WEFT_OK;
    if (getrandom(key, sizeof *key, 0) != sizeof *key)
        return weft_fail(WEFT_E_SYSTEM, "getrandom: %s", strerror(errno));
    size_t bytes = link->info->domain_attr->mr_key_size;
    if (bytes < sizeof *key)
        *key &= (UINT64_C(1) << 8 * bytes) - 1;
    return WEFT_OK;
}

static weft_status refuse(const weft_link *link, uint64_t bytes, int error)
{
    if (error == -FI_ENOKEY)
        return weft_fail(WEFT_E_PROVIDER,
                         "provider %s: %llu bytes cannot be registered: each of %d random keys is taken: something "
                         "else registers memory on this domain",
                         link->profile->name, (unsigned long long)bytes, KEY_RETRIES);
    char more[192] = "";
    if (link->profile->pins && error == -FI_ENOMEM)
        snprintf(more, sizeof more,
                 "; the kernel locks no more for this process, of which %llu KiB are to be: raise `ulimit -l` "
                 "(/etc/security/limits.conf) or the memory limit of its cgroup",
                 (unsigned long long)((atomic_load(&pinned_bytes) + 1023) >> 10));
    return weft_fail(WEFT_E_PROVIDER, "provider %s: %llu bytes cannot be registered: %s%s", link->profile->name,
                     (unsigned long long)bytes, weft_fabric_call_strerror(-error), more);
}

static weft_status register_memory(const weft_link *link, void *memory, uint64_t bytes, bool remote, struct fid_mr **mr)
{
    int error = -FI_ENOKEY;
    for (int i = 0; i < KEY_RETRIES && error == -FI_ENOKEY; i++) {
        uint64_t key;
        weft_status status = random_key(link, &key);
        if (status != WEFT_OK)
            return status;
        error = fi_mr_reg(link->domain, memory, bytes, remote ? FI_REMOTE_WRITE : FI_WRITE, 0, key, 0, mr, NULL);
    }
    return error ? refuse(link, bytes, error) : WEFT_OK;
}

/* Counts what will be locked, or refuses it with the number needed: the device's own word would be "no memory". */
static weft_status pin(const weft_link *link, uint64_t bytes, uint64_t *pinned)
{
    char text[320];
    if (!link->profile->pins)
        return WEFT_OK;
    uint64_t before = atomic_fetch_add(&pinned_bytes, bytes);
    *pinned = bytes;
    if (weft_select_may_pin(link->profile, weft_place_pin_limit(), before, bytes, text, sizeof text))
        return WEFT_OK;
    return weft_fail(WEFT_E_MISSING, "provider %s: %s", link->profile->name, text);
}

static weft_status fill_region(const weft_link *link, void *memory, uint64_t bytes, bool remote, weft_region *region)
{
    int mode = link->info->domain_attr->mr_mode;
    if (!remote && !(mode & FI_MR_LOCAL))
        return WEFT_OK;
    weft_status status = pin(link, bytes, &region->pinned);
    if (status == WEFT_OK)
        status = register_memory(link, memory, bytes, remote, &region->mr);
    if (status != WEFT_OK)
        return status;
    region->key = fi_mr_key(region->mr);
    region->address = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
    return WEFT_OK;
}

weft_status weft_fabric_region_open(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                                    weft_region **region)
{
    (void)port; /* regions are the domain's */
    weft_region *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider %s: no memory for a region", link->profile->name);
    weft_status status = fill_region(link, memory, bytes, remote, opened);
    if (status != WEFT_OK)
        weft_fabric_region_close(opened);
    else
        *region = opened;
    return status;
}

void weft_fabric_region_close(weft_region *region)
{
    if (!region)
        return;
    if (region->mr && fi_close(&region->mr->fid) != 0)
        weft_log(WEFT_LOG_WARN, "a memory region stays registered: operations on it are under way");
    atomic_fetch_sub(&pinned_bytes, region->pinned);
    weft_mem_give(region);
}

void weft_fabric_region_remote(const weft_region *region, uint64_t *address, uint64_t *key)
{
    *address = region->address;
    *key = region->key;
}
#else
typedef int weft_fabric_region_is_absent;
#endif
