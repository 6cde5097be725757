#include "tests/thread/fixture.h"

static const uint64_t work[] = {400000, 100000, 300000, 200000};
static struct gs_cond conditions[2];

static void *log_number(void *number)
{
    log_call(number);
    return NULL;
}

static void *tell_work(void *letter)
{
    gs_thread_set_remaining(work[*(char *)letter - 'a']);
    gs_thread_yield();
    log_call(letter);
    return NULL;
}

static void *spawn_work(void *unused)
{
    (void)unused;
    clear_calls();
    struct gs_thread *threads[] = {spawn(tell_work, "a"), spawn(tell_work, "b"),
                                   spawn(tell_work, "c"), spawn(tell_work, "d")};
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    MUST(!strcmp(calls, "bdca"));
    return NULL;
}

TEST(shortest_remaining_work_runs_first)
{
    const struct gs_threads_options options = {.policy = &gs_policy_shortest};
    CHECK_EQ(gs_threads_run(&options, spawn_work, NULL, NULL), 0);
}

static void *spawn_by_priority(void *unused)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW},
                                      high = {.priority = GS_PRIORITY_HIGH};
    (void)unused;
    clear_calls();
    MUST_EQ(gs_thread_spawn(&low, log_number, "l", NULL), 0);
    MUST_EQ(gs_thread_spawn(NULL, log_number, "n", NULL), 0);
    MUST_EQ(gs_thread_spawn(&high, log_number, "h", NULL), 0);
    MUST_EQ(gs_thread_spawn(&high, log_number, "H", NULL), 0);
    return NULL;
}

TEST(higher_priority_runs_first_and_equals_in_turn)
{
    run_with(1, spawn_by_priority);
    CHECK_STR(calls, "hHnl");
}

static void *log_after_yield(void *number)
{
    gs_thread_yield();
    return log_number(number);
}

/* Both have yielded before the priority counts. */
static void *raise_the_second(void *unused)
{
    clear_calls();
    struct gs_thread *first = spawn(log_after_yield, "1"), *second = spawn(log_after_yield, "2");
    gs_thread_set_priority(second, GS_PRIORITY_HIGH);
    join(first);
    join(second);
    return unused;
}

TEST(priority_counts_from_the_next_time_that_the_thread_becomes_ready)
{
    run_with(1, raise_the_second);
    CHECK_STR(calls, "21");
}

static bool has_run;

static void *run_low(void *unused)
{
    (void)unused;
    has_run = true;
    return NULL;
}

static void *starve(void *unused)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW};
    (void)unused;
    gs_thread_set_priority(gs_thread_self(), GS_PRIORITY_HIGH);
    MUST_EQ(gs_thread_spawn(&low, run_low, NULL, NULL), 0);
    for (int i = 0; i < 1000 && !has_run; i++)
        gs_thread_yield();
    MUST(has_run);
    return NULL;
}

TEST(low_priority_is_not_starved)
{
    run_with(1, starve);
}

enum { HIGH_THREADS = 3, HIGH_TURNS = 64 * 40 };

static unsigned turns_of[3], high_left;

static void *take_turns(void *priority)
{
    while (high_left) {
        turns_of[(uintptr_t)priority]++;
        gs_thread_yield();
    }
    return NULL;
}

static void *take_high_turns(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < HIGH_TURNS; i++)
        gs_thread_yield();
    high_left--;
    return NULL;
}

static void *spawn_of_each_class(void *unused)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW},
                                      high = {.priority = GS_PRIORITY_HIGH};
    (void)unused;
    memset(turns_of, 0, sizeof turns_of);
    high_left = HIGH_THREADS;
    for (int i = 0; i < 2; i++) {
        void *normal_class = (void *)(uintptr_t)GS_PRIORITY_NORMAL;
        MUST_EQ(gs_thread_spawn(NULL, take_turns, normal_class, NULL), 0);
        MUST_EQ(gs_thread_spawn(&low, take_turns, (void *)(uintptr_t)GS_PRIORITY_LOW, NULL), 0);
    }
    for (int i = 0; i < HIGH_THREADS; i++)
        MUST_EQ(gs_thread_spawn(&high, take_high_turns, NULL, NULL), 0);
    return NULL;
}

/* Every 64 switches, one thread of each lower priority runs first. */
TEST(each_class_has_a_bounded_number_of_turns_between_its_own_while_higher_ones_are_ready)
{
    run_with(1, spawn_of_each_class);
    CHECK(turns_of[GS_PRIORITY_NORMAL] >= HIGH_THREADS * HIGH_TURNS / 64 / 2);
    CHECK(turns_of[GS_PRIORITY_LOW] >= HIGH_THREADS * HIGH_TURNS / 64 / 2);
    CHECK(turns_of[GS_PRIORITY_NORMAL] + turns_of[GS_PRIORITY_LOW] < HIGH_THREADS * HIGH_TURNS);
}

static void *wait_here(void *letter)
{
    MUST_EQ(gs_cond_wait(&conditions[0], NULL, GS_NEVER), 0);
    log_call(letter);
    return NULL;
}

static void *wait_there(void *letter)
{
    MUST_EQ(gs_cond_wait(&conditions[1], NULL, GS_NEVER), 0);
    log_call(letter);
    return NULL;
}

static void *wake_in_turn(void *unused)
{
    struct gs_thread *threads[6];
    (void)unused;
    clear_calls();
    for (int i = 0; i < 6; i++)
        threads[i] = spawn(i % 2 ? wait_there : wait_here, i % 2 ? "t" : "h");
    gs_thread_yield();
    for (int i = 0; i < 6; i++)
        gs_cond_signal(&conditions[i % 2]);
    for (int i = 0; i < 6; i++)
        join(threads[i]);
    MUST(!strcmp(calls, "hhhttt") || !strcmp(calls, "ttthhh"));
    return NULL;
}

TEST(threads_that_waited_at_the_same_place_run_in_a_row)
{
    const struct gs_threads_options options = {.policy = &gs_policy_cohort};
    CHECK_EQ(gs_threads_run(&options, wake_in_turn, NULL, NULL), 0);
}

/* A FIFO queue that remembers the wait point of the thread whose work is MARKED. */
enum { MARKED = 42 };
struct fifo {
    struct gs_policy_item *first, *last;
};
static const void *marked_point;

static void fifo_push(void *queue, struct gs_policy_item *item)
{
    struct fifo *fifo = queue;
    if (item->remaining == MARKED)
        marked_point = item->wait_point;
    item->next = NULL;
    *(fifo->first ? &fifo->last->next : &fifo->first) = item;
    fifo->last = item;
}

static struct gs_policy_item *fifo_pop(void *queue)
{
    struct fifo *fifo = queue;
    struct gs_policy_item *item = fifo->first;
    if (item)
        fifo->first = item->next;
    return item;
}

static void *signal_first(void *unused)
{
    gs_cond_signal(&conditions[0]);
    return unused;
}

static void *wait_and_yield(void *unused)
{
    gs_thread_set_remaining(MARKED);
    struct gs_thread *other = spawn(signal_first, NULL);
    MUST_EQ(gs_cond_wait(&conditions[0], NULL, GS_NEVER), 0);
    MUST(marked_point);
    gs_thread_yield();
    MUST(!marked_point);
    join(other);
    return unused;
}

TEST(policy_is_told_where_a_thread_waited_and_that_it_yielded)
{
    const struct gs_policy policy = {
        .name = "fifo", .size = sizeof(struct fifo), .push = fifo_push, .pop = fifo_pop};
    const struct gs_threads_options options = {.policy = &policy};
    CHECK_EQ(gs_threads_run(&options, wait_and_yield, NULL, NULL), 0);
}

static void *wait_elsewhere(void *letter)
{
    MUST_EQ(gs_cond_wait(&conditions[0], NULL, GS_NEVER), 0);
    log_call(letter);
    return NULL;
}

static void *wake_at_one_object(void *unused)
{
    (void)unused;
    clear_calls();
    for (int i = 0; i < 6; i++)
        MUST_EQ(gs_thread_spawn(NULL, i % 2 ? wait_elsewhere : wait_here, i % 2 ? "e" : "h", NULL),
                0);
    gs_thread_yield();
    gs_cond_broadcast(&conditions[0]);
    return NULL;
}

TEST(threads_that_waited_at_the_same_object_in_another_call_run_in_a_row_of_their_own)
{
    const struct gs_threads_options options = {.policy = &gs_policy_cohort};
    CHECK_EQ(gs_threads_run(&options, wake_at_one_object, NULL, NULL), 0);
    CHECK_STR(calls, "hhheee");
}

static struct gs_semaphore tokens;
static unsigned turns;
static bool is_finished;

static void *pass_tokens(void *unused)
{
    (void)unused;
    while (!is_finished) {
        MUST_EQ(gs_semaphore_wait(&tokens, GS_NEVER), 0);
        turns++;
        gs_semaphore_post(&tokens);
    }
    return NULL;
}

/* There are three tokens and four threads, so some thread of the cohort is always ready. */
static void *crowd_out(void *unused)
{
    (void)unused;
    turns = 0;
    is_finished = false;
    tokens = (struct gs_semaphore){0};
    for (int i = 0; i < 4; i++)
        MUST_EQ(gs_thread_spawn(NULL, pass_tokens, NULL, NULL), 0);
    gs_thread_yield();
    for (int i = 0; i < 3; i++)
        gs_semaphore_post(&tokens);
    for (unsigned i = 0, before = 0; i < 10; i++, before = turns) {
        gs_thread_yield();
        MUST(turns > before);
        MUST(turns - before <= 4 * 256);
    }
    is_finished = true;
    return NULL;
}

TEST(wait_point_whose_threads_are_always_ready_lets_others_have_their_turn)
{
    const struct gs_threads_options options = {.policy = &gs_policy_cohort};
    CHECK_EQ(gs_threads_run(&options, crowd_out, NULL, NULL), 0);
}

static void *work_long(void *unused)
{
    (void)unused;
    gs_thread_set_remaining(1 << 10);
    gs_thread_yield();
    is_finished = true;
    return NULL;
}

/* The work doubles ten times, with at most 16,384 turns each time. */
static void *overtake(void *unused)
{
    (void)unused;
    is_finished = false;
    turns = 0;
    struct gs_thread *thread = spawn(work_long, NULL);
    gs_thread_set_remaining(1);
    while (!is_finished) {
        gs_thread_yield();
        MUST(++turns <= 10 * 16384 + 16);
    }
    MUST(turns > 9 * 16384);
    join(thread);
    return NULL;
}

TEST(long_work_is_overtaken_only_so_often)
{
    const struct gs_threads_options options = {.policy = &gs_policy_shortest};
    CHECK_EQ(gs_threads_run(&options, overtake, NULL, NULL), 0);
}

enum { MANY = 300 };

static uint64_t last_work;

static void *work_in_order(void *number)
{
    uint64_t left = UINT64_C(1) << (uintptr_t)number * 7 % 50;
    gs_thread_set_remaining(left);
    gs_thread_yield();
    MUST(left >= last_work);
    last_work = left;
    return NULL;
}

static void *spawn_many(void *unused)
{
    (void)unused;
    last_work = 0;
    for (uintptr_t i = 0; i < MANY; i++)
        MUST_EQ(gs_thread_spawn(NULL, work_in_order, (void *)i, NULL), 0);
    return NULL;
}

TEST(very_many_threads_run_in_the_order_of_their_work)
{
    const struct gs_threads_options options = {.policy = &gs_policy_shortest};
    CHECK_EQ(gs_threads_run(&options, spawn_many, NULL, NULL), 0);
}

static void *set_work(void *letter)
{
    gs_thread_set_remaining(*(const char *)letter == 'h' ? UINT64_MAX : 1);
    gs_thread_yield();
    log_call(letter);
    return NULL;
}

static void *spawn_classes_with_work(void *unused)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW},
                                      high = {.priority = GS_PRIORITY_HIGH};
    (void)unused;
    clear_calls();
    MUST_EQ(gs_thread_spawn(&low, set_work, "l", NULL), 0);
    MUST_EQ(gs_thread_spawn(NULL, set_work, "n", NULL), 0);
    MUST_EQ(gs_thread_spawn(&high, set_work, "h", NULL), 0);
    return NULL;
}

TEST(shortest_work_runs_first_only_within_its_priority)
{
    const struct gs_threads_options options = {.policy = &gs_policy_shortest};
    CHECK_EQ(gs_threads_run(&options, spawn_classes_with_work, NULL, NULL), 0);
    CHECK_STR(calls, "hnl");
}
