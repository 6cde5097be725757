/* What the monitor reports of a stuck worker: what it does, and what waits for it. */
#include "tests/thread/report/report.h"
#include "tests/thread/schedule/stuck.h"
#include "thread/schedule/thread.h"

/* The preparations of a test are finished well before its worker counts as stuck, and a deadline of
 * SLEEP_NS passes in between, on a busy machine too: a worker is reported once. */
#define STUCK_NS (400 * GS_MILLISECOND)
#define SLEEP_NS (150 * GS_MILLISECOND)

static int reports[2];
static const char *wanted;

/* A kernel thread that reads until a line matches, and then lets the stuck worker continue. */
THREAD(read_reports)
{
    size_t n = 0;
    memset(report, 0, sizeof report);
    while (!is_reported(wanted)) {
        ssize_t some = read(reports[0], report + n, sizeof report - 1 - n);
        MUST(some > 0);
        n += (size_t)some;
    }
    end_all();
}

/* A line that matches must be reported while the worker is stuck: otherwise this never returns. */
static void check_line(unsigned workers, gs_thread_fn *first, const char *line)
{
    pthread_t reader;
    begin();
    wanted = line;
    CHECK_EQ(pipe2(reports, O_CLOEXEC), 0);
    const struct gs_threads_options options = {
        .workers = workers, .report_fd = reports[1], .stuck_ns = STUCK_NS};
    CHECK_EQ(pthread_create(&reader, NULL, read_reports, NULL), 0);
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
    pthread_join(reader, NULL);
    close(reports[0]);
    close(reports[1]);
    end();
}

/* Whether the kernel shows in which call a thread is. */
static void skip_without_calls(void)
{
#ifdef GS_EMULATED
    SKIP("the kernel tells the emulator's system call");
#endif
    if (access("/proc/self/syscall", R_OK))
        SKIP("this kernel does not tell in which call a thread is");
}

/* ---- One worker ---- */

static int data[2]; /* a pipe */

static void open_data(void)
{
    MUST_EQ(pipe2(data, O_CLOEXEC | O_NONBLOCK), 0);
}

static void close_data(void)
{
    MUST_EQ(gs_close(data[0]), 0);
    MUST_EQ(gs_close(data[1]), 0);
}

static void *do_nothing(void *unused)
{
    return unused;
}

static void *sleep_shortly(void *unused)
{
    MUST_EQ(gs_thread_sleep(after(SLEEP_NS)), 0);
    return unused;
}

THREAD(read_data)
{
    char byte;
    MUST_EQ(gs_read(data[0], &byte, 1, GS_NEVER), 1);
}

THREAD(block_while_all_wait)
{
    struct gs_thread *threads[4];
    open_data();
    threads[0] = spawn(sleep_shortly, NULL);
    threads[1] = spawn(read_data, NULL);
    gs_thread_yield();
    threads[2] = spawn(do_nothing, NULL);
    threads[3] = spawn(do_nothing, NULL);
    MUST_EQ(write(data[1], "", 1), 1);
    block();
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    close_data();
}

TEST(the_only_worker_is_reported_with_the_call_and_all_that_waits_for_it)
{
    skip_without_calls();
    check_line(1, block_while_all_wait,
               "^stuck: thread \"first\" has been in system call read for [0-9.]+ ms while "
               "2 threads are ready, 1 deadline has passed and 1 descriptor is ready on worker 1$");
}

THREAD(compute_while_others_are_ready)
{
    struct gs_thread *other = spawn(do_nothing, NULL);
    compute();
    join(other);
}

TEST(the_only_worker_is_reported_while_a_thread_computes)
{
    check_line(1, compute_while_others_are_ready,
               "^stuck: thread \"first\" has been computing for [0-9.]+ ms while 1 thread is ready "
               "on worker 1$");
}

THREAD(block_while_others_sleep)
{
    struct gs_thread *threads[] = {spawn(sleep_shortly, NULL), spawn(sleep_shortly, NULL)};
    gs_thread_yield();
    block();
    join(threads[0]);
    join(threads[1]);
}

TEST(deadlines_alone_are_a_reason_to_report_the_only_worker)
{
    check_line(1, block_while_others_sleep, " while 2 deadlines have passed on worker 1$");
}

static char user_stack[1 << 16] __attribute__((aligned(64)));

THREAD(block_while_a_user_stack_sleeps)
{
    const struct gs_thread_attributes attributes = {.stack = user_stack,
                                                    .stack_size = sizeof user_stack};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, sleep_shortly, NULL, &thread), 0);
    gs_thread_yield();
    block();
    join(thread);
}

TEST(deadline_of_a_thread_on_a_stack_of_the_programs_own_is_counted)
{
    check_line(1, block_while_a_user_stack_sleeps, " while 1 deadline has passed on worker 1$");
}

THREAD(write_when_stuck)
{
    while (!atomic_load(&stuck))
        usleep(1000);
    MUST_EQ(write(data[1], "", 1), 1);
}

THREAD(poll_data)
{
    struct gs_poll poll = {data[0], GS_READ, 0};
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
}

static void block_and_join(struct gs_thread *other, pthread_t writer)
{
    block();
    join(other);
    pthread_join(writer, NULL);
    close_data();
}

static gs_thread_fn *awaiting;

THREAD(block_while_data_arrives)
{
    pthread_t writer;
    open_data();
    struct gs_thread *other = spawn(awaiting, NULL);
    gs_thread_yield();
    MUST_EQ(pthread_create(&writer, NULL, write_when_stuck, NULL), 0);
    block_and_join(other, writer);
}

TEST(ready_descriptor_alone_is_a_reason_to_report_the_only_worker)
{
    awaiting = read_data;
    check_line(1, block_while_data_arrives, " while 1 descriptor is ready on worker 1$");
    awaiting = poll_data;
    check_line(1, block_while_data_arrives, " while 1 descriptor is ready on worker 1$");
}

/* So long that a pause in proportion to it would outlast the test. */
#define PREEMPTED_US 1500000

/* The monitor polls the descriptor when it counts: it is held as if it waited for a CPU, and the
 * next time there is something to report. */
static long preempt_first_count(long number, void *unused)
{
    static atomic_int counts;
    (void)unused;
    if (number != SYS_ppoll || !atomic_load(&stuck))
        return 0;
    int count = atomic_fetch_add(&counts, 1);
    if (!count)
        usleep(PREEMPTED_US);
    else if (count == 1)
        MUST_EQ(write(data[1], "", 1), 1);
    return 0;
}

THREAD(block_while_data_is_missing)
{
    open_data();
    struct gs_thread *other = spawn(read_data, NULL);
    gs_thread_yield();
    gs_sys_set_fault(preempt_first_count, NULL);
    block();
    gs_sys_set_fault(NULL, NULL);
    join(other);
    close_data();
}

TEST(monitor_that_waited_for_a_cpu_while_it_counted_soon_counts_again)
{
    check_line(1, block_while_data_is_missing, " while 1 descriptor is ready on worker 1$");
}

static struct gs_thread *parked;

static void *park(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

THREAD(unpark_when_stuck)
{
    while (!atomic_load(&stuck))
        usleep(1000);
    gs_thread_unpark(parked);
}

THREAD(block_while_a_message_arrives)
{
    pthread_t waker;
    parked = spawn(park, NULL);
    gs_thread_yield();
    MUST_EQ(pthread_create(&waker, NULL, unpark_when_stuck, NULL), 0);
    block();
    join(parked);
    pthread_join(waker, NULL);
}

TEST(message_alone_is_a_reason_to_report_the_only_worker)
{
    check_line(1, block_while_a_message_arrives, " while messages are pending on worker 1$");
}

/* ---- The idle monitor ---- */

THREAD(write_when_asleep)
{
    while (!atomic_load(&gs_runtime.is_monitor_asleep))
        usleep(1000);
    MUST_EQ(write(data[1], "", 1), 1);
}

THREAD(block_after_idling)
{
    pthread_t writer;
    char byte;
    open_data();
    MUST_EQ(pthread_create(&writer, NULL, write_when_asleep, NULL), 0);
    MUST_EQ(gs_read(data[0], &byte, 1, GS_NEVER), 1);
    block_and_join(spawn_on(1, "other", do_nothing), writer);
}

TEST(monitor_that_sleeps_without_a_timeout_is_woken_by_the_worker)
{
    for (unsigned workers = 1; workers < 4; workers++)
        check_line(workers, block_after_idling, "^stuck: thread \"first\" has been ");
}

/* ---- Several workers ---- */

/* The worker runs the other thread as soon as this one sleeps. */
THREAD(sleep_on_second)
{
    struct gs_thread *other = spawn_on(2, "blocks", block_in_call);
    MUST_EQ(gs_thread_sleep(after(SLEEP_NS)), 0);
    join(other);
}

/* Only a deadline of a thread that does not migrate waits for the second worker, which is stuck. */
static void *keep_second(void *unused)
{
    join(spawn_on(2, "sleeper", sleep_on_second));
    return unused;
}

TEST(deadline_of_a_thread_that_does_not_migrate_is_a_reason_to_report_its_worker)
{
    check_line(2, keep_second,
               "^stuck: thread \"blocks\" has been .* while 1 deadline has passed on worker 2$");
}

/* ---- No report ---- */

static void *sleep_long(void *unused)
{
    MUST_EQ(gs_thread_sleep(after(3600 * GS_SECOND)), -ECANCELED);
    return unused;
}

/* Far longer than the preparations take on a busy machine, during which threads are ready. */
#define ALONE_STUCK_NS (100 * GS_MILLISECOND)

/* Long enough to be found, if anything waited. */
THREAD(occupy_the_worker_alone)
{
    char byte;
    open_data();
    struct gs_thread *sleeper = spawn(sleep_long, NULL), *reader = spawn(read_data, NULL);
    gs_thread_yield();
    usleep(400 * 1000);
    gs_thread_yield();
    MUST_EQ(write(data[1], "", 1), 1);
    gs_thread_cancel(sleeper);
    join(sleeper);
    join(reader);
    MUST_EQ(gs_read(data[0], &byte, 1, 0), -ETIMEDOUT);
    close_data();
}

static void occupy_one(void)
{
    const struct gs_threads_options options = {
        .workers = 1, .report_fd = report_out, .stuck_ns = ALONE_STUCK_NS};
    if (gs_threads_run(&options, occupy_the_worker_alone, NULL, NULL))
        _exit(3);
}

TEST(worker_for_which_nothing_waits_is_not_reported)
{
    CHECK_EQ(in_child(occupy_one), 0);
    CHECK_EQ(strlen(report), 0);
}
