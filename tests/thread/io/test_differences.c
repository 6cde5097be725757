/* What differs from the system calls, or may be expected to, as far as no other test shows it. Each
 * test is a row of the table in gossamer-io(7). */
#include "tests/thread/io/connection.h"
#include "tests/thread/report/report.h"

#include <gossamer/net.h>
#include <linux/openat2.h>
#include <pty.h>

static int ends[2];
static char bytes[4 << 20];

static void make_pair(int flags)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, ends), 0);
}

static void close_pair(void)
{
    MUST_EQ(gs_close(ends[0]), 0);
    MUST_EQ(gs_close(ends[1]), 0);
}

/* ---- Waiting ---- */

static void receive_in_vain(uint64_t deadline_ns)
{
    int flags = fcntl(ends[0], F_GETFL);
    MUST_EQ(gs_recv(ends[0], bytes, 1, 0, deadline_ns), -ETIMEDOUT);
    MUST_EQ(gs_read(ends[0], bytes, 1, deadline_ns), -ETIMEDOUT);
    MUST_EQ(fcntl(ends[0], F_GETFL), flags);
}

THREAD_TEST(call_waits_and_times_out_whether_or_not_the_descriptor_is_non_blocking, run_both)
{
    for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
        make_pair(flags);
        receive_in_vain(0);
        receive_in_vain(after(GS_MILLISECOND));
        close_pair();
        MUST_EQ(pipe2(ends, O_CLOEXEC | (flags ? O_NONBLOCK : 0)), 0);
        MUST_EQ(gs_read(ends[0], bytes, 1, 0), -ETIMEDOUT);
        MUST_EQ(gs_read(ends[0], bytes, 1, after(GS_MILLISECOND)), -ETIMEDOUT);
        close_pair();
    }
}

static void check_mode(int fd, bool is_nonblocking)
{
    MUST(fd >= 0);
    MUST_EQ(!(fcntl(fd, F_GETFL) & O_NONBLOCK), !is_nonblocking);
    MUST_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

THREAD_TEST(sockets_created_by_a_call_are_non_blocking_and_opened_files_are_as_requested, run_both)
{
    struct sockaddr_in address;
    char text[32];
    int listener = listen_anywhere(&address);
    snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(address.sin_port));
    int dialed = gs_dial(text, GS_NEVER);
    check_mode(dialed, true);
    ours = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    check_mode(ours, true);
    for (unsigned flags = 0; flags <= O_NONBLOCK; flags += O_NONBLOCK) {
        const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | flags};
        int file = gs_open(AT_FDCWD, "/dev/null", &how, GS_NEVER);
        check_mode(file, flags);
        gs_close(file);
    }
    gs_close(listener);
    gs_close(dialed);
    gs_close(ours);
}

THREAD_TEST(timeouts_of_a_socket_have_no_effect, run_both)
{
    const struct timeval soon = {.tv_usec = 1000};
    struct sockaddr_in address;
    int listener = listen_anywhere(&address);
    MUST_EQ(fcntl(listener, F_SETFL, 0), 0);
    make_pair(0);
    int all[] = {listener, ends[0]};
    for (int i = 0; i < 2; i++) {
        MUST_EQ(setsockopt(all[i], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon), 0);
        MUST_EQ(setsockopt(all[i], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon), 0);
    }
    MUST_EQ(gs_recv(ends[0], bytes, 1, 0, after(5 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_accept(listener, NULL, NULL, 0, after(5 * GS_MILLISECOND)), -ETIMEDOUT);
    ssize_t n;
    while ((n = gs_send(ends[0], bytes, sizeof bytes, 0, after(5 * GS_MILLISECOND))) > 0)
        ;
    MUST_EQ(n, -ETIMEDOUT);
    close_pair();
    gs_close(listener);
}

/* The kernel goes on, as a further call finds. */
THREAD_TEST(connection_that_has_timed_out_is_still_being_established, run_both)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int sockets[4];
    for (int i = 0; i < 4; i++)
        MUST((sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) >= 0);
    MUST_EQ(bind(sockets[0], (struct sockaddr *)&address, length), 0);
    MUST_EQ(listen(sockets[0], 0), 0);
    MUST_EQ(getsockname(sockets[0], (struct sockaddr *)&address, &length), 0);
    for (int i = 1; i < 3; i++) /* they fill the accept queue */
        (void)!connect(sockets[i], (struct sockaddr *)&address, length);
    const struct sockaddr *to = (struct sockaddr *)&address;
    MUST_EQ(gs_connect(sockets[3], to, length, after(5 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_connect(sockets[3], to, length, GS_NEVER), -EALREADY);
    for (int i = 0; i < 4; i++)
        gs_close(sockets[i]);
}

/* ---- Parts ---- */

THREAD(receive_everything)
{
    static char received[1 << 16];
    size_t n = 0;
    while (n < sizeof bytes) {
        ssize_t some = gs_recv(ends[1], received, sizeof received, 0, GS_NEVER);
        MUST(some > 0);
        n += (size_t)some;
    }
}

/* Where the system call returns when everything was taken. */
THREAD_TEST(send_and_write_return_when_a_part_was_taken, run_both)
{
    make_pair(0);
    ssize_t n = gs_send(ends[0], bytes, sizeof bytes, 0, GS_NEVER);
    MUST(n > 0 && n < (ssize_t)sizeof bytes);
    close_pair();
    make_pair(0);
    struct gs_thread *receiver = spawn(receive_everything, NULL);
    MUST_EQ(gs_send_all(ends[0], bytes, sizeof bytes, GS_NEVER), sizeof bytes);
    join(receiver);
    close_pair();
    MUST_EQ(pipe2(ends, O_CLOEXEC), 0);
    n = gs_write(ends[1], bytes, sizeof bytes, GS_NEVER);
    MUST(n > 0 && n < (ssize_t)sizeof bytes);
    close_pair();
}

THREAD_TEST(sendfile_sends_a_mebibyte_at_most, run_both)
{
    off_t offset = 0;
    int from = memfd_create("from", MFD_CLOEXEC), to = memfd_create("to", MFD_CLOEXEC);
    MUST_EQ(ftruncate(from, 3 << 20), 0);
    MUST_EQ(gs_sendfile(to, from, &offset, 3 << 20, GS_NEVER), 1 << 20);
    MUST_EQ(offset, 1 << 20);
    gs_close(from);
    gs_close(to);
}

/* ---- Files that are never in memory ---- */

static long find_no_memory(long number, void *unused)
{
    (void)unused;
    return number == SYS_preadv2 || number == SYS_pwritev2 ? -EAGAIN : 0;
}

THREAD(use_file_at_once)
{
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    struct stat stat;
    int file = memfd_create("file", MFD_CLOEXEC);
    MUST_EQ(gs_pwrite(file, "x", 1, 0, 0), -ETIMEDOUT);
    MUST_EQ(gs_pread(file, bytes, 1, 0, 0), -ETIMEDOUT);
    MUST_EQ(gs_read(file, bytes, 1, 0), -ETIMEDOUT);
    MUST_EQ(gs_fsync(file, 0), -ETIMEDOUT);
    MUST_EQ(gs_open(AT_FDCWD, "/dev/null", &how, 0), -ETIMEDOUT);
    MUST_EQ(gs_stat(AT_FDCWD, "/", &stat, 0), -ETIMEDOUT);
    gs_close(file);
}

TEST(file_that_is_not_in_memory_is_a_timeout_with_the_deadline_0)
{
    gs_sys_set_fault(find_no_memory, NULL);
    run_both(use_file_at_once);
    gs_sys_set_fault(NULL, NULL);
}

static void read_in_blocking_mode(void *ret_n)
{
    *(ssize_t *)ret_n = read(ends[0], bytes, 1);
}

static void *write_one(void *unused)
{
    MUST_EQ(gs_write(ends[1], "x", 1, GS_NEVER), 1);
    return unused;
}

/* Any other system call; in the worker, it would wait for ever. */
THREAD_TEST(call_of_the_pool_blocks_no_other_thread, run_on_one)
{
    ssize_t n = -1;
    MUST_EQ(pipe2(ends, O_CLOEXEC), 0);
    struct gs_thread *writer = spawn(write_one, NULL);
    MUST_EQ(gs_run_blocking(read_in_blocking_mode, &n, GS_NEVER), 0);
    MUST_EQ(n, 1);
    join(writer);
    close_pair();
}

/* ---- Polling ---- */

THREAD_TEST(poll_finds_files_always_ready_and_negative_descriptors_never, run_both)
{
    int file = memfd_create("file", MFD_CLOEXEC), closed = dup(file);
    struct gs_poll polls[] = {{.fd = file, .events = GS_READ | GS_WRITE},
                              {.fd = closed, .events = GS_READ}};
    MUST_EQ(close(closed), 0);
    MUST_EQ(gs_poll(polls, 2, GS_NEVER), 2);
    MUST_EQ(polls[0].revents, GS_READ | GS_WRITE);
    MUST_EQ(polls[1].revents, GS_READ);
    polls[1].fd = -1;
    MUST_EQ(gs_poll(polls, 2, GS_NEVER), 1);
    MUST_EQ(polls[1].revents, 0);
    MUST_EQ(gs_poll(&polls[1], 1, after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_poll(polls, 0, after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_wait_readable(file, GS_NEVER), 0);
    MUST_EQ(gs_wait_writable(file, GS_NEVER), 0);
    gs_close(file);
}

THREAD_TEST(poll_reports_a_hang_up_as_the_events_that_were_asked_for, run_both)
{
    make_pair(0);
    struct gs_poll poll = {.fd = ends[0], .events = GS_READ};
    MUST_EQ(gs_poll(&poll, 1, after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_close(ends[1]), 0);
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    MUST_EQ(poll.revents, GS_READ);
    poll.events = GS_READ | GS_WRITE;
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    MUST_EQ(poll.revents, GS_READ | GS_WRITE);
    gs_close(ends[0]);
}

/* ---- Shared open files ---- */

static void *receive_byte(void *fd)
{
    char byte;
    return (void *)gs_recv((int)(intptr_t)fd, &byte, 1, 0, after(30 * GS_SECOND));
}

THREAD_TEST(close_ends_no_wait_for_a_duplicate, run_both)
{
    make_pair(0);
    int copy = dup(ends[0]);
    struct gs_thread *first = spawn(receive_byte, (void *)(intptr_t)ends[0]);
    struct gs_thread *second = spawn(receive_byte, (void *)(intptr_t)copy);
    MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    MUST_EQ(gs_close(ends[0]), 0);
    MUST_EQ((intptr_t)join(first), -EBADF);
    MUST_EQ(gs_send(ends[1], "x", 1, 0, GS_NEVER), 1);
    MUST_EQ((intptr_t)join(second), 1);
    MUST_EQ(shutdown(copy, SHUT_RD), 0);
    MUST_EQ((intptr_t)receive_byte((void *)(intptr_t)copy), 0);
    gs_close(copy);
    gs_close(ends[1]);
}

/* ---- Signals ---- */

static atomic_uint handled;
static atomic_bool is_over;

static void handle(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

/* A kernel thread. */
static void *interrupt_all(void *unused)
{
    while (!atomic_load(&is_over)) {
        kill(getpid(), SIGUSR1);
        usleep(100);
    }
    return unused;
}

static void *write_after_signals(void *unused)
{
    unsigned before = atomic_load(&handled);
    while (atomic_load(&handled) < before + 20)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_write(ends[1], "x", 1, GS_NEVER), 1);
    return unused;
}

static void wait_for_byte(void)
{
    struct gs_poll poll = {.fd = ends[0], .events = GS_READ};
    struct gs_thread *writer = spawn(write_after_signals, NULL);
    MUST_EQ(gs_wait_readable(ends[0], GS_NEVER), 0);
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    MUST_EQ(gs_read(ends[0], bytes, 1, GS_NEVER), 1);
    join(writer);
    writer = spawn(write_after_signals, NULL);
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    join(writer);
    writer = spawn(write_after_signals, NULL);
    MUST_EQ(gs_read(ends[0], bytes, 1, GS_NEVER), 1);
    MUST_EQ(gs_read(ends[0], bytes, 1, GS_NEVER), 1);
    join(writer);
}

static void block_until_signals(void *unused)
{
    (void)unused;
    unsigned before = atomic_load(&handled);
    while (atomic_load(&handled) < before + 20)
        usleep(1000);
}

/* The calls that wait in the worker, of terminals, and of the pool. */
THREAD(wait_during_signals)
{
    int status = -1;
    make_pair(0);
    wait_for_byte();
    close_pair();
    MUST_EQ(openpty(&ends[1], &ends[0], NULL, NULL, NULL), 0);
    close_pair();
    MUST_EQ(pipe2(ends, O_CLOEXEC), 0);
    wait_for_byte();
    close_pair();
    MUST_EQ(gs_run_blocking(block_until_signals, NULL, GS_NEVER), 0);
    pid_t pid = fork();
    if (!pid) {
        usleep(20000);
        _exit(0);
    }
    MUST_EQ(gs_wait_child(pid, GS_NEVER, &status), 0);
    atomic_store(&is_over, true);
}

static void run_during_signals(void)
{
    const struct sigaction action = {.sa_handler = handle}; /* without SA_RESTART */
    pthread_t thread;
    MUST_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    MUST_EQ(pthread_create(&thread, NULL, interrupt_all, NULL), 0);
    run_reporting(1, wait_during_signals, 0);
    MUST_EQ(pthread_join(thread, NULL), 0);
}

TEST(signals_that_are_handled_end_no_call)
{
    CHECK_EQ(in_child(run_during_signals), 0);
}

THREAD(be_signaled_between_waits)
{
    MUST_EQ(gs_wait_signal(SIGUSR1, after(GS_MILLISECOND)), -ETIMEDOUT);
    kill(getpid(), SIGUSR1);
    MUST_EQ(gs_wait_signal(SIGUSR1, after(10 * GS_SECOND)), -ETIMEDOUT);
}

static void run_between_waits(void)
{
    run_reporting(1, be_signaled_between_waits, 0);
}

/* gs_wait_signals, for which it is blocked, finds it later. */
TEST(signal_between_two_waits_has_its_default_action)
{
    int status = in_child(run_between_waits);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGUSR1);
}

static const struct sending {
    const char *name;
    ssize_t (*send)(int fd);
    bool raises;
} *sending;

static ssize_t by_send(int fd)
{
    return gs_send(fd, "x", 1, 0, GS_NEVER);
}

static ssize_t by_send_all(int fd)
{
    return gs_send_all(fd, "x", 1, GS_NEVER);
}

static ssize_t by_sendto(int fd)
{
    return gs_sendto(fd, "x", 1, 0, NULL, 0, GS_NEVER);
}

static ssize_t by_write(int fd)
{
    return gs_write(fd, "x", 1, GS_NEVER);
}

static ssize_t by_sendfile(int fd)
{
    off_t offset = 0;
    int file = memfd_create("file", MFD_CLOEXEC);
    MUST_EQ(write(file, "x", 1), 1);
    return gs_sendfile(fd, file, &offset, 1, GS_NEVER);
}

THREAD(send_to_nobody)
{
    make_pair(0);
    MUST_EQ(gs_close(ends[1]), 0);
    MUST_EQ(sending->send(ends[0]), -EPIPE);
    gs_close(ends[0]);
}

static void run_sending(void)
{
    MUST(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    run_reporting(1, send_to_nobody, 0);
}

TEST(sends_raise_no_signal_where_nobody_receives_and_writes_do)
{
    static const struct sending each[] = {{"gs_send", by_send, false},
                                          {"gs_send_all", by_send_all, false},
                                          {"gs_sendto", by_sendto, false},
                                          {"gs_write", by_write, true},
                                          {"gs_sendfile", by_sendfile, true}};
    for (sending = each; sending < each + sizeof each / sizeof *each; sending++) {
        int status = in_child(run_sending);
        bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE;
        if (sending->raises ? !is_killed : status)
            TEST_FAIL("%s: status %d", sending->name, status);
    }
}

/* ---- Terminals ---- */

static int terminal;

THREAD(read_in_background)
{
    MUST_EQ(gs_read(terminal, bytes, 1, GS_NEVER), 1);
}

/* The leader of a session has a job in the background, whose call is to stop it: not at once, as by
 * the system call, but when there is a line. */
static void lead_session(void)
{
    int master, status = 0;
    MUST(setsid() > 0);
    MUST_EQ(openpty(&master, &terminal, NULL, NULL, NULL), 0);
    MUST_EQ(ioctl(terminal, TIOCSCTTY, 0), 0);
    pid_t job = fork();
    if (!job) {
        MUST_EQ(setpgid(0, 0), 0);
        run_reporting(1, read_in_background, 0);
        _exit(0);
    }
    MUST_EQ(write(master, "line\n", 5), 5);
    MUST_EQ(waitpid(job, &status, WUNTRACED), job);
    MUST(WIFSTOPPED(status));
    MUST_EQ(WSTOPSIG(status), SIGTTIN);
    kill(job, SIGKILL);
    MUST_EQ(waitpid(job, &status, 0), job);
}

TEST(job_in_the_background_that_reads_a_line_of_its_terminal_stops)
{
    if (IS_EMULATED)
        SKIP("an emulator is too slow for calls that a timer interrupts");
    CHECK_EQ(in_child(lead_session), 0);
}
