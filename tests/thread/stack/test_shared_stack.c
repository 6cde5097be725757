/* Threads that share stacks: what is on them, and where, is the same after each wait. */
#include "tests/thread/stack/shared.h"
#include "thread/context/valgrind.h"

enum { LOCALS = 40, ROUNDS = 3 };

/* ---- Which threads share stacks ---- */

static void *park_and_return(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

static void check_shares(const struct gs_thread_attributes *attributes, bool is_shared)
{
    struct gs_thread *thread = spawn_as(attributes, park_and_return, NULL);
    CHECK_EQ(thread->stack_class == CLASS_SHARED, is_shared);
    gs_thread_unpark(thread);
    join(thread);
}

static void *spawn_one(void *unused)
{
    check_shares(&shared, false);
    return unused;
}

/* In a process that has no reservation of addresses. */
static void run_limited(void)
{
    const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    MUST_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    MUST_EQ(gs_threads_run(NULL, spawn_one, NULL, NULL), 0);
}

TEST(where_addresses_are_limited_each_thread_has_its_own_stack)
{
    if (GS_ASAN + GS_TSAN == 0 && !IS_EMULATED)
        CHECK_EQ(in_child(run_limited), 0);
}

/* What is mapped can be used still: but no test before this one has used such stacks. */
static void limit_memory(bool is_limited)
{
    struct rlimit limit;
    MUST_EQ(getrlimit(RLIMIT_DATA, &limit), 0);
    limit.rlim_cur = is_limited ? 1 : limit.rlim_max; /* 0 would be special */
    MUST_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
}

static void *spawn_again(void *unused)
{
    const struct gs_thread_attributes small = {.stack_size = 16 << 10, .stack_is_shared = true};
    struct gs_thread *thread;
    limit_memory(true);
    MUST_EQ(gs_thread_spawn(&small, park_and_return, NULL, &thread), -ENOMEM);
    limit_memory(false);
    thread = spawn_as(&small, park_and_return, NULL);
    limit_memory(true);
    gs_thread_unpark(thread);
    join(thread);
    return unused;
}

static void run_again(void)
{
    const struct gs_threads_options options = {.stack_size = 64 << 10};
    MUST_EQ(gs_threads_run(&options, spawn_again, NULL, NULL), 0);
}

TEST(worker_without_memory_for_a_stack_gets_one_later)
{
    if (GS_ASAN + GS_TSAN == 0 && !IS_EMULATED)
        CHECK_EQ(in_child(run_again), 0);
}

static void *spawn_each(void *unused)
{
    static char own[1 << 16] __attribute__((aligned(64)));
    const struct gs_thread_attributes others[] = {
        {.name = "no promise"},
        {.stack = own, .stack_size = sizeof own, .stack_is_shared = true},
        {.stack_size = 64 << 10, .stack_is_shared = true},
        {.stack_size = 8 << 20, .stack_is_shared = true},
    };
    const struct gs_thread_attributes sharing[] = {
        {.stack_is_shared = true},
        {.stack_size = 16 << 10, .stack_is_shared = true, .migrates = true},
        {.stack_size = 56 << 10, .stack_is_shared = true, .priority = GS_PRIORITY_HIGH},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_shares(&others[i], false);
    for (size_t i = 0; i < sizeof sharing / sizeof *sharing; i++)
        check_shares(&sharing[i], gs_stacks_can_be_shared());
    return unused;
}

TEST(threads_without_the_promise_or_with_other_stacks_have_their_own)
{
    run_sharing(1, 2, spawn_each);
}

/* The other tests pass without it, too. */
TEST(stacks_can_be_shared_unless_a_sanitizer_or_valgrind_must_know_each)
{
    struct rlimit addresses;
    run_sharing(1, 1, return_at_once);
    CHECK_EQ(getrlimit(RLIMIT_AS, &addresses), 0);
    if (addresses.rlim_cur == RLIM_INFINITY && !IS_EMULATED)
        CHECK_EQ(gs_stacks_can_be_shared(), GS_ASAN + GS_TSAN == 0 && !valgrind_is_running());
}

TEST(threads_of_a_run_with_larger_stacks_have_their_own)
{
    const struct gs_threads_options options = {.stack_size = 256 << 10};
    CHECK_EQ(gs_threads_run(&options, spawn_one, NULL, NULL), 0);
}

/* ---- The stacks of the workers ---- */

static unsigned free_stacks_of(unsigned worker)
{
    int class = gs_stacks_class(SHARED_STACK_SIZE);
    return gs_runtime.workers[worker]->free[class].count;
}

static void *spawn_some(void *attributes)
{
    struct gs_thread *threads[80];
    unsigned before = free_stacks_of(1);
    for (int i = 0; i < 80; i++)
        threads[i] = spawn_as(attributes, park_and_return, NULL);
    MUST_EQ(free_stacks_of(1), before);
    for (int i = 0; i < 80; i++) {
        gs_thread_unpark(threads[i]);
        join(threads[i]);
    }
    return attributes;
}

/* The threads of the first run leave free stacks. */
TEST(worker_that_gets_a_stack_from_another_gets_no_free_ones)
{
    static const struct gs_thread_attributes own = {.worker = 1},
                                             sharing = {.worker = 1, .stack_is_shared = true};
    const struct gs_threads_options options = {.workers = 2};
    CHECK_EQ(gs_threads_run(&options, spawn_some, (void *)&own, NULL), 0);
    CHECK_EQ(gs_threads_run(&options, spawn_some, (void *)&sharing, NULL), 0);
}

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

/* A function that makes a call. */
#define ACTION(name_, ...)                                                                         \
    static void name_(void)                                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

ACTION(sleep_some, MUST_EQ(gs_thread_sleep(GS_NEVER), -ECANCELED))
ACTION(park, MUST_EQ(gs_thread_park(GS_NEVER), 0))

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

ACTION(take_permit, MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0))
ACTION(wait_for_group, MUST_EQ(gs_wait_group_wait(&group, GS_NEVER), 0))
ACTION(meet, MUST(gs_barrier_wait(&barrier, GS_NEVER) >= 0))
ACTION(receive_item, MUST_EQ(gs_channel_receive(channel, &item, GS_NEVER), 0))
ACTION(send_item, MUST_EQ(gs_channel_send(full, &sent, GS_NEVER), 0))
ACTION(join_target, MUST(join(target) == &item))
ACTION(time_out, MUST_EQ(gs_thread_park(after(30 * GS_MILLISECOND)), -ETIMEDOUT))

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

/* With one stack for each worker, all but the last thread of a worker are evicted. */
static void wait_until_evicted(uint64_t before, uint64_t count)
{
    while (gs_stacks_can_be_shared() && stats_now().evictions < before + count)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

static void wait_in_each_kind(void)
{
    struct gs_thread *threads[KINDS];
    uint64_t before = stats_now().evictions;
    prepare_objects();
    for (intptr_t i = 0; i < KINDS; i++)
        threads[i] = spawn_as(&shared, wait_with_locals, (void *)i);
    wait_until_evicted(before, KINDS - 1 - 3); /* one may have timed out, and left its stack */
    MUST(stats_now().evicted_bytes >= stats_now().evictions * LOCALS * sizeof(uintptr_t));
    wake_all(threads);
    for (intptr_t i = 0; i < KINDS; i++)
        MUST_EQ((intptr_t)join(threads[i]), i);
    MUST_EQ(item, 42);
    gs_close(pair[0]);
    gs_close(pair[1]);
    gs_channel_free(channel);
    gs_channel_free(full);
}

static void *wait_in_each_kind_often(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        wait_in_each_kind();
    return unused;
}

TEST(stack_has_the_same_contents_at_the_same_addresses_after_each_kind_of_wait)
{
    run_sharing_each(wait_in_each_kind_often);
}

/* ---- Threads with much on their stacks ---- */

static void *wait_with_much(void *unused)
{
    volatile char much[6000];
    for (size_t i = 0; i < sizeof much; i++)
        much[i] = (char)i;
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    for (size_t i = 0; i < sizeof much; i++)
        MUST_EQ(much[i], (char)i);
    return unused;
}

static void *learn(void *unused)
{
    struct gs_thread *thread = spawn_as(&shared, wait_with_much, NULL);
    CHECK_EQ(thread->stack_class, CLASS_SHARED);
    gs_thread_yield();
    take_stack(0);
    CHECK_EQ(stats_now().misfits, 1);
    struct gs_thread *next = spawn_as(&shared, wait_with_much, NULL);
    CHECK(next->stack_class != CLASS_SHARED);
    gs_thread_unpark(thread);
    gs_thread_unpark(next);
    join(thread);
    join(next);
    return unused;
}

TEST(functions_that_wait_with_more_than_4_kib_get_stacks_of_their_own)
{
    if (gs_stacks_can_be_shared())
        run_sharing(1, 1, learn);
}

/* ---- Owners of mutexes ---- */

static atomic_bool is_locked;

static void *lock_and_park(void *unused)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    atomic_store(&is_locked, true);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(gs_mutex_lock(&mutex, 0), -EDEADLK);
    gs_mutex_unlock(&mutex);
    return unused;
}

static void *lock_in_vain(void *unused)
{
    MUST_EQ(gs_mutex_lock(&mutex, 0), -ETIMEDOUT);
    return unused;
}

/* All of them on one stack: their variables have the same addresses. Another worker may run them
 * later. */
static void *lock_by_several(void *unused)
{
    atomic_store(&is_locked, false);
    struct gs_thread *owner = spawn_as(&shared, lock_and_park, NULL);
    while (!atomic_load(&is_locked))
        gs_thread_yield();
    join(spawn_as(&shared, lock_in_vain, NULL));
    MUST_EQ(gs_mutex_lock(&mutex, 0), -ETIMEDOUT);
    gs_thread_unpark(owner);
    join(owner);
    MUST_EQ(gs_mutex_lock(&mutex, 0), 0);
    gs_mutex_unlock(&mutex);
    return unused;
}

TEST(mutex_knows_which_thread_of_a_stack_owns_it)
{
    mutex = (struct gs_mutex){0};
    run_sharing_each(lock_by_several);
}

/* ---- Many ---- */

enum { MANY = GS_ASAN || GS_TSAN || IS_EMULATED ? 300 : 20000, TURNS = 4 };

static struct gs_semaphore permits;

static void *use_different_sizes(void *argument)
{
    size_t size = (uintptr_t)argument % 37 * 24 + 8;
    volatile uint8_t *bytes = __builtin_alloca(size);
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)((uintptr_t)argument + i);
        if (turn % 2)
            gs_thread_yield();
        else
            MUST_EQ(gs_semaphore_wait(&permits, GS_NEVER), 0);
        for (size_t i = 0; i < size; i++)
            MUST_EQ(bytes[i], (uint8_t)((uintptr_t)argument + i));
    }
    return argument;
}

static void *run_many(void *unused)
{
    struct gs_thread **threads = calloc(MANY, sizeof *threads);
    permits = (struct gs_semaphore){.count = 0};
    for (uintptr_t i = 0; i < MANY; i++)
        threads[i] = spawn_as(&shared, use_different_sizes, (void *)i);
    gs_thread_yield();
    for (int i = 0; i < MANY * TURNS / 2; i++)
        gs_semaphore_post(&permits);
    for (uintptr_t i = 0; i < MANY; i++)
        MUST(join(threads[i]) == (void *)i);
    free(threads);
    return unused;
}

TEST(many_threads_of_all_sizes_share_few_stacks)
{
    run_sharing(1, SHARED_STACKS, run_many);
    run_sharing(3, 5, run_many);
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

static void *race_on_one(void *unused)
{
    static const struct gs_thread_attributes on_one = {.worker = 1, .stack_is_shared = true};
    semaphore = (struct gs_semaphore){.count = 0};
    (void)unused;
    return race_all((void *)&on_one);
}

static void *race_on_any(void *unused)
{
    semaphore = (struct gs_semaphore){.count = 0};
    (void)unused;
    return race_all((void *)&shared);
}

TEST(threads_are_evicted_while_they_are_woken_canceled_and_timed_out)
{
    run_sharing(1, 2, race_on_any);
    run_sharing(3, 1, race_on_any);
    run_sharing(3, 2, race_on_one);
}
