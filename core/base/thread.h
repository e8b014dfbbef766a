/* thread.h - threads of the library inside somebody else's process. */
#ifndef WEFT_CORE_THREAD_H
#define WEFT_CORE_THREAD_H

#include <pthread.h>

/* Starts a thread that takes no signals, which are the application's, but those that its own instructions raise: a
 * blocked SIGBUS would kill where a handler knows what to do (a mapped file that shrinks). Returns 0 or an errno. */
int weft_thread_start(pthread_t *thread, void *(*body)(void *argument), void *argument);

#endif
