/* mix64.h - a bijection of 64-bit words whose output looks random: the finaliser of splitmix64 (Steele, Lea, Flood
 * 2014) with the constants of Stafford's mix 13, and PHI, the step of that generator's Weyl sequence. */
#ifndef WEFT_CORE_MIX64_H
#define WEFT_CORE_MIX64_H

#include <stdint.h>

#define WEFT_PHI UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t weft_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
