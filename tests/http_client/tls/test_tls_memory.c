/* A client of https to which memory is refused. Each allocation in the process is made to fail
 * once, the server's, too: the call must fail, and leave a client that works. */
#include "tests/http_server/serving.h"
#include "tests/http_server/survive.h"
#include "tests/tls/certificates.h"

#include <gossamer/http_client.h>
#include <gossamer/tls_context.h>
#include <stdlib.h>

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return may_allocate(strlen(text) + 1) ? __real_strdup(text) : NULL;
}

static struct gs_tls_context *server_context, *client_context;

static void answer(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    (void)!gs_http_respond(exchange, 200, NULL, "hello", 5);
}

/* Two requests on one connection. Returns 0 or the error. */
static int go(void)
{
    const struct gs_http_client_options options = {.tls = client_context};
    struct gs_http_client *client = NULL;
    char url[100];
    snprintf(url, sizeof url, "https://localhost:%u/", ntohs(server_address.sin_port));
    ssize_t err = gs_http_client_new(&options, &client);
    for (int i = 0; i < 2 && err >= 0; i++) {
        struct gs_http_response *response = NULL;
        char *body = NULL;
        err = gs_http_get(client, url, after(PATIENCE_NS), &response);
        if (!err)
            err = gs_http_response_read_all(response, 100, after(PATIENCE_NS), &body);
        free(body);
        gs_http_response_free(response);
    }
    MUST(err != -ETIMEDOUT);
    gs_http_client_free(client);
    return err < 0 ? (int)err : 0;
}

THREAD(be_in_need)
{
    start_server();
    (void)must_survive(go, 10);
    stop_server();
}

TEST(client_of_https_survives_each_allocation_that_fails)
{
    struct certificate_files files;
    certificate_make("localhost", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options for_server = {.certificates = &certificate, .certificate_count = 1};
    const struct gs_tls_options for_client = {.is_client = true, .ca_file = files.chain};
    CHECK_EQ(gs_tls_context_new(&for_server, &server_context, NULL), 0);
    CHECK_EQ(gs_tls_context_new(&for_client, &client_context, NULL), 0);
    server = (struct gs_http_server){.handler = answer, .tls = server_context};
    run_with(1, be_in_need);
    gs_tls_context_release(server_context);
    gs_tls_context_release(client_context);
}
