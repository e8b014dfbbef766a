/* classes.c - parameters to words and back, and the table from exponent to class. */
#include "codec/classes.h"

#include <string.h>

#include "base/status.h"

const weft_kind_row weft_kinds[WEFT_KIND_COUNT] = {
    {"integer 8", 1, 0}, {"integer 16", 2, 0}, {"integer 32", 4, 0}, {"integer 64", 8, 0}, {"e4m3", 1, 4},
    {"e5m2", 1, 5},      {"f16", 2, 5},        {"bf16", 2, 8},       {"f32", 4, 8},        {"f64", 8, 11},
};

/* E - exponent must reach the largest Rice parameter for any exponent. */
#define MAGNITUDE_BASE_MAX (WEFT_EXPONENTS_MAX + 63u)

uint32_t weft_kind_of(uint8_t width, uint8_t exponent_bits)
{
    uint32_t kind = 0;
    while (kind < WEFT_KIND_COUNT - 1 &&
           (weft_kinds[kind].width != width || weft_kinds[kind].exponent_bits != exponent_bits))
        kind++;
    return kind;
}

static bool is_default(const weft_classes *classes)
{
    return classes->thresholds == 0 && classes->magnitude_base == 0;
}

uint32_t weft_parameters_write(const weft_parameters *parameters, uint16_t words[WEFT_PARAMETER_WORDS_MAX])
{
    uint32_t used = 0;
    words[used++] = (uint16_t)parameters->run_shift;
    for (uint32_t kind = 0; kind < WEFT_KIND_COUNT; kind++) {
        const weft_classes *classes = &parameters->classes[kind];
        if (is_default(classes))
            continue;
        words[used++] = (uint16_t)(kind | (classes->thresholds + 1) << 8);
        words[used++] = (uint16_t)classes->magnitude_base;
        for (uint32_t c = 0; c < classes->thresholds; c++)
            words[used++] = (uint16_t)classes->threshold[c];
    }
    return used == 1 && parameters->run_shift == 0 ? 0 : used;
}

static weft_status wrong_word(uint32_t index, uint32_t word, const char *what)
{
    return weft_fail(WEFT_E_PROTOCOL, "parameter word %u is %u: %s", index, word, what);
}

/* Reads the row at `at`; returns where the next one begins in `next`. */
static weft_status row_read(const uint16_t *words, uint32_t count, uint32_t at, weft_parameters *parameters,
                            uint32_t *next)
{
    uint32_t kind = words[at] & 0xffu, classes = words[at] >> 8;
    if (kind >= WEFT_KIND_COUNT || classes == 0 || classes > WEFT_CLASS_MAX)
        return wrong_word(at, words[at], "no such kind or number of classes");
    if (classes > 1 && weft_kinds[kind].exponent_bits == 0)
        return wrong_word(at, words[at], "a kind without exponents has one class");
    if (count - at < classes + 1)
        return wrong_word(at, words[at], "the words end within this row");
    weft_classes *row = &parameters->classes[kind];
    row->thresholds = classes - 1;
    row->magnitude_base = words[at + 1];
    if (row->magnitude_base > MAGNITUDE_BASE_MAX)
        return wrong_word(at + 1, words[at + 1], "the magnitude base is too large");
    for (uint32_t c = 0; c + 1 < classes; c++) {
        row->threshold[c] = words[at + 2 + c];
        if (row->threshold[c] <= (c > 0 ? row->threshold[c - 1] : 0) ||
            row->threshold[c] >> weft_kinds[kind].exponent_bits)
            return wrong_word(at + 2 + c, words[at + 2 + c], "thresholds rise from 1 and are exponents");
    }
    if (is_default(row))
        return wrong_word(at, words[at], "a row that says what its absence says is left out");
    *next = at + 1 + classes;
    return WEFT_OK;
}

weft_status weft_parameters_read(const uint16_t *words, uint32_t count, weft_parameters *parameters)
{
    memset(parameters, 0, sizeof *parameters);
    if (count == 0)
        return WEFT_OK;
    if (words[0] > WEFT_RUN_SHIFT_MAX)
        return wrong_word(0, words[0], "runs have at most 2^6 units");
    if (words[0] == 0 && count == 1)
        return wrong_word(0, words[0], "words that say what their absence says are left out");
    parameters->run_shift = words[0];
    int last = -1;
    for (uint32_t at = 1; at < count;) {
        if ((words[at] & 0xff) <= last)
            return wrong_word(at, words[at], "kinds come in order, each once");
        last = words[at] & 0xff;
        weft_status status = row_read(words, count, at, parameters, &at);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

void weft_class_map_make(weft_class_map *map, const weft_parameters *parameters, uint8_t width, uint8_t exponent_bits)
{
    static const weft_classes one_class = {0};
    const weft_classes *classes = parameters ? &parameters->classes[weft_kind_of(width, exponent_bits)] : &one_class;
    uint32_t class = 0;
    map->classes = classes;
    map->count = classes->thresholds + 1;
    map->width = width;
    map->shift = exponent_bits ? 8u * width - 1 - exponent_bits : 0;
    map->mask = (UINT32_C(1) << exponent_bits) - 1;
    for (uint32_t e = 0; e <= map->mask; e++) {
        while (class < classes->thresholds && e >= classes->threshold[class])
            class ++;
        map->of[e] = (uint8_t) class;
    }
}
