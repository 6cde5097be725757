/* Waits in a row, each with or without a deadline: a thread stays in the deadlines of its worker by
 * an earlier one. */
#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

enum deadline { NONE, SOON, LATE, DEADLINES };

#define WAITS 4
#define SEQUENCES (DEADLINES * DEADLINES * DEADLINES * DEADLINES)

struct sequence {
    unsigned number; /* a digit for each wait */
    atomic_uint waits;
    bool migrates;
    struct gs_semaphore semaphore;
    struct gs_thread *thread;
};

static enum deadline deadline_of(const struct sequence *sequence, unsigned wait)
{
    unsigned number = sequence->number;
    while (wait--)
        number /= DEADLINES;
    return number % DEADLINES;
}

static uint64_t until(enum deadline deadline)
{
    static const uint64_t each_ns[] = {[SOON] = 300 * GS_MICROSECOND, [LATE] = 100 * GS_SECOND};
    return deadline == NONE ? GS_NEVER : after(each_ns[deadline]);
}

/* Those with a deadline that passes soon are not woken. */
static void *wait_in_sequence(void *argument)
{
    struct sequence *sequence = argument;
    for (unsigned i = 0; i < WAITS; i++) {
        enum deadline deadline = deadline_of(sequence, i);
        uint64_t deadline_ns = until(deadline);
        atomic_fetch_add(&sequence->waits, 1);
        int result = i % 2 ? gs_thread_park(deadline_ns)
                           : gs_semaphore_wait(&sequence->semaphore, deadline_ns);
        MUST_EQ(result, deadline == SOON ? -ETIMEDOUT : 0);
        MUST(deadline != SOON || gs_clock_now() >= deadline_ns);
    }
    gs_threads_check();
    return NULL;
}

/* Wakes each wait that must be woken, some when an earlier deadline has passed. */
static void *wake_sequence(void *argument)
{
    struct sequence *sequence = argument;
    for (unsigned i = 0; i < WAITS; i++) {
        while (atomic_load(&sequence->waits) <= i)
            gs_thread_yield();
        if (deadline_of(sequence, i) == SOON)
            continue;
        if (sequence->number % 3 == 0)
            MUST_EQ(gs_thread_sleep(after(400 * GS_MICROSECOND)), 0);
        if (i % 2)
            gs_thread_unpark(sequence->thread);
        else
            gs_semaphore_post(&sequence->semaphore);
    }
    join(sequence->thread);
    return NULL;
}

THREAD_TEST(each_wait_has_its_own_deadline, run_both)
{
    static struct sequence sequences[2 * SEQUENCES];
    static struct gs_thread *wakers[2 * SEQUENCES];
    memset(sequences, 0, sizeof sequences);
    for (unsigned i = 0; i < 2 * SEQUENCES; i++) {
        struct sequence *sequence = &sequences[i];
        sequence->number = i / 2;
        const struct gs_thread_attributes attributes = {.migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, wait_in_sequence, sequence, &sequence->thread), 0);
        wakers[i] = spawn(wake_sequence, sequence);
    }
    for (unsigned i = 0; i < 2 * SEQUENCES; i++)
        join(wakers[i]);
    gs_threads_check();
}

/* A thread that has ended is in no queue; the next one in its control block waits for long. */
THREAD(end_early)
{
    struct gs_semaphore none = {0};
    gs_thread_unpark(gs_thread_self());
    MUST_EQ(gs_semaphore_wait(&none, after(GS_MICROSECOND)), -ETIMEDOUT);
    MUST_EQ(gs_thread_park(after(GS_MILLISECOND)), 0);
}

THREAD_TEST(thread_that_ends_leaves_the_deadlines, run_both)
{
    for (int i = 0; i < 100; i++) {
        struct gs_thread *ended = spawn(end_early, NULL);
        join(ended);
        struct gs_thread *next = spawn(end_early, NULL);
        gs_threads_check();
        join(next);
    }
}
