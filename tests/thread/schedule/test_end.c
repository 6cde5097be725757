/* What is called at the end of a thread on a stack of the program's, and which worker runs a
 * thread. */
#include "tests/thread/fixture.h"

#include <gossamer/resumable.h>

#define STACK_SIZE ((size_t)256 << 10)
enum { THREADS = 50, WORKERS = 3, JOINED = 2000 };

static atomic_int ended;

struct stack {
    char *memory;
    int yields;
};

static void *wait_a_little(void *stack)
{
    for (int i = 0; i < ((struct stack *)stack)->yields; i++)
        gs_thread_yield();
    return stack;
}

/* If the thread's stack were still used, or were this one, the next access to it would fault. */
static void unmap(void *result)
{
    struct stack *stack = result;
    MUST_EQ(munmap(stack->memory, STACK_SIZE), 0);
    atomic_fetch_add(&ended, 1);
}

static void *new_stack(void)
{
    void *memory =
        mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED);
    return memory;
}

THREAD(end_many)
{
    struct stack stacks[THREADS];
    atomic_store(&ended, 0);
    for (int i = 0; i < THREADS; i++) {
        stacks[i] = (struct stack){new_stack(), i % 4};
        const struct gs_thread_attributes attributes = {.stack = stacks[i].memory,
                                                        .stack_size = STACK_SIZE,
                                                        .migrates = i % 2,
                                                        .on_end = unmap};
        MUST_EQ(gs_thread_spawn(&attributes, wait_a_little, &stacks[i], NULL), 0);
    }
    while (atomic_load(&ended) < THREADS)
        gs_thread_yield();
}

TEST(stack_may_be_unmapped_by_what_is_called_at_the_end_of_its_thread)
{
    run_both(end_many);
    CHECK_EQ(atomic_load(&ended), THREADS);
}

/* They are joined at the first moment, while the worker of each may still be completing it: on a
 * busy machine it needs the CPU for that. */
THREAD_TEST(stack_may_be_overwritten_as_soon_as_its_thread_is_joined, run_on_two)
{
    struct stack stack = {new_stack(), 0};
    const struct gs_thread_attributes attributes = {
        .stack = stack.memory, .stack_size = STACK_SIZE, .name = "joined", .worker = 2};
    char *top = stack.memory + STACK_SIZE;
    for (int i = 0; i < JOINED; i++) {
        struct gs_thread *thread;
        MUST_EQ(gs_thread_spawn(&attributes, wait_a_little, &stack, &thread), 0);
        while (gs_thread_join(thread, 0, NULL))
            sched_yield();
        for (size_t n = 8; n <= 1024; n += 8)
            *(volatile uintptr_t *)(top - n) = UINTPTR_MAX;
    }
    MUST_EQ(munmap(stack.memory, STACK_SIZE), 0);
}

THREAD_TEST(function_for_the_end_is_refused_for_threads_that_are_joined_or_have_a_stack_of_ours,
            run_on_one)
{
    struct stack stack = {new_stack(), 0};
    struct gs_thread *thread;
    struct gs_thread_attributes attributes = {.on_end = unmap};
    MUST_EQ(gs_thread_spawn(&attributes, wait_a_little, &stack, NULL), -EINVAL);
    attributes.stack = stack.memory;
    attributes.stack_size = STACK_SIZE;
    MUST_EQ(gs_thread_spawn(&attributes, wait_a_little, &stack, &thread), -EINVAL);
    MUST_EQ(munmap(stack.memory, STACK_SIZE), 0);
}

static void *compare_worker(void *number)
{
    for (int i = 0; i < 10; i++) {
        MUST_EQ(gs_threads_worker(), *(const unsigned *)number);
        gs_thread_yield();
    }
    return NULL;
}

THREAD(compare_workers)
{
    static const unsigned numbers[WORKERS] = {1, 2, 3};
    struct gs_thread *threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        const struct gs_thread_attributes attributes = {.worker = numbers[i]};
        MUST_EQ(gs_thread_spawn(&attributes, compare_worker, (void *)&numbers[i], &threads[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        join(threads[i]);
}

TEST(bound_thread_sees_the_number_of_its_worker)
{
    run_with(WORKERS, compare_workers);
}

THREAD(compare_any_worker)
{
    for (int i = 0; i < 100; i++) {
        unsigned worker = gs_threads_worker();
        MUST(worker >= 1 && worker <= WORKERS + GS_EXTRA_WORKERS);
        gs_thread_yield();
    }
}

THREAD(compare_migrating)
{
    const struct gs_thread_attributes migrating = {.migrates = true};
    struct gs_thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        MUST_EQ(gs_thread_spawn(&migrating, compare_any_worker, NULL, &threads[i]), 0);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
}

TEST(migrating_threads_see_numbers_of_workers_that_can_exist)
{
    run_with(WORKERS, compare_migrating);
}

static void handle(int number)
{
    (void)number;
}

THREAD(find_own_handler)
{
    struct sigaction action;
    MUST_EQ(sigaction(SIGSEGV, NULL, &action), 0);
    MUST(action.sa_handler == handle);
}

TEST(handler_of_memory_faults_stays_the_programs_if_signals_are_left_to_it)
{
    const struct gs_threads_options options = {.workers = 1, .leaves_signals = true};
    struct sigaction before, action = {.sa_handler = handle};
    CHECK_EQ(sigaction(SIGSEGV, &action, &before), 0);
    CHECK_EQ(gs_threads_run(&options, find_own_handler, NULL, NULL), 0);
    CHECK_EQ(sigaction(SIGSEGV, &before, &action), 0);
    CHECK(action.sa_handler == handle);
}
