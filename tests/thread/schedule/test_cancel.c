#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

static struct gs_semaphore semaphore;
static struct gs_mutex mutex;
static int key = -1;

static void *wait_semaphore(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gs_semaphore_wait(&semaphore, GS_NEVER);
}

static void *sleep_canceled(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gs_thread_sleep(after(60 * GS_SECOND));
}

static void *park_canceled(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gs_thread_park(GS_NEVER);
}

static void *read_canceled(void *fds)
{
    char byte;
    return (void *)(intptr_t)gs_read(*(int *)fds, &byte, 1, GS_NEVER);
}

THREAD_TEST(cancel_ends_every_kind_of_wait, run_both)
{
    int fds[2];
    MUST_EQ(gs_sys_pipe2(fds, 0), 0);
    gs_thread_fn *fns[] = {wait_semaphore, sleep_canceled, park_canceled, read_canceled};
    for (int i = 0; i < 8; i++) {
        struct gs_thread *thread = spawn(fns[i / 2], fds);
        if (i % 2) /* let the thread run before it is canceled */
            MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        gs_thread_cancel(thread);
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
    }
    gs_close(fds[0]);
    gs_close(fds[1]);
}

static void *shielded(void *unused)
{
    (void)unused;
    MUST(gs_thread_set_cancelable(false));
    while (!gs_thread_is_canceled())
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST(!gs_thread_set_cancelable(true));
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_mutex_unlock(&mutex);
    return (void *)(intptr_t)gs_thread_sleep(after(60 * GS_SECOND));
}

THREAD_TEST(cancellation_is_delayed_while_disabled_and_never_interrupts_a_mutex, run_both)
{
    struct gs_thread *thread = spawn(shielded, NULL);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_thread_cancel(thread);
    MUST_EQ(gs_thread_sleep(after(10 * GS_MILLISECOND)), 0);
    gs_mutex_unlock(&mutex);
    MUST_EQ((intptr_t)join(thread), -ECANCELED);
}

THREAD_TEST(all_but_the_caller_are_canceled, run_both)
{
    struct gs_thread *threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(i ? sleep_canceled : wait_semaphore, NULL);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_threads_cancel_all();
    for (int i = 0; i < 3; i++)
        MUST_EQ((intptr_t)join(threads[i]), -ECANCELED);
    MUST(!gs_thread_is_canceled());
}

/* ---- All threads, while others start and end ---- */

/* As many threads may be unfinished before no more are spawned: those that are canceled end, so
 * that spawns go on until the end. */
#define UNFINISHED_MAX 4000

static atomic_uint begun, unfinished;

THREAD(park_canceled_for_ever)
{
    while (!gs_thread_is_canceled())
        (void)!gs_thread_park(GS_NEVER);
    atomic_fetch_sub(&unfinished, 1);
}

static void *end_at_once(void *unused)
{
    atomic_fetch_sub(&unfinished, 1);
    return unused;
}

/* After this thread was canceled, it cancels the threads that it spawns. */
THREAD(spawn_until_canceled)
{
    while (!gs_thread_is_canceled()) {
        if (atomic_load(&unfinished) >= UNFINISHED_MAX) {
            gs_thread_yield();
            continue;
        }
        const struct gs_thread_attributes attributes = {.stack_size = 1000,
                                                        .migrates = atomic_load(&begun) % 2};
        struct gs_thread *thread;
        atomic_fetch_add(&unfinished, 2);
        MUST_EQ(gs_thread_spawn(NULL, end_at_once, NULL, NULL), 0);
        MUST_EQ(gs_thread_spawn(&attributes, park_canceled_for_ever, NULL, &thread), 0);
        if (gs_thread_is_canceled())
            gs_thread_cancel(thread);
        gs_thread_detach(thread);
        atomic_fetch_add(&begun, 1);
        gs_thread_yield();
    }
}

THREAD_TEST(no_thread_is_missed_when_all_are_canceled_while_others_spawn, run_on_three)
{
    for (int round = 0; round < (IS_EMULATED ? 2 : 20); round++) {
        struct gs_thread *threads[4];
        atomic_store(&begun, 0);
        /* These threads are canceled after those with small stacks, and before the threads that
         * spawn more of those. */
        atomic_fetch_add(&unfinished, IS_EMULATED ? 50 : 1000);
        for (int i = 0; i < (IS_EMULATED ? 50 : 1000); i++)
            MUST_EQ(gs_thread_spawn(NULL, park_canceled_for_ever, NULL, NULL), 0);
        for (unsigned i = 0; i < 4; i++) {
            const struct gs_thread_attributes attributes = {.worker = i % 3 + 1};
            MUST_EQ(gs_thread_spawn(&attributes, spawn_until_canceled, NULL, &threads[i]), 0);
        }
        while (atomic_load(&begun) < 50)
            gs_thread_yield();
        gs_threads_cancel_all();
        for (int i = 0; i < 4; i++)
            join(threads[i]);
    }
}

/* ---- Threads on stacks of the caller ---- */

static atomic_uint spawners;

static void *end_immediately(void *result)
{
    return result;
}

static void *spawn_on_own_stacks(void *worker)
{
    enum { SIZE = 128 << 10, SPAWNS = IS_EMULATED ? 20 : 1000 };
    gs_thread_set_cancelable(false);
    for (int i = 0; i < SPAWNS; i++) {
        struct gs_thread_attributes attributes = {.stack_size = SIZE,
                                                  .worker = (unsigned)(uintptr_t)worker};
        struct gs_thread *thread;
        attributes.stack = malloc(SIZE);
        MUST(attributes.stack);
        MUST_EQ(gs_thread_spawn(&attributes, end_immediately, &thread, &thread), 0);
        MUST(join(thread) == &thread);
        memset(attributes.stack, 0xa5, SIZE);
        free(attributes.stack);
    }
    atomic_fetch_sub(&spawners, 1);
    return NULL;
}

/* Cancel all threads as long as one thread on each of the other workers spawns. */
static void cancel_while_others_spawn(gs_thread_fn *spawn_many)
{
    struct gs_thread *threads[2];
    gs_thread_set_cancelable(false);
    atomic_store(&spawners, 2);
    for (uintptr_t i = 0; i < 2; i++) {
        const struct gs_thread_attributes attributes = {.worker = (unsigned)i + 2};
        MUST_EQ(gs_thread_spawn(&attributes, spawn_many, (void *)(i + 2), &threads[i]), 0);
    }
    while (atomic_load(&spawners)) {
        gs_threads_cancel_all();
        gs_thread_yield();
    }
    for (int i = 0; i < 2; i++)
        join(threads[i]);
}

THREAD_TEST(threads_on_stacks_of_the_caller_end_while_all_are_canceled, run_on_three)
{
    cancel_while_others_spawn(spawn_on_own_stacks);
}

/* ---- Threads whose control blocks are reused at once ---- */

THREAD(spawn_and_join)
{
    gs_thread_set_cancelable(false);
    for (int i = 0; i < (IS_EMULATED ? 100 : 2000); i++) {
        const struct gs_thread_attributes attributes = {.stack_size = 1000, .migrates = i % 2};
        struct gs_thread *thread;
        MUST_EQ(gs_thread_spawn(&attributes, end_immediately, &thread, &thread), 0);
        MUST(join(thread) == &thread);
    }
    atomic_fetch_sub(&spawners, 1);
}

THREAD_TEST(control_blocks_are_reused_while_all_threads_are_canceled, run_on_three)
{
    cancel_while_others_spawn(spawn_and_join);
}

THREAD(spawn_join_and_trim)
{
    gs_thread_set_cancelable(false);
    for (int i = 0; i < (IS_EMULATED ? 20 : 500); i++) {
        struct gs_thread *thread;
        MUST_EQ(gs_thread_spawn(NULL, end_immediately, &thread, &thread), 0);
        MUST(join(thread) == &thread);
        gs_threads_trim();
    }
    atomic_fetch_sub(&spawners, 1);
}

THREAD_TEST(control_blocks_are_given_back_while_all_threads_are_canceled, run_on_three)
{
    cancel_while_others_spawn(spawn_join_and_trim);
}

/* ---- A migrating thread, while another worker takes it ---- */

enum { MOVES = GS_ASAN || GS_TSAN || IS_EMULATED ? 1000 : 10000, CANCELERS = 2 };

/* No connection will arrive: a lost cancellation causes -ETIMEDOUT. */
static int wait_long(unsigned kind)
{
    struct gs_semaphore nobody_posts = {0};
    struct gs_cond nobody_signals = {0};
    uint64_t deadline_ns = after(60 * GS_SECOND);
    switch (kind % 4) {
    case 0:
        return gs_thread_park(deadline_ns);
    case 1:
        return gs_semaphore_wait(&nobody_posts, deadline_ns);
    case 2:
        return gs_cond_wait(&nobody_signals, NULL, deadline_ns);
    default:
        return gs_thread_sleep(deadline_ns);
    }
}

struct move {
    struct gs_semaphore go;
    unsigned kind;
};

/* The thread is made ready and canceled at the same time: it resumes on any worker, and its next
 * wait is interrupted. */
static void *move_and_wait(void *argument)
{
    struct move *move = argument;
    int err = gs_semaphore_wait(&move->go, after(60 * GS_SECOND));
    MUST(!err || err == -ECANCELED);
    MUST_EQ(wait_long(move->kind), -ECANCELED);
    MUST(gs_thread_is_canceled());
    MUST_EQ(wait_long(move->kind + 1), -ECANCELED);
    return NULL;
}

static void spin(unsigned turns)
{
    for (volatile unsigned i = 0; i < turns; i++)
        ;
}

THREAD(cancel_moving)
{
    const struct gs_thread_attributes attributes = {.migrates = true};
    for (unsigned i = 0; i < MOVES; i++) {
        struct move move = {.kind = i};
        struct gs_thread *thread;
        MUST_EQ(gs_thread_spawn(&attributes, move_and_wait, &move, &thread), 0);
        gs_thread_yield();
        gs_semaphore_post(&move.go);
        spin(i * 7919 % 60000);
        gs_thread_cancel(thread);
        join(thread);
    }
}

THREAD_TEST(thread_canceled_while_another_worker_takes_it_is_interrupted_in_its_next_wait,
            run_on_three)
{
    struct gs_thread *cancelers[CANCELERS];
    for (unsigned i = 0; i < CANCELERS; i++) {
        const struct gs_thread_attributes attributes = {.worker = i + 1};
        MUST_EQ(gs_thread_spawn(&attributes, cancel_moving, NULL, &cancelers[i]), 0);
    }
    for (unsigned i = 0; i < CANCELERS; i++)
        join(cancelers[i]);
}

static void log_argument(void *letter)
{
    log_call(letter);
}

static void *clean_up(void *unused)
{
    struct gs_cleanup a, b, c, d;
    (void)unused;
    gs_cleanup_push(&a, log_argument, "a");
    gs_cleanup_push(&b, log_argument, "b");
    gs_cleanup_push(&c, log_argument, "c");
    gs_cleanup_push(&d, log_argument, "d");
    gs_cleanup_pop(true);
    gs_cleanup_pop(false);
    gs_thread_exit(NULL);
}

THREAD_TEST(cleanups_run_last_pushed_first, run_both)
{
    clear_calls();
    join(spawn(clean_up, NULL));
    MUST(!strcmp(calls, "dba"));
}

static void *use_value(void *letter)
{
    MUST(!gs_thread_value(key));
    MUST_EQ(gs_thread_set_value(key, letter), 0);
    gs_thread_yield();
    MUST(gs_thread_value(key) == letter);
    return NULL;
}

THREAD_TEST(values_belong_to_their_thread_and_are_destroyed_with_it, run_both)
{
    clear_calls();
    if (key < 0)
        key = gs_thread_key_new(log_argument);
    MUST(key >= 0);
    struct gs_thread *a = spawn(use_value, "a");
    join(a);
    join(spawn(use_value, "b"));
    MUST(!strcmp(calls, "ab"));
    MUST_EQ(gs_thread_set_value(GS_THREAD_KEYS, NULL), -EINVAL);
}
