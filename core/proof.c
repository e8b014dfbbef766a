#include "proof.h"

#include <string.h>

#include "mem.h"
#include "status.h"

/* Units that may wait for the helper before the storing thread digests one: a few MiB, which a shared cache holds. */
#define BACKLOG 32u

weft_status weft_proof_open(weft_proof *proof, const weft_backend *backend, weft_backend_state *device, uint64_t words)
{
    proof->backend = backend;
    proof->device = device;
    proof->words = words;
    proof->helped = weft_mem_take(words, sizeof *proof->helped);
    if (!proof->helped)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (unsigned long long)words);
    pthread_mutex_init(&proof->lock, NULL);
    pthread_cond_init(&proof->rests, NULL);
    return WEFT_OK;
}

void weft_proof_close(weft_proof *proof)
{
    if (!proof->helped)
        return;
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

static weft_status digest(const weft_proof *proof, uint64_t unit, uint64_t *sums)
{
    weft_digest_job job = {weft_binding_view(proof->weights, unit), sums};
    weft_status status = proof->backend->digest(proof->device, &job);
    while (status == WEFT_AGAIN)
        status = proof->backend->poll(proof->device, &job);
    return status;
}

/* Digests units on the storing thread until at most `backlog` wait. */
static weft_status catch_up(weft_proof *proof, uint64_t backlog, uint64_t *sums)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && proof->stored - proof->claimed > backlog) {
        uint64_t unit = proof->claimed++;
        pthread_mutex_unlock(&proof->lock);
        status = digest(proof, unit, sums);
        pthread_mutex_lock(&proof->lock);
    }
    return status;
}

weft_status weft_proof_stored(weft_proof *proof, uint64_t *sums)
{
    pthread_mutex_lock(&proof->lock);
    proof->stored++;
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
        uint64_t unit = proof->claimed++;
        proof->helping = true;
        pthread_mutex_unlock(&proof->lock);
        weft_status status = digest(proof, unit, proof->helped);
        pthread_mutex_lock(&proof->lock);
        proof->helping = false;
        proof->failed = status;
        pthread_cond_signal(&proof->rests);
    }
    pthread_mutex_unlock(&proof->lock);
    return any;
}
