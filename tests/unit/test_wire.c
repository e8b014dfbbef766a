/* Every message of the control plane: its bytes, what it says when read again, and what a reader refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "layout/digest.h"
#include "tests/support/golden_files.h"
#include "tests/support/quiet.h"
#include "tests/support/wire_samples.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void round_trip(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    for (size_t i = 0; i < SAMPLE_ROWS; i++) {
        uint64_t length = sample_write(&sample_rows[i], body);
        assert_true(length > 0);
        assert_int_equal(sample_read(&sample_rows[i], body, length, &value), WEFT_OK);
        assert_memory_equal(&value, sample_rows[i].value, sample_rows[i].bytes);
    }
}

static void majors_of_the_fabric_library(void **state)
{
    (void)state;
    weft_wire_hello hello = {.name = "r0", .provider = "shm", .fabric = 0x00010011};
    weft_link_facts one = {.version = 0x00010015, .one_major = true}, two = {.version = 0x00020001, .one_major = true};
    weft_link_facts bears = {.version = 0x00020001}, none = {.one_major = true};
    assert_int_equal(weft_wire_check_fabric(&hello, &one), WEFT_OK);
    assert_int_equal(weft_wire_check_fabric(&hello, &bears), WEFT_OK);
    assert_int_equal(weft_wire_check_fabric(&hello, &none), WEFT_OK);
    assert_int_equal(weft_wire_check_fabric(&hello, &two), WEFT_E_REFUSED);
    assert_non_null(strstr(weft_last_error(), "r0 comes with libfabric 1.17, this end has 2.1"));
    hello.fabric = 0;
    assert_int_equal(weft_wire_check_fabric(&hello, &two), WEFT_OK);
}

/* The longest name, provider, backend and address still fit, and a message has room for all of them. */
static void longest_hello(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_wire_hello most;
    memcpy(&most, &sample_hello, sizeof most); /* its padding too */
    memset(most.name, 'n', sizeof most.name - 1);
    memset(most.provider, 'p', sizeof most.provider - 1);
    memset(most.backend, 'b', sizeof most.backend - 1);
    memset(most.address, 0xff, sizeof most.address);
    most.address_bytes = sizeof most.address;
    memset(most.differs, 'd', sizeof most.differs - 1);
    most.further = WEFT_PORTS_MAX - 1;
    for (uint32_t i = 0; i < most.further; i++) {
        memset(most.more[i].address, (int)i, sizeof most.more[i].address);
        most.more[i].address_bytes = sizeof most.more[i].address;
        most.more[i].region_address = i;
        most.more[i].region_key = ~(uint64_t)i;
    }
    most.keys.count = WEFT_EXCERPT_RANGES;
    for (uint32_t i = 0; i < WEFT_EXCERPT_RANGES; i++)
        most.keys.range[i] = (weft_key_range){UINT32_MAX - 2 * WEFT_EXCERPT_RANGES + 2 * i, 1};
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello read;
    weft_wire_put_hello(&out, &most);
    assert_false(out.bad);
    assert_int_equal(weft_wire_get_hello(body, out.used, &read), WEFT_OK);
    assert_memory_equal(&read, &most, sizeof most);
}

/* ---- bytes */

static void golden_messages(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    for (size_t i = 0; i < SAMPLE_ROWS; i++)
        golden_is(sample_rows[i].file, body, sample_write(&sample_rows[i], body));
}

/* docs/WIRE_FORMAT.md has this header as its example. */
static void golden_bucket(void **state)
{
    (void)state;
    const weft_wire_bucket bucket = {.layout = SAMPLE_LAYOUT,
                                     .incarnation = UINT64_C(0x6061626364656667),
                                     .sequence = 41,
                                     .base = SAMPLE_HELD,
                                     .target = SAMPLE_COMING,
                                     .epoch = 0xa7,
                                     .slot = 3,
                                     .chunks = 2,
                                     .offset = 65536,
                                     .payload_bytes = 70000,
                                     .frames = 9,
                                     .check = UINT64_C(0x9091929394959697)};
    uint8_t header[WEFT_BUCKET_HEADER_BYTES];
    weft_wire_put_bucket(header, &bucket);
    golden_is("wire_bucket.bin", header, sizeof header);
}

static void fixed_lengths(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    assert_int_equal(sample_write(sample_of("wire_update.bin"), body), WEFT_UPDATE_HEADER_BYTES);
    assert_int_equal(sample_write(sample_of("wire_trailer.bin"), body), WEFT_UPDATE_TRAILER_BYTES);
}

/* ---- refusals */

static bool is_refusal(weft_status status)
{
    return status == WEFT_E_CORRUPT || status == WEFT_E_PROTOCOL;
}

static void truncated(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX + 1] = {0};
    sample_any value;
    for (size_t i = 0; i < SAMPLE_ROWS; i++) {
        uint64_t whole = sample_write(&sample_rows[i], body);
        const uint64_t for_all = sample_rows[i].value == &sample_viewed ? whole - SAMPLE_VIEWED_KEYS : whole;
        for (uint64_t length = 0; length <= whole + 1; length++)
            if (length != whole && length != for_all && !is_refusal(sample_read(&sample_rows[i], body, length, &value)))
                fail_msg("%s: %llu of %llu bytes were taken", sample_rows[i].file, (unsigned long long)length,
                         (unsigned long long)whole);
    }
}

/* A field that is reserved; `words` must stand in the refusal of any other value. */
typedef struct reserved_case {
    const char *file;
    uint64_t at;
    uint32_t width;
    const char *words;
} reserved_case;

#define IDENTITY(file, at)                                                                                             \
    {file, (at) + 0, 2, "stream is "}, {file, (at) + 2, 2, "source is "}, {file, (at) + 4, 2, "sources is "},          \
        {file, (at) + 6, 2, "flags is "}, {file, (at) + 8, 4, "layout epoch is "}, {file, (at) + 12, 8, "group is "},  \
        {file, (at) + 20, 16, "view hash"}, /* the layout hash: then the view hash is not it */                        \
    {                                                                                                                  \
        file, (at) + 36, 16, "view hash"                                                                               \
    }

static const reserved_case reserved[] = {
    IDENTITY("wire_hello.bin", 29),
    IDENTITY("wire_welcome.bin", 24),
    IDENTITY("wire_update.bin", 8),
    IDENTITY("wire_held.bin", 0),
    {"wire_hello.bin", 81, 2, "authentication kind"},
    {"wire_hello.bin", 83, 2, "authentication"},
    {"wire_trailer.bin", 63, 1, "signature"},
    {"wire_hello.bin", 4, 2, "protocol"},
    {"wire_welcome.bin", 4, 2, "protocol"},
    {"wire_update.bin", 4, 2, "protocol"},
    {"wire_trailer.bin", 4, 2, "protocol"},
};

static void reserved_fields(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    for (size_t i = 0; i < COUNT(reserved); i++) {
        const sample_row *row = sample_of(reserved[i].file);
        uint64_t length = sample_write(row, body);
        for (uint32_t bit = 0; bit < 8 * reserved[i].width; bit++) {
            body[reserved[i].at + bit / 8] ^= (uint8_t)(1u << bit % 8);
            weft_status status = sample_read(row, body, length, &value);
            body[reserved[i].at + bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (status != WEFT_E_PROTOCOL || !strstr(weft_last_error(), reserved[i].words))
                fail_msg("%s: bit %u of the %s field: %s, \"%s\"", row->file, bit, reserved[i].words,
                         weft_status_name(status), weft_last_error());
        }
    }
}

static void other_protocol(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    for (size_t i = 0; i < SAMPLE_ROWS; i++) {
        const bool of_range = sample_rows[i].value == &sample_knock || sample_rows[i].value == &sample_greeting;
        const bool of_format = sample_rows[i].value == &sample_update || sample_rows[i].value == &sample_trailer ||
                               sample_rows[i].value == &sample_withdrawn;
        if (!sample_rows[i].marked || of_range)
            continue;
        uint64_t length = sample_write(&sample_rows[i], body);
        weft_bytes_put(body + 4, 773, 2);
        assert_int_equal(sample_read(&sample_rows[i], body, length, &value), WEFT_E_PROTOCOL);
        assert_non_null(strstr(weft_last_error(),
                               of_format ? "speaks protocol 773, this one 1" : "speaks protocol 773, this one 3"));
    }
}

/* Knock and GREETING name a range each: one protocol at least has to be common. */
static void ranges_of_protocols(void **state)
{
    (void)state;
    static const struct {
        uint16_t lowest, highest;
        weft_status status;
        const char *words;
        weft_status heard; /* of a knock, which is greeted in protocol 2 too, because its HELLO names the peer */
    } rows[] = {{3, 3, WEFT_OK, "", WEFT_OK},
                {2, 3, WEFT_OK, "", WEFT_OK},
                {2, 65535, WEFT_OK, "", WEFT_OK},
                {2, 2, WEFT_E_PROTOCOL, "speaks protocols 2 to 2, this one 3 to 3", WEFT_OK},
                {4, 773, WEFT_E_PROTOCOL, "speaks protocols 4 to 773, this one 3 to 3", WEFT_E_PROTOCOL},
                {65535, 65535, WEFT_E_PROTOCOL, "speaks protocols 65535 to 65535, this one 3 to 3", WEFT_E_PROTOCOL},
                {3, 2, WEFT_E_CORRUPT, "protocols 3 to 2", WEFT_E_CORRUPT},
                {1, 2, WEFT_E_CORRUPT, "protocols 1 to 2", WEFT_E_CORRUPT},
                {0, 2, WEFT_E_CORRUPT, "protocols 0 to 2", WEFT_E_CORRUPT},
                {1, 1, WEFT_E_CORRUPT, "protocols 1 to 1", WEFT_E_CORRUPT}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t knock[32], greeting[32];
        sample_any value;
        weft_out first = {knock, sizeof knock, 0, false}, second = {greeting, sizeof greeting, 0, false};
        weft_wire_put_knock(&first, &(weft_wire_knock){rows[i].lowest, rows[i].highest});
        weft_wire_put_greeting(&second, &(weft_wire_greeting){rows[i].lowest, rows[i].highest, 1});
        assert_int_equal(weft_wire_knocks(knock, first.used), rows[i].highest >= 2);
        assert_int_equal(weft_wire_get_knock(knock, first.used, &value.knock), rows[i].heard);
        assert_true(rows[i].heard == WEFT_OK || strstr(weft_last_error(), rows[i].words));
        assert_int_equal(weft_wire_get_greeting(greeting, second.used, &value.greeting), rows[i].status);
        assert_true(rows[i].status == WEFT_OK || strstr(weft_last_error(), rows[i].words));
    }
}

/* A nonce of 0 is none, and a HELLO that joins or asks for the layout does not knock. */
static void greetings_that_are_none(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    uint64_t length = sample_write(sample_of("wire_greeting.bin"), body);
    memset(body + 10, 0, 8);
    assert_int_equal(sample_read(sample_of("wire_greeting.bin"), body, length, &value), WEFT_E_CORRUPT);
    length = sample_write(sample_of("wire_knock.bin"), body);
    for (uint64_t cut = 0; cut <= length; cut++)
        assert_int_equal(weft_wire_knocks(body, cut), cut >= 9);
    assert_int_equal(weft_wire_get_hello(body, length, &value.hello), WEFT_E_PROTOCOL);
    length = sample_write(sample_of("wire_hello.bin"), body);
    assert_false(weft_wire_knocks(body, length));
    length = sample_write(sample_of("wire_ask.bin"), body);
    assert_false(weft_wire_knocks(body, length));
}

/* Whether a version is staged is 0 or 1, and with 1 the version is there. */
static void what_is_staged(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    const sample_row *row = sample_of("wire_hello.bin");
    const uint64_t length = sample_write(row, body);
    sample_any value;
    for (uint32_t word = 1; word < 256; word++) {
        body[118] = (uint8_t)word;
        assert_int_equal(sample_read(row, body, length, &value), WEFT_E_CORRUPT);
    }
}

/* Ranges of keys that overlap, touch, fall, are empty or too many are no HELLO, and nothing is read past them. */
static void keys_of_a_view(void **state)
{
    static const struct {
        uint8_t count, bytes[16];
        bool fit;
    } cases[] = {{2, {[0] = 1, [4] = 2, [8] = 4, [12] = 1}, true},
                 {0x82, {[0] = 1, [4] = 2, [8] = 4, [12] = 1}, true},
                 {2, {[0] = 1, [4] = 2, [8] = 3, [12] = 1}, false},
                 {2, {[0] = 1, [4] = 2, [8] = 2, [12] = 1}, false},
                 {2, {[0] = 7, [4] = 1, [8] = 2, [12] = 1}, false},
                 {2, {[0] = 1, [4] = 0, [8] = 4, [12] = 1}, false},
                 {0, {0}, false},
                 {0x80, {0}, false}, /* no ranges, and bytes after that */
                 {WEFT_EXCERPT_RANGES + 1, {0}, false},
                 {255, {0}, false},
                 {2, {[0] = 1, [4] = 1, [8] = 255, [9] = 255, [10] = 255, [11] = 255, [12] = 1}, false}};
    uint8_t body[WEFT_MESSAGE_MAX];
    const sample_row *row = sample_of("wire_viewed.bin");
    const uint64_t length = sample_write(row, body), at = length - SAMPLE_VIEWED_KEYS;
    sample_any value;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        body[at] = cases[i].count;
        memcpy(body + at + 1, cases[i].bytes, sizeof cases[i].bytes);
        assert_int_equal(sample_read(row, body, length, &value), cases[i].fit ? WEFT_OK : WEFT_E_CORRUPT);
        if (cases[i].fit)
            assert_true(value.hello.named == (cases[i].count > 127) && value.hello.keys.count == 2);
    }
    body[at] = 0x80;
    assert_int_equal(sample_read(row, body, at + 1, &value), WEFT_OK);
    assert_true(value.hello.named && value.hello.keys.count == 0);
}

/* The bytes with which an end of protocol 1 begins: its name stands in the refusal, whatever else is in them. */
static void hello_of_an_older_protocol(void **state)
{
    (void)state;
    static const uint8_t first[] = {'W', 'E', 'F', 'T', 1, 0, 0, 0, 0, 5, 0, 'o', 'l', 'd', '-', '7', 9, 9, 9, 9};
    weft_wire_hello hello;
    for (uint64_t length = 9; length <= sizeof first; length++) {
        assert_false(weft_wire_knocks(first, length));
        assert_int_equal(weft_wire_get_hello(first, length, &hello), WEFT_E_PROTOCOL);
        assert_non_null(strstr(weft_last_error(), length < 16 ? "the other end speaks protocol 1, this end 3"
                                                              : "old-7 speaks protocol 1, this end 3"));
    }
    static const uint8_t second[] = {'W', 'E', 'F', 'T', 2, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 2, 0, 'r', '7', 9, 9};
    for (uint64_t length = 9; length <= sizeof second; length++) {
        assert_int_equal(weft_wire_get_hello(second, length, &hello), WEFT_E_PROTOCOL);
        assert_non_null(strstr(weft_last_error(), length < 21 ? "the other end speaks protocol 2, this end 3"
                                                              : "r7 speaks protocol 2, this end 3"));
    }
    static const uint8_t unclean[] = {'W', 'E', 'F', 'T', 1, 0, 0, 0, 0, 5, 0, 'o', '\n', 27, 0xc3, 0xa9};
    assert_int_equal(weft_wire_get_hello(unclean, sizeof unclean, &hello), WEFT_E_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), "o???? speaks protocol 1"));
}

static void other_mark(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    for (size_t i = 0; i < SAMPLE_ROWS; i++) {
        uint64_t length = sample_write(&sample_rows[i], body);
        for (uint32_t bit = 0; bit < 32 && sample_rows[i].marked; bit++) {
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(sample_read(&sample_rows[i], body, length, &value), WEFT_E_CORRUPT);
            body[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void levels(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    const sample_row *row = sample_of("wire_update.bin");
    sample_any value;
    uint64_t length = sample_write(row, body);
    for (uint32_t level = 0; level < 256; level++) {
        body[109] = (uint8_t)level;
        assert_int_equal(sample_read(row, body, length, &value), level < WEFT_LEVEL_COUNT ? WEFT_OK : WEFT_E_PROTOCOL);
    }
}

/* Only the trailer names the target's root. */
static void early_roots(void **state)
{
    (void)state;
    const struct {
        const char *file;
        uint64_t at;
    } rows[] = {{"wire_update.bin", 100}, {"wire_follow.bin", 16}};
    uint8_t body[WEFT_MESSAGE_MAX];
    sample_any value;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const sample_row *row = sample_of(rows[i].file);
        uint64_t length = sample_write(row, body);
        for (uint64_t at = rows[i].at; at < rows[i].at + 8; at++) {
            body[at] = 1;
            assert_int_equal(sample_read(row, body, length, &value), WEFT_E_PROTOCOL);
            assert_non_null(strstr(weft_last_error(), "trailer"));
            body[at] = 0;
        }
        assert_int_equal(sample_read(row, body, length, &value), WEFT_OK);
    }
}

static void signature_bytes(void **state)
{
    (void)state;
    uint8_t body[WEFT_MESSAGE_MAX];
    const sample_row *row = sample_of("wire_trailer.bin");
    sample_any value;
    uint64_t length = sample_write(row, body);
    for (uint64_t at = 64; at < length; at++) {
        body[at] = 1;
        assert_true(is_refusal(sample_read(row, body, length, &value)));
        body[at] = 0;
    }
}

/* ---- anything else */

/* A reader's result can be written again and gives the same bytes, so no two byte strings mean the same. The minor
 * number is not read. */
static void accepts_only_canonical(const sample_row *row, uint8_t *body, uint64_t length)
{
    uint8_t again[WEFT_MESSAGE_MAX];
    sample_any value;
    weft_status status = sample_read(row, body, length, &value);
    if (status != WEFT_OK) {
        assert_true(is_refusal(status));
        return;
    }
    weft_out out = {again, sizeof again, 0, false};
    row->put(&out, &value);
    if (row->marked)
        memset(body + 6, 0, 2);
    if (out.used != length || memcmp(again, body, length) != 0)
        fail_msg("%s: other bytes were read as the same message", row->file);
}

static void random_bytes(void **state)
{
    (void)state;
    uint8_t body[1024];
    uint64_t seed = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        const sample_row *row = &sample_rows[round % SAMPLE_ROWS];
        uint64_t length = weft_mix64(++seed) % (sizeof body / (1 + round % 8));
        for (uint64_t i = 0; i < length; i++)
            body[i] = (uint8_t)weft_mix64(++seed);
        accepts_only_canonical(row, body, length);
    }
}

static void altered_messages(void **state)
{
    (void)state;
    uint8_t whole[WEFT_MESSAGE_MAX], body[WEFT_MESSAGE_MAX];
    uint64_t seed = 1;
    for (size_t i = 0; i < SAMPLE_ROWS; i++) {
        uint64_t length = sample_write(&sample_rows[i], whole);
        for (uint64_t round = 0; round < 256 * length; round++) {
            memcpy(body, whole, length);
            body[round / 256] = (uint8_t)round; /* every byte takes every value, */
            uint64_t random = weft_mix64(++seed);
            if (round & 1) /* half the time with another one altered too */
                body[random % length] = (uint8_t)(random >> 40);
            accepts_only_canonical(&sample_rows[i], body, length);
        }
    }
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(weft_message_name(WEFT_MESSAGE_HELLO), "HELLO");
    assert_string_equal(weft_message_name(WEFT_MESSAGE_BYE), "BYE");
    assert_string_equal(weft_message_name(WEFT_MESSAGE_RECEIPT), "RECEIPT");
    assert_string_equal(weft_message_name(WEFT_MESSAGE_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(longest_hello),
        cmocka_unit_test(golden_messages),
        cmocka_unit_test(golden_bucket),
        cmocka_unit_test(early_roots),
        cmocka_unit_test(fixed_lengths),
        cmocka_unit_test(truncated),
        cmocka_unit_test(reserved_fields),
        cmocka_unit_test(other_protocol),
        cmocka_unit_test(other_mark),
        cmocka_unit_test(levels),
        cmocka_unit_test(signature_bytes),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(majors_of_the_fabric_library),
        cmocka_unit_test(altered_messages),
        cmocka_unit_test(names),
        cmocka_unit_test(ranges_of_protocols),
        cmocka_unit_test(greetings_that_are_none),
        cmocka_unit_test(what_is_staged),
        cmocka_unit_test(keys_of_a_view),
        cmocka_unit_test(hello_of_an_older_protocol),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}
