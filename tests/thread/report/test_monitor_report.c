#include "tests/sandbox.h"
#include "tests/thread/schedule/stuck.h"

static int report[2];

static void *yield_and_sleep(void *unused)
{
    for (int i = 0; i < 100; i++) {
        gs_thread_yield();
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    }
    return unused;
}

TEST(workers_that_are_not_stuck_are_not_reported)
{
    char byte;
    CHECK_EQ(pipe(report), 0);
    const struct gs_threads_options options = {.workers = 2, .report_fd = report[1]};
    CHECK_EQ(gs_threads_run(&options, yield_and_sleep, NULL, NULL), 0);
    close(report[1]);
    CHECK_EQ(read(report[0], &byte, 1), 0);
    close(report[0]);
}

TEST(no_worker_is_reported_if_the_monitor_is_disabled)
{
    const struct gs_threads_options options = {.workers = 2, .stuck_ns = GS_NEVER};
    CHECK_EQ(gs_threads_run(&options, yield_and_sleep, NULL, NULL), 0);
}

static const char *computing, *sitting; /* the expected reports, as patterns */

/* A kernel thread that reads until both reports were found. */
static void *read_reports(void *unused)
{
    static char text[4096];
    size_t n = 0;
    while (!strstr(text, computing) || !strstr(text, sitting)) {
        ssize_t some = read(report[0], text + n, sizeof text - 1 - n);
        MUST(some > 0);
        n += (size_t)some;
        text[n] = 0;
    }
    end_all();
    return unused;
}

static void *do_nothing(void *unused)
{
    return unused;
}

/* So long that the monitor has nothing to do and sleeps without a timeout. */
#define LONG_SLEEP (1500 * GS_MILLISECOND)

/* The threads that wait for the stuck workers are pinned to these workers. */
static void *get_reported(void *unused)
{
    pthread_t reader;
    MUST_EQ(gs_thread_sleep(after(LONG_SLEEP)), 0);
    struct gs_thread *threads[3] = {spawn_on(2, "blocks", block_in_call)};
    MUST_EQ(pthread_create(&reader, NULL, read_reports, NULL), 0);
    while (!atomic_load(&stuck))
        gs_thread_yield();
    for (unsigned i = 1; i < 3; i++)
        threads[i] = spawn_on(i, "waits", do_nothing);
    compute();
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    pthread_join(reader, NULL);
    return unused;
}

static void check_reports(const char *name_of_first, const char *name_of_other)
{
    static char texts[2][64];
    const struct gs_threads_options options = {.workers = 2, .report_fd = report[1]};
    snprintf(texts[0], sizeof texts[0], "\"%s\" has been computing for ", name_of_first);
    snprintf(texts[1], sizeof texts[1], "\"%s\" has been in system call read for ", name_of_other);
    computing = texts[0];
    sitting = texts[1];
    MUST_EQ(gs_threads_run(&options, get_reported, NULL, NULL), 0);
}

/* Skips the test if such reports are not available here. */
static void skip_without_calls(void)
{
#ifdef GS_EMULATED
    SKIP("the kernel reports the emulator's system call");
#endif
    if (access("/proc/self/syscall", R_OK))
        SKIP("this kernel does not report the system call of a thread");
}

TEST(stuck_threads_are_reported_with_their_call)
{
    skip_without_calls();
    begin();
    CHECK_EQ(pipe(report), 0);
    check_reports("first", "blocks");
    close(report[0]);
    close(report[1]);
    end();
}

enum { CANNOT_REFUSE = 77 };

static _Noreturn void get_reported_in_child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* not by time: reports come late on a busy machine */
    if (refuse_call(SYS_process_vm_readv))
        _exit(CANNOT_REFUSE);
    begin();
    MUST_EQ(pipe(report), 0);
    check_reports("", "");
    _exit(0);
}

TEST(stuck_threads_are_reported_without_names_where_the_kernel_copies_no_memory)
{
    int status = -1;
    skip_without_calls();
    pid_t child = fork();
    if (!child)
        get_reported_in_child();
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == CANNOT_REFUSE << 8)
        SKIP("system calls cannot be refused here");
    CHECK_EQ(status, 0);
}
