/* Whole handshakes and updates with a real trainer, in any order and with any byte changed: the trainer refuses or
 * loses who says so, and publishes for ever.
 *
 * Input: acts one after the other. Of the first byte of an act, bits 0..2 say what is done, bits 3..4 by which of four
 * connections. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "layout/layout.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/site_scratch.h"
#include "tests/support/wire_samples.h"

#define LINES    4u
#define ELEMENTS 4096u

typedef struct line {
    int fd; /* -1: closed */
    uint8_t in[2 * (WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX)];
    uint64_t used;
    uint64_t nonce;
    weft_wire_port port; /* of WELCOME */
} line;

static struct {
    weft_session *trainer;
    weft_layout *layout;
    uint16_t port;
    uint64_t version, inputs;
    float weights[ELEMENTS];
    line lines[LINES];
} play;

/* ---- the trainer */

static void no_log(void *user, weft_log_level level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
}

static uint16_t free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof any;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&any, length) || getsockname(fd, (struct sockaddr *)&any, &length))
        abort();
    close(fd);
    return ntohs(any.sin_port);
}

static void open_trainer(void)
{
    static const char text[] = "[session]\nprogress = manual\nio_deadline = 200ms\n[peers]\nprovider = stream\n"
                               "heartbeat = 200ms\nbucket_max = 64KiB\n[peer.a]\n[peer.b]\n[trainer]\nmax_peers = 2\n"
                               "journal = 16MiB\n";
    const uint64_t shape[] = {ELEMENTS};
    const weft_tensor tensor = {"w", WEFT_F32, 1, shape};
    const weft_piece piece = {0, 0, ELEMENTS, play.weights};
    const weft_options options = {.size = sizeof options, .log = no_log};
    char listen[64];
    const char *const set[] = {listen};
    site_scratch scratch;
    weft_site *site;
    play.port = free_port();
    snprintf(listen, sizeof listen, "trainer.listen=127.0.0.1:%u", play.port);
    site_scratch_open(&scratch);
    site_scratch_write(&scratch, text, sizeof text - 1);
    FUZZ_MUST(weft_site_load(scratch.path, set, 1, &site) == WEFT_OK);
    site_scratch_close(&scratch);
    FUZZ_MUST(weft_layout_create(&tensor, 1, &play.layout) == WEFT_OK);
    FUZZ_MUST(weft_trainer_open(site, play.layout, &options, &play.trainer) == WEFT_OK);
    FUZZ_MUST(weft_bind(play.trainer, &piece, 1, NULL, 0, 0) == WEFT_OK);
    weft_site_free(site);
    for (uint32_t i = 0; i < LINES; i++)
        play.lines[i].fd = -1;
}

static void publish(void)
{
    play.weights[play.version % ELEMENTS] += 1.0f;
    FUZZ_MUST(weft_publish(play.trainer, ++play.version, NULL, NULL, NULL) == WEFT_OK);
}

static void step(void)
{
    const weft_status status = weft_progress(play.trainer, 0);
    FUZZ_MUST(status == WEFT_OK || status == WEFT_AGAIN || status == WEFT_E_TIMEOUT);
}

/* ---- the ends that talk to it */

static void hang_up(line *l)
{
    const struct linger now = {1, 0}; /* else a minute's worth of closed connections waits in the kernel */
    if (l->fd >= 0) {
        setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(l->fd);
    }
    memset(l, 0, sizeof *l);
    l->fd = -1;
}

static void dial(line *l)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(play.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    hang_up(l);
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(l->fd, (const struct sockaddr *)&to, sizeof to) != 0)
        hang_up(l);
}

static void say(line *l, uint32_t type, const uint8_t *body, uint64_t length)
{
    uint8_t whole[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX] = {0};
    if (l->fd < 0)
        return;
    weft_bytes_put(whole, length, 4);
    weft_bytes_put(whole + 4, type, 2);
    memcpy(whole + WEFT_MESSAGE_PREFIX, body, length);
    (void)!send(l->fd, whole, WEFT_MESSAGE_PREFIX + length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Takes from an answer what later acts need. */
static void hear_one(line *l, uint32_t type, const uint8_t *body, uint64_t length)
{
    weft_wire_greeting greeting;
    weft_wire_welcome welcome;
    if (type == WEFT_MESSAGE_GREETING && weft_wire_get_greeting(body, length, &greeting) == WEFT_OK)
        l->nonce = greeting.nonce;
    if (type != WEFT_MESSAGE_WELCOME || weft_wire_get_welcome(body, length, &welcome) != WEFT_OK)
        return;
    memcpy(l->port.address, welcome.address, sizeof welcome.address);
    l->port.address_bytes = welcome.address_bytes;
}

static void hear(line *l)
{
    ssize_t got;
    while (l->fd >= 0 && (got = recv(l->fd, l->in + l->used, sizeof l->in - l->used, MSG_DONTWAIT)) > 0) {
        l->used += (uint64_t)got;
        uint64_t at = 0, length;
        while (l->used - at >= WEFT_MESSAGE_PREFIX && (length = weft_bytes_get(l->in + at, 4)) <= WEFT_MESSAGE_MAX &&
               l->used - at >= WEFT_MESSAGE_PREFIX + length) {
            hear_one(l, (uint32_t)weft_bytes_get(l->in + at + 4, 2), l->in + at + WEFT_MESSAGE_PREFIX, length);
            at += WEFT_MESSAGE_PREFIX + length;
        }
        memmove(l->in, l->in + at, l->used - at);
        l->used -= at;
        if (l->used == sizeof l->in)
            l->used = 0; /* chunks of a duct, which nobody here reads */
    }
}

/* ---- acts */

typedef struct acts {
    const uint8_t *bytes;
    uint64_t left;
} acts;

static uint8_t next(acts *from)
{
    if (from->left == 0)
        return 0;
    from->left--;
    return *from->bytes++;
}

/* Changes a byte of a body, or none if the change is 0. */
static void mutate(acts *from, weft_out *out)
{
    const uint64_t at = next(from) * 4u;
    const uint8_t change = next(from);
    if (out->used)
        out->data[at % out->used] ^= change;
}

static void say_hello(acts *from, line *l, bool wants_layout)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello hello = {.wants_layout = wants_layout,
                             .nonce = l->nonce,
                             .incarnation = 1 + play.inputs,
                             .provider = "stream",
                             .backend = "host",
                             .address = {'w', 'f', 's', 't', 'r', 'm', '1'},
                             .address_bytes = 24,
                             .slot_stride = WEFT_SLOT_HEADER_BYTES + (64u << 10),
                             .slot_payload = 64u << 10,
                             .slots = 2,
                             .epoch = 1,
                             .chunk_bytes = 1u << 20,
                             .levels = 15,
                             .staging_bytes = 1u << 20};
    snprintf(hello.name, sizeof hello.name, "%c", 'a' + next(from) % 2);
    memcpy(hello.layout, play.layout->hash, sizeof hello.layout);
    weft_wire_put_hello(&out, &hello);
    mutate(from, &out);
    say(l, WEFT_MESSAGE_HELLO, body, out.used);
}

static void say_any(acts *from, line *l)
{
    uint8_t body[256];
    const uint32_t type = next(from);
    const uint8_t length = next(from);
    for (uint8_t i = 0; i < length; i++)
        body[i] = next(from);
    say(l, type, body, length);
}

static void say_sample(acts *from, line *l)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    const uint32_t type = next(from);
    weft_out out = {body, sizeof body, sample_write(&sample_rows[next(from) % SAMPLE_ROWS], body), false};
    mutate(from, &out);
    say(l, type, body, out.used);
}

static void say_duct(acts *from, line *l, const line *of)
{
    uint8_t body[2 + WEFT_PORT_ADDRESS_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_duct duct = {.address_bytes = of->port.address_bytes};
    memcpy(duct.address, of->port.address, sizeof duct.address);
    weft_wire_put_duct(&out, &duct);
    mutate(from, &out);
    say(l, WEFT_MESSAGE_DUCT, body, out.used);
}

static void say_knock(line *l)
{
    uint8_t body[16];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_knock(&out, &(weft_wire_knock){WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL});
    say(l, WEFT_MESSAGE_HELLO, body, out.used);
}

static void act(acts *from)
{
    const uint8_t what = next(from);
    line *l = &play.lines[what >> 3 & 3];
    if ((what & 7) == 0)
        dial(l);
    else if ((what & 7) == 1)
        say_knock(l);
    else if ((what & 7) == 2)
        say_hello(from, l, what >> 5 == 7);
    else if ((what & 7) == 3)
        say_duct(from, l, &play.lines[what >> 5 & 3]);
    else if ((what & 7) == 4)
        say_any(from, l);
    else if ((what & 7) == 5)
        say_sample(from, l);
    else if ((what & 7) == 6)
        hang_up(l);
    else
        publish();
    step();
    step();
    hear(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!play.trainer)
        open_trainer();
    play.inputs++;
    acts from = {data, size < 512 ? size : 512};
    while (from.left > 0)
        act(&from);
    for (uint32_t i = 0; i < LINES; i++)
        hang_up(&play.lines[i]);
    step();
    if (play.inputs % 16 == 0)
        publish();
    return 0;
}
