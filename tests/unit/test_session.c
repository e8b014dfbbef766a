/* Parts of a session by themselves, in time of one's own: what a step waits for, how long something that is not there
 * is waited for, events, and where weights may lie. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backends/host/host.h"
#include "base/status.h"
#include "layout/layout.h"
#include "session/await.h"
#include "session/session.h"
#include "tests/support/site_load.h"

static uint64_t time_ns;
static unsigned warnings;
static weft_session *sleeper; /* its lock is free while it sleeps */

static uint64_t now_ns(void *user)
{
    (void)user;
    return time_ns;
}

static void pass(void *user, uint64_t ns)
{
    (void)user;
    time_ns += ns;
    if (sleeper)
        assert_int_equal(pthread_mutex_trylock(&sleeper->lock) || pthread_mutex_unlock(&sleeper->lock), 0);
}

static const weft_clock hand = {now_ns, pass, NULL};

static void hear(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)line;
    warnings += level == WEFT_LOG_WARN;
}

static char own[64]; /* lines that the callback got, with their levels */

static void hear_own(void *user, weft_log_level level, const char *line)
{
    (void)user;
    snprintf(own + strlen(own), sizeof own - strlen(own), "%d%s ", (int)level, line);
}

static void figures(const weft_session *session, weft_stats_info *stats)
{
    (void)session;
    (void)stats;
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
    session->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    session->lines = calloc(WEFT_LOG_LINES, WEFT_LOG_KEPT);
    session->line_levels = calloc(WEFT_LOG_LINES, sizeof *session->line_levels);
    session->options.log = hear_own;
    session->own_log = true;
    session->figures = figures;
    session->site = load("[peers]\nprovider = loop\n[peer.a]\n");
    own[0] = 0;
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
    sleeper = NULL;
    weft_site_free(session->site);
    free(session->lines);
    free(session->line_levels);
    close(session->wake_fd);
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

static weft_waits wants; /* what a step says */
static uint64_t wakes_in_ns;
static unsigned steps;

static void step_wants(weft_session *session, bool work, weft_waits *waits)
{
    (void)session;
    assert_true(work);
    steps++;
    waits->busy = wants.busy;
    waits->blind = wants.blind;
    weft_waits_until(waits, time_ns + wakes_in_ns);
}

/* A step is slept after for as long as it said, without the lock; an interrupt ends that once. */
static void a_step_is_slept_after(void **state)
{
    static const struct {
        bool busy, blind, interrupted;
        uint64_t wakes_ms, deadline_ms, slept_us;
    } rows[] = {
        {false, false, false, 10, 20, 10000}, {false, false, false, 30, 20, 20000},
        {true, false, false, 10, 20, 0},      {false, true, false, 10, 20, 20},
        {false, true, false, 10, 20, 40},     {true, true, false, 10, 20, 0},
        {false, true, false, 10, 20, 20},     {false, false, true, 10, 20, 0},
        {false, false, false, 10, 20, 10000},
    };
    weft_session *session = sleeper = *state;
    session->step = step_wants;
    session->caller_blind_ns = 20000;
    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint64_t before = time_ns;
        wants.busy = rows[i].busy;
        wants.blind = rows[i].blind;
        wakes_in_ns = rows[i].wakes_ms * WEFT_NS_PER_MS;
        steps = 0;
        if (rows[i].interrupted)
            weft_interrupt(session);
        assert_true(weft_session_wait(session, before + rows[i].deadline_ms * WEFT_NS_PER_MS)); /* there is no thread */
        assert_int_equal(steps, 1);
        assert_int_equal((time_ns - before) / 1000, rows[i].slept_us);
    }
    pthread_mutex_unlock(&session->lock);
}

/* A wake-up has the thread look at everything, and a nudge only at what is due. */
static void who_wakes_the_thread(void **state)
{
    weft_session *session = *state;
    uint64_t count = 0;
    weft_session_nudge(session);
    assert_false(session->woken);
    assert_int_equal(read(session->wake_fd, &count, sizeof count), sizeof count);
    weft_session_wake(session);
    assert_true(session->woken);
    assert_int_equal(read(session->wake_fd, &count, sizeof count), sizeof count);
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

/* Events come in order, each with its own version or none, whatever stood in its place of the ring before. */
static void events_in_order(void **state)
{
    weft_session *session = *state;
    for (uint64_t i = 0; i <= WEFT_EVENTS; i += 2) {
        const weft_version version = {7, i, 9}, none = {0};
        weft_event event = {.size = sizeof event};
        weft_session_event(session, WEFT_EVENT_HELD, WEFT_OK, "p", i < WEFT_EVENTS ? &version : NULL, "first");
        weft_session_event(session, WEFT_EVENT_HELD, WEFT_OK, "p", &version, "second");
        assert_int_equal(weft_events(session, &event), WEFT_OK);
        assert_string_equal(event.text, "first");
        assert_memory_equal(&event.version, i < WEFT_EVENTS ? &version : &none, sizeof version);
        assert_int_equal(weft_events(session, &event), WEFT_OK);
        assert_string_equal(event.text, "second");
    }
}

/* Lines come in order, with their levels, by the caller's own call, until the session was given up. */
static void lines_in_order(void **state)
{
    weft_session *session = *state;
    session->step = step_wants;
    steps = 0;
    weft_session_line(&session->sink, WEFT_LOG_WARN, "a");
    weft_session_line(&session->sink, WEFT_LOG_INFO, "b");
    assert_string_equal(own, "");
    assert_int_equal(weft_progress(session, 0), WEFT_OK);
    assert_string_equal(own, "1a 2b ");
    assert_int_equal(steps, 0); /* they are the thread's */
    atomic_store(&session->retired, true);
    weft_session_line(&session->sink, WEFT_LOG_WARN, "c");
    weft_session_hand_out(session);
    assert_string_equal(own, "1a 2b ");
}

/* Structs of callers that were built with another weft.h. */
static void other_sizes(void **state)
{
    weft_session *session = *state;
    weft_stats_info stats, none;
    weft_options options = {.size = offsetof(weft_options, run), .first_version = 5, .run = 7};
    weft_options read = weft_session_options(&options);
    assert_true(read.run == 0 && read.first_version == (offsetof(weft_options, first_version) < options.size ? 5 : 0));
    memset(&stats, 0xee, sizeof stats);
    none = stats;
    stats.size = offsetof(weft_stats_info, allocations);
    assert_int_equal(weft_stats(session, &stats), WEFT_OK);
    assert_int_equal(stats.size, offsetof(weft_stats_info, allocations));
    assert_memory_equal((char *)&stats + stats.size, (char *)&none + stats.size, sizeof stats - stats.size);
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

static weft_layout *two_matrices(uint64_t rows)
{
    const uint64_t shape[] = {rows, 16};
    const weft_tensor tensors[] = {{"first", WEFT_U8, 2, shape}, {"second", WEFT_U8, 2, shape}};
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
    weft_layout *layout = two_matrices(8);
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

/* Two tensors in two pieces each, which are one unit or two, and one frame may have both. */
static void too_many_pieces_are_refused(void **state)
{
    static uint8_t memory[1 << 20];
    weft_session *session = *state;
    static const weft_backend backend = {.runs = three_runs, .check = check};
    session->backend = &backend;
    elsewhere = NULL;
    for (uint64_t half = 64; half <= 131072; half += 131008) {
        weft_layout *layout = two_matrices(half / 8);
        weft_binding binding;
        const weft_piece pieces[] = {{0, 0, half, memory},
                                     {0, half, half, memory + half + 9},
                                     {1, 0, half, memory + 2 * half + 19},
                                     {1, half, half, memory + 3 * half + 29}};
        assert_int_equal(layout->unit_count, half == 64 ? 1 : 2);
        assert_int_equal(weft_binding_open(layout, pieces, 4, &binding), WEFT_OK);
        assert_int_equal(weft_session_check(session, &binding), WEFT_E_LAYOUT);
        assert_non_null(strstr(weft_last_error(), "tensor first and those after it lie in 4 pieces"));
        weft_binding_close(&binding);
        weft_layout_free(layout);
    }
}

/* Digests are counted from nothing, whatever stood in their place. */
static void digests_begin_at_nothing(void **state)
{
    static uint8_t memory[256];
    weft_layout *layout = two_matrices(8);
    const weft_backend_options options = {-1, "portable", 0, 0};
    weft_backend_state *device;
    weft_pipeline window;
    weft_binding binding;
    uint64_t root[2], sums[2][8];
    (void)state;
    assert_true(layout->part_count <= 8);
    assert_int_equal(weft_backend_host.open(&options, &device), WEFT_OK);
    assert_int_equal(weft_pipeline_open(&window, &weft_backend_host, device), WEFT_OK);
    assert_int_equal(weft_binding_open_image(layout, memory, &binding), WEFT_OK);
    memset(sums[0], 0, sizeof sums[0]);
    memset(sums[1], 0xee, sizeof sums[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft_session_digest(&window, &binding, sums[i], &root[i]), WEFT_OK);
    assert_int_equal(root[0], root[1]);
    weft_binding_close(&binding);
    weft_pipeline_close(&window);
    weft_backend_host.close(device);
    weft_layout_free(layout);
}

/* ---- open */

static void opened_or_refused(void **state)
{
    weft_session *session = *state, *made = NULL;
    const weft_slice slice = {0};
    const weft_options options = {.size = sizeof options, .slices = &slice, .slice_count = 1};
    const weft_backend_options work = {-1, "portable", 0, 0};
    weft_layout *layout = two_matrices(8);
    weft_division division;
    (void)state;
    for (int known = 0; known < 2; known++) {
        assert_int_equal(weft_session_divide(session->site, layout, NULL, true, &division), WEFT_OK);
        assert_int_equal(
            weft_session_make(session->site, &division, &options, known ? "host" : "abacus", &work, 4, &made),
            known ? WEFT_OK : WEFT_E_MISSING);
    }
    assert_true(made->has_share && !made->options.slices); /* the caller may free them now */
    weft_session_unmake(made);
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

/* The site names the device, or else the program. */
static void which_device(void **state)
{
    const weft_options none = {.size = sizeof none}, second = {.size = sizeof second, .device = 2};
    const weft_options old = {.size = offsetof(weft_options, device), .device = 2};
    (void)state;
    assert_int_equal(weft_session_device(-1, NULL), -1);
    assert_int_equal(weft_session_device(-1, &none), -1);
    assert_int_equal(weft_session_device(-1, &second), 1);
    assert_int_equal(weft_session_device(-1, &old), -1);
    assert_int_equal(weft_session_device(0, &second), 0);
    assert_int_equal(weft_session_device(7, NULL), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ports_are_waited_for),
        TEST(what_has_no_place_is_polled),
        TEST(a_blind_sleep_doubles),
        TEST(a_step_is_slept_after),
        TEST(who_wakes_the_thread),
        TEST(a_forked_child_interrupts_nothing),
        TEST(a_refused_event_stays),
        TEST(events_in_order),
        TEST(lines_in_order),
        TEST(other_sizes),
        TEST(absence_is_waited_for),
        TEST(weights_elsewhere_are_refused),
        TEST(too_many_pieces_are_refused),
        TEST(digests_begin_at_nothing),
        TEST(opened_or_refused),
        TEST(what_was_given_up_is_waited_for),
        TEST(which_device),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
