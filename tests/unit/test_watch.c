/* Connections that are watched: what is ready is stirred under its number, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/watch.h"

#define MANY 200u

typedef struct world {
    weft_watch watch;
    weft_control ends[MANY];
    int others[MANY];
} world;

static world *open_world(uint32_t count)
{
    static world w;
    w = (world){.watch = {.fd = -1}};
    assert_int_equal(weft_watch_open(&w.watch, MANY), WEFT_OK);
    for (uint32_t i = 0; i < count; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
        assert_int_equal(weft_control_open(&w.ends[i]), WEFT_OK);
        weft_control_adopt(&w.ends[i], pair[0], 1000);
        w.others[i] = pair[1];
        assert_true(weft_watch_control(&w.watch, &w.ends[i], i, true, false));
    }
    return &w;
}

static void close_world(world *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        weft_control_close(&w->ends[i]);
        close(w->others[i]);
    }
    weft_watch_close(&w->watch);
}

static uint32_t stirred(world *w)
{
    uint32_t count = 0;
    weft_watch_gather(&w->watch);
    for (uint32_t i = 0; i < MANY; i++) {
        count += w->watch.stirred[i];
        w->watch.stirred[i] = false;
    }
    return count;
}

static void say(const world *w, uint32_t number)
{
    assert_int_equal(send(w->others[number], "x", 1, 0), 1);
}

static void hear(world *w, uint32_t number)
{
    assert_int_equal(weft_control_fill(&w->ends[number]), WEFT_OK);
}

static void only_what_is_ready(void **state)
{
    (void)state;
    world *w = open_world(3);
    assert_int_equal(stirred(w), 0);
    say(w, 1);
    weft_watch_gather(&w->watch);
    assert_true(w->watch.stirred[1] && !w->watch.stirred[0] && !w->watch.stirred[2]);
    w->watch.stirred[1] = false;
    assert_int_equal(stirred(w), 1); /* until it is read */
    hear(w, 1);
    assert_int_equal(stirred(w), 0);
    close_world(w, 3);
}

static void more_than_one_turn_holds(void **state)
{
    (void)state;
    world *w = open_world(MANY);
    for (uint32_t i = 0; i < MANY; i++)
        say(w, i);
    assert_int_equal(stirred(w), MANY);
    close_world(w, MANY);
}

/* A connection that moved to another record is known by its new number; one that was closed and opened anew, under the
 * same descriptor, is watched again. */
static void numbers_and_descriptors_change(void **state)
{
    (void)state;
    world *w = open_world(2);
    assert_true(weft_watch_control(&w->watch, &w->ends[0], 7, true, false));
    say(w, 0);
    weft_watch_gather(&w->watch);
    assert_true(w->watch.stirred[7] && !w->watch.stirred[0]);
    w->watch.stirred[7] = false;
    weft_control_hang_up(&w->ends[0]);
    close(w->others[0]);
    assert_int_equal(stirred(w), 0);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    weft_control_adopt(&w->ends[0], pair[0], 1000);
    w->others[0] = pair[1];
    assert_true(weft_watch_control(&w->watch, &w->ends[0], 7, true, false));
    say(w, 0);
    assert_int_equal(stirred(w), 1);
    close_world(w, 2);
}

static void room_to_write(void **state)
{
    (void)state;
    world *w = open_world(1);
    assert_true(weft_watch_control(&w->watch, &w->ends[0], 0, true, true));
    assert_int_equal(stirred(w), 1);
    assert_true(weft_watch_control(&w->watch, &w->ends[0], 0, true, false));
    assert_int_equal(stirred(w), 0);
    close_world(w, 1);
}

/* A connection that cannot be watched is looked at in the next step, because nothing else would wake it. */
static void who_is_not_watched_is_looked_at(void **state)
{
    (void)state;
    world *w = open_world(1);
    const int fd = w->watch.fd;
    w->watch.fd = -1;
    assert_false(weft_watch_control(&w->watch, &w->ends[0], 3, true, true));
    assert_true(w->watch.stirred[3]);
    w->watch.fd = fd;
    w->watch.stirred[3] = false;
    close_world(w, 1);
}

/* A socket that lives on with another owner, as a duct's does. */
static void forgotten(void **state)
{
    (void)state;
    world *w = open_world(2);
    say(w, 0);
    say(w, 1);
    weft_watch_forget(&w->watch, &w->ends[0]);
    weft_watch_gather(&w->watch);
    assert_true(!w->watch.stirred[0] && w->watch.stirred[1]);
    w->watch.stirred[1] = false;
    assert_true(weft_watch_control(&w->watch, &w->ends[0], 0, true, false));
    assert_int_equal(stirred(w), 2);
    close_world(w, 2);
}

static void times(void **state)
{
    (void)state;
    world *w = open_world(0);
    assert_false(weft_watch_due(&w->watch, 4, UINT64_MAX - 1));
    w->watch.due_ns[4] = 100;
    assert_false(weft_watch_due(&w->watch, 4, 99));
    assert_true(weft_watch_due(&w->watch, 4, 100));
    w->watch.stirred[5] = true;
    assert_true(weft_watch_due(&w->watch, 5, 0));
    close_world(w, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_is_ready),
                                       cmocka_unit_test(more_than_one_turn_holds),
                                       cmocka_unit_test(numbers_and_descriptors_change),
                                       cmocka_unit_test(room_to_write),
                                       cmocka_unit_test(forgotten),
                                       cmocka_unit_test(times),
                                       cmocka_unit_test(who_is_not_watched_is_looked_at)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
