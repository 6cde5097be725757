/* In place of http2.c and http2_stream.c, where there is no libnghttp2: only HTTP/1 is spoken. */
#include "http_client/client.h"
#include "http_client/error.h"

#include <errno.h>

int gs_http_client_http2_start(struct gs_http_client_connection *connection)
{
    (void)connection;
    return gs_http_client_fail(-EPROTONOSUPPORT,
                               "the server speaks HTTP/2, which this library was built without: "
                               "leave \"h2\" out of the protocols of the TLS context");
}

void gs_http_client_http2_end(struct gs_http_client_connection *connection)
{
    (void)connection;
}

unsigned gs_http_client_http2_limit(const struct gs_http_client_connection *connection)
{
    (void)connection;
    return 0;
}

bool gs_http_client_http2_knows_limit(const struct gs_http_client_connection *connection)
{
    (void)connection;
    return false;
}

bool gs_http_client_http2_is_over(const struct gs_http_client_connection *connection)
{
    (void)connection;
    return true;
}

bool gs_http_client_http2_is_alive(struct gs_http_client_connection *connection)
{
    (void)connection;
    return false;
}

int gs_http_client_http2_open(struct gs_http_client_connection *connection,
                              struct gs_http_client_stream **ret_stream)
{
    (void)connection, (void)ret_stream;
    return -EPROTONOSUPPORT;
}
