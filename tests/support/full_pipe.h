/* full_pipe.h - a pipe without a reader, full from the start, and the bytes that came into it once there is a reader.
 */
#ifndef WEFT_TESTS_FULL_PIPE_H
#define WEFT_TESTS_FULL_PIPE_H

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct full_pipe {
    int ends[2];
    size_t fill; /* bytes that it was filled with */
    int taken;   /* the descriptor whose place `ends[1]` took, and a copy of what that was; -1: none */
    int saved;
} full_pipe;

static inline void full_pipe_open(full_pipe *pipe_, bool full)
{
    static const char page[4096] = {0};
    pipe_->fill = 0;
    pipe_->taken = pipe_->saved = -1;
    assert_int_equal(pipe2(pipe_->ends, O_CLOEXEC), 0);
    fcntl(pipe_->ends[1], F_SETPIPE_SZ, 4096);
    fcntl(pipe_->ends[1], F_SETFL, O_NONBLOCK);
    for (ssize_t got = 1; full && got > 0; pipe_->fill += got > 0 ? (size_t)got : 0)
        got = write(pipe_->ends[1], page, sizeof page);
    fcntl(pipe_->ends[1], F_SETFL, 0);
}

/* Puts the pipe in the place of `fd`. */
static inline void full_pipe_take(full_pipe *pipe_, int fd)
{
    pipe_->taken = fd;
    pipe_->saved = dup(fd);
    assert_true(pipe_->saved >= 0 && dup2(pipe_->ends[1], fd) == fd);
}

/* Puts back what was there. */
static inline void full_pipe_give_back(full_pipe *pipe_)
{
    if (pipe_->taken < 0)
        return;
    dup2(pipe_->saved, pipe_->taken);
    close(pipe_->saved);
    pipe_->taken = -1;
}

/* Reads until nothing comes for `still_ms`, the filling left out; a text of its own. */
static inline char *full_pipe_read(full_pipe *pipe_, int still_ms)
{
    size_t used = 0, room = 1 << 16;
    char *text = malloc(room);
    struct pollfd ready = {.fd = pipe_->ends[0], .events = POLLIN};
    assert_non_null(text);
    while (poll(&ready, 1, still_ms) == 1) {
        ssize_t got = read(pipe_->ends[0], text + used, room - used - 1);
        if (got <= 0)
            break;
        used += (size_t)got;
        if (used + 1 == room)
            assert_non_null(text = realloc(text, room *= 2));
    }
    size_t fill = pipe_->fill < used ? pipe_->fill : used;
    memmove(text, text + fill, used - fill);
    text[used - fill] = '\0';
    pipe_->fill -= fill;
    return text;
}

static inline void full_pipe_close(full_pipe *pipe_)
{
    full_pipe_give_back(pipe_);
    if (pipe_->ends[0] >= 0)
        close(pipe_->ends[0]);
    close(pipe_->ends[1]);
}

#endif
