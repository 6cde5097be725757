/* Kernel threads that are no workers start and wake user threads while all user threads end: the
 * run must end when all have ended. Also, two threads that read from one descriptor must lose
 * nothing. */
#include "base/sanitized.h"
#include "tests/thread/fixture.h"

#if GS_ASAN || GS_TSAN || !defined(__x86_64__)
#define ROUNDS 200
#else
#define ROUNDS 1000
#endif

static struct gs_thread *parked;

static void *unpark(void *unused)
{
    gs_thread_unpark(parked);
    return unused;
}

static void *spawn_unparker(void *unused)
{
    MUST_EQ(gs_thread_spawn(NULL, unpark, NULL, NULL), 0);
    return unused;
}

static void *(*wake)(void *);

static void *park(void *kernel_thread)
{
    parked = gs_thread_self();
    MUST_EQ(pthread_create(kernel_thread, NULL, wake, NULL), 0);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return kernel_thread;
}

/* The kernel thread that wakes the last user thread may still be in its call when that thread has
 * ended. */
static void end_while_arriving(void *(*waker)(void *))
{
    wake = waker;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct gs_threads_options options = {.workers = i % 3 + 1};
        pthread_t kernel_thread;
        void *result = NULL;
        CHECK_EQ(gs_threads_run(&options, park, &kernel_thread, &result), 0);
        CHECK(result == &kernel_thread);
        pthread_join(kernel_thread, NULL);
    }
}

TEST(run_ends_when_the_last_thread_was_woken_by_one_that_a_kernel_thread_has_started)
{
    end_while_arriving(spawn_unparker);
}

TEST(run_ends_when_the_last_thread_was_woken_by_a_kernel_thread)
{
    end_while_arriving(unpark);
}

/* ---- Two threads at one listener ---- */

static int listener;
static struct sockaddr_in address;
static struct gs_barrier pair_accepted;
static atomic_uint accepted;

THREAD(accept_one_of_two)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        int fd = gs_accept(listener, NULL, NULL, 0, after(60 * GS_SECOND));
        MUST(fd >= 0);
        gs_close(fd);
        atomic_fetch_add(&accepted, 1);
        MUST(gs_barrier_wait(&pair_accepted, GS_NEVER) >= 0);
    }
}

THREAD(connect_two)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        int fds[2];
        for (int k = 0; k < 2; k++) {
            fds[k] = socket(AF_INET, SOCK_STREAM, 0);
            MUST_EQ(connect(fds[k], (const struct sockaddr *)&address, sizeof address), 0);
        }
        while (atomic_load(&accepted) < 2 * (i + 1))
            usleep(20);
        for (int k = 0; k < 2; k++)
            close(fds[k]);
    }
}

THREAD(accept_both)
{
    struct gs_thread *threads[2];
    pthread_t client;
    pair_accepted = (struct gs_barrier){.threads = 2};
    atomic_store(&accepted, 0);
    for (unsigned i = 0; i < 2; i++) {
        const struct gs_thread_attributes attributes = {.worker = i + 1};
        MUST_EQ(gs_thread_spawn(&attributes, accept_one_of_two, NULL, &threads[i]), 0);
    }
    MUST_EQ(pthread_create(&client, NULL, connect_two, NULL), 0);
    for (int i = 0; i < 2; i++)
        join(threads[i]);
    pthread_join(client, NULL);
}

TEST(two_threads_that_accept_at_one_listener_get_both_connections)
{
    const struct gs_threads_options options = {.workers = 2};
    socklen_t length = sizeof address;
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK_EQ(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(listener, 16), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    CHECK_EQ(gs_threads_run(&options, accept_both, NULL, NULL), 0);
    close(listener);
}
