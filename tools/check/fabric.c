#include "tools/check/fabric.h"

#include <stdio.h>
#include <string.h>

#include "providers/near.h"
#include "providers/place.h"
#include "providers/review.h"
#include "providers/stream.h"
#include "tools/output.h"

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static json_t *place_json(const weft_candidate *candidate, const char *device)
{
    int node = weft_place_node("", candidate->bus);
    weft_distance distance = weft_place_distance("", candidate->bus, device);
    return json_pack("{s:o,s:o,s:o,s:o}", "bus", text_or_null(candidate->bus), "numa",
                     node < 0 ? json_null() : json_integer(node), "device", text_or_null(device), "distance",
                     distance == WEFT_DISTANCE_UNKNOWN ? json_null() : json_string(weft_distance_text(distance)));
}

static json_t *candidate_json(const weft_review *review, size_t index, const char *device)
{
    static const char *const links[] = {
        [WEFT_LINK_UNKNOWN] = "unknown", [WEFT_LINK_DOWN] = "down", [WEFT_LINK_UP] = "up"};
    const weft_candidate *candidate = &review->candidates[index];
    weft_verdict verdict = review->verdicts[index];
    char text[256];
    weft_verdict_text(&review->survey, index, verdict, text, sizeof text);
    json_t *object = json_pack("{s:s,s:s,s:s,s:o,s:s,s:s,s:s,s:o,s:o}", "provider", candidate->provider, "fabric",
                               candidate->fabric, "domain", candidate->domain, "address",
                               text_or_null(candidate->address), "verdict", weft_verdict_name(verdict), "text", text,
                               "link", links[candidate->link], "network", text_or_null(candidate->network), "bits_s",
                               candidate->bits_s ? weft_json_count(candidate->bits_s) : json_null());
    json_t *place = place_json(candidate, device);
    json_object_update(object, place);
    json_decref(place);
    return object;
}

static json_t *review_json(const weft_review *review, const char *device)
{
    json_t *candidates = json_array();
    for (size_t i = 0; i < review->survey.count; i++)
        json_array_append_new(candidates, candidate_json(review, i, device));
    return json_pack("{s:s,s:s,s:s,s:s,s:I,s:o}", "provider", review->survey.profile->name, "address", review->address,
                     "missing", weft_missing_name(review->selection.missing), "text", review->selection.text,
                     "left_out", (json_int_t)review->left_out, "candidates", candidates);
}

const char *weft_fabric_auto(size_t index)
{
    return weft_provider_auto_at(index);
}

json_t *weft_fabric_json(const char *provider, const char *address, int64_t device, uint64_t pin_bytes)
{
    const weft_profile *profile = weft_profile_find(provider);
    weft_review review;
    char bus[WEFT_PLACE_BUS], meant[WEFT_INTERFACE_TEXT];
    const uint32_t accelerator = device < 0 ? 0 : (uint32_t)device + 1;
    if (strcmp(provider, "stream") == 0)
        return json_pack("{s:s,s:s,s:s,s:s,s:i,s:[]}", "provider", provider, "address", "", "missing", "nothing",
                         "text", "by connections that the rollout makes to the port it joins by", "left_out", 0,
                         "candidates");
    if (!profile)
        return json_null();
    memset(&review, 0, sizeof review);
    weft_near_accelerator(accelerator, bus);
    weft_status status = weft_near_resolve(profile, address, accelerator, meant, sizeof meant);
    if (status == WEFT_OK)
        status = weft_review_open(&review, profile, meant, pin_bytes);
    json_t *object = status == WEFT_OK ? review_json(&review, bus)
                                       : json_pack("{s:s,s:s,s:s,s:s,s:[]}", "provider", provider, "address", address,
                                                   "missing", "address", "text", weft_last_error(), "candidates");
    weft_review_close(&review);
    return object;
}

/* ---- for people */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static void print_place(const json_t *candidate)
{
    if (json_is_null(json_object_get(candidate, "bus")))
        return;
    printf(", PCI %s", text_of(candidate, "bus"));
    if (json_is_integer(json_object_get(candidate, "numa")))
        printf(", NUMA node %d", (int)json_integer_value(json_object_get(candidate, "numa")));
    if (!json_is_null(json_object_get(candidate, "device")))
        printf(", to device %s: %s", text_of(candidate, "device"), text_of(candidate, "distance"));
}

static void print_candidate(const json_t *candidate, int indent, size_t times)
{
    double bits_s = (double)json_integer_value(json_object_get(candidate, "bits_s"));
    printf("%*s%-12s %-14s %-16s %-16s %s", indent, "", text_of(candidate, "verdict"), text_of(candidate, "provider"),
           text_of(candidate, "domain"), text_of(candidate, "address"), text_of(candidate, "text"));
    if (bits_s > 0)
        printf(", %s %.0f Gbit/s, %s", text_of(candidate, "network"), bits_s / 1e9, text_of(candidate, "link"));
    print_place(candidate);
    if (times > 1)
        printf(" (%zu times)", times);
    putchar('\n');
}

static size_t count_equal(const json_t *list, const json_t *one, size_t from)
{
    size_t count = 0;
    for (size_t i = from; i < json_array_size(list); i++)
        count += (size_t)json_equal(json_array_get(list, i), one);
    return count;
}

/* libfabric repeats an answer for each set of attributes that weft does not ask about: told once, counted. */
void weft_fabric_print(const json_t *fabric, int indent)
{
    size_t index;
    json_t *candidate, *candidates = json_object_get(fabric, "candidates");
    json_array_foreach(candidates, index, candidate)
    {
        size_t times = count_equal(candidates, candidate, 0);
        if (count_equal(candidates, candidate, index) == times)
            print_candidate(candidate, indent, times);
    }
    json_int_t left_out = json_integer_value(json_object_get(fabric, "left_out"));
    if (left_out)
        printf("%*sand %" JSON_INTEGER_FORMAT " more\n", indent, "", left_out);
}

json_t *weft_fabric_profile_json(const char *provider)
{
    const weft_profile *profile = weft_profile_find(provider);
    const bool stream = strcmp(provider, "stream") == 0;
    if (!profile && !stream)
        return NULL;
    json_t *lines = json_array();
    const char *name;
    char value[512];
    for (size_t i = 0; (name = stream ? weft_stream_line(i, value, sizeof value)
                                      : weft_profile_line(profile, i, value, sizeof value));
         i++)
        json_array_append_new(lines, json_pack("{s:s,s:s}", "line", name, "value", value));
    return json_pack("{s:s,s:o}", "provider", provider, "lines", lines);
}

void weft_fabric_profile_print(const json_t *profile)
{
    size_t index;
    json_t *line;
    printf("profile %s\n", text_of(profile, "provider"));
    json_array_foreach(json_object_get(profile, "lines"), index, line)
        printf("  %-14s %s\n", text_of(line, "line"), text_of(line, "value"));
}
