/* Provider stream over a pipe of the test's own: what goes by it, byte for byte, and what ends a port. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "providers/stream.h"
#include "tests/support/golden_files.h"
#include "tests/support/quiet.h"

#define MEMORY 4096u
#define CHUNKS 300u

static const weft_provider *const stream = &weft_provider_stream;

/* ---- a pipe over a socket, which moves `most` bytes a call */

typedef struct line {
    weft_pipe pipe;
    uint64_t most;
    bool has_more, cut;
} line;

static weft_status settle(ssize_t part, uint64_t *moved)
{
    *moved = part > 0 ? (uint64_t)part : 0;
    return part == 0 ? WEFT_E_PEER_LOST : WEFT_OK;
}

static weft_status line_read(weft_pipe *pipe, void *data, uint64_t bytes, uint64_t *moved)
{
    const uint64_t most = ((line *)pipe)->most;
    return settle(recv(pipe->fd, data, bytes < most ? bytes : most, MSG_DONTWAIT), moved);
}

static weft_status line_write(weft_pipe *pipe, const void *data, uint64_t bytes, uint64_t *moved)
{
    const uint64_t most = ((line *)pipe)->most;
    *moved = 0;
    return ((line *)pipe)->cut
               ? WEFT_E_PEER_LOST
               : settle(send(pipe->fd, data, bytes < most ? bytes : most, MSG_DONTWAIT | MSG_NOSIGNAL), moved);
}

static bool line_has_more(const weft_pipe *pipe)
{
    return ((const line *)pipe)->has_more;
}

static bool line_wants_write(const weft_pipe *pipe)
{
    (void)pipe;
    return false;
}

static void line_close(weft_pipe *pipe)
{
    close(pipe->fd);
    pipe->fd = -1;
}

static const weft_pipe_calls calls = {line_read, line_write, line_has_more, line_wants_write, line_close};

/* ---- two ports, joined one way */

typedef struct ends {
    weft_link *link;
    weft_port *tx, *rx;
    weft_region *to;
    line lines[2];
    uint8_t memory[MEMORY];
} ends;

static void join(weft_port *a, const weft_port *b)
{
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t bytes;
    assert_int_equal(stream->port_address(b, address, &bytes), WEFT_OK);
    assert_int_equal(stream->port_connect(a, address, bytes), WEFT_OK);
}

static void open_ends(ends *e, uint64_t most)
{
    const weft_link_options options = {.chunk_bytes = 1024, .depth = 4};
    int fd[2];
    memset(e, 0, sizeof *e);
    assert_int_equal(stream->link_open(&options, &e->link), WEFT_OK);
    assert_int_equal(stream->port_open(e->link, &e->tx), WEFT_OK);
    assert_int_equal(stream->port_open(e->link, &e->rx), WEFT_OK);
    assert_int_equal(stream->region_open(e->link, e->rx, e->memory, MEMORY, true, &e->to), WEFT_OK);
    join(e->tx, e->rx);
    join(e->rx, e->tx);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; i < 2; i++)
        e->lines[i] = (line){{&calls, fd[i]}, most, false, false};
}

static void pipe_ends(ends *e)
{
    assert_int_equal(stream->port_pipe(e->tx, &e->lines[0].pipe), WEFT_OK);
    assert_int_equal(stream->port_pipe(e->rx, &e->lines[1].pipe), WEFT_OK);
}

static void close_ends(ends *e)
{
    stream->port_close(e->tx);
    stream->port_close(e->rx);
    stream->region_close(e->to);
    stream->link_close(e->link);
}

static weft_write write_of(const uint8_t *data, uint64_t bytes, uint64_t offset, uint32_t immediate)
{
    return (weft_write){
        .data = data, .bytes = bytes, .remote_address = offset, .immediate = immediate, .cookie = immediate + 7000u};
}

/* ---- what goes by */

static void all_bytes_land_once(uint64_t most)
{
    ends e;
    uint8_t source[1024];
    uint32_t posted = 0, written = 0, arrived = 0;
    open_ends(&e, most);
    pipe_ends(&e);
    for (uint32_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 31 + i / 256);
    while (arrived < CHUNKS || written < CHUNKS) {
        weft_completion list[8];
        const uint64_t bytes = 1 + posted * 7 % 1024, offset = posted * 977 % (MEMORY - 1024);
        const weft_write write = write_of(source, bytes, offset, posted);
        posted += posted < CHUNKS && posted - arrived < 1 && stream->write(e.tx, &write) == WEFT_OK;
        for (size_t i = stream->poll(e.tx, list, 8); i > 0; i--) {
            assert_int_equal(list[i - 1].kind, WEFT_COMPLETION_WRITTEN);
            assert_int_equal(list[i - 1].cookie, 7000 + written++);
        }
        for (size_t i = stream->poll(e.rx, list, 8); i > 0; i--) {
            assert_int_equal(list[i - 1].kind, WEFT_COMPLETION_ARRIVED);
            assert_int_equal(list[i - 1].immediate, arrived);
            assert_memory_equal(e.memory + arrived * 977 % (MEMORY - 1024), source, 1 + arrived * 7 % 1024);
            arrived++;
        }
    }
    close_ends(&e);
    assert_true(e.lines[0].pipe.fd == -1 && e.lines[1].pipe.fd == -1); /* closed with its port */
}

static void every_byte_lands(void **state)
{
    (void)state;
    all_bytes_land_once(1);
    all_bytes_land_once(7);
    all_bytes_land_once(1u << 20);
}

static void a_port_without_its_pipe_takes_nothing(void **state)
{
    (void)state;
    ends e;
    weft_completion one;
    const uint8_t byte = 1;
    const weft_write write = write_of(&byte, 1, 0, 0);
    open_ends(&e, 64);
    assert_int_equal(stream->write(e.tx, &write), WEFT_AGAIN);
    assert_int_equal(stream->poll(e.tx, &one, 1), 0);
    assert_int_equal(stream->wait_arm(e.tx), WEFT_OK);
    pipe_ends(&e);
    assert_int_equal(stream->wait_arm(e.tx), WEFT_OK);
    struct pollfd ready = {.fd = stream->wait_fd(e.tx), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 10000), 1); /* because a write was refused before */
    assert_int_equal(stream->write(e.tx, &write), WEFT_OK);
    assert_int_equal(stream->port_pipe(e.tx, &e.lines[0].pipe), WEFT_E_ARGUMENT);
    close_ends(&e);
}

/* A ring that is full refuses, and a line that is full wakes its port when there is room. */
static void a_full_line_wakes(void **state)
{
    (void)state;
    ends e;
    weft_completion list[8];
    static uint8_t source[1024];
    uint32_t posted = 0, arrived = 0;
    const int least = 4096;
    open_ends(&e, 1u << 20);
    assert_int_equal(setsockopt(e.lines[0].pipe.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    pipe_ends(&e);
    for (weft_status status = WEFT_OK; status == WEFT_OK; posted += status == WEFT_OK) {
        const weft_write write = write_of(source, sizeof source, 0, posted);
        status = stream->write(e.tx, &write);
        if (status == WEFT_AGAIN && stream->poll(e.tx, list, 8) > 0)
            status = WEFT_OK, posted--;
        assert_true(status == WEFT_OK || status == WEFT_AGAIN);
    }
    struct pollfd ready = {.fd = stream->wait_fd(e.tx), .events = POLLIN};
    assert_int_equal(stream->wait_arm(e.tx), WEFT_OK);
    assert_int_equal(poll(&ready, 1, 0), 0);
    while (arrived < posted) {
        arrived += (uint32_t)stream->poll(e.rx, list, 8);
        if (arrived >= posted / 2 && poll(&ready, 1, 0) == 1)
            stream->poll(e.tx, list, 8);
    }
    close_ends(&e);
}

static void what_a_seal_has_keeps_awake(void **state)
{
    (void)state;
    ends e;
    open_ends(&e, 64);
    pipe_ends(&e);
    assert_int_equal(stream->wait_arm(e.rx), WEFT_OK);
    e.lines[1].has_more = true;
    assert_int_equal(stream->wait_arm(e.rx), WEFT_AGAIN);
    close_ends(&e);
}

/* ---- what ends a port */

static void ends_with(weft_port *port)
{
    weft_completion list[4];
    assert_int_equal(stream->poll(port, list, 4), 1);
    assert_int_equal(list[0].kind, WEFT_COMPLETION_FAILED);
    assert_int_equal(list[0].status, WEFT_E_PEER_LOST);
    assert_true(list[0].cookie == UINT64_MAX);
    assert_int_equal(stream->poll(port, list, 4), 0);
    assert_int_equal(stream->wait_arm(port), WEFT_OK);
}

static void a_closed_line_ends_both(void **state)
{
    (void)state;
    ends e;
    const uint8_t byte = 1;
    const weft_write write = write_of(&byte, 1, 0, 0);
    open_ends(&e, 64);
    pipe_ends(&e);
    assert_int_equal(shutdown(e.lines[0].pipe.fd, SHUT_RDWR), 0);
    ends_with(e.rx);
    ends_with(e.tx);
    assert_int_equal(stream->write(e.tx, &write), WEFT_E_PEER_LOST);
    close_ends(&e);
}

/* What left before the end is told first, and no more is taken than there is room for. */
static void writes_that_left_are_told_before_the_end(void **state)
{
    (void)state;
    ends e;
    weft_completion list[8];
    const uint8_t byte = 1;
    open_ends(&e, 64);
    pipe_ends(&e);
    assert_int_equal(stream->poll(e.tx, list, 8), 0); /* gives the port its part of a turn */
    for (uint32_t i = 0; i < 5; i++) {
        const weft_write write = write_of(&byte, 1, 0, i);
        e.lines[0].cut = i == 3;
        assert_int_equal(stream->write(e.tx, &write), i < 4 ? WEFT_OK : WEFT_E_PEER_LOST);
    }
    assert_int_equal(stream->poll(e.tx, list, 8), 4);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(list[i].kind == WEFT_COMPLETION_WRITTEN && list[i].cookie == 7000 + i);
    assert_int_equal(list[3].kind, WEFT_COMPLETION_FAILED);
    close_ends(&e);
    open_ends(&e, 64);
    pipe_ends(&e);
    assert_int_equal(stream->poll(e.tx, list, 8), 0); /* gives the port its part of a turn */
    for (uint32_t i = 0; i < 5; i++) {
        const weft_write write = write_of(&byte, 1, 0, i);
        assert_int_equal(stream->write(e.tx, &write), i < 4 ? WEFT_OK : WEFT_AGAIN);
    }
    close_ends(&e);
}

/* Sends a head to the receiving port, or to the one that only writes. */
static void head_ends(const uint8_t head[WEFT_PIPE_HEAD], bool to_sender)
{
    ends e;
    uint8_t before[MEMORY];
    open_ends(&e, 64);
    memcpy(before, e.memory, MEMORY);
    pipe_ends(&e);
    const int from = e.lines[to_sender ? 1 : 0].pipe.fd;
    assert_int_equal(send(from, head, WEFT_PIPE_HEAD, 0), WEFT_PIPE_HEAD);
    assert_int_equal(send(from, head, WEFT_PIPE_HEAD, 0), WEFT_PIPE_HEAD); /* more, as payload perhaps */
    ends_with(to_sender ? e.tx : e.rx);
    assert_memory_equal(e.memory, before, MEMORY);
    close_ends(&e);
}

static void wrong_heads_end_a_port(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes, offset;
        int at;
        uint8_t value;
    } wrong[] = {
        {1, MEMORY, -1, 0},           /* behind the memory */
        {2, MEMORY - 1, -1, 0},       /* beyond its end */
        {1, UINT64_MAX, -1, 0},       /* a sum that overflows */
        {MEMORY + 1, 0, -1, 0},       /* more than the memory */
        {0, 0, -1, 0},                /* nothing */
        {UINT32_MAX - 16u, 0, -1, 0}, /* the most that a head can say */
        {16, 0, 4, 28},
        {16, 0, 5, 1}, /* another type */
        {16, 0, 6, 1},
        {16, 0, 7, 1}, /* words that are zero */
        {16, 0, 12, 1},
        {16, 0, 15, 1},
    };
    uint8_t head[WEFT_PIPE_HEAD];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const weft_pipe_chunk chunk = {wrong[i].bytes, 9, wrong[i].offset};
        weft_pipe_put_head(head, &chunk);
        if (wrong[i].at >= 0)
            head[wrong[i].at] = wrong[i].value;
        head_ends(head, false);
    }
    weft_pipe_put_head(head, &(weft_pipe_chunk){1, 9, 0});
    head_ends(head, true);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    ends e;
    weft_region *region;
    static uint8_t source[2048];
    const uint8_t address[WEFT_STREAM_ADDRESS] = "wfstrm2";
    weft_write write = write_of(source, 1025, 0, 0);
    open_ends(&e, 64);
    assert_int_equal(stream->write(e.tx, &write), WEFT_E_ARGUMENT);
    write.bytes = 0;
    assert_int_equal(stream->write(e.tx, &write), WEFT_E_ARGUMENT);
    assert_int_equal(stream->region_open(e.link, e.rx, source, 1, true, &region), WEFT_E_ARGUMENT);
    assert_int_equal(stream->region_open(e.link, NULL, source, 1, true, &region), WEFT_E_ARGUMENT);
    assert_int_equal(stream->port_connect(e.tx, address, sizeof address), WEFT_E_PROTOCOL);
    assert_int_equal(stream->port_connect(e.tx, address, 7), WEFT_E_PROTOCOL);
    pipe_ends(&e);
    close_ends(&e);
    const weft_link_options most = {.chunk_bytes = UINT64_MAX, .depth = UINT32_MAX};
    weft_link_facts facts;
    assert_int_equal(stream->link_open(&most, &e.link), WEFT_OK);
    stream->link_facts(e.link, &facts);
    assert_true(facts.chunk_bytes == UINT64_C(1) << 30 && facts.depth == 1024);
    stream->link_close(e.link);
}

static void other_providers_take_no_pipe(void **state)
{
    (void)state;
    for (size_t i = 0; weft_provider_at(i); i++) {
        const weft_provider *other = weft_provider_at(i);
        if (!weft_provider_is_piped(other) && other->port_pipe)
            assert_int_equal(other->port_pipe(NULL, NULL), WEFT_E_ARGUMENT);
    }
}

static void a_head_has_its_bytes(void **state)
{
    (void)state;
    uint8_t head[WEFT_PIPE_HEAD];
    weft_pipe_chunk chunk = {70000, 0xa7003002u, UINT64_C(0x0102030405060708)}, read;
    weft_pipe_put_head(head, &chunk);
    golden_is("wire_chunk.bin", head, sizeof head);
    assert_true(weft_pipe_get_head(head, UINT64_MAX, &read));
    assert_memory_equal(&read.offset, &chunk.offset, sizeof chunk.offset);
    assert_int_equal(read.bytes, chunk.bytes);
    assert_int_equal(read.immediate, chunk.immediate);
}

/* ---- what a message waits for */

#define TURN_PORTS 100u
#define TURN_CHUNK (UINT64_C(3) << 20)

/* A pipe that takes and gives whatever is asked, one chunk after the other, and counts. */
typedef struct spring {
    weft_pipe pipe;
    uint64_t taken, given;
    bool is_full;
} spring;

static weft_status spring_read(weft_pipe *pipe, void *data, uint64_t bytes, uint64_t *moved)
{
    spring *s = (spring *)pipe;
    uint8_t head[WEFT_PIPE_HEAD];
    const uint64_t at = s->given % (WEFT_PIPE_HEAD + TURN_CHUNK);
    weft_pipe_put_head(head, &(weft_pipe_chunk){TURN_CHUNK, 1, 0});
    *moved = bytes;
    if (at < WEFT_PIPE_HEAD) {
        *moved = bytes < WEFT_PIPE_HEAD - at ? bytes : WEFT_PIPE_HEAD - at;
        memcpy(data, head + at, *moved);
    }
    s->given += *moved;
    return WEFT_OK;
}

static weft_status spring_write(weft_pipe *pipe, const void *data, uint64_t bytes, uint64_t *moved)
{
    spring *s = (spring *)pipe;
    (void)data;
    *moved = s->is_full ? 0 : bytes;
    s->taken += *moved;
    return WEFT_OK;
}

static void spring_close(weft_pipe *pipe)
{
    close(pipe->fd);
}

static const weft_pipe_calls spring_calls = {spring_read, spring_write, line_has_more, line_wants_write, spring_close};

typedef struct turn {
    weft_link *link;
    weft_port *ports[TURN_PORTS];
    weft_region *regions[TURN_PORTS];
    spring springs[TURN_PORTS];
    uint32_t count;
} turn;

static uint8_t turn_memory[TURN_CHUNK];

static void open_turn(turn *t, uint32_t count)
{
    const weft_link_options options = {.chunk_bytes = TURN_CHUNK, .depth = 8};
    memset(t, 0, sizeof *t);
    t->count = count;
    assert_int_equal(stream->link_open(&options, &t->link), WEFT_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(stream->port_open(t->link, &t->ports[i]), WEFT_OK);
        assert_int_equal(stream->region_open(t->link, t->ports[i], turn_memory, TURN_CHUNK, true, &t->regions[i]),
                         WEFT_OK);
        join(t->ports[i], t->ports[i]);
        int pair[2]; /* a descriptor to wait on; no byte goes by it */
        assert_int_equal(pipe(pair), 0);
        close(pair[1]);
        t->springs[i].pipe = (weft_pipe){&spring_calls, pair[0]};
        assert_int_equal(stream->port_pipe(t->ports[i], &t->springs[i].pipe), WEFT_OK);
    }
}

static void close_turn(turn *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        stream->port_close(t->ports[i]);
        stream->region_close(t->regions[i]);
    }
    assert_int_equal(t->link->ports, 0);
    assert_int_equal(t->link->busy, 0);
    stream->link_close(t->link);
}

/* The bytes beside the heads of the chunks. */
static uint64_t payload_of(uint64_t bytes)
{
    const uint64_t rest = bytes % (WEFT_PIPE_HEAD + TURN_CHUNK);
    return bytes / (WEFT_PIPE_HEAD + TURN_CHUNK) * TURN_CHUNK + (rest > WEFT_PIPE_HEAD ? rest - WEFT_PIPE_HEAD : 0);
}

/* As a session does: polls each port once and posts until the port takes no more. Returns the bytes that moved,
 * heads left out. */
static uint64_t make_turn(turn *t, uint32_t busy, bool lands)
{
    uint64_t moved = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        weft_completion list[16];
        const uint64_t before = payload_of(lands ? t->springs[i].given : t->springs[i].taken);
        const weft_write write = write_of(turn_memory, TURN_CHUNK, 0, 0);
        stream->poll(t->ports[i], list, 16);
        while (i < busy && stream->write(t->ports[i], &write) == WEFT_OK)
            ;
        moved += payload_of(lands ? t->springs[i].given : t->springs[i].taken) - before;
    }
    return moved;
}

/* A session looks at its messages once a turn, so what moves in a turn is what a message waits for: a MiB in each
 * direction, by however many connections; only beyond 64 of them a record for each. */
static void a_message_waits_for_one_turn(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 7, 64, 65, TURN_PORTS};
    static turn t;
    for (size_t at = 0; at < sizeof counts / sizeof counts[0]; at++) {
        const uint32_t count = counts[at];
        const uint64_t share = (UINT64_C(1) << 20) / count;
        const uint64_t whole = count * (share > (UINT64_C(16) << 10) ? share : UINT64_C(16) << 10);
        assert_true(whole <= (UINT64_C(1) << 20) || count > 64);
        open_turn(&t, count);
        make_turn(&t, count, false); /* not all are known to be busy before */
        for (int round = 0; round < 40; round++) {
            assert_int_equal(make_turn(&t, count, false), whole);
            assert_int_equal(t.link->busy, count);
        }
        for (int round = 0; round < 40; round++)
            assert_int_equal(make_turn(&t, count, true), whole);
        close_turn(&t);
    }
}

/* Whoever has nothing to send takes nothing of the turn, and a turn that a full socket cut is not made up for. */
static void a_turn_is_the_busy_ones(void **state)
{
    (void)state;
    static turn t;
    open_turn(&t, 8);
    make_turn(&t, 2, false);
    assert_int_equal(make_turn(&t, 2, false), UINT64_C(1) << 20);
    for (uint32_t i = 0; i < 2; i++)
        t.springs[i].is_full = true;
    for (int round = 0; round < 10; round++)
        assert_int_equal(make_turn(&t, 2, false), 0);
    for (uint32_t i = 0; i < 2; i++)
        t.springs[i].is_full = false;
    assert_int_equal(make_turn(&t, 2, false), UINT64_C(1) << 20);
    close_turn(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_lands),
        cmocka_unit_test(a_port_without_its_pipe_takes_nothing),
        cmocka_unit_test(a_full_line_wakes),
        cmocka_unit_test(what_a_seal_has_keeps_awake),
        cmocka_unit_test(a_closed_line_ends_both),
        cmocka_unit_test(writes_that_left_are_told_before_the_end),
        cmocka_unit_test(wrong_heads_end_a_port),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(other_providers_take_no_pipe),
        cmocka_unit_test(a_head_has_its_bytes),
        cmocka_unit_test(a_message_waits_for_one_turn),
        cmocka_unit_test(a_turn_is_the_busy_ones),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}
