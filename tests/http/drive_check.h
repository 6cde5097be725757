/* A connection that is driven, and what its tests check most. For one test program each. */
#ifndef GS_TESTS_HTTP_DRIVE_CHECK_H
#define GS_TESTS_HTTP_DRIVE_CHECK_H

#include "tests/http/drive.h"
#include "tests/test.h"

#include <string.h>

#define GET(name_) "GET /" name_ " HTTP/1.1\r\nHost: a\r\n\r\n"

static struct drive drive;
static struct drive_answer answer; /* the last one */

/* The peer sends a request, whose answer has this status. */
static inline void check_status(const char *request, unsigned status)
{
    drive_say(&drive, request);
    CHECK(drive_next(&drive, false, &answer));
    CHECK_EQ(answer.status, status);
}

/* And 200, with this body. */
static inline void check_body(const char *request, const char *body)
{
    check_status(request, 200);
    if (answer.body_n != strlen(body) || memcmp(answer.body, body, answer.body_n))
        TEST_FAIL("not %s but %.*s", body, (int)answer.body_n, answer.body);
}

#endif
