/* bytes.h - little-endian integers in byte strings: a cursor that writes and a cursor that reads, both bounded.
 *
 * A cursor that would pass its end stops there and sets `bad`. So a caller writes or reads a whole message and checks
 * the cursor once at the end. */
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

/* Writes the text's length as a u16, then the text, which has at most 65535 bytes. */
static inline void weft_out_text(weft_out *out, const char *text)
{
    uint64_t length = strlen(text);
    weft_out_word(out, length, 2);
    weft_out_block(out, text, length);
}

/* Returns the next `bytes` bytes in place, or NULL if fewer are left. */
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

/* Copies a text into `capacity` bytes and terminates it. A text that is too long or holds a zero byte makes the cursor
 * bad. */
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

/* Returns the length in bytes of the control character that `text` begins with, at most `length`, or 0 if there is
 * none. Control characters are C0, DEL, and C1 in UTF-8, because C1 steers some terminals as ESC does. */
static inline uint32_t weft_bytes_control(const char *text, uint64_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    if (length > 0 && (at[0] < ' ' || at[0] == 0x7f))
        return 1;
    return length > 1 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

/* Replaces every character that is not printable ASCII by '?', because the text goes to terminals and logs. */
static inline void weft_bytes_clean(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* True if the cursor read everything and nothing was missing. */
static inline bool weft_in_done(const weft_in *in)
{
    return !in->bad && in->used == in->length;
}

#endif
