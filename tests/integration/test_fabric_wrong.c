/* Real providers between real processes: wrong keys, wrong addresses, calls out of contract, missing devices. */
#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/fabric_ends.h"
#include "tests/support/standin.h"

/* A write with a key that was never given, or is given no longer, must not land. */
static void send_with_a_wrong_key(play *p)
{
    sender s;
    stream t;
    int fd = p->processes[1].line;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, fd);
    t.to.key ^= UINT64_C(0x5a5a5a5a);
    stream_post(&s, &t);
    for (double end = play_now() + 0.3; play_now() < end;)
        stream_poll(&s, &t);
    CHECK(t.written == 0 || strcmp(p->provider, "shm") != 0, "a wrong key was not noticed");
    stream_close(&s, &t);
    play_tell(fd, "", 1);
    sender_close(&s);
}

static void keep_memory_untouched(play *p)
{
    receiver r;
    int fd = p->line;
    receiver_open(&r, p->provider, fd);
    while (!play_heard(fd)) {
        weft_completion c[8];
        size_t n = r.end.provider->poll(r.port, c, 8);
        for (size_t i = 0; i < n; i++)
            CHECK(c[i].kind != WEFT_COMPLETION_ARRIVED, "a write with a wrong key arrived");
        play_nap(1e-3);
    }
    for (uint64_t i = 0; i < BUCKET * SLOTS; i++)
        CHECK(r.memory[i] == 0, "byte %llu was written with a wrong key", (unsigned long long)i);
    receiver_close(&r);
}

static void a_wrong_key_lands_nothing(void **state)
{
    play p;
    play_start(&p, *state, send_with_a_wrong_key, keep_memory_untouched, 1);
    play_finish(&p, 1, 0);
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

static void try_addresses(play *p)
{
    static const char *const good[] = {"lo", "127.0.0.1", "127.0.0.2", "near1"};
    standin_use(p->provider);
    expect_refused(p->provider, "", WEFT_E_CONFIG, "needs an address");
    expect_refused(p->provider, "203.0.113.9", WEFT_AGAIN, "not on this host");
    expect_refused(p->provider, "nosuch0", WEFT_AGAIN, "nosuch0");
    expect_refused(p->provider, "no such host", WEFT_E_CONFIG, "no such host");
    expect_refused(p->provider, "near9", WEFT_E_CONFIG, "near9");
    expect_refused(p->provider, "0.0.0.0", WEFT_E_CONFIG, "no interface");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fabric_end e = {.provider = weft_provider_find(p->provider)};
        weft_link_options options = {.address = good[i]};
        CHECK(e.provider->link_open(&options, &e.link) == WEFT_OK, "address %s", good[i]);
        weft_port *port = end_open_port(&e);
        e.provider->port_close(port);
        e.provider->link_close(e.link);
    }
}

static void a_wrong_address_is_an_error(void **state)
{
    play p;
    play_start(&p, *state, try_addresses, NULL, 0);
    play_finish(&p, 0, 0);
}

/* Devices have names of their own; an IP of this host says no more than that it is this host. */
static void try_devices(play *p)
{
    static const char *const good[] = {"", "rdmap0s6-rdm", "127.0.0.1", "near1"};
    standin_use(p->provider);
    expect_refused(p->provider, "rdmap9s9-rdm", WEFT_E_CONFIG, "rdmap0s6-rdm");
    expect_refused(p->provider, "eth0", WEFT_E_CONFIG, "rdmap0s6-rdm");
    expect_refused(p->provider, "near2", WEFT_E_CONFIG, "near2");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        weft_link *link = NULL;
        weft_link_options options = {.address = good[i]};
        CHECK(weft_provider_find(p->provider)->link_open(&options, &link) == WEFT_OK, "address %s", good[i]);
        weft_provider_find(p->provider)->link_close(link);
    }
}

static void a_wrong_device_is_an_error(void **state)
{
    play p;
    play_start(&p, *state, try_devices, NULL, 0);
    play_finish(&p, 0, 0);
}

/* An end of the other family is told as that, not as bytes that make no sense. */
static void try_families(play *p)
{
    fabric_end v4 = {.provider = weft_provider_find(p->provider)}, v6 = v4;
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t length = 0;
    weft_link_options to4 = {.address = "127.0.0.1"}, to6 = {.address = "::1"};
    CHECK(v4.provider->link_open(&to4, &v4.link) == WEFT_OK, "127.0.0.1");
    if (v6.provider->link_open(&to6, &v6.link) != WEFT_OK) {
        fprintf(stderr, "skipped: no IPv6 here\n");
        v4.provider->link_close(v4.link);
        return;
    }
    weft_port *port4 = end_open_port(&v4), *port6 = end_open_port(&v6);
    CHECK(v6.provider->port_address(port6, address, &length) == WEFT_OK, "port_address");
    CHECK(v4.provider->port_connect(port4, address, length) == WEFT_E_UNREACHABLE, "IPv6 from IPv4");
    CHECK(strstr(weft_last_error(), "one family"), "text");
    CHECK(v4.provider->port_address(port4, address, &length) == WEFT_OK, "port_address");
    CHECK(v6.provider->port_connect(port6, address, length) == WEFT_E_UNREACHABLE, "IPv4 from IPv6");
    v4.provider->port_close(port4);
    v6.provider->port_close(port6);
    v4.provider->link_close(v4.link);
    v6.provider->link_close(v6.link);
}

static void another_family_is_named(void **state)
{
    play p;
    play_start(&p, *state, try_families, NULL, 0);
    play_finish(&p, 0, 0);
}

/* A session opens its ports when it joins: that there is none is told before. */
static void expect_no_port(const char *provider, const weft_link_options *options)
{
    weft_link *link = NULL;
    CHECK(weft_provider_find(provider)->link_open(options, &link) == WEFT_E_PROVIDER, "a link without a port");
    CHECK(!link && strstr(weft_last_error(), "every port of") && strstr(weft_last_error(), "widen"), "text");
}

/* Ports that a link may use, all taken: told with the range, and free again when one is closed. */
static void try_ports(play *p)
{
    fabric_end e = {.provider = weft_provider_find(p->provider)};
    weft_port *ports[3] = {NULL};
    weft_link_options options = {.address = "127.0.0.1"};
    uint16_t number;
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t length = 0;
    options.port_low = 20000 + (uint32_t)getpid() % 20000;
    options.port_high = options.port_low + 1;
    CHECK(e.provider->link_open(&options, &e.link) == WEFT_OK, "link_open");
    uint32_t count = 0; /* of those, some may be another process's */
    while (count < 3 && e.provider->port_open(e.link, &ports[count]) == WEFT_OK) {
        CHECK(e.provider->port_address(ports[count], address, &length) == WEFT_OK, "port_address");
        memcpy(&number, address + 2, sizeof number);
        number = (uint16_t)(number >> 8 | number << 8);
        CHECK(number >= options.port_low && number <= options.port_high, "port %u", number);
        count++;
    }
    CHECK(count < 3, "three endpoints on two ports");
    CHECK(strstr(weft_last_error(), "every port of") && strstr(weft_last_error(), "widen"), "text");
    expect_no_port(p->provider, &options);
    if (count) {
        e.provider->port_close(ports[--count]);
        CHECK(e.provider->port_open(e.link, &ports[count]) == WEFT_OK, "a port that was given back");
        count++;
    }
    while (count)
        e.provider->port_close(ports[--count]);
    e.provider->link_close(e.link);
}

static void an_exhausted_range_is_named(void **state)
{
    play p;
    play_start(&p, *state, try_ports, NULL, 0);
    play_finish(&p, 0, 0);
}

/* Bytes from the other end that are no address, and calls out of contract. */
static void try_misuse(play *p)
{
    sender s;
    weft_completion c;
    uint8_t address[WEFT_PORT_ADDRESS_MAX + 1] = {1, 2, 3};
    uint32_t length = 0;
    sender_open(&s, p->provider);
    const weft_provider *provider = s.end.provider;
    weft_port *port = end_open_port(&s.end);
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
    const weft_link_options most = {.address = end_local(p->provider), .chunk_bytes = UINT64_MAX, .depth = UINT32_MAX};
    const standin_rules *rules;
    weft_link_facts facts;
    weft_link *link;
    CHECK(provider->link_open(&most, &link) == WEFT_OK, "link_open");
    provider->link_facts(link, &facts);
    CHECK(facts.depth <= 1024 && facts.chunk_bytes <= UINT64_C(1) << 30, "facts of a link that asks for all");
    for (size_t i = 0; (rules = standin_at(i)); i++)
        if (strcmp(rules->play ? rules->play : rules->provider, p->provider) == 0)
            CHECK(facts.depth <= rules->tx_size, "%u writes for a queue of %u", facts.depth, rules->tx_size);
    provider->link_close(link);
    sender_close(&s);
}

static void misuse_is_refused(void **state)
{
    play p;
    play_start(&p, *state, try_misuse, NULL, 0);
    play_finish(&p, 0, 0);
}

/* libfabric refuses a key that is in use: another one is drawn, and where there is none in so many, it is told. */
static void try_keys(play *p)
{
    static uint8_t memory[2 * CHUNK];
    weft_region *first = NULL, *second = NULL, *third = NULL;
    uint64_t address, keys[2];
    fabric_end e = end_open(p->provider);
    weft_port *port = end_open_port(&e);
    standin_draw(UINT64_C(0x1234567), 1);
    CHECK(e.provider->region_open(e.link, port, memory, CHUNK, true, &first) == WEFT_OK, "region_open");
    e.provider->region_remote(first, &address, &keys[0]);
    CHECK(keys[0] == UINT64_C(0x1234567), "key %llx", (unsigned long long)keys[0]);
    standin_draw(keys[0], 2);
    CHECK(e.provider->region_open(e.link, port, memory + CHUNK, CHUNK, true, &second) == WEFT_OK, "region_open");
    e.provider->region_remote(second, &address, &keys[1]);
    CHECK(keys[1] != keys[0], "two regions with one key");
    standin_draw(keys[0], 99);
    CHECK(e.provider->region_open(e.link, port, memory, CHUNK, true, &third) == WEFT_E_PROVIDER, "no key is left");
    CHECK(!third && strstr(weft_last_error(), "random keys is taken"), "text");
    standin_draw(0, 0);
    e.provider->port_close(port);
    e.provider->region_close(second);
    e.provider->region_close(first);
    e.provider->link_close(e.link);
}

static void a_taken_key_is_drawn_again(void **state)
{
    play p;
    play_start(&p, *state, try_keys, NULL, 0);
    play_finish(&p, 0, 0);
}

/* Whoever may lock anything, root above all, may so no longer. */
static void may_lock(uint64_t bytes)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    CHECK(syscall(SYS_capget, &header, sets) == 0, "capget");
    sets[0].effective &= ~(1u << CAP_IPC_LOCK);
    CHECK(syscall(SYS_capset, &header, sets) == 0, "capset");
    standin_lock_limit(bytes);
}

/* Bytes to be locked and bytes that may be, in numbers; and a refusal of the kernel that the limit would allow. */
static void try_limits(play *p)
{
    static uint8_t memory[4 * CHUNK];
    weft_region *first = NULL, *second = NULL;
    fabric_end e = end_open(p->provider);
    may_lock(3 * CHUNK);
    CHECK(e.provider->region_open(e.link, NULL, memory, 2 * CHUNK, false, &first) == WEFT_OK, "within the limit");
    CHECK(e.provider->region_open(e.link, NULL, memory, 2 * CHUNK, false, &second) == WEFT_E_MISSING, "beyond it");
    CHECK(!second && strstr(weft_last_error(), "256 KiB of memory") && strstr(weft_last_error(), "may lock 192 KiB") &&
              strstr(weft_last_error(), "`ulimit -l 256`") && strstr(weft_last_error(), "limits.conf"),
          "text");
    CHECK(e.provider->region_open(e.link, NULL, memory, CHUNK, false, &second) == WEFT_OK, "what is left of it");
    e.provider->region_close(second);
    second = NULL;
    standin_registers(ENOMEM);
    CHECK(e.provider->region_open(e.link, NULL, memory, CHUNK, false, &second) == WEFT_E_PROVIDER, "refused");
    CHECK(!second && strstr(weft_last_error(), "192 KiB are to be") && strstr(weft_last_error(), "`ulimit -l`"),
          "text");
    e.provider->region_close(first);
    e.provider->link_close(e.link);
}

static void a_limit_on_locked_memory_is_told_in_numbers(void **state)
{
    play p;
    play_start(&p, *state, try_limits, NULL, 0);
    play_finish(&p, 0, 0);
}

static void try_missing(play *p)
{
    if (!fabric_is_usable(p->provider))
        expect_refused(p->provider, strcmp(p->provider, "efa") == 0 ? "" : "127.0.0.1", WEFT_E_MISSING, "libfabric");
    else
        fprintf(stderr, "skipped: there is a device for %s\n", p->provider);
}

static void a_missing_device_is_named(void **state)
{
    play p;
    play_start(&p, *state, try_missing, NULL, 0);
    play_finish(&p, 0, 0);
}

int main(void)
{
    static const struct CMUnitTest always[] = {ON(a_missing_device_is_named, "verbs"),
                                               ON(a_missing_device_is_named, "efa")};
    static const struct CMUnitTest tcp[] = {
        ON(a_wrong_key_lands_nothing, "tcp"), ON(a_wrong_address_is_an_error, "tcp"),
        ON(misuse_is_refused, "tcp"),         ON(a_taken_key_is_drawn_again, "tcp"),
        ON(another_family_is_named, "tcp"),   ON(an_exhausted_range_is_named, "tcp"),
    };
    static const struct CMUnitTest tcp_rxm[] = {
        ON(a_wrong_key_lands_nothing, "tcp-rxm"), ON(a_wrong_address_is_an_error, "tcp-rxm"),
        ON(misuse_is_refused, "tcp-rxm"),         ON(a_taken_key_is_drawn_again, "tcp-rxm"),
        ON(another_family_is_named, "tcp-rxm"),   ON(an_exhausted_range_is_named, "tcp-rxm"),
    };
    static const struct CMUnitTest shm[] = {
        ON(a_wrong_key_lands_nothing, "shm"),
        ON(misuse_is_refused, "shm"),
        ON(a_taken_key_is_drawn_again, "shm"),
    };
    static const struct CMUnitTest verbs[] = {
        ON(a_wrong_key_lands_nothing, "verbs"),
        ON(a_wrong_address_is_an_error, "verbs"),
        ON(misuse_is_refused, "verbs"),
        ON(a_limit_on_locked_memory_is_told_in_numbers, "verbs"),
    };
    static const struct CMUnitTest efa[] = {
        ON(a_wrong_key_lands_nothing, "efa"),
        ON(a_wrong_device_is_an_error, "efa"),
        ON(misuse_is_refused, "efa"),
        ON(a_limit_on_locked_memory_is_told_in_numbers, "efa"),
    };
    static const struct CMUnitTest efa_direct[] = {
        ON(a_wrong_key_lands_nothing, "efa-direct"),
        ON(a_wrong_device_is_an_error, "efa-direct"),
        ON(misuse_is_refused, "efa-direct"),
        ON(a_limit_on_locked_memory_is_told_in_numbers, "efa-direct"),
    };
    int failed = cmocka_run_group_tests(always, NULL, NULL);
    failed += FABRIC_RUN("tcp", tcp);
    failed += FABRIC_RUN("tcp-rxm", tcp_rxm);
    failed += FABRIC_RUN("shm", shm);
    failed += FABRIC_RUN("verbs", verbs); /* stand-ins, where no device is */
    failed += FABRIC_RUN("efa", efa);
    failed += FABRIC_RUN("efa-direct", efa_direct);
    return failed;
}
