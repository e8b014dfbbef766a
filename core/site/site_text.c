/* site_text.c - what a name, a host and a listen address look like. */
#include "site/site_text.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/bytes.h"

/* No isalnum: a locale must not widen what goes over the wire as a name. */
static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool weft_site_is_name_of(const char *text, size_t bytes)
{
    if (bytes < 1 || bytes >= WEFT_SITE_NAME)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (!is_lower_or_digit(text[i]) && text[i] != '_' && text[i] != '-')
            return false;
    }
    return true;
}

bool weft_site_is_name(const char *text)
{
    return weft_site_is_name_of(text, strnlen(text, WEFT_SITE_NAME));
}

bool weft_site_is_host(const char *text)
{
    for (const char *at = text; *at; at++) {
        if (!is_lower_or_digit(*at) && !(*at >= 'A' && *at <= 'Z') && !strchr(".:-_%", *at))
            return false;
    }
    return text[0] != 0;
}

static bool parse_port(const char *text, uint32_t *port)
{
    uint32_t sum = 0;
    size_t digits = strlen(text);
    if (digits < 1 || digits > 5)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        sum = sum * 10 + (uint32_t)(text[i] - '0');
    }
    *port = sum;
    return sum <= 65535;
}

bool weft_site_listen_split(const char *listen, char *host, uint32_t *port)
{
    const char *colon = strrchr(listen, ':');
    if (!colon || colon == listen || !parse_port(colon + 1, port))
        return false;
    bool bracketed = listen[0] == '[' && colon[-1] == ']';
    size_t bytes = (size_t)(colon - listen) - (bracketed ? 2 : 0);
    if (bytes >= WEFT_SITE_TEXT)
        return false;
    memcpy(host, listen + (bracketed ? 1 : 0), bytes);
    host[bytes] = 0;
    return weft_site_is_host(host) && (strchr(host, ':') != NULL) == bracketed;
}

bool weft_site_ports_split(const char *ports, uint32_t *low, uint32_t *high)
{
    char first[6];
    const char *dash = strchr(ports, '-');
    *low = *high = 0;
    if (strcmp(ports, "auto") == 0)
        return true;
    if (!dash || (size_t)(dash - ports) >= sizeof first)
        return false;
    memcpy(first, ports, (size_t)(dash - ports));
    first[dash - ports] = 0;
    return parse_port(first, low) && parse_port(dash + 1, high) && *low >= 1024 && *low <= *high;
}

bool weft_site_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (!strcmp(host, "localhost"))
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool weft_site_is_wildcard(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return v4.s_addr == htonl(INADDR_ANY);
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

const char *weft_site_via_next(const char **at, size_t *bytes)
{
    const char *begin = *at;
    if (!begin)
        return NULL;
    const char *comma = strchr(begin, ',');
    const char *end = comma ? comma : begin + strlen(begin);
    *at = comma ? comma + 1 : NULL;
    while (begin < end && *begin == ' ')
        begin++;
    while (end > begin && end[-1] == ' ')
        end--;
    *bytes = (size_t)(end - begin);
    return begin;
}

/* Whether the text is one to `most` different words that fit, between commas. */
static bool is_list(const char *text, uint32_t most, bool (*fits)(const char *word, size_t bytes))
{
    const char *at = text, *word, *words[WEFT_SITE_RAILS];
    size_t bytes, lengths[WEFT_SITE_RAILS];
    uint32_t count = 0;
    while ((word = weft_site_via_next(&at, &bytes))) {
        if (count == most || !fits(word, bytes))
            return false;
        for (uint32_t i = 0; i < count; i++)
            if (lengths[i] == bytes && !memcmp(words[i], word, bytes))
                return false;
        words[count] = word;
        lengths[count++] = bytes;
    }
    return count > 0;
}

static bool is_relay(const char *word, size_t bytes)
{
    return weft_site_is_name_of(word, bytes) && (bytes != 7 || memcmp(word, "trainer", 7));
}

bool weft_site_is_via(const char *text)
{
    return !strcmp(text, "trainer") || is_list(text, WEFT_SITE_VIAS, is_relay);
}

static bool is_address(const char *word, size_t bytes)
{
    char host[WEFT_SITE_NAME] = {0};
    if (bytes >= sizeof host)
        return false;
    memcpy(host, word, bytes);
    return weft_site_is_host(host);
}

bool weft_site_is_addresses(const char *text)
{
    return is_list(text, WEFT_SITE_RAILS, is_address);
}

static bool parse_number(const char *word, size_t bytes, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (word[i] < '0' || word[i] > '9' || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(word[i] - '0'), number))
            return false;
    }
    return bytes > 0;
}

uint32_t weft_site_numbers(const char *text, uint64_t *list)
{
    const char *at = text, *word;
    size_t bytes;
    uint64_t number, last = 0;
    uint32_t count = 0;
    while ((word = weft_site_via_next(&at, &bytes))) {
        if (count == WEFT_SITE_NUMBERS || !parse_number(word, bytes, &number) || (count > 0 && number <= last))
            return 0;
        if (list)
            list[count] = number;
        last = number;
        count++;
    }
    return count;
}

uint32_t weft_site_rails(const char *address, char list[WEFT_SITE_RAILS][WEFT_SITE_NAME])
{
    const char *at = address, *host;
    size_t bytes;
    uint32_t count = 0;
    while (count < WEFT_SITE_RAILS && (host = weft_site_via_next(&at, &bytes)) && bytes < WEFT_SITE_NAME) {
        memset(list[count], 0, WEFT_SITE_NAME);
        memcpy(list[count++], host, bytes);
    }
    return count;
}

bool weft_site_is_clean(const char *text)
{
    const char *end = text + strlen(text);
    while (text < end && weft_bytes_control(text, (uint64_t)(end - text)) == 0)
        text++;
    return text == end;
}
