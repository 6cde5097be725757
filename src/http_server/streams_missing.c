/* In place of streams.c and stream_calls.c, where there is no libnghttp2: only HTTP/1 is spoken. */
#include "http_server/streams.h"

bool gs_http_streams_detect(struct gs_http_connection *connection)
{
    (void)connection;
    return false;
}

void gs_http_streams_resume(struct gs_http_connection *connection)
{
    (void)connection;
}

void gs_http_streams_deliver(struct gs_http_worker *worker)
{
    (void)worker;
}

void gs_http_streams_wake(struct gs_http_worker *worker)
{
    (void)worker;
}
