#include "tests/loop/fixture.h"

static unsigned last_events;

static void on_io(struct gs_io *io, unsigned events)
{
    last_events = events;
    log_call(&io->watcher);
}

static struct gs_loop *loop;
static struct gs_io a, b;
static int pair[2];

static void set_up(void)
{
    loop = new_loop();
    connect_pair(pair);
    gs_io_init(&a, loop, on_io);
    gs_io_init(&b, loop, on_io);
    a.watcher.data = "a";
    b.watcher.data = "b";
}

static void tear_down(void)
{
    gs_loop_free(loop);
    close_pair(pair);
}

#define EDGE_TEST(name_) FIXTURE_TEST(name_, set_up(), tear_down())

EDGE_TEST(readiness_is_reported_once_until_it_occurs_again)
{
    start_io(&a, pair[0], GS_READ | GS_EDGE);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ);
    CHECK_EQ(step(loop), 0);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 0);
    CHECK_INTEREST(loop, 1);
}

EDGE_TEST(both_directions_are_registered_once_and_reported_one_by_one)
{
    fill(pair[0]);
    start_io(&a, pair[0], GS_READ | GS_WRITE | GS_EDGE);
    CHECK_EQ(step(loop), 0);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK(last_events & GS_READ);
    drain(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK(last_events & GS_WRITE);
    CHECK_EQ(step(loop), 0);
    CHECK_INTEREST(loop, 1);
}

EDGE_TEST(edge_watcher_must_be_the_only_one_of_its_descriptor)
{
    start_io(&a, pair[0], GS_READ | GS_EDGE);
    gs_io_set(&b, pair[0], GS_READ);
    CHECK_EQ(gs_io_start(&b), -EBUSY);
    CHECK(!gs_watcher_is_active(&b.watcher));
    gs_io_stop(&a);
    CHECK_EQ(gs_io_start(&b), 0);
    CHECK_EQ(gs_io_start(&a), -EBUSY);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "b");
}

EDGE_TEST(edge_that_occurred_while_stopped_is_reported_after_the_start)
{
    start_io(&a, pair[0], GS_READ | GS_EDGE);
    step(loop);
    gs_io_stop(&a);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_io_start(&a), 0);
    CHECK_EQ(step(loop), 1);
}

static void restart_b(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    gs_io_stop(&b);
    (void)!gs_io_start(&b);
    gs_io_stop(io);
}

EDGE_TEST(edge_dropped_by_a_stop_while_pending_is_reported_after_the_start)
{
    int other[2];
    connect_pair(other);
    gs_io_init(&a, loop, restart_b);
    a.watcher.data = "a";
    gs_watcher_set_priority(&a.watcher, 1);
    start_io(&a, other[0], GS_READ);
    start_io(&b, pair[0], GS_READ | GS_EDGE);
    step(loop);
    put_byte(other[1]);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "a");
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "ab");
    CHECK_EQ(step(loop), 0);
    close_pair(other);
}

EDGE_TEST(edge_of_a_direction_not_wanted_for_a_while_is_not_lost)
{
    fill(pair[0]);
    start_io(&a, pair[0], GS_READ | GS_WRITE | GS_EDGE);
    step(loop);
    gs_io_set_events(&a, GS_READ | GS_EDGE);
    drain(pair[1]);
    CHECK_EQ(step(loop), 0);
    gs_io_set_events(&a, GS_READ | GS_WRITE | GS_EDGE);
    CHECK_EQ(step(loop), 1);
    CHECK(last_events & GS_WRITE);
}

static void change_b_and_back(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    gs_io_set_events(&b, GS_WRITE | GS_EDGE);
    gs_io_set_events(&b, GS_READ | GS_EDGE);
    gs_io_stop(io);
}

EDGE_TEST(pending_edge_dropped_by_a_change_is_reported_when_wanted_again)
{
    int other[2];
    connect_pair(other);
    gs_io_init(&a, loop, change_b_and_back);
    a.watcher.data = "a";
    gs_watcher_set_priority(&a.watcher, 1);
    start_io(&a, other[0], GS_READ);
    start_io(&b, pair[0], GS_READ | GS_EDGE);
    step(loop);
    put_byte(other[1]);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "ab");
    close_pair(other);
}

EDGE_TEST(change_from_level_to_edge_and_back_takes_effect)
{
    start_io(&a, pair[0], GS_READ);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    gs_io_set_events(&a, GS_READ | GS_EDGE);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 0);
    gs_io_set_events(&a, GS_READ);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 1);
}

static void connect_by_tcp(int ret_pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&address, length), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    ret_pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(ret_pair[0], (struct sockaddr *)&address, length), 0);
    ret_pair[1] = accept(listener, NULL, NULL);
    CHECK(ret_pair[1] >= 0);
    close(listener);
}

EDGE_TEST(urgent_data_is_reported_by_edges)
{
    int other[2];
    connect_by_tcp(other);
    start_io(&a, other[0], GS_READ | GS_EDGE);
    CHECK_EQ(send(other[1], "a", 1, 0), 1);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ);
    CHECK_EQ(send(other[1], "b", 1, MSG_OOB), 1);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ | GS_URGENT);
    CHECK_EQ(step(loop), 0);
    gs_io_stop(&a);
    close_pair(other);
}

EDGE_TEST(regular_file_by_edges_is_ready_once)
{
    FILE *file = tmpfile();
    start_io(&a, fileno(file), GS_READ | GS_EDGE);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 0);
    gs_io_stop(&a);
    fclose(file);
}
