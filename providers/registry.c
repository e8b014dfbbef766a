/* registry.c - the providers by weft's names, and what they could serve here. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "providers/loop.h"
#include "providers/near.h"
#include "providers/review.h"
#include "providers/stream.h"

#define TABLE(name, symbol) &weft_provider_##symbol,
static const weft_provider *const providers[] = {WEFT_EACH_PROVIDER(TABLE, TABLE)};
#define COUNT (sizeof providers / sizeof providers[0])

const weft_provider *weft_provider_at(size_t index)
{
    return index < COUNT ? providers[index] : NULL;
}

static const weft_provider *lent;

void weft_provider_lend(const weft_provider *provider)
{
    lent = provider;
}

const weft_provider *weft_provider_find(const char *name)
{
    if (lent && strcmp(lent->name, name) == 0)
        return lent;
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(providers[i]->name, name) == 0)
            return providers[i];
    return NULL;
}

const char *weft_provider_auto_at(size_t index)
{
    static const char *const order[] = {"efa", "verbs", "tcp"};
    return index < sizeof order / sizeof order[0] ? order[index] : NULL;
}

/* WEFT_OK, WEFT_AGAIN for one that may serve later, or another. */
static weft_status serves(const char *name, const char *address, char *why, size_t capacity)
{
    weft_review review;
    /* Whichever device it is to be near to: that there is one serves. */
    weft_status status = weft_review_open(&review, weft_profile_find(name), weft_near_rank(address) ? "" : address, 0);
    if (status != WEFT_OK) {
        snprintf(why, capacity, "%s: %s", name, weft_last_error());
    } else {
        status = weft_select_status(review.selection.missing);
        snprintf(why, capacity, status == WEFT_OK ? "%s (%s)" : "%s: %s", name, review.selection.text);
    }
    weft_review_close(&review);
    return status;
}

bool weft_provider_auto_waits(const char *address)
{
    const char *name;
    for (size_t i = 0; (name = weft_provider_auto_at(i)); i++) {
        char why[512];
        if (serves(name, address, why, sizeof why) != WEFT_AGAIN)
            continue;
        weft_fail(WEFT_AGAIN, "provider auto: not %s", why);
        return true;
    }
    return false;
}

const weft_provider *weft_provider_auto(const char *address, char *text, size_t capacity)
{
    const char *name;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; (name = weft_provider_auto_at(i)); i++) {
        char why[512];
        bool good = serves(name, address, why, sizeof why) == WEFT_OK;
        int n = snprintf(text + used, capacity - used, "%s%s%s", used ? "; " : "", good ? "taken " : "not ", why);
        used += n > 0 && (size_t)n < capacity - used ? (size_t)n : 0;
        if (good)
            return weft_provider_find(name);
    }
    return NULL;
}

void weft_provider_library(char *text, size_t capacity)
{
    weft_fabric_library(text, capacity);
}

weft_status weft_providers(weft_provider_info *list, size_t capacity, size_t *count, char *library)
{
    if (!count || (capacity && !list))
        return weft_fail(WEFT_E_ARGUMENT, "weft_providers: count and, with a capacity, the array must not be NULL");
    *count = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t room = *count < capacity ? capacity - *count : 0;
        *count += providers[i]->probe(room ? list + *count : NULL, room);
    }
    if (library)
        weft_provider_library(library, 64);
    return WEFT_OK;
}
