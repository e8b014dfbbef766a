/* wire_greet.c - the bodies of HELLO, GREETING and WELCOME. */
#include "wire/wire_body.h"

#include "base/log.h"
#include "base/status.h"

#define HELLO_MAGIC 0x54464557u /* "WEFT" */

/* The purpose of a HELLO. */
enum { HELLO_JOIN, HELLO_LAYOUT, HELLO_KNOCK };
#define KIND_AT 8u /* after the mark, in every protocol from FIRST on */
#define FIRST   2u /* protocol with a GREETING */

/* Where the name stands in the HELLO of an older protocol, which is read for that alone. */
static const uint32_t name_at[WEFT_PROTOCOL_LOWEST] = {[1] = 9, [2] = 17};

/* ---- before a HELLO that says who comes: protocols, and the nonce */

bool weft_wire_knocks(const uint8_t *body, uint64_t length)
{
    return length > KIND_AT && weft_bytes_get(body, 4) == HELLO_MAGIC && weft_bytes_get(body + 4, 2) >= FIRST &&
           body[KIND_AT] == HELLO_KNOCK;
}

/* One protocol at least is to be common to both. `heard` is the oldest that this end takes here. */
static weft_status judge_range(const weft_in *in, const char *what, uint32_t lowest, uint32_t highest, uint32_t heard)
{
    weft_status status = weft_wire_done(in, what);
    if (status != WEFT_OK)
        return status;
    if (lowest < FIRST || lowest > highest)
        return weft_fail(WEFT_E_CORRUPT, "%s: protocols %u to %u make no sense", what, lowest, highest);
    if (lowest > WEFT_PROTOCOL || highest < heard)
        return weft_fail(WEFT_E_PROTOCOL,
                         "%s: the other end speaks protocols %u to %u, this one %u to %u; update one of them", what,
                         lowest, highest, WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL);
    return WEFT_OK;
}

void weft_wire_put_knock(weft_out *out, const weft_wire_knock *knock)
{
    weft_out_magic(out, HELLO_MAGIC, knock->highest);
    weft_out_word(out, HELLO_KNOCK, 1);
    weft_out_word(out, knock->lowest, 2);
}

weft_status weft_wire_get_knock(const uint8_t *body, uint64_t length, weft_wire_knock *knock)
{
    weft_in in = {body, length, 0, false};
    weft_status status = weft_in_mark(&in, HELLO_MAGIC, "HELLO", &knock->highest);
    in.bad = in.bad || weft_in_word(&in, 1) != HELLO_KNOCK;
    knock->lowest = (uint32_t)weft_in_word(&in, 2);
    return status == WEFT_OK ? judge_range(&in, "HELLO", knock->lowest, knock->highest, WEFT_PROTOCOL_HEARD) : status;
}

void weft_wire_put_greeting(weft_out *out, const weft_wire_greeting *greeting)
{
    weft_out_magic(out, HELLO_MAGIC, greeting->highest);
    weft_out_word(out, greeting->lowest, 2);
    weft_out_word(out, greeting->nonce, 8);
}

weft_status weft_wire_get_greeting(const uint8_t *body, uint64_t length, weft_wire_greeting *greeting)
{
    weft_in in = {body, length, 0, false};
    weft_status status = weft_in_mark(&in, HELLO_MAGIC, "GREETING", &greeting->highest);
    greeting->lowest = (uint32_t)weft_in_word(&in, 2);
    greeting->nonce = weft_in_word(&in, 8);
    in.bad = in.bad || greeting->nonce == 0;
    return status == WEFT_OK ? judge_range(&in, "GREETING", greeting->lowest, greeting->highest, WEFT_PROTOCOL_LOWEST)
                             : status;
}

/* ---- HELLO */

static void put_more(weft_out *out, const weft_wire_port *more, uint32_t further, bool regions)
{
    weft_out_word(out, further, 1);
    for (uint32_t i = 0; i < further; i++) {
        weft_out_address(out, more[i].address, more[i].address_bytes);
        if (!regions)
            continue;
        weft_out_word(out, more[i].region_address, 8);
        weft_out_word(out, more[i].region_key, 8);
    }
}

static void get_more(weft_in *in, weft_wire_port *more, uint32_t *further, bool regions)
{
    *further = (uint32_t)weft_in_word(in, 1);
    if (*further >= WEFT_PORTS_MAX) {
        in->bad = true;
        *further = 0;
    }
    for (uint32_t i = 0; i < *further; i++) {
        weft_in_address(in, more[i].address, &more[i].address_bytes);
        if (!regions)
            continue;
        more[i].region_address = weft_in_word(in, 8);
        more[i].region_key = weft_in_word(in, 8);
    }
}

/* The last field is the number of ranges of keys, and NAMED. A HELLO lacks it for all keys and each version. */
#define NAMED 0x80u

static void put_keys(weft_out *out, const weft_view_keys *keys, bool named)
{
    if (keys->count == 0 && !named)
        return;
    weft_out_word(out, keys->count | (named ? NAMED : 0), 1);
    for (uint32_t i = 0; i < keys->count; i++) {
        weft_out_word(out, keys->range[i].first, 4);
        weft_out_word(out, keys->range[i].count, 4);
    }
}

static void get_keys(weft_in *in, weft_view_keys *keys, bool *named)
{
    if (in->bad || in->used == in->length)
        return;
    const uint32_t word = (uint32_t)weft_in_word(in, 1);
    *named = word & NAMED;
    keys->count = word & (NAMED - 1);
    in->bad = in->bad || word == 0 || keys->count > WEFT_EXCERPT_RANGES;
    if (in->bad)
        keys->count = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        keys->range[i].first = (uint32_t)weft_in_word(in, 4);
        keys->range[i].count = (uint32_t)weft_in_word(in, 4);
    }
    in->bad = in->bad || !weft_view_keys_fit(keys, UINT32_MAX);
}

void weft_wire_put_hello(weft_out *out, const weft_wire_hello *hello)
{
    weft_out_magic(out, HELLO_MAGIC, WEFT_PROTOCOL);
    weft_out_word(out, hello->wants_layout ? HELLO_LAYOUT : HELLO_JOIN, 1);
    weft_out_word(out, hello->nonce, 8);
    weft_out_text(out, hello->name);
    weft_out_word(out, hello->incarnation, 8);
    weft_out_identity(out, hello->layout);
    weft_out_word(out, 0, 2); /* authentication: kind 0, none */
    weft_out_word(out, 0, 2);
    if (hello->wants_layout)
        return;
    weft_out_word(out, hello->holds, 1);
    weft_out_version(out, &hello->held);
    weft_out_word(out, hello->attachment, 8);
    weft_out_word(out, hello->stages, 1);
    if (hello->stages) {
        weft_out_version(out, &hello->staged);
        weft_out_word(out, hello->staged_attachment, 8);
    }
    weft_out_text(out, hello->differs);
    weft_out_text(out, hello->provider);
    weft_out_text(out, hello->backend);
    weft_out_word(out, hello->fabric, 4);
    weft_out_address(out, hello->address, hello->address_bytes);
    weft_out_word(out, hello->region_address, 8);
    weft_out_word(out, hello->region_key, 8);
    put_more(out, hello->more, hello->further, true);
    weft_out_word(out, hello->further_rails, 1);
    weft_out_word(out, hello->slot_stride, 8);
    weft_out_word(out, hello->slot_payload, 8);
    weft_out_word(out, hello->slots, 2);
    weft_out_word(out, hello->epoch, 1);
    weft_out_word(out, hello->chunk_bytes, 4);
    weft_out_word(out, hello->levels, 4);
    weft_out_word(out, hello->staging_bytes, 8);
    weft_out_word(out, hello->encoded_bytes, 8);
    weft_out_route(out, hello);
    put_keys(out, &hello->keys, hello->named);
}

static weft_status get_hello_join(weft_in *in, weft_wire_hello *hello)
{
    hello->holds = weft_in_flag(in);
    hello->held = weft_in_version(in);
    hello->attachment = weft_in_word(in, 8);
    hello->stages = weft_in_flag(in);
    if (hello->stages) {
        hello->staged = weft_in_version(in);
        hello->staged_attachment = weft_in_word(in, 8);
    }
    weft_in_text(in, hello->differs, sizeof hello->differs);
    weft_in_text(in, hello->provider, sizeof hello->provider);
    weft_in_text(in, hello->backend, sizeof hello->backend);
    hello->fabric = (uint32_t)weft_in_word(in, 4);
    weft_in_address(in, hello->address, &hello->address_bytes);
    hello->region_address = weft_in_word(in, 8);
    hello->region_key = weft_in_word(in, 8);
    get_more(in, hello->more, &hello->further, true);
    hello->further_rails = (uint32_t)weft_in_word(in, 1);
    in->bad = in->bad || hello->further_rails > hello->further;
    hello->slot_stride = weft_in_word(in, 8);
    hello->slot_payload = weft_in_word(in, 8);
    hello->slots = (uint32_t)weft_in_word(in, 2);
    hello->epoch = (uint32_t)weft_in_word(in, 1);
    hello->chunk_bytes = (uint32_t)weft_in_word(in, 4);
    hello->levels = (uint32_t)weft_in_word(in, 4);
    hello->staging_bytes = weft_in_word(in, 8);
    hello->encoded_bytes = weft_in_word(in, 8);
    weft_in_route(in, hello);
    get_keys(in, &hello->keys, &hello->named);
    weft_status status = weft_wire_done(in, "HELLO");
    if (status != WEFT_OK)
        return status;
    if (hello->slots == 0 || hello->slots > WEFT_SLOTS_MAX || hello->slot_payload > hello->slot_stride ||
        hello->slot_stride > UINT64_MAX / WEFT_SLOTS_MAX ||
        hello->slot_stride - hello->slot_payload < WEFT_SLOT_HEADER_BYTES)
        return weft_fail(WEFT_E_CORRUPT, "HELLO of %s: %u slots of %llu payload bytes at stride %llu make no sense",
                         hello->name, hello->slots, (unsigned long long)hello->slot_payload,
                         (unsigned long long)hello->slot_stride);
    return WEFT_OK;
}

/* A peer of an older protocol is refused by name, because its HELLO has the name. */
static weft_status refuse_older(const uint8_t *body, uint64_t length, uint32_t protocol)
{
    const uint32_t at = name_at[protocol];
    weft_in in = {body, length, at, length < at};
    char name[WEFT_SITE_NAME];
    weft_in_text(&in, name, sizeof name);
    weft_bytes_clean(name);
    return weft_fail(WEFT_E_PROTOCOL, "%s speaks protocol %u, this end %u; update the weft of one of them",
                     name[0] ? name : "the other end", protocol, WEFT_PROTOCOL);
}

weft_status weft_wire_get_hello(const uint8_t *body, uint64_t length, weft_wire_hello *hello)
{
    weft_in in = {body, length, 0, false};
    memset(hello, 0, sizeof *hello);
    const uint64_t protocol =
        length > KIND_AT && weft_bytes_get(body, 4) == HELLO_MAGIC ? weft_bytes_get(body + 4, 2) : 0;
    if (protocol > 0 && protocol < WEFT_PROTOCOL_LOWEST)
        return refuse_older(body, length, (uint32_t)protocol);
    weft_status status = weft_in_magic(&in, HELLO_MAGIC, WEFT_PROTOCOL, "HELLO");
    if (status != WEFT_OK)
        return status;
    hello->wants_layout = weft_in_flag(&in);
    hello->nonce = weft_in_word(&in, 8);
    weft_in_text(&in, hello->name, sizeof hello->name);
    hello->incarnation = weft_in_word(&in, 8);
    status = weft_in_identity(&in, "HELLO", hello->layout);
    if (status != WEFT_OK)
        return status;
    uint64_t kind = weft_in_word(&in, 2), bytes = weft_in_word(&in, 2);
    if (!in.bad && (kind || bytes))
        return weft_fail(WEFT_E_PROTOCOL, "HELLO of %s: authentication kind %llu is not known to protocol %u",
                         hello->name, (unsigned long long)kind, WEFT_PROTOCOL);
    return hello->wants_layout ? weft_wire_done(&in, "HELLO") : get_hello_join(&in, hello);
}

void weft_wire_put_welcome(weft_out *out, const weft_wire_welcome *welcome)
{
    weft_out_magic(out, HELLO_MAGIC, WEFT_PROTOCOL);
    weft_out_word(out, welcome->run, 8);
    weft_out_word(out, welcome->incarnation, 8);
    weft_out_identity(out, welcome->layout);
    weft_out_version(out, &welcome->held);
    weft_out_version(out, &welcome->newest);
    weft_out_version(out, &welcome->staged);
    weft_out_word(out, welcome->heartbeat_ms, 4);
    weft_out_word(out, welcome->chunk_bytes, 4);
    weft_out_address(out, welcome->address, welcome->address_bytes);
    put_more(out, welcome->more, welcome->further, false);
}

weft_status weft_wire_get_welcome(const uint8_t *body, uint64_t length, weft_wire_welcome *welcome)
{
    weft_in in = {body, length, 0, false};
    memset(welcome, 0, sizeof *welcome);
    weft_status status = weft_in_magic(&in, HELLO_MAGIC, WEFT_PROTOCOL, "WELCOME");
    if (status != WEFT_OK)
        return status;
    welcome->run = weft_in_word(&in, 8);
    welcome->incarnation = weft_in_word(&in, 8);
    status = weft_in_identity(&in, "WELCOME", welcome->layout);
    if (status != WEFT_OK)
        return status;
    welcome->held = weft_in_version(&in);
    welcome->newest = weft_in_version(&in);
    welcome->staged = weft_in_version(&in);
    welcome->heartbeat_ms = (uint32_t)weft_in_word(&in, 4);
    welcome->chunk_bytes = (uint32_t)weft_in_word(&in, 4);
    weft_in_address(&in, welcome->address, &welcome->address_bytes);
    get_more(&in, welcome->more, &welcome->further, false);
    return weft_wire_done(&in, "WELCOME");
}

/* ---- versions of the fabric library */

weft_status weft_wire_check_fabric(const weft_wire_hello *hello, const weft_link_facts *facts)
{
    uint32_t theirs = hello->fabric, ours = facts->version;
    if (!theirs || !ours || theirs >> 16 == ours >> 16)
        return WEFT_OK;
    if (facts->one_major)
        return weft_fail(WEFT_E_REFUSED,
                         "%s comes with libfabric %u.%u, this end has %u.%u: provider %s does not work between majors; "
                         "install one of them at both ends, or name provider tcp, which does",
                         hello->name, theirs >> 16, theirs & 0xffff, ours >> 16, ours & 0xffff, hello->provider);
    weft_log(WEFT_LOG_INFO, "%s comes with libfabric %u.%u, this end has %u.%u: provider %s works between the two",
             hello->name, theirs >> 16, theirs & 0xffff, ours >> 16, ours & 0xffff, hello->provider);
    return WEFT_OK;
}
