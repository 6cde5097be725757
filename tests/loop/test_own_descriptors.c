/* The numbers of the library's own descriptors. The first test begins before they are moved. */
#include "tests/test.h"

#include <gossamer/loop.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <linux/close_range.h>
#include <sys/eventfd.h>

#define FLOOR 800

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int open_any(void)
{
    int fd = gs_sys_eventfd(0, EFD_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static int count_own(void)
{
    int count = 0;
    for (int fd = 0; fd < 4096; fd++) {
        count += gs_is_own_descriptor(fd);
        CHECK(!gs_is_own_descriptor(fd) || is_open(fd));
    }
    return count;
}

/* The number that the next descriptor of the program gets. */
static int next_number(void)
{
    int fd = open_any();
    gs_sys_close(fd);
    return fd;
}

TEST(without_the_start_nothing_is_moved)
{
    int next = next_number();
    struct gs_loop *loop;
    CHECK_EQ(gs_loop_new(&loop), 0);
    CHECK(is_open(next));
    CHECK(!gs_is_own_descriptor(next));
    CHECK_EQ(count_own(), 0);
    gs_loop_free(loop);
}

TEST(loop_takes_no_low_number_and_gives_all_back)
{
    gs_own_descriptors_start();
    int next = next_number();
    struct gs_loop *loop;
    CHECK_EQ(gs_loop_new(&loop), 0);
    CHECK_EQ(next_number(), next);
    CHECK(gs_is_own_descriptor(FLOOR));
    CHECK(count_own() >= 1);
    gs_loop_free(loop);
    CHECK_EQ(count_own(), 0);
}

static void fired(struct gs_periodic *periodic)
{
    gs_periodic_stop(periodic);
}

static void stopped(struct gs_async *async)
{
    gs_async_stop(async);
}

static void run_loop(struct gs_loop *loop)
{
    struct gs_periodic periodic;
    struct gs_async async;
    gs_periodic_init(&periodic, loop, fired);
    CHECK_EQ(gs_periodic_start_repeat(&periodic, 0, GS_MILLISECOND), 0);
    gs_async_init(&async, loop, stopped);
    gs_async_start(&async);
    gs_async_send(&async);
    CHECK_EQ(gs_loop_run(loop), 0);
}

TEST(loop_after_a_fork_has_high_numbers_too)
{
    gs_own_descriptors_start();
    int next = next_number();
    struct gs_loop *loop;
    CHECK_EQ(gs_loop_new(&loop), 0);
    run_loop(loop);
    int own = count_own();
    CHECK_EQ(gs_loop_after_fork(loop), 0);
    CHECK_EQ(count_own(), own);
    CHECK_EQ(next_number(), next);
    run_loop(loop);
    gs_loop_free(loop);
    CHECK_EQ(count_own(), 0);
}

TEST(descriptor_that_cannot_be_moved_is_owned_where_it_is)
{
    struct rlimit limit, low = {.rlim_cur = 100};
    gs_own_descriptors_start();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low.rlim_max = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    int fd = open_any(), moved = gs_own_descriptor(fd);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(moved, fd);
    CHECK(gs_is_own_descriptor(fd));
    CHECK_EQ(gs_own_descriptor_close(fd), 0);
    CHECK(!gs_is_own_descriptor(fd));
    CHECK(!is_open(fd));
    CHECK_EQ(gs_own_descriptor(-EMFILE), -EMFILE);
    CHECK(!gs_is_own_descriptor(-1));
    CHECK(!gs_is_own_descriptor(1 << 20));
}

TEST(range_is_closed_around_the_own)
{
    gs_own_descriptors_start();
    int first = gs_own_descriptor(open_any()), second = gs_own_descriptor(open_any());
    int between = fcntl(STDERR_FILENO, F_DUPFD, second + 1);
    int third = fcntl(STDERR_FILENO, F_DUPFD, between + 1), low = dup(STDERR_FILENO);
    CHECK(first >= FLOOR && second > first && low < FLOOR);
    CHECK_EQ(gs_close_range_but_own((unsigned)low, (unsigned)between, CLOSE_RANGE_CLOEXEC), 0);
    CHECK(is_open(low) && is_open(between));
    CHECK_EQ(gs_close_range_but_own((unsigned)low, (unsigned)between, 0), 0);
    CHECK(!is_open(low) && !is_open(between));
    CHECK(is_open(first) && is_open(second) && is_open(third));
    CHECK_EQ(gs_close_range_but_own((unsigned)first, (unsigned)first, 0), 0);
    CHECK(is_open(first));
    CHECK_EQ(gs_close_range_but_own((unsigned)first, ~0u, 0), 0);
    CHECK(is_open(first) && is_open(second) && !is_open(third));
    CHECK_EQ(gs_close_range_but_own(2, 1, 0), -EINVAL);
    CHECK_EQ(gs_close_range_but_own(5000, ~0u, 64), -EINVAL);
    gs_own_descriptors_close();
    CHECK_EQ(count_own(), 0);
    CHECK(!is_open(first) && !is_open(second));
}
