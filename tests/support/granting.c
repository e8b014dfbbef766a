#include "tests/support/granting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "providers/loop.h"

enum { REGIONS = 32, WRITES = 4096 };

/* Memory of a device, and the buffer that writes to it land in. */
typedef struct granted {
    weft_region *region; /* NULL: unused */
    const weft_port *port;
    uint8_t *device, *buffer;
    uint64_t bytes, address, key;
} granted;

/* A write on its way to such memory. */
typedef struct passing {
    uint64_t key, offset, bytes; /* bytes 0: unused */
    uint32_t immediate;
    bool arrived;
} passing;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft_provider table;
static granting_how how;
static void (*at_once)(void *to, const void *from, uint64_t bytes);
static granted regions[REGIONS];
static passing writes[WRITES];
static uint64_t arrivals;

static void refuse(const char *what)
{
    fprintf(stderr, "granting provider: %s\n", what);
    abort();
}

static granted *region_by_key(uint64_t key)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].region && regions[i].key == key)
            return &regions[i];
    return NULL;
}

static void facts(const weft_link *link, weft_link_facts *out)
{
    weft_provider_loop.link_facts(link, out);
    out->direct = out->needs_flush = how != GRANTING_NONE;
    if (how != GRANTING_NONE)
        out->memory = "direct: granted by the test";
}

static weft_status region_open_device(weft_link *link, weft_port *port, const weft_region_memory *memory, bool remote,
                                      weft_region **region)
{
    granted made = {.port = port, .device = memory->data, .bytes = memory->bytes, .buffer = calloc(1, memory->bytes)};
    if (how != GRANTING_ALL || memory->kind == WEFT_REGION_HOST || !remote || !made.buffer) {
        free(made.buffer);
        return weft_fail(WEFT_E_MISSING, "the test takes no registration");
    }
    weft_status status = weft_provider_loop.region_open(link, port, made.buffer, memory->bytes, true, &made.region);
    if (status != WEFT_OK) {
        free(made.buffer);
        return status;
    }
    weft_provider_loop.region_remote(made.region, &made.address, &made.key);
    *region = made.region;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < REGIONS && regions[i].region)
        i++;
    if (i == REGIONS)
        refuse("too many regions");
    regions[i] = made;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

static void region_close(weft_region *region)
{
    uint8_t *buffer = NULL;
    weft_provider_loop.region_close(region);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REGIONS; i++) {
        if (!region || regions[i].region != region)
            continue;
        for (int w = 0; w < WRITES; w++)
            if (writes[w].key == regions[i].key)
                writes[w].bytes = 0;
        buffer = regions[i].buffer;
        regions[i].region = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(buffer);
}

/* Noted before it is posted: it may arrive at once. */
static weft_status post(weft_port *port, const weft_write *write)
{
    passing *place = NULL;
    pthread_mutex_lock(&lock);
    const granted *to = region_by_key(write->remote_key);
    for (int w = 0; to && w < WRITES && !place; w++)
        place = writes[w].bytes == 0 ? &writes[w] : NULL;
    if (to && !place)
        refuse("too many writes");
    if (place)
        *place = (passing){.key = write->remote_key,
                           .offset = write->remote_address - to->address,
                           .bytes = write->bytes,
                           .immediate = write->immediate};
    pthread_mutex_unlock(&lock);
    weft_status status = weft_provider_loop.write(port, write);
    if (status != WEFT_OK && place) {
        pthread_mutex_lock(&lock);
        place->bytes = 0;
        pthread_mutex_unlock(&lock);
    }
    return status;
}

static void move(void (*put)(void *to, const void *from, uint64_t bytes))
{
    for (int w = 0; w < WRITES; w++) {
        const granted *to = writes[w].arrived && writes[w].bytes ? region_by_key(writes[w].key) : NULL;
        if (!to)
            continue;
        put(to->device + writes[w].offset, to->buffer + writes[w].offset, writes[w].bytes);
        writes[w].bytes = 0;
    }
}

static void note_arrival(const weft_port *port, uint32_t immediate)
{
    for (int i = 0; i < REGIONS; i++) {
        if (!regions[i].region || regions[i].port != port)
            continue;
        for (int w = 0; w < WRITES; w++) {
            bool it = writes[w].bytes && writes[w].key == regions[i].key && writes[w].immediate == immediate;
            arrivals += it && !writes[w].arrived;
            writes[w].arrived = writes[w].arrived || it;
        }
    }
}

static size_t poll_port(weft_port *port, weft_completion *completions, size_t capacity)
{
    size_t count = weft_provider_loop.poll(port, completions, capacity);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        if (completions[i].kind == WEFT_COMPLETION_ARRIVED)
            note_arrival(port, completions[i].immediate);
    if (at_once)
        move(at_once);
    pthread_mutex_unlock(&lock);
    return count;
}

void granting_lend(granting_how wanted, void (*put)(void *to, const void *from, uint64_t bytes))
{
    table = weft_provider_loop;
    table.link_facts = facts;
    table.region_open_device = region_open_device;
    table.region_close = region_close;
    table.write = post;
    table.poll = poll_port;
    how = wanted;
    at_once = put;
    arrivals = 0;
    memset(writes, 0, sizeof writes);
    weft_provider_lend(&table);
}

void granting_flush(void (*put)(void *to, const void *from, uint64_t bytes))
{
    pthread_mutex_lock(&lock);
    move(put);
    pthread_mutex_unlock(&lock);
}

void granting_take_back(void)
{
    weft_provider_lend(NULL);
}

uint64_t granting_writes(void)
{
    pthread_mutex_lock(&lock);
    uint64_t count = arrivals;
    pthread_mutex_unlock(&lock);
    return count;
}

uint32_t granting_regions(void)
{
    uint32_t count = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REGIONS; i++)
        count += regions[i].region != NULL;
    pthread_mutex_unlock(&lock);
    return count;
}
