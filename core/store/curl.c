#include "weft.h"

#include "store/curl.h"

#ifndef WEFT_NO_S3
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

#define NAME      "libcurl.so.4"
#define PACKAGES  "Debian, Ubuntu: libcurl4; Fedora: libcurl; SUSE: libcurl4"
#define VERSION   0x075800 /* 7.88, because requests of versions before are not signed as S3 wants */
#define SAID_MOST 160

typedef struct call {
    const char *name;
    size_t place;
} call;

static weft_curl opened;
static char absence[SAID_MOST];

static bool calls_find(void *handle)
{
#define CALL_ROW(type, name, arguments) {"curl_" #name, offsetof(weft_curl, name)},
    static const call calls[] = {WEFT_CURL_CALLS(CALL_ROW)};
#undef CALL_ROW
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlsym(handle, calls[i].name);
        if (!found) {
            snprintf(absence, sizeof absence, NAME " lacks %s", calls[i].name);
            return false;
        }
        memcpy((char *)&opened + calls[i].place, &found, sizeof found);
    }
    return true;
}

/* The library stays mapped, because other parts of the process may use it. */
static void library_open(void)
{
    void *handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
    const char *said = handle ? NULL : dlerror();
    if (!handle)
        snprintf(absence, sizeof absence, "%s", said ? said : NAME " cannot be opened");
    else if (calls_find(handle) && opened.version_info(CURLVERSION_NOW)->version_num < VERSION)
        snprintf(absence, sizeof absence, "it is %s, and 7.88 is needed",
                 opened.version_info(CURLVERSION_NOW)->version);
    else if (!absence[0] && opened.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(absence, sizeof absence, "it does not start");
}

weft_status weft_curl_open(const weft_curl **lib)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_open);
    *lib = &opened;
    return absence[0] ? weft_fail(WEFT_E_MISSING, "stores of object servers need libcurl (" PACKAGES "): %s", absence)
                      : WEFT_OK;
}
#endif
