/* thread.h - threads of the library inside an application's process. */
#ifndef WEFT_CORE_THREAD_H
#define WEFT_CORE_THREAD_H

#include <pthread.h>

/* Starts a thread that blocks all signals but those that its own instructions raise, because signals are the
 * application's. SIGBUS stays open: a handler may know what to do when a mapped file shrinks. Returns 0 or an errno. */
int weft_thread_start(pthread_t *thread, void *(*body)(void *argument), void *argument);

#endif
