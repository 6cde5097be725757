/* Child processes, with pidfds, and with SIGCHLD if there are no pidfds. */
#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static struct gs_child a, b;
static struct gs_child_exit last;

static void on_end(struct gs_child *child, const struct gs_child_exit *exit)
{
    log_call(&child->watcher);
    last = *exit;
}

static long refuse_descriptors(long number, void *data)
{
    (void)data;
    return number == SYS_pidfd_open ? -ENOSYS : 0;
}

static void set_up(bool has_descriptors)
{
    gs_sys_set_fault(has_descriptors ? NULL : refuse_descriptors, NULL);
    loop = new_loop();
    memset(&last, 0xff, sizeof last);
    gs_child_init(&a, loop, on_end);
    gs_child_init(&b, loop, on_end);
    a.watcher.data = "a";
    b.watcher.data = "b";
}

static void tear_down(void)
{
    gs_loop_free(loop);
    gs_sys_set_fault(NULL, NULL);
}

#define IN_BOTH_WAYS(has_descriptors_)                                                             \
    for (int has_descriptors_ = 0; has_descriptors_ < 2; has_descriptors_++)

/* Spawn a child that exits when a byte is written to *ret_fd. */
static pid_t spawn(int status, int *ret_fd)
{
    int pair[2];
    connect_pair(pair);
    pid_t pid = fork();
    if (!pid) {
        char byte;
        fcntl(pair[1], F_SETFL, 0);
        close(pair[0]);
        _exit(read(pair[1], &byte, 1) < 0 ? 99 : status);
    }
    close(pair[1]);
    *ret_fd = pair[0];
    return pid;
}

/* Spawn a child that has exited and was not reaped. */
static pid_t spawn_ended(int status)
{
    siginfo_t info;
    int fd;
    pid_t pid = spawn(status, &fd);
    close(fd);
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT))
        abort();
    return pid;
}

static bool is_reaped(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) < 0;
}

/* A test in both ways. */
#define CHILD_TEST(name_)                                                                          \
    static void name_##_body(void);                                                                \
    TEST(name_)                                                                                    \
    {                                                                                              \
        IN_BOTH_WAYS(transport)                                                                    \
        {                                                                                          \
            set_up(transport);                                                                     \
            name_##_body();                                                                        \
            tear_down();                                                                           \
        }                                                                                          \
    }                                                                                              \
    static void name_##_body(void)

CHILD_TEST(end_of_a_child_is_reported_with_its_status_and_usage)
{
    int fd;
    pid_t pid = spawn(42, &fd);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    CHECK_EQ(step(loop), 0);
    CHECK(gs_watcher_is_active(&a.watcher));
    close(fd);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "a");
    CHECK_EQ(last.pid, pid);
    CHECK_EQ(last.code, CLD_EXITED);
    CHECK_EQ(last.status, 42);
    CHECK(last.usage.ru_maxrss > 0);
    CHECK(!gs_watcher_is_active(&a.watcher));
    CHECK(is_reaped(pid));
}

CHILD_TEST(killed_child_reports_the_signal)
{
    int fd;
    pid_t pid = spawn(0, &fd);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    kill(pid, SIGKILL);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last.code, CLD_KILLED);
    CHECK_EQ(last.status, SIGKILL);
    close(fd);
}

CHILD_TEST(child_that_ended_before_the_start_is_reported)
{
    pid_t pid = spawn_ended(7);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last.pid, pid);
    CHECK_EQ(last.status, 7);
    CHECK(is_reaped(pid));
}

/* In a kernel thread, which is not the process's first. */
static void *watch_itself(void *ret_err)
{
    *(int *)ret_err = gs_child_start(&a, (pid_t)syscall(SYS_gettid));
    return NULL;
}

CHILD_TEST(process_that_is_no_child_is_refused)
{
    int err = 0;
    pthread_t thread;
    pid_t gone = spawn_ended(0);
    waitpid(gone, NULL, 0);
    CHECK_EQ(gs_child_start(&a, 0), -EINVAL);
    CHECK_EQ(gs_child_start(&a, -1), -EINVAL);
    CHECK_EQ(gs_child_start(&a, getppid()), -ECHILD);
    CHECK_EQ(gs_child_start(&a, gone), -ECHILD);
    CHECK_EQ(pthread_create(&thread, NULL, watch_itself, &err), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(err, -ECHILD);
    CHECK(!gs_watcher_is_active(&a.watcher));
    CHECK_EQ(gs_loop_run(loop), 0);
}

CHILD_TEST(stopped_watcher_leaves_the_child_to_its_caller)
{
    int status;
    pid_t pid = spawn_ended(5);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    gs_child_stop(&a);
    gs_child_stop(&a);
    CHECK_EQ(step(loop), 0);
    CHECK_STR(calls, "");
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(WEXITSTATUS(status), 5);
}

CHILD_TEST(several_watchers_of_one_child_are_all_called_and_it_is_reaped)
{
    pid_t pid = spawn_ended(3);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    CHECK_EQ(gs_child_start(&b, pid), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(strlen(calls), 2);
    CHECK(strchr(calls, 'a') && strchr(calls, 'b'));
    CHECK_EQ(last.code, CLD_EXITED);
    CHECK_EQ(last.status, 3);
    CHECK(is_reaped(pid));
}

CHILD_TEST(loops_wait_for_children_of_their_own)
{
    struct gs_loop *other;
    struct gs_child others;
    int first_fd, second_fd;
    CHECK_EQ(gs_loop_new(&other), 0);
    gs_child_init(&others, other, on_end);
    others.watcher.data = "o";
    pid_t first = spawn(1, &first_fd), second = spawn(2, &second_fd);
    CHECK_EQ(gs_child_start(&a, first), 0);
    CHECK_EQ(gs_child_start(&others, second), 0);
    step(loop);
    step(other);
    close(second_fd);
    CHECK_EQ(gs_loop_run(other), 0);
    CHECK_EQ(last.pid, second);
    CHECK_EQ(step(loop), 0);
    gs_loop_free(other);
    close(first_fd);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last.pid, first);
    CHECK_STR(calls, "oa");
}

CHILD_TEST(child_reaped_by_other_code_has_an_unknown_status)
{
    int fd;
    pid_t pid = spawn(1, &fd);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    close(fd);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "a");
    CHECK_EQ(last.code, 0);
    CHECK_EQ(last.status, -ECHILD);
}

/* Without pidfds the loop catches the signal. */
TEST(child_whose_status_the_kernel_does_not_keep_has_an_unknown_one)
{
    int fd;
    set_up(true);
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = spawn(1, &fd);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    close(fd);
    CHECK_EQ(gs_loop_run(loop), 0);
    signal(SIGCHLD, SIG_DFL);
    CHECK_STR(calls, "a");
    CHECK_EQ(last.code, 0);
    CHECK_EQ(last.status, -ECHILD);
    tear_down();
}

CHILD_TEST(fed_watcher_of_a_child_that_runs_is_called_and_stays)
{
    int fd;
    pid_t pid = spawn(6, &fd);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    gs_watcher_feed(&a.watcher, 8);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last.code, 0);
    CHECK_EQ(last.status, 0);
    CHECK(gs_watcher_is_active(&a.watcher));
    close(fd);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last.status, 6);
    CHECK_STR(calls, "aa");
}

static pid_t next_pid;

static void start_next(struct gs_child *child, const struct gs_child_exit *exit)
{
    on_end(child, exit);
    if (next_pid && gs_child_start(child, next_pid))
        abort();
    next_pid = 0;
}

CHILD_TEST(watcher_may_start_for_another_child_in_its_own_callback)
{
    a.callback = start_next;
    next_pid = spawn_ended(2);
    CHECK_EQ(gs_child_start(&a, spawn_ended(1)), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "aa");
    CHECK_EQ(last.status, 2);
}

static void stop_both(struct gs_child *child, const struct gs_child_exit *exit)
{
    on_end(child, exit);
    gs_child_stop(&a);
    gs_child_stop(&b);
}

CHILD_TEST(watcher_stopped_in_anothers_callback_is_not_called)
{
    a.callback = b.callback = stop_both;
    pid_t first = spawn_ended(0), second = spawn_ended(0);
    CHECK_EQ(gs_child_start(&a, first), 0);
    CHECK_EQ(gs_child_start(&b, second), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(strlen(calls), 1);
    pid_t left = *calls == 'a' ? second : first;
    CHECK_EQ(waitpid(left, NULL, WNOHANG), left);
}

static long refuse_to_wait(long number, void *data)
{
    int *waits = data;
    return number == SYS_waitid && !(*waits)++ ? -EINVAL : 0;
}

TEST(sigchld_is_used_where_the_kernel_cannot_wait_with_a_pidfd)
{
    int fd, waits = 0;
    set_up(true);
    pid_t pid = spawn(4, &fd);
    gs_sys_set_fault(refuse_to_wait, &waits);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(a.io.fd, -1);
    close(fd);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last.pid, pid);
    CHECK_EQ(last.status, 4);
    tear_down();
}

static long refuse_to_watch(long number, void *data)
{
    (void)data;
    return number == SYS_epoll_ctl ? -ENOSPC : 0;
}

TEST(child_whose_pidfd_cannot_be_watched_is_reported)
{
    int fd;
    set_up(true);
    pid_t pid = spawn(4, &fd);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    gs_sys_set_fault(refuse_to_watch, NULL);
    step(loop);
    gs_sys_set_fault(NULL, NULL);
    CHECK(gs_watcher_is_active(&a.watcher));
    CHECK_STR(calls, "");
    close(fd);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "a");
    CHECK_EQ(last.pid, pid);
    CHECK_EQ(last.status, 4);
    tear_down();
}

TEST(many_children_are_each_reported_once)
{
    enum { N = 60 };
    static struct gs_child many[N];
    IN_BOTH_WAYS(transport)
    {
        set_up(transport);
        for (int i = 0; i < N; i++) {
            gs_child_init(&many[i], loop, on_end);
            many[i].watcher.data = "m";
            int fd;
            CHECK_EQ(gs_child_start(&many[i], spawn(i, &fd)), 0);
            close(fd);
        }
        CHECK_EQ(gs_loop_run(loop), 0);
        CHECK_EQ(strlen(calls), N);
        CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
        tear_down();
    }
}

TEST(pidfds_of_children_are_closed)
{
    set_up(true);
    int next_fd = dup(0);
    close(next_fd);
    CHECK_EQ(gs_child_start(&a, spawn_ended(0)), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    pid_t pid = spawn_ended(0);
    CHECK_EQ(gs_child_start(&a, pid), 0);
    gs_child_stop(&a);
    waitpid(pid, NULL, 0);
    int fd = dup(0);
    close(fd);
    CHECK_EQ(fd, next_fd);
    tear_down();
}
