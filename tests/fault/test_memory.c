/* Allocations that fail while the server serves. */
#include "tests/fault/points.h"
#include "tests/test.h"

#include <errno.h>

static void survive(const char *const *words)
{
    static const struct fault fault = {FAULT_ALLOCATION, -ENOMEM};
    struct server server;
    const char *problem = points_start(&server, words);
    if (!problem)
        problem = points_survive(&server, &fault);
    if (problem)
        TEST_FAIL("%s", problem);
}

TEST(server_with_a_cache_survives_every_allocation_that_fails)
{
    survive(points_with_cache);
}

TEST(server_without_a_cache_survives_every_allocation_that_fails)
{
    survive(points_without_cache);
}

TEST(fault_points_of_memory_are_counted)
{
    printf("%u fault points survived\n", points_survived());
    CHECK(points_survived() > 0);
}
