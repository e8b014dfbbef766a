/* curl.h - libcurl, which is opened at run time, because only stores of object servers need it. */
#ifndef WEFT_CORE_STORE_CURL_H
#define WEFT_CORE_STORE_CURL_H

#ifndef WEFT_NO_S3
#include <curl/curl.h>

/* Calls of libcurl. The name of each is CALL(TYPE, NAME) after curl_. */
#define WEFT_CURL_CALLS(CALL)                                                                                          \
    CALL(CURLcode, global_init, (long flags))                                                                          \
    CALL(CURL *, easy_init, (void))                                                                                    \
    CALL(CURLcode, easy_setopt, (CURL * handle, CURLoption option, ...))                                               \
    CALL(CURLcode, easy_perform, (CURL * handle))                                                                      \
    CALL(CURLcode, easy_getinfo, (CURL * handle, CURLINFO info, ...))                                                  \
    CALL(const char *, easy_strerror, (CURLcode code))                                                                 \
    CALL(void, easy_reset, (CURL * handle))                                                                            \
    CALL(void, easy_cleanup, (CURL * handle))                                                                          \
    CALL(struct curl_slist *, slist_append, (struct curl_slist * list, const char *text))                              \
    CALL(void, slist_free_all, (struct curl_slist * list))                                                             \
    CALL(curl_version_info_data *, version_info, (CURLversion stamp))

typedef struct weft_curl {
#define CALL_FIELD(type, name, arguments) type(*name) arguments;
    WEFT_CURL_CALLS(CALL_FIELD)
#undef CALL_FIELD
} weft_curl;

/* Opens libcurl once in a process. Any thread. Errors: WEFT_E_MISSING, with what to install. */
weft_status weft_curl_open(const weft_curl **lib);
#endif

#endif
