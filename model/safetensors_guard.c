/* safetensors_guard.c - a mapped file that shrinks raises SIGBUS in whoever reads it: here that becomes an error.
 *
 * The page that is gone is replaced by one of zeros and the read goes on, on whatever thread: what was made of it is
 * thrown away when the guard reports the error. */
#include "model.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "status.h"

typedef struct range {
    uint8_t *begin;
    uint8_t *end;
} range;

/* What the handler needs; set before it is installed, and only one at a time. */
static struct {
    bool taken; /* atomic */
    bool cut;   /* atomic: a page was missing */
    uint64_t page;
    range ranges[WEFT_MODEL_GUARDED];
    size_t count;
    struct sigaction before;
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
    uint8_t *address = info->si_addr;
    for (size_t i = 0; i < guard.count; i++) {
        const range *own = &guard.ranges[i];
        if (address < own->begin || address >= own->end)
            continue;
        uint8_t *page = own->begin + (uint64_t)(address - own->begin) / guard.page * guard.page;
        __atomic_store_n(&guard.cut, true, __ATOMIC_RELAXED);
        if (mmap(page, guard.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
            MAP_FAILED)
            return;
    }
    hand_on(number, info, context);
}

static void ranges_take(const weft_model *const *models, size_t count)
{
    guard.count = 0;
    guard.page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < count; i++)
        if (models[i]->file_count > 0)
            guard.ranges[guard.count++] = (range){models[i]->memory, models[i]->memory + models[i]->memory_bytes};
}

bool weft_model_shrunk(const weft_model *model)
{
    struct stat facts;
    for (uint64_t i = 0; i < model->file_count; i++)
        if (fstat(model->files[i].file, &facts) != 0 || (uint64_t)facts.st_size < model->files[i].bytes)
            return true;
    return false;
}

weft_status weft_model_guard_all(const weft_model *const *models, size_t count, weft_status (*body)(void *user),
                                 void *user)
{
    struct sigaction action = {.sa_sigaction = bus_error, .sa_flags = SA_SIGINFO};
    if (count > WEFT_MODEL_GUARDED || __atomic_test_and_set(&guard.taken, __ATOMIC_ACQUIRE))
        return weft_fail(WEFT_E_STATE, "another guard is at work, or it has %zu models; one guard of %d at a time",
                         count, WEFT_MODEL_GUARDED);
    ranges_take(models, count);
    guard.cut = false;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &guard.before);
    weft_status status = body(user);
    sigaction(SIGBUS, &guard.before, NULL);
    bool cut = __atomic_load_n(&guard.cut, __ATOMIC_RELAXED);
    __atomic_clear(&guard.taken, __ATOMIC_RELEASE);
    for (size_t i = 0; i < count; i++)
        cut = cut || weft_model_shrunk(models[i]);
    return cut ? weft_fail(WEFT_E_FILE,
                           "the model file was cut short while it was read; replace files by rename, never in place")
               : status;
}

weft_status weft_model_guard(const weft_model *model, weft_status (*body)(void *user), void *user)
{
    return weft_model_guard_all(&model, 1, body, user);
}
