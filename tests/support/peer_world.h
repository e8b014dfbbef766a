/* peer_world.h - the trainer of a simulation, and its records of three rollouts that hold the newest of some versions,
 * by two rails each. Tests change a field of a record, call one function of core/peer, and look at the record. */
#ifndef WEFT_TESTS_PEER_WORLD_H
#define WEFT_TESTS_PEER_WORLD_H

#include "base/status.h"
#include "rollout/rollout.h"
#include "tests/support/sim_tick.h"

static fleet_size world_size = FLEET_SMALL;
static sim *s;
static weft_trainer *trainer;
static weft_publisher *publisher;
static weft_peer *a, *b, *c, *guest; /* and a place for a fourth */

static int open_world(void **state)
{
    static const char *const names[] = {"auto1", "auto2", "auto3"};
    (void)state;
    s = sim_open(world_size, 3, 1);
    s->time.now_ns = 60000 * WEFT_NS_PER_MS;
    s->overrides[0] = "trainer.address=r0, r1";
    s->overrides[1] = "peers.address=r0, r1";
    snprintf(s->attachment, sizeof s->attachment, "label");
    sim_start_trainer(s);
    for (unsigned i = 0; i < 3; i++)
        sim_join(s, &s->rollouts[i], names[i], i < 2 ? s->dense : NULL, "commit.snapshot=staged");
    for (unsigned i = 0; i < 3; i++) {
        sim_settle(s, 20000);
        sim_publish(s, 100);
    }
    sim_settle(s, 20000);
    trainer = s->trainer.session->trainer;
    publisher = &trainer->publisher;
    a = sim_record(s, "auto1");
    b = sim_record(s, "auto2");
    c = sim_record(s, "auto3");
    guest = sim_record(s, "");
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    sim_kill_trainer(s);
    sim_close(s);
    return 0;
}

static inline void anew(void)
{
    close_world(NULL);
    open_world(NULL);
}

/* A field of a record that gets another value. */
typedef struct poke {
    size_t at, bytes;
    uint64_t value;
} poke;

#define POKE(field, value)                                                                                             \
    {                                                                                                                  \
        offsetof(weft_peer, field), sizeof(((weft_peer *)0)->field), (uint64_t)(value)                                 \
    }

static inline void put(weft_peer *peer, const poke *p)
{
    memcpy((uint8_t *)peer + p->at, &p->value, p->bytes);
}

static inline weft_update *newest(void)
{
    return weft_journal_at(&publisher->journal, publisher->newest.order);
}

/* The peer lacks the newest version. */
static inline void step_back(weft_peer *peer)
{
    peer->standing.held = newest()->base;
    peer->standing.held_order = peer->standing.sent_order = newest()->from;
}

/* Returns the body of the next message to auto1, which is of that type. */
static inline const uint8_t *heard(weft_message wanted, uint64_t *length)
{
    weft_control *control = &s->rollouts[0].session->rollout->joining.control;
    const uint8_t *body;
    weft_message type;
    assert_int_equal(weft_control_flush(&a->connection.control), WEFT_OK);
    assert_int_equal(weft_control_fill(control), WEFT_OK);
    assert_int_equal(weft_control_next(control, &type, &body, length), WEFT_OK);
    weft_control_drop(control);
    assert_int_equal(type, wanted);
    return body;
}

/* A merge leaves the lock meanwhile. */
static inline int open_locked(void **state)
{
    open_world(state);
    return pthread_mutex_lock(&trainer->session->lock);
}

static inline int close_locked(void **state)
{
    publisher->bridge.running = false;
    pthread_mutex_unlock(&trainer->session->lock);
    return close_world(state);
}

#define TEST(name)   cmocka_unit_test_setup_teardown(name, open_world, close_world)
#define LOCKED(name) cmocka_unit_test_setup_teardown(name, open_locked, close_locked)

#endif
