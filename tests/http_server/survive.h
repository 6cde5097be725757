/* What is attempted while each allocation fails in turn. */
#ifndef GS_TESTS_HTTP_SERVER_SURVIVE_H
#define GS_TESTS_HTTP_SERVER_SURVIVE_H

#include "tests/http_server/allocations.h"
#include "tests/thread/fixture.h"

/* attempt: returns 0 if it was complete, which it must be unless an allocation has failed. least:
 * how many attempts must fail. Returns in how many an allocation has failed. */
static inline unsigned must_survive(int (*attempt)(void), unsigned least)
{
    unsigned complete = 0, failed = 0, in_need = 0;
    MUST_EQ(attempt(), 0);
    for (long n = 0; complete < 3; n++) {
        MUST(n < 2000);
        failures = 0;
        allowed = n;
        int err = attempt();
        allowed = -1;
        complete += !failures;
        in_need += failures > 0;
        failed += err != 0;
        MUST(failures || !err);
        MUST_EQ(attempt(), 0);
    }
    MUST(failed >= least);
    return in_need;
}

#endif
