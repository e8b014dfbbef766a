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
WEFT_DEVICE uint32_t weft_k_cast(uint32_t bits)
{
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
}

/* An element of BF16 whose memory is F32 if `cast` says so. */
WEFT_DEVICE uint32_t weft_cast_load(uint64_t data, uint64_t index, bool cast)
{
    return cast ? weft_k_cast(weft_element_load<4>(data, index)) : weft_element_load<2>(data, index);
}

/* Eight F32 as BF16. */
WEFT_DEVICE weft_quad weft_cast_quad(const weft_quad &low, const weft_quad &high)
{
    return {weft_k_cast(low.x) | weft_k_cast(low.y) << 16, weft_k_cast(low.z) | weft_k_cast(low.w) << 16,
            weft_k_cast(high.x) | weft_k_cast(high.y) << 16, weft_k_cast(high.z) | weft_k_cast(high.w) << 16};
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
