/* Parts of a session by themselves, in time of one's own: what a step waits for, how long something that is not there
 * is waited for, events, and where weights may lie. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/status.h"
#include "layout/layout.h"
#include "session/await.h"
#include "session/session.h"
#include "tests/support/site_load.h"

static uint64_t time_ns;
static unsigned warnings;

static uint64_t now_ns(void *user)
{
    (void)user;
    return time_ns;
}

static void pass(void *user, uint64_t ns)
{
    (void)user;
    time_ns += ns;
}

static const weft_clock hand = {now_ns, pass, NULL};

static void hear(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)line;
    warnings += level == WEFT_LOG_WARN;
}

static weft_log_sink sink = {WEFT_LOG_DEBUG, hear};

static int begin(void **state)
{
    weft_session *session = calloc(1, sizeof *session);
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->log_lock, NULL);
    pthread_cond_init(&session->changed, NULL);
    weft_turn_open(&session->turn);
    session->events = calloc(WEFT_EVENTS, sizeof *session->events);
    session->caller_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    session->caller_waits = (weft_waits){.fds = calloc(2, sizeof(struct pollfd)), .capacity = 2};
    session->sink = sink;
    time_ns = 1;
    warnings = 0;
    weft_clock_own = &hand;
    weft_log_enter(&sink);
    *state = session;
    return 0;
}

static int end(void **state)
{
    weft_session *session = *state;
    weft_log_enter(NULL);
    weft_clock_own = NULL;
    close(session->caller_fd);
    free(session->caller_waits.fds);
    free(session->events);
    free(session);
    return 0;
}

/* ---- what a step waits for */

static int port_fd;
static weft_status armed;
static unsigned asked;

static int wait_fd(const weft_port *port)
{
    (void)port;
    asked++;
    return port_fd;
}

static weft_status wait_arm(weft_port *port)
{
    (void)port;
    return armed;
}

/* A port with a descriptor is slept on, unless it has work already; one without is polled. */
static void ports_are_waited_for(void **state)
{
    static const struct {
        bool busy_before;
        int fd;
        weft_status armed;
        unsigned asked, fds;
        bool busy, blind;
    } rows[] = {
        {false, 5, WEFT_OK, 1, 1, false, false},
        {false, 5, WEFT_AGAIN, 1, 0, true, false},
        {false, -1, WEFT_AGAIN, 1, 0, false, true},
        {true, 5, WEFT_OK, 0, 0, true, false},
    };
    const weft_provider provider = {.wait_fd = wait_fd, .wait_arm = wait_arm};
    struct pollfd fds[1];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_waits waits = {.fds = fds, .capacity = 1, .busy = rows[i].busy_before};
        port_fd = rows[i].fd;
        armed = rows[i].armed;
        asked = 0;
        weft_waits_port(&waits, &provider, NULL);
        assert_int_equal(asked, rows[i].asked);
        assert_int_equal(waits.count, rows[i].fds);
        assert_true(waits.busy == rows[i].busy && waits.blind == rows[i].blind);
    }
}

static void what_has_no_place_is_polled(void **state)
{
    struct pollfd fds[2];
    weft_waits waits = {.fds = fds, .capacity = 2};
    (void)state;
    weft_waits_fd(&waits, 3, POLLIN);
    weft_waits_fd(&waits, -1, POLLIN);
    weft_waits_fd(&waits, 4, POLLIN);
    assert_true(waits.count == 2 && !waits.blind);
    weft_waits_fd(&waits, 5, POLLIN);
    assert_true(waits.count == 2 && waits.blind);
}

static void step_blind(weft_session *session, bool work, weft_waits *waits)
{
    (void)session;
    (void)work;
    waits->blind = true;
}

/* The sleep of a port without a descriptor doubles up to 5 ms, and ends with the deadline. */
static void a_blind_sleep_doubles(void **state)
{
    weft_session *session = *state;
    const uint64_t least = 20000, most = 5 * WEFT_NS_PER_MS;
    session->step = step_blind;
    session->caller_blind_ns = least;
    pthread_mutex_lock(&session->lock);
    for (uint64_t wanted = least, i = 0; i < 12; i++, wanted = wanted * 2 < most ? wanted * 2 : most) {
        const uint64_t before = time_ns;
        weft_session_step_once(session, UINT64_MAX);
        assert_int_equal(time_ns - before, wanted);
    }
    const uint64_t before = time_ns;
    weft_session_step_once(session, before + 7);
    assert_int_equal(time_ns, before + 7);
    assert_false(weft_session_wait(session, time_ns)); /* nothing is left of that time, so there is no step */
    assert_int_equal(time_ns, before + 7);
    pthread_mutex_unlock(&session->lock);
}

static void a_forked_child_interrupts_nothing(void **state)
{
    weft_session *session = *state;
    session->turn.process = getppid();
    weft_interrupt(session);
    assert_false(weft_session_interrupted(session));
    session->turn.process = getpid();
    weft_interrupt(session);
    assert_true(weft_session_interrupted(session));
    assert_false(weft_session_interrupted(session));
}

static void a_refused_event_stays(void **state)
{
    weft_session *session = *state;
    weft_event event = {.size = 0};
    weft_session_event(session, WEFT_EVENT_HELD, WEFT_OK, "p", NULL, "text");
    assert_int_equal(weft_events(session, &event), WEFT_E_ARGUMENT);
    assert_int_equal(weft_events(session, NULL), WEFT_E_ARGUMENT);
    event.size = sizeof event;
    assert_int_equal(weft_events(session, &event), WEFT_OK);
    assert_string_equal(event.text, "text");
    assert_int_equal(weft_events(session, &event), WEFT_AGAIN);
}

/* ---- what is not there yet */

/* Each reason is told once, and all of them together have connect_deadline. */
static void absence_is_waited_for(void **state)
{
    static const char *const reasons[] = {"eth0 is down", "eth0 is down", "eth0 has no carrier", "eth0 has no carrier"};
    weft_site *site = load("[session]\nconnect_deadline = 1s\n[peers]\nprovider = loop\n[peer.a]\n");
    unsigned tries = 0;
    (void)state;
    weft_await await = weft_await_begin(site);
    do
        weft_fail_quiet(WEFT_AGAIN, "%s", reasons[tries < 3 ? tries : 3]);
    while (tries++ < 100 && weft_await_more(&await, WEFT_AGAIN));
    assert_int_equal(time_ns, 1 + 1000 * WEFT_NS_PER_MS);
    assert_int_equal(warnings, 2);
    assert_int_equal(weft_await_end(&await, WEFT_AGAIN), WEFT_E_UNREACHABLE);
    assert_non_null(strstr(weft_last_error(), "1000 ms (connect_deadline): eth0 has no carrier"));
    await = weft_await_begin(site);
    assert_false(weft_await_more(&await, WEFT_E_CONFIG)); /* what never comes is not waited for */
    assert_int_equal(weft_await_end(&await, WEFT_E_CONFIG), WEFT_E_CONFIG);
    assert_false(weft_await_more(&await, WEFT_OK));
    assert_int_equal(weft_await_end(&await, WEFT_OK), WEFT_OK);
    weft_site_free(site);
}

/* ---- where weights may lie */

static const uint8_t *elsewhere;

static const char *check(weft_backend_state *state, const void *data, uint64_t bytes)
{
    const uint8_t *at = data;
    (void)state;
    return elsewhere >= at && elsewhere < at + bytes ? "lies elsewhere" : NULL;
}

static uint64_t three_runs(const weft_backend_state *state)
{
    (void)state;
    return 3;
}

static weft_status rest(weft_backend_state *state)
{
    weft_session *session = (weft_session *)state;
    assert_int_equal(pthread_mutex_trylock(&session->lock), 0); /* the thread goes on meanwhile */
    pthread_mutex_unlock(&session->lock);
    return WEFT_E_TIMEOUT;
}

static weft_layout *two_matrices(void)
{
    static const uint64_t shape[] = {8, 16};
    static const weft_tensor tensors[] = {{"first", WEFT_U8, 2, shape}, {"second", WEFT_U8, 2, shape}};
    weft_layout *layout = NULL;
    assert_int_equal(weft_layout_create(tensors, 2, &layout), WEFT_OK);
    return layout;
}

/* The second tensor is two pieces, or two boxes side by side in the columns of a matrix. */
static void weights_elsewhere_are_refused(void **state)
{
    static uint8_t memory[2][256];
    static const struct {
        bool boxes;
        uint64_t at; /* byte of the second memory that lies elsewhere; 999: none does */
        const char *text;
    } rows[] = {
        {false, 999, NULL},
        {false, 3, "tensor second: "},
        {false, 70, "tensor second: "},
        {true, 999, NULL},
        {true, 0, "second, 8 rows from 0 of 8, 8 columns from 0 of 16: "},
        {true, 140, "second, 8 rows from 0 of 8, 8 columns from 8 of 16: "},
    };
    weft_session *session = *state;
    weft_backend backend = {.runs = three_runs, .check = check};
    weft_layout *layout = two_matrices();
    const weft_piece pieces[] = {{0, 0, 128, memory[0]}, {1, 0, 64, memory[1]}, {1, 64, 64, memory[1] + 64}};
    const weft_block blocks[] = {
        {.slice = {0, 0, 8, 0, 16}, .data = memory[0]},
        {.slice = {1, 0, 8, 0, 8}, .data = memory[1], .row = {{8, 12}}, .column = {{8, 1}}},
        {.slice = {1, 0, 8, 8, 8}, .data = memory[1] + 128, .row = {{8, 12}}, .column = {{8, 1}}},
    };
    session->backend = &backend;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_binding binding;
        assert_int_equal(rows[i].boxes ? weft_binding_open_blocks(layout, blocks, 3, &binding)
                                       : weft_binding_open(layout, pieces, 3, &binding),
                         WEFT_OK);
        elsewhere = rows[i].at == 999 ? NULL : memory[1] + rows[i].at;
        assert_int_equal(weft_session_check(session, &binding), rows[i].text ? WEFT_E_ARGUMENT : WEFT_OK);
        if (rows[i].text)
            assert_non_null(strstr(weft_last_error(), rows[i].text));
        weft_binding_close(&binding);
    }
    weft_layout_free(layout);
}

static void too_many_pieces_are_refused(void **state)
{
    static uint8_t memory[300];
    weft_session *session = *state;
    weft_backend backend = {.runs = three_runs, .check = check};
    weft_layout *layout = two_matrices();
    weft_binding binding;
    const weft_piece pieces[] = {
        {0, 0, 128, memory}, {1, 0, 64, memory + 130}, {1, 64, 32, memory + 195}, {1, 96, 32, memory + 230}};
    session->backend = &backend;
    elsewhere = NULL;
    assert_int_equal(weft_binding_open(layout, pieces, 4, &binding), WEFT_OK);
    assert_int_equal(weft_session_check(session, &binding), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "tensor first and those after it lie in 4 pieces"));
    weft_binding_close(&binding);
    weft_layout_free(layout);
}

static void what_was_given_up_is_waited_for(void **state)
{
    weft_session *session = *state;
    weft_backend backend = {.name = "fake"};
    session->backend = &backend;
    session->device = (weft_backend_state *)session;
    pthread_mutex_lock(&session->lock);
    assert_int_equal(weft_session_rest(session), WEFT_OK); /* nothing is ever given up */
    backend.rest = rest;
    assert_int_equal(weft_session_rest(session), WEFT_E_TIMEOUT);
    pthread_mutex_unlock(&session->lock);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ports_are_waited_for),
        TEST(what_has_no_place_is_polled),
        TEST(a_blind_sleep_doubles),
        TEST(a_forked_child_interrupts_nothing),
        TEST(a_refused_event_stays),
        TEST(absence_is_waited_for),
        TEST(weights_elsewhere_are_refused),
        TEST(too_many_pieces_are_refused),
        TEST(what_was_given_up_is_waited_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
