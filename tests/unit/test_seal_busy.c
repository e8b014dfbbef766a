/* An end that has proved its name and then keeps the other end busy with tls: what one turn reads is bounded, and
 * messages of tls without end are the end of the connection. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "providers/stream.h"
#include "tests/support/seal_flood.h"
#include "tests/support/sealed_pair.h"
#include "wire/duct.h"

#define TURN   (64u << 10) /* bytes of a turn, of which the last record may exceed it */
#define RECORD (17u << 10)

static char heard[1024]; /* lines since the connection was made */
static uint32_t lines;

static void keep_line(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    lines++;
    snprintf(heard, sizeof heard, "%s", line);
}

static weft_log_sink keeper = {WEFT_LOG_WARN, keep_line};

static int open_kept(void **state)
{
    open_keys(state);
    weft_log_enter(&keeper);
    return 0;
}

/* `writer` proves itself to `reader`, or the reverse. */
static void open_busy(sealed *s, bool reader_dials, weft_control **reader, weft_control **writer)
{
    weft_status dialed, answered;
    if (weft_library_absence()[0])
        skip();
    const int bytes = 4 << 20;
    open_sealed(s, "a");
    setsockopt(s->p.a.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    setsockopt(s->p.b.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    shake(s, &dialed, &answered);
    assert_true(s->p.a.sealed && s->p.b.sealed);
    *reader = reader_dials ? &s->p.a : &s->p.b;
    *writer = reader_dials ? &s->p.b : &s->p.a;
    heard[0] = 0;
    lines = 0;
}

static void assert_told(const char *name)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s sent 5 messages of tls", name);
    assert_int_equal(lines, 1);
    if (!strstr(heard, wanted))
        fail_msg("'%s' does not say '%s'", heard, wanted);
}

/* ---- messages of tls */

/* Either end reads: the fifth ends the connection, the log names who sent it, and the rest is not read. */
static void words_without_end(void **state)
{
    static const struct {
        bool reader_dials, tickets;
    } rows[] = {{false, false}, {true, false}, {true, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sealed s;
        weft_control *reader, *writer;
        open_busy(&s, rows[i].reader_dials, &reader, &writer);
        const uint64_t before = flood_came(reader->seal);
        assert_int_equal(flood_words(writer->seal, rows[i].tickets, 200), 200);
        weft_status status = WEFT_OK;
        for (int turn = 0; turn < 6 && status == WEFT_OK; turn++)
            status = weft_control_fill(reader);
        assert_int_equal(status, WEFT_E_PEER_LOST);
        assert_true(flood_came(reader->seal) - before < 5 * 512);
        assert_told(rows[i].reader_dials ? WEFT_GUARD_TRAINER : "a");
        close_sealed(&s);
    }
}

/* A few of them are no reason to end, and what is said after them is heard. */
static void some_words(void **state)
{
    (void)state;
    sealed s;
    weft_control *reader, *writer;
    uint64_t taken = 0;
    open_busy(&s, false, &reader, &writer);
    assert_int_equal(flood_words(writer->seal, false, 4), 4);
    assert_int_equal(send_nth(writer, 0), WEFT_OK);
    assert_int_equal(weft_control_flush(writer), WEFT_OK);
    for (int turn = 0; turn < 5; turn++) {
        assert_int_equal(weft_control_fill(reader), WEFT_OK);
        take_stream(reader, &taken);
    }
    assert_int_equal(taken, 1);
    assert_int_equal(lines, 0);
    close_sealed(&s);
}

/* ---- bytes */

/* Sends PONGs until the socket is full, by records that are filled up, or full of PONGs. */
static void fill_socket(weft_control *writer, bool padded)
{
    uint64_t sent = 1;
    uint8_t pongs[16u << 10] = {0};
    for (size_t at = 0; at < sizeof pongs; at += 16) {
        weft_bytes_put(pongs + at, 8, 4);
        weft_bytes_put(pongs + at + 4, WEFT_MESSAGE_PONG, 2);
    }
    if (padded)
        flood_pad(writer->seal);
    while (sent > 0)
        assert_int_equal(weft_seal_write(writer->seal, pongs, padded ? 16 : sizeof pongs, &sent), WEFT_OK);
}

/* A step takes messages until there is none. It ends although there are many more, and the next one goes on. */
static void messages_without_end(void **state)
{
    (void)state;
    for (int padded = 0; padded < 2; padded++) {
        sealed s;
        weft_control *reader, *writer;
        weft_message type;
        const uint8_t *body;
        uint64_t length, taken = 0, all = 0;
        open_busy(&s, padded, &reader, &writer);
        fill_socket(writer, padded);
        for (uint64_t turn = 0, came = flood_came(reader->seal), now; turn == 0 || taken > 0; turn++, came = now) {
            taken = 0;
            assert_int_equal(weft_control_fill(reader), WEFT_OK);
            while (weft_control_next(reader, &type, &body, &length) == WEFT_OK) {
                taken++;
                weft_control_drop(reader);
            }
            now = flood_came(reader->seal);
            all += now - came;
            assert_true(now - came < TURN + RECORD);
            assert_false(weft_seal_has_more(reader->seal)); /* which would wake nobody */
        }
        assert_true(all > 3 * TURN);
        close_sealed(&s);
    }
}

/* A record that never is whole is no sign of life: the deadline of a silent connection ends it. */
static void a_record_without_end(void **state)
{
    (void)state;
    sealed s;
    weft_control *reader, *writer;
    open_busy(&s, false, &reader, &writer);
    reader->heard_ns = 1;
    assert_int_equal(write(writer->fd, "\x17\x03\x03\x40\x00", 5), 5);
    for (int byte = 0; byte < 1000; byte++) {
        assert_int_equal(write(writer->fd, "", 1), 1);
        assert_int_equal(weft_control_fill(reader), WEFT_OK);
    }
    assert_int_equal(reader->heard_ns, 1);
    close_sealed(&s);
}

/* Records that tls ignores: OpenSSL itself ends a row of them. */
static void ignored_records(void **state)
{
    (void)state;
    sealed s;
    weft_control *reader, *writer;
    weft_status status = WEFT_OK;
    open_busy(&s, false, &reader, &writer);
    for (int i = 0; i < 200; i++)
        assert_int_equal(write(writer->fd, "\x14\x03\x03\x00\x01\x01", 6), 6);
    for (int turn = 0; turn < 200 && status == WEFT_OK; turn++)
        status = weft_control_fill(reader);
    assert_int_not_equal(status, WEFT_OK);
    close_sealed(&s);
}

/* ---- ducts */

typedef struct way {
    weft_link *link;
    weft_port *port;
    weft_region *region;
    uint8_t *memory;
    weft_seal *seal;
} way;

#define MEMORY (UINT64_C(8) << 20)

static void open_way(way *w, weft_control *reader)
{
    const weft_provider *stream = &weft_provider_stream;
    const weft_link_options options = {.depth = 4};
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t bytes;
    w->memory = calloc(1, MEMORY);
    w->seal = reader->seal;
    assert_int_equal(stream->link_open(&options, &w->link), WEFT_OK);
    assert_int_equal(stream->port_open(w->link, &w->port), WEFT_OK);
    assert_int_equal(stream->region_open(w->link, w->port, w->memory, MEMORY, true, &w->region), WEFT_OK);
    assert_int_equal(stream->port_address(w->port, address, &bytes), WEFT_OK);
    assert_int_equal(stream->port_connect(w->port, address, bytes), WEFT_OK);
    memset(reader->in, 0, WEFT_MESSAGE_PREFIX);
    reader->in_used = WEFT_MESSAGE_PREFIX; /* as if DUCT had come */
    assert_int_equal(weft_duct_take(reader, stream, w->port), WEFT_OK);
}

static void close_way(way *w)
{
    weft_provider_stream.port_close(w->port);
    weft_provider_stream.region_close(w->region);
    weft_provider_stream.link_close(w->link);
    free(w->memory);
}

static void words_on_a_duct(void **state)
{
    (void)state;
    sealed s;
    way w;
    weft_control *reader, *writer;
    weft_completion one;
    size_t count = 0;
    open_busy(&s, true, &reader, &writer);
    open_way(&w, reader);
    const uint64_t before = flood_came(w.seal);
    assert_int_equal(flood_words(writer->seal, false, 200), 200);
    for (int turn = 0; turn < 6 && count == 0; turn++)
        count = weft_provider_stream.poll(w.port, &one, 1);
    assert_int_equal(count, 1);
    assert_int_equal(one.kind, WEFT_COMPLETION_FAILED);
    assert_true(flood_came(w.seal) - before < 5 * 512);
    assert_told(WEFT_GUARD_TRAINER);
    close_way(&w);
    close_sealed(&s);
}

/* A chunk of 8 MiB that comes a byte a record: the turns go on, and none reads more than 4 MiB. */
static void drops_on_a_duct(void **state)
{
    (void)state;
    sealed s;
    way w;
    weft_control *reader, *writer;
    weft_completion one;
    uint8_t head[WEFT_PIPE_HEAD];
    uint64_t moved = 0, all = 0, most = 0;
    open_busy(&s, true, &reader, &writer);
    open_way(&w, reader);
    weft_pipe_put_head(head, &(weft_pipe_chunk){MEMORY, 1, 0});
    assert_int_equal(weft_seal_write(writer->seal, head, sizeof head, &moved), WEFT_OK);
    assert_int_equal(weft_provider_stream.poll(w.port, &one, 1), 0); /* ends the turn of the handshake */
    flood_pad(writer->seal);
    for (int round = 0; round < 40; round++) {
        for (moved = 1; moved > 0;)
            assert_int_equal(weft_seal_write(writer->seal, "", 1, &moved), WEFT_OK);
        const uint64_t came = flood_came(w.seal);
        assert_int_equal(weft_provider_stream.poll(w.port, &one, 1), 0);
        const uint64_t now = flood_came(w.seal) - came;
        most = most > now ? most : now;
        all += now;
    }
    assert_true(most <= (4u << 20) + RECORD);
    assert_true(all > (8u << 20));
    close_way(&w);
    close_sealed(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_without_end),    cmocka_unit_test(some_words),
        cmocka_unit_test(messages_without_end), cmocka_unit_test(a_record_without_end),
        cmocka_unit_test(ignored_records),      cmocka_unit_test(words_on_a_duct),
        cmocka_unit_test(drops_on_a_duct),
    };
    return cmocka_run_group_tests(tests, open_kept, close_keys);
}
