/* s3_login.h - credentials for an object server, out of the first place that has some, as the SDKs of AWS look for
 * them: the environment, a web identity, a profile of the shared files, a container's role, an instance's role. */
#ifndef WEFT_CORE_STORE_S3_LOGIN_H
#define WEFT_CORE_STORE_S3_LOGIN_H

#include "store/s3.h"

#ifndef WEFT_NO_S3
#include <stdatomic.h>

#include "store/curl.h"

/* How servers of credentials are asked. */
typedef struct weft_s3_web {
    const weft_curl *lib;
    const atomic_bool *ended; /* ends a request */
    const char *region;
} weft_s3_web;

typedef struct weft_s3_login {
    char id[160], secret[256];
    char token[8192];    /* of a session; "": none */
    uint64_t until_s;    /* seconds since 1970; 0: for ever */
    uint64_t renew_at_s; /* the same, when the next ones are asked for */
} weft_s3_login;

/* Takes credentials for `url`. Errors: WEFT_E_CONFIG (there are none; the text has all places), WEFT_E_FILE (a server
 * or file that was named does not give them), WEFT_E_MEMORY. */
weft_status weft_s3_login_take(const weft_s3_web *web, const char *url, weft_s3_login *login);
/* Renews those that end soon. While they are still good, a renewal that fails is a warning. Errors: as above. */
weft_status weft_s3_login_keep(const weft_s3_web *web, const char *url, weft_s3_login *login);

/* ---- s3_profile.c: the shared files */

/* Takes a key of the profile that AWS_PROFILE names (default) out of ~/.aws/credentials, else ~/.aws/config. */
bool weft_s3_profile_get(const char *key, char *out, size_t room);
/* Its name, and whether the environment names it. */
const char *weft_s3_profile_name(bool *named);
/* The first variable that is set and not empty, else the key of the profile (NULL: none), else `otherwise`. Returns
 * false if there is no room. */
bool weft_s3_setting(const char *first, const char *second, const char *key, const char *otherwise, char *out,
                     size_t room);

/* ---- s3_role.c: servers that give credentials for a while */

weft_status weft_s3_role_of_web_identity(const weft_s3_web *web, const char *file, const char *role,
                                         weft_s3_login *login);
weft_status weft_s3_role_of_container(const weft_s3_web *web, weft_s3_login *login);
weft_status weft_s3_role_of_instance(const weft_s3_web *web, weft_s3_login *login);

/* ---- s3.c */

/* libcurl asks once a second at least, whatever the server does, whether to go on; `ended` is an atomic_bool. */
int weft_s3_may_go_on(void *ended, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up);
#endif

#endif
