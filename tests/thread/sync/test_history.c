/* Threads on 2 to 4 workers perform random operations, determined by a seed, on objects of every
 * kind; then the history of each object is checked against its specification. GOSSAMER_TEST_SEED
 * repeats a failed seed, but not its schedule. Waits that must succeed have deadlines of many
 * seconds, or none: if a thread reaches such a deadline, its wake-up was lost. */
#include "tests/thread/sync/history_check.h"

enum { ACTORS = 8, UNITS = 2 };

static struct actor actors[ACTORS];
static void (*act)(struct actor *actor);
static unsigned steps;     /* number of steps of each actor, or 1 */
static unsigned receivers; /* number of the actors that receive; they are the first ones */
static bool is_closed_early;

static struct gs_channel *channels[2];
static size_t capacities[2];
static struct gs_semaphore semaphore;
static struct gs_mutex mutex, tokens_mutex;
static struct gs_cond tokens_cond;
static struct gs_rwlock rwlock;
static struct gs_barrier barrier;
static struct gs_wait_group group;
static struct gs_once onces[ONCES];
static int tokens, inside; /* guarded by the mutexes */

/* ---- Steps: each returns what it has acquired ---- */

static void take_unit(struct actor *actor)
{
    struct event *event = begin(WAIT, SEMAPHORE, actor->place);
    if (!is_done(actor, event, gs_semaphore_wait(&semaphore, any(actor))))
        return;
    linger(actor);
    event = begin(POST, SEMAPHORE, actor->place);
    gs_semaphore_post(&semaphore);
    end(event, 0);
}

/* A semaphore made of a mutex and a condition. A thread that times out does not look for a unit
 * again, because the signal is meant for another thread. */
static int wait_for_token(uint64_t deadline_ns)
{
    int err = 0;
    MUST_EQ(gs_mutex_lock(&tokens_mutex, GS_NEVER), 0);
    while (!tokens && !err)
        err = gs_cond_wait(&tokens_cond, &tokens_mutex, deadline_ns);
    tokens -= !err;
    gs_mutex_unlock(&tokens_mutex);
    return err;
}

static void take_token(struct actor *actor)
{
    struct event *event = begin(WAIT, TOKENS, actor->place);
    if (!is_done(actor, event, wait_for_token(any(actor))))
        return;
    linger(actor);
    event = begin(POST, TOKENS, actor->place);
    MUST_EQ(gs_mutex_lock(&tokens_mutex, GS_NEVER), 0);
    tokens++;
    if (draw(actor, 4))
        gs_cond_signal(&tokens_cond);
    else
        gs_cond_broadcast(&tokens_cond);
    gs_mutex_unlock(&tokens_mutex);
    end(event, 0);
}

static void lock_mutex(struct actor *actor)
{
    struct event *event = begin(WRITE, MUTEX, actor->place);
    if (!is_done(actor, event, gs_mutex_lock(&mutex, any(actor))))
        return;
    HOLDS(!inside++, event);
    linger(actor);
    HOLDS(!--inside && gs_mutex_is_owned(&mutex), event);
    event->until = tick();
    gs_mutex_unlock(&mutex);
    event->gone = tick();
}

static void lock_rwlock(struct actor *actor)
{
    bool writes = !draw(actor, 3);
    struct event *event = begin(writes ? WRITE : READ, RWLOCK, actor->place);
    uint64_t deadline_ns = any(actor);
    if (!is_done(actor, event,
                 writes ? gs_rwlock_wrlock(&rwlock, deadline_ns)
                        : gs_rwlock_rdlock(&rwlock, deadline_ns)))
        return;
    linger(actor);
    event->until = tick();
    gs_rwlock_unlock(&rwlock);
    event->gone = tick();
}

static void use_group(struct actor *actor)
{
    struct event *event;
    if (draw(actor, 2)) {
        event = begin(WAIT, GROUP, actor->place);
        is_done(actor, event, gs_wait_group_wait(&group, any(actor)));
        return;
    }
    event = begin(ADD, GROUP, actor->place);
    gs_wait_group_add(&group, 1);
    end(event, 0);
    linger(actor);
    event = begin(DONE, GROUP, actor->place);
    gs_wait_group_done(&group);
    end(event, 0);
}

struct call {
    struct actor *actor;
    unsigned object;
};

static void run_once(void *call_)
{
    const struct call *call = call_;
    struct event *event = begin(RUN, call->object, 0);
    linger(call->actor);
    end(event, 0);
}

/* All actors call the same one at about the same time. */
static void call_once(struct actor *actor)
{
    unsigned index = actor->calls++ % ONCES;
    struct call call = {actor, ONCE + index};
    struct event *event = begin(CALL, ONCE + index, 0);
    gs_once(&onces[index], run_once, &call);
    end(event, 0);
}

static void meet(struct actor *actor)
{
    struct event *event;
    do
        event = begin(MEET, BARRIER, actor->place);
    while (!is_done(actor, event, gs_barrier_wait(&barrier, any(actor))));
}

/* ---- Channels ---- */

static int pass(struct actor *actor, bool sends, unsigned channel, uint64_t deadline_ns)
{
    struct event *event = begin(sends ? SEND : RECEIVE, channel, actor->place);
    int result = sends ? gs_channel_send(channels[channel], &event->item, deadline_ns)
                       : gs_channel_receive(channels[channel], &event->item, deadline_ns);
    if (result == -EPIPE)
        return end(event, result);
    is_done(actor, event, result);
    return result;
}

/* A case that was not executed must have no effect: its item is neither sent nor received. */
static void pass_either(struct actor *actor, const bool *sends, uint64_t deadline_ns,
                        bool *is_finished)
{
    struct gs_select cases[2];
    struct event *each[2];
    long items[2];
    for (unsigned i = 0; i < 2; i++) {
        each[i] = begin(sends[i] ? SEND : RECEIVE, CHANNELS + i, actor->place);
        items[i] = sends[i] ? each[i]->item : -1;
        cases[i] = (struct gs_select){
            .channel = channels[i], .send = sends[i] ? &items[i] : NULL, .receive = &items[i]};
    }
    int index = gs_select(cases, 2, deadline_ns);
    HOLDS(index < 2, each[0]);
    for (int i = 0; i < 2; i++) {
        int result = index < 0 ? index : i == index ? cases[i].result : -EAGAIN;
        HOLDS_FOR(sends[i] || !result || items[i] == -1, each[0], each[1]);
        each[i]->item = items[i];
        if (index < 0)
            is_done(actor, each[i], result);
        else
            is_finished[i] |= end(each[i], result) == -EPIPE;
    }
}

/* A thread that sends always finishes, as long as others receive until the channels are closed. */
static void send_items(struct actor *actor)
{
    bool is_finished[2] = {false, false};
    for (unsigned i = 0; i < STEPS; i++) {
        const bool sends[] = {true, draw(actor, 3)};
        if (draw(actor, 2))
            pass_either(actor, sends, any(actor), is_finished);
        else
            pass(actor, true, draw(actor, 2), any(actor));
        linger(actor);
    }
}

/* While both channels are open, the receiver does not wait at only one without a short deadline,
 * because the sender may wait at the other. */
static void receive_items(struct actor *actor)
{
    static const bool none[2];
    bool is_finished[2] = {false, false};
    while (!is_finished[0] || !is_finished[1]) {
        unsigned channel = draw(actor, 2);
        if (is_finished[0] || is_finished[1]) {
            channel = is_finished[0];
            is_finished[channel] = pass(actor, false, channel, late(actor)) == -EPIPE;
        } else if (draw(actor, 3)) {
            pass_either(actor, none, late(actor), is_finished);
        } else {
            is_finished[channel] = pass(actor, false, channel, soon(actor)) == -EPIPE;
        }
        linger(actor);
    }
}

static void send_or_receive(struct actor *actor)
{
    if (actor->number < receivers)
        receive_items(actor);
    else
        send_items(actor);
}

static void pass_soon(struct actor *actor)
{
    const bool sends[] = {draw(actor, 2), draw(actor, 2)};
    bool is_finished[2] = {false, false};
    if (draw(actor, 2))
        pass_either(actor, sends, soon(actor), is_finished);
    else
        pass(actor, draw(actor, 2), draw(actor, 2), soon(actor));
}

static void close_channel(unsigned channel)
{
    struct event *event = begin(CLOSE, channel, 0);
    gs_channel_close(channels[channel]);
    end(event, 0);
}

/* ---- Histories ---- */

static void do_any(struct actor *actor)
{
    static void (*const all[])(struct actor *) = {take_unit, take_token, lock_mutex, lock_rwlock,
                                                  use_group, call_once,  pass_soon,  pass_soon};
    all[draw(actor, sizeof all / sizeof *all)](actor);
}

static void *run_actor(void *actor)
{
    for (unsigned i = 0; i < steps; i++)
        act(actor);
    return NULL;
}

static void prepare(struct actor *first)
{
    for (unsigned i = 0; i < 2; i++) {
        capacities[i] = draw(first, 4);
        MUST_EQ(gs_channel_new(sizeof(long), capacities[i], &channels[i]), 0);
    }
    atomic_store(&event_count, 0);
    atomic_store(&ticks, 0);
    semaphore = (struct gs_semaphore){.count = UNITS};
    barrier = (struct gs_barrier){.threads = ACTORS};
    memset(onces, 0, sizeof onces);
    tokens = UNITS;
    receivers = act == send_or_receive ? 2 + draw(first, 4) : 0;
    is_closed_early = receivers && draw(first, 2);
}

static void spawn_actor(struct actor *actor, unsigned number, struct actor *first)
{
    unsigned kind = draw(first, 3);
    *actor = (struct actor){.number = number, .state = first->state + number};
    actor->place = kind ? 0 : 1 + draw(first, workers);
    const struct gs_thread_attributes attributes = {.worker = actor->place, .migrates = kind == 1};
    MUST_EQ(gs_thread_spawn(&attributes, run_actor, actor, &actor->thread), 0);
}

static void *run_actors(void *first_)
{
    struct actor *first = first_;
    prepare(first);
    for (unsigned i = 0; i < ACTORS; i++)
        spawn_actor(&actors[i], i, first);
    for (unsigned i = 0; i < ACTORS; i++) {
        (void)gs_thread_sleep(after(draw(first, 200) * GS_MICROSECOND));
        if (!draw(first, 4))
            gs_thread_cancel(actors[i].thread);
        if (is_closed_early && i >= ACTORS - 2)
            close_channel(i % 2);
    }
    for (unsigned i = receivers; i < ACTORS; i++)
        join(actors[i].thread);
    for (unsigned i = 0; receivers && !is_closed_early && i < 2; i++)
        close_channel(i);
    for (unsigned i = 0; i < receivers; i++)
        join(actors[i].thread);
    for (unsigned i = 0; !receivers && i < 2; i++)
        while (!pass(first, false, i, 0)) /* receive the remaining items */
            ;
    return NULL;
}

static void check_all(void)
{
    for (unsigned i = 0; i < 2; i++) {
        check_channel(CHANNELS + i, capacities[i]);
        gs_channel_free(channels[i]);
    }
    check_semaphore(SEMAPHORE, UNITS);
    check_semaphore(TOKENS, UNITS);
    check_lock(MUTEX);
    check_lock(RWLOCK);
    check_barrier(BARRIER, ACTORS);
    check_group(GROUP);
    for (unsigned i = 0; i < ONCES; i++)
        check_once(ONCE + i);
}

static void check_seed(uint64_t number)
{
    seed = number;
    for (workers = 2; workers <= 4; workers++) {
        const struct gs_threads_options options = {.workers = workers};
        struct actor first = {.state = seed * 0x9E3779B97F4A7C15u + workers};
        int err = gs_threads_run(&options, run_actors, &first, NULL);
        if (err)
            fprintf(stderr, "GOSSAMER_TEST_SEED=%llu\n", (unsigned long long)seed);
        CHECK_EQ(err, 0);
        check_all();
    }
}

/* Uses the same seeds each time, and a new one. */
static void check_history(void (*tested)(struct actor *actor), unsigned count)
{
    static uint64_t other;
    const char *wanted = getenv("GOSSAMER_TEST_SEED");
    act = tested;
    steps = count;
    if (wanted) {
        check_seed(strtoull(wanted, NULL, 10));
        return;
    }
    if (!other) {
        other = gs_clock_now() % 1000000007 + 1;
        printf("GOSSAMER_TEST_SEED=%llu besides the usual ones\n", (unsigned long long)other);
    }
    for (uint64_t number = 1; number <= SEEDS; number++)
        check_seed(number);
    check_seed(other);
}

TEST(channels_and_selects_pass_each_item_once_and_in_order)
{
    check_history(send_or_receive, 1);
}

TEST(semaphore_grants_no_more_than_it_has_and_loses_no_waiter)
{
    check_history(take_unit, STEPS);
}

TEST(condition_loses_no_signal_to_waiters_that_give_up)
{
    check_history(take_token, STEPS);
}

TEST(mutex_is_held_by_one_and_handed_on_in_order)
{
    check_history(lock_mutex, STEPS);
}

TEST(reader_writer_lock_excludes_writers_and_no_thread_overtakes_one)
{
    check_history(lock_rwlock, STEPS);
}

TEST(barrier_releases_no_thread_before_all_have_arrived)
{
    check_history(meet, STEPS);
}

TEST(wait_group_wakes_its_waiters_when_the_count_is_zero)
{
    check_history(use_group, STEPS);
}

TEST(once_runs_once_and_no_caller_returns_before_its_end)
{
    check_history(call_once, STEPS);
}

TEST(threads_that_use_all_classes_of_stacks_share_none)
{
    check_history(do_any, STEPS);
}
