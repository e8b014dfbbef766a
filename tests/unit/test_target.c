/* The addresses that data may be dialed to: the peer's own host, those that the site lists for it, and those near this
 * end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/status.h"
#include "tests/support/site_load.h"
#include "wire/target.h"

static const char text[] = "[trainer]\naddress = 127.0.0.1, 127.0.0.2\n[peer.plain]\n"
                           "[peer.listed]\naddress = 198.51.100.7, eth7\n"
                           "[peer.six]\naddress = 2001:db8::7\n"
                           "[peer.hub]\naddress = 198.51.100.30\nrelay = 198.51.100.31:7200\n"
                           "[security]\nmode = open\n";

/* The socket address of numeric text, as a fabric address carries it. */
static uint32_t socket_address(const char *numeric, uint8_t to[WEFT_PORT_ADDRESS_MAX])
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    if (inet_pton(AF_INET, numeric, &v4.sin_addr) == 1) {
        memcpy(to, &v4, sizeof v4);
        return sizeof v4;
    }
    assert_int_equal(inet_pton(AF_INET6, numeric, &v6.sin6_addr), 1);
    memcpy(to, &v6, sizeof v6);
    return sizeof v6;
}

typedef struct target_case {
    const char *name, *control, *own, *target;
    uint32_t hops;
    bool may;
} target_case;

static const target_case cases[] = {
    {"plain", "192.0.2.1:40000", "127.0.0.1", "192.0.2.1", 0, true},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "192.0.2.2", 0, false},
    {"plain", "[2001:db8::1]:40000", "::1", "2001:db8::1", 0, true},
    {"plain", "[2001:db8::1]:40000", "::1", "2001:db8::2", 0, false},
    {"plain", "[2001:db8::1]:40000", "::1", "::ffff:192.0.2.2", 0, false},
    {"plain", "[2001:db8::1]:40000", "::1", "192.0.2.2", 0, true}, /* the provider refuses another family */
    {"plain", "192.0.2.1:40000", "127.0.0.1", "2001:db8::2", 0, true},
    {"plain", "[::ffff:192.0.2.1]:40000", "127.0.0.1", "192.0.2.1", 0, true}, /* one host, in two writings */
    {"plain", "192.0.2.1:40000", "::1", "::ffff:192.0.2.1", 0, true},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "127.0.0.9", 0, true}, /* in the subnet of lo */
    {"plain", "192.0.2.1:40000", "127.0.0.2", "127.9.9.9", 0, true},
    {"plain", "192.0.2.1:40000", "lo", "127.0.0.9", 0, true},
    {"plain", "192.0.2.1:40000", "192.0.2.99", "127.0.0.1", 0, false}, /* not of an own rail */
    {"plain", "192.0.2.1:40000", "nosuch0", "127.0.0.1", 0, false},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "0.0.0.0", 0, false},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "169.254.169.254", 0, false},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "198.51.100.7", 0, false}, /* listed for another */
    {"listed", "192.0.2.1:40000", "127.0.0.1", "198.51.100.7", 0, true},
    {"listed", "192.0.2.1:40000", "127.0.0.1", "198.51.100.8", 0, false},
    {"six", "192.0.2.1:40000", "::1", "2001:db8::7", 0, true},
    {"six", "192.0.2.1:40000", "::1", "2001:db8::8", 0, false},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "198.51.100.30", 0,
     false}, /* a relay's, and the peer comes by no relay */
    {"plain", "192.0.2.1:40000", "127.0.0.1", "198.51.100.30", 1, true},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "198.51.100.31", 2, true},
    {"plain", "192.0.2.1:40000", "127.0.0.1", "198.51.100.7", 1, false}, /* listed, but for no relay */
};

static weft_status check(const weft_site *site, const target_case *row)
{
    weft_target_law law = {.site = site, .provider = "tcp", .own_count = 1};
    weft_wire_hello hello = {.hops = row->hops};
    weft_control control = {.fd = -1};
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    snprintf(law.own[0], sizeof law.own[0], "%s", row->own);
    snprintf(hello.name, sizeof hello.name, "%s", row->name);
    snprintf(control.peer, sizeof control.peer, "%s", row->control);
    return weft_target_check(&law, &hello, &control, address, socket_address(row->target, address));
}

static void each_case(void **state)
{
    (void)state;
    char key[96];
    weft_site *site = load(text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_status status = check(site, &cases[i]);
        if (status != (cases[i].may ? WEFT_OK : WEFT_E_REFUSED))
            fail_msg("%s from %s to %s: %s", cases[i].name, cases[i].control, cases[i].target,
                     weft_status_name(status));
        if (cases[i].may)
            continue;
        const bool mapped = strncmp(cases[i].target, "::ffff:", 7) == 0;
        snprintf(key, sizeof key, "[peer.%s] address = %s", cases[i].name, cases[i].target + (mapped ? 7 : 0));
        assert_non_null(strstr(weft_last_error(), key));
        assert_non_null(strstr(weft_last_error_outside(), key));
        assert_null(strstr(weft_last_error_outside(), cases[i].control));
    }
    weft_site_free(site);
}

/* Each rail of this end has its subnet, and an address of the family of any rail is judged. */
static void several_rails(void **state)
{
    static const struct {
        const char *own[2], *target;
        bool may;
    } rows[] = {{{"192.0.2.99", "127.0.0.1"}, "127.0.0.9", true},   {{"127.0.0.1", "192.0.2.99"}, "127.0.0.9", true},
                {{"192.0.2.99", "192.0.2.98"}, "127.0.0.9", false}, {{"127.0.0.1", "::1"}, "203.0.113.9", false},
                {{"::1", "127.0.0.1"}, "203.0.113.9", false},       {{"::1", "127.0.0.1"}, "2001:db8::9", false},
                {{"::1", "2001:db8::1"}, "203.0.113.9", true},      {{"nosuch0", "::1"}, "203.0.113.9", false}};
    (void)state;
    weft_site *site = load(text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_target_law law = {.site = site, .provider = "tcp", .own_count = 2};
        const weft_wire_hello hello = {.name = "plain"};
        const weft_control control = {.fd = -1, .peer = "192.0.2.1:1"};
        uint8_t address[WEFT_PORT_ADDRESS_MAX];
        for (int rail = 0; rail < 2; rail++)
            snprintf(law.own[rail], sizeof law.own[rail], "%s", rows[i].own[rail]);
        const uint32_t bytes = socket_address(rows[i].target, address);
        const weft_status status = weft_target_check(&law, &hello, &control, address, bytes);
        if (status != (rows[i].may ? WEFT_OK : WEFT_E_REFUSED))
            fail_msg("%s and %s to %s: %s", law.own[0], law.own[1], rows[i].target, weft_status_name(status));
    }
    weft_site_free(site);
}

/* An address of another form connects to no host, because the provider refuses it. */
static void what_is_no_socket_address(void **state)
{
    (void)state;
    weft_site *site = load(text);
    const weft_target_law law = {.site = site, .provider = "tcp", .own = {"127.0.0.1"}, .own_count = 1};
    const weft_wire_hello hello = {.name = "plain"};
    const weft_control control = {.fd = -1, .peer = "192.0.2.1:1"};
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    const uint32_t whole = socket_address("192.0.2.2", address);
    for (uint32_t bytes = 0; bytes < whole; bytes++)
        assert_int_equal(weft_target_check(&law, &hello, &control, address, bytes), WEFT_OK);
    assert_int_equal(weft_target_check(&law, &hello, &control, address, whole), WEFT_E_REFUSED);
    address[0] = 77;
    assert_int_equal(weft_target_check(&law, &hello, &control, address, whole), WEFT_OK);
    weft_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case),
        cmocka_unit_test(several_rails),
        cmocka_unit_test(what_is_no_socket_address),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
