/* Calls on the worker's stack. */
#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

enum { THREADS = 6 };

/* ---- Frames ---- */

static void *overwrite(void *argument)
{
    volatile char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0x55;
    return bytes[17] == 0x55 ? argument : NULL;
}

static void *call_again(void *argument)
{
    return gs_thread_call_on_worker_stack(overwrite, argument);
}

/* None of these bytes may change, however much stack the nested calls use. */
static void *keep_frame(void *within)
{
    volatile unsigned char mine[512];
    gs_thread_fn *const fn = *(gs_thread_fn **)within;
    for (size_t i = 0; i < sizeof mine; i++)
        mine[i] = (unsigned char)i;
    MUST(fn(within) == within);
    for (size_t i = 0; i < sizeof mine; i++)
        MUST_EQ(mine[i], (unsigned char)i);
    return within;
}

static void *call_for_frame(void *within)
{
    for (int i = 0; i < 10; i++) {
        MUST(gs_thread_call_on_worker_stack(keep_frame, within) == within);
        gs_thread_yield();
    }
    return NULL;
}

/* Runs several threads on all workers. */
static void *run_in_threads(gs_thread_fn *fn, void *argument)
{
    struct gs_thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(fn, argument);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    return NULL;
}

static void *keep_frames(void *unused)
{
    static gs_thread_fn *const once = call_again;
    (void)unused;
    return run_in_threads(call_for_frame, (void *)&once);
}

TEST(nested_call_on_the_worker_stack_overwrites_no_frames)
{
    run_both(keep_frames);
}

static void *fill_worker_stack(void *depth)
{
    volatile int mine = *(int *)depth;
    if (mine == 100)
        return depth;
    ++*(int *)depth;
    MUST(gs_thread_call_on_worker_stack(fill_worker_stack, depth) == depth);
    MUST_EQ(--*(int *)depth, mine);
    return depth;
}

THREAD(count_depth)
{
    int depth = 0;
    MUST(gs_thread_call_on_worker_stack(fill_worker_stack, &depth) == &depth);
    MUST_EQ(depth, 0);
}

static void *count_depths(void *unused)
{
    (void)unused;
    return run_in_threads(count_depth, NULL);
}

TEST(calls_on_the_worker_stack_nest_many_times)
{
    run_both(count_depths);
}

/* ---- Dumps ---- */

static int dump_fd;

static void *dump(void *argument)
{
    gs_threads_dump(dump_fd);
    return argument;
}

THREAD(dump_on_worker_stack)
{
    static gs_thread_fn *const once = dump;
    const struct gs_thread_attributes attributes = {.name = "borrower"};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, call_for_frame, (void *)&once, &thread), 0);
    join(thread);
}

static void check_dump(unsigned workers)
{
    static char text[1 << 16];
    dump_fd = memfd_create("dump", 0);
    CHECK(dump_fd >= 0);
    run_with(workers, dump_on_worker_stack);
    ssize_t n = pread(dump_fd, text, sizeof text - 1, 0);
    CHECK(n > 0);
    text[n] = 0;
    CHECK(strstr(text, "\"borrower\": runs on worker "));
    close(dump_fd);
}

TEST(dump_on_the_worker_stack_shows_its_thread_and_overwrites_no_frames)
{
    check_dump(1);
    check_dump(3);
}

/* ---- Mutexes ---- */

static struct gs_mutex mutex;
static bool is_handed_on; /* guarded by the mutex */

static void *lock(void *argument)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    MUST(gs_mutex_is_owned(&mutex));
    MUST_EQ(gs_mutex_lock(&mutex, 0), -EDEADLK);
    return argument;
}

THREAD(unlock)
{
    MUST(gs_mutex_is_owned(&mutex));
    gs_mutex_unlock(&mutex);
    MUST(!gs_mutex_is_owned(&mutex));
}

THREAD(take_over)
{
    MUST(!gs_mutex_is_owned(&mutex));
    MUST_EQ(gs_mutex_lock(&mutex, 0), -ETIMEDOUT);
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    MUST(gs_mutex_is_owned(&mutex));
    is_handed_on = true;
    gs_mutex_unlock(&mutex);
}

static bool is_waited_for(void)
{
    return atomic_load(&mutex.owner) & GS_MUTEX_CONTENDED;
}

/* Another thread waits for the mutex, so unlocking hands the mutex over: once in the thread itself,
 * and once in a call on the worker's stack. */
THREAD_TEST(mutex_locked_in_a_call_on_the_worker_stack_belongs_to_the_thread, run_both)
{
    for (int unlocks_there = 0; unlocks_there < 2; unlocks_there++) {
        gs_thread_call_on_worker_stack(lock, NULL);
        MUST(gs_mutex_is_owned(&mutex));
        MUST_EQ(gs_mutex_lock(&mutex, 0), -EDEADLK);
        is_handed_on = false;
        struct gs_thread *other = spawn(take_over, NULL);
        while (!is_waited_for())
            gs_thread_yield();
        MUST(gs_mutex_is_owned(&mutex));
        if (unlocks_there)
            gs_thread_call_on_worker_stack(unlock, NULL);
        else
            unlock(NULL);
        join(other);
        MUST(is_handed_on);
        MUST_EQ(gs_mutex_lock(&mutex, 0), 0);
        gs_thread_call_on_worker_stack(unlock, NULL);
    }
}

/* ---- A fork ---- */

static void *fork_here(void *unused)
{
    MUST_EQ(gs_fork(), -EOPNOTSUPP);
    return unused;
}

THREAD_TEST(call_on_the_worker_stack_may_not_fork, run_both)
{
    /* With a sanitizer the call is made on the thread's own stack. */
    if (GS_ASAN + GS_TSAN == 0)
        gs_thread_call_on_worker_stack(fork_here, NULL);
}
