/* Joins, feeds and drains two ends of the in-process fabric. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/loop_pair.h"

void pair_join(weft_port *tx, const weft_port *rx)
{
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t length;
    assert_int_equal(loop->port_address(rx, address, &length), WEFT_OK);
    assert_int_equal(loop->port_connect(tx, address, length), WEFT_OK);
}

pair pair_open(const weft_loop_faults *faults)
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
    pair_join(p.tx, p.rx);
    return p;
}

void pair_close(pair *p)
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

weft_write pair_write(const pair *p, uint32_t spot)
{
    return (weft_write){.region = p->from,
                        .data = p->source + spot * CHUNK,
                        .bytes = CHUNK,
                        .remote_address = p->address + spot * CHUNK,
                        .remote_key = p->key,
                        .immediate = spot,
                        .cookie = 1000 + spot};
}

weft_status pair_post(const pair *p, uint32_t spot)
{
    weft_write w = pair_write(p, spot);
    return loop->write(p->tx, &w);
}

bool pair_landed(const pair *p, uint32_t spot)
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

void pair_drain(const pair *p, tally *t)
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

tally pair_send_spots(const pair *p)
{
    tally t = {.written = 0};
    for (uint32_t spot = 0; spot < SPOTS; spot++) {
        int tries = 0;
        while (pair_post(p, spot) == WEFT_AGAIN) {
            assert_true(++tries < 4);
            pair_drain(p, &t);
        }
    }
    pair_drain(p, &t);
    return t;
}
