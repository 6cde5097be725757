/* Every call that waits, by a thread whose stack another one uses meanwhile: the call works all the
 * same, and leaves the other one alone. */
#include "tests/thread/checked/call_rows.h"
#include "tests/thread/stack/shared.h"

enum { USED = 2000 }; /* with the calls below it less than what is copied, also if not optimised */

/* What it has on the stack, which is the waiting thread's, too, stays. */
static void *use_stack(void *unused)
{
    volatile unsigned char used[USED];
    for (int i = 0; i < USED; i++)
        used[i] = 0xa5;
    gs_thread_sleep(after(GS_MILLISECOND / 10));
    for (int i = 0; i < USED; i++)
        MUST_EQ(used[i], 0xa5);
    return unused;
}

static void take_stack_of_waiter(void)
{
    const struct gs_thread_attributes attributes = {.worker = 1, .stack_is_shared = true};
    join(spawn_as(&attributes, use_stack, NULL));
}

static void await_eviction(void)
{
    for (int i = 0; i < 1000 && gs_stacks_can_be_shared() && !thread_is_evicted(waiter); i++)
        usleep(10);
}

static void *run_evicted(void *unused)
{
    run_rows(take_stack_of_waiter);
    MUST(!gs_stacks_can_be_shared() || stats_now().evictions >= ROWS);
    return unused;
}

static void run_all_evicted(void)
{
    gs_shared_stacks_max = 1;
    await_disturbance = await_eviction;
    run_all(run_evicted);
}

TEST(every_call_works_while_another_thread_has_the_stack_of_its_own)
{
    if (IS_EMULATED)
        SKIP("an emulator makes the system calls");
    int status = in_child(run_all_evicted);
    CHECK_STR(report, "");
    CHECK_EQ(status, 0);
}
