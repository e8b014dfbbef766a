/* log_spool.h - lines that wait for whoever reads a descriptor, and the thread that writes them there: nobody else
 * waits.
 *
 * A line is put whole or, while as much waits as may, dropped and counted. Once lines are dropped all are, until the
 * reader has taken what waits; then it is said how many those were. Nothing is allocated but the thread. */
#ifndef WEFT_CORE_LOG_SPOOL_H
#define WEFT_CORE_LOG_SPOOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum weft_spool_news {
    WEFT_SPOOL_DROPS, /* the reader takes too little: from now on lines are dropped */
    WEFT_SPOOL_FAILS, /* the descriptor cannot be written: `number` is the errno. It is tried again with each line */
    WEFT_SPOOL_TAKES  /* all that waited is written: `number` lines were dropped before */
} weft_spool_news;

typedef struct weft_spool {
    int fd;
    char *memory;
    uint64_t capacity;
    uint64_t most; /* bytes that may wait; a longer line goes where nothing else waits */
    /* Outside every lock, on the thread that finds it. NULL: only what was dropped is told, by a line to `fd` itself.
     */
    void (*tell)(weft_spool_news news, uint64_t number);

    pthread_mutex_t lock; /* a leaf: held to copy, and without the thread to write what does not wait */
    pthread_cond_t moved; /* something was put, or taken */
    _Atomic bool started; /* the thread exists */
    uint64_t begin, end;  /* bytes taken and put so far; both 0 again when none wait */
    uint64_t lost;        /* lines dropped and not told yet */
    uint64_t moved_ns;    /* when the reader last took something, or had to begin */
    bool failing;         /* the last write failed */
    bool again;           /* something was put since that began */
    bool dropping;        /* until all that waits is written */
    bool telling;         /* `tell` has not returned */
} weft_spool;

/* Of a static object over static memory. */
#define WEFT_SPOOL(fd_, memory_, most_, tell_)                                                                         \
    {                                                                                                                  \
        .fd = (fd_), .memory = (memory_), .capacity = sizeof(memory_), .most = (most_), .tell = (tell_),               \
        .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER                                           \
    }

/* Starts the thread, which ends with the process, unless it exists. False: it cannot be had; then a line is written at
 * once where the descriptor takes it without waiting, else dropped. A forked child has neither the thread nor the lines
 * of its parent, and starts its own. */
bool weft_spool_start(weft_spool *spool);

/* Puts one line, or several as one, with the newline at the end. Any thread; never waits for the reader. */
void weft_spool_put(weft_spool *spool, const char *text, uint64_t bytes);

/* Waits until all is written, as long as the reader takes something every `still_ms`, at most `most_ms` in all; a
 * reader that took nothing for so long already is not waited for. Returns how many lines are lost then: dropped and not
 * told, or waiting still. */
uint64_t weft_spool_drain(weft_spool *spool, uint32_t still_ms, uint32_t most_ms);

#endif
