/* library.c - opens OpenSSL at run time, and makes the socket that OpenSSL reads and writes. */
#include "security/library.h"

#ifndef WEFT_NO_TLS
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "security/openssl.h"

#define SSL_NAME     "libssl.so.3"
#define CRYPTO_NAME  "libcrypto.so.3"
#define PACKAGES     "Debian, Ubuntu: libssl3; Fedora: openssl-libs; SUSE: libopenssl3"
#define SECURE_BYTES (64u << 10) /* locked memory for private keys of certificates, outside of core dumps */
#define SECURE_LEAST 32u

typedef struct call {
    const char *name;
    size_t place;
} call;

static weft_openssl opened;
static char absence[256];

static void tell_absence(const char *text)
{
    snprintf(absence, sizeof absence, "install OpenSSL 3 (" PACKAGES "): %s", text);
}

static bool find_calls(void *handle, const char *library, const call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(handle, calls[i].name);
        char text[128];
        if (!found) {
            snprintf(text, sizeof text, "%s lacks %s", library, calls[i].name);
            tell_absence(text);
            return false;
        }
        memcpy((char *)&opened + calls[i].place, &found, sizeof found);
    }
    return true;
}

/* ---- the socket, whose weft_socket is the BIO's data. SSL_set_fd would write by write(2), which may raise SIGPIPE. */

static int pass(BIO *bio, ssize_t moved, int retry)
{
    opened.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        opened.BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return (int)moved;
}

static int socket_read(BIO *bio, char *data, int bytes)
{
    weft_socket *from = opened.BIO_get_data(bio);
    ssize_t got = -1;
    errno = EAGAIN;
    if (from->room > 0)
        got = recv(from->fd, data, (size_t)bytes, MSG_DONTWAIT);
    const uint64_t cost = WEFT_SOCKET_READ + (got > 0 ? (uint64_t)got : 0);
    from->room -= cost < from->room ? cost : from->room;
    return pass(bio, got, BIO_FLAGS_READ);
}

static int socket_write(BIO *bio, const char *data, int bytes)
{
    const weft_socket *to = opened.BIO_get_data(bio);
    return pass(bio, send(to->fd, data, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static bool make_socket(void)
{
    opened.socket = opened.BIO_meth_new(opened.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft socket");
    return opened.socket && opened.BIO_meth_set_read(opened.socket, socket_read) &&
           opened.BIO_meth_set_write(opened.socket, socket_write) &&
           opened.BIO_meth_set_ctrl(opened.socket, socket_control);
}

/* ---- */

/* The library stays mapped and is not cleaned up at exit, because a session's thread may still use it then. */
static bool begin(void)
{
    if (!opened.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) || !make_socket()) {
        tell_absence("it does not start");
        return false;
    }
    if (opened.CRYPTO_secure_malloc_initialized())
        return true;
    /* Generators that are there before do not move into the little memory that is meant for keys. */
    unsigned char random;
    opened.RAND_bytes(&random, 1);
    opened.RAND_priv_bytes(&random, 1);
    opened.CRYPTO_secure_malloc_init(SECURE_BYTES, SECURE_LEAST); /* without it, keys lie where all else lies */
    return true;
}

#define CALL_ROW(name) {#name, offsetof(weft_openssl, name)},

static void open_library(void)
{
    static const call ssl_calls[] = {WEFT_OPENSSL_SSL(CALL_ROW)};
    static const call crypto_calls[] = {WEFT_OPENSSL_CRYPTO(CALL_ROW)};
    void *ssl = dlopen(SSL_NAME, RTLD_NOW | RTLD_LOCAL), *crypto = dlopen(CRYPTO_NAME, RTLD_NOW | RTLD_LOCAL);
    const char *said = ssl && crypto ? NULL : dlerror();
    if (!ssl || !crypto)
        tell_absence(said ? said : SSL_NAME " cannot be opened");
    else if (find_calls(ssl, SSL_NAME, ssl_calls, sizeof ssl_calls / sizeof ssl_calls[0]) &&
             find_calls(crypto, CRYPTO_NAME, crypto_calls, sizeof crypto_calls / sizeof crypto_calls[0]))
        begin();
}

const weft_openssl *weft_openssl_here(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return absence[0] ? NULL : &opened;
}

const char *weft_library_absence(void)
{
    weft_openssl_here();
    return absence;
}
#else
const char *weft_library_absence(void)
{
    return "this build has no tls: the headers of OpenSSL 3 were missing when it was made (Debian: libssl-dev)";
}
#endif
