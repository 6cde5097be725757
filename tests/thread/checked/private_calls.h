/* The calls that wait: what they work on, how each is made, and how its wait ends. What a call gets
 * the address of is on the stack of the thread, unless the test itself lets others use it. */
#ifndef GS_TESTS_THREAD_CHECKED_PRIVATE_CALLS_H
#define GS_TESTS_THREAD_CHECKED_PRIVATE_CALLS_H

#include "tests/thread/io/connection.h"
#include "tests/thread/report/report.h"

#include <gossamer/buffered.h>
#include <gossamer/http_server.h>
#include <gossamer/net.h>
#include <gossamer/scope.h>
#include <linux/openat2.h>
#include <netdb.h>

/* What the calls work on: a socket without bytes and one without room, both with a peer. */
static int empty[2], full[2];
static int regular, opened, listener, crowded, crowd[4];
static int plain[2], plain_listener; /* in blocking mode */
static char fifo[64], port[32], plain_port[32], crowded_port[32], bytes[1 << 16];
static struct sockaddr_in crowded_address;
static struct gs_thread *waiter, *other;
static struct gs_interrupt interrupt;
static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;
static struct gs_semaphore semaphore;
static struct gs_once once;
static struct gs_barrier barrier = {.threads = 2};
static struct gs_wait_group group;
static struct gs_channel *channel, *second_channel;
static struct gs_scope scope = {.max_threads = 1};
static atomic_bool may_end;
static atomic_long refusal; /* of reads and writes by workers that are not to wait */

/* A function that the rows of the table name. */
#define ACTION(name_, ...)                                                                         \
    static void name_(void)                                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

/* ---- How the waits end: by the main thread, or another one ---- */

ACTION(feed, MUST_EQ(gs_sys_write(empty[1], "x\n", 2), 2))

static void make_room(void)
{
    while (gs_sys_read(full[1], bytes, sizeof bytes) > 0)
        ;
}

ACTION(feed_plain, MUST_EQ(gs_sys_write(plain[1], "x\n", 2), 2))
ACTION(refuse, atomic_store(&refusal, -EAGAIN))
ACTION(refuse_flag, atomic_store(&refusal, -EOPNOTSUPP))
ACTION(cancel, gs_thread_cancel(waiter))

static void end_other(void)
{
    atomic_store(&may_end, true);
    if (other)
        gs_thread_unpark(other);
}

static void *hold_locks(void *unused)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    while (!atomic_load(&may_end))
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
    gs_rwlock_unlock(&rwlock);
    gs_mutex_unlock(&mutex);
    return unused;
}

static void wait_in_once(void *unused)
{
    (void)unused;
    while (!atomic_load(&may_end))
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
}

static void *run_once(void *unused)
{
    gs_once(&once, wait_in_once, NULL);
    return unused;
}

static void start_other(gs_thread_fn *fn)
{
    atomic_store(&may_end, false);
    other = spawn(fn, NULL);
    gs_thread_sleep(after(GS_MILLISECOND));
}

ACTION(with_locks, start_other(hold_locks))

static void with_once(void)
{
    once = (struct gs_once){0};
    start_other(run_once);
}

ACTION(open_fifo, MUST((opened = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) >= 0))

static void connect_and_get(void)
{
    static const char get[] = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    int fd = gs_dial(port, GS_NEVER);
    MUST(fd >= 0);
    MUST_EQ(gs_send_all(fd, get, sizeof get - 1, GS_NEVER), (ssize_t)sizeof get - 1);
    MUST(gs_recv(fd, bytes, sizeof bytes, 0, GS_NEVER) > 0);
    gs_close(fd);
    cancel();
}

ACTION(connect_and_close, gs_close(gs_dial(port, GS_NEVER)))
ACTION(connect_to_plain, gs_close(gs_dial(plain_port, GS_NEVER)))
ACTION(interrupt_poll, gs_interrupt(&interrupt))
ACTION(signal_cond, gs_cond_signal(&cond))
ACTION(post, gs_semaphore_post(&semaphore))
ACTION(meet, MUST(gs_barrier_wait(&barrier, GS_NEVER) >= 0))
ACTION(add_task, gs_wait_group_add(&group, 1))
ACTION(be_done, gs_wait_group_done(&group))

static void send_item(void)
{
    int item = 7;
    MUST_EQ(gs_channel_send(channel, &item, GS_NEVER), 0);
}

static void send_second_item(void)
{
    int item = 7;
    MUST_EQ(gs_channel_send(second_channel, &item, GS_NEVER), 0);
}

static void receive_item(void)
{
    int item;
    MUST_EQ(gs_channel_receive(channel, &item, GS_NEVER), 0);
    MUST_EQ(item, 7);
}

ACTION(unpark, gs_thread_unpark(waiter))
ACTION(send_usr1, kill(getpid(), SIGUSR1))
ACTION(send_usr2, kill(getpid(), SIGUSR2))

static void nothing(void)
{
}

/* ---- The calls ---- */

static uint64_t call_end_ns = GS_NEVER; /* the deadline of each of them */

static ssize_t ignore_bytes(void *unused, const void *received, size_t n)
{
    (void)unused, (void)received;
    return (ssize_t)n;
}

static void handle(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "x", 1), 0);
}

static int be_member(void *unused)
{
    (void)unused;
    while (!atomic_load(&may_end))
        gs_thread_sleep(after(GS_MILLISECOND));
    return 0;
}

static void block(void *unused)
{
    (void)unused;
    usleep(1000);
}

static long poll_one(struct gs_interrupt *by)
{
    struct gs_poll polls[] = {{.fd = empty[0], .events = GS_READ}};
    return by ? gs_poll_interruptible(polls, 1, call_end_ns, by) : gs_poll(polls, 1, call_end_ns);
}

static long poll_many(void)
{
    struct gs_poll polls[6];
    for (int i = 0; i < 6; i++)
        polls[i] = (struct gs_poll){.fd = empty[0], .events = GS_READ};
    return gs_poll(polls, 6, call_end_ns);
}

static long send_seven(void)
{
    int item = 7;
    return gs_channel_send(channel, &item, call_end_ns);
}

static long receive_seven(void)
{
    int item = 0;
    long err = gs_channel_receive(channel, &item, call_end_ns);
    return err ? err : item - 7;
}

/* Two cases have the same destination. */
static long select_item(void)
{
    int item = 0;
    struct gs_select cases[] = {{.channel = channel, .receive = &item},
                                {.channel = second_channel, .receive = &item}};
    long done = gs_select(cases, 2, call_end_ns);
    return done < 0 || item == 7 ? done : -EPROTO;
}

static long select_to_send(void)
{
    int item = 7, received;
    struct gs_select cases[] = {{.channel = second_channel, .receive = &received},
                                {.channel = channel, .send = &item}};
    return gs_select(cases, 2, call_end_ns);
}

static long select_event(void)
{
    int item = 0;
    struct gs_select cases[] = {{.channel = channel, .receive = &item},
                                {.fd = empty[0], .events = GS_READ},
                                {.thread = other}};
    long done = gs_select(cases, 3, call_end_ns);
    return done || item == 7 ? done : -EPROTO;
}

static long select_one_of_many(void)
{
    struct gs_select cases[6];
    for (int i = 0; i < 6; i++)
        cases[i] = (struct gs_select){.fd = empty[0], .events = GS_READ};
    long done = gs_select(cases, 6, call_end_ns);
    return done < 0 ? done : 0;
}

static long close_opened(int fd)
{
    return fd < 0 ? fd : gs_close(fd);
}

static long open_for_writing(void)
{
    struct open_how how = {.flags = O_WRONLY | O_CLOEXEC};
    char path[sizeof fifo];
    memcpy(path, fifo, sizeof path);
    return close_opened(gs_open(AT_FDCWD, path, &how, call_end_ns));
}

static long stat_fifo(void)
{
    struct stat status = {.st_mode = 0};
    char path[sizeof fifo];
    memcpy(path, fifo, sizeof path);
    long err = gs_stat(AT_FDCWD, path, &status, call_end_ns);
    return err ? err : !S_ISFIFO(status.st_mode);
}

/* The first byte of the file is x. */
static long read_file(void)
{
    char byte[2] = "";
    struct iovec parts[] = {{byte, 0}, {byte, 1}};
    ssize_t n = gs_pread(regular, byte, 1, 0, call_end_ns);
    if (n != 1 || byte[0] != 'x')
        return n < 0 ? n : -EPROTO;
    MUST_EQ(lseek(regular, 0, SEEK_SET), 0);
    byte[0] = 0;
    n = gs_readv(regular, parts, 2, call_end_ns);
    return n == 1 && byte[0] != 'x' ? -EPROTO : n;
}

static long write_file(void)
{
    char byte[] = "x";
    return gs_pwrite(regular, byte, 1, 0, call_end_ns);
}

static long read_plain(void)
{
    char byte[2] = "";
    ssize_t n = gs_read(plain[0], byte, 1, call_end_ns);
    return n == 1 && byte[0] != 'x' ? -EPROTO : n;
}

static long write_plain(void)
{
    char byte[] = "x";
    return gs_write(plain[0], byte, 1, call_end_ns);
}

static long send_file_to(int fd)
{
    off_t offset = 0;
    ssize_t n = gs_sendfile(fd, regular, &offset, 1, call_end_ns);
    return n == 1 && offset != 1 ? -EPROTO : n;
}

static long accept_from(int fd)
{
    struct sockaddr_in address = {.sin_family = AF_UNSPEC};
    socklen_t length = sizeof address;
    int accepted = gs_accept(fd, (struct sockaddr *)&address, &length, 0, call_end_ns);
    bool is_known = address.sin_family == AF_INET && length == sizeof address;
    return accepted >= 0 && !is_known ? -EPROTO : close_opened(accepted);
}

static long wait_for_child(void)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        usleep(20000);
        _exit(0);
    }
    return gs_wait_child(pid, call_end_ns, &status);
}

static long wait_for_signals(void)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    return gs_wait_signals(&one, call_end_ns);
}

static long resolve(void)
{
    char node[] = "localhost", service[] = "80";
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    long err = gs_resolve(node, service, &hints, call_end_ns, &found);
    if (!err)
        freeaddrinfo(found);
    return err;
}

/* The queue of the listener is full: nobody answers. */
static long dial_crowded(void)
{
    char address[sizeof crowded_port];
    memcpy(address, crowded_port, sizeof address);
    return close_opened(gs_dial(address, call_end_ns));
}

static long connect_to_crowded(int flags)
{
    struct sockaddr_in address = crowded_address;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    long err = gs_connect(fd, (struct sockaddr *)&address, sizeof address, call_end_ns);
    gs_close(fd);
    return err;
}

static long lock_mutex(void)
{
    long err = gs_mutex_lock(&mutex, call_end_ns);
    if (!err)
        gs_mutex_unlock(&mutex);
    return err;
}

static long lock_rwlock(bool is_writer)
{
    long err =
        is_writer ? gs_rwlock_wrlock(&rwlock, call_end_ns) : gs_rwlock_rdlock(&rwlock, call_end_ns);
    if (!err)
        gs_rwlock_unlock(&rwlock);
    return err;
}

static long spawn_member(void)
{
    may_end = false;
    MUST_EQ(gs_scope_spawn(&scope, be_member, NULL, GS_NEVER), 0);
    long err = gs_scope_spawn(&scope, be_member, NULL, call_end_ns);
    return err ? err : gs_scope_wait(&scope, call_end_ns);
}

static long wait_for_members(void)
{
    may_end = false;
    MUST_EQ(gs_scope_spawn(&scope, be_member, NULL, GS_NEVER), 0);
    return gs_scope_wait(&scope, call_end_ns);
}

static long join_other(void)
{
    void *result;
    return gs_thread_join(other, call_end_ns, &result);
}

static long read_by(ssize_t (*read)(struct gs_reader *))
{
    char buffer[100];
    struct gs_reader reader;
    MUST_EQ(gs_reader_init(&reader, empty[0], buffer, sizeof buffer), 0);
    long n = read(&reader);
    gs_reader_done(&reader);
    return n;
}

static ssize_t read_line(struct gs_reader *from)
{
    char *line;
    return gs_reader_read_line(from, 100, call_end_ns, &line);
}

static ssize_t read_full(struct gs_reader *from)
{
    char local[2];
    return gs_reader_read_full(from, local, 2, call_end_ns);
}

static ssize_t read_some(struct gs_reader *from)
{
    char local[2];
    return gs_reader_read_some(from, local, 2, call_end_ns);
}

static ssize_t peek(struct gs_reader *from)
{
    const void *peeked;
    return gs_reader_peek(from, 2, call_end_ns, &peeked);
}

static long write_by(int which)
{
    char local[1000] = "", buffer[100];
    struct gs_writer writer;
    MUST_EQ(gs_writer_init(&writer, full[0], buffer, sizeof buffer), 0);
    long n = which == 0   ? gs_writer_write(&writer, local, sizeof local, call_end_ns)
             : which == 1 ? gs_writer_printf(&writer, call_end_ns, "%300d", 1)
                          : gs_writer_write(&writer, local, 10, GS_NEVER);
    if (!n)
        n = gs_writer_flush(&writer, call_end_ns);
    gs_writer_done(&writer);
    return n;
}

/* With a byte on the stack. */
#define CALL(name_, expression_)                                                                   \
    static long call_##name_(void)                                                                 \
    {                                                                                              \
        char byte[] = "x";                                                                         \
        struct iovec part = {byte, 1};                                                             \
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};                               \
        (void)message;                                                                             \
        return (long)(expression_);                                                                \
    }

CALL(wait_readable, gs_wait_readable(empty[0], call_end_ns))
CALL(wait_writable, gs_wait_writable(full[0], call_end_ns))
CALL(poll, poll_one(NULL))
CALL(poll_many, poll_many())
CALL(poll_interruptible, poll_one(&interrupt))
CALL(recv, gs_recv(empty[0], byte, 1, 0, call_end_ns))
CALL(send, gs_send(full[0], byte, 1, 0, call_end_ns))
CALL(recv_with, gs_recv_with(empty[0], ignore_bytes, NULL, call_end_ns))
CALL(send_all, gs_send_all(full[0], byte, 1, call_end_ns))
CALL(recvmsg, gs_recvmsg(empty[0], &message, 0, call_end_ns))
CALL(sendmsg, gs_sendmsg(full[0], &message, 0, call_end_ns))
CALL(recvfrom, gs_recvfrom(empty[0], byte, 1, 0, NULL, NULL, call_end_ns))
CALL(sendto, gs_sendto(full[0], byte, 1, 0, NULL, 0, call_end_ns))
CALL(accept, accept_from(listener))
CALL(accept_blocking, accept_from(plain_listener))
CALL(connect, connect_to_crowded(SOCK_NONBLOCK))
CALL(connect_blocking, connect_to_crowded(0))
CALL(read_blocking, read_plain())
CALL(write_blocking, write_plain())
CALL(read, gs_read(empty[0], byte, 1, call_end_ns))
CALL(readv, gs_readv(empty[0], &part, 1, call_end_ns))
CALL(write, gs_write(full[0], byte, 1, call_end_ns))
CALL(writev, gs_writev(full[0], &part, 1, call_end_ns))
CALL(sendfile, send_file_to(full[0]))
CALL(sendfile_uncached, send_file_to(empty[0]))
CALL(sendfile_blocking, send_file_to(plain[0]))
CALL(pread, read_file())
CALL(pwrite, write_file())
CALL(fsync, gs_fsync(regular, call_end_ns))
CALL(open, open_for_writing())
CALL(stat, stat_fifo())
CALL(resolve, resolve())
CALL(run_blocking, gs_run_blocking(block, NULL, call_end_ns))
CALL(wait_child, wait_for_child())
CALL(wait_signal, gs_wait_signal(SIGUSR1, call_end_ns))
CALL(wait_signals, wait_for_signals())
CALL(dial, dial_crowded())
CALL(mutex_lock, lock_mutex())
CALL(cond_wait, gs_cond_wait(&cond, NULL, call_end_ns))
CALL(rwlock_rdlock, lock_rwlock(false))
CALL(rwlock_wrlock, lock_rwlock(true))
CALL(semaphore_wait, gs_semaphore_wait(&semaphore, call_end_ns))
CALL(once, (gs_once(&once, wait_in_once, NULL), 0))
CALL(barrier_wait, gs_barrier_wait(&barrier, call_end_ns))
CALL(wait_group_wait, gs_wait_group_wait(&group, call_end_ns))
CALL(channel_send, send_seven())
CALL(channel_receive, receive_seven())
CALL(select, select_item())
CALL(select_to_send, select_to_send())
CALL(select_event, select_event())
CALL(select_one_of_many, select_one_of_many())
CALL(scope_spawn, spawn_member())
CALL(scope_wait, wait_for_members())
CALL(thread_join, join_other())
CALL(thread_sleep,
     gs_thread_sleep(call_end_ns == GS_NEVER ? after(20 * GS_MILLISECOND) : call_end_ns))
CALL(thread_park, gs_thread_park(call_end_ns))
CALL(reader_read_line, read_by(read_line))
CALL(reader_read_full, read_by(read_full))
CALL(reader_read_some, read_by(read_some))
CALL(reader_peek, read_by(peek))
CALL(writer_write, write_by(0))
CALL(writer_printf, write_by(1))
CALL(writer_flush, write_by(2))
CALL(http_serve, gs_http_serve(listener, &(const struct gs_http_server){.handler = handle}))

#endif
