/* profile.c - the profiles as a list, and the lines of a profile as text. */
#include "providers/profile.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PROFILE(name, symbol) &weft_profile_##symbol,
static const weft_profile *const profiles[] = {WEFT_EACH_PROVIDER(PROFILE, WEFT_NAME_NONE)};
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

static void add_oldest(sheet *s, const weft_profile *profile)
{
    if (profile->oldest)
        add_version(s, profile->oldest);
    else
        add(s, "any");
}

static void add_asked(sheet *s, const weft_profile *profile)
{
    add(s, "remote writes%s", profile->caps & WEFT_CAP_MESSAGE ? " and messages" : "");
}

static void add_pinning(sheet *s, const weft_profile *profile)
{
    add(s, "%s", profile->pins ? "pages are locked" : "none");
}

static void add_size(sheet *s, const weft_profile *profile)
{
    add(s, "%llu KiB, at most %llu MiB and the provider's limit", (unsigned long long)(profile->chunk_bytes >> 10),
        (unsigned long long)(profile->chunk_max >> 20));
}

static void add_depth(sheet *s, const weft_profile *profile)
{
    add(s, "%u writes, at most %u and the provider's transmit queue", profile->depth, profile->depth_max);
}

static void add_mixing(sheet *s, const weft_profile *profile)
{
    add(s, "%s", profile->mixing == WEFT_MIXING_ALLOWED ? "allowed" : "refused");
}

static const struct {
    const char *name;
    void (*add)(sheet *s, const weft_profile *profile);
} lines[] = {
    {"name", add_names},          {"oldest version", add_oldest},   {"asked", add_asked},
    {"not asked", add_refused},   {"address", add_address},         {"registration", add_registration},
    {"pinning", add_pinning},     {"write size", add_size},         {"in flight", add_depth},
    {"options", add_options},     {"environment", add_environment}, {"wait", add_wait},
    {"mixed majors", add_mixing},
};

const char *weft_profile_line(const weft_profile *profile, size_t line, char *text, size_t capacity)
{
    sheet s = {text, capacity, 0};
    if (line >= sizeof lines / sizeof lines[0])
        return NULL;
    text[0] = '\0';
    lines[line].add(&s, profile);
    return lines[line].name;
}
