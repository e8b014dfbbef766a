/* site_text.h - what a name, a host and a listen address look like. */
#ifndef WEFT_CORE_SITE_TEXT_H
#define WEFT_CORE_SITE_TEXT_H

#include "site/site.h"

/* Whether the text is [a-z0-9_-]{1,63}. */
bool weft_site_is_name(const char *text);

/* The same for the first `bytes` of a text. */
bool weft_site_is_name_of(const char *text, size_t bytes);

/* Whether the text may be an IP address, a host name or an interface: letters, digits and . : - _ % */
bool weft_site_is_host(const char *text);

/* Cuts "host:port" or "[v6]:port"; false if it is neither. `host` holds WEFT_SITE_TEXT bytes, without brackets. */
bool weft_site_listen_split(const char *listen, char *host, uint32_t *port);

/* Cuts "LOW-HIGH", 1024 <= LOW <= HIGH <= 65535, or "auto", which is 0 and 0; false if it is neither. */
bool weft_site_ports_split(const char *ports, uint32_t *low, uint32_t *high);

/* Whether a host is this machine's alone: 127/8, ::1 or localhost. */
bool weft_site_is_loopback(const char *host);
/* Whether it is 0.0.0.0 or ::, at which one can listen and nobody dials. */
bool weft_site_is_wildcard(const char *host);

/* Whether the text is "trainer", or one to WEFT_SITE_VIAS different names between commas, none of them "trainer". */
bool weft_site_is_via(const char *text);

/* Whether the text is one to WEFT_SITE_RAILS different hosts of at most 63 bytes between commas. */
bool weft_site_is_addresses(const char *text);

/* Cuts a list of rising numbers between commas and counts them; 0: it is none. `list`, unless NULL, holds
 * WEFT_SITE_NUMBERS of them. */
uint32_t weft_site_numbers(const char *text, uint64_t *list);

/* The next name of a list between commas and blanks, from *at on, which moves behind it; NULL at the end. `bytes`
 * receives its length, which may be that of no name. */
const char *weft_site_via_next(const char **at, size_t *bytes);

/* Whether every byte is printable: no control characters, which would garble a log line. */
bool weft_site_is_clean(const char *text);

#endif
