#include "serve/connection/proxy.h"

#include "serve/connection/proxy_header.h"
#include "serve/connection/tls.h"
#include "serve/log/error_log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_NS (10 * GS_SECOND)

/* What was received of a header. */
struct serve_proxy {
    size_t n;
    char bytes[];
};

void serve_proxy_done(struct serve_connection *connection)
{
    free(connection->proxy);
    connection->proxy = NULL;
}

static void refuse(struct serve_connection *connection, uint64_t now_ns)
{
    static _Atomic(uint64_t) due_ns;
    uint64_t due = atomic_load(&due_ns);
    if (now_ns >= due && atomic_compare_exchange_strong(&due_ns, &due, now_ns + REPORT_NS))
        serve_warn("a proxy has opened a connection without a header of the PROXY protocol");
    gs_http_conn_abort(&connection->http);
}

/* Returns false if there is no memory. */
static bool keep(struct serve_connection *connection, const char *bytes, size_t n)
{
    size_t before = connection->proxy ? connection->proxy->n : 0;
    struct serve_proxy *proxy = realloc(connection->proxy, sizeof *proxy + before + n);
    if (!proxy)
        return false;
    memcpy(proxy->bytes + before, bytes, n);
    proxy->n = before + n;
    connection->proxy = proxy;
    return true;
}

/* The rest of what was received, behind the header. */
static void go_on(struct serve_connection *connection, const char *bytes, size_t n,
                  const struct serve_host *client, uint64_t now_ns)
{
    struct serve_proxy *proxy = connection->proxy;
    connection->awaits_proxy = false;
    serve_connection_set_client(connection, client);
    if (n)
        serve_connection_received(connection, bytes, (ssize_t)n, now_ns);
    free(proxy);
}

void serve_proxy_received(struct serve_connection *connection, const char *bytes, ssize_t n,
                          uint64_t now_ns)
{
    struct serve_host client;
    size_t length = n > 0 ? (size_t)n : 0;
    if (!length) {
        gs_http_conn_abort(&connection->http);
        return;
    }
    if (connection->proxy) {
        if (!keep(connection, bytes, length)) {
            gs_http_conn_abort(&connection->http);
            return;
        }
        bytes = connection->proxy->bytes;
        length = connection->proxy->n;
    }
    ssize_t header = serve_proxy_header_parse(bytes, length, &client);
    if (header > 0)
        go_on(connection, bytes + header, length - (size_t)header, &client, now_ns);
    else if (header < 0)
        refuse(connection, now_ns);
    else if (!connection->proxy && !keep(connection, bytes, length))
        gs_http_conn_abort(&connection->http);
}
