#include "tests/libevent/bev.h"

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
