/* Files in blocking mode: no call blocks its worker, although what a poll has announced is taken by
 * another process before the system call. The hook of system calls is that process. */
#include "tests/thread/io/connection.h"
#include "tests/thread/report/report.h"

#include <limits.h>
#include <pty.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#define SHORT_NS (15 * GS_MILLISECOND)

static int fd, peer; /* of the row */
static char folder[] = "/tmp/blocking_mode.XXXXXX";
static char bytes[1 << 17];
static atomic_bool is_nowait_refused;
static atomic_int steals;    /* how many are still to come */
static atomic_long steal_at; /* the number of the system call */
static void (*steal)(void);
static _Atomic(long) full_at; /* this system call finds no room, ... */
static atomic_int full_for;   /* ... so many times */

static long before_system_call(long number, void *unused)
{
    (void)unused;
    if ((number == steal_at || (steal_at == SYS_readv && number == SYS_preadv2)) &&
        !(is_nowait_refused && number == SYS_preadv2) && atomic_load(&steals) > 0) {
        atomic_fetch_sub(&steals, 1);
        steal();
    }
    if (number == full_at && atomic_fetch_sub(&full_for, 1) > 0)
        return -EAGAIN;
    bool is_refused = number == SYS_preadv2 || number == SYS_pwritev2;
    return is_nowait_refused && is_refused ? -EOPNOTSUPP : 0;
}

/* ---- Files that are read ---- */

static void in_mode(int number, bool is_blocking)
{
    int flags = fcntl(number, F_GETFL);
    MUST_EQ(fcntl(number, F_SETFL, is_blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK), 0);
}

static void drain(void)
{
    in_mode(fd, false);
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
    in_mode(fd, true);
}

static void open_pair(int ends[2])
{
    fd = ends[0];
    peer = ends[1];
}

static void open_pipe(void)
{
    int ends[2];
    MUST_EQ(pipe2(ends, O_CLOEXEC), 0);
    open_pair(ends);
}

static void open_fifo(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/fifo", folder);
    MUST_EQ(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    peer = dup(fd);
    MUST(fd >= 0 && peer >= 0);
    unlink(path);
}

static void open_unix(void)
{
    int ends[2];
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    open_pair(ends);
}

static void open_tcp(void)
{
    connect_both();
    in_mode(ours, true);
    open_pair((int[]){ours, theirs});
}

static void open_terminal(bool is_master)
{
    int ends[2];
    MUST_EQ(openpty(&ends[is_master], &ends[!is_master], NULL, NULL, NULL), 0);
    open_pair((int[]){ends[1], ends[0]});
}

/* A function that opens or does something. */
#define ACTION(name_, ...)                                                                         \
    static void name_(void)                                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

ACTION(open_slave, open_terminal(false))
ACTION(open_master, open_terminal(true))

static void open_inotify(void)
{
    fd = inotify_init1(IN_CLOEXEC);
    MUST(fd >= 0 && inotify_add_watch(fd, folder, IN_CREATE) >= 0);
}

ACTION(open_timer, MUST((fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) >= 0))
ACTION(open_event, MUST((fd = eventfd(0, EFD_CLOEXEC)) >= 0))

static void open_signals(void)
{
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    MUST((fd = signalfd(-1, &usr1, SFD_CLOEXEC)) >= 0);
}

ACTION(write_line, MUST_EQ(write(peer, "line\n", 5), 5))

static void create_file(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/file", folder);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    unlink(path);
}

static void expire(void)
{
    const struct itimerspec soon = {.it_value.tv_nsec = 1};
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    MUST_EQ(timerfd_settime(fd, 0, &soon, NULL), 0);
    MUST_EQ(poll(&poll_fd, 1, 10000), 1);
}

ACTION(count_event, MUST_EQ(eventfd_write(fd, 1), 0))
ACTION(send_signal, kill(getpid(), SIGUSR1))

static const struct source {
    const char *name;
    void (*open)(void), (*feed)(void);
} sources[] = {
    {"pipe", open_pipe, write_line},        {"FIFO", open_fifo, write_line},
    {"Unix socket", open_unix, write_line}, {"TCP socket", open_tcp, write_line},
    {"terminal", open_slave, write_line},   {"its other end", open_master, write_line},
    {"inotify", open_inotify, create_file}, {"timer", open_timer, expire},
    {"eventfd", open_event, count_event},   {"signals", open_signals, send_signal},
};
enum { SOURCES = sizeof sources / sizeof *sources };

static void fail(const char *name, const char *what, long result)
{
    fprintf(stderr, "%s, %s: %ld\n", name, what, result);
    _exit(1);
}

/* What is announced is stolen; a later call gets what comes later. On a busy machine, the deadline
 * may pass before the system call. */
static void read_after_theft(const struct source *source, uint64_t wait_ns)
{
    ssize_t n;
    do {
        source->feed();
        atomic_store(&steals, 1);
        n = gs_read(fd, bytes, sizeof bytes, wait_ns ? after(wait_ns) : 0);
        wait_ns *= 2;
    } while (n == -ETIMEDOUT && atomic_load(&steals) && wait_ns && wait_ns < 10 * GS_SECOND);
    if (n != -ETIMEDOUT || atomic_load(&steals))
        fail(source->name, "stolen", n);
    source->feed();
    n = gs_read(fd, bytes, sizeof bytes, GS_NEVER);
    if (n <= 0)
        fail(source->name, "fed", n);
}

THREAD(read_all_sources)
{
    steal_at = SYS_readv;
    steal = drain;
    for (int i = 0; i < SOURCES; i++)
        for (int refused = 0; refused < 2; refused++) {
            is_nowait_refused = refused;
            peer = -1;
            sources[i].open();
            read_after_theft(&sources[i], SHORT_NS);
            read_after_theft(&sources[i], 0);
            gs_close(fd);
            close(peer);
        }
    is_nowait_refused = false;
}

/* ---- Files that are written to ---- */

static atomic_bool is_written;

THREAD(drain_peer)
{
    in_mode(peer, false);
    while (!is_written) {
        while (read(peer, bytes, sizeof bytes) > 0)
            ;
        gs_thread_sleep(after(GS_MILLISECOND));
    }
}

static char text[1 << 16];

/* A terminal that nobody reads, and that is announced as writable while there is any room. */
static void write_to_full(bool is_blocking)
{
    size_t done;
    ssize_t n;
    memset(text, 'x', sizeof text);
    is_written = false;
    open_slave();
    in_mode(fd, is_blocking);
    MUST(gs_write(fd, text, sizeof text, GS_NEVER) > 0);
    while ((n = gs_write(fd, text, sizeof text, after(SHORT_NS))) > 0)
        ;
    MUST_EQ(n, -ETIMEDOUT);
    /* On a busy machine the kernel makes room later. */
    while ((n = gs_write(fd, text, sizeof text, 0)) > 0)
        ;
    MUST_EQ(n, -ETIMEDOUT);
    struct gs_thread *reader = spawn(drain_peer, NULL);
    for (done = 0; done < sizeof text; done += (size_t)n) {
        n = gs_write(fd, text + done, sizeof text - done, GS_NEVER);
        MUST(n > 0);
    }
    is_written = true;
    join(reader);
    gs_close(fd);
    close(peer);
}

THREAD(write_to_full_terminal)
{
    write_to_full(true);
    write_to_full(false);
}

/* ---- Other calls ---- */

static int listener;
static struct sockaddr_un unix_address = {.sun_family = AF_UNIX};

ACTION(accept_it, close(accept(listener, NULL, NULL)))

static void connect_one(void)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    MUST_EQ(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(connect(client, (struct sockaddr *)&address, size), 0);
    close(client);
}

THREAD(accept_after_theft)
{
    struct sockaddr_in address;
    listener = listen_anywhere(&address);
    in_mode(listener, true);
    steal_at = SYS_accept4;
    steal = accept_it;
    for (int i = 0; i < 2; i++) {
        connect_one();
        atomic_store(&steals, 1);
        for (uint64_t wait_ns = SHORT_NS; atomic_load(&steals); wait_ns *= 2)
            MUST_EQ(gs_accept(listener, NULL, NULL, 0, i ? after(wait_ns) : 0), -ETIMEDOUT);
        connect_one();
        int accepted = gs_accept(listener, NULL, NULL, 0, GS_NEVER);
        MUST(accepted >= 0 && fcntl(accepted, F_GETFL) & O_NONBLOCK);
        gs_close(accepted);
    }
    gs_close(listener);
}

static void fill(void)
{
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    while (send(fd, bytes, 1, MSG_DONTWAIT) > 0)
        ;
}

THREAD(send_file_after_theft)
{
    off_t offset = 0;
    int file = memfd_create("file", MFD_CLOEXEC);
    MUST_EQ(write(file, bytes, 1000), 1000);
    steal_at = SYS_sendfile;
    steal = fill;
    for (int i = 0; i < 2; i++) {
        open_unix();
        atomic_store(&steals, 1);
        for (uint64_t wait_ns = SHORT_NS; atomic_load(&steals); wait_ns *= 2)
            MUST_EQ(gs_sendfile(fd, file, &offset, 1000, i ? after(wait_ns) : 0), -ETIMEDOUT);
        MUST_EQ(offset, 0);
        gs_close(fd);
        close(peer);
    }
    close(file);
}

/* A terminal whose other end is closed, and that is full, stays ready. */
static void write_to_ready(bool is_blocking)
{
    open_slave();
    in_mode(fd, is_blocking);
    full_for = INT_MAX;
    full_at = SYS_writev;
    for (int i = 0; i < 2; i++)
        MUST_EQ(gs_write(fd, text, 1000, i ? after(SHORT_NS) : 0), -ETIMEDOUT);
    full_at = 0;
    gs_close(fd);
    close(peer);
}

THREAD(write_to_ready_terminal)
{
    write_to_ready(true);
    write_to_ready(false);
}

/* To a listener whose queue is full, until that is emptied. */
THREAD(connect_to_crowded)
{
    int clients[3], crowded = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *address = (struct sockaddr *)&unix_address;
    snprintf(unix_address.sun_path, sizeof unix_address.sun_path, "%s/socket", folder);
    MUST_EQ(bind(crowded, address, sizeof unix_address), 0);
    MUST_EQ(listen(crowded, 0), 0);
    for (int i = 0; i < 3; i++)
        MUST((clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
    MUST_EQ(gs_connect(clients[0], address, sizeof unix_address, GS_NEVER), 0);
    MUST_EQ(gs_connect(clients[1], address, sizeof unix_address, after(SHORT_NS)), -ETIMEDOUT);
    MUST_EQ(gs_connect(clients[1], address, sizeof unix_address, 0), -ETIMEDOUT);
    close(accept(crowded, NULL, NULL));
    MUST_EQ(gs_connect(clients[2], address, sizeof unix_address, GS_NEVER), 0);
    for (int i = 0; i < 3; i++)
        gs_close(clients[i]);
    close(crowded);
    unlink(unix_address.sun_path);
}

/* ---- Each in a child, which a call that blocks would stop for ever ---- */

static gs_thread_fn *row;
static unsigned workers;

static void run_row(void)
{
    sigset_t usr1;
    alarm(30);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    MUST_EQ(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
    gs_sys_set_fault(before_system_call, NULL);
    run_reporting(workers, row, 0);
}

TEST(no_call_on_a_file_in_blocking_mode_blocks_its_worker)
{
    gs_thread_fn *const rows[] = {read_all_sources,        write_to_full_terminal,
                                  accept_after_theft,      send_file_after_theft,
                                  write_to_ready_terminal, connect_to_crowded};
    if (IS_EMULATED)
        SKIP("an emulator is too slow for calls that a timer interrupts");
    CHECK(mkdtemp(folder) != NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (workers = 1; workers < 4; workers += 2) {
            row = rows[i];
            CHECK_EQ(in_child(run_row), 0);
        }
    rmdir(folder);
}
