/* inside.h - what guards and seals are made of, for files of this room. */
#ifndef WEFT_CORE_SECURITY_INSIDE_H
#define WEFT_CORE_SECURITY_INSIDE_H

#ifndef WEFT_NO_TLS
#include <sys/stat.h>

#include "security/openssl.h"
#include "security/seal.h"
#include "security/secret.h"

#define WEFT_SESSIONS "weft" /* context of sessions, which OpenSSL asks for and compares */

/* Marks of a file by which a changed file is known. */
typedef struct weft_stamp {
    struct timespec changed, written;
    uint64_t device, node, bytes;
} weft_stamp;

enum { WEFT_FILE_CA, WEFT_FILE_CERTIFICATE, WEFT_FILE_KEY, WEFT_FILES };

struct weft_guard {
    const weft_openssl *lib;
    const weft_site *site;
    char name[WEFT_SITE_NAME]; /* name that this end proves */
    bool is_trainer;
    bool has_certificates; /* else it has keys */
    SSL_CTX *context;      /* context of new connections; NULL: the files of the last one were bad */
    weft_stamp stamps[WEFT_FILES];
    weft_secret *secret;
};

struct weft_seal {
    weft_guard *guard;
    SSL *ssl;
    BIO *bio; /* of `ssl`; counts what came */
    weft_socket socket;
    uint64_t turn; /* bytes that a turn of reads may take off the socket */
    uint64_t said; /* messages of tls itself that came after the proof */
    bool over;     /* they were too many, which was reported */
    bool answers;  /* this end was dialed */
    bool proved;
    bool heard;                                  /* bytes came since */
    char to[WEFT_SITE_NAME];                     /* dialing: name that the other end must have */
    char name[WEFT_SITE_NAME];                   /* answering, keys: name of the key that the other end offers */
    char offer[WEFT_SITE_NAME + WEFT_SECRET_ID]; /* dialing, keys: "NAME:ID" */
    X509 *certificate;                           /* the other end's; NULL: none */
    char why[384];                               /* what a callback found; "": nothing */
};

/* ---- certificate.c */
/* Reads ca, certificate and key into a context, and checks them. Errors, all quiet: WEFT_E_CONFIG. */
weft_status weft_certificate_load(weft_guard *guard, SSL_CTX *context);
/* True if a certificate has this DNS name among its alternative names. */
bool weft_certificate_has(const weft_openssl *lib, X509 *certificate, const char *name);
/* Writes the first of these names, cut to fit; "?" if there is none. */
void weft_certificate_name(const weft_openssl *lib, X509 *certificate, char name[WEFT_SITE_NAME]);

/* ---- shared.c: keys as OpenSSL asks for them */
/* Installs the callbacks in a context. */
void weft_shared_install(weft_guard *guard, SSL_CTX *context);
/* Reads a peer's key, so that a bad file is known. Errors, all quiet: WEFT_E_CONFIG. */
weft_status weft_shared_check(weft_guard *guard, const weft_site_peer *peer);
/* Cuts NAME:ID, as a dialing end offers them. False: it offers anything else, which must not become part of a path. */
bool weft_shared_cut(const unsigned char *offer, size_t bytes, char name[WEFT_SITE_NAME], char id[WEFT_SECRET_ID]);
/* Overwrites the copy of the key that OpenSSL keeps with a connection. */
void weft_shared_forget(weft_seal *seal);

/* ---- seal.c */
/* Counts messages of tls, as OpenSSL calls it for each one. */
void weft_seal_hear(int writes, int version, int type, const void *bytes, size_t count, SSL *ssl, void *argument);

/* ---- guard.c */
/* The context for a new connection, made anew if files have changed. NULL: a file is bad, as the last error says. */
SSL_CTX *weft_guard_context(weft_guard *guard);

/* ---- reason.c */
/* Decides quietly why a handshake or a read failed, from OpenSSL's errors: WEFT_E_REFUSED or WEFT_E_PEER_LOST. */
weft_status weft_reason_decide(weft_seal *seal, int result);
#endif

#endif
