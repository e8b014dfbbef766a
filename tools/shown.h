/* shown.h - names that anybody may have made, as a terminal shows them. */
#ifndef WEFT_TOOLS_SHOWN_H
#define WEFT_TOOLS_SHOWN_H

#include <stdbool.h>

#include "weft.h"

/* A name, and blanks up to the width of a column. */
typedef struct weft_shown {
    char text[WEFT_MAX_NAME + 64];
} weft_shown;

/* Whether the process's locale (LC_ALL, LC_CTYPE, LANG) writes UTF-8. */
bool weft_shown_is_utf8(void);

/* Returns a name as it may be shown: `width` characters at least, and `most` at most. A byte that may not be shown
 * becomes
 * '?'. In UTF-8 these are bytes that are no UTF-8 and characters that steer a terminal (controls, separators of lines,
 * marks that turn the direction of text), else all but printable ASCII. */
weft_shown weft_shown_name(const char *name, bool utf8, uint32_t width, uint32_t most);

#endif
