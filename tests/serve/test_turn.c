/* Which connections must wait for another turn of their kernel thread. The tests count how often
 * it looks for events. */
#include "serve/connection/turn.h"

#include "http/http2.h"
#include "tests/test.h"

static uint64_t look;

static bool must_wait(const struct serve_connection *connection)
{
    return serve_turn_must_wait(connection, look, GS_NEVER);
}

static struct serve_connection session(void)
{
    return (struct serve_connection){.has_answered = true, .http.flags = GS_HTTP_CONN_HTTP2};
}

TEST(sessions_wait_when_others_have_received_so_many_bytes)
{
    const struct serve_connection one = session();
    look++;
    CHECK(!must_wait(&one));
    serve_turn_took_http2(SERVE_TURN_HTTP2_BYTES - 1, 0);
    CHECK(!must_wait(&one));
    serve_turn_took_http2(1, 0);
    CHECK(must_wait(&one));
    look++;
    CHECK(!must_wait(&one));
}

TEST(streams_that_are_freed_count_too)
{
    const struct serve_connection one = session();
    look++;
    CHECK(!must_wait(&one));
    serve_turn_took_http2(0, SERVE_TURN_HTTP2_BYTES);
    CHECK(must_wait(&one));
}

TEST(a_connection_of_http_1_waits_only_for_its_first_request)
{
    struct serve_connection one = {.fd = -1};
    look++;
    CHECK(!must_wait(&one));
    serve_turn_took_http2(SERVE_TURN_HTTP2_BYTES, 0);
    CHECK(must_wait(&one));
    one.has_answered = true;
    CHECK(!must_wait(&one));
}
