#include "tests/loop/fixture.h"

static unsigned last_events;

static void on_io(struct gs_io *io, unsigned events)
{
    last_events = events;
    log_call(&io->watcher);
}

static struct gs_loop *loop;
static struct gs_io a, b, c;
static int pair[2];

static void set_up(void)
{
    struct gs_io *all[] = {&a, &b, &c};
    char *names[] = {"a", "b", "c"};
    loop = new_loop();
    connect_pair(pair);
    for (int i = 0; i < 3; i++) {
        gs_io_init(all[i], loop, on_io);
        all[i]->watcher.data = names[i];
    }
    last_events = 0;
}

static void tear_down(void)
{
    gs_loop_free(loop);
    close_pair(pair);
}

#define IO_TEST(name_) FIXTURE_TEST(name_, set_up(), tear_down())

IO_TEST(readable_descriptor_is_reported_for_as_long_as_it_is_readable)
{
    start_io(&a, pair[0], GS_READ);
    CHECK_EQ(step(loop), 0);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ);
    CHECK_EQ(step(loop), 1);
    take_byte(pair[0]);
    CHECK_EQ(step(loop), 0);
    CHECK_STR(calls, "aa");
}

/* The prefetched memory need not be mapped. */
IO_TEST(watchers_are_called_as_usual_while_the_next_ones_memory_is_prefetched)
{
    gs_loop_set_prefetch(loop, 1 << 20, 1 << 20);
    put_byte(pair[0]);
    put_byte(pair[1]);
    start_io(&a, pair[0], GS_READ);
    start_io(&b, pair[1], GS_READ);
    CHECK_EQ(step(loop), 2);
    gs_loop_set_prefetch(loop, 0, 0);
    CHECK_EQ(step(loop), 2);
    CHECK_EQ(strlen(calls), 4);
    CHECK(strchr(calls, 'a') && strchr(calls, 'b'));
}

IO_TEST(only_what_is_wanted_is_reported)
{
    put_byte(pair[1]);
    start_io(&a, pair[0], GS_WRITE);
    step(loop);
    CHECK_EQ(last_events, GS_WRITE);
    gs_io_set_events(&a, GS_READ | GS_WRITE);
    step(loop);
    CHECK_EQ(last_events, GS_READ | GS_WRITE);
    gs_io_set_events(&a, GS_READ);
    step(loop);
    CHECK_EQ(last_events, GS_READ);
    clear_calls();
    gs_io_set_events(&a, 0);
    CHECK_EQ(step(loop), 0);
    gs_io_set_events(&a, GS_READ);
    CHECK_EQ(step(loop), 1);
}

IO_TEST(wanted_is_changed_while_inactive_too)
{
    gs_io_set(&a, pair[0], GS_READ);
    gs_io_set_events(&a, GS_WRITE);
    CHECK_EQ(gs_io_start(&a), 0);
    step(loop);
    CHECK_EQ(last_events, GS_WRITE);
}

IO_TEST(descriptor_is_required_to_start)
{
    CHECK_EQ(gs_io_start(&a), -EBADF);
    CHECK(!gs_watcher_is_active(&a.watcher));
    gs_io_set(&a, 1 << 29, GS_READ);
    CHECK_EQ(gs_io_start(&a), -EBADF);
    CHECK(!gs_watcher_is_active(&a.watcher));
}

IO_TEST(starting_twice_and_stopping_twice_do_nothing)
{
    put_byte(pair[1]);
    start_io(&a, pair[0], GS_READ);
    CHECK_EQ(gs_io_start(&a), 0);
    CHECK_EQ(step(loop), 1);
    gs_io_stop(&a);
    gs_io_stop(&a);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
}

IO_TEST(watchers_of_one_descriptor_each_get_what_they_want)
{
    put_byte(pair[1]);
    start_io(&a, pair[0], GS_READ);
    start_io(&b, pair[0], GS_WRITE);
    start_io(&c, pair[0], GS_READ | GS_WRITE);
    CHECK_EQ(step(loop), 3);
    CHECK_INTEREST(loop, 1);
    gs_io_stop(&c);
    gs_io_stop(&b);
    clear_calls();
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "a");
}

/* select() does not report a hangup. */
static unsigned hangup(void)
{
    return is_on(loop, "select") ? 0 : GS_HANGUP;
}

IO_TEST(shutdown_of_the_peer_is_reported_as_hangup)
{
    start_io(&a, pair[0], GS_READ);
    shutdown(pair[1], SHUT_WR);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ | hangup());
}

TEST(lost_connection_makes_both_directions_ready)
{
    set_up();
    fill(pair[0]);
    start_io(&a, pair[0], GS_WRITE);
    CHECK_EQ(step(loop), 0);
    close(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_WRITE | hangup());
    gs_io_stop(&a);
    start_io(&a, pair[0], GS_READ | GS_WRITE);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ | GS_WRITE | hangup());
    gs_loop_free(loop);
    close(pair[0]);
}

TEST(lost_connection_that_no_watcher_wants_does_not_end_waits)
{
    set_up();
    start_io(&a, pair[0], GS_READ);
    step(loop);
    gs_io_set_events(&a, 0);
    close(pair[1]);
    step(loop);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 20 * GS_MILLISECOND), 0);
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 20 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 20 * GS_MILLISECOND);
    gs_loop_free(loop);
    close(pair[0]);
}

IO_TEST(peer_that_shut_down_does_not_end_waits_for_writability)
{
    fill(pair[0]);
    shutdown(pair[1], SHUT_WR);
    start_io(&a, pair[0], GS_WRITE);
    uint64_t end_ns = gs_clock_now() + 50 * GS_MILLISECOND;
    int iterations = 0;
    while (gs_clock_now() < end_ns && iterations < 100) {
        CHECK_EQ(gs_loop_run_once(loop, end_ns), 0);
        iterations++;
    }
    CHECK(iterations < 10);
    for (int round = 0; round < 2; round++) {
        drain(pair[1]);
        CHECK_EQ(step(loop), 1);
        CHECK_EQ(step(loop), 1);
        CHECK_EQ(last_events & GS_WRITE, GS_WRITE);
        fill(pair[0]);
        while (step(loop)) // until the readiness that was reported before is consumed
            ;
        CHECK_EQ(step(loop), 0);
    }
}

IO_TEST(closed_descriptor_fails_its_watcher_and_says_why)
{
    int fd = dup(pair[0]);
    gs_io_set(&a, fd, GS_READ);
    CHECK_EQ(gs_io_start(&a), 0);
    close(fd);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_FAILED);
    CHECK_EQ(gs_io_error(&a), -EBADF);
    CHECK(!gs_watcher_is_active(&a.watcher));
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
}

static void restart_on_failure(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    if (events & GS_FAILED)
        start_io(io, pair[0], GS_READ);
}

IO_TEST(failed_watcher_may_be_started_again_in_its_callback)
{
    gs_io_init(&a, loop, restart_on_failure);
    a.watcher.data = "a";
    int fd = dup(pair[0]);
    gs_io_set(&a, fd, GS_READ);
    CHECK_EQ(gs_io_start(&a), 0);
    close(fd);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ);
}

IO_TEST(regular_file_is_always_ready)
{
    FILE *file = tmpfile();
    start_io(&a, fileno(file), GS_READ | GS_WRITE);
    start_io(&b, fileno(file), GS_READ);
    for (int i = 0; i < 3; i++) {
        clear_calls();
        CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 2);
    }
    CHECK_INTEREST(loop, 1);
    gs_io_stop(&a);
    gs_io_stop(&b);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_io_start(&a), 0);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(last_events, GS_READ | GS_WRITE);
    gs_io_stop(&a);
    fclose(file);
}

IO_TEST(number_of_a_regular_file_that_becomes_a_socket_is_watched_as_one)
{
    FILE *file = tmpfile();
    int fd = dup(fileno(file));
    start_io(&a, fd, GS_READ);
    CHECK_EQ(step(loop), 1);
    gs_io_stop(&a);
    dup2(pair[0], fd);
    start_io(&a, fd, GS_READ);
    CHECK_EQ(step(loop), 0);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    gs_io_stop(&a);
    dup2(fileno(file), fd);
    start_io(&a, fd, GS_READ);
    take_byte(pair[0]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 1);
    gs_loop_fd_closed(loop, fd);
    close(fd);
    CHECK_EQ(step(loop), 0);
    fclose(file);
}

static int stopped_first;

static void stop_the_others(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    stopped_first = io == &a;
    if (io != &a)
        gs_io_stop(&a);
    if (io != &b)
        gs_io_stop(&b);
}

IO_TEST(watcher_stopped_while_pending_is_not_called)
{
    gs_io_init(&a, loop, stop_the_others);
    gs_io_init(&b, loop, stop_the_others);
    a.watcher.data = b.watcher.data = "x";
    put_byte(pair[0]);
    put_byte(pair[1]);
    start_io(&a, pair[0], GS_READ);
    start_io(&b, pair[1], GS_READ);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(gs_watcher_is_active(&a.watcher), stopped_first);
    CHECK_EQ(gs_watcher_is_active(&b.watcher), !stopped_first);
    CHECK_EQ(step(loop), 1);
}

static void want_no_writes_of_b(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    gs_io_set_events(&b, GS_READ);
}

IO_TEST(pending_event_that_is_no_longer_wanted_is_dropped)
{
    gs_io_init(&a, loop, want_no_writes_of_b);
    a.watcher.data = "a";
    gs_watcher_set_priority(&a.watcher, 1);
    start_io(&a, pair[0], GS_WRITE);
    start_io(&b, pair[1], GS_WRITE | GS_READ);
    CHECK_EQ(step(loop), 1);
    put_byte(pair[0]);
    gs_io_set_events(&b, GS_WRITE | GS_READ);
    CHECK_EQ(step(loop), 2);
    CHECK_EQ(last_events, GS_READ);
}

static void free_itself(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    gs_io_stop(io);
    free(io);
}

IO_TEST(watcher_may_be_freed_in_its_own_callback)
{
    struct gs_io *io = malloc(sizeof *io);
    gs_io_init(io, loop, free_itself);
    io->watcher.data = "f";
    put_byte(pair[1]);
    start_io(io, pair[0], GS_READ);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "f");
}

static void take_it(struct gs_io *io, unsigned events)
{
    (void)events;
    take_byte(io->fd);
    ++*(int *)io->watcher.data;
}

IO_TEST(hundreds_of_ready_descriptors_are_each_called_once)
{
    enum { N = 400 };
    static struct gs_io ios[N];
    static int pairs[N][2], taken[N];
    for (int i = 0; i < N; i++) {
        connect_pair(pairs[i]);
        gs_io_init(&ios[i], loop, take_it);
        ios[i].watcher.data = &taken[i];
        put_byte(pairs[i][1]);
        start_io(&ios[i], pairs[i][0], GS_READ);
    }
    while (step(loop))
        ;
    for (int i = 0; i < N; i++)
        CHECK_EQ(taken[i], 1);
    CHECK(interest_calls(loop) <= N);
    for (int i = 0; i < N; i++)
        close_pair(pairs[i]);
}

static void stop_it(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    gs_io_stop(io);
    gs_loop_fd_closed(io->watcher.loop, io->fd);
}

IO_TEST(fed_watcher_that_stops_in_its_callback_is_never_registered)
{
    gs_io_init(&a, loop, stop_it);
    a.watcher.data = "a";
    start_io(&a, pair[0], GS_READ);
    gs_watcher_feed(&a.watcher, GS_READ);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 0);
    CHECK_STR(calls, "a");
    CHECK_INTEREST(loop, 0);
}

IO_TEST(fed_watcher_that_stays_active_is_registered_after_its_call)
{
    start_io(&a, pair[0], GS_READ);
    gs_watcher_feed(&a.watcher, GS_READ);
    CHECK_EQ(step(loop), 1);
    CHECK_INTEREST(loop, 0);
    CHECK_EQ(step(loop), 0);
    CHECK_INTEREST(loop, 1);
    put_byte(pair[1]);
    while (!step(loop))
        ;
    CHECK_STR(calls, "aa");
}

IO_TEST(descriptor_of_a_fed_watcher_with_another_one_is_registered_at_once)
{
    start_io(&a, pair[0], GS_READ);
    start_io(&b, pair[0], GS_WRITE);
    gs_watcher_feed(&a.watcher, GS_READ);
    step(loop);
    CHECK_INTEREST(loop, 1);
    while (!strchr(calls, 'b'))
        step(loop);
}

static void feed_and_run(struct gs_io *io, unsigned events)
{
    on_io(io, events);
    gs_io_stop(io);
    start_io(&b, pair[0], GS_READ);
    gs_watcher_feed(&b.watcher, GS_READ);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
}

IO_TEST(watcher_that_is_fed_before_a_nested_iteration_is_called_in_it)
{
    int other[2];
    connect_pair(other);
    gs_io_init(&a, loop, feed_and_run);
    a.watcher.data = "a";
    put_byte(other[1]);
    start_io(&a, other[0], GS_READ);
    while (!step(loop))
        ;
    CHECK_STR(calls, "ab");
    put_byte(pair[1]);
    while (strcmp(calls, "abb"))
        step(loop);
    close_pair(other);
}
