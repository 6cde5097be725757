/* System calls fail while threads of several workers use sockets, files, the pool and timers. Each
 * error must be returned to the caller or handled; nothing may leak, and the next session must
 * succeed. Each fault has a process of its own, because reservations last as long as the
 * process. */
#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

#include <dirent.h>
#include <linux/openat2.h>

#define TIMEOUT_SECONDS 60
/* After this many runs in a row that do not reach the n-th call, no run is assumed to reach it. */
#define MISSES_MAX 2
/* Each run takes many times as long with a sanitizer. */
#define STRIDE (GS_ASAN || GS_TSAN ? 5 : 1)
#define DENSE 3

#define PTHREAD_CREATE (-1L) /* not a system call, but treated as one */

struct fault {
    long number, err;
    bool is_unnoticed; /* the error is ignored */
};

static const struct fault *armed;
static atomic_int left;
static atomic_bool has_fired;

static long fail(long number, void *unused)
{
    (void)unused;
    if (!armed || number != armed->number || atomic_fetch_sub(&left, 1) != 1)
        return 0;
    atomic_store(&has_fired, true);
    return armed->err;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument)
{
    long err = fail(PTHREAD_CREATE, NULL);
    return err ? (int)-err : __real_pthread_create(thread, attributes, fn, argument);
}

/* ---- Results of calls ---- */

static atomic_uint noticed;

/* Returns whether the call succeeded. If not, the error must be the injected one, or follow from
 * the peer's end. */
static bool ok(ssize_t result)
{
    if (result > 0)
        return true;
    bool is_end = !result || result == -EPIPE || result == -ECONNRESET;
    if (!is_end && !(armed && result == armed->err)) {
        fprintf(stderr, "an error of no meaning: %zd\n", result);
        _exit(1);
    }
    atomic_fetch_add(&noticed, 1);
    return false;
}

static bool done(int err)
{
    return !err || ok(err);
}

/* ---- A session ---- */

static void spawn_or_close(const struct gs_thread_attributes *attributes, gs_thread_fn *fn, int fd,
                           struct gs_thread **ret_thread)
{
    *ret_thread = NULL;
    if (!done(gs_thread_spawn(attributes, fn, (void *)(intptr_t)fd, ret_thread)))
        gs_close(fd);
}

static void join_if_spawned(struct gs_thread *thread)
{
    if (thread)
        join(thread);
}

static void *echo(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char bytes[64];
    for (int i = 0; i < 5; i++) {
        ssize_t n = gs_recv(fd, bytes, sizeof bytes, 0, after(TIMEOUT_SECONDS * GS_SECOND));
        if (!ok(n) || !ok(gs_send_all(fd, bytes, (size_t)n, GS_NEVER)))
            break;
    }
    gs_close(fd);
    return NULL;
}

static void *ask(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char bytes[64] = "word";
    for (int i = 0; i < 5; i++) {
        if (!ok(gs_send_all(fd, bytes, 4, GS_NEVER)))
            break;
        if (i == 2 && !done(gs_thread_sleep(after(GS_MILLISECOND))))
            break;
        if (!ok(gs_recv(fd, bytes, sizeof bytes, 0, GS_NEVER)))
            break;
    }
    gs_close(fd);
    return NULL;
}

static void exchange_messages(void)
{
    struct gs_thread *threads[6];
    for (size_t i = 0; i < 3; i++) {
        const struct gs_thread_attributes here = {.worker = 1, .stack_size = 1000},
                                          there = {.migrates = i != 1};
        int fds[2];
        MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
        spawn_or_close(&here, echo, fds[0], &threads[2 * i]);
        spawn_or_close(&there, ask, fds[1], &threads[2 * i + 1]);
    }
    for (int i = 0; i < 6; i++)
        join_if_spawned(threads[i]);
}

static struct sockaddr_in address;
static int listener;

/* No connection will arrive. */
static void shut_listener(void)
{
    MUST(atomic_load(&has_fired));
    MUST_EQ(gs_sys_shutdown(listener, SHUT_RDWR), 0);
}

static void *visit(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char byte = 'x';
    if (done(gs_connect(fd, (struct sockaddr *)&address, sizeof address, GS_NEVER)))
        ok(gs_send_all(fd, &byte, 1, GS_NEVER));
    else
        shut_listener();
    gs_close(fd);
    return NULL;
}

static void receive_visitor(void)
{
    char byte;
    int fd = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    if ((fd == -EINVAL && atomic_load(&has_fired)) || !ok(fd))
        return;
    ok(gs_recv(fd, &byte, 1, 0, GS_NEVER));
    gs_close(fd);
}

static void accept_one(void)
{
    struct gs_thread *visitor;
    socklen_t length = sizeof address;
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(listener >= 0 && fd >= 0);
    MUST_EQ(gs_sys_bind(listener, (struct sockaddr *)&address, length), 0);
    MUST_EQ(gs_sys_listen(listener, 8), 0);
    MUST_EQ(gs_sys_getsockname(listener, (struct sockaddr *)&address, &length), 0);
    spawn_or_close(&(struct gs_thread_attributes){.worker = 2}, visit, fd, &visitor);
    if (!visitor)
        shut_listener();
    receive_visitor();
    join_if_spawned(visitor);
    gs_close(listener);
}

static void *write_later(void *argument)
{
    char byte = 'x';
    done(gs_thread_sleep(after(GS_MILLISECOND)));
    ok(gs_write((int)(intptr_t)argument, &byte, 1, GS_NEVER));
    gs_close((int)(intptr_t)argument);
    return NULL;
}

static void poll_pipes(void)
{
    struct gs_thread *writer;
    int fds[2][2];
    char byte;
    for (int i = 0; i < 2; i++)
        MUST_EQ(gs_sys_pipe2(fds[i], O_CLOEXEC), 0);
    struct gs_poll polls[] = {{fds[0][0], GS_READ, 0}, {fds[1][0], GS_READ, 0}};
    spawn_or_close(NULL, write_later, fds[1][1], &writer);
    if (ok(gs_poll(polls, 2, GS_NEVER)))
        ok(gs_read(fds[1][0], &byte, 1, GS_NEVER));
    gs_close(fds[1][0]);
    join_if_spawned(writer);
    gs_close(fds[0][0]);
    gs_close(fds[0][1]);
}

static void add_one(void *number)
{
    ++*(int *)number;
}

/* Uses files on both workers, and the pool. */
THREAD(use_file)
{
    const struct open_how how = {.flags = O_RDWR | O_CREAT | O_CLOEXEC, .mode = 0600};
    char path[64], bytes[8] = "bytes";
    struct stat stat;
    int number = 1;
    /* a memory file system, if there is one */
    snprintf(path, sizeof path, "%s/gossamer-fault-%d-%p",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", getpid(), (void *)&path);
    int fd = gs_open(AT_FDCWD, path, &how, GS_NEVER);
    if (ok(fd)) {
        ok(gs_write(fd, bytes, 5, GS_NEVER));
        done(gs_fsync(fd, GS_NEVER));
        ok(gs_pread(fd, bytes, 5, 0, GS_NEVER));
        done(gs_stat(AT_FDCWD, path, &stat, GS_NEVER));
        gs_close(fd);
    }
    unlink(path);
    if (done(gs_run_blocking(add_one, &number, GS_NEVER)))
        MUST_EQ(number, 2);
}

static void use_files(void)
{
    struct gs_thread *threads[2] = {NULL};
    for (unsigned i = 0; i < 2; i++) {
        const struct gs_thread_attributes attributes = {.worker = i + 1, .stack_size = 100000};
        if (!done(gs_thread_spawn(&attributes, use_file, NULL, &threads[i])))
            threads[i] = NULL;
    }
    for (int i = 0; i < 2; i++)
        join_if_spawned(threads[i]);
}

THREAD(run_threads)
{
    exchange_messages();
    accept_one();
    poll_pipes();
    use_files();
}

/* ---- One fault ---- */

static int count_descriptors(void)
{
    DIR *entries = opendir("/proc/self/fd");
    int count = 0;
    MUST(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

static int run_session(void)
{
    const struct gs_threads_options options = {.workers = 2, .stuck_ns = 60 * GS_SECOND};
    int before = count_descriptors();
    atomic_store(&noticed, 0);
    int err = gs_threads_run(&options, run_threads, NULL, NULL);
    MUST_EQ(count_descriptors(), before);
    return err;
}

enum { REACHED = 0, NOT_REACHED = 2 };

/* Runs one fault in a child process. */
static int run_with_fault(const struct fault *fault, int n)
{
    alarm(TIMEOUT_SECONDS);
    signal(SIGPIPE, SIG_IGN);
    armed = fault;
    atomic_store(&left, n);
    gs_sys_set_fault(fail, NULL);
    int err = run_session();
    MUST(!err || (err == fault->err && !fault->is_unnoticed));
    MUST(!fault->is_unnoticed || !atomic_load(&noticed));
    armed = NULL;
    MUST_EQ(run_session(), 0);
    MUST_EQ(atomic_load(&noticed), 0);
    return atomic_load(&has_fired) ? REACHED : NOT_REACHED;
}

static int status_of(const struct fault *fault, int n)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid)
        exit(run_with_fault(fault, n));
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void fail_each(const struct fault *fault)
{
    unsigned count = 0;
    for (int n = 1, misses = 0; misses < MISSES_MAX; n += n < DENSE ? 1 : STRIDE) {
        int status = status_of(fault, n);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != NOT_REACHED))
            TEST_FAIL("call %ld, the %d. fails with %ld: status %x", fault->number, n, fault->err,
                      (unsigned)status);
        bool is_reached = WEXITSTATUS(status) == REACHED;
        count += is_reached;
        misses = is_reached ? 0 : misses + 1;
    }
    printf("call %ld, %s: %u faults\n", fault->number, strerrorname_np((int)-fault->err), count);
}

#define FAIL_EACH(...)                                                                             \
    do {                                                                                           \
        static const struct fault faults_[] = {__VA_ARGS__};                                       \
        for (size_t i_ = 0; i_ < sizeof faults_ / sizeof *faults_; i_++)                           \
            fail_each(&faults_[i_]);                                                               \
    } while (0)

static void skip_emulator(void)
{
    if (IS_EMULATED)
        SKIP("an emulator takes minutes, and tests nothing more");
}

TEST(waiting_fails_cleanly_or_continues)
{
    skip_emulator();
    FAIL_EACH({SYS_epoll_ctl, -ENOMEM}, {SYS_epoll_ctl, -ENOSPC}, {SYS_epoll_create1, -EMFILE},
              {SYS_eventfd2, -ENFILE}, {SYS_epoll_pwait2, -EINTR, true}, {SYS_ppoll, -ENOMEM});
}

TEST(memory_fails_cleanly_or_is_done_without)
{
    skip_emulator();
    FAIL_EACH({SYS_mmap, -ENOMEM}, {SYS_mprotect, -ENOMEM}, {SYS_madvise, -EINVAL, true});
}

TEST(failure_to_create_a_kernel_thread_is_returned)
{
    skip_emulator();
    FAIL_EACH({PTHREAD_CREATE, -EAGAIN});
}
