/* digest.c - the root over tensor digests. The sums over elements are the backends'. */
#include "layout/digest.h"

#include "layout/part.h"

uint64_t weft_digest_root(const uint64_t *tensor_digests, uint64_t count)
{
    uint64_t root = 0;
    for (uint64_t t = 0; t < count; t++)
        root += weft_digest_term(t, tensor_digests[t]);
    return root;
}

uint64_t weft_digest_tensor(const weft_layout *layout, const uint64_t *parts, uint64_t tensor)
{
    uint64_t sum = 0, first = layout->entries[tensor].part, count = weft_part_count(layout, tensor);
    for (uint64_t i = 0; i < count; i++)
        sum += parts[first + i];
    return sum;
}

uint64_t weft_digest_parts_root(const weft_layout *layout, const uint64_t *parts)
{
    uint64_t root = 0;
    for (uint64_t t = 0; t < layout->count; t++)
        root += weft_digest_term(t, weft_digest_tensor(layout, parts, t));
    return root;
}
