/* Durations that are given as deadlines. */
#include "tests/thread/checked/misuse.h"

#include <fcntl.h>
#include <gossamer/buffered.h>
#include <gossamer/net.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define SPAN (5 * GS_SECOND)

/* What is found depends on how long the machine has run. */
#define SKIP_AFTER_BOOT                                                                            \
    do {                                                                                           \
        if (gs_clock_now() < 4 * SPAN)                                                             \
            SKIP("the machine was booted less than 20 s ago");                                     \
    } while (0)

static struct gs_thread *other;
static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;
static struct gs_semaphore semaphore = {.count = 1};
static struct gs_barrier barrier = {.threads = 1};
static struct gs_wait_group group;
static struct gs_channel *channel;
static int fds[2];
static char byte;
static struct iovec part = {.iov_base = &byte, .iov_len = 1};
static struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

static void run_nothing(void *unused)
{
    (void)unused;
}

static ssize_t receive_nothing(void *unused, const void *bytes, size_t n)
{
    (void)unused, (void)bytes;
    return (ssize_t)n;
}

static long join_other(void)
{
    return gs_thread_join(other, SPAN, NULL);
}

static long sleep_for_span(void)
{
    return gs_thread_sleep(SPAN);
}

static long park(void)
{
    return gs_thread_park(SPAN);
}

static long lock_mutex(void)
{
    return gs_mutex_lock(&mutex, SPAN);
}

static long wait_for_cond(void)
{
    return gs_cond_wait(&cond, NULL, SPAN);
}

static long lock_as_reader(void)
{
    return gs_rwlock_rdlock(&rwlock, SPAN);
}

static long lock_as_writer(void)
{
    return gs_rwlock_wrlock(&rwlock, SPAN);
}

static long wait_for_semaphore(void)
{
    return gs_semaphore_wait(&semaphore, SPAN);
}

static long wait_at_barrier(void)
{
    return gs_barrier_wait(&barrier, SPAN);
}

static long wait_for_group(void)
{
    return gs_wait_group_wait(&group, SPAN);
}

static long send_to_channel(void)
{
    return gs_channel_send(channel, &byte, SPAN);
}

static long receive_from_channel(void)
{
    return gs_channel_receive(channel, &byte, SPAN);
}

static long select_channel(void)
{
    struct gs_select cases[] = {{.channel = channel, .receive = &byte}};
    return gs_select(cases, 1, SPAN);
}

static long wait_readable(void)
{
    return gs_wait_readable(fds[0], SPAN);
}

static long wait_writable(void)
{
    return gs_wait_writable(fds[0], SPAN);
}

static long poll_both(void)
{
    struct gs_poll polls[] = {{.fd = fds[0], .events = GS_READ}};
    return gs_poll(polls, 1, SPAN);
}

static long receive(void)
{
    return gs_recv(fds[0], &byte, 1, 0, SPAN);
}

static long send_byte(void)
{
    return gs_send(fds[0], &byte, 1, 0, SPAN);
}

static long send_all(void)
{
    return gs_send_all(fds[0], &byte, 1, SPAN);
}

static long receive_with(void)
{
    return gs_recv_with(fds[0], receive_nothing, NULL, SPAN);
}

static long receive_message(void)
{
    return gs_recvmsg(fds[0], &message, 0, SPAN);
}

static long send_message(void)
{
    return gs_sendmsg(fds[0], &message, 0, SPAN);
}

static long accept_one(void)
{
    return gs_accept(fds[0], NULL, NULL, 0, SPAN);
}

static long connect_one(void)
{
    const struct sockaddr address = {.sa_family = AF_UNIX};
    return gs_connect(fds[0], &address, sizeof address, SPAN);
}

static long read_byte(void)
{
    return gs_read(fds[0], &byte, 1, SPAN);
}

static long write_byte(void)
{
    return gs_write(fds[0], &byte, 1, SPAN);
}

static long read_parts(void)
{
    return gs_readv(fds[0], &part, 1, SPAN);
}

static long write_parts(void)
{
    return gs_writev(fds[0], &part, 1, SPAN);
}

static long send_file(void)
{
    off_t offset = 0;
    return gs_sendfile(fds[0], fds[1], &offset, 1, SPAN);
}

static long open_file(void)
{
    const struct open_how how = {.flags = 0};
    return gs_open(AT_FDCWD, "/", &how, SPAN);
}

static long read_at(void)
{
    return gs_pread(fds[0], &byte, 1, 0, SPAN);
}

static long write_at(void)
{
    return gs_pwrite(fds[0], &byte, 1, 0, SPAN);
}

static long sync_file(void)
{
    return gs_fsync(fds[0], SPAN);
}

static long stat_file(void)
{
    struct stat status;
    return gs_stat(AT_FDCWD, "/", &status, SPAN);
}

static long resolve(void)
{
    struct addrinfo *addresses;
    return gs_resolve("127.0.0.1", NULL, NULL, SPAN, &addresses);
}

static long run_blocking(void)
{
    return gs_run_blocking(run_nothing, NULL, SPAN);
}

static long wait_for_child(void)
{
    int status;
    return gs_wait_child(getpid(), SPAN, &status);
}

static long wait_for_signal(void)
{
    return gs_wait_signal(SIGUSR1, SPAN);
}

static long receive_from(void)
{
    return gs_recvfrom(fds[0], &byte, 1, 0, NULL, NULL, SPAN);
}

static long send_to(void)
{
    return gs_sendto(fds[0], &byte, 1, 0, NULL, 0, SPAN);
}

static long dial(void)
{
    return gs_dial("127.0.0.1:80", SPAN);
}

static char buffer[100];

static struct gs_reader *new_reader(void)
{
    static struct gs_reader reader;
    MUST_EQ(gs_reader_init(&reader, fds[0], buffer, sizeof buffer), 0);
    return &reader;
}

static struct gs_writer *new_writer(void)
{
    static struct gs_writer writer;
    MUST_EQ(gs_writer_init(&writer, fds[0], buffer, sizeof buffer), 0);
    return &writer;
}

static long read_line(void)
{
    char *line;
    return gs_reader_read_line(new_reader(), 10, SPAN, &line);
}

static long read_full(void)
{
    return gs_reader_read_full(new_reader(), &byte, 1, SPAN);
}

static long read_some(void)
{
    return gs_reader_read_some(new_reader(), &byte, 1, SPAN);
}

static long peek(void)
{
    const void *bytes;
    return gs_reader_peek(new_reader(), 1, SPAN, &bytes);
}

static long write_buffered(void)
{
    return gs_writer_write(new_writer(), &byte, 1, SPAN);
}

static long print(void)
{
    return gs_writer_printf(new_writer(), SPAN, "%d", 1);
}

static long flush_writer(void)
{
    return gs_writer_flush(new_writer(), SPAN);
}

static const struct {
    const char *function;
    long (*call)(void);
} calls_with_deadline[] = {
    {"gs_thread_join", join_other},
    {"gs_thread_sleep", sleep_for_span},
    {"gs_thread_park", park},
    {"gs_mutex_lock", lock_mutex},
    {"gs_cond_wait", wait_for_cond},
    {"gs_rwlock_rdlock", lock_as_reader},
    {"gs_rwlock_wrlock", lock_as_writer},
    {"gs_semaphore_wait", wait_for_semaphore},
    {"gs_barrier_wait", wait_at_barrier},
    {"gs_wait_group_wait", wait_for_group},
    {"gs_channel_send", send_to_channel},
    {"gs_channel_receive", receive_from_channel},
    {"gs_select", select_channel},
    {"gs_wait_readable", wait_readable},
    {"gs_wait_writable", wait_writable},
    {"gs_poll", poll_both},
    {"gs_recv", receive},
    {"gs_send", send_byte},
    {"gs_send_all", send_all},
    {"gs_recv_with", receive_with},
    {"gs_recvmsg", receive_message},
    {"gs_sendmsg", send_message},
    {"gs_accept", accept_one},
    {"gs_connect", connect_one},
    {"gs_read", read_byte},
    {"gs_write", write_byte},
    {"gs_readv", read_parts},
    {"gs_writev", write_parts},
    {"gs_sendfile", send_file},
    {"gs_open", open_file},
    {"gs_pread", read_at},
    {"gs_pwrite", write_at},
    {"gs_fsync", sync_file},
    {"gs_stat", stat_file},
    {"gs_resolve", resolve},
    {"gs_run_blocking", run_blocking},
    {"gs_wait_child", wait_for_child},
    {"gs_wait_signal", wait_for_signal},
    {"gs_recvfrom", receive_from},
    {"gs_sendto", send_to},
    {"gs_dial", dial},
    {"gs_reader_read_line", read_line},
    {"gs_reader_read_full", read_full},
    {"gs_reader_read_some", read_some},
    {"gs_reader_peek", peek},
    {"gs_writer_write", write_buffered},
    {"gs_writer_printf", print},
    {"gs_writer_flush", flush_writer},
};
enum { CALLS = sizeof calls_with_deadline / sizeof *calls_with_deadline };

static int number;

static void *lock_for_a_while(void *unused)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_thread_sleep(after(GS_SECOND));
    gs_mutex_unlock(&mutex);
    return unused;
}

static void *call_with_span(void *unused)
{
    other = spawn(lock_for_a_while, NULL);
    gs_thread_yield();
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    MUST_EQ(gs_channel_new(1, 1, &channel), 0);
    MUST(calls_with_deadline[number].call() != -ENOSYS);
    return unused;
}

IN_CHILD_RUN(run_call_with_span, call_with_span)

TEST(a_duration_is_no_deadline)
{
    SKIP_AFTER_BOOT;
    for (number = 0; number < CALLS; number++)
        CHECK_STOPPED(
            run_call_with_span, calls_with_deadline[number].function,
            "the deadline 5.000000 s is long before the start of the program: a duration, "
            "without gs_clock_now\\(\\)\\?");
}

static void *use_deadlines(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, 0), 0);
    MUST_EQ(gs_semaphore_wait(&semaphore, 0), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, 1), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, gs_clock_now()), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, gs_clock_now() - GS_MILLISECOND), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_semaphore_post(&semaphore);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    return unused;
}

TEST(deadlines_of_0_and_in_the_past_are_deadlines)
{
    run_both(use_deadlines);
}
