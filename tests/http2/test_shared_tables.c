/* Sessions of one service, which have their tables at the same addresses (src/http2/memory.c), run
 * in a random order: they start, fill their tables, wait, and end, while some allocations fail.
 * What each of them answers must be its own. */
#include "tests/http2/client.h"

#include "http/service.h"
#include "http2/session.h"
#include "tests/http/allocations.h"
#include "tests/test.h"

#include <stdlib.h>

#define SESSIONS 5
#define STREAMS 90
#define STEPS 4000

/* Of a new queue of streams with data (test_memory.c). */
#define QUEUE_N 32

static struct client clients[SESSIONS];
static struct gs_http_service *own[SESSIONS];
static uint64_t seed;

static unsigned roll(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static void open_session(struct client *one)
{
    static const nghttp2_settings_entry closed[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}};
    client_reopen(one, closed, roll(2));
    client_exchange(one);
}

static void start_all(void)
{
    for (size_t i = 0; i < SESSIONS; i++) {
        client_start(&clients[i], NULL);
        own[i] = clients[i].drive.service;
        clients[i].drive.service = clients[0].drive.service;
        open_session(&clients[i]);
    }
    drive_write(&clients[0].drive, "f", "hello");
}

static void stop_all(void)
{
    for (size_t i = SESSIONS; i-- > 0;) {
        clients[i].drive.service = own[i];
        CHECK_EQ(client_stop(&clients[i]), 0);
    }
    CHECK_EQ(live, 0);
}

/* What was received is right, even if it is not all that was asked for. */
static void check_answers(const struct client *one)
{
    for (int32_t id = 1; id < CLIENT_STREAMS; id += 2) {
        const struct client_stream *stream = &one->streams[id];
        unsigned status = stream->status;
        CHECK(!status || status == 200 || status == 503);
        if (status == 200 && stream->body_n)
            CHECK_STR(stream->body, "hello");
    }
}

/* One request or many, with fields for the tables of fields. */
static void ask(struct client *one)
{
    for (unsigned count = roll(4) ? 1 : STREAMS; count > 0; count--) {
        char name[16], value[16];
        snprintf(name, sizeof name, "x-%u", roll(200));
        snprintf(value, sizeof value, "%u", roll(200));
        client_get(one, "GET", "/f", name, value);
    }
}

static bool is_used_up(struct client *one)
{
    uint32_t next = nghttp2_session_get_next_stream_id(one->session);
    return client_is_over(one) || next > CLIENT_STREAMS - 2 * STREAMS;
}

static void step(void)
{
    struct client *one = &clients[roll(SESSIONS)];
    if (is_used_up(one) || !roll(20)) {
        open_session(one);
        return;
    }
    switch (roll(4)) {
    case 0:
    case 1:
        ask(one);
        break;
    case 2: /* those that wait for a window go on */
        for (int32_t id = 1; id < CLIENT_STREAMS; id += 2)
            if (one->streams[id].status && !one->streams[id].is_closed)
                (void)nghttp2_submit_window_update(one->session, 0, id, 100);
        break;
    default:
        (void)nghttp2_submit_ping(one->session, 0, NULL);
    }
    client_exchange(one);
    one->drive.now_ns += GS_SECOND / 10;
    check_answers(one);
}

/* The owner is a session that is alive, and only it has no contents of its own. */
static void check_desk(void)
{
    uint64_t packed = 0, alive = 0;
    for (size_t i = 0; i < SESSIONS; i++) {
        const struct gs_http_conn *conn = &clients[i].drive.conn;
        const struct gs_http2_session *session = (const void *)conn->http2;
        if (!(conn->flags & GS_HTTP_CONN_HTTP2) || !session || !session->parts)
            continue;
        alive++;
        packed += session->packed != NULL;
        CHECK(!session->packed || !session->reserve);
    }
    CHECK(packed <= alive);
}

static void run(bool fails_sometimes)
{
    start_all();
    for (unsigned i = 0; i < STEPS; i++) {
        if (fails_sometimes && !roll(3)) {
            allocations = 0;
            fails_from = 1 + roll(40);
            fails_to = fails_from + 1 + roll(3);
        }
        step();
        fails_from = fails_to = UINT64_MAX;
        check_desk();
    }
    stop_all();
}

TEST(sessions_in_a_random_order_keep_their_tables_apart)
{
    seed = 1;
    run(false);
}

TEST(allocations_that_fail_meanwhile_harm_no_other_session)
{
    seed = 2;
    exempt_n = QUEUE_N;
    run(true);
}
