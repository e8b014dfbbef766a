/* delay.c - a long wire, for kernels without netem: carries Ethernet frames between two TAP interfaces, each in a
 * network namespace of its own, late, and loses some.
 *
 *   weft_delay NETNS/INTERFACE NETNS/INTERFACE [delay_us=N] [loss_ppm=N] [rate_kbit=N] [queue_us=N] [seed=N]
 *
 *   delay_us   one way, so a round trip takes twice as long
 *   loss_ppm   frames lost of a million, either way, in an order that `seed` decides
 *   rate_kbit  of each direction; 0: as fast as they come
 *   queue_us   what may wait for a wire with a rate, in time on that wire; frames beyond it are dropped (20000)
 *
 * Makes both interfaces (they vanish with the process), says "ready" on standard output, and runs until it is killed.
 * The interfaces are down: the caller gives them MTU (at most FRAME_MTU), bridge or address, and takes them up. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MTU   9000u
#define FRAME_BYTES (FRAME_MTU + 24u)
#define SLOTS       4096u /* frames on the wire, each way */
#define BATCH       64u   /* frames taken from one side before the other has its turn */

typedef struct settings {
    uint64_t delay_us, loss_ppm, rate_kbit, queue_us, seed;
} settings;

typedef struct slot {
    uint64_t due_ns;
    uint32_t bytes;
    uint8_t frame[FRAME_BYTES];
} slot;

/* One direction: slots[taken..given) are on their way, in order of their due time. */
typedef struct wire {
    int from, to;
    uint64_t given, taken;
    uint64_t free_ns; /* when the last frame has left a wire with a rate */
    uint64_t dice;
    slot slots[SLOTS];
} wire;

static wire wires[2];

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "weft_delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* "NETNS/INTERFACE", NETNS as `ip netns` names it. */
static int open_tap(const char *place)
{
    char path[128];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    const char *slash = strchr(place, '/');
    if (!slash || slash == place || strlen(slash + 1) == 0 || strlen(slash + 1) >= sizeof request.ifr_name) {
        errno = EINVAL;
        die(place);
    }
    snprintf(path, sizeof path, "/run/netns/%.*s", (int)(slash - place), place);
    memcpy(request.ifr_name, slash + 1, strlen(slash + 1));
    int netns = open(path, O_RDONLY | O_CLOEXEC);
    if (netns < 0 || setns(netns, CLONE_NEWNET) != 0)
        die(path);
    close(netns);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        die("/dev/net/tun");
    if (ioctl(fd, TUNSETIFF, &request) != 0)
        die(place);
    return fd;
}

static void read_settings(int count, char **words, settings *settings)
{
    const struct {
        const char *name;
        uint64_t *value;
    } known[] = {{"delay_us=", &settings->delay_us},
                 {"loss_ppm=", &settings->loss_ppm},
                 {"rate_kbit=", &settings->rate_kbit},
                 {"queue_us=", &settings->queue_us},
                 {"seed=", &settings->seed}};
    for (int i = 0; i < count; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            size_t length = strlen(known[k].name);
            char *end;
            if (strncmp(words[i], known[k].name, length) != 0)
                continue;
            *known[k].value = strtoull(words[i] + length, &end, 10);
            found = end != words[i] + length && *end == '\0';
        }
        if (!found) {
            errno = EINVAL;
            die(words[i]);
        }
    }
}

static bool lost(wire *wire, const settings *settings)
{
    wire->dice ^= wire->dice << 13;
    wire->dice ^= wire->dice >> 7;
    wire->dice ^= wire->dice << 17;
    return (wire->dice >> 11) % 1000000 < settings->loss_ppm;
}

/* Whether a frame finds room on the wire; then it has its due time. */
static bool enters(wire *wire, slot *slot, const settings *settings, uint64_t now)
{
    uint64_t leaves = now;
    if (settings->rate_kbit) {
        uint64_t begins = wire->free_ns > now ? wire->free_ns : now;
        if (begins - now > settings->queue_us * 1000)
            return false;
        leaves = wire->free_ns = begins + (uint64_t)slot->bytes * 8000000 / settings->rate_kbit;
    }
    slot->due_ns = leaves + settings->delay_us * 1000;
    return true;
}

static void take_frames(wire *wire, const settings *settings)
{
    for (uint32_t i = 0; i < BATCH && wire->given - wire->taken < SLOTS; i++) {
        slot *slot = &wire->slots[wire->given % SLOTS];
        ssize_t bytes = read(wire->from, slot->frame, sizeof slot->frame);
        if (bytes <= 0)
            return;
        slot->bytes = (uint32_t)bytes;
        if (!lost(wire, settings) && enters(wire, slot, settings, now_ns()))
            wire->given++;
    }
}

/* A frame that the other side cannot take (its interface is down) is lost. */
static void give_frames(wire *wire)
{
    uint64_t now = now_ns();
    for (; wire->taken < wire->given; wire->taken++) {
        const slot *slot = &wire->slots[wire->taken % SLOTS];
        if (slot->due_ns > now || (write(wire->to, slot->frame, slot->bytes) < 0 && errno == EINTR))
            return;
    }
}

static uint64_t next_due_ns(void)
{
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        const wire *wire = &wires[i];
        if (wire->taken < wire->given && wire->slots[wire->taken % SLOTS].due_ns < next)
            next = wire->slots[wire->taken % SLOTS].due_ns;
    }
    return next;
}

static void carry(const settings *settings)
{
    for (;;) {
        struct pollfd fds[2];
        for (int i = 0; i < 2; i++) {
            bool room = wires[i].given - wires[i].taken < SLOTS;
            fds[i] = (struct pollfd){room ? wires[i].from : -1, POLLIN, 0};
        }
        uint64_t due = next_due_ns(), now = now_ns();
        uint64_t wait = due > now ? due - now : 0;
        struct timespec timeout = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
        if (ppoll(fds, 2, due == UINT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR)
            die("poll");
        for (int i = 0; i < 2; i++) {
            take_frames(&wires[i], settings);
            give_frames(&wires[i]);
        }
    }
}

int main(int argc, char **argv)
{
    settings settings = {.queue_us = 20000, .seed = 1};
    if (argc < 3) {
        fprintf(stderr, "usage: weft_delay NETNS/INTERFACE NETNS/INTERFACE [delay_us=N] [loss_ppm=N] [rate_kbit=N] "
                        "[queue_us=N] [seed=N]\n");
        return 2;
    }
    read_settings(argc - 3, argv + 3, &settings);
    wires[0].from = wires[1].to = open_tap(argv[1]);
    wires[1].from = wires[0].to = open_tap(argv[2]);
    wires[0].dice = 2 * settings.seed + 1;
    wires[1].dice = 0x9e3779b97f4a7c15u ^ settings.seed;
    /* Both may be refused: then frames are a little later when the machine is busy. */
    const struct sched_param first = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR, &first);
    prctl(PR_SET_TIMERSLACK, 1);
    printf("ready\n");
    fflush(stdout);
    carry(&settings);
}
