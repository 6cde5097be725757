/* Files that stay open through duplicates of a closed descriptor. */
#include "tests/loop/fixture.h"

static int calls_of[64]; /* indexed by the number in data */

static void on_io(struct gs_io *io, unsigned events)
{
    (void)events;
    calls_of[(intptr_t)io->watcher.data]++;
}

static struct gs_loop *loop;
static struct gs_io a, b;

static void set_up(void)
{
    loop = new_loop();
    memset(calls_of, 0, sizeof calls_of);
    gs_io_init(&a, loop, on_io);
    gs_io_init(&b, loop, on_io);
    b.watcher.data = (void *)(intptr_t)1;
}

TEST(duplicates_are_watched_independently)
{
    int pair[2];
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
