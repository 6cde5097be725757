/* System calls that fail. */
#include "tests/loop/fixture.h"
#include "tests/newer_call.h"

/* failing_call fails `times` times with failing_error, after `skipped` successful calls. */
static long failing_call;
static long failing_error;
static int skipped, times;

static long fail(long number, void *data)
{
    (void)data;
    if (!stands_for(number, failing_call) || skipped-- > 0 || times-- <= 0)
        return 0;
    return failing_error;
}

static void fail_call(long number, long error, int from, int how_often)
{
    failing_call = number;
    failing_error = error;
    skipped = from;
    times = how_often;
    gs_sys_set_fault(fail, NULL);
}

static void end_faults(void)
{
    gs_sys_set_fault(NULL, NULL);
}

static unsigned last_events;

static void on_io(struct gs_io *io, unsigned events)
{
    last_events = events;
    log_call(&io->watcher);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* The system calls with which each poller creates its set, prepares it, and waits. */
static const struct poller_calls {
    const char *poller;
    long make, prepare, wait;
} *poller_calls(void)
{
    static const struct poller_calls table[] = {
        {"epoll", SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait2},
        {"io_uring", SYS_io_uring_setup, SYS_mmap, SYS_io_uring_enter},
        {"poll", SYS_epoll_create1, SYS_epoll_create1, SYS_ppoll},
        {"select", SYS_epoll_create1, SYS_epoll_create1, SYS_pselect6},
    };
    struct gs_loop *loop = new_loop();
    const struct poller_calls *calls_of = table;
    while (!is_on(loop, calls_of->poller))
        calls_of++;
    gs_loop_free(loop);
    return calls_of;
}

TEST(loop_that_cannot_be_created_leaves_nothing_open)
{
    const struct poller_calls *of = poller_calls();
    const struct {
        long number, error;
    } faults[] = {{SYS_eventfd2, -EMFILE}, {of->make, -ENFILE}, {of->prepare, -ENOMEM}};
    int before = open_descriptors();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct gs_loop *loop = NULL;
        fail_call(faults[i].number, faults[i].error, 0, 1);
        CHECK_EQ(gs_loop_new(&loop), faults[i].error);
        end_faults();
        CHECK(!loop);
        CHECK_EQ(open_descriptors(), before);
    }
}

TEST(interrupted_wait_is_an_iteration_without_events)
{
    struct gs_loop *loop = new_loop();
    fail_call(poller_calls()->wait, -EINTR, 0, 1);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 0);
    end_faults();
    gs_loop_free(loop);
}

TEST(poller_that_fails_permanently_ends_the_run_with_its_error)
{
    int pair[2];
    struct gs_io io;
    struct gs_loop *loop = new_loop();
    connect_pair(pair);
    gs_io_init(&io, loop, on_io);
    io.watcher.data = "i";
    start_io(&io, pair[0], GS_READ);
    fail_call(poller_calls()->wait, -EINVAL, 0, 1);
    CHECK_EQ(gs_loop_run(loop), -EINVAL);
    end_faults();
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    gs_loop_free(loop);
    close_pair(pair);
}

/* Other pollers do not make this system call. */
static bool leave_to_epoll(struct gs_loop *loop)
{
    if (is_on(loop, "epoll"))
        return false;
    gs_loop_free(loop);
    return true;
}

TEST(kernel_out_of_memory_fails_all_watchers_of_the_descriptor)
{
    int pair[2];
    struct gs_io a, b;
    struct gs_loop *loop = new_loop();
    if (leave_to_epoll(loop))
        return;
    connect_pair(pair);
    gs_io_init(&a, loop, on_io);
    gs_io_init(&b, loop, on_io);
    a.watcher.data = b.watcher.data = "f";
    start_io(&a, pair[0], GS_READ);
    start_io(&b, pair[0], GS_WRITE);
    fail_call(SYS_epoll_ctl, -ENOSPC, 0, 1);
    CHECK_EQ(step(loop), 2);
    end_faults();
    CHECK_STR(calls, "ff");
    CHECK_EQ(last_events, GS_FAILED);
    CHECK_EQ(gs_io_error(&a), -ENOSPC);
    CHECK_EQ(gs_io_error(&b), -ENOSPC);
    CHECK(!gs_watcher_is_active(&a.watcher) && !gs_watcher_is_active(&b.watcher));
    put_byte(pair[1]);
    CHECK_EQ(gs_io_start(&a), 0);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ);
    gs_loop_free(loop);
    close_pair(pair);
}

TEST(failed_watcher_that_is_stopped_before_its_call_is_not_called)
{
    struct gs_io io;
    int pair[2];
    struct gs_loop *loop = new_loop();
    if (leave_to_epoll(loop))
        return;
    connect_pair(pair);
    gs_io_init(&io, loop, on_io);
    io.watcher.data = "f";
    start_io(&io, pair[0], GS_READ);
    fail_call(SYS_epoll_ctl, -ENOMEM, 0, 1);
    gs_loop_apply_changes(loop);
    end_faults();
    gs_io_stop(&io);
    CHECK_EQ(step(loop), 0);
    CHECK_STR(calls, "");
    gs_loop_free(loop);
    close_pair(pair);
}

TEST(fork_that_gets_no_descriptors_leaves_the_loop_as_it_was)
{
    struct gs_loop *loop = new_loop();
    int before = open_descriptors();
    fail_call(SYS_eventfd2, -EMFILE, 0, 1);
    CHECK_EQ(gs_loop_after_fork(loop), -EMFILE);
    fail_call(poller_calls()->make, -EMFILE, 0, 1);
    CHECK_EQ(gs_loop_after_fork(loop), -EMFILE);
    end_faults();
    CHECK_EQ(open_descriptors(), before);
    gs_loop_wake(loop);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 0);
    CHECK_EQ(gs_loop_after_fork(loop), 0);
    CHECK_EQ(open_descriptors(), before);
    gs_loop_free(loop);
}

TEST(set_that_cannot_be_reopened_is_tried_again_in_each_iteration)
{
    int pair[2], other[2];
    struct gs_io gone, kept;
    struct gs_loop *loop = new_loop();
    if (leave_to_epoll(loop))
        return;
    connect_pair(pair);
    connect_pair(other);
    gs_io_init(&gone, loop, on_io);
    gs_io_init(&kept, loop, on_io);
    gone.watcher.data = "g";
    kept.watcher.data = "k";
    start_io(&gone, pair[0], GS_READ);
    start_io(&kept, other[0], GS_READ);
    step(loop);
    int duplicate = dup(pair[0]);
    gs_loop_fd_closed(loop, pair[0]);
    close(pair[0]);
    put_byte(pair[1]);
    fail_call(SYS_epoll_create1, -EMFILE, 0, 2);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(step(loop), 0);
    end_faults();
    CHECK_EQ(step(loop), 0);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 2 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 2 * GS_MILLISECOND);
    put_byte(other[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "k");
    gs_loop_free(loop);
    close(duplicate);
    close(pair[1]);
    close_pair(other);
}

static int64_t op_result;

static void on_op(struct gs_op *op, int64_t result)
{
    (void)op;
    op_result = result;
}

TEST(operation_survives_interruption_and_spurious_readiness)
{
    int pair[2];
    char byte;
    struct gs_op op;
    struct gs_loop *loop = new_loop();
    connect_pair(pair);
    put_byte(pair[1]);
    gs_op_init(&op, loop, on_op);
    CHECK_EQ(gs_op_recv(&op, pair[0], &byte, 1, 0), 0);
    fail_call(SYS_recvfrom, -EINTR, 0, 2);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(op_result, 1);
    put_byte(pair[1]);
    CHECK_EQ(gs_op_recv(&op, pair[0], &byte, 1, 0), 0);
    fail_call(SYS_recvfrom, -EAGAIN, 0, 2);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(op_result, 1);
    end_faults();
    gs_loop_free(loop);
    close_pair(pair);
}
