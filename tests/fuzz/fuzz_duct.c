/* Any bytes, cut anywhere, as what comes by a duct: they land where they may, or end the port.
 *
 * Input: a byte that says how the bytes are cut, a byte that says how much memory there is, then the bytes. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "providers/stream.h"
#include "tests/fuzz/fuzz.h"

typedef struct line {
    weft_pipe pipe;
    const uint8_t *bytes;
    uint64_t left, cut;
} line;

static weft_status line_read(weft_pipe *pipe, void *data, uint64_t bytes, uint64_t *moved)
{
    line *from = (line *)pipe;
    uint64_t part = from->cut < from->left ? from->cut : from->left;
    part = part < bytes ? part : bytes;
    memcpy(data, from->bytes, part);
    from->bytes += part;
    from->left -= part;
    *moved = part;
    return WEFT_OK;
}

static weft_status line_write(weft_pipe *pipe, const void *data, uint64_t bytes, uint64_t *moved)
{
    (void)pipe;
    (void)data;
    (void)bytes;
    *moved = 0;
    return WEFT_OK;
}

static bool no(const weft_pipe *pipe)
{
    (void)pipe;
    return false;
}

static void line_close(weft_pipe *pipe)
{
    close(pipe->fd);
}

static const weft_pipe_calls calls = {line_read, line_write, no, no, line_close};

/* Reads chunks from the bytes as the law has them; false where the port must have ended. */
static bool next_chunk(const uint8_t *bytes, uint64_t length, uint64_t *at, uint64_t room, weft_pipe_chunk *chunk,
                       bool *whole)
{
    *whole = false;
    if (length - *at < WEFT_PIPE_HEAD)
        return true;
    const uint8_t *head = bytes + *at;
    const uint64_t body = weft_bytes_get(head, 4);
    chunk->offset = weft_bytes_get(head + 16, 8);
    chunk->bytes = body - 16;
    chunk->immediate = (uint32_t)weft_bytes_get(head + 8, 4);
    if (body < 17 || weft_bytes_get(head + 4, 2) != 29 || head[6] || head[7] || weft_bytes_get(head + 12, 4) ||
        chunk->offset > room || chunk->bytes > room - chunk->offset)
        return false;
    *whole = length - *at - WEFT_PIPE_HEAD >= chunk->bytes;
    *at += *whole ? WEFT_PIPE_HEAD + chunk->bytes : 0;
    return true;
}

static void play(weft_port *port, const uint8_t *bytes, uint64_t length, uint64_t room)
{
    weft_completion one;
    weft_pipe_chunk chunk;
    uint64_t at = 0;
    bool whole = true;
    while (whole) {
        const bool good = next_chunk(bytes, length, &at, room, &chunk, &whole);
        size_t count = 0;
        for (uint64_t turn = 0; count == 0 && turn < 2; turn++)
            count = weft_provider_stream.poll(port, &one, 1);
        FUZZ_MUST(count == (!good || whole ? 1 : 0));
        if (!good)
            FUZZ_MUST(one.kind == WEFT_COMPLETION_FAILED && one.cookie == UINT64_MAX);
        else if (whole)
            FUZZ_MUST(one.kind == WEFT_COMPLETION_ARRIVED && one.immediate == chunk.immediate);
        whole = whole && good;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    const weft_provider *stream = &weft_provider_stream;
    const weft_link_options options = {.depth = 4};
    weft_link *link;
    weft_port *port;
    weft_region *region;
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t bytes;
    if (size < 2)
        return 0;
    weft_log_enter(&quiet);
    const uint64_t room = 1u + data[1] * 16u;
    uint8_t *memory = malloc(room);
    uint8_t *input = fuzz_copy(data + 2, size - 2);
    line from = {{&calls, eventfd(0, EFD_CLOEXEC)}, input, size - 2, 1u + data[0]};
    FUZZ_MUST(memory && stream->link_open(&options, &link) == WEFT_OK && stream->port_open(link, &port) == WEFT_OK);
    FUZZ_MUST(stream->region_open(link, port, memory, room, true, &region) == WEFT_OK);
    FUZZ_MUST(stream->port_address(port, address, &bytes) == WEFT_OK);
    FUZZ_MUST(stream->port_connect(port, address, bytes) == WEFT_OK);
    FUZZ_MUST(stream->port_pipe(port, &from.pipe) == WEFT_OK);
    play(port, input, size - 2, room);
    stream->port_close(port);
    stream->region_close(region);
    stream->link_close(link);
    free(input);
    free(memory);
    return 0;
}
