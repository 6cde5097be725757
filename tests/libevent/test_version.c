#include "tests/test.h"

#include <event2/event.h>

TEST(the_version_is_that_of_the_headers)
{
    CHECK_STR(event_get_version(), LIBEVENT_VERSION);
    CHECK_EQ(event_get_version_number(), LIBEVENT_VERSION_NUMBER);
    printf("%s\n", event_get_version());
}
