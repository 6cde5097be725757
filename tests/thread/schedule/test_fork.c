#include "tests/thread/schedule/forking.h"
#include "thread/schedule/thread.h"

static int status_of(pid_t pid)
{
    int status = -1;
    MUST(pid > 0);
    MUST_EQ(gs_sys_wait4(pid, &status, 0), pid);
    return status;
}

static void *sleep_long(void *unused)
{
    gs_thread_sleep(after(3600 * GS_SECOND));
    return unused;
}

static void *send_through(void *argument)
{
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_send_all(*(int *)argument, "word", 4, GS_NEVER), 4);
    return NULL;
}

static void add_one(void *argument)
{
    ++*(int *)argument;
}

/* Uses everything that the runtime provides: threads, deadlines, I/O, blocking calls. */
static void use_everything(void)
{
    struct gs_thread *threads[20];
    char bytes[8];
    int fds[2], number = 1;
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    MUST_EQ(gs_recv(fds[0], bytes, 8, 0, after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    threads[0] = spawn(send_through, &fds[1]);
    MUST_EQ(gs_recv(fds[0], bytes, 8, 0, GS_NEVER), 4);
    join(threads[0]);
    for (int i = 0; i < 20; i++)
        threads[i] = spawn(sleep_long, NULL);
    gs_thread_yield();
    for (int i = 0; i < 20; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < 20; i++)
        join(threads[i]);
    MUST_EQ(gs_run_blocking(add_one, &number, GS_NEVER), 0);
    MUST_EQ(number, 2);
    MUST_EQ(gs_close(fds[0]), 0);
    MUST_EQ(gs_close(fds[1]), 0);
}

THREAD(fork_and_exec)
{
    static char *const arguments[] = {"true", NULL};
    pid_t pid = fork();
    if (!pid) {
        execv("/bin/true", arguments);
        _exit(1);
    }
    MUST_EQ(status_of(pid), 0);
    use_everything();
}

TEST(plain_fork_is_safe_for_a_child_that_execs)
{
    if (IS_EMULATED)
        run_unwatched(1, fork_and_exec); /* without other kernel threads (forking.h) */
    else
        run_both(fork_and_exec);
}

/* ---- Forks that fail, of two workers at once ---- */

static bool may_fork = true;
static atomic_int forking;

pid_t __real_fork(void);
pid_t __wrap_fork(void);

pid_t __wrap_fork(void)
{
    if (may_fork)
        return __real_fork();
    errno = EAGAIN;
    return -1;
}

/* Relaxed: nothing but the calls orders the two threads. */
THREAD(fail_to_fork)
{
    atomic_fetch_add_explicit(&forking, 1, memory_order_relaxed);
    while (atomic_load_explicit(&forking, memory_order_relaxed) < 2)
        ;
    MUST_EQ(gs_fork(), -EAGAIN);
}

THREAD(fail_to_fork_twice)
{
    struct gs_thread *threads[2];
    for (unsigned i = 0; i < 2; i++) {
        const struct gs_thread_attributes attributes = {.worker = i + 1};
        MUST_EQ(gs_thread_spawn(&attributes, fail_to_fork, NULL, &threads[i]), 0);
    }
    join(threads[0]);
    join(threads[1]);
}

TEST(forks_of_two_workers_that_fail_return_the_error)
{
    may_fork = false;
    run_with(2, fail_to_fork_twice);
    may_fork = true;
}

/* ---- Among threads in all kinds of wait ---- */

static int inherited[2];

THREAD(receive_text)
{
    char bytes[8];
    MUST_EQ(gs_recv(inherited[0], bytes, 8, 0, GS_NEVER), 4);
}

/* The other threads wait in all possible kinds of wait. They do not exist in the child, which can
 * reuse the numbers of their descriptors. */
THREAD(fork_among_others)
{
    struct gs_threads_stats counts;
    struct gs_thread *threads[9], *reader;
    for (int i = 0; i < 9; i++)
        threads[i] = spawn(sleep_long, NULL);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, inherited), 0);
    reader = spawn(receive_text, NULL);
    use_everything();
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        gs_threads_stats(&counts);
        MUST_EQ(counts.live, 1);
        MUST_EQ(gs_timer_queue_count(&worker_current()->own_deadlines.queue), 0);
        gs_thread_cancel(threads[0]);
        MUST_EQ(atomic_load(&threads[0]->cancel), CANCEL_FINISHED);
        use_everything();
        /* The parent's reader would receive what is sent, so the child opens new descriptors with
         * the same numbers. */
        MUST_EQ(gs_close(inherited[0]), 0);
        MUST_EQ(gs_close(inherited[1]), 0);
        MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, inherited), 0);
        reader = spawn(receive_text, NULL);
        gs_thread_yield();
        MUST_EQ(gs_send_all(inherited[1], "word", 4, GS_NEVER), 4);
        join(reader);
        _exit(7);
    }
    int status = status_of(pid);
    MUST(WIFEXITED(status));
    MUST_EQ(WEXITSTATUS(status), 7);
    use_everything();
    MUST_EQ(gs_send_all(inherited[1], "word", 4, GS_NEVER), 4);
    join(reader);
    for (int i = 0; i < 9; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < 9; i++)
        join(threads[i]);
    gs_close(inherited[0]);
    gs_close(inherited[1]);
}

TEST(child_has_the_calling_thread_only_and_a_working_runtime)
{
    skip_without_fork();
    run_both(fork_among_others);
}

/* ---- While kernel threads of the pool take and finish jobs ---- */

enum { POOL_FORKS = 200, POOL_USERS = 3 };

static atomic_bool has_forked;

THREAD(use_pool)
{
    int number = 0;
    while (!atomic_load(&has_forked))
        MUST_EQ(gs_run_blocking(add_one, &number, GS_NEVER), 0);
}

THREAD(fork_while_the_pool_works)
{
    struct gs_thread *threads[POOL_USERS];
    atomic_store(&has_forked, false);
    for (int i = 0; i < POOL_USERS; i++)
        threads[i] = spawn(use_pool, NULL);
    for (int i = 0; i < POOL_FORKS; i++) {
        int number = 0;
        gs_thread_yield();
        pid_t pid = gs_fork();
        MUST(pid >= 0);
        if (!pid) {
            alarm(20);
            MUST_EQ(gs_run_blocking(add_one, &number, GS_NEVER), 0);
            _exit(number);
        }
        MUST_EQ(status_of(pid), 1 << 8);
    }
    atomic_store(&has_forked, true);
    for (int i = 0; i < POOL_USERS; i++)
        join(threads[i]);
}

TEST(child_can_use_the_pool_whatever_its_kernel_threads_did)
{
    skip_without_fork();
    run_with(1, fork_while_the_pool_works);
}

/* ---- A run that ends in the child ---- */

static bool is_child;

static void *fork_and_return(void *unused)
{
    pid_t pid = gs_fork();
    is_child = !pid;
    if (!is_child)
        return (void *)(intptr_t)status_of(pid);
    struct gs_thread *other = spawn(sleep_long, NULL);
    gs_thread_cancel(other);
    join(other);
    return unused;
}

TEST(run_returns_in_the_child_too_when_its_threads_have_ended)
{
    skip_without_fork();
    const struct gs_threads_options options = {.workers = 2};
    void *result = &result;
    int err = gs_threads_run(&options, fork_and_return, NULL, &result);
    if (is_child)
        _exit(err || result ? 1 : 5);
    CHECK_EQ(err, 0);
    CHECK(WIFEXITED((int)(intptr_t)result));
    CHECK_EQ(WEXITSTATUS((int)(intptr_t)result), 5);
}

static void *park(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

/* Anything may wake one that has parked, but it is not in the child. */
static void *fork_beside_a_parked_one(void *unused)
{
    (void)unused;
    struct gs_semaphore never = {.count = 0};
    struct gs_thread *parked = spawn(park, NULL);
    gs_thread_yield();
    pid_t pid = gs_fork();
    is_child = !pid;
    if (is_child) {
        alarm(20);
        MUST_EQ(gs_semaphore_wait(&never, GS_NEVER), 0);
    }
    gs_thread_unpark(parked);
    join(parked);
    return (void *)(intptr_t)status_of(pid);
}

TEST(thread_that_is_alone_in_the_child_may_deadlock)
{
    skip_without_fork();
    const struct gs_threads_options options = {.workers = 1};
    void *result = &result;
    int err = gs_threads_run(&options, fork_beside_a_parked_one, NULL, &result);
    if (is_child)
        _exit(err == -EDEADLK ? 5 : 1);
    CHECK_EQ(err, 0);
    CHECK(WIFEXITED((int)(intptr_t)result));
    CHECK_EQ(WEXITSTATUS((int)(intptr_t)result), 5);
}

static void *fork_elsewhere(void *unused)
{
    sigset_t blocked;
    pid_t pid = gs_fork();
    if (pid)
        return (void *)(intptr_t)status_of(pid);
    MUST_EQ(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    MUST(!sigismember(&blocked, SIGTERM));
    use_everything();
    return unused;
}

THREAD(fork_on_second)
{
    const struct gs_thread_attributes attributes = {.worker = 2};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fork_elsewhere, NULL, &thread), 0);
    MUST_EQ((intptr_t)join(thread), 0);
}

TEST(child_of_another_worker_exits_when_its_threads_have_ended)
{
    skip_without_fork();
    run_with(2, fork_on_second);
}

/* ---- Threads that ended before the fork ---- */

enum { ENDED = 40, NEW = 100 };

static void *return_argument(void *argument)
{
    return argument;
}

static void join_all(struct gs_thread **threads)
{
    for (int i = 0; i < ENDED; i++)
        MUST(join(threads[i]) == &threads[i]);
}

/* None of the new threads is joined yet, so each has a stack of its own. */
static _Noreturn void join_in_child(struct gs_thread **ended)
{
    struct gs_thread *threads[NEW];
    alarm(20);
    join_all(ended);
    for (int i = 0; i < NEW; i++) {
        threads[i] = spawn(return_argument, &threads[i]);
        for (int k = 0; k < i; k++)
            MUST(threads[k] != threads[i]);
    }
    for (int i = 0; i < NEW; i++)
        MUST(join(threads[i]) == &threads[i]);
    _exit(7);
}

THREAD(fork_after_ends)
{
    const struct gs_thread_attributes here = {.worker = 1};
    struct gs_thread *threads[ENDED];
    for (int i = 0; i < ENDED; i++)
        MUST_EQ(gs_thread_spawn(&here, return_argument, &threads[i], &threads[i]), 0);
    gs_thread_yield(); /* each of them runs and ends */
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid)
        join_in_child(threads);
    MUST_EQ(status_of(pid), 7 << 8);
    join_all(threads);
}

TEST(child_can_join_threads_that_had_ended_before_the_fork_and_then_reuse_their_stacks)
{
    skip_without_fork();
    run_both(fork_after_ends);
}

/* ---- The calling thread was canceled, and the message has not arrived ---- */

static void *join_in_time(void *thread)
{
    _exit(gs_thread_join(thread, after(20 * GS_SECOND), NULL) ? 1 : 7);
}

THREAD(fork_when_canceled)
{
    gs_thread_cancel(gs_thread_self());
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid)
        MUST_EQ(gs_thread_spawn(NULL, join_in_time, gs_thread_self(), NULL), 0);
    else
        MUST_EQ(status_of(pid), 7 << 8);
}

THREAD(fork_from_canceled)
{
    const struct gs_thread_attributes attributes = {.migrates = true};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fork_when_canceled, NULL, &thread), 0);
    join(thread);
}

TEST(thread_that_was_just_canceled_can_be_joined_in_the_child)
{
    skip_without_fork();
    run_both(fork_from_canceled);
}

/* ---- A kernel thread that is no worker writes dumps at the same time ---- */

enum { FORKS = 40, CHILD_SECONDS = 20 };

static atomic_bool is_finished;
static int dump_fd;

/* The pauses let the fork proceed, which waits for a dump to end. */
THREAD(dump_always)
{
    while (!atomic_load(&is_finished)) {
        gs_threads_dump(dump_fd);
        usleep(100);
    }
}

/* If the child waits for a thread that does not exist, it is killed. */
static _Noreturn void dump_in_child(void)
{
    alarm(CHILD_SECONDS);
    gs_threads_dump(dump_fd);
    struct gs_thread *other = spawn(sleep_long, NULL);
    gs_thread_yield();
    gs_threads_dump(dump_fd);
    gs_thread_cancel(other);
    join(other);
    _exit(7);
}

THREAD(fork_during_dumps)
{
    struct gs_thread *others[5];
    pthread_t dumper;
    atomic_store(&is_finished, false);
    for (int i = 0; i < 5; i++)
        others[i] = spawn(sleep_long, NULL);
    gs_thread_yield();
    MUST_EQ(pthread_create(&dumper, NULL, dump_always, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = gs_fork();
        if (!pid)
            dump_in_child();
        int status = status_of(pid);
        MUST_EQ(status, 7 << 8);
        gs_thread_yield();
    }
    atomic_store(&is_finished, true);
    pthread_join(dumper, NULL);
    for (int i = 0; i < 5; i++)
        gs_thread_cancel(others[i]);
    for (int i = 0; i < 5; i++)
        join(others[i]);
}

TEST(child_can_write_dumps_though_another_kernel_thread_was_writing_one)
{
    skip_without_fork();
    dump_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(dump_fd >= 0);
    run_both(fork_during_dumps);
    close(dump_fd);
}

/* ---- Handlers of pthread_atfork that wait ---- */

static struct gs_mutex handlers_mutex;
static struct gs_thread *locker;
static int handler_calls;

THREAD(hold_mutex)
{
    MUST_EQ(gs_mutex_lock(&handlers_mutex, GS_NEVER), 0);
    MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    gs_mutex_unlock(&handlers_mutex);
}

static void wait_before_fork(void)
{
    int number = 1;
    if (!locker)
        return;
    handler_calls++;
    MUST_EQ(gs_mutex_lock(&handlers_mutex, GS_NEVER), 0);
    gs_mutex_unlock(&handlers_mutex);
    join(locker);
    MUST_EQ(gs_run_blocking(add_one, &number, GS_NEVER), 0);
    MUST_EQ(gs_mutex_lock(&handlers_mutex, GS_NEVER), 0);
}

static void wait_after_fork(void)
{
    int number = 1;
    if (!locker)
        return;
    gs_mutex_unlock(&handlers_mutex);
    MUST_EQ(gs_thread_sleep(after(1)), 0);
    MUST_EQ(gs_run_blocking(add_one, &number, GS_NEVER), 0);
    MUST_EQ(number, 2);
    join(spawn(return_argument, NULL));
}

enum { BEFORE = 1, IN_PARENT = 10, IN_CHILD = 100 };

static void add_before(void *number)
{
    *(int *)number += BEFORE;
}

static void add_in_parent(void *number)
{
    *(int *)number += IN_PARENT;
}

static void add_in_child(void *number)
{
    *(int *)number += IN_CHILD;
}

/* In the parent, another thread waits for what a handler in the child unlocks. */
THREAD(fork_with_handlers)
{
    static const struct gs_fork_functions functions = {add_before, add_in_parent, add_in_child};
    int made = 0;
    locker = spawn(hold_mutex, NULL);
    gs_thread_yield();
    struct gs_thread *other = spawn(hold_mutex, NULL);
    pid_t pid = gs_fork_with(&functions, &made);
    MUST(pid >= 0);
    locker = NULL;
    if (!pid)
        _exit(made == BEFORE + IN_CHILD ? 7 : 1);
    MUST_EQ(status_of(pid), 7 << 8);
    MUST_EQ(made, BEFORE + IN_PARENT);
    join(other);
}

THREAD(fork_with_handlers_on_any_worker)
{
    const struct gs_thread_attributes attributes = {.migrates = true};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fork_with_handlers, NULL, &thread), 0);
    join(thread);
}

TEST(handlers_of_a_fork_can_wait_in_the_parent_and_in_the_child)
{
    skip_without_fork();
    alarm(60);
    CHECK_EQ(pthread_atfork(wait_before_fork, wait_after_fork, wait_after_fork), 0);
    run_both(fork_with_handlers);
    run_both(fork_with_handlers_on_any_worker);
    CHECK_EQ(handler_calls, 4);
    alarm(0);
}
