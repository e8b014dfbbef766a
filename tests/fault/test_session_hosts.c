/* Hosts by name: a name that appears only once its host is up, one that changes its address, one with several
 * addresses, and a silent name server. The names are this test's own, because it replaces getaddrinfo. */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fleet.h"
#include "wire/control.h"

#define HOST "weft.test"

/* The name server's knowledge of the name. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *addresses[3]; /* up to the first that is NULL; none: the name is unknown */
    unsigned unknown;         /* lookups that fail before the name is known */
    bool silent;              /* no lookup is answered */
    unsigned asked, waiting;
} name = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* One entry for each address, each of which freeaddrinfo gives back by itself. */
static int answer(const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    struct addrinfo **end = list;
    int error = name.asked % 2 ? EAI_NONAME : EAI_AGAIN;
    *list = NULL;
    for (unsigned i = 0; i < 3 && name.addresses[i]; i++) {
        error = real(name.addresses[i], service, hints, end);
        if (error)
            abort();
        end = &(*end)->ai_next;
    }
    return error;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    int error = EAI_AGAIN;
    pthread_mutex_lock(&name.lock);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!node || strcmp(node, HOST) != 0 || hints->ai_flags & AI_NUMERICHOST) {
        pthread_mutex_unlock(&name.lock);
        return real(node, service, hints, list);
    }
    name.asked++;
    name.waiting++;
    pthread_cond_broadcast(&name.changed);
    while (name.silent)
        pthread_cond_wait(&name.changed, &name.lock);
    name.waiting--;
    pthread_cond_broadcast(&name.changed);
    if (name.unknown > 0)
        name.unknown--;
    else
        error = answer(service, hints, list);
    pthread_mutex_unlock(&name.lock);
    return error;
}

static void is_at(const char *first, const char *second)
{
    pthread_mutex_lock(&name.lock);
    name.addresses[0] = first;
    name.addresses[1] = second;
    pthread_mutex_unlock(&name.lock);
}

/* Makes the next `times` lookups fail, because the name is not known yet. */
static void be_unknown(unsigned times)
{
    pthread_mutex_lock(&name.lock);
    name.unknown = times;
    pthread_mutex_unlock(&name.lock);
}

static unsigned read_under_lock(const unsigned *count)
{
    pthread_mutex_lock(&name.lock);
    unsigned now = *count;
    pthread_mutex_unlock(&name.lock);
    return now;
}

static void be_silent(bool silent)
{
    pthread_mutex_lock(&name.lock);
    name.silent = silent;
    pthread_cond_broadcast(&name.changed);
    while (!silent && name.waiting > 0)
        pthread_cond_wait(&name.changed, &name.lock);
    pthread_mutex_unlock(&name.lock);
}

static unsigned port_of(const fleet *f)
{
    return (unsigned)atoi(strrchr(f->listen, ':') + 1);
}

/* The trainer's listen address as rollouts have it. */
static const char *by_name(const fleet *f)
{
    static char text[64];
    snprintf(text, sizeof text, "trainer.listen=" HOST ":%u", port_of(f));
    return text;
}

static void join_by_name(fleet *f)
{
    fleet_open_rollout(f, 0, by_name(f));
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
}

static weft_status fetch(const fleet *f, uint32_t deadline_ms)
{
    weft_layout *layout = NULL;
    weft_site *site = fleet_site(f, by_name(f));
    weft_status status = weft_layout_fetch(site, "a", deadline_ms, &layout);
    assert_true((status == WEFT_OK) == (layout != NULL));
    weft_layout_free(layout);
    weft_site_free(site);
    return status;
}

static void knows_itself(fleet *f)
{
    (void)f;
    be_unknown(0);
    is_at("127.0.0.1", NULL);
}

static void ended(fleet *f)
{
    (void)f;
    be_silent(false);
}

static const fleet_kind plain_fleet = {FLEET_SMALL, .overrides = FLEET_WITH("security.mode=open"), .open = knows_itself,
                                       .close = ended};

static void a_name_may_come_to_be_known_later(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    be_unknown(3);
    join_by_name(f);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    assert_int_equal(read_under_lock(&name.unknown), 0);
    be_unknown(3);
    assert_int_equal(fetch(f, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(read_under_lock(&name.unknown), 0);
}

static void one_that_nobody_knows_is_told_after_the_deadline(void **state)
{
    fleet *f = *state;
    weft_session *session = NULL;
    is_at(NULL, NULL);
    f->overrides[f->override_count++] = "session.connect_deadline=300ms";
    weft_site *site = fleet_site(f, by_name(f));
    uint64_t begun = fleet_now_ms();
    assert_int_equal(weft_rollout_open(site, "a", f->layout, NULL, &session), WEFT_E_UNREACHABLE);
    assert_true(fleet_now_ms() - begun >= 300);
    assert_non_null(strstr(weft_last_error(), "connect_deadline"));
    assert_non_null(strstr(weft_last_error(), HOST));
    weft_site_free(site);
    assert_int_equal(fetch(f, 100), WEFT_E_UNREACHABLE);
}

/* Its end comes while the name server still owes an answer. */
static void a_name_server_does_not_hold_up_the_deadline(void **state)
{
    fleet *f = *state;
    weft_session *session = NULL;
    be_silent(true);
    assert_int_equal(fetch(f, 100), WEFT_E_UNREACHABLE);
    f->overrides[f->override_count++] = "session.connect_deadline=100ms";
    weft_site *site = fleet_site(f, by_name(f));
    assert_int_equal(weft_rollout_open(site, "a", f->layout, NULL, &session), WEFT_E_UNREACHABLE);
    assert_non_null(strstr(weft_last_error(), "name server"));
    weft_site_free(site);
}

static void the_trainer_comes_back_at_another_address(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    join_by_name(f);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    unsigned port = port_of(f);
    fleet_stop_trainer(f);
    is_at("127.0.0.2", NULL);
    snprintf(f->listen, sizeof f->listen, "trainer.listen=127.0.0.2:%u", port);
    fleet_start_trainer(f, NULL);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
}

/* Looking its name up does not keep a rollout from coming back to where the trainer was. */
static void the_trainer_comes_back_while_the_name_server_is_silent(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    join_by_name(f);
    be_silent(true);
    fleet_stop_trainer(f);
    while (!read_under_lock(&name.waiting))
        fleet_sleep_ms(1);
    fleet_start_trainer(f, NULL);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    fleet_leave(f, 0);
}

static void all_addresses_of_a_name_are_tried(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    is_at("127.0.0.3", "127.0.0.1");
    assert_int_equal(fetch(f, FLEET_WAIT_MS), WEFT_OK);
    join_by_name(f);
}

/* The first that the peer is to join at is a host of that name, the others are numbers. */
static void name_the_relay(fleet *f)
{
    f->overrides[f->override_count++] = "peer.b.relay=" HOST ":9";
    f->overrides[f->override_count++] = "peer.a.via=b";
    f->overrides[f->override_count++] = "peers.heartbeat=300ms";
}

/* A name without an answer does not keep a rollout from addresses that need none. */
static void a_silent_name_does_not_hold_up_the_others(void **state)
{
    fleet *f = *state;
    weft_layout *layout = NULL;
    fleet_start_trainer(f, NULL);
    name_the_relay(f);
    be_silent(true);
    fleet_open_rollout(f, 0, NULL);
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_true(read_under_lock(&name.waiting) > 0);
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_layout_fetch(site, "a", FLEET_WAIT_MS, &layout), WEFT_OK);
    assert_true(read_under_lock(&name.waiting) > 0);
    weft_layout_free(layout);
    weft_site_free(site);
    fleet_leave(f, 0);
}

/* Nor does a host that takes connections and says nothing keep one from the layout. */
static void a_silent_host_does_not_hold_up_the_others(void **state)
{
    fleet *f = *state;
    char relay[96], bound[64];
    int fd = -1;
    weft_layout *layout = NULL;
    assert_int_equal(weft_control_listen("127.0.0.1:0", &fd, bound), WEFT_OK);
    snprintf(relay, sizeof relay, "peer.b.relay=%s", bound);
    fleet_start_trainer(f, NULL);
    name_the_relay(f);
    f->overrides[f->override_count++] = relay;
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_layout_fetch(site, "a", FLEET_WAIT_MS, &layout), WEFT_OK);
    weft_layout_free(layout);
    weft_site_free(site);
    close(fd);
}

#define TEST(test) FLEET_TEST(test, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_name_may_come_to_be_known_later),
        TEST(one_that_nobody_knows_is_told_after_the_deadline),
        TEST(a_name_server_does_not_hold_up_the_deadline),
        TEST(the_trainer_comes_back_at_another_address),
        TEST(the_trainer_comes_back_while_the_name_server_is_silent),
        TEST(all_addresses_of_a_name_are_tried),
        TEST(a_silent_name_does_not_hold_up_the_others),
        TEST(a_silent_host_does_not_hold_up_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
