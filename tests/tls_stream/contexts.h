/* Contexts for both sides. */
#ifndef GS_TESTS_TLS_STREAM_CONTEXTS_H
#define GS_TESTS_TLS_STREAM_CONTEXTS_H

#include "tests/test.h"
#include "tests/tls/certificates.h"

#include <gossamer/tls_context.h>

static struct gs_tls_context *server_context, *client_context;

/* The client trusts the server's certificate, which is for server.test. */
static inline void make_contexts(void)
{
    struct certificate_files files;
    certificate_make("server.test", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options for_server = {.certificates = &certificate, .certificate_count = 1};
    const struct gs_tls_options for_client = {.is_client = true, .ca_file = files.chain};
    CHECK_EQ(gs_tls_context_new(&for_server, &server_context, NULL), 0);
    CHECK_EQ(gs_tls_context_new(&for_client, &client_context, NULL), 0);
}

static inline void release_contexts(void)
{
    gs_tls_context_release(server_context);
    gs_tls_context_release(client_context);
}

#endif
