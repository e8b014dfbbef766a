/* safetensors_guard.c - a mapped file that shrinks raises SIGBUS in whoever reads it: here that becomes an error. */
#include "model.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>

#include "status.h"

/* What the handler needs; set before it is installed, and only one at a time. */
static struct {
    bool taken; /* atomic */
    pthread_t thread;
    const uint8_t *begin;
    const uint8_t *end;
    struct sigaction before;
    sigjmp_buf back;
} guard;

/* A fault that is not ours: hand it on, or let it kill as it would have. */
static void hand_on(int number, siginfo_t *info, void *context)
{
    if (guard.before.sa_flags & SA_SIGINFO)
        guard.before.sa_sigaction(number, info, context);
    else if (guard.before.sa_handler != SIG_DFL && guard.before.sa_handler != SIG_IGN)
        guard.before.sa_handler(number);
    else
        signal(number, SIG_DFL); /* the access repeats on return */
}

static void bus_error(int number, siginfo_t *info, void *context)
{
    const uint8_t *address = info->si_addr;
    if (pthread_equal(pthread_self(), guard.thread) && address >= guard.begin && address < guard.end)
        siglongjmp(guard.back, 1);
    hand_on(number, info, context);
}

static weft_status guarded(weft_status (*body)(void *user), void *user)
{
    if (sigsetjmp(guard.back, 1) == 0)
        return body(user);
    return weft_fail(WEFT_E_FILE,
                     "the model file was cut short while it was read; replace files by rename, never in place");
}

weft_status weft_model_guard(const weft_model *model, weft_status (*body)(void *user), void *user)
{
    struct sigaction action = {.sa_sigaction = bus_error, .sa_flags = SA_SIGINFO};
    if (__atomic_test_and_set(&guard.taken, __ATOMIC_ACQUIRE))
        return weft_fail(WEFT_E_STATE, "another guard is at work; one at a time in a process");
    guard.thread = pthread_self();
    guard.begin = model->memory;
    guard.end = model->file >= 0 ? model->memory + model->memory_bytes : model->memory;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &guard.before);
    weft_status status = guarded(body, user);
    sigaction(SIGBUS, &guard.before, NULL);
    __atomic_clear(&guard.taken, __ATOMIC_RELEASE);
    return status;
}
