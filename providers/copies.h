/* copies.h - the copies of libfabric in this process. Two of them share neither memory nor settings: each has its own
 * providers, and one that was bundled with another package once made collectives fall back to TCP and hang. weft opens
 * the system's by its soname and looks for others in the loader's list. */
#ifndef WEFT_PROVIDERS_COPIES_H
#define WEFT_PROVIDERS_COPIES_H

/* Warns of a copy beside the one in use: once for each that comes. Any thread. */
void weft_copies_warn(void);
/* Path of the copy in use; NULL without libfabric. */
const char *weft_copies_used(void);

#endif
