/* A connection to a folder with a page and a large one: what it wants, and what it answers. */
#ifndef GS_TESTS_HTTP_CONN_FIXTURE_H
#define GS_TESTS_HTTP_CONN_FIXTURE_H

#include "tests/http/drive.h"
#include "tests/test.h"

#define GET "GET /f HTTP/1.1\r\nHost: a\r\n\r\n"
#define NONE "GET /none HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"

static struct drive drive;
static struct drive_response response;
static char large[1 << 20];

static void start(void)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "f", "hello");
    drive_write_bytes(&drive, "large", large, sizeof large);
}

static void check_wants(unsigned wants)
{
    CHECK_EQ(gs_http_conn_wants(&drive.conn), wants);
}

static void check_deadline(uint64_t after_ns)
{
    uint64_t deadline_ns = gs_http_conn_deadline(&drive.conn);
    if (after_ns == GS_NEVER)
        CHECK(deadline_ns == GS_NEVER);
    else
        CHECK_EQ(deadline_ns - drive.now_ns, after_ns);
}

static void check_response(unsigned status, bool keep_alive)
{
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, status);
    CHECK_EQ(response.keep_alive, keep_alive);
}

#endif
