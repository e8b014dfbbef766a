/* The jobs that a thread has with a backend at once, and the proof of a snapshot by two threads: a backend that counts
 * takes the place of one that works. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/status.h"
#include "encode/proof.h"
#include "layout/layout.h"

#define DEPTH 4u
#define ITEMS 20u
#define FAILS 7u

static uint32_t with_it, most, submitted; /* jobs that the backend has, had at most, and had in all */

static weft_status load(weft_backend_state *device, weft_load_job *job)
{
    (void)device;
    (void)job;
    submitted++;
    with_it++;
    most = with_it > most ? with_it : most;
    return WEFT_AGAIN;
}

static weft_status poll(weft_backend_state *device, void *job)
{
    const weft_load_job *own = job;
    (void)device;
    with_it--;
    const uint64_t item = (uint64_t)(uintptr_t)own->bytes;
    return item < FAILS ? WEFT_OK : weft_fail(WEFT_E_CORRUPT, "item %u", (unsigned)item);
}

static void fill(void *user, uint64_t item, weft_job *job)
{
    (void)user;
    job->load = (weft_load_job){.bytes = (uint8_t *)(uintptr_t)item};
}

static weft_status told(void *user, uint64_t item, const weft_job *job)
{
    uint64_t *next = user;
    assert_int_equal(item, (*next)++); /* in order, each once */
    return job->status;
}

/* The first failure is the chore's, with its text. What was begun is ended and told, and nothing more is begun. */
static void the_first_failure_ends_a_chore(void **state)
{
    const weft_backend backend = {.depth = DEPTH, .load = load, .poll = poll};
    uint64_t next = 0;
    const weft_chore chore = {WEFT_JOB_LOAD, fill, told, &next};
    weft_pipeline window;
    (void)state;
    assert_int_equal(weft_pipeline_open(&window, &backend, NULL), WEFT_OK);
    assert_int_equal(weft_pipeline_run(&window, &chore, 0, ITEMS), WEFT_E_CORRUPT);
    assert_string_equal(weft_last_error(), "item 7");
    assert_int_equal(next, submitted);
    assert_int_equal(submitted, FAILS + DEPTH);
    assert_int_equal(most, DEPTH);
    assert_int_equal(with_it, 0);
    assert_int_equal(window.begun, window.ended);
    weft_fail_quiet(WEFT_E_STATE, "before");
    for (uint64_t item = FAILS; item < FAILS + 3; item++) {
        fill(NULL, item, weft_pipeline_next(&window));
        weft_pipeline_begin(&window, WEFT_JOB_LOAD);
    }
    weft_pipeline_drop(&window);
    assert_string_equal(weft_last_error(), "before");
    assert_int_equal(with_it, 0);
    assert_null(weft_pipeline_end(&window));
    weft_pipeline_close(&window);
}

/* ---- a proof */

#define UNITS 100u

static pthread_t storing;
static uint64_t digested; /* units, by the storing thread */
static sem_t entered, go;
static bool holds;                /* the helper stops in its first unit */
static weft_status helper_status; /* of all of the helper's units */

static weft_status digest(weft_backend_state *device, weft_digest_job *job)
{
    (void)device;
    if (pthread_equal(pthread_self(), storing)) {
        digested++;
    } else if (holds) {
        holds = false;
        sem_post(&entered);
        sem_wait(&go);
    }
    job->tensor_delta[0] += UINT64_C(1) << job->view.unit % 50;
    return pthread_equal(pthread_self(), storing) ? WEFT_OK : helper_status;
}

static const weft_backend counting = {.depth = 2, .digest = digest};

typedef struct world {
    weft_layout *layout;
    void *memory;
    weft_binding binding;
    weft_proof proof;
    uint64_t sums[1];
    atomic_bool done;
} world;

static int begin(void **state)
{
    static const uint64_t shape[] = {(uint64_t)UNITS << 18};
    static const weft_tensor tensor = {"t", WEFT_U8, 1, shape};
    world *w = calloc(1, sizeof *w);
    assert_int_equal(weft_layout_create(&tensor, 1, &w->layout), WEFT_OK);
    assert_int_equal(w->layout->unit_count, UNITS);
    w->memory = weft_mem_map(shape[0]);
    assert_int_equal(weft_binding_open_image(w->layout, w->memory, &w->binding), WEFT_OK);
    assert_int_equal(weft_proof_open(&w->proof, &counting, NULL, 1), WEFT_OK);
    weft_proof_begin(&w->proof, &w->binding);
    storing = pthread_self();
    digested = 0;
    helper_status = WEFT_OK;
    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    *state = w;
    return 0;
}

static int end(void **state)
{
    world *w = *state;
    weft_proof_close(&w->proof);
    weft_binding_close(&w->binding);
    weft_layout_free(w->layout);
    weft_mem_unmap(w->memory, (uint64_t)UNITS << 18);
    free(w);
    return 0;
}

static uint64_t sum_of(uint64_t units)
{
    uint64_t sum = 0;
    for (uint64_t unit = 0; unit < units; unit++)
        sum += UINT64_C(1) << unit % 50;
    return sum;
}

static void *help_once(void *w)
{
    weft_proof_help(&((world *)w)->proof);
    return NULL;
}

/* With nobody to help, at most 32 units wait, and the sums are complete all the same. */
static void nobody_helps(void **state)
{
    world *w = *state;
    for (uint64_t unit = 1; unit <= UNITS; unit++) {
        assert_int_equal(weft_proof_stored(&w->proof, 1, w->sums), WEFT_OK);
        assert_true(unit - digested <= 32);
    }
    assert_int_equal(weft_proof_settle(&w->proof, w->sums), WEFT_OK);
    assert_int_equal(w->sums[0], sum_of(UNITS));
}

static void the_helpers_failure_is_the_proofs(void **state)
{
    world *w = *state;
    pthread_t helper;
    helper_status = WEFT_E_DEVICE;
    assert_int_equal(weft_proof_stored(&w->proof, 4, w->sums), WEFT_OK);
    pthread_create(&helper, NULL, help_once, w);
    pthread_join(helper, NULL);
    assert_false(weft_proof_help(&w->proof)); /* a failure ends the help */
    assert_int_equal(weft_proof_settle(&w->proof, w->sums), WEFT_E_DEVICE);
    weft_proof_begin(&w->proof, &w->binding);
    assert_int_equal(weft_proof_settle(&w->proof, w->sums), WEFT_OK); /* of the proof before */
}

static void *settle(void *argument)
{
    world *w = argument;
    storing = pthread_self();
    weft_proof_settle(&w->proof, w->sums);
    atomic_store(&w->done, true);
    return NULL;
}

static void *begin_again(void *argument)
{
    world *w = argument;
    weft_proof_begin(&w->proof, NULL);
    atomic_store(&w->done, true);
    return NULL;
}

/* Has the other thread act while the helper is in a unit: it must wait, so that there is no event to wait for. */
static void act_beside_the_helper(world *w, void *(*act)(void *))
{
    const struct timespec moment = {0, 20000000};
    pthread_t helper, other;
    holds = true;
    assert_int_equal(weft_proof_stored(&w->proof, 4, w->sums), WEFT_OK);
    pthread_create(&helper, NULL, help_once, w);
    sem_wait(&entered);
    pthread_create(&other, NULL, act, w);
    nanosleep(&moment, NULL);
    const bool done = atomic_load(&w->done);
    sem_post(&go);
    pthread_join(helper, NULL);
    pthread_join(other, NULL);
    assert_false(done);
}

static void settling_waits_for_the_helper(void **state)
{
    world *w = *state;
    act_beside_the_helper(w, settle);
    assert_int_equal(w->sums[0], sum_of(4));
}

static void beginning_waits_for_the_helper(void **state)
{
    world *w = *state;
    act_beside_the_helper(w, begin_again);
    assert_int_equal(weft_proof_settle(&w->proof, w->sums), WEFT_OK);
    assert_int_equal(w->sums[0], 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_ends_a_chore),
        TEST(nobody_helps),
        TEST(the_helpers_failure_is_the_proofs),
        TEST(settling_waits_for_the_helper),
        TEST(beginning_waits_for_the_helper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
