/* When stacks are given back, and who finds them. While a private thread may have its stack, a
 * timer of its worker is active, for the next pass over the bitmaps of resident slots: that looks
 * at each thread, and those that have waited long enough are given to stack_away.c, many at a
 * time. Nothing is done at a wait, and a wake-up only compares two times. (docs/design/threads.md)
 *
 *     no timer -- watch --> pause -- timer --> pass, in steps --> pause, or no timer
 */
#ifndef GS_THREAD_STACK_SWEEP_H
#define GS_THREAD_STACK_SWEEP_H

#include "thread/stack/stack_class.h"

/* So that a sum with the time does not overflow. */
#define GIVE_BACK_NS_MAX (GS_NEVER / 4)

/* The wait after which a stack is given back. */
static inline uint64_t give_back_ns(void)
{
    uint64_t ns = gs_runtime.options.give_back_ns;
    return ns < GIVE_BACK_NS_MAX ? ns : GIVE_BACK_NS_MAX;
}

/* A pass need not begin as soon as the first stack may be given back, but a quarter of the time
 * later: it then finds those that have become due in the meantime, too. */
static inline uint64_t sweep_latest_ns(uint64_t since_ns)
{
    return since_ns + give_back_ns() + give_back_ns() / 4;
}

static inline void sweep_expect(struct sweep *sweep, uint64_t latest_ns)
{
    if (latest_ns < sweep->due_ns)
        sweep->due_ns = latest_ns;
}

/* A private thread has its stack now, and will run on this worker. */
void gs_sweep_watch(struct worker *worker);

void gs_sweep_init_worker(struct worker *worker);
void gs_sweep_stop_worker(struct worker *worker);

/* ---- What a pass calls (stack_away.c) ---- */

/* Threads whose stacks are given back together: each call alone would flush the TLB. */
#define SWEEP_BATCH 64u
struct sweep_batch {
    struct gs_thread *each[SWEEP_BATCH];
    unsigned count;
};

/* Whether the thread could be given its stack back by nobody but the caller, and it has waited long
 * enough. NOT_FOR_TSAN: it is checked first without the lock, when the thread may run. */
NOT_FOR_TSAN bool gs_stack_is_waiting_long(const struct gs_thread *thread, uint64_t now_ns);

/* Give back the stacks of the batch, which is empty afterwards. */
void gs_stack_give_back(struct worker *worker, struct sweep_batch *batch, uint64_t now_ns);

/* The kernel has not refused to take pages back. */
bool gs_stacks_can_be_given_back(void);

#endif
