#include <stdio.h>
#include <string.h>

#include "store/store.h"

static const char *const kinds[WEFT_STORE_KINDS] = {"source", "anchor", "merge", "tight"};

typedef unsigned long long ull;

void weft_store_name_put(const weft_store_name *name, char out[WEFT_STORE_NAME_MAX])
{
    snprintf(out, WEFT_STORE_NAME_MAX, "%016llx/%020llu/%s-%u-of-%u.weft", (ull)name->run, (ull)name->number,
             kinds[name->kind], name->source, name->sources);
}

/* A number has one spelling, so a name is right if it is what its numbers make. */
bool weft_store_name_get(const char *text, weft_store_name *name)
{
    char again[WEFT_STORE_NAME_MAX];
    ull run, number;
    for (unsigned kind = 0; kind < WEFT_STORE_KINDS; kind++) {
        char pattern[64];
        snprintf(pattern, sizeof pattern, "%%16llx/%%20llu/%s-%%9u-of-%%9u.weft", kinds[kind]);
        if (sscanf(text, pattern, &run, &number, &name->source, &name->sources) != 4)
            continue;
        name->run = run;
        name->number = number;
        name->kind = (weft_store_kind)kind;
        weft_store_name_put(name, again);
        return strcmp(again, text) == 0 && name->source < name->sources && name->sources <= WEFT_SOURCES_MAX;
    }
    return false;
}
