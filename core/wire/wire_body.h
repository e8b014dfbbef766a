/* wire_body.h - helpers that several files of message bodies share. */
#ifndef WEFT_CORE_WIRE_BODY_H
#define WEFT_CORE_WIRE_BODY_H

#include "wire/wire.h"

/* Reads a byte that is 0 or 1; any other makes the cursor bad. */
static inline bool weft_in_flag(weft_in *in)
{
    uint64_t flag = weft_in_word(in, 1);
    in->bad = in->bad || flag > 1;
    return flag == 1;
}

static inline void weft_out_version(weft_out *out, const weft_version *version)
{
    weft_out_word(out, version->run, 8);
    weft_out_word(out, version->number, 8);
    weft_out_word(out, version->root, 8);
}

static inline weft_version weft_in_version(weft_in *in)
{
    weft_version version;
    version.run = weft_in_word(in, 8);
    version.number = weft_in_word(in, 8);
    version.root = weft_in_word(in, 8);
    return version;
}

/* Writes the beginning of a body: its mark and the number of its protocol or format. */
void weft_out_magic(weft_out *out, uint32_t magic, uint32_t protocol);
weft_status weft_in_magic(weft_in *in, uint32_t magic, uint32_t protocol, const char *what);
/* Reads the beginning of a body, and returns its number where several are allowed. Errors: WEFT_E_CORRUPT. */
weft_status weft_in_mark(weft_in *in, uint32_t magic, const char *what, uint32_t *protocol);

/* Writes the words reserved for sharding, groups and renditions, and the layout. */
void weft_out_identity(weft_out *out, const uint64_t layout[2]);
weft_status weft_in_identity(weft_in *in, const char *what, uint64_t layout[2]);

/* Writes the length of a fabric address, then the address. */
void weft_out_address(weft_out *out, const uint8_t *address, uint32_t bytes);
void weft_in_address(weft_in *in, uint8_t address[WEFT_PORT_ADDRESS_MAX], uint32_t *bytes);

/* Writes the route of a HELLO through relays (wire_relay.c). */
void weft_out_route(weft_out *out, const weft_wire_hello *hello);
void weft_in_route(weft_in *in, weft_wire_hello *hello);

/* WEFT_OK if the cursor read everything in good order, else WEFT_E_CORRUPT about `what`. */
weft_status weft_wire_done(const weft_in *in, const char *what);

#endif
