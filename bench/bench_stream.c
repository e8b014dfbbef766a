/* Provider stream on loopback against a bare connection and bare TLS that carry the same bytes, in turns of one run;
 * and how many handshakes of [security] mode = tls a core makes.
 *
 *   bench_stream [SITE]    SITE: a site of mode = tls with a key for peer a; without one, no TLS */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "providers/stream.h"
#include "wire/duct.h"

#define CHUNK  (UINT64_C(1) << 20)
#define CHUNKS 1024u
#define ROUNDS 7
#define SLOTS  8u

typedef enum mode { BARE, BARE_TLS, STREAM, STREAM_TLS, MODES } mode;

static const char *const names[MODES] = {"tcp", "tls", "stream", "stream by tls"};
static weft_site *site;
static weft_guard *guards[2]; /* dialing, answering */
static uint8_t *sent, *landed;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_stream: %s: %s\n", what, weft_last_error());
    exit(1);
}

/* ---- connections */

static void connect_both(weft_control *dials, weft_control *answers)
{
    char address[64];
    int listener;
    memset(dials, 0, sizeof *dials);
    memset(answers, 0, sizeof *answers);
    dials->fd = answers->fd = -1;
    if (weft_control_open(dials) || weft_control_open(answers) ||
        weft_control_listen("127.0.0.1:0", &listener, address) || weft_control_dial(dials, address, 10000))
        die("connect");
    struct pollfd ready = {listener, POLLIN, 0};
    poll(&ready, 1, 10000);
    weft_control_adopt(answers, accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), 10000);
    weft_control_unlisten(listener);
}

static void prove_both(weft_control *dials, weft_control *answers)
{
    weft_control_guard(dials, guards[0], "trainer");
    weft_control_guard(answers, guards[1], NULL);
    while (dials->connecting || !answers->sealed)
        if (weft_control_flush(dials) != WEFT_OK || weft_control_fill(answers) != WEFT_OK)
            die("handshake");
}

static void wait_for(int fd, short events)
{
    struct pollfd ready = {fd, events, 0};
    poll(&ready, 1, 1000);
}

/* ---- bare: the same bytes by the same calls, and nothing else */

static void *send_bare(void *argument)
{
    weft_control *control = argument;
    for (uint32_t i = 0; i < CHUNKS; i++)
        for (uint64_t at = 0, part; at < CHUNK; at += part) {
            if (weft_control_transmit(control, sent + at, CHUNK - at, &part) != WEFT_OK)
                die("send");
            if (part == 0)
                wait_for(control->fd, POLLOUT);
        }
    return NULL;
}

static void take_bare(weft_control *control)
{
    for (uint32_t i = 0; i < CHUNKS; i++)
        for (uint64_t at = 0, part; at < CHUNK; at += part) {
            if (weft_control_receive(control, landed + (i % SLOTS) * CHUNK + at, CHUNK - at, &part) != WEFT_OK)
                die("receive");
            if (part == 0)
                wait_for(control->fd, POLLIN);
        }
}

/* ---- stream */

static void *send_stream(void *argument)
{
    const weft_provider *stream = &weft_provider_stream;
    weft_port *port = argument;
    weft_completion list[SLOTS];
    for (uint32_t posted = 0, done = 0; done < CHUNKS;) {
        const weft_write write = {.data = sent, .bytes = CHUNK, .remote_address = (posted % SLOTS) * CHUNK};
        if (posted < CHUNKS && stream->write(port, &write) == WEFT_OK)
            posted++;
        const size_t count = stream->poll(port, list, SLOTS);
        done += (uint32_t)count;
        if (count == 0 && stream->wait_arm(port) == WEFT_OK)
            wait_for(stream->wait_fd(port), POLLIN);
    }
    return NULL;
}

static void take_stream(weft_port *port)
{
    const weft_provider *stream = &weft_provider_stream;
    weft_completion list[SLOTS];
    for (uint32_t came = 0; came < CHUNKS;) {
        const size_t count = stream->poll(port, list, SLOTS);
        for (size_t i = 0; i < count; i++)
            if (list[i].kind != WEFT_COMPLETION_ARRIVED)
                die("arrivals");
        came += (uint32_t)count;
        if (count == 0 && stream->wait_arm(port) == WEFT_OK)
            wait_for(stream->wait_fd(port), POLLIN);
    }
}

static weft_port *port_by(weft_control *control, weft_link *link, weft_region **region)
{
    const weft_provider *stream = &weft_provider_stream;
    weft_port *port;
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t bytes;
    if (stream->port_open(link, &port) || stream->port_address(port, address, &bytes) ||
        (region && stream->region_open(link, port, landed, SLOTS * CHUNK, true, region)) ||
        stream->port_connect(port, address, bytes))
        die("port");
    memset(control->in, 0, WEFT_MESSAGE_PREFIX);
    control->in_used = WEFT_MESSAGE_PREFIX; /* as if DUCT had come */
    if (weft_duct_take(control, stream, port) != WEFT_OK)
        die("duct");
    return port;
}

static void run_stream(weft_control *dials, weft_control *answers)
{
    const weft_provider *stream = &weft_provider_stream;
    weft_link_options options = {.depth = SLOTS};
    weft_link *link;
    weft_region *region;
    pthread_t thread;
    if (stream->link_open(&options, &link) != WEFT_OK)
        die("link");
    weft_port *from = port_by(answers, link, NULL), *to = port_by(dials, link, &region);
    pthread_create(&thread, NULL, send_stream, from);
    take_stream(to);
    pthread_join(thread, NULL);
    stream->port_close(from);
    stream->port_close(to);
    stream->region_close(region);
    stream->link_close(link);
}

/* ---- rounds */

static double round_of(mode m)
{
    weft_control dials, answers;
    connect_both(&dials, &answers);
    while (dials.connecting)
        weft_control_flush(&dials);
    if (m == BARE_TLS || m == STREAM_TLS)
        prove_both(&dials, &answers);
    const uint64_t begun = weft_clock_ns();
    if (m == BARE || m == BARE_TLS) {
        pthread_t thread;
        pthread_create(&thread, NULL, send_bare, &answers);
        take_bare(&dials);
        pthread_join(thread, NULL);
    } else {
        run_stream(&dials, &answers);
    }
    const double seconds = (double)(weft_clock_ns() - begun) / 1e9;
    weft_control_close(&dials);
    weft_control_close(&answers);
    return (double)CHUNK * CHUNKS / 1e6 / seconds;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of this thread alone: both ends' halves of a handshake are made by it. */
static double handshakes(void)
{
    const uint32_t count = 500;
    struct timespec begun, ended;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    for (uint32_t i = 0; i < count; i++) {
        weft_control dials, answers;
        connect_both(&dials, &answers);
        prove_both(&dials, &answers);
        weft_control_close(&dials);
        weft_control_close(&answers);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    return count / ((double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9);
}

int main(int argc, char **argv)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    double rates[MODES][ROUNDS];
    const bool tls = argc > 1;
    weft_log_enter(&quiet);
    sent = calloc(1, CHUNK);
    landed = calloc(SLOTS, CHUNK);
    if (!sent || !landed)
        die("memory");
    if (tls && (weft_site_load(argv[1], NULL, 0, &site) || weft_guard_open(site, "a", &guards[0]) ||
                weft_guard_open(site, NULL, &guards[1])))
        die(argv[1]);
    for (int i = 0; i < ROUNDS; i++)
        for (mode m = BARE; m < MODES; m++)
            rates[m][i] = tls || m == BARE || m == STREAM ? round_of(m) : 0;
    for (mode m = BARE; m < MODES; m++)
        qsort(rates[m], ROUNDS, sizeof(double), compare);
    for (mode m = BARE; m < MODES; m++)
        if (rates[m][0] > 0)
            printf("{\"by\":\"%s\",\"median_mb_s\":%.0f,\"least\":%.0f,\"most\":%.0f,\"of_bare\":%.3f}\n", names[m],
                   rates[m][ROUNDS / 2], rates[m][0], rates[m][ROUNDS - 1],
                   rates[m][ROUNDS / 2] / rates[m >= STREAM ? m - STREAM : m][ROUNDS / 2]);
    if (tls)
        printf("{\"handshakes_a_second_of_a_core\":%.0f}\n", handshakes());
    weft_guard_close(guards[0]);
    weft_guard_close(guards[1]);
    weft_site_free(site);
    free(sent);
    free(landed);
    return 0;
}
