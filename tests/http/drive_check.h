/* What a test of a connection checks most. */
#ifndef GS_TESTS_HTTP_DRIVE_CHECK_H
#define GS_TESTS_HTTP_DRIVE_CHECK_H

#include "tests/http/drive.h"
#include "tests/test.h"

#include <string.h>

/* The peer sends a request, whose answer has this status. */
static inline void drive_check_status(struct drive *drive, const char *request, unsigned status,
                                      struct drive_answer *ret_answer)
{
    drive_say(drive, request);
    CHECK(drive_next(drive, false, ret_answer));
    CHECK_EQ(ret_answer->status, status);
}

/* And 200, with this body. */
static inline void drive_check_body(struct drive *drive, const char *request, const char *body,
                                    struct drive_answer *ret_answer)
{
    drive_check_status(drive, request, 200, ret_answer);
    if (ret_answer->body_n != strlen(body) || memcmp(ret_answer->body, body, ret_answer->body_n))
        TEST_FAIL("not %s but %.*s", body, (int)ret_answer->body_n, ret_answer->body);
}

#endif
