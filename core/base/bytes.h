/* bytes.h - little-endian integers in byte strings: a cursor that writes and one that reads, both bounded.
 *
 * A cursor that would pass its end moves no further and remembers it in `bad`: a message is written or read as a whole
 * and judged once at the end. */
#ifndef WEFT_CORE_BYTES_H
#define WEFT_CORE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct weft_out {
    uint8_t *data;
    uint64_t capacity;
    uint64_t used;
    bool bad;
} weft_out;

typedef struct weft_in {
    const uint8_t *data;
    uint64_t length;
    uint64_t used;
    bool bad;
} weft_in;

static inline uint64_t weft_bytes_get(const uint8_t *p, uint32_t width)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < width; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static inline void weft_bytes_put(uint8_t *p, uint64_t value, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static inline void weft_out_block(weft_out *out, const void *data, uint64_t bytes)
{
    if (out->bad || bytes > out->capacity - out->used) {
        out->bad = true;
        return;
    }
    if (bytes)
        memcpy(out->data + out->used, data, bytes);
    out->used += bytes;
}

static inline void weft_out_word(weft_out *out, uint64_t value, uint32_t width)
{
    uint8_t word[8];
    weft_bytes_put(word, value, width);
    weft_out_block(out, word, width);
}

/* A text of at most 65535 bytes behind its u16 length. */
static inline void weft_out_text(weft_out *out, const char *text)
{
    uint64_t length = strlen(text);
    weft_out_word(out, length, 2);
    weft_out_block(out, text, length);
}

/* The next `bytes` bytes in place, NULL past the end. */
static inline const uint8_t *weft_in_block(weft_in *in, uint64_t bytes)
{
    if (in->bad || bytes > in->length - in->used) {
        in->bad = true;
        return NULL;
    }
    const uint8_t *block = in->data + in->used;
    in->used += bytes;
    return block;
}

static inline uint64_t weft_in_word(weft_in *in, uint32_t width)
{
    const uint8_t *block = weft_in_block(in, width);
    return block ? weft_bytes_get(block, width) : 0;
}

/* Copies a text into `capacity` bytes, terminated; one that has no room or holds a zero byte makes the cursor bad. */
static inline void weft_in_text(weft_in *in, char *text, uint64_t capacity)
{
    uint64_t length = weft_in_word(in, 2);
    const uint8_t *block = weft_in_block(in, length);
    text[0] = 0;
    if (!block)
        return;
    if (length >= capacity || memchr(block, 0, length)) {
        in->bad = true;
        return;
    }
    memcpy(text, block, length);
    text[length] = 0;
}

/* Bytes, of at most `length`, of the control character that `text` begins with: C0, DEL, or C1 in UTF-8, which steers
 * some terminals as ESC does. 0: it begins with none. */
static inline uint32_t weft_bytes_control(const char *text, uint64_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    if (length > 0 && (at[0] < ' ' || at[0] == 0x7f))
        return 1;
    return length > 1 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

/* Words to a human go to terminals and logs: what is not printable ASCII becomes '?'. */
static inline void weft_bytes_clean(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* Whether everything was read and nothing was missing. */
static inline bool weft_in_done(const weft_in *in)
{
    return !in->bad && in->used == in->length;
}

#endif
