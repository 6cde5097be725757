/* io_uring refuses submissions for a while: requests that find the submission queue full must be
 * submitted later. */
#include "tests/loop/fixture.h"

#include "loop/uring.h"

enum { FILLERS = 4096, WATCHED_SECONDS = 30 };

static struct gs_loop *loop;
static struct gs_op fillers[FILLERS];
static int filler_pair[2];

/* A signal ends a test that hangs. */
static bool set_up(void)
{
    loop = new_loop();
    if (!is_on(loop, "io_uring")) {
        gs_loop_free(loop);
        return false;
    }
    alarm(WATCHED_SECONDS);
    connect_pair(filler_pair);
    return true;
}

static void tear_down(void)
{
    gs_loop_free(loop);
    close_pair(filler_pair);
    alarm(0);
}

static long be_busy(long number, void *error)
{
    return number == SYS_io_uring_enter ? *(const long *)error : 0;
}

static void on_filler(struct gs_op *op, int64_t result)
{
    (void)op, (void)result;
    TEST_FAIL("an operation has ended that nothing was sent for");
}

/* Afterwards the kernel accepts nothing, and the submission queue is full. */
static void fill_queue(const long *error)
{
    static char byte;
    int i = 0, err = 0;
    gs_sys_set_fault(be_busy, (void *)error);
    for (; !err && i < FILLERS; i++) {
        gs_op_init(&fillers[i], loop, on_filler);
        err = gs_op_recv(&fillers[i], filler_pair[0], &byte, 1, 0);
    }
    CHECK_EQ(err, -ENOMEM);
}

static const long busy_errors[] = {-EBUSY, -EAGAIN};

/* ---- Cancellations ---- */

static int ended;
static int64_t results[3];

static void on_end(struct gs_op *op, int64_t result)
{
    results[op->io.watcher.data ? *(int *)op->io.watcher.data : 0] = result;
    ended++;
}

static int listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(fd, 8), 0);
    return fd;
}

/* Operations of each kind: one-shot, multishot, and with a descriptor as the result. */
static void cancel_without_room(const long *error)
{
    static int numbers[3] = {0, 1, 2};
    struct gs_op ops[3];
    int pairs[2][2], listener = listen_anywhere();
    char byte;
    ended = 0;
    for (int i = 0; i < 3; i++) {
        gs_op_init(&ops[i], loop, on_end);
        ops[i].io.watcher.data = &numbers[i];
    }
    connect_pair(pairs[0]);
    connect_pair(pairs[1]);
    CHECK_EQ(gs_op_recv(&ops[0], pairs[0][0], &byte, 1, 0), 0);
    CHECK_EQ(gs_op_recv_multishot(&ops[1], pairs[1][0]), 0);
    CHECK_EQ(gs_op_accept(&ops[2], listener, SOCK_CLOEXEC), 0);
    step(loop);
    fill_queue(error);
    for (int i = 0; i < 3; i++)
        gs_op_cancel(&ops[i]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 0);
    gs_sys_set_fault(NULL, NULL);
    while (ended < 3)
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK_EQ(step(loop), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(results[i], -ECANCELED);
    CHECK_EQ(gs_op_recv(&ops[0], pairs[0][0], &byte, 1, 0), 0);
    put_byte(pairs[0][1]);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_EQ(results[0], 1);
    close_pair(pairs[0]);
    close_pair(pairs[1]);
    close(listener);
}

TEST(cancellation_that_finds_no_room_is_submitted_when_there_is_some)
{
    for (int i = 0; i < 2; i++) {
        if (!set_up())
            return;
        cancel_without_room(&busy_errors[i]);
        tear_down();
    }
}

TEST(operation_that_is_cancelled_without_room_and_ends_before_there_is_some_is_called_back_once)
{
    int pair[2];
    char byte;
    struct gs_op op;
    if (!set_up())
        return;
    ended = 0;
    gs_op_init(&op, loop, on_end);
    op.io.watcher.data = NULL;
    connect_pair(pair);
    CHECK_EQ(gs_op_recv(&op, pair[0], &byte, 1, 0), 0);
    step(loop);
    fill_queue(&busy_errors[0]);
    gs_op_cancel(&op);
    put_byte(pair[1]);
    step(loop);
    gs_sys_set_fault(NULL, NULL);
    while (!ended)
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK(results[0] == 1 || results[0] == -ECANCELED);
    for (int i = 0; i < 5; i++)
        step(loop);
    CHECK_EQ(ended, 1);
    close_pair(pair);
    tear_down();
}

/* ---- The poll of wake_fd ---- */

static bool is_called;

static void on_async(struct gs_async *async)
{
    (void)async;
    is_called = true;
}

static void *send_when_asleep(void *async)
{
    while (!atomic_load(&loop->mailbox.asleep))
        sched_yield();
    gs_async_send(async);
    return NULL;
}

/* Let the kernel end the poll of wake_fd; its completion is not collected yet. */
static void end_wake_request(void)
{
    struct uring *uring = loop->poller_state;
    step(loop);
    CHECK_EQ(gs_ring_unsubmitted(&uring->ring), 0);
    CHECK_EQ(gs_uring_cancel(uring, uring->ring.tail - 1, TAG_WAKE), 0);
    for (int i = 0; !gs_ring_cq_ready(&uring->ring); i++) {
        CHECK(i < 1000);
        CHECK_EQ(gs_ring_enter(&uring->ring, 1, GS_MILLISECOND), 0);
    }
}

TEST(loop_is_woken_though_the_request_for_wake_ups_has_found_no_room)
{
    struct gs_async async;
    pthread_t thread;
    if (!set_up())
        return;
    is_called = false;
    gs_async_init(&async, loop, on_async);
    gs_async_start(&async);
    end_wake_request();
    fill_queue(&busy_errors[0]);
    CHECK_EQ(step(loop), 0);
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, send_when_asleep, &async), 0);
    while (!is_called)
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    pthread_join(thread, NULL);
    tear_down();
}
