/* Real providers between real processes: bytes, aborts, deaths, sleep. Every fabric is opened in a child, after its
 * fork; the cmocka process only starts and reaps them. */
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem.h"
#include "port_provider.h"

#define CHUNK   (UINT64_C(64) << 10)
#define CHUNKS  4u /* of a bucket */
#define SLOTS   4u
#define BUCKETS 64u
#define DEPTH   4u
#define BUCKET  (CHUNK * CHUNKS)
#define LANES   2u /* streams that one sender feeds at a time */

/* In a child: cmocka's own assertions would jump into the parent's copy of the test. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, " (%s)\n", weft_last_error());                                                             \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* ---- processes */

/* Process 0 leads, the others are each joined with it by a socket. */
#define CAST_MAX 4
typedef struct play {
    const char *provider;
    pid_t pids[CAST_MAX];
    int sockets[CAST_MAX][2]; /* [i][0]: at process 0, [i][1]: at process i */
} play;

typedef void (*role_fn)(play *p, int self);

static void start(play *p, const char *provider, role_fn lead, role_fn other, int others)
{
    static const int caught[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
    memset(p, 0, sizeof *p);
    p->provider = provider;
    for (int i = 1; i <= others; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->sockets[i]), 0);
    for (int i = others; i >= 0; i--) { /* the lead last: it knows all pids */
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(60);
            for (size_t k = 0; k < sizeof caught / sizeof caught[0]; k++)
                signal(caught[k], SIG_DFL); /* cmocka's handlers would go on with the next test here */
            for (int k = 1; k <= others; k++)
                close(p->sockets[k][i ? 0 : 1]);
            (i ? other : lead)(p, i);
            exit(0); /* the leak check runs here */
        }
        p->pids[i] = pid;
    }
    for (int i = 1; i <= others; i++) {
        close(p->sockets[i][0]);
        close(p->sockets[i][1]);
    }
}

/* libfabric's shm leaves its segments, named by process, where a process is killed. */
static void sweep(pid_t pid)
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "/dev/shm/%d:*", (int)pid);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

/* Waits for all; `killed` of them (a bit each) are to have died by SIGKILL. After a failure nobody is left running. */
static void finish(play *p, int others, unsigned killed)
{
    int status = 0;
    for (int i = 0; i <= others; i++) {
        assert_int_equal(waitpid(p->pids[i], &status, 0), p->pids[i]);
        bool good = killed & 1u << i ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                     : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        sweep(p->pids[i]);
        if (good)
            continue;
        for (int k = i + 1; k <= others; k++) {
            kill(p->pids[k], SIGKILL);
            waitpid(p->pids[k], NULL, 0);
            sweep(p->pids[k]);
        }
        fail_msg("process %d of %s ended by signal %d or with exit code %d", i, p->provider,
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
}

static void tell(int fd, const void *bytes, size_t count)
{
    CHECK(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count, "send: %s", strerror(errno));
}

static void hear(int fd, void *bytes, size_t count)
{
    CHECK(recv(fd, bytes, count, MSG_WAITALL) == (ssize_t)count, "recv: %s", strerror(errno));
}

static bool heard(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* ---- one end of a fabric */

typedef struct fabric_end {
    const weft_provider *provider;
    weft_link *link;
    weft_link_facts facts;
} fabric_end;

static const char *local(const char *provider)
{
    return strcmp(provider, "shm") == 0 ? "" : "127.0.0.1";
}

static fabric_end open_end(const char *name)
{
    fabric_end e = {.provider = weft_provider_find(name)};
    weft_link_options options = {.address = local(name), .chunk_bytes = CHUNK, .depth = DEPTH};
    CHECK(e.provider, "no provider %s", name);
    CHECK(e.provider->link_open(&options, &e.link) == WEFT_OK, "link_open");
    e.provider->link_facts(e.link, &e.facts);
    CHECK(e.facts.chunk_bytes == CHUNK && e.facts.depth == DEPTH, "facts");
    return e;
}

static weft_port *open_port(const fabric_end *e)
{
    weft_port *port;
    CHECK(e->provider->port_open(e->link, &port) == WEFT_OK, "port_open");
    return port;
}

/* What a receiver says to its sender. */
typedef struct invitation {
    uint8_t port[WEFT_PORT_ADDRESS_MAX];
    uint32_t length;
    uint64_t address;
    uint64_t key;
} invitation;

static invitation invite(const fabric_end *e, const weft_port *port, const weft_region *region)
{
    invitation i = {.length = 0};
    CHECK(e->provider->port_address(port, i.port, &i.length) == WEFT_OK, "port_address");
    e->provider->region_remote(region, &i.address, &i.key);
    return i;
}

/* Waits as a progress thread does: on the descriptor where there is one, else a short sleep. */
static void idle(const fabric_end *e, weft_port *port, int milliseconds)
{
    struct pollfd p = {.fd = e->provider->wait_fd(port), .events = POLLIN};
    CHECK((p.fd >= 0) == e->facts.has_fd, "wait_fd and facts differ");
    if (p.fd < 0)
        nap(milliseconds < 2 ? milliseconds * 1e-3 : 2e-3);
    else if (e->provider->wait_arm(port) == WEFT_OK)
        poll(&p, 1, milliseconds);
}

/* ---- data: every byte depends on its bucket, chunk and place */

static uint64_t chunk_bytes(uint32_t chunk)
{
    return chunk == CHUNKS - 1 ? CHUNK - 13 : CHUNK; /* the last of a bucket is short and odd */
}

static uint8_t byte_of(uint32_t bucket, uint32_t chunk, uint64_t i)
{
    return (uint8_t)((i * 31 + i / 251) ^ (bucket * 7 + chunk * 129 + 1));
}

static void fill(uint8_t *to, uint32_t bucket, uint32_t chunk)
{
    for (uint64_t i = 0; i < CHUNK; i++)
        to[i] = byte_of(bucket, chunk, i);
}

static void verify(const uint8_t *slot, uint32_t bucket)
{
    for (uint32_t c = 0; c < CHUNKS; c++)
        for (uint64_t i = 0; i < chunk_bytes(c); i++)
            CHECK(slot[c * CHUNK + i] == byte_of(bucket, c, i), "bucket %u chunk %u byte %llu", bucket, c,
                  (unsigned long long)i);
}

/* ---- a receiver: grants SLOTS, acknowledges each bucket when it is whole and verified */

typedef struct receiver {
    fabric_end end;
    weft_port *port;
    weft_region *region;
    uint8_t *memory;
    uint8_t counted[BUCKETS][CHUNKS];
    uint32_t chunks[BUCKETS];
    uint32_t whole;
} receiver;

static void receiver_open(receiver *r, const char *provider, int fd)
{
    memset(r, 0, sizeof *r);
    r->end = open_end(provider);
    r->port = open_port(&r->end);
    r->memory = weft_mem_map(BUCKET * SLOTS);
    CHECK(r->end.provider->region_open(r->end.link, r->port, r->memory, BUCKET * SLOTS, true, &r->region) == WEFT_OK,
          "region_open");
    invitation i = invite(&r->end, r->port, r->region);
    tell(fd, &i, sizeof i);
}

static void receiver_close(receiver *r)
{
    double t = now();
    r->end.provider->port_close(r->port);
    r->end.provider->region_close(r->region);
    r->end.provider->link_close(r->end.link);
    CHECK(now() - t < 1, "closing took %.3f s", now() - t);
    weft_mem_unmap(r->memory, BUCKET * SLOTS);
}

static void receiver_take(receiver *r, int fd, uint32_t immediate)
{
    uint32_t bucket = immediate >> 12;
    uint32_t chunk = immediate & 0xfff;
    CHECK(bucket < BUCKETS && chunk < CHUNKS, "immediate %x", immediate);
    CHECK(!r->counted[bucket][chunk]++, "immediate %x came twice", immediate);
    if (++r->chunks[bucket] < CHUNKS)
        return;
    verify(r->memory + bucket % SLOTS * BUCKET, bucket);
    r->whole++;
    tell(fd, &bucket, sizeof bucket);
}

static bool receiver_step(receiver *r, int fd, int milliseconds)
{
    weft_completion c[8];
    size_t n = r->end.provider->poll(r->port, c, 8);
    for (size_t i = 0; i < n; i++)
        if (c[i].kind == WEFT_COMPLETION_ARRIVED)
            receiver_take(r, fd, c[i].immediate);
    if (!n)
        idle(&r->end, r->port, milliseconds);
    return n != 0;
}

static void receive_all(play *p, int self)
{
    receiver r;
    int fd = p->sockets[self][1];
    receiver_open(&r, p->provider, fd);
    while (r.whole < BUCKETS)
        receiver_step(&r, fd, 20);
    while (!heard(fd)) /* the sender's last completions need this end's progress */
        receiver_step(&r, fd, 5);
    receiver_close(&r);
}

/* ---- a sender */

typedef struct sender {
    fabric_end end;
    weft_region *region;
    uint8_t *memory; /* LANES times SLOTS buckets, filled as they are sent */
} sender;

typedef struct stream {
    weft_port *port;
    invitation to;
    int fd;
    uint8_t *source;        /* its SLOTS buckets of the sender's memory */
    uint32_t bucket, chunk; /* next to post */
    uint32_t acknowledged;
    uint32_t written, failed, again;
    uint8_t seen[BUCKETS][CHUNKS]; /* completions, by cookie */
} stream;

static void sender_open(sender *s, const char *provider)
{
    s->end = open_end(provider);
    s->memory = weft_mem_map(BUCKET * SLOTS * LANES);
    CHECK(s->end.provider->region_open(s->end.link, NULL, s->memory, BUCKET * SLOTS * LANES, false, &s->region) ==
              WEFT_OK,
          "region_open");
}

static void sender_close(sender *s)
{
    s->end.provider->region_close(s->region);
    s->end.provider->link_close(s->end.link);
    weft_mem_unmap(s->memory, BUCKET * SLOTS * LANES);
}

static void stream_open(const sender *s, stream *t, uint32_t lane, int fd)
{
    memset(t, 0, sizeof *t);
    t->source = s->memory + lane * SLOTS * BUCKET;
    t->fd = fd;
    hear(fd, &t->to, sizeof t->to);
    t->port = open_port(&s->end);
    CHECK(s->end.provider->port_connect(t->port, t->to.port, t->to.length) == WEFT_OK, "port_connect");
}

static void stream_close(const sender *s, stream *t)
{
    double begin = now();
    s->end.provider->port_close(t->port);
    CHECK(now() - begin < 1, "port_close took %.3f s", now() - begin);
}

static weft_status stream_post(const sender *s, stream *t)
{
    uint64_t offset = t->bucket % SLOTS * BUCKET + t->chunk * CHUNK;
    weft_write w = {.region = s->region,
                    .data = t->source + offset,
                    .bytes = chunk_bytes(t->chunk),
                    .remote_address = t->to.address + offset,
                    .remote_key = t->to.key,
                    .immediate = t->bucket << 12 | t->chunk,
                    .cookie = (uint64_t)t->bucket << 32 | t->chunk};
    fill(t->source + offset, t->bucket, t->chunk);
    double begin = now();
    weft_status status = s->end.provider->write(t->port, &w);
    CHECK(now() - begin < 0.5, "write took %.3f s", now() - begin);
    return status;
}

static void stream_poll(const sender *s, stream *t)
{
    weft_completion c[8];
    double begin = now();
    size_t n = s->end.provider->poll(t->port, c, 8);
    CHECK(now() - begin < 0.5, "poll took %.3f s", now() - begin);
    for (size_t i = 0; i < n; i++) {
        if (c[i].kind == WEFT_COMPLETION_FAILED) {
            CHECK(c[i].status != WEFT_OK, "a failure without a status");
            t->failed++;
            continue;
        }
        CHECK(c[i].kind == WEFT_COMPLETION_WRITTEN, "kind %d", (int)c[i].kind);
        uint32_t bucket = (uint32_t)(c[i].cookie >> 32);
        uint32_t chunk = (uint32_t)c[i].cookie;
        CHECK(bucket < BUCKETS && chunk < CHUNKS && !t->seen[bucket][chunk]++, "cookie %llx",
              (unsigned long long)c[i].cookie);
        t->written++;
    }
    if (!n)
        idle(&s->end, t->port, 1);
}

static void stream_acknowledged(stream *t)
{
    uint32_t bucket;
    while (heard(t->fd)) {
        hear(t->fd, &bucket, sizeof bucket);
        t->acknowledged++;
    }
}

/* Posts what credit allows; true while there is more to do. */
static bool stream_step(const sender *s, stream *t)
{
    stream_acknowledged(t);
    while (t->bucket < BUCKETS && t->bucket - t->acknowledged < SLOTS) {
        weft_status status = stream_post(s, t);
        if (status == WEFT_AGAIN) {
            t->again++;
            break;
        }
        CHECK(status == WEFT_OK, "write: %s", weft_status_name(status));
        if (++t->chunk == CHUNKS) {
            t->chunk = 0;
            t->bucket++;
        }
    }
    stream_poll(s, t);
    return t->acknowledged < BUCKETS || t->written < BUCKETS * CHUNKS;
}

static void stream_all(const sender *s, stream *t)
{
    while (stream_step(s, t))
        ;
    CHECK(t->failed == 0, "%u writes failed", t->failed);
    tell(t->fd, "", 1);
}

/* ---- tests */

static void send_all(play *p, int self)
{
    (void)self;
    sender s;
    stream t;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->sockets[1][0]);
    stream_all(&s, &t);
    CHECK(t.again > 0, "%u posts at depth %u and none was put off", BUCKETS * CHUNKS, DEPTH);
    stream_close(&s, &t);
    sender_close(&s);
}

static void every_byte_arrives_and_every_immediate_once(void **state)
{
    play p;
    start(&p, *state, send_all, receive_all, 1);
    finish(&p, 1, 0);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* A second of nothing, as a progress thread spends it. */
static void rest(const fabric_end *e, weft_port *port)
{
    weft_completion c[8];
    double cpu = cpu_seconds();
    for (double end = now() + 1; now() < end;) {
        CHECK(e->provider->poll(port, c, 8) == 0, "something came in the silence");
        idle(e, port, 100);
    }
    cpu = cpu_seconds() - cpu;
    CHECK(cpu < 0.05, "an idle second took %.3f s of CPU", cpu);
}

static void send_then_rest(play *p, int self)
{
    (void)self;
    sender s;
    stream t;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->sockets[1][0]);
    while (stream_step(&s, &t))
        ;
    tell(t.fd, "", 1);
    rest(&s.end, t.port);
    stream_close(&s, &t);
    sender_close(&s);
}

static void receive_then_rest(play *p, int self)
{
    receiver r;
    int fd = p->sockets[self][1];
    receiver_open(&r, p->provider, fd);
    while (!heard(fd))
        receiver_step(&r, fd, 5);
    rest(&r.end, r.port);
    receiver_close(&r);
}

static void idle_ends_sleep(void **state)
{
    play p;
    start(&p, *state, send_then_rest, receive_then_rest, 1);
    finish(&p, 1, 0);
}

/* One chunk at a time into a receiver that sleeps for two seconds unless it is woken. */
static void send_now_and_then(play *p, int self)
{
    (void)self;
    sender s;
    stream t;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->sockets[1][0]);
    double begin = now();
    while (stream_step(&s, &t))
        nap(2e-3);
    CHECK(now() - begin < 5, "%u buckets took %.3f s: the receiver was not woken", BUCKETS, now() - begin);
    tell(t.fd, "", 1);
    stream_close(&s, &t);
    sender_close(&s);
}

static void sleep_unless_woken(play *p, int self)
{
    receiver r;
    int fd = p->sockets[self][1];
    receiver_open(&r, p->provider, fd);
    while (r.whole < BUCKETS)
        receiver_step(&r, fd, 2000);
    while (!heard(fd))
        receiver_step(&r, fd, 5);
    receiver_close(&r);
}

static void a_sleeping_receiver_is_woken(void **state)
{
    play p;
    start(&p, *state, send_now_and_then, sleep_unless_woken, 1);
    finish(&p, 1, 0);
}

/* Posts until nothing more is taken, credit or not. */
static void post_all_that_fits(const sender *s, stream *t)
{
    for (double end = now() + 0.3; now() < end;) {
        if (t->bucket == SLOTS)
            break;
        if (stream_post(s, t) != WEFT_OK) {
            stream_poll(s, t);
            continue;
        }
        if (++t->chunk == CHUNKS) {
            t->chunk = 0;
            t->bucket++;
        }
    }
}

static void abort_then_send(play *p, int self)
{
    (void)self;
    sender s;
    stream t;
    int fd = p->sockets[1][0];
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, fd);
    post_all_that_fits(&s, &t);
    stream_close(&s, &t);
    tell(fd, "", 1);
    uint64_t old = t.to.key;
    stream_open(&s, &t, 0, fd); /* a fresh invitation: new port, new key */
    CHECK(t.to.key != old, "a new registration has the old key");
    stream_all(&s, &t);
    stream_close(&s, &t);
    sender_close(&s);
}

/* Looks away while the sender fills the pipe and gives up; then takes the old port down and starts anew. */
static void be_aborted_then_receive(play *p, int self)
{
    receiver r;
    char word;
    int fd = p->sockets[self][1];
    receiver_open(&r, p->provider, fd);
    hear(fd, &word, 1);
    receiver_close(&r);
    receive_all(p, self);
}

static void closing_with_writes_in_flight_is_prompt(void **state)
{
    play p;
    start(&p, *state, abort_then_send, be_aborted_then_receive, 1);
    finish(&p, 1, 0);
}

#define LONG (UINT64_C(64) << 20) /* more than any socket buffer: it is still landing when it is looked at */

static weft_region *open_long(fabric_end *e, const char *name, bool remote, uint8_t **memory)
{
    weft_region *region;
    weft_link_options options = {.address = local(name), .chunk_bytes = LONG};
    *e = (fabric_end){.provider = weft_provider_find(name)};
    CHECK(e->provider->link_open(&options, &e->link) == WEFT_OK, "link_open");
    *memory = weft_mem_map(LONG);
    CHECK(e->provider->region_open(e->link, NULL, *memory, LONG, remote, &region) == WEFT_OK, "region_open");
    return region;
}

static void close_long(fabric_end *e, weft_port *port, weft_region *region, uint8_t *memory)
{
    e->provider->port_close(port);
    e->provider->region_close(region);
    e->provider->link_close(e->link);
    weft_mem_unmap(memory, LONG);
}

static void send_one_long(play *p, int self)
{
    (void)self;
    char word;
    fabric_end e;
    uint8_t *memory;
    invitation to;
    weft_completion c[4];
    int fd = p->sockets[1][0];
    weft_region *region = open_long(&e, p->provider, false, &memory);
    weft_port *port = open_port(&e);
    memset(memory, 1, LONG);
    hear(fd, &to, sizeof to);
    CHECK(e.provider->port_connect(port, to.port, to.length) == WEFT_OK, "port_connect");
    weft_write w = {.region = region,
                    .data = memory,
                    .bytes = LONG,
                    .remote_address = to.address,
                    .remote_key = to.key,
                    .immediate = 1};
    while (e.provider->write(port, &w) == WEFT_AGAIN)
        e.provider->poll(port, c, 4);
    while (!heard(fd))
        e.provider->poll(port, c, 4);
    hear(fd, &word, 1);
    if (word == 'k')
        raise(SIGKILL);
    close_long(&e, port, region, memory);
}

static uint64_t landed_bytes(const uint8_t *memory)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < LONG; i++)
        n += memory[i];
    return n;
}

/* The fence: what has not landed when the port closes never does, with the sender still sending. */
static void close_while_it_lands(play *p, int self)
{
    fabric_end e;
    uint8_t *memory;
    weft_completion c[4];
    int fd = p->sockets[self][1];
    weft_region *region = open_long(&e, p->provider, true, &memory);
    weft_port *port = open_port(&e);
    weft_port *other = open_port(&e); /* goes on making the link's progress */
    invitation i = invite(&e, port, region);
    tell(fd, &i, sizeof i);
    while (!*(volatile uint8_t *)memory)
        e.provider->poll(port, c, 4);
    e.provider->port_close(port);
    uint64_t before = landed_bytes(memory);
    for (double end = now() + 0.3; now() < end;)
        e.provider->poll(other, c, 4);
    uint64_t after = landed_bytes(memory);
    CHECK(before == after, "%llu bytes had landed when the port closed, %llu did later", (unsigned long long)before,
          (unsigned long long)after);
    tell(fd, "c", 1);
    close_long(&e, other, region, memory);
}

/* The sender dies while its write lands. Whether the port says so differs; it must neither arrive nor crash. */
static void outlive_the_sender(play *p, int self)
{
    fabric_end e;
    uint8_t *memory;
    weft_completion c[4];
    int fd = p->sockets[self][1];
    weft_region *region = open_long(&e, p->provider, true, &memory);
    weft_port *port = open_port(&e);
    invitation i = invite(&e, port, region);
    bool all = false;
    tell(fd, &i, sizeof i);
    while (!*(volatile uint8_t *)memory)
        e.provider->poll(port, c, 4);
    tell(fd, "k", 1);
    nap(0.1);
    for (double end = now() + 0.5; now() < end;)
        for (size_t n = e.provider->poll(port, c, 4); n > 0; n--)
            all = all || c[n - 1].kind == WEFT_COMPLETION_ARRIVED;
    CHECK(!all || landed_bytes(memory) == LONG, "a write arrived that had not landed");
    close_long(&e, port, region, memory);
}

static void a_sender_killed_in_a_write_harms_nobody(void **state)
{
    play p;
    start(&p, *state, send_one_long, outlive_the_sender, 1);
    finish(&p, 1, 1u << 0);
}

static void closing_the_receiving_port_is_a_fence(void **state)
{
    play p;
    start(&p, *state, send_one_long, close_while_it_lands, 1);
    finish(&p, 1, 0);
}

static void outlive_the_receiver(play *p, int self)
{
    (void)self;
    sender s;
    stream t;
    bool told = false;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->sockets[1][0]);
    while (t.acknowledged < BUCKETS / 4)
        stream_step(&s, &t);
    CHECK(kill(p->pids[1], SIGKILL) == 0, "kill: %s", strerror(errno));
    for (double end = now() + 2; now() < end && !told;) { /* each call is timed; an error may or may not come */
        told = stream_post(&s, &t) != WEFT_OK && t.failed > DEPTH;
        stream_poll(&s, &t);
        memset(t.seen, 0, sizeof t.seen); /* the same chunk over and over */
    }
    stream_close(&s, &t);
    stream_open(&s, &t, 0, p->sockets[2][0]);
    stream_all(&s, &t);
    stream_close(&s, &t);
    sender_close(&s);
}

static void a_killed_receiver_blocks_nobody(void **state)
{
    play p;
    start(&p, *state, outlive_the_receiver, receive_all, 2);
    finish(&p, 2, 1u << 1);
}

/* Seconds that the first stream takes, with the second one kept going beside it. */
static double race(const sender *s, stream *first, stream *second)
{
    double begin = now();
    while (stream_step(s, first)) {
        if (second->bucket < SLOTS)
            stream_step(s, second);
        CHECK(now() - begin < 20, "%u of %u buckets in 20 s", first->acknowledged, BUCKETS);
    }
    tell(first->fd, "", 1);
    return now() - begin;
}

static void send_beside_a_stopped_one(play *p, int self)
{
    (void)self;
    sender s;
    stream alone, first, stopped;
    sender_open(&s, p->provider);
    stream_open(&s, &alone, 0, p->sockets[3][0]);
    stream none = {.bucket = SLOTS};
    double pace = race(&s, &alone, &none);
    stream_close(&s, &alone);

    stream_open(&s, &first, 0, p->sockets[1][0]);
    stream_open(&s, &stopped, 1, p->sockets[2][0]);
    CHECK(kill(p->pids[2], SIGSTOP) == 0, "kill: %s", strerror(errno));
    double beside = race(&s, &first, &stopped);
    CHECK(beside < 5 * pace + 2, "%.3f s alone, %.3f s beside a stopped receiver", pace, beside);
    stream_close(&s, &first);
    stream_close(&s, &stopped);
    sender_close(&s);
    CHECK(kill(p->pids[2], SIGKILL) == 0, "kill: %s", strerror(errno));
}

static void a_stopped_receiver_slows_nobody(void **state)
{
    play p;
    start(&p, *state, send_beside_a_stopped_one, receive_all, 3);
    finish(&p, 3, 1u << 2);
}

/* A write with a key that was never given, or is given no longer, must not land. */
static void send_with_a_wrong_key(play *p, int self)
{
    (void)self;
    sender s;
    stream t;
    int fd = p->sockets[1][0];
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, fd);
    t.to.key ^= UINT64_C(0x5a5a5a5a);
    stream_post(&s, &t);
    for (double end = now() + 0.3; now() < end;)
        stream_poll(&s, &t);
    CHECK(t.written == 0 || strcmp(p->provider, "shm") != 0, "a wrong key was not noticed");
    stream_close(&s, &t);
    tell(fd, "", 1);
    sender_close(&s);
}

static void keep_memory_untouched(play *p, int self)
{
    receiver r;
    int fd = p->sockets[self][1];
    receiver_open(&r, p->provider, fd);
    while (!heard(fd)) {
        weft_completion c[8];
        size_t n = r.end.provider->poll(r.port, c, 8);
        for (size_t i = 0; i < n; i++)
            CHECK(c[i].kind != WEFT_COMPLETION_ARRIVED, "a write with a wrong key arrived");
        nap(1e-3);
    }
    for (uint64_t i = 0; i < BUCKET * SLOTS; i++)
        CHECK(r.memory[i] == 0, "byte %llu was written with a wrong key", (unsigned long long)i);
    receiver_close(&r);
}

static void a_wrong_key_lands_nothing(void **state)
{
    play p;
    start(&p, *state, send_with_a_wrong_key, keep_memory_untouched, 1);
    finish(&p, 1, 0);
}

static void expect_refused(const char *provider, const char *address, weft_status expected, const char *word)
{
    weft_link *link = NULL;
    weft_link_options options = {.address = address};
    weft_status status = weft_provider_find(provider)->link_open(&options, &link);
    CHECK(status == expected, "provider %s, address \"%s\": %s", provider, address, weft_status_name(status));
    CHECK(!link, "a link beside an error");
    CHECK(strstr(weft_last_error(), word) && strstr(weft_last_error(), provider), "text");
}

static void try_addresses(play *p, int self)
{
    (void)self;
    static const char *const good[] = {"lo", "127.0.0.1", "127.0.0.2"};
    expect_refused(p->provider, "", WEFT_E_CONFIG, "needs an address");
    expect_refused(p->provider, "203.0.113.9", WEFT_E_CONFIG, "not on this host");
    expect_refused(p->provider, "nosuch0", WEFT_E_CONFIG, "nosuch0");
    expect_refused(p->provider, "0.0.0.0", WEFT_E_CONFIG, "no interface");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fabric_end e = {.provider = weft_provider_find(p->provider)};
        weft_link_options options = {.address = good[i]};
        CHECK(e.provider->link_open(&options, &e.link) == WEFT_OK, "address %s", good[i]);
        weft_port *port = open_port(&e);
        e.provider->port_close(port);
        e.provider->link_close(e.link);
    }
}

static void a_wrong_address_is_an_error(void **state)
{
    play p;
    start(&p, *state, try_addresses, NULL, 0);
    finish(&p, 0, 0);
}

/* Bytes from the other end that are no address, and calls out of contract. */
static void try_misuse(play *p, int self)
{
    (void)self;
    sender s;
    weft_completion c;
    uint8_t address[WEFT_PORT_ADDRESS_MAX + 1] = {1, 2, 3};
    uint32_t length = 0;
    sender_open(&s, p->provider);
    const weft_provider *provider = s.end.provider;
    weft_port *port = open_port(&s.end);
    weft_write w = {.region = s.region, .data = s.memory, .bytes = CHUNK};
    CHECK(provider->poll(port, &c, 1) == 0, "a fresh port has completions");
    CHECK(provider->write(port, &w) == WEFT_E_ARGUMENT, "a write on a port that is not connected");
    CHECK(provider->port_connect(port, address, 0) == WEFT_E_PROTOCOL, "an empty address");
    CHECK(provider->port_connect(port, address, 3) == WEFT_E_PROTOCOL, "three bytes");
    CHECK(provider->port_connect(port, address, sizeof address) == WEFT_E_PROTOCOL, "a long address");
    CHECK(provider->port_address(port, address, &length) == WEFT_OK, "port_address");
    CHECK(provider->port_connect(port, address, length) == WEFT_OK, "port_connect");
    CHECK(provider->port_connect(port, address, length) == WEFT_E_STATE, "connected twice");
    w.bytes = CHUNK + 1;
    CHECK(provider->write(port, &w) == WEFT_E_ARGUMENT, "a write above the chunk");
    w.bytes = 0;
    CHECK(provider->write(port, &w) == WEFT_E_ARGUMENT, "a write of nothing");
    provider->port_close(port);
    sender_close(&s);
}

static void misuse_is_refused(void **state)
{
    play p;
    start(&p, *state, try_misuse, NULL, 0);
    finish(&p, 0, 0);
}

static bool is_usable(const char *provider)
{
    weft_provider_info list[64];
    size_t count = weft_provider_find(provider)->probe(list, 64);
    CHECK(count > 0, "probe says nothing");
    if (!list[0].usable)
        CHECK(list[0].detail[0] && list[0].fabric[0], "unusable without a reason");
    return list[0].usable;
}

static void try_missing(play *p, int self)
{
    (void)self;
    if (!is_usable(p->provider))
        expect_refused(p->provider, strcmp(p->provider, "efa") == 0 ? "" : "127.0.0.1", WEFT_E_MISSING, "libfabric");
    else
        fprintf(stderr, "skipped: there is a device for %s\n", p->provider);
}

static void a_missing_device_is_named(void **state)
{
    play p;
    start(&p, *state, try_missing, NULL, 0);
    finish(&p, 0, 0);
}

/* Without libfabric, or with one that lacks the provider, there is nothing to test. */
static bool is_here(const char *provider)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(is_usable(provider) ? 0 : 2);
    waitpid(pid, &status, 0);
    bool here = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!here)
        fprintf(stderr, "skipped: provider %s is not usable here\n", provider);
    return here;
}

#define ON(test, provider)                                                                                             \
    {                                                                                                                  \
#test " " provider, test, NULL, NULL, (void *)(uintptr_t)provider                                              \
    }

int main(void)
{
    static const struct CMUnitTest always[] = {ON(a_missing_device_is_named, "verbs"),
                                               ON(a_missing_device_is_named, "efa")};
    static const struct CMUnitTest tcp[] = {
        ON(every_byte_arrives_and_every_immediate_once, "tcp"),
        ON(idle_ends_sleep, "tcp"),
        ON(a_sleeping_receiver_is_woken, "tcp"),
        ON(closing_with_writes_in_flight_is_prompt, "tcp"),
        ON(closing_the_receiving_port_is_a_fence, "tcp"),
        ON(a_sender_killed_in_a_write_harms_nobody, "tcp"),
        ON(a_killed_receiver_blocks_nobody, "tcp"),
        ON(a_stopped_receiver_slows_nobody, "tcp"),
        ON(a_wrong_key_lands_nothing, "tcp"),
        ON(a_wrong_address_is_an_error, "tcp"),
        ON(misuse_is_refused, "tcp"),
    };
    static const struct CMUnitTest tcp_rxm[] = {
        ON(every_byte_arrives_and_every_immediate_once, "tcp-rxm"),
        ON(idle_ends_sleep, "tcp-rxm"),
        ON(a_sleeping_receiver_is_woken, "tcp-rxm"),
        ON(closing_with_writes_in_flight_is_prompt, "tcp-rxm"),
        ON(closing_the_receiving_port_is_a_fence, "tcp-rxm"),
        ON(a_sender_killed_in_a_write_harms_nobody, "tcp-rxm"),
        ON(a_killed_receiver_blocks_nobody, "tcp-rxm"),
        ON(a_stopped_receiver_slows_nobody, "tcp-rxm"),
        ON(a_wrong_key_lands_nothing, "tcp-rxm"),
        ON(a_wrong_address_is_an_error, "tcp-rxm"),
        ON(misuse_is_refused, "tcp-rxm"),
    };
    static const struct CMUnitTest shm[] = {
        ON(every_byte_arrives_and_every_immediate_once, "shm"),
        ON(idle_ends_sleep, "shm"),
        ON(a_sleeping_receiver_is_woken, "shm"),
        ON(closing_with_writes_in_flight_is_prompt, "shm"),
        ON(closing_the_receiving_port_is_a_fence, "shm"),
        ON(a_sender_killed_in_a_write_harms_nobody, "shm"),
        ON(a_killed_receiver_blocks_nobody, "shm"),
        ON(a_stopped_receiver_slows_nobody, "shm"),
        ON(a_wrong_key_lands_nothing, "shm"),
        ON(misuse_is_refused, "shm"),
    };
    int failed = cmocka_run_group_tests(always, NULL, NULL);
    failed += is_here("tcp") ? cmocka_run_group_tests(tcp, NULL, NULL) : 0;
    failed += is_here("tcp-rxm") ? cmocka_run_group_tests(tcp_rxm, NULL, NULL) : 0;
    failed += is_here("shm") ? cmocka_run_group_tests(shm, NULL, NULL) : 0;
    return failed;
}
