/* reason.c - why a handshake failed, in words that say what to do. OpenSSL knows the record, and not the site. */
#include "security/inside.h"

#ifndef WEFT_NO_TLS
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/status.h"

/* Cause of an alert of the other end, or of an error found here. */
typedef enum cause { CAUSE_OTHER, CAUSE_PLAIN, CAUSE_OLD, CAUSE_PROOF, CAUSE_MINE, CAUSE_THEIRS } cause;

typedef struct reason {
    int number; /* reason of the library; an alert's number + SSL_AD_REASON_OFFSET */
    cause cause;
} reason;

static const reason reasons[] = {
    {SSL_R_WRONG_VERSION_NUMBER, CAUSE_PLAIN},
    {SSL_R_HTTP_REQUEST, CAUSE_PLAIN},
    {SSL_R_HTTPS_PROXY_REQUEST, CAUSE_PLAIN},
    {SSL_R_BAD_RECORD_TYPE, CAUSE_PLAIN},
    {SSL_R_UNSUPPORTED_PROTOCOL, CAUSE_OLD},
    {SSL_R_NO_PROTOCOLS_AVAILABLE, CAUSE_OLD},
    {SSL_R_VERSION_TOO_LOW, CAUSE_OLD},
    {SSL_AD_REASON_OFFSET + SSL3_AD_HANDSHAKE_FAILURE, CAUSE_PROOF},
    {SSL_AD_REASON_OFFSET + SSL3_AD_ILLEGAL_PARAMETER, CAUSE_PROOF},
    {SSL_AD_REASON_OFFSET + TLS1_AD_DECRYPT_ERROR, CAUSE_PROOF},
    {SSL_AD_REASON_OFFSET + TLS1_AD_INTERNAL_ERROR, CAUSE_PROOF},
    {SSL_AD_REASON_OFFSET + TLS1_AD_UNKNOWN_PSK_IDENTITY, CAUSE_PROOF},
    {SSL_AD_REASON_OFFSET + TLS13_AD_MISSING_EXTENSION, CAUSE_PROOF},
    {SSL_R_BINDER_DOES_NOT_VERIFY, CAUSE_PROOF},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, CAUSE_PROOF},
    {SSL_R_NO_SHARED_CIPHER, CAUSE_PROOF},
    {SSL_R_NO_CERTIFICATE_SET, CAUSE_PROOF},
    {SSL_AD_REASON_OFFSET + TLS1_AD_PROTOCOL_VERSION, CAUSE_OLD},
    {SSL_AD_REASON_OFFSET + SSL3_AD_BAD_CERTIFICATE, CAUSE_MINE},
    {SSL_AD_REASON_OFFSET + SSL3_AD_UNSUPPORTED_CERTIFICATE, CAUSE_MINE},
    {SSL_AD_REASON_OFFSET + SSL3_AD_CERTIFICATE_REVOKED, CAUSE_MINE},
    {SSL_AD_REASON_OFFSET + SSL3_AD_CERTIFICATE_EXPIRED, CAUSE_MINE},
    {SSL_AD_REASON_OFFSET + SSL3_AD_CERTIFICATE_UNKNOWN, CAUSE_MINE},
    {SSL_AD_REASON_OFFSET + TLS1_AD_UNKNOWN_CA, CAUSE_MINE},
    {SSL_AD_REASON_OFFSET + TLS13_AD_CERTIFICATE_REQUIRED, CAUSE_MINE},
    {SSL_R_CERTIFICATE_VERIFY_FAILED, CAUSE_THEIRS},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, CAUSE_THEIRS},
};

static cause cause_of(int number)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].number == number)
            return reasons[i].cause;
    return CAUSE_OTHER;
}

static const char *words_of(const weft_openssl *lib, unsigned long error)
{
    const char *words = lib->ERR_reason_error_string(error);
    return words ? words : "an error without a name";
}

static void print_clock(char text[32])
{
    const time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || strftime(text, 32, "%Y-%m-%d", &utc) == 0)
        snprintf(text, 32, "?");
}

/* The name, or the key, that this end offered was not taken; or the other's was none of those known here. */
static weft_status refuse_proof(const weft_seal *seal, const char *words)
{
    const weft_guard *guard = seal->guard;
    if (guard->has_certificates)
        return weft_fail_quiet(WEFT_E_REFUSED,
                               "it takes no certificates (%s): write the same in [security] at both ends", words);
    if (seal->answers && seal->name[0])
        return weft_fail_quiet(WEFT_E_REFUSED, "it has another key for %s: give both ends the same key file",
                               seal->name);
    if (seal->answers)
        return weft_fail_quiet(WEFT_E_REFUSED, "it offers no key of weft: give it a key_file, as this end has");
    return weft_fail_quiet(
        WEFT_E_REFUSED,
        "it does not know key %s of %s: give both ends the same key file, and [peer.%s] a section there",
        seal->offer[0] ? strchr(seal->offer, ':') + 1 : "?", guard->name, guard->name);
}

static weft_status refuse_theirs(const weft_seal *seal, const char *words)
{
    const weft_openssl *lib = seal->guard->lib;
    const long result = lib->SSL_get_verify_result(seal->ssl);
    char today[32];
    print_clock(today);
    if (!seal->guard->has_certificates)
        return weft_fail_quiet(
            WEFT_E_REFUSED, "it has a certificate, and this end a key_file: write the same in [security] at both ends");
    if (result == X509_V_OK)
        return weft_fail_quiet(WEFT_E_REFUSED, "it shows no certificate (%s): give it ca, certificate and key", words);
    if (result == X509_V_ERR_HOSTNAME_MISMATCH)
        return weft_fail_quiet(WEFT_E_REFUSED, "its certificate is not for %s: that needs the DNS name %s", seal->to,
                               seal->to);
    return weft_fail_quiet(WEFT_E_REFUSED, "its certificate is not taken: %s; ca = %s, and this host's clock says %s",
                           lib->X509_verify_cert_error_string(result), seal->guard->site->proof.ca, today);
}

static weft_status refuse(const weft_seal *seal, cause cause, const char *words)
{
    switch (cause) {
    case CAUSE_PLAIN:
        return weft_fail_quiet(WEFT_E_REFUSED, "it speaks without tls: write [security] mode = tls at both ends");
    case CAUSE_OLD:
        return weft_fail_quiet(WEFT_E_REFUSED, "it does not speak TLS 1.3, and no older one is taken");
    case CAUSE_PROOF:
        return refuse_proof(seal, words);
    case CAUSE_MINE:
        return weft_fail_quiet(WEFT_E_REFUSED, "it does not take %s (%s): its ca must be the one that signed it",
                               seal->guard->has_certificates ? seal->guard->site->proof.certificate : "this end's key",
                               words);
    case CAUSE_THEIRS:
        return refuse_theirs(seal, words);
    default:
        return weft_fail_quiet(WEFT_E_REFUSED, "tls: %s", words);
    }
}

/* Once both ends are proved and have spoken, an error only ends the connection. */
weft_status weft_reason_decide(weft_seal *seal, int result)
{
    const weft_openssl *lib = seal->guard->lib;
    const int saved = errno, kind = lib->SSL_get_error(seal->ssl, result);
    const unsigned long error = lib->ERR_peek_error();
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return WEFT_AGAIN;
    if (seal->why[0])
        return weft_fail_quiet(WEFT_E_REFUSED, "%s", seal->why);
    if (kind == SSL_ERROR_SSL && error && !seal->heard)
        return refuse(seal, cause_of(ERR_GET_REASON(error)), words_of(lib, error));
    if (kind == SSL_ERROR_SSL && error)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "tls: %s", words_of(lib, error));
    if (kind == SSL_ERROR_SYSCALL && saved && result < 0)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "%s", strerror(saved));
    return weft_fail_quiet(WEFT_E_PEER_LOST, seal->proved ? "closed by the other end"
                                                          : "closed by the other end before it proved its name");
}
#else
typedef int weft_reason_is_absent;
#endif
