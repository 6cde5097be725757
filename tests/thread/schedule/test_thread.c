#include "tests/thread/fixture.h"
#include "thread/schedule/thread_extra.h"

#include <fenv.h>

static void *add_one(void *argument)
{
    return (char *)argument + 1;
}

THREAD_TEST(join_returns_what_the_thread_returned, run_both)
{
    char bytes[2];
    MUST(join(spawn(add_one, bytes)) == bytes + 1);
}

static void *exit_early(void *argument)
{
    gs_thread_exit(argument);
}

static void *join_exited(void *argument)
{
    (void)argument;
    MUST(join(spawn(exit_early, calls)) == calls);
    return calls;
}

TEST(result_of_the_first_thread_is_the_result_of_the_run)
{
    void *result = NULL;
    CHECK_EQ(gs_threads_run(NULL, join_exited, NULL, &result), 0);
    CHECK(result == calls);
}

static void *log_twice(void *letter)
{
    log_call(letter);
    gs_thread_yield();
    log_call(letter);
    return NULL;
}

THREAD_TEST(yield_lets_other_threads_run_in_turn, run_on_one)
{
    struct gs_thread *threads[3];
    clear_calls();
    threads[0] = spawn(log_twice, "a");
    threads[1] = spawn(log_twice, "b");
    threads[2] = spawn(log_twice, "c");
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    MUST(!strcmp(calls, "abcabc"));
}

THREAD_TEST(many_threads_live_at_once, run_both)
{
    enum { MANY = 2000 };
    static struct gs_thread *threads[MANY];
    for (int i = 0; i < MANY; i++)
        threads[i] = spawn(add_one, &calls[i % 100]);
    for (int i = MANY; i--;)
        MUST(join(threads[i]) == &calls[i % 100 + 1]);
}

THREAD_TEST(stack_of_a_finished_thread_is_used_again, run_on_one)
{
    struct gs_threads_stats before, now;
    join(spawn(add_one, calls));
    gs_threads_stats(&before);
    for (int i = 0; i < 500; i++)
        join(spawn(add_one, calls));
    gs_threads_stats(&now);
    MUST_EQ(now.stacks, before.stacks);
    MUST_EQ(now.spawned, before.spawned + 500);
    MUST_EQ(now.live, 1);
}

THREAD_TEST(stack_of_a_finished_thread_that_nobody_joins_is_used_again, run_on_one)
{
    struct gs_threads_stats before, now;
    /* More than were ever in use in this program: those are reused, too. */
    join(spawn(add_one, calls));
    gs_threads_stats(&before);
    for (int i = 0; i < 3000; i++) {
        MUST_EQ(gs_thread_spawn(NULL, add_one, calls, NULL), 0);
        gs_thread_yield();
    }
    gs_threads_stats(&now);
    MUST_EQ(now.stacks, before.stacks);
    MUST_EQ(now.live, 1);
}

static int ended;

THREAD(count_end)
{
    gs_thread_yield();
    __atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
}

THREAD(detach)
{
    MUST_EQ(gs_thread_spawn(NULL, count_end, NULL, NULL), 0);
    gs_thread_detach(spawn(count_end, NULL));
    struct gs_thread *late = spawn(count_end, NULL);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    gs_thread_detach(late);
}

TEST(run_returns_when_detached_threads_have_ended_too)
{
    ended = 0;
    run_with(1, detach);
    CHECK_EQ(ended, 3);
    run_with(3, detach);
    CHECK_EQ(ended, 6);
}

THREAD_TEST(stack_of_a_thread_that_was_detached_before_its_end_is_used_again, run_on_one)
{
    struct gs_threads_stats before, now;
    join(spawn(add_one, calls));
    gs_threads_stats(&before);
    for (int i = 0; i < 3000; i++) {
        gs_thread_detach(spawn(add_one, calls));
        gs_thread_yield();
    }
    gs_threads_stats(&now);
    MUST_EQ(now.stacks, before.stacks);
}

static void *wait_to_end(void *may_end)
{
    MUST_EQ(gs_semaphore_wait(may_end, GS_NEVER), 0);
    return NULL;
}

THREAD_TEST(join_gives_up_at_its_deadline_and_can_be_repeated, run_both)
{
    struct gs_semaphore may_end = {0};
    struct gs_thread *thread = spawn(wait_to_end, &may_end);
    MUST_EQ(gs_thread_join(thread, 0, NULL), -ETIMEDOUT);
    MUST_EQ(gs_thread_join(thread, after(GS_MILLISECOND), NULL), -ETIMEDOUT);
    MUST_EQ(gs_thread_join(gs_thread_self(), GS_NEVER, NULL), -EDEADLK);
    gs_semaphore_post(&may_end);
    join(thread);
}

static uint64_t first_wake_ns;

static void *sleep_in_order(void *argument)
{
    uint64_t place = (uint64_t)(*(char *)argument - 'a');
    MUST_EQ(gs_thread_sleep(first_wake_ns + place * 5 * GS_MILLISECOND), 0);
    log_call(argument);
    return NULL;
}

/* Returns whether all of them slept before the first deadline, which is in wait_ns. */
static bool sleep_together(uint64_t wait_ns)
{
    clear_calls();
    first_wake_ns = after(wait_ns);
    struct gs_thread *threads[] = {spawn(sleep_in_order, "d"), spawn(sleep_in_order, "b"),
                                   spawn(sleep_in_order, "c"), spawn(sleep_in_order, "a")};
    gs_thread_yield(); /* each of them runs until it sleeps */
    bool is_early = gs_clock_now() < first_wake_ns;
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    return is_early;
}

/* On a busy machine, they may start late. */
THREAD_TEST(threads_sleep_until_their_deadlines, run_on_one)
{
    uint64_t wait_ns = 10 * GS_MILLISECOND;
    while (!sleep_together(wait_ns))
        wait_ns *= 2;
    MUST(!strcmp(calls, "abcd"));
}

static void *check_name(void *unused)
{
    MUST(!strcmp(gs_thread_name(gs_thread_self()), "a name that is far too "));
    return unused;
}

THREAD_TEST(name_is_copied_as_far_as_it_fits, run_both)
{
    const struct gs_thread_attributes attributes = {.name =
                                                        "a name that is far too long to be kept"};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, check_name, NULL, &thread), 0);
    join(thread);
}

static void *use_stack(void *n)
{
    volatile char bytes[600000];
    memset((char *)bytes, 7, *(size_t *)n);
    return (void *)(intptr_t)bytes[*(size_t *)n - 1];
}

THREAD_TEST(stack_has_the_requested_size, run_both)
{
    const struct gs_thread_attributes attributes = {.stack_size = 1 << 20};
    struct gs_thread *thread;
    size_t n = 600000;
    MUST_EQ(gs_thread_spawn(&attributes, use_stack, &n, &thread), 0);
    MUST(join(thread) == (void *)7);
}

static void *return_address(void *ret_address)
{
    char here;
    gs_thread_yield();
    *(char **)ret_address = __builtin_frame_address(0);
    return &here == ret_address ? NULL : ret_address;
}

THREAD_TEST(thread_runs_on_a_stack_of_the_callers, run_both)
{
    enum { SIZE = 128 << 10 };
    char *stack = malloc(SIZE), *address = NULL;
    struct gs_thread_attributes attributes = {.stack = stack, .stack_size = SIZE};
    struct gs_thread *thread;
    MUST(stack);
    MUST_EQ(gs_thread_spawn(&attributes, return_address, &address, &thread), 0);
    MUST(join(thread) == &address);
    MUST(address > stack && address < stack + SIZE);
    free(stack);
}

THREAD(round_up)
{
    MUST_EQ(fesetround(FE_UPWARD), 0);
    for (int i = 0; i < 100; i++) {
        gs_thread_yield();
        MUST_EQ(fegetround(), FE_UPWARD);
    }
}

static void *end_rounding_up(void *argument)
{
    MUST_EQ(fesetround(FE_UPWARD), 0);
    return argument;
}

THREAD(wait_for_ends)
{
    for (int i = 0; i < 200; i++) { /* more than there are switches between two ticks */
        MUST(join(spawn(end_rounding_up, &i)) == &i);
        MUST_EQ(fegetround(), FE_TONEAREST);
    }
}

/* They are joined by threads of all priorities, one alone first, then two side by side. */
THREAD_TEST(thread_that_ends_switches_to_the_one_that_joins_it, run_both)
{
    for (int priority = GS_PRIORITY_NORMAL; priority <= GS_PRIORITY_LOW; priority++) {
        struct gs_thread_attributes attributes = {.priority = (enum gs_priority)priority};
        struct gs_thread *each[2];
        wait_for_ends(NULL);
        for (int i = 0; i < 2; i++)
            MUST_EQ(gs_thread_spawn(&attributes, wait_for_ends, &each[i], &each[i]), 0);
        for (int i = 0; i < 2; i++)
            MUST(join(each[i]) == &each[i]);
    }
}

static struct gs_thread *canceled_joiner;

static void *cancel_joiner_and_end(void *argument)
{
    gs_thread_cancel(canceled_joiner);
    return argument;
}

static void *join_while_canceled(void *argument)
{
    canceled_joiner = gs_thread_self();
    struct gs_thread *thread = spawn(cancel_joiner_and_end, argument);
    void *result = NULL;
    int err = gs_thread_join(thread, GS_NEVER, &result);
    /* With several workers, it may have been resumed before the other has ended. */
    MUST(err == 0 || err == -ECANCELED);
    if (err) {
        gs_thread_detach(thread);
        return argument;
    }
    MUST(result == argument);
    return argument;
}

THREAD_TEST(thread_that_ends_when_its_joiner_was_just_canceled_is_joined_or_detached, run_both)
{
    for (int i = 0; i < 100; i++)
        MUST(join(spawn(join_while_canceled, &i)) == &i);
}

static char turns[8];

static void *take_turn(void *letter)
{
    strncat(turns, letter, 1);
    return NULL;
}

static void *spawn_and_end(void *argument)
{
    *(struct gs_thread **)argument = spawn(take_turn, "a");
    take_turn("b");
    return NULL;
}

THREAD(join_behind_others)
{
    struct gs_thread *other;
    turns[0] = 0;
    join(spawn(spawn_and_end, &other));
    take_turn("c");
    join(other);
}

TEST(thread_that_joins_one_that_has_ended_waits_for_its_turn)
{
    CHECK_EQ(gs_threads_run(NULL, join_behind_others, NULL, NULL), 0);
    CHECK_STR(turns, "bac");
}

#ifdef __x86_64__

#define FLUSH_TO_ZERO 0x8000u
#define EXCEPTION_FLAGS 0x3fu

static unsigned control_of_sse(void)
{
    return __builtin_ia32_stmxcsr() & ~EXCEPTION_FLAGS;
}

/* Only the control word of SSE differs. */
THREAD(flush_to_zero)
{
    unsigned mine = control_of_sse() | FLUSH_TO_ZERO;
    __builtin_ia32_ldmxcsr(mine);
    for (int i = 0; i < 100; i++) {
        gs_thread_yield();
        MUST_EQ(control_of_sse(), mine);
    }
}

THREAD_TEST(control_word_of_sse_belongs_to_the_thread, run_both)
{
    unsigned mine = control_of_sse();
    struct gs_thread *thread = spawn(flush_to_zero, NULL);
    for (int i = 0; i < 50; i++) {
        gs_thread_yield();
        MUST_EQ(control_of_sse(), mine);
    }
    join(thread);
    MUST_EQ(control_of_sse(), mine);
}
#endif

THREAD_TEST(rounding_mode_belongs_to_the_thread, run_on_one)
{
    struct gs_thread *thread = spawn(round_up, NULL);
    for (int i = 0; i < 50; i++) {
        gs_thread_yield();
        MUST_EQ(fegetround(), FE_TONEAREST);
    }
    join(thread);
}

static void *run_again(void *unused)
{
    MUST_EQ(gs_threads_run(NULL, run_again, NULL, NULL), -EBUSY);
    return unused;
}

TEST(second_run_at_the_same_time_is_refused)
{
    run_with(1, run_again);
    CHECK(!gs_thread_self());
}

THREAD_TEST(attributes_that_make_no_sense_are_refused, run_both)
{
    struct gs_thread_attributes attributes = {.worker = 9};
    MUST_EQ(gs_thread_spawn(&attributes, add_one, NULL, NULL), -EINVAL);
    attributes = (struct gs_thread_attributes){.priority = (enum gs_priority)7};
    MUST_EQ(gs_thread_spawn(&attributes, add_one, NULL, NULL), -EINVAL);
}

TEST(unsupported_stack_size_is_refused)
{
    const struct gs_threads_options options = {.stack_size = 1 << 30};
    CHECK_EQ(gs_threads_run(&options, add_one, NULL, NULL), -EINVAL);
}
