/* Tests that an object may be freed or reused as soon as the call in which its owner waited has
 * returned.
 *
 * In each round an owner waits at a new object, and helpers on other workers wake it, each with one
 * call, which must not access the object once the owner can continue. The object is on the owner's
 * stack, where the next call overwrites it, or on the heap, where it is poisoned and either freed
 * at once, or kept for some rounds to detect writes. One owner stays on its worker, another one
 * migrates. GOSSAMER_LIFETIMES sets the number of rounds for each kind; by default, a time limit
 * ends them. With GS_SHARED_STACKS, all owners and helpers of a worker share one stack, and objects
 * are on the heap. */
#ifndef GS_TESTS_THREAD_LIFETIMES_H
#define GS_TESTS_THREAD_LIFETIMES_H

#include "base/sanitized.h"
#include "tests/thread/fixture.h"
#include "thread/stack/shared_stack.h"

#include <malloc.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
/* The thread sanitizer delivers signals only within functions that it intercepts; but it finds
 * races without them. */
#if GS_TSAN || !defined(__x86_64__)
#define IS_INTERRUPTED false
#else
#define IS_INTERRUPTED true
#endif

/* Time limit for each kind and number of workers, and the minimum number of rounds. */
enum { TIME_MS = 60, TIME_MS_SHARING = 15, ROUNDS_MIN = 32 };
enum { POISON = 0xA5, WORKERS = 4, HELPERS = 8, OWNERS = 2, RING = 16, KEPT = 4, PAIRS = 6 };
enum { STACK_SIZE = 32 << 10, SHALLOW = 2048, DEEP = STACK_SIZE + SHALLOW };

struct object {
    struct gs_mutex mutex;
    struct gs_cond cond;
    struct gs_rwlock rwlock;
    struct gs_semaphore semaphore;
    struct gs_once once;
    struct gs_barrier barrier;
    struct gs_wait_group group;
    struct gs_channel *channels[2];
    struct gs_poll polls[PAIRS];
    long value;
    char bytes[64];
};

/* A round is valid until all calls of its helpers have returned. */
struct round {
    unsigned number; /* its bits select the variant of the test */
    unsigned calls;
    struct object *object;
    struct gs_thread *waiter; /* the thread to cancel; NULL: none */
    struct gs_thread *target; /* the thread to join, on the stack */
    void *stack;
    atomic_uint called;   /* 1: before the owner's wait; 2: before it waits for a helper */
    atomic_uint begun;    /* calls that helpers, except companions, have begun */
    atomic_uint step;     /* the progress of the helpers */
    atomic_uint waited;   /* number of companions whose wait has returned */
    atomic_uint returned; /* number of calls that have returned */
    int fds[PAIRS][2];    /* descriptors to close at the end; -1: none */
    unsigned pairs;
    struct {
        unsigned char *memory;
        size_t size;
    } kept[KEPT];
    unsigned kept_count;
};

/* NULL or 0: unused. Companions wait like the owner, which continues only after their waits. */
struct kind {
    const char *name;
    void (*prepare)(struct round *round);
    void (*wait)(struct round *round);
    void (*wake)(struct round *round, unsigned helper);
    void (*finish)(struct round *round);
    unsigned helpers, companions;
    size_t depth; /* bytes of stack to overwrite; 0: SHALLOW */
};

struct owner {
    struct gs_thread_attributes attributes;
    struct round rounds[RING];
};

struct job {
    struct round *round;
    unsigned helper;
};

static const struct kind *kind;
static unsigned workers;
static struct owner owners[OWNERS];
static struct gs_channel *jobs[WORKERS + 1]; /* indexed by worker */

static inline bool is_sharing(void)
{
    return getenv("GS_SHARED_STACKS");
}

/* ---- Rounds ---- */

enum how { FOREVER, SOON, AT_ONCE, CANCELED };
enum choice { ON_STACK = 1 << 0, HOW = 3 << 1, IS_KEPT = 1 << 3, FIRST = 1 << 4, SECOND = 1 << 5 };

static inline bool has(const struct round *round, enum choice choice)
{
    return round->number & choice;
}

static inline enum how how(const struct round *round)
{
    return (enum how)((round->number & HOW) >> 1);
}

/* Returns a number below `limit` from the round's bits; each salt yields another number. */
static inline unsigned any(const struct round *round, unsigned salt, unsigned limit)
{
    return ((round->number + 1) * (2 * salt + 1) * 2654435761u >> 16) % limit;
}

static inline uint64_t until(const struct round *round)
{
    if (how(round) == SOON)
        return after(any(round, 0, 16) * GS_MICROSECOND);
    if (how(round) != AT_ONCE)
        return GS_NEVER;
    gs_thread_yield();
    return 0;
}

/* Returns whether a call timed out or was canceled, and must be repeated. */
static inline bool is_early(int result)
{
    if (result == -ECANCELED) {
        MUST(gs_thread_is_canceled());
        gs_thread_set_cancelable(false);
    }
    return result == -ECANCELED || result == -ETIMEDOUT;
}

static inline void await(atomic_uint *count, unsigned least)
{
    for (unsigned turns = 1; atomic_load(count) < least; turns++) {
        if (turns % 256)
            gs_thread_yield();
        else
            (void)gs_thread_sleep(after(5 * GS_MICROSECOND));
    }
}

static inline void busy_wait(unsigned turns)
{
    for (volatile unsigned i = 0; i < turns * 16; i++)
        ;
}

/* The compiler must not remove these writes, although the memory is freed next. */
static inline void poison(void *memory, size_t size)
{
    memset(memory, POISON, size);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

static inline void check_poison(const unsigned char *memory, size_t size)
{
    if (memory[0] == POISON && !memcmp(memory, memory + 1, size - 1))
        return;
    fprintf(stderr, "%s, %u workers: written after the owner's wait has returned\n", kind->name,
            workers);
    fflush(stdout);
    _exit(1);
}

static inline void retire(struct round *round, void *memory, size_t size)
{
    poison(memory, size);
    if (!has(round, IS_KEPT) || round->kept_count == KEPT) {
        free(memory);
        return;
    }
    round->kept[round->kept_count].memory = memory;
    round->kept[round->kept_count++].size = size;
}

static inline void end_round(struct round *round)
{
    await(&round->returned, round->calls);
    for (; round->kept_count; round->kept_count--) {
        check_poison(round->kept[round->kept_count - 1].memory,
                     round->kept[round->kept_count - 1].size);
        free(round->kept[round->kept_count - 1].memory);
    }
    for (unsigned i = 0; i < 2 * round->pairs; i++)
        if (round->fds[i / 2][i % 2] >= 0)
            gs_close(round->fds[i / 2][i % 2]);
}

/* ---- Helpers ---- */

/* A signal handler that delays a helper at any point of its call, also near the end. */
static inline void delay_in_handler(int number)
{
    static atomic_uint count;
    (void)number;
    busy_wait(atomic_fetch_add(&count, 1) % 8 * 128);
}

/* A timer that interrupts the calling helper, which must stay on its kernel thread. */
static inline void make_interrupt(timer_t *ret_timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    const struct sigaction action = {.sa_handler = delay_in_handler, .sa_flags = SA_RESTART};
    sigset_t set;
    event.sigev_notify_thread_id = gettid();
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    MUST_EQ(sigaction(SIGALRM, &action, NULL), 0);
    MUST_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    MUST_EQ(timer_create(CLOCK_MONOTONIC, &event, ret_timer), 0);
}

static inline void assist(struct round *round, unsigned helper, const timer_t *timer)
{
    const struct itimerspec soon = {.it_value.tv_nsec = 1 + any(round, 1, 2048)};
    if (any(round, 2, 4))
        await(&round->called, 1);
    busy_wait(any(round, 3 + helper, 32));
    if (round->waiter && round->number % 3 == 0)
        gs_thread_cancel(round->waiter);
    if (timer)
        MUST_EQ(timer_settime(*timer, 0, &soon, NULL), 0);
    if (helper < kind->helpers) {
        atomic_fetch_add(&round->begun, 1);
        kind->wake(round, helper);
    } else {
        kind->wait(round);
        atomic_fetch_add(&round->waited, 1);
    }
    if (round->waiter && round->number % 3)
        gs_thread_cancel(round->waiter);
    atomic_fetch_add(&round->returned, 1);
}

static inline void *help(void *jobs_)
{
    struct job job;
    while (!gs_channel_receive(jobs_, &job, GS_NEVER))
        assist(job.round, job.helper, NULL);
    return NULL;
}

static inline void *help_interrupted(void *jobs_)
{
    struct job job;
    timer_t timer;
    make_interrupt(&timer);
    while (!gs_channel_receive(jobs_, &job, GS_NEVER))
        assist(job.round, job.helper, &timer);
    timer_delete(timer);
    return NULL;
}

/* ---- Owners ---- */

static inline void run_round(struct round *round, struct object *object)
{
    memset(object, 0, sizeof *object);
    round->object = object;
    if (kind->prepare)
        kind->prepare(round);
    for (unsigned i = 0; i < round->calls; i++) {
        const struct job job = {round, i};
        unsigned worker = 2 + (round->number + i) % (workers - 1);
        MUST_EQ(gs_channel_send(jobs[worker], &job, GS_NEVER), 0);
    }
    atomic_store(&round->called, 1);
    kind->wait(round);
    await(&round->waited, kind->companions);
    if (kind->finish)
        kind->finish(round);
}

static __attribute__((noinline)) void run_on_stack(struct round *round)
{
    struct object object;
    run_round(round, &object);
}

static __attribute__((noinline)) void overwrite_stack(struct round *round)
{
    unsigned char bytes[DEEP];
    size_t depth = kind->depth ? kind->depth : SHALLOW;
    poison(bytes + DEEP - depth, depth);
    busy_wait(32);
    if (has(round, IS_KEPT))
        await(&round->returned, round->calls);
    check_poison(bytes + DEEP - depth, depth);
}

static inline void run_on_heap(struct round *round)
{
    struct object *object = malloc(sizeof *object);
    MUST(object);
    run_round(round, object);
    retire(round, object, sizeof *object);
}

static inline void *run_any_round(void *round_)
{
    struct round *round = round_;
    if (how(round) == CANCELED)
        round->waiter = gs_thread_self();
    if (has(round, ON_STACK) && !is_sharing()) {
        run_on_stack(round);
        overwrite_stack(round);
    } else {
        run_on_heap(round);
    }
    return NULL;
}

static inline bool is_enough(unsigned rounds, uint64_t end_ns)
{
    const char *wanted = getenv("GOSSAMER_LIFETIMES");
    return wanted ? rounds >= strtoul(wanted, NULL, 10)
                  : rounds >= ROUNDS_MIN && gs_clock_now() > end_ns;
}

/* A separate thread for owners that are canceled. */
static inline void *run_owner(void *owner_)
{
    struct owner *owner = owner_;
    uint64_t end_ns = after((is_sharing() ? TIME_MS_SHARING : TIME_MS) * GS_MILLISECOND);
    for (unsigned number = 0; !is_enough(number, end_ns); number++) {
        struct round *round = &owner->rounds[number % RING];
        struct gs_thread *thread;
        end_round(round);
        *round = (struct round){.number = number, .calls = kind->helpers + kind->companions};
        if (how(round) != CANCELED) {
            run_any_round(round);
            continue;
        }
        MUST_EQ(gs_thread_spawn(&owner->attributes, run_any_round, round, &thread), 0);
        await(&round->returned, round->calls);
        join(thread);
    }
    for (unsigned i = 0; i < RING; i++)
        end_round(&owner->rounds[i]);
    return NULL;
}

static inline void *run_all(void *unused)
{
    struct gs_thread *helpers[WORKERS + 1][HELPERS], *threads[OWNERS];
    (void)unused;
    for (unsigned i = 0; i < (workers - 1) * HELPERS; i++) {
        unsigned worker = 2 + i / HELPERS;
        const struct gs_thread_attributes attributes = {
            .worker = i % 4 ? worker : 0, .migrates = i % 4 == 0, .stack_is_shared = is_sharing()};
        gs_thread_fn *fn = i % 4 && IS_INTERRUPTED ? help_interrupted : help;
        if (i % HELPERS == 0)
            MUST_EQ(gs_channel_new(sizeof(struct job), 4UL * OWNERS * RING, &jobs[worker]), 0);
        MUST_EQ(gs_thread_spawn(&attributes, fn, jobs[worker], &helpers[worker][i % HELPERS]), 0);
    }
    for (unsigned i = 0; i < OWNERS; i++) {
        owners[i] = (struct owner){.attributes = {.stack_size = 256 << 10,
                                                  .worker = !i,
                                                  .migrates = i == 1,
                                                  .stack_is_shared = is_sharing()}};
        MUST_EQ(gs_thread_spawn(&owners[i].attributes, run_owner, &owners[i], &threads[i]), 0);
    }
    for (unsigned i = 0; i < OWNERS; i++)
        join(threads[i]);
    for (unsigned worker = 2; worker <= workers; worker++) {
        gs_channel_close(jobs[worker]);
        for (unsigned i = 0; i < HELPERS; i++)
            join(helpers[worker][i]);
        gs_channel_free(jobs[worker]);
    }
    return NULL;
}

/* The first worker polls for a while, so that an owner resumes before the call that woke it has
 * returned. */
static inline int stay_awake(struct gs_loop *loop, unsigned worker, void *data)
{
    static uint64_t since_ns, last_ns;
    (void)data;
    if (worker != 1)
        return gs_loop_run_once(loop, GS_NEVER);
    uint64_t now_ns = gs_clock_now();
    if (now_ns - last_ns > 10 * GS_MICROSECOND)
        since_ns = now_ns;
    last_ns = now_ns;
    return gs_loop_run_once(loop, now_ns - since_ns < 50 * GS_MICROSECOND ? 0 : GS_NEVER);
}

static inline void test_kind(const struct kind *tested)
{
    kind = tested;
    for (workers = 2; workers <= WORKERS; workers++) {
        const struct gs_threads_options options = {.workers = workers, .wait = stay_awake};
        gs_shared_stacks_max = 1;
        CHECK_EQ(gs_threads_run(&options, run_all, NULL, NULL), 0);
    }
    kind = NULL;
}

#endif
