/* Deadlocks among some of the threads, while others go on. */
#include "tests/thread/deadlocking.h"
#include "thread/report.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { CHILD_SECONDS = 60 };

static atomic_bool is_over;

/* ---- A kernel thread lets the rest go on until the report is there ---- */

static const char *wanted;
static int reports[2];
static pthread_t report_reader;

static void *read_reports(void *unused)
{
    size_t n = 0;
    while (!is_reported(wanted)) {
        ssize_t some = read(reports[0], report + n, sizeof report - 1 - n);
        MUST(some > 0);
        n += (size_t)some;
    }
    atomic_store(&is_over, true);
    return unused;
}

/* Runs in a child: threads that are deadlocked never end. The threads go on until the report is
 * complete; what was reported is written to the parent. */
static gs_thread_fn *deadlocking;
static unsigned worker_count;

static void run_until_reported(void)
{
    alarm(CHILD_SECONDS);
    memset(report, 0, sizeof report);
    MUST_EQ(pipe2(reports, O_CLOEXEC), 0);
    const struct gs_threads_options options = {.workers = worker_count, .report_fd = reports[1]};
    MUST_EQ(pthread_create(&report_reader, NULL, read_reports, NULL), 0);
    _exit(gs_threads_run(&options, deadlocking, NULL, NULL) ? 3 : 4);
}

/* The first thread ends the process when all is reported. */
static void end_child(void)
{
    pthread_join(report_reader, NULL);
    MUST(write(report_out, report, strlen(report)) > 0);
    _exit(0);
}

/* Goes on working until the report is there. */
static void work_until_reported(void)
{
    while (!atomic_load(&is_over)) {
        gs_thread_yield();
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    }
    end_child();
}

static void check_reported(unsigned workers, gs_thread_fn *fn, const char *line)
{
    worker_count = workers;
    deadlocking = fn;
    wanted = line;
    CHECK_EQ(in_child(run_until_reported), 0);
    CHECK_REPORTED(line);
}

static unsigned count_of(const char *words)
{
    unsigned count = 0;
    for (const char *at = report; (at = strstr(at, words)); at++)
        count++;
    return count;
}

/* ---- Two mutexes ---- */

static uint64_t deadline_ns;

static void *lock_ab(void *unused)
{
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    meet();
    MUST_EQ(gs_mutex_lock(&b, deadline_ns), deadline_ns == GS_NEVER ? 0 : -ETIMEDOUT);
    gs_mutex_unlock(&a);
    return unused;
}

static void *lock_ba(void *unused)
{
    MUST_EQ(gs_mutex_lock(&b, GS_NEVER), 0);
    meet();
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    gs_mutex_unlock(&a);
    gs_mutex_unlock(&b);
    return unused;
}

static void embrace(uint64_t until_ns)
{
    deadline_ns = until_ns;
    barrier.threads = 2;
    one = spawn_named("left", lock_ab, NULL);
    other = spawn_named("right", lock_ba, NULL);
}

static void *embrace_and_work(void *unused)
{
    embrace(GS_NEVER);
    work_until_reported();
    return unused;
}

#define LEFT_AND_RIGHT                                                                             \
    "^deadlock among 2 threads: (\"left\" waits for mutex of \"right\", \"right\" waits for "      \
    "mutex "                                                                                       \
    "of \"left\"|\"right\" waits for mutex of \"left\", \"left\" waits for mutex of \"right\")$"

TEST(deadlock_of_two_threads_is_reported_while_a_third_goes_on)
{
#ifdef GS_EMULATED
    SKIP("process_vm_readv reads the emulator's memory");
#endif
    check_reported(1, embrace_and_work, LEFT_AND_RIGHT);
    check_reported(3, embrace_and_work, LEFT_AND_RIGHT);
}

static void spawn_on(unsigned worker, const char *name, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.name = name, .worker = worker};
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, NULL), 0);
}

/* The second worker runs one thread, which waits only for the deadlock, and then sleeps in its
 * loop: the loop's clock stays at the time at which that wait has started. */
static void *embrace_apart(void *unused)
{
    deadline_ns = GS_NEVER;
    barrier.threads = 2;
    spawn_on(1, "right", lock_ba);
    gs_thread_yield();
    spawn_on(2, "left", lock_ab);
    work_until_reported();
    return unused;
}

TEST(deadlock_is_reported_if_the_clock_of_one_worker_stands_still_and_another_one_is_busy)
{
    check_reported(2, embrace_apart, LEFT_AND_RIGHT);
}

/* All workers are idle, and nothing wakes them before the report. */
static int over[2];

static void *tell_when_over(void *unused)
{
    while (!atomic_load(&is_over))
        usleep(1000);
    MUST_EQ(write(over[1], "", 1), 1);
    return unused;
}

static void *embrace_and_idle(void *unused)
{
    pthread_t teller;
    char byte;
    MUST_EQ(pipe2(over, O_CLOEXEC | O_NONBLOCK), 0);
    MUST_EQ(pthread_create(&teller, NULL, tell_when_over, NULL), 0);
    embrace(GS_NEVER);
    MUST_EQ(gs_read(over[0], &byte, 1, GS_NEVER), 1);
    pthread_join(teller, NULL);
    end_child();
    return unused;
}

TEST(deadlock_of_two_threads_is_reported_while_all_workers_are_idle)
{
    check_reported(1, embrace_and_idle, LEFT_AND_RIGHT);
    check_reported(3, embrace_and_idle, LEFT_AND_RIGHT);
}

/* ---- Other cycles ---- */

static void *mix(void *unused)
{
    spawn_mixed_cycle(3);
    work_until_reported();
    return unused;
}

TEST(deadlock_may_lead_through_locks_of_several_kinds_and_a_join)
{
    for (unsigned workers = 1; workers < 4; workers += 2) {
        check_reported(workers, mix, "^deadlock among 3 threads: .*\n");
        CHECK_REPORTED("\"joined\" waits for mutex of \"writer\"");
        CHECK_REPORTED("\"reader\" waits for join of \"joined\"");
        CHECK_REPORTED("\"writer\" waits for writer lock of \"reader\"");
    }
}

static void run_again(void *unused)
{
    gs_once(&once, run_again, unused);
}

static void *run_once(void *unused)
{
    gs_once(&once, run_again, NULL);
    return unused;
}

static char user_stack[1 << 16] __attribute__((aligned(64)));

static void *write_twice(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    return unused;
}

static void *block_themselves(void *unused)
{
    const struct gs_thread_attributes attributes = {
        .name = "writer", .stack = user_stack, .stack_size = sizeof user_stack};
    struct gs_thread *writer;
    spawn_named("initialiser", run_once, NULL);
    MUST_EQ(gs_thread_spawn(&attributes, write_twice, NULL, &writer), 0);
    work_until_reported();
    return unused;
}

TEST(threads_that_wait_for_themselves_are_reported_each)
{
    for (unsigned workers = 1; workers < 4; workers += 2) {
        check_reported(workers, block_themselves,
                       "^deadlock of one thread: \"initialiser\" waits for once of \"initialiser\""
                       "\n(.*\n)*deadlock of one thread: \"writer\" waits for reader lock of "
                       "\"writer\"$");
    }
}

/* ---- Dumps ---- */

static int dumps; /* a file in memory */

/* Store the dumps that were written to the file in `report`. */
static void read_dumps(void)
{
    ssize_t n = pread(dumps, report, sizeof report - 1, 0);
    MUST(n >= 0);
    report[n] = 0;
}

/* Store a dump in `report`. */
static void dump_to_report(void)
{
    MUST_EQ(ftruncate(dumps, 0), 0);
    MUST_EQ(lseek(dumps, 0, SEEK_SET), 0);
    gs_threads_dump(dumps);
    read_dumps();
}

static void write_report(void)
{
    MUST(write(report_out, report, strlen(report)) > 0);
}

/* Whether a line of the dump in `report` contains one of the texts, and the other one after it. */
static bool has_line(const char *text, const char *after_it)
{
    const char *at = strstr(report, text);
    const char *found = at ? strstr(at, after_it) : NULL;
    return found && found < at + strcspn(at, "\n");
}

/* Returns when a dump shows the deadlock. */
static void embrace_until_seen(void)
{
    embrace(GS_NEVER);
    do {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        dump_to_report();
    } while (!strstr(report, "deadlock among"));
    MUST_EQ(ftruncate(dumps, 0), 0);
    MUST_EQ(lseek(dumps, 0, SEEK_SET), 0);
}

static void *dump_deadlock(void *unused)
{
    embrace_until_seen();
    gs_threads_dump(report_out);
    _exit(0);
    return unused;
}

/* The signal is handled by the loop of the first worker. Time passes after the deadlock was
 * written, so that more would be found. */
static void *dump_deadlock_by_signal(void *unused)
{
    embrace_until_seen();
    kill(getpid(), SIGUSR2);
    do {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        read_dumps();
    } while (!has_line("deadlock among", "waits for"));
    for (int i = 0; i < 100; i++)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    read_dumps();
    write_report();
    _exit(0);
    return unused;
}

static void open_dumps(void)
{
    dumps = memfd_create("dumps", MFD_CLOEXEC);
    MUST(dumps >= 0);
}

static void run_dumping(void)
{
    open_dumps();
    const struct gs_threads_options options = {
        .workers = worker_count, .report_fd = dumps, .dump_signal = SIGUSR2, .stuck_ns = GS_NEVER};
    alarm(CHILD_SECONDS);
    _exit(gs_threads_run(&options, deadlocking, NULL, NULL) ? 3 : 4);
}

TEST(dump_ends_with_the_deadlock)
{
    static gs_thread_fn *const ways[] = {dump_deadlock, dump_deadlock_by_signal};
    for (unsigned i = 0; i < 4; i++) {
        worker_count = i % 2 ? 3 : 1;
        deadlocking = ways[i / 2];
        CHECK_EQ(in_child(run_dumping), 0);
        CHECK_REPORTED("^thread 0x[0-9a-f]+ \"left\": has waited [0-9.]+ ms for mutex at ");
        CHECK_REPORTED(LEFT_AND_RIGHT);
        CHECK_EQ(count_of("deadlock among"), 1);
        CHECK(strchr(strstr(report, "deadlock among"), '\n')[1] == 0);
    }
}

/* ---- No deadlock ---- */

/* One of the waits has a deadline. On a machine that is too slow to write a dump before that, the
 * next one is later. */
static void *embrace_for_a_while(void *unused)
{
    uint64_t wait_ns = 150 * GS_MILLISECOND;
    do {
        wait_ns *= 2;
        embrace(after(wait_ns));
        for (int i = 0; i < 10; i++)
            MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
        dump_to_report();
        write_report();
        join(one);
        join(other);
    } while (!has_line("\"left\": has waited ", " for mutex at ") ||
             !has_line("\"right\": has waited ", " for mutex at "));
    return unused;
}

static void run_clean(void)
{
    open_dumps();
    const struct gs_threads_options options = {.workers = worker_count, .report_fd = report_out};
    alarm(CHILD_SECONDS);
    _exit(gs_threads_run(&options, deadlocking, NULL, NULL));
}

TEST(cycle_in_which_a_wait_has_a_deadline_is_no_deadlock)
{
    for (worker_count = 1; worker_count < 4; worker_count += 2) {
        deadlocking = embrace_for_a_while;
        CHECK_EQ(in_child(run_clean), 0);
        CHECK_REPORTED("\"left\": has waited ");
        CHECK_EQ(count_of("deadlock among"), 0);
    }
}

/* A reader behind a writer that waits until a deadline: not even the reader that holds the lock,
 * which waits for the other one, is deadlocked. */
static void *read_behind_writer(void *unused)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    gs_rwlock_unlock(&rwlock);
    return unused;
}

static uint64_t write_ns; /* how long the writer waits */

static void *write_for_a_while(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, after(write_ns)), -ETIMEDOUT);
    return unused;
}

static void *dump_later(void *unused)
{
    MUST_EQ(gs_thread_sleep(after(50 * GS_MILLISECOND)), 0);
    dump_to_report();
    write_report();
    return unused;
}

static void wait_behind_writer_once(void)
{
    const struct gs_thread_attributes here = {.name = "behind", .worker = 1},
                                      writing = {.name = "writer", .worker = 1};
    struct gs_thread *writer, *reader, *dumper = spawn(dump_later, NULL);
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    MUST_EQ(gs_thread_spawn(&writing, write_for_a_while, NULL, &writer), 0);
    MUST_EQ(gs_thread_spawn(&here, read_behind_writer, NULL, &reader), 0);
    join(reader);
    gs_rwlock_unlock(&rwlock);
    join(writer);
    join(dumper);
}

/* Until the dump was written while both waited. */
static void *wait_behind_writer(void *unused)
{
    write_ns = 150 * GS_MILLISECOND;
    do {
        write_ns *= 2;
        wait_behind_writer_once();
    } while (!has_line("\"behind\": has waited ", " for reader lock"));
    return unused;
}

TEST(reader_behind_a_writer_with_a_deadline_is_not_deadlocked)
{
    for (worker_count = 1; worker_count < 4; worker_count += 2) {
        deadlocking = wait_behind_writer;
        CHECK_EQ(in_child(run_clean), 0);
        CHECK_REPORTED("\"behind\": has waited [0-9.]+ ms for reader lock");
        CHECK_EQ(count_of("deadlock among"), 0);
    }
}

/* ---- Much contention ---- */

enum { CONTENDERS = 12, CONTEND_MS = 2500, MUTEXES = 3 };

static struct gs_mutex mutexes[MUTEXES];
static uint64_t end_ns;

/* Locks two of three mutexes, in the order that avoids deadlocks; those that migrate, too. */
static void *contend(void *argument)
{
    unsigned n = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; gs_clock_now() < end_ns; i++) {
        unsigned first = (i + n) % (MUTEXES - 1),
                 second = first + 1 + (i / 3) % (MUTEXES - 1 - first);
        MUST_EQ(gs_mutex_lock(&mutexes[first], GS_NEVER), 0);
        if (i % 4)
            gs_thread_yield();
        MUST_EQ(gs_mutex_lock(&mutexes[second], GS_NEVER), 0);
        MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
        gs_rwlock_unlock(&rwlock);
        gs_mutex_unlock(&mutexes[second]);
        if (i % 3)
            gs_thread_yield();
        gs_mutex_unlock(&mutexes[first]);
    }
    return argument;
}

/* The monitor searches once a second; this kernel thread does so all the time, as a dump does. */
static void *search_always(void *unused)
{
    while (gs_clock_now() < end_ns)
        gs_cycles_print(report_out, false);
    return unused;
}

static void *contend_all(void *unused)
{
    struct gs_thread *threads[CONTENDERS];
    pthread_t searcher;
    end_ns = after(CONTEND_MS * GS_MILLISECOND);
    for (unsigned i = 0; i < CONTENDERS; i++) {
        const struct gs_thread_attributes attributes = {.name = "contender", .migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, contend, (void *)(uintptr_t)i, &threads[i]), 0);
    }
    MUST_EQ(pthread_create(&searcher, NULL, search_always, NULL), 0);
    for (unsigned i = 0; i < CONTENDERS; i++)
        join(threads[i]);
    pthread_join(searcher, NULL);
    return unused;
}

TEST(threads_that_contend_for_locks_without_a_deadlock_are_not_reported)
{
    for (worker_count = 1; worker_count < 4; worker_count += 2) {
        deadlocking = contend_all;
        CHECK_EQ(in_child(run_clean), 0);
        CHECK_EQ(count_of("deadlock"), 0);
    }
}
