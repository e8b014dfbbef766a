/* info.c - weft info: the backends and providers of this build and this machine, and the manual of the site file. */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu_images.h"
#include "base/status.h"
#include "port/port_names.h"
#include "providers/copies.h"
#include "security/library.h"
#include "tools/check/fabric.h"
#include "tools/check/manual.h"
#include "tools/output.h"
#include "tools/verbs.h"

/* The loop has no profile. */
#define PROFILE_NAMES WEFT_EACH_PROVIDER(WEFT_NAME_OR, WEFT_NAME_NONE) " | stream"

enum { LISTED = 64 };

typedef struct machine {
    char library[64];
    weft_device_info devices[LISTED];
    size_t device_count;
    weft_provider_info providers[LISTED];
    size_t provider_count;
} machine;

static size_t at_most(size_t count)
{
    return count < LISTED ? count : LISTED;
}

static weft_status machine_read(machine *found)
{
    weft_status status = weft_devices(found->devices, LISTED, &found->device_count);
    if (status == WEFT_OK)
        status = weft_providers(found->providers, LISTED, &found->provider_count, found->library);
    weft_copies_warn();
    found->device_count = at_most(found->device_count);
    found->provider_count = at_most(found->provider_count);
    return status;
}

#if defined(__x86_64__)
/* The compiler's builtin takes literals only. */
static json_t *cpu_features(void)
{
    json_t *list = json_array();
#define FEATURE(name)                                                                                                  \
    if (__builtin_cpu_supports(name))                                                                                  \
    json_array_append_new(list, json_string(name))
    FEATURE("sse4.2");
    FEATURE("popcnt");
    FEATURE("bmi2");
    FEATURE("avx2");
    FEATURE("avx512f");
    FEATURE("avx512bw");
    FEATURE("avx512vl");
    FEATURE("avx512vbmi");
    FEATURE("avx512vbmi2");
    FEATURE("avx512vpopcntdq");
    FEATURE("gfni");
#undef FEATURE
    return list;
}
#else
static json_t *cpu_features(void)
{
    return json_array();
}
#endif

static void print_cpu(void)
{
    json_t *list = cpu_features();
    size_t index;
    json_t *name;
    printf("cpu features:");
    json_array_foreach(list, index, name) printf(" %s", json_string_value(name));
    printf("%s\n", json_array_size(list) ? "" : " none known");
    json_decref(list);
}

static json_t *device_json(const weft_device_info *device)
{
    return json_pack("{s:s,s:i,s:s,s:s,s:o,s:b}", "backend", device->backend, "device", device->device, "name",
                     device->name, "detail", device->detail, "memory_bytes", weft_json_count(device->memory_bytes),
                     "usable", device->usable);
}

static json_t *provider_json(const weft_provider_info *provider)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:b}", "provider", provider->provider, "fabric", provider->fabric, "address",
                     provider->address, "detail", provider->detail, "message_bytes",
                     weft_json_count(provider->message_bytes), "usable", provider->usable);
}

/* The images for a vendor's devices in this build, and where they come from. */
static json_t *images_json(const char *vendor)
{
    json_t *names = json_array();
    struct weft_gpu_image image;
    for (size_t i = 0; (image = weft_gpu_image_at(i)).name; i++) {
        if (strcmp(image.vendor, vendor) == 0)
            json_array_append_new(names, json_string(image.name));
    }
    return json_pack("{s:s,s:o}", "detail", weft_gpu_images_said(vendor), "names", names);
}

static void print_images(const char *vendor)
{
    struct weft_gpu_image image;
    printf("  %-4s", vendor);
    for (size_t i = 0; (image = weft_gpu_image_at(i)).name; i++) {
        if (strcmp(image.vendor, vendor) == 0)
            printf(" %s", image.name);
    }
    printf(" (%s)\n", weft_gpu_images_said(vendor));
}

static void print_json(const machine *found)
{
    json_t *devices = json_array(), *providers = json_array();
    for (size_t i = 0; i < found->device_count; i++)
        json_array_append_new(devices, device_json(&found->devices[i]));
    for (size_t i = 0; i < found->provider_count; i++)
        json_array_append_new(providers, provider_json(&found->providers[i]));
    weft_output_object(json_pack("{s:s,s:s,s:s?,s:{s:b,s:s},s:o,s:o,s:{s:o},s:{s:o,s:o}}", "version",
                                 weft_version_string(), "libfabric", found->library, "libfabric_file",
                                 weft_copies_used(), "tls", "usable", !*weft_library_absence(), "detail",
                                 weft_library_absence(), "backends", devices, "providers", providers, "cpu", "features",
                                 cpu_features(), "images", "cuda", images_json("cuda"), "hip", images_json("hip")));
}

static void print_lines(const machine *found)
{
    printf("weft %s, %s\n", weft_version_string(), found->library);
    if (weft_copies_used())
        printf("libfabric's file: %s\n", weft_copies_used());
    printf("tls: %s\n", *weft_library_absence() ? weft_library_absence() : "by OpenSSL 3");
    print_cpu();
    printf("\nbackends\n");
    for (size_t i = 0; i < found->device_count; i++) {
        const weft_device_info *device = &found->devices[i];
        printf("  %-3s %-6s %d  %s%s%s\n", device->usable ? "yes" : "no", device->backend, device->device, device->name,
               *device->name && *device->detail ? ": " : "", device->detail);
    }
    printf("\nimages in this build\n");
    print_images("cuda");
    print_images("hip");
    printf("\nproviders\n");
    for (size_t i = 0; i < found->provider_count; i++) {
        const weft_provider_info *provider = &found->providers[i];
        printf("  %-3s %-8s %-14s %-16s %s\n", provider->usable ? "yes" : "no", provider->provider, provider->fabric,
               provider->address, provider->detail);
    }
}

static int tell_profile(const weft_args *args)
{
    json_t *profile = weft_fabric_profile_json(args->profile);
    if (!profile)
        return weft_output_error(
            args->json, WEFT_TOOL_INPUT,
            weft_fail_quiet(WEFT_E_ARGUMENT, "--profile '%s': need%s", args->profile, &PROFILE_NAMES[2]));
    json_t *here = weft_fabric_json(args->profile, "", 0, 0);
    json_object_set_new(profile, "here", here);
    if (args->json)
        return weft_output_object(profile), WEFT_EXIT_DONE;
    weft_fabric_profile_print(profile);
    printf("on this host: %s\n", json_string_value(json_object_get(here, "text")));
    weft_fabric_print(here, 2);
    json_decref(profile);
    return WEFT_EXIT_DONE;
}

int weft_verb_info(const weft_args *args)
{
    if (args->manual)
        return weft_manual_print(), WEFT_EXIT_DONE;
    if (args->profile)
        return tell_profile(args);
    machine found = {0};
    weft_status status = machine_read(&found);
    if (status != WEFT_OK)
        return weft_output_error(args->json, WEFT_TOOL_WORK, status);
    if (args->json)
        print_json(&found);
    else
        print_lines(&found);
    return WEFT_EXIT_DONE;
}
