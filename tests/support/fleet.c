/* fleet.c - opens and drives the sessions of a fleet, each call with a bound. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/deferred.h"
#include "tests/support/port.h"

/* No deadline here runs out on a busy machine: tests that wait for one name it themselves. */
static const char site_text[] = "[trainer]\n"
                                "listen = 127.0.0.1:0\n"
                                "journal = 16MiB\n"
                                "[peers]\n"
                                "provider = loop\n"
                                "bucket_max = 2MiB\n"
                                "window = 3\n"
                                "staging = 64MiB\n"
                                "heartbeat = 30s\n"
                                "[peer.a]\n[peer.b]\n[peer.c]\n[peer.x*]\n"
                                "[session]\n"
                                "connect_deadline = 60s\n"
                                "close_deadline = 1s\n"
                                "io_deadline = 30s\n"
                                "[commit]\n"
                                "deadline = 30s\n"
                                "[log]\n"
                                "level = debug\n";

uint64_t fleet_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

void fleet_sleep_ms(uint32_t ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

/* True if the environment asks for a device at this end. */
static bool has_device(const char *end)
{
    const char *wanted = getenv("WEFT_TEST_DEVICE");
    return wanted && (strcmp(wanted, end) == 0 || strcmp(wanted, "both") == 0);
}

static void take_device(fleet *f, bool trainer, bool rollouts, uint32_t depth)
{
    const char *shadow = getenv("WEFT_TEST_SHADOW");
    f->trainer_device = trainer;
    f->rollout_device = rollouts;
    if (trainer || rollouts)
        deferred_lend(depth);
    if (trainer)
        f->overrides[f->override_count++] = "trainer.backend=cuda";
    if (trainer && shadow && strcmp(shadow, "device") == 0)
        f->overrides[f->override_count++] = "trainer.shadow=device";
    if (rollouts)
        f->overrides[f->override_count++] = "peers.backend=cuda";
}

fleet *fleet_open(fleet_size size, const char *const *overrides)
{
    const char *depth = getenv("WEFT_TEST_DEPTH");
    return fleet_open_device(size, overrides, has_device("trainer"), has_device("rollouts"),
                             depth ? (uint32_t)atoi(depth) : 8);
}

fleet *fleet_open_device(fleet_size size, const char *const *overrides, bool trainer, bool rollouts, uint32_t depth)
{
    static const char *const names[FLEET_ROLLOUTS] = {"a", "b", "c", "x1", "x2", "x3", "x4"};
    fleet *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    weft_loop_set_faults(NULL);
    for (; overrides && overrides[f->override_count]; f->override_count++)
        f->overrides[f->override_count] = overrides[f->override_count];
    take_device(f, trainer, rollouts, depth);
    f->blocks = getenv("WEFT_TEST_BLOCKS") != NULL;
    f->layout = fleet_layout(size);
    f->other = getenv("WEFT_TEST_ORDER") ? fleet_layout_shuffled(f->layout, 4711) : NULL;
    f->bytes = weft_layout_bytes(f->layout);
    f->seed = UINT64_C(20260101);
    f->log = fleet_hear;
    f->dense = malloc(f->bytes);
    f->scratch_dense = malloc(f->bytes);
    if (!f->dense || !f->scratch_dense)
        abort();
    fleet_fill(f->layout, f->dense, &f->seed);
    for (unsigned i = 0; i < FLEET_ROLLOUTS; i++)
        snprintf(f->rollouts[i].name, sizeof f->rollouts[i].name, "%s", names[i]);
    snprintf(f->trainer.name, sizeof f->trainer.name, "trainer");
    snprintf(f->listen, sizeof f->listen, "trainer.listen=127.0.0.1:%u", port_free());
    return f;
}

static void close_end(fleet_end *end)
{
    weft_close(end->session);
    end->session = NULL;
    fleet_model_close(&end->model);
}

void fleet_close(fleet *f)
{
    weft_loop_set_faults(NULL);
    for (unsigned i = 0; i < FLEET_ROLLOUTS; i++)
        close_end(&f->rollouts[i]);
    close_end(&f->trainer);
    for (uint64_t i = 0; i < f->history_count; i++)
        free(f->history[i].dense);
    if (f->trainer_device || f->rollout_device)
        deferred_take_back();
    weft_layout_free(f->other);
    weft_layout_free(f->layout);
    free(f->dense);
    free(f->scratch_dense);
    free(f);
}

weft_site *fleet_site(const fleet *f, const char *extra)
{
    const char *overrides[40];
    size_t count = 0;
    overrides[count++] = f->listen;
    for (size_t i = 0; i < f->override_count; i++)
        overrides[count++] = f->overrides[i];
    if (extra)
        overrides[count++] = extra;
    return fleet_site_load(site_text, overrides, count);
}

/* Remembers the trainer's bits under the root that it publishes. */
static void remember(fleet *f)
{
    weft_version held = fleet_held(f->trainer.session);
    assert_true(f->history_count < FLEET_HISTORY);
    fleet_version *version = &f->history[f->history_count++];
    *version = (fleet_version){held.root, held.number, malloc(f->bytes)};
    memcpy(version->dense, f->dense, f->bytes);
    f->newest = held.number;
}

static void model_open(fleet *f, fleet_end *end, weft_layout *layout, unsigned style, bool device)
{
    fleet_model *model = &end->model;
    if (f->blocks)
        fleet_model_open_blocks(model, layout, style, end->far);
    else if (end->far)
        fleet_model_open_far(model, layout, style, end->far);
    else if (device)
        fleet_model_open_device(model, layout, style);
    else
        fleet_model_open(model, layout, style);
    if (layout != f->layout)
        fleet_model_dense_of(model, f->layout);
}

void fleet_open_trainer(fleet *f)
{
    weft_options options = {.size = sizeof options, .log = f->log, .log_user = f->trainer.name};
    char listen[64];
    options.first_version = f->first_version;
    weft_site *site = fleet_site(f, NULL);
    if (f->heard) {
        options.log = f->heard;
        options.log_user = f;
    }
    f->trainer.session = fleet_trainer_open(site, f->layout, &options, listen);
    weft_site_free(site);
    snprintf(f->listen, sizeof f->listen, "trainer.listen=%s", listen);
}

void fleet_bind_trainer(fleet *f, const char *attachment)
{
    model_open(f, &f->trainer, f->layout, 0, f->trainer_device);
    fleet_model_put(&f->trainer.model, f->dense);
    fleet_need(fleet_model_bind(&f->trainer.model, f->trainer.session, attachment, 0), "bind trainer");
    remember(f);
}

void fleet_start_trainer(fleet *f, const char *attachment)
{
    fleet_open_trainer(f);
    fleet_bind_trainer(f, attachment);
}

void fleet_open_rollout(fleet *f, unsigned at, const char *extra)
{
    fleet_end *end = &f->rollouts[at];
    weft_options options = {.size = sizeof options, .log = f->log, .log_user = end->name, .wants = f->wants};
    options.tells_away = f->tells;
    weft_site *site = fleet_site(f, extra);
    end->session = fleet_rollout_open(site, end->name, f->other ? f->other : f->layout, &options);
    weft_site_free(site);
}

void fleet_bind_rollout(fleet *f, unsigned at, fleet_start start, const char *attachment)
{
    fleet_end *end = &f->rollouts[at];
    model_open(f, end, f->other ? f->other : f->layout, at + 1, f->rollout_device);
    if (start == FLEET_SAME) {
        fleet_model_put(&end->model, f->dense);
    } else if (start == FLEET_OTHER) {
        uint64_t seed = 77 + at;
        fleet_fill(f->layout, f->scratch_dense, &seed);
        fleet_model_put(&end->model, f->scratch_dense);
    }
    fleet_need(fleet_model_bind(&end->model, end->session, attachment, start == FLEET_EMPTY ? WEFT_BIND_EMPTY : 0),
               "bind rollout");
}

void fleet_join(fleet *f, unsigned at, fleet_start start)
{
    fleet_open_rollout(f, at, NULL);
    fleet_bind_rollout(f, at, start, NULL);
}

void fleet_join_bits(fleet *f, unsigned at, uint8_t *dense)
{
    uint8_t *kept = f->dense;
    f->dense = dense;
    fleet_join(f, at, FLEET_SAME);
    f->dense = kept;
}

void fleet_stop_trainer(fleet *f)
{
    close_end(&f->trainer);
}

void fleet_leave(fleet *f, unsigned at)
{
    close_end(&f->rollouts[at]);
}

void fleet_publish_dense(fleet *f, const char *attachment)
{
    weft_publish_options options = {
        .size = sizeof options, .attachment = attachment, .attachment_bytes = attachment ? strlen(attachment) : 0};
    fleet_model_put(&f->trainer.model, f->dense);
    fleet_need(weft_publish(f->trainer.session, f->newest + 1, NULL, &options, NULL), "publish");
    remember(f);
}

void fleet_publish(fleet *f, uint32_t per_mille)
{
    fleet_change(f->layout, f->dense, per_mille, &f->seed);
    fleet_publish_dense(f, NULL);
}

static struct {
    fleet *fleet;
    void (*look)(fleet *f);
    uint32_t times;
} freed;

static void weights_overwrite(void *user)
{
    fleet *f = freed.fleet;
    assert_ptr_equal(user, &freed);
    uint8_t *other = test_malloc(f->bytes);
    for (uint64_t i = 0; i < f->bytes; i++)
        other[i] = f->dense[i] ^ 0xff;
    fleet_model_put(&f->trainer.model, other);
    test_free(other);
    freed.times++;
    if (freed.look)
        freed.look(f);
}

uint32_t fleet_publish_over(fleet *f, uint32_t per_mille, void (*look)(fleet *f))
{
    const weft_publish_options options = {.size = sizeof options, .weights_free = weights_overwrite, .user = &freed};
    freed.fleet = f;
    freed.look = look;
    freed.times = 0;
    fleet_change(f->layout, f->dense, per_mille, &f->seed);
    fleet_model_put(&f->trainer.model, f->dense);
    fleet_need(weft_publish(f->trainer.session, f->newest + 1, NULL, &options, NULL), "publish");
    remember(f);
    return freed.times;
}

void fleet_publish_all(fleet *f, unsigned count, uint32_t per_mille)
{
    fleet_publish(f, per_mille);
    for (unsigned at = 0; at < count; at++) {
        fleet_catch_up(f, at);
        fleet_check_bytes(f, at, f->dense);
    }
}

void fleet_join_behind(fleet *f, unsigned at)
{
    fleet_join(f, at, FLEET_SAME);
    fleet_wait_state(f, f->rollouts[at].name, WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_string_equal(fleet_line(f, f->rollouts[at].name).via, "a");
}

void fleet_drop_events(const fleet *f)
{
    weft_event event = {.size = sizeof event};
    while (weft_events(f->trainer.session, &event) == WEFT_OK)
        ;
}

void fleet_check_bytes(fleet *f, unsigned at, const uint8_t *dense)
{
    memset(f->scratch_dense, 0, f->bytes);
    fleet_model_get(&f->rollouts[at].model, f->scratch_dense);
    bool equal = memcmp(f->scratch_dense, dense, f->bytes) == 0;
    for (uint64_t i = 0; i < f->bytes && !equal; i++)
        if (f->scratch_dense[i] != dense[i])
            fail_msg("rollout %s: byte %llu is %02x, not %02x", f->rollouts[at].name, (unsigned long long)i,
                     f->scratch_dense[i], dense[i]);
}

void fleet_check(fleet *f, unsigned at)
{
    weft_version held = {0, 0, 0};
    fleet_need(weft_held(f->rollouts[at].session, &held), "held");
    for (uint64_t i = f->history_count; i-- > 0;)
        if (f->history[i].root == held.root && f->history[i].number == held.number) {
            fleet_check_bytes(f, at, f->history[i].dense);
            return;
        }
    fail_msg("rollout %s holds version %llu, which was never published", f->rollouts[at].name,
             (unsigned long long)held.number);
}

weft_status fleet_alone(fleet *f, unsigned at)
{
    weft_staged_info info = {.size = sizeof info};
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    weft_status status;
    do
        status = weft_staged(f->rollouts[at].session, 20, &info);
    while (status == WEFT_AGAIN && fleet_now_ms() < end);
    return status;
}

weft_status fleet_commit(fleet *f, unsigned at, uint32_t bound_ms)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version held;
    weft_status status = weft_staged(f->rollouts[at].session, bound_ms, &info);
    if (status != WEFT_OK)
        return status;
    status = weft_commit(f->rollouts[at].session, info.target.number, NULL, 0, &held);
    if (status == WEFT_OK)
        fleet_check(f, at);
    return status;
}

static bool holds_newest(fleet *f, unsigned at)
{
    weft_version newest = fleet_held(f->trainer.session), held = fleet_held(f->rollouts[at].session);
    return memcmp(&newest, &held, sizeof held) == 0;
}

void fleet_catch_up_within(fleet *f, unsigned at, uint32_t bound_ms)
{
    uint64_t end = fleet_now_ms() + bound_ms;
    weft_status last = WEFT_OK;
    while (!holds_newest(f, at)) {
        if (fleet_now_ms() > end)
            fail_msg("rollout %s does not reach version %llu: %s: %s", f->rollouts[at].name,
                     (unsigned long long)f->newest, weft_status_name(last), weft_last_error());
        last = fleet_commit(f, at, 50);
    }
    fleet_check(f, at);
}

void fleet_catch_up(fleet *f, unsigned at)
{
    fleet_catch_up_within(f, at, FLEET_WAIT_MS);
}

static void suffer_once(fleet *f, unsigned count, unsigned i)
{
    if (i % 4 == 0)
        fleet_publish(f, i % 8 ? 300 : 10);
    for (unsigned at = 0; at < count; at++)
        fleet_commit(f, at, 30);
}

void fleet_suffer(fleet *f, unsigned count, weft_loop_faults faults, uint32_t ms)
{
    uint64_t end = fleet_now_ms() + ms;
    weft_loop_set_faults(&faults);
    for (unsigned i = 0; fleet_now_ms() < end; i++)
        suffer_once(f, count, i);
}

void fleet_suffer_until(fleet *f, unsigned count, weft_loop_faults faults, bool (*enough)(fleet *f))
{
    weft_loop_set_faults(&faults);
    for (unsigned i = 0; !enough(f); i++) {
        if (f->history_count > FLEET_HISTORY / 2)
            fail_msg("the faults did nothing to %u versions", FLEET_HISTORY / 2);
        suffer_once(f, count, i);
    }
}

void fleet_recover(fleet *f, unsigned count)
{
    weft_loop_set_faults(NULL);
    for (unsigned at = 0; at < count; at++)
        fleet_catch_up(f, at);
    fleet_publish(f, 50);
    for (unsigned at = 0; at < count; at++)
        fleet_catch_up(f, at);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
}

bool fleet_event(weft_session *session, weft_event_kind kind, const char *peer, uint32_t bound_ms, weft_event *event)
{
    uint64_t end = fleet_now_ms() + bound_ms;
    weft_event mine = {.size = sizeof mine};
    for (;;) {
        weft_status status = weft_events(session, &mine);
        if (status == WEFT_OK && mine.kind == kind && (!peer || strcmp(peer, mine.peer) == 0)) {
            if (event)
                *event = mine;
            return true;
        }
        if (status == WEFT_AGAIN && fleet_now_ms() >= end)
            return false;
        if (status == WEFT_AGAIN)
            fleet_sleep_ms(2);
    }
}

bool fleet_peer(fleet *f, const char *name, weft_peer_info *info)
{
    return fleet_find(f->trainer.session, name, info);
}

weft_peer_info fleet_line(fleet *f, const char *name)
{
    weft_peer_info info = {0};
    assert_true(fleet_peer(f, name, &info));
    return info;
}

void fleet_wait_state(fleet *f, const char *name, weft_peer_state state, uint32_t bound_ms)
{
    uint64_t end = fleet_now_ms() + bound_ms;
    weft_peer_info info = {0};
    while (!fleet_peer(f, name, &info) || info.state != state) {
        if (fleet_now_ms() > end)
            fail_msg("peer %s is %s, not %s", name, weft_peer_state_name(info.state), weft_peer_state_name(state));
        fleet_sleep_ms(2);
    }
}
