/* An end that has proved its name and then sends any records of tls: what the other end reads in a turn is bounded,
 * what it hears is what was said, and it goes on exactly as long as it may.
 *
 * Input: a byte that says which end is hostile, then acts of two bytes: what is done, and how much of it. */
#include <errno.h>
#include <sys/socket.h>

#include "base/log.h"
#include "tests/fuzz/sealed.h"
#include "tests/support/seal_flood.h"

#define TURN       (64u << 10)
#define RECORD     (17u << 10)
#define WORDS_MOST 4u /* messages of tls after the proof that are no reason to end */

enum act { SPEAK, UPDATE, TICKET, PAD, PLAIN, DAMAGE, READ, ACTS };

typedef struct lines {
    weft_seal *seals[2];
    int fds[2];
    weft_seal *hostile, *honest;
    int wire;             /* socket of the hostile end */
    uint64_t said, hears; /* bytes that were said and heard, each the number of its place */
    uint32_t words;
    bool altered; /* records were sent that tls does not know */
    weft_status status;
} lines;

static void shake(lines *l)
{
    weft_status dials = WEFT_AGAIN, answers = WEFT_AGAIN;
    FUZZ_MUST(weft_seal_dial(keys.guards[0], l->fds[0], WEFT_GUARD_TRAINER, &l->seals[0]) == WEFT_OK);
    for (int turn = 0; turn < 10 && (dials != WEFT_OK || answers != WEFT_OK); turn++) {
        if (dials == WEFT_AGAIN)
            dials = weft_seal_step(l->seals[0]);
        if (answers == WEFT_AGAIN)
            answers =
                l->seals[1] ? weft_seal_step(l->seals[1]) : weft_seal_answer(keys.guards[1], l->fds[1], &l->seals[1]);
        answers = answers == WEFT_OK && !weft_seal_proves(l->seals[1], "a") ? WEFT_AGAIN : answers;
    }
    FUZZ_MUST(dials == WEFT_OK && answers == WEFT_OK);
}

static void open_lines(lines *l, int hostile)
{
    FUZZ_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, l->fds) == 0);
    shake(l);
    l->hostile = l->seals[hostile];
    l->honest = l->seals[!hostile];
    l->wire = l->fds[hostile];
}

/* Reads as a control connection does: until nothing comes. */
static void read_turn(lines *l)
{
    uint8_t bytes[4104];
    const uint64_t begun = flood_came(l->honest);
    for (uint64_t moved = 1; l->status == WEFT_OK && moved > 0;) {
        l->status = weft_seal_read(l->honest, bytes, sizeof bytes, &moved);
        for (uint64_t i = 0; l->status == WEFT_OK && i < moved; i++)
            FUZZ_MUST(l->hears < l->said && bytes[i] == (uint8_t)l->hears++);
    }
    FUZZ_MUST(flood_came(l->honest) - begun < TURN + RECORD);
    FUZZ_MUST(l->status != WEFT_OK || !weft_seal_has_more(l->honest));
}

static void speak(lines *l, uint64_t count)
{
    uint8_t bytes[1024];
    uint64_t moved = 0;
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(l->said + i);
    if (weft_seal_write(l->hostile, bytes, count, &moved) == WEFT_OK)
        l->said += moved;
}

/* A record that the library would not send: its type and its bytes come from the input. */
static void say_plain(lines *l, uint8_t what)
{
    const uint8_t record[] = {(uint8_t)(20 + what % 5), 3, 3, 0, 2, (uint8_t)(what >> 3), what};
    l->altered = send(l->wire, record, what & 4 ? sizeof record : 6, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 || l->altered;
}

static void act(lines *l, uint8_t what, uint8_t much)
{
    switch (what % ACTS) {
    case SPEAK:
        speak(l, 1u + much * 4u);
        break;
    case UPDATE:
        l->words += flood_words(l->hostile, false, 1u + much % 8u);
        break;
    case TICKET:
        l->words += l->hostile == l->seals[1] ? flood_words(l->hostile, true, 1u + much % 8u) : 0;
        break;
    case PAD:
        flood_pad(l->hostile);
        break;
    case PLAIN:
        say_plain(l, much);
        break;
    case DAMAGE:
        l->altered = send(l->wire, &much, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 || l->altered;
        break;
    default:
        read_turn(l);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    lines l = {.wire = -1};
    weft_log_enter(&quiet);
    if (size == 0 || !have_keys())
        return 0;
    open_lines(&l, data[0] & 1);
    for (size_t at = 1; at + 1 < size && at < 128; at += 2)
        act(&l, data[at], data[at + 1]);
    for (int turn = 0; turn < 64; turn++)
        read_turn(&l);
    if (!l.altered)
        FUZZ_MUST(l.words > WORDS_MOST ? l.status == WEFT_E_PROTOCOL : l.status == WEFT_OK && l.hears == l.said);
    for (int i = 0; i < 2; i++) {
        weft_seal_close(l.seals[i]);
        close(l.fds[i]);
    }
    return 0;
}
