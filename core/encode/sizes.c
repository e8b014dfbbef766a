#include "encode/sizes.h"

#include <stdio.h>
#include <string.h>

#include "encode/staging.h"
#include "journal/arena.h"

#define MIB (UINT64_C(1) << 20)

#define USUAL_PERCENT 4.0
#define AMPLE_PERCENT 8.0
#define AMPLE_SHARE   16u         /* of all memory at most, to be taken for ample updates */
#define MOST_SHARE    4u          /* of what is available at most, in any case */
#define SMALL_BYTES   (256 * MIB) /* what holds every change of a small model is no waste up to here */
#define KEPT_UPDATES  4u
#define LEAST_BYTES   (16 * MIB) /* of a journal */
#define LEAST_FRAMES  32u

#define FLOOR_BYTES (64u << 10) /* of buckets and slabs */

/* Bits of a changed element at level fast, positions included, at these densities: docs/PERFORMANCE.md has 8 to 10 for
 * bf16; wider ones have longer differences. */
static uint32_t kept_bits(uint8_t width)
{
    return width == 8 ? 64 : width == 4 ? 28 : 10;
}

/* ---- what updates take */

static uint64_t part_of(uint32_t count, double percent)
{
    const double part = count * percent / 100;
    return (uint64_t)part + ((double)(uint64_t)part < part);
}

uint64_t weft_size_staged(const weft_layout *layout, double percent)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < layout->unit_count; i++)
        bytes += weft_staging_need(part_of(layout->units[i].count, percent), layout->units[i].width);
    return bytes;
}

uint64_t weft_size_kept(const weft_layout *layout, double percent)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < layout->unit_count; i++)
        bytes += part_of(layout->units[i].count, percent) * kept_bits(layout->units[i].width) / 8 +
                 WEFT_FRAME_HEADER_BYTES + WEFT_FRAME_ALIGN + sizeof(weft_index_entry);
    return bytes + bytes / 16; /* blocks end where the next frame does not fit */
}

uint64_t weft_size_journal_for(uint64_t blocks_bytes)
{
    return blocks_bytes / (WEFT_SIZES_MERGES - 1) * WEFT_SIZES_MERGES + blocks_bytes % (WEFT_SIZES_MERGES - 1) * 2;
}

const char *weft_size_print(uint64_t bytes, char text[WEFT_SIZE_PRINTED])
{
    snprintf(text, WEFT_SIZE_PRINTED, "%lluMiB", (unsigned long long)((bytes + MIB - 1) / MIB));
    return text;
}

/* ---- what there is */

weft_room_for weft_sizes_host(const weft_mem_host *memory, uint64_t taken)
{
    const uint64_t left = memory->available > taken ? memory->available - taken : 0;
    weft_room_for room = {.total = memory->total, .most = left / MOST_SHARE};
    snprintf(room.what, sizeof room.what, "a quarter of the %.1f GB that %s leaves", (double)left / 1e9, memory->by);
    return room;
}

/* How much memory the device has that an end would open; 0: not known. */
static uint64_t device_bytes(const weft_backend *backend, int64_t device)
{
    weft_device_info there[64];
    size_t count = backend->probe ? backend->probe(there, sizeof there / sizeof *there) : 0;
    for (size_t i = 0; i < count && i < sizeof there / sizeof *there; i++)
        if (there[i].usable && (device < 0 || there[i].device == device))
            return there[i].memory_bytes;
    return 0;
}

weft_room_for weft_sizes_lists(const weft_backend *backend, int64_t device, uint64_t budget,
                               const weft_mem_host *memory, uint64_t taken)
{
    if (!(backend->caps & WEFT_BACKEND_DEVICE))
        return weft_sizes_host(memory, taken);
    const uint64_t total = device_bytes(backend, device);
    weft_room_for room = {.total = total, .most = total ? total / AMPLE_SHARE : UINT64_MAX};
    snprintf(room.what, sizeof room.what, "a sixteenth of the device's %.1f GB", (double)total / 1e9);
    if (budget && budget / MOST_SHARE < room.most) {
        room.most = budget / MOST_SHARE;
        snprintf(room.what, sizeof room.what, "a quarter of device_memory");
    }
    return room;
}

uint64_t weft_size_batches(const weft_backend *backend, uint64_t budget)
{
    return budget && budget / 2 < backend->device_bytes ? budget / 2 : backend->device_bytes;
}

/* ---- the rule */

static uint64_t whole_mib(uint64_t bytes)
{
    return (bytes + MIB - 1) / MIB * MIB;
}

/* So that a size does not change from one run to the next with each page that is free: the three leading bits. */
static uint64_t steady(uint64_t bytes)
{
    uint64_t step = MIB;
    while (bytes / step >= 8)
        step *= 2;
    return bytes / step * step;
}

/* Bytes that one thing needs, for a part of the elements. */
typedef struct needs {
    uint64_t least; /* below which it is of no use */
    const char *least_why;
    uint64_t small; /* has every element's change, or as much as is of use to a small model */
    uint64_t usual, ample;
} needs;

static weft_size choose(const needs *need, const weft_room_for *room)
{
    const bool ample = need->ample <= room->total / AMPLE_SHARE && need->ample <= room->most;
    const uint64_t small = need->small < SMALL_BYTES ? need->small : SMALL_BYTES;
    uint64_t bytes = ample ? need->ample : need->usual;
    weft_size size = {.automatic = true};
    snprintf(size.why, sizeof size.why, "updates of %.0f %%", ample ? AMPLE_PERCENT : USUAL_PERCENT);
    if (bytes < small) {
        bytes = small;
        snprintf(size.why, sizeof size.why, "%s", need->small <= SMALL_BYTES ? "a small model" : "as every model has");
    }
    if (bytes > room->most) {
        bytes = steady(room->most);
        snprintf(size.why, sizeof size.why, "%s", room->what);
    }
    if (bytes < need->least) {
        bytes = need->least;
        snprintf(size.why, sizeof size.why, "%s", need->least_why);
    }
    size.bytes = whole_mib(bytes);
    return size;
}

static double percent_of(double bytes, double all)
{
    return all <= 0 || bytes >= all ? 100 : 100 * bytes / all;
}

static weft_size given_size(uint64_t given)
{
    weft_size size = {.bytes = given};
    snprintf(size.why, sizeof size.why, "the site says so");
    return size;
}

weft_size weft_size_staging(const weft_layout *layout, uint64_t given, const weft_room_for *room)
{
    const uint64_t all = weft_size_staged(layout, 100);
    const needs need = {.least = weft_staging_largest(layout) + 16,
                        .least_why = "the least that serves this layout",
                        .small = all + 16,
                        .usual = weft_size_staged(layout, USUAL_PERCENT),
                        .ample = weft_size_staged(layout, AMPLE_PERCENT)};
    weft_size size = given ? given_size(given) : choose(&need, room);
    size.percent = percent_of((double)size.bytes, (double)all);
    return size;
}

weft_size weft_size_journal(const weft_layout *layout, uint64_t given, const weft_room_for *room)
{
    const uint64_t frames = LEAST_FRAMES * (uint64_t)weft_arena_block_bytes(layout->largest_frame);
    const bool large = frames > LEAST_BYTES;
    const needs need = {.least = large ? frames : LEAST_BYTES,
                        .least_why = large ? "room for 32 of its largest frames" : "the least that a journal has",
                        .small = 2 * layout->bytes,
                        .usual = weft_size_journal_for(KEPT_UPDATES * weft_size_kept(layout, USUAL_PERCENT)),
                        .ample = weft_size_journal_for(KEPT_UPDATES * weft_size_kept(layout, AMPLE_PERCENT))};
    weft_size size = given ? given_size(given) : choose(&need, room);
    const double one = (double)weft_size_journal_for(weft_size_kept(layout, 100));
    size.percent = percent_of((double)size.bytes, one);
    return size;
}

/* Powers of two from the floor on, so that sizes are few. */
static uint64_t that_holds(uint64_t bytes, uint64_t most)
{
    uint64_t size = FLOOR_BYTES;
    while (size < bytes && size < most)
        size *= 2;
    return size;
}

/* Returns the bytes of all frames and headers, for a layout that is smaller than the usual bucket. */
static uint64_t bucket_for(const weft_layout *layout, uint64_t most)
{
    const uint64_t all = layout->bytes + layout->unit_count * (WEFT_FRAME_HEADER_BYTES + WEFT_FRAME_ALIGN);
    uint64_t bytes = that_holds(all, most);
    while (bytes < layout->largest_frame)
        bytes *= 2;
    return bytes;
}

uint64_t weft_size_bucket(const weft_layout *layout, const weft_site_peer *peer)
{
    if (peer->bucket_max)
        return peer->bucket_max;
    uint64_t bytes = bucket_for(layout, WEFT_SITE_BUCKET_AUTO);
    bytes = bytes < peer->bucket_min ? peer->bucket_min : bytes;
    return bytes < peer->bucket ? peer->bucket : bytes;
}

uint64_t weft_size_slab(const weft_layout *layout)
{
    return bucket_for(layout, WEFT_SIZE_SLAB_MOST);
}

/* ---- an end */

void weft_sizes_add(weft_sizes *sizes, const char *name, uint64_t bytes)
{
    sizes->needs[sizes->count++] = (weft_need){name, bytes};
    sizes->bytes += bytes;
}

weft_need *weft_sizes_need(weft_sizes *sizes, const char *name)
{
    weft_need *need = sizes->needs;
    while (strcmp(need->name, name) != 0)
        need++;
    return need;
}

weft_sizes_text weft_sizes_print(const weft_sizes *sizes)
{
    weft_sizes_text made = {""};
    for (uint32_t i = 0, used = 0; i < sizes->count; i++)
        used += (uint32_t)snprintf(made.text + used, sizeof made.text - used, "%s%s %.1f", i ? ", " : "",
                                   sizes->needs[i].name, (double)sizes->needs[i].bytes / 1e6);
    return made;
}
