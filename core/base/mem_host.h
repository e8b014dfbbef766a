/* mem_host.h - how much memory this process may have: what the host has, and what its control groups and its limit of
 * address space leave of that. */
#ifndef WEFT_CORE_MEM_HOST_H
#define WEFT_CORE_MEM_HOST_H

#include <stdint.h>

typedef struct weft_mem_host {
    uint64_t total;     /* bytes of the host, or of the least limit on this process */
    uint64_t available; /* of them, without pushing anybody's out */
    const char *by;     /* who says what is available: "MemAvailable", "a control group", "ulimit -v"; static */
} weft_mem_host;

/* Reads it from below `root`, "" being this host's files: proc/meminfo, proc/self/cgroup with the limits of version 1
 * and 2 up to the outermost group, and, of this host, the address space. What cannot be read limits nothing. */
void weft_mem_host_read(const char *root, weft_mem_host *memory);

/* Of so many bytes that this process holds or will hold, those that it cannot have touched yet: more than all that it
 * has in memory. */
uint64_t weft_mem_host_pending(uint64_t bytes);

#endif
