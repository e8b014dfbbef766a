/* Opens, feeds and drains the ends of a real provider. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "tests/support/fabric_ends.h"
#include "tests/support/standin.h"

const char *end_local(const char *provider)
{
    return strcmp(standin_provider(provider), "shm") == 0 ? "" : "127.0.0.1";
}

fabric_end end_open(const char *name)
{
    fabric_end e = {.provider = weft_provider_find(standin_provider(name))};
    weft_link_options options = {
        .address = end_local(name), .chunk_bytes = CHUNK, .depth = DEPTH, .landing = {.slots = SLOTS, .bytes = BUCKET}};
    standin_use(name);
    CHECK(e.provider, "no provider %s", name);
    CHECK(e.provider->link_open(&options, &e.link) == WEFT_OK, "link_open");
    e.provider->link_facts(e.link, &e.facts);
    CHECK(e.facts.chunk_bytes == CHUNK && e.facts.depth == DEPTH, "facts");
    return e;
}

weft_port *end_open_port(const fabric_end *e)
{
    weft_port *port;
    CHECK(e->provider->port_open(e->link, &port) == WEFT_OK, "port_open");
    return port;
}

invitation end_invite(const fabric_end *e, const weft_port *port, const weft_region *region)
{
    invitation i = {.length = 0};
    CHECK(e->provider->port_address(port, i.port, &i.length) == WEFT_OK, "port_address");
    e->provider->region_remote(region, &i.address, &i.key);
    return i;
}

void end_idle(const fabric_end *e, weft_port *port, int milliseconds)
{
    struct pollfd p = {.fd = e->provider->wait_fd(port), .events = POLLIN};
    CHECK((p.fd >= 0) == e->facts.has_fd, "wait_fd and facts differ");
    if (p.fd < 0)
        play_nap(milliseconds < 2 ? milliseconds * 1e-3 : 2e-3);
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

/* ---- the receiver */

void receiver_open(receiver *r, const char *provider, int fd)
{
    memset(r, 0, sizeof *r);
    r->end = end_open(provider);
    r->port = end_open_port(&r->end);
    r->memory = weft_mem_map(BUCKET * SLOTS);
    CHECK(r->end.provider->region_open(r->end.link, r->port, r->memory, BUCKET * SLOTS, true, &r->region) == WEFT_OK,
          "region_open");
    invitation i = end_invite(&r->end, r->port, r->region);
    play_tell(fd, &i, sizeof i);
}

void receiver_close(receiver *r)
{
    double t = play_now();
    r->end.provider->port_close(r->port);
    r->end.provider->region_close(r->region);
    r->end.provider->link_close(r->end.link);
    CHECK(play_now() - t < 1, "closing took %.3f s", play_now() - t);
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
    play_tell(fd, &bucket, sizeof bucket);
}

bool receiver_step(receiver *r, int fd, int milliseconds)
{
    weft_completion c[8];
    size_t n = r->end.provider->poll(r->port, c, 8);
    for (size_t i = 0; i < n; i++)
        if (c[i].kind == WEFT_COMPLETION_ARRIVED)
            receiver_take(r, fd, c[i].immediate);
    if (!n)
        end_idle(&r->end, r->port, milliseconds);
    return n != 0;
}

void receive_all(play *p)
{
    receiver r;
    int fd = p->line;
    receiver_open(&r, p->provider, fd);
    while (r.whole < BUCKETS)
        receiver_step(&r, fd, 20);
    while (!play_heard(fd)) /* the sender's last completions need this end's progress */
        receiver_step(&r, fd, 5);
    receiver_close(&r);
}

/* ---- the sender */

void sender_open(sender *s, const char *provider)
{
    s->end = end_open(provider);
    s->memory = weft_mem_map(BUCKET * SLOTS * LANES);
    CHECK(s->end.provider->region_open(s->end.link, NULL, s->memory, BUCKET * SLOTS * LANES, false, &s->region) ==
              WEFT_OK,
          "region_open");
}

void sender_close(sender *s)
{
    s->end.provider->region_close(s->region);
    s->end.provider->link_close(s->end.link);
    weft_mem_unmap(s->memory, BUCKET * SLOTS * LANES);
}

void stream_open(const sender *s, stream *t, uint32_t lane, int fd)
{
    memset(t, 0, sizeof *t);
    t->source = s->memory + lane * SLOTS * BUCKET;
    t->fd = fd;
    play_hear(fd, &t->to, sizeof t->to);
    t->port = end_open_port(&s->end);
    CHECK(s->end.provider->port_connect(t->port, t->to.port, t->to.length) == WEFT_OK, "port_connect");
}

void stream_close(const sender *s, stream *t)
{
    double begin = play_now();
    s->end.provider->port_close(t->port);
    CHECK(play_now() - begin < 1, "port_close took %.3f s", play_now() - begin);
}

weft_status stream_post(const sender *s, stream *t)
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
    double begin = play_now();
    weft_status status = s->end.provider->write(t->port, &w);
    CHECK(play_now() - begin < 0.5, "write took %.3f s", play_now() - begin);
    return status;
}

void stream_poll(const sender *s, stream *t)
{
    weft_completion c[8];
    double begin = play_now();
    size_t n = s->end.provider->poll(t->port, c, 8);
    CHECK(play_now() - begin < 0.5, "poll took %.3f s", play_now() - begin);
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
        end_idle(&s->end, t->port, 1);
}

static void stream_acknowledged(stream *t)
{
    uint32_t bucket;
    while (play_heard(t->fd)) {
        play_hear(t->fd, &bucket, sizeof bucket);
        CHECK(bucket < BUCKETS && !t->whole[bucket], "bucket %u is acknowledged", bucket);
        t->whole[bucket] = true;
        while (t->acknowledged < BUCKETS && t->whole[t->acknowledged])
            t->acknowledged++;
    }
}

bool stream_step(const sender *s, stream *t)
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

void stream_all(const sender *s, stream *t)
{
    while (stream_step(s, t))
        ;
    CHECK(t->failed == 0, "%u writes failed", t->failed);
    play_tell(t->fd, "", 1);
}

/* ---- what there is to test */

bool fabric_is_usable(const char *provider)
{
    weft_provider_info list[64];
    size_t count = weft_provider_find(standin_provider(provider))->probe(list, 64);
    CHECK(count > 0, "probe says nothing");
    if (!list[0].usable)
        CHECK(list[0].detail[0] && list[0].fabric[0], "unusable without a reason");
    return list[0].usable;
}

bool fabric_is_sure(const char *provider)
{
#ifndef WEFT_NO_FABRIC
    for (size_t i = 0; standin_at(i); i++) {
        const standin_rules *row = standin_at(i);
        if (strcmp(row->play ? row->play : row->provider, provider) == 0)
            return true;
    }
    return strcmp(provider, "tcp") == 0;
#else
    (void)provider;
    return false;
#endif
}

fabric_presence fabric_judge(const char *provider, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return FABRIC_HERE;
    return WIFEXITED(status) && WEXITSTATUS(status) == 2 && !fabric_is_sure(provider) ? FABRIC_ABSENT : FABRIC_BROKEN;
}

bool fabric_is_here(const char *provider)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        standin_use(provider);
        _exit(weft_provider_find(standin_provider(provider)) && fabric_is_usable(provider) ? 0 : 2);
    }
    fabric_presence presence =
        pid > 0 && waitpid(pid, &status, 0) == pid ? fabric_judge(provider, status) : FABRIC_BROKEN;
    if (presence == FABRIC_BROKEN) {
        fprintf(stderr, "FAIL: provider %s must be usable here, or its probe must say why not\n", provider);
        exit(1);
    }
    if (presence == FABRIC_ABSENT)
        fprintf(stderr, "skipped: provider %s is not usable here\n", provider);
    return presence == FABRIC_HERE;
}

static unsigned groups;

bool fabric_begins(const char *provider)
{
    bool here = fabric_is_here(provider);
    groups += here;
    return here;
}

int fabric_result(int failed)
{
    return groups > 0 || failed ? failed : 77;
}
