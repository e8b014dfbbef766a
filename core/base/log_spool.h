/* log_spool.h - lines that wait for the reader of a descriptor, and the thread that writes them there, so that no
 * caller waits for that reader.
 *
 * A line is queued whole, or dropped and counted if too much waits. After one dropped line all lines are dropped until
 * the reader has taken what waits; then their number is reported. Only the thread allocates memory. */
#ifndef WEFT_CORE_LOG_SPOOL_H
#define WEFT_CORE_LOG_SPOOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum weft_spool_news {
    WEFT_SPOOL_DROPS, /* the reader takes too little: lines are dropped from now on */
    WEFT_SPOOL_FAILS, /* the descriptor cannot be written: `number` is the errno; each later line tries again */
    WEFT_SPOOL_TAKES  /* all waiting lines are written: `number` lines were dropped before */
} weft_spool_news;

typedef struct weft_spool {
    int fd;
    char *memory;
    uint64_t capacity;
    uint64_t most; /* bytes that may wait; a longer line is queued only if nothing else waits */
    /* Called outside every lock, on the thread that sees the news. NULL: only the number of dropped lines is reported,
     * by a line to `fd` itself. */
    void (*tell)(weft_spool_news news, uint64_t number);

    pthread_mutex_t lock; /* a leaf lock, held to copy; without the thread also to write lines that do not wait */
    pthread_cond_t moved; /* signalled when a line was queued or written */
    _Atomic bool started; /* the thread exists */
    uint64_t begin, end;  /* bytes written and bytes queued so far; both 0 again when none wait */
    uint64_t lost;        /* lines dropped and not yet reported */
    uint64_t moved_ns;    /* time in ns when the reader last took something, or had to begin */
    bool failing;         /* the last write failed */
    bool again;           /* a line was queued since the write began that failed */
    bool dropping;        /* lines are dropped until all that waits is written */
    bool telling;         /* `tell` is running */
} weft_spool;

/* Initializes a static spool over static memory. */
#define WEFT_SPOOL(fd_, memory_, most_, tell_)                                                                         \
    {                                                                                                                  \
        .fd = (fd_), .memory = (memory_), .capacity = sizeof(memory_), .most = (most_), .tell = (tell_),               \
        .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER                                           \
    }

/* Starts the thread unless it runs; the thread ends with the process. Returns false if there can be no thread: then a
 * line is written at once if the descriptor takes it without waiting, and dropped otherwise. A forked child has neither
 * the thread nor the lines of its parent, and starts its own thread. */
bool weft_spool_start(weft_spool *spool);

/* Queues one line, or several as one, with a newline at the end. Any thread; never waits for the reader. */
void weft_spool_put(weft_spool *spool, const char *text, uint64_t bytes);

/* Waits until all lines are written, at most `most_ms`, and only while the reader takes something every `still_ms`. A
 * reader that already took nothing for so long is not waited for. Returns the number of lost lines: dropped and not
 * reported, or still waiting. */
uint64_t weft_spool_drain(weft_spool *spool, uint32_t still_ms, uint32_t most_ms);

#endif
