/* Messages whose sizes, counts and texts make no sense: a reader refuses them, however well they are formed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/support/quiet.h"
#include "tests/support/wire_samples.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* An attachment of a size that none has, and one that is hash or bytes alone. */
static void hostile_attachment(void **state)
{
    (void)state;
    const struct {
        uint64_t bytes, hash;
        weft_status status;
    } rows[] = {{0, 0, WEFT_OK},
                {1, 1, WEFT_OK},
                {WEFT_ATTACHMENT_MAX, 7, WEFT_OK},
                {WEFT_ATTACHMENT_MAX + 1, 7, WEFT_E_PROTOCOL},
                {UINT64_MAX, 7, WEFT_E_PROTOCOL},
                {0, 7, WEFT_E_CHECK},
                {5, 0, WEFT_E_CHECK}};
    uint8_t body[WEFT_MESSAGE_MAX];
    const sample_row *row = sample_of("wire_update.bin");
    sample_any value;
    uint64_t length = sample_write(row, body);
    for (size_t i = 0; i < COUNT(rows); i++) {
        weft_bytes_put(body + 112, rows[i].bytes, 8);
        weft_bytes_put(body + 120, rows[i].hash, 8);
        assert_int_equal(sample_read(row, body, length, &value), rows[i].status);
    }
}

/* Slots that make no sense never become addresses. */
static void hostile_slots(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    const struct {
        uint32_t slots;
        uint64_t stride, payload;
    } bad[] = {{0, 8192, 4096},       {WEFT_SLOTS_MAX + 1, 8192, 4096},
               {4, 8192, 4097},       {4, 4096, UINT64_MAX},
               {4, UINT64_MAX, 4096}, {WEFT_SLOTS_MAX, UINT64_MAX / WEFT_SLOTS_MAX + 1, 4096}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_hello hello = sample_hello, read;
        hello.slots = bad[i].slots;
        hello.slot_stride = bad[i].stride;
        hello.slot_payload = bad[i].payload;
        weft_wire_put_hello(&out, &hello);
        assert_int_equal(weft_wire_get_hello(body, out.used, &read), WEFT_E_CORRUPT);
    }
}

/* A fabric address longer than its field, all of whose bytes are there. */
static void hostile_address(void **state)
{
    (void)state;
    const uint64_t at = 152 + 4; /* in WELCOME, before the number of further ports */
    const sample_row *row = sample_of("wire_welcome.bin");
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    sample_write(row, body);
    memset(body + at + 2, 0x77, 600);
    for (uint64_t length = WEFT_PORT_ADDRESS_MAX - 1; length < 600; length++) {
        weft_bytes_put(body + at, length, 2);
        body[at + 2 + length] = 0;
        assert_int_equal(sample_read(row, body, at + 2 + length + 1, &value),
                         length <= WEFT_PORT_ADDRESS_MAX ? WEFT_OK : WEFT_E_CORRUPT);
        body[at + 2 + length] = 0x77;
    }
}

/* As many further ports as are named, each with its address, and no more than there may be. */
static void hostile_ports(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_wire_welcome welcome = sample_welcome, read;
    for (uint32_t named = 0; named < 256; named++) {
        welcome.further = 0;
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_put_welcome(&out, &welcome);
        body[out.used - 1] = (uint8_t)named;
        for (uint32_t there = 0; there < 12; there++, out.used += 5) {
            weft_bytes_put(body + out.used, 3, 2);
            weft_status status = weft_wire_get_welcome(body, out.used, &read);
            assert_int_equal(status, named < WEFT_PORTS_MAX && named == there ? WEFT_OK : WEFT_E_CORRUPT);
        }
    }
}

/* Texts: too long for their field, or with a zero byte inside. */
static void hostile_texts(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_wire_notice read;
    char longest[sizeof read.text];
    memset(longest, 'x', sizeof longest);
    for (uint64_t length = sizeof longest - 2; length <= sizeof longest; length++) {
        weft_out out = {body, sizeof body, 0, false};
        weft_out_word(&out, (uint32_t)WEFT_E_CHECK, 4);
        weft_out_word(&out, 7, 8);
        weft_out_word(&out, length, 2);
        weft_out_block(&out, longest, length);
        assert_int_equal(weft_wire_get_notice(body, out.used, &read),
                         length < sizeof read.text ? WEFT_OK : WEFT_E_CORRUPT);
        weft_bytes_put(body, WEFT_AGAIN, 4); /* which is neither OK nor an error */
        assert_int_equal(weft_wire_get_notice(body, out.used, &read), WEFT_E_CORRUPT);
        weft_bytes_put(body, 0, 4);
        body[20] = 0;
        assert_int_equal(weft_wire_get_notice(body, out.used, &read), WEFT_E_CORRUPT);
    }
}

/* More digests than a message has, none asked for, a kind that is none, a tensor where none is meant. */
static void hostile_digests(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX + 64] = {0};
    weft_wire_query query;
    weft_wire_digests digests;
    for (uint64_t count = 0; count <= WEFT_DIGESTS_MAX + 3; count++) {
        bool fits = count <= WEFT_DIGESTS_MAX;
        weft_bytes_put(body + 41, count, 2);
        assert_int_equal(weft_wire_get_query(body, 43, &query), fits && count ? WEFT_OK : WEFT_E_CORRUPT);
        weft_bytes_put(body + 41, 0, 2);
        weft_bytes_put(body + 65, count, 2);
        assert_int_equal(weft_wire_get_digests(body, 67 + 8 * count, &digests), fits ? WEFT_OK : WEFT_E_CORRUPT);
        weft_bytes_put(body + 65, 0, 2);
    }
    body[41] = 1;
    body[24] = 2;
    assert_int_equal(weft_wire_get_query(body, 43, &query), WEFT_E_CORRUPT);
    body[24] = WEFT_DIGESTS_TENSORS;
    body[25] = 1;
    assert_int_equal(weft_wire_get_query(body, 43, &query), WEFT_E_CORRUPT);
    body[24] = WEFT_DIGESTS_TILES;
    assert_int_equal(weft_wire_get_query(body, 43, &query), WEFT_OK);
}

/* More hops than a chain may have, routes that are not there or too many. */
static void hostile_routes(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    const sample_row *row = sample_of("wire_relayed.bin");
    uint64_t length = sample_write(row, body), hops = length - 12 - 4 - 1;
    for (uint32_t count = 0; count < 256; count++) {
        body[hops] = (uint8_t)count;
        bool fits = count > 0 && count <= WEFT_SITE_HOPS;
        assert_int_equal(sample_read(row, body, length, &value), fits ? WEFT_OK : WEFT_E_CORRUPT);
    }
    memset(body, 0, sizeof body);
    for (uint64_t count = 0; count <= WEFT_FOLLOW_MAX + 2; count++) {
        bool fits = count > 0 && count <= WEFT_FOLLOW_MAX;
        weft_bytes_put(body + 24, count, 2);
        assert_int_equal(sample_read(sample_of("wire_follow.bin"), body, 26 + 4 * count, &value),
                         fits ? WEFT_OK : WEFT_E_CORRUPT);
    }
}

/* One word of a message at a value that no end sends: well formed otherwise, and of the length that the value asks for.
 */
static void hostile_words(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        uint64_t at;
        uint32_t width;
        uint64_t value;
        int64_t longer; /* bytes that the message gains, of zeros */
        weft_status status;
    } rows[] = {
        {"wire_close.bin", 0, 1, WEFT_PORTS_MAX - 1, 0, WEFT_OK},
        {"wire_close.bin", 0, 1, WEFT_PORTS_MAX, 0, WEFT_E_CORRUPT},
        {"wire_closed.bin", 0, 1, WEFT_PORTS_MAX, 0, WEFT_E_CORRUPT},
        {"wire_open.bin", 0, 1, WEFT_PORTS_MAX, 0, WEFT_E_CORRUPT},
        {"wire_opened.bin", 0, 1, WEFT_PORTS_MAX, 0, WEFT_E_CORRUPT},
        {"wire_open.bin", 5, 2, 0, -8, WEFT_E_CORRUPT},
        {"wire_opened.bin", 5, 2, 0, 0, WEFT_E_CORRUPT}, /* bytes after that */
        {"wire_duct.bin", 0, 2, 0, -24, WEFT_E_CORRUPT},
        {"wire_duct.bin", 0, 2, 23, -1, WEFT_OK},
        {"wire_landed.bin", 0, 1, 0, -39, WEFT_E_CORRUPT},
        {"wire_landed.bin", 0, 1, WEFT_PORTS_MAX, (WEFT_PORTS_MAX - 3) * 13, WEFT_OK},
        {"wire_landed.bin", 0, 1, WEFT_PORTS_MAX + 1, (WEFT_PORTS_MAX - 2) * 13, WEFT_E_CORRUPT},
        {"wire_landed.bin", 5, 1, 2, 0, WEFT_E_CORRUPT},
        {"wire_passed.bin", 8, 1, 0, 0, WEFT_E_CORRUPT},
        {"wire_passed.bin", 8, 1, WEFT_PASS_LARGE, 0, WEFT_OK},
        {"wire_passed.bin", 8, 1, WEFT_PASS_LARGE + 1, 0, WEFT_E_CORRUPT},
        {"wire_update.bin", 110, 2, WEFT_PARAMETER_WORDS_MAX + 1, 0, WEFT_E_PROTOCOL}, /* none of which is read */
        {"wire_update.bin", 110, 2, WEFT_PARAMETER_WORDS_MAX, 0, WEFT_E_CORRUPT},
        {"wire_update.bin", 108, 1, 2, 0, WEFT_E_PROTOCOL}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t body[WEFT_MESSAGE_MAX] = {0};
        const sample_row *row = sample_of(rows[i].file);
        sample_any value;
        const uint64_t length = (uint64_t)((int64_t)sample_write(row, body) + rows[i].longer);
        weft_bytes_put(body + rows[i].at, rows[i].value, rows[i].width);
        const weft_status status = sample_read(row, body, length, &value);
        if (status != rows[i].status)
            fail_msg("%s: %llu at %llu: %s", row->file, (unsigned long long)rows[i].value,
                     (unsigned long long)rows[i].at, weft_status_name(status));
    }
}

/* Ranges of a repair: they rise, none is empty, none overlaps the next, and they do not begin anew past the end. */
static void hostile_ranges(void **state)
{
    (void)state;
    static const struct {
        uint32_t first, units, next, more;
        bool fit;
    } rows[] = {{0, 1, 1, 1, true},  {3, 1, 70000, 17, true},      {0, 2, 1, 1, false},
                {5, 1, 4, 1, false}, {0, 0, 1, 1, false},          {0, 1, 1, 0, false},
                {5, 1, 5, 1, false}, {UINT32_MAX, 1, 0, 1, false}, {UINT32_MAX - 7, 8, 0, 4, false}};
    uint8_t body[WEFT_MESSAGE_MAX] = {0};
    weft_wire_repair repair, read;
    memcpy(&repair, &sample_repair, sizeof repair);
    for (size_t i = 0; i < COUNT(rows); i++) {
        weft_out out = {body, sizeof body, 0, false};
        repair.range[0].first = rows[i].first;
        repair.range[0].units = rows[i].units;
        repair.range[1].first = rows[i].next;
        repair.range[1].units = rows[i].more;
        weft_wire_put_repair(&out, &repair);
        assert_int_equal(weft_wire_get_repair(body, out.used, &read), rows[i].fit ? WEFT_OK : WEFT_E_CORRUPT);
    }
    for (uint32_t count = 0; count <= WEFT_REPAIR_RANGES_MAX + 1; count++) {
        weft_bytes_put(body + 32, count, 2);
        for (uint32_t i = 0; i < count; i++) {
            weft_bytes_put(body + 34 + 8 * i, i, 4);
            weft_bytes_put(body + 38 + 8 * i, 1, 4);
        }
        assert_int_equal(weft_wire_get_repair(body, 34 + 8 * count, &read),
                         count > 0 && count <= WEFT_REPAIR_RANGES_MAX ? WEFT_OK : WEFT_E_CORRUPT);
    }
}

/* Further rails are rails of ports that are there. */
static void hostile_rails(void **state)
{
    (void)state;
    for (uint32_t ports = 0; ports < WEFT_PORTS_MAX; ports++)
        for (uint32_t rails = 0; rails < 256; rails++) {
            uint8_t body[WEFT_MESSAGE_MAX];
            weft_out out = {body, sizeof body, 0, false};
            weft_wire_hello hello = sample_hello, read;
            hello.further = ports;
            hello.further_rails = rails;
            weft_wire_put_hello(&out, &hello);
            assert_int_equal(weft_wire_get_hello(body, out.used, &read), rails <= ports ? WEFT_OK : WEFT_E_CORRUPT);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_attachment), cmocka_unit_test(hostile_slots), cmocka_unit_test(hostile_address),
        cmocka_unit_test(hostile_ports),      cmocka_unit_test(hostile_texts), cmocka_unit_test(hostile_digests),
        cmocka_unit_test(hostile_routes),     cmocka_unit_test(hostile_words), cmocka_unit_test(hostile_ranges),
        cmocka_unit_test(hostile_rails),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}
