#include "tests/thread/fixture.h"

#include <linux/openat2.h>

enum { CLIENTS = 40, ROUNDS = 30 };

static struct sockaddr_in address;
static int listener;

static void bind_anywhere(void)
{
    socklen_t length = sizeof address;
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(listener >= 0);
    MUST_EQ(gs_sys_bind(listener, (struct sockaddr *)&address, length), 0);
    MUST_EQ(gs_sys_getsockname(listener, (struct sockaddr *)&address, &length), 0);
}

static void listen_anywhere(void)
{
    bind_anywhere();
    MUST_EQ(gs_sys_listen(listener, 128), 0);
}

static void *echo(void *fd)
{
    char bytes[64];
    ssize_t n;
    while ((n = gs_recv((int)(intptr_t)fd, bytes, sizeof bytes, 0, after(20 * GS_SECOND))) > 0)
        MUST_EQ(gs_send_all((int)(intptr_t)fd, bytes, (size_t)n, GS_NEVER), n);
    MUST_EQ(n, 0);
    MUST_EQ(gs_close((int)(intptr_t)fd), 0);
    return NULL;
}

THREAD(accept_all)
{
    for (int i = 0; i < CLIENTS; i++) {
        const struct gs_thread_attributes attributes = {.migrates = i % 2};
        int fd = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
        MUST(fd >= 0);
        MUST_EQ(gs_thread_spawn(&attributes, echo, (void *)(intptr_t)fd, NULL), 0);
    }
}

static int connect_to(void)
{
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(fd >= 0);
    MUST_EQ(gs_connect(fd, (struct sockaddr *)&address, sizeof address, after(20 * GS_SECOND)), 0);
    return fd;
}

static void *exchange_messages(void *number)
{
    int fd = connect_to();
    for (int i = 0; i < ROUNDS; i++) {
        char sent[64], got[64];
        int n = snprintf(sent, sizeof sent, "%d from %d", i, (int)(intptr_t)number), count = 0;
        MUST_EQ(gs_send_all(fd, sent, (size_t)n, GS_NEVER), n);
        while (count < n) {
            ssize_t some =
                gs_recv(fd, got + count, sizeof got - (size_t)count, 0, after(20 * GS_SECOND));
            MUST(some > 0);
            count += (int)some;
        }
        MUST(count == n && !memcmp(sent, got, (size_t)n));
    }
    MUST_EQ(gs_close(fd), 0);
    return NULL;
}

THREAD_TEST(every_client_of_an_echo_server_gets_its_own_bytes, run_both)
{
    struct gs_thread *clients[CLIENTS];
    listen_anywhere();
    struct gs_thread *acceptor = spawn(accept_all, NULL);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = spawn(exchange_messages, (void *)(intptr_t)i);
    for (int i = 0; i < CLIENTS; i++)
        join(clients[i]);
    join(acceptor);
    MUST_EQ(gs_accept(listener, NULL, NULL, 0, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_accept(listener, NULL, NULL, 0, 0), -ETIMEDOUT);
    gs_close(listener);
}

static void must_receive(int fd, const char *text)
{
    char got[64];
    size_t length = strlen(text), count = 0;
    while (count < length) {
        ssize_t n = gs_recv(fd, got + count, length - count, 0, after(20 * GS_SECOND));
        MUST(n > 0);
        count += (size_t)n;
    }
    MUST(!memcmp(got, text, length));
}

THREAD_TEST(what_comes_behind_urgent_data_is_received_at_once, run_both)
{
    listen_anywhere();
    int fd = connect_to(), other = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    struct gs_thread *server = spawn(echo, (void *)(intptr_t)other);
    MUST_EQ(gs_send_all(fd, "first", 5, GS_NEVER), 5);
    must_receive(fd, "first");
    MUST_EQ(gs_sys_send(fd, "in front", 8, 0), 8);
    MUST_EQ(gs_sys_send(fd, "!", 1, MSG_OOB), 1);
    MUST_EQ(gs_sys_send(fd, "behind", 6, 0), 6);
    must_receive(fd, "in frontbehind");
    gs_close(fd);
    join(server);
    gs_close(listener);
}

THREAD_TEST(refused_connection_is_returned, run_both)
{
    bind_anywhere(); /* nobody else can listen there */
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST_EQ(gs_connect(fd, (struct sockaddr *)&address, sizeof address, GS_NEVER), -ECONNREFUSED);
    gs_close(fd);
    gs_close(listener);
}

static int pair[2];

static void *read_byte(void *fd)
{
    char byte = 0;
    ssize_t n = gs_read(*(int *)fd, &byte, 1, after(20 * GS_SECOND));
    return (void *)(n == 1 ? (intptr_t)byte : (intptr_t)n);
}

THREAD_TEST(pipe_blocks_the_thread_and_stays_a_blocking_pipe, run_both)
{
    char byte;
    MUST_EQ(gs_sys_pipe2(pair, O_CLOEXEC), 0);
    MUST_EQ(gs_read(pair[0], &byte, 1, 0), -ETIMEDOUT);
    MUST_EQ(gs_read(pair[0], &byte, 1, after(GS_MILLISECOND)), -ETIMEDOUT);
    struct gs_thread *reader = spawn(read_byte, &pair[0]);
    gs_thread_yield();
    MUST_EQ(gs_write(pair[1], "x", 1, GS_NEVER), 1);
    MUST_EQ((intptr_t)join(reader), 'x');
    MUST_EQ(gs_sys_fcntl(pair[0], F_GETFL, 0) & O_NONBLOCK, 0);
    gs_close(pair[1]);
    MUST_EQ(gs_read(pair[0], &byte, 1, GS_NEVER), 0);
    gs_close(pair[0]);
}

static void *fill_pipe(void *total)
{
    static const char bytes[5000];
    for (size_t sent = 0; sent < *(size_t *)total;) {
        const struct iovec parts[] = {{(void *)bytes, 2000}, {(void *)bytes, 3000}};
        ssize_t n = gs_writev(pair[1], parts, 2, GS_NEVER);
        MUST(n > 0);
        sent += (size_t)n;
    }
    gs_close(pair[1]);
    return NULL;
}

THREAD_TEST(writer_waits_for_room, run_both)
{
    char bytes[777];
    size_t total = 500000, got = 0;
    ssize_t n;
    MUST_EQ(gs_sys_pipe2(pair, O_CLOEXEC), 0);
    struct gs_thread *writer = spawn(fill_pipe, &total);
    while ((n = gs_read(pair[0], bytes, sizeof bytes, GS_NEVER)) > 0)
        got += (size_t)n;
    join(writer);
    MUST(got >= total && got < total + 5000);
    gs_close(pair[0]);
}

/* ---- Files without calls that do not wait ---- */

static int refusals;

/* As if another thread had been faster, and then as if a signal had arrived. */
static long refuse_first_calls(long number, void *data)
{
    (void)data;
    if (number == SYS_preadv2 || number == SYS_pwritev2)
        return -EOPNOTSUPP;
    if ((number != SYS_readv && number != SYS_writev) || refusals == 2)
        return 0;
    return refusals++ ? -EINTR : -EAGAIN;
}

THREAD_TEST(ready_file_that_would_block_is_waited_for_again, run_on_one)
{
    int ends[2];
    char byte = 0;
    MUST_EQ(gs_sys_pipe2(ends, O_CLOEXEC), 0);
    gs_sys_set_fault(refuse_first_calls, NULL);
    refusals = 0;
    MUST_EQ(gs_write(ends[1], "x", 1, after(20 * GS_SECOND)), 1);
    MUST_EQ(refusals, 2);
    refusals = 0;
    MUST_EQ(gs_read(ends[0], &byte, 1, after(20 * GS_SECOND)), 1);
    MUST_EQ(refusals, 2);
    MUST_EQ(gs_read(ends[0], &byte, 1, 0), -ETIMEDOUT);
    gs_sys_set_fault(NULL, NULL);
    gs_close(ends[0]);
    gs_close(ends[1]);
}

THREAD(close_under_reader)
{
    MUST_EQ(gs_sys_pipe2(pair, O_CLOEXEC), 0);
    struct gs_thread *reader = spawn(read_byte, &pair[0]);
    MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    int fd = pair[0];
    MUST_EQ(gs_close(fd), 0);
    MUST_EQ((intptr_t)join(reader), -EBADF);
    gs_close(pair[1]);
    /* The descriptor number refers to another file now. */
    MUST_EQ(gs_sys_pipe2(pair, O_CLOEXEC), 0);
    MUST_EQ(pair[0], fd);
    reader = spawn(read_byte, &pair[0]);
    MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    MUST_EQ(gs_write(pair[1], "y", 1, GS_NEVER), 1);
    MUST_EQ((intptr_t)join(reader), 'y');
    gs_close(pair[0]);
    gs_close(pair[1]);
}

TEST(close_wakes_readers_and_the_number_can_be_used_again)
{
    run_unwatched(1, close_under_reader);
    run_unwatched(3, close_under_reader);
}

static void *write_later(void *fd)
{
    MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    MUST_EQ(gs_write(*(int *)fd, "z", 1, GS_NEVER), 1);
    return NULL;
}

THREAD_TEST(poll_returns_which_descriptors_are_ready, run_both)
{
    int fds[6][2];
    struct gs_poll polls[6];
    char byte;
    for (int i = 0; i < 6; i++) {
        MUST_EQ(gs_sys_pipe2(fds[i], O_CLOEXEC), 0);
        polls[i] = (struct gs_poll){.fd = fds[i][0], .events = GS_READ};
    }
    MUST_EQ(gs_poll(polls, 6, 0), 0);
    MUST_EQ(gs_poll(polls, 6, after(GS_MILLISECOND)), 0);
    for (int i = 0; i < 6; i++) {
        struct gs_thread *writer = spawn(write_later, &fds[i][1]);
        MUST_EQ(gs_poll(polls, 6, GS_NEVER), 1);
        MUST_EQ(polls[i].revents, GS_READ);
        MUST_EQ(gs_read(fds[i][0], &byte, 1, 0), 1);
        join(writer);
    }
    polls[2] = (struct gs_poll){.fd = fds[2][1], .events = GS_READ | GS_WRITE};
    MUST_EQ(gs_poll(polls, 6, GS_NEVER), 1);
    MUST_EQ(polls[2].revents, GS_WRITE);
    for (int i = 0; i < 12; i++)
        gs_close(fds[i / 2][i % 2]);
}

/* As by signals that the kernel thread gets. */
static long fail_first_polls(long number, void *left)
{
    return number == SYS_ppoll && gs_thread_self() && (*(int *)left)-- > 0 ? -EINTR : 0;
}

static void *poll_interrupted(void *left)
{
    int fds[2];
    MUST_EQ(gs_sys_pipe2(fds, O_CLOEXEC), 0);
    struct gs_poll poll = {.fd = fds[1], .events = GS_WRITE};
    gs_sys_set_fault(fail_first_polls, left);
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    gs_sys_set_fault(NULL, NULL);
    gs_close(fds[0]);
    gs_close(fds[1]);
    return left;
}

TEST(signals_do_not_end_a_poll)
{
    int left = 2;
    MUST_EQ(gs_threads_run(NULL, poll_interrupted, &left, NULL), 0);
    CHECK_EQ(left, -1);
}

struct interruptible {
    struct gs_interrupt interrupt;
    struct gs_poll polls[5];
};

static void *poll_interruptible(void *argument)
{
    struct interruptible *poll = argument;
    return (void *)(intptr_t)gs_poll_interruptible(poll->polls, 5, GS_NEVER, &poll->interrupt);
}

THREAD_TEST(interrupt_ends_a_poll_that_waits_or_begins_to_wait, run_both)
{
    int fds[2];
    struct interruptible poll = {0};
    MUST_EQ(gs_sys_pipe2(fds, O_CLOEXEC), 0);
    for (int i = 0; i < 5; i++)
        poll.polls[i] = (struct gs_poll){.fd = fds[0], .events = GS_READ};
    for (int i = 0; i < 200; i++) {
        struct gs_thread *polling = spawn(poll_interruptible, &poll);
        for (int turn = 0; turn < i % 3; turn++)
            gs_thread_yield();
        gs_interrupt(&poll.interrupt);
        MUST_EQ((intptr_t)join(polling), -EINTR);
    }
    gs_interrupt(&poll.interrupt);
    gs_interrupt(&poll.interrupt);
    MUST_EQ((intptr_t)poll_interruptible(&poll), -EINTR);
    struct gs_thread *writer = spawn(write_later, &fds[1]);
    MUST_EQ((intptr_t)poll_interruptible(&poll), 5);
    join(writer);
    gs_close(fds[0]);
    gs_close(fds[1]);
}

THREAD_TEST(files_are_read_and_written, run_both)
{
    char path[] = "/tmp/gossamer-test-XXXXXX", bytes[8] = {0};
    const struct open_how how = {.flags = O_RDWR | O_CLOEXEC};
    struct stat stat;
    off_t offset = 1;
    close(mkstemp(path));
    int fd = gs_open(AT_FDCWD, path, &how, GS_NEVER);
    MUST(fd >= 0);
    MUST_EQ(gs_write(fd, "hello", 5, GS_NEVER), 5);
    MUST_EQ(gs_pwrite(fd, "J", 1, 0, GS_NEVER), 1);
    MUST_EQ(gs_fsync(fd, GS_NEVER), 0);
    MUST_EQ(gs_pread(fd, bytes, sizeof bytes, 1, GS_NEVER), 4);
    MUST(!strcmp(bytes, "ello"));
    MUST_EQ(gs_stat(AT_FDCWD, path, &stat, GS_NEVER), 0);
    MUST_EQ(stat.st_size, 5);
    int pair_fds[2];
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair_fds), 0);
    MUST_EQ(gs_sendfile(pair_fds[0], fd, &offset, 3, GS_NEVER), 3);
    MUST_EQ(offset, 4);
    MUST_EQ(gs_recv(pair_fds[1], bytes, sizeof bytes, 0, GS_NEVER), 3);
    MUST(!memcmp(bytes, "ell", 3));
    gs_close(pair_fds[0]);
    gs_close(pair_fds[1]);
    gs_close(fd);
    unlink(path);
    MUST_EQ(gs_open(AT_FDCWD, path, &how, GS_NEVER), -ENOENT);
}

THREAD(wait_for_child)
{
    int status = -1;
    pid_t pid = fork();
    if (!pid)
        _exit(7);
    MUST_EQ(gs_wait_child(pid, after(20 * GS_SECOND), &status), 0);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    MUST_EQ(gs_wait_child(pid, GS_NEVER, &status), -ECHILD);
}

TEST(end_of_a_child_is_waited_for)
{
    run_unwatched(1, wait_for_child); /* the fork is that of a process with one kernel thread */
}

static atomic_bool has_received;

/* Signals that arrive before or after the wait are ignored, so they are raised repeatedly. */
THREAD(raise_until_received)
{
    while (!atomic_load(&has_received)) {
        MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
        kill(getpid(), SIGUSR1);
    }
}

THREAD_TEST(signal_is_waited_for, run_both)
{
    atomic_store(&has_received, false);
    MUST(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    MUST_EQ(gs_wait_signal(SIGUSR1, after(GS_MILLISECOND)), -ETIMEDOUT);
    struct gs_thread *thread = spawn(raise_until_received, NULL);
    MUST_EQ(gs_wait_signal(SIGUSR1, GS_NEVER), 0);
    atomic_store(&has_received, true);
    join(thread);
}
