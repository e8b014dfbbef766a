/* fabric_device.c - memory of devices: whether libfabric grants it, how it is registered, and what is missing where it
 * cannot be had. What the header may not know is asked of the preprocessor, what the library may not, of its version.
 */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <stdio.h>
#include <sys/uio.h>

#include "base/log.h"
#include "base/status.h"

#define DMABUF_SINCE WEFT_FABRIC_VERSION(1, 20)

static const char *kind_name(weft_region_kind kind)
{
    return kind == WEFT_REGION_CUDA ? "CUDA" : "HIP";
}

bool weft_fabric_device_granted(const weft_profile *profile, const weft_candidate *candidate, const char *node,
                                struct fi_info **info)
{
    return profile->device_memory && weft_fabric_getinfo(profile, candidate, node, true, info) == 0;
}

bool weft_fabric_device_review(const weft_review *review, char *text, size_t capacity)
{
    const weft_host_survey *survey = &review->survey;
    struct fi_info *info = NULL;
    bool source = survey->profile->addressing == WEFT_ADDRESS_SOURCE && review->numeric[0];
    bool granted = review->selection.missing == WEFT_MISSING_NOTHING &&
                   weft_fabric_device_granted(survey->profile, &review->candidates[review->selection.taken],
                                              source ? review->numeric : NULL, &info);
    fi_freeinfo(info);
    weft_fabric_device_text(survey->profile, true, granted, text, capacity);
    return granted;
}

void weft_fabric_device_text(const weft_profile *profile, bool asked, bool granted, char *text, size_t capacity)
{
    if (!asked)
        snprintf(text, capacity, "host memory: none of a device was asked for");
    else if (granted)
        snprintf(text, capacity, "direct: the adapter may read and write the device's memory (FI_HMEM is granted)");
    else if (!profile->device_memory)
        snprintf(text, capacity, "staged in host memory: provider %s moves no other", profile->name);
    else
        snprintf(text, capacity,
                 "staged in host memory: libfabric %u.%u grants no memory of devices with %s (FI_HMEM); direct takes "
                 "one that was built with CUDA or ROCr (`fi_info -p %s -c FI_HMEM` lists it then), and a kernel that "
                 "hands device memory to the adapter (dmabuf, or nvidia-peermem)",
                 fi_version() >> 16, fi_version() & 0xffff, profile->name, weft_profile_fabric(profile, fi_version()));
}

static struct fi_mr_attr attributes_of(const weft_region_memory *memory, uint64_t access, uint64_t key)
{
    struct fi_mr_attr attributes = {
        .iov_count = 1,
        .access = access,
        .requested_key = key,
        .iface = memory->kind == WEFT_REGION_CUDA ? FI_HMEM_CUDA : FI_HMEM_ROCR,
    };
    if (memory->kind == WEFT_REGION_CUDA) /* ROCr finds the device by the address */
        attributes.device.cuda = memory->device;
    return attributes;
}

/* Neither caches nor asks a driver: the way of its own for what the driver has exported. */
static int by_dmabuf(const weft_link *link, const weft_region_memory *memory, uint64_t access, uint64_t key,
                     struct fid_mr **mr)
{
#ifdef FI_MR_DMABUF
    struct fi_mr_attr attributes = attributes_of(memory, access, key);
    const struct fi_mr_dmabuf dmabuf = {
        .fd = memory->dmabuf,
        .offset = memory->dmabuf_offset,
        .len = memory->bytes,
        .base_addr = (uint8_t *)memory->data - memory->dmabuf_offset, /* remote writes name addresses all the same */
    };
    if (fi_version() < DMABUF_SINCE)
        return -FI_ENOSYS;
    attributes.dmabuf = &dmabuf;
    return fi_mr_regattr(link->domain, &attributes, FI_MR_DMABUF, mr);
#else
    (void)link, (void)memory, (void)access, (void)key, (void)mr;
    return -FI_ENOSYS;
#endif
}

static int by_address(const weft_link *link, const weft_region_memory *memory, uint64_t access, uint64_t key,
                      struct fid_mr **mr)
{
    struct fi_mr_attr attributes = attributes_of(memory, access, key);
    const struct iovec whole = {.iov_base = memory->data, .iov_len = memory->bytes};
    attributes.mr_iov = &whole;
    return fi_mr_regattr(link->domain, &attributes, 0, mr);
}

int weft_fabric_device_register(const weft_link *link, const weft_region_memory *memory, uint64_t access, uint64_t key,
                                struct fid_mr **mr, char *text, size_t capacity)
{
    int exported = memory->dmabuf < 0 ? -FI_ENOSYS : by_dmabuf(link, memory, access, key, mr);
    if (!exported || exported == -FI_ENOKEY)
        return exported;
    int error = by_address(link, memory, access, key, mr);
    snprintf(text, capacity, "by dmabuf: %s, by address: %s",
             memory->dmabuf < 0 ? "the driver exported none" : fi_strerror(-exported), fi_strerror(-error));
    return error;
}

weft_status weft_fabric_device_refuse(weft_link *link, const weft_region_memory *memory, const char *said)
{
    const char *kind = kind_name(memory->kind);
    link->direct = false;
    snprintf(link->memory, sizeof link->memory,
             "staged in host memory: libfabric granted memory of devices, and took none of %s device %d (%s); it takes "
             "a libfabric built with %s and a kernel that hands device memory to the adapter (dmabuf%s)",
             kind, memory->device, said, memory->kind == WEFT_REGION_CUDA ? "CUDA" : "ROCr",
             memory->kind == WEFT_REGION_CUDA ? ", or nvidia-peermem" : "");
    return weft_fail(WEFT_E_MISSING, "provider %s: %llu bytes of %s device %d cannot be registered: %s",
                     link->profile->name, (unsigned long long)memory->bytes, kind, memory->device, link->memory);
}
#else
typedef int weft_fabric_device_is_absent;
#endif
