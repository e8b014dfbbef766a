/* cut_name.c - names of tensors as cuts read them: patterns, and numbers of layers and experts. */
#include <fnmatch.h>
#include <string.h>

#include "shard/cut.h"

/* Copies the next pattern of a list, without blanks around the pattern. False: the list ended. */
static bool pattern_next(const char **list, char pattern[WEFT_MAX_NAME + 1])
{
    const char *from = *list + strspn(*list, ", \t");
    size_t length = strcspn(from, ",");
    *list = from + length;
    while (length > 0 && (from[length - 1] == ' ' || from[length - 1] == '\t'))
        length--;
    if (length == 0)
        return false;
    if (length > WEFT_MAX_NAME)
        length = WEFT_MAX_NAME;
    memcpy(pattern, from, length);
    pattern[length] = 0;
    return true;
}

bool weft_cut_matches(const weft_cut *cut, const char *name)
{
    char pattern[WEFT_MAX_NAME + 1];
    const char *list = cut->patterns;
    if (!list)
        return true;
    while (pattern_next(&list, pattern)) {
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

/* Reads the number after `word` and a dot. The word is a whole component of the name. */
static bool number_after(const char *name, const char *word, uint64_t *number)
{
    const size_t length = strlen(word);
    for (const char *at = name; *at; at += strcspn(at, "."), at += *at == '.') {
        if (strncmp(at, word, length) != 0 || at[length] != '.')
            continue;
        const char *digit = at + length + 1;
        uint64_t value = 0;
        size_t digits = strspn(digit, "0123456789");
        if (digits == 0 || digits > 9 || (digit[digits] != '.' && digit[digits] != 0))
            continue;
        for (size_t i = 0; i < digits; i++)
            value = value * 10 + (uint64_t)(digit[i] - '0');
        *number = value;
        return true;
    }
    return false;
}

bool weft_cut_layer_of(const char *name, uint64_t *layer)
{
    static const char *const words[] = {"layers", "layer", "blocks", "block", "h"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (number_after(name, words[i], layer))
            return true;
    }
    return false;
}

bool weft_cut_expert_of(const char *name, uint64_t *expert)
{
    return number_after(name, "experts", expert);
}
