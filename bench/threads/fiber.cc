// Boost.Fiber.
#include "bench/threads/measure.h"

#include <boost/fiber/all.hpp>

static void yield_often()
{
    for (int i = 0; i < SWITCHES; i++)
        boost::this_fiber::yield();
}

static boost::fibers::mutex mutex;
static boost::fibers::condition_variable changed[2];
static int turn;

static void take_turns(int mine)
{
    for (int i = 0; i < SWITCHES; i++) {
        std::unique_lock<boost::fibers::mutex> lock(mutex);
        changed[mine].wait(lock, [mine] { return turn == mine; });
        turn = !mine;
        changed[!mine].notify_one();
    }
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
        } else if (!strcmp(figure, "turns")) {
            boost::fibers::fiber a(take_turns, 0), b(take_turns, 1);
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
