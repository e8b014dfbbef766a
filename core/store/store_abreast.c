/* store_abreast.c - looks at the ends of many files, several at once, because each look waits for a server. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "base/team.h"
#include "store/store.h"

typedef struct looking {
    weft_store *store;
    weft_status (*read)(const weft_store *store, weft_store_file *file);
    weft_log_sink *sink;
    _Atomic uint64_t next; /* number of the file that nobody took yet */
    pthread_mutex_t lock;  /* of what follows */
    weft_status status;    /* the first error */
    char why[WEFT_LOG_LINE];
} looking;

/* Takes the next file to look at; NULL: there is none, or a look failed. */
static weft_store_file *file_take(looking *l)
{
    const uint64_t count = l->store->count * WEFT_STORE_KINDS;
    for (uint64_t at; (at = atomic_fetch_add(&l->next, 1)) < count;) {
        weft_store_file *file = &l->store->versions[at / WEFT_STORE_KINDS].files[at % WEFT_STORE_KINDS];
        if (file->item.bytes && file->status == WEFT_AGAIN)
            return file;
    }
    return NULL;
}

static void files_look(void *context, uint32_t worker)
{
    looking *l = context;
    weft_log_sink *before = weft_log_enter(l->sink);
    weft_store_file *file;
    (void)worker;
    while ((file = file_take(l)) != NULL) {
        const weft_status status = l->read(l->store, file);
        if (status == WEFT_OK)
            continue;
        atomic_store(&l->next, UINT64_MAX / 2);
        pthread_mutex_lock(&l->lock);
        if (l->status == WEFT_OK)
            snprintf(l->why, sizeof l->why, "%s", weft_last_error());
        l->status = l->status == WEFT_OK ? status : l->status;
        pthread_mutex_unlock(&l->lock);
    }
    weft_log_enter(before);
}

/* Returns the files that nobody looked at, up to so many. */
static uint32_t files_left(const weft_store *store, uint32_t most)
{
    uint32_t left = 0;
    for (uint64_t i = 0; i < store->count && left < most; i++)
        for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
            left += store->versions[i].files[kind].item.bytes && store->versions[i].files[kind].status == WEFT_AGAIN;
    return left < most ? left : most;
}

weft_status weft_store_abreast(weft_store *store, weft_status (*read)(const weft_store *store, weft_store_file *file))
{
    looking l = {.store = store, .read = read, .lock = PTHREAD_MUTEX_INITIALIZER};
    const uint32_t workers = files_left(store, store->port->abreast ? store->port->abreast : 1);
    weft_team team;
    l.sink = weft_log_enter(NULL);
    weft_log_enter(l.sink);
    if (workers > 1 && weft_team_open(&team, workers) == WEFT_OK) {
        weft_team_run(&team, files_look, &l);
        weft_team_close(&team);
    } else {
        files_look(&l, 0); /* one by one does as well */
    }
    return l.status == WEFT_OK ? WEFT_OK : weft_fail_quiet(l.status, "%s", l.why);
}
