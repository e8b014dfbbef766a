/* openssl.h - the calls of OpenSSL 3 that tls needs, opened at run time, because a host without OpenSSL still has all
 * that needs no keys. Only files of this room include the header. */
#ifndef WEFT_CORE_OPENSSL_H
#define WEFT_CORE_OPENSSL_H

#ifndef WEFT_NO_TLS
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

/* Each call by the library that has it. A struct member and a pointer's type come from each. */
#define WEFT_OPENSSL_SSL(CALL)                                                                                         \
    CALL(OPENSSL_init_ssl)                                                                                             \
    CALL(TLS_method)                                                                                                   \
    CALL(SSL_CTX_new)                                                                                                  \
    CALL(SSL_CTX_free)                                                                                                 \
    CALL(SSL_CTX_ctrl)                                                                                                 \
    CALL(SSL_CTX_set_options)                                                                                          \
    CALL(SSL_CTX_set_session_id_context)                                                                               \
    CALL(SSL_CTX_set_num_tickets)                                                                                      \
    CALL(SSL_CTX_set_security_level)                                                                                   \
    CALL(SSL_CTX_set_verify)                                                                                           \
    CALL(SSL_CTX_set_msg_callback)                                                                                     \
    CALL(SSL_CTX_set_ciphersuites)                                                                                     \
    CALL(SSL_CTX_set_psk_find_session_callback)                                                                        \
    CALL(SSL_CTX_set_psk_use_session_callback)                                                                         \
    CALL(SSL_CTX_use_certificate_chain_file)                                                                           \
    CALL(SSL_CTX_use_PrivateKey)                                                                                       \
    CALL(SSL_CTX_get0_certificate)                                                                                     \
    CALL(SSL_CTX_load_verify_file)                                                                                     \
    CALL(SSL_CTX_set_default_passwd_cb)                                                                                \
    CALL(SSL_new)                                                                                                      \
    CALL(SSL_free)                                                                                                     \
    CALL(SSL_set_bio)                                                                                                  \
    CALL(SSL_set_accept_state)                                                                                         \
    CALL(SSL_set_connect_state)                                                                                        \
    CALL(SSL_do_handshake)                                                                                             \
    CALL(SSL_read)                                                                                                     \
    CALL(SSL_write)                                                                                                    \
    CALL(SSL_pending)                                                                                                  \
    CALL(SSL_shutdown)                                                                                                 \
    CALL(SSL_want)                                                                                                     \
    CALL(SSL_get_error)                                                                                                \
    CALL(SSL_set_ex_data)                                                                                              \
    CALL(SSL_get_ex_data)                                                                                              \
    CALL(SSL_set1_host)                                                                                                \
    CALL(SSL_set_hostflags)                                                                                            \
    CALL(SSL_get_verify_result)                                                                                        \
    CALL(SSL_get1_peer_certificate)                                                                                    \
    CALL(SSL_ctrl)                                                                                                     \
    CALL(SSL_get_session)                                                                                              \
    CALL(SSL_SESSION_new)                                                                                              \
    CALL(SSL_SESSION_free)                                                                                             \
    CALL(SSL_SESSION_set1_master_key)                                                                                  \
    CALL(SSL_SESSION_set1_id_context)                                                                                  \
    CALL(SSL_SESSION_set_cipher)                                                                                       \
    CALL(SSL_SESSION_set_protocol_version)                                                                             \
    CALL(SSL_session_reused)                                                                                           \
    CALL(SSL_CIPHER_find)

#define WEFT_OPENSSL_CRYPTO(CALL)                                                                                      \
    CALL(ERR_clear_error)                                                                                              \
    CALL(ERR_peek_error)                                                                                               \
    CALL(ERR_reason_error_string)                                                                                      \
    CALL(CRYPTO_secure_malloc_initialized)                                                                             \
    CALL(CRYPTO_secure_malloc_init)                                                                                    \
    CALL(RAND_bytes)                                                                                                   \
    CALL(RAND_priv_bytes)                                                                                              \
    CALL(BIO_get_new_index)                                                                                            \
    CALL(BIO_meth_new)                                                                                                 \
    CALL(BIO_meth_set_read)                                                                                            \
    CALL(BIO_meth_set_write)                                                                                           \
    CALL(BIO_meth_set_ctrl)                                                                                            \
    CALL(BIO_number_read)                                                                                              \
    CALL(BIO_new)                                                                                                      \
    CALL(BIO_free)                                                                                                     \
    CALL(BIO_set_data)                                                                                                 \
    CALL(BIO_get_data)                                                                                                 \
    CALL(BIO_set_init)                                                                                                 \
    CALL(BIO_set_flags)                                                                                                \
    CALL(BIO_clear_flags)                                                                                              \
    CALL(BIO_new_mem_buf)                                                                                              \
    CALL(PEM_read_bio_PrivateKey)                                                                                      \
    CALL(EVP_PKEY_free)                                                                                                \
    CALL(X509_get_ext_d2i)                                                                                             \
    CALL(OPENSSL_sk_num)                                                                                               \
    CALL(OPENSSL_sk_value)                                                                                             \
    CALL(ASN1_STRING_get0_data)                                                                                        \
    CALL(ASN1_STRING_length)                                                                                           \
    CALL(GENERAL_NAMES_free)                                                                                           \
    CALL(X509_check_host)                                                                                              \
    CALL(X509_check_private_key)                                                                                       \
    CALL(X509_free)                                                                                                    \
    CALL(X509_get0_notBefore)                                                                                          \
    CALL(X509_get0_notAfter)                                                                                           \
    CALL(X509_cmp_current_time)                                                                                        \
    CALL(X509_verify_cert_error_string)                                                                                \
    CALL(ASN1_TIME_to_tm)

/* The socket of a BIO of method `socket`. Reads count, because OpenSSL reads on inside one call for as long as records
 * come that bring nothing. */
typedef struct weft_socket {
    int fd;
    uint64_t room; /* bytes that may still be read in this turn; each read costs WEFT_SOCKET_READ more; 0: none now */
} weft_socket;

#define WEFT_SOCKET_READ                                                                                               \
    256u /* what a read costs beside its bytes, because a record of one byte takes as long as many */

#define WEFT_OPENSSL_MEMBER(name) __typeof__(&(name)) name;

typedef struct weft_openssl {
    WEFT_OPENSSL_SSL(WEFT_OPENSSL_MEMBER)
    WEFT_OPENSSL_CRYPTO(WEFT_OPENSSL_MEMBER)
    BIO_METHOD *socket; /* method of the room's own: a socket that never blocks and raises no signal */
} weft_openssl;

/* Returns the library, opened by the first call. NULL: it is absent. */
const weft_openssl *weft_openssl_here(void);
#endif

#endif
