/* A driven connection, and the most common checks of its tests. Include it once per test program.
 */
#ifndef GS_TESTS_HTTP_DRIVE_CHECK_H
#define GS_TESTS_HTTP_DRIVE_CHECK_H

#include "tests/http/drive.h"
#include "tests/test.h"

#define GET(name_) "GET /" name_ " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct drive drive;
static struct drive_response response; /* the last response */

/* Send a request, and check the status of its response. */
static inline void check_status(const char *request, unsigned status)
{
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, status);
}

/* Check that the status is 200, and the body. */
static inline void check_body(const char *request, const char *body)
{
    check_status(request, 200);
    if (response.body_length != strlen(body) || memcmp(response.body, body, response.body_length))
        TEST_FAIL("not %s but %.*s", body, (int)response.body_length, response.body);
}

#endif
