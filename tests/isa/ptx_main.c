/* ptx_main.c - runs every case on an image's PTX: isa_ptx COUNTS [full [LIBRARY]], where COUNTS is a file for what it
 * took, and LIBRARY has a kernel to run in place of its own. The cases hold what kernels leave against the host's
 * backend. */
#include <stdio.h>
#include <string.h>

#include "tests/isa/cases.h"
#include "tests/isa/ptx_launch.h"

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: %s COUNTS [full [LIBRARY]]\n", argv[0]);
        return 2;
    }
    if (argc == 4)
        weft_ptx_take(argv[3]);
    weft_ptx_counts_to(argv[1]);
    weft_cases(argc > 2 && strcmp(argv[2], "full") == 0);
    weft_ptx_counts_to(NULL);
    return 0;
}
