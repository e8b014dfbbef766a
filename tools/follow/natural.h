/* natural.h - names with numbers in them: v9 before v10. */
#ifndef WEFT_TOOLS_NATURAL_H
#define WEFT_TOOLS_NATURAL_H

#include <stdbool.h>

/* Less than, equal to or greater than 0 as a stands before, at or after b, runs of digits compared as numbers. */
int weft_natural_compare(const char *a, const char *b);

/* The same, but 0 also for names whose numbers differ in zeros before them alone: v9 and v09. */
int weft_natural_order(const char *a, const char *b);

/* Whether two names differ in numbers alone: v9.safetensors and v10.safetensors. */
bool weft_natural_alike(const char *a, const char *b);

#endif
