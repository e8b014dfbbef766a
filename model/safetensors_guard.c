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

#include "base/status.h"

typedef struct range {
    uint8_t *begin;
    uint8_t *end;
} range;

/* The handler's state; set before it is installed, and only one at a time. */
static struct {
    bool taken;    /* atomic */
    uint8_t *lost; /* atomic: a page that was missing; NULL: none was */
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
        __atomic_store_n(&guard.lost, page, __ATOMIC_RELAXED);
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

const weft_mapped *weft_model_shrunk(const weft_model *model)
{
    struct stat facts;
    for (uint64_t i = 0; i < model->file_count; i++)
        if (fstat(model->files[i].file, &facts) != 0 || (uint64_t)facts.st_size < model->files[i].bytes)
            return &model->files[i];
    return NULL;
}

/* The file that the page, one of the models', is of. */
static const weft_mapped *file_of(const weft_model *const *models, size_t count, const uint8_t *page, uint64_t *at)
{
    const weft_mapped *found = NULL;
    for (size_t m = 0; m < count; m++)
        for (uint64_t i = 0; i < models[m]->file_count; i++) {
            const weft_mapped *mapped = &models[m]->files[i];
            const uint8_t *begin = models[m]->memory + mapped->offset;
            if (page < begin || page >= begin + mapped->bytes)
                continue;
            found = mapped;
            *at = (uint64_t)(page - begin);
        }
    return found;
}

/* A file that is another than at open decides, else `status`; a page may also be lost to a disk at fault. */
static weft_status judge(const weft_model *const *models, size_t count, const uint8_t *lost, weft_status status)
{
    uint64_t at = 0;
    const weft_mapped *mapped = lost ? file_of(models, count, lost, &at) : NULL;
    weft_status found = mapped ? weft_mapped_unchanged(mapped) : WEFT_OK;
    if (lost && mapped && found == WEFT_OK)
        return weft_fail(WEFT_E_FILE, "%s: cannot be read at byte %llu: its file system failed", mapped->path,
                         (unsigned long long)at);
    for (size_t i = 0; i < count && found == WEFT_OK; i++)
        found = weft_model_unchanged(models[i]);
    return found == WEFT_OK ? status : found;
}

weft_status weft_model_guard_all(const weft_model *const *models, size_t count, weft_status (*body)(void *user),
                                 void *user)
{
    struct sigaction action = {.sa_sigaction = bus_error, .sa_flags = SA_SIGINFO};
    if (count > WEFT_MODEL_GUARDED || __atomic_test_and_set(&guard.taken, __ATOMIC_ACQUIRE))
        return weft_fail(WEFT_E_STATE, "another guard is at work, or it has %zu models; one guard of %d at a time",
                         count, WEFT_MODEL_GUARDED);
    ranges_take(models, count);
    guard.lost = NULL;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &guard.before);
    weft_status status = body(user);
    sigaction(SIGBUS, &guard.before, NULL);
    uint8_t *lost = __atomic_load_n(&guard.lost, __ATOMIC_RELAXED);
    __atomic_clear(&guard.taken, __ATOMIC_RELEASE);
    return judge(models, count, lost, status);
}

weft_status weft_model_guard(const weft_model *model, weft_status (*body)(void *user), void *user)
{
    return weft_model_guard_all(&model, 1, body, user);
}
