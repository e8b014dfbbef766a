/* digest.h - the sum, keyed by position, that proves weights equal. The digest finds faults; it does not authenticate.
 *
 * digest(tensor) = sum over its coded elements i of mix64((i + 1) * PHI xor bits_i)  mod 2^64
 * root           = sum over its tensors t of mix64((t + 1) * PHI xor digest(t))      mod 2^64
 *
 * mix64 is the bijective finaliser of splitmix64 and (i + 1) * PHI its Weyl sequence (mix64.h), so a term is an output
 * of that generator with the element xored into its state: bijective in the bits of one element, not linear in them,
 * additive over slices and in any order. */
#ifndef WEFT_CORE_DIGEST_H
#define WEFT_CORE_DIGEST_H

#include "base/mix64.h"
#include "layout/layout.h"

/* Returns the term of element `index`, counted from 0, with these bits. The key is index + 1, so that index 0 is keyed
 * too. */
static inline uint64_t weft_digest_term(uint64_t index, uint64_t bits)
{
    return weft_mix64(((index + 1) * WEFT_PHI) ^ bits);
}

/* Returns the root of `count` tensor digests. */
uint64_t weft_digest_root(const uint64_t *tensor_digests, uint64_t count);

/* Returns the digest of a tensor, and the root, from the digests of parts (part.h), one word each. */
uint64_t weft_digest_tensor(const weft_layout *layout, const uint64_t *parts, uint64_t tensor);
uint64_t weft_digest_parts_root(const weft_layout *layout, const uint64_t *parts);

#endif
