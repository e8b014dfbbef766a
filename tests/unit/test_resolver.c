/* Names that are looked up while a name server takes its time: nobody waits for longer than was said. */
#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "wire/resolver.h"

#define SECOND UINT64_C(1000000000)
#define LONG   (100000 * WEFT_NS_PER_MS)

static sem_t server;    /* each post lets one lookup go on */
static uint64_t now_ns; /* the test's time, which passes in waits alone */
static uint64_t passes;

/* Takes the place of libc's: whoever asks the server waits for it, and then no name is known. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!(hints->ai_flags & AI_NUMERICHOST)) {
        while (sem_wait(&server) != 0)
            ;
        return EAI_NONAME;
    }
    return real(host, service, hints, list);
}

static uint64_t time_is(void *user)
{
    (void)user;
    return now_ns;
}

static void time_passes(void *user, uint64_t ns)
{
    (void)user;
    now_ns += ns;
    if (++passes > 1000000)
        fail_msg("still waiting at %llu ms", (unsigned long long)(now_ns / WEFT_NS_PER_MS));
    sched_yield();
}

static const weft_clock own = {time_is, time_passes, NULL};

static int set_up(void **state)
{
    (void)state;
    now_ns = SECOND;
    passes = 0;
    weft_clock_own = &own;
    return sem_init(&server, 0, 0);
}

static int tear_down(void **state)
{
    (void)state;
    weft_clock_own = NULL;
    return sem_destroy(&server);
}

static void let_go(uint64_t lookups, uint64_t blocks)
{
    for (uint64_t i = 0; i < lookups; i++)
        sem_post(&server);
    while (weft_mem_blocks() != blocks) /* the last thread gives the memory back */
        sched_yield();
}

/* What it waits for, and how long: until all is known, a second after the first address, or to the deadline. */
static void waits(void **state)
{
    static const struct {
        char hosts[2][WEFT_SITE_TEXT];
        uint32_t slow;
        uint64_t deadline_ns, waited_ns;
        bool known;
    } rows[] = {{{"127.0.0.1:1", "[::1]:2"}, 0, LONG, 0, true},
                {{"127.0.0.1:1", "slow.test:2"}, 1, LONG, SECOND, true},
                {{"slow.test:1", "127.0.0.1:2"}, 1, SECOND / 4, SECOND / 4, true},
                {{"slow.test:1", "slower.test:2"}, 2, 3 * SECOND, 3 * SECOND, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint64_t blocks = weft_mem_blocks(), begun_ns = now_ns;
        weft_resolver *resolver = weft_resolver_ask(rows[i].hosts, 2);
        assert_non_null(resolver);
        assert_int_equal(now_ns, begun_ns);
        assert_int_equal(weft_resolver_wait(resolver, begun_ns + rows[i].deadline_ns), rows[i].known);
        assert_in_range(now_ns - begun_ns, rows[i].waited_ns, rows[i].waited_ns + 10 * WEFT_NS_PER_MS);
        assert_int_equal(weft_resolver_known(resolver), rows[i].slow == 0);
        for (uint32_t j = 0; j < 2; j++) {
            const weft_name *name = weft_resolver_at(resolver, j);
            const bool slow = rows[i].hosts[j][0] == 's';
            assert_int_equal(name->status, slow ? WEFT_E_UNREACHABLE : WEFT_OK);
            assert_int_equal(name->count, slow ? 0 : 1);
            assert_non_null(strstr(slow ? name->text : name->address[0], rows[i].hosts[j]));
            assert_true(!slow || strstr(name->text, "does not answer"));
        }
        weft_resolver_give(resolver);
        let_go(rows[i].slow, blocks);
    }
}

/* The answer of a server that knows no such name, and a resolver that was given up before. */
static void given_up(void **state)
{
    static const char hosts[1][WEFT_SITE_TEXT] = {"slow.test:1"};
    (void)state;
    const uint64_t blocks = weft_mem_blocks();
    weft_resolver *resolver = weft_resolver_ask(hosts, 1);
    assert_int_equal(weft_mem_blocks(), blocks + 1);
    weft_resolver_give(resolver);
    assert_int_equal(weft_mem_blocks(), blocks + 1); /* the thread still writes there */
    let_go(1, blocks);
    resolver = weft_resolver_ask(hosts, 1);
    sem_post(&server);
    while (!weft_resolver_known(resolver))
        sched_yield();
    assert_int_equal(weft_resolver_at(resolver, 0)->status, WEFT_E_UNREACHABLE);
    assert_non_null(strstr(weft_resolver_at(resolver, 0)->text, "address slow.test:1: "));
    assert_int_equal(weft_resolver_at(resolver, 0)->count, 0);
    weft_resolver_give(resolver);
    let_go(0, blocks);
    weft_resolver_give(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(waits, set_up, tear_down),
                                       cmocka_unit_test_setup_teardown(given_up, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
