/* site_text.h - what a name, a host and a listen address look like. */
#ifndef WEFT_CORE_SITE_TEXT_H
#define WEFT_CORE_SITE_TEXT_H

#include "site/site.h"

/* Tells whether a text is [a-z0-9_-]{1,63}. */
bool weft_site_is_name(const char *text);

/* Tells the same of the first `bytes` bytes of a text. */
bool weft_site_is_name_of(const char *text, size_t bytes);

/* Tells whether a text may be an IP address, a host name or an interface: letters, digits and . : - _ % */
bool weft_site_is_host(const char *text);

/* Cuts "host:port" or "[v6]:port". False: the text is neither. `host` holds WEFT_SITE_TEXT bytes, without brackets. */
bool weft_site_listen_split(const char *listen, char *host, uint32_t *port);

/* Cuts "LOW-HIGH", 1024 <= LOW <= HIGH <= 65535, or "auto", which is 0 and 0. False: the text is neither. */
bool weft_site_ports_split(const char *ports, uint32_t *low, uint32_t *high);

/* Tells whether a host is this machine's alone: 127/8, ::1 or localhost. */
bool weft_site_is_loopback(const char *host);
/* Tells whether a host is 0.0.0.0 or ::, where an end can listen and nobody dials. */
bool weft_site_is_wildcard(const char *host);

/* Tells whether a text is "trainer", or one to WEFT_SITE_VIAS different names between commas, none of them "trainer".
 */
bool weft_site_is_via(const char *text);

/* Tells whether a text is one to WEFT_SITE_RAILS different hosts of at most 63 bytes between commas. */
bool weft_site_is_addresses(const char *text);

/* Cuts a list of rising numbers between commas, and counts the numbers. 0: the text is no such list. `list` has room
 * for WEFT_SITE_NUMBERS numbers, or is NULL. */
uint32_t weft_site_numbers(const char *text, uint64_t *list);

/* Returns the next word of a list between commas and blanks, and moves *at after the word. NULL: the list ended.
 * `bytes` receives the length, which may be 0. */
const char *weft_site_via_next(const char **at, size_t *bytes);

/* Tells whether a text has no control characters, because these would garble a log line. */
bool weft_site_is_clean(const char *text);

#endif
