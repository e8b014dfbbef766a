#include "store/s3_login.h"

#ifndef WEFT_NO_S3
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/status.h"

#define EARLY_S 300u /* before their end, so that a request that is under way still has good ones */
#define AGAIN_S 5u   /* after a renewal that failed */

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static weft_status too_long(const char *where)
{
    return weft_fail_quiet(WEFT_E_CONFIG, "a credential of %s is too long", where);
}

/* ---- the places */

static weft_status environment_take(const char *id, const char *secret, const char *token, weft_s3_login *login)
{
    *login = (weft_s3_login){0};
    if (!weft_s3_setting(id, NULL, NULL, "", login->id, sizeof login->id) ||
        !weft_s3_setting(secret, NULL, NULL, "", login->secret, sizeof login->secret) ||
        (token && !weft_s3_setting(token, NULL, NULL, "", login->token, sizeof login->token)))
        return too_long("the environment");
    return WEFT_OK;
}

/* WEFT_AGAIN: the profile is not there, and nobody named it. */
static weft_status profile_take(const weft_s3_web *web, weft_s3_login *login)
{
    bool named;
    char file[1024], role[1024];
    const char *profile = weft_s3_profile_name(&named);
    *login = (weft_s3_login){0};
    if (weft_s3_profile_get("aws_access_key_id", login->id, sizeof login->id) &&
        weft_s3_profile_get("aws_secret_access_key", login->secret, sizeof login->secret)) {
        weft_s3_profile_get("aws_session_token", login->token, sizeof login->token);
        return WEFT_OK;
    }
    if (weft_s3_profile_get("web_identity_token_file", file, sizeof file) &&
        weft_s3_profile_get("role_arn", role, sizeof role))
        return weft_s3_role_of_web_identity(web, file, role, login);
    if (!named)
        return WEFT_AGAIN;
    return weft_fail_quiet(WEFT_E_CONFIG,
                           "the profile %s has no keys and no web identity in ~/.aws/credentials and ~/.aws/config; of "
                           "source_profile, credential_process and sso make keys by: aws configure export-credentials",
                           profile);
}

static weft_status instance_take(const weft_s3_web *web, weft_s3_login *login)
{
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    char why[512] = "";
    if (!disabled || strcasecmp(disabled, "true") != 0) {
        if (weft_s3_role_of_instance(web, login) == WEFT_OK)
            return WEFT_OK;
        snprintf(why, sizeof why, "; asked for an instance's role, %s", weft_last_error());
    }
    return weft_fail_quiet(WEFT_E_CONFIG,
                           "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give "
                           "this process a role (docs/STORE.md)%s",
                           why);
}

/* Google's keys have names of their own, because AWS's, and tokens of its roles, are nobody else's to see. */
static weft_status google_take(weft_s3_login *login)
{
    if (is_set("GS_ACCESS_KEY_ID") && is_set("GS_SECRET_ACCESS_KEY"))
        return environment_take("GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY", NULL, login);
    return weft_fail_quiet(WEFT_E_CONFIG,
                           "no credentials: set GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY to an HMAC key");
}

static weft_status places_ask(const weft_s3_web *web, weft_s3_login *login)
{
    weft_status status = WEFT_AGAIN;
    if (is_set("AWS_ACCESS_KEY_ID") && is_set("AWS_SECRET_ACCESS_KEY"))
        return environment_take("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", login);
    if (is_set("AWS_WEB_IDENTITY_TOKEN_FILE") && is_set("AWS_ROLE_ARN"))
        return weft_s3_role_of_web_identity(web, getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), getenv("AWS_ROLE_ARN"), login);
    status = profile_take(web, login);
    if (status != WEFT_AGAIN)
        return status;
    if (is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") || is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
        return weft_s3_role_of_container(web, login);
    return instance_take(web, login);
}

/* ---- taking and renewing */

weft_status weft_s3_login_take(const weft_s3_web *web, const char *url, weft_s3_login *login)
{
    weft_s3_login taken;
    const uint64_t now_s = (uint64_t)time(NULL);
    const weft_status status = strncmp(url, "gs://", 5) == 0 ? google_take(&taken) : places_ask(web, &taken);
    if (status == WEFT_OK) {
        const uint64_t life_s = taken.until_s > now_s ? taken.until_s - now_s : 0;
        taken.renew_at_s = taken.until_s ? taken.until_s - (life_s / 2 < EARLY_S ? life_s / 2 : EARLY_S) : 0;
        *login = taken;
    } else {
        weft_fail_about("%s", url);
    }
    explicit_bzero(&taken, sizeof taken);
    return status;
}

weft_status weft_s3_login_keep(const weft_s3_web *web, const char *url, weft_s3_login *login)
{
    const uint64_t now_s = (uint64_t)time(NULL);
    if (!login->until_s || now_s < login->renew_at_s)
        return WEFT_OK;
    const weft_status status = weft_s3_login_take(web, url, login);
    if (status == WEFT_OK || now_s >= login->until_s)
        return status;
    login->renew_at_s = now_s + AGAIN_S;
    weft_log(WEFT_LOG_WARN, "%s; the credentials are good for %llu s more, and weft asks again", weft_last_error(),
             (unsigned long long)(login->until_s - now_s));
    return WEFT_OK;
}
#endif
