/* place.h - what the kernel says of this host's devices: where a NIC lies, how far it is from an accelerator, what the
 * process may lock. Read from sysfs, which is also all that hwloc has to go by for PCI devices on Linux; a library that
 * pairs NICs with devices at open should not need another one for it. `root` is put before every path: "" but in tests.
 */
#ifndef WEFT_PROVIDERS_PLACE_H
#define WEFT_PROVIDERS_PLACE_H

#include "providers/profile.h"

#define WEFT_PLACE_BUS 16 /* "0000:17:00.0" and its terminator */

typedef enum weft_distance {
    WEFT_DISTANCE_UNKNOWN,
    WEFT_DISTANCE_BRIDGE,  /* below one PCI bridge: data need not pass the CPU */
    WEFT_DISTANCE_COMPLEX, /* of one root complex */
    WEFT_DISTANCE_NODE,    /* of one NUMA node */
    WEFT_DISTANCE_FAR      /* between NUMA nodes */
} weft_distance;

/* NUMA node of a PCI device; -1: unknown, or the host has but one. */
int weft_place_node(const char *root, const char *bus);
weft_distance weft_place_distance(const char *root, const char *bus, const char *other);
const char *weft_distance_text(weft_distance distance);

/* PCI address of a network interface; "" for those that have none. */
void weft_place_of_interface(const char *root, const char *interface, char bus[WEFT_PLACE_BUS]);

/* PCI addresses of the accelerators (display, 3D and processing), in the order of their addresses; returns how many
 * there are, which may be more than `capacity`. */
size_t weft_place_accelerators(const char *root, char (*list)[WEFT_PLACE_BUS], size_t capacity);

/* PCI address of one of them, counted from 0; "": there is none of that number. */
void weft_place_accelerator(const char *root, uint32_t number, char bus[WEFT_PLACE_BUS]);

/* Names of the RDMA devices of a kind, with commas between them; returns how many there are. */
size_t weft_place_rdma(const char *root, weft_profile_device kind, char *names, size_t capacity);

/* GIDs of an RDMA device's first port that peers elsewhere can use; -1 where there are none to read. */
int weft_place_gids(const char *root, const char *device);

/* Bytes that this process may lock; UINT64_MAX: any number. */
uint64_t weft_place_pin_limit(void);

#endif
