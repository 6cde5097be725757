/* Migrating threads wait for signals. While it waits, each thread stays on its worker, whose loop
 * catches the signal; afterwards it migrates again. The invariants of all workers are checked at
 * the same time. */
#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

enum { WORKERS = 2, WAITERS = 4, OCCASIONS = 500 };

static atomic_uint seen_on, returned;
static atomic_bool is_finished;
static uint64_t wait_ns; /* the deadline of each wait; GS_NEVER: the signal ends it */

THREAD(check_meanwhile)
{
    while (!atomic_load(&is_finished)) {
        gs_threads_check();
        gs_thread_yield();
        MUST_EQ(gs_thread_sleep(after(10 * GS_MICROSECOND)), 0);
    }
}

/* Waits until these threads have run on several workers (one may be an extra worker), or had many
 * opportunities to, and the deadline has passed. */
static void migrate_on(uint64_t deadline_ns)
{
    unsigned seen, turns = 0;
    do {
        gs_threads_check();
        gs_thread_yield();
        MUST_EQ(gs_thread_sleep(after(20 * GS_MICROSECOND)), 0);
        seen = atomic_fetch_or(&seen_on, 1u << worker_current()->index);
    } while ((!(seen & (seen - 1)) && ++turns < OCCASIONS) || gs_clock_now() < deadline_ns);
}

THREAD(wait_for_signal)
{
    unsigned worker = worker_current()->index;
    uint64_t start_ns = gs_clock_now();
    uint64_t deadline_ns = wait_ns == GS_NEVER ? start_ns + 3600 * GS_SECOND : start_ns + wait_ns;
    int err = gs_wait_signal(SIGUSR1, deadline_ns);
    MUST_EQ(worker_current()->index, worker);
    MUST(!err || (wait_ns != GS_NEVER && err == -ETIMEDOUT));
    gs_threads_check();
    atomic_fetch_add(&returned, 1);
    migrate_on(wait_ns == GS_NEVER ? 0 : deadline_ns + 2 * GS_MILLISECOND);
    MUST_EQ(gs_thread_park(after(GS_MILLISECOND)), -ETIMEDOUT);
}

/* A signal that arrives before a thread waits is ignored, so signals are sent until all threads
 * were woken. */
THREAD(send_signals)
{
    while (atomic_load(&returned) < WAITERS) {
        usleep(500);
        kill(getpid(), SIGUSR1);
    }
}

static void *run_waiters(void *has_signal)
{
    struct gs_thread *waiters[WAITERS], *checkers[WORKERS];
    pthread_t sender;
    for (unsigned i = 0; i < WORKERS; i++) {
        const struct gs_thread_attributes on_worker = {.worker = i + 1};
        MUST_EQ(gs_thread_spawn(&on_worker, check_meanwhile, NULL, &checkers[i]), 0);
    }
    for (int i = 0; i < WAITERS; i++) {
        const struct gs_thread_attributes attributes = {.migrates = true};
        MUST_EQ(gs_thread_spawn(&attributes, wait_for_signal, NULL, &waiters[i]), 0);
    }
    if (has_signal)
        MUST_EQ(pthread_create(&sender, NULL, send_signals, NULL), 0);
    for (int i = 0; i < WAITERS; i++)
        join(waiters[i]);
    if (has_signal)
        pthread_join(sender, NULL);
    atomic_store(&is_finished, true);
    for (int i = 0; i < WORKERS; i++)
        join(checkers[i]);
    return NULL;
}

static void run_all(uint64_t wait, bool has_signal)
{
    const struct gs_threads_options options = {.workers = WORKERS};
    static int mark;
    signal(SIGUSR1, SIG_IGN);
    wait_ns = wait;
    for (int i = 0; i < 5; i++) {
        atomic_store(&seen_on, 0);
        atomic_store(&returned, 0);
        atomic_store(&is_finished, false);
        CHECK_EQ(gs_threads_run(&options, run_waiters, has_signal ? &mark : NULL, NULL), 0);
    }
    signal(SIGUSR1, SIG_DFL);
}

TEST(migrating_thread_whose_signal_arrives_before_its_deadline_migrates_again)
{
    run_all(GS_NEVER, true);
}

TEST(deadline_that_passes_after_the_signal_has_arrived_harms_no_migrating_thread)
{
    run_all(4 * GS_MILLISECOND, true);
}

TEST(migrating_thread_whose_deadline_passes_before_its_signal_arrives_migrates_again)
{
    run_all(GS_MILLISECOND, false);
}
