/* fabric_option.c - the options that a row puts on endpoints. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <stdio.h>

#include "base/log.h"

/* Enums of libfabric cannot be tested by #ifdef: false where this header does not know the option. */
static bool option_name(weft_profile_option option, int *name)
{
    switch (option) {
    case WEFT_OPTION_RNR_RETRY:
        *name = FI_OPT_EFA_RNR_RETRY;
        return true;
    case WEFT_OPTION_DEVICE_PEER:
        *name = FI_OPT_FI_HMEM_P2P;
        return true;
#if FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 18))
    case WEFT_OPTION_EMULATED_WRITE:
        *name = FI_OPT_EFA_EMULATED_WRITE;
        return true;
    case WEFT_OPTION_CUDA_API:
        *name = FI_OPT_CUDA_API_PERMITTED;
        return true;
#endif
#if FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 21))
    case WEFT_OPTION_SHARED_MEMORY:
        *name = FI_OPT_SHARED_MEMORY_PERMITTED;
        return true;
#endif
#ifdef WEFT_FABRIC_UNSOLICITED /* cmake/library.cmake looked for it */
    case WEFT_OPTION_UNSOLICITED:
        *name = FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV;
        return true;
#endif
    default:
        return false;
    }
}

static bool is_read(weft_profile_option option)
{
    return option == WEFT_OPTION_EMULATED_WRITE;
}

/* Those without which the CPU may copy under the name of direct, or libfabric call CUDA from under an engine. */
static bool is_vital(const weft_link *link, weft_profile_option option)
{
    return link->direct && (option == WEFT_OPTION_DEVICE_PEER ||
                            (option == WEFT_OPTION_CUDA_API && link->memory_kind == WEFT_REGION_CUDA));
}

static int set_value(struct fid_ep *ep, weft_profile_setting setting, int name)
{
    bool truth = setting.value != 0;
    size_t number = (size_t)setting.value;
    if (setting.option == WEFT_OPTION_RNR_RETRY)
        return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &number, sizeof number);
    if (setting.option == WEFT_OPTION_DEVICE_PEER)
        return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &setting.value, sizeof setting.value);
    return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &truth, sizeof truth);
}

static void lose_direct(weft_link *link, const char *option, const char *why)
{
    link->direct = false;
    snprintf(link->memory, sizeof link->memory,
             "staged in host memory: libfabric granted memory of devices, but refuses the option \"%s\" (%s), without "
             "which direct is not safe; it takes a libfabric that knows it",
             option, why);
    weft_log(WEFT_LOG_WARN, "provider %s: %s", link->profile->name, link->memory);
}

static void set_option(weft_link *link, struct fid_ep *ep, weft_profile_setting setting)
{
    int name;
    const bool vital = is_vital(link, setting.option);
    const char *text = weft_profile_option_name(setting.option);
    if (is_read(setting.option) || (setting.option == WEFT_OPTION_DEVICE_PEER && !link->direct))
        return;
    const bool known = option_name(setting.option, &name);
    const int error = known ? set_value(ep, setting, name) : 0;
    if (vital && (!known || error))
        lose_direct(link, text, known ? fi_strerror(-error) : "the header that weft was built with is too old for it");
    else if (error)
        weft_log(WEFT_LOG_DEBUG, "provider %s: endpoint option \"%s\" is refused: %s", link->profile->name, text,
                 fi_strerror(-error));
}

/* The value that a row expects of an option that can only be read. */
static void read_option(const weft_link *link, struct fid_ep *ep, weft_profile_setting setting)
{
    int name;
    bool truth = setting.value != 0;
    size_t bytes = sizeof truth;
    if (!is_read(setting.option) || !option_name(setting.option, &name) ||
        fi_getopt(&ep->fid, FI_OPT_ENDPOINT, name, &truth, &bytes) != 0 || truth == (setting.value != 0))
        return;
    weft_log(WEFT_LOG_WARN,
             "provider %s: this device has no remote writes of its own, libfabric makes them of messages: slower, and "
             "more work for the CPU",
             link->profile->name);
}

void weft_fabric_options_set(weft_link *link, struct fid_ep *ep)
{
    const weft_profile_setting *settings = link->profile->settings;
    for (int i = 0; i < WEFT_PROFILE_SETTINGS && settings[i].option != WEFT_OPTION_NONE; i++)
        set_option(link, ep, settings[i]);
}

void weft_fabric_options_read(const weft_link *link, struct fid_ep *ep)
{
    const weft_profile_setting *settings = link->profile->settings;
    for (int i = 0; i < WEFT_PROFILE_SETTINGS && settings[i].option != WEFT_OPTION_NONE; i++)
        read_option(link, ep, settings[i]);
}
#else
typedef int weft_fabric_option_is_absent;
#endif
