/* level.c - the names of the levels. */
#include "codec/frame.h"

#include <string.h>

#include "base/status.h"

static const char *const names[WEFT_LEVEL_COUNT] = {"full", "pairs", "fast", "tight"};

const char *weft_level_name(weft_level level)
{
    return (unsigned)level < WEFT_LEVEL_COUNT ? names[level] : "unknown";
}

weft_status weft_level_by_name(const char *name, weft_level *level)
{
    for (unsigned i = 0; i < WEFT_LEVEL_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *level = (weft_level)i;
            return WEFT_OK;
        }
    }
    return weft_fail(WEFT_E_ARGUMENT, "there is no level \"%s\"; use full, pairs, fast or tight", name);
}
