/* profile.c - the profiles as a list, and each line of one as text. */
#include "providers/profile.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const weft_profile *const profiles[] = {&weft_profile_tcp, &weft_profile_tcp_rxm,    &weft_profile_verbs,
                                               &weft_profile_efa, &weft_profile_efa_direct, &weft_profile_shm};
#define COUNT (sizeof profiles / sizeof profiles[0])

const weft_profile *weft_profile_at(size_t index)
{
    return index < COUNT ? profiles[index] : NULL;
}

const weft_profile *weft_profile_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(profiles[i]->name, name) == 0)
            return profiles[i];
    return NULL;
}

const char *weft_profile_fabric(const weft_profile *profile, uint32_t version)
{
    size_t i = 0;
    while (profile->names[i].since > version)
        i++;
    return profile->names[i].fabric;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t weft_profile_api(const weft_profile *profile, uint32_t library, uint32_t header)
{
    return least(library, least(header, profile->newest_api));
}

const char *weft_profile_line_name(weft_profile_line line)
{
    static const char *const names[WEFT_LINE_COUNT] = {
        [WEFT_LINE_NAME] = "name",
        [WEFT_LINE_VERSION] = "oldest version",
        [WEFT_LINE_API] = "API version",
        [WEFT_LINE_CAPS] = "asked",
        [WEFT_LINE_REFUSED] = "not asked",
        [WEFT_LINE_ADDRESS] = "address",
        [WEFT_LINE_REGISTRATION] = "registration",
        [WEFT_LINE_PINNING] = "pinning",
        [WEFT_LINE_CACHE] = "MR cache",
        [WEFT_LINE_ORDER] = "order",
        [WEFT_LINE_IMMEDIATE] = "immediate",
        [WEFT_LINE_SIZE] = "write size",
        [WEFT_LINE_DEPTH] = "in flight",
        [WEFT_LINE_OPTIONS] = "options",
        [WEFT_LINE_ENVIRONMENT] = "environment",
        [WEFT_LINE_ENDPOINT] = "endpoint",
        [WEFT_LINE_WAIT] = "wait",
        [WEFT_LINE_PROGRESS] = "progress",
        [WEFT_LINE_COMPLETION] = "completion",
        [WEFT_LINE_ABORT] = "abort",
        [WEFT_LINE_MIXING] = "mixed majors",
    };
    return names[line];
}

/* ---- values */

typedef struct sheet {
    char *text;
    size_t capacity;
    size_t used;
} sheet;

__attribute__((format(printf, 2, 3))) static void add(sheet *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(s->text + s->used, s->capacity - s->used, format, arguments);
    va_end(arguments);
    if (n > 0)
        s->used += (size_t)n < s->capacity - s->used ? (size_t)n : s->capacity - s->used - 1;
}

static void add_word(sheet *s, bool wanted, const char *word)
{
    if (wanted)
        add(s, "%s%s", s->used ? ", " : "", word);
}

static void add_version(sheet *s, uint32_t version)
{
    add(s, "%u.%u", version >> 16, version & 0xffff);
}

static void add_names(sheet *s, const weft_profile *profile)
{
    for (size_t i = 0; i < WEFT_PROFILE_NAMES && profile->names[i].fabric; i++) {
        add(s, "%s%s", i ? ", before that " : "", profile->names[i].fabric);
        if (!profile->names[i].since)
            break;
        add(s, " from ");
        add_version(s, profile->names[i].since);
        add(s, " on");
    }
    if (profile->only)
        add(s, ", fabric %s", profile->only);
    if (profile->never)
        add(s, ", never fabric %s", profile->never);
    if (profile->protocol == WEFT_PROTOCOL_RXM_THROUGH)
        add(s, ", passing through");
}

static void add_refused(sheet *s, const weft_profile *profile)
{
    add_word(s, !(profile->caps & WEFT_CAP_MESSAGE), "messages");
    add_word(s, profile->reach == WEFT_REACH_REMOTE, "local communication");
    add_word(s, true, "tags, atomics, memory of devices");
}

static void add_address(sheet *s, const weft_profile *profile)
{
    static const char *const ways[] = {[WEFT_ADDRESS_SOURCE] = "an interface or an IP of this host",
                                       [WEFT_ADDRESS_DOMAIN] = "a device; empty: the first",
                                       [WEFT_ADDRESS_NONE] = "none"};
    add(s, "%s", ways[profile->addressing]);
}

static void add_registration(sheet *s, const weft_profile *profile)
{
    unsigned modes = profile->registration;
    add_word(s, true, modes & WEFT_MR_PROVIDER_KEY ? "keys the provider's" : "keys weft's, random");
    add_word(s, modes & WEFT_MR_VIRTUAL_ADDRESS, "addresses virtual or offsets");
    add_word(s, modes & WEFT_MR_LOCAL, "local descriptors");
    add_word(s, modes & WEFT_MR_ALLOCATED, "pages there before");
    add_word(s, true, "regions of the domain");
}

const char *weft_profile_option_name(weft_profile_option option)
{
    static const char *const names[] = {[WEFT_OPTION_NONE] = "none",
                                        [WEFT_OPTION_RNR_RETRY] = "RNR retry",
                                        [WEFT_OPTION_SHARED_MEMORY] = "shared memory permitted",
                                        [WEFT_OPTION_CUDA_API] = "CUDA API permitted",
                                        [WEFT_OPTION_EMULATED_WRITE] = "writes emulated (read)",
                                        [WEFT_OPTION_UNSOLICITED] = "writes without a receive"};
    return names[option];
}

static void add_options(sheet *s, const weft_profile *profile)
{
    for (size_t i = 0; i < WEFT_PROFILE_SETTINGS && profile->settings[i].option != WEFT_OPTION_NONE; i++)
        add(s, "%s%s %d", i ? ", " : "", weft_profile_option_name(profile->settings[i].option),
            profile->settings[i].value);
    add_word(s, !s->used, "none");
}

static void add_environment(sheet *s, const weft_profile *profile)
{
    for (const weft_profile_environment *e = profile->environment;
         e < profile->environment + WEFT_PROFILE_ENVIRONMENT && e->name; e++)
        add(s, "%s%s=%s (%s)", s->used ? ", " : "", e->name, e->value,
            e->duty == WEFT_DUTY_SET ? "weft sets it" : "yours to set");
    add_word(s, !s->used, "none");
}

static void add_wait(sheet *s, const weft_profile *profile)
{
    add(s, "%s", profile->wait == WEFT_WAIT_FD ? "on a descriptor" : "in naps that grow while nothing comes");
    if (profile->descriptor_sticks_below) {
        add(s, ", lowered by hand below ");
        add_version(s, profile->descriptor_sticks_below);
    }
}

static void add_version_line(sheet *s, const weft_profile *profile)
{
    if (profile->oldest)
        add_version(s, profile->oldest);
    else
        add(s, "any");
}

static void add_limit(sheet *s, const weft_profile *profile, weft_profile_line line)
{
    if (line == WEFT_LINE_SIZE)
        add(s, "%llu KiB, at most %llu MiB and the provider's limit", (unsigned long long)(profile->chunk_bytes >> 10),
            (unsigned long long)(profile->chunk_max >> 20));
    else
        add(s, "%u writes, at most %u and the provider's transmit queue", profile->depth, profile->depth_max);
}

static void add_line(sheet *s, const weft_profile *profile, weft_profile_line line)
{
    switch (line) {
    case WEFT_LINE_NAME:
        add_names(s, profile);
        break;
    case WEFT_LINE_VERSION:
        add_version_line(s, profile);
        break;
    case WEFT_LINE_API:
        add(s, "the least of library, header and ");
        add_version(s, profile->newest_api);
        break;
    case WEFT_LINE_CAPS:
        add(s, "remote writes%s", profile->caps & WEFT_CAP_MESSAGE ? " and messages" : "");
        break;
    case WEFT_LINE_REFUSED:
        add_refused(s, profile);
        break;
    case WEFT_LINE_ADDRESS:
        add_address(s, profile);
        break;
    case WEFT_LINE_REGISTRATION:
        add_registration(s, profile);
        break;
    case WEFT_LINE_PINNING:
        add(s, profile->pins ? "pages are locked" : "none");
        break;
    case WEFT_LINE_CACHE:
        add(s, "%s", profile->cache ? profile->cache : "none");
        break;
    case WEFT_LINE_ORDER:
        add(s, "none assumed");
        break;
    case WEFT_LINE_IMMEDIATE:
        add(s, "%u bytes", profile->immediate_bytes);
        break;
    case WEFT_LINE_SIZE:
    case WEFT_LINE_DEPTH:
        add_limit(s, profile, line);
        break;
    case WEFT_LINE_OPTIONS:
        add_options(s, profile);
        break;
    case WEFT_LINE_ENVIRONMENT:
        add_environment(s, profile);
        break;
    case WEFT_LINE_ENDPOINT:
        add(s, profile->shared_endpoint ? "one for all peers" : "one per peer and stream");
        break;
    case WEFT_LINE_WAIT:
        add_wait(s, profile);
        break;
    case WEFT_LINE_PROGRESS:
        add(s, "manual: both ends poll");
        break;
    case WEFT_LINE_COMPLETION:
        add(s, "%s", profile->completion);
        break;
    case WEFT_LINE_ABORT:
        add(s, "%s", profile->abort);
        break;
    case WEFT_LINE_MIXING:
        add(s, profile->mixing == WEFT_MIXING_ALLOWED ? "allowed" : "refused");
        break;
    case WEFT_LINE_COUNT:
        break;
    }
}

void weft_profile_line_value(const weft_profile *profile, weft_profile_line line, char *text, size_t capacity)
{
    sheet s = {text, capacity, 0};
    text[0] = '\0';
    add_line(&s, profile, line);
}
