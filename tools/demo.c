#include "verbs.h"
int weft_verb_demo(const weft_args *args)
{
    (void)args;
    return 1;
}
