/* guard.h - a guard holds who this end is and whom it lets in, in [security] mode = tls: contexts of OpenSSL, and the
 * names of the files that prove names. One a session, under its lock.
 *
 * Files are read again for each new connection, so that keys and certificates change without a restart. */
#ifndef WEFT_CORE_GUARD_H
#define WEFT_CORE_GUARD_H

#include "site/site.h"

#define WEFT_GUARD_TRAINER "trainer" /* the name that a trainer's certificate has */

typedef struct weft_guard weft_guard;

/* Opens the guard of a site for one end and reads the end's files, so that a bad file is refused at once. `name` is the
 * peer's; NULL: the trainer's. The guard is NULL for a site of another mode. `site` must outlive the guard. Errors:
 * WEFT_E_CONFIG (a file, with what to do), WEFT_E_MISSING (no OpenSSL here), WEFT_E_MEMORY. */
weft_status weft_guard_open(const weft_site *site, const char *name, weft_guard **guard);
/* Wipes and gives back; NULL is allowed. Its seals must be closed before. */
void weft_guard_close(weft_guard *guard);

#endif
