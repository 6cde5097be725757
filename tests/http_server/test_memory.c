/* A server to which memory is refused. Each allocation of the library is made to fail, for every
 * number of it; the server must answer or close, and serve the next client. */
#include "tests/http_server/serving.h"
#include "tests/http_server/survive.h"

static void answer(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[100];
    (void)unused;
    ssize_t n = gs_http_read_all(exchange, bytes, sizeof bytes);
    if (n >= 0 && !gs_http_set_field(exchange, "X", "y"))
        (void)!gs_http_respond(exchange, 200, "text/plain", bytes, (size_t)n);
}

static const char request[] = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "3\r\nabc\r\n0\r\n\r\n"
                              "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
                              "Connection: close\r\n\r\nabc";

/* Send the requests with buffers of this thread's only; the connection may end at any time. */
static const char *ask_in_need(void)
{
    static struct heard heard;
    int fd = connect_client();
    heard.n = 0;
    (void)!gs_send(fd, request, sizeof request - 1, 0, GS_NEVER);
    (void)!hear(fd, &heard, NULL);
    gs_close(fd);
    return heard.bytes;
}

static int attempt(void)
{
    const char *heard = ask_in_need();
    MUST(!heard[0] || begins_with(heard, "HTTP/1.1 200 ") || begins_with(heard, "HTTP/1.1 50"));
    return count_of(heard, "HTTP/1.1 200 OK\r\nDate: ") != 2 || count_of(heard, "\r\n\r\nabc") != 2;
}

THREAD(be_in_need)
{
    start_server();
    (void)must_survive(attempt, 5); /* session, input, head, fields of a response, ... */
    stop_server();
}

TEST(server_survives_each_allocation_that_fails)
{
    server = (struct gs_http_server){.handler = answer};
    run_with(1, be_in_need);
}
