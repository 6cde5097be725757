/* gs_select that waits for the ends of threads, which are joined afterwards. */
#include "tests/thread/report/report.h"
#include "tests/thread/schedule/forking.h"

enum { ROUNDS = 300, AT_ONCE = 5 };

static void *end(void *result)
{
    return result;
}

static void *park_and_end(void *result)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return result;
}

static struct gs_select case_of(struct gs_thread *thread)
{
    return (struct gs_select){.thread = thread, .result = 7};
}

static void must_join_at_once(struct gs_thread *thread, void *expected)
{
    void *result = NULL;
    MUST_EQ(gs_thread_join(thread, 0, &result), 0);
    MUST(result == expected);
}

/* ---- One thread ---- */

THREAD_TEST(end_of_a_thread_ends_the_wait_and_the_thread_can_still_be_joined, run_both)
{
    int number;
    struct gs_thread *thread = spawn(end, &number);
    struct gs_select one = case_of(thread);
    MUST_EQ(gs_select(&one, 1, GS_NEVER), 0);
    MUST_EQ(one.result, 0);
    one.result = 7;
    MUST_EQ(gs_select(&one, 1, 0), 0);
    MUST_EQ(one.result, 0);
    must_join_at_once(thread, &number);
}

THREAD_TEST(thread_that_has_not_ended_lets_the_deadline_pass_and_goes_on, run_both)
{
    struct gs_thread *thread = spawn(park_and_end, NULL), *self = gs_thread_self();
    struct gs_select cases[] = {case_of(thread), case_of(thread), case_of(self)};
    MUST_EQ(gs_select(cases, 2, 0), -ETIMEDOUT);
    MUST_EQ(gs_select(cases, 2, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_select(&cases[2], 1, GS_NEVER), -EDEADLK);
    MUST_EQ(cases[0].result, 7);
    gs_thread_unpark(thread);
    int index = gs_select(cases, 2, GS_NEVER);
    MUST(index == 0 || index == 1);
    must_join_at_once(thread, NULL);
}

static void *select_for_long(void *thread)
{
    struct gs_select one = case_of(thread);
    return (void *)(intptr_t)gs_select(&one, 1, GS_NEVER);
}

THREAD_TEST(canceled_select_leaves_the_thread_alone, run_both)
{
    struct gs_thread *thread = spawn(park_and_end, NULL);
    for (int i = 0; i < 20; i++) {
        struct gs_thread *selecting = spawn(select_for_long, thread);
        for (int turn = i % 4; turn; turn--)
            gs_thread_yield();
        gs_thread_cancel(selecting);
        MUST_EQ((intptr_t)join(selecting), -ECANCELED);
    }
    gs_thread_unpark(thread);
    join(thread);
}

THREAD(wait_in_vain)
{
    struct gs_semaphore semaphore = {.count = 0};
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
}

THREAD(select_forever)
{
    struct gs_select one = case_of(spawn(wait_in_vain, NULL));
    MUST_EQ(gs_select(&one, 1, GS_NEVER), 0);
}

static void run_forever(void)
{
    run_reporting(1, select_forever, -EDEADLK);
}

TEST(select_that_only_waits_for_threads_may_be_part_of_a_deadlock)
{
    CHECK_EQ(in_child(run_forever), 0);
    CHECK_REPORTED("^deadlock: no thread can continue$");
}

/* ---- Among other cases ---- */

struct mixed {
    struct gs_channel *channel;
    int pipe[2], item;
};

THREAD_TEST(ends_of_threads_are_waited_for_beside_channels_and_descriptors, run_both)
{
    struct mixed mixed;
    char byte;
    int number = 5;
    MUST_EQ(gs_channel_new(sizeof(int), 1, &mixed.channel), 0);
    MUST_EQ(pipe(mixed.pipe), 0);
    struct gs_thread *thread = spawn(park_and_end, NULL);
    struct gs_select cases[] = {{.channel = mixed.channel, .receive = &mixed.item},
                                case_of(thread),
                                {.fd = mixed.pipe[0], .events = GS_READ}};
    for (int i = 0; i < 6; i++) {
        if (i % 2)
            MUST_EQ(write(mixed.pipe[1], "x", 1), 1);
        else
            MUST_EQ(gs_channel_send(mixed.channel, &number, GS_NEVER), 0);
        MUST_EQ(gs_select(cases, 3, GS_NEVER), i % 2 ? 2 : 0);
        MUST(i % 2 ? read(mixed.pipe[0], &byte, 1) == 1 : mixed.item == number);
    }
    gs_thread_unpark(thread);
    MUST_EQ(gs_select(cases, 3, GS_NEVER), 1);
    join(thread);
    gs_channel_free(mixed.channel);
    gs_close(mixed.pipe[0]);
    gs_close(mixed.pipe[1]);
}

/* ---- Several calls that wait for the same thread ---- */

static struct gs_wait_group selected;

static void *select_and_tell(void *thread)
{
    struct gs_select one = case_of(thread);
    MUST_EQ(gs_select(&one, 1, GS_NEVER), 0);
    gs_wait_group_done(&selected);
    return NULL;
}

THREAD_TEST(all_calls_that_wait_for_the_same_thread_return, run_both)
{
    for (int i = 0; i < 50; i++) {
        struct gs_thread *thread = spawn(park_and_end, NULL);
        gs_wait_group_add(&selected, AT_ONCE);
        for (int j = 0; j < AT_ONCE; j++) {
            const struct gs_thread_attributes attributes = {.migrates = j % 2};
            MUST_EQ(gs_thread_spawn(&attributes, select_and_tell, thread, NULL), 0);
        }
        for (int turn = i % 3; turn; turn--)
            gs_thread_yield();
        gs_thread_unpark(thread);
        MUST_EQ(gs_wait_group_wait(&selected, GS_NEVER), 0);
        must_join_at_once(thread, NULL);
    }
}

/* ---- Races: the stacks are freed as soon as that is permitted ---- */

static void *end_after_yields(void *count)
{
    for (uintptr_t i = (uintptr_t)count; i; i--)
        gs_thread_yield();
    return count;
}

/* Large enough for a sanitizer's frames. */
enum { STACK_SIZE = 1 << 17 };

static struct gs_thread *spawn_on_heap(uintptr_t number, char **ret_stack)
{
    struct gs_thread_attributes attributes = {.migrates = number % 2, .stack_size = STACK_SIZE};
    struct gs_thread *thread;
    attributes.stack = *ret_stack = malloc(STACK_SIZE);
    MUST(*ret_stack);
    MUST_EQ(gs_thread_spawn(&attributes, end_after_yields, (void *)(number % 4), &thread), 0);
    return thread;
}

static void *select_racing(void *number_)
{
    uintptr_t number = (uintptr_t)number_;
    struct gs_select cases[AT_ONCE];
    char *stacks[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++)
        cases[i] = case_of(spawn_on_heap(number + i, &stacks[i]));
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t deadline_ns = i % 3 ? GS_NEVER : after(i % 50 * GS_MICROSECOND);
        int index = gs_select(cases, AT_ONCE, deadline_ns);
        if (index == -ETIMEDOUT)
            continue;
        MUST(index >= 0);
        (void)join(cases[index].thread);
        free(stacks[index]);
        cases[index] = case_of(spawn_on_heap(number + i, &stacks[index]));
    }
    for (unsigned i = 0; i < AT_ONCE; i++) {
        (void)join(cases[i].thread);
        free(stacks[i]);
    }
    return NULL;
}

THREAD_TEST(threads_that_end_at_any_moment_may_be_joined_and_freed_at_once, run_both)
{
    struct gs_thread *threads[3];
    for (uintptr_t i = 0; i < 3; i++) {
        const struct gs_thread_attributes attributes = {.migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, select_racing, (void *)i, &threads[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        join(threads[i]);
}

/* ---- The thread forks ---- */

static bool is_child;

THREAD(fork_and_end)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        alarm(20);
        is_child = true;
        return;
    }
    int status = 0;
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST_EQ(status, 0);
}

THREAD(watch_forking)
{
    struct gs_thread *thread = spawn(fork_and_end, NULL);
    struct gs_thread *selecting = spawn(select_for_long, thread);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_thread_unpark(thread);
    MUST_EQ((intptr_t)join(selecting), 0);
    join(thread);
}

TEST(thread_that_forks_while_its_end_is_waited_for_ends_in_both_processes)
{
    skip_without_fork();
    for (unsigned workers = 1; workers < 4; workers += 2) {
        run_with(workers, watch_forking);
        if (is_child)
            _exit(0);
    }
}
