/* gs_oneshot waits for a descriptor or a deadline, whichever comes first. */
#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static int pair[2];
static int count;
static unsigned last_events;

static void on_oneshot(struct gs_oneshot *oneshot, unsigned events)
{
    (void)oneshot;
    count++;
    last_events = events;
}

static void free_oneshot(struct gs_oneshot *oneshot, unsigned events)
{
    on_oneshot(oneshot, events);
    free(oneshot);
}

static struct gs_oneshot *new_oneshot(gs_oneshot_fn *callback)
{
    struct gs_oneshot *oneshot = malloc(sizeof *oneshot);
    if (!oneshot)
        abort();
    gs_oneshot_init(oneshot, loop, callback);
    return oneshot;
}

static void set_up(void)
{
    loop = new_loop();
    count = 0;
    last_events = 999;
}

#define PAIR_TEST(name_)                                                                           \
    FIXTURE_TEST(name_, set_up(); connect_pair(pair), gs_loop_free(loop); close_pair(pair))

PAIR_TEST(descriptor_that_is_ready_first_stops_the_deadline)
{
    put_byte(pair[1]);
    struct gs_oneshot *oneshot = new_oneshot(free_oneshot);
    CHECK_EQ(gs_oneshot_start(oneshot, pair[0], GS_READ, gs_clock_now() + GS_SECOND), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(count, 1);
    CHECK_EQ(last_events, GS_READ);
}

PAIR_TEST(deadline_that_passes_first_stops_the_descriptor)
{
    struct gs_oneshot *oneshot = new_oneshot(free_oneshot);
    CHECK_EQ(gs_oneshot_start(oneshot, pair[0], GS_READ, 1), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(count, 1);
    CHECK_EQ(last_events, 0);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 0);
}

PAIR_TEST(both_at_once_are_one_call)
{
    put_byte(pair[1]);
    struct gs_oneshot *oneshot = new_oneshot(free_oneshot);
    CHECK_EQ(gs_oneshot_start(oneshot, pair[0], GS_READ | GS_WRITE, 1), 0);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(last_events, GS_READ | GS_WRITE);
}

PAIR_TEST(either_alone_is_enough)
{
    static struct gs_oneshot oneshot;
    gs_oneshot_init(&oneshot, loop, on_oneshot);
    CHECK_EQ(gs_oneshot_start(&oneshot, -1, GS_READ, 1), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last_events, 0);
    CHECK_EQ(gs_oneshot_start(&oneshot, pair[0], GS_WRITE, GS_NEVER), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last_events, GS_WRITE);
    CHECK_EQ(count, 2);
}

PAIR_TEST(stopped_oneshot_is_never_called)
{
    static struct gs_oneshot oneshot;
    gs_oneshot_init(&oneshot, loop, on_oneshot);
    gs_oneshot_stop(&oneshot);
    CHECK_EQ(gs_oneshot_start(&oneshot, pair[0], GS_WRITE, 1), 0);
    gs_oneshot_stop(&oneshot);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(count, 0);
}

TEST(oneshot_that_cannot_start_leaves_nothing_active)
{
    struct gs_oneshot oneshot;
    set_up();
    gs_oneshot_init(&oneshot, loop, on_oneshot);
    CHECK_EQ(gs_oneshot_start(&oneshot, 1000000, GS_READ, 1), -EBADF);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(count, 0);
    gs_loop_free(loop);
}

TEST(descriptor_that_the_kernel_refuses_is_one_call)
{
    struct gs_oneshot oneshot;
    set_up();
    connect_pair(pair);
    close_pair(pair);
    gs_oneshot_init(&oneshot, loop, on_oneshot);
    CHECK_EQ(gs_oneshot_start(&oneshot, pair[0], GS_READ, gs_clock_now() + GS_SECOND), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(count, 1);
    CHECK_EQ(last_events, GS_FAILED);
    CHECK_EQ(gs_io_error(&oneshot.io), -EBADF);
    gs_loop_free(loop);
}
