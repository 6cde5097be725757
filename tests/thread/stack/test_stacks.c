/* The positions of guards and stacks for each page size that a kernel can have.
 * Pages larger than this kernel's are simulated in child processes, before their first run. */
#include "tests/thread/stack/overflow.h"
#include "thread/stack/stacks.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define IS_SANITIZED (GS_ASAN + GS_TSAN > 0)

static const size_t page_sizes[] = {4 * KIB, 16 * KIB, 64 * KIB};
static const size_t promised[STACK_CLASSES] = {16 * KIB, 56 * KIB, 64 * KIB, 256 * KIB,
                                               MIB,      56 * KIB, 8 * MIB,  64 * MIB};

static bool is_shared(int stack_class)
{
    return stack_class == CLASS_SHARED;
}

enum { PAGE_SIZES = 3, COLOURS = 16 };

/* ---- Arithmetic ---- */

TEST(class_is_the_smallest_that_has_the_bytes)
{
    CHECK_EQ(gs_stacks_class(1), 0);
    for (int c = 0; c < STACK_CLASSES; c++) {
        int next = c + 1 == PLAIN_CLASSES ? CLASS_LARGE : c + 1;
        if (is_shared(c))
            continue;
        CHECK_EQ(gs_stacks_class(promised[c]), c);
        CHECK_EQ(gs_stacks_class(promised[c] - 1), c);
        CHECK_EQ(gs_stacks_class(promised[c] + 1), next < STACK_CLASSES ? next : -EINVAL);
    }
}

static void check_slot(int stack_class, size_t page_size)
{
    const struct slot_layout layout = gs_slot_layout(stack_class, page_size);
    size_t former = layout.slot_size;
    CHECK_EQ(layout.stack_size, promised[stack_class]);
    CHECK(layout.guard_size && layout.slot_size > layout.guard_size);
    CHECK_EQ(layout.guard_size % page_size, 0);
    CHECK_EQ(layout.slot_size % page_size, 0);
    for (size_t i = 0; i < COLOURS; i++) {
        size_t at = gs_slot_stack_top_at(&layout, i);
        CHECK_EQ(at % 64, 0);
        CHECK(at >= layout.guard_size + promised[stack_class]);
        CHECK(at <= layout.slot_size);
        CHECK(!i || at < former);
        former = at;
        CHECK_EQ(gs_slot_stack_top_at(&layout, i + COLOURS), at);
    }
}

TEST(stack_of_each_class_has_the_promised_bytes_above_its_guard)
{
    for (int p = 0; p < PAGE_SIZES; p++)
        for (int c = 0; c < STACK_CLASSES; c++)
            if (!is_shared(c))
                check_slot(c, page_sizes[p]);
}

/* Slots determine the page tables that a thread needs. */
TEST(slot_is_hardly_larger_than_its_stack_and_its_guard)
{
    CHECK_EQ(gs_slot_layout(gs_stacks_class(16 * KIB), 4 * KIB).slot_size, 36 * KIB);
    CHECK_EQ(gs_slot_layout(gs_stacks_class(56 * KIB), 4 * KIB).slot_size, 124 * KIB);
}

TEST(guard_is_as_large_as_common_frames)
{
    for (int p = 0; p < PAGE_SIZES; p++) {
        for (int c = 0; c < STACK_CLASSES; c++) {
            size_t guard_size = gs_slot_layout(c, page_sizes[p]).guard_size;
            CHECK(is_shared(c) || guard_size >= (promised[c] < 56 * KIB ? promised[c] : 64 * KIB));
        }
    }
}

/* ---- Use ---- */

/* Stack use of the frames above and below the array. */
enum { CALLS_NEED = 536, CALLS_THAT_WAIT_NEED = 2048, TOUCHED_MAX = 40 << 10 };
/* An emulator has addresses for only a few of the largest stacks. */
enum { THREADS = IS_EMULATED ? 20 : 200 };
/* The stack pointer touches each page that it passes. */
#define FILLED_MAX (200 * MIB)

/* Under a sanitizer, frames need more stack. */
static bool is_small_for_sanitizer(size_t stack_size)
{
    return IS_SANITIZED && stack_size < 256 * KIB;
}

static void *use_all(void *size)
{
    volatile char *bytes = __builtin_alloca(*(size_t *)size);
    for (size_t i = *(size_t *)size; i--;)
        bytes[i] = (char)i;
    return size;
}

static void *use_each(void *unused)
{
    for (int c = 0; c < STACK_CLASSES; c++) {
        const struct gs_thread_attributes attributes = {.stack_size = promised[c],
                                                        .stack_is_shared = is_shared(c)};
        size_t size = promised[c] - CALLS_NEED;
        struct gs_thread *thread;
        MUST_EQ(gs_thread_spawn(&attributes, use_all, &size, &thread), 0);
        MUST(join(thread) == &size);
    }
    return unused;
}

static void run_using_each(void)
{
    run_reporting(1, use_each, 0);
}

TEST(thread_may_use_the_requested_stack_size)
{
    if IS_SANITIZED
        return;
    CHECK_EQ(in_child(run_using_each), 0);
    CHECK(!is_reported("stack overflow"));
}

struct use {
    size_t size;
    unsigned char mark;
};

/* Only the end of a large stack is written, because it might not fit into memory. */
static void *fill(void *argument)
{
    const struct use *use = argument;
    volatile unsigned char *bytes = __builtin_alloca(use->size);
    size_t n = use->size < TOUCHED_MAX ? use->size : TOUCHED_MAX;
    for (size_t i = 0; i < n; i++)
        bytes[i] = use->mark;
    gs_thread_yield();
    for (size_t i = 0; i < n; i++)
        MUST_EQ(bytes[i], use->mark);
    return NULL;
}

static void fill_many(int stack_class)
{
    size_t stack_size = promised[stack_class];
    static struct gs_thread *threads[THREADS];
    static struct use uses[THREADS];
    const struct gs_thread_attributes attributes = {.stack_size = stack_size,
                                                    .stack_is_shared = is_shared(stack_class)};
    size_t size = IS_SANITIZED ? stack_size / 4 : stack_size - CALLS_THAT_WAIT_NEED;
    size_t count = FILLED_MAX / stack_size < THREADS ? FILLED_MAX / stack_size : THREADS;
    for (unsigned i = 0; i < count; i++) {
        uses[i] = (struct use){size, (unsigned char)i};
        MUST_EQ(gs_thread_spawn(&attributes, fill, &uses[i], &threads[i]), 0);
    }
    for (unsigned i = 0; i < count; i++)
        join(threads[i]);
}

/* An emulator has few addresses. */
static bool is_large_for_emulator(size_t stack_size)
{
    return IS_EMULATED && stack_size > MIB;
}

/* Runs twice; the second time, the stacks are reused after a trim. */
static void *fill_all(void *unused)
{
    for (int i = 0; i < 2 * STACK_CLASSES; i++) {
        size_t stack_size = promised[i / 2];
        if (!is_small_for_sanitizer(stack_size) && !is_large_for_emulator(stack_size))
            fill_many(i / 2);
        gs_threads_trim();
    }
    return unused;
}

static size_t page_size;
static gs_thread_fn *first;

static void run_on_pages(void)
{
    gs_page_size = page_size;
    run_reporting(2, first, 0);
}

TEST(hundreds_of_threads_fill_their_stacks_on_pages_of_every_size)
{
    first = fill_all;
    for (int p = 0; p < PAGE_SIZES; p++) {
        page_size = page_sizes[p];
        if (page_size < (size_t)sysconf(_SC_PAGESIZE))
            continue;
        CHECK_EQ(in_child(run_on_pages), 0);
        CHECK(!is_reported("stack overflow"));
    }
}

static int stack_class;

/* Other threads have their stacks below and above this one. */
static void *overflow_among_others(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "glutton",
                                                    .stack_size = promised[stack_class],
                                                    .stack_is_shared = is_shared(stack_class)};
    struct gs_thread *thread;
    fill_many(stack_class);
    MUST_EQ(gs_thread_spawn(&attributes, overflow_stack, NULL, &thread), 0);
    join(thread);
    return unused;
}

/* The thread sanitizer keeps the call stack of a thread, of at most 65536 calls. */
static bool is_too_deep(size_t size)
{
    return GS_TSAN && size > 8 * MIB;
}

TEST(overflow_is_reported_on_pages_of_every_size)
{
    first = overflow_among_others;
    for (int i = 0; i < PAGE_SIZES * STACK_CLASSES; i++) {
        unsigned long bytes = 0;
        page_size = page_sizes[i % PAGE_SIZES];
        stack_class = i / PAGE_SIZES;
        size_t stack_size = promised[stack_class];
        if (page_size < (size_t)sysconf(_SC_PAGESIZE) || is_small_for_sanitizer(stack_size) ||
            is_too_deep(stack_size) || is_large_for_emulator(stack_size))
            continue;
        CHECK(is_segv(in_child(run_on_pages)));
        CHECK_REPORTED("^stack overflow: thread \"glutton\" needs more than its [0-9]+ bytes$");
        CHECK_EQ(sscanf(strstr(report, "than its ") + 9, "%lu", &bytes), 1);
        CHECK(bytes >= stack_size && bytes < stack_size + page_size + 8 * KIB);
    }
}

/* ---- Large stacks ---- */

enum { LARGE_THREADS = 100 };
#define LARGEST (64 * MIB)

static const struct gs_thread_attributes largest = {.name = "glutton", .stack_size = LARGEST};

static void *sleep_long(void *unused)
{
    MUST_EQ(gs_thread_sleep(GS_NEVER), -ECANCELED);
    return unused;
}

static void *use_small(void *number)
{
    ++*(int *)number;
    return number;
}

/* In a process that has no free ones. */
static void *run_out_of_addresses(void *unused)
{
    struct gs_thread *threads[8];
    struct rlimit limit, small;
    int count = 0, err = 0, number = 0;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    MUST(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    MUST_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    small = limit;
    small.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + 3 * LARGEST;
    MUST_EQ(setrlimit(RLIMIT_AS, &small), 0);
    while (count < 8 && !(err = gs_thread_spawn(&largest, sleep_long, NULL, &threads[count])))
        count++;
    MUST(count >= 1 && count < 4);
    MUST_EQ(err, -ENOMEM);
    MUST(join(spawn(use_small, &number)) == &number && number == 1);
    MUST_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    MUST_EQ(gs_thread_spawn(&largest, use_small, &number, &threads[count]), 0);
    join(threads[count]);
    gs_threads_cancel_all();
    while (count--)
        join(threads[count]);
    return unused;
}

static void run_with_few_addresses(void)
{
    run_reporting(2, run_out_of_addresses, 0);
}

TEST(thread_that_finds_no_addresses_for_its_stack_does_not_start_and_others_do)
{
    if (!IS_SANITIZED && !IS_EMULATED)
        CHECK_EQ(in_child(run_with_few_addresses), 0);
}

static size_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    MUST(file && fscanf(file, "%lu %lu", &all, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void *use_60_mib(void *unused)
{
    size_t size = 60 * MIB;
    use_all(&size);
    gs_thread_yield();
    return unused;
}

THREAD_TEST(sixty_mib_of_the_largest_stack_are_used_and_returned_by_a_trim, run_both)
{
    struct gs_thread *thread;
    for (int i = 0; i < 3; i++) {
        MUST_EQ(gs_thread_spawn(&largest, use_60_mib, NULL, &thread), 0);
        join(thread);
        gs_threads_trim();
    }
    MUST(IS_SANITIZED || IS_EMULATED || resident_bytes() < 60 * MIB);
}

static void *hold_many(void *unused)
{
    struct gs_thread *threads[LARGE_THREADS];
    size_t before = resident_bytes();
    for (int i = 0; i < LARGE_THREADS; i++)
        MUST_EQ(gs_thread_spawn(&largest, sleep_long, NULL, &threads[i]), 0);
    gs_thread_sleep(after(GS_MILLISECOND));
    MUST(IS_SANITIZED || resident_bytes() < before + LARGE_THREADS * (128 * KIB));
    gs_threads_cancel_all();
    for (int i = 0; i < LARGE_THREADS; i++)
        join(threads[i]);
    return unused;
}

TEST(a_hundred_of_the_largest_stacks_take_addresses_but_hardly_memory)
{
    if (!IS_EMULATED)
        run_both(hold_many);
}

THREAD_TEST(stack_size_above_the_largest_is_refused, run_both)
{
    const struct gs_thread_attributes more = {.stack_size = LARGEST + 1};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&more, use_small, NULL, &thread), -EINVAL);
}
