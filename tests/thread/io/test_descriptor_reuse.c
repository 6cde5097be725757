/* A number is not a file: each call that waits for a descriptor, with each way in which its number
 * may come to refer to another file meanwhile. The call must notice, and leave that file alone. */
#include "tests/thread/fixture.h"
#include "thread/io/descriptors.h"

#include <gossamer/buffered.h>
#include <pty.h>

/* What a call waits for. */
enum kind {
    READABLE,
    IDLE,      /* the other file is not ready either */
    HALF_READ, /* a line whose end has not come */
    WRITABLE,
    READABLE_PIPE,
    WRITABLE_PIPE,
    LISTENER,
    BLOCKING_LISTENER,
    CONNECTING,
    DATAGRAM, /* to a receiver without room */
    TERMINAL,
    BLOCKING_WRITABLE,
};

/* fds[0] is waited for; other[0] gets its number. */
static int fds[2], other[2], file, pending[2];
static struct sockaddr_un receiver;
static socklen_t receiver_length;

/* ---- The calls ---- */

static intptr_t by_recv(int fd, uint64_t deadline_ns)
{
    char bytes[16];
    return gs_recv(fd, bytes, sizeof bytes, 0, deadline_ns);
}

static intptr_t by_recvfrom(int fd, uint64_t deadline_ns)
{
    char bytes[16];
    return gs_recvfrom(fd, bytes, sizeof bytes, 0, NULL, NULL, deadline_ns);
}

static ssize_t take(void *data, const void *bytes, size_t n)
{
    (void)data, (void)bytes;
    return (ssize_t)n;
}

/* A function that makes a call for fd. */
#define CALL(name_, ...)                                                                           \
    static intptr_t name_(int fd, uint64_t deadline_ns)                                            \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }

CALL(by_recv_with, gs_recv_with(fd, take, NULL, deadline_ns))

static intptr_t by_read(int fd, uint64_t deadline_ns)
{
    char bytes[16];
    return gs_read(fd, bytes, sizeof bytes, deadline_ns);
}

CALL(by_send, gs_send(fd, "stray", 5, 0, deadline_ns))
CALL(by_send_all, gs_send_all(fd, "stray", 5, deadline_ns))

static intptr_t by_sendmsg(int fd, uint64_t deadline_ns)
{
    struct iovec part = {"stray", 5};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return gs_sendmsg(fd, &message, 0, deadline_ns);
}

CALL(by_sendto,
     gs_sendto(fd, "stray", 5, 0, (struct sockaddr *)&receiver, receiver_length, deadline_ns))
CALL(by_write, gs_write(fd, "stray", 5, deadline_ns))
CALL(by_accept, gs_accept(fd, NULL, NULL, SOCK_CLOEXEC, deadline_ns))

static intptr_t by_connect(int fd, uint64_t deadline_ns)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    MUST_EQ(getsockname(fds[1], (struct sockaddr *)&address, &length), 0);
    return gs_connect(fd, (struct sockaddr *)&address, length, deadline_ns);
}

CALL(by_wait_readable, gs_wait_readable(fd, deadline_ns))
CALL(by_wait_writable, gs_wait_writable(fd, deadline_ns))

/* A closed descriptor is reported as ready. */
static intptr_t by_poll(int fd, uint64_t deadline_ns)
{
    struct gs_poll poll = {.fd = fd, .events = GS_READ};
    int ready = gs_poll(&poll, 1, deadline_ns);
    return ready == 1 ? -EBADF : ready ? ready : -ETIMEDOUT;
}

static intptr_t by_select(int fd, uint64_t deadline_ns)
{
    struct gs_select each = {.fd = fd, .events = GS_READ};
    int index = gs_select(&each, 1, deadline_ns);
    return index ? index : -EBADF;
}

static intptr_t by_sendfile(int fd, uint64_t deadline_ns)
{
    off_t offset = 0;
    return gs_sendfile(fd, file, &offset, 16, deadline_ns);
}

static intptr_t by_read_line(int fd, uint64_t deadline_ns)
{
    char buffer[16], *line;
    struct gs_reader reader;
    MUST_EQ(gs_reader_init(&reader, fd, buffer, sizeof buffer), 0);
    return gs_reader_read_line(&reader, sizeof buffer, deadline_ns, &line);
}

static intptr_t by_flush(int fd, uint64_t deadline_ns)
{
    char buffer[16];
    struct gs_writer writer;
    MUST_EQ(gs_writer_init(&writer, fd, buffer, sizeof buffer), 0);
    MUST_EQ(gs_writer_write(&writer, "stray", 5, GS_NEVER), 0);
    return gs_writer_flush(&writer, deadline_ns);
}

static const struct call {
    const char *name;
    enum kind kind;
    intptr_t (*make)(int fd, uint64_t deadline_ns);
} waiting_calls[] = {
    {"gs_recv", READABLE, by_recv},
    {"gs_recvfrom", READABLE, by_recvfrom},
    {"gs_recv_with", READABLE, by_recv_with},
    {"gs_read of a socket", READABLE, by_read},
    {"gs_read", READABLE_PIPE, by_read},
    {"gs_send", WRITABLE, by_send},
    {"gs_send_all", WRITABLE, by_send_all},
    {"gs_sendmsg", WRITABLE, by_sendmsg},
    {"gs_sendto", DATAGRAM, by_sendto},
    {"gs_write", WRITABLE_PIPE, by_write},
    {"gs_accept", LISTENER, by_accept},
    {"gs_accept at a blocking listener", BLOCKING_LISTENER, by_accept},
    {"gs_connect", CONNECTING, by_connect},
    {"gs_wait_readable", IDLE, by_wait_readable},
    {"gs_wait_writable", WRITABLE, by_wait_writable},
    {"gs_poll", IDLE, by_poll},
    {"gs_select", IDLE, by_select},
    {"gs_sendfile", WRITABLE, by_sendfile},
    {"gs_read of a terminal", TERMINAL, by_read},
    {"gs_sendfile in blocking mode", BLOCKING_WRITABLE, by_sendfile},
    {"gs_reader_read_line", READABLE, by_read_line},
    {"gs_reader_read_line of a terminal", TERMINAL, by_read_line},
    {"gs_reader_read_line after a part", HALF_READ, by_read_line},
    {"gs_writer_flush", WRITABLE, by_flush},
};

/* ---- The files ---- */

static void make_pair(int pair[2])
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
}

static void fill(int fd)
{
    static const char bytes[4096];
    int flags = fcntl(fd, F_GETFL);
    MUST_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    MUST_EQ(errno, EAGAIN);
    MUST_EQ(fcntl(fd, F_SETFL, flags), 0);
}

/* At an address that the kernel chooses. */
static int make_unix(int type, struct sockaddr_un *ret_address, socklen_t *ret_length)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *ret_length = sizeof *ret_address;
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    MUST(fd >= 0);
    MUST_EQ(bind(fd, (struct sockaddr *)ret_address, sizeof(sa_family_t)), 0);
    MUST_EQ(getsockname(fd, (struct sockaddr *)ret_address, ret_length), 0);
    return fd;
}

static int make_listener(int flags, struct sockaddr_un *ret_address, socklen_t *ret_length)
{
    int fd = make_unix(SOCK_STREAM | flags, ret_address, ret_length);
    MUST_EQ(listen(fd, 8), 0);
    return fd;
}

/* A listener whose accept queue is full: further connections are not established. */
static void make_connecting(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(bind(fds[1], (struct sockaddr *)&address, length), 0);
    MUST_EQ(listen(fds[1], 0), 0);
    MUST_EQ(getsockname(fds[1], (struct sockaddr *)&address, &length), 0);
    for (int i = 0; i < 2; i++) {
        pending[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)!connect(pending[i], (struct sockaddr *)&address, length);
    }
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void make_datagram(void)
{
    fds[1] = make_unix(SOCK_DGRAM, &receiver, &receiver_length);
    fds[0] = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    while (sendto(fds[0], "full", 4, 0, (struct sockaddr *)&receiver, receiver_length) == 4)
        ;
    MUST_EQ(errno, EAGAIN);
}

static void make_waiting(enum kind kind)
{
    struct sockaddr_un address;
    socklen_t length;
    pending[0] = pending[1] = fds[1] = -1;
    if (kind == LISTENER || kind == BLOCKING_LISTENER)
        fds[0] = make_listener(kind == LISTENER ? SOCK_NONBLOCK : 0, &address, &length);
    else if (kind == CONNECTING)
        make_connecting();
    else if (kind == DATAGRAM)
        make_datagram();
    else if (kind == READABLE_PIPE || kind == WRITABLE_PIPE)
        MUST_EQ(pipe2(fds, O_CLOEXEC), 0);
    else if (kind == TERMINAL)
        MUST_EQ(openpty(&fds[1], &fds[0], NULL, NULL, NULL), 0);
    else if (kind == BLOCKING_WRITABLE)
        MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    else
        make_pair(fds);
    if (kind == WRITABLE_PIPE) {
        int end = fds[0];
        fds[0] = fds[1];
        fds[1] = end;
    }
    if (kind == WRITABLE || kind == WRITABLE_PIPE || kind == BLOCKING_WRITABLE)
        fill(fds[0]);
    if (kind == HALF_READ)
        MUST_EQ(write(fds[1], "part", 4), 4);
}

static bool is_listening(enum kind kind)
{
    return kind == LISTENER || kind == BLOCKING_LISTENER;
}

/* One with which the call succeeds at once, unless it is idle. */
static void make_other(enum kind kind)
{
    char bytes[16];
    struct sockaddr_un address;
    socklen_t length;
    if (!is_listening(kind)) {
        make_pair(other);
        MUST_EQ(write(other[1], "secret\n", 7), 7);
        if (kind == IDLE)
            MUST_EQ(recv(other[0], bytes, sizeof bytes, 0), 7);
        return;
    }
    other[0] = make_listener(0, &address, &length);
    other[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(connect(other[1], (struct sockaddr *)&address, length), 0);
}

static void check_untouched(enum kind kind)
{
    char bytes[16];
    MUST_EQ(fcntl(other[0], F_SETFL, fcntl(other[0], F_GETFL) | O_NONBLOCK), 0);
    if (is_listening(kind)) {
        int fd = accept(other[0], NULL, NULL);
        MUST(fd >= 0);
        close(fd);
        return;
    }
    MUST_EQ(recv(other[1], bytes, sizeof bytes, MSG_DONTWAIT), -1);
    MUST_EQ(recv(other[0], bytes, sizeof bytes, MSG_DONTWAIT), kind == IDLE ? -1 : 7);
}

/* ---- The ways ---- */

/* A call that another worker is making at this moment keeps the number. */
static void reuse(int fd)
{
    int reused = fcntl(other[0], F_DUPFD_CLOEXEC, fd);
    MUST(reused == fd || gs_runtime.is_multi);
    close(reused == fd ? -1 : reused);
}

static void close_only(int fd)
{
    MUST_EQ(gs_close(fd), 0);
}

static void close_and_reuse(int fd)
{
    MUST_EQ(gs_close(fd), 0);
    reuse(fd);
}

/* An event has ended the wait, but the thread has not run yet. */
static void wake_close_and_reuse(int fd)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    spin_lock(&descriptor->lock);
    gs_descriptor_notify(worker_current(), descriptor, GS_READ | GS_WRITE, 0);
    spin_unlock(&descriptor->lock);
    close_and_reuse(fd);
}

static void forget_and_dup2(int fd)
{
    gs_forget(fd);
    MUST_EQ(dup2(other[0], fd), fd);
}

static void *plain_dup2(void *fd)
{
    MUST_EQ(dup2(other[0], *(int *)fd), *(int *)fd);
    return NULL;
}

static void *plain_close(void *fd)
{
    MUST_EQ(close(*(int *)fd), 0);
    return NULL;
}

static void by_kernel_thread(void *(*fn)(void *fd), int fd)
{
    pthread_t thread;
    MUST_EQ(pthread_create(&thread, NULL, fn, &fd), 0);
    MUST_EQ(pthread_join(thread, NULL), 0);
}

static void close_unseen(int fd)
{
    by_kernel_thread(plain_close, fd);
}

static void dup2_unseen(int fd)
{
    by_kernel_thread(plain_dup2, fd);
}

static const struct way {
    const char *name;
    void (*close)(int fd);
    bool is_unseen; /* by the library: the call waits for an event or its deadline */
    bool reaches;   /* and may reach the other file after an event, as io.h warns */
} ways[] = {
    {"closed", close_only, false, false},
    {"closed and reused", close_and_reuse, false, false},
    {"woken, closed and reused", wake_close_and_reuse, false, false},
    {"gs_forget and dup2", forget_and_dup2, false, false},
    {"closed by a kernel thread", close_unseen, true, false},
    {"dup2 by a kernel thread", dup2_unseen, true, true},
};

/* ---- The table ---- */

static const struct call *call;
static const struct way *way;
static atomic_bool has_returned;
static struct gs_thread *waiting; /* which makes the call */

static void *wait_for_it(void *unused)
{
    (void)unused;
    uint64_t deadline_ns = after(way->is_unseen ? 2 * GS_MILLISECOND : 30 * GS_SECOND);
    intptr_t result = call->make(fds[0], deadline_ns);
    atomic_store(&has_returned, true);
    return (void *)result;
}

/* Whether it pauses before it tries again. */
static bool is_pausing(void)
{
    return call->kind == DATAGRAM && atomic_load(&waiting->claim) == CLAIM_WAITING;
}

THREAD(close_it)
{
    while (!gs_descriptor_is_in_use(gs_descriptor(fds[0])) && !is_pausing() &&
           !atomic_load(&has_returned))
        gs_thread_yield();
    way->close(fds[0]);
}

static void close_all(void)
{
    const int all[] = {fds[0], fds[1], other[0], other[1], pending[0], pending[1]};
    gs_forget(fds[0]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        close(all[i]);
}

static void check_result(intptr_t result)
{
    bool only_waits = call->make == by_wait_readable || call->make == by_wait_writable;
    bool is_late = way->is_unseen && result == -ETIMEDOUT;
    bool is_early = gs_runtime.is_multi && only_waits && way->close == wake_close_and_reuse;
    if (result == -EBADF || is_late || way->reaches || (is_early && !result))
        return;
    fprintf(stderr, "%s, %s: %d\n", call->name, way->name, (int)result);
    MUST(false);
}

/* With several workers, the call waits on another one than that which closes. */
static void check_cell(void)
{
    const struct gs_thread_attributes first = {.worker = 1},
                                      last = {.worker = gs_runtime.options.workers};
    struct gs_thread *closing;
    void *result;
    atomic_store(&has_returned, false);
    make_waiting(call->kind);
    make_other(call->kind);
    MUST_EQ(gs_thread_spawn(&first, wait_for_it, NULL, &waiting), 0);
    MUST_EQ(gs_thread_spawn(&last, close_it, NULL, &closing), 0);
    join(closing);
    MUST_EQ(gs_thread_join(waiting, GS_NEVER, &result), 0);
    check_result((intptr_t)result);
    if (!way->reaches)
        check_untouched(call->kind);
    close_all();
}

THREAD(check_table)
{
    file = memfd_create("file", MFD_CLOEXEC);
    MUST_EQ(write(file, "contents of a file", 18), 18);
    for (call = waiting_calls; call < waiting_calls + sizeof waiting_calls / sizeof *waiting_calls;
         call++)
        for (way = ways; way < ways + sizeof ways / sizeof *ways; way++)
            check_cell();
    close(file);
}

TEST(call_that_waits_notices_that_its_number_is_another_files)
{
    run_unwatched(1, check_table);
}

TEST(call_notices_what_another_worker_does)
{
    run_unwatched(2, check_table);
}

static void *close_other_end(void *unused)
{
    MUST_EQ(gs_close(fds[1]), 0);
    return unused;
}

THREAD(close_at_the_end_of_file)
{
    char byte;
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    struct gs_thread *thread = spawn(close_other_end, NULL);
    MUST_EQ(gs_recv(fds[0], &byte, 1, 0, GS_NEVER), 0);
    join(thread);
    struct descriptor *descriptor = gs_descriptor(fds[0]);
    MUST(atomic_load(&descriptor->is_hung_up));
    MUST_EQ(gs_close(fds[0]), 0);
    MUST(!atomic_load(&descriptor->is_hung_up));
}

TEST(end_of_a_file_is_forgotten_when_its_number_is_closed)
{
    run_unwatched(1, close_at_the_end_of_file);
}
