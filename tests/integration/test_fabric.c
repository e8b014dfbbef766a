/* Real providers between real processes: every byte arrives, and who has nothing to do sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/support/fabric_ends.h"

static void send_all(play *p)
{
    sender s;
    stream t;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->processes[1].line);
    stream_all(&s, &t);
    CHECK(t.again > 0, "%u posts at depth %u and none was put off", BUCKETS * CHUNKS, DEPTH);
    stream_close(&s, &t);
    sender_close(&s);
}

static void every_byte_arrives_and_every_immediate_once(void **state)
{
    play p;
    play_start(&p, *state, send_all, receive_all, 1);
    play_finish(&p, 1, 0);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* A second of nothing, as a progress thread spends it. */
static void rest(const fabric_end *e, weft_port *port)
{
    weft_completion c[8];
    double cpu = cpu_seconds();
    for (double end = play_now() + 1; play_now() < end;) {
        CHECK(e->provider->poll(port, c, 8) == 0, "something came in the silence");
        end_idle(e, port, 100);
    }
    cpu = cpu_seconds() - cpu;
    CHECK(cpu < 0.05, "an idle second took %.3f s of CPU", cpu);
}

static void send_then_rest(play *p)
{
    sender s;
    stream t;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->processes[1].line);
    while (stream_step(&s, &t))
        ;
    play_tell(t.fd, "", 1);
    rest(&s.end, t.port);
    stream_close(&s, &t);
    sender_close(&s);
}

static void receive_then_rest(play *p)
{
    receiver r;
    int fd = p->line;
    receiver_open(&r, p->provider, fd);
    while (!play_heard(fd))
        receiver_step(&r, fd, 5);
    rest(&r.end, r.port);
    receiver_close(&r);
}

static void idle_ends_sleep(void **state)
{
    play p;
    play_start(&p, *state, send_then_rest, receive_then_rest, 1);
    play_finish(&p, 1, 0);
}

/* One chunk at a time into a receiver that sleeps for two seconds unless it is woken. */
static void send_now_and_then(play *p)
{
    sender s;
    stream t;
    sender_open(&s, p->provider);
    stream_open(&s, &t, 0, p->processes[1].line);
    double begin = play_now();
    while (stream_step(&s, &t))
        play_nap(2e-3);
    CHECK(play_now() - begin < 60, "%u buckets took %.3f s: the receiver was not woken", BUCKETS, play_now() - begin);
    play_tell(t.fd, "", 1);
    stream_close(&s, &t);
    sender_close(&s);
}

static void sleep_unless_woken(play *p)
{
    receiver r;
    int fd = p->line;
    receiver_open(&r, p->provider, fd);
    while (r.whole < BUCKETS)
        receiver_step(&r, fd, 2000);
    while (!play_heard(fd))
        receiver_step(&r, fd, 5);
    receiver_close(&r);
}

static void a_sleeping_receiver_is_woken(void **state)
{
    play p;
    play_start(&p, *state, send_now_and_then, sleep_unless_woken, 1);
    play_finish(&p, 1, 0);
}

/* All that was granted comes while nobody reads: a queue that were too small for it would lose some. */
static void look_away_then_receive(play *p)
{
    receiver r;
    int fd = p->line;
    receiver_open(&r, p->provider, fd);
    play_nap(0.3);
    while (r.whole < BUCKETS)
        receiver_step(&r, fd, 20);
    while (!play_heard(fd))
        receiver_step(&r, fd, 5);
    receiver_close(&r);
}

static void what_comes_while_nobody_reads_is_kept(void **state)
{
    play p;
    play_start(&p, *state, send_all, look_away_then_receive, 1);
    play_finish(&p, 1, 0);
}

int main(void)
{
    static const struct CMUnitTest tcp[] = {
        ON(every_byte_arrives_and_every_immediate_once, "tcp"),
        ON(idle_ends_sleep, "tcp"),
        ON(a_sleeping_receiver_is_woken, "tcp"),
    };
    static const struct CMUnitTest tcp_rxm[] = {
        ON(every_byte_arrives_and_every_immediate_once, "tcp-rxm"),
        ON(idle_ends_sleep, "tcp-rxm"),
        ON(a_sleeping_receiver_is_woken, "tcp-rxm"),
    };
    static const struct CMUnitTest shm[] = {
        ON(every_byte_arrives_and_every_immediate_once, "shm"),
        ON(idle_ends_sleep, "shm"),
        ON(a_sleeping_receiver_is_woken, "shm"),
    };
    static const struct CMUnitTest verbs[] = {
        ON(every_byte_arrives_and_every_immediate_once, "verbs"),
        ON(a_sleeping_receiver_is_woken, "verbs"),
        ON(what_comes_while_nobody_reads_is_kept, "verbs"),
    };
    static const struct CMUnitTest efa[] = {
        ON(every_byte_arrives_and_every_immediate_once, "efa"),
        ON(a_sleeping_receiver_is_woken, "efa"),
        ON(what_comes_while_nobody_reads_is_kept, "efa"),
    };
    static const struct CMUnitTest efa_direct[] = {
        ON(every_byte_arrives_and_every_immediate_once, "efa-direct"),
        ON(a_sleeping_receiver_is_woken, "efa-direct"),
        ON(what_comes_while_nobody_reads_is_kept, "efa-direct"),
    };
    static const struct CMUnitTest played_shm[] = {
        ON(every_byte_arrives_and_every_immediate_once, "played-shm"),
        ON(a_sleeping_receiver_is_woken, "played-shm"),
    };
    static const struct CMUnitTest played_rxm[] = {
        ON(every_byte_arrives_and_every_immediate_once, "played-rxm"),
        ON(a_sleeping_receiver_is_woken, "played-rxm"),
    };
    int failed = FABRIC_RUN("tcp", tcp);
    failed += FABRIC_RUN("tcp-rxm", tcp_rxm);
    failed += FABRIC_RUN("shm", shm);
    failed += FABRIC_RUN("verbs", verbs); /* stand-ins, where no device is */
    failed += FABRIC_RUN("efa", efa);
    failed += FABRIC_RUN("efa-direct", efa_direct);
    if (getenv("WEFT_FULL")) {
        failed += FABRIC_RUN("played-shm", played_shm);
        failed += FABRIC_RUN("played-rxm", played_rxm);
    }
    return fabric_result(failed);
}
