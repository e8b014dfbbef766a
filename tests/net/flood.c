/* Proves a name, and sends KeyUpdates of TLS without end and no word of weft, until it is killed. It dials again
 * whenever it is dropped. bench/worst_day/10_before_proof.py sets it loose on a trainer.
 *
 *   weft_flood SITE NAME    SITE: of mode = tls, with a numeric address */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "tests/support/seal_flood.h"
#include "wire/control.h"

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "weft_flood: %s: %s\n", what, weft_last_error());
    exit(1);
}

/* As fast as the other end takes them. */
static void flood(weft_control *line)
{
    while (line->connecting && weft_control_flush(line) == WEFT_OK)
        poll(&(struct pollfd){line->fd, POLLIN, 0}, 1, 100);
    for (uint64_t before = 1; line->sealed && before > 0;) {
        before = flood_words(line->seal, false, 1000);
        if (before < 1000)
            before = poll(&(struct pollfd){line->fd, POLLOUT, 0}, 1, 1000) == 1 ? flood_words(line->seal, false, 1) : 0;
    }
}

int main(int argc, char **argv)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    weft_site *site;
    weft_guard *guard;
    weft_control line;
    weft_log_enter(&quiet);
    if (argc != 3)
        return fprintf(stderr, "usage: weft_flood SITE NAME\n"), 2;
    if (weft_site_load(argv[1], NULL, 0, &site) != WEFT_OK || weft_guard_open(site, argv[2], &guard) != WEFT_OK ||
        weft_control_open(&line) != WEFT_OK)
        die(argv[1]);
    for (;;) {
        if (weft_control_dial(&line, site->trainer.listen, 10000) != WEFT_OK)
            continue;
        weft_control_guard(&line, guard, WEFT_GUARD_TRAINER);
        flood(&line);
        weft_control_hang_up(&line);
    }
}
