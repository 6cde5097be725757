/* Timeouts: of their own, and of events that also wait for something else. */
#include "tests/libevent/pair.h"

#include <event2/event_struct.h>

#define TIMERS 500

#define TIMER_TEST(name_) FIXTURE_TEST(name_, open_all(), close_all())

TIMER_TEST(timers_are_called_in_the_order_of_their_deadlines)
{
    static struct event events[5];
    static const char *const names[] = {"d", "b", "a", "c", "a too"};
    /* Far enough apart for a process that is delayed while it adds them. */
    static const int delays_ms[] = {400, 200, 0, 300, 0};
    for (int i = 0; i < 5; i++) {
        struct timeval delay = {0, (suseconds_t)delays_ms[i] * 1000};
        evtimer_assign(&events[i], base, on_event, (void *)names[i]);
        CHECK_EQ(evtimer_add(&events[i], &delay), 0);
        CHECK(evtimer_pending(&events[i], NULL));
    }
    say("loop %d\n", event_base_dispatch(base));
    CHECK(!evtimer_pending(&events[0], NULL));
}

static int left;

static void on_persistent(evutil_socket_t fd, short events, void *event)
{
    (void)fd;
    say("persistent %s\n", names_of(events));
    if (!--left)
        event_del(event);
}

TIMER_TEST(a_persistent_timer_is_called_again_until_it_is_deleted)
{
    struct event *event = event_new(base, -1, EV_PERSIST, on_persistent, event_self_cbarg());
    struct timeval delay = {0, 2000};
    left = 3;
    CHECK_EQ(event_add(event, &delay), 0);
    say("loop %d\n", event_base_dispatch(base));
    event_free(event);
}

TIMER_TEST(a_timeout_without_an_event_leads_to_a_call)
{
    struct timeval delay = {0, 5000}, later = {1000, 0};
    struct event *event = event_new(base, pair[0], EV_READ, on_event, "silent");
    struct event *other = event_new(base, pair[1], EV_WRITE, on_event, "in time");
    CHECK_EQ(event_add(event, &delay), 0);
    CHECK_EQ(event_add(other, &later), 0);
    say("loop %d\n", event_base_dispatch(base));
    say("pending %d %d\n", event_pending(event, 0xff, NULL), event_pending(other, 0xff, NULL));
    event_free(event);
    event_free(other);
}

static void on_readable(evutil_socket_t fd, short events, void *event)
{
    char byte;
    say("persistent read %s %zd\n", names_of(events), read(fd, &byte, 1));
    if (!--left)
        event_del(event);
    else if (left == 2)
        CHECK_EQ(write(pair[1], "y", 1), 1);
}

TIMER_TEST(a_persistent_event_has_its_timeout_again_after_each_call)
{
    struct event *event =
        event_new(base, pair[0], EV_READ | EV_PERSIST, on_readable, event_self_cbarg());
    struct timeval delay = {0, 500000}; /* a timeout that is due replaces what can be read */
    left = 3;
    CHECK_EQ(event_add(event, &delay), 0);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    say("loop %d\n", event_base_dispatch(base));
    event_free(event);
}

TIMER_TEST(a_timeout_that_is_removed_leaves_the_event)
{
    struct timeval delay = {0, 1000}, next;
    struct event *event = event_new(base, pair[0], EV_READ, on_event, "kept");
    CHECK_EQ(event_add(event, &delay), 0);
    CHECK_EQ(event_pending(event, EV_TIMEOUT, &next), EV_TIMEOUT);
    CHECK(next.tv_sec > 1000000000);
    CHECK_EQ(event_remove_timer(event), 0);
    say("pending %s\n", names_of((short)event_pending(event, 0xff, NULL)));
    usleep(3000);
    say("loop %d\n", event_base_loop(base, EVLOOP_NONBLOCK));
    CHECK_EQ(write(pair[1], "x", 1), 1);
    say("loop %d\n", event_base_dispatch(base));
    event_free(event);
}

static int called, wrong;
static struct event timers[TIMERS];
static int due_ms[TIMERS], last_ms;

static void on_random(evutil_socket_t fd, short events, void *index)
{
    (void)fd, (void)events;
    int i = (int)(intptr_t)index;
    wrong += due_ms[i] < last_ms;
    last_ms = due_ms[i];
    called++;
}

/* All are added, moved, deleted and added again at one cached time, at random. */
static void shuffle(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    for (int round = 0; round < 20 * TIMERS; round++) {
        int i = rand() % TIMERS;
        if (rand() % 3 == 0) {
            event_del(&timers[i]);
            due_ms[i] = -1;
            continue;
        }
        due_ms[i] = 1 + rand() % 40;
        struct timeval delay = {0, (suseconds_t)due_ms[i] * 1000};
        CHECK_EQ(event_add(&timers[i], &delay), 0);
    }
}

TIMER_TEST(timers_that_are_moved_and_deleted_at_random_are_called_in_order)
{
    srand(7);
    for (int i = 0; i < TIMERS; i++) {
        due_ms[i] = -1;
        evtimer_assign(&timers[i], base, on_random, (void *)(intptr_t)i);
    }
    event_base_once(base, -1, EV_TIMEOUT, shuffle, NULL, NULL);
    say("loop %d\n", event_base_dispatch(base));
    int expected = 0;
    for (int i = 0; i < TIMERS; i++)
        expected += due_ms[i] >= 0;
    CHECK_EQ(called, expected);
    CHECK_EQ(wrong, 0);
}

TIMER_TEST(a_common_timeout_is_a_duration_with_a_mark)
{
    struct timeval duration = {0, 300000}, other = {0, 100000};
    const struct timeval *common = event_base_init_common_timeout(base, &duration);
    CHECK(common && common->tv_sec == 0 && common->tv_usec != 300000);
    CHECK(event_base_init_common_timeout(base, &duration) == common);
    CHECK(event_base_init_common_timeout(base, common) == common);
    const struct timeval *second = event_base_init_common_timeout(base, &other);
    CHECK(second && second != common);
    static struct event events[4];
    static const char *const names[] = {"300 ms", "100 ms", "300 ms, second", "100 ms, second"};
    for (int i = 0; i < 4; i++) {
        evtimer_assign(&events[i], base, on_event, (void *)names[i]);
        CHECK_EQ(event_add(&events[i], i % 2 ? second : common), 0);
    }
    say("loop %d\n", event_base_dispatch(base));
}

TIMER_TEST(there_are_at_most_256_common_timeouts)
{
    for (int i = 0; i < 256; i++) {
        struct timeval duration = {i + 1, 0};
        CHECK(event_base_init_common_timeout(base, &duration));
    }
    struct timeval duration = {1000, 0};
    CHECK(!event_base_init_common_timeout(base, &duration));
}

TIMER_TEST(the_cached_time_stands_still_during_a_callback)
{
    struct timeval now, cached, monotonic;
    CHECK_EQ(event_base_gettimeofday_cached(base, &cached), 0);
    CHECK_EQ(gettimeofday(&now, NULL), 0);
    CHECK(labs(now.tv_sec - cached.tv_sec) <= 1);
    CHECK_EQ(event_gettime_monotonic(base, &monotonic), 0);
    CHECK_EQ(event_gettime_monotonic(NULL, &monotonic), -1);
    CHECK_EQ(event_base_update_cache_time(base), 0);
    CHECK_EQ(event_base_update_cache_time(NULL), -1);
}
