/* version.c - the library's version as text. */
#include "weft.h"

#define WEFT_TEXT_OF(x) #x
#define WEFT_TEXT(x)    WEFT_TEXT_OF(x)

const char *weft_version_string(void)
{
    return WEFT_TEXT(WEFT_VERSION_MAJOR) "." WEFT_TEXT(WEFT_VERSION_MINOR) "." WEFT_TEXT(WEFT_VERSION_PATCH);
}
