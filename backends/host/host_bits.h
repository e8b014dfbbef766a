/* host_bits.h - bit planes: counted from the least significant bit of byte 0. */
#ifndef WEFT_BACKENDS_HOST_BITS_H
#define WEFT_BACKENDS_HOST_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Writes planes upwards. While 8 bytes are left before `end` each put stores so many, which the next puts and planes
 * overwrite: no branch depends on the bits. */
typedef struct weft_bit_writer {
    uint8_t *at;
    const uint8_t *end; /* nothing is stored from here on */
    uint64_t word;      /* bits of the byte at `at` that are written already */
    unsigned fill;      /* how many, below 8 between calls */
} weft_bit_writer;

/* bits is below 2^count; count is at most 32. */
static inline void weft_bits_put(weft_bit_writer *writer, uint64_t bits, unsigned count)
{
    writer->word |= bits << writer->fill;
    writer->fill += count;
    if (__builtin_expect(writer->end - writer->at >= 8, 1))
        memcpy(writer->at, &writer->word, 8);
    else
        memcpy(writer->at, &writer->word, (writer->fill + 7) / 8);
    writer->at += writer->fill / 8;
    writer->word >>= writer->fill / 8 * 8;
    writer->fill %= 8;
}

/* The same up to 63 bits. */
static inline void weft_bits_put_long(weft_bit_writer *writer, uint64_t bits, unsigned count)
{
    if (count > 32) {
        weft_bits_put(writer, bits & UINT32_MAX, 32);
        bits >>= 32;
        count -= 32;
    }
    weft_bits_put(writer, bits, count);
}

/* So many zeros and a one. */
static inline void weft_bits_put_unary(weft_bit_writer *writer, uint64_t zeros)
{
    for (; zeros >= 32; zeros -= 32)
        weft_bits_put(writer, 0, 32);
    weft_bits_put(writer, UINT64_C(1) << zeros, (unsigned)zeros + 1);
}

/* Where the next plane begins: after the last byte begun, whose other bits are zero. */
static inline uint8_t *weft_bits_end(const weft_bit_writer *writer)
{
    return writer->at + (writer->fill > 0);
}

/* Bytes that may be read, and nothing beyond them. */
typedef struct weft_bit_source {
    const uint8_t *data;
    uint64_t bytes;
} weft_bit_source;

/* 8 bytes from `offset`, zeros where the source ends. */
static inline uint64_t weft_bits_word(const weft_bit_source *source, uint64_t offset)
{
    uint64_t word = 0;
    if (offset + 8 <= source->bytes)
        memcpy(&word, source->data + offset, 8);
    else if (offset < source->bytes)
        memcpy(&word, source->data + offset, source->bytes - offset);
    return word;
}

/* `count` bits (at most 32) from bit `at`. */
static inline uint64_t weft_bits_get(const weft_bit_source *source, uint64_t at, unsigned count)
{
    return weft_bits_word(source, at / 8) >> (at % 8) & ((UINT64_C(1) << count) - 1);
}

/* The same up to 63 bits. */
static inline uint64_t weft_bits_get_long(const weft_bit_source *source, uint64_t at, unsigned count)
{
    if (count <= 32)
        return weft_bits_get(source, at, count);
    return weft_bits_get(source, at, 32) | weft_bits_get(source, at + 32, count - 32) << 32;
}

/* Whether the bits from `at` to the end of its byte are zero. */
static inline bool weft_bits_tail_clear(const weft_bit_source *source, uint64_t at)
{
    return at % 8 == 0 || weft_bits_get(source, at, (unsigned)(8 - at % 8)) == 0;
}

/* Walks the ones of a plane. */
typedef struct weft_bit_walker {
    weft_bit_source source;
    uint64_t next; /* offset of the word after `word` */
    uint64_t base; /* bit number of bit 0 of `word` */
    uint64_t word; /* ones not yet taken */
    uint64_t last; /* bit number after the last one taken */
} weft_bit_walker;

static inline weft_bit_walker weft_bits_walk(weft_bit_source source, uint64_t offset)
{
    weft_bit_walker walker = {source, offset + 8, offset * 8, weft_bits_word(&source, offset), offset * 8};
    return walker;
}

/* Moves on to a word with a one; false at the end of the source. */
static inline bool weft_bits_refill(weft_bit_walker *walker)
{
    while (walker->word == 0) {
        if (walker->next >= walker->source.bytes)
            return false;
        walker->base = walker->next * 8;
        walker->word = weft_bits_word(&walker->source, walker->next);
        walker->next += 8;
    }
    return true;
}

/* Zeros before the next one, which is taken; UINT64_MAX if there is none. */
static inline uint64_t weft_bits_unary(weft_bit_walker *walker)
{
    if (!weft_bits_refill(walker))
        return UINT64_MAX;
    uint64_t at = walker->base + (unsigned)__builtin_ctzll(walker->word);
    uint64_t zeros = at - walker->last;
    walker->word &= walker->word - 1;
    walker->last = at + 1;
    return zeros;
}

/* Two unary numbers. */
typedef struct weft_bits_pair {
    uint64_t first, second;
} weft_bits_pair;

/* The two numbers whose zeros begin at bit `at`, which moves after them; they must be there. Mostly both lie in one
 * word, so that nothing depends on where words end. */
static inline weft_bits_pair weft_bits_two(const weft_bit_source *source, uint64_t *at)
{
    const uint64_t word = weft_bits_word(source, *at / 8) >> *at % 8, rest = word & (word - 1);
    weft_bits_pair two;
    if (__builtin_expect(rest != 0, 1)) {
        const unsigned one = (unsigned)__builtin_ctzll(word), other = (unsigned)__builtin_ctzll(rest);
        *at += other + 1;
        return (weft_bits_pair){one, other - one - 1};
    }
    weft_bit_walker walker = weft_bits_walk(*source, *at / 8);
    walker.word &= UINT64_MAX << *at % 8;
    walker.last = *at;
    two.first = weft_bits_unary(&walker);
    two.second = weft_bits_unary(&walker);
    *at = walker.last;
    return two;
}

/* Takes `count` ones; false if there are not so many. */
static inline bool weft_bits_skip(weft_bit_walker *walker, uint64_t count)
{
    while (count > 0) {
        if (!weft_bits_refill(walker))
            return false;
        unsigned ones = (unsigned)__builtin_popcountll(walker->word);
        if (ones < count) {
            count -= ones;
            walker->word = 0;
            continue;
        }
        for (; count > 1; count--)
            walker->word &= walker->word - 1;
        count = 0;
        weft_bits_unary(walker);
    }
    return true;
}

#endif
