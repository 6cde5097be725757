#include "tests/libevent/bev.h"

#include <event2/bufferevent_struct.h>

struct fixture {
    struct event_base *base;
    struct bufferevent *pair[2];
};

static struct fixture begin(int options)
{
    struct fixture f = {.base = event_base_new()};
    CHECK_EQ(bufferevent_pair_new(f.base, options, f.pair), 0);
    note_all(f.pair[0], "0");
    note_all(f.pair[1], "1");
    return f;
}

static void end(struct fixture *f)
{
    for (int i = 0; i < 2; i++)
        if (f->pair[i])
            bufferevent_free(f->pair[i]);
    settle(f->base); /* deferred callbacks hold references */
    event_base_free(f->base);
}

static struct fixture f;

#define PAIR_TEST(name_, ...) FIXTURE_TEST(name_, f = begin(__VA_ARGS__), end(&f))

PAIR_TEST(what_is_written_to_one_is_read_from_the_other, 0)
{
    CHECK_EQ(bufferevent_get_enabled(f.pair[0]), EV_WRITE);
    CHECK(bufferevent_pair_get_partner(f.pair[0]) == f.pair[1]);
    CHECK(bufferevent_pair_get_partner(f.pair[1]) == f.pair[0]);
    CHECK_EQ(bufferevent_write(f.pair[0], "hello", 5), 0);
    CHECK_EQ(output_length(f.pair[0]), 5);
    settle(f.base);
    CHECK_TRACE("");
    bufferevent_enable(f.pair[1], EV_READ);
    CHECK_EQ(output_length(f.pair[0]), 0);
    CHECK_EQ(input_length(f.pair[1]), 5);
    CHECK_TRACE("");
    settle(f.base);
    CHECK_TRACE("1:read 5;0:write 0;");
    CHECK_EQ(bufferevent_write(f.pair[0], " you", 4), 0);
    CHECK_EQ(input_length(f.pair[1]), 9);
    settle(f.base);
    CHECK_TRACE("1:read 9;0:write 0;");
    CHECK_EQ(evbuffer_add(bufferevent_get_input(f.pair[1]), "x", 1), -1);
    CHECK_EQ(evbuffer_drain(bufferevent_get_output(f.pair[1]), 1), 0);
    bufferevent_enable(f.pair[0], EV_READ);
    CHECK_EQ(bufferevent_write(f.pair[1], "back", 4), 0);
    settle(f.base);
    CHECK_TRACE("0:read 4;1:write 0;");
}

PAIR_TEST(disabled_writing_keeps_the_output_of_a_pair, 0)
{
    bufferevent_enable(f.pair[1], EV_READ);
    bufferevent_disable(f.pair[0], EV_WRITE);
    bufferevent_write(f.pair[0], "hello", 5);
    settle(f.base);
    CHECK_TRACE("");
    CHECK_EQ(output_length(f.pair[0]), 5);
    bufferevent_enable(f.pair[0], EV_WRITE);
    settle(f.base);
    CHECK_TRACE("1:read 5;0:write 0;");
    bufferevent_enable(f.pair[0], EV_WRITE);
    settle(f.base);
    CHECK_TRACE("");
}

PAIR_TEST(the_high_mark_of_the_reader_holds_back_the_writer, 0)
{
    bufferevent_setwatermark(f.pair[1], EV_READ, 0, 4);
    bufferevent_enable(f.pair[1], EV_READ);
    bufferevent_write(f.pair[0], "0123456789", 10);
    CHECK_EQ(input_length(f.pair[1]), 4);
    CHECK_EQ(output_length(f.pair[0]), 6);
    bufferevent_setcb(f.pair[1], NULL, NULL, NULL, NULL);
    settle(f.base);
    CHECK_TRACE("");
    evbuffer_drain(bufferevent_get_input(f.pair[1]), 3);
    note("%zu %zu;", input_length(f.pair[1]), output_length(f.pair[0]));
    CHECK_TRACE("4 3;");
    bufferevent_setwatermark(f.pair[1], EV_READ, 0, 0);
    note("%zu %zu;", input_length(f.pair[1]), output_length(f.pair[0]));
    CHECK_TRACE("7 0;");
    note_all(f.pair[1], "1");
    bufferevent_trigger(f.pair[1], EV_READ, 0);
    settle(f.base);
    CHECK_TRACE("0:write 0;1:read 7;");
}

PAIR_TEST(a_low_mark_of_the_writer_counts_what_is_left, 0)
{
    bufferevent_setwatermark(f.pair[0], EV_WRITE, 5, 0);
    bufferevent_setwatermark(f.pair[1], EV_READ, 8, 6);
    bufferevent_enable(f.pair[1], EV_READ);
    bufferevent_write(f.pair[0], "0123456789", 10);
    settle(f.base);
    CHECK_TRACE("0:write 4;");
    CHECK_EQ(input_length(f.pair[1]), 6);
}

PAIR_TEST(a_flush_ignores_marks_and_the_last_one_is_the_end, 0)
{
    bufferevent_setwatermark(f.pair[1], EV_READ, 0, 4);
    bufferevent_write(f.pair[0], "0123456789", 10);
    CHECK_EQ(evbuffer_drain(bufferevent_get_output(f.pair[0]), 1), -1);
    CHECK_EQ(bufferevent_flush(f.pair[0], EV_WRITE, BEV_NORMAL), 0);
    CHECK_EQ(output_length(f.pair[0]), 10);
    CHECK_EQ(bufferevent_flush(f.pair[0], EV_WRITE, BEV_FLUSH), 0);
    note("%zu %zu;", input_length(f.pair[1]), output_length(f.pair[0]));
    CHECK_EQ(bufferevent_flush(f.pair[0], EV_WRITE, BEV_FLUSH), 0);
    note("%zu %zu;", input_length(f.pair[1]), output_length(f.pair[0]));
    settle(f.base);
    CHECK_TRACE("4 6;10 0;1:read 10;0:write 0;");
    bufferevent_write(f.pair[0], "ab", 2);
    CHECK_EQ(bufferevent_flush(f.pair[0], EV_WRITE, BEV_FINISHED), 0);
    settle(f.base);
    CHECK_TRACE("1:read 12;1:event R eof;0:write 0;");
    CHECK_EQ(bufferevent_flush(f.pair[0], EV_READ, BEV_FINISHED), 0);
    settle(f.base);
    CHECK_TRACE("0:read 0;1:write 0;1:event W eof;");
    CHECK_EQ(bufferevent_flush(f.pair[0], EV_READ | EV_WRITE, BEV_FINISHED), 0);
    settle(f.base);
    note(".");
    printf("%s\n", trace);
    CHECK_EQ(bufferevent_get_enabled(f.pair[0]), EV_WRITE);
    trace[trace_length = 0] = '\0';
}

PAIR_TEST(a_pair_without_partner_keeps_its_output, 0)
{
    bufferevent_enable(f.pair[0], EV_READ);
    bufferevent_write(f.pair[1], "last", 4);
    bufferevent_free(f.pair[1]);
    f.pair[1] = NULL;
    CHECK_EQ(input_length(f.pair[0]), 4);
    settle(f.base);
    CHECK(!bufferevent_pair_get_partner(f.pair[0]));
    CHECK_TRACE("0:read 4;");
    CHECK_EQ(bufferevent_write(f.pair[0], "x", 1), 0);
    CHECK_EQ(output_length(f.pair[0]), 1);
    CHECK_EQ(bufferevent_flush(f.pair[0], EV_WRITE, BEV_FINISHED), -1);
    CHECK_EQ(bufferevent_enable(f.pair[0], EV_READ | EV_WRITE), 0);
    settle(f.base);
    CHECK_TRACE("");
}

static void free_other(struct bufferevent *bev, void *other)
{
    note("read %zu;", input_length(bev));
    bufferevent_free(other);
}

PAIR_TEST(one_may_be_freed_in_a_callback_of_the_other, 0)
{
    bufferevent_setcb(f.pair[1], free_other, NULL, NULL, f.pair[0]);
    bufferevent_enable(f.pair[1], EV_READ);
    bufferevent_write(f.pair[0], "abc", 3);
    settle(f.base);
    CHECK_TRACE("read 3;");
    f.pair[0] = NULL;
}

static void echo(struct bufferevent *bev, void *unused)
{
    (void)unused;
    bufferevent_write_buffer(bev, bufferevent_get_input(bev));
}

PAIR_TEST(an_echo_in_a_pair_comes_back, 0)
{
    bufferevent_setcb(f.pair[1], echo, NULL, NULL, NULL);
    bufferevent_enable(f.pair[0], EV_READ);
    bufferevent_enable(f.pair[1], EV_READ);
    bufferevent_write(f.pair[0], "abc", 3);
    settle(f.base);
    CHECK_TRACE("0:read 3;0:write 0;");
}

static void note_change(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *name)
{
    (void)buffer;
    note("%s %zu+%zu-%zu;", (char *)name, info->orig_size, info->n_added, info->n_deleted);
}

PAIR_TEST(callbacks_of_the_buffers_hear_of_the_move, 0)
{
    bufferevent_enable(f.pair[1], EV_READ);
    evbuffer_add_cb(bufferevent_get_output(f.pair[0]), note_change, "out");
    evbuffer_add_cb(bufferevent_get_input(f.pair[1]), note_change, "in");
    bufferevent_write(f.pair[0], "abc", 3);
    printf("%s\n", trace);
    trace[trace_length = 0] = '\0';
}

TEST(pairs_defer_callbacks_whatever_the_options)
{
    f = begin(BEV_OPT_CLOSE_ON_FREE);
    bufferevent_trigger(f.pair[0], EV_READ, 0);
    CHECK_TRACE("");
    settle(f.base);
    CHECK_TRACE("0:read 0;");
    end(&f);
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, BEV_OPT_UNLOCK_CALLBACKS, pair), 0);
    bufferevent_free(pair[0]);
    bufferevent_free(pair[1]);
    event_base_free(base);
}

TEST(the_partner_of_a_socket_is_none)
{
    struct event_base *base = event_base_new();
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    CHECK(!bufferevent_pair_get_partner(bev));
    bufferevent_free(bev);
    event_base_free(base);
}
