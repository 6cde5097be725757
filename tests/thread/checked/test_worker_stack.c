/* Functions that run on the worker's stack must not switch to other threads. */
#include "tests/thread/checked/misuse.h"
#include "thread/context/sanitizer.h"

/* With these, functions run on the stack of the thread. */
#define SKIP_IF_SANITIZED                                                                          \
    do {                                                                                           \
        if (GS_ASAN || GS_TSAN)                                                                    \
            SKIP("sanitizers track the stack of the running thread");                              \
    } while (0)

static struct gs_semaphore empty;

static void *wait_there(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gs_semaphore_wait(&empty, GS_NEVER);
}

static void *yield_there(void *unused)
{
    gs_thread_yield();
    return unused;
}

static void *sleep_there(void *unused)
{
    gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
    return unused;
}

static void *exit_there(void *result)
{
    gs_thread_exit(result);
}

/* No tail call: it is in the backtrace. */
static void *call_wait(void *unused)
{
    void *volatile result = gs_thread_call_on_worker_stack(wait_there, unused);
    return result;
}

static void *call_yield(void *unused)
{
    return gs_thread_call_on_worker_stack(yield_there, unused);
}

static void *call_sleep(void *unused)
{
    return gs_thread_call_on_worker_stack(sleep_there, unused);
}

static void *call_exit(void *unused)
{
    return gs_thread_call_on_worker_stack(exit_there, unused);
}

IN_CHILD_RUN(run_wait, call_wait)
IN_CHILD_RUN(run_yield, call_yield)
IN_CHILD_RUN(run_sleep, call_sleep)
IN_CHILD_RUN(run_exit, call_exit)

#define ON_WORKER_STACK "on the worker's stack \\(.*\\)"

TEST(a_wait_on_the_worker_stack_stops)
{
    SKIP_IF_SANITIZED;
    CHECK_STOPPED(run_wait, "gs_semaphore_wait",
                  "thread \"first\" would wait for semaphore " ON_WORKER_STACK);
    CHECK_REPORTED("^      wait_there \\(");
    CHECK_REPORTED("^      call_wait \\(");
}

TEST(a_yield_on_the_worker_stack_stops)
{
    SKIP_IF_SANITIZED;
    CHECK_STOPPED(run_yield, "gs_thread_yield", "thread \"first\" would yield " ON_WORKER_STACK);
}

TEST(a_sleep_on_the_worker_stack_stops)
{
    SKIP_IF_SANITIZED;
    CHECK_STOPPED(run_sleep, "gs_thread_sleep",
                  "thread \"first\" would wait for sleep " ON_WORKER_STACK);
}

TEST(ending_the_thread_on_the_worker_stack_stops)
{
    SKIP_IF_SANITIZED;
    CHECK_STOPPED(run_exit, "gs_thread_exit", "thread \"first\" would end " ON_WORKER_STACK);
}

/* ---- The callback of gs_recv_with ---- */

static int pair[2];

static ssize_t receive_more(void *unused, const void *bytes, size_t n)
{
    char more;
    (void)unused, (void)bytes, (void)n;
    return gs_recv(pair[0], &more, 1, 0, GS_NEVER);
}

static ssize_t receive_what_is_there(void *unused, const void *bytes, size_t n)
{
    char more;
    (void)unused;
    MUST(n == 1 && *(const char *)bytes == 'x');
    MUST_EQ(gs_recv(pair[0], &more, 1, 0, 0), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&empty, 0), -ETIMEDOUT);
    return 7;
}

static void *receive_with(void *fn)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    MUST_EQ(gs_send(pair[1], "x", 1, 0, GS_NEVER), 1);
    ssize_t n = gs_recv_with(pair[0], *(gs_received_fn **)fn, NULL, GS_NEVER);
    MUST_EQ(n, 7);
    gs_close(pair[0]);
    gs_close(pair[1]);
    return NULL;
}

static void *receive_and_wait(void *unused)
{
    gs_received_fn *fn = receive_more;
    (void)unused;
    return receive_with(&fn);
}

static void *receive_without_wait(void *unused)
{
    gs_received_fn *fn = receive_what_is_there;
    (void)unused;
    return receive_with(&fn);
}

IN_CHILD_RUN(run_receive_and_wait, receive_and_wait)

TEST(a_wait_in_the_callback_of_gs_recv_with_stops)
{
    SKIP_IF_SANITIZED;
    CHECK_STOPPED(run_receive_and_wait, "gs_recv",
                  "thread \"first\" would wait for readable " ON_WORKER_STACK);
}

TEST(calls_with_the_deadline_0_do_not_stop)
{
    run_both(receive_without_wait);
}

/* ---- What needs no wait ---- */

static void *use_what_is_free(void *mutex)
{
    struct gs_semaphore one = {.count = 1};
    MUST_EQ(gs_mutex_lock(mutex, GS_NEVER), 0);
    gs_mutex_unlock(mutex);
    MUST_EQ(gs_semaphore_wait(&one, GS_NEVER), 0);
    return mutex;
}

THREAD_TEST(calls_that_need_no_wait_do_not_stop, run_both)
{
    static struct gs_mutex mutex;
    MUST(gs_thread_call_on_worker_stack(use_what_is_free, &mutex) == &mutex);
}
