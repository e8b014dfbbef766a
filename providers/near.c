#include "providers/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "providers/review.h"

enum { NICS = 64 };

unsigned weft_near_rank(const char *address)
{
    bool is = strncmp(address, "near", 4) == 0 && address[4] >= '1' && address[4] <= '9' && !address[5];
    return is ? (unsigned)(address[4] - '0') : 0;
}

static bool is_v6(const weft_candidate *candidate)
{
    return strchr(candidate->address, ':') != NULL;
}

static bool is_loopback(const weft_candidate *candidate)
{
    return strncmp(candidate->address, "127.", 4) == 0 || strcmp(candidate->address, "::1") == 0;
}

static bool serves(weft_verdict verdict)
{
    return verdict == WEFT_VERDICT_FITS || verdict == WEFT_VERDICT_TAKEN;
}

/* A port may have several addresses. XRC and its other transports are listed as devices with a name that begins alike.
 */
static bool is_one_nic(const weft_candidate *a, const weft_candidate *b)
{
    const bool place = a->bus[0] && b->bus[0] && strcmp(a->bus, b->bus) == 0;
    return strcmp(a->domain, b->domain) == 0 ||
           (place && (strcmp(a->address, b->address) == 0 || is_v6(a) != is_v6(b)));
}

static unsigned steps(weft_distance distance, const weft_candidate *candidate)
{
    if (distance != WEFT_DISTANCE_UNKNOWN)
        return (unsigned)distance;
    return WEFT_DISTANCE_FAR + (candidate->bus[0] ? 1 : 2);
}

static bool is_before(const weft_host_survey *survey, const weft_distance *distances, size_t a, size_t b)
{
    const weft_candidate *one = &survey->candidates[a], *other = &survey->candidates[b];
    const unsigned near = steps(distances[a], one), far = steps(distances[b], other);
    if (near != far)
        return near < far;
    return one->bits_s != other->bits_s ? one->bits_s > other->bits_s : a < b;
}

/* Puts the candidate into the list, or in place of one that stands for the same NIC. */
static size_t insert(const weft_host_survey *survey, size_t candidate, size_t *list, size_t count)
{
    const weft_candidate *new = &survey->candidates[candidate];
    for (size_t i = 0; i < count; i++) {
        const weft_candidate *old = &survey->candidates[list[i]];
        if (!is_one_nic(old, new))
            continue;
        if (is_v6(old) && !is_v6(new))
            list[i] = candidate;
        return count;
    }
    if (count < NICS)
        list[count++] = candidate;
    return count;
}

static size_t collect(const weft_host_survey *survey, const weft_verdict *verdicts, bool loopback, size_t list[NICS])
{
    size_t count = 0;
    for (size_t i = 0; i < survey->count; i++)
        if (serves(verdicts[i]) && is_loopback(&survey->candidates[i]) == loopback)
            count = insert(survey, i, list, count);
    return count;
}

size_t weft_near_order(const weft_host_survey *survey, const weft_verdict *verdicts, const weft_distance *distances,
                       size_t *order, size_t capacity)
{
    size_t list[NICS], count = collect(survey, verdicts, false, list);
    if (count == 0)
        count = collect(survey, verdicts, true, list);
    for (size_t i = 1; i < count; i++)
        for (size_t at = i; at > 0 && is_before(survey, distances, list[at], list[at - 1]); at--) {
            size_t other = list[at];
            list[at] = list[at - 1];
            list[at - 1] = other;
        }
    for (size_t i = 0; i < count && i < capacity; i++)
        order[i] = list[i];
    return count;
}

/* ---- on this host */

/* "3,1": the first one that the process sees is the third of the host, counted from 0. False: it is not told by number.
 */
static bool see_through(const char *name, uint32_t *accelerator)
{
    const char *at = getenv(name);
    if (!at)
        return true;
    for (uint32_t i = 1; i < *accelerator && at; i++)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    char *end = NULL;
    unsigned long number = at ? strtoul(at, &end, 10) : 0;
    if (!at || end == at || (*end && *end != ',') || number >= UINT32_MAX)
        return false;
    *accelerator = (uint32_t)number + 1;
    return true;
}

void weft_near_accelerator(uint32_t accelerator, char bus[WEFT_PLACE_BUS])
{
    bus[0] = '\0';
    if (accelerator && see_through("CUDA_VISIBLE_DEVICES", &accelerator) &&
        see_through("HIP_VISIBLE_DEVICES", &accelerator) && see_through("ROCR_VISIBLE_DEVICES", &accelerator))
        weft_place_accelerator("", accelerator - 1, bus);
}

static void tell(const weft_profile *profile, const char *asked, const weft_candidate *taken, weft_distance distance,
                 const char *bus, const char *address)
{
    weft_log(WEFT_LOG_INFO, "provider %s: address %s is %s%s%s%s%s%s%s%s%s", profile->name, asked[0] ? asked : "(none)",
             taken->domain, strcmp(taken->domain, address) ? " " : "", strcmp(taken->domain, address) ? address : "",
             taken->bus[0] ? ", PCI " : "", taken->bus, bus[0] ? ", to device " : "", bus, bus[0] ? ": " : "",
             bus[0] ? weft_distance_text(distance) : "");
}

static weft_status choose(const weft_review *review, const char *asked, const char *bus, char *address, size_t capacity)
{
    const weft_host_survey *survey = &review->survey;
    const weft_profile *profile = survey->profile;
    const unsigned rank = weft_near_rank(asked) ? weft_near_rank(asked) : 1;
    size_t order[NICS] = {0};
    weft_distance *distances = weft_mem_take(survey->count + 1, sizeof *distances);
    if (!distances)
        return weft_fail(WEFT_E_MEMORY, "provider %s: no memory for distances", profile->name);
    for (size_t i = 0; i < survey->count; i++)
        distances[i] = weft_place_distance("", survey->candidates[i].bus, bus);
    size_t count = weft_near_order(survey, review->verdicts, distances, order, NICS);
    if (rank <= count && rank <= NICS) {
        const weft_candidate *taken = &survey->candidates[order[rank - 1]];
        snprintf(address, capacity, "%s", profile->addressing == WEFT_ADDRESS_SOURCE ? taken->address : taken->domain);
        tell(profile, asked, taken, distances[order[rank - 1]], bus, address);
    }
    weft_mem_give(distances);
    if (rank <= count && rank <= NICS)
        return WEFT_OK;
    return weft_fail(WEFT_E_CONFIG, "provider %s: address %s asks for %u NICs, this host has %zu that would serve (%s)",
                     profile->name, asked, rank, count, review->selection.text);
}

/* An empty address, or an IP where devices are named, says no more than "this host". */
static bool names_nothing(const weft_profile *profile, const char *asked)
{
    return profile->addressing == WEFT_ADDRESS_DOMAIN && (!asked[0] || weft_interface_is_ip(asked));
}

weft_status weft_near_resolve(const weft_profile *profile, const char *asked, uint32_t accelerator, char *address,
                              size_t capacity)
{
    weft_review review;
    char bus[WEFT_PLACE_BUS];
    const bool near = weft_near_rank(asked) > 0;
    weft_near_accelerator(accelerator, bus);
    snprintf(address, capacity, "%s", asked);
    if (profile->addressing == WEFT_ADDRESS_NONE || !(near || (bus[0] && names_nothing(profile, asked))))
        return WEFT_OK;
    weft_status status = weft_review_open(&review, profile, "", 0);
    if (status == WEFT_OK && review.selection.missing == WEFT_MISSING_NOTHING)
        status = choose(&review, asked, bus, address, capacity);
    else if (near)
        address[0] = '\0'; /* whatever is missing is said of any */
    weft_review_close(&review);
    return status;
}
