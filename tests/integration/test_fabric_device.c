/* Memory of devices, over stand-ins of providers that grant it, that refuse it, and that only seem to grant it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/fabric_ends.h"
#include "tests/support/standin.h"

#define SLAB (UINT64_C(256) << 10)

typedef struct device_end {
    fabric_end end;
    weft_port *port;
    uint8_t *memory;
    weft_region_memory slab;
    weft_region *region;
} device_end;

static device_end device_open(const char *provider, standin_device how, weft_region_kind memory)
{
    device_end d = {.end.provider = weft_provider_find(provider)};
    weft_link_options options = {
        .address = end_local(provider), .chunk_bytes = CHUNK, .depth = DEPTH, .memory = memory};
    standin_use(provider);
    standin_use_device(how);
    CHECK(d.end.provider->link_open(&options, &d.end.link) == WEFT_OK, "link_open");
    d.end.provider->link_facts(d.end.link, &d.end.facts);
    d.port = end_open_port(&d.end);
    d.memory = weft_mem_map(SLAB);
    d.slab = (weft_region_memory){
        .data = d.memory, .bytes = SLAB, .kind = memory, .device = 3, .dmabuf = dup(STDOUT_FILENO)};
    return d;
}

static weft_status device_register(device_end *d, bool remote)
{
    return d->end.provider->region_open_device(d->end.link, d->port, &d->slab, remote, &d->region);
}

static void device_close(device_end *d)
{
    d->end.provider->port_close(d->port);
    if (d->region)
        d->end.provider->region_close(d->region);
    d->end.provider->link_close(d->end.link);
    weft_mem_unmap(d->memory, SLAB);
    close(d->slab.dmabuf);
}

static bool says(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(i * 7 + i / 256 + 1);
}

/* One write from a device's slab to another's, and what the facts say of it. */
static void move(const char *provider, standin_device how, weft_region_kind kind)
{
    device_end from = device_open(provider, how, kind), to = device_open(provider, how, kind);
    CHECK(from.end.facts.direct && from.end.facts.needs_flush, "%s: %s", provider, from.end.facts.memory);
    CHECK(says(from.end.facts.memory, "direct"), "%s", from.end.facts.memory);
    CHECK(device_register(&from, false) == WEFT_OK && device_register(&to, true) == WEFT_OK, "registered");
    for (uint64_t i = 0; i < CHUNK; i++)
        from.memory[i] = byte_at(i);
    invitation i = end_invite(&to.end, to.port, to.region);
    CHECK(from.end.provider->port_connect(from.port, i.port, i.length) == WEFT_OK, "port_connect");
    weft_write w = {.region = from.region,
                    .data = from.memory,
                    .bytes = CHUNK,
                    .remote_address = i.address + CHUNK,
                    .remote_key = i.key,
                    .immediate = 77};
    weft_completion c[4];
    bool arrived = false, written = false;
    weft_status posted = WEFT_AGAIN;
    for (double end = play_now() + 60; !(arrived && written);) {
        CHECK(play_now() < end, "the write is lost");
        if (posted == WEFT_AGAIN)
            posted = from.end.provider->write(from.port, &w);
        for (size_t n = from.end.provider->poll(from.port, c, 4); n > 0; n--)
            written = written || c[n - 1].kind == WEFT_COMPLETION_WRITTEN;
        for (size_t n = to.end.provider->poll(to.port, c, 4); n > 0; n--)
            arrived = arrived || (c[n - 1].kind == WEFT_COMPLETION_ARRIVED && c[n - 1].immediate == 77);
    }
    for (uint64_t at = 0; at < CHUNK; at++)
        CHECK(to.memory[CHUNK + at] == byte_at(at), "byte %llu", (unsigned long long)at);
    device_close(&from);
    device_close(&to);
}

/* The kind that is granted directly: a header before 1.18 cannot keep EFA from calling CUDA. */
static weft_region_kind kind_of(const char *provider)
{
    return strcmp(provider, "efa") != 0 || standin_knows_cuda_option() ? WEFT_REGION_CUDA : WEFT_REGION_HIP;
}

static void play_direct(play *p, int self)
{
    (void)self;
    move(p->provider, STANDIN_DEVICE_WHOLE, kind_of(p->provider));
    standin_counts counts = standin_counted();
    uint64_t exported = standin_knows_dmabuf() ? 2 : 0;
    CHECK(counts.dmabufs == exported && counts.addresses == 2 - exported, "%llu by dmabuf, %llu by address",
          (unsigned long long)counts.dmabufs, (unsigned long long)counts.addresses);
    move(p->provider, STANDIN_DEVICE_ADDRESS, WEFT_REGION_HIP); /* dmabuf is refused: the other way, with no word */
    CHECK(standin_counted().addresses == counts.addresses + 2, "not by address");
}

static void a_granted_device_is_reached(void **state)
{
    play p;
    play_start(&p, *state, play_direct, NULL, 0);
    play_finish(&p, 0, 0);
}

/* The link opens all the same and moves what lies in host memory. */
static void stay_staged(const char *provider, standin_device how, const char *why)
{
    device_end d = device_open(provider, how, WEFT_REGION_CUDA);
    CHECK(!d.end.facts.direct && !d.end.facts.needs_flush, "%s: %s", provider, d.end.facts.memory);
    CHECK(says(d.end.facts.memory, "staged") && says(d.end.facts.memory, why), "%s", d.end.facts.memory);
    CHECK(device_register(&d, true) == WEFT_E_MISSING && !d.region, "registered, though not granted");
    CHECK(says(weft_last_error(), provider) && says(weft_last_error(), why), "text");
    d.slab.kind = WEFT_REGION_HOST;
    CHECK(device_register(&d, true) == WEFT_OK, "host memory");
    device_close(&d);
    CHECK(standin_counted().dmabufs + standin_counted().addresses == 0, "a device's memory was registered");
}

static void play_absent(play *p, int self)
{
    (void)self;
    stay_staged(p->provider, STANDIN_DEVICE_NONE, "built with CUDA");
    stay_staged(p->provider, STANDIN_DEVICE_UNASKED, "FI_HMEM");
}

static void what_is_not_granted_is_staged(void **state)
{
    play p;
    play_start(&p, *state, play_absent, NULL, 0);
    play_finish(&p, 0, 0);
}

/* Granted, but the CPU might copy under its name, or libfabric call into CUDA. */
static void play_unsafe(play *p, int self)
{
    (void)self;
    stay_staged(p->provider, STANDIN_DEVICE_WHOLE, "refuses the option");
}

static void without_the_options_it_needs_it_is_staged(void **state)
{
    play p;
    play_start(&p, *state, play_unsafe, NULL, 0);
    play_finish(&p, 0, 0);
}

/* A provider without the capability is not asked. */
static void play_never(play *p, int self)
{
    (void)self;
    stay_staged(p->provider, STANDIN_DEVICE_WHOLE, "host memory");
}

static void tcp_never_registers_a_device(void **state)
{
    play p;
    play_start(&p, *state, play_never, NULL, 0);
    play_finish(&p, 0, 0);
}

/* Granted, and then refused: one message with what is missing, and the facts say it from then on. */
static void play_hollow(play *p, int self)
{
    (void)self;
    const bool cuda = kind_of(p->provider) == WEFT_REGION_CUDA;
    device_end d = device_open(p->provider, STANDIN_DEVICE_HOLLOW, kind_of(p->provider));
    CHECK(d.end.facts.direct, "%s", d.end.facts.memory);
    CHECK(device_register(&d, false) == WEFT_E_MISSING && !d.region, "registered");
    const char *text = weft_last_error();
    CHECK(says(text, cuda ? "CUDA device 3" : "HIP device 3") && says(text, "Function not implemented") &&
              says(text, cuda ? "built with CUDA" : "built with ROCr"),
          "text");
    d.end.provider->link_facts(d.end.link, &d.end.facts);
    CHECK(!d.end.facts.direct && !d.end.facts.needs_flush && says(d.end.facts.memory, "staged"), "facts");
    CHECK(device_register(&d, true) == WEFT_E_MISSING, "asked again");
    d.slab.kind = WEFT_REGION_HOST;
    CHECK(device_register(&d, true) == WEFT_OK, "host memory");
    device_close(&d);
}

static void a_refused_registration_is_told(void **state)
{
    play p;
    play_start(&p, *state, play_hollow, NULL, 0);
    play_finish(&p, 0, 0);
}

/* A link that does not ask for it does not pay for FI_HMEM. */
static void play_unasked(play *p, int self)
{
    (void)self;
    device_end d = device_open(p->provider, STANDIN_DEVICE_WHOLE, WEFT_REGION_HOST);
    CHECK(!d.end.facts.direct && says(d.end.facts.memory, "host memory"), "%s", d.end.facts.memory);
    d.slab.kind = WEFT_REGION_CUDA;
    CHECK(device_register(&d, true) == WEFT_E_MISSING, "registered, though not asked for");
    device_close(&d);
}

static void host_memory_asks_for_no_device(void **state)
{
    play p;
    play_start(&p, *state, play_unasked, NULL, 0);
    play_finish(&p, 0, 0);
}

#define OVER(provider)                                                                                                 \
    ON(a_granted_device_is_reached, provider), ON(what_is_not_granted_is_staged, provider),                            \
        ON(a_refused_registration_is_told, provider), ON(host_memory_asks_for_no_device, provider)

int main(void)
{
    static const struct CMUnitTest tcp[] = {ON(tcp_never_registers_a_device, "tcp")};
    static const struct CMUnitTest verbs[] = {OVER("verbs")};
    static const struct CMUnitTest efa[] = {OVER("efa")};
    static const struct CMUnitTest efa_direct[] = {
        /* its stand-in refuses options */
        ON(without_the_options_it_needs_it_is_staged, "efa-direct"),
        ON(what_is_not_granted_is_staged, "efa-direct"),
        ON(host_memory_asks_for_no_device, "efa-direct"),
    };
    int failed = FABRIC_RUN("tcp", tcp);
    failed += FABRIC_RUN("verbs", verbs);
    failed += FABRIC_RUN("efa", efa);
    failed += FABRIC_RUN("efa-direct", efa_direct);
    return fabric_result(failed);
}
