#include "tools/shown.h"

#include <langinfo.h>
#include <locale.h>
#include <string.h>

bool weft_shown_is_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", NULL);
    bool is = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    if (locale)
        freelocale(locale);
    return is;
}

/* Bytes of the character that the text begins with, and which it is; 0: it begins with none. */
static uint32_t character_of(const unsigned char *text, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint32_t bytes = text[0] < 0x80   ? 1
                           : text[0] < 0xc2 ? 0
                           : text[0] < 0xe0 ? 2
                           : text[0] < 0xf0 ? 3
                           : text[0] < 0xf5 ? 4
                                            : 0;
    *code = bytes < 2 ? text[0] : text[0] & (0x7fu >> bytes);
    for (uint32_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (text[i] & 0x3f);
    }
    return bytes == 0 || *code < least[bytes] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : bytes;
}

static bool steers(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

weft_shown weft_shown_name(const char *name, bool utf8, uint32_t width, uint32_t most)
{
    weft_shown shown = {{0}};
    size_t used = 0;
    uint32_t characters = 0, code;
    const size_t room = sizeof shown.text - 1;
    for (; *name && characters < most && used + 4 <= room; characters++) {
        uint32_t bytes = character_of((const unsigned char *)name, &code);
        if (bytes > 0 && !steers(code) && (utf8 || code < 0x80)) {
            memcpy(shown.text + used, name, bytes);
            used += bytes;
            name += bytes;
        } else {
            shown.text[used++] = '?';
            name++;
        }
    }
    for (; characters < width && used < room; characters++)
        shown.text[used++] = ' ';
    return shown;
}
