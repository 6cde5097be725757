/* The server's certificates: read before privileges are dropped, and again when their files change.
 *
 * A context of TLS never changes. When the files do, another takes its place for new connections,
 * and the old one ends with the last of its own. Files that can't be used leave the old context in
 * place, but a response of OCSP that can't be used is left out. In processes of fork and prefork
 * each makes its own, once the first has. */
#ifndef GS_SERVE_CERTIFICATES_H
#define GS_SERVE_CERTIFICATES_H

#include "serve/operations/options.h"

#include <gossamer/tls_engine.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { SERVE_TLS_FAILURES = GS_TLS_FAILED_MEMORY + 1 };

/* In memory that the server's processes share; initially zero. */
struct serve_tls_counts {
    _Atomic(uint64_t) handshakes_1_2, handshakes_1_3; /* complete, by version of TLS */
    _Atomic(uint64_t) resumed;                        /* of these */
    /* Connections, by enum gs_tls_failure; 0: their handshakes were not completed. */
    _Atomic(uint64_t) failed[SERVE_TLS_FAILURES];
    _Atomic(int64_t) expiry; /* of the first certificate that expires */
    _Atomic(uint64_t) failed_loads;
    atomic_uint generation; /* how often the first process has loaded the files */
};

/* The states of a certificate's files. */
struct serve_certificate_files {
    struct stat chain, key, ocsp;
};

/* The members are private, except counts. */
struct serve_certificates {
    struct serve_tls_counts *counts; /* NULL: there is no TLS */
    struct gs_tls_certificate *items;
    unsigned count;
    const char *const *ocsp_files; /* of each; NULL: none */
    int64_t ocsp_expiry;           /* of the response in use that ends first */
    bool is_modern;
    pthread_mutex_t lock;
    struct gs_tls_context *context; /* locked */
    struct serve_certificate_files *loaded, *seen;
    unsigned generation;
};

/* Returns 0, or -errno after one line on stderr. serve_certificates_close must be called in any
 * case; it accepts one that is all zero. */
GS_MUST_CHECK int serve_certificates_open(struct serve_certificates *certificates,
                                          const struct serve_options *options,
                                          struct serve_tls_counts *counts);
void serve_certificates_close(struct serve_certificates *certificates);

/* Returns the present context, with a reference for the caller. Any kernel thread. */
struct gs_tls_context *serve_certificates_get(struct serve_certificates *certificates);

/* Count a connection whose handshake is complete, or which has failed, or has ended before. Any
 * kernel thread. */
void serve_certificates_count(struct serve_certificates *certificates,
                              const struct gs_tls_info *info);

/* Called once a second by one thread of the first process: load the files if they have changed, and
 * have not since the last call, or must not wait for that. What is wrong with them is reported
 * once. */
#define SERVE_CERTIFICATES_LOOK_NS GS_SECOND
void serve_certificates_look(struct serve_certificates *certificates, bool at_once);

/* In another process, which has one thread: load them if the first process has. */
void serve_certificates_follow(struct serve_certificates *certificates);

#endif
