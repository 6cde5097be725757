#include "tests/libevent/bev.h"

#include <event2/bufferevent_struct.h>

TEST(a_new_bufferevent_has_writing_enabled_and_two_frozen_ends)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    CHECK(bev);
    CHECK_EQ(bufferevent_get_enabled(bev), EV_WRITE);
    CHECK_EQ(bufferevent_getfd(bev), fds[0]);
    CHECK(bufferevent_get_base(bev) == base);
    CHECK(!bufferevent_get_underlying(bev));
    CHECK_EQ(bufferevent_get_priority(bev), 0);
    CHECK_EQ(evbuffer_add(bufferevent_get_input(bev), "x", 1), -1);
    CHECK_EQ(evbuffer_prepend(bufferevent_get_input(bev), "x", 1), 0);
    CHECK_EQ(evbuffer_add(bufferevent_get_output(bev), "x", 1), 0);
    CHECK_EQ(evbuffer_drain(bufferevent_get_output(bev), 1), -1);
    CHECK_EQ(evbuffer_prepend(bufferevent_get_output(bev), "x", 1), -1);
    CHECK_EQ(event_get_events(&bev->ev_read), EV_READ | EV_PERSIST | EV_FINALIZE);
    CHECK_EQ(event_get_events(&bev->ev_write), EV_WRITE | EV_PERSIST | EV_FINALIZE);
    CHECK_EQ(bufferevent_get_max_single_read(bev), 16384);
    CHECK_EQ(bufferevent_get_max_single_write(bev), 16384);
    bufferevent_free(bev);
    settle(base);
    event_base_free(base);
    close(fds[1]);
}

TEST(callbacks_are_set_and_read_back)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    bufferevent_data_cb on_read = note_read, on_write = note_write;
    bufferevent_event_cb on_event = note_event;
    void *context = base;
    bufferevent_getcb(bev, &on_read, &on_write, &on_event, &context);
    CHECK(!on_read && !on_write && !on_event && !context);
    bufferevent_setcb(bev, note_read, note_write, note_event, bev);
    bufferevent_getcb(bev, &on_read, &on_write, &on_event, &context);
    CHECK(on_read == note_read && on_write == note_write && on_event == note_event);
    CHECK(context == bev);
    bufferevent_getcb(bev, NULL, NULL, NULL, NULL);
    CHECK(bev->readcb == note_read && bev->writecb == note_write && bev->errorcb == note_event);
    CHECK(bev->cbarg == bev && bev->ev_base == base);
    CHECK(bev->input == bufferevent_get_input(bev) && bev->output == bufferevent_get_output(bev));
    CHECK_EQ(bufferevent_getfd(bev), -1);
    bufferevent_free(bev);
    event_base_free(base);
}

TEST(reading_begins_when_it_is_enabled_and_data_comes_in_the_order_of_sending)
{
    struct event_base *base = event_base_new();
    int fds[2];
    struct bufferevent *bev = new_on_socket(base, fds);
    note_all(bev, "b");
    CHECK_EQ(write(fds[1], "hello", 5), 5);
    settle(base);
    CHECK_TRACE("");
    CHECK_EQ(bufferevent_enable(bev, EV_READ), 0);
    CHECK_EQ(bufferevent_get_enabled(bev), EV_READ | EV_WRITE);
    settle(base);
    CHECK_TRACE("b:read 5;");
    char text[16];
    CHECK_EQ(bufferevent_read(bev, text, 3), 3);
    CHECK(!memcmp(text, "hel", 3));
    CHECK_EQ(write(fds[1], " world", 6), 6);
    settle(base);
    CHECK_TRACE("b:read 8;");
    CHECK_EQ(bufferevent_read(bev, text, sizeof text), 8);
    CHECK(!memcmp(text, "lo world", 8));
    CHECK_EQ(bufferevent_read(bev, text, sizeof text), 0);
    bufferevent_free(bev);
    CHECK(is_open(fds[0]));
    event_base_free(base);
    CHECK(is_open(fds[0]));
    close(fds[0]);
    close(fds[1]);
}

SOCKET_TEST(the_write_callback_follows_when_the_output_is_gone)
{
    CHECK_EQ(bufferevent_write(bev, "12345", 5), 0);
    CHECK_EQ(output_length(bev), 5);
    CHECK_TRACE("");
    settle(base);
    CHECK_TRACE("b:write 0;");
    char text[16];
    CHECK_EQ(read(fds[1], text, sizeof text), 5);
    struct evbuffer *more = evbuffer_new();
    evbuffer_add(more, "67", 2);
    CHECK_EQ(bufferevent_write_buffer(bev, more), 0);
    CHECK_EQ(evbuffer_get_length(more), 0);
    settle(base);
    CHECK_TRACE("b:write 0;");
    CHECK_EQ(read(fds[1], text, sizeof text), 2);
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    settle(base);
    CHECK_TRACE("b:read 3;");
    CHECK_EQ(bufferevent_read_buffer(bev, more), 0);
    CHECK_EQ(evbuffer_get_length(more), 3);
    evbuffer_free(more);
}

SOCKET_TEST(enabling_writing_calls_the_write_callback_once_with_an_empty_output)
{
    settle(base);
    CHECK_TRACE("");
    bufferevent_enable(bev, EV_WRITE);
    CHECK(event_pending(&bev->ev_write, EV_WRITE, NULL));
    settle(base);
    CHECK_TRACE("b:write 0;");
    CHECK(!event_pending(&bev->ev_write, EV_WRITE, NULL));
}

SOCKET_TEST(disabled_writing_keeps_the_output)
{
    CHECK_EQ(bufferevent_disable(bev, EV_WRITE), 0);
    CHECK_EQ(bufferevent_get_enabled(bev), 0);
    bufferevent_write(bev, "123", 3);
    settle(base);
    CHECK_TRACE("");
    CHECK_EQ(output_length(bev), 3);
    bufferevent_enable(bev, EV_WRITE);
    settle(base);
    CHECK_TRACE("b:write 0;");
}

SOCKET_TEST(a_low_mark_holds_back_the_read_callback)
{
    bufferevent_setwatermark(bev, EV_READ, 5, 0);
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(write(fds[1], "abcd", 4), 4);
    settle(base);
    CHECK_TRACE("");
    CHECK_EQ(input_length(bev), 4);
    CHECK_EQ(write(fds[1], "e", 1), 1);
    settle(base);
    CHECK_TRACE("b:read 5;");
    size_t low, high;
    CHECK_EQ(bufferevent_getwatermark(bev, EV_READ, &low, &high), 0);
    CHECK_EQ(low, 5);
    CHECK_EQ(high, 0);
    bufferevent_setwatermark(bev, EV_READ | EV_WRITE, 7, 9);
    CHECK_EQ(bufferevent_getwatermark(bev, EV_WRITE, &low, &high), 0);
    CHECK_EQ(low, 7);
    CHECK_EQ(high, 9);
    CHECK_EQ(bufferevent_getwatermark(bev, EV_READ, NULL, NULL), 0);
    CHECK_EQ(bufferevent_getwatermark(bev, EV_READ | EV_WRITE, &low, &high), -1);
    CHECK_EQ(bufferevent_getwatermark(bev, 0, &low, &high), -1);
    CHECK_EQ(bev->wm_read.low, 7);
    CHECK_EQ(bev->wm_write.high, 9);
}

static void drain_some(struct bufferevent *bev, void *count)
{
    note("read %zu;", input_length(bev));
    evbuffer_drain(bufferevent_get_input(bev), *(size_t *)count);
}

SOCKET_TEST(at_the_high_mark_reading_pauses_until_the_input_is_drained)
{
    size_t count = 10;
    bufferevent_setcb(bev, drain_some, NULL, NULL, &count);
    bufferevent_setwatermark(bev, EV_READ, 0, 10);
    bufferevent_enable(bev, EV_READ);
    char bytes[25] = {0};
    CHECK_EQ(write(fds[1], bytes, 25), 25);
    settle(base);
    CHECK_TRACE("read 10;read 10;read 5;");
    bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
    CHECK_EQ(write(fds[1], bytes, 25), 25);
    settle(base);
    CHECK_EQ(input_length(bev), 10);
    CHECK(!event_pending(&bev->ev_read, EV_READ, NULL));
    bufferevent_setwatermark(bev, EV_READ, 0, 12);
    settle(base);
    CHECK_EQ(input_length(bev), 12);
    bufferevent_setwatermark(bev, EV_READ, 0, 0);
    settle(base);
    CHECK_EQ(input_length(bev), 25);
    bufferevent_setwatermark(bev, EV_READ, 0, 7);
    CHECK(!event_pending(&bev->ev_read, EV_READ, NULL));
    evbuffer_drain(bufferevent_get_input(bev), 20);
    CHECK(event_pending(&bev->ev_read, EV_READ, NULL));
}

SOCKET_TEST(an_input_left_at_the_high_mark_calls_back_again)
{
    size_t count = 2;
    bufferevent_setcb(bev, drain_some, NULL, NULL, &count);
    bufferevent_enable(bev, EV_READ);
    char bytes[25] = {0};
    CHECK_EQ(write(fds[1], bytes, 9), 9);
    settle(base);
    CHECK_TRACE("read 9;");
    bufferevent_setwatermark(bev, EV_READ, 0, 4);
    CHECK_EQ(write(fds[1], bytes, 9), 9);
    settle(base);
    CHECK_TRACE("");
    bufferevent_trigger(bev, EV_READ, 0);
    settle(base);
    CHECK_TRACE("read 7;read 5;read 4;read 4;read 4;read 4;read 4;");
}

SOCKET_TEST(the_write_callback_comes_at_the_low_mark)
{
    bufferevent_setwatermark(bev, EV_WRITE, 10000, 0);
    char bytes[20000] = {0};
    bufferevent_write(bev, bytes, sizeof bytes);
    settle(base);
    CHECK_TRACE("b:write 3616;b:write 0;");
    bufferevent_set_max_single_write(bev, 6000);
    CHECK_EQ(bufferevent_get_max_single_write(bev), 6000);
    bufferevent_write(bev, bytes, sizeof bytes);
    settle(base);
    CHECK_TRACE("b:write 8000;b:write 2000;b:write 0;");
}

SOCKET_TEST(a_read_takes_at_most_the_single_read)
{
    CHECK_EQ(bufferevent_set_max_single_read(bev, 1000), 0);
    CHECK_EQ(bufferevent_get_max_single_read(bev), 1000);
    char bytes[20000] = {0};
    CHECK_EQ(write(fds[1], bytes, 2500), 2500);
    bufferevent_enable(bev, EV_READ);
    settle(base);
    CHECK_TRACE("b:read 1000;b:read 2000;b:read 2500;");
    CHECK_EQ(bufferevent_set_max_single_read(bev, 0), 0);
    CHECK_EQ(bufferevent_get_max_single_read(bev), 16384);
    CHECK_EQ(bufferevent_set_max_single_read(bev, (size_t)EV_SSIZE_MAX + 1), 0);
    CHECK_EQ(bufferevent_get_max_single_read(bev), 16384);
    CHECK_EQ(bufferevent_set_max_single_write(bev, 0), 0);
    CHECK_EQ(bufferevent_get_max_single_write(bev), 16384);
    evbuffer_drain(bufferevent_get_input(bev), 2500);
    CHECK_EQ(write(fds[1], bytes, 20000), 20000);
    settle(base);
    CHECK_EQ(input_length(bev), 20000);
    CHECK(strstr(trace, "b:read 20000;") != trace);
    trace[trace_length = 0] = '\0';
}

TEST(the_end_of_the_stream_is_an_event_and_disables_reading)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(write(fds[1], "xyz", 3), 3);
    close(fds[1]);
    settle(base);
    CHECK_TRACE("b:read 3;b:event R eof;");
    CHECK_EQ(bufferevent_get_enabled(bev), EV_WRITE);
    signal(SIGPIPE, SIG_IGN);
    bufferevent_write(bev, "123", 3);
    settle(base);
    CHECK_TRACE("b:event W error;");
    CHECK_EQ(bufferevent_get_enabled(bev), 0);
    CHECK_EQ(output_length(bev), 3);
    bufferevent_free(bev);
    CHECK(is_open(fds[0]));
    settle(base);
    CHECK(!is_open(fds[0]));
    event_base_free(base);
}

static void note_errno(struct bufferevent *bev, short what, void *unused)
{
    (void)bev;
    (void)unused;
    note("event %s %d;", what_text(what), errno);
}

TEST(the_error_of_the_socket_is_in_errno)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    struct bufferevent *deferred =
        bufferevent_socket_new(base, fds[1], BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    bufferevent_setcb(bev, NULL, NULL, note_errno, NULL);
    bufferevent_setcb(deferred, NULL, NULL, note_errno, NULL);
    shutdown(fds[0], SHUT_WR);
    signal(SIGPIPE, SIG_IGN);
    bufferevent_write(bev, "123", 3);
    settle(base);
    char expected[64];
    snprintf(expected, sizeof expected, "event W error %d;", EPIPE);
    CHECK_TRACE(expected);
    shutdown(fds[1], SHUT_WR);
    bufferevent_write(deferred, "123", 3);
    settle(base);
    CHECK_TRACE(expected);
    bufferevent_free(bev);
    bufferevent_free(deferred);
    event_base_free(base);
    CHECK(!is_open(fds[0]));
    CHECK(!is_open(fds[1]));
}

TEST(another_descriptor_can_be_set)
{
    struct event_base *base = event_base_new();
    int fds[2], others[2];
    make_sockets(fds);
    make_sockets(others);
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    note_all(bev, "b");
    CHECK_EQ(bufferevent_enable(bev, EV_READ), 0);
    CHECK_EQ(bufferevent_write(bev, "early", 5), 0);
    settle(base);
    CHECK_EQ(output_length(bev), 5);
    CHECK_EQ(bufferevent_setfd(bev, fds[0]), 0);
    CHECK_EQ(bufferevent_getfd(bev), fds[0]);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    settle(base);
    CHECK(strstr(trace, "b:read 3;") && strstr(trace, "b:write 0;"));
    trace[trace_length = 0] = '\0';
    char text[8];
    CHECK_EQ(read(fds[1], text, sizeof text), 5);
    CHECK_EQ(bufferevent_setfd(bev, others[0]), 0);
    CHECK(is_open(fds[0]));
    CHECK_EQ(evbuffer_add(bufferevent_get_input(bev), "x", 1), 0);
    CHECK_EQ(write(fds[1], "lost", 4), 4);
    CHECK_EQ(write(others[1], "de", 2), 2);
    settle(base);
    CHECK(strstr(trace, "b:read 6;"));
    trace[trace_length = 0] = '\0';
    CHECK_EQ(bufferevent_setfd(bev, -1), 0);
    CHECK_EQ(bufferevent_getfd(bev), -1);
    CHECK_EQ(bufferevent_get_enabled(bev), EV_READ | EV_WRITE);
    bufferevent_free(bev);
    event_base_free(base);
    close(fds[0]);
    close(fds[1]);
    close(others[0]);
    close(others[1]);
}

TEST(priorities_are_those_of_the_base)
{
    struct event_base *base = event_base_new();
    event_base_priority_init(base, 5);
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0), *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, 0, pair), 0);
    CHECK_EQ(bufferevent_get_priority(bev), 2);
    CHECK_EQ(bufferevent_priority_set(bev, 4), 0);
    CHECK_EQ(bufferevent_get_priority(bev), 4);
    CHECK_EQ(bufferevent_priority_set(bev, 5), -1);
    CHECK_EQ(bufferevent_priority_set(bev, -1), -1);
    CHECK_EQ(bufferevent_get_priority(bev), 4);
    CHECK_EQ(bufferevent_priority_set(pair[0], 1), -1);
    CHECK_EQ(bufferevent_get_priority(pair[0]), 2);
    bufferevent_free(bev);
    bufferevent_free(pair[0]);
    bufferevent_free(pair[1]);
    event_base_free(base);
}

TEST(a_socket_can_move_to_another_base)
{
    struct event_base *base = event_base_new(), *other = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], 0), *pair[2];
    note_all(bev, "b");
    CHECK_EQ(bufferevent_base_set(other, bev), 0);
    CHECK(bufferevent_get_base(bev) == other);
    bufferevent_enable(bev, EV_READ);
    CHECK_EQ(write(fds[1], "a", 1), 1);
    settle(base);
    CHECK_TRACE("");
    settle(other);
    CHECK_TRACE("b:read 1;");
    CHECK_EQ(bufferevent_pair_new(base, 0, pair), 0);
    CHECK_EQ(bufferevent_base_set(other, pair[0]), -1);
    bufferevent_free(pair[0]);
    bufferevent_free(pair[1]);
    bufferevent_free(bev);
    event_base_free(base);
    event_base_free(other);
    close(fds[0]);
    close(fds[1]);
}

SOCKET_TEST(a_flush_of_a_socket_does_nothing)
{
    bufferevent_write(bev, "abc", 3);
    CHECK_EQ(bufferevent_flush(bev, EV_READ | EV_WRITE, BEV_FINISHED), 0);
    CHECK_EQ(output_length(bev), 3);
    CHECK_TRACE("");
}

SOCKET_TEST(an_empty_loop_ends_when_nothing_is_enabled)
{
    CHECK_EQ(event_base_loop(base, 0), 1);
    bufferevent_write(bev, "abc", 3);
    CHECK_EQ(event_base_loop(base, 0), 1);
}
