/* avx512.h - the host backend with its AVX-512 loops, on any CPU: where this one or the build lacks them, they are the
 * same sources recompiled by SIMDe. WEFT_TEST_SIMDE=1: those even where the CPU has the instructions. */
#ifndef WEFT_TESTS_FAKE_AVX512_H
#define WEFT_TESTS_FAKE_AVX512_H

typedef enum avx512_way { AVX512_NONE, AVX512_BY_THE_CPU, AVX512_BY_SIMDE } avx512_way;

/* Sees to it that `kernels = avx512` can be had, if it can, and says how. While no session is open. */
avx512_way avx512_lend(void);
/* As it was. While no session is open. */
void avx512_take_back(void);

#endif
