// Boost.Fiber.
#include "bench/threads/measure.h"

#include <boost/fiber/all.hpp>

static void yield_often()
{
    for (int i = 0; i < SWITCHES; i++)
        boost::this_fiber::yield();
}

int main(int argc, char **argv)
{
    const char *figure = argc > 1 ? argv[1] : "";
    for (int round = 0; round < ROUNDS; round++) {
        if (!strcmp(figure, "switch")) {
            boost::fibers::fiber a(yield_often), b(yield_often);
            begin();
            a.join();
            b.join();
            end(2 * SWITCHES);
        } else if (!strcmp(figure, "spawn")) {
            begin();
            for (int i = 0; i < SPAWNS; i++)
                boost::fibers::fiber([] {}).join();
            end(SPAWNS);
        } else {
            return 2;
        }
    }
    printf("%.3f\n", best_ns);
    return 0;
}
