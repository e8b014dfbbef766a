#include "tests/isa/cases.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 11;

uint64_t weft_cases_draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 31;
}

void weft_cases_launch(enum weft_gpu_kernel kernel, uint32_t blocks, const void *rows)
{
    const char *wrong = weft_record_launch(kernel, blocks, (uint64_t)(uintptr_t)rows);
    if (!wrong)
        return;
    fprintf(stderr, "%s\n", wrong);
    exit(1);
}

void weft_cases(int full)
{
    weft_cases_digest(full);
    weft_cases_boxes(full);
    weft_cases_codec(full);
}
