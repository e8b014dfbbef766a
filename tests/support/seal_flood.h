/* seal_flood.h - what a hostile end of tls sends after its proof. Calls of OpenSSL that weft has no use for. */
#ifndef WEFT_TESTS_SEAL_FLOOD_H
#define WEFT_TESTS_SEAL_FLOOD_H

#if __has_include(<openssl/opensslv.h>)
#include <openssl/opensslv.h>
#endif

#if defined(OPENSSL_VERSION_MAJOR) && OPENSSL_VERSION_MAJOR >= 3
#include <dlfcn.h>
#include <string.h>

#include "security/inside.h"

#define FLOOD_CALL(name, variable)                                                                                     \
    __typeof__(&(name)) variable;                                                                                      \
    do {                                                                                                               \
        void *found = dlsym(dlopen("libssl.so.3", RTLD_NOW), #name);                                                   \
        memcpy(&(variable), &found, sizeof found);                                                                     \
    } while (0)

/* Sends `count` messages of tls, as far as the socket takes them: KeyUpdates, or tickets, which only the end that was
 * dialed may send. Returns how many went. */
static inline uint32_t flood_words(weft_seal *seal, bool tickets, uint32_t count)
{
    const weft_openssl *lib = seal->guard->lib;
    uint32_t went = 0;
    FLOOD_CALL(SSL_key_update, update);
    FLOOD_CALL(SSL_new_session_ticket, ticket);
    /* the first call ends what the socket did not take before */
    for (int result = lib->SSL_do_handshake(seal->ssl); went < count && result == 1; went += result == 1) {
        result = tickets ? ticket(seal->ssl) : update(seal->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
        if (result == 1)
            result = lib->SSL_do_handshake(seal->ssl);
    }
    return went;
}

/* From now on records are filled up to 16 KiB, whatever little they carry. */
static inline void flood_pad(weft_seal *seal)
{
    FLOOD_CALL(SSL_set_block_padding, pad);
    pad(seal->ssl, 16u << 10);
}

/* The bytes that came by the connection. */
static inline uint64_t flood_came(const weft_seal *seal)
{
    return seal->guard->lib->BIO_number_read(seal->bio);
}

#else /* there is no tls, and who floods is not run */
#include "security/seal.h"

static inline uint32_t flood_words(const weft_seal *seal, bool tickets, uint32_t count)
{
    (void)seal;
    (void)tickets;
    (void)count;
    return 0;
}

static inline void flood_pad(const weft_seal *seal)
{
    (void)seal;
}

static inline uint64_t flood_came(const weft_seal *seal)
{
    (void)seal;
    return 0;
}
#endif

#endif
