/* digest.h - the kernel of full digests. */
#ifndef WEFT_BACKENDS_KERNELS_DIGEST_H
#define WEFT_BACKENDS_KERNELS_DIGEST_H

#include "backends/kernels/block.h"
#include "backends/kernels/element.h"

template <unsigned width> WEFT_DEVICE uint64_t weft_digest_quad(uint64_t data, uint64_t index)
{
    const weft_quad quad = weft_load_stream(WEFT_AT(const weft_quad, data));
    uint64_t sum = 0;
    for (unsigned i = 0; i < 16 / width; i++)
        sum += weft_k_term(index + i, weft_quad_element<width>(quad, i));
    return sum;
}

/* Returns one thread's part of a row's sum. */
template <unsigned width> WEFT_DEVICE uint64_t weft_digest_part(const weft_k_digest *row)
{
    const uint64_t data = row->data, element = row->element;
    const uint32_t count = row->count, thread = weft_thread(), each = 16 / width;
    const uint32_t head = weft_head_of<width>(data, count), quads = (count - head) / each;
    uint64_t sum = 0;
    if (thread < head)
        sum += weft_k_term(element + thread, weft_element_load<width>(data, thread));
    for (uint32_t q = thread; q < quads; q += WEFT_BLOCK)
        sum += weft_digest_quad<width>(data + (uint64_t)head * width + (uint64_t)q * 16, element + head + q * each);
    const uint32_t rest = head + quads * each + thread;
    if (rest < count)
        sum += weft_k_term(element + rest, weft_element_load<width>(data, rest));
    return sum;
}

/* The same of elements whose memory is F32. */
WEFT_DEVICE uint64_t weft_digest_cast(const weft_k_digest *row)
{
    uint64_t sum = 0;
    for (uint32_t i = weft_thread(); i < row->count; i += WEFT_BLOCK)
        sum += weft_k_term(row->element + i, weft_cast_load(row->data, i, row->width - WEFT_K_CAST));
    return sum;
}

WEFT_KERNEL(digest)(const weft_k_digest *rows)
{
    const weft_k_digest *row = rows + weft_block();
    uint64_t sum = 0;
    switch (row->width) {
    case 1:
        sum = weft_digest_part<1>(row);
        break;
    case 2:
        sum = weft_digest_part<2>(row);
        break;
    case 4:
        sum = weft_digest_part<4>(row);
        break;
    default:
        sum = row->width & WEFT_K_CAST ? weft_digest_cast(row) : weft_digest_part<8>(row);
    }
    weft_block_add64(WEFT_AT(uint64_t, row->sum), sum);
}

#endif
