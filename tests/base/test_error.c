#include "tests/test.h"

#include <errno.h>
#include <gossamer/error.h>
#include <limits.h>
#include <string.h>

TEST(errors_of_the_library_have_texts_with_either_sign)
{
    CHECK_STR(gs_strerror(-GS_ENONAME), "unknown name or service");
    CHECK_STR(gs_strerror(GS_ENONAME), "unknown name or service");
    CHECK_STR(gs_strerror(-GS_ENAMESERVER), "the name server does not answer");
    CHECK_STR(gs_strerror(GS_ENAMESERVER), "the name server does not answer");
}

TEST(other_errors_have_the_texts_of_strerror)
{
    CHECK_STR(gs_strerror(-ETIMEDOUT), strerror(ETIMEDOUT));
    CHECK_STR(gs_strerror(ETIMEDOUT), strerror(ETIMEDOUT));
    CHECK_STR(gs_strerror(0), strerror(0));
    CHECK(gs_strerror(INT_MIN)[0]);
    CHECK(gs_strerror(-100000)[0]);
}
