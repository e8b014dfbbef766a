/* element.h - one element in device memory and in the element order, and what a digest says of it. The width is a
 * template's, so that a kernel decides it once for all its elements. */
#ifndef WEFT_BACKENDS_KERNELS_ELEMENT_H
#define WEFT_BACKENDS_KERNELS_ELEMENT_H

template <unsigned width> struct weft_word_of;
template <> struct weft_word_of<1> {
    typedef uint8_t type;
};
template <> struct weft_word_of<2> {
    typedef uint16_t type;
};
template <> struct weft_word_of<4> {
    typedef uint32_t type;
};
template <> struct weft_word_of<8> {
    typedef uint64_t type;
};

/* An element as it lies in memory, and as what it is computed with: 32 bits where that is enough. */
template <unsigned width> struct weft_bits_of {
    typedef uint32_t type;
};
template <> struct weft_bits_of<8> {
    typedef uint64_t type;
};

template <unsigned width>
WEFT_DEVICE typename weft_bits_of<width>::type weft_element_load(uint64_t data, uint64_t index)
{
    return WEFT_AT(const typename weft_word_of<width>::type, data)[index];
}

template <unsigned width>
WEFT_DEVICE void weft_element_store(uint64_t data, uint64_t index, typename weft_bits_of<width>::type bits)
{
    WEFT_AT(typename weft_word_of<width>::type, data)[index] = (typename weft_word_of<width>::type)bits;
}

WEFT_DEVICE uint32_t weft_quad_word(const weft_quad &quad, unsigned index)
{
    return index == 0 ? quad.x : index == 1 ? quad.y : index == 2 ? quad.z : quad.w;
}

/* Element `index` of the 16 / width in a quad; the index is known when compiled. */
template <unsigned width>
WEFT_DEVICE typename weft_bits_of<width>::type weft_quad_element(const weft_quad &quad, unsigned index)
{
    if (width == 8)
        return (typename weft_bits_of<width>::type)(weft_quad_word(quad, 2 * index) |
                                                    (uint64_t)weft_quad_word(quad, 2 * index + 1) << 32);
    const uint32_t word = weft_quad_word(quad, index * width / 4) >> (index * width % 4 * 8);
    return width == 4 ? word : word & ((1u << (8 * width % 32)) - 1);
}

/* The bits of an F32 as those of a BF16: to nearest, ties to even; each NaN becomes 7fc0. No device's own instruction
 * is used, because their NaNs differ. */
WEFT_DEVICE uint32_t weft_k_bf16(uint32_t bits)
{
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
}

/* The same as those of an F16; each NaN becomes 7e00. Of what is less than the least normal F16 the whole significand
 * is rounded, at a place that its exponent says. What is more than the largest one becomes infinite. */
WEFT_DEVICE uint32_t weft_k_f16(uint32_t bits)
{
    const uint32_t size = bits & 0x7fffffffu, exponent = size >> 23;
    const bool normal = exponent >= 113;
    const uint32_t drop = normal ? 13 : exponent > 101 ? 126 - exponent : 25;
    const uint32_t all = normal ? size - (112u << 23) : (size & 0x7fffffu) | 0x800000u;
    const uint32_t rounded = (all + (1u << (drop - 1)) - 1 + (all >> drop & 1)) >> drop;
    const uint32_t number = (bits >> 16 & 0x8000u) | (rounded < 0x7c00u ? rounded : 0x7c00u);
    return size > 0x7f800000u ? 0x7e00u : number;
}

WEFT_DEVICE uint32_t weft_k_cast(uint32_t bits, uint32_t cast)
{
    return cast == WEFT_K_F16 ? weft_k_f16(bits) : weft_k_bf16(bits);
}

/* An element of 2 bytes whose memory is F32 if `cast` says so. */
WEFT_DEVICE uint32_t weft_cast_load(uint64_t data, uint64_t index, uint32_t cast)
{
    return cast ? weft_k_cast(weft_element_load<4>(data, index), cast) : weft_element_load<2>(data, index);
}

/* Eight F32, cast. The kinds have no code in common, so that the cheaper one costs what it did alone. */
WEFT_DEVICE weft_quad weft_cast_quad(const weft_quad &low, const weft_quad &high, uint32_t cast)
{
    if (cast == WEFT_K_F16)
        return {weft_k_f16(low.x) | weft_k_f16(low.y) << 16, weft_k_f16(low.z) | weft_k_f16(low.w) << 16,
                weft_k_f16(high.x) | weft_k_f16(high.y) << 16, weft_k_f16(high.z) | weft_k_f16(high.w) << 16};
    return {weft_k_bf16(low.x) | weft_k_bf16(low.y) << 16, weft_k_bf16(low.z) | weft_k_bf16(low.w) << 16,
            weft_k_bf16(high.x) | weft_k_bf16(high.y) << 16, weft_k_bf16(high.z) | weft_k_bf16(high.w) << 16};
}

/* Elements before the first that is aligned to 16 bytes, at most `count`. */
template <unsigned width> WEFT_DEVICE uint32_t weft_head_of(uint64_t data, uint32_t count)
{
    const uint32_t head = (uint32_t)((0 - data) % 16) / width;
    return head < count ? head : count;
}

#define WEFT_K_PHI 0x9e3779b97f4a7c15ull

/* core/layout/digest.h holds the law. */
WEFT_DEVICE uint64_t weft_k_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

WEFT_DEVICE uint64_t weft_k_term(uint64_t index, uint64_t bits)
{
    return weft_k_mix64(((index + 1) * WEFT_K_PHI) ^ bits);
}

#endif
