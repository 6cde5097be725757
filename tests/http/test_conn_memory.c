/* Each allocation of a session fails once: the response is 503 or the connection closes, nothing
 * leaks, and the next connection is served. */
#include "tests/http/allocations.h"
#include "tests/http/drive.h"
#include "tests/test.h"

static struct drive drive;
static struct drive_response response;

static const char *const session[] = {
    "GET /small HTTP/1.1\r\nHost: a\r\nUser-Agent: u\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /sub/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /sub HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /small HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 3\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "PUT /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,3-4\r\n\r\n",
    "\x01\r\n",
};

/* Send each request on a separate connection, then a valid request. Returns the number of requests
 * whose status differs from the one without failures. */
static unsigned run_session(size_t split)
{
    static const unsigned statuses[] = {200, 200, 200, 301, 404, 417, 200, 405, 206, 400};
    unsigned lost = 0;
    for (size_t i = 0; i < sizeof session / sizeof *session; i++) {
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive.input_chunk = split;
        drive.now_ns += GS_SECOND;
        drive_send(&drive, session[i]);
        bool responded = drive_next_response(&drive, false, &response);
        if (responded && response.status == statuses[i])
            continue;
        lost++;
        if (responded)
            CHECK_EQ(response.status, 503);
        else
            CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    }
    return lost;
}

static void start(void)
{
    static char large[100000];
    drive_start(&drive, NULL);
    drive_write(&drive, "small", "small");
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive_mkdir(&drive, "sub");
    drive_write(&drive, "sub/index.html", "index");
}

/* Run a session in which `count` allocations fail, starting with number `from`. Returns the number
 * of allocations of the session. */
static unsigned long run_failing(unsigned long from, unsigned long count, size_t split)
{
    long before = live;
    start();
    allocations = 0;
    fails_from = from;
    fails_to = from + count;
    unsigned lost = run_session(split);
    unsigned long made = allocations;
    fails_from = UINT64_MAX;
    CHECK(lost <= count);
    CHECK_EQ(run_session(split), 0);
    drive_reopen(&drive);
    CHECK_EQ(drive.logged_count + drive.lost_entries, drive.counts.requests);
    CHECK_EQ(drive_stop(&drive), 0);
    CHECK_EQ(live, before);
    return made;
}

TEST(any_single_allocation_may_fail)
{
    for (size_t split = 0; split < 3; split++) {
        unsigned long made = run_failing(UINT64_MAX - 1000, 0, split);
        CHECK(made > 20);
        for (unsigned long n = 1; n <= made; n++)
            run_failing(n, 1, split);
    }
}

TEST(allocations_may_fail_repeatedly)
{
    unsigned long made = run_failing(UINT64_MAX - 1000, 0, 0);
    for (unsigned long n = 1; n <= made; n++) {
        run_failing(n, 2, 0);
        run_failing(n, 7, 1);
    }
}

TEST(service_is_not_created_if_memory_is_exhausted)
{
    struct gs_http_options options;
    struct gs_http_service *service = NULL;
    struct gs_http_counts counts = {0};
    long before = live;
    gs_http_options_default(&options);
    for (unsigned long n = 1; n <= 2; n++) {
        allocations = 0;
        fails_from = n;
        fails_to = n + 1;
        int err = gs_http_service_new(&options, -1, &counts, &service);
        fails_from = UINT64_MAX;
        CHECK(err < 0 && !service);
        CHECK_EQ(live, before);
    }
}
