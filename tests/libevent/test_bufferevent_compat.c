#include "tests/libevent/bev.h"

#include <event.h>

TEST(the_old_constructor_uses_the_current_base)
{
    struct event_base *base = event_init();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *bev = bufferevent_new(fds[0], note_read, note_write, note_event, "b");
    CHECK(bev);
    CHECK_EQ(bufferevent_enable(bev, EV_READ), 0);
    bufferevent_settimeout(bev, 50, 60);
    CHECK_EQ(bev->timeout_read.tv_sec, 50);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    event_loop(EVLOOP_ONCE);
    CHECK_TRACE("b:read 3;");
    CHECK_EQ(EVBUFFER_LENGTH(bev->input), 3);
    CHECK_EQ(EVBUFFER_LENGTH(EVBUFFER_INPUT(bev)), 3);
    CHECK(!memcmp(EVBUFFER_DATA(bev->input), "abc", 3));
    CHECK_EQ(bufferevent_write_buffer(bev, bev->input), 0);
    CHECK_EQ(EVBUFFER_LENGTH(EVBUFFER_OUTPUT(bev)), 3);
    settle(base);
    CHECK_TRACE("b:write 0;");
    char text[8];
    CHECK_EQ(read(fds[1], text, sizeof text), 3);
    close(fds[1]);
    settle(base);
    CHECK_TRACE("b:event R eof;");
    CHECK_EQ(EVBUFFER_READ | EVBUFFER_EOF, BEV_EVENT_READING | BEV_EVENT_EOF);
    CHECK_EQ(EVBUFFER_WRITE | EVBUFFER_ERROR, BEV_EVENT_WRITING | BEV_EVENT_ERROR);
    CHECK_EQ(EVBUFFER_TIMEOUT, BEV_EVENT_TIMEOUT);
    bufferevent_free(bev);
    event_base_free(base);
    close(fds[0]);
}

TEST(the_base_can_be_set_before_it_is_enabled)
{
    struct event_base *current = event_init(), *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    evbuffercb on_read = note_read;
    everrorcb on_error = note_event;
    struct bufferevent *bev = bufferevent_new(fds[0], on_read, NULL, on_error, "b");
    CHECK_EQ(bufferevent_base_set(base, bev), 0);
    CHECK_EQ(bufferevent_priority_set(bev, 0), 0);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    settle(current);
    CHECK_TRACE("");
    settle(base);
    CHECK_TRACE("b:read 3;");
    bufferevent_setfd(bev, fds[1]);
    CHECK_EQ(write(fds[0], "xy", 2), 2);
    settle(base);
    CHECK_TRACE("b:read 5;");
    bufferevent_free(bev);
    event_base_free(base);
    event_base_free(current);
    close(fds[0]);
    close(fds[1]);
}
