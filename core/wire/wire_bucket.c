/* wire_bucket.c - the header of a bucket. */
#include <xxhash.h>

#include "base/status.h"
#include "wire/wire_body.h"

#define BUCKET_MAGIC 0x4b424657u /* "WFBK" */

/* A bucket header is packed: the layout stands as the fold of its hash, since the handshake compared all of it. */
static uint64_t fold(const uint64_t layout[2])
{
    return layout[0] ^ layout[1];
}

void weft_wire_put_bucket(uint8_t header[WEFT_BUCKET_HEADER_BYTES], const weft_wire_bucket *bucket)
{
    weft_out out = {header, WEFT_BUCKET_HEADER_BYTES, 0, false};
    weft_out_word(&out, BUCKET_MAGIC, 4);
    weft_out_word(&out, WEFT_FORMAT, 2);
    weft_out_word(&out, bucket->kind, 1);
    weft_out_word(&out, bucket->epoch, 1);
    weft_out_word(&out, 0, 2); /* stream */
    weft_out_word(&out, 0, 1); /* source */
    weft_out_word(&out, 1, 1); /* sources */
    weft_out_word(&out, bucket->slot, 2);
    weft_out_word(&out, bucket->chunks, 2);
    weft_out_word(&out, fold(bucket->layout), 8);
    weft_out_word(&out, 0, 4); /* group */
    weft_out_word(&out, bucket->frames, 4);
    weft_out_word(&out, bucket->incarnation, 8);
    weft_out_word(&out, bucket->sequence, 8);
    weft_out_version(&out, &bucket->base);
    weft_out_version(&out, &bucket->target);
    weft_out_word(&out, bucket->offset, 8);
    weft_out_word(&out, bucket->payload_bytes, 8);
    weft_out_word(&out, bucket->check, 8);
    while (out.used < WEFT_BUCKET_HEADER_BYTES - 8)
        weft_out_word(&out, 0, 1);
    weft_out_word(&out, XXH3_64bits(header, WEFT_BUCKET_HEADER_BYTES - 8), 8);
}

weft_status weft_wire_get_bucket(const uint8_t header[WEFT_BUCKET_HEADER_BYTES], const uint64_t layout[2],
                                 weft_wire_bucket *bucket)
{
    weft_in in = {header, WEFT_BUCKET_HEADER_BYTES, 0, false};
    uint64_t seal = weft_bytes_get(header + WEFT_BUCKET_HEADER_BYTES - 8, 8);
    memset(bucket, 0, sizeof *bucket);
    uint64_t magic = weft_in_word(&in, 4), protocol = weft_in_word(&in, 2);
    if (magic != BUCKET_MAGIC || seal != XXH3_64bits(header, WEFT_BUCKET_HEADER_BYTES - 8))
        return weft_fail(WEFT_E_CHECK, "bucket header: mark %08llx, seal does not match; damaged on the way",
                         (unsigned long long)magic);
    bucket->kind = (weft_bucket_kind)weft_in_word(&in, 1);
    bucket->epoch = (uint32_t)weft_in_word(&in, 1);
    uint64_t stream = weft_in_word(&in, 2), source = weft_in_word(&in, 1), sources = weft_in_word(&in, 1);
    bucket->slot = (uint32_t)weft_in_word(&in, 2);
    bucket->chunks = (uint32_t)weft_in_word(&in, 2);
    uint64_t folded = weft_in_word(&in, 8), group = weft_in_word(&in, 4);
    bucket->frames = (uint32_t)weft_in_word(&in, 4);
    bucket->incarnation = weft_in_word(&in, 8);
    bucket->sequence = weft_in_word(&in, 8);
    bucket->base = weft_in_version(&in);
    bucket->target = weft_in_version(&in);
    bucket->offset = weft_in_word(&in, 8);
    bucket->payload_bytes = weft_in_word(&in, 8);
    bucket->check = weft_in_word(&in, 8);
    memcpy(bucket->layout, layout, sizeof bucket->layout);
    uint64_t reserved = weft_in_word(&in, 8);
    reserved |= weft_in_word(&in, 8);
    if (protocol != WEFT_FORMAT || bucket->kind > WEFT_BUCKET_ATTACHMENT || stream || source || sources != 1 || group ||
        folded != fold(layout) || bucket->chunks == 0 || bucket->chunks > WEFT_CHUNKS_MAX ||
        bucket->payload_bytes == 0 || bucket->target.root || reserved)
        return weft_fail(
            WEFT_E_PROTOCOL,
            "bucket header: protocol %llu kind %u stream %llu source %llu of %llu group %llu chunks %u "
            "payload %llu root %llx reserved %llx are not what protocol %u and this layout (%016llx) allow",
            (unsigned long long)protocol, bucket->kind, (unsigned long long)stream, (unsigned long long)source,
            (unsigned long long)sources, (unsigned long long)group, bucket->chunks,
            (unsigned long long)bucket->payload_bytes, (unsigned long long)bucket->target.root,
            (unsigned long long)reserved, WEFT_FORMAT, (unsigned long long)fold(layout));
    return WEFT_OK;
}
