#include "tools/check/check.h"

#include <stdio.h>
#include <string.h>

enum { DEVICES_MAX = 64 };

typedef struct found {
    weft_device_info device[DEVICES_MAX];
    size_t count;
} found;

/* The device that an end would open, -1 being whichever is current: a usable one before one that is not, and the row
 * of a driver that found none (device -1) where there is no such device. */
static const weft_device_info *find(const found *here, const char *backend, int64_t number)
{
    const weft_device_info *best = NULL;
    for (size_t i = 0; i < here->count; i++) {
        const weft_device_info *device = &here->device[i];
        bool fits = number < 0 || device->device < 0 || device->device == number;
        if (strcmp(device->backend, backend) == 0 && fits && (!best || (device->usable && !best->usable)))
            best = device;
    }
    return best;
}

static json_t *describe(const found *here, const char *backend, int64_t number)
{
    char text[512];
    const weft_device_info *device = find(here, backend, number);
    bool usable = device && device->usable;
    if (device)
        snprintf(text, sizeof text, "%s%s%s", device->name, device->name[0] ? ", " : "", device->detail);
    else
        snprintf(text, sizeof text, "no device %lld here", (long long)number);
    json_t *object = json_pack("{s:s, s:b, s:s, s:[]}", "backend", backend, "usable", usable, "text", text, "ends");
    json_object_set_new(object, "device", number < 0 ? json_null() : json_integer(number));
    return object;
}

static void ask(json_t *backends, const found *here, const char *backend, int64_t number, const char *end)
{
    size_t index;
    json_t *asked, *same = NULL;
    if (strcmp(backend, "auto") == 0 || strcmp(backend, "host") == 0)
        return;
    json_array_foreach(backends, index, asked)
    {
        const json_t *device = json_object_get(asked, "device");
        if (strcmp(json_string_value(json_object_get(asked, "backend")), backend) == 0 &&
            (json_is_null(device) ? -1 : json_integer_value(device)) == (number < 0 ? -1 : number))
            same = asked;
    }
    if (!same)
        json_array_append_new(backends, same = describe(here, backend, number));
    json_array_append_new(json_object_get(same, "ends"), json_string(end));
}

json_t *weft_check_backends(const weft_site *site)
{
    json_t *backends = json_array();
    found here = {.count = 0};
    weft_site_peer peer;
    bool pattern;
    weft_devices(here.device, DEVICES_MAX, &here.count);
    here.count = here.count < DEVICES_MAX ? here.count : DEVICES_MAX;
    ask(backends, &here, site->trainer.backend, site->trainer.device, "trainer");
    for (size_t i = 0; weft_site_row(site, i, &peer, &pattern); i++) {
        char name[WEFT_SITE_NAME + 2];
        snprintf(name, sizeof name, "%s%s", peer.name, pattern ? "*" : "");
        ask(backends, &here, peer.backend, peer.device, name);
    }
    return backends;
}

static void print_backend(const json_t *backend)
{
    size_t index;
    json_t *end;
    const json_t *number = json_object_get(backend, "device");
    bool usable = json_is_true(json_object_get(backend, "usable"));
    printf("  backend %s", json_string_value(json_object_get(backend, "backend")));
    if (!json_is_null(number))
        printf(" device %lld", (long long)json_integer_value(number));
    printf(" for");
    json_array_foreach(json_object_get(backend, "ends"), index, end)
        printf("%s %s", index ? "," : "", json_string_value(end));
    printf(": %s%s\n", usable ? "" : "MISSING, ", json_string_value(json_object_get(backend, "text")));
    if (!usable)
        printf("    (if these ends run on another host: run this there)\n");
}

void weft_check_backends_print(const json_t *backends)
{
    size_t index;
    json_t *backend;
    json_array_foreach((json_t *)backends, index, backend) print_backend(backend);
}
