/* wire_rail.c - messages about single ports of a connection: LANDED, CLOSE, CLOSED, OPEN, OPENED and DUCT. */
#include "wire/wire_body.h"

static void put_port(weft_out *out, uint32_t port, uint32_t turn)
{
    weft_out_word(out, port, 1);
    weft_out_word(out, turn, 4);
}

static void get_port(weft_in *in, uint32_t *port, uint32_t *turn)
{
    *port = (uint32_t)weft_in_word(in, 1);
    *turn = (uint32_t)weft_in_word(in, 4);
    in->bad = in->bad || *port >= WEFT_PORTS_MAX;
}

void weft_wire_put_landed(weft_out *out, const weft_wire_landed *landed)
{
    weft_out_word(out, landed->count, 1);
    for (uint32_t i = 0; i < landed->count; i++) {
        weft_out_word(out, landed->port[i].turn, 4);
        weft_out_word(out, landed->port[i].failed, 1);
        weft_out_word(out, landed->port[i].writes, 8);
    }
}

weft_status weft_wire_get_landed(const uint8_t *body, uint64_t length, weft_wire_landed *landed)
{
    weft_in in = {body, length, 0, false};
    memset(landed, 0, sizeof *landed);
    landed->count = (uint32_t)weft_in_word(&in, 1);
    in.bad = in.bad || landed->count == 0 || landed->count > WEFT_PORTS_MAX;
    for (uint32_t i = 0; i < landed->count && !in.bad; i++) {
        landed->port[i].turn = (uint32_t)weft_in_word(&in, 4);
        landed->port[i].failed = weft_in_flag(&in);
        landed->port[i].writes = weft_in_word(&in, 8);
    }
    return weft_wire_done(&in, "LANDED");
}

void weft_wire_put_close(weft_out *out, const weft_wire_close *close)
{
    put_port(out, close->port, close->turn);
}

weft_status weft_wire_get_close(const uint8_t *body, uint64_t length, weft_wire_close *close)
{
    weft_in in = {body, length, 0, false};
    get_port(&in, &close->port, &close->turn);
    return weft_wire_done(&in, "CLOSE");
}

void weft_wire_put_closed(weft_out *out, const weft_wire_closed *closed)
{
    put_port(out, closed->port, closed->turn);
    weft_out_block(out, closed->whole, sizeof closed->whole);
}

weft_status weft_wire_get_closed(const uint8_t *body, uint64_t length, weft_wire_closed *closed)
{
    weft_in in = {body, length, 0, false};
    memset(closed, 0, sizeof *closed);
    get_port(&in, &closed->port, &closed->turn);
    const uint8_t *whole = weft_in_block(&in, sizeof closed->whole);
    if (whole)
        memcpy(closed->whole, whole, sizeof closed->whole);
    return weft_wire_done(&in, "CLOSED");
}

void weft_wire_put_open(weft_out *out, const weft_wire_open *open)
{
    put_port(out, open->port, open->turn);
    weft_out_address(out, open->at.address, open->at.address_bytes);
}

weft_status weft_wire_get_open(const uint8_t *body, uint64_t length, weft_wire_open *open)
{
    weft_in in = {body, length, 0, false};
    memset(open, 0, sizeof *open);
    get_port(&in, &open->port, &open->turn);
    weft_in_address(&in, open->at.address, &open->at.address_bytes);
    in.bad = in.bad || open->at.address_bytes == 0;
    return weft_wire_done(&in, "OPEN");
}

void weft_wire_put_opened(weft_out *out, const weft_wire_open *opened)
{
    put_port(out, opened->port, opened->turn);
    weft_out_address(out, opened->at.address, opened->at.address_bytes);
    weft_out_word(out, opened->at.region_address, 8);
    weft_out_word(out, opened->at.region_key, 8);
}

weft_status weft_wire_get_opened(const uint8_t *body, uint64_t length, weft_wire_open *opened)
{
    weft_in in = {body, length, 0, false};
    memset(opened, 0, sizeof *opened);
    get_port(&in, &opened->port, &opened->turn);
    weft_in_address(&in, opened->at.address, &opened->at.address_bytes);
    opened->at.region_address = weft_in_word(&in, 8);
    opened->at.region_key = weft_in_word(&in, 8);
    return weft_wire_done(&in, "OPENED");
}

void weft_wire_put_duct(weft_out *out, const weft_wire_duct *duct)
{
    weft_out_address(out, duct->address, duct->address_bytes);
}

weft_status weft_wire_get_duct(const uint8_t *body, uint64_t length, weft_wire_duct *duct)
{
    weft_in in = {body, length, 0, false};
    memset(duct, 0, sizeof *duct);
    weft_in_address(&in, duct->address, &duct->address_bytes);
    in.bad = in.bad || duct->address_bytes == 0;
    return weft_wire_done(&in, "DUCT");
}
