#include "loop/state.h"
#include "tests/thread/fixture.h"
#include "thread/schedule/worker.h"

#include <dirent.h>

/* Each system call, allocation and creation of a kernel thread that the start of the runtime needs
 * fails once. The run must either work without it, or return an error and leak nothing. In this
 * program, the functions below replace those of the C library. */

enum { NO_CALL = -1 };

static atomic_long failing_call = NO_CALL;
static atomic_int left, left_allocations = -1, left_kernel_threads = -1;

/* The next kernel thread is refused as soon as all workers sleep. */
static atomic_bool is_refused_late;

static bool is_turn(atomic_int *count)
{
    return atomic_load(count) >= 0 && atomic_fetch_sub(count, 1) == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *bytes, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *bytes, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);

void *__wrap_malloc(size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_calloc(count, n);
}

void *__wrap_realloc(void *bytes, size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_realloc(bytes, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return is_turn(&left_allocations) ? NULL : __real_aligned_alloc(alignment, n);
}

static void await_sleep(void)
{
    for (unsigned i = 0; i < gs_runtime.options.workers; i++)
        while (!atomic_load(&gs_runtime.workers[i]->loop->mailbox.asleep))
            sched_yield();
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument)
{
    if (atomic_exchange(&is_refused_late, false)) {
        await_sleep();
        return EAGAIN;
    }
    return is_turn(&left_kernel_threads) ? EAGAIN
                                         : __real_pthread_create(thread, attributes, fn, argument);
}

static long fail(long number, void *err)
{
    return number == atomic_load(&failing_call) && is_turn(&left) ? *(long *)err : 0;
}

static int entries_of(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void *do_nothing(void *unused)
{
    return unused;
}

THREAD(sleep_a_little)
{
    int err = gs_thread_sleep(after(GS_MICROSECOND));
    MUST(!err || err == -ENOMEM);
}

/* Uses stacks of all sizes, so that some are new each time. */
THREAD(use_some)
{
    for (int i = 0; i < 8; i++) {
        const struct gs_thread_attributes attributes = {.stack_size = (size_t)4096 << 2 * (i % 4),
                                                        .migrates = i % 2};
        struct gs_thread *thread;
        int err = gs_thread_spawn(&attributes, i < 4 ? do_nothing : sleep_a_little, NULL, &thread);
        MUST(!err || err == -ENOMEM);
        if (!err)
            join(thread);
    }
}

/* The monitor finds no worker stuck: otherwise it might start an extra worker, because all workers
 * wait for a CPU. */
static int run(void)
{
    const struct gs_threads_options options = {
        .workers = 3, .stuck_ns = 3600 * GS_SECOND, .is_silent = true};
    return gs_threads_run(&options, use_some, NULL, NULL);
}

/* Returns whether there was an n-th call, which failed. */
static bool run_failing(atomic_int *count, int n, const int *errors)
{
    int fds = entries_of("/proc/self/fd");
    atomic_store(count, n);
    int err = run();
    bool has_failed = atomic_load(count) < 0;
    atomic_store(count, -1);
    bool is_expected = !err;
    for (int i = 0; errors[i]; i++)
        is_expected |= err == errors[i];
    CHECK(is_expected);
    CHECK_EQ(entries_of("/proc/self/fd"), fds);
    CHECK_EQ(run(), 0);
    return has_failed;
}

TEST(every_system_call_of_a_start_may_fail)
{
    static const struct {
        long number;
        long err;
    } faults[] = {
        {SYS_mmap, -ENOMEM},          {SYS_mprotect, -ENOMEM}, {SYS_madvise, -EINVAL},
        {SYS_epoll_create1, -EMFILE}, {SYS_eventfd2, -ENFILE}, {SYS_epoll_ctl, -ENOMEM},
        {SYS_pipe2, -EMFILE},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const int errors[] = {(int)faults[i].err, -ENOMEM, 0};
        long err = faults[i].err;
        gs_sys_set_fault(fail, &err);
        atomic_store(&failing_call, faults[i].number);
        for (int n = 0; run_failing(&left, n, errors); n++)
            ;
        atomic_store(&failing_call, NO_CALL);
        gs_sys_set_fault(NULL, NULL);
    }
}

TEST(every_allocation_of_a_start_may_fail)
{
    const int errors[] = {-ENOMEM, 0};
    int n = 0;
    while (run_failing(&left_allocations, n, errors))
        n++;
    CHECK(n > 3);
}

TEST(every_kernel_thread_of_a_start_may_fail)
{
    const int errors[] = {-EAGAIN, 0};
    int n = 0;
    while (run_failing(&left_kernel_threads, n, errors))
        n++;
    CHECK_EQ(n, 3); /* two workers and the monitor */
}

THREAD(compute_until_refused)
{
    while (atomic_load(&is_refused_late))
        ;
}

/* Both workers are stuck, and a thread could run on another one. Until that is refused, they are
 * not all: the last of them to become idle does not look whether the run is over. */
static void *need_extra_worker_late(void *unused)
{
    const struct gs_thread_attributes on_second = {.worker = 2};
    atomic_store(&is_refused_late, true);
    MUST_EQ(gs_thread_spawn(&on_second, compute_until_refused, NULL, NULL), 0);
    MUST_EQ(gs_thread_spawn(NULL, do_nothing, NULL, NULL), 0);
    return compute_until_refused(unused);
}

TEST(run_ends_though_its_workers_slept_before_an_extra_one_was_refused)
{
    const struct gs_threads_options options = {.workers = 2, .is_silent = true};
    alarm(60);
    CHECK_EQ(gs_threads_run(&options, need_extra_worker_late, NULL, NULL), 0);
    alarm(0);
}

/* An emulator has kernel threads of its own. */
#ifndef GS_EMULATED
static int count_while_running;

/* A kernel thread that was joined may be listed for a moment: count until there have not become
 * fewer for a while. */
static int settled_tasks(void)
{
    enum { ROUNDS = 10, PAUSE_US = 20000 };
    int least = entries_of("/proc/self/task");
    for (int rounds = 0; rounds < ROUNDS; rounds++) {
        usleep(PAUSE_US);
        int count = entries_of("/proc/self/task");
        if (count < least) {
            least = count;
            rounds = 0;
        }
    }
    return least;
}

static void *count_kernel_threads(void *unused)
{
    count_while_running = settled_tasks();
    return unused;
}

static void run_one(uint64_t stuck_ns)
{
    const struct gs_threads_options options = {.stuck_ns = stuck_ns};
    CHECK_EQ(gs_threads_run(&options, count_kernel_threads, NULL, NULL), 0);
}

TEST(one_worker_has_a_monitor_unless_that_is_disabled_or_cannot_be_created)
{
    int before = settled_tasks();
    run_one(0);
    CHECK_EQ(count_while_running, before + 1);
    run_one(GS_NEVER);
    CHECK_EQ(count_while_running, before);
    atomic_store(&left_kernel_threads, 0);
    run_one(0);
    atomic_store(&left_kernel_threads, -1);
    CHECK_EQ(count_while_running, before);
}
#endif

/* ---- Extra workers ---- */

static int release[2];
static atomic_int blocked, passed;

static void *block(void *unused)
{
    char byte;
    if (atomic_fetch_add(&blocked, 1) < 2)
        MUST_EQ(gs_sys_read(release[0], &byte, 1), 0);
    else if (atomic_fetch_add(&passed, 1) == 1)
        close(release[1]);
    return unused;
}

/* Two threads are stuck on two workers, so two more need an extra worker. */
THREAD(need_extra_worker)
{
    struct gs_thread *threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(block, NULL);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
}

TEST(spare_that_cannot_be_started_is_tried_again)
{
    const struct gs_threads_options options = {.workers = 2, .is_silent = true};
    CHECK_EQ(pipe(release), 0);
    atomic_store(&left_kernel_threads, 2);
    CHECK_EQ(gs_threads_run(&options, need_extra_worker, NULL, NULL), 0);
    CHECK(atomic_load(&left_kernel_threads) < 0);
    atomic_store(&left_kernel_threads, -1);
    close(release[0]);
}

/* ---- Calls that are the first for their descriptor ---- */

static int wait_for(int fd)
{
    return gs_wait_readable(fd, after(GS_SECOND));
}

static int poll_one(int fd)
{
    struct gs_poll poll = {.fd = fd, .events = GS_READ};
    return gs_poll(&poll, 1, after(GS_SECOND));
}

static int select_one(int fd)
{
    struct gs_select each = {.fd = fd, .events = GS_READ};
    return gs_select(&each, 1, after(GS_SECOND));
}

static int accept_one(int fd)
{
    return gs_accept(fd, NULL, NULL, 0, after(GS_SECOND));
}

static int read_one(int fd)
{
    char byte;
    return (int)gs_read(fd, &byte, 1, after(GS_SECOND));
}

/* The run has no entry for any descriptor yet. */
THREAD_TEST(first_call_for_a_descriptor_without_memory_is_no_bad_descriptor, run_on_one)
{
    static int (*const first_calls[])(int fd) = {wait_for, poll_one, select_one, accept_one,
                                                 read_one};
    int pipe[2];
    MUST_EQ(gs_sys_pipe2(pipe, O_CLOEXEC | O_NONBLOCK), 0);
    for (size_t i = 0; i < sizeof first_calls / sizeof *first_calls; i++) {
        atomic_store(&left_allocations, 0);
        MUST_EQ(first_calls[i](pipe[0]), -ENOMEM);
        MUST_EQ(atomic_load(&left_allocations), -1);
        if (first_calls[i] != poll_one) /* which ignores it */
            MUST_EQ(first_calls[i](-1), -EBADF);
    }
    close(pipe[0]);
    close(pipe[1]);
}

/* ---- Runs of several kernel threads ---- */

static void *return_at_once(void *unused)
{
    return unused;
}

THREAD(run_in_turn)
{
    const struct gs_threads_options options = {.workers = 2};
    for (int i = 0; i < 5; i++) {
        int err;
        while ((err = gs_threads_run(&options, return_at_once, NULL, NULL)) == -EBUSY)
            sched_yield();
        MUST_EQ(err, 0);
    }
}

TEST(run_that_begins_when_that_of_another_kernel_thread_has_ended_sees_what_it_left)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run_in_turn, NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}
