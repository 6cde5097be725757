/* The calls that wait: what they work on, how each is made, and how its wait ends. Each is made
 * with arguments that are not on the stack of the thread. */
#ifndef GS_TESTS_THREAD_CHECKED_PRIVATE_CALLS_H
#define GS_TESTS_THREAD_CHECKED_PRIVATE_CALLS_H

#include "tests/thread/io/connection.h"
#include "tests/thread/report/report.h"

#include <fcntl.h>
#include <gossamer/buffered.h>
#include <gossamer/http_server.h>
#include <gossamer/net.h>
#include <gossamer/scope.h>
#include <linux/openat2.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* What the calls work on: a socket without bytes and one without room, both with a peer. */
static int empty[2], full[2];
static int ends[2], regular, opened, listener, crowded, crowd[4];
static char fifo[64], port[32], bytes[1 << 16];
static off_t offset;
static struct sockaddr_in crowded_address;
static struct iovec parts[1] = {{bytes, 1}};
static struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
static struct gs_thread *waiter, *other;
static struct gs_poll polls[1];
static struct gs_interrupt interrupt;
static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;
static struct gs_semaphore semaphore;
static struct gs_once once;
static struct gs_barrier barrier = {.threads = 2};
static struct gs_wait_group group;
static struct gs_channel *channel;
static struct gs_select cases[1];
static struct gs_scope scope = {.max_threads = 1};
static struct gs_reader reader;
static struct gs_writer writer;
static atomic_bool may_end;

/* ---- How the waits end: by the main thread, or another one ---- */

static void feed(void)
{
    MUST_EQ(gs_sys_write(empty[1], "x\n", 2), 2);
}

static void make_room(void)
{
    while (gs_sys_read(full[1], bytes, sizeof bytes) > 0)
        ;
}

static void cancel(void)
{
    gs_thread_cancel(waiter);
}

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

static void with_locks(void)
{
    start_other(hold_locks);
}

static void with_once(void)
{
    once = (struct gs_once){0};
    start_other(run_once);
}

static void open_fifo(void)
{
    MUST((opened = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) >= 0);
}

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

static void connect_and_close(void)
{
    gs_close(gs_dial(port, GS_NEVER));
}

static void interrupt_poll(void)
{
    gs_interrupt(&interrupt);
}

static void signal_cond(void)
{
    gs_cond_signal(&cond);
}

static void post(void)
{
    gs_semaphore_post(&semaphore);
}

static void meet(void)
{
    MUST(gs_barrier_wait(&barrier, GS_NEVER) >= 0);
}

static void add_task(void)
{
    gs_wait_group_add(&group, 1);
}

static void be_done(void)
{
    gs_wait_group_done(&group);
}

static void send_item(void)
{
    int item = 7;
    MUST_EQ(gs_channel_send(channel, &item, GS_NEVER), 0);
}

static void receive_item(void)
{
    int item;
    MUST_EQ(gs_channel_receive(channel, &item, GS_NEVER), 0);
}

static void unpark(void)
{
    gs_thread_unpark(waiter);
}

static void send_usr1(void)
{
    kill(getpid(), SIGUSR1);
}

static void send_usr2(void)
{
    kill(getpid(), SIGUSR2);
}

static void nothing(void)
{
}

/* ---- The calls ---- */

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
    polls[0] = (struct gs_poll){.fd = empty[0], .events = GS_READ};
    return by ? gs_poll_interruptible(polls, 1, GS_NEVER, by) : gs_poll(polls, 1, GS_NEVER);
}

static long select_one(void)
{
    cases[0] = (struct gs_select){.channel = channel, .receive = bytes};
    return gs_select(cases, 1, GS_NEVER);
}

static long open_for_writing(void)
{
    static const struct open_how how = {.flags = O_WRONLY | O_CLOEXEC};
    return gs_close(gs_open(AT_FDCWD, fifo, &how, GS_NEVER));
}

static long stat_fifo(void)
{
    static struct stat status;
    return gs_stat(AT_FDCWD, fifo, &status, GS_NEVER);
}

static long wait_for_child(void)
{
    static int status;
    pid_t pid = fork();
    if (!pid) {
        usleep(20000);
        _exit(0);
    }
    return gs_wait_child(pid, GS_NEVER, &status);
}

static long wait_for_signals(void)
{
    static sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    return gs_wait_signals(&one, GS_NEVER);
}

static long resolve(void)
{
    static struct addrinfo *found;
    long err = gs_resolve("127.0.0.1", "80", NULL, GS_NEVER, &found);
    freeaddrinfo(found);
    return err;
}

static long dial_and_close(void)
{
    return gs_close(gs_dial(port, GS_NEVER));
}

/* The queue of the listener is full: nobody answers. */
static long connect_to_crowded(void)
{
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    long err =
        gs_connect(fd, (struct sockaddr *)&crowded_address, sizeof crowded_address, GS_NEVER);
    gs_close(fd);
    return err;
}

static long lock_mutex(void)
{
    long err = gs_mutex_lock(&mutex, GS_NEVER);
    if (!err)
        gs_mutex_unlock(&mutex);
    return err;
}

static long lock_rwlock(bool is_writer)
{
    long err =
        is_writer ? gs_rwlock_wrlock(&rwlock, GS_NEVER) : gs_rwlock_rdlock(&rwlock, GS_NEVER);
    if (!err)
        gs_rwlock_unlock(&rwlock);
    return err;
}

static long spawn_member(void)
{
    may_end = false;
    MUST_EQ(gs_scope_spawn(&scope, be_member, NULL, GS_NEVER), 0);
    long err = gs_scope_spawn(&scope, be_member, NULL, GS_NEVER);
    return err ? err : gs_scope_wait(&scope, GS_NEVER);
}

static long wait_for_members(void)
{
    may_end = false;
    MUST_EQ(gs_scope_spawn(&scope, be_member, NULL, GS_NEVER), 0);
    return gs_scope_wait(&scope, GS_NEVER);
}

static long read_by(ssize_t (*read)(struct gs_reader *))
{
    MUST_EQ(gs_reader_init(&reader, empty[0], NULL, 100), 0);
    long n = read(&reader);
    gs_reader_done(&reader);
    return n;
}

static char *line;
static const void *peeked;

static ssize_t read_line(struct gs_reader *from)
{
    return gs_reader_read_line(from, 100, GS_NEVER, &line);
}

static ssize_t read_full(struct gs_reader *from)
{
    return gs_reader_read_full(from, bytes, 2, GS_NEVER);
}

static ssize_t read_some(struct gs_reader *from)
{
    return gs_reader_read_some(from, bytes, 2, GS_NEVER);
}

static ssize_t peek(struct gs_reader *from)
{
    return gs_reader_peek(from, 2, GS_NEVER, &peeked);
}

/* Its buffer has 100 bytes. */
static long write_by(int which)
{
    MUST_EQ(gs_writer_init(&writer, full[0], NULL, 100), 0);
    long n = which == 0   ? gs_writer_write(&writer, bytes, 1000, GS_NEVER)
             : which == 1 ? gs_writer_printf(&writer, GS_NEVER, "%300d", 1)
                          : gs_writer_write(&writer, bytes, 10, GS_NEVER);
    if (!n)
        n = gs_writer_flush(&writer, GS_NEVER);
    gs_writer_done(&writer);
    return n;
}

#define CALL(name_, expression_)                                                                   \
    static long call_##name_(void)                                                                 \
    {                                                                                              \
        return (long)(expression_);                                                                \
    }

CALL(wait_readable, gs_wait_readable(empty[0], GS_NEVER))
CALL(wait_writable, gs_wait_writable(full[0], GS_NEVER))
CALL(poll, poll_one(NULL))
CALL(poll_interruptible, poll_one(&interrupt))
CALL(recv, gs_recv(empty[0], bytes, 1, 0, GS_NEVER))
CALL(send, gs_send(full[0], bytes, 1, 0, GS_NEVER))
CALL(recv_with, gs_recv_with(empty[0], ignore_bytes, NULL, GS_NEVER))
CALL(send_all, gs_send_all(full[0], bytes, 1, GS_NEVER))
CALL(recvmsg, gs_recvmsg(empty[0], &message, 0, GS_NEVER))
CALL(sendmsg, gs_sendmsg(full[0], &message, 0, GS_NEVER))
CALL(recvfrom, gs_recvfrom(empty[0], bytes, 1, 0, NULL, NULL, GS_NEVER))
CALL(sendto, gs_sendto(full[0], bytes, 1, 0, NULL, 0, GS_NEVER))
CALL(accept, gs_close(gs_accept(listener, NULL, NULL, 0, GS_NEVER)))
CALL(connect, connect_to_crowded())
CALL(read, gs_read(empty[0], bytes, 1, GS_NEVER))
CALL(readv, gs_readv(empty[0], parts, 1, GS_NEVER))
CALL(write, gs_write(full[0], bytes, 1, GS_NEVER))
CALL(writev, gs_writev(full[0], parts, 1, GS_NEVER))
CALL(splice, gs_splice(empty[0], ends[1], 1, 0, GS_NEVER))
CALL(sendfile, gs_sendfile(full[0], regular, &offset, 1, GS_NEVER))
CALL(pread, gs_pread(regular, bytes, 1, 0, GS_NEVER))
CALL(pwrite, gs_pwrite(regular, bytes, 1, 0, GS_NEVER))
CALL(fsync, gs_fsync(regular, GS_NEVER))
CALL(open, open_for_writing())
CALL(stat, stat_fifo())
CALL(resolve, resolve())
CALL(run_blocking, gs_run_blocking(block, NULL, GS_NEVER))
CALL(wait_child, wait_for_child())
CALL(wait_signal, gs_wait_signal(SIGUSR1, GS_NEVER))
CALL(wait_signals, wait_for_signals())
CALL(dial, dial_and_close())
CALL(mutex_lock, lock_mutex())
CALL(cond_wait, gs_cond_wait(&cond, NULL, GS_NEVER))
CALL(rwlock_rdlock, lock_rwlock(false))
CALL(rwlock_wrlock, lock_rwlock(true))
CALL(semaphore_wait, gs_semaphore_wait(&semaphore, GS_NEVER))
CALL(once, (gs_once(&once, wait_in_once, NULL), 0))
CALL(barrier_wait, gs_barrier_wait(&barrier, GS_NEVER))
CALL(wait_group_wait, gs_wait_group_wait(&group, GS_NEVER))
CALL(channel_send, gs_channel_send(channel, bytes, GS_NEVER))
CALL(channel_receive, gs_channel_receive(channel, bytes, GS_NEVER))
CALL(select, select_one())
CALL(scope_spawn, spawn_member())
CALL(scope_wait, wait_for_members())
CALL(thread_join, gs_thread_join(other, GS_NEVER, NULL))
CALL(thread_sleep, gs_thread_sleep(after(20 * GS_MILLISECOND)))
CALL(thread_park, gs_thread_park(GS_NEVER))
CALL(reader_read_line, read_by(read_line))
CALL(reader_read_full, read_by(read_full))
CALL(reader_read_some, read_by(read_some))
CALL(reader_peek, read_by(peek))
CALL(writer_write, write_by(0))
CALL(writer_printf, write_by(1))
CALL(writer_flush, write_by(2))
CALL(http_serve, gs_http_serve(listener, &(const struct gs_http_server){.handler = handle}))

#endif
