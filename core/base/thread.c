#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int weft_thread_start(pthread_t *thread, void *(*body)(void *argument), void *argument)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before); /* the thread inherits it */
    int failed = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
