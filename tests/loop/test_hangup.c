/* The end of a connection, watched without what has arrived, and files that are replaced. */
#include "tests/loop/fixture.h"

static int calls_count;
static unsigned last_events;

static void on_io(struct gs_io *io, unsigned events)
{
    (void)io;
    calls_count++;
    last_events = events;
}

static struct gs_loop *loop;
static struct gs_io io;
static int pair[2];

static void set_up(void)
{
    loop = new_loop();
    if (is_on(loop, "select")) {
        gs_loop_free(loop);
        SKIP("select does not report the end of a connection");
    }
    calls_count = 0;
    last_events = 0;
    gs_io_init(&io, loop, on_io);
    connect_pair(pair);
}

static void tear_down(void)
{
    gs_loop_free(loop);
    close_pair(pair);
}

static void step_many(void)
{
    for (int i = 0; i < 4; i++)
        step(loop);
}

TEST(a_hang_up_alone_is_reported_without_what_has_arrived)
{
    set_up();
    put_byte(pair[1]);
    start_io(&io, pair[0], GS_HANGUP);
    step_many();
    CHECK_EQ(calls_count, 0);
    CHECK_EQ(shutdown(pair[1], SHUT_WR), 0);
    step(loop);
    step(loop);
    CHECK(calls_count >= 1);
    CHECK_EQ(last_events, GS_HANGUP);
    int before = calls_count;
    step_many();
    CHECK(calls_count > before);
    tear_down();
}

TEST(an_edge_of_a_hang_up_is_reported_once)
{
    set_up();
    start_io(&io, pair[0], GS_HANGUP | GS_EDGE);
    step_many();
    CHECK_EQ(calls_count, 0);
    CHECK_EQ(shutdown(pair[1], SHUT_WR), 0);
    step_many();
    CHECK_EQ(calls_count, 1);
    CHECK_EQ(last_events, GS_HANGUP);
    tear_down();
}

TEST(interest_in_a_hang_up_is_added_to_and_taken_away)
{
    set_up();
    start_io(&io, pair[0], GS_HANGUP);
    put_byte(pair[1]);
    step_many();
    gs_io_set_events(&io, GS_HANGUP | GS_READ);
    step_many();
    CHECK(calls_count > 0);
    CHECK_EQ(last_events, GS_READ);
    gs_io_set_events(&io, GS_HANGUP);
    step(loop);
    step(loop);
    calls_count = 0;
    step_many();
    CHECK_EQ(calls_count, 0);
    CHECK_EQ(shutdown(pair[1], SHUT_WR), 0);
    step_many();
    CHECK_EQ(last_events, GS_HANGUP);
    gs_io_set_events(&io, 0);
    calls_count = 0;
    step_many();
    CHECK_EQ(calls_count, 0);
    tear_down();
}

TEST(a_file_that_replaces_another_is_counted)
{
    set_up();
    start_io(&io, pair[0], GS_READ);
    step(loop);
    unsigned first = gs_io_files(&io);
    gs_io_stop(&io);
    gs_io_set(&io, pair[0], GS_READ);
    CHECK_EQ(gs_io_start(&io), 0);
    step(loop);
    CHECK_EQ(gs_io_files(&io), first);
    int other[2];
    connect_pair(other);
    gs_io_stop(&io);
    CHECK_EQ(dup2(other[0], pair[0]), pair[0]);
    gs_io_set(&io, pair[0], GS_READ);
    CHECK_EQ(gs_io_start(&io), 0);
    step(loop);
    if (is_on(loop, "epoll"))
        CHECK_EQ(gs_io_files(&io), first + 1);
    else
        CHECK_EQ(gs_io_files(&io), 0);
    tear_down();
    close_pair(other);
}
