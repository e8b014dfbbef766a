#include "security/guard.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "port/port_provider.h"
#include "security/inside.h"
#include "security/library.h"

#ifndef WEFT_NO_TLS
#define SUITE "TLS_AES_256_GCM_SHA384" /* keys: the one that shared.c names */

/* ---- contexts */

static void settle(const weft_openssl *lib, SSL_CTX *context)
{
    const long modes = SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER;
    lib->SSL_CTX_ctrl(context, SSL_CTRL_MODE, modes, NULL);
    lib->SSL_CTX_ctrl(context, SSL_CTRL_CLEAR_MODE, SSL_MODE_AUTO_RETRY, NULL); /* a read ends with a message of tls */
    lib->SSL_CTX_set_msg_callback(context, weft_seal_hear);
    lib->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    lib->SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                          SSL_OP_IGNORE_UNEXPECTED_EOF);
    lib->SSL_CTX_set_session_id_context(context, (const unsigned char *)WEFT_SESSIONS, sizeof WEFT_SESSIONS - 1);
    lib->SSL_CTX_set_num_tickets(context, 0);
    lib->SSL_CTX_set_security_level(context, 2);
    lib->SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

static weft_status fill(weft_guard *guard, SSL_CTX *context)
{
    const weft_openssl *lib = guard->lib;
    if (!lib->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) ||
        !lib->SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, 0, NULL))
        return weft_fail_quiet(WEFT_E_MISSING, "this host's OpenSSL has no TLS 1.3; its openssl.cnf may forbid it");
    settle(lib, context);
    if (guard->has_certificates)
        return weft_certificate_load(guard, context);
    if (!lib->SSL_CTX_set_ciphersuites(context, SUITE))
        return weft_fail_quiet(WEFT_E_MISSING, "this host's OpenSSL has no " SUITE);
    weft_shared_install(guard, context);
    return WEFT_OK;
}

static weft_status make(weft_guard *guard)
{
    SSL_CTX *context = guard->lib->SSL_CTX_new(guard->lib->TLS_method());
    if (!context)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for a context of tls");
    weft_status status = fill(guard, context);
    if (status != WEFT_OK)
        guard->lib->SSL_CTX_free(context);
    else
        guard->context = context;
    return status;
}

static void stamp(const char *path, weft_stamp *mark)
{
    struct stat file;
    memset(mark, 0, sizeof *mark);
    if (stat(path, &file) != 0)
        return;
    mark->changed = file.st_ctim;
    mark->written = file.st_mtim;
    mark->device = file.st_dev;
    mark->node = file.st_ino;
    mark->bytes = (uint64_t)file.st_size;
}

static void stamp_all(const weft_guard *guard, weft_stamp marks[WEFT_FILES])
{
    stamp(guard->site->proof.ca, &marks[WEFT_FILE_CA]);
    stamp(guard->site->proof.certificate, &marks[WEFT_FILE_CERTIFICATE]);
    stamp(guard->site->proof.key, &marks[WEFT_FILE_KEY]);
}

/* Keys are read by name, when a connection needs one. Certificates are parsed, which costs more than a handshake by a
 * key, so they are read when they have changed. */
SSL_CTX *weft_guard_context(weft_guard *guard)
{
    weft_stamp marks[WEFT_FILES];
    if (!guard->has_certificates)
        return guard->context;
    stamp_all(guard, marks);
    if (guard->context && memcmp(marks, guard->stamps, sizeof marks) == 0)
        return guard->context;
    guard->lib->SSL_CTX_free(guard->context); /* those standing keep it */
    guard->context = NULL;
    memcpy(guard->stamps, marks, sizeof marks);
    return make(guard) == WEFT_OK ? guard->context : NULL;
}

/* ---- open */

/* Whether this end answers for a peer: the trainer for all, a relay for those that come through it. */
static bool answers_for(const weft_guard *guard, const weft_site_peer *peer)
{
    char names[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    const uint32_t count = guard->is_trainer ? 0 : weft_site_via(peer, names);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(names[i], guard->name))
            return true;
    return guard->is_trainer || !strcmp(peer->name, guard->name);
}

/* A pattern's file is known only with a name. */
static weft_status check_keys(weft_guard *guard)
{
    weft_status status = WEFT_OK;
    weft_site_peer row;
    bool pattern;
    if (!guard->is_trainer) {
        status = weft_site_resolve(guard->site, guard->name, &row);
        if (status == WEFT_OK)
            status = weft_shared_check(guard, &row);
    }
    for (size_t i = 0; status == WEFT_OK && weft_site_row(guard->site, i, &row, &pattern); i++)
        if (!pattern && answers_for(guard, &row))
            status = weft_shared_check(guard, &row);
    return status;
}

/* Names what becomes of weights: those of peers whose provider goes by sealed connections are secret too. */
static const char *weights_go(const weft_guard *guard)
{
    weft_site_peer row;
    bool pattern, sealed = false, plain = false;
    for (size_t i = 0; weft_site_row(guard->site, i, &row, &pattern); i++) {
        const bool mine = guard->is_trainer || answers_for(guard, &row) || strcmp(row.name, guard->name) == 0;
        const bool piped = weft_provider_is_piped(weft_provider_find(row.provider));
        sealed = sealed || (mine && piped);
        plain = plain || (mine && !piped);
    }
    if (!plain)
        return "messages and weights are secret";
    return sealed ? "messages are secret, and so are weights that go by stream; the others go in plain"
                  : "messages are secret; weights go in plain by the providers of the peers";
}

/* Once a session: whoever only asks for a layout has no log. */
static void tell(const weft_guard *guard)
{
    if (!weft_log_entered())
        return;
    weft_log(WEFT_LOG_INFO, "tls: names are proved by %s; %s (docs/SECURITY.md)",
             guard->has_certificates ? "certificates" : "keys", weights_go(guard));
}

static weft_status open_parts(weft_guard *guard)
{
    guard->secret = weft_secret_open();
    if (!guard->secret)
        return weft_fail(WEFT_E_MEMORY, "no memory for keys");
    if (guard->has_certificates)
        stamp_all(guard, guard->stamps);
    weft_status status = make(guard);
    if (status == WEFT_OK && !guard->has_certificates)
        status = check_keys(guard);
    return status == WEFT_OK ? status : weft_fail(status, "[security] mode = tls: %s", weft_last_error());
}

weft_status weft_guard_open(const weft_site *site, const char *name, weft_guard **guard)
{
    *guard = NULL;
    if (site->security != WEFT_SECURITY_TLS)
        return WEFT_OK;
    const weft_openssl *lib = weft_openssl_here();
    if (!lib)
        return weft_fail(WEFT_E_MISSING, "[security] mode = tls: %s", weft_library_absence());
    weft_guard *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for keys");
    made->lib = lib;
    made->site = site;
    made->is_trainer = !name;
    made->has_certificates = site->proof.ca[0] != 0;
    snprintf(made->name, sizeof made->name, "%s", name ? name : WEFT_GUARD_TRAINER);
    weft_status status = open_parts(made);
    if (status != WEFT_OK) {
        weft_guard_close(made);
        return status;
    }
    tell(made);
    *guard = made;
    return WEFT_OK;
}

void weft_guard_close(weft_guard *guard)
{
    if (!guard)
        return;
    guard->lib->SSL_CTX_free(guard->context);
    weft_secret_close(guard->secret);
    weft_mem_give(guard);
}
#else
weft_status weft_guard_open(const weft_site *site, const char *name, weft_guard **guard)
{
    (void)name;
    *guard = NULL;
    if (site->security != WEFT_SECURITY_TLS)
        return WEFT_OK;
    return weft_fail(WEFT_E_MISSING, "[security] mode = tls: %s", weft_library_absence());
}

void weft_guard_close(weft_guard *guard)
{
    (void)guard;
}
#endif
