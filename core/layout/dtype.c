/* dtype.c - one row a dtype: everything the rest of weft knows about element types. */
#include "layout/layout.h"

#include <string.h>

static const weft_dtype_row rows[] = {
    /* dtype, name, bits, coded width, sign-magnitude, exponent bits */
    {WEFT_BOOL, "BOOL", 8, 1, 0, 0},
    {WEFT_U8, "U8", 8, 1, 0, 0},
    {WEFT_I8, "I8", 8, 1, 0, 0},
    {WEFT_F8_E4M3, "F8_E4M3", 8, 1, 1, 4},
    {WEFT_F8_E5M2, "F8_E5M2", 8, 1, 1, 5},
    {WEFT_F8_E8M0, "F8_E8M0", 8, 1, 0, 0}, /* an exponent without a sign: ordered as the integer it is */
    {WEFT_F4, "F4", 4, 1, 0, 0},           /* packed dtypes are coded as the bytes they fill */
    {WEFT_F6_E2M3, "F6_E2M3", 6, 1, 0, 0},
    {WEFT_F6_E3M2, "F6_E3M2", 6, 1, 0, 0},
    {WEFT_I16, "I16", 16, 2, 0, 0},
    {WEFT_U16, "U16", 16, 2, 0, 0},
    {WEFT_F16, "F16", 16, 2, 1, 5},
    {WEFT_BF16, "BF16", 16, 2, 1, 8},
    {WEFT_I32, "I32", 32, 4, 0, 0},
    {WEFT_U32, "U32", 32, 4, 0, 0},
    {WEFT_F32, "F32", 32, 4, 1, 8},
    {WEFT_I64, "I64", 64, 8, 0, 0},
    {WEFT_U64, "U64", 64, 8, 0, 0},
    {WEFT_F64, "F64", 64, 8, 1, 11},
    {WEFT_C64, "C64", 64, 4, 1, 8},                /* two F32 */
    {WEFT_F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, 1, 1, 4}, /* without a -0, whose bits are its one NaN */
    {WEFT_F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, 1, 1, 5},
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

_Static_assert(ROW_COUNT == WEFT_DTYPE_LAST, "a row a dtype, numbered from 1 without a gap");

const weft_dtype_row *weft_dtype_find(weft_dtype dtype)
{
    uint32_t number = (uint32_t)dtype;
    return number >= 1 && number <= ROW_COUNT ? &rows[number - 1] : NULL;
}

weft_cast weft_cast_find(weft_dtype memory, weft_dtype element)
{
    static const struct {
        weft_dtype memory, element;
    } casts[WEFT_CASTS] = {[WEFT_CAST_BF16] = {WEFT_F32, WEFT_BF16}, [WEFT_CAST_F16] = {WEFT_F32, WEFT_F16}};
    weft_cast cast = WEFT_CASTS - 1;
    while (cast > WEFT_CAST_NONE && (casts[cast].memory != memory || casts[cast].element != element))
        cast--;
    return cast;
}

const weft_dtype_row *weft_dtype_by_name(const char *name, uint64_t length)
{
    for (uint64_t i = 0; i < ROW_COUNT; i++) {
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    }
    return NULL;
}
