/* The in-process fabric: its contract as a provider, two threads, and the registry. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/loop_pair.h"

static void every_byte_lands_and_every_immediate_once(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    tally t = pair_send_spots(&p);
    assert_int_equal(t.written, SPOTS);
    assert_int_equal(t.failed, 0);
    assert_int_equal(t.arrived, SPOTS);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_true(pair_landed(&p, i) && t.order[i] == i);
    pair_close(&p);
}

static void a_full_port_takes_nothing(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    tally t = {.written = 0};
    for (uint32_t i = 0; i < DEPTH; i++)
        assert_int_equal(pair_post(&p, i), WEFT_OK);
    assert_int_equal(pair_post(&p, DEPTH), WEFT_AGAIN);
    pair_drain(&p, &t);
    assert_int_equal(t.arrived, DEPTH);
    assert_int_equal(t.cookie, 1000 + DEPTH - 1);
    assert_false(pair_landed(&p, DEPTH));
    assert_int_equal(pair_post(&p, DEPTH), WEFT_OK);
    pair_close(&p);
}

/* A receiver that never polls stops its writers in the end instead of growing. */
static void a_receiver_that_never_polls_is_bounded(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    weft_completion c;
    uint32_t taken = 0;
    for (; taken < 100000 && pair_post(&p, taken % SPOTS) == WEFT_OK; taken++)
        assert_int_equal(loop->poll(p.tx, &c, 1), 1);
    assert_in_range(taken, 1000, 99999);
    assert_int_equal(loop->poll(p.rx, &c, 1), 1);
    assert_int_equal(pair_post(&p, 0), WEFT_OK);
    pair_close(&p);
}

static void refused_with_failure(const pair *p, const weft_write *w)
{
    tally t = {.written = 0};
    assert_int_equal(loop->write(p->tx, w), WEFT_OK);
    pair_drain(p, &t);
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.status, WEFT_E_PEER_LOST);
    assert_int_equal(t.cookie, w->cookie);
    assert_int_equal(t.written + t.arrived, 0);
}

static void only_granted_memory_is_written(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    static const uint8_t zeros[BYTES];
    weft_write w = pair_write(&p, 0);
    w.remote_key ^= 1;
    refused_with_failure(&p, &w);
    w = pair_write(&p, 0);
    w.remote_key = 0; /* local regions have it */
    refused_with_failure(&p, &w);
    w = pair_write(&p, 0);
    w.remote_address -= 1;
    refused_with_failure(&p, &w);
    w.remote_address = p.address + BYTES - CHUNK + 1;
    refused_with_failure(&p, &w);
    w.remote_address = p.address + BYTES;
    refused_with_failure(&p, &w);
    w.remote_address = UINT64_MAX - 3;
    refused_with_failure(&p, &w);
    assert_memory_equal(p.memory, zeros, BYTES);
    pair_close(&p);
}

static void a_new_registration_has_a_new_key_and_the_old_one_is_dead(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    weft_write stale = pair_write(&p, 3);
    uint64_t address, key;
    loop->region_close(p.to);
    refused_with_failure(&p, &stale);
    assert_int_equal(loop->region_open(p.rx_link, p.rx, p.memory, BYTES, true, &p.to), WEFT_OK);
    loop->region_remote(p.to, &address, &key);
    assert_int_not_equal(key, p.key);
    refused_with_failure(&p, &stale);
    assert_false(pair_landed(&p, 3));
    pair_close(&p);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    weft_port *alone;
    uint8_t address[WEFT_PORT_ADDRESS_MAX] = {1, 2, 3};
    uint32_t length;
    weft_write w = pair_write(&p, 0);
    assert_int_equal(loop->port_open(p.tx_link, &alone), WEFT_OK);
    assert_int_equal(loop->write(alone, &w), WEFT_E_ARGUMENT);
    assert_int_equal(loop->port_connect(alone, address, 3), WEFT_E_PROTOCOL);
    assert_int_equal(loop->port_connect(alone, address, 16), WEFT_E_PROTOCOL);
    assert_int_equal(loop->port_address(alone, address, &length), WEFT_OK);
    address[15] ^= 1;
    assert_int_equal(loop->port_connect(alone, address, length), WEFT_E_UNREACHABLE);
    assert_int_equal(loop->port_connect(p.tx, address, length), WEFT_E_STATE);
    w.bytes = CHUNK + 1;
    assert_int_equal(loop->write(p.tx, &w), WEFT_E_ARGUMENT);
    w.bytes = 0;
    assert_int_equal(loop->write(p.tx, &w), WEFT_E_ARGUMENT);
    loop->port_close(alone);
    pair_close(&p);
}

static bool is_readable(const weft_port *port)
{
    struct pollfd d = {.fd = loop->wait_fd(port), .events = POLLIN};
    return poll(&d, 1, 0) == 1;
}

static void the_descriptor_is_raised_while_there_is_something(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    weft_completion c[4];
    assert_false(is_readable(p.rx) || is_readable(p.tx));
    assert_int_equal(loop->wait_arm(p.rx), WEFT_OK);
    pair_post(&p, 0);
    pair_post(&p, 1);
    assert_true(is_readable(p.rx) && is_readable(p.tx));
    assert_int_equal(loop->wait_arm(p.rx), WEFT_AGAIN);
    assert_int_equal(loop->poll(p.rx, c, 1), 1);
    assert_true(is_readable(p.rx));
    assert_int_equal(loop->poll(p.rx, c, 4), 1);
    assert_false(is_readable(p.rx));
    assert_int_equal(loop->wait_arm(p.rx), WEFT_OK);
    pair_close(&p);
}

static void a_closed_port_ends_its_operations(void **state)
{
    (void)state;
    weft_loop_faults faults = {.reorder_window = 4};
    pair p = pair_open(&faults);
    weft_completion c[8];
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(pair_post(&p, i), WEFT_OK);
    loop->port_close(p.tx);
    assert_int_equal(loop->poll(p.rx, c, 8), 0);
    assert_false(pair_landed(&p, 0) || pair_landed(&p, 1) || pair_landed(&p, 2) || pair_landed(&p, 3));
    assert_int_equal(loop->port_open(p.tx_link, &p.tx), WEFT_OK);
    pair_join(p.tx, p.rx);
    loop->port_close(p.rx);
    assert_int_equal(pair_post(&p, 5), WEFT_OK); /* held, and found without a receiver when its turn comes */
    assert_int_equal(loop->poll(p.tx, c, 8), 0);
    assert_int_equal(loop->poll(p.tx, c, 8), 1);
    assert_int_equal(c[0].kind, WEFT_COMPLETION_FAILED);
    assert_int_equal(loop->port_open(p.rx_link, &p.rx), WEFT_OK);
    pair_close(&p);
}

/* ---- threads: the receiver sleeps on its descriptor and hands each spot back through a word in shared memory that
 * goes the other way over the loop, so that no other synchronisation hides a race */

#define ROUNDS 400u

typedef struct side {
    weft_link *link;
    weft_port *port;
    weft_region *region;
    uint8_t *memory;
    uint64_t peer_address, peer_key;
    bool leads;
    bool good;
} side;

static void wait_for_something(const side *s)
{
    struct pollfd d = {.fd = loop->wait_fd(s->port), .events = POLLIN};
    if (loop->wait_arm(s->port) == WEFT_OK)
        poll(&d, 1, 5000);
}

static uint32_t await_arrival(const side *s)
{
    weft_completion c;
    for (;;) {
        if (!loop->poll(s->port, &c, 1))
            wait_for_something(s);
        else if (c.kind == WEFT_COMPLETION_ARRIVED)
            return c.immediate;
    }
}

static void pass_on(side *s, uint32_t round)
{
    weft_write w = {.region = s->region,
                    .data = s->memory,
                    .bytes = CHUNK,
                    .remote_address = s->peer_address + CHUNK,
                    .remote_key = s->peer_key,
                    .immediate = round};
    memset(s->memory, (int)(round & 0xff), CHUNK);
    weft_completion c;
    while (loop->write(s->port, &w) == WEFT_AGAIN)
        loop->poll(s->port, &c, 1);
}

static void *play(void *argument)
{
    side *s = argument;
    for (uint32_t round = s->leads ? 0 : 1; round < ROUNDS; round += 2) {
        if (round) {
            s->good = s->good && await_arrival(s) == round - 1;
            for (uint64_t i = 0; i < CHUNK; i++)
                s->good = s->good && s->memory[CHUNK + i] == ((round - 1) & 0xff);
        }
        pass_on(s, round);
    }
    return NULL;
}

static void open_side(side *s, bool leads)
{
    weft_link_options options = {.address = "", .chunk_bytes = CHUNK, .depth = DEPTH};
    *s = (side){.leads = leads, .good = true};
    assert_int_equal(loop->link_open(&options, &s->link), WEFT_OK);
    assert_int_equal(loop->port_open(s->link, &s->port), WEFT_OK);
    s->memory = weft_mem_map(2 * CHUNK);
    assert_int_equal(loop->region_open(s->link, s->port, s->memory, 2 * CHUNK, true, &s->region), WEFT_OK);
}

static void close_side(side *s)
{
    loop->port_close(s->port);
    loop->region_close(s->region);
    loop->link_close(s->link);
    weft_mem_unmap(s->memory, 2 * CHUNK);
}

static void two_threads_pass_a_chunk_to_and_fro(void **state)
{
    (void)state;
    side a, b;
    pthread_t thread;
    open_side(&a, true);
    open_side(&b, false);
    pair_join(a.port, b.port);
    pair_join(b.port, a.port);
    loop->region_remote(a.region, &b.peer_address, &b.peer_key);
    loop->region_remote(b.region, &a.peer_address, &a.peer_key);
    assert_int_equal(pthread_create(&thread, NULL, play, &b), 0);
    play(&a);
    pthread_join(thread, NULL);
    assert_true(a.good && b.good);
    close_side(&a);
    close_side(&b);
}

static void nothing_is_taken_in_the_steady_state(void **state)
{
    (void)state;
    pair p = pair_open(NULL);
    pair_send_spots(&p);
    uint64_t before = weft_mem_allocations();
    pair_send_spots(&p);
    assert_true(weft_mem_allocations() == before);
    pair_close(&p);
}

/* ---- registry */

static void providers_are_found_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"tcp", "tcp-rxm", "stream", "verbs", "efa", "efa-direct", "shm", "loop"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const weft_provider *p = weft_provider_find(names[i]);
        assert_non_null(p);
        assert_string_equal(p->name, names[i]);
        assert_int_equal(p->abi, WEFT_PROVIDER_ABI);
        assert_ptr_equal(weft_provider_at(i), p);
    }
    assert_null(weft_provider_at(sizeof names / sizeof names[0]));
    assert_null(weft_provider_find("tcp;ofi_rxm"));
    assert_null(weft_provider_find(""));
    assert_null(weft_provider_find("auto"));
    const weft_provider mine = {.name = "tcp"};
    weft_provider_lend(&mine);
    assert_ptr_equal(weft_provider_find("tcp"), &mine);
    weft_provider_lend(NULL);
    assert_ptr_equal(weft_provider_find("tcp"), weft_provider_at(0));
}

static void the_loop_is_always_listed(void **state)
{
    (void)state;
    weft_provider_info list[64];
    weft_provider_info first;
    char library[64];
    size_t all, counted;
    assert_int_equal(weft_providers(list, 64, &all, library), WEFT_OK);
    assert_in_range(all, 7, 64);
    assert_string_equal(list[all - 1].provider, "loop");
    assert_int_equal(list[all - 1].usable, 1);
    assert_true(library[0] != '\0');
    for (size_t i = 0; i < all; i++)
        assert_true(list[i].detail[0] && list[i].provider[0] && (list[i].usable == 0 || list[i].message_bytes));
    assert_int_equal(weft_providers(NULL, 0, &counted, NULL), WEFT_OK);
    assert_true(counted >= all);
    assert_int_equal(weft_providers(&first, 1, &counted, NULL), WEFT_OK);
    assert_string_equal(first.provider, "tcp");
    assert_int_equal(weft_providers(NULL, 1, &counted, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_providers(list, 1, NULL, NULL), WEFT_E_ARGUMENT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_lands_and_every_immediate_once),
        cmocka_unit_test(a_full_port_takes_nothing),
        cmocka_unit_test(a_receiver_that_never_polls_is_bounded),
        cmocka_unit_test(only_granted_memory_is_written),
        cmocka_unit_test(a_new_registration_has_a_new_key_and_the_old_one_is_dead),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(the_descriptor_is_raised_while_there_is_something),
        cmocka_unit_test(a_closed_port_ends_its_operations),
        cmocka_unit_test(two_threads_pass_a_chunk_to_and_fro),
        cmocka_unit_test(nothing_is_taken_in_the_steady_state),
        cmocka_unit_test(providers_are_found_by_name),
        cmocka_unit_test(the_loop_is_always_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
