#include "providers/review.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "providers/place.h"

#define KEPT  192 /* an EFA host with 32 devices answers three times for each */
#define LOOKS 2   /* at an address that libfabric does not list */

static void add_gids(weft_review *review)
{
    for (size_t i = 0; i < review->survey.count; i++)
        if (review->survey.profile->device == WEFT_DEVICE_RDMA)
            review->candidates[i].gids = weft_place_gids("", review->candidates[i].domain);
}

static void add_buses(weft_review *review)
{
    for (size_t i = 0; i < review->survey.count; i++)
        if (!review->candidates[i].bus[0])
            weft_place_of_interface("", review->candidates[i].domain, review->candidates[i].bus);
}

/* A source address must be this host's; for a device an IP says no more than "this host". */
static weft_status resolve(weft_review *review)
{
    const weft_profile *profile = review->survey.profile;
    if (profile->addressing == WEFT_ADDRESS_SOURCE && review->address[0])
        return weft_interface_resolve(profile->name, review->address, review->numeric);
    if (profile->addressing == WEFT_ADDRESS_DOMAIN && weft_interface_is_ip(review->address))
        memcpy(review->numeric, review->address, strnlen(review->address, sizeof review->numeric - 1));
    return WEFT_OK;
}

static void ask(weft_review *review)
{
    weft_host_survey *survey = &review->survey;
    survey->library = weft_fabric_version();
    survey->pin_limit = weft_place_pin_limit();
    weft_place_rdma("", survey->profile->device, review->here, sizeof review->here);
    size_t count = 0;
    if (survey->library)
        count = weft_fabric_candidates(survey->profile, review->candidates, KEPT, &survey->known, review->error,
                                       sizeof review->error);
    else
        snprintf(review->error, sizeof review->error, "%s", weft_fabric_absence());
    survey->count = count < KEPT ? count : KEPT;
    review->left_out = count - survey->count;
    add_gids(review);
    add_buses(review);
}

/* Asks what hinders the interface after libfabric has listed those that nothing hinders, because it may have lost its
 * carrier meanwhile. One that has it back by then, or another address, is found by the next look. */
static weft_status look(weft_review *review)
{
    weft_status status = resolve(review);
    if (status != WEFT_OK)
        return status;
    ask(review);
    if (review->numeric[0] && review->survey.profile->addressing == WEFT_ADDRESS_SOURCE)
        weft_interface_hindered(review->numeric, review->hindered, sizeof review->hindered);
    weft_select(&review->survey, review->verdicts, &review->selection);
    return WEFT_OK;
}

weft_status weft_review_open(weft_review *review, const weft_profile *profile, const char *address, uint64_t pin_bytes)
{
    memset(review, 0, sizeof *review);
    snprintf(review->address, sizeof review->address, "%s", address);
    review->candidates = weft_mem_take(KEPT, sizeof *review->candidates);
    review->verdicts = weft_mem_take(KEPT, sizeof *review->verdicts);
    if (!review->candidates || !review->verdicts)
        return weft_fail(WEFT_E_MEMORY, "provider %s: no memory for libfabric's answers", profile->name);
    review->survey = (weft_host_survey){.profile = profile,
                                        .address = review->address,
                                        .numeric = review->numeric,
                                        .candidates = review->candidates,
                                        .here = review->here,
                                        .error = review->error,
                                        .hindered = review->hindered,
                                        .pin_bytes = pin_bytes};
    weft_status status = look(review);
    for (int looks = 1; status == WEFT_OK && review->selection.missing == WEFT_MISSING_ADDRESS && looks < LOOKS;
         looks++)
        status = look(review);
    return status;
}

void weft_review_close(weft_review *review)
{
    weft_mem_give(review->candidates);
    weft_mem_give(review->verdicts);
    review->candidates = NULL;
    review->verdicts = NULL;
}
