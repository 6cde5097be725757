/* Private stacks that are given back while their threads wait: which waits, and which threads. */
#include "tests/thread/stack/stack_away.h"
#include "thread/stack/stacks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define IS_SANITIZED (GS_ASAN + GS_TSAN > 0)

/* With them, a stack has at most 2 KiB to keep, also in a build that is not optimised. */
enum { LOCALS = 40, ROUNDS = 3 };

/* ---- Each kind of wait ---- */

static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;
static struct gs_semaphore semaphore;
static struct gs_wait_group group;
static struct gs_barrier barrier;
static struct gs_channel *channel, *full;
static struct gs_thread *target;
static atomic_bool has_been_signaled;
static int pair[2];
static long item, sent = 5;

static void sleep_some(void)
{
    MUST_EQ(gs_thread_sleep(GS_NEVER), -ECANCELED);
}

static void park(void)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
}

static void receive_byte(void)
{
    char byte;
    MUST_EQ(gs_recv(pair[0], &byte, 1, 0, GS_NEVER), 1);
    MUST_EQ(byte, 'x');
}

static void lock_mutex(void)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_mutex_unlock(&mutex);
}

static void wait_at_condition(void)
{
    MUST_EQ(gs_cond_wait(&cond, NULL, GS_NEVER), 0);
    atomic_store(&has_been_signaled, true);
}

static void read_lock(void)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    gs_rwlock_unlock(&rwlock);
}

static void take_permit(void)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
}

static void wait_for_group(void)
{
    MUST_EQ(gs_wait_group_wait(&group, GS_NEVER), 0);
}

static void meet(void)
{
    MUST(gs_barrier_wait(&barrier, GS_NEVER) >= 0);
}

static void receive_item(void)
{
    MUST_EQ(gs_channel_receive(channel, &item, GS_NEVER), 0);
}

static void send_item(void)
{
    MUST_EQ(gs_channel_send(full, &sent, GS_NEVER), 0);
}

static void join_target(void)
{
    MUST(join(target) == &item);
}

static void time_out(void)
{
    MUST_EQ(gs_thread_park(after(30 * GS_MILLISECOND)), -ETIMEDOUT);
}

static void (*const kinds[])(void) = {
    sleep_some,     park, receive_byte, lock_mutex, wait_at_condition, read_lock, take_permit,
    wait_for_group, meet, receive_item, send_item,  join_target,       time_out,
};
enum { KINDS = sizeof kinds / sizeof *kinds, PARKED = 1, SLEEPS = 0 };

/* The contents of its stack, and where it is, are the same after the wait. */
static void *wait_with_locals(void *kind)
{
    volatile uintptr_t locals[LOCALS];
    volatile uintptr_t *volatile at = locals;
    for (int i = 0; i < LOCALS; i++)
        locals[i] = (uintptr_t)&locals[i] * 3 + (uintptr_t)kind;
    kinds[(intptr_t)kind]();
    MUST(at == locals);
    for (int i = 0; i < LOCALS; i++)
        MUST_EQ(locals[i], (uintptr_t)&locals[i] * 3 + (uintptr_t)kind);
    return kind;
}

static void *return_late(void *unused)
{
    (void)unused;
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return &item;
}

static void prepare_objects(void)
{
    static const long other = 7;
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    MUST_EQ(gs_channel_new(sizeof(long), 0, &channel), 0);
    MUST_EQ(gs_channel_new(sizeof(long), 1, &full), 0);
    MUST_EQ(gs_channel_send(full, &other, GS_NEVER), 0);
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    gs_wait_group_add(&group, 1);
    barrier = (struct gs_barrier){.threads = 2};
    atomic_store(&has_been_signaled, false);
    target = spawn(return_late, NULL);
}

/* The objects remember the other wake-ups, but a signal is lost if the thread does not wait yet,
 * because its worker waits for a CPU. */
static void signal_condition(void)
{
    gs_cond_signal(&cond);
    while (!atomic_load(&has_been_signaled)) {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        gs_cond_signal(&cond);
    }
}

static void wake_all(struct gs_thread **threads)
{
    long received = 0;
    gs_thread_cancel(threads[SLEEPS]);
    gs_thread_unpark(threads[PARKED]);
    MUST_EQ(gs_send_all(pair[1], "x", 1, GS_NEVER), 1);
    gs_mutex_unlock(&mutex);
    signal_condition();
    gs_rwlock_unlock(&rwlock);
    gs_semaphore_post(&semaphore);
    gs_wait_group_done(&group);
    MUST(gs_barrier_wait(&barrier, GS_NEVER) >= 0);
    MUST_EQ(gs_channel_send(channel, &(long){42}, GS_NEVER), 0);
    MUST_EQ(gs_channel_receive(full, &received, GS_NEVER), 0);
    MUST_EQ(received, 7);
    gs_thread_unpark(target);
}

static void wait_in_each_kind(const struct gs_thread_attributes *attributes)
{
    struct gs_thread *threads[KINDS];
    prepare_objects();
    for (intptr_t i = 0; i < KINDS; i++)
        threads[i] = spawn_as(attributes, wait_with_locals, (void *)i);
    /* One may have timed out already, and one wait by io_uring, which uses its stack. */
    wait_until_away(KINDS - 2);
    MUST(stats_now().away_bytes >= (KINDS - 2) * sizeof(uintptr_t));
    wake_all(threads);
    for (intptr_t i = 0; i < KINDS; i++)
        MUST_EQ((intptr_t)join(threads[i]), i);
    MUST_EQ(item, 42);
    gs_close(pair[0]);
    gs_close(pair[1]);
    gs_channel_free(channel);
    gs_channel_free(full);
}

static void *keep_all(void *unused)
{
    struct gs_thread *thread = spawn_as(&private, wait_with_locals, (void *)PARKED);
    MUST_EQ(gs_thread_sleep(after(200 * GS_MILLISECOND)), 0);
    MUST_EQ(stats_now().away, 0);
    gs_thread_unpark(thread);
    join(thread);
    return unused;
}

/* In a process that has no reservation of addresses. */
static void run_limited(void)
{
    const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    MUST_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    const struct gs_threads_options options = {.workers = 1, .give_back_ns = GS_MILLISECOND};
    MUST_EQ(gs_threads_run(&options, keep_all, NULL, NULL), 0);
}

TEST(limit_of_the_addresses_keeps_all_stacks)
{
    skip_if_emulated();
    if (!IS_SANITIZED)
        CHECK_EQ(in_child(run_limited), 0);
}

static void *wait_in_each_kind_often(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        wait_in_each_kind(&private);
        wait_in_each_kind(&mobile);
    }
    return unused;
}

TEST(stack_has_the_same_contents_at_the_same_addresses_after_each_kind_of_wait)
{
    run_giving_back_both(wait_in_each_kind_often);
}

/* ---- Waits with arguments that are on the stack ---- */

static _Atomic(struct gs_thread *) waiting_thread;

static void *receive_on_stack(void *unused)
{
    long local = 1;
    MUST_EQ(gs_channel_receive(channel, &local, GS_NEVER), 0);
    MUST_EQ(local, 42);
    return unused;
}

static void *finish_group(void *own)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    gs_wait_group_done(own);
    return own;
}

static void *wait_for_own_group(void *unused)
{
    struct gs_wait_group own = {0};
    gs_wait_group_add(&own, 1);
    struct gs_thread *finishing = spawn(finish_group, &own);
    atomic_store(&waiting_thread, finishing);
    MUST_EQ(gs_wait_group_wait(&own, GS_NEVER), 0);
    join(finishing);
    return unused;
}

/* It may not exist yet, because the worker of the thread that spawns it waits for a CPU. */
static void unpark_waiting_thread(void)
{
    struct gs_thread *thread;
    while (!(thread = atomic_load(&waiting_thread)))
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_thread_unpark(thread);
}

static void *select_two(void *unused)
{
    long local = 1;
    struct gs_select each[] = {{.channel = channel, .receive = &local}, {.channel = full}};
    each[1].receive = &local;
    MUST_EQ(gs_select(each, 2, GS_NEVER), 0);
    MUST_EQ(local, 42);
    return unused;
}

/* Items are elsewhere meanwhile. The stack with the object at which its own thread waits stays. */
static void *use_stacks_while_waiting(void *unused)
{
    for (int i = 0; i < 2; i++) {
        const struct gs_thread_attributes *attributes = i ? &mobile : &private;
        MUST_EQ(gs_channel_new(sizeof(long), 0, &channel), 0);
        MUST_EQ(gs_channel_new(sizeof(long), 0, &full), 0);
        atomic_store(&waiting_thread, NULL);
        struct gs_thread *threads[] = {spawn_as(attributes, receive_on_stack, NULL),
                                       spawn_as(attributes, select_two, NULL),
                                       spawn_as(attributes, wait_for_own_group, NULL),
                                       spawn_as(attributes, wait_with_locals, (void *)PARKED)};
        for (int pass = 0; pass < 3; pass++) {
            wait_until_away(3);
            MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
        }
        MUST(GS_ASAN || stats_now().away == 3); /* it keeps variables on stacks of its own */
        for (int n = 0; n < 2; n++)
            MUST_EQ(gs_channel_send(channel, &(long){42}, GS_NEVER), 0);
        unpark_waiting_thread();
        gs_thread_unpark(threads[3]);
        for (int n = 0; n < 4; n++)
            join(threads[n]);
        gs_channel_free(channel);
        gs_channel_free(full);
    }
    return unused;
}

TEST(stack_with_an_item_goes_away_and_one_with_an_object_stays)
{
    run_giving_back_both(use_stacks_while_waiting);
}

/* ---- Threads that keep their stacks ---- */

static void *keep_stacks(void *unused)
{
    static char own[1 << 16] __attribute__((aligned(64)));
    const struct gs_thread_attributes kept[] = {
        {.name = "no promise"},
        {.stack = own, .stack_size = sizeof own, .stack_is_shared = true},
        {.stack_size = 8 << 20, .stack_is_shared = true},
        {.stack_size = 1 << 20, .stack_is_shared = true},
    };
    enum { KEPT = sizeof kept / sizeof *kept };
    struct gs_thread *threads[KEPT + 1];
    for (int i = 0; i < KEPT; i++)
        threads[i] = spawn_as(&kept[i], wait_with_locals, (void *)PARKED);
    threads[KEPT] = spawn_as(&private, wait_with_locals, (void *)PARKED);
    wait_until_away(1);
    MUST_EQ(gs_thread_sleep(after(10 * GS_MILLISECOND)), 0);
    MUST_EQ(stats_now().away, 1);
    for (int i = 0; i <= KEPT; i++)
        gs_thread_unpark(threads[i]);
    for (int i = 0; i <= KEPT; i++)
        join(threads[i]);
    return unused;
}

TEST(threads_without_the_promise_or_with_other_stacks_keep_them)
{
    run_giving_back_both(keep_stacks);
}

TEST(option_never_keeps_all_stacks)
{
    const struct gs_threads_options options = {.workers = 1, .give_back_ns = GS_NEVER};
    CHECK_EQ(gs_threads_run(&options, keep_all, NULL, NULL), 0);
}

/* ---- Races ---- */

enum { RACERS = GS_TSAN ? 12 : 40, RACE_MS = 300 };

static struct gs_thread *racers[RACERS];
static atomic_bool is_over;

static struct gs_cond race_cond;

/* Waits of all lengths, which end in all ways. */
static int wait_somehow(unsigned number)
{
    uint64_t deadline_ns = after((uint64_t)(number * 37 % 5) * 400 * GS_MICROSECOND);
    switch (number % 5) {
    case 0:
        return gs_thread_sleep(deadline_ns);
    case 1:
        return gs_semaphore_wait(&semaphore, deadline_ns);
    case 2:
        return gs_cond_wait(&race_cond, NULL, deadline_ns);
    default:
        return gs_thread_park(deadline_ns);
    }
}

static void *race(void *argument)
{
    volatile uintptr_t locals[LOCALS];
    for (unsigned n = (unsigned)(uintptr_t)argument; !atomic_load(&is_over); n++) {
        for (int i = 0; i < LOCALS; i++)
            locals[i] = (uintptr_t)&locals[i] * n;
        int err = wait_somehow(n);
        MUST(!err || err == -ETIMEDOUT || err == -ECANCELED);
        for (int i = 0; i < LOCALS; i++)
            MUST_EQ(locals[i], (uintptr_t)&locals[i] * n);
        if (err == -ECANCELED)
            return argument;
    }
    return argument;
}

static void *unpark_often(void *unused)
{
    while (!atomic_load(&is_over)) {
        for (int i = 0; i < RACERS; i += 2)
            gs_thread_unpark(racers[i]);
        usleep(700);
    }
    return unused;
}

static void *race_all(void *attributes)
{
    pthread_t nonworker;
    atomic_store(&is_over, false);
    for (uintptr_t i = 0; i < RACERS; i++)
        racers[i] = spawn_as(attributes, race, (void *)i);
    MUST_EQ(pthread_create(&nonworker, NULL, unpark_often, NULL), 0);
    uint64_t end_ns = after(RACE_MS * GS_MILLISECOND);
    for (unsigned n = 0; gs_clock_now() < end_ns || !stats_now().spawned; n++) {
        gs_semaphore_post(&semaphore);
        gs_cond_broadcast(&race_cond);
        gs_thread_unpark(racers[n % RACERS]);
        MUST_EQ(gs_thread_sleep(after((uint64_t)(n % 4) * 500 * GS_MICROSECOND)), 0);
    }
    for (int i = 0; i < RACERS; i += 3)
        gs_thread_cancel(racers[i]);
    atomic_store(&is_over, true);
    MUST_EQ(pthread_join(nonworker, NULL), 0);
    for (uintptr_t i = 0; i < RACERS; i++)
        MUST(join(racers[i]) == (void *)i);
    return NULL;
}

/* Nearly each wait is long enough. */
static void race_with(unsigned workers, const struct gs_thread_attributes *attributes)
{
    const struct gs_threads_options options = {.workers = workers, .give_back_ns = 1};
    semaphore = (struct gs_semaphore){.count = 0};
    CHECK_EQ(gs_threads_run(&options, race_all, (void *)attributes, NULL), 0);
    CHECK_EQ(stats_now().away, 0);
}

TEST(stacks_may_go_away_while_their_threads_are_woken_canceled_and_timed_out)
{
    race_with(1, &private);
    race_with(3, &private);
    race_with(3, &mobile);
}
