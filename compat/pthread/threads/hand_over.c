/* Calls that a worker makes although they may wait. One that waits for longer than a millisecond
 * is handed over: the receiver interrupts it by a kick, and its task waits in another way, mostly
 * while the pool makes the call. So the worker runs its other tasks. A call that cannot be
 * interrupted (for a disk) holds the worker until it returns. Either way, the next calls of its
 * kind are made by the pool at once.
 *
 * The word of a carrier says which call it is in, and is changed by the receiver:
 *
 *     0 --- call --> STARTED --- receiver, 1 ms --> KICKED --- receiver --> HELD
 *     ^                |                            |                       |
 *     `----------------+---------- return ----------+-----------------------'
 *
 * A kick may come before the kernel thread is in the call, so it is repeated; or after it, when it
 * does no harm: whatever it interrupts is made again. So may one that was sent for another reason.
 * What a kick has cut short is finished by the pool, where the kernel does that only for signals:
 * programs without handlers rely on it. */
#include "compat/pthread/threads/hand_over.h"

#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"
#include "src/base/chaos.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <sys/syscall.h>

enum { STARTED = 1, KICKED = 2, HELD = 3, STATES = 4 };
enum { KINDS = 1024, CALLS_IN_POOL = 64, KICKS_UNTIL_HELD = 3 };

/* How many more calls of the kind are made by the pool. Several tasks may count at once: nothing
 * depends on the exact number. */
static atomic_uchar in_pool[KINDS];

static unsigned kind_of(long number, const long *arguments)
{
    unsigned long request = number == SYS_ioctl ? (unsigned long)arguments[1] : 0;
    return (unsigned)(((unsigned long)number * 61 + request * 7) % KINDS);
}

static bool must_be_in_pool(unsigned kind)
{
    unsigned char rest = atomic_load_explicit(&in_pool[kind], memory_order_relaxed);
    if (GS_LIKELY(!rest))
        return false;
    atomic_store_explicit(&in_pool[kind], (unsigned char)(rest - 1), memory_order_relaxed);
    return true;
}

/* Sequentially consistent with prepare_sleep: this stores the word and then looks whether the
 * receiver sleeps; that announces that it sleeps, and then looks at the words. */
static long call_kernel(struct task *task, long number, const long *a, unsigned *ret_state,
                        bool *ret_was_kicked)
{
    struct carrier *carrier = gs_carrier();
    gs_wakeups_settle(carrier, false);
    carrier->calls++;
    carrier->was_kicked = false;
    task->is_blocking = true;
    atomic_store(&carrier->call, carrier->calls * STATES + STARTED);
    if (GS_UNLIKELY(atomic_load(&gs_run.is_ticker_asleep)))
        gs_receiver_wake();
    gs_chaos(CHAOS_CALL);
    long result = gs_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    *ret_state = atomic_exchange(&carrier->call, 0) % STATES;
    *ret_was_kicked = carrier->was_kicked;
    task->is_blocking = false;
    return result;
}

long gs_call_waiting(struct task *task, long number, const long *arguments, bool *ret_was_kicked)
{
    unsigned state;
    long result = call_kernel(task, number, arguments, &state, ret_was_kicked);
    if (GS_LIKELY(state == STARTED))
        return result;
    bool was_interrupted = result == -EINTR;
    if (was_interrupted)
        GS_COUNT(hand_overs);
    if (was_interrupted || state == HELD) {
        atomic_store(&in_pool[kind_of(number, arguments)], CALLS_IN_POOL);
        if (gs_run.explains)
            gs_explain(task, number,
                       was_interrupted ? "was handed over by its worker" : "has held its worker");
    }
    return result;
}

long gs_call_on_worker(struct task *task, long number, const long *arguments, bool *ret_was_kicked)
{
    *ret_was_kicked = false;
    if (GS_UNLIKELY(must_be_in_pool(kind_of(number, arguments))))
        return gs_pool_call(task, number, arguments);
    long result = gs_call_waiting(task, number, arguments, ret_was_kicked);
    if (GS_UNLIKELY(*ret_was_kicked && result == -EINTR))
        return gs_pool_call(task, number, arguments);
    return gs_or_restart(result);
}

/* The kernel returns what it has if there is a signal, but only then. */
long gs_call_getrandom(struct task *task, const long *arguments, ucontext_t *context)
{
    bool was_kicked;
    long n = gs_call_on_worker(task, SYS_getrandom, arguments, &was_kicked);
    (void)context;
    if (GS_LIKELY(!was_kicked || n <= 0 || n >= arguments[1]))
        return n;
    const long others[6] = {arguments[0] + n, arguments[1] - n, arguments[2]};
    long more = gs_pool_call(task, SYS_getrandom, others);
    return more > 0 ? n + more : n;
}

/* ---- The receiver's part ---- */

bool gs_hand_over_tick(struct carrier *carrier, struct observed_call *seen, uint64_t now_ns)
{
    unsigned word = atomic_load(&carrier->call), count = word / STATES;
    bool is_new = count != seen->count;
    if (!word)
        return false;
    if (is_new)
        *seen = (struct observed_call){.count = count, .since_ns = now_ns};
    if (is_new || now_ns - seen->since_ns < GS_MILLISECOND)
        return true;
    unsigned next = count * STATES + (seen->kicks >= KICKS_UNTIL_HELD ? HELD : KICKED);
    seen->kicks++;
    /* It fails if the call has returned. */
    if (atomic_compare_exchange_strong(&carrier->call, &word, next))
        gs_kick(carrier->tid);
    return true;
}
