/* Each newer system call may be refused, and all may. */
#include "tests/load/refused.h"

TEST(http1_goes_on_without_newer_calls)
{
    refused_check_each(serve_hello, NULL);
}
