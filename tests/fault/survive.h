/* Tests faults that occur while the server serves. */
#ifndef GS_TESTS_FAULT_SURVIVE_H
#define GS_TESTS_FAULT_SURVIVE_H

#include "tests/fault/points.h"
#include "tests/test.h"

/* arguments: of the server, for points_start. */
static inline void survive(const char *const *arguments, const struct fault *faults, size_t count)
{
    struct server server;
    const char *problem = points_start(&server, arguments);
    for (size_t i = 0; i < count && !problem; i++)
        problem = points_survive(&server, faults, i);
    if (problem)
        TEST_FAIL("%s", problem);
    CHECK_EQ(fault_unlisted(), 0);
}

#define SURVIVE(arguments_, ...)                                                                   \
    do {                                                                                           \
        static const struct fault faults[] = {__VA_ARGS__};                                        \
        survive(arguments_, faults, sizeof faults / sizeof *faults);                               \
    } while (0)

/* The last test of each program. */
#define COUNT_FAULT_POINTS                                                                         \
    TEST(fault_points_are_counted)                                                                 \
    {                                                                                              \
        printf("%u fault points survived\n", points_survived());                                   \
        CHECK(points_survived() > 0);                                                              \
    }

#endif
