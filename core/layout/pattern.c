#include "layout/pattern.h"

#include <string.h>

/* Half of what a signed difference of addresses holds, so that sums of two spans fit too. */
#define SPAN_MOST (UINT64_C(1) << 61)

/* ---- making */

/* Parts of more than one value, in the order of rising strides. */
static uint32_t parts_sort(const weft_stride *parts, uint32_t count, weft_stride *sorted)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].extent == 1)
            continue;
        uint32_t at = used++;
        for (; at > 0 && sorted[at - 1].stride > parts[i].stride; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = parts[i];
    }
    return used;
}

/* Adds a part outside of those that the pattern has, in front of them. */
static weft_pattern_fault part_add(weft_pattern *pattern, const weft_stride *part)
{
    uint64_t reach;
    if (part->stride < pattern->span)
        return WEFT_PATTERN_ALIASES;
    if (__builtin_mul_overflow(part->extent - 1, part->stride, &reach) || reach > SPAN_MOST - pattern->span)
        return WEFT_PATTERN_ENDLESS;
    if (pattern->count == 0 && part->stride == pattern->bytes) {
        pattern->bytes += reach;
    } else {
        memmove(pattern->part + 1, pattern->part, pattern->count * sizeof *part);
        pattern->part[0] = *part;
        pattern->count++;
    }
    pattern->span += reach;
    return WEFT_PATTERN_SOUND;
}

weft_pattern_fault weft_pattern_make(const void *data, uint64_t width, const weft_stride *parts, uint32_t count,
                                     weft_pattern *pattern, weft_stride *fault)
{
    weft_stride sorted[WEFT_PATTERN_PARTS];
    const uint32_t used = parts_sort(parts, count, sorted);
    *pattern = (weft_pattern){.low = (uintptr_t)data, .bytes = width, .span = width};
    for (uint32_t i = 0; i < used; i++) {
        const weft_pattern_fault found = part_add(pattern, &sorted[i]);
        if (found != WEFT_PATTERN_SOUND && fault)
            *fault = sorted[i];
        if (found != WEFT_PATTERN_SOUND)
            return found;
    }
    return pattern->span - 1 > UINTPTR_MAX - pattern->low ? WEFT_PATTERN_ENDLESS : WEFT_PATTERN_SOUND;
}

/* ---- meeting */

/* The rest of a pattern inside of its outer parts. */
typedef struct rest {
    const weft_stride *part;
    uint32_t count;
    int64_t span;
} rest;

static rest inside(const rest *of)
{
    const uint64_t reach = (of->part->extent - 1) * of->part->stride;
    return (rest){of->part + 1, of->count - 1, of->span - (int64_t)reach};
}

static int64_t divide_down(int64_t number, int64_t by)
{
    return number / by - (number % by < 0);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Finds the multiples of `stride` by which b must move down for the spans of a and b to meet. `gap`: bytes from the
 * begin of a to the begin of b. */
static void steps_between(const rest *a, const rest *b, int64_t gap, int64_t stride, int64_t *least, int64_t *most)
{
    *least = divide_down(gap - a->span, stride) + 1;
    *most = divide_down(gap + b->span - 1, stride);
}

/* Tells whether two rests meet, where b begins `gap` bytes after a. Parts of a common stride are taken together,
 * because only the difference of their indices counts. Of other parts the one of the larger stride is walked, as far as
 * the spans can meet. The depth is at most the number of parts of both. */
static bool rests_meet(const rest *a, const rest *b, int64_t gap)
{
    if (gap >= a->span || -gap >= b->span)
        return false;
    const uint64_t a_stride = a->count ? a->part->stride : 0, b_stride = b->count ? b->part->stride : 0;
    const int64_t stride = (int64_t)(a_stride > b_stride ? a_stride : b_stride);
    if (stride == 0) /* two runs */
        return true;
    const rest a_in = a_stride >= b_stride ? inside(a) : *a, b_in = b_stride >= a_stride ? inside(b) : *b;
    const int64_t up = a_stride >= b_stride ? (int64_t)a->part->extent - 1 : 0;
    const int64_t down = b_stride >= a_stride ? (int64_t)b->part->extent - 1 : 0;
    int64_t least, most;
    steps_between(&a_in, &b_in, gap, stride, &least, &most);
    least = larger(least, -down);
    most = smaller(most, up);
    for (int64_t step = least; step <= most; step++) {
        if (rests_meet(&a_in, &b_in, gap - step * stride))
            return true;
    }
    return false;
}

bool weft_pattern_meets(const weft_pattern *a, const weft_pattern *b)
{
    const bool later = b->low >= a->low;
    const uint64_t gap = later ? b->low - a->low : a->low - b->low;
    if (gap >= (later ? a->span : b->span))
        return false;
    const rest left = {a->part, a->count, (int64_t)a->span}, right = {b->part, b->count, (int64_t)b->span};
    return rests_meet(&left, &right, later ? (int64_t)gap : -(int64_t)gap);
}
