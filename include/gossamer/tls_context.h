/* TLS contexts: certificates and rules, shared by connections.
 *
 *     const struct gs_tls_certificate certificate = {.chain = "site.pem", .key = "site.key"};
 *     const struct gs_tls_options options = {.certificates = &certificate, .certificate_count = 1};
 *     struct gs_tls_context *context;
 *     char text[GS_TLS_TEXT];
 *     err = gs_tls_context_new(&options, &context, text);
 *     if (err)
 *         fprintf(stderr, "%s\n", text);
 *
 * TLS 1.2 and 1.3 are spoken, by OpenSSL, with the groups and ciphers of Mozilla's recommendation
 * "intermediate", or "modern" by an option. Renegotiation, compression and early data are refused.
 * This header and gossamer/tls*.h belong to the library gossamer-tls.
 *
 * OpenSSL makes the handshake. With its versions 3.0, 3.5 and 3.6, records of TLS 1.3 are handled
 * here afterwards, with OpenSSL's ciphers, which takes a fifth of the memory. If the environment
 * variable GOSSAMER_TLS_RECORDS is "openssl" when a context is made, all is left to OpenSSL.
 *
 * Threads: a context does not change after its creation, and any kernel threads may use it at the
 * same time. It is counted: each connection holds a reference.
 */
#ifndef GOSSAMER_TLS_CONTEXT_H
#define GOSSAMER_TLS_CONTEXT_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stdint.h>

GS_BEGIN_DECLS

struct gs_tls_context;

/* A certificate of this side, and its key. The names that it is for are those within it. */
struct gs_tls_certificate {
    const char *chain; /* a file: PEM, the certificate first, then those of its issuers */
    const char *key;   /* a file: PEM; NULL: it is in the file of the certificate */
    const char
        *passphrase_file;  /* of an encrypted key: its first line; NULL: it is not encrypted */
    const char *ocsp_file; /* a response of OCSP, DER, that is stapled; NULL: none */
};

/* Whether the peer must show a certificate that the CAs have signed. */
enum gs_tls_verify {
    GS_TLS_VERIFY_USUAL,    /* a client requires it, for the server's name; a server does not ask */
    GS_TLS_VERIFY_NONE,     /* not asked for, or not looked at */
    GS_TLS_VERIFY_OPTIONAL, /* a server asks for it, and checks it if there is one */
    GS_TLS_VERIFY_REQUIRED,
};

/* All of it is copied. */
struct gs_tls_options {
    bool is_client;
    /* A server chooses by the name that the client asks for, and takes the first if none fits. A
     * client has one at most, for servers that ask. */
    const struct gs_tls_certificate *certificates;
    unsigned certificate_count;
    const char *ca_file; /* whom to trust: PEM; NULL: the system's CAs */
    enum gs_tls_verify verify;
    const char *const *protocols; /* ALPN, the best first, for instance "h2" and "http/1.1" */
    unsigned protocol_count;      /* 0: ALPN is not used */
    bool is_modern;               /* TLS 1.3 only */
    const char *key_log;          /* a file for keys, as browsers' SSLKEYLOGFILE; NULL: none */
    bool forgets_sessions;        /* a client resumes none: each handshake is a full one */
};

/* For the description of an error: one line, with its end. */
#define GS_TLS_TEXT 320

/* Read the files and make a context; this takes a millisecond, and may wait for a disk. ret_text:
 * what is wrong, and in which file, after an error; NULL: not wanted.
 * Returns 0; -ENOMEM; -EINVAL (a file is not what it should be, a key does not belong to its
 * certificate, a server has no certificate, or a protocol is empty or longer than 255 bytes); or
 * the error of reading a file. */
GS_API GS_MUST_CHECK int gs_tls_context_new(const struct gs_tls_options *options,
                                            struct gs_tls_context **ret_context,
                                            char ret_text[GS_TLS_TEXT]);

/* Take and release a reference; gs_tls_context_new gives the first. The last release frees it; NULL
 * is accepted. */
GS_API void gs_tls_context_hold(struct gs_tls_context *context);
GS_API void gs_tls_context_release(struct gs_tls_context *context);

/* Returns when the certificate that expires first does, in seconds of the wall clock; INT64_MAX:
 * there is none. */
GS_API int64_t gs_tls_context_expiry(const struct gs_tls_context *context);

/* Returns the same of the responses of OCSP; one that has expired is not stapled. INT64_MAX: there
 * is none, or it does not say. */
GS_API int64_t gs_tls_context_ocsp_expiry(const struct gs_tls_context *context);

GS_END_DECLS

#endif
