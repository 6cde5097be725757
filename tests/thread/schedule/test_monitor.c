#include "tests/thread/schedule/stuck.h"
#include "thread/schedule/thread.h"

static const struct gs_thread_attributes mobile = {.name = "mobile", .migrates = true};

static void run_two(gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = 2, .is_silent = true};
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
}

/* ---- A server whose workers are all stuck ---- */

#define CLIENTS 200
#define ROUNDS 3

static int listener;
static bool holds_files;
static struct sockaddr_in address;

static void *answer(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char bytes[16];
    ssize_t n;
    while ((n = gs_recv(fd, bytes, sizeof bytes, 0, GS_NEVER)) > 0)
        MUST_EQ(gs_send_all(fd, bytes, (size_t)n, GS_NEVER), n);
    MUST_EQ(gs_close(fd), 0);
    return NULL;
}

static void *serve(void *unused)
{
    int fd;
    while ((fd = gs_accept(listener, NULL, NULL, 0, GS_NEVER)) >= 0)
        MUST_EQ(gs_thread_spawn(&mobile, answer, (void *)(intptr_t)fd, NULL), 0);
    MUST_EQ(fd, -ECANCELED);
    return unused;
}

static int connect_one(void)
{
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0);
    MUST_EQ(gs_sys_connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void ask(int fd)
{
    char bytes[4] = {0};
    MUST_EQ(gs_sys_send(fd, "ping", 4, 0), 4);
    MUST_EQ(gs_sys_recv(fd, bytes, 4, MSG_WAITALL), 4);
    MUST(!memcmp(bytes, "ping", 4));
}

/* Runs in a separate kernel thread. A file that the kernel holds for a loop is closed only when the
 * loop continues. All connections have a waiting thread before the workers are stuck; new
 * connections arrive afterwards. */
THREAD(run_clients)
{
    static int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        ask(fds[i] = connect_one());
    atomic_store(&done, 1);
    while (atomic_load(&stuck) < 2)
        usleep(1000);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < CLIENTS; i++) {
            ask(fds[i]);
            if (round == 1) {
                char byte;
                shutdown(fds[i], SHUT_WR);
                if (!holds_files)
                    MUST_EQ(gs_sys_recv(fds[i], &byte, 1, 0), 0);
                close(fds[i]);
                fds[i] = connect_one();
            }
        }
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    end_all();
}

THREAD(sleep_in_call)
{
    const struct timespec time = {.tv_sec = 1, .tv_nsec = 500000000};
    atomic_fetch_add(&stuck, 1);
    do
        gs_syscall(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
    while (!atomic_load(&is_finished));
}

THREAD(serve_while_stuck)
{
    pthread_t clients;
    struct gs_thread *server;
    socklen_t length = sizeof address;
    holds_files = gs_loop_holds_files(worker_current()->loop);
    listener = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST_EQ(gs_sys_bind(listener, (struct sockaddr *)&address, length), 0);
    MUST_EQ(gs_sys_getsockname(listener, (struct sockaddr *)&address, &length), 0);
    MUST_EQ(gs_sys_listen(listener, CLIENTS), 0);
    MUST_EQ(gs_thread_spawn(&mobile, serve, NULL, &server), 0);
    MUST_EQ(pthread_create(&clients, NULL, run_clients, NULL), 0);
    while (!atomic_load(&done))
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    struct gs_thread *other = spawn_on(2, "sleeps", sleep_in_call);
    compute();
    pthread_join(clients, NULL);
    join(other);
    gs_thread_cancel(server);
    join(server);
    MUST_EQ(gs_close(listener), 0);
}

TEST(all_connections_are_answered_while_one_worker_computes_and_the_other_sleeps_in_a_call)
{
    begin();
    run_two(serve_while_stuck);
    end();
}

/* ---- Other work that moves to extra workers ---- */

THREAD(sleep_and_count)
{
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    MUST_EQ(gs_thread_park(after(10 * GS_MILLISECOND)), -ETIMEDOUT);
    if (atomic_fetch_add(&done, 1) == 9)
        end_all();
}

THREAD(park_and_count)
{
    MUST_EQ(gs_thread_park(after(30 * GS_MILLISECOND)), -ETIMEDOUT);
    if (atomic_fetch_add(&done, 1) == 9)
        end_all();
}

THREAD(sleep_under_stuck_workers)
{
    struct gs_thread *threads[10];
    for (int i = 0; i < 10; i++)
        MUST_EQ(
            gs_thread_spawn(&mobile, i % 2 ? park_and_count : sleep_and_count, NULL, &threads[i]),
            0);
    gs_thread_yield();
    struct gs_thread *other = spawn_on(2, "blocks", block_in_call);
    block();
    for (int i = 0; i < 10; i++)
        join(threads[i]);
    join(other);
}

TEST(deadlines_of_migrating_threads_expire_while_their_workers_are_stuck)
{
    begin();
    run_two(sleep_under_stuck_workers);
    end();
}

static struct gs_mutex mutex;
static struct gs_channel *channel;

THREAD(wait_for_everything)
{
    void *item;
    MUST_EQ(gs_channel_receive(channel, &item, GS_NEVER), 0);
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_mutex_unlock(&mutex);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(gs_thread_park(after(5 * GS_MILLISECOND)), -ETIMEDOUT);
    if (atomic_fetch_add(&done, 1) == 9)
        end_all();
}

static struct gs_thread *waiting[10];

THREAD(wake_everything)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    for (int i = 0; i < 10; i++)
        MUST_EQ(gs_channel_send(channel, &channel, GS_NEVER), 0);
    MUST_EQ(gs_thread_sleep(after(15 * GS_MILLISECOND)), 0);
    gs_mutex_unlock(&mutex);
    for (int i = 0; i < 10; i++)
        gs_thread_unpark(waiting[i]);
}

THREAD(wake_under_stuck_workers)
{
    struct gs_thread *waker;
    MUST_EQ(gs_channel_new(sizeof(void *), 0, &channel), 0);
    for (int i = 0; i < 10; i++)
        MUST_EQ(gs_thread_spawn(&mobile, wait_for_everything, NULL, &waiting[i]), 0);
    gs_thread_yield();
    MUST_EQ(gs_thread_spawn(&mobile, wake_everything, NULL, &waker), 0);
    struct gs_thread *other = spawn_on(2, "blocks", block_in_call);
    block();
    for (int i = 0; i < 10; i++)
        join(waiting[i]);
    join(waker);
    join(other);
    gs_channel_free(channel);
}

TEST(migrating_threads_are_woken_while_their_workers_are_stuck)
{
    begin();
    run_two(wake_under_stuck_workers);
    end();
}

THREAD(sleep_until_canceled)
{
    MUST_EQ(gs_thread_sleep(GS_NEVER), -ECANCELED);
    MUST_EQ(gs_thread_sleep(after(GS_SECOND)), -ECANCELED);
}

THREAD(park_until_canceled)
{
    MUST_EQ(gs_thread_park(GS_NEVER), -ECANCELED);
    MUST_EQ(gs_thread_park(after(GS_SECOND)), -ECANCELED);
}

THREAD(cancel_waiting)
{
    for (int i = 0; i < 10; i++)
        gs_thread_cancel(waiting[i]);
    for (int i = 0; i < 10; i++)
        join(waiting[i]);
    end_all();
}

THREAD(cancel_under_stuck_workers)
{
    struct gs_thread *canceler;
    for (int i = 0; i < 10; i++)
        MUST_EQ(gs_thread_spawn(&mobile, i % 2 ? park_until_canceled : sleep_until_canceled, NULL,
                                &waiting[i]),
                0);
    MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    MUST_EQ(gs_thread_spawn(&mobile, cancel_waiting, NULL, &canceler), 0);
    struct gs_thread *other = spawn_on(2, "blocks", block_in_call);
    block();
    join(canceler);
    join(other);
}

TEST(migrating_threads_are_canceled_while_their_workers_are_stuck)
{
    begin();
    run_two(cancel_under_stuck_workers);
    end();
}

THREAD(count_or_block)
{
    if (atomic_fetch_add(&done, 1) == 4)
        end_all();
    else
        block();
}

/* Two workers and up to four extra ones: five threads, of which four are stuck. */
THREAD(start_under_stuck_workers)
{
    struct gs_thread *threads[5];
    for (int i = 0; i < 5; i++)
        threads[i] = spawn(count_or_block, NULL);
    for (int i = 0; i < 5; i++)
        join(threads[i]);
}

TEST(threads_are_started_while_more_threads_are_stuck_than_there_are_workers)
{
    begin();
    run_two(start_under_stuck_workers);
    end();
}

/* It stays on its worker, and does not wait for others. */
THREAD(yield_until_done)
{
    atomic_fetch_add(&stuck, 1);
    while (!atomic_load(&done))
        gs_thread_yield();
}

static void *be_done(void *unused)
{
    atomic_fetch_add(&done, 1);
    return unused;
}

THREAD(compute_above_a_ready_one)
{
    const struct gs_thread_attributes migrating = {.migrates = true};
    struct gs_thread *yielding = spawn_on(2, "yielding", yield_until_done), *ready;
    while (!atomic_load(&stuck))
        ;
    MUST_EQ(gs_thread_spawn(&migrating, be_done, NULL, &ready), 0);
    while (!atomic_load(&done))
        ;
    join(ready);
    join(yielding);
}

TEST(ready_threads_of_a_stuck_worker_are_taken_by_one_that_is_never_idle)
{
    atomic_store(&stuck, 0);
    atomic_store(&done, 0);
    /* The kernel hardly stops the other worker for so long that it would count as stuck, too. */
    const struct gs_threads_options options = {
        .workers = 2, .is_silent = true, .stuck_ns = 200 * GS_MILLISECOND};
    CHECK_EQ(gs_threads_run(&options, compute_above_a_ready_one, NULL, NULL), 0);
}
