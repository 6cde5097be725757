/* The table of all calls that wait, and how a thread that shares its stack makes each of them. A
 * test says what happens to the stack while the thread waits. Rows run several times, so `start`
 * undoes what `end` has done. */
#ifndef GS_TESTS_THREAD_CHECKED_CALL_ROWS_H
#define GS_TESTS_THREAD_CHECKED_CALL_ROWS_H

#include "tests/thread/checked/private_calls.h"
#include "thread/schedule/thread.h"

/* Where that is which others use during the wait. NONE: in the control block, or there is nothing;
 * HEAP: the call needs memory for it. */
enum records { NONE, HEAP };

static const struct row {
    const char *name;
    long (*call)(void);
    enum records records;
    void (*start)(void), (*end)(void);
    long result;
} rows[] = {
    {"gs_wait_readable", call_wait_readable, NONE, NULL, feed, 0},
    {"gs_wait_writable", call_wait_writable, NONE, NULL, make_room, 0},
    {"gs_poll", call_poll, HEAP, NULL, feed, 1},
    {"gs_poll of many", call_poll_many, HEAP, NULL, feed, 6},
    {"gs_poll_interruptible", call_poll_interruptible, HEAP, NULL, interrupt_poll, -EINTR},
    {"gs_recv", call_recv, NONE, NULL, feed, 1},
    {"gs_send", call_send, NONE, NULL, make_room, 1},
    {"gs_recv_with", call_recv_with, NONE, NULL, feed, 2},
    {"gs_send_all", call_send_all, NONE, NULL, make_room, 1},
    {"gs_recvmsg", call_recvmsg, NONE, NULL, feed, 1},
    {"gs_sendmsg", call_sendmsg, NONE, NULL, make_room, 1},
    {"gs_recvfrom", call_recvfrom, NONE, NULL, feed, 1},
    {"gs_sendto", call_sendto, NONE, NULL, make_room, 1},
    {"gs_accept", call_accept, NONE, NULL, connect_and_close, 0},
    {"gs_accept in blocking mode", call_accept_blocking, HEAP, NULL, connect_to_plain, 0},
    {"gs_connect", call_connect, NONE, NULL, cancel, -ECANCELED},
    {"gs_connect in blocking mode", call_connect_blocking, HEAP, NULL, cancel, -ECANCELED},
    {"gs_read", call_read, NONE, NULL, feed, 1},
    {"gs_readv", call_readv, NONE, NULL, feed, 1},
    {"gs_write", call_write, NONE, NULL, make_room, 1},
    {"gs_writev", call_writev, NONE, NULL, make_room, 1},
    {"gs_read in blocking mode", call_read_blocking, HEAP, refuse_flag, feed_plain, 1},
    {"gs_write in blocking mode", call_write_blocking, HEAP, refuse_flag, nothing, 1},
    {"gs_sendfile of an uncached file", call_sendfile_uncached, HEAP, refuse, nothing, 1},
    {"gs_sendfile", call_sendfile, NONE, NULL, make_room, 1},
    {"gs_sendfile in blocking mode", call_sendfile_blocking, HEAP, NULL, nothing, 1},
    {"gs_open", call_open, HEAP, NULL, open_fifo, 0},
    {"gs_pread", call_pread, HEAP, refuse, nothing, 1},
    {"gs_pwrite", call_pwrite, HEAP, refuse, nothing, 1},
    {"gs_fsync", call_fsync, HEAP, NULL, nothing, 0},
    {"gs_stat", call_stat, HEAP, NULL, nothing, 0},
    {"gs_resolve", call_resolve, HEAP, NULL, nothing, 0},
    {"gs_run_blocking", call_run_blocking, HEAP, NULL, nothing, 0},
    {"gs_wait_child", call_wait_child, NONE, NULL, nothing, 0},
    {"gs_wait_signal", call_wait_signal, HEAP, NULL, send_usr1, 0},
    {"gs_wait_signals", call_wait_signals, HEAP, NULL, send_usr2, SIGUSR2},
    {"gs_dial", call_dial, HEAP, NULL, cancel, -ECANCELED},
    {"gs_mutex_lock", call_mutex_lock, NONE, with_locks, end_other, 0},
    {"gs_cond_wait", call_cond_wait, NONE, NULL, signal_cond, 0},
    {"gs_rwlock_rdlock", call_rwlock_rdlock, NONE, with_locks, end_other, 0},
    {"gs_rwlock_wrlock", call_rwlock_wrlock, NONE, with_locks, end_other, 0},
    {"gs_semaphore_wait", call_semaphore_wait, NONE, NULL, post, 0},
    {"gs_once", call_once, NONE, with_once, end_other, 0},
    {"gs_barrier_wait", call_barrier_wait, NONE, NULL, meet, 0},
    {"gs_wait_group_wait", call_wait_group_wait, NONE, add_task, be_done, 0},
    {"gs_channel_send", call_channel_send, HEAP, NULL, receive_item, 0},
    {"gs_channel_receive", call_channel_receive, HEAP, NULL, send_item, 0},
    {"gs_select", call_select, HEAP, NULL, send_item, 0},
    {"gs_select, second case", call_select, HEAP, NULL, send_second_item, 1},
    {"gs_select to send", call_select_to_send, HEAP, NULL, receive_item, 1},
    {"gs_select with events: an item", call_select_event, HEAP, with_locks, send_item, 0},
    {"gs_select with events: a descriptor", call_select_event, HEAP, with_locks, feed, 1},
    {"gs_select with events: a thread", call_select_event, HEAP, with_locks, end_other, 2},
    {"gs_select of many", call_select_one_of_many, HEAP, NULL, feed, 0},
    {"gs_scope_spawn", call_scope_spawn, NONE, NULL, end_other, 0},
    {"gs_scope_wait", call_scope_wait, NONE, NULL, end_other, 0},
    {"gs_thread_join", call_thread_join, NONE, with_locks, end_other, 0},
    {"gs_thread_sleep", call_thread_sleep, NONE, NULL, nothing, 0},
    {"gs_thread_park", call_thread_park, NONE, NULL, unpark, 0},
    {"gs_reader_read_line", call_reader_read_line, NONE, NULL, feed, 1},
    {"gs_reader_read_full", call_reader_read_full, NONE, NULL, feed, 2},
    {"gs_reader_read_some", call_reader_read_some, NONE, NULL, feed, 2},
    {"gs_reader_peek", call_reader_peek, NONE, NULL, feed, 2},
    {"gs_writer_write", call_writer_write, NONE, NULL, make_room, 0},
    {"gs_writer_printf", call_writer_printf, NONE, NULL, make_room, 0},
    {"gs_writer_flush", call_writer_flush, NONE, NULL, make_room, 0},
    {"gs_http_serve", call_http_serve, NONE, NULL, connect_and_get, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct row *current;
static atomic_bool is_finished, is_exhausted; /* exhausted: the next malloc fails */
static void (*await_disturbance)(void);       /* called before system calls of the pool */

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", current->name, what);
    _exit(1);
}

static void *call_current(void *exhausts)
{
    atomic_store(&is_exhausted, exhausts != NULL);
    long result = current->call(), expected = exhausts ? -ENOMEM : current->result;
    atomic_store(&is_exhausted, false);
    if (current->call == call_barrier_wait ? result < 0 : result != expected)
        fail(result < 0 ? strerror((int)-result) : "wrong result");
    atomic_store(&is_finished, true);
    return NULL;
}

/* What a row has left in the sockets. */
static void empty_and_fill(void)
{
    const int drained[] = {empty[0], empty[1], plain[0], plain[1]};
    for (int i = 0; i < 4; i++)
        while (gs_sys_recv(drained[i], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            ;
    while (gs_sys_send(full[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    while (gs_sys_send(full[0], bytes, 1, MSG_DONTWAIT) > 0)
        ;
}

static void start_row(const struct row *row, void *exhausts)
{
    const struct gs_thread_attributes attributes = {
        .name = row->name, .stack_is_shared = true, .worker = 1};
    current = row;
    other = NULL;
    atomic_store(&refusal, 0);
    atomic_store(&is_finished, false);
    empty_and_fill();
    if (row->start)
        row->start();
    MUST_EQ(gs_thread_spawn(&attributes, call_current, exhausts, &waiter), 0);
    waiter->wait_kind = NULL;
}

static void finish_row(const struct row *row)
{
    join(waiter);
    if (!other || row->call == call_thread_join)
        return;
    end_other();
    join(other);
}

/* Each row. `disturb` is called when its thread waits, by another thread of its worker. */
static void run_rows(void (*disturb)(void))
{
    for (int i = 0; i < ROWS; i++) {
        start_row(&rows[i], NULL);
        gs_thread_yield();
        disturb();
        gs_thread_sleep(after(GS_MILLISECOND));
        rows[i].end();
        while (!atomic_load(&is_finished)) {
            disturb();
            gs_thread_sleep(after(GS_MILLISECOND / 10));
        }
        if (!waiter->wait_kind)
            fail("it has not waited");
        finish_row(&rows[i]);
    }
}

/* ---- The world of the calls ---- */

static bool is_made_by_pool(long number)
{
    static const long numbers[] = {SYS_preadv2, SYS_pwritev2,   SYS_readv, SYS_writev,
                                   SYS_openat2, SYS_newfstatat, SYS_fsync, SYS_connect,
                                   SYS_accept4, SYS_sendfile};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (number == numbers[i])
            return !gs_thread_self();
    return false;
}

/* Workers find that they cannot read or write at once. */
static long before_system_call(long number, void *unused)
{
    (void)unused;
    if (is_made_by_pool(number))
        await_disturbance();
    bool is_refused = (number == SYS_preadv2 || number == SYS_pwritev2) && gs_thread_self();
    return is_refused ? atomic_load(&refusal) : 0;
}

static void listen_at(int *fd, struct sockaddr_in *address, char port_text[32])
{
    *fd = listen_anywhere(address);
    snprintf(port_text, 32, "127.0.0.1:%d", ntohs(address->sin_port));
}

static void open_crowded(void)
{
    listen_at(&crowded, &crowded_address, crowded_port);
    MUST_EQ(gs_sys_listen(crowded, 0), 0);
    for (int i = 0; i < 4; i++) {
        crowd[i] = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)gs_sys_connect(crowd[i], (struct sockaddr *)&crowded_address, sizeof crowded_address);
    }
}

static void open_all(void)
{
    struct sockaddr_in address;
    sigset_t usr2;
    listen_at(&listener, &address, port);
    listen_at(&plain_listener, &address, plain_port);
    MUST_EQ(fcntl(plain_listener, F_SETFL, 0), 0);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, plain), 0);
    snprintf(fifo, sizeof fifo, "/tmp/shared_calls.%d", getpid());
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, empty), 0);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, full), 0);
    unlink(fifo); /* of a process of this number that was killed */
    MUST_EQ(mkfifo(fifo, 0600), 0);
    FILE *stored = tmpfile();
    MUST(stored && fwrite("x", 1, 1, stored) == 1 && !fflush(stored));
    regular = fileno(stored);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    MUST_EQ(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
    MUST_EQ(gs_channel_new(sizeof(int), 0, &channel), 0);
    MUST_EQ(gs_channel_new(sizeof(int), 0, &second_channel), 0);
    open_crowded();
}

static void *run_on_first_worker(void *fn)
{
    const struct gs_thread_attributes attributes = {.worker = 1};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, *(gs_thread_fn **)fn, NULL, &thread), 0);
    return join(thread);
}

static void run(unsigned workers, gs_thread_fn *fn)
{
    const struct gs_threads_options options = {.workers = workers, .report_fd = report_out};
    MUST_EQ(gs_threads_run(&options, run_on_first_worker, &fn, NULL), 0);
}

/* With one worker and several. */
static void run_all(gs_thread_fn *fn)
{
    open_all();
    gs_sys_set_fault(before_system_call, NULL);
    run(1, fn);
    run(3, fn);
    unlink(fifo);
}

#endif
