#include "tests/libevent/bev.h"

#include <event2/bufferevent_compat.h>
#include <event2/bufferevent_struct.h>

/* Late enough for what is to happen before, in a process that is delayed. */
static const struct timeval soon = {0, 200000};

SOCKET_TEST(a_read_timeout_is_an_event_and_disables_reading)
{
    CHECK_EQ(bufferevent_set_timeouts(bev, &soon, NULL), 0);
    CHECK_EQ(bev->timeout_read.tv_usec, 200000);
    CHECK(!event_pending(&bev->ev_read, EV_TIMEOUT, NULL));
    bufferevent_enable(bev, EV_READ);
    CHECK(event_pending(&bev->ev_read, EV_TIMEOUT, NULL));
    run_until_noted(base, "timeout");
    CHECK_TRACE("b:event R timeout;");
    CHECK_EQ(bufferevent_get_enabled(bev), EV_WRITE);
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(write(fds[1], "x", 1), 1);
    run_until_noted(base, "timeout");
    CHECK_TRACE("b:read 1;b:event R timeout;");
}

SOCKET_TEST(a_write_timeout_runs_only_while_there_is_something_to_write)
{
    CHECK_EQ(bufferevent_set_timeouts(bev, NULL, &soon), 0);
    bufferevent_write(bev, "x", 1);
    settle(base);
    CHECK_TRACE("b:write 0;");
    CHECK(!event_pending(&bev->ev_write, EV_TIMEOUT | EV_WRITE, NULL));
    CHECK_EQ(event_base_loop(base, 0), 1);
    char bytes[65536] = {0};
    for (int i = 0; i < 64; i++)
        bufferevent_write(bev, bytes, sizeof bytes);
    run_until_noted(base, "timeout");
    CHECK_TRACE("b:event W timeout;");
    CHECK_EQ(bufferevent_get_enabled(bev), 0);
}

SOCKET_TEST(timeouts_can_be_set_and_removed_while_it_is_enabled)
{
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(bufferevent_set_timeouts(bev, &soon, &soon), 0);
    CHECK(event_pending(&bev->ev_read, EV_TIMEOUT, NULL));
    CHECK(!event_pending(&bev->ev_write, EV_TIMEOUT, NULL));
    CHECK_EQ(bufferevent_set_timeouts(bev, NULL, NULL), 0);
    CHECK(!event_pending(&bev->ev_read, EV_TIMEOUT, NULL));
    CHECK(event_pending(&bev->ev_read, EV_READ, NULL));
    CHECK_EQ(bufferevent_set_timeouts(bev, &soon, NULL), 0);
    run_until_noted(base, "timeout");
    CHECK_TRACE("b:event R timeout;");
}

TEST(the_old_function_takes_seconds)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    bufferevent_settimeout(bev, 3, 4);
    CHECK_EQ(bev->timeout_read.tv_sec, 3);
    CHECK_EQ(bev->timeout_write.tv_sec, 4);
    bufferevent_settimeout(bev, 0, 0);
    CHECK_EQ(bev->timeout_read.tv_sec, 0);
    CHECK_EQ(bev->timeout_write.tv_sec, 0);
    bufferevent_free(bev);
    event_base_free(base);
}

static void feed(evutil_socket_t fd, short what, void *left)
{
    (void)what;
    int *count = left;
    if (*count > 0)
        CHECK_EQ(write(fd, "x", 1), 1);
    --*count;
}

SOCKET_TEST(reading_postpones_the_read_timeout)
{
    bufferevent_setcb(bev, NULL, NULL, note_event, "b");
    struct timeval idle = {1, 0}, period = {0, 60000};
    bufferevent_set_timeouts(bev, &idle, NULL);
    bufferevent_enable(bev, EV_READ);
    int left = 20;
    struct event *feeder = event_new(base, fds[1], EV_PERSIST, feed, &left);
    event_add(feeder, &period);
    run_until_noted(base, "timeout");
    CHECK(left < 0);
    CHECK_EQ(input_length(bev), 20);
    CHECK_TRACE("b:event R timeout;");
    event_free(feeder);
}

TEST(a_pair_has_timeouts)
{
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, 0, pair), 0);
    note_all(pair[0], "0");
    note_all(pair[1], "1");
    bufferevent_set_timeouts(pair[0], &soon, NULL);
    CHECK(!evtimer_pending(&pair[0]->ev_read, NULL));
    bufferevent_enable(pair[0], EV_READ);
    CHECK(evtimer_pending(&pair[0]->ev_read, NULL));
    run_until_noted(base, "timeout");
    CHECK_TRACE("0:event R timeout;");
    CHECK_EQ(bufferevent_get_enabled(pair[0]), EV_WRITE);
    bufferevent_set_timeouts(pair[0], NULL, &soon);
    CHECK(!evtimer_pending(&pair[0]->ev_write, NULL));
    bufferevent_write(pair[0], "abc", 3);
    note("%d;", evtimer_pending(&pair[0]->ev_write, NULL) != 0);
    CHECK_TRACE("0;");
    bufferevent_enable(pair[0], EV_WRITE);
    CHECK(evtimer_pending(&pair[0]->ev_write, NULL));
    run_until_noted(base, "timeout");
    CHECK_TRACE("0:event W timeout;");
    CHECK_EQ(bufferevent_get_enabled(pair[0]), 0);
    bufferevent_enable(pair[0], EV_WRITE);
    bufferevent_enable(pair[1], EV_READ);
    note("%d;", evtimer_pending(&pair[0]->ev_write, NULL) != 0);
    settle(base);
    note("%d;", evtimer_pending(&pair[0]->ev_write, NULL) != 0);
    CHECK_TRACE("1;1:read 3;0:write 0;1;");
    bufferevent_free(pair[0]);
    bufferevent_free(pair[1]);
    event_base_free(base);
}

TEST(a_filter_has_timeouts)
{
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, 0, pair), 0);
    struct bufferevent *filter =
        bufferevent_filter_new(pair[0], NULL, NULL, BEV_OPT_CLOSE_ON_FREE, NULL, NULL);
    note_all(filter, "f");
    note_all(pair[1], "1");
    bufferevent_set_timeouts(filter, &soon, &soon);
    note("%d%d;", evtimer_pending(&filter->ev_read, NULL) != 0,
         evtimer_pending(&filter->ev_write, NULL) != 0);
    bufferevent_enable(filter, EV_READ);
    note("%d%d;", evtimer_pending(&filter->ev_read, NULL) != 0,
         evtimer_pending(&filter->ev_write, NULL) != 0);
    run_until_noted(base, "timeout");
    CHECK_TRACE("00;10;f:event R timeout;");
    bufferevent_enable(filter, EV_WRITE);
    note("%d%d;", evtimer_pending(&filter->ev_read, NULL) != 0,
         evtimer_pending(&filter->ev_write, NULL) != 0);
    run_until_noted(base, "timeout");
    CHECK_TRACE("01;f:event W timeout;");
    bufferevent_free(filter);
    bufferevent_free(pair[1]);
    event_base_free(base);
}
