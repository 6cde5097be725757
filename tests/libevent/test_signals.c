/* Signals: several events of one, several bases, and how often a callback is called. */
#include "tests/libevent/transcript.h"
#include "tests/test.h"

#include <event2/event_compat.h>
#include <event2/event_struct.h>

static struct event_base *base;

static void on_signal(evutil_socket_t number, short events, void *name)
{
    say("%s signal %d events %s\n", (const char *)name, number, names_of(events));
}

static void raise_and_run(int count)
{
    for (int i = 0; i < count; i++)
        raise(SIGUSR1);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
}

#define SIGNAL_TEST(name_) FIXTURE_TEST(name_, base = event_base_new(), event_base_free(base))

SIGNAL_TEST(a_callback_is_called_as_often_as_its_signal_was_caught)
{
    struct event *event = evsignal_new(base, SIGUSR1, on_signal, "a");
    CHECK_EQ(evsignal_add(event, NULL), 0);
    CHECK_EQ(evsignal_pending(event, NULL), EV_SIGNAL);
    CHECK_EQ(event_get_signal(event), SIGUSR1);
    raise_and_run(1);
    raise_and_run(3);
    event_free(event);
}

SIGNAL_TEST(several_events_may_wait_for_a_signal)
{
    struct event *first = evsignal_new(base, SIGUSR1, on_signal, "first");
    struct event *second = event_new(base, SIGUSR1, EV_SIGNAL, on_signal, "second, once");
    struct event *other = evsignal_new(base, SIGUSR2, on_signal, "other");
    evsignal_add(first, NULL);
    evsignal_add(second, NULL);
    evsignal_add(other, NULL);
    raise(SIGUSR2);
    raise_and_run(1);
    raise_and_run(1);
    event_free(first);
    raise(SIGUSR2);
    event_free(second);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
    event_free(other);
}

static void delete_itself(evutil_socket_t number, short events, void *event)
{
    on_signal(number, events, "deletes itself");
    event_del(event);
}

SIGNAL_TEST(calls_that_are_left_are_dropped_when_the_event_is_deleted)
{
    struct event *event = evsignal_new(base, SIGUSR1, delete_itself, event_self_cbarg());
    evsignal_add(event, NULL);
    raise_and_run(3);
    say("pending %d\n", evsignal_pending(event, NULL));
    event_free(event);
}

static void break_the_loop(evutil_socket_t number, short events, void *name)
{
    on_signal(number, events, name);
    event_base_loopbreak(base);
}

SIGNAL_TEST(a_break_ends_the_calls)
{
    struct event *event = evsignal_new(base, SIGUSR1, break_the_loop, "breaks");
    evsignal_add(event, NULL);
    raise_and_run(3);
    event_free(event);
}

static volatile int caught;

static void count_caught(int number)
{
    caught += number == SIGUSR1;
}

TEST(the_previous_action_is_restored)
{
    signal(SIGUSR1, count_caught);
    base = event_base_new();
    struct event *event = evsignal_new(base, SIGUSR1, on_signal, "ours");
    evsignal_add(event, NULL);
    raise_and_run(1);
    CHECK_EQ(caught, 0);
    event_free(event);
    raise(SIGUSR1);
    CHECK_EQ(caught, 1);
    static struct event left;
    evsignal_assign(&left, base, SIGUSR1, on_signal, "its base is freed");
    evsignal_add(&left, NULL);
    event_base_free(base);
    raise(SIGUSR1);
    CHECK_EQ(caught, 2);
    signal(SIGUSR1, SIG_DFL);
}

SIGNAL_TEST(a_signal_that_cannot_be_caught_is_refused)
{
    struct event *event = evsignal_new(base, SIGKILL, on_signal, "kill");
    say("add %d\n", evsignal_add(event, NULL));
    event_free(event);
    event = evsignal_new(base, 10000, on_signal, "none");
    say("add %d\n", evsignal_add(event, NULL));
    event_free(event);
}

SIGNAL_TEST(a_signal_has_a_timeout_and_is_activated_by_its_number)
{
    struct timeval soon = {0, 2000};
    struct event *event = event_new(base, SIGUSR1, EV_SIGNAL, on_signal, "timed");
    evsignal_add(event, &soon);
    say("loop %d\n", event_base_dispatch(base));
    evsignal_add(event, NULL);
    event_base_active_by_signal(base, SIGUSR1);
    say("loop %d\n", event_base_dispatch(base));
    event_free(event);
}

/* The signal is for the base that added its event, or began its loop, last: so it finds a handler
 * as often as there are events. */
TEST(of_two_bases_that_watch_a_signal_one_has_it_at_a_time)
{
    struct event_base *bases[2];
    struct event *events[2];
    static char names[2][2] = {"0", "1"};
    for (int i = 0; i < 2; i++) {
        bases[i] = event_base_new();
        events[i] = event_new(bases[i], SIGUSR1, EV_SIGNAL, on_signal, names[i]);
        CHECK_EQ(event_add(events[i], NULL), 0);
    }
    static const int order[] = {1, 0, 0, 1};
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0)
            raise(SIGUSR1);
        say("base %d: %d\n", order[i],
            event_base_loop(bases[order[i]], EVLOOP_ONCE | EVLOOP_NONBLOCK));
    }
    for (int i = 0; i < 2; i++) {
        event_free(events[i]);
        event_base_free(bases[i]);
    }
}

TEST(programs_of_old_watch_signals)
{
    base = event_init();
    static struct event event;
    signal_set(&event, SIGUSR1, on_signal, "old");
    CHECK_EQ(signal_add(&event, NULL), 0);
    CHECK(signal_initialized(&event) && signal_pending(&event, NULL));
    raise_and_run(1);
    CHECK_EQ(signal_del(&event), 0);
    event_base_free(base);
}
