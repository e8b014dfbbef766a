#include "tools/follow/natural.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static size_t digits(const char *text)
{
    size_t count = 0;
    while (isdigit((unsigned char)text[count]))
        count++;
    return count;
}

int weft_natural_order(const char *a, const char *b)
{
    while (*a && *b) {
        if (!isdigit((unsigned char)*a) || !isdigit((unsigned char)*b)) {
            if (*a != *b)
                return (unsigned char)*a - (unsigned char)*b;
            a++, b++;
            continue;
        }
        while (*a == '0')
            a++;
        while (*b == '0')
            b++;
        size_t na = digits(a), nb = digits(b);
        int order = na != nb ? (na < nb ? -1 : 1) : strncmp(a, b, na);
        if (order)
            return order;
        a += na, b += nb;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

int weft_natural_compare(const char *a, const char *b)
{
    const int order = weft_natural_order(a, b);
    return order ? order : strcmp(a, b);
}

bool weft_natural_alike(const char *a, const char *b)
{
    while (*a && *b && (isdigit((unsigned char)*a) != 0) == (isdigit((unsigned char)*b) != 0)) {
        size_t na = digits(a), nb = digits(b);
        if (!na && *a != *b)
            return false;
        a += na ? na : 1;
        b += nb ? nb : 1;
    }
    return !*a && !*b;
}
