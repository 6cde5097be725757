/* Every call that waits, by a thread whose stack is private: no call lets others use its frame
 * while it waits, or it is not taken for a wait in which nobody does. While its thread waits, the
 * stack is away, and this library stops at any use of it. Headers are read for calls that are
 * missing here. */
#include "tests/thread/checked/private_calls.h"
#include "thread/context/sanitizer.h"

/* ---- The table ---- */

/* Whether the stack is given back during the call. THERE: the wait uses the stack itself. EITHER:
 * without optimization the frames are too large. */
enum where { AWAY, THERE, EITHER };

static const struct row {
    const char *name;
    long (*call)(void);
    enum where where;
    void (*start)(void), (*end)(void);
    long result;
} rows[] = {
    {"gs_wait_readable", call_wait_readable, AWAY, NULL, feed, 0},
    {"gs_wait_writable", call_wait_writable, AWAY, NULL, make_room, 0},
    {"gs_poll", call_poll, THERE, NULL, feed, 1},
    {"gs_poll_interruptible", call_poll_interruptible, THERE, NULL, interrupt_poll, -EINTR},
    {"gs_recv", call_recv, AWAY, NULL, feed, 1},
    {"gs_send", call_send, AWAY, NULL, make_room, 1},
    {"gs_recv_with", call_recv_with, AWAY, NULL, feed, 2},
    {"gs_send_all", call_send_all, AWAY, NULL, make_room, 1},
    {"gs_recvmsg", call_recvmsg, AWAY, NULL, feed, 1},
    {"gs_sendmsg", call_sendmsg, AWAY, NULL, make_room, 1},
    {"gs_recvfrom", call_recvfrom, AWAY, NULL, feed, 1},
    {"gs_sendto", call_sendto, AWAY, NULL, make_room, 1},
    {"gs_accept", call_accept, AWAY, NULL, connect_and_close, 0},
    {"gs_connect", call_connect, AWAY, NULL, cancel, -ECANCELED},
    {"gs_read", call_read, AWAY, NULL, feed, 1},
    {"gs_readv", call_readv, AWAY, NULL, feed, 1},
    {"gs_write", call_write, AWAY, NULL, make_room, 1},
    {"gs_writev", call_writev, AWAY, NULL, make_room, 1},
    {"gs_sendfile", call_sendfile, AWAY, NULL, make_room, 1},
    {"gs_splice", call_splice, AWAY, NULL, feed, 1},
    {"gs_open", call_open, THERE, NULL, open_fifo, 0},
    {"gs_pread", call_pread, THERE, NULL, nothing, 1},
    {"gs_pwrite", call_pwrite, THERE, NULL, nothing, 1},
    {"gs_fsync", call_fsync, THERE, NULL, nothing, 0},
    {"gs_stat", call_stat, THERE, NULL, nothing, 0},
    {"gs_resolve", call_resolve, THERE, NULL, nothing, 0},
    {"gs_run_blocking", call_run_blocking, THERE, NULL, nothing, 0},
    {"gs_wait_child", call_wait_child, AWAY, NULL, nothing, 0},
    {"gs_wait_signal", call_wait_signal, THERE, NULL, send_usr1, 0},
    {"gs_wait_signals", call_wait_signals, THERE, NULL, send_usr2, SIGUSR2},
    {"gs_dial", call_dial, THERE, NULL, nothing, 0},
    {"gs_mutex_lock", call_mutex_lock, AWAY, with_locks, end_other, 0},
    {"gs_cond_wait", call_cond_wait, AWAY, NULL, signal_cond, 0},
    {"gs_rwlock_rdlock", call_rwlock_rdlock, AWAY, with_locks, end_other, 0},
    {"gs_rwlock_wrlock", call_rwlock_wrlock, AWAY, with_locks, end_other, 0},
    {"gs_semaphore_wait", call_semaphore_wait, AWAY, NULL, post, 0},
    {"gs_once", call_once, AWAY, with_once, end_other, 0},
    {"gs_barrier_wait", call_barrier_wait, AWAY, NULL, meet, 0},
    {"gs_wait_group_wait", call_wait_group_wait, AWAY, add_task, be_done, 0},
    {"gs_channel_send", call_channel_send, AWAY, NULL, receive_item, 0},
    {"gs_channel_receive", call_channel_receive, AWAY, NULL, send_item, 0},
    {"gs_select", call_select, THERE, NULL, send_item, 0},
    {"gs_scope_spawn", call_scope_spawn, AWAY, NULL, end_other, 0},
    {"gs_scope_wait", call_scope_wait, AWAY, NULL, end_other, 0},
    {"gs_thread_join", call_thread_join, AWAY, with_locks, end_other, 0},
    {"gs_thread_sleep", call_thread_sleep, AWAY, NULL, nothing, 0},
    {"gs_thread_park", call_thread_park, AWAY, NULL, unpark, 0},
    {"gs_reader_read_line", call_reader_read_line, AWAY, NULL, feed, 1},
    {"gs_reader_read_full", call_reader_read_full, AWAY, NULL, feed, 2},
    {"gs_reader_read_some", call_reader_read_some, AWAY, NULL, feed, 2},
    {"gs_reader_peek", call_reader_peek, AWAY, NULL, feed, 2},
    {"gs_writer_write", call_writer_write, AWAY, NULL, make_room, 0},
    {"gs_writer_printf", call_writer_printf, EITHER, NULL, make_room, 0},
    {"gs_writer_flush", call_writer_flush, AWAY, NULL, make_room, 0},
    {"gs_http_serve", call_http_serve, AWAY, NULL, connect_and_get, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const char *const same[] = {
    "gs_mutex_lock_slow", /* of gs_mutex_lock */
    "gs_writer_vprintf",  /* of gs_writer_printf */
};

static const struct row *current;

static void *call_current(void *unused)
{
    long result = current->call();
    if (current->call == call_barrier_wait ? result < 0 : result != current->result) {
        fprintf(stderr, "%s has returned %ld\n", current->name, result);
        _exit(1);
    }
    return unused;
}

/* What a row has left in the sockets. */
static void empty_and_fill(void)
{
    offset = 0;
    while (gs_sys_recv(empty[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0 ||
           gs_sys_read(ends[0], bytes, sizeof bytes) > 0)
        ;
    while (gs_sys_send(full[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    while (gs_sys_send(full[0], bytes, 1, MSG_DONTWAIT) > 0)
        ;
}

static void run_row(const struct row *row, bool migrates)
{
    const struct gs_thread_attributes attributes = {
        .name = row->name, .stack_is_shared = true, .migrates = migrates};
    current = row;
    other = NULL;
    empty_and_fill();
    if (row->start)
        row->start();
    MUST_EQ(gs_thread_spawn(&attributes, call_current, NULL, &waiter), 0);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    row->end();
    join(waiter);
    if (other && row->call != call_thread_join)
        join(other);
}

static void *run_rows(void *migrates)
{
    for (int i = 0; i < ROWS; i++)
        run_row(&rows[i], migrates);
    return NULL;
}

/* ---- The world of the calls ---- */

static void open_crowded(void)
{
    crowded = listen_anywhere(&crowded_address);
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
    listener = listen_anywhere(&address);
    snprintf(port, sizeof port, "127.0.0.1:%d", ntohs(address.sin_port));
    snprintf(fifo, sizeof fifo, "/tmp/private_calls.%d", getpid());
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, empty), 0);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, full), 0);
    MUST_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    MUST_EQ(mkfifo(fifo, 0600), 0);
    FILE *stored = tmpfile();
    MUST(stored && fwrite("x", 1, 1, stored) == 1 && !fflush(stored));
    regular = fileno(stored);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    MUST_EQ(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
    MUST_EQ(gs_channel_new(sizeof(int), 0, &channel), 0);
    open_crowded();
}

static void run_all(void)
{
    static bool yes = true;
    open_all();
    for (unsigned workers = 1; workers < 4; workers += 2) {
        const struct gs_threads_options options = {.workers = workers, .report_fd = report_out};
        void *migrates = workers > 1 ? &yes : NULL;
        MUST_EQ(gs_threads_run(&options, run_rows, migrates, NULL), 0);
    }
    unlink(fifo);
}

TEST(no_call_shares_its_frame_while_the_stack_is_away)
{
    if (IS_EMULATED)
        SKIP("an emulator may keep memory that is given back");
    CHECK_EQ(in_child(run_all), 0);
    CHECK_STR(report, "");
}

/* ---- Calls that are missing in the table ---- */

static bool is_known(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name))
            return true;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(same[i], name))
            return true;
    return false;
}

/* A declaration begins with GS_API and ends with a semicolon. Returns how many there are that
 * wait. */
static int look_up_calls(char *text)
{
    int found = 0;
    for (char *at = strtok(text, ";"); at; at = strtok(NULL, ";")) {
        char *start = strstr(at, "\nGS_API"), *name = start ? strstr(start, "gs_") : NULL;
        while (name && name[strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789")] != '(')
            name = strstr(name + 3, "gs_");
        if (!name || !strstr(name, "uint64_t deadline_ns"))
            continue;
        name[strcspn(name, "(")] = 0;
        found++;
        if (!is_known(name))
            TEST_FAIL("%s is missing in the table", name);
    }
    return found;
}

TEST(every_call_with_a_deadline_is_in_the_table)
{
    const char *const headers[] = {"buffered", "http_server", "io",   "net",
                                   "process",  "scope",       "sync", "thread"};
    int found = 0;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        static char text[1 << 17];
        char path[512];
        snprintf(path, sizeof path, "%s/%s.h", GS_HEADERS, headers[i]);
        FILE *header = fopen(path, "r");
        CHECK(header != NULL);
        text[fread(text, 1, sizeof text - 1, header)] = 0;
        fclose(header);
        found += look_up_calls(text);
    }
    CHECK(found > 40);
}
