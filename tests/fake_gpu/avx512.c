#include "tests/fake_gpu/avx512.h"

#if defined(WEFT_SIMDE)
#define weft_host_avx512       weft_host_avx512_simde
#define weft_host_tight_avx512 weft_host_tight_avx512_simde
#include "backends/host/host_avx512.c"
#include "backends/host/tight/host_tight_avx512.c"
#endif

#include <stdlib.h>
#include <string.h>

#include "backends/host/host_state.h"

#if defined(WEFT_SIMDE)
static weft_backend table;

static weft_status open_state(const weft_backend_options *options, weft_backend_state **state)
{
    const bool wanted = strcmp(options->kernels, "avx512") == 0;
    weft_backend_options others = *options;
    if (wanted)
        others.kernels = "portable";
    weft_status status = weft_backend_host.open(&others, state);
    if (status != WEFT_OK || !wanted)
        return status;
    (*state)->kernels = &weft_host_avx512_simde;
    (*state)->tight = (*state)->ranker.tight = &weft_host_tight_avx512_simde;
    return WEFT_OK;
}

static avx512_way lend(void)
{
    table = weft_backend_host;
    table.open = open_state;
    weft_backend_lend(&table);
    return AVX512_BY_SIMDE;
}
#else
static avx512_way lend(void)
{
    return AVX512_NONE;
}
#endif

avx512_way avx512_lend(void)
{
    const weft_host_kernels *kernels;
    const bool here = !getenv("WEFT_TEST_SIMDE") && weft_host_choose("avx512", &kernels) == WEFT_OK;
    return here ? AVX512_BY_THE_CPU : lend();
}

void avx512_take_back(void)
{
    weft_backend_lend(NULL);
}
