/* Any bytes as what the control plane carries: refused, or read and written again as the same bytes.
 *
 * Input: a byte that chooses the reader, then what it reads. */
#include "base/log.h"
#include "layout/layout_match.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/wire_samples.h"
#include "wire/control.h"

#include <xxhash.h>

#define MINOR_AT 6u /* of a marked message: its minor number is not read */

static void refusal_holds(weft_status status)
{
    FUZZ_MUST(status == WEFT_E_CORRUPT || status == WEFT_E_PROTOCOL || status == WEFT_E_LAYOUT ||
              status == WEFT_E_CHECK);
}

/* Messages. No two byte strings are the same one, but for the minor number. */
static void message(const sample_row *row, uint8_t *body, size_t length)
{
    static uint8_t again[WEFT_MESSAGE_MAX];
    sample_any value = {0};
    if (length > WEFT_MESSAGE_MAX)
        return;
    weft_status status = row->get(body, length, &value);
    if (status != WEFT_OK) {
        refusal_holds(status);
        return;
    }
    weft_out out = {again, sizeof(again), 0, false};
    row->put(&out, &value);
    if (row->marked)
        memset(body + MINOR_AT, 0, 2);
    FUZZ_MUST(!out.bad && out.used == length && memcmp(again, body, length) == 0);
}

/* A list that a trainer tells, compared with itself: names that stand there once match, and nothing is read beyond. */
static void compared(const uint8_t *bytes, size_t length)
{
    weft_layout_told told;
    char text[WEFT_MATCH_TEXT];
    if (weft_layout_told_open(bytes, length, &told) != WEFT_OK)
        return;
    const weft_match_side side = {"it", told.tensors, sizeof *told.tensors, told.count};
    FUZZ_MUST((weft_match_by_name(&side, &side, NULL, text) == WEFT_OK) == (text[0] == 0));
    weft_layout_told_close(&told);
}

static void layout(const uint8_t *bytes, size_t length)
{
    weft_layout *layout;
    compared(bytes, length);
    weft_status status = weft_layout_parse(bytes, length, &layout);
    if (status != WEFT_OK) {
        refusal_holds(status);
        return;
    }
    FUZZ_MUST(weft_layout_wire_bytes(layout) == length);
    uint8_t *again = fuzz_copy(bytes, length);
    memset(again, 0x5a, length);
    weft_layout_write(layout, again);
    FUZZ_MUST(memcmp(again, bytes, length) == 0);
    free(again);
    weft_layout_free(layout);
}

/* A bucket header under a seal that fits, so that what lies after it is reached. */
static void bucket(uint8_t *bytes, size_t length)
{
    static const uint64_t hash[2] = SAMPLE_LAYOUT;
    uint8_t header[WEFT_BUCKET_HEADER_BYTES] = {0}, again[WEFT_BUCKET_HEADER_BYTES];
    weft_wire_bucket value;
    memcpy(header, bytes, length < sizeof(header) ? length : sizeof(header));
    weft_bytes_put(header + sizeof(header) - 8, XXH3_64bits(header, sizeof(header) - 8), 8);
    weft_status status = weft_wire_get_bucket(header, hash, &value);
    if (status != WEFT_OK) {
        refusal_holds(status);
        return;
    }
    weft_wire_put_bucket(again, &value);
    FUZZ_MUST(memcmp(again, header, sizeof(header)) == 0);
}

/* A stream of messages, cut where the buffer's end cuts it. */
static void stream(const uint8_t *bytes, size_t length)
{
    static weft_control control;
    const uint8_t *body;
    weft_message type;
    uint64_t taken;
    weft_status status = WEFT_AGAIN;
    if (!control.in && weft_control_open(&control) != WEFT_OK)
        abort();
    control.in_used = 0;
    for (size_t at = 0; at < length && status == WEFT_AGAIN;) {
        uint64_t room = WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX - control.in_used;
        uint64_t part = length - at < room ? length - at : room;
        FUZZ_MUST(part > 0);
        memcpy(control.in + control.in_used, bytes + at, part);
        control.in_used += part;
        at += part;
        while ((status = weft_control_next(&control, &type, &body, &taken)) == WEFT_OK) {
            FUZZ_MUST(type > 0 && type < WEFT_MESSAGE_COUNT && body + taken <= control.in + control.in_used);
            weft_control_drop(&control);
        }
    }
    /* The first record of TLS is told from a message, because the modes of two ends may differ. */
    const bool is_tls = control.in[0] == 22 && control.in[1] == 3;
    FUZZ_MUST(status == WEFT_AGAIN || status == (is_tls ? WEFT_E_PROTOCOL : WEFT_E_CORRUPT));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    if (size == 0)
        return 0;
    weft_log_enter(&quiet);
    const size_t length = size - 1;
    uint8_t *bytes = fuzz_copy(data + 1, length);
    switch (data[0]) {
    case 0xf0:
        layout(bytes, length);
        break;
    case 0xf1:
        bucket(bytes, length);
        break;
    case 0xf2:
        stream(bytes, length);
        break;
    default:
        message(&sample_rows[data[0] % SAMPLE_ROWS], bytes, length);
    }
    free(bytes);
    return 0;
}
