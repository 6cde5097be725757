/* A descriptor is closed while threads of another worker are about to wait for it. Each wait must
 * return an error, whether the thread entered the queue before or after the queued threads were
 * woken. */
#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

#include <gossamer/loop.h>

enum {
    READERS = 2, /* they run on the second worker */
    ROUNDS = IS_EMULATED || GS_TSAN ? 100 : 1000,
    BYTES = 8,
};

/* The deadline of each wait; a thread that was not woken fails its test then. */
#define TIMEOUT_NS (30 * GS_SECOND)

static int fds[2];
static atomic_uint begun;

static void busy_wait(unsigned turns)
{
    for (volatile unsigned i = 0; i < turns; i++)
        ;
}

static unsigned random_below(unsigned end)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (state >> 8) % end;
}

THREAD(receive_until_closed)
{
    const uint64_t deadline_ns = after(TIMEOUT_NS);
    char byte;
    ssize_t n;
    atomic_fetch_add(&begun, 1);
    do
        n = gs_recv(fds[0], &byte, 1, 0, deadline_ns);
    while (n == 1);
    MUST_EQ(n, -EBADF);
}

THREAD(wait_until_closed)
{
    const uint64_t deadline_ns = after(TIMEOUT_NS);
    int err;
    char byte;
    atomic_fetch_add(&begun, 1);
    do {
        err = gs_wait_readable(fds[0], deadline_ns);
        if (!err)
            err = (int)gs_sys_recv(fds[0], &byte, 1, MSG_DONTWAIT);
    } while (err == 1 || err == -EAGAIN);
    MUST_EQ(err, -EBADF);
}

/* The thread sanitizer intercepts socketpair, but not gs_close. */
static void connect_pair(void)
{
    const long type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    MUST_EQ(gs_syscall(SYS_socketpair, AF_UNIX, type, 0, (long)fds, 0, 0), 0);
}

/* The workers poll, because a sleeping worker would wake up too late to begin a wait during a call
 * of gs_close. There is no monitor, which could open a file under the number that was closed. */
static int poll_events(struct gs_loop *loop, unsigned worker, void *unused)
{
    (void)worker, (void)unused;
    return gs_loop_run_once(loop, 0);
}

static void run_polling(gs_thread_fn *first)
{
    const struct gs_threads_options options = {
        .workers = 2, .wait = poll_events, .stuck_ns = GS_NEVER};
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
}

/* Each byte that arrives wakes a reader, which then begins to wait again. */
static void close_among_readers(gs_thread_fn *fn)
{
    struct gs_thread *readers[READERS];
    connect_pair();
    atomic_store(&begun, 0);
    for (unsigned i = 0; i < READERS; i++) {
        const struct gs_thread_attributes attributes = {.worker = 2};
        MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, &readers[i]), 0);
    }
    if (random_below(2))
        while (atomic_load(&begun) < READERS)
            gs_thread_yield();
    for (unsigned i = random_below(BYTES); i--;) {
        MUST_EQ(gs_sys_send(fds[1], "x", 1, MSG_NOSIGNAL), 1);
        busy_wait(random_below(3000));
    }
    busy_wait(random_below(5000));
    MUST_EQ(gs_close(fds[0]), 0);
    for (unsigned i = 0; i < READERS; i++)
        join(readers[i]);
    MUST_EQ(gs_close(fds[1]), 0);
}

/* Does fewer rounds on a busy machine. */
static void close_often(gs_thread_fn *fn)
{
    const uint64_t end_ns = after(3 * GS_SECOND);
    for (int i = 0; i < ROUNDS && gs_clock_now() < end_ns; i++)
        close_among_readers(fn);
}

static void *close_while_received(void *unused)
{
    close_often(receive_until_closed);
    return unused;
}

TEST(thread_that_begins_to_receive_while_the_descriptor_is_closed_gets_ebadf)
{
    run_polling(close_while_received);
}

static void *close_while_waited_for(void *unused)
{
    close_often(wait_until_closed);
    return unused;
}

TEST(thread_that_begins_to_wait_while_the_descriptor_is_closed_gets_ebadf)
{
    run_polling(close_while_waited_for);
}

/* ---- A close that takes long ---- */

/* Far longer than the test takes: the peer's end ends the close. */
#define LINGER_S 30

static int lingering, peer;
static atomic_bool has_closed;
static bool may_end_early; /* a completion of io_uring interrupts the close */

/* A connection whose peer does not read, with more to send than fits into the peer's buffer. */
static void connect_lingering(void)
{
    static char bytes[65536];
    const int small = 4096, large = 1 << 20;
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(bind(listener, (struct sockaddr *)&address, length), 0);
    MUST_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    MUST_EQ(listen(listener, 1), 0);
    MUST_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    lingering = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(setsockopt(lingering, SOL_SOCKET, SO_SNDBUF, &large, sizeof large), 0);
    MUST_EQ(connect(lingering, (struct sockaddr *)&address, length), 0);
    peer = accept(listener, NULL, NULL);
    MUST(peer >= 0);
    while (gs_send(lingering, bytes, sizeof bytes, 0, 0) > 0)
        ;
    MUST_EQ(setsockopt(lingering, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    gs_sys_close(listener);
}

THREAD(close_lingering)
{
    MUST_EQ(gs_close(lingering), 0);
    atomic_store(&has_closed, true);
}

/* The kernel releases the number when the close begins. */
THREAD(use_the_number_again)
{
    char byte;
    int fd = -1;
    while (fd != lingering) {
        MUST(may_end_early || !atomic_load(&has_closed));
        if (fd >= 0)
            gs_sys_close(fd);
        gs_thread_yield();
        fd = (int)gs_syscall(SYS_fcntl, fds[0], F_DUPFD_CLOEXEC, lingering, 0, 0, 0);
        MUST(fd >= 0);
    }
    gs_sys_close(fds[0]);
    fds[0] = fd;
    MUST_EQ(gs_recv(fds[0], &byte, 1, 0, after(10 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST(may_end_early || !atomic_load(&has_closed));
    MUST_EQ(gs_send(fds[1], "x", 1, 0, GS_NEVER), 1);
    MUST_EQ(gs_recv(fds[0], &byte, 1, 0, GS_NEVER), 1);
    gs_sys_close(peer); /* it has not read all, so that the kernel resets the connection */
}

THREAD(close_while_the_number_is_used)
{
    const struct gs_thread_attributes first = {.worker = 1}, second = {.worker = 2};
    struct gs_thread *closing, *using;
    char byte;
    connect_lingering();
    connect_pair();
    MUST_EQ(gs_thread_spawn(&second, use_the_number_again, NULL, &using), 0);
    MUST_EQ(gs_thread_spawn(&first, close_lingering, NULL, &closing), 0);
    join(using);
    join(closing);
    MUST_EQ(gs_send(fds[1], "y", 1, 0, GS_NEVER), 1);
    MUST_EQ(gs_recv(fds[0], &byte, 1, 0, GS_NEVER), 1);
    MUST_EQ(gs_close(fds[0]), 0);
    MUST_EQ(gs_close(fds[1]), 0);
}

TEST(close_that_takes_long_does_not_delay_the_next_file_with_the_number)
{
    const struct gs_threads_options options = {.workers = 2, .stuck_ns = GS_NEVER};
    const char *poller = getenv("GS_POLLER");
    may_end_early = poller && !strcmp(poller, "io_uring");
    atomic_store(&has_closed, false);
    CHECK_EQ(gs_threads_run(&options, close_while_the_number_is_used, NULL, NULL), 0);
}
