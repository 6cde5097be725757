/* Many descriptors are started or set at once: one that epoll refuses must be found, and the file
 * of each number is verified. */
#include "tests/loop/fixture.h"

#define PAIRS 300

static struct gs_loop *loop;
static struct gs_io ios[PAIRS];
static int pairs[PAIRS][2];
static int called[PAIRS], failed[PAIRS];

static void on_readable(struct gs_io *io, unsigned events)
{
    int i = (int)(io - ios);
    called[i]++;
    failed[i] += !!(events & GS_FAILED);
    if (!(events & GS_FAILED))
        take_byte(pairs[i][0]);
}

static void count_call(struct gs_io *io, unsigned events)
{
    (void)events;
    called[io - ios]++;
}

static void set_up(void)
{
    loop = new_loop();
    memset(called, 0, sizeof called);
    memset(failed, 0, sizeof failed);
    for (int i = 0; i < PAIRS; i++) {
        connect_pair(pairs[i]);
        gs_io_init(&ios[i], loop, on_readable);
        start_io(&ios[i], pairs[i][0], GS_READ);
    }
}

static void set_up_and_settle(void)
{
    set_up();
    CHECK_EQ(step(loop), 0);
}

static void set_all_again(void)
{
    for (int i = 0; i < PAIRS; i++) {
        gs_io_stop(&ios[i]);
        start_io(&ios[i], pairs[i][0], GS_READ);
    }
}

static void tear_down(void)
{
    gs_loop_free(loop);
    for (int i = 0; i < PAIRS; i++)
        close_pair(pairs[i]);
}

static void put_everywhere(void)
{
    for (int i = 0; i < PAIRS; i++)
        put_byte(pairs[i][1]);
}

/* Run until several iterations have called nothing: the kernel may report events late. */
static void run(void)
{
    for (int idle = 0; idle < 20;)
        idle = step(loop) ? 0 : idle + 1;
}

/* Returns the number of watchers that were not called `times` times. */
static int count_others(int times)
{
    int others = 0;
    for (int i = 0; i < PAIRS; i++)
        others += called[i] != times;
    return others;
}

/* Give the number to the file of a new pair, without notice to the loop. */
static void replace(int i)
{
    int pair[2];
    connect_pair(pair);
    if (dup2(pair[0], pairs[i][0]) < 0)
        abort();
    close(pair[0]);
    close(pairs[i][1]);
    pairs[i][1] = pair[1];
}

TEST(refused_descriptor_among_hundreds_of_new_ones_is_found)
{
    set_up();
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), other = dup(pairs[40][0]);
    close(pairs[9][0]);
    gs_io_stop(&ios[20]);
    ios[20].callback = count_call;
    start_io(&ios[20], folder, GS_READ);
    gs_io_stop(&ios[41]);
    start_io(&ios[41], other, GS_READ);
    CHECK_EQ(step(loop), 2);
    CHECK_EQ(failed[9], 1);
    CHECK_EQ(gs_io_error(&ios[9]), -EBADF);
    CHECK_EQ(called[20], 1);
    gs_io_stop(&ios[20]);
    gs_io_stop(&ios[41]);
    close(pairs[9][1]);
    connect_pair(pairs[9]);
    start_io(&ios[9], pairs[9][0], GS_READ);
    called[9] = called[20] = 0;
    put_everywhere();
    run();
    for (int i = 0; i < PAIRS; i++)
        CHECK_EQ(called[i], i != 20 && i != 41);
    tear_down();
    close(folder);
    close(other);
}

TEST(hundreds_of_new_edge_triggered_ones_report_each_edge_once)
{
    set_up();
    for (int i = 0; i < PAIRS; i++) {
        gs_io_stop(&ios[i]);
        start_io(&ios[i], pairs[i][0], GS_READ | GS_WRITE | GS_EDGE);
    }
    for (int i = 0; i < PAIRS; i++)
        ios[i].callback = count_call;
    run();
    CHECK_EQ(count_others(1), 0);
    put_everywhere();
    run();
    CHECK_EQ(count_others(2), 0);
    tear_down();
}

TEST(hundreds_of_descriptors_set_again_report_as_before)
{
    set_up_and_settle();
    for (int times = 1; times < 4; times++) {
        set_all_again();
        put_everywhere();
        run();
        CHECK_EQ(count_others(times), 0);
    }
    tear_down();
}

TEST(files_that_took_over_numbers_are_found_among_hundreds)
{
    set_up_and_settle();
    for (int i = 0; i < PAIRS; i += 7)
        replace(i);
    set_all_again();
    put_everywhere();
    run();
    CHECK_EQ(count_others(1), 0);
    for (int i = 3; i < PAIRS; i += 7)
        replace(i);
    set_all_again();
    put_everywhere();
    run();
    CHECK_EQ(count_others(2), 0);
    tear_down();
}

TEST(duplicate_of_a_file_that_lost_its_number_is_not_reported_among_hundreds)
{
    set_up_and_settle();
    int far_end = dup(pairs[5][1]), duplicate = dup(pairs[5][0]);
    replace(5);
    set_all_again();
    CHECK_EQ(step(loop), 0);
    put_byte(far_end);
    run();
    CHECK_EQ(called[5], 0);
    put_everywhere();
    run();
    CHECK_EQ(count_others(1), 0);
    close(far_end);
    close(duplicate);
    tear_down();
}

TEST(closed_descriptor_fails_among_hundreds)
{
    set_up_and_settle();
    close(pairs[9][0]);
    set_all_again();
    run();
    CHECK_EQ(failed[9], 1);
    CHECK_EQ(gs_io_error(&ios[9]), -EBADF);
    CHECK_EQ(called[8], 0);
    connect_pair(pairs[9]);
    tear_down();
}

TEST(without_io_uring_hundreds_are_verified_one_by_one)
{
    const char *poller = getenv("GS_POLLER");
    if (poller && !strcmp(poller, "io_uring"))
        return;
    setenv("GOSSAMER_NO_IO_URING", "1", 1);
    set_up_and_settle();
    for (int i = 0; i < PAIRS; i += 7)
        replace(i);
    uint64_t before = interest_calls(loop);
    set_all_again();
    put_everywhere();
    run();
    CHECK_EQ(count_others(1), 0);
    if (!strcmp(gs_loop_poller(loop), "epoll"))
        CHECK(interest_calls(loop) - before >= PAIRS);
    tear_down();
    unsetenv("GOSSAMER_NO_IO_URING");
}
