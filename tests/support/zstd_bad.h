/* zstd_bad.h - bytes that zstd's own library makes, and mostly takes, but that are not one frame that says it holds
 * 1000 bytes. */
#ifndef WEFT_TESTS_ZSTD_BAD_H
#define WEFT_TESTS_ZSTD_BAD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define ZSTD_BAD_PLAIN 1000u
#define ZSTD_BAD_ROOM  1000u

typedef void (*zstd_bad_refused)(void *user, const char *what, const uint8_t *packed, uint64_t bytes);

/* Bytes that shrink. */
static inline void zstd_bad_plain(uint8_t *plain, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        plain[i] = (uint8_t)(i % 7 * (i % 11));
}

static inline size_t zstd_bad_made(uint8_t *packed, size_t plain_bytes)
{
    uint8_t plain[2 * ZSTD_BAD_PLAIN];
    zstd_bad_plain(plain, sizeof plain);
    size_t bytes = ZSTD_compress(packed, ZSTD_BAD_ROOM, plain, plain_bytes, 1);
    if (bytes > ZSTD_BAD_ROOM) /* errors are */
        abort();
    return bytes;
}

static inline size_t zstd_bad_unstated(uint8_t *packed)
{
    uint8_t plain[ZSTD_BAD_PLAIN];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    zstd_bad_plain(plain, sizeof plain);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    size_t bytes = ZSTD_compress2(context, packed, ZSTD_BAD_ROOM, plain, sizeof plain);
    ZSTD_freeCCtx(context);
    if (bytes > ZSTD_BAD_ROOM) /* errors are */
        abort();
    return bytes;
}

/* The frame of 1000 bytes, with a dictionary's number 0 in its header. */
static inline size_t zstd_bad_dictionary(uint8_t *packed)
{
    size_t bytes = zstd_bad_made(packed, ZSTD_BAD_PLAIN);
    size_t at = packed[4] >> 5 & 1 ? 5 : 6; /* after the window, if there is one */
    for (size_t i = bytes; i > at; i--)
        packed[i] = packed[i - 1];
    packed[at] = 0;
    packed[4] |= 1;
    return bytes + 1;
}

/* Every one of them to `refused`. */
static inline void zstd_bad_each(zstd_bad_refused refused, void *user)
{
    static const uint8_t skippable[12] = {0x50, 0x2a, 0x4d, 0x18, 4};
    uint8_t packed[2 * ZSTD_BAD_ROOM + sizeof skippable];
    size_t bytes = zstd_bad_made(packed, ZSTD_BAD_PLAIN);
    for (size_t cut = 0; cut < bytes; cut += cut < 16 || cut + 4 >= bytes ? 1 : 7)
        refused(user, "cut", packed, cut);
    packed[bytes] = 0;
    refused(user, "a byte after it", packed, bytes + 1);
    memcpy(packed + bytes, skippable, sizeof skippable);
    refused(user, "a frame to skip after it", packed, bytes + sizeof skippable);
    packed[0] ^= 1;
    refused(user, "another magic number", packed, bytes);
    memcpy(packed, skippable, sizeof skippable);
    refused(user, "a frame to skip alone", packed, sizeof skippable);
    refused(user, "a frame to skip before it", packed,
            sizeof skippable + zstd_bad_made(packed + sizeof skippable, ZSTD_BAD_PLAIN));
    refused(user, "a byte less", packed, zstd_bad_made(packed, ZSTD_BAD_PLAIN - 1));
    refused(user, "a byte more", packed, zstd_bad_made(packed, ZSTD_BAD_PLAIN + 1));
    bytes = zstd_bad_made(packed, ZSTD_BAD_PLAIN / 2);
    refused(user, "two frames", packed, bytes + zstd_bad_made(packed + bytes, ZSTD_BAD_PLAIN / 2));
    bytes = zstd_bad_made(packed, ZSTD_BAD_PLAIN);
    refused(user, "an empty frame after it", packed, bytes + zstd_bad_made(packed + bytes, 0));
    refused(user, "a size that is not stated", packed, zstd_bad_unstated(packed));
    refused(user, "a dictionary", packed, zstd_bad_dictionary(packed));
    bytes = zstd_bad_made(packed, ZSTD_BAD_PLAIN);
    packed[4] |= 8;
    refused(user, "a reserved bit", packed, bytes);
}

#endif
