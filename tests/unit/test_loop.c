/* The in-process fabric: its contract as a provider, each of its faults, and two threads. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mem.h"
#include "providers/loop.h"

#define CHUNK UINT64_C(256)
#define SPOTS 64u
#define DEPTH 8u
#define BYTES (CHUNK * SPOTS)

static const weft_provider *const loop = &weft_provider_loop;

/* Two ends joined one way: writes from `tx` land in `memory` of `rx`. */
typedef struct pair {
    weft_link *tx_link, *rx_link;
    weft_port *tx, *rx;
    weft_region *from, *to;
    uint8_t *source, *memory;
    uint64_t address, key;
} pair;

/* What the completions said so far. */
typedef struct tally {
    uint32_t written, failed, arrived;
    uint32_t arrivals_of[SPOTS]; /* by immediate */
    uint32_t order[4 * SPOTS];   /* immediates as they came */
    weft_status status;          /* of the last failure */
    uint64_t cookie;             /* of the last completion of a write */
} tally;

static void join(weft_port *tx, const weft_port *rx)
{
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t length;
    assert_int_equal(loop->port_address(rx, address, &length), WEFT_OK);
    assert_int_equal(loop->port_connect(tx, address, length), WEFT_OK);
}

static pair open_pair(const weft_loop_faults *faults)
{
    pair p;
    weft_link_options options = {.address = "", .chunk_bytes = CHUNK, .depth = DEPTH, .faults = faults};
    assert_int_equal(loop->link_open(&options, &p.tx_link), WEFT_OK);
    options.faults = NULL;
    assert_int_equal(loop->link_open(&options, &p.rx_link), WEFT_OK);
    assert_int_equal(loop->port_open(p.tx_link, &p.tx), WEFT_OK);
    assert_int_equal(loop->port_open(p.rx_link, &p.rx), WEFT_OK);
    p.source = weft_mem_map(BYTES);
    p.memory = weft_mem_map(BYTES);
    for (uint64_t i = 0; i < BYTES; i++)
        p.source[i] = (uint8_t)(i * 7 + i / CHUNK + 1);
    assert_int_equal(loop->region_open(p.tx_link, p.tx, p.source, BYTES, false, &p.from), WEFT_OK);
    assert_int_equal(loop->region_open(p.rx_link, p.rx, p.memory, BYTES, true, &p.to), WEFT_OK);
    loop->region_remote(p.to, &p.address, &p.key);
    join(p.tx, p.rx);
    return p;
}

static void close_pair(pair *p)
{
    loop->port_close(p->tx);
    loop->port_close(p->rx);
    loop->region_close(p->from);
    loop->region_close(p->to);
    loop->link_close(p->tx_link);
    loop->link_close(p->rx_link);
    weft_mem_unmap(p->source, BYTES);
    weft_mem_unmap(p->memory, BYTES);
}

static weft_write write_of(const pair *p, uint32_t spot)
{
    return (weft_write){.region = p->from,
                        .data = p->source + spot * CHUNK,
                        .bytes = CHUNK,
                        .remote_address = p->address + spot * CHUNK,
                        .remote_key = p->key,
                        .immediate = spot,
                        .cookie = 1000 + spot};
}

static weft_status post(const pair *p, uint32_t spot)
{
    weft_write w = write_of(p, spot);
    return loop->write(p->tx, &w);
}

static bool landed(const pair *p, uint32_t spot)
{
    return memcmp(p->memory + spot * CHUNK, p->source + spot * CHUNK, CHUNK) == 0;
}

static void count(tally *t, const weft_completion *c)
{
    if (c->kind == WEFT_COMPLETION_ARRIVED) {
        assert_true(c->immediate < SPOTS && t->arrived < 4 * SPOTS);
        t->order[t->arrived++] = c->immediate;
        t->arrivals_of[c->immediate]++;
        return;
    }
    t->cookie = c->cookie;
    if (c->kind == WEFT_COMPLETION_WRITTEN) {
        assert_int_equal(c->status, WEFT_OK);
        t->written++;
    } else {
        assert_int_equal(c->kind, WEFT_COMPLETION_FAILED);
        t->status = c->status;
        t->failed++;
    }
}

/* Polls both ends until nothing more comes, also from a reorder window, which lands one write a poll. */
static void drain(const pair *p, tally *t)
{
    weft_completion c[5];
    for (uint32_t quiet = 0; quiet < DEPTH + 3;) {
        size_t n = loop->poll(p->tx, c, 5);
        for (size_t i = 0; i < n; i++)
            count(t, &c[i]);
        size_t m = loop->poll(p->rx, c, 5);
        for (size_t i = 0; i < m; i++)
            count(t, &c[i]);
        quiet = n + m ? 0 : quiet + 1;
    }
}

/* Posts every spot once, polling when the port is full; a post refused by a fault is tried again. */
static tally send_spots(const pair *p)
{
    tally t = {.written = 0};
    for (uint32_t spot = 0; spot < SPOTS; spot++) {
        int tries = 0;
        while (post(p, spot) == WEFT_AGAIN) {
            assert_true(++tries < 4);
            drain(p, &t);
        }
    }
    drain(p, &t);
    return t;
}

static void every_byte_lands_and_every_immediate_once(void **state)
{
    (void)state;
    pair p = open_pair(NULL);
    tally t = send_spots(&p);
    assert_int_equal(t.written, SPOTS);
    assert_int_equal(t.failed, 0);
    assert_int_equal(t.arrived, SPOTS);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_true(landed(&p, i) && t.order[i] == i);
    close_pair(&p);
}

static void a_full_port_takes_nothing(void **state)
{
    (void)state;
    pair p = open_pair(NULL);
    tally t = {.written = 0};
    for (uint32_t i = 0; i < DEPTH; i++)
        assert_int_equal(post(&p, i), WEFT_OK);
    assert_int_equal(post(&p, DEPTH), WEFT_AGAIN);
    drain(&p, &t);
    assert_int_equal(t.arrived, DEPTH);
    assert_int_equal(t.cookie, 1000 + DEPTH - 1);
    assert_false(landed(&p, DEPTH));
    assert_int_equal(post(&p, DEPTH), WEFT_OK);
    close_pair(&p);
}

/* A receiver that never polls stops its writers in the end instead of growing. */
static void a_receiver_that_never_polls_is_bounded(void **state)
{
    (void)state;
    pair p = open_pair(NULL);
    weft_completion c;
    uint32_t taken = 0;
    for (; taken < 100000 && post(&p, taken % SPOTS) == WEFT_OK; taken++)
        assert_int_equal(loop->poll(p.tx, &c, 1), 1);
    assert_in_range(taken, 1000, 99999);
    assert_int_equal(loop->poll(p.rx, &c, 1), 1);
    assert_int_equal(post(&p, 0), WEFT_OK);
    close_pair(&p);
}

static void refused_with_failure(const pair *p, const weft_write *w)
{
    tally t = {.written = 0};
    assert_int_equal(loop->write(p->tx, w), WEFT_OK);
    drain(p, &t);
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.status, WEFT_E_PEER_LOST);
    assert_int_equal(t.cookie, w->cookie);
    assert_int_equal(t.written + t.arrived, 0);
}

static void only_granted_memory_is_written(void **state)
{
    (void)state;
    pair p = open_pair(NULL);
    static const uint8_t zeros[BYTES];
    weft_write w = write_of(&p, 0);
    w.remote_key ^= 1;
    refused_with_failure(&p, &w);
    w = write_of(&p, 0);
    w.remote_key = 0; /* local regions have it */
    refused_with_failure(&p, &w);
    w = write_of(&p, 0);
    w.remote_address -= 1;
    refused_with_failure(&p, &w);
    w.remote_address = p.address + BYTES - CHUNK + 1;
    refused_with_failure(&p, &w);
    w.remote_address = p.address + BYTES;
    refused_with_failure(&p, &w);
    w.remote_address = UINT64_MAX - 3;
    refused_with_failure(&p, &w);
    assert_memory_equal(p.memory, zeros, BYTES);
    close_pair(&p);
}

static void a_new_registration_has_a_new_key_and_the_old_one_is_dead(void **state)
{
    (void)state;
    pair p = open_pair(NULL);
    weft_write stale = write_of(&p, 3);
    uint64_t address, key;
    loop->region_close(p.to);
    refused_with_failure(&p, &stale);
    assert_int_equal(loop->region_open(p.rx_link, p.rx, p.memory, BYTES, true, &p.to), WEFT_OK);
    loop->region_remote(p.to, &address, &key);
    assert_int_not_equal(key, p.key);
    refused_with_failure(&p, &stale);
    assert_false(landed(&p, 3));
    close_pair(&p);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    pair p = open_pair(NULL);
    weft_port *alone;
    uint8_t address[WEFT_PORT_ADDRESS_MAX] = {1, 2, 3};
    uint32_t length;
    weft_write w = write_of(&p, 0);
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
    close_pair(&p);
}

static bool is_readable(const weft_port *port)
{
    struct pollfd d = {.fd = loop->wait_fd(port), .events = POLLIN};
    return poll(&d, 1, 0) == 1;
}

static void the_descriptor_is_raised_while_there_is_something(void **state)
{
    (void)state;
    pair p = open_pair(NULL);
    weft_completion c[4];
    assert_false(is_readable(p.rx) || is_readable(p.tx));
    assert_int_equal(loop->wait_arm(p.rx), WEFT_OK);
    post(&p, 0);
    post(&p, 1);
    assert_true(is_readable(p.rx) && is_readable(p.tx));
    assert_int_equal(loop->wait_arm(p.rx), WEFT_AGAIN);
    assert_int_equal(loop->poll(p.rx, c, 1), 1);
    assert_true(is_readable(p.rx));
    assert_int_equal(loop->poll(p.rx, c, 4), 1);
    assert_false(is_readable(p.rx));
    assert_int_equal(loop->wait_arm(p.rx), WEFT_OK);
    close_pair(&p);
}

static void a_closed_port_ends_its_operations(void **state)
{
    (void)state;
    weft_loop_faults faults = {.reorder_window = 4};
    pair p = open_pair(&faults);
    weft_completion c[8];
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(post(&p, i), WEFT_OK);
    loop->port_close(p.tx);
    assert_int_equal(loop->poll(p.rx, c, 8), 0);
    assert_false(landed(&p, 0) || landed(&p, 1) || landed(&p, 2) || landed(&p, 3));
    assert_int_equal(loop->port_open(p.tx_link, &p.tx), WEFT_OK);
    join(p.tx, p.rx);
    loop->port_close(p.rx);
    assert_int_equal(post(&p, 5), WEFT_OK); /* held, and found without a receiver when its turn comes */
    assert_int_equal(loop->poll(p.tx, c, 8), 0);
    assert_int_equal(loop->poll(p.tx, c, 8), 1);
    assert_int_equal(c[0].kind, WEFT_COMPLETION_FAILED);
    assert_int_equal(loop->port_open(p.rx_link, &p.rx), WEFT_OK);
    close_pair(&p);
}

/* ---- faults */

static void drop(void **state)
{
    (void)state;
    weft_loop_faults faults = {.drop_every = 5, .drop_at = 7};
    weft_loop_counts counts;
    pair p = open_pair(&faults);
    tally t = send_spots(&p);
    uint32_t lost = SPOTS / 5 + 1;
    assert_int_equal(t.written, SPOTS); /* local completion is no delivery */
    assert_int_equal(t.arrived, SPOTS - lost);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_int_equal(landed(&p, i), (i + 1) % 5 != 0 && i + 1 != 7);
    weft_loop_link_counted(p.tx_link, &counts);
    assert_int_equal(counts.dropped, lost);
    assert_int_equal(counts.landed, SPOTS - lost);
    close_pair(&p);
}

static void fail_writes(void **state)
{
    (void)state;
    weft_loop_faults faults = {.fail_at = 9, .fail_status = WEFT_E_PROVIDER};
    pair p = open_pair(&faults);
    tally t = send_spots(&p);
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.status, WEFT_E_PROVIDER);
    assert_int_equal(t.written, SPOTS - 1);
    assert_int_equal(t.arrivals_of[8], 0);
    assert_false(landed(&p, 8));
    close_pair(&p);
}

static void refuse_posts(void **state)
{
    (void)state;
    weft_loop_faults faults = {.again_every = 3};
    weft_loop_counts counts;
    pair p = open_pair(&faults);
    tally t = send_spots(&p);
    assert_int_equal(t.arrived, SPOTS);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_int_equal(t.arrivals_of[i], 1);
    weft_loop_link_counted(p.tx_link, &counts);
    assert_int_equal(counts.refused, counts.posted / 3);
    assert_int_equal(counts.posted - counts.refused, SPOTS);
    close_pair(&p);
}

static uint32_t bits_off(const pair *p)
{
    uint32_t bits = 0;
    for (uint64_t i = 0; i < BYTES; i++)
        bits += (uint32_t)__builtin_popcount(p->memory[i] ^ p->source[i]);
    return bits;
}

static void corrupt(void **state)
{
    (void)state;
    weft_loop_faults faults = {.seed = 4, .corrupt_every = 8, .corrupt_at = 3};
    pair p = open_pair(&faults);
    tally t = send_spots(&p);
    assert_int_equal(t.arrived, SPOTS);
    assert_int_equal(bits_off(&p), SPOTS / 8 + 1);
    assert_false(landed(&p, 2) || landed(&p, 7));
    assert_true(landed(&p, 0) && landed(&p, 1));
    close_pair(&p);
}

static void duplicate(void **state)
{
    (void)state;
    weft_loop_faults faults = {.duplicate_every = 10, .duplicate_at = 1};
    pair p = open_pair(&faults);
    tally t = send_spots(&p);
    assert_int_equal(t.written, SPOTS);
    assert_int_equal(t.arrived, SPOTS + SPOTS / 10 + 1);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_int_equal(t.arrivals_of[i], i == 0 || (i + 1) % 10 == 0 ? 2 : 1);
    assert_int_equal(bits_off(&p), 0);
    close_pair(&p);
}

static uint32_t out_of_order(const tally *t)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < t->arrived; i++)
        n += t->order[i] < t->order[i - 1];
    return n;
}

static void reorder(void **state)
{
    (void)state;
    tally runs[3];
    for (uint32_t run = 0; run < 3; run++) {
        weft_loop_faults faults = {.seed = run == 2 ? 8 : 7, .reorder_window = 4};
        pair p = open_pair(&faults);
        runs[run] = send_spots(&p);
        assert_int_equal(runs[run].arrived, SPOTS);
        assert_int_equal(runs[run].written, SPOTS);
        assert_true(out_of_order(&runs[run]) > SPOTS / 8);
        assert_int_equal(bits_off(&p), 0);
        close_pair(&p);
    }
    assert_memory_equal(runs[0].order, runs[1].order, sizeof runs[0].order); /* a seed is a sequence */
    assert_memory_not_equal(runs[0].order, runs[2].order, sizeof runs[0].order);
}

static void stall(void **state)
{
    (void)state;
    weft_loop_faults faults = {.stall_after = 3};
    pair p = open_pair(&faults);
    tally t = {.written = 0};
    uint32_t taken = 0;
    for (uint32_t spot = 0; spot < SPOTS; spot++) {
        taken += post(&p, spot) == WEFT_OK;
        drain(&p, &t);
    }
    assert_int_equal(taken, 3 + DEPTH); /* then the port is full for ever */
    assert_int_equal(t.written, 3);
    assert_int_equal(t.arrived, 3);
    assert_int_equal(t.failed, 0);
    assert_int_equal(loop->wait_arm(p.tx), WEFT_OK);
    close_pair(&p);
}

static void break_port(void **state)
{
    (void)state;
    weft_loop_faults faults = {.break_at = 6};
    pair p = open_pair(&faults);
    tally t = {.written = 0};
    for (uint32_t spot = 0; spot < 10; spot++) {
        post(&p, spot);
        drain(&p, &t);
    }
    assert_int_equal(t.written, 5);
    assert_int_equal(t.failed, 1);
    assert_true(t.cookie == UINT64_MAX);
    assert_int_equal(t.arrived, 5);
    loop->port_close(p.tx); /* a fresh port of the same link works */
    assert_int_equal(loop->port_open(p.tx_link, &p.tx), WEFT_OK);
    join(p.tx, p.rx);
    assert_int_equal(post(&p, 20), WEFT_OK);
    drain(&p, &t);
    assert_true(landed(&p, 20));
    close_pair(&p);
}

/* Sessions open links without faults of their own: these are reached by the process-wide set, at any time. */
static void faults_for_the_process(void **state)
{
    (void)state;
    weft_loop_faults faults = {.drop_every = 2};
    weft_loop_faults own = {.drop_at = 1};
    weft_loop_counts counts;
    pair open_before = open_pair(NULL);
    pair with_own = open_pair(&own);
    weft_loop_set_faults(&faults);
    tally t = send_spots(&open_before);
    assert_int_equal(t.arrived, SPOTS / 2);
    weft_loop_counted(&counts);
    assert_int_equal(counts.posted, SPOTS);
    assert_int_equal(counts.dropped, SPOTS / 2);
    t = send_spots(&with_own);
    assert_int_equal(t.arrived, SPOTS - 1);
    weft_loop_set_faults(NULL);
    weft_loop_counted(&counts);
    assert_int_equal(counts.posted, 0);
    t = send_spots(&open_before);
    assert_int_equal(t.arrived, SPOTS);
    close_pair(&open_before);
    close_pair(&with_own);
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
    join(a.port, b.port);
    join(b.port, a.port);
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
    pair p = open_pair(NULL);
    send_spots(&p);
    uint64_t before = weft_mem_allocations();
    send_spots(&p);
    assert_true(weft_mem_allocations() == before);
    close_pair(&p);
}

/* ---- registry */

static void providers_are_found_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"tcp", "tcp-rxm", "verbs", "efa", "shm", "loop"};
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
}

static void the_loop_is_always_listed(void **state)
{
    (void)state;
    weft_provider_info list[64];
    weft_provider_info first;
    char library[64];
    size_t all, counted;
    assert_int_equal(weft_providers(list, 64, &all, library), WEFT_OK);
    assert_in_range(all, 6, 64);
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
        cmocka_unit_test(drop),
        cmocka_unit_test(fail_writes),
        cmocka_unit_test(refuse_posts),
        cmocka_unit_test(corrupt),
        cmocka_unit_test(duplicate),
        cmocka_unit_test(reorder),
        cmocka_unit_test(stall),
        cmocka_unit_test(break_port),
        cmocka_unit_test(faults_for_the_process),
        cmocka_unit_test(two_threads_pass_a_chunk_to_and_fro),
        cmocka_unit_test(nothing_is_taken_in_the_steady_state),
        cmocka_unit_test(providers_are_found_by_name),
        cmocka_unit_test(the_loop_is_always_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
