/* The contract of closing descriptors: changes without system calls, changes that are verified,
 * reused numbers, and files that stay open through duplicates. */
#include "tests/loop/fixture.h"

static int calls_of[64]; /* indexed by the number in data */
static unsigned last_events;

static void on_io(struct gs_io *io, unsigned events)
{
    calls_of[(intptr_t)io->watcher.data]++;
    last_events = events;
}

static struct gs_loop *loop;
static int pair[2];
static struct gs_io a, b;

static void set_up(void)
{
    loop = new_loop();
    memset(calls_of, 0, sizeof calls_of);
    gs_io_init(&a, loop, on_io);
    gs_io_init(&b, loop, on_io);
    b.watcher.data = (void *)(intptr_t)1;
}

#define PAIR_TEST(name_)                                                                           \
    FIXTURE_TEST(name_, set_up(); connect_pair(pair), gs_loop_free(loop); close_pair(pair))

PAIR_TEST(stop_and_start_between_two_iterations_cost_no_system_call)
{
    const unsigned wants[] = {GS_READ, GS_WRITE, GS_READ | GS_WRITE, GS_READ | GS_EDGE};
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        start_io(&a, pair[0], wants[i]);
        step(loop);
        uint64_t before = interest_calls(loop);
        for (int n = 0; n < 3; n++) {
            gs_io_stop(&a);
            CHECK_EQ(gs_io_start(&a), 0);
            step(loop);
        }
        CHECK_INTEREST(loop, before);
        gs_io_stop(&a);
    }
}

PAIR_TEST(change_and_change_back_cost_no_system_call)
{
    start_io(&a, pair[0], GS_READ);
    step(loop);
    CHECK_INTEREST(loop, 1);
    gs_io_set_events(&a, GS_READ | GS_WRITE);
    gs_io_set_events(&a, GS_READ);
    gs_io_set_events(&a, GS_WRITE);
    gs_io_set_events(&a, GS_READ);
    step(loop);
    CHECK_INTEREST(loop, 1);
}

PAIR_TEST(pause_of_reading_costs_no_system_call_unless_bytes_arrive)
{
    start_io(&a, pair[0], GS_READ);
    step(loop);
    gs_io_stop(&a);
    step(loop);
    CHECK_EQ(gs_io_start(&a), 0);
    step(loop);
    CHECK_INTEREST(loop, 1);
    gs_io_stop(&a);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(step(loop), 0);
    CHECK_INTEREST(loop, 2);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_io_start(&a), 0);
    CHECK_EQ(step(loop), 1);
    CHECK_INTEREST(loop, 3);
}

PAIR_TEST(end_of_writing_is_applied_before_the_next_wait)
{
    start_io(&a, pair[0], GS_READ | GS_WRITE);
    CHECK_EQ(step(loop), 1);
    gs_io_set_events(&a, GS_READ);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 10 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 10 * GS_MILLISECOND);
    CHECK_INTEREST(loop, 2);
}

PAIR_TEST(stop_of_a_writing_watcher_is_applied_before_the_next_wait)
{
    start_io(&a, pair[0], GS_WRITE);
    CHECK_EQ(step(loop), 1);
    gs_io_stop(&a);
    CHECK_EQ(step(loop), 0);
    CHECK_INTEREST(loop, 2);
    CHECK_EQ(step(loop), 0);
    CHECK_INTEREST(loop, 2);
}

/* A number refers to one file, then to another one, then to the first again, and both files stay
 * open: the kernel's registrations of the two files under this number must not be confused. */
TEST(number_that_alternates_between_two_files_keeps_them_apart)
{
    for (unsigned wanted = GS_READ; wanted <= READ_WRITE; wanted++) {
        int first[2], second[2];
        set_up();
        connect_pair(first);
        connect_pair(second);
        fill(first[0]);
        fill(second[0]);
        int fd = dup(first[0]);
        start_io(&a, fd, wanted);
        step(loop);
        for (int i = 0; i < 5; i++) {
            int *now = i % 2 ? first : second, *former = i % 2 ? second : first;
            gs_io_stop(&a);
            dup2(now[0], fd);
            start_io(&a, fd, GS_READ);
            step(loop);
            memset(calls_of, 0, sizeof calls_of);
            put_byte(former[1]);
            for (int n = 0; n < 4; n++)
                CHECK_EQ(step(loop), 0);
            put_byte(now[1]);
            for (int n = 0; n < 3; n++)
                CHECK(step(loop) >= 0);
            CHECK(calls_of[0] >= 2);
            drain(now[0]);
            drain(former[0]);
        }
        gs_loop_free(loop);
        close(fd);
        close_pair(first);
        close_pair(second);
    }
}

PAIR_TEST(setting_again_is_verified_with_one_system_call)
{
    start_io(&a, pair[0], GS_READ);
    step(loop);
    for (unsigned n = 2; n < 5; n++) {
        gs_io_stop(&a);
        start_io(&a, pair[0], GS_READ);
        step(loop);
        CHECK_INTEREST(loop, n);
    }
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 1);
    CHECK_INTEREST(loop, 4);
}

/* All cases of closing a number and reusing it for another socket: whether and when
 * gs_loop_fd_closed was called, whether the watcher is the same one, whether iterations ran in
 * between, and whether the old socket stays open and readable through a duplicate. */
struct transport {
    bool is_told_before, is_told_after, is_same_watcher, is_step_between, has_duplicate, has_data;
};

static void reuse_number(struct transport transport)
{
    int old[2], new[2], duplicate = -1;
    set_up();
    connect_pair(old);
    int fd = old[0];
    start_io(&a, fd, GS_READ);
    step(loop);
    if (transport.has_duplicate)
        duplicate = dup(fd);
    if (transport.has_data)
        put_byte(old[1]);
    if (transport.is_told_before)
        gs_loop_fd_closed(loop, fd);
    gs_io_stop(&a);
    close(fd);
    if (transport.is_told_after)
        gs_loop_fd_closed(loop, fd);
    if (transport.is_step_between)
        step(loop);
    connect_pair(new);
    if (new[0] != fd) {
        dup2(new[0], fd);
        close(new[0]);
    }
    struct gs_io *io = transport.is_same_watcher ? &a : &b;
    start_io(io, fd, GS_READ);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(step(loop), 0);
    put_byte(new[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(calls_of[!transport.is_same_watcher], 1);
    take_byte(fd);
    /* The loop must sleep, although the duplicate is still readable. */
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 2 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 2 * GS_MILLISECOND);
    gs_loop_free(loop);
    close(fd);
    close(old[1]);
    close(new[1]);
    if (duplicate >= 0)
        close(duplicate);
}

TEST(reused_number_neither_delivers_an_old_event_nor_loses_a_new_one)
{
    for (unsigned bits = 0; bits < 64; bits++)
        reuse_number(
            (struct transport){bits & 1, bits & 2, bits & 4, bits & 8, bits & 16, bits & 32});
}

TEST(many_events_of_sockets_that_have_no_watcher_any_more)
{
    enum { MANY = 24 };
    int pairs[MANY][2], duplicates[MANY];
    struct gs_io ios[MANY];
    set_up();
    for (int i = 0; i < MANY; i++) {
        connect_pair(pairs[i]);
        gs_io_init(&ios[i], loop, on_io);
        start_io(&ios[i], pairs[i][0], GS_READ);
    }
    step(loop);
    for (int i = 0; i < MANY; i++) {
        duplicates[i] = dup(pairs[i][0]);
        put_byte(pairs[i][1]);
        close(pairs[i][0]);
        gs_loop_fd_closed(loop, pairs[i][0]);
    }
    CHECK_EQ(step(loop), 0);
    for (int i = 0; i < MANY; i++) {
        CHECK(!gs_watcher_is_active(&ios[i].watcher));
        close(duplicates[i]);
        close(pairs[i][1]);
    }
    gs_loop_free(loop);
}

TEST(after_fd_closed_the_same_watcher_may_start_without_being_set)
{
    int old[2], new[2];
    set_up();
    connect_pair(old);
    start_io(&a, old[0], GS_READ);
    step(loop);
    gs_loop_fd_closed(loop, old[0]);
    CHECK(!gs_watcher_is_active(&a.watcher));
    connect_pair(new);
    dup2(new[0], old[0]);
    CHECK_EQ(gs_io_start(&a), 0);
    put_byte(new[1]);
    CHECK_EQ(step(loop), 1);
    gs_loop_free(loop);
    close_pair(old);
    close_pair(new);
}

TEST(close_within_a_callback_drops_what_was_collected_for_the_number)
{
    int other[2];
    set_up();
    connect_pair(pair);
    connect_pair(other);
    start_io(&a, pair[0], GS_READ);
    start_io(&b, pair[0], GS_READ);
    put_byte(pair[1]);
    gs_watcher_feed(&a.watcher, GS_READ);
    gs_watcher_feed(&b.watcher, GS_READ);
    gs_loop_fd_closed(loop, pair[0]);
    dup2(other[0], pair[0]);
    start_io(&b, pair[0], GS_READ);
    CHECK_EQ(step(loop), 0);
    gs_loop_free(loop);
    close_pair(pair);
    close_pair(other);
}

TEST(fd_closed_of_an_unknown_descriptor_costs_nothing)
{
    set_up();
    gs_loop_fd_closed(loop, -1);
    gs_loop_fd_closed(loop, 5);
    gs_loop_fd_closed(loop, 1000000);
    CHECK_INTEREST(loop, 0);
    gs_loop_free(loop);
}

TEST(closing_a_watched_descriptor_costs_no_system_call)
{
    set_up();
    connect_pair(pair);
    start_io(&a, pair[0], GS_READ | GS_WRITE);
    step(loop);
    uint64_t before = interest_calls(loop);
    gs_loop_fd_closed(loop, pair[0]);
    close(pair[0]);
    step(loop);
    CHECK_INTEREST(loop, before);
    close(pair[1]);
    gs_loop_free(loop);
}

/* ---- Files that stay open through duplicates of a closed descriptor ---- */

TEST(duplicates_are_watched_independently)
{
    set_up();
    connect_pair(pair);
    int duplicate = dup(pair[0]);
    start_io(&a, pair[0], GS_READ);
    start_io(&b, duplicate, GS_READ);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 2);
    gs_io_stop(&a);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(calls_of[1], 2);
    gs_loop_free(loop);
    close(duplicate);
    close_pair(pair);
}

TEST(duplicate_of_a_descriptor_closed_without_notice_is_dropped_and_all_others_are_kept)
{
    enum { N = 20 };
    static struct gs_io ios[N];
    int pairs[N][2], gone[2];
    set_up();
    for (int i = 0; i < N; i++) {
        connect_pair(pairs[i]);
        gs_io_init(&ios[i], loop, on_io);
        ios[i].watcher.data = (void *)(intptr_t)(i + 2);
        start_io(&ios[i], pairs[i][0], GS_READ);
    }
    connect_pair(gone);
    start_io(&a, gone[0], GS_READ);
    step(loop);
    gs_io_stop(&a);
    int duplicate = dup(gone[0]);
    close(gone[0]);
    put_byte(gone[1]);
    for (int i = 0; i < 4; i++)
        step(loop);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 5 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 5 * GS_MILLISECOND);
    CHECK_EQ(fcntl(gone[0], F_GETFD), -1); /* not in use by the loop itself */
    for (int i = 0; i < N; i++)
        put_byte(pairs[i][1]);
    CHECK_EQ(step(loop), N);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(calls_of[i + 2], 1);
        close_pair(pairs[i]);
    }
    gs_loop_free(loop);
    close(duplicate);
    close(gone[1]);
}

TEST(once_duplicates_were_met_fd_closed_unregisters_the_descriptor)
{
    int first[2], second[2];
    set_up();
    connect_pair(first);
    connect_pair(second);
    int duplicate = dup(first[0]);
    start_io(&a, first[0], GS_READ);
    start_io(&b, second[0], GS_READ);
    step(loop);
    gs_loop_fd_closed(loop, first[0]);
    close(first[0]);
    put_byte(first[1]);
    step(loop);
    step(loop);
    uint64_t before = interest_calls(loop);
    int second_duplicate = dup(second[0]);
    gs_loop_fd_closed(loop, second[0]);
    CHECK_INTEREST(loop, before + 1);
    close(second[0]);
    put_byte(second[1]);
    CHECK_EQ(step(loop), 0);
    CHECK_INTEREST(loop, before + 1);
    gs_loop_free(loop);
    close(duplicate);
    close(second_duplicate);
    close(first[1]);
    close(second[1]);
}
