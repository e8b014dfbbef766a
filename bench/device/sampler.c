/* sampler.c - notes where a process computes, at each tick of the kernel's clock and in whichever thread computes then.
 * sampler.py starts it and reads what it noted. */
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

enum { SAMPLES = 1 << 18, MICROSECONDS = 500 };

uint64_t sampler_noted[SAMPLES][2]; /* address, thread */
uint32_t sampler_count;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    const uint32_t at = __atomic_fetch_add(&sampler_count, 1, __ATOMIC_RELAXED) % SAMPLES;
#ifdef __x86_64__
    sampler_noted[at][0] = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
    sampler_noted[at][0] = ((ucontext_t *)context)->uc_mcontext.pc;
#endif
    sampler_noted[at][1] = (uint64_t)syscall(SYS_gettid);
}

void sampler_start(void)
{
    const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sampler_count = 0;
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &(struct itimerval){{0, MICROSECONDS}, {0, MICROSECONDS}}, NULL);
}

uint32_t sampler_stop(void)
{
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    return sampler_count < SAMPLES ? sampler_count : SAMPLES;
}
