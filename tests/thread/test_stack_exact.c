/* Stacks of exact sizes: how they lie in memory, and how an overflow is found. The calls of a build
 * without optimisation need more than 512 bytes. */
#include "tests/thread/overflow.h"
#include "thread/stacks.h"

#include <sys/resource.h>

#define IS_SANITIZED (GS_ASAN + GS_TSAN > 0)

enum { NEIGHBOURS = 40, MANY = 300, ROUNDS = 50, LOCALS = 100 };

static const size_t exact_sizes[] = {512, 1024, 1536, 2048, 3072, 4096};
enum { SIZES = sizeof exact_sizes / sizeof *exact_sizes };

static const struct gs_thread_attributes exact = {.name = "exact",
                                                  .stack_size = 4000,
                                                  .stack_is_exact = true},
                                         mobile = {.name = "mobile",
                                                   .stack_size = 4000,
                                                   .migrates = true,
                                                   .stack_is_exact = true};

static struct gs_thread *spawn_as(const struct gs_thread_attributes *attributes, gs_thread_fn *fn,
                                  void *argument)
{
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(attributes, fn, argument, &thread), 0);
    return thread;
}

/* ---- Where they are ---- */

TEST(slot_has_the_exact_size_and_a_canary)
{
    for (int i = 0; i < SIZES; i++) {
        const struct slot_layout layout = gs_slot_layout(FIRST_EXACT + i, 4096);
        CHECK_EQ(layout.stack_size, exact_sizes[i]);
        CHECK_EQ(layout.slot_size, exact_sizes[i] + CANARY_SIZE);
        for (size_t n = 0; n < 3; n++)
            CHECK_EQ(gs_slot_stack_top_at(&layout, n), layout.slot_size);
    }
}

static void *return_frame(void *unused)
{
    (void)unused;
    return __builtin_frame_address(0);
}

/* Threads that have not run yet have different stacks. */
static void *compare_frames(void *unused)
{
    const struct gs_thread_attributes small = {.stack_size = 1000, .stack_is_exact = true};
    struct gs_thread *threads[NEIGHBOURS];
    uintptr_t lowest = UINTPTR_MAX, highest = 0;
    for (int i = 0; i < NEIGHBOURS; i++)
        threads[i] = spawn_as(&small, return_frame, NULL);
    for (int i = 0; i < NEIGHBOURS; i++) {
        uintptr_t frame = (uintptr_t)join(threads[i]);
        lowest = frame < lowest ? frame : lowest;
        highest = frame > highest ? frame : highest;
    }
    MUST_EQ(highest - lowest, (NEIGHBOURS - 1) * (1024 + CANARY_SIZE));
    return unused;
}

TEST(stacks_of_a_kibibyte_are_right_next_to_each_other)
{
    if (!IS_SANITIZED)
        run_with(1, compare_frames);
}

static void *fill_before_waits(void *number)
{
    volatile uintptr_t locals[LOCALS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LOCALS; i++)
            locals[i] = (uintptr_t)number * (uintptr_t)i + (uintptr_t)round;
        if (round % 8)
            gs_thread_yield();
        else
            MUST_EQ(gs_thread_sleep(after((uintptr_t)number % 3 * GS_MICROSECOND)), 0);
        for (int i = 0; i < LOCALS; i++)
            MUST_EQ(locals[i], (uintptr_t)number * (uintptr_t)i + (uintptr_t)round);
    }
    return number;
}

/* Twice; the second time, the stacks are reused after a trim. Every third is a plain thread. */
static void *fill_many(void *unused)
{
    struct gs_thread *threads[MANY];
    for (int round = 0; round < 2; round++) {
        for (uintptr_t i = 0; i < MANY; i++)
            threads[i] = i % 3
                             ? spawn_as(i % 3 == 1 ? &exact : &mobile, fill_before_waits, (void *)i)
                             : spawn(fill_before_waits, (void *)i);
        for (uintptr_t i = 0; i < MANY; i++)
            MUST(join(threads[i]) == (void *)i);
        gs_threads_trim();
    }
    return unused;
}

TEST(hundreds_of_exact_stacks_keep_their_contents_beside_plain_ones)
{
    run_both(fill_many);
}

static void *use_more_than_a_page(void *unused)
{
    volatile char bytes[12000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 1;
    gs_thread_yield();
    return unused;
}

static void *ask_for_larger(void *unused)
{
    const struct gs_thread_attributes larger = {.stack_size = 4097, .stack_is_exact = true};
    join(spawn_as(&larger, use_more_than_a_page, NULL));
    return unused;
}

TEST(size_of_more_than_a_page_is_rounded_up_as_without_the_promise)
{
    if (!IS_SANITIZED)
        run_both(ask_for_larger);
}

static void run_limited(void)
{
    const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    MUST_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    MUST_EQ(gs_threads_run(NULL, fill_many, NULL, NULL), 0);
}

TEST(limit_of_the_addresses_gives_them_plain_stacks)
{
    if (!IS_SANITIZED && !IS_EMULATED)
        CHECK_EQ(in_child(run_limited), 0);
}

/* ---- Overflows ---- */

__attribute__((noinline)) static void write_below(size_t size)
{
    volatile char *bytes = __builtin_alloca(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = 1;
}

static void *overflow_and_yield(void *unused)
{
    write_below(4096);
    gs_thread_yield();
    return unused;
}

static void *overflow_and_end(void *unused)
{
    write_below(4096);
    return unused;
}

static gs_thread_fn *overflows;
static const struct gs_thread_attributes *attributes;

static void *park(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

/* Below the thread is the stack of one that waits. */
static void *overflow_among_others(void *unused)
{
    spawn_as(&exact, park, NULL);
    spawn_as(&mobile, park, NULL);
    gs_thread_yield();
    join(spawn_as(attributes, overflows, NULL));
    return unused;
}

static void run_overflowing(void)
{
    run_reporting(attributes->migrates ? 3 : 1, overflow_among_others, 0);
}

TEST(overflow_is_reported_when_the_thread_is_about_to_leave_its_stack)
{
    gs_thread_fn *const ways[] = {overflow_and_yield, overflow_and_end};
    for (int i = 0; i < 4 && !IS_SANITIZED; i++) {
        overflows = ways[i % 2];
        attributes = i < 2 ? &exact : &mobile;
        CHECK(is_segv(in_child(run_overflowing)));
        CHECK_REPORTED(
            "^stack overflow: thread \"(exact|mobile)\" needs more than its 4096 bytes$");
    }
}
