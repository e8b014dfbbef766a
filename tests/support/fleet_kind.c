/* fleet_kind.c - opens and closes the fleets that tests ask for, and says how a test fails, hears and kills. */
#include <stdlib.h>
#include <sys/socket.h>

#include "harness/clock.h"
#include "joint/joint.h"
#include "peer/peer.h"
#include "tests/support/fleet.h"
#include "tests/support/port.h"

void fleet_fail(const char *format, ...)
{
    char text[512];
    const fleet_clock *clock = fleet_clock_now();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (clock && clock->first_seed)
        fail_msg("WEFT_SEED=%llu, round %llu, %llu ms: %s", (unsigned long long)clock->first_seed,
                 (unsigned long long)clock->rounds, (unsigned long long)(clock->now_ns / WEFT_NS_PER_MS), text);
    fail_msg("%s", text);
    abort();
}

void fleet_hear(void *user, weft_log_level level, const char *line)
{
    if (getenv("WEFT_TEST_LOG"))
        fprintf(stderr, "%8llu %s %d: %s\n", (unsigned long long)(weft_clock_ns() / WEFT_NS_PER_MS % 1000000),
                (const char *)user, level, line);
}

void fleet_cut(const weft_session *session)
{
    const weft_trainer *trainer = session->trainer;
    const weft_joint *joint = session->joint;
    for (uint32_t i = 0; trainer && i < trainer->peers.count; i++)
        if (trainer->peers.list[i].connection.control.fd >= 0)
            shutdown(trainer->peers.list[i].connection.control.fd, SHUT_RDWR);
    for (uint32_t i = 0; joint && i < joint->count; i++)
        if (joint->ends[i]->joining.control.fd >= 0)
            shutdown(joint->ends[i]->joining.control.fd, SHUT_RDWR);
}

void fleet_add_relays(fleet *f, const char *names)
{
    for (unsigned i = 0; names && names[i]; i++) {
        snprintf(f->relays[i], sizeof f->relays[i], "peer.%c.relay=127.0.0.1:%u", names[i], port_free());
        f->overrides[f->override_count++] = f->relays[i];
    }
}

int fleet_setup(void **state)
{
    const fleet_kind *kind = *state;
    fleet *f = *state = kind->device ? fleet_open_device(kind->size, kind->overrides, false, true, 5)
                                     : fleet_open(kind->size, kind->overrides);
    f->kind = kind;
    f->wants = kind->wants;
    f->tells = kind->tells;
    fleet_add_relays(f, kind->relays);
    if (kind->open)
        kind->open(f);
    if (kind->starts)
        fleet_start_trainer(f, kind->attachment);
    for (unsigned at = 0; at < kind->joins; at++) {
        fleet_join(f, at, FLEET_SAME);
        fleet_catch_up(f, at);
        fleet_wait_state(f, f->rollouts[at].name, WEFT_PEER_LIVE, FLEET_WAIT_MS);
    }
    if (kind->opened)
        kind->opened(f);
    return 0;
}

int fleet_teardown(void **state)
{
    fleet *f = *state;
    if (f->kind && f->kind->close)
        f->kind->close(f);
    fleet_close(f);
    return 0;
}
