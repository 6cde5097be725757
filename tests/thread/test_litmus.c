/* No wake-up between workers is lost: pairs of threads hand a turn over, each pair's threads on two workers. A wake-up that were lost
 * would leave a pair waiting for ever, which the run reports as a deadlock. GOSSAMER_HAND_OVERS sets how many there are of each
 * kind: 10000000 takes some minutes. */
#include "tests/thread/fixture.h"

enum { PAIRS = 8, WORKERS = 3 };

#ifndef __has_feature
#define __has_feature(feature_) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define HAND_OVERS 20000
#elif defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define HAND_OVERS 50000
#elif !defined(__x86_64__)
#define HAND_OVERS 20000 /* an emulator may run it */
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
    long turns;   /* whose turn it is has it to itself */
    long at_turn; /* guarded by the mutex */
};
struct player {
    struct pair *pair;
    unsigned number;
};

static struct pair pairs[PAIRS];
static struct player players[PAIRS][2];

/* Wait for the turn, or give it to the other. */
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
    /* The last turn is the second player's; it gave one more than was taken. */
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

/* With threads that stay on their workers, and with such as go on wherever they are woken. */
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
