#include "security/seal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/status.h"
#include "security/inside.h"

#ifndef WEFT_NO_TLS
#define RECORD_LEAST 20 /* the first bytes that a record of TLS may have */
#define RECORD_MOST  23
#define WRITE_MOST   (16u << 10) /* bytes of a record */
#define TURN         (64u << 10) /* bytes of a turn of reads: some records */
/* Messages of tls that come after the proof. An end of weft sends none. A later one may renew its keys, as AES-GCM asks
 * for after some hundred GB. */
#define SAID_MOST 4u
#define SAID_EACH 34 /* one more for each 1 << 34 bytes */

/* ---- begin and end */

static weft_status attach(weft_seal *seal, SSL_CTX *context, int fd)
{
    const weft_openssl *lib = seal->guard->lib;
    BIO *bio = lib->BIO_new(lib->socket);
    seal->ssl = lib->SSL_new(context);
    if (!bio || !seal->ssl || !lib->SSL_set_ex_data(seal->ssl, 0, seal)) {
        if (bio)
            lib->BIO_free(bio);
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for a connection by tls");
    }
    seal->socket = (weft_socket){fd, TURN};
    seal->turn = TURN;
    lib->BIO_set_data(bio, &seal->socket);
    lib->BIO_set_init(bio, 1);
    lib->SSL_set_bio(seal->ssl, bio, bio);
    seal->bio = bio;
    if (seal->answers) {
        lib->SSL_set_accept_state(seal->ssl);
        return WEFT_OK;
    }
    lib->SSL_set_connect_state(seal->ssl);
    if (!seal->guard->has_certificates)
        return WEFT_OK;
    lib->SSL_set_hostflags(seal->ssl, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return lib->SSL_set1_host(seal->ssl, seal->to)
               ? WEFT_OK
               : weft_fail_quiet(WEFT_E_MEMORY, "no memory for a connection by tls");
}

static weft_status begin(weft_guard *guard, int fd, const char *to, weft_seal **seal)
{
    SSL_CTX *context = weft_guard_context(guard);
    if (!context)
        return weft_fail_quiet(WEFT_E_REFUSED, "[security] %s", weft_last_error());
    weft_seal *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for a connection by tls");
    made->guard = guard;
    made->answers = !to;
    snprintf(made->to, sizeof made->to, "%s", to ? to : "");
    weft_status status = attach(made, context, fd);
    if (status != WEFT_OK) {
        weft_seal_close(made);
        return status;
    }
    *seal = made;
    return WEFT_OK;
}

weft_status weft_seal_dial(weft_guard *guard, int fd, const char *to, weft_seal **seal)
{
    return begin(guard, fd, to, seal);
}

weft_status weft_seal_answer(weft_guard *guard, int fd, weft_seal **seal)
{
    uint8_t first;
    const ssize_t got = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return WEFT_AGAIN;
    if (got <= 0)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "%s", got < 0 ? strerror(errno) : "closed by the other end");
    if (first < RECORD_LEAST || first > RECORD_MOST)
        return weft_fail_quiet(WEFT_E_PROTOCOL, "it speaks without tls, and this end takes no one who does not prove a "
                                                "name: write [security] mode = tls there");
    return begin(guard, fd, NULL, seal);
}

void weft_seal_close(weft_seal *seal)
{
    if (!seal)
        return;
    const weft_openssl *lib = seal->guard->lib;
    if (seal->ssl && seal->proved) {
        lib->ERR_clear_error();
        lib->SSL_shutdown(seal->ssl); /* says that nothing more comes, if the socket takes it */
    }
    if (seal->certificate)
        lib->X509_free(seal->certificate);
    lib->SSL_free(seal->ssl);
    lib->ERR_clear_error();
    weft_mem_give(seal);
}

/* ---- handshake */

/* Nothing is proved by a handshake that used no key of this end's. */
static weft_status prove(weft_seal *seal)
{
    const weft_openssl *lib = seal->guard->lib;
    if (seal->guard->has_certificates) {
        seal->certificate = lib->SSL_get1_peer_certificate(seal->ssl);
        if (!seal->certificate || lib->SSL_get_verify_result(seal->ssl) != X509_V_OK)
            return weft_fail_quiet(WEFT_E_REFUSED, "it shows no certificate that is taken here");
        return WEFT_OK;
    }
    if (lib->SSL_session_reused(seal->ssl) != 1 || (seal->answers && !seal->name[0]))
        return weft_fail_quiet(WEFT_E_REFUSED, "it has not used the key that both ends have");
    weft_shared_forget(seal);
    return WEFT_OK;
}

weft_status weft_seal_step(weft_seal *seal)
{
    if (seal->proved)
        return WEFT_OK;
    const weft_openssl *lib = seal->guard->lib;
    lib->ERR_clear_error();
    errno = 0;
    seal->socket.room = TURN;
    const int result = lib->SSL_do_handshake(seal->ssl);
    if (seal->answers && lib->BIO_number_read(seal->bio) > seal->guard->site->guests.bytes)
        return weft_fail_quiet(WEFT_E_REFUSED, "it sent more than guest_bytes (%llu) before it proved a name",
                               (unsigned long long)seal->guard->site->guests.bytes);
    if (result != 1)
        return weft_reason_decide(seal, result);
    weft_status status = prove(seal);
    seal->proved = status == WEFT_OK;
    return status;
}

bool weft_seal_wants_write(const weft_seal *seal)
{
    return seal->guard->lib->SSL_want(seal->ssl) == SSL_WRITING;
}

bool weft_seal_has_more(const weft_seal *seal)
{
    return seal->proved && seal->guard->lib->SSL_pending(seal->ssl) > 0;
}

bool weft_seal_proves(const weft_seal *seal, const char *name)
{
    if (!seal->proved)
        return false;
    if (seal->certificate)
        return weft_certificate_has(seal->guard->lib, seal->certificate, name);
    return seal->answers && strcmp(seal->name, name) == 0;
}

/* ---- bytes */

void weft_seal_widen(weft_seal *seal, uint64_t turn)
{
    seal->turn = turn;
}

void weft_seal_hear(int writes, int version, int type, const void *bytes, size_t count, SSL *ssl, void *argument)
{
    weft_seal *seal = weft_openssl_here()->SSL_get_ex_data(ssl, 0);
    (void)version;
    (void)bytes;
    (void)count;
    (void)argument;
    seal->said += !writes && type == SSL3_RT_HANDSHAKE && seal->proved;
}

/* Ends a connection that keeps this end busy with tls. */
static weft_status refuse_words(weft_seal *seal)
{
    const weft_openssl *lib = seal->guard->lib;
    char name[WEFT_SITE_NAME];
    if (seal->over)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "ended here");
    seal->over = true;
    snprintf(name, sizeof name, "%s", seal->answers ? seal->name : seal->to);
    if (seal->answers && seal->certificate)
        weft_certificate_name(lib, seal->certificate, name);
    return weft_fail_quiet(WEFT_E_PROTOCOL,
                           "%s sent %llu messages of tls after its proof, and no end of weft sends more than %u", name,
                           (unsigned long long)seal->said, SAID_MOST);
}

/* A read that brings nothing ends a turn, because whoever reads then waits until the socket is readable. */
weft_status weft_seal_read(weft_seal *seal, void *data, uint64_t bytes, uint64_t *moved)
{
    const weft_openssl *lib = seal->guard->lib;
    *moved = 0;
    lib->ERR_clear_error();
    errno = 0;
    const int got = lib->SSL_read(seal->ssl, data, bytes < INT32_MAX ? (int)bytes : INT32_MAX);
    if (seal->said > SAID_MOST + (lib->BIO_number_read(seal->bio) >> SAID_EACH))
        return refuse_words(seal);
    if (got <= 0) {
        seal->socket.room = seal->turn;
        weft_status status = weft_reason_decide(seal, got);
        return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    seal->heard = true;
    *moved = (uint64_t)got;
    return WEFT_OK;
}

/* OpenSSL wants an unfinished write again with the same bytes, and more may follow them: a caller's queue does so. */
weft_status weft_seal_write(weft_seal *seal, const void *data, uint64_t bytes, uint64_t *moved)
{
    const weft_openssl *lib = seal->guard->lib;
    *moved = 0;
    lib->ERR_clear_error();
    errno = 0;
    const int sent = lib->SSL_write(seal->ssl, data, bytes < WRITE_MOST ? (int)bytes : (int)WRITE_MOST);
    if (sent <= 0) {
        weft_status status = weft_reason_decide(seal, sent);
        return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    *moved = (uint64_t)sent;
    return WEFT_OK;
}
#else
weft_status weft_seal_dial(weft_guard *guard, int fd, const char *to, weft_seal **seal)
{
    (void)guard;
    (void)fd;
    (void)to;
    (void)seal;
    return weft_fail_quiet(WEFT_E_MISSING, "this build has no tls");
}

weft_status weft_seal_answer(weft_guard *guard, int fd, weft_seal **seal)
{
    return weft_seal_dial(guard, fd, NULL, seal);
}

void weft_seal_close(weft_seal *seal)
{
    (void)seal;
}

weft_status weft_seal_step(weft_seal *seal)
{
    (void)seal;
    return weft_fail_quiet(WEFT_E_MISSING, "this build has no tls");
}

bool weft_seal_wants_write(const weft_seal *seal)
{
    return !seal;
}

bool weft_seal_has_more(const weft_seal *seal)
{
    return !seal;
}

void weft_seal_widen(weft_seal *seal, uint64_t turn)
{
    (void)seal;
    (void)turn;
}

weft_status weft_seal_read(weft_seal *seal, void *data, uint64_t bytes, uint64_t *moved)
{
    (void)data;
    (void)bytes;
    *moved = 0;
    return weft_seal_step(seal);
}

weft_status weft_seal_write(weft_seal *seal, const void *data, uint64_t bytes, uint64_t *moved)
{
    (void)data;
    (void)bytes;
    *moved = 0;
    return weft_seal_step(seal);
}

bool weft_seal_proves(const weft_seal *seal, const char *name)
{
    return !seal && !name;
}
#endif
