/* library.h - whether this host has the library that [security] mode = tls needs. */
#ifndef WEFT_CORE_SECURITY_LIBRARY_H
#define WEFT_CORE_SECURITY_LIBRARY_H

/* Says why tls cannot be had here, and what to install. "": it can. Any thread. */
const char *weft_library_absence(void);

#endif
