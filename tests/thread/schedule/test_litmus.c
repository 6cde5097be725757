/* No wake-up between workers is lost: pairs of threads pass a turn back and forth, on two workers
 * each. A lost wake-up would leave a pair waiting forever, which the runtime reports as a deadlock.
 * GOSSAMER_HAND_OVERS sets the number of turns for each kind; 10000000 takes some minutes. */
#include "base/sanitized.h"
#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

enum { PAIRS = 8, WORKERS = 3 };

#if GS_TSAN
#define HAND_OVERS 20000
#elif GS_ASAN
#define HAND_OVERS 50000
#elif !defined(__x86_64__)
#define HAND_OVERS 20000 /* few enough for an emulator */
#else
#define HAND_OVERS 200000
#endif

struct pair {
    struct gs_mutex mutex;
    struct gs_cond conds[2];
    struct gs_semaphore semaphores[2];
    struct gs_channel *channels[2];
    struct gs_thread *threads[2];
    struct gs_barrier start;
    long turns;   /* accessed only by the thread whose turn it is */
    long at_turn; /* guarded by the mutex */
};
struct player {
    struct pair *pair;
    unsigned number;
};

static struct pair pairs[PAIRS];
static struct player players[PAIRS][2];

/* Waits for the turn, or passes it to the other thread. */
typedef void play_fn(struct pair *pair, unsigned number);
static play_fn *wait_for_turn, *give_turn;

static long hand_overs_of_a_pair(void)
{
    const char *wanted = getenv("GOSSAMER_HAND_OVERS");
    return (wanted ? strtol(wanted, NULL, 10) : HAND_OVERS) / PAIRS / 2 * 2;
}

static void *play(void *argument)
{
    const struct player *player = argument;
    struct pair *pair = player->pair;
    long hand_overs = hand_overs_of_a_pair();
    MUST(gs_barrier_wait(&pair->start, GS_NEVER) >= 0);
    for (long turn = 0; turn < hand_overs; turn++) {
        if (turn % 2 != player->number)
            continue;
        if (turn)
            wait_for_turn(pair, player->number);
        MUST_EQ(pair->turns, turn);
        pair->turns++;
        give_turn(pair, player->number);
    }
    /* The second player has the last turn, so one turn was passed more than was taken. */
    if (!player->number)
        wait_for_turn(pair, 0);
    return NULL;
}

static void *play_all(void *migrates)
{
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        const struct gs_thread_attributes attributes = {.worker = migrates ? 0 : i % WORKERS + 1,
                                                        .migrates = migrates != NULL};
        struct player *player = &players[i / 2][i % 2];
        *player = (struct player){&pairs[i / 2], i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, play, player, &player->pair->threads[i % 2]), 0);
    }
    for (unsigned i = 0; i < 2 * PAIRS; i++)
        join(pairs[i / 2].threads[i % 2]);
    for (unsigned i = 0; i < PAIRS; i++)
        MUST_EQ(pairs[i].turns, hand_overs_of_a_pair());
    return NULL;
}

/* Runs with threads that stay on their workers, and with migrating ones. */
static void hand_over(play_fn *wait, play_fn *give)
{
    const struct gs_threads_options options = {.workers = WORKERS};
    static int mark;
    wait_for_turn = wait;
    give_turn = give;
    for (int migrates = 0; migrates < 2; migrates++) {
        for (unsigned i = 0; i < PAIRS; i++)
            pairs[i] = (struct pair){.start.threads = 2};
        for (unsigned i = 0; i < 2 * PAIRS; i++)
            CHECK_EQ(gs_channel_new(sizeof(long), i % 2, &pairs[i / 2].channels[i % 2]), 0);
        CHECK_EQ(gs_threads_run(&options, play_all, migrates ? &mark : NULL, NULL), 0);
        for (unsigned i = 0; i < 2 * PAIRS; i++)
            gs_channel_free(pairs[i / 2].channels[i % 2]);
    }
}

static void wait_for_cond(struct pair *pair, unsigned number)
{
    gs_mutex_lock(&pair->mutex, GS_NEVER);
    while (pair->at_turn % 2 != number)
        MUST_EQ(gs_cond_wait(&pair->conds[number], &pair->mutex, GS_NEVER), 0);
    gs_mutex_unlock(&pair->mutex);
}

static void signal_cond(struct pair *pair, unsigned number)
{
    gs_mutex_lock(&pair->mutex, GS_NEVER);
    pair->at_turn = pair->turns;
    gs_cond_signal(&pair->conds[!number]);
    gs_mutex_unlock(&pair->mutex);
}

TEST(no_hand_over_by_condition_is_lost)
{
    hand_over(wait_for_cond, signal_cond);
}

static void wait_for_semaphore(struct pair *pair, unsigned number)
{
    MUST_EQ(gs_semaphore_wait(&pair->semaphores[number], GS_NEVER), 0);
}

static void post(struct pair *pair, unsigned number)
{
    gs_semaphore_post(&pair->semaphores[!number]);
}

TEST(no_hand_over_by_semaphore_is_lost)
{
    hand_over(wait_for_semaphore, post);
}

static void receive_turn(struct pair *pair, unsigned number)
{
    long turn = -1;
    MUST_EQ(gs_channel_receive(pair->channels[number], &turn, GS_NEVER), 0);
    MUST_EQ(turn, pair->turns);
}

static void send_turn(struct pair *pair, unsigned number)
{
    long turn = pair->turns;
    MUST_EQ(gs_channel_send(pair->channels[!number], &turn, GS_NEVER), 0);
}

TEST(no_hand_over_by_channel_is_lost)
{
    hand_over(receive_turn, send_turn);
}

static void select_turn(struct pair *pair, unsigned number)
{
    long turn = -1, unused;
    struct gs_select cases[] = {{.channel = pair->channels[number], .receive = &turn},
                                {.channel = pair->channels[number], .receive = &unused}};
    int index = gs_select(cases, 2, GS_NEVER);
    MUST(index == 0 || index == 1);
    MUST_EQ(cases[index].result, 0);
    MUST_EQ(index ? unused : turn, pair->turns);
}

TEST(no_hand_over_to_a_select_is_lost)
{
    hand_over(select_turn, send_turn);
}

static void park(struct pair *pair, unsigned number)
{
    (void)pair, (void)number;
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
}

static void unpark(struct pair *pair, unsigned number)
{
    gs_thread_unpark(pair->threads[!number]);
}

TEST(no_hand_over_by_unpark_is_lost)
{
    hand_over(park, unpark);
}

/* ---- Simultaneous unparks ----
 * Two threads unpark a third one at the same time: one of them wakes
 * it, and the same park consumes the permit of the other. The third thread must see what both wrote
 * before. The written variable is not atomic, so the thread sanitizer reports missing
 * synchronisation. */

enum { ROUNDS = 300 };

static struct unparker {
    _Alignas(64) long written;
    _Atomic(long) unparked; /* the last round in which it unparked; does not order other writes */
    struct gs_thread *thread;
} unparkers[2];
static struct gs_thread *parker;
static _Atomic(long) round_seen; /* written by the parker */

/* Relaxed, so that it does not provide the order that the wake-ups must provide. */
static long round_unparked(const struct unparker *unparker)
{
    return atomic_load_explicit(&unparker->unparked, memory_order_relaxed);
}

/* The runtime must not provide the order either: an idle worker would synchronise with the
 * others. */
static void stay_until_seen(long round)
{
    for (int i = 0; i < 1000; i++) {
        if (atomic_load_explicit(&round_seen, memory_order_relaxed) >= round)
            return;
        sched_yield();
    }
}

/* The thread that is about to wake the parker's worker lets the other one proceed first; the time
 * is limited, as the other one may be doing the same. */
static long let_other_unpark(long number, void *unused)
{
    const struct gs_thread *self = number == SYS_write ? gs_thread_self() : NULL;
    (void)unused;
    if (!self || (self != unparkers[0].thread && self != unparkers[1].thread))
        return 0;
    bool is_second = self == unparkers[1].thread;
    const struct unparker *mine = &unparkers[is_second], *other = &unparkers[!is_second];
    for (int i = 0; i < 1000 && round_unparked(other) == round_unparked(mine); i++)
        sched_yield();
    return 0;
}

static void *unpark_each_round(void *argument)
{
    struct unparker *self = argument;
    for (long round = 1; round <= ROUNDS; round++) {
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
        self->written = round;
        gs_thread_unpark(parker);
        atomic_store_explicit(&self->unparked, round, memory_order_relaxed);
        stay_until_seen(round);
    }
    return NULL;
}

/* Parks until both have unparked and no permit is pending, so both permits were consumed by either
 * call. If the first call consumed both, there is no second call, which would also order the
 * writes. */
static void park_for_both(long round)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    while (round_unparked(&unparkers[0]) != round || round_unparked(&unparkers[1]) != round)
        gs_thread_yield();
    if (atomic_load_explicit(&parker->park_state, memory_order_relaxed) != PARK_EMPTY)
        MUST_EQ(gs_thread_park(0), 0);
}

THREAD(park_each_round)
{
    parker = gs_thread_self();
    atomic_store(&round_seen, 0);
    for (unsigned i = 0; i < 2; i++) {
        const struct gs_thread_attributes attributes = {.worker = i + 2};
        MUST_EQ(
            gs_thread_spawn(&attributes, unpark_each_round, &unparkers[i], &unparkers[i].thread),
            0);
    }
    for (long round = 1; round <= ROUNDS; round++) {
        gs_thread_unpark(unparkers[0].thread);
        gs_thread_unpark(unparkers[1].thread);
        park_for_both(round);
        MUST_EQ(unparkers[0].written, round);
        MUST_EQ(unparkers[1].written, round);
        atomic_store_explicit(&round_seen, round, memory_order_relaxed);
    }
    join(unparkers[0].thread);
    join(unparkers[1].thread);
}

TEST(writes_before_either_of_two_concurrent_unparks_are_visible)
{
    gs_sys_set_fault(let_other_unpark, NULL);
    run_with(WORKERS, park_each_round);
    gs_sys_set_fault(NULL, NULL);
}
