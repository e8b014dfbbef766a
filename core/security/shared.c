/* shared.c - keys that both ends have: which one belongs to a name, and how OpenSSL gets it. */
#include "security/inside.h"

#ifndef WEFT_NO_TLS
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "site/site_text.h"

/* The suite of the one hash that a key is bound to: TLS_AES_256_GCM_SHA384. */
static const unsigned char suite[] = {0x13, 0x02};

/* Reads a peer's key, or its next one. WEFT_AGAIN: there is no next one. Errors, all quiet: WEFT_E_CONFIG. */
static weft_status read_key(weft_guard *guard, const weft_site_peer *peer, bool next)
{
    char path[WEFT_SITE_TEXT];
    if (!weft_site_key(guard->site, peer, next, path))
        return next ? WEFT_AGAIN
                    : weft_fail_quiet(WEFT_E_CONFIG, "%s has no key_file, or its path is longer than 255 bytes",
                                      peer->name);
    if (next && access(path, F_OK) != 0 && errno == ENOENT)
        return WEFT_AGAIN;
    weft_status status = weft_secret_read(guard->secret, path);
    if (status != WEFT_OK)
        weft_fail_quiet(status, "key_file%s of %s: %s", next ? "_next" : "", peer->name, weft_last_error());
    return status;
}

weft_status weft_shared_check(weft_guard *guard, const weft_site_peer *peer)
{
    weft_status status = read_key(guard, peer, false);
    weft_secret_wipe(guard->secret);
    return status;
}

/* The session that stands for the key which was read; the key is wiped. */
static SSL_SESSION *make_session(weft_guard *guard, SSL *ssl)
{
    const weft_openssl *lib = guard->lib;
    SSL_SESSION *session = lib->SSL_SESSION_new();
    const SSL_CIPHER *cipher = lib->SSL_CIPHER_find(ssl, suite);
    const bool made =
        session && cipher && lib->SSL_SESSION_set1_master_key(session, guard->secret->key, guard->secret->bytes) &&
        lib->SSL_SESSION_set1_id_context(session, (const unsigned char *)WEFT_SESSIONS, sizeof WEFT_SESSIONS - 1) &&
        lib->SSL_SESSION_set_cipher(session, cipher) && lib->SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    weft_secret_wipe(guard->secret);
    if (made)
        return session;
    if (session)
        lib->SSL_SESSION_free(session);
    return NULL;
}

/* ---- the dialing end */

static int offer_key(SSL *ssl, const EVP_MD *hash, const unsigned char **offer, size_t *bytes, SSL_SESSION **session)
{
    weft_guard *guard = NULL;
    (void)hash; /* of the one suite */
    weft_site_peer peer;
    const weft_openssl *lib = weft_openssl_here();
    weft_seal *seal = lib->SSL_get_ex_data(ssl, 0);
    guard = seal->guard;
    *session = NULL;
    if (weft_site_resolve(guard->site, guard->name, &peer) != WEFT_OK || read_key(guard, &peer, false) != WEFT_OK) {
        snprintf(seal->why, sizeof seal->why, "%s", weft_last_error());
        return 0;
    }
    snprintf(seal->offer, sizeof seal->offer, "%s:%s", guard->name, guard->secret->id);
    *session = make_session(guard, ssl);
    *offer = (const unsigned char *)seal->offer;
    *bytes = strlen(seal->offer);
    return *session != NULL;
}

/* ---- the end that was dialed */

bool weft_shared_cut(const unsigned char *offer, size_t bytes, char name[WEFT_SITE_NAME], char id[WEFT_SECRET_ID])
{
    const size_t name_bytes = bytes < WEFT_SECRET_ID ? 0 : bytes - WEFT_SECRET_ID;
    if (name_bytes == 0 || name_bytes >= WEFT_SITE_NAME || offer[name_bytes] != ':')
        return false;
    memcpy(name, offer, name_bytes);
    name[name_bytes] = 0;
    memcpy(id, offer + name_bytes + 1, WEFT_SECRET_ID - 1);
    id[WEFT_SECRET_ID - 1] = 0;
    return strlen(name) == name_bytes && weft_site_is_name(name) &&
           strspn(id, "0123456789abcdef") == WEFT_SECRET_ID - 1;
}

/* Reads the key of this name and this ID. */
static bool find(weft_seal *seal, const char *name, const char *id)
{
    weft_guard *guard = seal->guard;
    weft_site_peer peer;
    char first[WEFT_SECRET_ID];
    if (weft_site_resolve(guard->site, name, &peer) != WEFT_OK || read_key(guard, &peer, false) != WEFT_OK) {
        snprintf(seal->why, sizeof seal->why, "%s", weft_last_error());
        return false;
    }
    if (!strcmp(guard->secret->id, id))
        return true;
    memcpy(first, guard->secret->id, sizeof first);
    weft_status next = read_key(guard, &peer, true);
    if (next == WEFT_OK && !strcmp(guard->secret->id, id))
        return true;
    if (next != WEFT_OK && next != WEFT_AGAIN)
        snprintf(seal->why, sizeof seal->why, "%s", weft_last_error());
    else
        snprintf(seal->why, sizeof seal->why,
                 "%s comes with key %s, its key here is %s%s%s: give both ends the same key file", name, id, first,
                 next == WEFT_OK ? ", the next one " : "", next == WEFT_OK ? guard->secret->id : "");
    weft_secret_wipe(guard->secret);
    return false;
}

/* Without a session the handshake goes on, and ends because this end has no certificate. */
static int find_key(SSL *ssl, const unsigned char *offer, size_t bytes, SSL_SESSION **session)
{
    char name[WEFT_SITE_NAME], id[WEFT_SECRET_ID];
    weft_seal *seal = weft_openssl_here()->SSL_get_ex_data(ssl, 0);
    *session = NULL;
    if (!weft_shared_cut(offer, bytes, name, id) || !find(seal, name, id))
        return 1;
    snprintf(seal->name, sizeof seal->name, "%s", name);
    *session = make_session(seal->guard, ssl);
    return *session != NULL;
}

void weft_shared_install(weft_guard *guard, SSL_CTX *context)
{
    guard->lib->SSL_CTX_set_psk_use_session_callback(context, offer_key);
    guard->lib->SSL_CTX_set_psk_find_session_callback(context, find_key);
}

void weft_shared_forget(weft_seal *seal)
{
    static const unsigned char nothing[WEFT_SECRET_MOST];
    SSL_SESSION *session = seal->guard->lib->SSL_get_session(seal->ssl);
    if (session)
        seal->guard->lib->SSL_SESSION_set1_master_key(session, nothing, sizeof nothing);
}
#else
typedef int weft_shared_is_absent;
#endif
