/* With several workers: whether a wake-up needs an idle one.
 *
 * A thread that wakes another one often waits soon afterwards, for its answer, a lock or its end.
 * Then its own worker can run the other one, and waking an idle worker, which takes the kernel
 * several microseconds, only moves the two apart. So the wake-up of an idle worker is held, as long
 * as that has proved right: if the waker does not wait within SOON, some of the next wake-ups are
 * not held, twice as many each time. If it does not wait for OVERDUE, the receiver wakes an idle
 * worker. The runtime wakes one in any case when a second thread is ready.
 *
 * `held_since` of a carrier is set by its task, and cleared by whoever settles it first. */
#include "compat/pthread/threads/task.h"
#include "src/base/chaos.h"

#include <gossamer/resumable.h>

enum { BACKOFF_MIN = 8, BACKOFF_MAX = 4096 };
/* In cycles of the processor: some 50 us, and a millisecond. */
#define SOON 150000u
#define OVERDUE 3000000u

static void fail(struct carrier *carrier)
{
    carrier->backoff *= 2;
    if (carrier->backoff < BACKOFF_MIN)
        carrier->backoff = BACKOFF_MIN;
    if (carrier->backoff > BACKOFF_MAX)
        carrier->backoff = BACKOFF_MAX;
    carrier->patience = carrier->backoff;
}

static bool begin(struct carrier *carrier)
{
    if (atomic_exchange(&carrier->was_overdue, false))
        fail(carrier);
    if (carrier->patience) {
        carrier->patience--;
        return false;
    }
    gs_threads_hold_wakeups(true);
    return true;
}

/* Outside of tasks the worker, or the thread that collects events, soon looks for the next one. */
static void end(struct carrier *carrier)
{
    gs_threads_hold_wakeups(false);
    if (!gs_task || atomic_load_explicit(&carrier->held_since, memory_order_relaxed))
        return;
    gs_chaos(CHAOS_PUBLISH);
    carrier->holds++;
    atomic_store_explicit(&carrier->held_since, __builtin_ia32_rdtsc(), memory_order_relaxed);
}

void gs_wakeups_unpark(struct gs_thread *thread)
{
    gs_chaos(CHAOS_WAKE);
    struct carrier *carrier = gs_run.workers > 1 && gs_threads_worker() ? gs_carrier() : NULL;
    bool holds = carrier && begin(carrier);
    gs_thread_unpark(thread);
    if (holds)
        end(carrier);
}

int gs_wakeups_spawn(const struct gs_thread_attributes *attributes, void *argument)
{
    struct carrier *carrier = gs_run.workers > 1 && gs_threads_worker() ? gs_carrier() : NULL;
    bool holds = carrier && begin(carrier);
    int err = gs_thread_spawn(attributes, NULL, argument, NULL);
    if (holds)
        end(carrier);
    return err;
}

void gs_wakeups_settle_slow(struct carrier *carrier, bool waits)
{
    gs_chaos(CHAOS_CLAIM);
    uint64_t since = atomic_exchange(&carrier->held_since, 0);
    gs_chaos(CHAOS_WAKE);
    if (!since)
        return;
    bool is_soon = waits && __builtin_ia32_rdtsc() - since < SOON;
    if (is_soon)
        carrier->backoff /= 2;
    else
        fail(carrier);
    if (!waits)
        gs_threads_wake_idle();
}

bool gs_wakeups_tick(struct carrier *carrier, unsigned *seen_holds)
{
    uint64_t since = atomic_load(&carrier->held_since);
    bool is_used = *seen_holds != carrier->holds;
    *seen_holds = carrier->holds;
    if (since && __builtin_ia32_rdtsc() - since >= OVERDUE &&
        atomic_compare_exchange_strong(&carrier->held_since, &since, 0)) {
        gs_chaos(CHAOS_WAKE);
        atomic_store(&carrier->was_overdue, true);
        gs_threads_wake_idle();
    }
    return is_used;
}
