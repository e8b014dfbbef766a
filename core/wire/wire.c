/* wire.c - the bodies of messages, bucket headers and update files, as docs/WIRE_FORMAT.md has them.
 *
 * Out goes a struct of the host, in comes bytes of the network; between them stand weft_out and weft_in, which never
 * pass their ends, so that a body that is too short or too long is an error when it is done, and not at each field.
 * Bytes that come in are hostile until a get has returned WEFT_OK: each get checks the range of every field that a
 * caller would use as a size, a count or an index, and texts for what may be printed.
 *
 * Fields that are reserved have rows of the one value that this version knows. A reader refuses all others, so that a
 * later version can give them a meaning without being misread.
 *
 * The files beside this one have what needs more than its own bytes: greetings and vouchers, ducts, and control.c,
 * which cuts a stream into messages. */
#include "wire/wire_body.h"

#include "base/status.h"

#define UPDATE_MAGIC    0x50554657u /* "WFUP" */
#define TRAILER_MAGIC   0x52544657u /* "WFTR" */
#define SIGNATURE_BYTES 64u

const char *weft_message_name(uint32_t type)
{
    static const char *const names[WEFT_MESSAGE_COUNT] = {
        "none",     "HELLO",   "WELCOME", "REFUSE", "LAYOUT",  "UPDATE", "TRAILER", "RECEIPT", "STAGED",
        "HELD",     "FAULT",   "OFFER",   "ACCEPT", "PING",    "PONG",   "BYE",     "QUERY",   "DIGESTS",
        "FOLLOW",   "PASSING", "REPAIR",  "LOOK",   "LANDED",  "CLOSE",  "CLOSED",  "OPEN",    "OPENED",
        "GREETING", "DUCT",    "CHUNK",   "WANT",   "OFFERED", "PASSED", "COMPARE"};
    return type < WEFT_MESSAGE_COUNT ? names[type] : "unknown";
}

static weft_status corrupt(const char *what)
{
    return weft_fail(WEFT_E_CORRUPT, "%s: malformed (wrong length or text); another version of weft may have made it",
                     what);
}

weft_status weft_wire_done(const weft_in *in, const char *what)
{
    return weft_in_done(in) ? WEFT_OK : corrupt(what);
}

/* The fields reserved for sharding, groups, renditions: one row each, with the only value known so far. */
static const struct {
    const char *name;
    uint32_t width;
    uint64_t value;
} reserved_rows[] = {
    {"stream", 2, 0}, {"source", 2, 0}, {"sources", 2, 1}, {"flags", 2, 0}, {"layout epoch", 4, 1}, {"group", 8, 0},
};
#define RESERVED_ROWS (sizeof reserved_rows / sizeof reserved_rows[0])

void weft_out_identity(weft_out *out, const uint64_t layout[2])
{
    for (size_t i = 0; i < RESERVED_ROWS; i++)
        weft_out_word(out, reserved_rows[i].value, reserved_rows[i].width);
    for (int copy = 0; copy < 2; copy++) { /* layout hash, view hash */
        weft_out_word(out, layout[0], 8);
        weft_out_word(out, layout[1], 8);
    }
}

weft_status weft_in_identity(weft_in *in, const char *what, uint64_t layout[2])
{
    for (size_t i = 0; i < RESERVED_ROWS; i++) {
        uint64_t value = weft_in_word(in, reserved_rows[i].width);
        if (!in->bad && value != reserved_rows[i].value)
            return weft_fail(WEFT_E_PROTOCOL, "%s: %s is %llu, only %llu is known here; update this weft", what,
                             reserved_rows[i].name, (unsigned long long)value,
                             (unsigned long long)reserved_rows[i].value);
    }
    layout[0] = weft_in_word(in, 8);
    layout[1] = weft_in_word(in, 8);
    uint64_t low = weft_in_word(in, 8), high = weft_in_word(in, 8);
    if (!in->bad && (low != layout[0] || high != layout[1]))
        return weft_fail(WEFT_E_PROTOCOL, "%s: view hash differs from the layout hash; this end has no views", what);
    return WEFT_OK;
}

void weft_out_magic(weft_out *out, uint32_t magic, uint32_t protocol)
{
    weft_out_word(out, magic, 4);
    weft_out_word(out, protocol, 2);
    weft_out_word(out, 0, 2);
}

weft_status weft_in_mark(weft_in *in, uint32_t magic, const char *what, uint32_t *protocol)
{
    uint64_t seen = weft_in_word(in, 4);
    *protocol = (uint32_t)weft_in_word(in, 2);
    weft_in_word(in, 2); /* minor: additions that an older end may ignore */
    if (in->bad || seen != magic)
        return weft_fail(WEFT_E_CORRUPT, "%s: begins with %08llx, not with weft's mark", what,
                         (unsigned long long)seen);
    return WEFT_OK;
}

weft_status weft_in_magic(weft_in *in, uint32_t magic, uint32_t protocol, const char *what)
{
    uint32_t theirs;
    weft_status status = weft_in_mark(in, magic, what, &theirs);
    if (status == WEFT_OK && theirs != protocol)
        return weft_fail(WEFT_E_PROTOCOL, "%s: the other end speaks protocol %u, this one %u; update one of them", what,
                         theirs, protocol);
    return status;
}

void weft_out_address(weft_out *out, const uint8_t *address, uint32_t bytes)
{
    weft_out_word(out, bytes, 2);
    weft_out_block(out, address, bytes);
}

void weft_in_address(weft_in *in, uint8_t address[WEFT_PORT_ADDRESS_MAX], uint32_t *bytes)
{
    uint64_t length = weft_in_word(in, 2);
    const uint8_t *block = weft_in_block(in, length);
    if (!block || length > WEFT_PORT_ADDRESS_MAX) {
        in->bad = true;
        return;
    }
    memcpy(address, block, length);
    *bytes = (uint32_t)length;
}

void weft_wire_put_update(weft_out *out, const weft_wire_update *update)
{
    uint16_t words[WEFT_PARAMETER_WORDS_MAX];
    uint32_t count = weft_parameters_write(&update->parameters, words);
    uint64_t start = out->used;
    weft_out_magic(out, UPDATE_MAGIC, WEFT_FORMAT);
    weft_out_identity(out, update->layout);
    weft_out_version(out, &update->base);
    weft_out_version(out, &update->target);
    weft_out_word(out, update->snapshot, 1);
    weft_out_word(out, update->level, 1);
    weft_out_word(out, count, 2);
    weft_out_word(out, update->attachment_bytes, 8);
    weft_out_word(out, update->attachment, 8);
    while (!out->bad && out->used - start < WEFT_UPDATE_HEADER_BYTES)
        weft_out_word(out, 0, 1);
    for (uint32_t i = 0; i < count; i++)
        weft_out_word(out, words[i], 2);
}

static weft_status get_padding(weft_in *in, const char *what)
{
    while (!in->bad && in->used < in->length)
        if (weft_in_word(in, 1) != 0)
            return corrupt(what);
    return weft_wire_done(in, what);
}

static weft_status get_parameters(weft_in *in, uint64_t count, weft_parameters *parameters)
{
    uint16_t words[WEFT_PARAMETER_WORDS_MAX];
    if (count > WEFT_PARAMETER_WORDS_MAX)
        return weft_fail(WEFT_E_PROTOCOL, "UPDATE: %llu parameter words, at most %u", (unsigned long long)count,
                         WEFT_PARAMETER_WORDS_MAX);
    for (uint64_t i = 0; i < count; i++)
        words[i] = (uint16_t)weft_in_word(in, 2);
    weft_status status = weft_wire_done(in, "UPDATE");
    return status == WEFT_OK ? weft_parameters_read(words, (uint32_t)count, parameters) : status;
}

weft_status weft_wire_get_update(const uint8_t *body, uint64_t length, weft_wire_update *update)
{
    weft_in in = {body, length, 0, length < WEFT_UPDATE_HEADER_BYTES};
    memset(update, 0, sizeof *update);
    weft_status status = in.bad ? corrupt("UPDATE") : weft_in_magic(&in, UPDATE_MAGIC, WEFT_FORMAT, "UPDATE");
    if (status == WEFT_OK)
        status = weft_in_identity(&in, "UPDATE", update->layout);
    if (status != WEFT_OK)
        return status;
    update->base = weft_in_version(&in);
    update->target = weft_in_version(&in);
    uint64_t kind = weft_in_word(&in, 1);
    update->snapshot = kind == 1;
    update->level = (weft_level)weft_in_word(&in, 1);
    uint64_t parameters = weft_in_word(&in, 2);
    update->attachment_bytes = weft_in_word(&in, 8);
    update->attachment = weft_in_word(&in, 8);
    if (update->target.root)
        return weft_fail(WEFT_E_PROTOCOL, "UPDATE of version %llu names root %016llx: only the trailer may name it",
                         (unsigned long long)update->target.number, (unsigned long long)update->target.root);
    if (kind > 1 || update->level >= WEFT_LEVEL_COUNT)
        return weft_fail(WEFT_E_PROTOCOL, "UPDATE: kind %llu, level %u is not known to protocol %u",
                         (unsigned long long)kind, (unsigned)update->level, WEFT_FORMAT);
    if (update->attachment_bytes > WEFT_ATTACHMENT_MAX)
        return weft_fail(WEFT_E_PROTOCOL, "UPDATE: an attachment of %llu bytes, at most %llu",
                         (unsigned long long)update->attachment_bytes, (unsigned long long)WEFT_ATTACHMENT_MAX);
    if (!update->attachment_bytes != !update->attachment)
        return weft_fail(WEFT_E_CHECK, "UPDATE: an attachment of %llu bytes with hash %016llx",
                         (unsigned long long)update->attachment_bytes, (unsigned long long)update->attachment);
    return get_parameters(&in, parameters, &update->parameters);
}

void weft_wire_put_trailer(weft_out *out, const weft_wire_trailer *trailer)
{
    uint8_t unsigned_bytes[SIGNATURE_BYTES] = {0};
    weft_out_magic(out, TRAILER_MAGIC, WEFT_FORMAT);
    weft_out_version(out, &trailer->target);
    weft_out_word(out, trailer->buckets, 8);
    weft_out_word(out, trailer->frames, 8);
    weft_out_word(out, trailer->frame_bytes, 8);
    weft_out_word(out, trailer->changed, 7);
    weft_out_word(out, 0, 1); /* signature: kind 0, none */
    weft_out_block(out, unsigned_bytes, sizeof unsigned_bytes);
}

weft_status weft_wire_get_trailer(const uint8_t *body, uint64_t length, weft_wire_trailer *trailer)
{
    weft_in in = {body, length, 0, length != WEFT_UPDATE_TRAILER_BYTES};
    memset(trailer, 0, sizeof *trailer);
    weft_status status = in.bad ? corrupt("TRAILER") : weft_in_magic(&in, TRAILER_MAGIC, WEFT_FORMAT, "TRAILER");
    if (status != WEFT_OK)
        return status;
    trailer->target = weft_in_version(&in);
    trailer->buckets = weft_in_word(&in, 8);
    trailer->frames = weft_in_word(&in, 8);
    trailer->frame_bytes = weft_in_word(&in, 8);
    trailer->changed = weft_in_word(&in, 7);
    if (weft_in_word(&in, 1) != 0)
        return weft_fail(WEFT_E_PROTOCOL, "TRAILER: signatures are not known to protocol %u", WEFT_FORMAT);
    return get_padding(&in, "TRAILER");
}

void weft_wire_put_receipt(weft_out *out, const weft_wire_receipt *receipt)
{
    weft_out_word(out, receipt->sequence, 8);
    weft_out_word(out, receipt->slot, 4);
    weft_out_word(out, receipt->take_ns, 8);
    weft_out_word(out, receipt->waited_ns, 8);
}

weft_status weft_wire_get_receipt(const uint8_t *body, uint64_t length, weft_wire_receipt *receipt)
{
    weft_in in = {body, length, 0, false};
    receipt->sequence = weft_in_word(&in, 8);
    receipt->slot = (uint32_t)weft_in_word(&in, 4);
    receipt->take_ns = weft_in_word(&in, 8);
    receipt->waited_ns = weft_in_word(&in, 8);
    return weft_wire_done(&in, "RECEIPT");
}

void weft_wire_put_held(weft_out *out, const weft_wire_held *held)
{
    weft_out_identity(out, held->layout);
    weft_out_version(out, &held->version);
    weft_out_word(out, held->attachment, 8);
    weft_out_word(out, held->decode_ns, 8);
    weft_out_word(out, held->commit_ns, 8);
}

weft_status weft_wire_get_held(const uint8_t *body, uint64_t length, weft_wire_held *held)
{
    weft_in in = {body, length, 0, false};
    weft_status status = weft_in_identity(&in, "HELD", held->layout);
    if (status != WEFT_OK)
        return status;
    held->version = weft_in_version(&in);
    held->attachment = weft_in_word(&in, 8);
    held->decode_ns = weft_in_word(&in, 8);
    held->commit_ns = weft_in_word(&in, 8);
    return weft_wire_done(&in, "HELD");
}

void weft_wire_put_notice(weft_out *out, const weft_wire_notice *notice)
{
    weft_out_word(out, (uint32_t)(int32_t)notice->status, 4);
    weft_out_word(out, notice->version, 8);
    weft_out_text(out, notice->text);
}

weft_status weft_wire_get_notice(const uint8_t *body, uint64_t length, weft_wire_notice *notice)
{
    weft_in in = {body, length, 0, false};
    notice->status = (weft_status)(int32_t)(uint32_t)weft_in_word(&in, 4);
    notice->version = weft_in_word(&in, 8);
    weft_in_text(&in, notice->text, sizeof notice->text);
    in.bad = in.bad || (int)notice->status > 0; /* OK or an error */
    return weft_wire_done(&in, "notice");
}

void weft_wire_put_version(weft_out *out, const weft_version *version)
{
    weft_out_version(out, version);
}

weft_status weft_wire_get_version(const uint8_t *body, uint64_t length, weft_version *version)
{
    weft_in in = {body, length, 0, false};
    *version = weft_in_version(&in);
    return weft_wire_done(&in, "version message");
}

void weft_wire_put_word(weft_out *out, uint64_t word)
{
    weft_out_word(out, word, 8);
}

weft_status weft_wire_get_word(const uint8_t *body, uint64_t length, uint64_t *word)
{
    weft_in in = {body, length, 0, false};
    *word = weft_in_word(&in, 8);
    return weft_wire_done(&in, "word message");
}

const char *weft_wire_pass_text(weft_wire_pass reason)
{
    static const char *const texts[] = {"for no known reason", "a later version was sent already",
                                        "no version has that number", "the journal does not lead there any more",
                                        "no update to it fits the memory for updates"};
    return texts[reason >= WEFT_PASS_BEHIND && reason <= WEFT_PASS_LARGE ? reason : 0];
}

void weft_wire_put_passed(weft_out *out, const weft_wire_passed *passed)
{
    weft_out_word(out, passed->number, 8);
    weft_out_word(out, passed->reason, 1);
    weft_out_word(out, passed->below, 8);
    weft_out_word(out, passed->above, 8);
}

weft_status weft_wire_get_passed(const uint8_t *body, uint64_t length, weft_wire_passed *passed)
{
    weft_in in = {body, length, 0, false};
    passed->number = weft_in_word(&in, 8);
    const uint64_t reason = weft_in_word(&in, 1);
    passed->reason = (weft_wire_pass)reason;
    passed->below = weft_in_word(&in, 8);
    passed->above = weft_in_word(&in, 8);
    in.bad = in.bad || reason < WEFT_PASS_BEHIND || reason > WEFT_PASS_LARGE;
    return weft_wire_done(&in, "PASSED");
}
