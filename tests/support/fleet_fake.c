#include "tests/support/fleet_fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOTS  2u
#define STRIDE (WEFT_SLOT_HEADER_BYTES + (2u << 20))

void fake_open_from(fleet_fake *fake, const char *listen, uint32_t host)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host)};
    memset(fake, 0, sizeof *fake);
    to.sin_port = htons((uint16_t)atoi(strrchr(listen, ':') + 1));
    fake->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fake->fd < 0 || bind(fake->fd, (struct sockaddr *)&from, sizeof from) != 0 ||
        connect(fake->fd, (struct sockaddr *)&to, sizeof to) != 0)
        fail_msg("no connection to %s", listen);
}

void fake_open(fleet_fake *fake, const fleet *f)
{
    fake_open_from(fake, f->listen, 1);
}

void fake_hello(fleet_fake *fake, const fleet *f, const char *name, uint64_t root, weft_wire_hello *hello)
{
    const weft_provider *loop = &weft_provider_loop;
    const weft_link_options options = {.address = ""};
    fake->memory = calloc(SLOTS, STRIDE);
    assert_non_null(fake->memory);
    assert_int_equal(loop->link_open(&options, &fake->link), WEFT_OK);
    assert_int_equal(loop->port_open(fake->link, &fake->port), WEFT_OK);
    assert_int_equal(
        loop->region_open(fake->link, fake->port, fake->memory, (uint64_t)SLOTS * STRIDE, true, &fake->region),
        WEFT_OK);
    *hello = (weft_wire_hello){.incarnation = 1,
                               .holds = true,
                               .held = {0, 0, root},
                               .slot_stride = STRIDE,
                               .slot_payload = STRIDE - WEFT_SLOT_HEADER_BYTES,
                               .slots = SLOTS,
                               .epoch = 1,
                               .chunk_bytes = 64u << 10,
                               .levels = 1u << WEFT_LEVEL_FULL | 1u << WEFT_LEVEL_FAST,
                               .staging_bytes = 64u << 20};
    snprintf(hello->name, sizeof hello->name, "%s", name);
    snprintf(hello->provider, sizeof hello->provider, "loop");
    snprintf(hello->backend, sizeof hello->backend, "fake");
    weft_layout_hash(f->layout, hello->layout);
    assert_int_equal(loop->port_address(fake->port, hello->address, &hello->address_bytes), WEFT_OK);
    loop->region_remote(fake->region, &hello->region_address, &hello->region_key);
}

void fake_prove(fleet_fake *fake, const fleet *f, const char *name)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    weft_status status;
    fake->site = fleet_site(f, NULL);
    assert_int_equal(weft_guard_open(fake->site, name, &fake->guard), WEFT_OK);
    assert_int_equal(weft_seal_dial(fake->guard, fake->fd, WEFT_GUARD_TRAINER, &fake->seal), WEFT_OK);
    while ((status = weft_seal_step(fake->seal)) == WEFT_AGAIN && fleet_now_ms() < end)
        poll(&(struct pollfd){.fd = fake->fd, .events = POLLIN}, 1, 100);
    if (status != WEFT_OK)
        fail_msg("%s is not proved: %s", name, status == WEFT_AGAIN ? "no answer" : weft_last_error());
}

int64_t fake_send_some(fleet_fake *fake, const void *bytes, size_t count)
{
    uint64_t moved = 0;
    if (fake->seal)
        return weft_seal_write(fake->seal, bytes, count, &moved) == WEFT_OK ? (int64_t)moved : -1;
    const ssize_t sent = send(fake->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : sent;
}

void fake_send(fleet_fake *fake, const void *bytes, size_t count)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    for (size_t at = 0; at < count;) {
        const int64_t sent = fake_send_some(fake, (const uint8_t *)bytes + at, count - at);
        if (sent < 0)
            return; /* closed by the trainer, which may well be what the test is about */
        at += (size_t)sent;
        if (fleet_now_ms() > end)
            fail_msg("%s", "the trainer neither reads nor closes");
        if (sent == 0)
            poll(&(struct pollfd){.fd = fake->fd, .events = POLLOUT}, 1, 100);
    }
}

uint64_t fake_put_hello(uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX], const weft_wire_hello *hello)
{
    weft_out out = {message + WEFT_MESSAGE_PREFIX, WEFT_MESSAGE_MAX, 0, false};
    weft_wire_put_hello(&out, hello);
    assert_false(out.bad);
    weft_bytes_put(message, out.used, 4);
    weft_bytes_put(message + 4, WEFT_MESSAGE_HELLO, 4); /* and a word of zero */
    return WEFT_MESSAGE_PREFIX + out.used;
}

int64_t fake_read_some(fleet_fake *fake, void *to, uint64_t count)
{
    uint64_t moved = 0;
    if (fake->seal)
        return weft_seal_read(fake->seal, to, count, &moved) == WEFT_OK ? (int64_t)moved : -1;
    const ssize_t got = recv(fake->fd, to, count, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return got > 0 ? got : -1;
}

static bool read_all(fleet_fake *fake, uint8_t *to, uint64_t count)
{
    uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (count > 0) {
        const int64_t got = fake_read_some(fake, to, count);
        if (got < 0)
            return false;
        to += got;
        count -= (uint64_t)got;
        if (fleet_now_ms() > end)
            fail_msg("%s", "the trainer neither answers nor closes");
        if (got == 0)
            poll(&(struct pollfd){.fd = fake->fd, .events = POLLIN}, 1, 100);
    }
    return true;
}

uint32_t fake_read(fleet_fake *fake, uint8_t *body, uint64_t *length)
{
    uint8_t prefix[WEFT_MESSAGE_PREFIX];
    if (!read_all(fake, prefix, sizeof prefix))
        return 0;
    *length = weft_bytes_get(prefix, 4);
    assert_true(*length <= WEFT_MESSAGE_MAX);
    return read_all(fake, body, *length) ? (uint32_t)weft_bytes_get(prefix + 4, 2) : 0;
}

uint64_t fake_knock(fleet_fake *fake)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    uint64_t length;
    weft_wire_greeting greeting;
    weft_wire_put_knock(&out, &(weft_wire_knock){WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL});
    fake_say(fake, WEFT_MESSAGE_HELLO, &out);
    if (fake_read(fake, body, &length) != WEFT_MESSAGE_GREETING)
        return 0;
    assert_int_equal(weft_wire_get_greeting(body, length, &greeting), WEFT_OK);
    return greeting.nonce;
}

void fake_send_hello(fleet_fake *fake, const weft_wire_hello *hello)
{
    uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX];
    weft_wire_hello answer = *hello;
    answer.nonce = fake_knock(fake);
    fake_send(fake, message, fake_put_hello(message, &answer));
}

bool fake_read_until(fleet_fake *fake, uint32_t type, uint8_t *body, uint64_t *length)
{
    uint32_t got;
    do
        got = fake_read(fake, body, length);
    while (got && got != type);
    return got == type;
}

void fake_close(fleet_fake *fake)
{
    weft_seal_close(fake->seal);
    if (fake->fd >= 0)
        close(fake->fd);
    if (fake->region)
        weft_provider_loop.region_close(fake->region);
    if (fake->port)
        weft_provider_loop.port_close(fake->port);
    if (fake->link)
        weft_provider_loop.link_close(fake->link);
    free(fake->memory);
    if (fake->guard)
        weft_guard_close(fake->guard);
    if (fake->site)
        weft_site_free(fake->site);
    memset(fake, 0, sizeof *fake);
    fake->fd = -1;
}

/* ---- the trainer's end */

int fake_listen(const fleet *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_port = htons((uint16_t)atoi(strrchr(f->listen, ':') + 1));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    return listener;
}

int fake_accept(int listener)
{
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, (int)FLEET_WAIT_MS), 1);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

void fake_greet(fleet_fake *fake)
{
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_greeting(&out, &(weft_wire_greeting){WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL, FAKE_NONCE});
    fake_say(fake, WEFT_MESSAGE_GREETING, &out);
}

void fake_take_hello(fleet_fake *fake, int listener, weft_wire_hello *hello)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake->fd = fake_accept(listener);
    assert_int_equal(fake_read(fake, body, &length), WEFT_MESSAGE_HELLO);
    assert_true(weft_wire_knocks(body, length));
    fake_greet(fake);
    assert_int_equal(fake_read(fake, body, &length), WEFT_MESSAGE_HELLO);
    assert_int_equal(weft_wire_get_hello(body, length, hello), WEFT_OK);
    assert_int_equal(hello->nonce, FAKE_NONCE);
}

void fake_say(fleet_fake *fake, weft_message type, const weft_out *body)
{
    uint8_t prefix[WEFT_MESSAGE_PREFIX] = {0};
    weft_bytes_put(prefix, body->used, 4);
    weft_bytes_put(prefix + 4, type, 2);
    fake_send(fake, prefix, sizeof prefix);
    fake_send(fake, body->data, body->used);
}

void fake_welcome(fleet_fake *fake, fleet *f, const weft_wire_hello *hello, uint32_t heartbeat_ms)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello unused;
    weft_wire_welcome w = {.run = 9, .incarnation = 1, .held = {9, 0, hello->held.root}, .newest = {9, 0, 1}};
    int fd = fake->fd;
    fake_hello(fake, f, "a", 0, &unused);
    fake->fd = fd;
    memcpy(w.layout, hello->layout, sizeof w.layout);
    memcpy(w.address, unused.address, sizeof w.address);
    w.address_bytes = unused.address_bytes;
    w.heartbeat_ms = heartbeat_ms;
    w.chunk_bytes = 64u << 10;
    weft_wire_put_welcome(&out, &w);
    fake_say(fake, WEFT_MESSAGE_WELCOME, &out);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_JOINED, NULL, FLEET_WAIT_MS, NULL));
}

fleet_fake fake_trainer;
int fake_listener;

void fake_takes_the_place(fleet *f)
{
    fake_trainer.fd = -1;
    fake_listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
}

void fake_leaves_the_place(fleet *f)
{
    (void)f;
    fake_close(&fake_trainer);
    if (fake_listener >= 0)
        close(fake_listener);
}
