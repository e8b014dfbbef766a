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

static int set_value(struct fid_ep *ep, weft_profile_setting setting, int name)
{
    bool truth = setting.value != 0;
    size_t number = (size_t)setting.value;
    if (setting.option == WEFT_OPTION_RNR_RETRY)
        return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &number, sizeof number);
    return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &truth, sizeof truth);
}

static void set_option(const weft_link *link, struct fid_ep *ep, weft_profile_setting setting)
{
    int name;
    if (is_read(setting.option) || !option_name(setting.option, &name))
        return;
    const int error = set_value(ep, setting, name);
    if (error)
        weft_log(WEFT_LOG_DEBUG, "provider %s: endpoint option \"%s\" is refused: %s", link->profile->name,
                 weft_profile_option_name(setting.option), weft_fabric_call_strerror(-error));
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

void weft_fabric_options_set(const weft_link *link, struct fid_ep *ep)
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
