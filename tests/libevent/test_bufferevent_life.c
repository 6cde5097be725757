#include "tests/libevent/bev.h"

TEST(a_freed_bufferevent_is_closed_by_the_loop_or_with_the_base)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    struct bufferevent *other = bufferevent_socket_new(base, fds[1], BEV_OPT_CLOSE_ON_FREE);
    bufferevent_free(bev);
    CHECK(is_open(fds[0]));
    event_base_loop(base, EVLOOP_NONBLOCK);
    CHECK(!is_open(fds[0]));
    bufferevent_enable(other, EV_READ);
    bufferevent_free(other);
    CHECK(is_open(fds[1]));
    event_base_free(base);
    CHECK(!is_open(fds[1]));
}

static void free_on_read(struct bufferevent *bev, void *unused)
{
    (void)unused;
    note("read %zu;", input_length(bev));
    bufferevent_free(bev);
}

TEST(it_may_be_freed_in_its_read_callback)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(bev, free_on_read, note_write, note_event, NULL);
    bufferevent_setwatermark(bev, EV_READ, 0, 2);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    shutdown(fds[1], SHUT_WR);
    while (is_open(fds[0]))
        settle(base);
    CHECK(!strstr(trace, "event"));
    trace_length = 0;
    CHECK_EQ(event_base_loop(base, 0), 1);
    event_base_free(base);
    close(fds[1]);
}

static void free_on_write(struct bufferevent *bev, void *unused)
{
    (void)unused;
    note("write;");
    bufferevent_free(bev);
}

static void free_on_event(struct bufferevent *bev, short what, void *unused)
{
    (void)unused;
    note("event %s;", what_text(what));
    bufferevent_free(bev);
}

TEST(it_may_be_freed_in_its_write_and_event_callbacks)
{
    struct event_base *base = event_base_new();
    for (int options = 0; options <= BEV_OPT_DEFER_CALLBACKS; options += BEV_OPT_DEFER_CALLBACKS) {
        int fds[2];
        make_sockets(fds);
        trace[trace_length = 0] = 0;
        struct bufferevent *bev = bufferevent_socket_new(base, fds[0], options);
        struct bufferevent *other =
            bufferevent_socket_new(base, fds[1], options | BEV_OPT_CLOSE_ON_FREE);
        bufferevent_setcb(bev, NULL, free_on_write, NULL, NULL);
        bufferevent_setcb(other, NULL, NULL, free_on_event, NULL);
        bufferevent_write(bev, "x", 1);
        settle(base);
        CHECK_TRACE("write;");
        close(fds[0]);
        bufferevent_enable(other, EV_READ);
        settle(base);
        CHECK_TRACE("event R eof;");
        CHECK(!is_open(fds[1]));
    }
    CHECK_EQ(event_base_loop(base, 0), 1);
    event_base_free(base);
}

TEST(deferred_callbacks_come_as_read_write_event_and_once)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], BEV_OPT_DEFER_CALLBACKS);
    note_all(bev, "b");
    bufferevent_trigger_event(bev, BEV_EVENT_EOF | BEV_EVENT_CONNECTED, 0);
    bufferevent_trigger(bev, EV_WRITE, 0);
    bufferevent_trigger(bev, EV_READ, 0);
    bufferevent_trigger(bev, EV_READ, 0);
    bufferevent_trigger_event(bev, BEV_EVENT_READING, 0);
    CHECK_TRACE("");
    settle(base);
    CHECK_TRACE("b:event  connected;b:read 0;b:write 0;b:event R eof;");
    bufferevent_trigger(bev, EV_READ, 0);
    bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
    settle(base);
    CHECK_TRACE("");
    note_all(bev, "b");
    settle(base);
    CHECK_TRACE("");
    bufferevent_trigger(bev, EV_WRITE, 0);
    settle(base);
    CHECK_TRACE("b:read 0;b:write 0;");
    bufferevent_trigger(bev, EV_READ, 0);
    bufferevent_free(bev);
    settle(base);
    CHECK_TRACE("");
    event_base_free(base);
    close(fds[0]);
    close(fds[1]);
}

TEST(triggers_heed_the_marks_unless_they_are_to_ignore_them)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    note_all(bev, "b");
    bufferevent_disable(bev, EV_WRITE);
    bufferevent_trigger(bev, EV_READ | EV_WRITE, 0);
    CHECK_TRACE("b:read 0;b:write 0;");
    bufferevent_setwatermark(bev, EV_READ | EV_WRITE, 1, 0);
    bufferevent_write(bev, "ab", 2);
    bufferevent_trigger(bev, EV_READ | EV_WRITE, 0);
    CHECK_TRACE("");
    bufferevent_trigger(bev, EV_READ | EV_WRITE, BEV_TRIG_IGNORE_WATERMARKS);
    CHECK_TRACE("b:read 0;b:write 2;");
    bufferevent_trigger(bev, EV_READ | EV_WRITE,
                        BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
    CHECK_TRACE("");
    settle(base);
    CHECK_TRACE("b:read 0;b:write 2;");
    bufferevent_trigger_event(bev, BEV_EVENT_TIMEOUT, 0);
    CHECK_TRACE("b:event  timeout;");
    bufferevent_trigger_event(bev, BEV_EVENT_TIMEOUT, BEV_TRIG_DEFER_CALLBACKS);
    CHECK_TRACE("");
    settle(base);
    CHECK_TRACE("b:event  timeout;");
    bufferevent_free(bev);
    event_base_free(base);
}

TEST(unlocked_callbacks_need_deferred_ones)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev =
        bufferevent_socket_new(base, -1, BEV_OPT_DEFER_CALLBACKS | BEV_OPT_UNLOCK_CALLBACKS);
    CHECK(bev);
    note_all(bev, "b");
    bufferevent_trigger_event(bev, BEV_EVENT_EOF | BEV_EVENT_CONNECTED, 0);
    bufferevent_trigger(bev, EV_WRITE | EV_READ, 0);
    settle(base);
    CHECK_TRACE("b:event  connected;b:read 0;b:write 0;b:event  eof;");
    bufferevent_free(bev);
    event_base_free(base);
}

static void free_and_note(struct bufferevent *bev, void *unused)
{
    (void)unused;
    note("read;");
    bufferevent_free(bev);
}

TEST(it_may_be_freed_in_a_deferred_callback_while_others_are_pending)
{
    struct event_base *base = event_base_new();
    int options[] = {BEV_OPT_DEFER_CALLBACKS, BEV_OPT_DEFER_CALLBACKS | BEV_OPT_UNLOCK_CALLBACKS};
    for (int i = 0; i < 2; i++) {
        struct bufferevent *bev = bufferevent_socket_new(base, -1, options[i]);
        bufferevent_setcb(bev, free_and_note, note_write, note_event, NULL);
        bufferevent_trigger(bev, EV_WRITE | EV_READ, 0);
        bufferevent_trigger_event(bev, BEV_EVENT_EOF, 0);
        settle(base);
    }
    CHECK_TRACE("read;read;");
    event_base_free(base);
}

TEST(references_keep_a_freed_bufferevent)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    bufferevent_incref(bev);
    bufferevent_incref(bev);
    CHECK_EQ(bufferevent_decref(bev), 0);
    bufferevent_free(bev);
    settle(base);
    CHECK(is_open(fds[0]));
    CHECK_EQ(bufferevent_write(bev, "x", 1), 0);
    CHECK_EQ(bufferevent_decref(bev), 1);
    settle(base);
    CHECK(!is_open(fds[0]));
    event_base_free(base);
    close(fds[1]);
}
