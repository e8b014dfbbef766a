/* record_main.c - writes launches of every kernel to a file, for the machine code to repeat: isa_cases FILE [full]. */
#include <stdio.h>
#include <string.h>

#include "tests/isa/cases.h"

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s FILE [full]\n", argv[0]);
        return 2;
    }
    weft_record_to(argv[1]);
    weft_cases(argc == 3 && strcmp(argv[2], "full") == 0);
    weft_record_to(NULL);
    return 0;
}
