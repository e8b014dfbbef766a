/* gpu_copy_away.h - copies of bytes that this processor does not read soon, such as what a device fetches.
 *
 * An ordinary copy first reads the memory that is written, because a cache takes whole lines, and drives other data out
 * of the caches. On x86-64 whole lines go past the caches here. */
#ifndef WEFT_BACKENDS_GPU_COPY_AWAY_H
#define WEFT_BACKENDS_GPU_COPY_AWAY_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

#define WEFT_GPU_COPY_LINE 64u

static inline void weft_gpu_copy_away_line(uint8_t *to, const uint8_t *from)
{
    __m128i part[4];
    for (int i = 0; i < 4; i++)
        part[i] = _mm_loadu_si128((const __m128i *)(const void *)from + i);
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)(void *)to + i, part[i]);
}

/* Copies as memcpy does. Others may learn of the bytes after weft_gpu_copy_away_end. */
static inline void weft_gpu_copy_away(void *to, const void *from, uint64_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    const uint64_t gap = -(uintptr_t)out % WEFT_GPU_COPY_LINE, head = gap < bytes ? gap : bytes;
    uint64_t at = head;
    memcpy(out, in, head);
    for (; bytes - at >= WEFT_GPU_COPY_LINE; at += WEFT_GPU_COPY_LINE)
        weft_gpu_copy_away_line(out + at, in + at);
    memcpy(out + at, in + at, bytes - at);
}

/* Ends the copies of the calling thread. Without this call a lock or a launch may come before the bytes, because
 * stores past the caches keep no order. */
static inline void weft_gpu_copy_away_end(void)
{
    _mm_sfence();
}
#else
static inline void weft_gpu_copy_away(void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
}

static inline void weft_gpu_copy_away_end(void)
{
}
#endif

#endif
