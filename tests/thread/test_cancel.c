#include "tests/thread/fixture.h"

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

static void *cancel_all_kinds(void *unused)
{
    int fds[2];
    (void)unused;
    MUST_EQ(gs_sys_pipe2(fds, 0), 0);
    gs_thread_fn *fns[] = {wait_semaphore, sleep_canceled, park_canceled, read_canceled};
    for (int i = 0; i < 8; i++) {
        struct gs_thread *thread = spawn(fns[i / 2], fds);
        if (i % 2) /* else before it has run */
            MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        gs_thread_cancel(thread);
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
    }
    gs_close(fds[0]);
    gs_close(fds[1]);
    return NULL;
}

TEST(cancel_ends_every_kind_of_wait)
{
    run_both(cancel_all_kinds);
}

static void *shielded(void *unused)
{
    (void)unused;
    MUST(gs_thread_set_cancelable(false));
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
    MUST(gs_thread_is_canceled());
    MUST(!gs_thread_set_cancelable(true));
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_mutex_unlock(&mutex);
    return (void *)(intptr_t)gs_thread_sleep(after(60 * GS_SECOND));
}

static void *cancel_shielded(void *unused)
{
    (void)unused;
    struct gs_thread *thread = spawn(shielded, NULL);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_thread_cancel(thread);
    MUST_EQ(gs_thread_sleep(after(10 * GS_MILLISECOND)), 0);
    gs_mutex_unlock(&mutex);
    MUST_EQ((intptr_t)join(thread), -ECANCELED);
    return NULL;
}

TEST(cancel_waits_until_it_is_let_in_and_never_interrupts_a_mutex)
{
    run_both(cancel_shielded);
}

static void *cancel_the_rest(void *unused)
{
    struct gs_thread *threads[3];
    (void)unused;
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(i ? sleep_canceled : wait_semaphore, NULL);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_threads_cancel_all();
    for (int i = 0; i < 3; i++)
        MUST_EQ((intptr_t)join(threads[i]), -ECANCELED);
    MUST(!gs_thread_is_canceled());
    return NULL;
}

TEST(all_but_the_caller_are_cancelled)
{
    run_both(cancel_the_rest);
}

/* ---- All, while others come and go ---- */

static atomic_uint begun;

static void *park_canceled_for_ever(void *unused)
{
    while (!gs_thread_is_canceled())
        (void)!gs_thread_park(GS_NEVER);
    return unused;
}

static void *end_at_once(void *unused)
{
    return unused;
}

/* What it spawns after it was cancelled itself, it cancels. */
static void *spawn_until_canceled(void *unused)
{
    while (!gs_thread_is_canceled()) {
        const struct gs_thread_attributes attributes = {.stack_size = 1000,
                                                        .migrates = atomic_load(&begun) % 2};
        struct gs_thread *thread;
        MUST_EQ(gs_thread_spawn(NULL, end_at_once, NULL, NULL), 0);
        MUST_EQ(gs_thread_spawn(&attributes, park_canceled_for_ever, NULL, &thread), 0);
        if (gs_thread_is_canceled())
            gs_thread_cancel(thread);
        gs_thread_detach(thread);
        atomic_fetch_add(&begun, 1);
        gs_thread_yield();
    }
    return unused;
}

static void *cancel_among_spawns(void *unused)
{
    for (int round = 0; round < (IS_EMULATED ? 2 : 20); round++) {
        struct gs_thread *threads[4];
        atomic_store(&begun, 0);
        /* To be cancelled after the small stacks, and before those who go on spawning these. */
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
    return unused;
}

TEST(none_is_missed_when_all_are_cancelled_while_others_spawn)
{
    run_with(3, cancel_among_spawns);
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

static void *run_cleanups(void *unused)
{
    (void)unused;
    clear_calls();
    join(spawn(clean_up, NULL));
    MUST(!strcmp(calls, "dba"));
    return NULL;
}

TEST(cleanups_run_last_pushed_first)
{
    run_both(run_cleanups);
}

static void *use_value(void *letter)
{
    MUST(!gs_thread_value(key));
    MUST_EQ(gs_thread_set_value(key, letter), 0);
    gs_thread_yield();
    MUST(gs_thread_value(key) == letter);
    return NULL;
}

static void *use_values(void *unused)
{
    (void)unused;
    clear_calls();
    if (key < 0)
        key = gs_thread_key_new(log_argument);
    MUST(key >= 0);
    struct gs_thread *a = spawn(use_value, "a");
    join(a);
    join(spawn(use_value, "b"));
    MUST(!strcmp(calls, "ab"));
    MUST_EQ(gs_thread_set_value(GS_THREAD_KEYS, NULL), -EINVAL);
    return NULL;
}

TEST(values_belong_to_their_thread_and_are_destroyed_with_it)
{
    run_both(use_values);
}
