#include "encode/proof.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

/* Units that may wait for the helper before the storing thread digests some: a few MiB, which a shared cache holds. */
#define BACKLOG 32u

weft_status weft_proof_open(weft_proof *proof, const weft_backend *backend, weft_backend_state *device, uint64_t words)
{
    proof->words = words;
    proof->helped = weft_mem_take(words, sizeof *proof->helped);
    if (!proof->helped)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (unsigned long long)words);
    pthread_mutex_init(&proof->lock, NULL);
    pthread_cond_init(&proof->rests, NULL);
    weft_status status = weft_pipeline_open(&proof->storing, backend, device);
    return status == WEFT_OK ? weft_pipeline_open(&proof->helping_jobs, backend, device) : status;
}

void weft_proof_close(weft_proof *proof)
{
    if (!proof->helped)
        return;
    weft_pipeline_close(&proof->helping_jobs);
    weft_pipeline_close(&proof->storing);
    pthread_cond_destroy(&proof->rests);
    pthread_mutex_destroy(&proof->lock);
    weft_mem_give(proof->helped);
}

static void wait_for_helper(weft_proof *proof)
{
    while (proof->helping)
        pthread_cond_wait(&proof->rests, &proof->lock);
}

void weft_proof_begin(weft_proof *proof, const weft_binding *weights)
{
    pthread_mutex_lock(&proof->lock);
    proof->stored = proof->claimed = 0; /* first: nothing more can be claimed */
    wait_for_helper(proof);
    proof->weights = weights;
    proof->failed = WEFT_OK;
    memset(proof->helped, 0, proof->words * sizeof *proof->helped);
    pthread_mutex_unlock(&proof->lock);
}

/* Units that are digested, and where to. */
typedef struct digests {
    const weft_binding *weights;
    uint64_t *sums;
} digests;

static void digest_fill(void *user, uint64_t unit, weft_job *job)
{
    const digests *d = user;
    job->digest = (weft_digest_job){.view = weft_binding_view(d->weights, unit), .tensor_delta = d->sums};
}

static weft_status digest(const weft_proof *proof, weft_pipeline *window, uint64_t first, uint64_t end, uint64_t *sums)
{
    digests d = {proof->weights, sums};
    const weft_chore chore = {WEFT_JOB_DIGEST, digest_fill, NULL, &d};
    return weft_pipeline_run(window, &chore, first, end);
}

/* Takes units that wait, as many as a window holds; they end before the one returned. */
static uint64_t claim(weft_proof *proof, uint64_t *first)
{
    const uint64_t waiting = proof->stored - proof->claimed, most = proof->storing.depth;
    *first = proof->claimed;
    proof->claimed += waiting < most ? waiting : most;
    return proof->claimed;
}

/* Digests units on the storing thread until at most `backlog` wait. */
static weft_status catch_up(weft_proof *proof, uint64_t backlog, uint64_t *sums)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && proof->stored - proof->claimed > backlog) {
        uint64_t first, end = claim(proof, &first);
        pthread_mutex_unlock(&proof->lock);
        status = digest(proof, &proof->storing, first, end, sums);
        pthread_mutex_lock(&proof->lock);
    }
    return status;
}

weft_status weft_proof_stored(weft_proof *proof, uint64_t units, uint64_t *sums)
{
    pthread_mutex_lock(&proof->lock);
    proof->stored += units;
    weft_status status = catch_up(proof, BACKLOG, sums);
    pthread_mutex_unlock(&proof->lock);
    return status;
}

weft_status weft_proof_settle(weft_proof *proof, uint64_t *sums)
{
    pthread_mutex_lock(&proof->lock);
    weft_status status = catch_up(proof, 0, sums);
    wait_for_helper(proof);
    for (uint64_t i = 0; i < proof->words; i++) {
        sums[i] += proof->helped[i];
        proof->helped[i] = 0;
    }
    status = status == WEFT_OK ? proof->failed : status;
    pthread_mutex_unlock(&proof->lock);
    return status;
}

bool weft_proof_help(weft_proof *proof)
{
    pthread_mutex_lock(&proof->lock);
    bool any = proof->claimed < proof->stored && proof->failed == WEFT_OK;
    if (any) {
        uint64_t first, end = claim(proof, &first);
        proof->helping = true;
        pthread_mutex_unlock(&proof->lock);
        weft_status status = digest(proof, &proof->helping_jobs, first, end, proof->helped);
        pthread_mutex_lock(&proof->lock);
        proof->helping = false;
        proof->failed = status;
        pthread_cond_signal(&proof->rests);
    }
    pthread_mutex_unlock(&proof->lock);
    return any;
}
