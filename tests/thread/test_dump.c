#include "tests/thread/report.h"
#include "thread/sanitizer.h"

/* The thread sanitizer delays signals, an emulator has some for itself. */
#define HAS_SAMPLES (!GS_TSAN && !IS_EMULATED)

static atomic_bool is_spinning, may_end;

__attribute__((noinline)) static void park_below(int depth)
{
    if (depth)
        park_below(depth - 1);
    else
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
    __asm__ volatile("");
}

static void *park_here(void *unused)
{
    park_below(2);
    return unused;
}

static void *do_nothing(void *unused)
{
    return unused;
}

/* A thread that waits, one that has not begun, and this one. */
static void *dump(void *unused)
{
    struct gs_thread *waiting = spawn_named("sleeper", park_here, NULL);
    gs_thread_yield();
    struct gs_thread *fresh = spawn_named("fresh", do_nothing, NULL);
    gs_threads_dump(report_out);
    gs_thread_unpark(waiting);
    join(waiting);
    join(fresh);
    return unused;
}

static void dump_by_call(void)
{
    run_reporting(1, dump, 0);
}

TEST(dump_names_what_each_thread_waits_for_and_its_calls)
{
    CHECK_EQ(in_child(dump_by_call), 0);
    CHECK_REPORTED("^thread 0x[0-9a-f]+ \"sleeper\": waits for park at [^ ]+ since [0-9.]+ ms, "
                   "[0-9]+ bytes of stack$");
    CHECK_REPORTED("^ +park_below \\(test_thread_dump\\+0x[0-9a-f]+\\)\n +park_below \\(.*\n +"
                   "park_below \\(.*\n +park_here \\(");
    CHECK_REPORTED("^thread 0x[0-9a-f]+ \"first\": runs on worker 1\n +dump \\(");
    CHECK_REPORTED("\"fresh\": is to be started in do_nothing \\(test_thread_dump\\+0x");
}

__attribute__((noinline)) static void spin_below(int depth)
{
    if (depth)
        spin_below(depth - 1);
    atomic_store(&is_spinning, true);
    while (!atomic_load(&may_end))
        ;
    __asm__ volatile("");
}

static void *spin(void *unused)
{
    spin_below(2);
    return unused;
}

static void *dump_others(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "busy", .worker = 2},
                                      other = {.name = "distant", .worker = 2};
    struct gs_thread *busy, *distant;
    MUST_EQ(gs_thread_spawn(&other, park_here, NULL, &distant), 0);
    MUST_EQ(gs_thread_spawn(&attributes, spin, NULL, &busy), 0);
    while (!atomic_load(&is_spinning))
        gs_thread_yield();
    gs_threads_dump(report_out);
    atomic_store(&may_end, true);
    gs_thread_unpark(distant);
    join(distant);
    join(busy);
    return unused;
}

static void dump_several(void)
{
    run_reporting(2, dump_others, 0);
}

TEST(dump_shows_the_threads_of_other_workers)
{
    CHECK_EQ(in_child(dump_several), 0);
    CHECK_REPORTED("\"busy\": runs on worker 2 and ");
    if (HAS_SAMPLES)
        CHECK_REPORTED("\"busy\": runs on worker 2 and computes\n +spin_below \\(.*\n +spin_below "
                       "\\(.*\n +spin_below \\(.*\n "
                       "+spin \\(");
    CHECK_REPORTED("\"distant\": waits for park at ");
    CHECK_REPORTED("^ +park_here \\(");
    CHECK_REPORTED("\"first\": runs on worker 1\n +dump_others \\(");
}

static void *borrow_and_spin(void *unused)
{
    unused = gs_thread_borrow(spin, unused);
    __asm__ volatile("");
    return unused;
}

static void *dump_borrower(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "borrower", .worker = 2};
    struct gs_thread *borrower;
    MUST_EQ(gs_thread_spawn(&attributes, borrow_and_spin, NULL, &borrower), 0);
    while (!atomic_load(&is_spinning))
        gs_thread_yield();
    gs_threads_dump(report_out);
    atomic_store(&may_end, true);
    join(borrower);
    return unused;
}

static void dump_on_other_stack(void)
{
    run_reporting(2, dump_borrower, 0);
}

TEST(dump_shows_what_a_thread_does_on_the_stack_of_its_worker)
{
    CHECK_EQ(in_child(dump_on_other_stack), 0);
    CHECK_REPORTED("\"borrower\": runs on worker 2 and ");
    if (HAS_SAMPLES)
        CHECK_REPORTED("\"borrower\": .*\n( .*\n)* +spin \\(.*\n( .*\n)* +borrow_and_spin \\(");
}

static int never[2];

static void *read_for_long(void *unused)
{
    char byte;
    atomic_store(&is_spinning, true);
    MUST_EQ(read(never[0], &byte, 1), 1);
    return unused;
}

/* Whether the kernel has it by now. */
static bool is_asleep(pid_t kernel_thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", kernel_thread);
    FILE *file = fopen(path, "r");
    MUST(file);
    MUST(fgets(text, sizeof text, file));
    fclose(file);
    return strstr(text, ") S");
}

static atomic_int reader_id;

static void *read_here(void *unused)
{
    atomic_store(&reader_id, gettid());
    return read_for_long(unused);
}

static void *dump_reader(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "reader", .worker = 2};
    struct gs_thread *reader;
    MUST_EQ(pipe(never), 0);
    MUST_EQ(gs_thread_spawn(&attributes, read_here, NULL, &reader), 0);
    while (!atomic_load(&is_spinning) || !is_asleep(atomic_load(&reader_id)))
        gs_thread_yield();
    gs_threads_dump(report_out);
    MUST_EQ(write(never[1], "", 1), 1);
    join(reader);
    return unused;
}

static void dump_in_call(void)
{
    run_reporting(2, dump_reader, 0);
}

TEST(dump_names_the_system_call_of_a_thread_and_does_not_end_it)
{
    if (IS_EMULATED)
        return; /* the kernel tells of the emulator's calls */
    CHECK_EQ(in_child(dump_in_call), 0);
    CHECK_REPORTED(
        "\"reader\": runs on worker 2 and sits in (the system call read|a system call)$");
}

static void *signal_itself(void *unused)
{
    struct gs_thread *waiting = spawn_named("sleeper", park_here, NULL);
    kill(getpid(), SIGUSR2);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    gs_thread_unpark(waiting);
    join(waiting);
    return unused;
}

static void dump_by_signal(void)
{
    run_reporting(1, signal_itself, 0);
}

TEST(dump_comes_by_signal)
{
    CHECK_EQ(in_child(dump_by_signal), 0);
    CHECK_REPORTED("\"first\": waits for sleep at .*\n(.*\n)* +signal_itself \\(");
    CHECK_REPORTED("^ +park_here \\(");
}

/* While threads of several workers come and go, wait and are woken. */
static void *come_and_go(void *mutex)
{
    for (int i = 0; i < 50; i++) {
        MUST_EQ(gs_mutex_lock(mutex, GS_NEVER), 0);
        gs_thread_yield();
        gs_mutex_unlock(mutex);
    }
    return NULL;
}

static void *dump_often(void *unused)
{
    static struct gs_mutex mutex;
    const struct gs_thread_attributes attributes = {.name = "busy", .migrates = true};
    struct gs_thread *threads[8];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 8; i++)
            MUST_EQ(gs_thread_spawn(&attributes, come_and_go, &mutex, &threads[i]), 0);
        for (int i = 0; i < 4; i++) {
            gs_threads_dump(report_out);
            gs_thread_yield();
        }
        for (int i = 0; i < 8; i++)
            join(threads[i]);
    }
    return unused;
}

static void dump_moving(void)
{
    run_reporting(3, dump_often, 0);
}

TEST(threads_may_move_while_they_are_dumped)
{
    CHECK_EQ(in_child(dump_moving), 0);
    CHECK_REPORTED("\"first\": runs on worker 1");
}
