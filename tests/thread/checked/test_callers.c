/* Who may call the functions of user threads. */
#include "tests/thread/checked/misuse.h"

#include <gossamer/resumable.h>
#include <gossamer/scope.h>

#define OUTSIDE "no user threads are running: it was called outside gs_threads_run"
#define NO_WORKER "it was called by a kernel thread that is no worker"

/* ---- Outside gs_threads_run ---- */

static struct gs_semaphore semaphore;
static struct gs_mutex mutex;

static void wait_outside(void)
{
    report_to_stderr();
    if (gs_semaphore_wait(&semaphore, GS_NEVER))
        _exit(4);
}

static void yield_outside(void)
{
    report_to_stderr();
    gs_thread_yield();
}

static void spawn_outside(void)
{
    report_to_stderr();
    if (gs_thread_spawn(NULL, NULL, NULL, NULL))
        _exit(4);
}

static void receive_outside(void)
{
    char byte;
    report_to_stderr();
    if (gs_recv(0, &byte, 1, 0, GS_NEVER) < 0)
        _exit(4);
}

static void lock_twice_outside(void)
{
    report_to_stderr();
    gs_mutex_lock(&mutex, GS_NEVER);
    gs_mutex_lock(&mutex, GS_NEVER);
}

TEST(calls_outside_a_run_stop)
{
    CHECK_STOPPED(wait_outside, "gs_semaphore_wait", OUTSIDE);
    CHECK_STOPPED(yield_outside, "gs_thread_yield", OUTSIDE);
    CHECK_STOPPED(spawn_outside, "gs_thread_spawn", OUTSIDE);
    CHECK_STOPPED(receive_outside, "gs_recv", OUTSIDE);
    CHECK_STOPPED(lock_twice_outside, "gs_mutex_lock", OUTSIDE);
}

/* ---- Each function that only a thread may call and that waits for nothing ---- */

static struct gs_rwlock rwlock;
static struct gs_cleanup cleanup;

static void *return_null(void *unused)
{
    return unused;
}

static void do_nothing(void *unused)
{
    (void)unused;
}

/* A function that makes a call. */
#define CALL(name_, ...)                                                                           \
    static void name_(void)                                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

CALL(ask_owner, gs_mutex_is_owned(&mutex))
CALL(unlock_rwlock, gs_rwlock_unlock(&rwlock))
CALL(ask_canceled, gs_thread_is_canceled())

static void cancel(void)
{
    static struct gs_thread *none;
    gs_thread_cancel(none);
}

CALL(set_cancelable, gs_thread_set_cancelable(true))
CALL(call_on_worker_stack, gs_thread_call_on_worker_stack(return_null, NULL))
CALL(push_cleanup, gs_cleanup_push(&cleanup, do_nothing, NULL))
CALL(pop_cleanup, gs_cleanup_pop(false))
CALL(get_value, gs_thread_value(0))

static void set_value(void)
{
    if (gs_thread_set_value(0, NULL))
        _exit(4);
}

CALL(fork_child, gs_fork())
CALL(fork_with_nothing, gs_fork_with(NULL, NULL))

static const struct {
    const char *name;
    void (*call)(void);
} functions[] = {
    {"gs_mutex_is_owned", ask_owner},
    {"gs_rwlock_unlock", unlock_rwlock},
    {"gs_threads_cancel_all", gs_threads_cancel_all},
    {"gs_thread_cancel", cancel},
    {"gs_thread_is_canceled", ask_canceled},
    {"gs_thread_set_cancelable", set_cancelable},
    {"gs_thread_call_on_worker_stack", call_on_worker_stack},
    {"gs_cleanup_push", push_cleanup},
    {"gs_cleanup_pop", pop_cleanup},
    {"gs_thread_value", get_value},
    {"gs_thread_set_value", set_value},
    {"gs_fork", fork_child},
    {"gs_fork_with", fork_with_nothing},
};

static size_t selected;

static void call_selected(void)
{
    report_to_stderr();
    functions[selected].call();
}

TEST(calls_that_wait_for_nothing_stop_outside_a_run)
{
    for (selected = 0; selected < sizeof functions / sizeof functions[0]; selected++)
        CHECK_STOPPED(call_selected, functions[selected].name, OUTSIDE);
}

/* ---- After a run ---- */

static void *end_at_once(void *unused)
{
    return unused;
}

static void wait_after_the_run(void)
{
    run_reporting(1, end_at_once, 0);
    wait_outside();
}

TEST(a_call_after_the_run_stops)
{
    CHECK_STOPPED(wait_after_the_run, "gs_semaphore_wait", OUTSIDE);
}

/* ---- In a kernel thread that is no worker ---- */

static void *signal_there(void *cond)
{
    gs_cond_signal(cond);
    return NULL;
}

static void *wait_there(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gs_semaphore_wait(&semaphore, GS_NEVER);
}

static void *in_pthread(void *(*fn)(void *), void *argument)
{
    pthread_t kernel_thread;
    MUST_EQ(pthread_create(&kernel_thread, NULL, fn, argument), 0);
    MUST_EQ(pthread_join(kernel_thread, NULL), 0);
    return NULL;
}

static void *signal_in_pthread(void *unused)
{
    struct gs_cond cond = {.waiting.first = NULL};
    (void)unused;
    return in_pthread(signal_there, &cond);
}

static void *cancel_there(void *thread)
{
    gs_thread_cancel(thread);
    return NULL;
}

static void *cancel_in_pthread(void *unused)
{
    (void)unused;
    return in_pthread(cancel_there, gs_thread_self());
}

static void *wait_in_pthread(void *unused)
{
    return in_pthread(wait_there, unused);
}

static void call_wait_there(void *unused)
{
    wait_there(unused);
}

static void *wait_in_pool(void *unused)
{
    MUST_EQ(gs_run_blocking(call_wait_there, unused, GS_NEVER), 0);
    return NULL;
}

IN_CHILD_RUN(run_signal_in_pthread, signal_in_pthread)
IN_CHILD_RUN(run_cancel_in_pthread, cancel_in_pthread)
IN_CHILD_RUN(run_wait_in_pthread, wait_in_pthread)
IN_CHILD_RUN(run_wait_in_pool, wait_in_pool)

TEST(calls_by_kernel_threads_that_are_no_workers_stop)
{
    CHECK_STOPPED(run_signal_in_pthread, "gs_cond_signal", NO_WORKER);
    CHECK_STOPPED(run_cancel_in_pthread, "gs_thread_cancel", NO_WORKER);
    CHECK_STOPPED(run_wait_in_pthread, "gs_semaphore_wait", NO_WORKER);
    CHECK_STOPPED(run_wait_in_pool, "gs_semaphore_wait", NO_WORKER);
}

static int yield_in_wait(struct gs_loop *loop, unsigned worker, void *unused)
{
    (void)worker, (void)unused;
    gs_thread_yield();
    return gs_loop_run_once(loop, GS_NEVER);
}

/* So long that the worker waits for it, however slow the machine is. */
static void *sleep_long(void *unused)
{
    gs_thread_sleep(after(2 * GS_SECOND));
    return unused;
}

static void run_with_wait(void)
{
    const struct gs_threads_options options = {.wait = yield_in_wait, .report_fd = report_out};
    if (gs_threads_run(&options, sleep_long, NULL, NULL))
        _exit(4);
}

TEST(a_yield_by_the_worker_itself_stops)
{
    CHECK_STOPPED(run_with_wait, "gs_thread_yield",
                  "it was called by a worker itself, not by a user thread");
}

/* ---- What any kernel thread may call ---- */

static atomic_uint unparked;

static void *park(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    atomic_fetch_add(&unparked, 1);
    return unused;
}

static void *unpark_and_spawn(void *thread)
{
    struct gs_threads_stats stats;
    struct gs_channel *channel;
    MUST(!gs_thread_self());
    gs_threads_stats(&stats);
    MUST_EQ(gs_thread_spawn(NULL, end_at_once, NULL, NULL), 0);
    MUST_EQ(gs_channel_new(1, 1, &channel), 0);
    gs_channel_free(channel);
    MUST(gs_thread_key_new(NULL) >= 0);
    gs_thread_unpark(thread);
    return NULL;
}

static void *be_unparked(void *unused)
{
    struct gs_thread *thread = spawn(park, NULL);
    pthread_t kernel_thread;
    MUST_EQ(pthread_create(&kernel_thread, NULL, unpark_and_spawn, thread), 0);
    join(thread);
    MUST_EQ(pthread_join(kernel_thread, NULL), 0);
    return unused;
}

TEST(any_kernel_thread_may_spawn_and_unpark)
{
    atomic_store(&unparked, 0);
    run_both(be_unparked);
    CHECK_EQ(atomic_load(&unparked), 2);
}

/* ---- What a resumable may call ---- */

static struct spawner {
    struct gs_resumable resumable;
    struct gs_scope scope;
    struct gs_thread *owner;
} spawner;

static atomic_uint members;

static int be_member(void *unused)
{
    (void)unused;
    atomic_fetch_add(&members, 1);
    return 0;
}

static void spawn_member(struct gs_resumable *resumable)
{
    struct gs_thread *owner = spawner.owner;
    MUST_EQ(gs_scope_spawn(&spawner.scope, be_member, NULL, 0), 0);
    gs_resumable_end(resumable);
    gs_thread_unpark(owner);
}

static void *spawn_by_resumables(void *unused)
{
    spawner = (struct spawner){.owner = gs_thread_self()};
    for (unsigned worker = 1; worker <= gs_threads_workers(); worker++) {
        gs_resumable_init(&spawner.resumable, spawn_member);
        MUST_EQ(gs_resumable_start(&spawner.resumable, worker), 0);
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
    }
    MUST_EQ(gs_resumable_start(&spawner.resumable, gs_threads_workers() + 1), -EINVAL);
    MUST_EQ(gs_scope_wait(&spawner.scope, GS_NEVER), 0);
    return unused;
}

TEST(a_resumable_may_spawn_in_a_scope_without_waiting)
{
    atomic_store(&members, 0);
    run_both(spawn_by_resumables);
    CHECK_EQ(atomic_load(&members), 4);
}
