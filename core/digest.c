/* digest.c - the root over tensor digests. The sums over elements are the backends'. */
#include "digest.h"

uint64_t weft_digest_root(const uint64_t *tensor_digests, uint64_t count)
{
    uint64_t root = 0;
    for (uint64_t t = 0; t < count; t++)
        root += weft_digest_term(t, tensor_digests[t]);
    return root;
}
