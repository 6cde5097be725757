/* Calls on files that wait for a kernel thread of the pool, while their number comes to refer to
 * another file. The kernel looks it up when it makes the call: that may be before
 * gs_close, and then the call is of the old file, or it fails. The other file must be left
 * alone. */
#include "tests/newer_call.h"
#include "tests/thread/fixture.h"
#include "thread/io/blocking.h"
#include "thread/io/descriptors.h"

#include <gossamer/own_descriptors.h>
#include <linux/openat2.h>
#include <sys/eventfd.h>

static int old, other, socket_ends[2], text, listener;

/* ---- The calls ---- */

static intptr_t by_pread(void)
{
    char bytes[16] = "";
    ssize_t n = gs_pread(old, bytes, sizeof bytes, 0, GS_NEVER);
    MUST(n < 0 || bytes[0] == 'o');
    return n;
}

static intptr_t by_read(void)
{
    char bytes[16] = "";
    ssize_t n = gs_read(old, bytes, sizeof bytes, GS_NEVER);
    MUST(n < 0 || bytes[0] == 'o');
    return n;
}

/* A function that makes a call for the old file. */
#define CALL(name_, ...)                                                                           \
    static intptr_t name_(void)                                                                    \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }

CALL(by_pwrite, gs_pwrite(old, "old", 3, 0, GS_NEVER))
CALL(by_write, gs_write(old, "old", 3, GS_NEVER))
CALL(by_fsync, gs_fsync(old, GS_NEVER))

/* Without a page cache that tells, the pool sends. */
static intptr_t from_file(void)
{
    off_t offset = 0;
    char bytes[16] = "";
    ssize_t n = gs_sendfile(socket_ends[0], old, &offset, 3, GS_NEVER);
    MUST(n < 0 || (recv(socket_ends[1], bytes, sizeof bytes, 0) == 3 && bytes[0] == 'o'));
    return n;
}

static intptr_t to_socket(void)
{
    off_t offset = 0;
    return gs_sendfile(old, text, &offset, 3, GS_NEVER);
}

static intptr_t by_connect(void)
{
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    MUST_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    return gs_connect(old, (struct sockaddr *)&address, length, GS_NEVER);
}

static intptr_t by_accept(void)
{
    int fd = gs_accept(old, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    if (fd >= 0)
        gs_close(fd);
    return fd;
}

static intptr_t read_event(void)
{
    uint64_t count;
    ssize_t n = gs_read(old, &count, sizeof count, GS_NEVER);
    MUST(n < 0 || count == 1);
    return n;
}

static intptr_t write_event(void)
{
    const uint64_t count = 1;
    return gs_write(old, &count, sizeof count, GS_NEVER);
}

static intptr_t below_directory(void)
{
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    int fd = gs_open(old, "name", &how, GS_NEVER);
    if (fd >= 0)
        close(fd);
    return fd;
}

static intptr_t status_below_directory(void)
{
    struct stat status;
    return gs_stat(old, "name", &status, GS_NEVER);
}

/* The last ones are in blocking mode. */
enum kind { FILE_KIND, SOCKET, DIRECTORY, BLOCKING_SOCKET, UNCONNECTED, LISTENER, EVENTS };

static const struct call {
    const char *name;
    enum kind kind;
    intptr_t (*make)(void);
    enum job_kind job;
    long number; /* of the system call in the pool */
} waiting_calls[] = {
    {"gs_pread", FILE_KIND, by_pread, JOB_FILE, SYS_preadv2},
    {"gs_read", FILE_KIND, by_read, JOB_FILE, SYS_preadv2},
    {"gs_pwrite", FILE_KIND, by_pwrite, JOB_FILE, SYS_pwritev2},
    {"gs_write", FILE_KIND, by_write, JOB_FILE, SYS_pwritev2},
    {"gs_fsync", FILE_KIND, by_fsync, JOB_FILE, SYS_fsync},
    {"gs_sendfile from it", FILE_KIND, from_file, JOB_FILE, SYS_sendfile},
    {"gs_sendfile to it", SOCKET, to_socket, JOB_FILE, SYS_sendfile},
    {"gs_open below it", DIRECTORY, below_directory, JOB_PATH, SYS_openat2},
    {"gs_stat below it", DIRECTORY, status_below_directory, JOB_PATH, SYS_newfstatat},
    {"gs_sendfile to it when ready", BLOCKING_SOCKET, to_socket, JOB_STREAM, SYS_sendfile},
    {"gs_connect", UNCONNECTED, by_connect, JOB_STREAM, SYS_connect},
    {"gs_accept", LISTENER, by_accept, JOB_STREAM, SYS_accept4},
    {"gs_read when ready", EVENTS, read_event, JOB_STREAM, SYS_readv},
    {"gs_write when ready", EVENTS, write_event, JOB_STREAM, SYS_writev},
};
static const struct call *call;

/* ---- The files ---- */

static char folders[2][32];
static int socket_of_old, socket_of_other;

static int make_file(const char *contents)
{
    char path[] = "/var/tmp/gossamer-reuse-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    MUST(fd >= 0);
    unlink(path);
    MUST_EQ(write(fd, contents, strlen(contents)), strlen(contents));
    MUST_EQ(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static int make_socket(int flags, int *ret_peer)
{
    int pair[2];
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, pair), 0);
    *ret_peer = pair[1];
    return pair[0];
}

/* At an address that the kernel chooses; clients: how many connect. */
static int make_listener(int clients)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    MUST_EQ(listen(fd, 64), 0);
    MUST_EQ(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    for (int i = 0; i < clients; i++) {
        int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        MUST_EQ(connect(client, (struct sockaddr *)&address, length), 0);
        close(client);
    }
    return fd;
}

/* Only the second directory has the name. */
static int make_directory(int index)
{
    int fd;
    snprintf(folders[index], sizeof folders[index], "/tmp/gossamer-reuse-XXXXXX");
    MUST(mkdtemp(folders[index]));
    fd = open(folders[index], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (index)
        close(openat(fd, "name", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    return fd;
}

static void make_both(enum kind kind)
{
    int flags = kind == SOCKET ? SOCK_NONBLOCK : 0;
    socket_of_old = socket_of_other = -1;
    if (kind == FILE_KIND) {
        old = make_file("old");
        other = make_file("other");
    } else if (kind == SOCKET || kind == BLOCKING_SOCKET) {
        old = make_socket(flags, &socket_of_old);
        other = make_socket(flags, &socket_of_other);
    } else if (kind == DIRECTORY) {
        old = make_directory(0);
        other = make_directory(1);
    } else if (kind == UNCONNECTED) {
        old = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    } else if (kind == LISTENER) {
        old = make_listener(1);
        other = make_listener(1);
    } else {
        old = eventfd(1, EFD_CLOEXEC);
        other = eventfd(7, EFD_CLOEXEC);
    }
}

/* The calls on directories check that they have not found the name. */
static void check_untouched(enum kind kind)
{
    char bytes[16] = "";
    struct pollfd poll_fd = {.fd = other, .events = POLLIN};
    uint64_t count;
    if (kind == FILE_KIND) {
        MUST_EQ(lseek(other, 0, SEEK_CUR), 0);
        MUST_EQ(pread(other, bytes, sizeof bytes, 0), 5);
        MUST(!strcmp(bytes, "other"));
    } else if (kind == SOCKET || kind == BLOCKING_SOCKET) {
        MUST_EQ(recv(socket_of_other, bytes, sizeof bytes, MSG_DONTWAIT), -1);
    } else if (kind == UNCONNECTED) {
        MUST_EQ(send(other, "", 1, MSG_NOSIGNAL), -1);
    } else if (kind == LISTENER) {
        MUST_EQ(poll(&poll_fd, 1, 0), 1);
    } else if (kind == EVENTS) {
        MUST_EQ(read(other, &count, sizeof count), sizeof count);
        MUST_EQ(count, 7);
    } else {
        MUST_EQ(unlinkat(other, "name", 0), 0);
        MUST_EQ(rmdir(folders[0]), 0);
        MUST_EQ(rmdir(folders[1]), 0);
    }
}

/* ---- The moments ---- */

static atomic_bool is_held, is_released;
static atomic_long held_number; /* of a system call; 0: none */
static bool refuses;
static _Atomic(int) looked_at = -1; /* when it is closed */

/* Calls that do not wait are refused; those of the pool are held right before they are made. */
static long hold_in_pool(long number, void *data)
{
    (void)data;
    int fd = looked_at;
    looked_at = number == SYS_close ? -1 : fd;
    if (number == SYS_close && fd >= 0)
        MUST_EQ(gs_descriptor_kind(gs_descriptor(fd), fd), KIND_POLLABLE);
    if (gs_thread_self())
        return refuses && (number == SYS_preadv2 || number == SYS_pwritev2) ? -EOPNOTSUPP : 0;
    if (stands_for(number, atomic_load(&held_number))) {
        atomic_store(&is_held, true);
        while (!atomic_load(&is_released))
            sched_yield();
    }
    return 0;
}

static void occupy(void *unused)
{
    (void)unused;
    atomic_store(&is_held, true);
    while (!atomic_load(&is_released))
        sched_yield();
}

static void *occupy_pool(void *unused)
{
    MUST_EQ(gs_run_blocking_as(call->job, occupy, NULL, 0, GS_NEVER), 0);
    return unused;
}

static void *make_call(void *unused)
{
    (void)unused;
    return (void *)call->make();
}

static void await_hold(void)
{
    while (!atomic_load(&is_held))
        gs_thread_yield();
}

/* Returns whether the number was free. */
static bool close_and_reuse(void)
{
    int number = old;
    MUST_EQ(gs_close(number), 0);
    int fd = fcntl(other, F_DUPFD_CLOEXEC, number);
    atomic_store(&is_released, true);
    close(fd == number ? -1 : fd);
    return fd == number;
}

static void check_call(struct gs_thread *caller)
{
    intptr_t result = (intptr_t)join(caller);
    if (result != -EBADF) {
        fprintf(stderr, "%s: %d\n", call->name, (int)result);
        MUST_EQ(result, -EBADF);
    }
    check_untouched(call->kind);
}

static void close_all(void)
{
    gs_forget(old);
    close(old), close(other), close(socket_of_old), close(socket_of_other);
}

static void reset(bool holds_in_pool)
{
    atomic_store(&held_number, holds_in_pool ? call->number : 0);
    atomic_store(&is_held, false);
    atomic_store(&is_released, false);
    refuses = true;
    make_both(call->kind);
}

/* The call waits for a kernel thread of the pool. */
static void check_queued(void)
{
    reset(false);
    struct gs_thread *occupier = spawn(occupy_pool, NULL);
    await_hold();
    struct gs_thread *caller = spawn(make_call, NULL);
    gs_thread_yield();
    MUST(close_and_reuse());
    check_call(caller);
    join(occupier);
    close_all();
}

/* A kernel thread of the pool is about to make the call. The number remains until it has. */
static void check_in_pool(void)
{
    reset(true);
    int number = old;
    struct gs_thread *caller = spawn(make_call, NULL);
    await_hold();
    MUST(!close_and_reuse());
    check_call(caller);
    MUST_EQ(fcntl(number, F_GETFD), -1);
    old = -1;
    close_all();
}

/* gs_forget waits until the call has been made. */
THREAD(release_later)
{
    gs_thread_sleep(after(GS_MILLISECOND));
    MUST_EQ(atomic_load(&gs_descriptor(old)->calls) & ~CALLS_DEAD, 1);
    atomic_store(&is_released, true);
}

static void check_forgotten(void)
{
    reset(true);
    struct gs_thread *caller = spawn(make_call, NULL);
    await_hold();
    struct gs_thread *releaser = spawn(release_later, NULL);
    gs_forget(old);
    MUST_EQ(dup2(other, old), old);
    join(releaser);
    join(caller);
    check_untouched(call->kind);
    close_all();
}

/* The program closes the number, and gives it to another file at once, as dup2 does. */
static void check_replaced(bool forgets)
{
    reset(true);
    int number = old;
    struct gs_thread *caller = spawn(make_call, NULL);
    await_hold();
    MUST_EQ(gs_close(number), 0);
    MUST_EQ(gs_close(number), -EBADF);
    struct gs_thread *releaser = forgets ? spawn(release_later, NULL) : NULL;
    if (forgets)
        gs_forget(number);
    MUST_EQ(dup2(other, number), number);
    atomic_store(&is_released, true);
    join(caller);
    if (forgets)
        join(releaser);
    check_untouched(call->kind);
    MUST(fcntl(number, F_GETFD) >= 0);
    MUST_EQ(gs_close(number), 0);
    MUST_EQ(fcntl(number, F_GETFD), -1);
    old = -1;
    close_all();
}

/* A call that begins when the number is no file's tells nothing about the next one. */
static void check_kind(void)
{
    char byte;
    reset(true);
    int number = old;
    struct gs_thread *caller = spawn(make_call, NULL);
    await_hold();
    MUST_EQ(gs_close(number), 0);
    MUST_EQ(gs_read(number, &byte, 1, 0), -EBADF);
    MUST_EQ(gs_sendfile(socket_ends[0], number, NULL, 1, 0), -EINVAL);
    atomic_store(&is_released, true);
    join(caller);
    refuses = false;
    MUST_EQ(fcntl(other, F_DUPFD_CLOEXEC, number), number);
    MUST_EQ(gs_sendfile(socket_ends[0], number, NULL, 1, GS_NEVER), 1);
    MUST_EQ(recv(socket_ends[1], &byte, 1, 0), 1);
    MUST_EQ(lseek(number, 0, SEEK_SET), 0);
    old = number;
    check_untouched(call->kind);
    close_all();
}

/* The same for a call that begins just before the file is closed. */
static void check_kind_at_close(void)
{
    reset(false);
    int number = eventfd(0, EFD_CLOEXEC);
    looked_at = number;
    MUST_EQ(gs_close(number), 0);
    MUST_EQ(looked_at, -1);
    MUST_EQ(fcntl(other, F_DUPFD_CLOEXEC, number), number);
    MUST_EQ(gs_descriptor_kind(gs_descriptor(number), number), KIND_REGULAR);
    close(number);
    close_all();
}

/* A call that needs the file offset waits for another one that uses it. */
CALL(at_file_offset, gs_sendfile(old, text, NULL, 3, GS_NEVER))

static void *read_text(void *unused)
{
    char byte;
    MUST_EQ(gs_read(text, &byte, 1, GS_NEVER), 1);
    return unused;
}

static void check_position(void)
{
    static const struct call sending = {"gs_sendfile at the offset", SOCKET, at_file_offset,
                                        JOB_FILE, SYS_preadv2};
    call = &sending;
    reset(true);
    struct gs_thread *reader = spawn(read_text, NULL);
    await_hold();
    refuses = false;
    struct gs_thread *caller = spawn(make_call, NULL);
    gs_thread_yield();
    MUST(close_and_reuse());
    check_call(caller);
    join(reader);
    close_all();
}

THREAD(check_table)
{
    const struct call *end = waiting_calls + sizeof waiting_calls / sizeof *waiting_calls;
    text = make_file("text");
    listener = make_listener(0);
    int peer = -1;
    socket_ends[0] = make_socket(SOCK_NONBLOCK, &peer);
    socket_ends[1] = peer;
    for (call = waiting_calls; call < end; call++) {
        check_queued();
        check_in_pool();
        check_forgotten();
    }
    call = waiting_calls;
    check_replaced(false);
    check_replaced(true);
    check_kind();
    check_kind_at_close();
    check_position();
    close(listener), close(text), close(socket_ends[0]), close(socket_ends[1]);
}

TEST(call_that_waits_for_the_pool_leaves_the_numbers_next_file_alone)
{
    /* One kernel thread, which can be occupied. */
    const struct gs_threads_options options = {.max_pool_threads = 1, .stuck_ns = GS_NEVER};
    gs_sys_set_fault(hold_in_pool, NULL);
    CHECK_EQ(gs_threads_run(&options, check_table, NULL, NULL), 0);
    gs_sys_set_fault(NULL, NULL);
}
