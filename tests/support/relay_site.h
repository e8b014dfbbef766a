/* relay_site.h - overrides that make peers relays, on ports that are free now: others must know them beforehand. */
#ifndef WEFT_TESTS_RELAY_SITE_H
#define WEFT_TESTS_RELAY_SITE_H

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/fleet.h"

typedef struct relay_site {
    char words[8][96];
    uint32_t count;
} relay_site;

static inline unsigned relay_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* "peer.NAME.relay=127.0.0.1:PORT", which lives as long as the site. */
static inline const char *relay_of(relay_site *site, const char *name)
{
    char *word = site->words[site->count++];
    snprintf(word, sizeof site->words[0], "peer.%s.relay=127.0.0.1:%u", name, relay_free_port());
    return word;
}

#endif
