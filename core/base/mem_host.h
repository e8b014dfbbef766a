/* mem_host.h - how much memory this process may have: that of the host, less what control groups and the limit of
 * address space forbid. */
#ifndef WEFT_CORE_MEM_HOST_H
#define WEFT_CORE_MEM_HOST_H

#include <stdint.h>

typedef struct weft_mem_host {
    uint64_t total;     /* bytes of the host, or of the tightest limit on this process */
    uint64_t available; /* bytes of them to be had without evicting another process */
    const char *by;     /* source of `available`: "MemAvailable", "a control group", "ulimit -v"; static */
} weft_mem_host;

/* Reads the figures from the files below `root`; "" is this host. The files are proc/meminfo and proc/self/cgroup, with
 * the limits of version 1 and 2 up to the outermost group. For "" the limit of address space counts too. A file that
 * cannot be read limits nothing. */
void weft_mem_host_read(const char *root, weft_mem_host *memory);

/* Takes off `available` those of the `bytes` that this process holds or will hold and that no memory is behind yet:
 * what is beyond the process's resident memory. */
void weft_mem_host_reserve(weft_mem_host *memory, uint64_t bytes);

#endif
