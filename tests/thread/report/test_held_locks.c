#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

#include <pthread.h>
#include <sys/mman.h>

/* This program is linked with gossamer_check. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int report_fd;

static void run_reporting(gs_thread_fn *first, char *ret_text, size_t size)
{
    if (GS_ASAN || GS_TSAN)
        SKIP("sanitizers also replace these functions of the C library");
    report_fd = memfd_create("report", MFD_CLOEXEC);
    CHECK(report_fd >= 0);
    /* No monitor, which would report to the same file. */
    const struct gs_threads_options options = {.report_fd = report_fd, .stuck_ns = GS_NEVER};
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
    ssize_t n = pread(report_fd, ret_text, size - 1, 0);
    CHECK(n >= 0);
    ret_text[n] = 0;
    close(report_fd);
}

static void *sleep_briefly(void *unused)
{
    MUST_EQ(gs_thread_sleep(after(GS_MICROSECOND)), 0);
    gs_thread_yield();
    return unused;
}

static void *hold_while_waiting(void *unused)
{
    struct gs_thread *other;
    pthread_mutex_lock(&mutex);
    other = spawn(sleep_briefly, NULL);
    gs_thread_yield();
    gs_thread_yield();
    pthread_mutex_unlock(&mutex);
    join(other);
    return unused;
}

TEST(mutex_that_is_held_across_a_wait_is_reported_once)
{
    char text[1024], *first;
    run_reporting(hold_while_waiting, text, sizeof text);
    first = strstr(text, "held: thread \"first\" waits while it holds 1 pthread mutex or stream");
    CHECK(first);
    CHECK(!strstr(first + 1, "held:"));
    CHECK(strstr(text, "test_thread_held_locks"));
}

static void *hold_two_streams(void *unused)
{
    flockfile(stdout);
    flockfile(stderr);
    sleep_briefly(unused);
    funlockfile(stderr);
    funlockfile(stdout);
    sleep_briefly(unused);
    return unused;
}

TEST(locks_of_streams_are_counted)
{
    char text[1024];
    run_reporting(hold_two_streams, text, sizeof text);
    CHECK(strstr(text, "holds 2 pthread mutexes or streams"));
}

static void *hold_and_release(void *unused)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        flockfile(stdout);
        funlockfile(stdout);
        pthread_mutex_unlock(&mutex);
        sleep_briefly(unused);
    }
    return unused;
}

TEST(locks_released_before_a_wait_are_not_reported)
{
    char text[1024];
    run_reporting(hold_and_release, text, sizeof text);
    CHECK_STR(text, "");
}
