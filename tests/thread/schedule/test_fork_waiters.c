/* Threads that wait while another thread forks do not exist in the child. No call in the child may
 * resume them, whatever they waited for, and such a call must not lose what it would have given to
 * them. */
#include "tests/thread/schedule/forking.h"
#include "thread/schedule/thread.h"

enum { CHILD_SECONDS = 20, NEW_THREADS = 4 };

/* act: what the child does to the waiting thread. finish: how the parent ends the wait. */
struct scenario {
    gs_thread_fn *wait;
    void (*act)(struct gs_thread *waiting);
    void (*finish)(struct gs_thread *waiting);
    struct gs_spin *lock; /* of the object waited at; NULL: none */
    unsigned worker;      /* the worker on which the thread waits */
};

static struct gs_mutex mutex;
static struct gs_semaphore semaphore, other_semaphore;
static pid_t parent;

/* A thread of another worker that waits already may still hold the object's lock for a moment: the
 * child would find it held for ever. */
static struct gs_thread *spawn_waiting(unsigned worker, gs_thread_fn *fn, struct gs_spin *lock)
{
    const struct gs_thread_attributes attributes = {.worker = worker};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, &thread), 0);
    while (atomic_load(&thread->claim) != CLAIM_WAITING)
        MUST_EQ(gs_thread_sleep(after(20 * GS_MICROSECOND)), 0);
    do
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    while (lock && atomic_load(&lock->held));
    return thread;
}

/* A child that hangs is killed. */
static _Noreturn void run_child(const struct scenario *scenario, struct gs_thread *waiting)
{
    alarm(CHILD_SECONDS);
    scenario->act(waiting);
    for (int i = 0; i < 10; i++)
        gs_thread_yield();
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    _exit(7);
}

static void *run_scenario(void *scene_)
{
    const struct scenario *scenario = scene_;
    int status;
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    struct gs_thread *waiting = spawn_waiting(scenario->worker, scenario->wait, scenario->lock);
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid)
        run_child(scenario, waiting);
    MUST_EQ(gs_sys_wait4(pid, &status, 0), pid);
    MUST_EQ(status, 7 << 8);
    gs_mutex_unlock(&mutex);
    if (scenario->finish)
        scenario->finish(waiting);
    join(waiting);
    return NULL;
}

/* The first thread is on worker 1. The other one waits on the same worker, or on one that does not
 * exist in the child. */
static void test_scenario(struct scenario scenario)
{
    skip_without_fork();
    parent = getpid();
    for (unsigned workers = 1; workers <= 2; workers++) {
        const struct gs_threads_options options = {.workers = workers};
        for (scenario.worker = 1; scenario.worker <= workers; scenario.worker++)
            CHECK_EQ(gs_threads_run(&options, run_scenario, &scenario, NULL), 0);
    }
}

/* ---- Mutex ---- */

THREAD(lock_mutex)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    MUST_EQ(getpid(), parent);
    gs_mutex_unlock(&mutex);
}

static void relock_mutex(struct gs_thread *waiting)
{
    (void)waiting;
    gs_mutex_unlock(&mutex);
    gs_thread_yield();
    MUST_EQ(gs_mutex_lock(&mutex, 0), 0);
    gs_mutex_unlock(&mutex);
}

TEST(mutex_that_the_child_unlocks_is_not_passed_to_a_thread_of_the_parent)
{
    test_scenario((struct scenario){.wait = lock_mutex, .act = relock_mutex, .lock = &mutex.lock});
}

/* ---- Semaphore ---- */

THREAD(wait_for_post)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    MUST_EQ(getpid(), parent);
}

static void post(struct gs_thread *waiting)
{
    (void)waiting;
    gs_semaphore_post(&semaphore);
}

static void post_and_wait(struct gs_thread *waiting)
{
    post(waiting);
    gs_thread_yield();
    MUST_EQ(gs_semaphore_wait(&semaphore, 0), 0);
}

TEST(post_in_the_child_is_not_lost_to_a_thread_of_the_parent)
{
    test_scenario((struct scenario){
        .wait = wait_for_post, .act = post_and_wait, .finish = post, .lock = &semaphore.lock});
}

static atomic_uint woken;

THREAD(wait_for_other_post)
{
    MUST_EQ(gs_semaphore_wait(&other_semaphore, GS_NEVER), 0);
    atomic_fetch_add(&woken, 1);
}

/* None of the new threads may get the stack of the waiting one, because its waiter is on that stack
 * and in the queue of the semaphore. */
static void post_among_newcomers(struct gs_thread *waiting)
{
    struct gs_thread *newcomers[NEW_THREADS];
    for (int i = 0; i < NEW_THREADS; i++) {
        newcomers[i] = spawn(wait_for_other_post, NULL);
        MUST(newcomers[i] != waiting);
    }
    gs_thread_yield();
    post_and_wait(waiting);
    MUST_EQ(atomic_load(&woken), 0);
    for (int i = 0; i < NEW_THREADS; i++)
        gs_semaphore_post(&other_semaphore);
    for (int i = 0; i < NEW_THREADS; i++)
        join(newcomers[i]);
}

TEST(post_in_the_child_ends_no_wait_for_another_semaphore)
{
    test_scenario((struct scenario){.wait = wait_for_post,
                                    .act = post_among_newcomers,
                                    .finish = post,
                                    .lock = &semaphore.lock});
}

/* The stack of the waiting thread is not free in a child of the child, either. */
static void post_in_grandchild(struct gs_thread *waiting)
{
    int status;
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        alarm(CHILD_SECONDS);
        post_among_newcomers(waiting);
        _exit(7);
    }
    MUST_EQ(gs_sys_wait4(pid, &status, 0), pid);
    MUST_EQ(status, 7 << 8);
}

TEST(post_in_a_grandchild_ends_no_wait_for_another_semaphore)
{
    test_scenario(
        (struct scenario){.wait = wait_for_post, .act = post_in_grandchild, .finish = post});
}

/* ---- Unpark and cancel ---- */

static void *park(void *unused)
{
    int err = gs_thread_park(GS_NEVER);
    MUST_EQ(getpid(), parent);
    MUST_EQ(err, 0);
    return unused;
}

TEST(thread_of_the_parent_that_the_child_unparks_does_not_run_there)
{
    test_scenario(
        (struct scenario){.wait = park, .act = gs_thread_unpark, .finish = gs_thread_unpark});
}

TEST(thread_of_the_parent_that_the_child_cancels_does_not_run_there)
{
    test_scenario(
        (struct scenario){.wait = park, .act = gs_thread_cancel, .finish = gs_thread_unpark});
}

/* ---- Signals ---- */

static void *wait_for_signal(void *unused)
{
    MUST_EQ(gs_wait_signal(SIGUSR1, after(CHILD_SECONDS * GS_SECOND)), 0);
    return unused;
}

static _Noreturn void die_by_signal(void)
{
    struct sigaction action;
    sigset_t set;
    MUST_EQ(sigaction(SIGUSR1, NULL, &action), 0);
    MUST(action.sa_handler == SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    MUST_EQ(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
    kill(getpid(), SIGUSR1);
    _exit(1);
}

static void *fork_beside_signal(void *worker)
{
    int status;
    struct gs_thread *waiting = spawn_waiting(*(unsigned *)worker, wait_for_signal, NULL);
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid)
        die_by_signal();
    MUST_EQ(gs_sys_wait4(pid, &status, 0), pid);
    MUST_EQ(status, SIGUSR1);
    kill(getpid(), SIGUSR1);
    join(waiting);
    return NULL;
}

TEST(signal_for_which_a_thread_of_the_parent_waits_has_its_former_action_in_the_child)
{
    const struct gs_threads_options options = {.workers = 2};
    skip_without_fork();
    for (unsigned worker = 1; worker <= 2; worker++)
        CHECK_EQ(gs_threads_run(&options, fork_beside_signal, &worker, NULL), 0);
}
