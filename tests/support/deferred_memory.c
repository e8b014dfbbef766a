/* deferred_memory.c - memory of the deferred backend: addresses that cannot be touched, and where their bytes are. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/deferred.h"
#include "tests/support/deferred_inside.h"

#define REGIONS 256u

/* Memory: `device` is what others are given; where it is not reachable the bytes are at `reach`. */
typedef struct region {
    uint8_t *device, *reach;
    uint64_t bytes;
} region;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static region regions[REGIONS];

static region *region_of(const void *address)
{
    const uint8_t *at = address;
    for (uint32_t i = 0; i < REGIONS; i++)
        if (regions[i].bytes && at >= regions[i].device && at < regions[i].device + regions[i].bytes)
            return &regions[i];
    return NULL;
}

static void region_add(void *device, void *reach, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < REGIONS && regions[i].bytes)
        i++;
    if (i == REGIONS)
        deferred_refuse("more than %u regions of memory", REGIONS);
    regions[i] = (region){device, reach, bytes};
    pthread_mutex_unlock(&lock);
}

static void *map(uint64_t bytes, int protection)
{
    void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        deferred_refuse("no memory of %llu bytes", (unsigned long long)bytes);
    return memory;
}

void *deferred_take(uint64_t bytes, void **reach)
{
    bytes = bytes ? bytes : 1;
    void *device = map(bytes, PROT_NONE), *own = map(bytes, PROT_READ | PROT_WRITE);
    region_add(device, own, bytes);
    if (reach)
        *reach = own;
    return device;
}

void deferred_give(void *memory)
{
    pthread_mutex_lock(&lock);
    region *r = region_of(memory);
    if (!r || r->device != memory)
        deferred_refuse("%p is given back and was not taken", memory);
    if (r->reach != r->device)
        munmap(r->reach, r->bytes);
    munmap(r->device, r->bytes);
    memset(r, 0, sizeof *r);
    pthread_mutex_unlock(&lock);
}

weft_status deferred_memory_take(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory)
{
    (void)state;
    bytes = bytes ? bytes : 1;
    if (kind == WEFT_MEMORY_HOST) {
        *memory = map(bytes, PROT_READ | PROT_WRITE);
        region_add(*memory, *memory, bytes);
    } else {
        *memory = deferred_take(bytes, NULL);
    }
    return WEFT_OK;
}

void deferred_memory_give(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind)
{
    (void)state;
    (void)bytes;
    (void)kind;
    deferred_give(memory);
}

const char *deferred_memory_check(weft_backend_state *state, const void *data, uint64_t bytes)
{
    (void)state;
    pthread_mutex_lock(&lock);
    const region *r = region_of(data);
    bool inside = r && r->reach != r->device && (const uint8_t *)data + bytes <= r->device + r->bytes;
    pthread_mutex_unlock(&lock);
    return inside ? NULL : "lies in host memory";
}

/* Returns where the bytes of an address are that jobs may name. */
void *deferred_reach(const void *address, bool any_host)
{
    pthread_mutex_lock(&lock);
    const region *r = region_of(address);
    pthread_mutex_unlock(&lock);
    if (!r && !any_host)
        deferred_refuse("a job names %p, which is no memory of the device", address);
    return r ? r->reach + ((const uint8_t *)address - r->device) : (void *)(uintptr_t)address;
}

void *deferred_bytes(const void *memory)
{
    return deferred_reach(memory, false);
}

void deferred_memory_none(void)
{
    for (uint32_t i = 0; i < REGIONS; i++)
        if (regions[i].bytes)
            deferred_refuse("%llu bytes of memory were not given back", (unsigned long long)regions[i].bytes);
}
