/* certificate.c - reads certificates and the private key, and says what is wrong with them before anybody dials. */
#include "security/inside.h"

#ifndef WEFT_NO_TLS
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/status.h"

/* Nobody is asked at a terminal for the password of a key. */
static int no_password(char *buffer, int bytes, int writes, void *user)
{
    (void)buffer;
    (void)bytes;
    (void)writes;
    (void)user;
    return 0;
}

bool weft_certificate_has(const weft_openssl *lib, X509 *certificate, const char *name)
{
    return lib->X509_check_host(certificate, name, 0,
                                X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
}

void weft_certificate_name(const weft_openssl *lib, X509 *certificate, char name[WEFT_SITE_NAME])
{
    GENERAL_NAMES *names = lib->X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const int count = names ? lib->OPENSSL_sk_num((const OPENSSL_STACK *)names) : 0;
    snprintf(name, WEFT_SITE_NAME, "?");
    for (int i = count - 1; i >= 0; i--) {
        const GENERAL_NAME *one = lib->OPENSSL_sk_value((const OPENSSL_STACK *)names, i);
        if (one->type == GEN_DNS)
            snprintf(name, WEFT_SITE_NAME, "%.*s", lib->ASN1_STRING_length(one->d.dNSName),
                     (const char *)lib->ASN1_STRING_get0_data(one->d.dNSName));
    }
    lib->GENERAL_NAMES_free(names);
    weft_bytes_clean(name);
}

static void print_day(const weft_openssl *lib, const ASN1_TIME *time, char text[32])
{
    struct tm day;
    memset(&day, 0, sizeof day);
    if (!lib->ASN1_TIME_to_tm(time, &day) || strftime(text, 32, "%Y-%m-%d", &day) == 0)
        snprintf(text, 32, "a day that cannot be read");
}

static weft_status check_times(const weft_guard *guard, const X509 *certificate)
{
    const weft_openssl *lib = guard->lib;
    const ASN1_TIME *from = lib->X509_get0_notBefore(certificate), *to = lib->X509_get0_notAfter(certificate);
    const bool early = lib->X509_cmp_current_time(from) >= 0, late = lib->X509_cmp_current_time(to) <= 0;
    char day[32], today[32];
    const time_t now = time(NULL);
    struct tm utc;
    if (!early && !late)
        return WEFT_OK;
    print_day(lib, early ? from : to, day);
    if (!gmtime_r(&now, &utc) || strftime(today, sizeof today, "%Y-%m-%d", &utc) == 0)
        snprintf(today, sizeof today, "?");
    return weft_fail_quiet(WEFT_E_CONFIG, "certificate = %s: %s on %s, and this host's clock says %s: %s",
                           guard->site->proof.certificate, early ? "it begins" : "it ended", day, today,
                           early ? "set the clock, or take another" : "take a new one, or set the clock");
}

static weft_status check_own(const weft_guard *guard, X509 *certificate)
{
    if (!weft_certificate_has(guard->lib, certificate, guard->name))
        return weft_fail_quiet(
            WEFT_E_CONFIG, "certificate = %s: it is not for %s; it needs the DNS name %s among its alternative names",
            guard->site->proof.certificate, guard->name, guard->name);
    return check_times(guard, certificate);
}

/* The text of the file is wiped as soon as the key is read from it. */
static weft_status read_private(weft_guard *guard, EVP_PKEY **key)
{
    const weft_openssl *lib = guard->lib;
    weft_status status = weft_secret_file(guard->secret, guard->site->proof.key);
    if (status != WEFT_OK)
        return weft_fail_quiet(status, "key = %s", weft_last_error());
    BIO *text = lib->BIO_new_mem_buf(guard->secret->text, (int)guard->secret->text_bytes);
    *key = text ? lib->PEM_read_bio_PrivateKey(text, NULL, no_password, NULL) : NULL;
    if (text)
        lib->BIO_free(text);
    weft_secret_wipe(guard->secret);
    return *key ? WEFT_OK
                : weft_fail_quiet(WEFT_E_CONFIG, "key = %s: it is no private key in PEM without a password",
                                  guard->site->proof.key);
}

static weft_status load_private(weft_guard *guard, SSL_CTX *context, X509 *certificate)
{
    const weft_openssl *lib = guard->lib;
    EVP_PKEY *key = NULL;
    weft_status status = read_private(guard, &key);
    if (status != WEFT_OK)
        return status;
    if (!lib->X509_check_private_key(certificate, key))
        status = weft_fail_quiet(WEFT_E_CONFIG, "key = %s: it is not the key of certificate = %s",
                                 guard->site->proof.key, guard->site->proof.certificate);
    else if (!lib->SSL_CTX_use_PrivateKey(context, key))
        status = weft_fail_quiet(WEFT_E_CONFIG, "key = %s: OpenSSL does not take it", guard->site->proof.key);
    lib->EVP_PKEY_free(key);
    return status;
}

weft_status weft_certificate_load(weft_guard *guard, SSL_CTX *context)
{
    const weft_openssl *lib = guard->lib;
    lib->SSL_CTX_set_default_passwd_cb(context, no_password);
    if (!lib->SSL_CTX_load_verify_file(context, guard->site->proof.ca))
        return weft_fail_quiet(WEFT_E_CONFIG, "ca = %s: it cannot be read, or holds no certificate in PEM",
                               guard->site->proof.ca);
    if (lib->SSL_CTX_use_certificate_chain_file(context, guard->site->proof.certificate) != 1)
        return weft_fail_quiet(WEFT_E_CONFIG,
                               "certificate = %s: it cannot be read, holds no certificate in PEM, or a weak one",
                               guard->site->proof.certificate);
    X509 *certificate = lib->SSL_CTX_get0_certificate(context);
    weft_status status = load_private(guard, context, certificate);
    return status == WEFT_OK ? check_own(guard, certificate) : status;
}
#else
typedef int weft_certificate_is_absent;
#endif
