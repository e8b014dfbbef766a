/* wire_digests.c - QUERY, DIGESTS, and the REPAIR that follows from them. */
#include "wire/wire_body.h"

/* The range of digests that QUERY asks for and DIGESTS answers. */
static void put_range(weft_out *out, weft_digests_kind kind, uint64_t tensor, uint64_t first, uint32_t count)
{
    weft_out_word(out, kind, 1);
    weft_out_word(out, tensor, 8);
    weft_out_word(out, first, 8);
    weft_out_word(out, count, 2);
}

static void get_range(weft_in *in, weft_digests_kind *kind, uint64_t *tensor, uint64_t *first, uint32_t *count)
{
    *kind = weft_in_flag(in) ? WEFT_DIGESTS_TILES : WEFT_DIGESTS_TENSORS;
    *tensor = weft_in_word(in, 8);
    *first = weft_in_word(in, 8);
    *count = (uint32_t)weft_in_word(in, 2);
    in->bad = in->bad || *count > WEFT_DIGESTS_MAX || (*kind == WEFT_DIGESTS_TENSORS && *tensor != 0);
}

void weft_wire_put_query(weft_out *out, const weft_wire_query *query)
{
    weft_out_version(out, &query->version);
    put_range(out, query->kind, query->tensor, query->first, query->count);
}

weft_status weft_wire_get_query(const uint8_t *body, uint64_t length, weft_wire_query *query)
{
    weft_in in = {body, length, 0, false};
    memset(query, 0, sizeof *query);
    query->version = weft_in_version(&in);
    get_range(&in, &query->kind, &query->tensor, &query->first, &query->count);
    in.bad = in.bad || query->count == 0;
    return weft_wire_done(&in, "QUERY");
}

void weft_wire_put_digests(weft_out *out, const weft_wire_digests *digests)
{
    weft_out_version(out, &digests->version);
    weft_out_version(out, &digests->before);
    put_range(out, digests->kind, digests->tensor, digests->first, digests->count);
    for (uint32_t i = 0; i < digests->count; i++)
        weft_out_word(out, digests->digest[i], 8);
}

weft_status weft_wire_get_digests(const uint8_t *body, uint64_t length, weft_wire_digests *digests)
{
    weft_in in = {body, length, 0, false};
    memset(digests, 0, sizeof *digests);
    digests->version = weft_in_version(&in);
    digests->before = weft_in_version(&in);
    get_range(&in, &digests->kind, &digests->tensor, &digests->first, &digests->count);
    for (uint32_t i = 0; i < digests->count && !in.bad; i++)
        digests->digest[i] = weft_in_word(&in, 8);
    return weft_wire_done(&in, "DIGESTS");
}

void weft_wire_put_repair(weft_out *out, const weft_wire_repair *repair)
{
    weft_out_word(out, repair->root, 8);
    weft_out_version(out, &repair->version);
    weft_out_word(out, repair->count, 2);
    for (uint32_t i = 0; i < repair->count; i++) {
        weft_out_word(out, repair->range[i].first, 4);
        weft_out_word(out, repair->range[i].units, 4);
    }
}

weft_status weft_wire_get_repair(const uint8_t *body, uint64_t length, weft_wire_repair *repair)
{
    weft_in in = {body, length, 0, false};
    uint64_t end = 0;
    memset(repair, 0, sizeof *repair);
    repair->root = weft_in_word(&in, 8);
    repair->version = weft_in_version(&in);
    repair->count = (uint32_t)weft_in_word(&in, 2);
    in.bad = in.bad || repair->count == 0 || repair->count > WEFT_REPAIR_RANGES_MAX;
    for (uint32_t i = 0; i < repair->count && !in.bad; i++) {
        repair->range[i].first = (uint32_t)weft_in_word(&in, 4);
        repair->range[i].units = (uint32_t)weft_in_word(&in, 4);
        in.bad = in.bad || repair->range[i].first < end || repair->range[i].units == 0;
        end = (uint64_t)repair->range[i].first + repair->range[i].units;
    }
    return weft_wire_done(&in, "REPAIR");
}
