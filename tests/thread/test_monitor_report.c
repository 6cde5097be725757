#include "tests/thread/stuck.h"

#include <pthread.h>

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

TEST(nobody_looks_where_no_time_is_too_long)
{
    const struct gs_threads_options options = {.workers = 2, .stuck_ns = GS_NEVER};
    CHECK_EQ(gs_threads_run(&options, yield_and_sleep, NULL, NULL), 0);
}

/* A kernel thread: until both have been reported. */
static void *read_reports(void *unused)
{
    static char text[4096];
    size_t n = 0;
    while (!strstr(text, "\"first\" computes since ") ||
           !strstr(text, "\"blocks\" sits in the system call read since ")) {
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

/* Those that wait for the stuck workers are pinned to them. */
static void *be_reported(void *unused)
{
    pthread_t reader;
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

TEST(stuck_threads_are_reported_with_their_call)
{
#ifdef GS_EMULATED
    SKIP("the kernel tells the emulator's system call");
#endif
    if (access("/proc/self/syscall", R_OK))
        SKIP("this kernel does not tell in which call a thread is");
    begin();
    CHECK_EQ(pipe(report), 0);
    const struct gs_threads_options options = {.workers = 2, .report_fd = report[1]};
    CHECK_EQ(gs_threads_run(&options, be_reported, NULL, NULL), 0);
    close(report[0]);
    close(report[1]);
    end();
}
