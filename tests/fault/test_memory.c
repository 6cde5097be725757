/* Allocation failures while the server serves. */
#include "tests/fault/survive.h"

TEST(server_with_a_cache_survives_every_allocation_that_fails)
{
    SURVIVE(points_with_cache, {FAULT_ALLOCATION, -ENOMEM});
}

TEST(server_without_a_cache_survives_every_allocation_that_fails)
{
    SURVIVE(points_without_cache, {FAULT_ALLOCATION, -ENOMEM});
}

COUNT_FAULT_POINTS
