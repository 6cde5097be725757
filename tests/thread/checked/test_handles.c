/* Threads that are used after they were joined or detached. */
#include "tests/thread/checked/misuse.h"
#include "tests/thread/schedule/forking.h"
#include "thread/schedule/thread_extra.h"

static void *end_at_once(void *unused)
{
    return unused;
}

static void *park(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

static struct gs_thread *joined(void)
{
    struct gs_thread *thread = spawn_named("x", end_at_once, NULL);
    join(thread);
    return thread;
}

/* It has ended when this returns. */
static struct gs_thread *detached_and_ended(void)
{
    struct gs_thread *thread = spawn_named("y", end_at_once, NULL);
    gs_thread_detach(thread);
    gs_thread_yield();
    return thread;
}

/* ---- After a join ---- */

static void *join_twice(void *unused)
{
    (void)unused;
    return join(joined());
}

static void *detach_after_join(void *unused)
{
    gs_thread_detach(joined());
    return unused;
}

static void *cancel_after_join(void *unused)
{
    gs_thread_cancel(joined());
    return unused;
}

static void *unpark_after_join(void *unused)
{
    gs_thread_unpark(joined());
    return unused;
}

static void *name_after_join(void *unused)
{
    MUST(gs_thread_name(joined()));
    return unused;
}

static void *set_priority_after_join(void *unused)
{
    gs_thread_set_priority(joined(), GS_PRIORITY_HIGH);
    return unused;
}

/* Other threads have started and ended since: fewer than the control blocks that are kept, of which
 * there are only some if stacks are large, as sanitizers need them. */
enum { OTHERS = GS_ASAN || GS_TSAN ? 10 : 100 };

static void *join_late(void *unused)
{
    struct gs_thread *thread = joined();
    for (int i = 0; i < OTHERS; i++)
        join(spawn(end_at_once, NULL));
    (void)unused;
    return join(thread);
}

IN_CHILD_RUN(run_join_twice, join_twice)
IN_CHILD_RUN(run_detach_after_join, detach_after_join)
IN_CHILD_RUN(run_cancel_after_join, cancel_after_join)
IN_CHILD_RUN(run_unpark_after_join, unpark_after_join)
IN_CHILD_RUN(run_name_after_join, name_after_join)
IN_CHILD_RUN(run_set_priority_after_join, set_priority_after_join)
IN_CHILD_RUN(run_join_late, join_late)

#define WAS_JOINED "thread \"x\" was joined before"

TEST(a_thread_that_was_joined_cannot_be_used)
{
    CHECK_STOPPED(run_join_twice, "gs_thread_join", WAS_JOINED);
    CHECK_STOPPED(run_detach_after_join, "gs_thread_detach", WAS_JOINED);
    CHECK_STOPPED(run_cancel_after_join, "gs_thread_cancel", WAS_JOINED);
    CHECK_STOPPED(run_unpark_after_join, "gs_thread_unpark", WAS_JOINED);
    CHECK_STOPPED(run_name_after_join, "gs_thread_name", WAS_JOINED);
    CHECK_STOPPED(run_set_priority_after_join, "gs_thread_set_priority", WAS_JOINED);
}

TEST(a_second_join_is_noticed_when_others_have_started_since)
{
    CHECK_STOPPED(run_join_late, "gs_thread_join", WAS_JOINED);
}

/* ---- While a select waits for its end ---- */

static void *select_joined(void *unused)
{
    struct gs_select one = {.thread = joined()};
    MUST_EQ(gs_select(&one, 1, 0), -ETIMEDOUT);
    return unused;
}

static void *select_parked(void *thread)
{
    struct gs_select one = {.thread = thread};
    MUST_EQ(gs_select(&one, 1, GS_NEVER), 0);
    return thread;
}

static struct gs_thread *parked_and_selected(void)
{
    struct gs_thread *thread = spawn_named("x", park, NULL);
    spawn(select_parked, thread);
    gs_thread_yield();
    return thread;
}

static void *join_selected(void *unused)
{
    (void)unused;
    return join(parked_and_selected());
}

static void *detach_selected(void *unused)
{
    gs_thread_detach(parked_and_selected());
    return unused;
}

static void *join_after_select(void *unused)
{
    struct gs_thread *thread = spawn_named("x", park, NULL);
    struct gs_thread *selecting = spawn(select_parked, thread),
                     *other = spawn(select_parked, thread);
    gs_thread_yield();
    gs_thread_unpark(thread);
    join(selecting);
    join(other);
    join(thread);
    return unused;
}

IN_CHILD_RUN(run_select_joined, select_joined)
IN_CHILD_RUN(run_join_selected, join_selected)
IN_CHILD_RUN(run_detach_selected, detach_selected)

#define IS_SELECTED "a gs_select waits for the end of thread \"x\""

TEST(a_thread_is_joined_or_detached_when_no_select_waits_for_its_end)
{
    CHECK_STOPPED(run_select_joined, "gs_select", WAS_JOINED);
    CHECK_STOPPED(run_join_selected, "gs_thread_join", IS_SELECTED);
    CHECK_STOPPED(run_detach_selected, "gs_thread_detach", IS_SELECTED);
    run_with(1, join_after_select);
}

/* ---- After a detach ---- */

static void *join_detached(void *unused)
{
    struct gs_thread *thread = spawn_named("y", park, NULL);
    gs_thread_detach(thread);
    (void)unused;
    return join(thread);
}

static void *detach_twice(void *unused)
{
    struct gs_thread *thread = spawn_named("y", park, NULL);
    gs_thread_detach(thread);
    gs_thread_detach(thread);
    return unused;
}

static void *join_detached_and_ended(void *unused)
{
    (void)unused;
    return join(detached_and_ended());
}

static void *cancel_detached_and_ended(void *unused)
{
    gs_thread_cancel(detached_and_ended());
    return unused;
}

IN_CHILD_RUN(run_join_detached, join_detached)
IN_CHILD_RUN(run_detach_twice, detach_twice)
IN_CHILD_RUN(run_join_detached_and_ended, join_detached_and_ended)
IN_CHILD_RUN(run_cancel_detached_and_ended, cancel_detached_and_ended)

TEST(a_thread_that_was_detached_cannot_be_joined_nor_detached)
{
    CHECK_STOPPED(run_join_detached, "gs_thread_join", "thread \"y\" was detached before");
    CHECK_STOPPED(run_detach_twice, "gs_thread_detach", "thread \"y\" was detached before");
}

TEST(a_thread_that_was_detached_and_has_ended_cannot_be_used)
{
    CHECK_STOPPED(run_join_detached_and_ended, "gs_thread_join",
                  "thread \"y\" was detached, and has ended");
    CHECK_STOPPED(run_cancel_detached_and_ended, "gs_thread_cancel",
                  "thread \"y\" was detached, and has ended");
}

/* ---- Two joins at the same time, and what is no thread ---- */

static void *join_it(void *thread)
{
    return join(thread);
}

static void *join_by_two(void *unused)
{
    struct gs_thread *thread = spawn_named("z", park, NULL);
    spawn_named("one", join_it, thread);
    gs_thread_yield();
    (void)unused;
    return join(thread);
}

static void *join_null(void *unused)
{
    (void)unused;
    return join(NULL);
}

static void *join_a_variable(void *unused)
{
    long variable;
    (void)unused;
    return join((struct gs_thread *)&variable);
}

static void *join_twice_on_own_stack(void *unused)
{
    static _Alignas(64) char stack[1 << 16];
    const struct gs_thread_attributes attributes = {.stack = stack, .stack_size = sizeof stack};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, end_at_once, NULL, &thread), 0);
    join(thread);
    (void)unused;
    return join(thread);
}

IN_CHILD_RUN(run_join_by_two, join_by_two)
IN_CHILD_RUN(run_join_null, join_null)
IN_CHILD_RUN(run_join_a_variable, join_a_variable)
IN_CHILD_RUN(run_join_twice_on_own_stack, join_twice_on_own_stack)

TEST(only_one_thread_may_join)
{
    CHECK_STOPPED(run_join_by_two, "gs_thread_join",
                  "thread \"z\" is being joined by thread \"one\"");
}

TEST(what_is_no_thread_cannot_be_joined)
{
    CHECK_STOPPED(run_join_null, "gs_thread_join", "the thread is NULL");
    CHECK_STOPPED(run_join_a_variable, "gs_thread_join", "0x[0-9a-f]+ is no thread, or one .*");
    CHECK_STOPPED(run_join_twice_on_own_stack, "gs_thread_join",
                  "0x[0-9a-f]+ is no thread, or one .*");
}

/* ---- Correct use ---- */

static void *use_own_handle(void *unused)
{
    struct gs_thread *self = gs_thread_self();
    MUST(!strcmp(gs_thread_name(self), "own"));
    gs_thread_set_priority(self, GS_PRIORITY_HIGH);
    gs_thread_unpark(self);
    return park(unused);
}

THREAD_TEST(handles_are_valid_until_the_join, run_both)
{
    struct gs_thread *thread = spawn_named("parked", park, NULL), *own;
    MUST_EQ(gs_thread_join(thread, after(GS_MILLISECOND), NULL), -ETIMEDOUT);
    MUST(!strcmp(gs_thread_name(thread), "parked"));
    gs_thread_set_priority(thread, GS_PRIORITY_LOW);
    gs_thread_unpark(thread);
    join(thread);
    own = spawn_named("own", use_own_handle, NULL);
    gs_thread_detach(own);
    own = spawn_named("own", use_own_handle, NULL);
    join(own);
    /* One that has ended can be used until it is joined. */
    thread = spawn_named("ended", end_at_once, NULL);
    gs_thread_sleep(after(GS_MILLISECOND));
    gs_thread_cancel(thread);
    gs_thread_unpark(thread);
    MUST(!strcmp(gs_thread_name(thread), "ended"));
    gs_thread_detach(thread);
}

/* The blocks of threads that have ended are reused in the end. */
static void *spawn_many(void *unused)
{
    struct gs_threads_stats stats;
    for (int i = 0; i < 5000; i++)
        join(spawn(end_at_once, NULL));
    gs_threads_stats(&stats);
    MUST(stats.stacks < 1000);
    return unused;
}

TEST(stacks_are_reused_after_a_while)
{
    run_both(spawn_many);
}

/* The thread sanitizer does not support user threads in a child. */
#if !GS_TSAN
static void *fork_and_spawn(void *unused)
{
    int status;
    spawn_many(unused);
    pid_t pid = gs_fork();
    if (!pid) {
        spawn_many(unused);
        _exit(0);
    }
    MUST_EQ(gs_wait_child(pid, GS_NEVER, &status), 0);
    MUST_EQ(status, 0);
    return NULL;
}

TEST(stacks_are_reused_in_the_child_of_a_fork)
{
    if (IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    run_with(1, fork_and_spawn);
}
#endif
