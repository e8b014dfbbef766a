#include "signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "output.h"

static volatile sig_atomic_t stop_requested, deadly;

/* A handler may write bytes that lie ready, and nothing else. */
static char last_object[256];
static size_t last_object_bytes;

static weft_session *_Atomic session_at_work;

/* timeout(1) and terminals may send the same signal to a process and to its group: what comes this soon is one. */
#define SAME_MS 500

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

static void on_signal(int number)
{
    static _Atomic uint64_t first_ms;
    uint64_t now = now_ms(), first = atomic_load(&first_ms);
    if (deadly) {
        say_last_words();
        weft_file_abandon();
        _exit(WEFT_EXIT_FAILED);
    }
    if (stop_requested && now > first + SAME_MS) {
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

void weft_signals_deadly(bool now, bool json)
{
    if (now) {
        json_t *object = json ? weft_json_error(WEFT_E_STATE, "interrupted") : NULL;
        last_object_bytes = json_dumpb(object, last_object, sizeof last_object - 1, JSON_COMPACT);
        if (last_object_bytes)
            last_object[last_object_bytes++] = '\n';
        json_decref(object);
    }
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
