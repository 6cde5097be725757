/* What a thread has written is visible to the one that it wakes, cancels or hands something to. The
 * two run on different workers and find the moment by relaxed accesses, so that nothing but the
 * code under test orders them: if it does not, the thread sanitizer reports a data race. Without it
 * these tests only show that the schedules work. */
#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

#include <gossamer/resumable.h>

static atomic_int moment;
static int written;
static _Atomic(struct gs_thread *) told;

static void reach(int number)
{
    atomic_store_explicit(&moment, number, memory_order_relaxed);
}

static void await(int number)
{
    while (atomic_load_explicit(&moment, memory_order_relaxed) < number)
        sched_yield();
}

static void tell(struct gs_thread *thread)
{
    atomic_store_explicit(&told, thread, memory_order_relaxed);
}

static struct gs_thread *told_thread(void)
{
    struct gs_thread *thread;
    while (!(thread = atomic_load_explicit(&told, memory_order_relaxed)))
        sched_yield();
    return thread;
}

static struct gs_thread *spawn_on(unsigned worker, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.worker = worker};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, &thread), 0);
    return thread;
}

static void run_two(gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = 2, .is_silent = true};
    reach(0);
    tell(NULL);
    written = 0;
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
}

/* ---- The second of two wake-ups, which queues nothing ---- */

THREAD(unpark_twice)
{
    await(1);
    gs_thread_unpark(told_thread());
    written = 1;
    gs_thread_unpark(told_thread());
    reach(2);
    await(3);
}

THREAD(occupy)
{
    reach(1);
    await(2);
}

THREAD_TEST(parked_thread_sees_what_was_written_before_a_second_wake_up, run_two)
{
    tell(gs_thread_self());
    struct gs_thread *waker = spawn_on(2, unpark_twice), *occupier = spawn_on(1, occupy);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(written, 1);
    reach(3);
    join(waker);
    join(occupier);
}

static struct gs_resumable resumable;

THREAD(wake_twice)
{
    await(1);
    gs_resumable_wake(&resumable);
    written = 1;
    gs_resumable_wake(&resumable);
    reach(2);
    await(3);
}

static void read_in_second_step(struct gs_resumable *self)
{
    static int step;
    if (++step % 2)
        return;
    MUST_EQ(written, 1);
    reach(3);
    gs_resumable_end(self);
    gs_thread_unpark(told_thread());
}

THREAD_TEST(resumable_sees_what_was_written_before_a_second_wake_up, run_two)
{
    tell(gs_thread_self());
    gs_resumable_init(&resumable, read_in_second_step);
    MUST_EQ(gs_resumable_start(&resumable, 1), 0);
    struct gs_thread *waker = spawn_on(2, wake_twice);
    gs_thread_yield(); /* it becomes idle */
    occupy(NULL);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    join(waker);
}

/* ---- Cancellation ---- */

THREAD(cancel_told)
{
    reach(1);
    await(2);
    gs_thread_cancel(told_thread());
    reach(3);
}

static void *park_canceled(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), -ECANCELED);
    return unused;
}

/* As gs_threads_cancel_all does, which has found the thread before in its control block. */
THREAD_TEST(thread_that_becomes_live_can_be_canceled_by_any_worker, run_two)
{
    struct gs_thread *canceler = spawn_on(2, cancel_told);
    await(1);
    struct gs_thread *thread = spawn(park_canceled, NULL);
    tell(thread);
    reach(2);
    await(3);
    join(thread);
    join(canceler);
}

THREAD(cancel_and_make_room)
{
    cancel_told(NULL);
    while (atomic_load_explicit(&moment, memory_order_relaxed) < 4)
        gs_thread_yield();
}

THREAD(stick)
{
    reach(2);
    await(4);
}

/* Its worker is stuck when it has left its stack: so the monitor ends the wait. */
THREAD(sleep_below_a_stuck_one)
{
    tell(gs_thread_self());
    gs_thread_detach(spawn_on(1, stick));
    MUST_EQ(gs_thread_sleep(GS_NEVER), -ECANCELED);
    reach(4);
}

THREAD_TEST(monitor_that_cancels_a_wait_sees_what_it_is, run_two)
{
    const struct gs_thread_attributes mobile = {.migrates = true};
    struct gs_thread *thread, *canceler = spawn_on(2, cancel_and_make_room);
    await(1);
    MUST_EQ(gs_thread_spawn(&mobile, sleep_below_a_stuck_one, NULL, &thread), 0);
    join(thread);
    join(canceler);
}

/* ---- A list that any kernel thread changes ---- */

static int key;

THREAD(set_value_with_another)
{
    atomic_fetch_add_explicit(&moment, 1, memory_order_relaxed);
    await(2);
    MUST_EQ(gs_thread_set_value(key, &key), 0);
}

THREAD(set_two_values)
{
    struct gs_thread *one = spawn_on(1, set_value_with_another),
                     *other = spawn_on(2, set_value_with_another);
    join(one);
    join(other);
}

TEST(threads_of_two_workers_set_their_first_value_at_once)
{
    key = gs_thread_key_new(NULL);
    CHECK(key >= 0);
    run_two(set_two_values);
}
