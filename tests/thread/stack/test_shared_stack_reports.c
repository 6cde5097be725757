/* Reports, forks, errors and preparations while threads are evicted from the stacks that they
 * share. */
#include "tests/thread/schedule/forking.h"
#include "tests/thread/stack/shared.h"
#include "thread/report/backtrace.h"

static struct gs_semaphore semaphore;

static void *park(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

/* ---- Reports ---- */

static void *park_deep(void *unused)
{
    park_below(2);
    return unused;
}

static struct gs_thread *spawn_evicted(unsigned worker, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {
        .name = "shared", .worker = worker, .stack_is_shared = true};
    struct gs_thread *thread = spawn_as(&attributes, fn, NULL);
    while (!thread_is_waiting(thread))
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    take_stack(worker);
    MUST_EQ(thread_is_evicted(thread), gs_stacks_can_be_shared());
    return thread;
}

static void *dump(void *unused)
{
    unsigned last = gs_runtime.options.workers;
    struct gs_thread *threads[] = {spawn_evicted(1, park_deep), spawn_evicted(last, park_deep)};
    gs_threads_dump(report_out);
    for (int i = 0; i < 2; i++) {
        gs_thread_unpark(threads[i]);
        join(threads[i]);
    }
    return unused;
}

/* A function for a child process. */
#define RUN(name_, ...)                                                                            \
    static void name_(void)                                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

RUN(dump_with_one, run_sharing(1, 1, dump))
RUN(dump_with_several, run_sharing(3, 1, dump))

TEST(dump_shows_the_calls_of_threads_that_are_evicted)
{
    void (*const runs[])(void) = {dump_with_one, dump_with_several};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(in_child(runs[i]), 0);
        CHECK_REPORTED("2 threads|\"shared\"");
        CHECK_REPORTED(
            "^ +park_below \\(.*\n +park_below \\(.*\n +park_below \\(.*\n +park_deep \\(");
    }
}

static atomic_bool is_canceled;

static void *cancel(void *thread)
{
    gs_thread_cancel(thread);
    atomic_store(&is_canceled, true);
    return NULL;
}

/* One is woken, canceled by another worker, and ends; the next one takes its stack. Its worker has
 * not heard of the cancellation yet. */
static void *dump_canceled(void *unused)
{
    const struct gs_thread_attributes named = {
        .name = "ended", .worker = 1, .stack_is_shared = true};
    const struct gs_thread_attributes on_first = {.worker = 1, .stack_is_shared = true};
    const struct gs_thread_attributes on_second = {.worker = 2};
    struct gs_thread *canceled = spawn_as(&named, park, NULL);
    gs_thread_yield();
    gs_thread_unpark(canceled);
    struct gs_thread *other = spawn_as(&on_second, cancel, canceled);
    while (!atomic_load(&is_canceled))
        usleep(100);
    struct gs_thread *next = spawn_as(&on_first, park_deep, NULL);
    gs_thread_yield();
    gs_threads_dump(report_out);
    gs_thread_unpark(next);
    join(next);
    join(canceled);
    join(other);
    return unused;
}

RUN(run_canceled, run_sharing(2, 1, dump_canceled))

TEST(dump_leaves_out_a_thread_that_has_ended_before_its_cancellation_arrives)
{
    CHECK_EQ(in_child(run_canceled), 0);
    CHECK(!is_reported("\"ended\""));
}

static void *wait_for_ever(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

static void *leave_alone(void *unused)
{
    semaphore = (struct gs_semaphore){.count = 0};
    spawn_evicted(1, wait_for_ever);
    return unused;
}

static void deadlock(void)
{
    run_sharing(1, 1, leave_alone);
    run_sharing(2, 1, leave_alone);
}

TEST(deadlock_report_shows_the_calls_of_a_thread_that_is_evicted)
{
    CHECK_EQ(in_child(deadlock), 0);
    CHECK_REPORTED(
        "\"shared\".*\n(.*\n)?.*wait_for_ever \\((.|\n)*\"shared\".*\n(.*\n)?.*wait_for_ever \\(");
}

/* ---- Preparation ---- */

enum { WORKERS = 2 };
static atomic_uint beginning_count, prepared_count;

void __real_gs_saved_blocks_init_worker(struct saved_blocks *blocks);
void __wrap_gs_saved_blocks_init_worker(struct saved_blocks *blocks);

/* While the first worker is prepared, the thread of the other one comes to it. */
void __wrap_gs_saved_blocks_init_worker(struct saved_blocks *blocks)
{
    bool is_first = !atomic_fetch_add(&prepared_count, 1);
    while (is_first && atomic_load(&beginning_count) % WORKERS)
        usleep(100);
    if (is_first && atomic_load(&beginning_count))
        usleep(2000);
    __real_gs_saved_blocks_init_worker(blocks);
}

static void *spawn_first(void *unused)
{
    atomic_fetch_add(&beginning_count, 1);
    join(spawn_as(&shared, return_at_once, NULL));
    return unused;
}

static void *spawn_on_each(void *unused)
{
    struct gs_thread *threads[WORKERS];
    atomic_store(&prepared_count, 0);
    for (unsigned i = 0; i < WORKERS; i++)
        threads[i] = spawn_as(&(struct gs_thread_attributes){.worker = i + 1}, spawn_first, NULL);
    for (unsigned i = 0; i < WORKERS; i++)
        join(threads[i]);
    return unused;
}

TEST(workers_are_prepared_once_when_several_threads_are_the_first)
{
    run_sharing(WORKERS, 1, spawn_on_each);
    CHECK_EQ(prepared_count, gs_stacks_can_be_shared() ? WORKERS : 0);
}

/* Its control block is given back when the report has read where it waits. */
static struct gs_thread ended;

const void *__real_gs_stack_readable(const struct gs_thread *thread, uintptr_t address);
const void *__wrap_gs_stack_readable(const struct gs_thread *thread, uintptr_t address);

const void *__wrap_gs_stack_readable(const struct gs_thread *thread, uintptr_t address)
{
#ifdef __x86_64__
    static const struct context former = {.rbp = 8, .return_address = 1000};
#else
    static const struct context former = {.x29 = 8, .x30 = 1000};
#endif
    return thread == &ended && !address ? &former : __real_gs_stack_readable(thread, address);
}

TEST(calls_of_a_thread_that_ends_while_it_is_reported_are_not_followed_to_anywhere)
{
    struct backtrace backtrace;
    gs_backtrace_of_waiting(&ended, false, &backtrace);
    CHECK_EQ(backtrace.count, 1);
}

/* ---- Fork, and no memory ---- */

static atomic_bool is_exhausted;
static atomic_uint refused_count;

void *__real_gs_saved_block_new(struct saved_blocks *blocks, size_t size);
void *__wrap_gs_saved_block_new(struct saved_blocks *blocks, size_t size);

void *__wrap_gs_saved_block_new(struct saved_blocks *blocks, size_t size)
{
    if (!atomic_load(&is_exhausted))
        return __real_gs_saved_block_new(blocks, size);
    atomic_fetch_add(&refused_count, 1);
    return NULL;
}

/* The second cannot start as long as the first cannot be evicted; others run meanwhile. */
static void *evict_without_memory(void *unused)
{
    struct gs_thread *first = spawn_as(&shared, park, NULL);
    gs_thread_yield();
    is_exhausted = true;
    struct gs_thread *second = spawn_as(&shared, park, NULL);
    while (refused_count < 3)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST(!thread_is_evicted(first) && !thread_is_waiting(second));
    is_exhausted = false;
    gs_thread_unpark(second);
    join(second);
    gs_thread_unpark(first);
    join(first);
    return unused;
}

RUN(run_without_memory, run_sharing(1, 1, evict_without_memory))

TEST(thread_that_cannot_be_evicted_for_lack_of_memory_delays_the_other)
{
    if (gs_stacks_can_be_shared())
        CHECK_EQ(in_child(run_without_memory), 0);
}

static int wait_for_child(pid_t pid)
{
    int status = 0;
    MUST_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *check_not_owned(void *mutex)
{
    MUST(!gs_mutex_is_owned(mutex));
    return NULL;
}

/* Another thread has the same stack meanwhile. */
static void hold_mutex(void)
{
    struct gs_mutex mutex = {0};
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    join(spawn_as(&shared, check_not_owned, &mutex));
    gs_mutex_unlock(&mutex);
}

static void *fork_in_shared(void *waiting)
{
    long local = 42;
    long *volatile at = &local;
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        hold_mutex();
        struct gs_thread *thread = spawn_evicted(0, park);
        gs_thread_unpark(thread);
        join(thread);
        MUST_EQ(*at, 42);
        _exit(7);
    }
    MUST_EQ(wait_for_child(pid), 7);
    return waiting;
}

static void *fork_while_evicted(void *unused)
{
    struct gs_thread *waiting = spawn_evicted(1, park);
    fork_in_shared(waiting);
    join(spawn_as(&shared, fork_in_shared, waiting));
    gs_thread_unpark(waiting);
    join(waiting);
    return unused;
}

TEST(child_of_a_fork_has_its_thread_alone_on_the_shared_stacks)
{
    if (GS_TSAN || IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    run_sharing(1, 1, fork_while_evicted);
    run_sharing(3, 1, fork_while_evicted);
}

/* What is on its stack is that of a thread that is not in the child. */
static void *fork_beside_occupant(void *unused)
{
    struct gs_thread *occupant = spawn_as(&shared, park, NULL);
    gs_thread_yield();
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        uint64_t before = stats_now().evictions;
        join(spawn_as(&shared, return_at_once, NULL));
        _exit(stats_now().evictions == before ? 7 : 1);
    }
    MUST_EQ(wait_for_child(pid), 7);
    gs_thread_unpark(occupant);
    join(occupant);
    return unused;
}

TEST(shared_stack_is_vacant_in_the_child_of_a_fork)
{
    if (GS_TSAN || IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    run_sharing(1, 1, fork_beside_occupant);
}

static struct gs_semaphore may_fork;

RUN(before_fork, MUST_EQ(gs_semaphore_wait(&may_fork, GS_NEVER), 0))

static void *fork_and_return(void *unused)
{
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid)
        _exit(stats_now().spawned == 1 ? 7 : 1);
    MUST_EQ(wait_for_child(pid), 7);
    return unused;
}

/* When the first forks, the frames of the second are not on the stack. */
static void *fork_while_delayed(void *unused)
{
    struct gs_thread *threads[2];
    for (int i = 0; i < 2; i++) {
        threads[i] = spawn_as(&shared, fork_and_return, NULL);
        gs_thread_yield();
    }
    for (int i = 0; i < 2; i++) {
        gs_semaphore_post(&may_fork);
        join(threads[i]);
    }
    return unused;
}

static void run_delayed(void)
{
    alarm(20);
    MUST_EQ(pthread_atfork(before_fork, NULL, NULL), 0);
    run_sharing(1, 1, fork_while_delayed);
}

TEST(thread_can_be_evicted_while_a_handler_of_its_fork_waits)
{
    skip_without_fork();
    CHECK_EQ(in_child(run_delayed), 0);
}
