/* A relay that is not joined yet keeps those behind it waiting. One of them that comes again and again has one place.
 */
#include "tests/support/fleet_fake.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "relay/relay.h"

#define PLACES  16u
#define SOON_MS 5000u /* less than the time for which a relay lets a rollout wait */

static fleet_fake liars[PLACES];
static int listener;

static void listens(fleet *f)
{
    listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
}

static void ended(fleet *f)
{
    (void)f;
    for (unsigned i = 0; i < PLACES; i++)
        fake_close(&liars[i]);
    if (listener >= 0)
        close(listener);
}

/* a is a relay, b and c are behind it, and who listens for the trainer says nothing. */
static const fleet_kind plain_fleet = {
    FLEET_SMALL,
    .overrides = FLEET_WITH("peer.a.relay_memory=40MiB", "peer.b.via=a", "peer.c.via=a", "peer.c.last_resort=none"),
    .relays = "a", .opened = listens, .close = ended};

static weft_session *relay_session(fleet *f)
{
    return f->rollouts[0].session;
}

/* How many of that name have said HELLO to the relay, and wait. */
static uint32_t waiting(fleet *f, const char *name)
{
    weft_session *session = relay_session(f);
    uint32_t count = 0;
    pthread_mutex_lock(&session->lock);
    const weft_relay *relay = session->rollout->relay;
    for (uint32_t i = 0; i < relay->child_count; i++) {
        const weft_child *child = &relay->children[i];
        count += child->state == WEFT_CHILD_GUEST && child->greeted && strcmp(child->hello.name, name) == 0;
    }
    pthread_mutex_unlock(&session->lock);
    return count;
}

/* Whether the relay has acted on the HELLOs of so many. */
static bool took(fleet *f, uint32_t guests)
{
    weft_session *session = relay_session(f);
    pthread_mutex_lock(&session->lock);
    const weft_relay *relay = session->rollout->relay;
    bool took = relay->next_route == guests;
    for (uint32_t i = 0; i < relay->child_count; i++)
        took = took && (relay->children[i].state != WEFT_CHILD_GUEST || relay->children[i].greeted);
    pthread_mutex_unlock(&session->lock);
    return took;
}

static void one_place_for_a_name(void **state)
{
    fleet *f = *state;
    const uint32_t places = relay_session(f)->rollout->relay->child_count;
    assert_in_range(places, 2, PLACES);
    for (uint32_t i = 0; i < places; i++) {
        weft_wire_hello hello;
        fake_open_from(&liars[i], f->relays[0], 1);
        fake_hello(&liars[i], f, "b", 7, &hello);
        hello.incarnation = i + 1;
        fake_send_hello(&liars[i], &hello);
        while (!took(f, i + 1))
            fleet_sleep_ms(1);
    }
    fleet_join(f, 2, FLEET_SAME);
    for (uint64_t end = fleet_now_ms() + SOON_MS; fleet_now_ms() < end && waiting(f, "c") == 0;)
        fleet_sleep_ms(5);
    assert_int_equal(waiting(f, "c"), 1);
    assert_int_equal(waiting(f, "b"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(one_place_for_a_name, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
