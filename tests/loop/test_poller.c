/* Selection of a poller, and the limits of each poller. */
#include "tests/loop/fixture.h"

#include <sys/select.h>

static unsigned last_events;

static void on_io(struct gs_io *io, unsigned events)
{
    last_events = events;
    log_call(&io->watcher);
}

TEST(loop_uses_the_poller_that_is_requested_by_name)
{
    const char *names[] = {"epoll", "poll", "select"};
    struct gs_loop *loop = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_EQ(gs_loop_new_with(names[i], &loop), 0);
        CHECK_STR(gs_loop_poller(loop), names[i]);
        gs_loop_free(loop);
    }
    loop = NULL;
    CHECK_EQ(gs_loop_new_with("kqueue", &loop), -EINVAL);
    CHECK(!loop);
}

TEST(environment_names_the_poller_unless_the_program_does)
{
    struct gs_loop *loop = NULL;
    const char *requested = getenv("GS_POLLER");
    char *before = requested ? strdup(requested) : NULL;
    setenv("GS_POLLER", "select", 1);
    CHECK_EQ(gs_loop_new(&loop), 0);
    CHECK_STR(gs_loop_poller(loop), "select");
    gs_loop_free(loop);
    CHECK_EQ(gs_loop_new_with("poll", &loop), 0);
    CHECK_STR(gs_loop_poller(loop), "poll");
    gs_loop_free(loop);
    setenv("GS_POLLER", "none", 1);
    CHECK_EQ(gs_loop_new(&loop), -EINVAL);
    setenv("GS_POLLER", "", 1);
    CHECK_EQ(gs_loop_new(&loop), 0);
    CHECK_STR(gs_loop_poller(loop), "epoll");
    gs_loop_free(loop);
    unsetenv("GS_POLLER");
    if (before)
        setenv("GS_POLLER", before, 1);
    free(before);
}

TEST(without_io_uring_the_loop_is_on_epoll)
{
    struct gs_loop *loop = NULL;
    setenv("GOSSAMER_NO_IO_URING", "1", 1);
    CHECK_EQ(gs_loop_new_with("io_uring", &loop), 0);
    unsetenv("GOSSAMER_NO_IO_URING");
    CHECK_STR(gs_loop_poller(loop), "epoll");
    CHECK_EQ(step(loop), 0);
    gs_loop_free(loop);
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(select_refuses_numbers_beyond_its_sets_and_serves_the_others)
{
    int pair[2];
    struct gs_io low, high;
    struct gs_loop *loop = NULL;
    raise_descriptor_limit();
    CHECK_EQ(gs_loop_new_with("select", &loop), 0);
    clear_calls();
    connect_pair(pair);
    int fd = fcntl(pair[0], F_DUPFD_CLOEXEC, FD_SETSIZE);
    if (fd < 0)
        SKIP("the limit of descriptors is %d", FD_SETSIZE);
    gs_io_init(&low, loop, on_io);
    gs_io_init(&high, loop, on_io);
    low.watcher.data = "l";
    high.watcher.data = "h";
    start_io(&high, fd, GS_READ);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_FAILED);
    CHECK_EQ(gs_io_error(&high), -EMFILE);
    start_io(&low, pair[0], GS_READ);
    start_io(&high, fd, GS_READ | GS_EDGE);
    put_byte(pair[1]);
    clear_calls();
    CHECK_EQ(step(loop), 2);
    CHECK_EQ(step(loop), 1);
    gs_io_stop(&high);
    CHECK_EQ(step(loop), 1);
    gs_loop_free(loop);
    close(fd);
    close_pair(pair);
}

TEST(descriptor_closed_while_watched_fails_where_the_wait_reports_it)
{
    const char *names[] = {"poll", "select"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int pair[2], other[2];
        struct gs_io io, kept;
        struct gs_loop *loop = NULL;
        CHECK_EQ(gs_loop_new_with(names[i], &loop), 0);
        clear_calls();
        connect_pair(pair);
        connect_pair(other);
        gs_io_init(&io, loop, on_io);
        gs_io_init(&kept, loop, on_io);
        io.watcher.data = "i";
        kept.watcher.data = "k";
        start_io(&io, pair[0], GS_READ);
        start_io(&kept, other[0], GS_READ);
        CHECK_EQ(step(loop), 0);
        close(pair[0]);
        CHECK_EQ(step(loop), 1);
        CHECK_STR(calls, "i");
        CHECK_EQ(last_events, GS_FAILED);
        CHECK_EQ(gs_io_error(&io), -EBADF);
        put_byte(other[1]);
        CHECK_EQ(step(loop), 1);
        CHECK_STR(calls, "ik");
        gs_loop_free(loop);
        close(pair[1]);
        close_pair(other);
    }
}

TEST(peer_sees_a_close_after_fd_closed_and_an_iteration)
{
    int pair[2];
    char byte;
    struct gs_io io;
    struct gs_loop *loop = new_loop();
    connect_pair(pair);
    gs_io_init(&io, loop, on_io);
    io.watcher.data = "i";
    start_io(&io, pair[0], GS_READ);
    step(loop);
    gs_loop_fd_closed(loop, pair[0]);
    close(pair[0]);
    step(loop);
    CHECK_EQ(read(pair[1], &byte, 1), 0);
    gs_loop_free(loop);
    close(pair[1]);
}

TEST(peer_sees_a_close_after_a_stop_and_an_iteration)
{
    int pair[2];
    char byte;
    struct gs_io io;
    struct gs_loop *loop = new_loop();
    connect_pair(pair);
    gs_io_init(&io, loop, on_io);
    io.watcher.data = "i";
    start_io(&io, pair[0], GS_READ | GS_EDGE);
    step(loop);
    gs_io_stop(&io);
    close(pair[0]);
    step(loop);
    CHECK_EQ(read(pair[1], &byte, 1), 0);
    gs_loop_free(loop);
    close(pair[1]);
}

/* They are more than io_uring's completion queue holds. select refuses some of the numbers. */
TEST(peer_sees_the_close_of_many_descriptors_when_their_loop_is_freed)
{
    enum { MANY = 2500 };
    static struct gs_io ios[MANY];
    int pair[2];
    char byte;
    struct gs_loop *loop = new_loop();
    raise_descriptor_limit();
    connect_pair(pair);
    for (int i = 0; i < MANY; i++) {
        int fd = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            SKIP("the limit of descriptors is below %d", MANY);
        gs_io_init(&ios[i], loop, on_io);
        ios[i].watcher.data = "";
        start_io(&ios[i], fd, GS_READ);
    }
    step(loop);
    for (int i = 0; i < MANY; i++)
        close(ios[i].fd);
    close(pair[0]);
    gs_loop_free(loop);
    CHECK_EQ(read(pair[1], &byte, 1), 0);
    close(pair[1]);
}
