#include "tools/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "tools/output.h"

static volatile sig_atomic_t stop_requested, deadly;

/* A handler may write bytes that lie ready, and nothing else. */
static char last_object[256];
static size_t last_object_bytes;

static weft_session *_Atomic session_at_work;

/* timeout(1) and terminals may send the same signal to a process and to its group: what comes this soon is one. */
#define SAME_MS 500
/* What a verb over files has for its orderly end. */
#define END_MS 5000
/* An unfinished file is removed in that time, or stays, because a disk may hang. */
#define REMOVE_S 2u
#define LOOK_MS  100

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A handler waits for no reader. */
static void write_if_taken(int fd, const char *text, size_t bytes)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) == 1 && write(fd, text, bytes) < 0)
        return; /* there is nobody else to tell */
}

static void say_last_words(void)
{
    static const char line[] = "weft: interrupted\n";
    write_if_taken(STDERR_FILENO, line, sizeof line - 1);
    if (last_object_bytes)
        write_if_taken(STDOUT_FILENO, last_object, last_object_bytes);
}

static _Atomic uint64_t first_ms; /* time of the first signal */

static void on_signal(int number)
{
    uint64_t now = now_ms(), first = atomic_load(&first_ms);
    if (deadly) {
        say_last_words();
        alarm(REMOVE_S);
        weft_file_abandon();
        _exit(WEFT_EXIT_FAILED);
    }
    if (stop_requested && now > first + SAME_MS) {
        alarm(REMOVE_S); /* which ends the process where the disk does not answer */
        weft_file_abandon();
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    if (!stop_requested)
        atomic_store(&first_ms, now);
    stop_requested = 1;
    weft_session *session = atomic_load(&session_at_work);
    if (session)
        weft_interrupt(session);
}

void weft_signals_watch(weft_session *session)
{
    atomic_store(&session_at_work, session);
}

static void last_words_ready(bool json)
{
    json_t *object = json ? weft_json_error(WEFT_E_STATE, "interrupted") : NULL;
    last_object_bytes = json_dumpb(object, last_object, sizeof last_object - 1, JSON_COMPACT);
    if (last_object_bytes)
        last_object[last_object_bytes++] = '\n';
    json_decref(object);
}

void weft_signals_deadly(bool now, bool json)
{
    if (now)
        last_words_ready(json);
    deadly = now;
}

/* The number of a closed one would be the next file's or socket's, and lines for people would go there. What is put in
 * its place cannot be written, which is told as ever. */
static void hold_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Sanitizers report crashes by handlers of their own. */
#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
#if SANITIZED
static const int taken_back[] = {SIGINT, SIGTERM};
#else
static const int taken_back[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGABRT};
#endif

/* Before main only libraries' constructors can have set a handler. */
static void take_back_signals(void)
{
    struct sigaction old;
    for (size_t i = 0; i < sizeof taken_back / sizeof *taken_back; i++)
        if (sigaction(taken_back[i], NULL, &old) == 0 && old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN)
            signal(taken_back[i], SIG_DFL);
}

void weft_signals_prepare(void)
{
    hold_standard_streams();
    take_back_signals();
    signal(SIGCHLD, SIG_DFL); /* else the system keeps no end of a child, and whoever waits for that waits in vain */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* nohup stays nohup. Shells start background jobs with SIGINT ignored, yet who sends it to one means it. */
static bool signal_is_wanted(int number)
{
    struct sigaction old;
    return number != SIGHUP || sigaction(number, NULL, &old) != 0 || old.sa_handler != SIG_IGN;
}

void weft_signals_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (signal_is_wanted(numbers[i]))
            sigaction(numbers[i], &action, NULL);
}

/* ---- a disk that hangs */

static atomic_bool removed;

static void *files_remove(void *argument)
{
    (void)argument;
    weft_file_abandon();
    atomic_store(&removed, true);
    return NULL;
}

/* Removes unfinished files, if the disk lets it. */
static void files_abandon(void)
{
    const uint64_t until = now_ms() + 1000 * REMOVE_S;
    pthread_t thread;
    if (weft_thread_start(&thread, files_remove, NULL) == 0)
        while (!atomic_load(&removed) && now_ms() < until)
            nanosleep(&(struct timespec){0, LOOK_MS * 1000000l}, NULL);
}

/* Ends the process whose own thread does not come back. */
static void end_anyhow(void)
{
    static const char line[] = "weft: interrupted, and a disk does not answer: what it was asked for is given up\n";
    write_if_taken(STDERR_FILENO, line, sizeof line - 1);
    if (last_object_bytes)
        write_if_taken(STDOUT_FILENO, last_object, last_object_bytes);
    files_abandon();
    _exit(WEFT_EXIT_FAILED);
}

/* Ends the process by a second signal. */
static void end_at_once(int number, const sigset_t *wanted)
{
    files_abandon();
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, wanted, NULL);
    raise(number);
}

/* Signals are the main thread's. Those that it does not take, because a disk holds it, come here after a moment. */
static void *hang_watch(void *wanted)
{
    const struct timespec look = {0, LOOK_MS * 1000000l};
    for (;;) {
        const int number = sigtimedwait(wanted, NULL, &look);
        if (number > 0 && stop_requested && now_ms() > atomic_load(&first_ms) + SAME_MS)
            end_at_once(number, wanted);
        if (number > 0)
            on_signal(number);
        if (stop_requested && now_ms() > atomic_load(&first_ms) + END_MS)
            end_anyhow();
    }
    return NULL;
}

void weft_signals_catch_files(bool json)
{
    static sigset_t wanted;
    pthread_t thread;
    last_words_ready(json);
    weft_signals_catch();
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    if (signal_is_wanted(SIGHUP))
        sigaddset(&wanted, SIGHUP);
    if (weft_thread_start(&thread, hang_watch, &wanted) == 0)
        pthread_detach(thread);
}

bool weft_signals_stopping(void)
{
    return stop_requested || ferror(stdout);
}

const char *weft_signals_reason(void)
{
    return stop_requested ? "interrupted" : "standard output cannot be written";
}

void weft_signals_pause(weft_session *session, uint32_t ms)
{
    double until = weft_now_ms() + ms;
    if (session)
        weft_progress(session, ms);
    double left = until - weft_now_ms();
    if (left > 0 && !weft_signals_stopping()) {
        struct timespec time = {.tv_sec = (time_t)(left / 1e3),
                                .tv_nsec = (long)((left - 1e3 * (time_t)(left / 1e3)) * 1e6)};
        nanosleep(&time, NULL);
    }
}
