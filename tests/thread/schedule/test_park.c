#include "tests/thread/fixture.h"
#include "thread/schedule/worker.h"

static void *park_once(void *deadline_ns)
{
    return (void *)(intptr_t)gs_thread_park(deadline_ns ? *(uint64_t *)deadline_ns : GS_NEVER);
}

THREAD_TEST(unpark_wakes_a_parked_thread, run_both)
{
    struct gs_thread *thread = spawn(park_once, NULL);
    gs_thread_yield();
    gs_thread_unpark(thread);
    MUST_EQ((intptr_t)join(thread), 0);
}

THREAD(keep_one)
{
    gs_thread_unpark(gs_thread_self());
    gs_thread_unpark(gs_thread_self());
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(gs_thread_park(0), -ETIMEDOUT);
    MUST_EQ(gs_thread_park(after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    gs_thread_unpark(gs_thread_self());
    MUST_EQ(gs_thread_park(0), 0);
}

TEST(one_early_wake_up_is_remembered)
{
    run_both(keep_one);
}

/* Deadlines of parks are claimed together with the park state, those of other waits are not. */
THREAD_TEST(thread_that_has_parked_can_sleep, run_both)
{
    struct gs_thread *parked = spawn(keep_one, NULL);
    for (int i = 0; i < 3; i++) {
        MUST_EQ(gs_thread_park(after(GS_MILLISECOND)), -ETIMEDOUT);
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    }
    join(parked);
}

static void *unpark_from_outside(void *thread)
{
    usleep(5000);
    gs_thread_unpark(thread);
    return NULL;
}

THREAD_TEST(kernel_thread_of_the_programs_own_wakes_a_thread, run_both)
{
    pthread_t kernel_thread;
    MUST_EQ(pthread_create(&kernel_thread, NULL, unpark_from_outside, gs_thread_self()), 0);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    pthread_join(kernel_thread, NULL);
}

static struct gs_thread *waiting;

static void *unpark_waiting(void *unused)
{
    gs_thread_unpark(waiting);
    return unused;
}

static void *spawn_from_outside(void *ret_err)
{
    usleep(2000);
    *(int *)ret_err = gs_thread_self() ? -1 : gs_thread_spawn(NULL, unpark_waiting, NULL, NULL);
    return NULL;
}

THREAD_TEST(kernel_thread_of_the_programs_own_starts_a_thread, run_both)
{
    pthread_t kernel_thread;
    int err = 1;
    waiting = gs_thread_self();
    MUST_EQ(pthread_create(&kernel_thread, NULL, spawn_from_outside, &err), 0);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    pthread_join(kernel_thread, NULL);
    MUST_EQ(err, 0);
}

/* ---- Kernel threads that were created by a user thread and outlive its run ---- */

enum { LATER_THREADS = 6 };

static pthread_t survivor;
static pthread_barrier_t all_run;
static atomic_bool has_run_ended, has_looked;
static _Atomic(struct gs_thread *) parked_later;

/* Its control block may reuse the memory of a worker's kernel thread that has ended. */
THREAD(check_no_worker)
{
    pthread_barrier_wait(&all_run);
    MUST(!gs_worker_or_null());
}

static void look_after_run(void)
{
    pthread_t later_threads[LATER_THREADS];
    while (!atomic_load(&has_run_ended))
        usleep(500);
    MUST(!gs_worker_or_null());
    for (int i = 0; i < LATER_THREADS; i++)
        MUST_EQ(pthread_create(&later_threads[i], NULL, check_no_worker, NULL), 0);
    for (int i = 0; i < LATER_THREADS; i++)
        pthread_join(later_threads[i], NULL);
    atomic_store(&has_looked, true);
}

THREAD(wake_in_later_run)
{
    struct gs_thread *thread;
    look_after_run();
    while (!(thread = atomic_load(&parked_later)))
        usleep(500);
    gs_thread_unpark(thread);
}

static void *make_survivor(void *unused)
{
    MUST_EQ(pthread_create(&survivor, NULL, wake_in_later_run, NULL), 0);
    return unused;
}

/* The kernel thread is joined in the run in which it wakes a thread; that run must not end before
 * the call has returned. */
THREAD(park_in_later_run)
{
    atomic_store(&parked_later, gs_thread_self());
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    pthread_join(survivor, NULL);
}

/* Both threads run on the last worker, whose kernel thread ends with the run if there are several
 * workers. */
static unsigned last_worker;
static gs_thread_fn *there;

THREAD(run_there)
{
    const struct gs_thread_attributes attributes = {.worker = last_worker};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, there, NULL, &thread), 0);
    join(thread);
}

static void survive_run_with(unsigned workers)
{
    last_worker = workers;
    atomic_store(&has_run_ended, false);
    atomic_store(&has_looked, false);
    atomic_store(&parked_later, NULL);
    CHECK_EQ(pthread_barrier_init(&all_run, NULL, LATER_THREADS), 0);
    there = make_survivor;
    run_with(workers, run_there);
    atomic_store(&has_run_ended, true);
    while (!atomic_load(&has_looked))
        usleep(500);
    there = park_in_later_run;
    run_with(workers, run_there);
    pthread_barrier_destroy(&all_run);
}

TEST(kernel_thread_that_outlives_the_run_that_it_was_made_in_wakes_a_thread_of_the_next)
{
    survive_run_with(1);
    survive_run_with(3);
}

/* ---- The end of the run while a wake-up is being sent ---- */

static __thread bool is_sender;
static atomic_bool is_sending, has_sent, has_gone_on;

/* The thread resumes before the first worker's loop was woken for it, because a timer also makes
 * the loop iterate. */
static long send_late(long number, void *unused)
{
    (void)unused;
    if (number != SYS_write || !is_sender)
        return 0;
    atomic_store(&is_sending, true);
    while (!atomic_load(&has_gone_on))
        usleep(100);
    usleep(20000);
    atomic_store(&has_sent, true);
    return 0;
}

static void *unpark_late(void *thread)
{
    usleep(3000);
    is_sender = true;
    gs_thread_unpark(thread);
    return NULL;
}

THREAD(turn_loop)
{
    while (!atomic_load(&is_sending) && !atomic_load(&has_gone_on))
        MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
}

static void *park_and_end(void *sender)
{
    const struct gs_thread_attributes attributes = {.worker = 1};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, turn_loop, NULL, &thread), 0);
    MUST_EQ(pthread_create(sender, NULL, unpark_late, gs_thread_self()), 0);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    atomic_store(&has_gone_on, true);
    join(thread);
    return NULL;
}

TEST(run_ends_after_the_wake_up_of_a_kernel_thread_has_been_sent)
{
    gs_sys_set_fault(send_late, NULL);
    for (unsigned i = 0; i < 6; i++) {
        const struct gs_threads_options options = {.workers = i % 2 ? 3 : 1};
        pthread_t sender;
        atomic_store(&is_sending, false);
        atomic_store(&has_sent, false);
        atomic_store(&has_gone_on, false);
        int err = gs_threads_run(&options, park_and_end, &sender, NULL);
        bool is_ordered = atomic_load(&has_sent) || !atomic_load(&is_sending);
        pthread_join(sender, NULL);
        CHECK_EQ(err, 0);
        CHECK(is_ordered);
    }
    gs_sys_set_fault(NULL, NULL);
}

enum { HAND_OVERS = 20000 };

static struct gs_thread *partners[2];

static void *hand_over(void *argument)
{
    int me = *(int *)argument;
    for (int i = 0; i < HAND_OVERS; i++) {
        if (me)
            MUST_EQ(gs_thread_park(GS_NEVER), 0);
        gs_thread_unpark(partners[!me]);
        if (!me)
            MUST_EQ(gs_thread_park(GS_NEVER), 0);
    }
    return NULL;
}

THREAD_TEST(no_wake_up_between_workers_is_lost, run_on_two)
{
    static int numbers[] = {0, 1};
    struct gs_thread_attributes attributes = {.worker = 2};
    MUST_EQ(gs_thread_spawn(&attributes, hand_over, &numbers[1], &partners[1]), 0);
    partners[0] = gs_thread_self();
    hand_over(&numbers[0]);
    join(partners[1]);
}

THREAD_TEST(deadline_and_wake_up_at_the_same_time_end_the_wait_once, run_both)
{
    int woken = 0, late = 0;
    for (int i = 0; i < 300; i++) {
        uint64_t deadline_ns = after((uint64_t)(i % 40) * GS_MICROSECOND);
        struct gs_thread *thread = spawn(park_once, &deadline_ns);
        uint64_t until_ns = after(20 * GS_MICROSECOND);
        while (gs_clock_now() < until_ns)
            gs_thread_yield();
        gs_thread_unpark(thread);
        intptr_t result = (intptr_t)join(thread);
        MUST(!result || result == -ETIMEDOUT);
        woken += !result;
        late += result != 0;
    }
    MUST_EQ(woken + late, 300);
}
