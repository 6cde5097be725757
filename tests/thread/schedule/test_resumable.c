#include "tests/thread/io/connection.h"

#include <gossamer/list.h>
#include <gossamer/loop_timer.h>
#include <gossamer/resumable.h>

struct job {
    struct gs_resumable resumable;
    int fd, step;
    atomic_int *left;
    struct gs_thread *waiting;
    struct gs_timer timer;
};

static struct job *job_of(struct gs_resumable *resumable)
{
    return gs_container_of(resumable, struct job, resumable);
}

/* The last one wakes the thread that waits for all of them. */
static void end(struct job *job)
{
    atomic_int *left = job->left;
    struct gs_thread *waiting = job->waiting;
    gs_resumable_end(&job->resumable);
    free(job);
    if (atomic_fetch_sub(left, 1) == 1)
        gs_thread_unpark(waiting);
}

static struct job *job_new(gs_resume_fn *resume, int fd, atomic_int *left)
{
    struct job *job = calloc(1, sizeof *job);
    MUST(job);
    gs_resumable_init(&job->resumable, resume);
    job->fd = fd;
    job->left = left;
    job->waiting = gs_thread_self();
    return job;
}

static void wait_for_all(const atomic_int *left)
{
    while (atomic_load(left))
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
}

/* ---- Yields ---- */

static void run_four(gs_resume_fn *resume)
{
    atomic_int left = 4;
    for (unsigned i = 0; i < 4; i++)
        MUST_EQ(gs_resumable_start(&job_new(resume, -1, &left)->resumable, i % 2), 0);
    for (int i = 0; i < 50; i++)
        gs_thread_yield();
    wait_for_all(&left);
}

static void count_steps(struct gs_resumable *resumable)
{
    struct job *job = job_of(resumable);
    if (++job->step == 100)
        end(job);
    else
        gs_resumable_wake(resumable);
}

THREAD_TEST(resumable_that_wakes_itself_runs_beside_threads, run_both)
{
    run_four(count_steps);
}

/* Resumed again by itself, and woken by others meanwhile: none of this may queue it twice. */
static void step_again(struct gs_resumable *resumable)
{
    struct job *job = job_of(resumable);
    if (job->step++ % 3 == 0)
        gs_resumable_wake(resumable);
    if (job->step < 1000)
        gs_resumable_again(resumable);
    else
        end(job);
}

THREAD_TEST(resumable_that_is_resumed_again_runs_beside_threads, run_both)
{
    run_four(step_again);
}

struct pair {
    struct gs_resumable resumable;
    atomic_bool is_over;
    atomic_int steps;
};

static void count_until_over(struct gs_resumable *resumable)
{
    struct pair *pair = gs_container_of(resumable, struct pair, resumable);
    atomic_fetch_add(&pair->steps, 1);
    if (atomic_load(&pair->is_over))
        gs_resumable_end(resumable);
    else
        gs_resumable_again(resumable);
}

static void *wake_often(void *argument)
{
    struct pair *pair = argument;
    int before = atomic_load(&pair->steps);
    for (int i = 0; i < 1000; i++) {
        gs_resumable_wake(&pair->resumable);
        gs_thread_yield();
    }
    while (atomic_load(&pair->steps) == before)
        gs_thread_yield();
    return NULL;
}

THREAD_TEST(resumable_that_is_resumed_again_may_be_woken_by_other_workers, run_both)
{
    static struct pair pair; /* it may end after this function */
    struct gs_thread *wakers[3];
    atomic_init(&pair.is_over, false);
    atomic_init(&pair.steps, 0);
    gs_resumable_init(&pair.resumable, count_until_over);
    MUST_EQ(gs_resumable_start(&pair.resumable, 1), 0);
    for (int i = 0; i < 3; i++)
        MUST_EQ(gs_thread_spawn(NULL, wake_often, &pair, &wakers[i]), 0);
    for (int i = 0; i < 3; i++)
        MUST_EQ(gs_thread_join(wakers[i], GS_NEVER, NULL), 0);
    atomic_store(&pair.is_over, true);
}

static int written; /* nothing but the wake-up publishes it */
static atomic_bool is_running, is_written, is_read;

static void read_after_wake(struct gs_resumable *resumable)
{
    struct job *job = job_of(resumable);
    atomic_store_explicit(&is_running, true, memory_order_relaxed);
    while (!atomic_load_explicit(&is_written, memory_order_relaxed))
        usleep(10);
    if (!job->step++)
        return; /* the wake-up has come before */
    MUST_EQ(written, 42);
    atomic_store_explicit(&is_read, true, memory_order_relaxed);
    end(job);
}

/* Until it has been read, its worker exchanges nothing else with the other one. */
static void *write_and_wake(void *job_)
{
    struct job *job = job_;
    while (!atomic_load_explicit(&is_running, memory_order_relaxed))
        usleep(10);
    written = 42;
    gs_resumable_wake(&job->resumable);
    atomic_store_explicit(&is_written, true, memory_order_relaxed);
    while (!atomic_load_explicit(&is_read, memory_order_relaxed))
        usleep(10);
    return NULL;
}

THREAD_TEST(resumable_sees_what_was_written_before_a_wake_up_that_came_when_it_ran, run_on_two)
{
    const struct gs_thread_attributes on_second = {.worker = 2};
    struct gs_thread *writer;
    atomic_int left = 1;
    struct job *job = job_new(read_after_wake, -1, &left);
    MUST_EQ(gs_resumable_start(&job->resumable, 1), 0);
    MUST_EQ(gs_thread_spawn(&on_second, write_and_wake, job, &writer), 0);
    wait_for_all(&left);
    join(writer);
}

THREAD_TEST(resumable_is_not_started_on_a_worker_that_does_not_exist, run_both)
{
    struct gs_resumable resumable;
    gs_resumable_init(&resumable, count_steps);
    MUST_EQ(gs_resumable_start(&resumable, 7), -EINVAL);
}

/* ---- Descriptors ---- */

/* Receive a byte, answer it, until the end of the stream. */
static void echo(struct gs_resumable *resumable)
{
    struct job *job = job_of(resumable);
    char byte;
    for (;;) {
        gs_resumable_unwatch(resumable);
        ssize_t n = recv(job->fd, &byte, 1, MSG_DONTWAIT);
        if (n < 0) {
            MUST_EQ(errno, EAGAIN);
            int result = gs_resumable_watch(resumable, job->fd, GS_READ);
            MUST(result >= 0);
            if (!result)
                return;
        } else if (!n) {
            gs_close(job->fd);
            end(job);
            return;
        } else {
            MUST_EQ(send(job->fd, &byte, 1, 0), 1);
        }
    }
}

THREAD_TEST(resumable_is_woken_when_its_descriptor_is_ready, run_both)
{
    enum { PAIRS = 20 };
    atomic_int left = PAIRS;
    int pairs[PAIRS][2];
    char byte;
    for (unsigned i = 0; i < PAIRS; i++) {
        MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
        struct job *job = job_new(echo, pairs[i][1], &left);
        MUST_EQ(gs_resumable_start(&job->resumable, i % gs_threads_workers() + 1), 0);
    }
    for (int round = 0; round < 10; round++)
        for (unsigned i = 0; i < PAIRS; i++) {
            MUST_EQ(gs_send_all(pairs[i][0], "x", 1, GS_NEVER), 1);
            MUST_EQ(gs_recv(pairs[i][0], &byte, 1, 0, GS_NEVER), 1);
        }
    for (unsigned i = 0; i < PAIRS; i++)
        MUST_EQ(gs_close(pairs[i][0]), 0);
    wait_for_all(&left);
}

enum { BYTES = 300 };

static void receive_all(struct gs_resumable *resumable)
{
    struct job *job = job_of(resumable);
    char byte;
    while (job->step < BYTES) {
        if (recv(job->fd, &byte, 1, MSG_DONTWAIT) == 1)
            job->step++;
        MUST(gs_resumable_watch(resumable, job->fd, GS_READ) >= 0);
        gs_resumable_unwatch(resumable);
    }
    end(job);
}

/* The loop of this worker watches the descriptor, since it is the first that waits for it. */
static void *send_all(void *pair_)
{
    const int *pair = pair_;
    atomic_int left = 1;
    struct job *job = job_new(receive_all, pair[1], &left);
    MUST_EQ(gs_wait_readable(pair[1], after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_resumable_start(&job->resumable, 1), 0);
    for (int i = 0; i < BYTES; i++) {
        MUST_EQ(send(pair[0], "x", 1, 0), 1);
        gs_thread_yield();
    }
    wait_for_all(&left);
    return NULL;
}

THREAD_TEST(resumable_may_watch_while_another_worker_finds_its_descriptor_ready, run_on_two)
{
    const struct gs_thread_attributes on_second = {.worker = 2};
    struct gs_thread *thread;
    int pair[2];
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    MUST_EQ(gs_thread_spawn(&on_second, send_all, pair, &thread), 0);
    join(thread);
    MUST_EQ(gs_close(pair[0]), 0);
    MUST_EQ(gs_close(pair[1]), 0);
}

static atomic_bool is_watched;

static void receive_once(struct gs_resumable *resumable)
{
    struct job *job = job_of(resumable);
    char bytes[8];
    gs_resumable_unwatch(resumable);
    if (gs_resumable_may_call(job->fd, GS_READ)) {
        ssize_t n = recv(job->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        gs_resumable_called(job->fd, GS_READ, n < 0 ? -errno : n, sizeof bytes);
        if (n == 1) {
            /* The socket is empty. */
            MUST(!gs_resumable_may_call(job->fd, GS_READ));
            end(job);
            return;
        }
        MUST_EQ(errno, EAGAIN);
    }
    int result = gs_resumable_watch(resumable, job->fd, GS_READ);
    if (result)
        gs_resumable_wake(resumable);
    else
        atomic_store(&is_watched, true);
}

THREAD_TEST(emptied_tcp_socket_is_not_worth_a_call, run_both)
{
    atomic_int left = 1;
    connect_both();
    atomic_store(&is_watched, false);
    struct job *job = job_new(receive_once, ours, &left);
    MUST_EQ(gs_resumable_start(&job->resumable, 0), 0);
    while (!atomic_load(&is_watched))
        gs_thread_yield();
    MUST_EQ(send(theirs, "x", 1, 0), 1);
    wait_for_all(&left);
    close_both();
}

static void watch_nothing(struct gs_resumable *resumable)
{
    MUST_EQ(gs_resumable_watch(resumable, -1, GS_READ), -EBADF);
    end(job_of(resumable));
}

THREAD_TEST(resumable_cannot_watch_a_negative_descriptor, run_both)
{
    atomic_int left = 1;
    MUST_EQ(gs_resumable_start(&job_new(watch_nothing, -1, &left)->resumable, 0), 0);
    wait_for_all(&left);
}

/* ---- Timers, wake-ups, and the end of the run ---- */

static void on_timer(struct gs_timer *timer)
{
    gs_resumable_wake(&gs_container_of(timer, struct job, timer)->resumable);
}

static void sleep_once(struct gs_resumable *resumable)
{
    struct job *job = job_of(resumable);
    if (job->step++) {
        gs_resumable_end(resumable);
        free(job);
        return;
    }
    gs_timer_init(&job->timer, gs_threads_loop(), on_timer);
    MUST_EQ(gs_timer_start(&job->timer, after(GS_MILLISECOND)), 0);
    gs_resumable_set_external(resumable, true);
}

THREAD_TEST(run_ends_after_a_resumable_that_waits_for_its_timer, run_both)
{
    atomic_int left = 1;
    MUST_EQ(gs_resumable_start(&job_new(sleep_once, -1, &left)->resumable, 0), 0);
}

static void wait_for_nothing(struct gs_resumable *resumable)
{
    (void)resumable;
}

static void *leave_a_stranded_one(void *resumable)
{
    gs_resumable_init(resumable, wait_for_nothing);
    MUST_EQ(gs_resumable_start(resumable, 0), 0);
    return NULL;
}

TEST(resumable_that_nothing_can_wake_is_a_deadlock)
{
    struct gs_resumable resumable;
    const struct gs_threads_options options = {.is_silent = true};
    CHECK_EQ(gs_threads_run(&options, leave_a_stranded_one, &resumable, NULL), -EDEADLK);
    CHECK_EQ(gs_threads_worker(), 0);
}
