/* boxes.h - elements that lie in boxes with strides, out of their boxes into dense memory, and back. The other kernels
 * work on the dense memory. A thread moves 16 bytes of dense memory at a time. */
#ifndef WEFT_BACKENDS_KERNELS_BOXES_H
#define WEFT_BACKENDS_KERNELS_BOXES_H

#include "backends/kernels/element.h"

/* Where an element lies, and how many lie side by side from there on. */
typedef struct weft_box_place {
    uint64_t data;
    uint32_t side;
    uint32_t cast; /* what F32 is read as */
} weft_box_place;

WEFT_DEVICE uint32_t weft_divide(uint32_t number, const weft_k_divisor &divisor)
{
    const uint32_t high = (uint32_t)((uint64_t)number * divisor.factor >> 32);
    return (high + ((number - high) >> divisor.first)) >> divisor.second;
}

/* Bytes to the row or column that is `index` after the first one that counts; `*left` is what is left of the last
 * digit's values. A digit is less than its extent, so that the sum with an index is less than two extents or short. */
WEFT_DEVICE uint64_t weft_digits_bytes(const weft_k_digit *digits, uint32_t count, uint32_t index, uint64_t *left)
{
    uint64_t offset = 0, carry = index;
    for (uint32_t i = count; i-- > 0;) {
        const uint64_t extent = digits[i].extent;
        uint64_t digit = digits[i].start + carry;
        if (i > 0 && extent > 2 * WEFT_K_BOX_ROW) {
            carry = digit >= extent;
            digit -= carry ? extent : 0;
        } else if (i > 0) {
            carry = weft_divide((uint32_t)digit, digits[i].divisor);
            digit -= carry * extent;
        }
        if (i == count - 1)
            *left = extent - digit;
        offset += digit * digits[i].stride;
    }
    return offset;
}

WEFT_DEVICE weft_box_place weft_box_find(const weft_k_boxed *job, uint32_t position)
{
    const uint32_t place = job->column + position, row = job->all.by ? weft_divide(place, job->all) : 0;
    const uint32_t column = place - row * job->all.by;
    const weft_k_box *box = WEFT_AT(const weft_k_box, job->boxes), *last = box + job->box_count - 1;
    while (box < last && (row - box->row >= box->rows || column - box->column >= box->columns))
        box++;
    uint64_t rest = 1, left = 1;
    const uint64_t data = box->data + weft_digits_bytes(box->row_at, box->row_digits, row - box->row, &rest) +
                          weft_digits_bytes(box->column_at, box->column_digits, column - box->column, &left);
    return {data, !box->beside ? 1 : left < WEFT_K_BOX_ROW ? (uint32_t)left : WEFT_K_BOX_ROW, box->cast};
}

/* Moves elements one by one, `loads` out of the boxes. */
template <unsigned width>
WEFT_DEVICE void weft_boxed_each(const weft_k_boxed *job, uint32_t at, uint32_t count, weft_box_place place, bool loads)
{
    for (uint32_t i = 0; i < count; i++) {
        if (place.side == 0)
            place = weft_box_find(job, at + i);
        if (!loads)
            weft_element_store<width>(place.data, 0, weft_element_load<width>(job->dense, at + i));
        else if (width == 2 && place.cast)
            weft_element_store<width>(job->dense, at + i, weft_k_cast(weft_element_load<4>(place.data, 0), place.cast));
        else
            weft_element_store<width>(job->dense, at + i, weft_element_load<width>(place.data, 0));
        place.data += place.cast ? 4 : width;
        place.side--;
    }
}

/* The quads of a part. */
template <unsigned width> WEFT_DEVICE void weft_boxed_move(const weft_k_boxed *job, uint32_t index, bool loads)
{
    const uint32_t each = 16 / width, first = index * WEFT_K_ELEMENTS;
    const uint32_t some = job->count - first, end = first + (some < WEFT_K_ELEMENTS ? some : WEFT_K_ELEMENTS);
    for (uint32_t at = first + weft_thread() * each; at < end; at += WEFT_BLOCK * each) {
        const uint32_t count = end - at < each ? end - at : each;
        const weft_box_place place = weft_box_find(job, at);
        const uint64_t dense = job->dense + (uint64_t)at * width;
        if (place.cast || count < each || place.side < each || (place.data | dense) % 16 != 0)
            weft_boxed_each<width>(job, at, count, place, loads);
        else if (loads)
            *WEFT_AT(weft_quad, dense) = *WEFT_AT(const weft_quad, place.data);
        else
            *WEFT_AT(weft_quad, place.data) = *WEFT_AT(const weft_quad, dense);
    }
}

WEFT_DEVICE void weft_boxed_part(const weft_k_part *part, bool loads)
{
    const weft_k_boxed *job = WEFT_AT(const weft_k_boxed, part->job);
    switch (job->width) {
    case 1:
        weft_boxed_move<1>(job, part->index, loads);
        break;
    case 2:
        weft_boxed_move<2>(job, part->index, loads);
        break;
    case 4:
        weft_boxed_move<4>(job, part->index, loads);
        break;
    default:
        weft_boxed_move<8>(job, part->index, loads);
    }
}

WEFT_KERNEL(boxes_load)(const weft_k_boxes_load *rows)
{
    weft_boxed_part(rows + weft_block(), true);
}

WEFT_KERNEL(boxes_store)(const weft_k_boxes_store *rows)
{
    weft_boxed_part(rows + weft_block(), false);
}

#endif
