/* relay_site.h - overrides that make peers relays, on ports that are free now: others must know them beforehand. */
#ifndef WEFT_TESTS_RELAY_SITE_H
#define WEFT_TESTS_RELAY_SITE_H

#include "tests/support/fleet.h"
#include "tests/support/port.h"

typedef struct relay_site {
    char words[8][96];
    uint32_t count;
} relay_site;

/* "peer.NAME.relay=127.0.0.1:PORT", which lives as long as the site. */
static inline const char *relay_of(relay_site *site, const char *name)
{
    char *word = site->words[site->count++];
    snprintf(word, sizeof site->words[0], "peer.%s.relay=127.0.0.1:%u", name, port_free());
    return word;
}

#endif
