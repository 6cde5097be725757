/* What follows when an event was deleted: it is freed, assigned or added again, in any order with
 * others of its descriptor. */
#include "tests/libevent/transcript.h"
#include "tests/test.h"

#include <event2/event_struct.h>

static const struct timeval soon = {0, 1000}, late = {1000, 0};

static void on_event(evutil_socket_t fd, short events, void *name)
{
    (void)fd;
    say("%s: %s\n", (const char *)name, names_of(events));
}

static void open_readable(int pair[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    CHECK_EQ(write(pair[1], "x", 1), 1);
}

static void run(struct event_base *base)
{
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
    say("%d added\n", event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED));
}

TEST(an_event_can_be_freed_when_it_was_deleted)
{
    int pair[2];
    open_readable(pair);
    struct event_base *base = event_base_new();
    struct event *old = event_new(base, pair[0], EV_READ | EV_PERSIST, on_event, "old");
    CHECK_EQ(event_add(old, &late), 0);
    run(base);
    CHECK_EQ(event_del(old), 0);
    event_free(old);
    run(base);
    struct event *next = event_new(base, pair[0], EV_READ, on_event, "next");
    CHECK_EQ(event_add(next, &late), 0);
    run(base);
    event_free(next);
    event_base_free(base);
    close(pair[0]);
    close(pair[1]);
}

TEST(a_deleted_event_can_be_added_for_other_events)
{
    int pair[2];
    open_readable(pair);
    struct event_base *base = event_base_new();
    struct event event;
    event_assign(&event, base, pair[0], EV_READ, on_event, "read");
    event_add(&event, NULL);
    event_del(&event);
    event_assign(&event, base, pair[0], EV_WRITE, on_event, "write");
    CHECK_EQ(event_add(&event, NULL), 0);
    run(base);
    event_assign(&event, base, pair[0], EV_READ | EV_PERSIST, on_event, "again");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(event_add(&event, &late), 0);
        run(base);
        CHECK_EQ(event_del(&event), 0);
        CHECK_EQ(event_add(&event, NULL), 0);
        CHECK_EQ(event_pending(&event, EV_TIMEOUT, NULL), 0);
        CHECK_EQ(event_del(&event), 0);
    }
    run(base);
    event_base_free(base);
    close(pair[0]);
    close(pair[1]);
}

TEST(an_event_can_be_added_between_a_deletion_and_the_next_addition)
{
    int pair[2];
    open_readable(pair);
    struct event_base *base = event_base_new();
    struct event first, second;
    event_assign(&first, base, pair[0], EV_READ | EV_PERSIST, on_event, "first");
    event_assign(&second, base, pair[0], EV_READ | EV_WRITE | EV_PERSIST, on_event, "second");
    event_add(&first, NULL);
    run(base);
    event_del(&first);
    event_add(&second, NULL);
    event_add(&first, NULL);
    run(base);
    event_del(&second);
    event_del(&first);
    event_add(&first, NULL);
    run(base);
    event_base_free(base);
    close(pair[0]);
    close(pair[1]);
}

TEST(the_timeouts_of_freed_events_are_gone)
{
    struct event_base *base = event_base_new();
    struct event *events[64];
    for (int i = 0; i < 64; i++) {
        events[i] = evtimer_new(base, on_event, "timer");
        CHECK_EQ(evtimer_add(events[i], i % 4 ? &late : &soon), 0);
    }
    for (int i = 0; i < 64; i += 2)
        event_free(events[i]);
    say("%d added\n", event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED));
    for (int i = 1; i < 64; i += 2)
        CHECK_EQ(evtimer_add(events[i], i == 33 ? &soon : &late), 0);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE));
    for (int i = 1; i < 64; i += 2)
        event_free(events[i]);
    run(base);
    event_base_free(base);
}

TEST(a_timeout_can_be_added_again_earlier_or_later)
{
    struct event_base *base = event_base_new();
    struct event event, other;
    evtimer_assign(&event, base, on_event, "event");
    evtimer_assign(&other, base, on_event, "other");
    evtimer_add(&event, &late);
    evtimer_del(&event);
    evtimer_add(&event, &soon);
    evtimer_add(&other, &late);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE));
    evtimer_add(&event, &soon);
    evtimer_del(&event);
    evtimer_add(&event, &late);
    evtimer_del(&other);
    evtimer_add(&other, &soon);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE));
    CHECK_EQ(event_pending(&event, EV_TIMEOUT, NULL), EV_TIMEOUT);
    evtimer_del(&event);
    run(base);
    event_base_free(base);
}

TEST(a_deleted_event_can_move_to_another_base)
{
    int pair[2];
    open_readable(pair);
    struct event_base *bases[] = {event_base_new(), event_base_new()};
    struct event event;
    event_assign(&event, bases[0], pair[0], EV_READ | EV_PERSIST, on_event, "moved");
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(event_base_set(bases[i % 2], &event), 0);
        CHECK_EQ(event_add(&event, &late), 0);
        run(bases[i % 2]);
        run(bases[(i + 1) % 2]);
        CHECK_EQ(event_del(&event), 0);
    }
    event_base_free(bases[0]);
    event_base_free(bases[1]);
    close(pair[0]);
    close(pair[1]);
}
