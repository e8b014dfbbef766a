/* site_value.c - one value of the site file: the unit is required, the bounds are the table's. */
#include "site/site_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "site/site_text.h"

typedef struct unit {
    const char *text;
    uint64_t scale;
} unit;

/* Largest first: the first that divides a value prints it. The last two rates are read, never printed. */
static const unit sizes[] = {{"GiB", UINT64_C(1) << 30}, {"MiB", UINT64_C(1) << 20}, {"KiB", UINT64_C(1) << 10}, {0}};
static const unit times[] = {{"s", 1000}, {"ms", 1}, {0}};
static const unit rates[] = {{"Gbit/s", 125000000}, {"Mbit/s", 125000}, {"GB/s", 1000000000}, {"MB/s", 1000000}, {0}};
static const unit counts[] = {{"", 1}, {0}};

static const unit *units_of(weft_key_type type)
{
    switch (type) {
    case WEFT_KEY_SIZE:
        return sizes;
    case WEFT_KEY_TIME:
        return times;
    case WEFT_KEY_RATE:
        return rates;
    default:
        return counts;
    }
}

/* Digits only: no sign, no fraction, no overflow. Leaves *end after the last digit. */
static bool parse_digits(const char *text, uint64_t *number, const char **end)
{
    uint64_t sum = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
            return false;
    }
    *number = sum;
    *end = at;
    return at > text;
}

static bool parse_number(const weft_site_field *field, const char *text, uint64_t *number)
{
    if (field->word && !strcmp(text, field->word)) {
        *number = field->word_number;
        return true;
    }
    const char *at;
    if (!parse_digits(text, number, &at))
        return false;
    while (*at == ' ')
        at++;
    for (const unit *u = units_of(field->key.type); u->text; u++) {
        if (!strcmp(u->text, at))
            return !__builtin_mul_overflow(*number, u->scale, number) && *number >= field->low &&
                   *number <= field->high;
    }
    return false;
}

/* The choices are the words of the row's range, between " | ". */
static bool parse_choice(const weft_site_field *field, const char *text, uint64_t *index)
{
    size_t length = strlen(text);
    const char *word = field->key.range;
    for (*index = 0;; ++*index) {
        const char *bar = strstr(word, " | ");
        size_t bytes = bar ? (size_t)(bar - word) : strlen(word);
        if (bytes == length && !memcmp(word, text, bytes))
            return true;
        if (!bar)
            return false;
        word = bar + 3;
    }
}

static bool parse_text(const weft_site_field *field, const char *text)
{
    char host[WEFT_SITE_TEXT];
    uint32_t port, high;
    if (strlen(text) >= field->width)
        return false;
    if (!text[0])
        return !field->key.fallback[0];
    switch (field->rule) {
    case WEFT_TEXT_NAME:
        return weft_site_is_name(text);
    case WEFT_TEXT_ADDRESS:
        return weft_site_is_addresses(text);
    case WEFT_TEXT_LISTEN:
        return weft_site_listen_split(text, host, &port);
    case WEFT_TEXT_VIA:
        return weft_site_is_via(text);
    case WEFT_TEXT_PORTS:
        return weft_site_ports_split(text, &port, &high);
    case WEFT_TEXT_NUMBERS:
        return weft_site_numbers(text, NULL) > 0;
    default:
        return true;
    }
}

bool weft_site_value_parse(const weft_site_field *field, const char *text, weft_site_value *value)
{
    memset(value, 0, sizeof(*value));
    if (strlen(text) >= sizeof(value->text))
        return false;
    memcpy(value->text, text, strlen(text));
    switch (field->key.type) {
    case WEFT_KEY_TEXT:
        return parse_text(field, text);
    case WEFT_KEY_CHOICE:
        return parse_choice(field, text, &value->number);
    default:
        return parse_number(field, text, &value->number);
    }
}

static void print_choice(const weft_site_field *field, uint64_t index, char *text, size_t capacity)
{
    const char *word = field->key.range;
    for (; index; index--)
        word = strstr(word, " | ") + 3;
    const char *bar = strstr(word, " | ");
    snprintf(text, capacity, "%.*s", (int)(bar ? (size_t)(bar - word) : strlen(word)), word);
}

static void print_number(const weft_site_field *field, uint64_t number, char *text, size_t capacity)
{
    if (field->word && number == field->word_number) {
        snprintf(text, capacity, "%s", field->word);
        return;
    }
    const unit *u = units_of(field->key.type);
    while (number % u->scale && u[1].text)
        u++;
    snprintf(text, capacity, "%" PRIu64 "%s", number / u->scale, u->text);
}

void weft_site_value_print(const weft_site_field *field, const weft_site_value *value, char *text, size_t capacity)
{
    if (field->key.type == WEFT_KEY_TEXT)
        snprintf(text, capacity, "%s", value->text);
    else if (field->key.type == WEFT_KEY_CHOICE)
        print_choice(field, value->number, text, capacity);
    else
        print_number(field, value->number, text, capacity);
}

void weft_site_value_need(const weft_site_field *field, char *text, size_t capacity)
{
    static const char *const kinds[] = {[WEFT_KEY_SIZE] = "a size such as 4MiB",
                                        [WEFT_KEY_TIME] = "a time such as 500ms or 30s",
                                        [WEFT_KEY_RATE] = "a rate such as 100Mbit/s or 2GB/s",
                                        [WEFT_KEY_COUNT] = "a whole number without a unit"};
    const char *range = field->key.range;
    if (field->key.type == WEFT_KEY_TEXT || field->key.type == WEFT_KEY_CHOICE) {
        snprintf(text, capacity, "need %s", range);
    } else if (field->word) {
        snprintf(text, capacity, "need %s or %s (%s)", field->word, kinds[field->key.type],
                 strstr(range, " or ") + strlen(" or "));
    } else {
        snprintf(text, capacity, "need %s (%s)", kinds[field->key.type], range);
    }
}

static bool lands_as_text(const weft_site_field *field)
{
    return field->key.type == WEFT_KEY_TEXT || (field->key.type == WEFT_KEY_CHOICE && field->width != sizeof(unsigned));
}

void weft_site_value_put(const weft_site_field *field, const weft_site_value *value, void *fields)
{
    unsigned char *to = (unsigned char *)fields + field->offset;
    unsigned index = (unsigned)value->number;
    if (lands_as_text(field))
        memcpy(to, value->text, field->width);
    else if (field->key.type == WEFT_KEY_CHOICE)
        memcpy(to, &index, sizeof(index));
    else
        memcpy(to, &value->number, sizeof(value->number));
}

void weft_site_value_take(const weft_site_field *field, const void *fields, weft_site_value *value)
{
    const unsigned char *from = (const unsigned char *)fields + field->offset;
    unsigned index;
    memset(value, 0, sizeof(*value));
    if (lands_as_text(field)) {
        memcpy(value->text, from, field->width);
        if (field->key.type == WEFT_KEY_CHOICE)
            parse_choice(field, value->text, &value->number);
    } else if (field->key.type == WEFT_KEY_CHOICE) {
        memcpy(&index, from, sizeof(index));
        value->number = index;
    } else {
        memcpy(&value->number, from, sizeof(value->number));
    }
}
