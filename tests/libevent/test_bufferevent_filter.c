#include "tests/libevent/bev.h"

#include <ctype.h>
#include <event2/bufferevent_struct.h>

/* Moves bytes in upper case, or in lower case, at most the limit. */
static enum bufferevent_filter_result shout(struct evbuffer *from, struct evbuffer *to,
                                            ev_ssize_t limit, enum bufferevent_flush_mode mode,
                                            void *context)
{
    note("%s %zu limit %zd mode %d;", context ? (char *)context : "out", evbuffer_get_length(from),
         (ssize_t)limit, mode);
    char bytes[256];
    size_t max = limit >= 0 && (size_t)limit < sizeof bytes ? (size_t)limit : sizeof bytes;
    int n = evbuffer_remove(from, bytes, max);
    if (n <= 0)
        return BEV_NEED_MORE;
    for (int i = 0; i < n; i++)
        bytes[i] = (char)toupper(bytes[i]);
    CHECK_EQ(evbuffer_add(to, bytes, (size_t)n), 0);
    return BEV_OK;
}

static enum bufferevent_filter_result whole_words(struct evbuffer *from, struct evbuffer *to,
                                                  ev_ssize_t limit,
                                                  enum bufferevent_flush_mode mode, void *context)
{
    (void)context;
    (void)limit;
    struct evbuffer_ptr space = evbuffer_search(from, " ", 1, NULL);
    note("in %zu mode %d;", evbuffer_get_length(from), mode);
    if (mode != BEV_NORMAL && evbuffer_get_length(from)) {
        evbuffer_add_buffer(to, from);
        return BEV_OK;
    }
    if (space.pos < 0)
        return BEV_NEED_MORE;
    evbuffer_remove_buffer(from, to, (size_t)space.pos + 1);
    return BEV_OK;
}

static enum bufferevent_filter_result refuse(struct evbuffer *from, struct evbuffer *to,
                                             ev_ssize_t limit, enum bufferevent_flush_mode mode,
                                             void *context)
{
    (void)from;
    (void)to;
    (void)limit;
    (void)mode;
    (void)context;
    note("refused;");
    return BEV_ERROR;
}

static void note_free(void *context)
{
    note("free %s;", (char *)context);
}

struct fixture {
    struct event_base *base;
    struct bufferevent *below, *far, *filter;
};

static struct fixture begin(bufferevent_filter_cb in, bufferevent_filter_cb out, int options)
{
    struct fixture f = {.base = event_base_new()};
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(f.base, 0, pair), 0);
    f.below = pair[0];
    f.far = pair[1];
    note_all(f.far, "far");
    bufferevent_enable(f.far, EV_READ);
    f.filter = bufferevent_filter_new(f.below, in, out, options, NULL, NULL);
    CHECK(f.filter);
    note_all(f.filter, "f");
    return f;
}

static void end(struct fixture *f)
{
    bufferevent_free(f->filter);
    if (f->below)
        bufferevent_free(f->below);
    bufferevent_free(f->far);
    settle(f->base); /* deferred callbacks hold references */
    event_base_free(f->base);
    trace[trace_length = 0] = '\0';
}

static struct fixture f;

#define FILTER_TEST(name_, ...) FIXTURE_TEST(name_, f = begin(__VA_ARGS__), end(&f))

FILTER_TEST(a_filter_changes_what_is_written, NULL, shout, 0)
{
    CHECK(bufferevent_get_underlying(f.filter) == f.below);
    CHECK_EQ(bufferevent_get_enabled(f.filter), EV_WRITE);
    CHECK_EQ(bufferevent_get_enabled(f.below), EV_READ | EV_WRITE);
    CHECK_EQ(bufferevent_getfd(f.filter), -1);
    CHECK_EQ(bufferevent_setfd(f.filter, -1), -1);
    CHECK(bufferevent_get_base(f.filter) == f.base);
    CHECK_EQ(bufferevent_write(f.filter, "hello", 5), 0);
    CHECK_TRACE("out 5 limit -1 mode 0;f:write 0;");
    settle(f.base);
    char text[8];
    CHECK_EQ(bufferevent_read(f.far, text, sizeof text), 5);
    CHECK(!memcmp(text, "HELLO", 5));
    printf("%s\n", trace);
    trace[trace_length = 0] = '\0';
}

FILTER_TEST(a_filter_changes_what_is_read_when_it_is_enabled, shout, NULL, 0)
{
    bufferevent_write(f.far, "hello", 5);
    settle(f.base);
    CHECK_TRACE("");
    bufferevent_enable(f.filter, EV_READ);
    settle(f.base);
    CHECK_TRACE("out 5 limit -1 mode 0;f:read 5;far:write 0;");
    char text[8];
    CHECK_EQ(bufferevent_read(f.filter, text, sizeof text), 5);
    CHECK(!memcmp(text, "HELLO", 5));
    bufferevent_disable(f.filter, EV_READ);
    bufferevent_write(f.far, "more", 4);
    settle(f.base);
    CHECK_TRACE("");
    CHECK_EQ(output_length(f.far), 4);
}

FILTER_TEST(a_filter_that_needs_more_is_called_with_more, whole_words, NULL, 0)
{
    bufferevent_enable(f.filter, EV_READ);
    bufferevent_write(f.far, "one t", 5);
    settle(f.base);
    CHECK_TRACE("in 5 mode 0;in 1 mode 0;f:read 4;far:write 0;");
    bufferevent_write(f.far, "wo", 2);
    settle(f.base);
    CHECK_TRACE("in 3 mode 0;far:write 0;");
    CHECK_EQ(bufferevent_flush(f.filter, EV_READ, BEV_FLUSH), 1);
    settle(f.base);
    CHECK_EQ(input_length(f.filter), 7);
    CHECK_TRACE("in 3 mode 1;in 0 mode 0;far:write 0;");
    CHECK_EQ(bufferevent_flush(f.filter, EV_READ, BEV_FLUSH), 0);
    settle(f.base);
    printf("%s\n", trace);
}

FILTER_TEST(an_error_of_a_filter_leaves_the_bytes_where_they_are, refuse, refuse, 0)
{
    bufferevent_enable(f.filter, EV_READ);
    CHECK_EQ(bufferevent_write(f.filter, "abc", 3), 0);
    settle(f.base);
    CHECK_TRACE("refused;");
    CHECK_EQ(output_length(f.filter), 3);
    bufferevent_write(f.far, "xyz", 3);
    settle(f.base);
    CHECK_TRACE("refused;far:write 0;");
    CHECK_EQ(input_length(f.below), 3);
    CHECK_EQ(bufferevent_flush(f.filter, EV_READ | EV_WRITE, BEV_FLUSH), 0);
    settle(f.base);
    printf("%s\n", trace);
}

FILTER_TEST(the_high_mark_of_a_filter_is_its_limit, shout, NULL, 0)
{
    bufferevent_setwatermark(f.filter, EV_READ, 0, 4);
    bufferevent_enable(f.filter, EV_READ);
    bufferevent_setcb(f.filter, NULL, NULL, NULL, NULL);
    bufferevent_write(f.far, "0123456789", 10);
    settle(f.base);
    CHECK_TRACE("out 10 limit 4 mode 0;far:write 0;");
    CHECK_EQ(input_length(f.filter), 4);
    CHECK_EQ(input_length(f.below), 6);
    evbuffer_drain(bufferevent_get_input(f.filter), 1);
    settle(f.base);
    note("%zu %zu;", input_length(f.filter), input_length(f.below));
    CHECK_TRACE("out 6 limit 1 mode 0;4 5;");
    evbuffer_drain(bufferevent_get_input(f.filter), 4);
    settle(f.base);
    note("%zu %zu;", input_length(f.filter), input_length(f.below));
    CHECK_TRACE("out 5 limit 4 mode 0;4 1;");
    bufferevent_setwatermark(f.filter, EV_READ, 0, 0);
    settle(f.base);
    note("%zu %zu;", input_length(f.filter), input_length(f.below));
    printf("%s\n", trace);
}

FILTER_TEST(without_a_function_a_flush_is_reported_even_if_nothing_is_left_to_move, NULL, NULL, 0)
{
    bufferevent_setwatermark(f.filter, EV_READ, 0, 40);
    bufferevent_enable(f.filter, EV_READ);
    bufferevent_write(f.far, "word", 4);
    settle(f.base);
    CHECK_TRACE("f:read 4;far:write 0;");
    bufferevent_flush(f.far, EV_WRITE, BEV_FLUSH);
    settle(f.base);
    CHECK_TRACE("f:read 4;far:write 0;");
}

FILTER_TEST(the_high_mark_below_holds_back_the_output, NULL, shout, 0)
{
    bufferevent_disable(f.far, EV_READ);
    bufferevent_setwatermark(f.below, EV_WRITE, 2, 4);
    bufferevent_write(f.filter, "0123456789", 10);
    CHECK_TRACE("out 10 limit 4 mode 0;");
    CHECK_EQ(output_length(f.below), 4);
    CHECK_EQ(output_length(f.filter), 6);
    bufferevent_enable(f.far, EV_READ);
    settle(f.base);
    note("%zu %zu %zu;", output_length(f.filter), output_length(f.below), input_length(f.far));
    CHECK_TRACE("far:read 4;out 6 limit 4 mode 0;out 2 limit 4 mode 0;f:write 0;far:read 10;"
                "0 0 10;");
    CHECK_EQ(bufferevent_flush(f.filter, EV_WRITE, BEV_FLUSH), 0);
    CHECK_TRACE("out 0 limit -1 mode 1;");
}

TEST(events_below_are_those_of_the_filter)
{
    struct event_base *base = event_base_new();
    int fds[2];
    make_sockets(fds);
    struct bufferevent *below = bufferevent_socket_new(base, fds[0], BEV_OPT_CLOSE_ON_FREE);
    struct bufferevent *filter =
        bufferevent_filter_new(below, NULL, NULL, BEV_OPT_CLOSE_ON_FREE, note_free, "context");
    note_all(filter, "f");
    CHECK_EQ(bufferevent_getfd(filter), fds[0]);
    bufferevent_enable(filter, EV_READ);
    CHECK_EQ(write(fds[1], "abc", 3), 3);
    settle(base);
    CHECK(strstr(trace, "f:read 3;"));
    trace[trace_length = 0] = '\0';
    CHECK_EQ(bufferevent_write(filter, "xy", 2), 0);
    CHECK_TRACE("f:write 0;");
    settle(base);
    char text[8];
    CHECK_EQ(read(fds[1], text, sizeof text), 2);
    close(fds[1]);
    settle(base);
    CHECK_TRACE("f:event R eof;");
    note("%d %d;", bufferevent_get_enabled(filter), bufferevent_get_enabled(below));
    CHECK_TRACE("6 4;");
    bufferevent_free(filter);
    CHECK_TRACE("");
    CHECK(is_open(fds[0]));
    settle(base);
    CHECK_TRACE("free context;");
    CHECK(!is_open(fds[0]));
    event_base_free(base);
}

TEST(a_freed_filter_leaves_what_was_below_as_it_was)
{
    f = begin(NULL, NULL, 0);
    bufferevent_free(f.filter);
    settle(f.base);
    bufferevent_data_cb on_read;
    bufferevent_getcb(f.below, &on_read, NULL, NULL, NULL);
    CHECK(!on_read);
    CHECK_EQ(bufferevent_get_enabled(f.below), EV_READ | EV_WRITE);
    bufferevent_write(f.far, "abc", 3);
    CHECK_EQ(input_length(f.below), 3);
    bufferevent_free(f.below);
    bufferevent_free(f.far);
    settle(f.base);
    event_base_free(f.base);
    trace[trace_length = 0] = '\0';
}

TEST(filters_can_be_nested_and_freed_at_once)
{
    f = begin(shout, shout, BEV_OPT_CLOSE_ON_FREE);
    struct bufferevent *outer =
        bufferevent_filter_new(f.filter, shout, shout, BEV_OPT_CLOSE_ON_FREE, note_free, "outer");
    note_all(outer, "o");
    CHECK(bufferevent_get_underlying(outer) == f.filter);
    bufferevent_enable(outer, EV_READ);
    bufferevent_write(outer, "abc", 3);
    bufferevent_write(f.far, "xyz", 3);
    settle(f.base);
    char text[8];
    CHECK_EQ(bufferevent_read(f.far, text, sizeof text), 3);
    CHECK_EQ(bufferevent_read(outer, text, sizeof text), 3);
    CHECK(!memcmp(text, "XYZ", 3));
    printf("%s\n", trace);
    trace[trace_length = 0] = '\0';
    bufferevent_free(outer);
    settle(f.base);
    CHECK_TRACE("free outer;");
    CHECK(!bufferevent_pair_get_partner(f.far));
    bufferevent_free(f.far);
    event_base_free(f.base);
}

static void free_filter(struct bufferevent *bev, void *unused)
{
    (void)unused;
    note("read %zu;", input_length(bev));
    bufferevent_free(bev);
}

TEST(a_filter_may_be_freed_in_its_callback)
{
    f = begin(shout, shout, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(f.filter, free_filter, NULL, NULL, NULL);
    bufferevent_enable(f.filter, EV_READ);
    bufferevent_write(f.far, "xyz", 3);
    settle(f.base);
    CHECK_TRACE("out 3 limit -1 mode 0;read 3;far:write 0;");
    bufferevent_free(f.far);
    event_base_free(f.base);
}

static void write_more(struct bufferevent *bev, void *left)
{
    note("write %zu;", output_length(bev));
    if ((*(int *)left)-- > 0)
        bufferevent_write(bev, "ab", 2);
}

FILTER_TEST(a_write_callback_may_write_more, NULL, shout, 0)
{
    int left = 2;
    bufferevent_setcb(f.filter, NULL, write_more, NULL, &left);
    bufferevent_write(f.filter, "0", 1);
    CHECK_TRACE("out 1 limit -1 mode 0;write 0;out 2 limit -1 mode 0;write 0;"
                "out 2 limit -1 mode 0;write 0;");
    settle(f.base);
    CHECK_EQ(input_length(f.far), 5);
}

FILTER_TEST(a_filter_can_defer_its_callbacks, NULL, NULL, BEV_OPT_DEFER_CALLBACKS)
{
    bufferevent_enable(f.filter, EV_READ);
    bufferevent_write(f.filter, "abc", 3);
    CHECK_TRACE("");
    bufferevent_write(f.far, "xyz", 3);
    settle(f.base);
    printf("%s\n", trace);
}

FILTER_TEST(buffers_of_a_filter_are_frozen_as_those_of_others, NULL, NULL, 0)
{
    note("%d ", evbuffer_add(bufferevent_get_input(f.filter), "x", 1));
    bufferevent_disable(f.filter, EV_WRITE);
    bufferevent_write(f.filter, "abc", 3);
    note("%d ", evbuffer_drain(bufferevent_get_output(f.filter), 1));
    CHECK_TRACE("0 0 ");
}
