/* Descriptors that are closed, duplicated and opened again while events refer to them, mixed
 * edge-triggered events, and the end of connections. */
#include "tests/libevent/pair.h"

static void on_event_of(evutil_socket_t fd, short events, void *name)
{
    (void)fd;
    say("%s gets %s\n", (const char *)name, names_of(events));
}

static void loop(int times)
{
    for (int i = 0; i < times; i++)
        say("loop %d\n", event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK));
}

static struct event *added(short events, const char *name)
{
    struct event *event = event_new(base, pair[0], events, on_event_of, (void *)(uintptr_t)name);
    CHECK(event);
    CHECK_EQ(event_add(event, NULL), 0);
    return event;
}

/* Close the pair's first socket, and open another pair, of which one gets its number. */
static void reopen_pair(void)
{
    int number = pair[0];
    close(pair[0]);
    close(pair[1]);
    int other[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other), 0);
    pair[0] = other[0];
    pair[1] = other[1];
    CHECK_EQ(pair[0], number);
}

#define CLOSED_TEST(name_) FIXTURE_TEST(name_, open_all(), close_all())

CLOSED_TEST(an_event_of_a_closed_descriptor_stays_added_and_gets_nothing)
{
    struct event *event = added(EV_READ | EV_PERSIST, "old");
    loop(1);
    reopen_pair();
    CHECK_EQ(write(pair[1], "x", 1), 1);
    loop(2);
    say("pending %s\n", names_of((short)event_pending(event, EV_READ, NULL)));
    CHECK_EQ(event_del(event), 0);
    CHECK_EQ(event_add(event, NULL), 0);
    loop(1);
    event_free(event);
}

CLOSED_TEST(an_event_that_is_deleted_follows_the_number_to_another_file)
{
    struct event *event = added(EV_READ | EV_PERSIST, "event");
    loop(1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(event_del(event), 0);
        reopen_pair();
        CHECK_EQ(event_add(event, NULL), 0);
        loop(1);
        CHECK_EQ(write(pair[1], "x", 1), 1);
        loop(1);
    }
    event_free(event);
}

CLOSED_TEST(an_event_is_refused_for_a_number_that_is_not_open)
{
    close(pair[0]);
    struct event *event = event_new(base, pair[0], EV_READ, on_event_of, "refused");
    struct timeval soon = {0, 1000};
    say("add %d\n", event_add(event, &soon));
    say("pending %s\n", names_of((short)event_pending(event, EV_READ | EV_TIMEOUT, NULL)));
    say("dispatch %d\n", event_base_dispatch(base));
    event_free(event);
}

/* libevent refuses to add it, ours to keep it: the loop ends at once in both. */
CLOSED_TEST(an_event_that_is_added_again_after_the_close_does_not_keep_the_loop)
{
    struct event *event = added(EV_READ | EV_PERSIST, "event");
    loop(1);
    CHECK_EQ(event_del(event), 0);
    close(pair[0]);
    event_add(event, NULL);
    say("dispatch %d\n", event_base_dispatch(base));
    say("pending %s\n", names_of((short)event_pending(event, EV_READ, NULL)));
    event_free(event);
}

CLOSED_TEST(a_duplicate_keeps_the_events_of_a_closed_number)
{
    struct event *event = added(EV_READ | EV_PERSIST, "old");
    loop(1);
    int duplicate = dup(pair[0]);
    close(pair[0]);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    loop(2);
    event_free(event);
    close(duplicate);
}

CLOSED_TEST(a_number_and_its_duplicate_have_events_of_their_own)
{
    struct event *first = added(EV_READ | EV_PERSIST, "first");
    int number = pair[0];
    pair[0] = dup(number);
    struct event *second = added(EV_READ | EV_PERSIST, "second");
    loop(1);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    loop(2);
    event_free(first);
    loop(1);
    close(number);
    loop(1);
    event_free(second);
}

TEST(the_last_change_of_the_interest_decides_about_edges)
{
    static const short kinds[][3] = {
        {EV_READ, EV_READ | EV_ET, EV_WRITE},
        {EV_READ | EV_ET, EV_READ, EV_WRITE | EV_ET},
        {EV_READ, EV_WRITE | EV_ET, EV_READ},
        {EV_WRITE | EV_ET, EV_READ, EV_READ | EV_WRITE | EV_ET},
        {EV_READ | EV_ET, EV_WRITE | EV_ET, EV_READ | EV_ET},
    };
    static const char *const names[] = {"first", "second", "third"};
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct event *events[3];
        open_all();
        CHECK_EQ(write(pair[1], "x", 1), 1);
        for (int j = 0; j < 3; j++) {
            say("add %s %s\n", names[j], names_of(kinds[i][j]));
            events[j] = added((short)(kinds[i][j] | EV_PERSIST), names[j]);
            loop(2);
        }
        for (int j = 0; j < 3; j++) {
            say("delete %s\n", names[j]);
            event_free(events[j]);
            loop(2);
        }
        close_all();
    }
}

CLOSED_TEST(an_edge_is_reported_again_when_the_event_is_added_again)
{
    struct event *event = added(EV_READ | EV_ET | EV_PERSIST, "event");
    CHECK_EQ(write(pair[1], "x", 1), 1);
    loop(2);
    CHECK_EQ(event_del(event), 0);
    CHECK_EQ(event_add(event, NULL), 0);
    loop(2);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    loop(2);
    event_free(event);
}

TEST(the_end_of_a_connection_is_reported_until_it_is_deleted)
{
    static const short with[] = {0, EV_WRITE, EV_READ, EV_ET};
    for (unsigned i = 0; i < sizeof with / sizeof with[0]; i++) {
        open_all();
        say("with %s\n", names_of(with[i]));
        struct event *event = added((short)(EV_CLOSED | EV_PERSIST | with[i]), "event");
        loop(1);
        CHECK_EQ(write(pair[1], "x", 1), 1);
        loop(1);
        CHECK_EQ(shutdown(pair[1], SHUT_WR), 0);
        loop(3);
        event_free(event);
        close_all();
    }
}

CLOSED_TEST(an_end_that_came_before_is_reported)
{
    close(pair[1]);
    struct event *event = added(EV_CLOSED | EV_PERSIST, "event");
    loop(2);
    struct event *reads = added(EV_READ | EV_PERSIST, "reads");
    loop(1);
    event_free(reads);
    loop(1);
    event_free(event);
}

CLOSED_TEST(after_a_fork_closed_descriptors_make_the_call_fail)
{
    struct event *event = added(EV_READ | EV_PERSIST, "event");
    loop(1);
    say("reinit %d\n", event_reinit(base));
    int number = pair[0];
    close(pair[0]);
    say("reinit %d\n", event_reinit(base));
    loop(1);
    CHECK_EQ(dup2(pair[1], number), number);
    event_free(event);
}
