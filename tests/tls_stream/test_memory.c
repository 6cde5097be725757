/* A server with TLS and its client, to which each allocation of the library is refused once: both
 * answer or fail, and the next connection works. */
#include "tests/http_server/serving.h"
#include "tests/http_server/survive.h"
#include "tests/tls_stream/contexts.h"

#include <gossamer/tls.h>
#include <stdlib.h>

#define LENGTH 30000

static void answer(struct gs_http_exchange *exchange, void *unused)
{
    static char bytes[LENGTH];
    (void)unused;
    if (gs_http_read_all(exchange, bytes, sizeof bytes) == 5)
        (void)!gs_http_respond(exchange, 200, NULL, bytes, sizeof bytes);
}

/* Receive in small parts, so that the rest is kept. Returns whether all has arrived. */
static bool ask_in_parts(struct gs_tls *tls)
{
    static const char head[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n",
                      end[] = "Connection: close\r\n\r\n12345";
    char bytes[500];
    size_t all = 0;
    ssize_t n = gs_tls_send_all(tls, head, sizeof head - 1, after(PATIENCE_NS));
    if (n > 0)
        n = gs_tls_send_all(tls, end, sizeof end - 1, after(PATIENCE_NS));
    while (n > 0 && (n = gs_tls_recv(tls, bytes, sizeof bytes, after(PATIENCE_NS))) > 0)
        all += (size_t)n;
    MUST(n != -ETIMEDOUT);
    return !n && all > LENGTH;
}

static bool ask_tls(void)
{
    struct gs_tls *tls = NULL;
    char text[GS_TLS_TEXT];
    int fd = connect_client();
    int err = gs_tls_connect(client_context, fd, "server.test", after(PATIENCE_NS), &tls, text);
    if (err) {
        MUST(err != -ETIMEDOUT);
        gs_close(fd);
        return false;
    }
    bool is_complete = ask_in_parts(tls);
    gs_tls_close(tls, after(PATIENCE_NS));
    return is_complete;
}

static int attempt(void)
{
    return !ask_tls();
}

THREAD(be_in_need)
{
    start_server();
    MUST(must_survive(attempt, 1) > 20);
    stop_server();
}

TEST(both_sides_survive_each_allocation_that_fails)
{
    make_contexts();
    server = (struct gs_http_server){.handler = answer, .tls = server_context};
    run_with(1, be_in_need);
    release_contexts();
}
