/* Events on descriptors and by hand: their life, order and results. */
#include "tests/libevent/pair.h"

#include <event2/event_struct.h>

static void on_event_reads(evutil_socket_t fd, short events, void *name)
{
    char bytes[16];
    on_event(fd, events, name);
    say("read %zd\n", read(fd, bytes, sizeof bytes));
}

#define EVENT_TEST(name_) FIXTURE_TEST(name_, open_all(), close_all())

EVENT_TEST(an_event_is_called_once_and_a_persistent_one_again)
{
    struct event *once = event_new(base, pair[0], EV_READ, on_event, "once");
    struct event *always = event_new(base, pair[0], EV_READ | EV_PERSIST, on_event, "always");
    CHECK_EQ(event_add(once, NULL), 0);
    CHECK_EQ(event_add(always, NULL), 0);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    for (int i = 0; i < 3; i++) {
        say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
        say("pending once %d always %d\n", event_pending(once, EV_READ, NULL),
            event_pending(always, EV_READ, NULL));
    }
    event_free(once);
    event_free(always);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
}

EVENT_TEST(events_of_a_descriptor_are_called_last_added_first)
{
    static struct event events[4];
    static const char *const names[] = {"a", "b", "c", "d"};
    static const short wanted[] = {EV_READ, EV_READ | EV_WRITE, EV_WRITE, EV_READ | EV_PERSIST};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(event_assign(&events[i], base, pair[0], wanted[i], on_event, (void *)names[i]), 0);
        CHECK_EQ(event_add(&events[i], NULL), 0);
    }
    CHECK_EQ(write(pair[1], "x", 1), 1);
    CHECK_EQ(event_base_loop(base, EVLOOP_ONCE), 0);
    event_del(&events[3]);
    CHECK_EQ(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 1);
}

EVENT_TEST(an_edge_is_reported_once)
{
    struct event *edge = event_new(base, pair[0], EV_READ | EV_ET | EV_PERSIST, on_event, "edge");
    struct event *other =
        event_new(base, pair[0], EV_WRITE | EV_ET | EV_PERSIST, on_event, "other");
    CHECK_EQ(event_add(edge, NULL), 0);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    for (int i = 0; i < 3; i++)
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    say("other %d\n", event_add(other, NULL));
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    event_del(edge);
    CHECK_EQ(event_add(edge, NULL), 0);
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    event_free(edge);
    event_free(other);
}

/* Methods without edges treat such events as level-triggered, and do not report them as others. */
TEST(an_edge_is_a_level_with_poll_and_select)
{
    static const char *const avoided[][2] = {{"epoll", "select"}, {"epoll", "poll"}};
    for (int i = 0; i < 2; i++) {
        struct event_config *config = event_config_new();
        open_all();
        event_base_free(base);
        for (int k = 0; k < 2; k++)
            CHECK_EQ(event_config_avoid_method(config, avoided[i][k]), 0);
        base = event_base_new_with_config(config);
        event_config_free(config);
        say("%s %d\n", event_base_get_method(base), event_base_get_features(base) & EV_FEATURE_ET);
        struct event *edge =
            event_new(base, pair[0], EV_READ | EV_ET | EV_PERSIST, on_event, "edge");
        CHECK_EQ(event_add(edge, NULL), 0);
        CHECK_EQ(write(pair[1], "xy", 2), 2);
        for (int k = 0; k < 3; k++)
            event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        event_free(edge);
        close_all();
    }
}

EVENT_TEST(the_end_of_a_connection_is_reported_to_those_who_wait_for_it)
{
    struct event *closed = event_new(base, pair[0], EV_CLOSED, on_event, "closed");
    CHECK_EQ(event_add(closed, NULL), 0);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
    CHECK_EQ(shutdown(pair[1], SHUT_WR), 0);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
    event_free(closed);
    struct event *both = event_new(base, pair[0], EV_CLOSED | EV_READ, on_event_reads, "both");
    CHECK_EQ(event_add(both, NULL), 0);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE));
    event_free(both);
}

EVENT_TEST(an_event_can_be_activated_by_hand)
{
    struct event *user = event_new(base, -1, 0, on_event, "user");
    event_active(user, EV_READ | EV_WRITE, 1);
    say("pending %s\n", names_of((short)event_pending(user, 0xff, NULL)));
    event_active(user, EV_TIMEOUT, 1);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
    event_active(user, EV_READ, 1);
    event_del(user);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
    event_free(user);
}

static void on_self(evutil_socket_t fd, short events, void *event)
{
    (void)fd, (void)events;
    say("running itself: %d\n", event == event_base_get_running_event(base));
    event_free(event);
}

EVENT_TEST(an_event_can_be_its_own_argument_and_free_itself)
{
    struct event *event = event_new(base, pair[0], EV_WRITE, on_self, event_self_cbarg());
    CHECK(event_get_callback_arg(event) == event);
    CHECK_EQ(event_add(event, NULL), 0);
    say("loop %d\n", event_base_dispatch(base));
}

static struct event others[2];

static void delete_the_other(evutil_socket_t fd, short events, void *index)
{
    (void)fd, (void)events;
    say("called %s\n", (const char *)index);
    event_del(&others[0]);
    event_del(&others[1]);
}

EVENT_TEST(an_active_event_that_is_deleted_is_not_called)
{
    event_assign(&others[0], base, pair[0], EV_WRITE | EV_PERSIST, delete_the_other, "first");
    event_assign(&others[1], base, pair[0], EV_WRITE | EV_PERSIST, delete_the_other, "second");
    event_add(&others[0], NULL);
    event_add(&others[1], NULL);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE));
}

EVENT_TEST(properties_of_an_event_are_those_that_it_was_assigned)
{
    static struct event event;
    memset(&event, 0, sizeof event);
    CHECK(!event_initialized(&event));
    CHECK_EQ(event_assign(&event, base, pair[0], EV_READ | EV_PERSIST, on_event, &event), 0);
    CHECK(event_initialized(&event));
    CHECK_EQ(event_get_fd(&event), pair[0]);
    CHECK_EQ(event_get_events(&event), EV_READ | EV_PERSIST);
    CHECK(event_get_base(&event) == base);
    CHECK(event_get_callback(&event) == on_event);
    struct event_base *its_base;
    evutil_socket_t fd;
    short wanted;
    event_callback_fn callback;
    void *argument;
    event_get_assignment(&event, &its_base, &fd, &wanted, &callback, &argument);
    CHECK(its_base == base && fd == pair[0] && wanted == (EV_READ | EV_PERSIST));
    CHECK(callback == on_event && argument == &event);
    event_get_assignment(&event, NULL, NULL, NULL, NULL, NULL);
    CHECK_EQ(event_get_struct_event_size(), sizeof event);
    say("signal and read: %d\n", event_assign(&event, base, 10, EV_SIGNAL | EV_READ, on_event, 0));
}

EVENT_TEST(descriptors_that_cannot_be_watched_are_refused)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct event *event = event_new(base, file, EV_READ, on_event, "file");
    say("a file: %d, errno %d\n", event_add(event, NULL), errno);
    say("pending %d\n", event_pending(event, EV_READ, NULL));
    event_free(event);
    close(file);
    event = event_new(base, file, EV_READ, on_event, "closed");
    say("a closed number: %d, errno %d\n", event_add(event, NULL), errno);
    event_free(event);
    event = event_new(base, -1, EV_READ, on_event, "none");
    say("no number: %d\n", event_add(event, NULL));
    say("pending %d\n", event_pending(event, EV_READ, NULL));
    event_free(event);
}

TEST(an_event_without_a_base_is_refused)
{
    static struct event event;
    CHECK_EQ(event_assign(&event, NULL, -1, 0, on_event, NULL), 0);
    say("add %d del %d pending %d\n", event_add(&event, NULL), event_del(&event),
        event_pending(&event, EV_TIMEOUT, NULL));
    say("finalize %d\n", event_finalize(0, &event, NULL));
    say("remove_timer %d\n", event_remove_timer(&event));
}

static void on_finalized(struct event *event, void *name)
{
    say("finalized %s\n", (const char *)name);
    CHECK(event_get_callback_arg(event) == name);
}

EVENT_TEST(a_finalizer_is_called_in_the_loop_and_nothing_else)
{
    struct event *event = event_new(base, pair[0], EV_WRITE, on_event, "freed");
    static struct event kept;
    event_assign(&kept, base, pair[0], EV_WRITE | EV_FINALIZE, on_event, "kept");
    event_add(event, NULL);
    event_add(&kept, NULL);
    CHECK_EQ(event_free_finalize(0, event, on_finalized), 0);
    CHECK_EQ(event_finalize(0, &kept, on_finalized), 0);
    say("add %d del %d\n", event_add(&kept, NULL), event_del(&kept));
    event_active(&kept, EV_READ, 1);
    say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
    event = event_new(base, -1, 0, on_event, "with the base");
    CHECK_EQ(event_free_finalize(0, event, on_finalized), 0);
}

static void on_once(evutil_socket_t fd, short events, void *name)
{
    on_event(fd, events, name);
}

EVENT_TEST(a_call_can_be_had_once_without_storage)
{
    struct timeval soon = {0, 1000};
    say("timer %d\n", event_base_once(base, -1, EV_TIMEOUT, on_once, "timer", &soon));
    say("now %d\n", event_base_once(base, -1, EV_TIMEOUT, on_once, "now", NULL));
    say("write %d\n", event_base_once(base, pair[0], EV_WRITE, on_once, "write", NULL));
    say("signal %d\n", event_base_once(base, 10, EV_SIGNAL, on_once, "signal", NULL));
    say("persist %d\n", event_base_once(base, pair[0], EV_READ | EV_PERSIST, on_once, "p", NULL));
    say("nothing %d\n", event_base_once(base, pair[0], 0, on_once, "nothing", NULL));
    say("loop %d\n", event_base_dispatch(base));
    say("unused %d\n", event_base_once(base, pair[0], EV_READ, on_once, "unused", NULL));
}

TEST(a_base_is_freed_with_what_is_still_added)
{
    open_all();
    static struct event events[3];
    struct timeval later = {1000, 0};
    event_assign(&events[0], base, pair[0], EV_READ, on_event, "read");
    event_assign(&events[1], base, -1, 0, on_event, "timer");
    event_assign(&events[2], base, -1, 0, on_event, "active");
    event_add(&events[0], &later);
    event_add(&events[1], &later);
    event_active(&events[2], EV_READ, 1);
    close_all();
    say("flags %d %d %d\n", events[0].ev_evcallback.evcb_flags, events[1].ev_evcallback.evcb_flags,
        events[2].ev_evcallback.evcb_flags);
}
