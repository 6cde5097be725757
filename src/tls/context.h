/* Internals of contexts. */
#ifndef GS_TLS_CONTEXT_H
#define GS_TLS_CONTEXT_H

#include "tls/operations.h"

#include <gossamer/tls_context.h>
#include <gossamer/tls_engine.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* A certificate with what belongs to it. */
struct gs_tls_identity {
    X509 *certificate;
    STACK_OF(X509) * chain; /* of its issuers */
    EVP_PKEY *key;
    unsigned char *ocsp; /* DER; NULL: none */
    long ocsp_n;
    int64_t ocsp_expiry; /* seconds of the wall clock */
};

/* A DNS name of a certificate, in lower case; may begin with "*." */
struct gs_tls_name {
    char *text;
    unsigned identity;
};

/* A client's, the newest last. */
struct gs_tls_sessions {
    pthread_mutex_t lock;
    unsigned count;
    struct gs_tls_kept_session {
        char *server_name;
        struct gs_tls_session *session;
    } kept[GS_TLS_MAX_SESSIONS];
};

struct gs_tls_context {
    const struct gs_tls_operations *operations; /* first: operations.h */
    SSL_CTX *ssl;
    bool is_client;
    bool verifies;   /* a client: the server's certificate and name */
    bool takes_over; /* records of TLS 1.3 (records.h) */
    int64_t expiry;
    struct gs_tls_identity *identities;
    unsigned identity_count;
    struct gs_tls_name *names; /* sorted by text, and then by identity */
    size_t name_count;
    unsigned char *protocols; /* in the form of ALPN: each with its length before it */
    char *protocol_names;     /* the same with NUL for the lengths, and one more */
    unsigned protocols_n;
    int key_log; /* -1: none */
    bool forgets_sessions;
    struct gs_tls_sessions sessions;
    atomic_uint references;
};

/* ---- engine.c ---- */

extern const struct gs_tls_operations gs_tls_operations;

/* ---- identity.c ---- */

/* Read the files of a certificate. Returns 0, -ENOMEM, -EINVAL, or the error of reading a file;
 * gs_tls_identity_done is due in any case. */
int gs_tls_identity_init(struct gs_tls_identity *identity, const struct gs_tls_certificate *files,
                         char *ret_text);
void gs_tls_identity_done(struct gs_tls_identity *identity);
int64_t gs_tls_identity_expiry(const struct gs_tls_identity *identity);
int64_t gs_tls_seconds_of(const ASN1_TIME *time);

/* ---- choose.c ---- */

/* List the names of all certificates, and have the server choose among these. Returns 0 or
 * -ENOMEM. */
int gs_tls_choose_init(struct gs_tls_context *context);
void gs_tls_choose_done(struct gs_tls_context *context);

/* ---- verify.c ---- */

/* Set whom to trust, and which sessions are taken for those of this context. Returns 0, -ENOMEM,
 * -EINVAL, or the error of reading the file of CAs. */
int gs_tls_verify_init(struct gs_tls_context *context, const struct gs_tls_options *options,
                       char *ret_text);

/* ---- sessions.c ---- */

void gs_tls_sessions_done(struct gs_tls_sessions *sessions);

/* Members of struct gs_tls_operations. */
struct gs_tls_session *gs_tls_session_offer(struct gs_tls_engine *engine, const char *server);
bool gs_tls_session_leave(struct gs_tls_engine *engine, const char *server,
                          const struct gs_tls_session *offered);

/* ---- ticket.c ---- */

/* The function by which OpenSSL encrypts and decrypts tickets. */
int gs_tls_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                      EVP_MAC_CTX *mac, int encrypts);

#endif
